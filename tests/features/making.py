"""Small pictures and encoders to test on."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from admil.features import Picture


def picture(seed: int = 0, height: int = 6, width: int = 5) -> Picture:
    """Make a picture of colours at random."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def pictures(count: int, height: int = 6, width: int = 5) -> list[Picture]:
    return [picture(seed, height, width) for seed in range(count)]


def encoded(image: Image.Image | Picture, kind: str = "PNG", **options: Any) -> bytes:
    """Return the file that Pillow writes."""
    if not isinstance(image, Image.Image):
        image = Image.fromarray(image)
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png(
    width: int, height: int, rows: bytes = b"", bits: int = 8, colour: int = 2, *chunks: tuple[bytes, bytes]
) -> bytes:
    """Write a PNG by hand, which may promise more than it holds.

    Args:
        width: what the header says.
        height: what the header says.
        rows: a filter byte and the pixels of every row.
        bits: of a sample.
        colour: 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGB and alpha.
        chunks: further ones, before the pixels.
    """
    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    parts = [(b"IHDR", head), *chunks, (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


@dataclass
class Counting:
    """An encoder of pictures or texts that takes note of what it is given; features are made from its content alone.

    Attributes:
        name: part of its identity, and of what it makes.
        width: the number of features.
        given: the number of contents of each call.
    """

    name: str = "counting"
    width: int = 3
    given: list[int] = field(default_factory=list)

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"encoder": self.name}

    def encode(self, contents: Sequence[Any]) -> NDArray[np.float32]:
        self.given.append(len(contents))
        return np.array([self.vector(content) for content in contents], np.float32).reshape(-1, self.width)

    def vector(self, content: Any) -> NDArray[np.float32]:
        """Return what a content becomes."""
        data = content.encode() if isinstance(content, str) else content.tobytes()
        seed = [zlib.crc32(data), zlib.crc32(self.name.encode())]
        return np.random.default_rng(seed).normal(size=self.width).astype(np.float32)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
