"""The map of the archive as points for the page."""

import numpy as np
from fastapi import Response

from marcir.search.embedding_map import EmbeddingMap, points_of_rows
from marcir.search.missing import unknown_label
from marcir.search.store import Snapshot
from marcir.serve.browse_parameters import MapIdsParameters, MapParameters
from marcir.serve.browse_schemas import MapIdsResponse
from marcir.serve.errors import RequestError
from marcir.serve.served_archive import ServedArchive

MAX_POINTS = 200_000


class MapPoints:
    """Points of the images of an archive."""

    def __init__(self, archive: ServedArchive) -> None:
        self._archive = archive
        # The last points of all rows, (N, 2), with the map and the version of the store that they are of.
        self._points: tuple[EmbeddingMap, str, np.ndarray] | None = None

    def points(self, parameters: MapParameters) -> Response:
        """All points that pass a filter, or a random part of them, always the same.

        The body is x, y (float32), row and label bits (uint32) of all points, one after the other, all
        little-endian.

        Raises:
            StoreError: For a label that the store does not know.
        """
        found = self._archive.store.read_map()
        if found is None:
            raise RequestError(422, "the store has no map yet. Make it with: marcir index, as before.")

        def draw(snapshot: Snapshot) -> Response:
            points = self._rows(found, snapshot)
            rows = snapshot.rows(self._archive.where(parameters))
            drawn = rows[~np.isnan(points[rows, 0])]
            if len(drawn) > MAX_POINTS:
                drawn = np.sort(np.random.default_rng(0).choice(drawn, MAX_POINTS, replace=False))
            known = snapshot.label_counts() if parameters.label else {}
            bits = np.zeros(len(drawn), "<u4")
            for place, label in enumerate(parameters.label):
                if label not in known:
                    raise unknown_label(label, known)
                bits |= (snapshot.states(label)[drawn] == 1).astype("<u4") << np.uint32(place)
            parts = [
                points[drawn, 0].astype("<f4"),
                points[drawn, 1].astype("<f4"),
                drawn.astype("<u4"),
                bits,
            ]
            headers = {
                "X-Marcir-Points": str(len(drawn)),
                "X-Marcir-Total": str(len(rows)),
                "X-Marcir-Version": snapshot.version,
            }
            content = b"".join(part.tobytes() for part in parts)
            return Response(content, media_type="application/octet-stream", headers=headers)

        return self._archive.store.read(draw)

    def ids(self, parameters: MapIdsParameters) -> MapIdsResponse:
        """Ids of the images of some rows."""

        def name(snapshot: Snapshot) -> MapIdsResponse:
            if snapshot.version != parameters.version:
                raise RequestError(409, "the store has changed since the map was drawn. Ask /api/map again.")
            if max(parameters.row) >= snapshot.count():
                raise RequestError(422, f"row {max(parameters.row)}: there is no such row.")
            return MapIdsResponse(ids=snapshot.ids_of(np.array(parameters.row)))

        return self._archive.store.read(name)

    def _rows(self, found: EmbeddingMap, snapshot: Snapshot) -> np.ndarray:
        kept = self._points
        if kept is None or kept[0] is not found or kept[1] != snapshot.version:
            kept = self._points = found, snapshot.version, points_of_rows(found, snapshot)
        return kept[2]
