"""Embeddings that can be searched: an exact store in memory, and LanceDB on disk or object storage."""

from marcir.search.memory import MemoryStore
from marcir.search.records import Filter, Hit, Row

__all__ = ["Filter", "Hit", "MemoryStore", "Row"]
