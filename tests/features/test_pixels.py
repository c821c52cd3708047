"""Pixels as features."""

from __future__ import annotations

import numpy as np
import pytest

from admil.errors import InvalidInput
from admil.features import PixelEncoder
from tests.features.making import picture, pictures


def test_pixels_come_row_by_row_red_green_blue_from_0_to_1() -> None:
    made = np.array([[[0, 51, 102], [255, 0, 0]], [[1, 2, 3], [4, 5, 6]]], np.uint8)
    rows = PixelEncoder().encode([made])
    assert rows.dtype == np.float32
    assert rows.tolist() == [[np.float32(value / 255) for value in (0, 51, 102, 255, 0, 0, 1, 2, 3, 4, 5, 6)]]


def test_pictures_of_one_size_are_kept_as_they_are() -> None:
    made = pictures(5)
    np.testing.assert_allclose(PixelEncoder().encode(made), np.stack(made).reshape(5, 90) / 255, rtol=1e-6)
    assert PixelEncoder().encode([]).shape == (0, 0)


def test_pictures_of_any_size_are_squeezed() -> None:
    encoder = PixelEncoder(2)
    rows = encoder.encode([np.full((9, 4, 3), 51, np.uint8), np.full((1, 1, 3), 255, np.uint8)])
    assert encoder.width == 12
    assert rows.tolist() == [[np.float32(0.2)] * 12, [1] * 12]
    assert encoder.encode([]).shape == (0, 12)


def test_kept_pictures_of_different_sizes_are_refused() -> None:
    message = r"pictures of different sizes \(5 x 6, 3 x 8\) cannot be kept as they are; give a size"
    with pytest.raises(InvalidInput, match=message):
        PixelEncoder().encode([picture(), picture(height=8, width=3), picture()])
    with pytest.raises(InvalidInput, match="no fixed number of features; give a size"):
        _ = PixelEncoder().width


def test_a_size_is_a_number_of_pixels() -> None:
    with pytest.raises(InvalidInput, match="size is the side of a picture in pixels, from 1 up, got 0"):
        PixelEncoder(0)
