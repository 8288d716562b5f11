"""UC Merced multi-label: 2,100 images, labels in a text table."""

from marcir.data.readers.base import LAND_COVER
from marcir.data.readers.table_reader import TableReader


class UCM(TableReader):
    """UC Merced Land Use with the multi-labels of Chaudhuri et al. 2018."""

    NAME = "ucm"
    LAYOUT = "Images/<scene>/<name>.tif (or .jpg, .png) and LandUse_Multilabeled.txt"
    TABLE = "LandUse_Multilabeled.txt"
    IMAGE_FOLDER = "Images"
    DELIMITER = "\t"
    LABELS = LAND_COVER
    IMAGES = 2100
    COUNTS = (100, 718, 691, 886, 115, 105, 100, 103, 975, 102, 1300, 294, 100, 102, 100, 1009, 203)
    SPLIT = (1475, 214, 411)
