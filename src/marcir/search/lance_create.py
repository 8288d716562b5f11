"""Making the tables of a store, where other processes may make them at the same moment."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Literal

import lancedb
import pyarrow as pa

from marcir.errors import StoreError
from marcir.schema import to_json
from marcir.search.arrow import KEY, OPTIONAL, complete, schema
from marcir.search.lance_io import again_after_conflicts, read_about, translate_errors, whole_tables
from marcir.search.lance_table import optional_columns
from marcir.search.records import About

# The table of windows that were left out; stores of files do not have it, nor do those of early versions that
# were not written into since.
SKIPPED = "skipped"
SKIPPED_SCHEMA = pa.schema(
    [pa.field("id", pa.string(), nullable=False, metadata=KEY), pa.field("content", pa.string())]
)

# The first version of a store that may have a column of `OPTIONAL`.
_VERSIONS: dict[str, Literal[2, 3]] = {"unknown": 2, "footprint": 3}


def create_tables(uri: str, about: About, model: Mapping[str, bytes], root_moved: bool) -> None:
    """Make the tables of a store that are missing; other processes may do so at the same moment.

    LanceDB then replaces a table that was made between its check and its commit. So the first version of the
    header decides, the files of one model may be written twice, and rows are put back.
    """
    with translate_errors(uri):
        db = lancedb.connect(uri)
        names = whole_tables(db)
        if "about" not in names:
            create_table(db, "about", _about_table(about))
        found, first = read_about(uri, db), read_about(uri, db, version=1)
        if (found.model, found.dim) != (first.model, first.dim):
            replace_about(db, first)
            found = first
        _check_same(uri, found, about, root_moved)
        if "model" not in names:
            content = {"name": list(model), "content": list(model.values())}
            columns = pa.schema([("name", pa.string()), ("content", pa.large_binary())])
            create_table(db, "model", pa.table(content, schema=columns))
        if "images" not in names:
            found = _create_and_keep(uri, db, "images", schema(about.dim), found)
        if about.windows is not None:
            found = _create_and_keep(uri, db, SKIPPED, SKIPPED_SCHEMA, found)
        if found.root != about.root:
            replace_about(db, replace(found, root=about.root))


def create_table(db: Any, name: str, content: pa.Table) -> Any:
    """Make a table; None where it is there already."""
    try:
        return db.create_table(name, content)
    except ValueError as error:
        if "already exists" not in str(error):
            raise
    return None


def add_column(db: Any, table: Any, about: About, name: str) -> About:
    """Add a column of `OPTIONAL`, and return the header as it is then.

    A marcir that does not know it would lose its values, or take unknown labels for absent: the header
    refuses it first.
    """
    version = _VERSIONS[name]
    if about.version < version:
        about = replace(about, version=version)
        replace_about(db, about)
    table.add_columns(OPTIONAL[name])
    return about


def _create_and_keep(uri: str, db: Any, name: str, columns: pa.Schema, about: About) -> About:
    """Make an empty table, or keep the rows of the one that another process has made meanwhile.

    Returns:
        The header as it is then.
    """
    made = create_table(db, name, columns.empty_table())
    if made is not None and made.version > 1:
        about = _put_back_rows(uri, db, made, about)
    return about


def _put_back_rows(uri: str, db: Any, table: Any, about: About) -> About:
    """Add the rows of the version before, which making the table has replaced."""
    table.checkout(table.version - 1)
    rows = table.to_arrow()

    def put_back() -> None:
        nonlocal about
        with translate_errors(uri):
            table.checkout_latest()
            for name in sorted(OPTIONAL.keys() & set(rows.column_names) - optional_columns(table)):
                about = add_column(db, table, about, name)
            content = complete(rows, optional_columns(table))
            table.merge_insert("id").when_not_matched_insert_all().use_index(False).execute(content)

    again_after_conflicts(put_back)  # here, since a second call of `create_tables` finds the table
    return about


def _about_table(about: About) -> pa.Table:
    """The header; without a field that a marcir of the store's version does not know."""
    fields = {name: value for name, value in asdict(about).items() if value is not None}
    return pa.table({"about": [to_json(fields)]})


def replace_about(db: Any, about: About) -> None:
    """Replace the header of a store."""
    db.create_table("about", _about_table(about), mode="overwrite")


def _check_same(uri: str, found: About, about: About, root_moved: bool) -> None:
    if found.windows != about.windows:
        holds, given = (each.windows or "images that are files" for each in (found, about))
        raise StoreError(
            f"{uri}: holds {holds}; this would be {given}. Use another --store, or the same cut."
        )
    if (found.model, found.dim) != (about.model, about.dim):
        raise StoreError(
            f"{uri}: holds vectors of another model ({found.model[:12]}, not {about.model[:12]}). "
            "Use another --store, or the model that it was made with."
        )
    if found.root != about.root and not root_moved:
        raise StoreError(
            f"{uri}: holds the images of {found.root}, not of {about.root}. Use another --store; "
            "if the same images have moved there, add --root-moved."
        )
