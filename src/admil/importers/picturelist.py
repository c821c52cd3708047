"""Which pictures make up which bag: from folders, or from a CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from admil.errors import InvalidInput
from admil.features import PICTURE_SUFFIXES
from admil.importers.labels import LabelReader
from admil.importers.source import check_file, reading
from admil.importers.tiles import Box

__all__ = ["BOX_COLUMNS", "ListedBag", "ListedPicture", "PictureList", "listed_file", "listed_folder"]

BOX_COLUMNS = ("left", "top", "right", "bottom")

_EXPECTED = "a CSV in UTF-8 with the columns bag and path"


@dataclass(frozen=True)
class ListedPicture:
    """An instance, or a picture that is to be cut into some.

    Attributes:
        path: of its file, as it is written.
        box: the part that is meant; None for all of it.
        positive: 0 or 1 where it is known.
    """

    path: str
    box: Box | None = None
    positive: int | None = None


@dataclass(frozen=True)
class ListedBag:
    """A bag of pictures.

    Attributes:
        id: its id.
        pictures: returns what it holds, in order.
        label: 0, 1, or None where it is not known.
        split: "train", "test" or another word, if known.
    """

    id: str
    pictures: Callable[[], Sequence[ListedPicture]]
    label: int | None = None
    split: str | None = None


@dataclass(frozen=True)
class PictureList:
    """All bags of a source, in order.

    Attributes:
        bags: the bags.
        has_boxes: whether any picture has a box.
        has_truth: whether the labels of instances are known.
    """

    bags: tuple[ListedBag, ...]
    has_boxes: bool = False
    has_truth: bool = False


def listed_folder(folder: Path, flat: bool) -> PictureList:
    """List a folder with a folder of pictures per bag, or with a picture per bag.

    Args:
        folder: the folder.
        flat: whether pictures that lie in it are bags.

    Raises:
        InvalidInput: it holds neither, or both.
    """
    with reading(folder, "a folder of pictures"):
        visible = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        folders = [path.name for path in visible if path.is_dir()]
        files = _pictures(visible)
    if files and folders:
        raise InvalidInput(
            f"{folder} holds pictures ({files[0]}, …) beside folders ({folders[0]}, …); it should hold a folder of "
            "pictures for every bag, or only pictures",
            folder,
        )
    if files and not flat:
        raise InvalidInput(
            f"{folder} holds pictures but no folders; put the pictures of each bag into a folder named for it, or "
            "say how large tiles are, for bags that are one picture each",
            folder,
        )
    if files:
        return PictureList(tuple(ListedBag(Path(name).stem, partial(_one, name)) for name in files))
    if not folders:
        raise InvalidInput(f"{folder} holds no picture and no folder of pictures", folder)
    return PictureList(tuple(ListedBag(name, partial(_inside, folder, name)) for name in folders))


def listed_file(path: Path) -> PictureList:
    """List what a CSV says; see `admil.importers.ImageImporter`.

    Raises:
        CorruptFile: there is no such file, or it is no CSV.
        InvalidInput: a line says what cannot be; the message names it.
    """
    check_file(path, _EXPECTED)
    rows = _Rows(path)
    with reading(path, _EXPECTED), path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.DictReader(file, strict=True)
        rows.head(lines.fieldnames or ())
        for line in lines:
            rows.add(line, f"{path}, line {lines.line_num}")
    return rows.listed()


@dataclass
class _Bag:
    """A bag while its lines are read."""

    label: int | None
    split: str | None
    pictures: list[ListedPicture] = field(default_factory=list)


class _Rows:
    """The lines of a CSV, while they are read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bags: dict[str, _Bag] = {}
        self.labels, self.truth = LabelReader(), LabelReader()

    def head(self, names: Sequence[str]) -> None:
        """Read the header."""
        self.columns = {name.strip().lower(): name for name in names if name is not None}
        if "bag" not in self.columns or "path" not in self.columns:
            raise InvalidInput(
                f"{self.path} needs a header with a column 'bag' and a column 'path', separated by a comma; "
                f"its columns are: {', '.join(self.columns) or 'none'}",
                self.path,
            )
        boxed = [name for name in BOX_COLUMNS if name in self.columns]
        if boxed and len(boxed) < len(BOX_COLUMNS):
            raise InvalidInput(
                f"{self.path}: a box needs the columns {', '.join(BOX_COLUMNS)}, there is {', '.join(boxed)} only",
                self.path,
            )
        self.has_boxes = bool(boxed)

    def add(self, line: Mapping[str, str], where: str) -> None:
        """Read a line."""
        value = {name: (line[column] or "").strip() for name, column in self.columns.items()}
        if not value["bag"] or not value["path"]:
            raise InvalidInput(f"{where}: the {'path' if value['bag'] else 'bag id'} is empty", self.path)
        label = self.labels(value.get("label"), where)
        split = value.get("split") or None
        bag = self.bags.setdefault(value["bag"], _Bag(label, split))
        if (bag.label, bag.split) != (label, split):
            raise InvalidInput(
                f"{where}: bag {value['bag']!r} has label {label} and split {split}, in its first line "
                f"{bag.label} and {bag.split}; all lines of a bag say the same",
                self.path,
            )
        positive = self.truth(value.get("instance_label"), where)
        bag.pictures.append(ListedPicture(value["path"], self._box(value, where), positive))

    def listed(self) -> PictureList:
        """Return all bags."""
        if not self.bags:
            raise InvalidInput(f"{self.path} has a header and no lines; it needs one for each instance", self.path)
        bags = tuple(
            ListedBag(id_, partial(_known, self.path, id_, bag), bag.label, bag.split) for id_, bag in self.bags.items()
        )
        has_truth = any(picture.positive is not None for bag in self.bags.values() for picture in bag.pictures)
        return PictureList(bags, self.has_boxes, has_truth)

    def _box(self, value: Mapping[str, str], where: str) -> Box | None:
        sides = [value[name] for name in BOX_COLUMNS] if self.has_boxes else []
        if not any(sides):
            return None
        try:
            left, top, right, bottom = (int(side) for side in sides)
        except ValueError:
            raise InvalidInput(f"{where}: a box is four whole numbers, got {', '.join(sides)}", self.path) from None
        if not (0 <= left < right and 0 <= top < bottom):
            raise InvalidInput(
                f"{where}: a box goes from left to a larger right and from top to a larger bottom, from 0 up, "
                f"got {', '.join(sides)}",
                self.path,
            )
        return left, top, right, bottom


def _pictures(paths: Sequence[Path]) -> list[str]:
    return [path.name for path in paths if path.suffix.lower() in PICTURE_SUFFIXES and path.is_file()]


def _one(name: str) -> list[ListedPicture]:
    return [ListedPicture(name)]


def _inside(folder: Path, bag: str) -> list[ListedPicture]:
    with reading(folder / bag, "a folder of pictures"):
        names = _pictures(sorted(path for path in (folder / bag).iterdir() if not path.name.startswith(".")))
    if not names:
        endings = ", ".join(PICTURE_SUFFIXES)
        raise InvalidInput(f"bag {bag!r}: the folder {folder / bag} holds no picture ({endings})", bag)
    return [ListedPicture(f"{bag}/{name}") for name in names]


def _known(path: Path, bag: str, found: _Bag) -> list[ListedPicture]:
    """Return the pictures of a bag of which all or none have a label."""
    labelled = sum(picture.positive is not None for picture in found.pictures)
    if 0 < labelled < len(found.pictures):
        raise InvalidInput(
            f"{path}: {labelled} of the {len(found.pictures)} lines of bag {bag!r} have an instance label; "
            "label all of a bag or none",
            bag,
        )
    return found.pictures
