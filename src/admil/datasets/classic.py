"""The classic sets of multiple instance learning: bag labels alone, no truth of instances, no split.

``musk1`` and ``musk2`` (a molecule is a bag, its shapes are instances; Dietterich et al. 1997) and
``elephant``, ``fox``, ``tiger`` (a picture is a bag, its regions are instances; Andrews et al. 2003).
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from admil.datasets.raw import raw_files
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
        files: names of the files that hold it.
    """

    positive: int
    negative: int
    instances: int
    width: int
    files: tuple[str, ...]


def _andrews(name: str) -> tuple[str, ...]:
    return f"{name}.svm", f"{name}_matlab.mat"


CLASSIC_SETS: dict[str, ClassicSet] = {
    "musk1": ClassicSet(47, 45, 476, 166, ("clean1.data", *_andrews("musk1norm"))),
    "musk2": ClassicSet(39, 63, 6598, 166, ("clean2.data", *_andrews("musk2norm"))),
    "elephant": ClassicSet(100, 100, 1391, 230, _andrews("elephant_100x100")),
    "fox": ClassicSet(100, 100, 1320, 230, _andrews("fox_100x100")),
    "tiger": ClassicSet(100, 100, 1220, 230, _andrews("tiger_100x100")),
}
"""The sets by name."""


class Classic:
    """A classic set, from the layouts it is commonly found in.

    * ``.data``, the musk sets of the UCI repository: a line per instance, comma-separated: the molecule (the
      bag), the shape, 166 numbers, and ``1.`` or ``0.`` (UCI packs it with compress: ``gunzip clean1.data.Z``);
    * ``.svm``, Andrews' text: ``instance:bag:label feature:value …`` a line, features from 1, the rest 0;
    * ``.mat`` up to version 7, Andrews' MATLAB: ``features`` (n, D), ``labels`` (1, n), ``bag_ids`` (1, n).

    The numbers are left as they are: UCI's musk are whole numbers, Andrews' are scaled.  Those of a ``.mat`` or
    ``.svm`` file named ``musk…norm`` are another scaling of the same sets.

    Args:
        name: one of `CLASSIC_SETS`.
        path: the file, .gz or not, or a folder or archive that holds it under its usual name.
    """

    def __init__(self, name: str, path: str | Path) -> None:
        if name not in CLASSIC_SETS:
            raise InvalidInput(f"there is no set {name!r}; choose among {', '.join(CLASSIC_SETS)}", name)
        path = Path(path)
        file, content = _found(path, CLASSIC_SETS[name].files)
        layout = next((ending for ending in _LAYOUTS if file.endswith(ending)), None)
        if layout is None:
            raise InvalidInput(f"expected a file that ends in {', '.join(_LAYOUTS)}, got {file}", path)
        with reading(path, f"instances in the layout of a {layout} file"):
            table = _LAYOUTS[layout](content)
            self._bags = _bags(table, path)
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
    """A row per instance: its bag, its label, its name where it has one, its features (n, D)."""

    bags: Sequence[str]
    labels: Sequence[int | None]
    names: Sequence[str]
    features: NDArray[np.float32]


def _given(read: ReadBag) -> ReadBag:
    return read


def _found(path: Path, names: Sequence[str]) -> tuple[str, bytes]:
    wanted = {f"{name}{ending}" for name in names for ending in ("", ".gz")}
    for name, content in raw_files(path, lambda each: each.name in wanted):
        if name.suffix == ".gz":
            with reading(path, "a gzip file"):
                return name.stem, gzip.decompress(content)
        return name.name, content
    raise CorruptFile(f"there is none of {', '.join(names)} in {path}; name the file itself", path)


def _uci(content: bytes) -> _Table:
    rows = [line.split(",") for line in content.decode("ascii").splitlines() if line.strip()]
    return _Table(
        [row[0] for row in rows],
        [as_label(row[-1].strip().rstrip("."), f"shape {row[1]}") for row in rows],
        [row[1] for row in rows],
        np.array([row[2:-1] for row in rows], np.float32),
    )


def _svm(content: bytes) -> _Table:
    lines = [line.partition("#")[0].split() for line in content.decode("ascii").splitlines()]
    heads = [line[0].split(":") for line in lines if line]
    cells = [[pair.split(":") for pair in line[1:]] for line in lines if line]
    width = max(int(column) for row in cells for column, _ in row)
    features = np.zeros((len(cells), width), np.float32)
    for at, row in enumerate(cells):
        columns = [int(column) for column, _ in row]
        if min(columns, default=1) < 1:
            raise ValueError(f"line {at + 1} has feature {min(columns)}, they count from 1")
        features[at, [column - 1 for column in columns]] = [float(value) for _, value in row]
    labels = [as_label(label, f"instance {name}") for name, _, label in heads]
    return _Table([bag for _, bag, _ in heads], labels, [name for name, _, _ in heads], features)


def _mat(content: bytes) -> _Table:
    held = loadmat(io.BytesIO(content), variable_names=("features", "labels", "bag_ids"))
    features, labels, bags = (
        each.toarray() if hasattr(each, "toarray") else np.asarray(each)
        for each in (held["features"], held["labels"], held["bag_ids"])
    )
    count = len(features)
    if labels.size != count or bags.size != count:
        raise ValueError(f"{count} rows of features, {labels.size} labels, {bags.size} bag ids")
    return _Table(
        [str(int(bag)) for bag in bags.ravel()],
        [as_label(float(label), "labels") for label in labels.ravel()],
        [str(number + 1) for number in range(count)],
        features.astype(np.float32),
    )


_LAYOUTS = {".data": _uci, ".svm": _svm, ".mat": _mat}


def _bags(table: _Table, path: Path) -> dict[str, ReadBag]:
    """Gather the rows of each bag, bags in order of their first row."""
    rows_of: dict[str, list[int]] = {}
    for row, bag in enumerate(table.bags):
        rows_of.setdefault(bag, []).append(row)
    bags = {}
    for bag, rows in rows_of.items():
        labels = {table.labels[row] for row in rows}
        if len(labels) > 1 or None in labels:
            raise CorruptFile(f"{path}: the rows of bag {bag!r} must have one label, they have {labels}", path)
        names = {"origin": [table.names[row] for row in rows]}
        bags[bag] = ReadBag(table.features[rows], labels.pop(), instances=names)
    return bags
