"""The classic sets of multiple instance learning: bag labels alone, no truth of instances, no split.

``musk1`` and ``musk2`` (a molecule is a bag, its shapes are instances; Dietterich et al. 1997) and
``elephant``, ``fox``, ``tiger`` (a picture is a bag, its regions are instances; Andrews et al. 2003).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admil.datasets.matfile import read_matrices
from admil.datasets.raw import raw_files, unzipped
from admil.errors import CorruptFile, InvalidInput
from admil.importers import BagReader, ReadBag, reading
from admil.importers.labels import as_label
from admil.store import Source

__all__ = ["CLASSIC_SETS", "Classic", "ClassicSet"]


@dataclass(frozen=True)
class ClassicSet:
    """What is published of a set.

    Attributes:
        positive: positive bags.
        negative: negative bags.
        instances: instances.
        width: features of an instance.
        files: names of the files that hold it, with their folder where the name alone does not tell; where there
            are several, the first is taken.
    """

    positive: int
    negative: int
    instances: int
    width: int
    files: tuple[str, ...]


CLASSIC_SETS: dict[str, ClassicSet] = {
    "musk1": ClassicSet(47, 45, 476, 166, ("clean1.data", "musk1norm.svm", "musk1norm_matlab.mat")),
    "musk2": ClassicSet(39, 63, 6598, 166, ("clean2.data", "musk2norm.svm", "musk2norm_matlab.mat")),
    "elephant": ClassicSet(100, 100, 1391, 230, ("Elephant/data_100x100.svm", "elephant_100x100_matlab.mat")),
    "fox": ClassicSet(100, 100, 1320, 230, ("Fox/data_100x100.svm", "fox_100x100_matlab.mat")),
    "tiger": ClassicSet(100, 100, 1220, 230, ("Tiger/data_100x100.svm", "tiger_100x100_matlab.mat")),
}
"""The sets by name."""


class Classic:
    """A classic set, from the layouts it is published in.

    * ``.data``, the musk sets of the UCI repository: a line per instance, comma-separated: the molecule (the
      bag), the shape, 166 numbers, and ``1.`` or ``0.`` (UCI packs it with compress: ``gunzip clean1.data.Z``);
    * ``.svm``, Andrews' text: ``instance:bag:label feature:value …`` a line, features from 1, the rest 0; what
      follows ``#`` is not read;
    * ``.mat`` of version 5 to 7, Andrews' MATLAB: ``features`` (n, D), ``labels`` (1, n), ``bag_ids`` (1, n).

    The numbers are left as they are: UCI's musk are whole numbers; ``musk…norm`` is another scaling of the same
    sets.  Bags, instances and features must be as many as are published.

    The instance table has the instance's row in the file, ``origin``, and where the file has one its ``name``.

    Args:
        name: one of `CLASSIC_SETS`.
        path: the file, .gz or not, or a folder or archive that holds it under its usual name.
    """

    def __init__(self, name: str, path: str | Path) -> None:
        if name not in CLASSIC_SETS:
            raise InvalidInput(f"there is no set {name!r}; choose among {', '.join(CLASSIC_SETS)}", name)
        path, published = Path(path), CLASSIC_SETS[name]
        file, content = _found(path, published.files)
        layout = next((ending for ending in _LAYOUTS if file.endswith(ending)), None)
        if layout is None:
            raise InvalidInput(f"expected an unpacked file that ends in {', '.join(_LAYOUTS)}, got {file}", path)
        expected = f"{published.width} features of every instance in the layout of a {layout} file"
        with (
            reading(path, expected),
            np.errstate(invalid="ignore", over="ignore"),
        ):  # the store refuses what is not finite
            self._bags = _bags(_LAYOUTS[layout](content, published.width))
        _check_counts(self._bags.values(), name, path)
        self.source = Source(kind=name, name=file)

    @property
    def features(self) -> Mapping[str, Any] | None:
        """None: the source brings them."""
        return None

    def ids(self) -> list[str]:
        """See `Importer`."""
        return list(self._bags)

    def bags(self) -> Iterator[BagReader]:
        """See `Importer`."""
        for bag, read in self._bags.items():
            yield BagReader(bag, partial(_given, read))


@dataclass(frozen=True, eq=False)
class _Table:
    """A row per instance: its bag, its label, its features (n, D), and its name where the file has one."""

    bags: Sequence[str]
    labels: Sequence[int | None]
    features: NDArray[np.float32]
    names: Sequence[str] | None = None


def _given(read: ReadBag) -> ReadBag:
    return read


def _found(path: Path, names: Sequence[str]) -> tuple[str, bytes]:
    """Return the name and the content of the file that comes first in the list of names."""

    def rank(file: PurePosixPath) -> int:
        plain = file.with_suffix("") if file.suffix == ".gz" else file
        return next((at for at, name in enumerate(names) if plain.match(name)), len(names))

    found = {rank(file): (file, content) for file, content in raw_files(path, lambda each: rank(each) < len(names))}
    if not found:
        raise CorruptFile(f"there is none of {', '.join(names)} in {path}; name the file itself", path)
    file, content = found[min(found)]
    return (file.stem, unzipped(content, path)) if file.suffix == ".gz" else (file.name, content)


def _uci(content: bytes, width: int) -> _Table:
    rows = [line.split(",") for line in content.decode("ascii").splitlines() if line.strip()]
    for number, row in enumerate(rows, start=1):
        if len(row) != width + 3:
            raise ValueError(f"row {number} has {len(row)} fields, not {width + 3}")
    return _Table(
        [row[0] for row in rows],
        [as_label(row[-1].strip().rstrip("."), f"row {number}") for number, row in enumerate(rows, start=1)],
        np.array([row[2:-1] for row in rows], np.float32),
        [row[1] for row in rows],
    )


def _svm(content: bytes, width: int) -> _Table:
    lines = [line.partition("#")[0].split() for line in content.decode("ascii").splitlines()]
    rows = [line for line in lines if line]
    features = np.zeros((len(rows), width), np.float32)
    for at, row in enumerate(rows):
        for column, value in (pair.split(":") for pair in row[1:]):
            if not 1 <= int(column) <= width:
                raise ValueError(f"row {at + 1} has feature {column}, not 1 to {width}")
            features[at, int(column) - 1] = float(value)
    heads = [row[0].split(":") for row in rows]
    labels = [as_label(label, f"instance {name}") for name, _, label in heads]
    return _Table([bag for _, bag, _ in heads], labels, features, [name for name, _, _ in heads])


def _mat(content: bytes, width: int) -> _Table:
    held = read_matrices(content, ("features", "labels", "bag_ids"))
    features, labels, bags = held.values()
    shapes = [matrix.shape for matrix in (features, labels, bags)]
    if shapes != [(len(features), width), (1, len(features)), (1, len(features))]:
        raise ValueError(f"features, labels and bag_ids have shapes {shapes}")
    return _Table(
        [str(int(bag)) for bag in bags[0]],
        [as_label(label, f"instance {number}") for number, label in enumerate(labels[0].tolist(), start=1)],
        features.astype(np.float32),
    )


_LAYOUTS = {".data": _uci, ".svm": _svm, ".mat": _mat}


def _bags(table: _Table) -> dict[str, ReadBag]:
    """Gather the rows of each bag, bags in order of their first row."""
    rows_of: dict[str, list[int]] = {}
    for row, bag in enumerate(table.bags):
        rows_of.setdefault(bag, []).append(row)
    bags = {}
    for bag, rows in rows_of.items():
        labels = {table.labels[row] for row in rows}
        if len(labels) > 1 or None in labels:
            raise ValueError(f"the rows of bag {bag!r} need one label, they have {sorted(map(str, labels))}")
        columns = {"origin": [f"row {row + 1}" for row in rows]}
        if table.names is not None:
            columns["name"] = [table.names[row] for row in rows]
        bags[bag] = ReadBag(table.features[rows], labels.pop(), instances=columns)
    return bags


def _check_counts(bags: Collection[ReadBag], name: str, path: Path) -> None:
    """Refuse what has other counts than are published: a file by hand has no checksum."""
    published = CLASSIC_SETS[name]
    expected = (published.positive, published.negative, published.instances)
    positive = sum(bag.label == 1 for bag in bags)
    found = (positive, len(bags) - positive, sum(len(bag.features) for bag in bags))
    if found != expected:
        words = "{} positive and {} negative bags with {} instances"
        raise CorruptFile(
            f"{path} has {words.format(*found)}; {name} as it is published has {words.format(*expected)}: it is cut "
            "off, or another set",
            path,
        )
