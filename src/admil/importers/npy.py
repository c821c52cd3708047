"""Arrays in NumPy's .npy format, read without pickles and without trusting the header."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from admil.importers.source import check_file, check_unpacked, reading

__all__ = ["read_array", "read_npy", "row_reader"]

_PIECE = 2**24


def read_npy(path: Path, expected: str) -> NDArray[Any]:
    """Read a .npy file; ``expected`` follows "expected" in the message of the error.

    Raises:
        CorruptFile: missing, truncated, or something else, pickled objects included.
    """
    check_file(path, expected)
    with reading(path, expected), path.open("rb") as file:
        return read_array(file, path.stat().st_size)


def read_array(file: IO[bytes], size: int) -> NDArray[Any]:
    """Read an array from an open file of ``size`` bytes.

    Raises:
        ValueError: a shape that the file cannot hold, before memory is taken for it; or pickled objects.
    """
    shape, fortran, dtype = _head(file, size)
    array: NDArray[Any] = np.empty(shape[::-1] if fortran else shape, dtype)
    _fill(file, array)
    return array.T if fortran else array


def row_reader(file: IO[bytes], size: int, packed: int, rows: int) -> Callable[[int, int], NDArray[Any]]:
    """Return a function that reads rows [start, stop) of a (rows, D) array.

    Args:
        file: an open file that can seek; forward is enough where the calls go forward.
        size: its bytes.
        packed: the bytes it takes on the disk.
        rows: the rows that the array must have.

    Raises:
        ValueError: it has another shape, lies column by column, or is cut off.
    """
    shape, fortran, dtype = _head(file, size)
    if len(shape) != 2 or shape[0] != rows or (fortran and min(shape) > 1):
        order = " in Fortran order" if fortran else ""
        raise ValueError(f"expected {rows} rows of features in C order, got shape {shape}{order}")
    begin, step = file.tell(), shape[1] * dtype.itemsize

    def take(start: int, stop: int) -> NDArray[Any]:
        check_unpacked((stop - start) * step, packed)
        file.seek(begin + start * step)
        array: NDArray[Any] = np.empty((stop - start, shape[1]), dtype)
        _fill(file, array)
        return array

    return take


def _head(file: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of headers that Python 2 wrote: they are read all the same
        shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds pickled objects, which are never loaded; save plain numbers")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"its header promises shape {shape}, the file is too short for it")
    return shape, fortran, dtype


def _fill(file: IO[bytes], array: NDArray[Any]) -> None:
    """Read an array's bytes in pieces, straight into their place."""
    place = array.reshape(-1).view(np.uint8)
    at = 0
    while at < len(place):
        piece = file.read(min(_PIECE, len(place) - at))
        if not piece:
            raise ValueError(f"it is cut off: {at:,} of {len(place):,} bytes of an array are there")
        place[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
        at += len(piece)
