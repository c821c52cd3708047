"""A part of a store while it is written: its shard on the disk, its tables in memory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from torch import Tensor

from admil.store.documents import sync_folder
from admil.store.layout import BAG_SCHEMA, DTYPES, SUM_SCHEMA, TRUTH_SCHEMA, Header, Part, part_files
from admil.store.shards import ShardFile
from admil.store.tables import details_table, write_table

__all__ = ["PartWriter"]

_BAG_BYTES = 128
"""What a bag takes in memory beside its features and instances, about."""

_TABLES = 1_000
"""Instance tables of single bags that are kept before they are put together: each takes kilobytes."""


class PartWriter:
    """Takes the bags of one part; nothing of it belongs to the store before the header names what `finish` returns.

    Args:
        folder: the store's folder.
        header: what the store says so far; the part is the next.
        schema: columns of the instance table; None where no bag has brought any.

    Attributes:
        bytes: of features and tables so far, about; the same bags give the same number.
    """

    def __init__(self, folder: Path, header: Header, schema: pa.Schema | None) -> None:
        self.name = f"{len(header.parts):06d}"
        self.files, self.schema, self.bytes = part_files(folder, self.name), schema, 0
        self._row_bytes = header.width * DTYPES[header.dtype].itemsize
        self._rows: list[tuple[str, int | None, str | None, str, int, int, str]] = []
        self._single: list[pa.Table] = []
        self._joined: list[pa.Table] = []
        self._truth: list[tuple[str, list[bool]]] = []
        self.files["features"].parent.mkdir(exist_ok=True)
        self._shard = ShardFile(self.files["features"], header.dtype, header.width)

    def add(
        self,
        bag: str,
        rows: Tensor,
        label: int | None,
        split: str | None,
        details: pa.Table | None,
        truth: tuple[str, list[bool]] | None,
    ) -> None:
        """Write the features of a bag, checked, and keep its rows of the tables."""
        start = self._shard.rows
        checksum = self._shard.add(rows)
        self._keep_details(bag, len(rows), details)
        self._rows.append((bag, label, split, self.name, start, len(rows), checksum))
        self.bytes += len(rows) * self._row_bytes + (0 if details is None else details.nbytes) + _BAG_BYTES
        if truth is not None:
            self._truth.append(truth)

    def finish(self, source: int | None, pictures: Mapping[str, str]) -> Part:
        """See all files to the disk; return what to enter into the header.

        Args:
            source: the number of the import.
            pictures: the checksums of the pictures that came with its bags, by path.
        """
        instances, size = self._shard.rows, self._shard.close()
        sync_folder(self.files["features"].parent)
        bags = pa.table([list(column) for column in zip(*self._rows, strict=True)], schema=BAG_SCHEMA)
        self._join()
        return Part(
            name=self.name,
            bags=len(self._rows),
            instances=instances,
            shard_bytes=size,
            manifest=write_table(bags, self.files["bags"]),
            details=write_table(_joined(self._joined), self.files["instances"]) if self._joined else None,
            truth=write_table(_truth_table(self._truth), self.files["truth"]) if self._truth else None,
            pictures=write_table(_sums_table(pictures), self.files["picture_sums"]) if pictures else None,
            source=source,
        )

    def discard(self) -> None:
        """Delete what was written of the part."""
        self._shard.discard()
        for path in self.files.values():
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _keep_details(self, bag: str, count: int, details: pa.Table | None) -> None:
        if details is None and self.schema is None:
            return
        if details is None:
            details = details_table(bag, count, {}, self.schema)
        elif self.schema is None:  # the bags before have empty rows
            self._single = [details_table(row[0], row[5], {}, details.schema) for row in self._rows]
        self.schema = details.schema
        self._single.append(details)
        if len(self._single) >= _TABLES:
            self._join()

    def _join(self) -> None:
        if self._single:
            self._joined.append(_joined(self._single))
            self._single = []


def _joined(tables: list[pa.Table]) -> pa.Table:
    """Put instance tables together; a column takes the type of those that have one."""
    return pa.concat_tables(tables, promote_options="default").combine_chunks()


def _sums_table(pictures: Mapping[str, str]) -> pa.Table:
    return pa.table([list(pictures), list(pictures.values())], schema=SUM_SCHEMA)


def _truth_table(rows: list[tuple[str, list[bool]]]) -> pa.Table:
    bags, values = zip(*rows, strict=True)
    return pa.table([list(bags), list(values)], schema=TRUTH_SCHEMA)
