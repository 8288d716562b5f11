"""Label names, and conversion between names and multi-hot rows."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from marcir.errors import LabelError, did_you_mean
from marcir.labels.sets import multi_hot


class LabelVocabulary(Sequence[str]):
    """An ordered list of label names: position k is column k of every label matrix.

    Args:
        names: Distinct, non-empty names.

    >>> vocabulary = LabelVocabulary(["building", "road", "tree"])
    >>> vocabulary.encode([["tree", "road"], []])
    tensor([[False,  True,  True],
            [False, False, False]])
    >>> vocabulary.decode(torch.tensor([[1, 0, 1]]))
    [['building', 'tree']]
    """

    def __init__(self, names: Iterable[str]) -> None:
        if isinstance(names, str):
            raise LabelError(f"label names: expected a list of names, found the text {names!r}.")
        self.names = tuple(names)
        self._index: dict[str, int] = {}
        for position, name in enumerate(self.names):
            if not isinstance(name, str) or not name.strip():
                raise LabelError(
                    f"label names: name {position} is {name!r}. Give every label a non-empty name."
                )
            if name in self._index:
                raise LabelError(
                    f"label names: duplicate '{name}', at {self._index[name]} and {position}. Remove one."
                )
            self._index[name] = position

    def index_of(self, name: str) -> int:
        """The column of a label.

        Raises:
            LabelError: For an unknown name, with the nearest known one.
        """
        if not isinstance(name, str):
            raise LabelError(f"a label is a name, found {name!r} of type {type(name).__name__}.")
        try:
            return self._index[name]
        except KeyError:
            raise LabelError(f"unknown label '{name}'. {did_you_mean(name, self.names)}") from None

    def encode(self, rows: Iterable[Iterable[str]], unknown: Iterable[Iterable[str]] | None = None) -> Tensor:
        """Multi-hot labels of several images. (B, L)

        Args:
            rows: Names of the labels present, for each image.
            unknown: Names of the unknown labels, for each image.

        Returns:
            bool; where a label is unknown, int8 with -1 for unknown.

        >>> LabelVocabulary(["road", "tree"]).encode([["road"], []], unknown=[["tree"], []])
        tensor([[ 1, -1],
                [ 0,  0]], dtype=torch.int8)
        """
        y = self._multi_hot(rows)
        if unknown is None:
            return y
        hidden = self._multi_hot(unknown)
        if len(hidden) != len(y):
            raise LabelError(f"unknown labels of {len(hidden)} images, but labels of {len(y)}.")
        if (both := (y & hidden).nonzero()).numel():
            image, label = both[0].tolist()
            raise LabelError(f"image {image}: label '{self.names[label]}' is present and unknown. Keep one.")
        return y.to(torch.int8) - hidden.to(torch.int8) if hidden.any() else y

    def _multi_hot(self, rows: Iterable[Iterable[str]]) -> Tensor:
        columns: list[int] = []
        sizes: list[int] = []
        for row in rows:
            if isinstance(row, str):
                raise LabelError(f"expected a list of label names for each image, found the text {row!r}.")
            found = [self.index_of(name) for name in row]
            columns += found
            sizes.append(len(found))
        y = torch.zeros(len(sizes), len(self), dtype=torch.bool, device="cpu")
        images = torch.arange(len(sizes), device="cpu").repeat_interleave(
            torch.tensor(sizes, dtype=torch.long, device="cpu")
        )
        y[images, torch.tensor(columns, dtype=torch.long, device="cpu")] = True
        return y

    def decode(self, y: Tensor) -> list[list[str]]:
        """Names of the labels present in each multi-hot row, in the vocabulary's order."""
        y = torch.as_tensor(y)
        if y.ndim != 2 or y.shape[1] != len(self):
            raise LabelError(
                f"expected labels of shape (B, {len(self)}), found {tuple(y.shape)}: one column a name."
            )
        y = multi_hot(y, "labels")
        return [[self.names[k] for k in row.nonzero().flatten().tolist()] for row in y]

    def save(self, path: str | Path) -> None:
        """Write the names as a JSON list."""
        Path(path).write_text(json.dumps(list(self.names), ensure_ascii=False, indent=1) + "\n", "utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "LabelVocabulary":
        """Load a vocabulary written by `save`."""
        try:
            names = json.loads(Path(path).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise LabelError(f"{path}: cannot read label names: {error}.") from error
        if not isinstance(names, list):
            raise LabelError(f"{path}: expected a JSON list of names, found {type(names).__name__}.")
        try:
            return cls(names)
        except LabelError as error:
            raise LabelError(f"{path}: {error}") from error

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, position):  # type: ignore[no-untyped-def]  # Sequence's overloads add nothing here
        return self.names[position]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelVocabulary) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"LabelVocabulary({list(self.names)!r})"
