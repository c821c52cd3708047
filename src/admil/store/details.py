"""What is known of the instances of bags, as one table however many parts they lie in."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from admil.bags import IntArray
from admil.store.store import BagStore

__all__ = ["instance_columns", "instance_table"]


def instance_columns(store: BagStore) -> pa.Schema:
    """Return names and types of the instance columns; one without any value is text."""
    return pa.schema([field.with_type(_type(field.type)) for field in store.columns])


def instance_table(store: BagStore, bags: IntArray, root: Path | None = None) -> pa.Table:
    """Return a row for each instance of some bags, in order, with the columns of `instance_columns`.

    Args:
        store: where they lie.
        bags: their numbers.
        root: a folder that holds the roots of all of them, to which each ``path`` is made relative; None leaves
            them relative to the root of their own source.
    """
    schema, stretches = instance_columns(store), []
    for some, table in store.details_tables(bags):
        count = int(store.index.sizes[some].sum())
        values = {field.name: pa.nulls(count, field.type) for field in schema}
        if table is not None:
            values |= dict(zip(table.column_names, table.columns, strict=True))
        if root is not None and "path" in values:
            values["path"] = _moved(values["path"], store.root_of(store.ids[some[0]]), root)
        stretches.append(pa.table(values).select(schema.names).cast(schema))
    return pa.concat_tables(stretches)


def _type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_null(kind) else kind


def _moved(paths: pa.Array | pa.ChunkedArray, root: Path, common: Path) -> pa.Array | pa.ChunkedArray:
    """Return paths that are relative to one folder as relative to another that holds it."""
    above = root.absolute().relative_to(common)
    if above == Path():
        return paths
    return pa.array([None if path is None else (above / path).as_posix() for path in paths.to_pylist()], pa.string())
