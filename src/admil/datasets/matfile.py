"""MATLAB's files of version 5 to 7: the matrices of numbers that are in them.

SciPy reads them too, but takes lengths and indices in the file for granted: a damaged file takes the process down
with it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_matrices"]

_HEADER = 128
_INT32, _MATRIX, _COMPRESSED = 5, 14, 15
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_SPARSE, _NUMERIC = 5, range(6, 16)
_COMPLEX = 0x0800
_MOST_BYTES, _MOST_CELLS = 2**28, 2**24

_Order = Literal["<", ">"]
_Elements = Iterator[tuple[int, bytes]]


def read_matrices(content: bytes, names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Return the matrices with these names; sparse ones are filled up.

    Args:
        content: of the file.
        names: of the matrices, in the order to return them.

    Raises:
        ValueError: one is missing, or no matrix of real numbers, or the content is damaged or something else.
    """
    order = _order(content)
    found = {}
    for data in _matrices(content[_HEADER:], order):
        (_, flags), (_, shape), (_, title), *values = _elements(data, order)
        if (name := title.decode("latin-1")) in names:
            rows, columns = _numbers(_INT32, shape, order).tolist()
            if min(rows, columns) < 0 or rows * columns > _MOST_CELLS:
                raise ValueError(f"{name} has {rows} x {columns} numbers")
            (kind,) = struct.unpack(f"{order}I4x", flags)
            found[name] = _matrix(name, kind, (rows, columns), values, order)
    for name in names:
        if name not in found:
            raise ValueError(f"it has no matrix {name}")
    return {name: found[name] for name in names}


def _order(content: bytes) -> _Order:
    """Return the byte order that the header ends with."""
    orders: dict[bytes, _Order] = {b"\0\1IM": "<", b"\1\0MI": ">"}
    if (order := orders.get(content[124:_HEADER])) is None:
        raise ValueError("it does not begin as a MATLAB file of version 5 to 7 does")
    return order


def _matrices(content: bytes, order: _Order) -> Iterator[bytes]:
    for kind, data in _elements(content, order):
        if kind == _COMPRESSED:
            unpacker = zlib.decompressobj()
            unpacked = unpacker.decompress(data, _MOST_BYTES)
            if not unpacker.eof:
                raise ValueError("a packed part is cut off, or larger than any data set here")
            yield from (inner for each, inner in _elements(unpacked, order) if each == _MATRIX)
        elif kind == _MATRIX:
            yield data


def _elements(content: bytes, order: _Order) -> _Elements:
    """Yield (type, data) of what follows one another: a tag of 8 bytes, then data; or 4 bytes of each."""
    at = 0
    while at < len(content):
        kind, size = struct.unpack_from(f"{order}II", content, at)
        if kind >> 16:
            kind, size, start, at = kind & 0xFFFF, kind >> 16, at + 4, at + 8
        else:
            start = at + 8
            at = start + size + (0 if kind == _COMPRESSED else -size % 8)
        data = content[start : start + size]
        if len(data) != size:
            raise ValueError("it is cut off")
        yield kind, data


def _matrix(
    name: str, kind: int, shape: tuple[int, int], values: list[tuple[int, bytes]], order: _Order
) -> NDArray[np.float64]:
    if kind & _COMPLEX or (kind & 0xFF != _SPARSE and kind & 0xFF not in _NUMERIC):
        raise ValueError(f"{name} is no matrix of real numbers")
    arrays = [_numbers(type_, data, order) for type_, data in values]
    if kind & 0xFF != _SPARSE:
        (numbers,) = arrays
        return numbers.astype(np.float64).reshape(shape, order="F")
    rows, ends, numbers = arrays
    return _filled(name, shape, rows, ends, numbers)


def _filled(
    name: str, shape: tuple[int, int], rows: NDArray[Any], ends: NDArray[Any], numbers: NDArray[Any]
) -> NDArray[np.float64]:
    """Return a sparse matrix in full: the numbers of column j, and their rows, lie from ends[j] to ends[j + 1]."""
    counts = np.diff(ends)
    used = int(ends[-1]) if len(ends) else -1  # there may be room for more
    if len(ends) != shape[1] + 1 or ends[0] != 0 or (counts < 0).any() or used > min(len(rows), len(numbers)):
        raise ValueError(f"the columns of {name} do not fit its numbers")
    rows = rows[:used]
    if used and not 0 <= rows.min() <= rows.max() < shape[0]:
        raise ValueError(f"{name} has a number in a row that it does not have")
    full = np.zeros(shape)
    full[rows, np.repeat(np.arange(shape[1]), counts)] = numbers[:used]
    return full


def _numbers(kind: int, data: bytes, order: _Order) -> NDArray[Any]:
    if kind not in _TYPES:
        raise ValueError(f"numbers of an unknown type, {kind}")
    return np.frombuffer(data, np.dtype(_TYPES[kind]).newbyteorder(order))
