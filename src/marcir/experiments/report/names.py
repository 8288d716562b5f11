"""How losses are called in tables, and which of them belong together."""

from marcir.catalog import LOSSES

# As the paper spells them; what is not among them is ours.
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
# Whose results the report is about, and what they are held against.
OF_INTEREST = (*MARC_FAMILY, *OURS)
REFERENCES = ("chance", "oracle", "untrained")

PAPER, OWN, TITLED = "the paper's losses", "ours", "other settings"
_SIDES = {"dlrsd": 256, "ml-aid": 600, "whdld": 256, "ucm": 256}  # of the published images, in pixels
DATASETS = {"dlrsd": "DLRSD", "ml-aid": "ML-AID", "whdld": "WHDLD", "ucm": "UC Merced multi-label (ucm)"}


def method_name(loss: str, method: str) -> str:
    """What a row is called: the published name of a loss, or the title that its options got.

    >>> method_name("wg-marc", "wg-marc"), method_name("marc", "MARC, alpha 0.5")
    ('Wg-MARC', 'MARC, alpha 0.5')
    """
    return {**PUBLISHED, **OURS}.get(loss, loss) if loss == method else method


def group_of(loss: str, method: str) -> str:
    """Under which heading a row stands.

    >>> group_of("oml", "oml"), group_of("marc-calibrated", "marc-calibrated")
    ("the paper's losses", 'ours')
    """
    if loss != method:
        return TITLED
    return PAPER if loss in PUBLISHED else OWN


def row_order(loss: str, method: str) -> tuple[int, int, str]:
    """The catalog's order; rows with a title of their own come last."""
    known = list(LOSSES)
    groups = (PAPER, OWN, TITLED)
    place = known.index(loss) if loss in known else len(known)
    return groups.index(group_of(loss, method)), place, method


def dataset_name(dataset: str, image_side: int | None = None) -> str:
    """The published spelling of a dataset's name, with the side of images that were resized.

    >>> dataset_name("ml-aid"), dataset_name("ml-aid", 600), dataset_name("ml-aid", 150)
    ('ML-AID', 'ML-AID', 'ML-AID (150 px)')
    """
    name = DATASETS.get(dataset, dataset)
    resized = image_side is not None and image_side != _SIDES.get(dataset, image_side)
    return f"{name} ({image_side} px)" if resized else name
