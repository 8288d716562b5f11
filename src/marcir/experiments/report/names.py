"""Names and groups of losses and datasets in tables."""

from marcir.catalog import LOSSES

# Spelled as in the paper.
PUBLISHED = {
    "supcon-all": "SupCon ALL",
    "supcon-any": "SupCon ANY",
    "lbase": "LBase",
    "lproto": "LProto",
    "lmsc": "LMsc",
    "oml": "OML",
    "mulsupcon": "MulSupCon",
    "wg-mulsupcon": "Wg-MulSupCon",
    "sim-dis": "Sim-Dis",
    "l-wo-reg": "L-W/O-Reg",
    "lreg": "LReg",
    "marc": "MARC",
    "wg-marc": "Wg-MARC",
}
OURS = {"marc-calibrated": "Calibrated MARC (ours)", "marc-proto": "Prototype MARC (ours)"}
MARC_FAMILY = ("marc", "wg-marc")
BASELINES = tuple(loss for loss in PUBLISHED if loss not in MARC_FAMILY)
# The methods that are tested for significance, and the reference scores.
OF_INTEREST = (*MARC_FAMILY, *OURS)
REFERENCES = ("chance", "oracle", "untrained")

PAPER, OWN, TITLED = "the paper's losses", "ours", "other settings"
_SIDES = {"dlrsd": 256, "ml-aid": 600, "whdld": 256, "ucm": 256}  # of the published images, in pixels
DATASETS = {"dlrsd": "DLRSD", "ml-aid": "ML-AID", "whdld": "WHDLD", "ucm": "UC Merced multi-label (ucm)"}


def method_name(loss: str, method: str) -> str:
    """Name of a row: the published name of a loss, or the title given in the plan.

    >>> method_name("wg-marc", "wg-marc"), method_name("marc", "MARC, alpha 0.5")
    ('Wg-MARC', 'MARC, alpha 0.5')
    """
    return {**PUBLISHED, **OURS}.get(loss, loss) if loss == method else method


def row_group(loss: str, method: str) -> str:
    """The heading of a row's group.

    >>> row_group("oml", "oml"), row_group("marc-calibrated", "marc-calibrated")
    ("the paper's losses", 'ours')
    """
    if loss != method:
        return TITLED
    return PAPER if loss in PUBLISHED else OWN


def row_order(loss: str, method: str) -> tuple[int, int, str]:
    """Sort key: the catalog's order; rows with their own title come last."""
    known = list(LOSSES)
    groups = (PAPER, OWN, TITLED)
    place = known.index(loss) if loss in known else len(known)
    return groups.index(row_group(loss, method)), place, method


def dataset_name(dataset: str, image_side: int | None = None) -> str:
    """The published name of a dataset, with the side of resized images.

    >>> dataset_name("ml-aid"), dataset_name("ml-aid", 600), dataset_name("ml-aid", 150)
    ('ML-AID', 'ML-AID', 'ML-AID (150 px)')
    """
    name = DATASETS.get(dataset, dataset)
    resized = image_side is not None and image_side != _SIDES.get(dataset, image_side)
    return f"{name} ({image_side} px)" if resized else name
