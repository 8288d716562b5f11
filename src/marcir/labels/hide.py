"""Hide known labels, to study training with incomplete ones."""

from typing import Literal, get_args

import torch
from torch import Tensor

from marcir.checks import check_choice, check_seed
from marcir.errors import ConfigError
from marcir.labels.sets import present_and_known

How = Literal["uniform", "present-only"]
HOW: tuple[How, ...] = get_args(How)


def hide_labels(y: Tensor, share: float, how: How = "uniform", seed: int = 0) -> Tensor:
    """Make known labels unknown (-1). (N, L)

    One number in 0..1 is drawn per label of an image; numbers below `share` are hidden. So a larger share
    hides the same labels and more, and both ways keep the same present labels.

    Args:
        y: 0 absent, 1 present, -1 unknown, of any dtype. (N, L)
        share: Share of the labels to hide, in [0, 1).
        how: `uniform`: present and absent labels are hidden alike. `present-only`: only present labels are
            ever stated. Each is kept with probability 1 - share, everything else is unknown.
        seed: Seed of the draw.

    Returns:
        Labels as int8.

    Raises:
        ConfigError: For a share outside [0, 1), or an unknown way to hide.
        LabelError: For labels other than 0, 1 and -1.

    >>> y = torch.tensor([[1, 0, 1, 0], [0, 1, 1, 0]])
    >>> hide_labels(y, 0.5)
    tensor([[-1,  0, -1, -1],
            [-1,  1, -1,  0]], dtype=torch.int8)
    >>> hide_labels(y, 0.5, how="present-only")
    tensor([[-1, -1, -1, -1],
            [-1,  1, -1, -1]], dtype=torch.int8)
    """
    if not 0 <= share < 1:
        raise ConfigError(f"share = {share}: must be at least 0 and below 1.")
    check_choice("how", how, HOW)
    present, known = present_and_known(y, "labels to hide")
    generator = torch.Generator(device="cpu").manual_seed(check_seed(seed))
    kept = torch.rand(present.shape, generator=generator, device="cpu").to(present.device) >= share
    if known is not None:
        kept &= known
    if how == "present-only":
        kept &= present
    return present.to(torch.int8).masked_fill(~kept, -1)
