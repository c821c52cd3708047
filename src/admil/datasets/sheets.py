"""Contact sheets: the small pictures of a bag on one page, so that a person can look at each."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

from admil.features import Picture

__all__ = ["boxes", "contact_sheet"]

_ACROSS = 8


def contact_sheet(pictures: Sequence[Picture]) -> bytes:
    """Return a PNG with pictures of one size, eight in a row, in order.  Same pictures, same bytes."""
    height, width = pictures[0].shape[:2]
    across = min(_ACROSS, len(pictures))
    page = np.zeros((-(-len(pictures) // across) * height, across * width, 3), dtype=np.uint8)
    for picture, left, top in zip(pictures, *_corners(len(pictures), height, width), strict=True):
        page[top : top + height, left : left + width] = picture
    file = io.BytesIO()
    Image.fromarray(page).save(file, "PNG")
    return file.getvalue()


def boxes(count: int, height: int, width: int) -> dict[str, list[int]]:
    """Return where the pictures of a `contact_sheet` lie, as columns of the instance table."""
    left, top = _corners(count, height, width)
    return {
        "left": left,
        "top": top,
        "right": [each + width for each in left],
        "bottom": [each + height for each in top],
    }


def _corners(count: int, height: int, width: int) -> tuple[list[int], list[int]]:
    places = [divmod(number, _ACROSS) for number in range(count)]
    return [column * width for _, column in places], [row * height for row, _ in places]
