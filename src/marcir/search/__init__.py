"""Embeddings that can be searched: stores, exact and approximate search, indexing, and queries."""

from marcir.search.hits import Hit
from marcir.search.memory import MemoryStore
from marcir.search.records import Filter, Row
from marcir.search.store import Store

__all__ = ["Filter", "Hit", "MemoryStore", "Row", "Store"]
