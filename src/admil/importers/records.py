"""Lines of JSON: read one at a time, and what they hold as arrays and columns."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from admil.importers.source import check_unpacked, most_unpacked

__all__ = ["ColumnTypes", "LineStream", "matrix", "numbered_lines", "parsed"]

_GZIP = b"\x1f\x8b"
_MOST_COLUMNS = 1000


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file that are not blank, with their numbers from 1; it may be gzipped.

    Raises:
        ValueError: a line is as long as only a decompression bomb makes them.
    """
    packed = path.stat().st_size
    longest = most_unpacked(packed)
    with path.open("rb") as plain:
        zipped = plain.read(2) == _GZIP
        plain.seek(0)
        file: IO[bytes] = gzip.GzipFile(fileobj=plain) if zipped else plain  # type: ignore[assignment]
        number = 0
        while line := file.readline(longest + 1):
            number += 1
            check_unpacked(len(line), packed)
            if line.strip():
                yield number, line


def parsed(number: int, line: bytes) -> dict[str, Any]:
    """Return the object that a line holds.

    Raises:
        ValueError: naming the line.
    """
    try:
        record = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"line {number} is no JSON in UTF-8: {error}") from None
    if not isinstance(record, dict):
        raise ValueError(f"line {number} holds {type(record).__name__}; each line is an object {{…}} of its own")
    return record


class LineStream:
    """Takes lines from a file, from its beginning to its end; those passed over are not parsed."""

    def __init__(self, path: Path) -> None:
        self._lines = numbered_lines(path)
        self._packed = path.stat().st_size
        self._at = 0

    def take(self, start: int, stop: int) -> list[tuple[int, dict[str, Any]]]:
        """Return lines [start, stop), counted from 0 without blank ones, later than those taken before."""
        found, size = [], 0
        for number, line in self._lines:
            self._at += 1
            if self._at > start:
                size += len(line)
                check_unpacked(size, self._packed)
                found.append((number, parsed(number, line)))
            if self._at == stop:
                return found
        raise ValueError("it ends before the lines of this bag")


class ColumnTypes:
    """The columns of an instance table, and the type of each, gathered from all values it is to hold.

    A column of nothing but whole numbers, of numbers, or of true and false keeps them; any other becomes text,
    in which what is no text is written as JSON.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, set[str]] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._kinds

    def add(self, name: str, values: Sequence[Any]) -> None:
        """Take note of some values of a column."""
        kinds = self._kinds.setdefault(name, set())
        if len(self._kinds) > _MOST_COLUMNS:
            raise ValueError(f"it has more than {_MOST_COLUMNS} names of columns; put what varies into values")
        kinds.update(_kind(value) for value in values if value is not None)

    def columns(self, values: Mapping[str, Sequence[Any]], count: int) -> dict[str, pa.Array] | None:
        """Return all columns for the ``count`` instances of a bag; None where there is no column at all."""
        return {name: self._column(name, values.get(name, [None] * count)) for name in self._kinds} or None

    def _column(self, name: str, values: Sequence[Any]) -> pa.Array:
        kinds = self._kinds[name]
        if kinds == {"bool"}:
            return pa.array(values, pa.bool_())
        if kinds == {"int"}:
            return pa.array(values, pa.int64())
        if kinds and kinds <= {"int", "float"}:
            return pa.array([None if value is None else float(value) for value in values], pa.float64())
        try:
            return pa.array([_text(value) for value in values], pa.string())
        except UnicodeEncodeError:
            raise ValueError(f"{name!r} holds half a character (a lone surrogate): surrogates not allowed") from None


def matrix(rows: Any) -> NDArray[np.float64]:
    """Return the features of a bag, (n, D), from a list with a list of numbers per instance.

    Raises:
        ValueError: it is something else; the message names the instance.
    """
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise ValueError("features are a list with a list of numbers for each instance")
    for place, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(f"instance {place} has {len(row)} features, the first has {len(rows[0])}")
        if not all(isinstance(value, int | float) for value in row):
            raise ValueError(f"the features of instance {place} are not all numbers")
    array: NDArray[np.float64] = np.array(rows, dtype=np.float64)
    return array if rows else array.reshape(0, 1)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int" if -(2**63) <= value < 2**63 else "text"
    return "float" if isinstance(value, float) else "text"


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
