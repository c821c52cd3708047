"""Pictures: a folder of them per bag, a list of them, or pictures cut into tiles."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admil.errors import AdmilError, CorruptFile, InvalidInput, warn
from admil.features import (
    MAX_PIXELS,
    FeatureCache,
    Picture,
    PictureEncoder,
    encode_pictures,
    read_picture,
)
from admil.features.ahead import ReadAhead
from admil.importers.passed import PassedOver, check_links, passed_over
from admil.importers.picturelist import BOX_COLUMNS, ListedPicture, listed_file, listed_folder
from admil.importers.source import BagReader, ReadBag, name_of, place_of, reading
from admil.importers.tiles import Box, EdgeRule, Tiling
from admil.store import Source

__all__ = ["ImageImporter"]

_WAITING_PIXELS, _WAITING_PICTURES = 2**24, 64
"""What waits for the encoder at most before it is called."""

_AHEAD_PIXELS = 2**26
"""What is decoded at most before it is asked for, of this bag and of those that follow."""

_LABELS = "labels.csv"
"""What may lie beside the folders of bags without being a picture."""


@dataclass(frozen=True, eq=False)
class _File:
    """A file with its instances, all that a bag has of it in a row."""

    path: str
    instances: tuple[ListedPicture, ...]


@dataclass(frozen=True, eq=False)
class _Decoded:
    """The path of a file, relative to the root, and the picture in it."""

    path: str
    picture: Picture


_Ahead = ReadAhead[_File, _Decoded]


class ImageImporter:
    """Imports pictures, encoding them on the way.

    ``path`` is one of

    * a folder with a folder of pictures for every bag, SOURCE/BAG/*.jpg: the bag is named by the folder;
    * with ``tiles``, a folder of pictures: each is a bag of its tiles, named by the file without its ending;
    * a CSV in UTF-8 with a line per instance and a header: ``bag`` and ``path``, and where known ``label`` and
      ``split`` of the bag, ``instance_label``, and ``left``, ``top``, ``right``, ``bottom`` of the part that is meant.

    Bags and files of a folder come in the order of their names, those of a CSV in its own.  Hidden files, files not
    named like pictures and folders inside a bag's are passed over; a warning at the end counts them.  With ``tiles``
    every picture is cut up, in the other two kinds as well.  Boxes are in pixels of the upright picture; the instance
    table gets them and ``path``, relative to the source's root.

    Args:
        path: the folder or the CSV.
        encoder: what turns pictures into features.
        cache: where features are kept for the next time.
        tiles: width and height of a tile; None takes pictures whole.
        stride: see `Tiling`.
        edge: see `Tiling`.
        root: the folder that paths in a CSV are relative to; None is the CSV's own.
        max_pixels: the largest picture to decode.
        skip_errors: whether a picture that cannot be read is left out of its bag, with its reason.  A bag of
            which nothing is left cannot be read.
        threads: how many decode pictures while others are encoded; None takes up to four.

    Raises:
        InvalidInput: the source is not of these kinds, or a link in it leads nowhere; or, later, a picture lies
            outside the root, links included.
    """

    def __init__(
        self,
        path: str | Path,
        encoder: PictureEncoder,
        cache: FeatureCache | None = None,
        *,
        tiles: tuple[int, int] | None = None,
        stride: tuple[int, int] | None = None,
        edge: EdgeRule = "shift",
        root: str | Path | None = None,
        max_pixels: int = MAX_PIXELS,
        skip_errors: bool = False,
        threads: int | None = None,
    ) -> None:
        if tiles is None and stride is not None:
            raise InvalidInput("a stride is for tiles: give their size too, or leave it out", stride)
        if threads is not None and threads < 1:
            raise InvalidInput(f"threads is how many decode pictures, from 1 up, got {threads}", threads)
        self.path, self.encoder, self.cache = Path(path), encoder, cache
        self.max_pixels, self.skip_errors = max_pixels, skip_errors
        self._tiling = None if tiles is None else Tiling(tiles, stride, edge)
        self._threads = threads or min(4, os.cpu_count() or 1)
        is_folder = self.path.is_dir()
        if is_folder and root is not None:
            raise InvalidInput("paths in a folder are relative to it: a root is for a CSV, leave it out", root)
        self._list = listed_folder(self.path, flat=tiles is not None) if is_folder else listed_file(self.path)
        self._root = self.path.resolve() if is_folder else Path(root or self.path.parent).resolve()
        self._nested = is_folder and (self._root / self._list.bags[0].id).is_dir()
        self._beside = self._lies_beside() if is_folder else PassedOver()
        if self._tiling is not None and (self._list.has_boxes or self._list.has_truth):
            raise InvalidInput(f"{path} has boxes or instance labels; only whole pictures can be cut into tiles", path)

    @property
    def source(self) -> Source:
        """See `Importer`."""
        options = {} if self._tiling is None else self._tiling.options
        return Source(
            kind="images", name=name_of(self.path), place=place_of(self.path), options=options, root=str(self._root)
        )

    @property
    def features(self) -> Mapping[str, Any]:
        """See `Importer`."""
        return self.encoder.identity

    def ids(self) -> list[str]:
        """See `Importer`."""
        return [bag.id for bag in self._list.bags]

    def bags(self) -> Iterator[BagReader]:
        """See `Importer`."""
        ahead = _Ahead(
            len(self._list.bags),
            self._files,
            self._decode,
            lambda decoded: decoded.picture.size // 3,
            threads=self._threads,
            most=_WAITING_PICTURES,
            heaviest=_AHEAD_PIXELS,
        )
        passed: list[PassedOver] = []
        try:
            for number, bag in enumerate(self._list.bags):
                yield BagReader(bag.id, partial(self._read, number, ahead, passed))
        finally:
            ahead.close()
        if passed and (together := sum(passed, self._beside)):
            warn(f"passed over in {self.path}: {together}")

    def _read(self, number: int, ahead: _Ahead, passed: list[PassedOver]) -> ReadBag:
        """Cut and encode a bag's pictures, a few of them in memory at a time, while others are decoded."""
        bag = self._list.bags[number]
        rows = _Rows(bag.id, self.encoder, self.cache)
        left_out: list[str] = []
        taken: set[str] = set()
        for file, decoded in ahead.take(number):
            taken.add(Path(file.path).name)
            for instance in file.instances:
                try:
                    found = decoded.result()
                    boxes = self._boxes(instance, found.picture)
                except AdmilError as error:
                    said = f"bag {bag.id!r}: {error}"
                    if not self.skip_errors:
                        raise type(error)(said, error.subject) from error
                    left_out.append(said)
                else:
                    rows.add(found.path, found.picture, boxes, instance.positive)
        passed.append(passed_over(self._root / bag.id, taken) if self._nested else PassedOver())
        features = rows.features(left_out)
        columns = rows.columns(self._tiling is not None or self._list.has_boxes)
        return ReadBag(features, bag.label, bag.split, columns, rows.truth(), tuple(left_out))

    def _lies_beside(self) -> PassedOver:
        """Look at what lies in the source's folder beside the bags."""
        if not self.skip_errors:
            check_links(self._root)
        bags = self._list.bags
        taken = {bag.id for bag in bags} if self._nested else {file.path for bag in bags for file in bag.pictures()}
        return passed_over(self._root, taken | {_LABELS})

    def _files(self, number: int) -> list[_File]:
        bag = self._list.bags[number]
        if self._nested and not self.skip_errors:
            check_links(self._root / bag.id)
        return [_File(path, tuple(group)) for path, group in groupby(bag.pictures(), key=lambda each: each.path)]

    def _decode(self, file: _File) -> _Decoded:
        named = self._root / file.path
        with reading(named, f"a picture in {self._root}"):
            found = named.resolve()
            if not found.is_relative_to(self._root):
                raise InvalidInput(
                    f"the picture {file.path} lies outside {self._root}, at {found}; only what is inside is read: copy "
                    "it there, or give a CSV and a root that holds all",
                    file.path,
                )
            if not found.exists() and named.is_symlink():
                raise CorruptFile(f"the link {named} leads to {found}, where nothing is: mend or delete it", file.path)
        return _Decoded(found.relative_to(self._root).as_posix(), read_picture(found, self.max_pixels))

    def _boxes(self, instance: ListedPicture, picture: Picture) -> list[Box]:
        height, width = picture.shape[:2]
        if self._tiling is not None:
            return self._tiling.boxes(width, height)
        if instance.box is None:
            return [(0, 0, width, height)]
        if instance.box[2] > width or instance.box[3] > height:
            raise InvalidInput(
                f"the box {instance.box} reaches over the edge of {instance.path}, {width} x {height} pixels", instance
            )
        return [instance.box]


class _Rows:
    """The instances of a bag, while they are gathered and encoded."""

    def __init__(self, bag: str, encoder: PictureEncoder, cache: FeatureCache | None) -> None:
        self.bag, self.encoder, self.cache = bag, encoder, cache
        self._paths: list[str] = []
        self._boxes: list[Box] = []
        self._positive: list[int | None] = []
        self._waiting: list[Picture] = []
        self._pixels = 0
        self._parts: list[NDArray[np.float32]] = []

    def add(self, path: str, picture: Picture, boxes: Sequence[Box], positive: int | None) -> None:
        """Take the parts of a picture."""
        self._paths += [path] * len(boxes)
        self._boxes += boxes
        self._positive += [positive] * len(boxes)
        self._waiting += [picture[top:bottom, left:right] for left, top, right, bottom in boxes]
        self._pixels += picture.shape[0] * picture.shape[1]  # parts keep the whole picture in memory
        if self._pixels >= _WAITING_PIXELS or len(self._waiting) >= _WAITING_PICTURES:
            self._encode()

    def features(self, left_out: Sequence[str]) -> NDArray[np.float32]:
        """Return the (n, D) features of all of them."""
        self._encode()
        if not self._parts:
            why = f"; the first: {left_out[0]}" if left_out else ": its pictures are smaller than a tile"
            raise InvalidInput(f"bag {self.bag!r} has no instance left{why}", self.bag)
        widths = sorted({part.shape[1] for part in self._parts})
        if len(widths) > 1:
            raise InvalidInput(
                f"bag {self.bag!r}: its pictures have {widths[0]} to {widths[-1]} features; give the encoder a size",
                self.bag,
            )
        return np.concatenate(self._parts)

    def columns(self, boxed: bool) -> dict[str, list[Any]]:
        """Return the instance table."""
        columns: dict[str, list[Any]] = {"path": self._paths}
        if boxed:
            columns |= {name: [box[side] for box in self._boxes] for side, name in enumerate(BOX_COLUMNS)}
        return columns

    def truth(self) -> NDArray[np.bool_] | None:
        """Return the labels of the instances, where they are known."""
        return None if None in self._positive else np.array(self._positive, dtype=bool)

    def _encode(self) -> None:
        if self._waiting:
            try:
                self._parts.append(encode_pictures(self._waiting, self.encoder, self.cache))
            except InvalidInput as error:
                raise InvalidInput(f"bag {self.bag!r}: {error}", self.bag) from error
        self._waiting, self._pixels = [], 0
