"""A sheet of pictures with captions: instances to look at, side by side."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from admil.errors import CorruptFile

__all__ = ["Pictured", "contact_sheet"]

_COLUMNS = 5


@dataclass(frozen=True)
class Pictured:
    """A picture, or a part of one.

    Attributes:
        path: the picture.
        box: left, top, right and bottom of the part; None for the whole.
        caption: what to write above it.
        around: what is shown around the box, in sizes of the box, so that one sees where it lies.
    """

    path: Path
    box: tuple[int, int, int, int] | None
    caption: str
    around: float = 1.0


def contact_sheet(pictures: Sequence[Pictured]) -> bytes:
    """Return a PNG of the pictures in rows, each box with its surroundings and a frame."""
    rows = -(-len(pictures) // _COLUMNS)
    figure = Figure(figsize=(2.1 * _COLUMNS, 2.3 * rows), layout="constrained")
    cells = figure.subplots(rows, _COLUMNS, squeeze=False).ravel()
    for axes in cells:
        axes.set_axis_off()
    for axes, pictured in zip(cells, pictures, strict=False):
        shown, frame = _cut(pictured)
        axes.imshow(shown, cmap="gray")
        if frame is not None:
            left, top, right, bottom = frame
            corners = [left, right, right, left, left], [top, top, bottom, bottom, top]
            axes.plot(*corners, color="white", linewidth=2.6)
            axes.plot(*corners, color="#D55E00", linewidth=1.4)
        axes.set_title(pictured.caption, fontsize=7)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    return buffer.getvalue()


def _cut(pictured: Pictured) -> tuple[Image.Image, tuple[float, float, float, float] | None]:
    """Return what to show of a picture and where the box lies in it."""
    try:
        with Image.open(pictured.path) as file:
            picture = file.convert("RGB")
    except (OSError, SyntaxError, ValueError) as error:
        raise CorruptFile(f"the picture {pictured.path} cannot be read: {error}", pictured.path) from error
    if pictured.box is None:
        return picture, None
    left, top, right, bottom = pictured.box
    aside, above = pictured.around * (right - left), pictured.around * (bottom - top)
    view = (
        max(0, int(left - aside)),
        max(0, int(top - above)),
        min(picture.width, int(right + aside)),
        min(picture.height, int(bottom + above)),
    )
    frame = (left - view[0] - 0.5, top - view[1] - 0.5, right - view[0] - 0.5, bottom - view[1] - 0.5)
    return picture.crop(view), frame
