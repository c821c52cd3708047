"""Shards: safetensors files with one tensor, written as a stream and read in place."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from admil.errors import CorruptFile
from admil.store.layout import DTYPES, DtypeName

__all__ = ["ShardFile", "bytes_of", "map_shard"]

_HEADER_BYTES = 1024
"""Length word and header of every shard: room for any row count, and features that start aligned."""

_CODES: dict[DtypeName, str] = {"float16": "F16", "bfloat16": "BF16", "float32": "F32"}
_TENSOR = "features"


class ShardFile:
    """A shard while it is written: rows are added, then it is closed with its header.

    Attributes:
        rows: rows so far.
        digest: running SHA-256 over the bags' checksums, the identity of what it holds.
    """

    def __init__(self, path: Path, dtype: DtypeName, width: int) -> None:
        self.path, self.dtype, self.width, self.rows = path, dtype, width, 0
        self.digest = hashlib.sha256()
        self.file: BinaryIO = path.open("wb")
        self.file.write(b"\0" * _HEADER_BYTES)

    def add(self, rows: Tensor) -> str:
        """Write the rows of a bag; return their checksum."""
        data = bytes_of(rows)
        checksum = hashlib.sha256(data).hexdigest()
        self.file.write(data)
        self.digest.update(checksum.encode())
        self.rows += len(rows)
        return checksum

    @property
    def bytes(self) -> int:
        """Bytes of features so far."""
        return self.rows * self.width * DTYPES[self.dtype].itemsize

    def close(self) -> int:
        """Write the header and see the file to the disk; return its size."""
        size = _HEADER_BYTES + self.bytes
        self.file.seek(0)
        self.file.write(_header(self.dtype, self.rows, self.width, self.digest.hexdigest()))
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        return size

    def discard(self) -> None:
        """Close and delete an unfinished shard."""
        self.file.close()
        self.path.unlink(missing_ok=True)


def map_shard(path: Path, dtype: DtypeName, rows: int, width: int, identity: str) -> Tensor:
    """Return a shard's (rows, width) tensor, mapped from the file: nothing is read until it is used.

    Raises:
        CorruptFile: missing, truncated, or not the shard that the manifest describes.
    """
    if not path.is_file():
        raise CorruptFile(f"shard {path} is missing; the store was not copied whole", path)
    wanted = _header(dtype, rows, width, identity)
    size = _HEADER_BYTES + rows * width * DTYPES[dtype].itemsize
    if (found := path.stat().st_size) != size:
        raise CorruptFile(f"shard {path} has {found:,} bytes, expected {size:,}: it was cut off or replaced", path)
    with path.open("rb") as file:
        if file.read(_HEADER_BYTES) != wanted:
            raise CorruptFile(
                f"shard {path} is not the one that this store was written with: its header differs from the "
                "manifest; restore it from a copy",
                path,
            )
    # a private mapping that keeps no file open, however many shards there are
    mapped = torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)
    return mapped[_HEADER_BYTES:].view(DTYPES[dtype]).reshape(rows, width)


def bytes_of(rows: Tensor) -> memoryview:
    """Return the bytes of a tensor in memory order, without a copy where it is contiguous."""
    flat: Any = rows.contiguous().view(torch.uint8).numpy()  # NumPy's types do not say that arrays are buffers
    return memoryview(flat).cast("B")


def _header(dtype: DtypeName, rows: int, width: int, identity: str) -> bytes:
    size = rows * width * DTYPES[dtype].itemsize
    content = {
        "__metadata__": {"admil": identity},
        _TENSOR: {"dtype": _CODES[dtype], "shape": [rows, width], "data_offsets": [0, size]},
    }
    text = json.dumps(content, separators=(",", ":")).encode()
    length = _HEADER_BYTES - 8
    assert len(text) <= length
    return struct.pack("<Q", length) + text.ljust(length)  # the format allows blanks at the end
