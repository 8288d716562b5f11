"""One run of `marcir index`: which images are new, have changed, or are up to date."""

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from marcir.data.image_source import ImageSource, SourceImage
from marcir.errors import ClusterError, DataError
from marcir.search.image_rows import EmbedRows, NotEmbedded
from marcir.search.known import Known, as_before, bytes_of
from marcir.search.lance import LanceStore
from marcir.search.records import Row
from marcir.search.shard import Shard

# Rows of one commit: few enough to lose little when killed, many enough not to leave thousands of files.
_COMMIT = 1024
# A commit reads all ids of the store, 0.5 s for 1,000,000: from there on it grows with the store, up to what
# a process holds in memory with thumbnails (160 MB).
_COMMIT_SHARE, _COMMIT_MOST = 1000, 16 * 1024
# However few there are, they are committed after so many seconds.
_COMMIT_SECONDS = 60.0


class IndexRun:
    """A run over all images of a source, or over those of a shard."""

    def __init__(self, store: LanceStore, source: ImageSource, known: Known, shard: Shard) -> None:
        self.store, self.source, self.known = store, source, known
        self._own = [place for place, image in enumerate(source.ids) if shard.holds(source.group_of(image))]
        self.before = _of_shard(store.contents(), source, shard)
        self.added = self.changed = self.relabelled = self.unchanged = 0
        self.broken: dict[str, str] = {}
        # Windows that were skipped before or now, by id, with their fingerprints.
        self.skipped: dict[str, str] = {}
        self._skipped_before = _of_shard(store.skipped(), source, shard)
        self._is_whole = shard.is_whole
        self._rows: list[Row] = []
        self._relabelled: list[str] = []
        self._touched: dict[str, str] = {}
        self._commit_at = time.monotonic() + _COMMIT_SECONDS
        self._commit_rows = commit_rows(store.count())

    def run(self, embed: EmbedRows, model: Mapping[str, bytes], batch_size: int) -> None:
        """Store the rows; Ctrl-C or a lost cluster costs at most the batches that are being embedded."""
        try:
            for rows in embed(model, self._to_read(), batch_size, self.note):
                self._add_batch(rows)
            self._rewrite_rows()
            self._commit()
        except (KeyboardInterrupt, ClusterError, DataError):
            self._commit()
            print(
                f"stopping: {self.store.count():,} {self.source.what} are in the store. The same command "
                "continues.",
                file=sys.stderr,
            )
            raise

    def note(self, image: NotEmbedded) -> None:
        """An image that is broken, is skipped, or whose bytes are as they were; its labels may be others."""
        if image.problem is not None:
            self.broken.setdefault(self.source.file_of(image.id), image.problem)
        elif image.skipped:
            self.skipped[image.id] = self.source.fingerprint(image.id, "")
        else:
            self._note_unchanged(image.id)

    def gone(self) -> list[str]:
        """Stored images whose files are gone, or which are skipped now."""
        absent = sorted(self.before.keys() - set(self.source.ids))
        return [*self.source.gone(absent), *sorted(self.before.keys() & self.skipped.keys())]

    def empty(self) -> list[str]:
        """One line for each scene of which all windows were skipped; a shard knows only some of them."""
        return self.source.empty(self.skipped) if self._is_whole else []

    def _to_read(self) -> list[SourceImage]:
        """The images that are not known to be up to date before they are read."""
        found = []
        for place in self._own:
            image = self.source.ids[place]
            stored, skipped = bytes_of(self.before.get(image)), self._skipped_before.get(image)
            if skipped is not None and self.source.current(image, skipped) is not None:
                self.skipped[image] = skipped
            elif stored is not None and (now := self.source.current(image, stored)) is not None:
                if now != stored:
                    self._touched[image] = now
                self._note_unchanged(image)
            else:
                found.append(self.source.image(place, stored))
        return found

    def _note_unchanged(self, image: str) -> None:
        before, now = self.before[image], self._content(image)
        if before == now:
            self.unchanged += 1
            return
        # The labels are others, or the scene of a window was touched.
        if before.partition(":")[2] == now.partition(":")[2]:
            self.unchanged += 1
        else:
            self.relabelled += 1
        self._relabelled.append(image)
        if len(self._relabelled) >= self._commit_rows:
            self._rewrite_rows()

    def _content(self, image: str, content: str | None = None) -> str:
        """The fingerprint of an image as it is now; its bytes are as before, unless given."""
        before = self.before.get(image)
        content = content or self._touched.get(image) or bytes_of(before) or ""
        return self.known.fingerprint(image, content, before)

    def _rewrite_rows(self) -> None:
        """Give images their new labels and metadata, without embedding them."""
        rows = self.store.get(self._relabelled)
        self._add(self.known.apply_to(replace(row, content=self._content(row.id))) for row in rows)
        self._relabelled = []

    def _add_batch(self, batch: list[Row]) -> None:
        there = [row.id for row in batch if row.id in self.before]
        before = dict(zip(there, self.store.get(there), strict=True)) if there else {}
        self._add(
            self.known.apply_to(
                as_before(
                    replace(row, content=self._content(row.id, self.source.fingerprint(row.id, row.content))),
                    before.get(row.id),
                )
            )
            for row in batch
        )
        self.changed += len(there)
        self.added += len(batch) - len(there)

    def _add(self, rows: Iterable[Row]) -> None:
        # Whole batches are committed: run again after a kill, the rest is embedded in the same batches.
        self._rows += rows
        if len(self._rows) >= self._commit_rows or time.monotonic() > self._commit_at:
            self._commit()

    def _commit(self) -> None:
        self.store.add(self._rows)
        self._rows = []
        self.store.add_skipped(
            {
                image: content
                for image, content in self.skipped.items()
                if self._skipped_before.get(image) != content
            }
        )
        self._skipped_before |= self.skipped
        self._commit_at = time.monotonic() + _COMMIT_SECONDS
        self._commit_rows = commit_rows(self.store.count())


def commit_rows(stored: int) -> int:
    """Rows of one commit into a store of so many.

    >>> commit_rows(0), commit_rows(10_000_000), commit_rows(10**9)
    (1024, 10000, 16384)
    """
    return min(max(_COMMIT, stored // _COMMIT_SHARE), _COMMIT_MOST)


def _of_shard(contents: Mapping[str, str], source: ImageSource, shard: Shard) -> dict[str, str]:
    return {image: content for image, content in contents.items() if shard.holds(source.group_of(image))}
