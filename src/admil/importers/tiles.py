"""Cutting a picture into a grid of tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from admil.errors import InvalidInput

__all__ = ["Box", "EdgeRule", "Tiling"]

Box = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels; right and bottom are the first outside."""

EdgeRule = Literal["shift", "keep", "drop"]
"""What becomes of the last tile of a row or a column where it would reach over the edge."""

_MOST_TILES = 1_000_000


@dataclass(frozen=True)
class Tiling:
    """A grid of tiles, row by row from the upper left.

    With a stride up to the tile's size, "shift" and "keep" leave no pixel out.  A picture that is smaller than a tile
    is one tile, except under "drop", where it is none.

    Attributes:
        size: width and height of a tile.
        stride: how far tiles lie apart, across and down; None sets them side by side.
        edge: what becomes of a last tile that reaches over the edge: it is moved back inside ("shift"), cut off
            ("keep") or left out ("drop").
    """

    size: tuple[int, int]
    stride: tuple[int, int] | None = None
    edge: EdgeRule = "shift"

    def __post_init__(self) -> None:
        for name, pair in (("size", self.size), ("stride", self.stride or self.size)):
            if len(pair) != 2 or min(pair) < 1:
                raise InvalidInput(
                    f"the {name} of tiles is a width and a height in pixels, from 1 up, got {pair}", pair
                )
        if self.edge not in get_args(EdgeRule):
            raise InvalidInput(f"edge is one of {', '.join(get_args(EdgeRule))}, got {self.edge!r}", self.edge)

    @property
    def options(self) -> dict[str, Any]:
        """Everything that decides where tiles lie, as JSON."""
        return {"tiles": list(self.size), "stride": list(self.stride or self.size), "edge": self.edge}

    def boxes(self, width: int, height: int) -> list[Box]:
        """Return the tiles of a picture.

        >>> Tiling((60, 75)).boxes(150, 75)
        [(0, 0, 60, 75), (60, 0, 120, 75), (90, 0, 150, 75)]
        """
        step = self.stride or self.size
        count = _count(width, self.size[0], step[0], self.edge) * _count(height, self.size[1], step[1], self.edge)
        if count > _MOST_TILES:
            raise InvalidInput(
                f"a picture of {width} x {height} pixels makes {count:,} tiles of {self.size[0]} x "
                f"{self.size[1]}, more than {_MOST_TILES:,}; take larger tiles or a larger stride",
                self,
            )
        if count == 0:
            return []
        across = _spans(width, self.size[0], step[0], self.edge)
        down = _spans(height, self.size[1], step[1], self.edge)
        return [(left, top, right, bottom) for top, bottom in down for left, right in across]


def _count(length: int, size: int, stride: int, edge: EdgeRule) -> int:
    """Return how many tiles there are along one side."""
    if length < size:
        return int(edge != "drop")
    whole = (length - size) // stride + 1
    last = (whole - 1) * stride
    return whole + int(edge != "drop" and last + size < length and last + stride < length)


def _spans(length: int, size: int, stride: int, edge: EdgeRule) -> list[tuple[int, int]]:
    """Return where tiles begin and end along one side."""
    if length < size:
        return [] if edge == "drop" else [(0, length)]
    spans = [(start, start + size) for start in range(0, length - size + 1, stride)]
    if len(spans) < _count(length, size, stride, edge):
        spans.append((length - size, length) if edge == "shift" else (spans[-1][0] + stride, length))
    return spans
