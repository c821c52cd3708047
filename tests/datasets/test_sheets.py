"""Contact sheets."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from admil.datasets.sheets import boxes, contact_sheet


@pytest.mark.parametrize("count", [1, 7, 8, 9, 17])
def test_every_picture_lies_in_its_box(count: int) -> None:
    pictures = [np.random.default_rng(number).integers(0, 256, (3, 5, 3), np.uint8) for number in range(count)]
    page = np.asarray(Image.open(io.BytesIO(contact_sheet(pictures))))
    box = boxes(count, 3, 5)
    for number, picture in enumerate(pictures):
        left, top, right, bottom = (box[side][number] for side in ("left", "top", "right", "bottom"))
        np.testing.assert_array_equal(page[top:bottom, left:right], picture)
    assert page.shape == (3 * -(-count // 8), 5 * min(count, 8), 3)


def test_what_is_left_of_the_last_row_is_black() -> None:
    page = np.asarray(Image.open(io.BytesIO(contact_sheet([np.full((2, 2, 3), 255, np.uint8)] * 9))))
    assert page[2:, 2:].max() == 0
    assert page[2:, :2].min() == 255


def test_the_same_pictures_give_the_same_bytes() -> None:
    pictures = [np.full((2, 2, 3), number, np.uint8) for number in range(3)]
    assert contact_sheet(pictures) == contact_sheet([picture.copy() for picture in pictures])
    assert contact_sheet(pictures) != contact_sheet(pictures[::-1])
