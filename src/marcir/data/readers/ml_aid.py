"""ML-AID: 3,000 images, labels in a CSV."""

from marcir.data.readers.base import LAND_COVER
from marcir.data.readers.table_reader import TableReader


class MLAID(TableReader):
    """The multi-label version of AID."""

    NAME = "ml-aid"
    LAYOUT = "multilabel.csv and images_tr/, images_test/ (or one folder), with or without scene folders"
    TABLE = "multilabel.csv"
    LABELS = LAND_COVER
    IMAGES = 3000
    COUNTS = (99, 1475, 2161, 2026, 112, 344, 271, 214, 2295, 2, 2328, 259, 221, 284, 108, 2406, 852)
    SPLIT = (2100, 300, 600)
