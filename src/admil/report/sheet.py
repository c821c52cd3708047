"""A sheet of pictures with captions: instances to look at, side by side."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from admil.bags import InstanceId
from admil.errors import CorruptFile, InvalidInput
from admil.store import BagStore

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

    @classmethod
    def of(cls, store: BagStore, instance: InstanceId, caption: str) -> Pictured:
        """Find the picture of an instance of a store.

        Raises:
            InvalidInput: the store knows of no picture.
        """
        details = store.details(instance.bag)
        seen = details[instance.index] if details else {}
        if not seen.get("path"):
            raise InvalidInput(f"{store.path} knows of no picture of instance {instance}", instance)
        left, top, right, bottom = (seen.get(name) for name in ("left", "top", "right", "bottom"))
        path = store.root_of(instance.bag) / seen["path"]
        # on the store's own pages the neighbours are other instances, which mean nothing
        around = 0.0 if path.parent == store.path / "pictures" else 1.0
        box = None if None in (left, top, right, bottom) else (int(left), int(top), int(right), int(bottom))  # type: ignore[arg-type]
        return cls(path, box, caption, around)


def contact_sheet(pictures: Sequence[Pictured]) -> bytes:
    """Return a PNG of the pictures in rows, each box with its surroundings and a frame, boxes at one scale."""
    rows = -(-len(pictures) // _COLUMNS)
    figure = Figure(figsize=(2.1 * _COLUMNS, 2.3 * rows), layout="constrained")
    cells = figure.subplots(rows, _COLUMNS, squeeze=False).ravel()
    for axes in cells:
        axes.set_axis_off()
    for axes, pictured in zip(cells, pictures, strict=False):
        _draw(axes, pictured)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    return buffer.getvalue()


def _draw(axes: Axes, pictured: Pictured) -> None:
    axes.set_title(pictured.caption, fontsize=7)
    picture = _opened(pictured.path)
    if pictured.box is None:
        axes.imshow(picture)
        return
    left, top, right, bottom = pictured.box
    aside, above = pictured.around * (right - left), pictured.around * (bottom - top)
    inside = (
        max(0, int(left - aside)),
        max(0, int(top - above)),
        min(picture.width, math.ceil(right + aside)),
        min(picture.height, math.ceil(bottom + above)),
    )
    axes.imshow(picture.crop(inside), extent=(inside[0], inside[2], inside[3], inside[1]))
    corners = [left, right, right, left, left], [top, top, bottom, bottom, top]
    axes.plot(*corners, color="white", linewidth=2.6)
    axes.plot(*corners, color="#D55E00", linewidth=1.4)
    axes.set_xlim(left - aside, right + aside)  # the same view where it reaches over the edge
    axes.set_ylim(bottom + above, top - above)


def _opened(path: Path) -> Image.Image:
    try:
        with Image.open(path) as file:
            return file.convert("RGB")
    except (OSError, SyntaxError, ValueError) as error:
        raise CorruptFile(f"the picture {path} cannot be read: {error}", path) from error
