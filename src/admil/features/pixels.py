"""Pixels as features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admil.errors import InvalidInput
from admil.features.encoder import Picture
from admil.features.pictures import checked_picture, resized

__all__ = ["PixelEncoder"]


class PixelEncoder:
    """The pixels of a picture, 0 to 1, row by row, red green blue; it needs no model and no weights.

    Args:
        size: side that pictures are squeezed to; None keeps each as it is, and all must then have one size.
    """

    def __init__(self, size: int | None = None) -> None:
        if size is not None and size < 1:
            raise InvalidInput(f"size is the side of a picture in pixels, from 1 up, got {size}", size)
        self.size = size

    @property
    def width(self) -> int:
        """The number of features; not known before a picture comes where sizes are kept."""
        if self.size is None:
            raise InvalidInput(
                "pixels of pictures of any size have no fixed number of features; give a size", self.size
            )
        return 3 * self.size**2

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `PictureEncoder`."""
        return {"encoder": "pixels", "size": self.size}

    def encode(self, pictures: Sequence[Picture]) -> NDArray[np.float32]:
        """See `PictureEncoder`.

        >>> grey = np.full((2, 2, 3), 51, np.uint8)
        >>> PixelEncoder(size=1).encode([grey])
        array([[0.2, 0.2, 0.2]], dtype=float32)
        """
        given = [checked_picture(picture) for picture in pictures]
        if self.size is not None:
            given = [resized(picture, self.size) for picture in given]
        if not given:
            return np.zeros((0, 0 if self.size is None else self.width), np.float32)
        shapes = sorted({picture.shape[:2] for picture in given})
        if len(shapes) > 1:
            (height, width), (other_height, other_width) = shapes[0], shapes[-1]
            raise InvalidInput(
                f"pictures of different sizes ({width} x {height}, {other_width} x {other_height}) "
                "cannot be kept as they are; give a size",
                shapes,
            )
        return np.stack(given).reshape(len(given), -1).astype(np.float32) / np.float32(255)
