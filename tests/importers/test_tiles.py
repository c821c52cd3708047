"""Cutting pictures into tiles: the grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admil.errors import InvalidInput
from admil.importers import EdgeRule, Tiling

sides = st.integers(1, 12)


@given(st.tuples(sides, sides), st.tuples(sides, sides) | st.none(), sides, sides)
def test_tiles_are_those_of_a_slow_obvious_reference(
    size: tuple[int, int], stride: tuple[int, int] | None, width: int, height: int
) -> None:
    step = stride or size
    whole = [
        (left, top, left + size[0], top + size[1])
        for top in range(0, height, step[1])
        for left in range(0, width, step[0])
        if left + size[0] <= width and top + size[1] <= height
    ]
    assert Tiling(size, stride, "drop").boxes(width, height) == whole
    edges: tuple[EdgeRule, ...] = ("shift", "keep")
    for edge in edges:
        found = Tiling(size, stride, edge).boxes(width, height)
        assert set(whole) <= set(found)
        assert found == sorted(set(found), key=lambda box: (box[1], box[0]))
        for left, top, right, bottom in found:
            assert 0 <= left < right <= width
            assert 0 <= top < bottom <= height
            assert (right - left, bottom - top) <= size
            if edge == "shift":
                assert (right - left, bottom - top) == (min(size[0], width), min(size[1], height))
            elif width >= size[0] and height >= size[1]:
                assert (left % step[0], top % step[1]) == (0, 0)
        if step[0] <= size[0] and step[1] <= size[1]:
            covered = np.zeros((height, width), bool)
            for left, top, right, bottom in found:
                covered[top:bottom, left:right] = True
            assert covered.all(), "no pixel is left out"


@pytest.mark.parametrize(
    ("edge", "expected"),
    [("shift", [0, 4, 6]), ("keep", [0, 4, 8]), ("drop", [0, 4])],
)
def test_the_rules_for_edges_worked_out_by_hand(edge: Any, expected: list[int]) -> None:
    boxes = Tiling((4, 3), None, edge).boxes(10, 3)
    assert [left for left, _, _, _ in boxes] == expected
    assert boxes[-1][2] == (8 if edge == "drop" else 10)


def test_a_grid_without_a_stride_has_that_of_its_tiles() -> None:
    assert Tiling((4, 3)).options == Tiling((4, 3), (4, 3)).options
    assert Tiling((4, 3), (1, 2), "keep").options == {"tiles": [4, 3], "stride": [1, 2], "edge": "keep"}


def test_there_may_be_a_million_tiles_and_not_one_more() -> None:
    assert len(Tiling((1, 1)).boxes(1_000, 1_000)) == 1_000_000
    message = "makes 1,001,000 tiles of 1 x 1, more than 1,000,000; take larger tiles or a larger stride"
    with pytest.raises(InvalidInput, match=message):
        Tiling((1, 1)).boxes(1_001, 1_000)
    with pytest.raises(InvalidInput, match=r"makes [\d,]+ tiles"):
        Tiling((1, 1)).boxes(2**40, 2**40)
    assert Tiling((1, 9), None, "drop").boxes(2**40, 5) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": (0, 1)}, r"the size of tiles is a width and a height in pixels, from 1 up, got \(0, 1\)"),
        ({"size": (1,)}, "the size of tiles is a width and a height"),
        ({"size": (1, 2, 3)}, "the size of tiles is a width and a height"),
        ({"stride": (1, -1)}, r"the stride of tiles is a width and a height in pixels, from 1 up, got \(1, -1\)"),
        ({"edge": "wrap"}, "edge is one of shift, keep, drop, got 'wrap'"),
    ],
)
def test_grids_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Tiling(**({"size": (2, 2)} | options))
