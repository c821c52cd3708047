"""Bytes changed in the ways that files go wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

INTERESTING = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)
SCRAPS = (
    b"\0",
    b"\n",
    b'"',
    b",",
    b"{",
    b"[[",
    b"nan",
    b"1e999",
    b"-",
    b"\xff\xfe",
    b"\x1f\x8b",
    b"PK\x03\x04",
    b"\\ud8",
)


def mangle(data: bytes, others: Sequence[bytes], generator: np.random.Generator) -> bytes:
    """Change bytes in one to four of the ways that files go wrong."""
    changed = bytearray(data)
    for _ in range(generator.integers(1, 5)):
        size = len(changed)
        start, end = sorted(int(i) for i in generator.integers(0, size + 1, 2))
        if generator.random() < 0.7:
            end = min(end, start + int(generator.integers(1, 9)))
        piece = bytes(changed[start:end])
        match generator.integers(0, 9):
            case 0 if size:  # flip bits
                for place in generator.integers(0, size, generator.integers(1, 9)):
                    changed[place] ^= 1 << int(generator.integers(0, 8))
            case 1:  # cut off
                del changed[start:]
            case 2:  # take out
                del changed[start:end]
            case 3:  # put in
                changed[start:start] = generator.bytes(int(generator.integers(1, 65)))
            case 4:  # say twice
                changed[start:start] = piece * int(generator.integers(1, 4))
            case 5:  # swap
                there = int(generator.integers(0, size + 1))
                changed[there : there + len(piece)] = piece
            case 6:  # a piece of another file
                other = others[int(generator.integers(0, len(others)))]
                begin = int(generator.integers(0, len(other) + 1))
                changed[start:end] = other[begin : begin + int(generator.integers(1, 257))]
            case 7:  # a number that means something
                width = int(generator.choice([1, 2, 4, 8]))
                value = INTERESTING[int(generator.integers(0, len(INTERESTING)))] % 256**width
                changed[start : start + width] = value.to_bytes(width, "little")
            case _:  # a word that means something
                changed[start:end] = SCRAPS[int(generator.integers(0, len(SCRAPS)))]
    return bytes(changed)
