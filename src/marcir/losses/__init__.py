"""The losses: the paper's thirteen, our own, and wrappers for memory and distributed training."""

from marcir.losses.base import MultiLabelLoss
from marcir.losses.calibrated import CalibratedMARCLoss
from marcir.losses.cross_batch_memory import CrossBatchMemory
from marcir.losses.diagnosis import LossDiagnosis, diagnose, pair_influence
from marcir.losses.distributed import DistributedLoss
from marcir.losses.lbase import LBaseLoss
from marcir.losses.lmsc import LMscLoss
from marcir.losses.lproto import LProtoLoss
from marcir.losses.lreg import LRegLoss, LWithoutRegLoss
from marcir.losses.marc import MARCLoss, WgMARCLoss, pair_temperatures, pair_weights
from marcir.losses.marc_proto import PrototypeMARCLoss
from marcir.losses.mulsupcon import MulSupConLoss, WgMulSupConLoss
from marcir.losses.oml import OMLLoss
from marcir.losses.pair_loss import PairLoss
from marcir.losses.sim_dis import SimDisLoss
from marcir.losses.supcon import SupConAllLoss, SupConAnyLoss

__all__ = [
    "CalibratedMARCLoss",
    "CrossBatchMemory",
    "DistributedLoss",
    "LBaseLoss",
    "LMscLoss",
    "LProtoLoss",
    "LRegLoss",
    "LWithoutRegLoss",
    "LossDiagnosis",
    "MARCLoss",
    "MulSupConLoss",
    "MultiLabelLoss",
    "OMLLoss",
    "PairLoss",
    "PrototypeMARCLoss",
    "SimDisLoss",
    "SupConAllLoss",
    "SupConAnyLoss",
    "WgMARCLoss",
    "WgMulSupConLoss",
    "diagnose",
    "pair_influence",
    "pair_temperatures",
    "pair_weights",
]
