"""Texts: lines of JSON with a bag, a label and a text each."""

from __future__ import annotations

import gzip
import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from admil.errors import InvalidInput
from admil.features import FeatureCache, TextEncoder, TfIdf, encode_texts, english_stop_words
from admil.importers.labels import LabelReader
from admil.importers.records import ColumnTypes, parsed
from admil.importers.source import (
    BagReader,
    ReadBag,
    check_file,
    check_unpacked,
    most_unpacked,
    name_of,
    place_of,
    reading,
)
from admil.store import Source

__all__ = ["TextImporter", "TextVocabulary"]

TextVocabulary = Literal["bags", "all"]
"""How terms are chosen: by contrast of positive and negative bags, or by how often they come."""

_GZIP = b"\x1f\x8b"
_CHUNK = 2**20
_EXPECTED = "lines of JSON with a bag and a text each"
_OWN = ("bag", "text", "index", "label", "split", "instance_label")
"""What is no column of the instance table, or is one already."""


class TextImporter:
    """Imports texts, encoding them on the way.

    The file has an object a line, in UTF-8, perhaps gzipped: ``bag``, a text or a whole number, and ``text``; where
    known ``label`` and ``split`` of the bag, the same in all its lines, and ``instance_label``.  Lines of a bag need
    not stand together; bags come in the order of their first lines.  The instance table gets ``text``, ``id`` as a
    text where any line has one, and all other values but those named ``bag`` and ``index``, which a store numbers
    instances with itself.

    The file is read twice, three times for TF-IDF: first for where the lines of each bag lie (in memory eight bytes
    a line, and the ids), at last bag by bag.  A gzipped one is unpacked into a temporary file each time.

    Without an encoder a TF-IDF is fitted to the texts of training bags: those with split "train", or, where no bag
    has a split, those with a label.  It becomes part of the store (`features`), from where ``fitted`` takes it for
    bags that are added later or are to be scored.  There ``labels_seen`` says that labels chose the terms: what is
    held out of these bags then flatters a model.

    Args:
        path: the file.
        encoder: what turns texts into features; None fits a TF-IDF.
        cache: where features are kept for the next time; not used for TF-IDF.
        width: terms of the TF-IDF.
        vocabulary: "bags" takes the terms whose mean weight in texts of positive bags most exceeds that in texts of
            negative bags; "all" the most frequent ones, which is seldom what tells bags apart.
        stop_words: whether English stop words (scikit-learn's list) may be terms.
        fitted: the ``features`` of a store, if its TF-IDF is to be used again.
        labels: label and split by bag id, which go before those of the file when a TF-IDF is fitted; bags that it
            does not name are left out of that.  Give the same to `run_import`.
        split: split of bags for which neither ``labels`` nor the file names one; give the same to `run_import`.
        skip_errors: whether an instance without a proper text is left out of its bag, with its reason.  A line
            that is no JSON, or names no bag, ends the import all the same: the file is damaged.
        positive: the label that says positive, where labels are words; all others say negative then.
        bag_key: what the bag is called in a line.
        text_key: what the text is called in a line; then a value called ``text`` is not read.
    """

    def __init__(
        self,
        path: str | Path,
        encoder: TextEncoder | None = None,
        cache: FeatureCache | None = None,
        *,
        width: int = 200,
        vocabulary: TextVocabulary = "bags",
        stop_words: bool = False,
        fitted: Mapping[str, Any] | None = None,
        labels: Mapping[str, tuple[int | None, str | None]] | None = None,
        split: str | None = None,
        skip_errors: bool = False,
        positive: str | None = None,
        bag_key: str = "bag",
        text_key: str = "text",
    ) -> None:
        if vocabulary not in get_args(TextVocabulary):
            raise InvalidInput(f"vocabulary is bags or all, got {vocabulary!r}", vocabulary)
        if encoder is not None and fitted is not None:
            raise InvalidInput("give an encoder or a fitted TF-IDF, not both", fitted)
        self.path, self.cache = Path(path), cache
        check_file(self.path, _EXPECTED)
        self._keys = _Keys(bag_key, text_key, positive)
        self._again = fitted
        self._given = TfIdf.from_json(fitted) if fitted is not None else encoder
        self._width, self._vocabulary, self._stop_words = width, vocabulary, stop_words
        self._labels, self._split, self._skip_errors = labels, split, skip_errors

    @property
    def source(self) -> Source:
        """See `Importer`."""
        root = str(self.path.resolve().parent) if "path" in self._index.columns else None
        options = self._keys.options
        return Source(kind="text", name=name_of(self.path), place=place_of(self.path), options=options, root=root)

    @property
    def features(self) -> Mapping[str, Any]:
        """See `Importer`; for TF-IDF with its terms and their weights, and whether labels chose them."""
        if self._again is not None:
            return self._again
        seen = self._given is None and self._vocabulary == "bags"
        return {**self.encoder.identity, "labels_seen": True} if seen else self.encoder.identity

    @cached_property
    def encoder(self) -> TextEncoder:
        """What turns texts into features, fitted when it is first asked for."""
        return self._fitted() if self._given is None else self._given

    def ids(self) -> list[str]:
        """See `Importer`."""
        return list(self._index.bags)

    def bags(self) -> Iterator[BagReader]:
        """See `Importer`."""
        bags = self._index.bags
        with _unpacked(self.path) as file:
            for bag, lines in bags.items():
                yield BagReader(bag, partial(self._read, file, bag, lines))

    @cached_property
    def _index(self) -> _Index:
        index = _Index(self.path, self._keys, self._skip_errors)
        with reading(self.path, _EXPECTED), _unpacked(self.path) as file:
            longest = most_unpacked(self.path.stat().st_size)
            place, number = 0, 0
            while line := file.readline(longest + 1):
                number += 1
                check_unpacked(len(line), self.path.stat().st_size)
                if line.strip():
                    index.add(place, number, parsed(number, line))
                place += len(line)
        if not index.bags:
            raise InvalidInput(f"{self.path} has no lines; expected {_EXPECTED}", self.path)
        index.labels.check(str(self.path))
        return index

    def _read(self, file: IO[bytes], bag: str, lines: _Lines) -> ReadBag:
        if not lines.places:
            raise InvalidInput(f"bag {bag!r} has no instance left; the first: {lines.left_out[0]}", bag)
        with reading(self.path, f"{_EXPECTED}, in bag {bag!r}"):
            records = [_record(file, place) for place in lines.places]
            texts = [record[self._keys.text] for record in records]
            instances = self._instances(texts, records)
        features = encode_texts(texts, self.encoder, self.cache)
        return ReadBag(
            features, lines.label, lines.split, instances, _truth(self.path, bag, records), tuple(lines.left_out)
        )

    def _instances(self, texts: list[str], records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the instance columns, the same for all bags of the file."""
        rest = [self._keys.rest(record) for record in records]
        columns = {name: [each.get(name) for each in rest] for each in rest for name in each}
        return {"text": texts, **(self._index.columns.columns(columns, len(texts)) or {})}

    def _fitted(self) -> TfIdf:
        chosen = self._training_bags()
        with _unpacked(self.path) as file:
            texts = _Texts(self.path, file, [self._index.bags[bag] for bag in chosen], self._keys.text)
            contrast = None
            if self._vocabulary == "bags":
                contrast = [bool(label) for bag, label in chosen.items() for _ in self._index.bags[bag].places]
            return TfIdf.fit(texts, self._width, contrast, () if self._stop_words else english_stop_words())

    def _training_bags(self) -> dict[str, int | None]:
        """Return the labels of the bags to fit a TF-IDF to."""
        known = {bag: self._label_of(bag, lines) for bag, lines in self._index.bags.items()}
        if self._labels is not None:
            known = {bag: known[bag] for bag in known if bag in self._labels}
        labelled = self._vocabulary == "bags"
        if any(split is not None for _, split in known.values()):
            found = {bag: label for bag, (label, split) in known.items() if split == "train"}
        else:
            labelled, found = True, {bag: label for bag, (label, _) in known.items()}
        found = {bag: label for bag, label in found.items() if label is not None or not labelled}
        if not found or (self._vocabulary == "bags" and set(found.values()) != {0, 1}):
            kinds = "positive and negative training bags" if self._vocabulary == "bags" else "training bags"
            raise InvalidInput(
                f"{self.path}: a TF-IDF is fitted to {kinds}; there are {len(found)}, "
                f"{sum(map(bool, found.values()))} of them positive; "
                "give labels, an encoder, or the features of the store that was trained on (fitted)",
                self.path,
            )
        return found

    def _label_of(self, bag: str, lines: _Lines) -> tuple[int | None, str | None]:
        label, split = (self._labels or {}).get(bag, (None, None))
        return lines.label if label is None else label, split or lines.split or self._split


@dataclass(frozen=True)
class _Keys:
    """What is called what in a line.

    Attributes:
        bag: the bag id.
        text: the text.
        positive: the label that says positive, where labels are words.
    """

    bag: str
    text: str
    positive: str | None

    @property
    def options(self) -> dict[str, Any]:
        """What is not as usual, for the source."""
        given = {"bag_key": (self.bag, "bag"), "text_key": (self.text, "text"), "positive": (self.positive, None)}
        return {name: value for name, (value, usual) in given.items() if value != usual}

    def rest(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a line says of its instance beside the text; its id as a text."""
        own = {self.bag, self.text, *_OWN}
        rest = {name: value for name, value in record.items() if name not in own and value is not None}
        return rest | ({"id": str(rest["id"])} if "id" in rest else {})


@dataclass
class _Lines:
    """The lines of a bag: what they say of it, and where they begin in the file."""

    label: int | None
    split: str | None
    first: int
    places: array[int] = field(default_factory=lambda: array("q"))
    left_out: list[str] = field(default_factory=list)


class _Index:
    """Where the lines of each bag lie, while the file is read for the first time."""

    def __init__(self, path: Path, keys: _Keys, skip_errors: bool) -> None:
        self.path, self.keys, self.skip_errors = path, keys, skip_errors
        self.bags: dict[str, _Lines] = {}
        self.columns = ColumnTypes()
        self.labels = LabelReader(keys.positive)

    def add(self, place: int, number: int, record: Mapping[str, Any]) -> None:
        """Enter a line that begins at ``place``.

        Raises:
            ValueError: it lacks a bag or a text.
            InvalidInput: it contradicts another.
        """
        bag = record.get(self.keys.bag)
        if isinstance(bag, bool) or not isinstance(bag, str | int) or not str(bag).strip() or _broken(str(bag)):
            raise ValueError(
                f"line {number} needs a bag id {self.keys.bag!r}, a text or a whole number (bag_key=…, --bag-key say "
                "what else it is called)"
            )
        lines = self._lines_of(str(bag).strip(), number, record)
        text = record.get(self.keys.text)
        if not isinstance(text, str) or _broken(text):
            said = f"line {number}, bag {bag!r}, has no proper {self.keys.text!r}: {_kind(text)}"
            if not self.skip_errors:
                raise ValueError(said)
            lines.left_out.append(f"{self.path}: {said}")
            return
        for name, value in self.keys.rest(record).items():
            self.columns.add(name, [value])
        lines.places.append(place)

    def _lines_of(self, bag: str, number: int, record: Mapping[str, Any]) -> _Lines:
        label = self.labels(record.get("label"), f"{self.path}, line {number}")
        given = record.get("split")
        split = None if given is None else str(given).strip() or None
        lines = self.bags.setdefault(bag, _Lines(label, split, number))
        if (lines.label, lines.split) != (label, split):
            raise InvalidInput(
                f"{self.path}: bag {bag!r} has label {lines.label} and split {lines.split} in line {lines.first}, "
                f"{label} and {split} in line {number}; all lines of a bag say the same: call the labels of instances "
                "'instance_label'",
                bag,
            )
        return lines


class _Texts:
    """The texts of some bags, read from the file whenever they are gone through."""

    def __init__(self, path: Path, file: IO[bytes], bags: Sequence[_Lines], key: str) -> None:
        self.path, self.file, self.bags, self.key = path, file, bags, key

    def __iter__(self) -> Iterator[str]:
        with reading(self.path, _EXPECTED):
            for bag in self.bags:
                for place in bag.places:
                    yield _record(self.file, place)[self.key]


@contextmanager
def _unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading anywhere in it; what is gzipped as a temporary file."""
    with reading(path, _EXPECTED):
        opened = path.open("rb")
    with opened as file:
        zipped = file.read(2) == _GZIP
        file.seek(0)
        if not zipped:
            yield file
            return
        with tempfile.TemporaryFile() as plain:
            with reading(path, _EXPECTED), gzip.GzipFile(fileobj=file) as packed:
                while chunk := packed.read(_CHUNK):
                    plain.write(chunk)
                    check_unpacked(plain.tell(), path.stat().st_size)
            plain.seek(0)
            yield plain


def _record(file: IO[bytes], place: int) -> dict[str, Any]:
    file.seek(place)
    return parsed(0 if place else 1, file.readline())


def _truth(path: Path, bag: str, records: Sequence[Mapping[str, Any]]) -> NDArray[np.bool_] | None:
    read = LabelReader()
    labels = [
        read(record.get("instance_label"), f"{path}: bag {bag!r}, instance {i}") for i, record in enumerate(records)
    ]
    unknown = labels.count(None)
    if 0 < unknown < len(labels):
        raise InvalidInput(
            f"{path}: {unknown} of the {len(labels)} texts of bag {bag!r} have no instance label; "
            "label all of a bag or none",
            bag,
        )
    return None if unknown else np.array(labels, dtype=bool)


def _broken(text: str) -> bool:
    """Tell whether a text holds half a character, which JSON can say and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _kind(value: object) -> str:
    return "it holds half a character (a lone surrogate)" if isinstance(value, str) else f"got {type(value).__name__}"
