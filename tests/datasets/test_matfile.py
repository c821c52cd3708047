"""MATLAB's files."""

from __future__ import annotations

import io
import struct
import zlib
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.io import loadmat, savemat
from scipy.sparse import csc_matrix

from admil.datasets.matfile import read_matrices

DTYPES = ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]


def saved(**matrices: Any) -> bytes:
    file = io.BytesIO()
    savemat(file, matrices)
    return file.getvalue()


# --- what SciPy writes, and reads ----------------------------------------------------------------


@given(
    matrix=st.sampled_from(DTYPES).flatmap(
        lambda dtype: arrays.arrays(
            dtype,
            st.tuples(st.integers(1, 5), st.integers(1, 5)),
            elements=st.integers(0, 9) | st.integers(0, 1).map(lambda number: number * 100),
        )
    ),
    sparse=st.booleans(),
    compressed=st.booleans(),
)
def test_a_matrix_is_what_scipy_reads(matrix: Any, sparse: bool, compressed: bool) -> None:
    file = io.BytesIO()
    held = {"before": np.ones((2, 2)), "x": csc_matrix(matrix.astype(float)) if sparse else matrix, "words": "abc"}
    savemat(file, held, do_compression=compressed)
    reference = loadmat(io.BytesIO(file.getvalue()))["x"]
    found = read_matrices(file.getvalue(), ["x"])["x"]
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, reference.toarray() if sparse else reference)
    np.testing.assert_array_equal(found, matrix)


def test_matrices_come_in_the_order_they_are_asked_for() -> None:
    content = saved(a=np.zeros((1, 2)), b=np.ones((2, 1)))
    assert [(name, matrix.shape) for name, matrix in read_matrices(content, ["b", "a"]).items()] == [
        ("b", (2, 1)),
        ("a", (1, 2)),
    ]


# --- written byte for byte -----------------------------------------------------------------------


def element(order: str, kind: int, data: bytes) -> bytes:
    if len(data) <= 4:  # the short form: type and length in one word
        return struct.pack(f"{order}I", len(data) << 16 | kind) + data.ljust(4, b"\0")
    return struct.pack(f"{order}II", kind, len(data)) + data + bytes(-len(data) % 8)


def file(order: str, *parts: bytes) -> bytes:
    end = b"\0\1IM" if order == "<" else b"\1\0MI"
    return b"MATLAB 5.0 MAT-file, written by hand".ljust(124) + end + b"".join(parts)


def matrix(order: str, kind: int, shape: tuple[int, ...], *values: bytes, name: bytes = b"x") -> bytes:
    parts = [
        element(order, 6, struct.pack(f"{order}II", kind, 0)),
        element(order, 5, struct.pack(f"{order}{len(shape)}i", *shape)),
        element(order, 1, name),
        *values,
    ]
    return element(order, 14, b"".join(parts))


def doubles(order: str, *values: float) -> bytes:
    return element(order, 9, struct.pack(f"{order}{len(values)}d", *values))


def ints(order: str, *values: int) -> bytes:
    return element(order, 5, struct.pack(f"{order}{len(values)}i", *values))


ORDERS = pytest.mark.parametrize("order", ["<", ">"])


@ORDERS
def test_numbers_lie_column_by_column(order: str) -> None:
    content = file(order, matrix(order, 6, (2, 3), doubles(order, 1, 2, 3, 4, 5, 6)))
    assert read_matrices(content, ["x"])["x"].tolist() == [[1, 3, 5], [2, 4, 6]]


@ORDERS
def test_numbers_may_be_kept_in_a_smaller_type_and_in_the_short_form(order: str) -> None:
    content = file(order, matrix(order, 6, (1, 3), element(order, 2, b"\7\0\xff")))
    assert read_matrices(content, ["x"])["x"].tolist() == [[7, 0, 255]]


@ORDERS
def test_a_sparse_matrix_is_filled_up(order: str) -> None:
    """Column 0 has 5 in row 2, column 1 nothing, column 2 has 6 in row 0 and 7 in row 1; there is room for one more."""
    parts = ints(order, 2, 0, 1, 0), ints(order, 0, 1, 1, 3), doubles(order, 5, 6, 7, 0)
    content = file(order, matrix(order, 5, (3, 3), *parts))
    assert read_matrices(content, ["x"])["x"].tolist() == [[0, 0, 6], [0, 0, 7], [5, 0, 0]]


@ORDERS
def test_packed_parts_are_unpacked(order: str) -> None:
    packed = zlib.compress(matrix(order, 6, (1, 1), doubles(order, 4)))
    part = struct.pack(f"{order}II", 15, len(packed)) + packed  # not filled up to 8 bytes
    other = matrix(order, 6, (1, 1), doubles(order, 8), name=b"a longer name")
    found = read_matrices(file(order, part, other), ["a longer name", "x"])
    assert {name: each.tolist() for name, each in found.items()} == {"a longer name": [[8]], "x": [[4]]}


# --- damage --------------------------------------------------------------------------------------

FOUR = doubles("<", 1, 2, 3, 4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "does not begin as a MATLAB file of version 5 to 7 does"),
        (b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM", "does not begin as a MATLAB file"),
        (file("<"), "it has no matrix x"),
        (file("<", matrix("<", 6, (2, 2), FOUR, name=b"y")), "it has no matrix x"),
        (file("<", matrix("<", 6, (2, 2), FOUR))[:-8], "it is cut off"),
        (file("<", matrix("<", 6, (2, 2), FOUR), b"\0\0\0"), "requires a buffer"),
        (file("<", matrix("<", 6, (2, 3), FOUR)), "cannot reshape"),
        (file("<", matrix("<", 6, (2, 1, 2), FOUR)), "too many values"),
        (file("<", matrix("<", 6, (-2, 2), FOUR)), "x has -2 x 2 numbers"),
        (file("<", matrix("<", 6, (-2, -2), FOUR)), "x has -2 x -2 numbers"),
        (file("<", matrix("<", 6, (2**20, 2**20), FOUR)), "x has 1048576 x 1048576 numbers"),
        (file("<", matrix("<", 4, (2, 2), FOUR)), "x is no matrix of real numbers"),
        (file("<", matrix("<", 0x0806, (2, 2), FOUR, FOUR)), "x is no matrix of real numbers"),
        (file("<", matrix("<", 6, (2, 2), element("<", 17, b"12345678"))), "numbers of an unknown type, 17"),
        (file("<", matrix("<", 6, (2, 2))), "not enough values"),
        (file("<", matrix("<", 6, (1, 1), element("<", 9, b"12345"))), "buffer size must be a multiple"),
        (
            file("<", matrix("<", 5, (2, 2), ints("<", 0, 2), ints("<", 0, 1, 2), FOUR)),
            "in a row that it does not have",
        ),
        (file("<", matrix("<", 5, (2, 2), ints("<", 0, -1), ints("<", 0, 1, 2), FOUR)), "in a row that it does not"),
        (file("<", matrix("<", 5, (2, 2), ints("<", 0, 1), ints("<", 0, 1), FOUR)), "columns of x do not fit"),
        (file("<", matrix("<", 5, (2, 2), ints("<", 0, 1), ints("<", 1, 1, 2), FOUR)), "columns of x do not fit"),
        (file("<", matrix("<", 5, (2, 2), ints("<", 0, 1), ints("<", 0, 2, 1), FOUR)), "columns of x do not fit"),
        (file("<", matrix("<", 5, (2, 2), ints("<", 0, 1), ints("<", 0, 1, 3), FOUR)), "columns of x do not fit"),
        (file("<", matrix("<", 5, (2, 2), ints("<", 0, 1), element("<", 5, b""), FOUR)), "columns of x do not fit"),
        (file("<", element("<", 15, zlib.compress(bytes(800))[:-2])), "a packed part is cut off, or larger"),
    ],
)
def test_what_is_damaged_is_refused(content: bytes, message: str) -> None:
    with pytest.raises((ValueError, struct.error), match=message):
        read_matrices(content, ["x"])


@settings(max_examples=200)
@given(st.data())
def test_a_mangled_file_never_does_worse_than_an_error(data: st.DataObject) -> None:
    content = bytearray(saved(x=csc_matrix(np.eye(4)), y=np.arange(6.0).reshape(2, 3)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(120, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.just(len(content)) | st.integers(0, len(content)))
    with suppress(ValueError, struct.error, zlib.error):
        found = read_matrices(bytes(content[:cut]), ["x", "y"])
        assert all(each.ndim == 2 for each in found.values())
