"""The Parquet tables of a part: its bags, its instances, its truth."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from admil.errors import CorruptFile, InvalidInput
from admil.store.documents import file_digest, sync_folder
from admil.store.layout import KNOWN_COLUMNS, LABEL_SCHEMA, Header, label_file

__all__ = ["check_file", "details_table", "read_labels", "read_rows", "read_table", "truth_row", "write_table"]

_ROW_GROUP = 20_000


def write_table(table: pa.Table, path: Path) -> str:
    """Write a table and see it to the disk; return the file's SHA-256.  Same table, same bytes."""
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        pq.write_table(table, file, compression="zstd", row_group_size=_ROW_GROUP)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)
    return file_digest(path)


def read_table(path: Path, digest: str, schema: pa.Schema) -> pa.Table:
    """Read a whole table whose checksum and columns are known.

    Raises:
        CorruptFile: missing, damaged, or with other columns.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise _missing(path) from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise _damaged(path)
    try:
        # not by its path: Arrow would take columns from a folder that is named "split=train"; and without its
        # threads: one that lets go of our bytes while the interpreter ends would end it with an abort
        table = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise CorruptFile(f"{path} is no Parquet file: {error}", path) from error
    if not table.schema.equals(schema):
        raise CorruptFile(f"{path} has columns {table.schema.names}, expected {schema.names}", path)
    return table


def read_labels(folder: Path, header: Header) -> dict[str, tuple[int | None, str | None]]:
    """Return the labels and splits that were set later, by bag."""
    if header.labels is None:
        return {}
    table = read_table(label_file(folder, header.labels), header.labels, LABEL_SCHEMA)
    values = zip(table["label"].to_pylist(), table["split"].to_pylist(), strict=True)
    return dict(zip(table["bag"].to_pylist(), values, strict=True))


def read_rows(path: Path, start: int, count: int) -> pa.Table:
    """Read some rows of a table; only the row groups that they lie in are read."""
    try:
        with pq.ParquetFile(path) as file:
            sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
            ends = np.cumsum(sizes)
            first, last = np.searchsorted(ends, [start, start + count - 1], side="right").tolist()
            table = file.read_row_groups(list(range(first, last + 1)))
    except FileNotFoundError:
        raise _missing(path) from None
    except (pa.ArrowException, OSError, IndexError) as error:
        raise CorruptFile(f"{path} is no Parquet file with {start + count} rows: {error}", path) from error
    return table.slice(start - int(ends[first] - sizes[first]), count)


def check_file(path: Path, digest: str) -> None:
    """Raise `CorruptFile` unless the file is the one that was written."""
    if not path.is_file():
        raise _missing(path)
    if file_digest(path) != digest:
        raise _damaged(path)


def details_table(bag: str, count: int, columns: Mapping[str, Any], schema: pa.Schema | None) -> pa.Table:
    """Return the instance rows of a bag, in the columns of the store.

    A column that has had no value yet has no type (Arrow's null); the first value decides it.

    Args:
        bag: its id.
        count: its instances.
        columns: what is known of them, a value each.
        schema: the store's columns; None where this bag is the first with any.
    """
    arrays: dict[str, pa.Array] = {
        "bag": pa.array([bag] * count, pa.string()),
        "index": pa.array(np.arange(count), pa.int32()),
    }
    for name, values in columns.items():
        if name in arrays or not name or any("\ud800" <= letter <= "\udfff" for letter in name):  # half a character
            raise InvalidInput(f"bag {bag!r}: an instance column cannot be named {name!r}; rename it", name)
        if len(values) != count:
            raise InvalidInput(f"bag {bag!r}: column {name!r} has {len(values)} values for {count} instances", bag)
        arrays[name] = _as_array(bag, name, values, schema)
    if schema is None:
        return pa.table(arrays)
    if unknown := sorted(set(arrays) - set(schema.names)):
        raise InvalidInput(
            f"bag {bag!r} brings instance column {unknown[0]!r}, which earlier bags of this store did not have "
            f"({', '.join(schema.names[2:]) or 'none'}); give every bag the same columns",
            bag,
        )
    return pa.table({field.name: arrays.get(field.name, pa.nulls(count, field.type)) for field in schema})


def truth_row(bag: str, label: int | None, positive: ArrayLike, count: int) -> tuple[str, list[bool]]:
    """Check the truth of a bag against its label; return its row."""
    values = np.asarray(positive)
    if values.shape != (count,) or not np.isin(values, (0, 1)).all():
        raise InvalidInput(
            f"bag {bag!r}: expected {count} truth values 0 or 1, one per instance, got shape {values.shape}", bag
        )
    if label is not None and bool(values.any()) != bool(label):
        said, found = ("positive", "no instance") if label else ("negative", "an instance")
        raise InvalidInput(f"bag {bag!r} is labelled {said} but {found} of it is positive; correct one of them", bag)
    return bag, values.astype(bool).tolist()


def _as_array(bag: str, name: str, values: Any, schema: pa.Schema | None) -> pa.Array:
    wanted = KNOWN_COLUMNS.get(name)
    if schema is not None and name in schema.names and not pa.types.is_null(schema.field(name).type):
        wanted = schema.field(name).type
    data = values.astype(object) if isinstance(values, np.ndarray) and values.dtype.kind in "US" else values
    try:
        return pa.array(data, wanted, from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"bag {bag!r}: the values of instance column {name!r} do not fit {wanted or 'one type'}: {error}", bag
        ) from None


def _missing(path: Path) -> CorruptFile:
    return CorruptFile(f"{path} is missing; the store was not copied whole", path)


def _damaged(path: Path) -> CorruptFile:
    return CorruptFile(f"{path} is damaged: its checksum is not the one written; restore it from a copy", path)
