"""Shards: safetensors files with one tensor, written as a stream and read in place."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from admil.errors import CorruptFile
from admil.store.incoming import in_pieces
from admil.store.layout import DTYPES, DtypeName

__all__ = ["ShardFile", "checksum_of", "identity_of", "map_shard"]

_HEADER_BYTES = 1024
"""Length word and header of every shard: room for any row count, and features that start aligned."""

_CODES: dict[DtypeName, str] = {"float16": "F16", "bfloat16": "BF16", "float32": "F32"}
_TENSOR = "features"


class ShardFile:
    """A shard while it is written: rows are added, then it is closed with its header.

    Attributes:
        rows: rows so far.
    """

    def __init__(self, path: Path, dtype: DtypeName, width: int) -> None:
        self.path, self.dtype, self.width, self.rows = path, dtype, width, 0
        self._checksums = hashlib.sha256()
        self._file: BinaryIO = path.open("wb")
        self._file.write(b"\0" * _HEADER_BYTES)

    def add(self, rows: Tensor) -> str:
        """Write the rows of a bag in the type of the shard; return their checksum."""
        digest = hashlib.sha256()
        for piece in in_pieces(rows):
            data = _bytes_of(piece.to(DTYPES[self.dtype]))
            digest.update(data)
            self._file.write(data)
        self.rows += len(rows)
        self._checksums.update(digest.hexdigest().encode())
        return digest.hexdigest()

    def close(self) -> int:
        """Write the header and see the file to the disk; return its size."""
        header = _header(self.dtype, self.rows, self.width, self._checksums.hexdigest())
        self._file.seek(0)
        self._file.write(header)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return _size(self.dtype, self.rows, self.width)

    def discard(self) -> None:
        """Close and delete the shard."""
        with suppress(OSError):  # a full disk cannot take what is still to be flushed: it is not wanted either
            self._file.close()
        self.path.unlink(missing_ok=True)


def map_shard(path: Path, dtype: DtypeName, rows: int, width: int, identity: str) -> Tensor:
    """Return a shard's (rows, width) tensor, mapped from the file: nothing is read until it is used.

    Raises:
        CorruptFile: missing, truncated, or not the shard that the manifest describes.
    """
    if not path.is_file():
        raise CorruptFile(f"shard {path} is missing; the store was not copied whole", path)
    size = _size(dtype, rows, width)
    if (found := path.stat().st_size) != size:
        raise CorruptFile(f"shard {path} has {found:,} bytes, expected {size:,}: it was cut off or replaced", path)
    with path.open("rb") as file:
        if file.read(_HEADER_BYTES) != _header(dtype, rows, width, identity):
            raise CorruptFile(
                f"shard {path} is not the one that this store was written with: its header differs from the "
                "manifest; restore it from a copy",
                path,
            )
    # a private mapping that keeps no file open, however many shards there are
    mapped = torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)
    return mapped[_HEADER_BYTES:].view(DTYPES[dtype]).reshape(rows, width)


def checksum_of(rows: Tensor) -> str:
    """Return the SHA-256 of rows as they lie in a shard."""
    return hashlib.sha256(_bytes_of(rows)).hexdigest()


def identity_of(checksums: list[str]) -> str:
    """Return what a shard's header says of the bags in it, given their checksums."""
    return hashlib.sha256("".join(checksums).encode()).hexdigest()


def _bytes_of(rows: Tensor) -> memoryview:
    """Return the bytes of a tensor in memory order, without a copy where it is contiguous."""
    flat: Any = rows.contiguous().view(torch.uint8).numpy()  # NumPy's types do not say that arrays are buffers
    return memoryview(flat).cast("B")


def _size(dtype: DtypeName, rows: int, width: int) -> int:
    return _HEADER_BYTES + rows * width * DTYPES[dtype].itemsize


def _header(dtype: DtypeName, rows: int, width: int, identity: str) -> bytes:
    content = {
        "__metadata__": {"admil": identity},
        _TENSOR: {
            "dtype": _CODES[dtype],
            "shape": [rows, width],
            "data_offsets": [0, _size(dtype, rows, width) - _HEADER_BYTES],
        },
    }
    text = json.dumps(content, separators=(",", ":")).encode()
    length = _HEADER_BYTES - 8
    assert len(text) <= length
    return struct.pack("<Q", length) + text.ljust(length)  # the format allows blanks at the end
