"""Collections and labels that people give to the images of a store, and suggestions learned from them."""

from marcir.annotations.annotations import Annotations, open_annotations
from marcir.annotations.collection_table import Collection, Member
from marcir.annotations.label_log import Edit, LabelChange, Undo

__all__ = ["Annotations", "Collection", "Edit", "LabelChange", "Member", "Undo", "open_annotations"]
