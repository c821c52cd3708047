"""Rows of a CSV or a Parquet file, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from admil.importers.source import check_file, check_unpacked, reading
from admil.store.layout import KNOWN_COLUMNS

__all__ = ["CsvRows", "ParquetRows", "RowFile", "RowStream", "Rows", "open_rows"]

_BLOCK = 2**23
"""Bytes of text read at a time; a row must fit into it."""

_BATCH, _MOST_ROWS, _BUFFER = 2**24, 2**16, 2**16


class RowFile(Protocol):
    """A file with rows and named columns."""

    @property
    def path(self) -> Path:
        """Where it is."""

    @property
    def types(self) -> Sequence[tuple[str, pa.DataType]]:
        """Name and type of each column; for a CSV what its first rows look like."""

    def batches(
        self, columns: Sequence[str], texts: Sequence[str], start: int = 0
    ) -> tuple[int, Iterator[pa.RecordBatch]]:
        """Return the rows from ``start``, or from an earlier one, and the number of the first.

        Args:
            columns: the columns to read.
            texts: those of them that are words, even where they look like numbers.
            start: a row, from 0.
        """


class CsvRows:
    """Rows of a CSV in UTF-8, perhaps compressed."""

    def __init__(self, path: Path, delimiter: str) -> None:
        self.path = path
        self.delimiter = delimiter
        with reading(path, "a CSV with a header, in UTF-8"), pa.input_stream(str(path)) as stream:
            schema = self._opened(stream, arrow_csv.ConvertOptions()).schema
            self.types = list(zip(schema.names, schema.types, strict=True))

    def batches(
        self, columns: Sequence[str], texts: Sequence[str], start: int = 0
    ) -> tuple[int, Iterator[pa.RecordBatch]]:
        """See `RowFile`; a CSV is read from its beginning."""
        seen = dict(self.types)
        kinds = {name: pa.string() if name in texts else _kept_as(name, seen[name]) for name in columns}
        return 0, self._batches(kinds)

    def _batches(self, kinds: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        options = arrow_csv.ConvertOptions(column_types=kinds, include_columns=list(kinds))
        with pa.input_stream(str(self.path)) as stream:
            yield from self._opened(stream, options)

    def _opened(self, stream: pa.NativeFile, options: arrow_csv.ConvertOptions) -> arrow_csv.CSVStreamingReader:
        return arrow_csv.open_csv(
            stream,
            arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK),
            arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            options,
        )


class ParquetRows:
    """Rows of a Parquet file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path, "a Parquet file"):
            # read through small buffers: one group of rows may be as large as the file
            self._file = pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)
            schema, metadata = self._file.schema_arrow, self._file.metadata
            self._groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
            size = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
        self._batch_rows = max(1, min(_MOST_ROWS, _BATCH * max(1, metadata.num_rows) // max(1, size)))
        self.types = list(zip(schema.names, schema.types, strict=True))

    def batches(
        self, columns: Sequence[str], texts: Sequence[str], start: int = 0
    ) -> tuple[int, Iterator[pa.RecordBatch]]:
        """See `RowFile`; groups of rows before the one with ``start`` are not read."""
        first, before = 0, 0
        while first < len(self._groups) - 1 and before + self._groups[first] <= start:
            before += self._groups[first]
            first += 1
        groups = list(range(first, len(self._groups)))
        return before, self._file.iter_batches(self._batch_rows, row_groups=groups, columns=list(columns))


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a file.

    Attributes:
        table: the columns that were asked for, without those of numbers.
        numbers: (n, D) the columns of numbers, NaN where one is missing; None where there are none.
    """

    table: pa.Table
    numbers: NDArray[Any] | None


class RowStream:
    """Takes rows from a file, from its beginning to its end; rows that are passed over are dropped as they come.

    Args:
        file: the file.
        columns: the columns to read.
        texts: those of them that are words.
        numbers: those of them that are numbers and make up one matrix: a batch of rows is turned into it at once.
    """

    def __init__(
        self, file: RowFile, columns: Sequence[str], texts: Sequence[str], numbers: Sequence[str] = ()
    ) -> None:
        self.file, self.columns, self.texts, self.numbers = file, columns, texts, numbers
        self._packed = file.path.stat().st_size
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._batch: tuple[pa.RecordBatch, NDArray[Any] | None] | None = None
        self._first, self._stop = 0, 0

    def take(self, start: int, stop: int) -> Rows:
        """Return rows [start, stop), all later than those taken before."""
        if self._batches is None:
            self._first, self._batches = self.file.batches(self.columns, self.texts, start)
            self._stop = self._first
        tables: list[pa.RecordBatch] = []
        matrices: list[NDArray[Any]] = []
        while True:
            if self._batch is not None and start < self._stop:
                table, matrix = self._batch
                rows = slice(start - self._first, min(stop, self._stop) - self._first)
                tables.append(table.slice(rows.start, rows.stop - rows.start))
                matrices += [] if matrix is None else [matrix[rows]]
                check_unpacked(sum(piece.nbytes for piece in (*tables, *matrices)), self._packed)
                start = min(stop, self._stop)
            if start >= stop:
                return Rows(pa.Table.from_batches(tables), _joined(matrices))
            self._batch = self._split(next(self._batches))
            self._first, self._stop = self._stop, self._stop + self._batch[0].num_rows

    def _split(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, NDArray[Any] | None]:
        """Return the columns that are no numbers, and the matrix of those that are."""
        if not self.numbers:
            return batch, None
        apart = frozenset(self.numbers)
        others = [name for name in batch.schema.names if name not in apart]
        return batch.select(others), _matrix([batch.column(name) for name in self.numbers])


def open_rows(path: Path, delimiter: str | None) -> RowFile:
    """Open a CSV or a Parquet file; ``delimiter`` None is a tab for .tsv files and a comma for others."""
    expected = "a CSV or a Parquet file"
    check_file(path, expected)
    with reading(path, expected):
        with path.open("rb") as file:
            magic = file.read(4)
        if magic == b"PAR1" or path.suffix in (".parquet", ".pq"):
            return ParquetRows(path)
        if magic[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise ValueError("it is UTF-16; save it as UTF-8")
        if magic == b"PK\x03\x04":
            raise ValueError("it is a zip archive, as Excel writes; save the sheet as CSV")
    return CsvRows(path, delimiter or ("\t" if ".tsv" in path.suffixes else ","))


def _kept_as(name: str, seen: pa.DataType) -> pa.DataType:
    """Return the type that a column of a CSV is read as, whatever its first rows look like."""
    known = KNOWN_COLUMNS.get(name)
    number = pa.types.is_integer(seen) or pa.types.is_floating(seen) or pa.types.is_null(seen)
    if known is not None:
        return pa.string() if known == pa.string() else pa.float64()
    return pa.float64() if number else pa.string()


def _matrix(columns: Sequence[pa.Array]) -> NDArray[Any]:
    """Return columns of numbers as (n, D), in the float type that holds them all; missing ones are NaN."""
    kind = np.result_type(*{column.type.to_pandas_dtype() for column in columns})
    matrix: NDArray[Any] = np.empty((len(columns[0]), len(columns)), kind if kind.kind == "f" else np.float64)
    for place, column in enumerate(columns):
        matrix[:, place] = column.to_numpy(zero_copy_only=False)
    return matrix


def _joined(matrices: Sequence[NDArray[Any]]) -> NDArray[Any] | None:
    if len(matrices) > 1:
        return np.concatenate(matrices)
    return matrices[0] if matrices else None
