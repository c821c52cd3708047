"""PASCAL VOC 2012 segmentation: a picture is a bag, the cells of a grid over it are its instances.

A picture with a pixel of the target class is a positive bag; as many pictures without any are drawn as
negative bags.  A cell is positive if at least 5 % of its pixels show the target.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from admil.datasets.dealing import split_generator
from admil.datasets.download import Download
from admil.datasets.raw import is_archive, unpack
from admil.errors import CorruptFile, InvalidInput
from admil.features import MAX_PIXELS, FeatureCache, PictureEncoder, cache_folder, encode_pictures, read_picture
from admil.importers import BagReader, ReadBag, reading
from admil.store import Source

__all__ = ["VOC_CLASSES", "VOC_DOWNLOAD", "Edges", "NoCell", "Voc", "Void", "grid"]

VOC_CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog"),
    *("horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
"""The classes, in the order of their values 1 to 20 in the masks."""

VOC_DOWNLOAD = Download(
    "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar",
    "VOCtrainval_11-May-2012.tar",
    1_999_639_040,
    "6cd6e144f989b92b3379bac3b3de84fd",
    "md5",
    ("https://data.pjreddie.com/files/VOCtrainval_11-May-2012.tar",),
)

Edges = Literal["keep", "drop", "merge"]
Void = Literal["counts", "excluded"]
NoCell = Literal["best", "leave-out"]

_VOID = 255
_FOLDERS = ("JPEGImages", "SegmentationClass")
_LIST = PurePosixPath("ImageSets/Segmentation/trainval.txt")
_NAME = re.compile(r"\w[\w.-]*")


class Voc:
    """The pictures of the list ``trainval`` of the segmentation task in bags.

    Args:
        path: the folder ``VOC2012`` (with JPEGImages, SegmentationClass and ImageSets), one above it, or the
            archive as downloaded, which is unpacked into the cache.
        seed: draws the negative pictures and the split.
        encoder: makes the features of a cell.
        cache: where features are kept; None for nowhere.
        target: the class that is looked for.
        cell: width and height of a cell in pixels.
        edges: what becomes of the strips at the right and the bottom that no full cell covers.  ``keep``: they
            are smaller cells.  ``drop``: they belong to no instance.  ``merge``: the last full cells grow.
        least: share of a cell's pixels from which it is positive.
        void: pixels marked void (255: borders, difficult objects) are never the target.  ``counts``: they are
            part of the cell's pixels.  ``excluded``: the share is taken of the others.
        no_cell: a picture that shows the target so small that no cell is positive.  ``best``: the cell with the
            largest share is.  ``leave-out``: the picture is in no bag.  One that shows it only where no cell is
            (``edges="drop"``) is in no bag either way.
        train_share: share of the positive pictures that go to the training split, rounded down.
        on_picture: called with the masks looked at so far and their number.
    """

    def __init__(
        self,
        path: str | Path,
        seed: int,
        encoder: PictureEncoder,
        cache: FeatureCache | None = None,
        target: str = "bird",
        cell: tuple[int, int] = (60, 75),
        edges: Edges = "keep",
        least: float = 0.05,
        void: Void = "counts",
        no_cell: NoCell = "best",
        train_share: float = 0.6,
        on_picture: Callable[[int, int], None] | None = None,
    ) -> None:
        _check_request(target, cell, edges, least, void, no_cell, train_share)
        self._root = _root(Path(path))
        self._rule = _Rule(VOC_CLASSES.index(target) + 1, cell, edges, least, void, no_cell)
        self._encoder, self._cache = encoder, cache
        found = self._look(on_picture)
        self._splits = _split(found, target, seed, train_share)
        self._positive = found
        options = {"seed": seed, "target": target, "cell": list(cell), "edges": edges, "least": least, "void": void}
        options |= {"no_cell": no_cell, "train_share": train_share, "pictures": len(found)}
        self.source = Source(kind="voc", name=self._root.name, options=options, root=str(self._root))

    @property
    def features(self) -> Mapping[str, Any]:
        """See `Importer`."""
        return self._encoder.identity

    def ids(self) -> list[str]:
        """See `Importer`."""
        return [picture for pictures in self._splits.values() for picture in pictures]

    def bags(self) -> Iterator[BagReader]:
        """See `Importer`."""
        for split, pictures in self._splits.items():
            for picture in pictures:
                yield BagReader(picture, partial(self._read, picture, split))

    def _look(self, on_picture: Callable[[int, int], None] | None) -> dict[str, bool]:
        """Return which pictures of the list show the target."""
        with reading(self._root / _LIST, "a picture's name on each line"):
            names = (self._root / _LIST).read_text(encoding="utf-8").split()
            _check_names(names)
        found = {}
        for number, name in enumerate(names, start=1):
            mask = self._mask(name)
            shows = bool((mask == self._rule.value).any())
            if not shows or self._rule.positive(mask).any():
                found[name] = shows
            if on_picture is not None:
                on_picture(number, len(names))
        return found

    def _mask(self, name: str) -> NDArray[np.uint8]:
        path = self._root / "SegmentationClass" / f"{name}.png"
        with reading(path, "an indexed PNG with a class number per pixel"):
            return _read_mask(path)

    def _read(self, name: str, split: str) -> ReadBag:
        path = self._root / "JPEGImages" / f"{name}.jpg"
        picture, mask = read_picture(path), self._mask(name)
        if picture.shape[:2] != mask.shape:
            sizes = [f"{width} x {height}" for height, width in (picture.shape[:2], mask.shape)]
            raise CorruptFile(f"{path} is {sizes[0]}, its mask is {sizes[1]}: they do not belong together", path)
        boxes = grid(mask.shape[1], mask.shape[0], self._rule.cell, self._rule.edges)
        cells = [picture[top:bottom, left:right] for left, top, right, bottom in boxes]
        columns: dict[str, Sequence[Any]] = {"path": [f"JPEGImages/{name}.jpg"] * len(boxes)}
        columns |= {side: [box[at] for box in boxes] for at, side in enumerate(("left", "top", "right", "bottom"))}
        positive = self._rule.positive(mask)
        features = encode_pictures(cells, self._encoder, self._cache)
        return ReadBag(features, int(self._positive[name]), split, columns, positive)


def grid(width: int, height: int, cell: tuple[int, int], edges: Edges = "keep") -> list[tuple[int, int, int, int]]:
    """Return the boxes (left, top, right, bottom) of the cells, row by row; right and bottom lie outside.

    A picture smaller than a cell is one cell, whatever ``edges`` says.

    >>> grid(130, 75, (60, 75))
    [(0, 0, 60, 75), (60, 0, 120, 75), (120, 0, 130, 75)]
    >>> grid(130, 75, (60, 75), "merge")
    [(0, 0, 60, 75), (60, 0, 130, 75)]
    """
    columns, rows = (_bounds(length, step, edges) for length, step in zip((width, height), cell, strict=True))
    return [(left, top, right, bottom) for top, bottom in pairwise(rows) for left, right in pairwise(columns)]


def _bounds(length: int, step: int, edges: Edges) -> list[int]:
    bounds = list(range(0, length + 1, step))
    if len(bounds) == 1 or (edges == "keep" and bounds[-1] < length):
        return [*bounds, length]
    return [*bounds[:-1], length] if edges == "merge" else bounds


def _read_mask(path: Path) -> NDArray[np.uint8]:
    """Return the class number of every pixel, (H, W)."""
    try:
        with Image.open(path, formats=["PNG"]) as image:
            if image.mode not in ("P", "L"):  # other modes hold the colours of the classes, not their numbers
                raise ValueError(f"its mode is {image.mode}")
            if image.width * image.height > MAX_PIXELS:
                raise ValueError(f"it has {image.width:,} x {image.height:,} pixels")
            mask = np.array(image, dtype=np.uint8)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(str(error)) from error
    worst = mask[mask != _VOID].max(initial=0)
    if worst > len(VOC_CLASSES):
        raise ValueError(f"a pixel has value {worst}")
    return mask


@dataclass(frozen=True)
class _Rule:
    """What makes a cell positive."""

    value: int
    cell: tuple[int, int]
    edges: Edges
    least: float
    void: Void
    no_cell: NoCell

    def positive(self, mask: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Return which cells of a picture are positive."""
        shares = np.array([self._share(mask[t:b, le:r]) for le, t, r, b in self._boxes(mask)])
        positive: NDArray[np.bool_] = shares >= self.least
        if self.no_cell == "best" and not positive.any() and shares.any():
            positive[shares.argmax()] = True
        return positive

    def _boxes(self, mask: NDArray[np.uint8]) -> list[tuple[int, int, int, int]]:
        return grid(mask.shape[1], mask.shape[0], self.cell, self.edges)

    def _share(self, cell: NDArray[np.uint8]) -> float:
        pixels = cell.size if self.void == "counts" else int((cell != _VOID).sum())
        return int((cell == self.value).sum()) / pixels if pixels else 0.0


def _split(found: Mapping[str, bool], target: str, seed: int, train_share: float) -> dict[str, list[str]]:
    """Return the pictures of each split: the positive ones, then the negative ones."""
    rng = split_generator(seed)
    shows, lacks = ([name for name, there in found.items() if there == value] for value in (True, False))
    if len(shows) < 2 or len(lacks) < len(shows):
        raise InvalidInput(
            f"expected two pictures with a {target} at least and as many without, the list has {len(shows)} with and "
            f"{len(lacks)} without; choose another target",
            target,
        )
    shows = [shows[at] for at in rng.permutation(len(shows))]
    lacks = [lacks[at] for at in rng.permutation(len(lacks))[: len(shows)]]
    train = min(max(int(train_share * len(shows) + 1e-9), 1), len(shows) - 1)
    return {"train": shows[:train] + lacks[:train], "test": shows[train:] + lacks[train:]}


def _root(path: Path) -> Path:
    """Return the folder that holds the data set's folders."""
    place = path
    if is_archive(path):
        place = cache_folder() / "raw" / f"{path.name.split('.')[0]}-{path.stat().st_size}"
        unpack(path, place, _is_wanted)
    candidates = [place, place / "VOC2012", place / "VOCdevkit" / "VOC2012"]
    candidates += [each / "VOCdevkit" / "VOC2012" for each in sorted(place.glob("*")) if each.is_dir()]
    for folder in candidates:
        if (folder / _LIST).is_file():
            return folder.resolve()
    raise CorruptFile(f"there is no {_LIST} in {path}; give the folder VOC2012 with all that belongs to it", path)


def _check_names(names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{twice[0]!r} is there twice")
    strange = [name for name in names if not _NAME.fullmatch(name)]
    if strange:
        raise ValueError(f"{strange[0]!r} is no name of a picture")


def _is_wanted(name: PurePosixPath) -> bool:
    return name.parent.name in _FOLDERS or name.parts[-3:] == _LIST.parts


def _check_request(
    target: str, cell: tuple[int, int], edges: str, least: float, void: str, no_cell: str, train_share: float
) -> None:
    if target not in VOC_CLASSES:
        raise InvalidInput(f"there is no class {target!r}; choose among {', '.join(VOC_CLASSES)}", target)
    if min(cell) < 1:
        raise InvalidInput(f"a cell has a width and a height of 1 pixel at least, got {cell}", cell)
    for name, value, allowed in (("edges", edges, Edges), ("void", void, Void), ("no_cell", no_cell, NoCell)):
        if value not in get_args(allowed):
            raise InvalidInput(f"{name} is one of {', '.join(get_args(allowed))}, not {value!r}", value)
    for name, share in (("least", least), ("train_share", train_share)):
        if not 0 < share < 1:
            raise InvalidInput(f"{name} is a share between 0 and 1, got {share}", share)
