"""Pictures: a folder of them per bag, a list of them, or pictures cut into tiles."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admil.errors import AdmilError, InvalidInput
from admil.features import (
    MAX_PIXELS,
    FeatureCache,
    Picture,
    PictureEncoder,
    encode_pictures,
    read_picture,
)
from admil.importers.picturelist import BOX_COLUMNS, ListedBag, ListedPicture, listed_file, listed_folder
from admil.importers.source import BagReader, ReadBag, name_of, place_of, reading
from admil.importers.tiles import Box, EdgeRule, Tiling
from admil.store import Source

__all__ = ["ImageImporter"]

_Decoded = tuple[str, Picture]
"""The path of a file, relative to the root, and the picture in it."""

_WAITING_PIXELS, _WAITING_PICTURES = 2**24, 64
"""What waits for the encoder at most before it is called."""


class ImageImporter:
    """Imports pictures, encoding them on the way.

    ``path`` is one of

    * a folder with a folder of pictures for every bag, SOURCE/BAG/*.jpg: the bag is named by the folder;
    * with ``tiles``, a folder of pictures: each is a bag of its tiles, named by the file without its ending;
    * a CSV in UTF-8 with a line per instance and a header: ``bag`` and ``path``, and where known ``label`` and
      ``split`` of the bag, ``instance_label``, and ``left``, ``top``, ``right``, ``bottom`` of the part that is meant.

    Bags and files of a folder come in the order of their names, those of a CSV in its own.  Hidden files, files not
    named like pictures and folders inside a bag's are passed over.  With ``tiles`` every picture is cut up, in the
    other two kinds as well.  Boxes are in pixels of the upright picture; the instance table gets them and ``path``,
    relative to the source's root.

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
        InvalidInput: the source is not of these kinds; or, later, a picture lies outside the root, links included.
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
        for bag in self._list.bags:
            yield BagReader(bag.id, partial(self._read, bag))

    def _read(self, bag: ListedBag) -> ReadBag:
        """Decode, cut and encode a bag's pictures, a few of them in memory at a time."""
        rows = _Rows(bag.id, self.encoder, self.cache)
        left_out: list[str] = []
        for listed, picture in self._decoded(bag.pictures()):
            for instance in listed:
                try:
                    path, found = picture.result()
                    boxes = self._boxes(instance, found)
                except AdmilError as error:
                    said = f"bag {bag.id!r}: {error}"
                    if not self.skip_errors:
                        raise type(error)(said, error.subject) from error
                    left_out.append(said)
                else:
                    rows.add(path, found, boxes, instance.positive)
        features = rows.features(left_out)
        columns = rows.columns(self._tiling is not None or self._list.has_boxes)
        return ReadBag(features, bag.label, bag.split, columns, rows.truth(), tuple(left_out))

    def _decoded(self, pictures: Iterable[ListedPicture]) -> Iterator[tuple[list[ListedPicture], Future[_Decoded]]]:
        """Yield the instances of each file with the decoded picture, a few files ahead, in order."""
        pool = ThreadPoolExecutor(self._threads)
        waiting: deque[tuple[list[ListedPicture], Future[_Decoded]]] = deque()
        try:
            for path, group in groupby(pictures, key=lambda picture: picture.path):
                waiting.append((list(group), pool.submit(self._decode, path)))
                if len(waiting) > self._threads:
                    yield waiting.popleft()
            while waiting:
                yield waiting.popleft()
        finally:
            pool.shutdown(cancel_futures=True)

    def _decode(self, path: str) -> _Decoded:
        with reading(self._root / path, f"a picture in {self._root}"):
            file = (self._root / path).resolve()
            if not file.is_relative_to(self._root):
                raise InvalidInput(f"the picture {path} lies outside {self._root}; only what is inside is read", path)
        return file.relative_to(self._root).as_posix(), read_picture(file, self.max_pixels)

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
