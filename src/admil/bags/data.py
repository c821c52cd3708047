"""Bags in memory, and the protocol that bags on disk satisfy too."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from admil.bags.index import BagIndex, IntArray
from admil.bags.numbers import as_tensor
from admil.errors import InvalidInput

__all__ = ["BagBatch", "BagSource", "Bags"]

_ENTRIES = 2**22
"""Features hashed together."""

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class BagBatch:
    """Some bags' features, flat, ready for the network.

    Attributes:
        bags: (b,) bag numbers in the source.
        sizes: (b,) instances of each.
        features: (m, D) their instances, bag after bag.
    """

    bags: IntArray
    sizes: IntArray
    features: Tensor


@runtime_checkable
class BagSource(Protocol):
    """What training and scoring need of bags, wherever they lie."""

    @property
    def index(self) -> BagIndex:
        """Ids, sizes and labels."""

    @property
    def width(self) -> int:
        """The number of features of an instance, D."""

    @property
    def in_memory(self) -> bool:
        """Whether reading is so quick that a thread that reads ahead would not pay."""

    def gather(self, bags: IntArray, out: Tensor | None = None) -> BagBatch:
        """Read whole bags; into the first rows of ``out`` (its dtype decides) where one is given."""

    def rows(self, positions: IntArray, out: Tensor | None = None) -> Tensor:
        """Read single instances by position; into the first rows of ``out`` where one is given."""


@dataclass(frozen=True, eq=False)
class Bags:
    """Bags in memory: M instances of D features, flat, and the index that says whose they are.

    >>> bags = Bags.from_arrays([[[0.0, 1.0]], [[1.0, 1.0], [0.5, 0.5]]], labels=[0, 1], ids=["a", "b"])
    >>> bags
    Bags(2 bags, 1 positive, 3 instances, 2 features)
    >>> bags["b"].shape
    torch.Size([2, 2])
    """

    index: BagIndex
    features: Tensor

    @classmethod
    def from_arrays(
        cls,
        data: Any,
        labels: Iterable[Any] | None = None,
        ids: Iterable[object] | None = None,
        *,
        offsets: Sequence[int] | IntArray | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Bags:
        """Make bags from a list of (n_i, D) arrays, or from one (M, D) array and ``offsets``.

        Args:
            data: arrays, tensors, nested lists or SciPy sparse matrices; finite numbers.
            labels: one per bag, 0/1 or -1/+1; None for bags whose labels are not known.
            ids: one per bag, distinct; kept as strings.  Default "0", "1", …
            offsets: (B + 1,) start of each bag in flat ``data``; the last entry is M.
            dtype: what the features are kept in.

        Raises:
            InvalidInput: naming the bag and what is wrong with it.
        """
        if dtype not in _FLOATS:
            raise InvalidInput(f"features are kept as floating point, not {dtype}; use torch.float32", dtype)
        given = None if ids is None else tuple(map(str, _listed(ids, "ids")))
        if offsets is None:
            parts = [_as_rows(part, number, given) for number, part in enumerate(_listed(data, "arrays"))]
            names = _names(given, len(parts))
            came = _stack(parts, names)
            starts = np.cumsum([0] + [len(part) for part in parts], dtype=np.int64)
        else:
            starts = _as_offsets(offsets)
            names = _names(given, len(starts) - 1)
            came = _as_rows(data, None, None)
        index = BagIndex(names, starts, None if labels is None else _as_labels(_listed(labels, "labels"), names))
        features = came.to(dtype, copy=offsets is not None)  # what is the caller's stays the caller's
        if len(features) != index.n_instances:
            raise InvalidInput(
                f"the last offset must be the number of instances: data has {len(features)} rows, "
                f"offsets end at {index.n_instances}"
            )
        _check_finite(features, came, index)
        return cls(index, features)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, bag: str | int) -> Tensor:
        """Return the (n, D) features of the bag with this id, or of this number."""
        number = self.index.numbered(bag)
        return self.features[self.index.offsets[number] : self.index.offsets[number + 1]]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[number] for number in range(len(self)))

    def __repr__(self) -> str:
        known = "unlabelled" if self.labels is None else f"{len(self.index.positive)} positive"
        return f"Bags({len(self)} bags, {known}, {self.index.n_instances} instances, {self.width} features)"

    @property
    def ids(self) -> tuple[str, ...]:
        """The bag ids, in order."""
        return self.index.ids

    @property
    def labels(self) -> IntArray | None:
        """(B,) 1 for positive and 0 for negative bags, or None."""
        return self.index.labels

    @property
    def width(self) -> int:
        """The number of features of an instance, D."""
        return int(self.features.shape[1])

    @property
    def in_memory(self) -> bool:
        """True."""
        return True

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the ids, labels, sizes and features of these bags."""
        labels = None if self.labels is None else self.labels.tolist()
        about = [str(self.features.dtype), self.ids, self.index.offsets.tolist(), labels]
        digest = hashlib.sha256(json.dumps(about).encode())
        for rows in torch.split(self.features, max(1, _ENTRIES // self.width)):
            digest.update(rows.cpu().contiguous().view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def gather(self, bags: IntArray, out: Tensor | None = None) -> BagBatch:
        """Read whole bags; see `BagSource.gather`."""
        positions = self.index.positions(bags)
        return BagBatch(bags, self.index.sizes[bags], self.rows(positions, out))

    def rows(self, positions: IntArray, out: Tensor | None = None) -> Tensor:
        """Read single instances by position; see `BagSource.rows`."""
        chosen = torch.from_numpy(np.array(positions, dtype=np.int64)).to(self.features.device)
        if out is None:
            return self.features[chosen]
        view = out[: len(positions)]
        if view.shape != (len(positions), self.width):
            raise InvalidInput(
                f"out needs {len(positions)} rows or more of {self.width} features, its shape is {tuple(out.shape)}"
            )
        if view.dtype == self.features.dtype and view.device == self.features.device:
            return torch.index_select(self.features, 0, chosen, out=view)
        return view.copy_(self.features.index_select(0, chosen))

    def subset(self, bags: Sequence[int] | IntArray) -> Bags:
        """Return the given bag numbers as bags of their own, in that order."""
        index = self.index.subset(bags)
        return Bags(index, self.rows(self.index.positions(np.asarray(bags))))


def _listed(values: Any, what: str) -> list[Any]:
    if isinstance(values, Iterable) and not isinstance(values, str | bytes) and getattr(values, "ndim", 1) > 0:
        return list(values)
    raise InvalidInput(f"expected a list of {what}, one per bag, got {type(values).__name__}", values)


def _as_rows(part: Any, number: int | None, names: tuple[str, ...] | None) -> Tensor:
    where = "the features" if number is None else f"bag {_name(names, number)!r}"
    try:
        rows = as_tensor(part)
        if rows.ndim == 2 and rows.shape[1] > 0:
            return rows
        came = f"an array of shape {tuple(rows.shape)} and type {rows.dtype}"
    except TypeError as error:
        came = str(error)
    raise InvalidInput(f"{where}: expected a (n, D) array of numbers, one row per instance, got {came}", number)


def _as_offsets(offsets: Sequence[int] | IntArray) -> IntArray:
    try:
        starts = np.array(offsets, dtype=np.float64)
    except (TypeError, ValueError):
        starts = np.array(np.nan)
    if starts.ndim != 1 or len(starts) < 2 or not (np.isfinite(starts) & (starts == np.round(starts))).all():
        raise InvalidInput(f"offsets are the start of each bag and the end, as whole numbers; got {offsets!r}", offsets)
    return starts.astype(np.int64)


def _name(names: tuple[str, ...] | None, number: int) -> str:
    return names[number] if names is not None and number < len(names) else str(number)


def _names(given: tuple[str, ...] | None, count: int) -> tuple[str, ...]:
    names = tuple(map(str, range(count))) if given is None else given
    if len(names) != count:
        raise InvalidInput(f"expected one id per bag: {count} bags, {len(names)} ids", len(names))
    return names


def _stack(parts: list[Tensor], names: tuple[str, ...]) -> Tensor:
    if not parts:
        raise InvalidInput("expected at least one bag, got none")
    width = parts[0].shape[1]
    for name, part in zip(names, parts, strict=True):
        if part.shape[1] != width:
            raise InvalidInput(
                f"every bag needs the same number of features: bag {names[0]!r} has {width}, "
                f"bag {name!r} has {part.shape[1]}",
                name,
            )
    return torch.cat(parts)


def _as_labels(labels: Iterable[Any], names: tuple[str, ...]) -> IntArray:
    values = [_as_label(value, number, names) for number, value in enumerate(labels)]
    if len(values) != len(names):
        raise InvalidInput(f"expected one label per bag: {len(names)} bags, {len(values)} labels", len(values))
    distinct = set(values)
    if {0, -1} <= distinct:
        raise InvalidInput("labels mix 0 and -1; use 0/1 or -1/+1 throughout", values)
    return np.array([1 if value == 1 else 0 for value in values], dtype=np.int64)


def _as_label(value: Any, number: int, names: tuple[str, ...]) -> int:
    try:
        label = float(value)
    except (TypeError, ValueError):
        label = float("nan")
    if label not in (0.0, 1.0, -1.0):
        name = _name(names, number)
        raise InvalidInput(f"bag {name!r}: expected a label 0/1 or -1/+1, got {value!r}", name)
    return int(label)


def _check_finite(features: Tensor, came: Tensor, index: BagIndex) -> None:
    # a sum is finite unless an entry is not (or the sum overflows, which the second look settles)
    if bool(torch.isfinite(features.sum(dtype=torch.float64))):
        return
    bad = (~torch.isfinite(features)).any(1).nonzero()
    if not len(bad):
        return
    row = int(bad[0])
    instance = index.instance(row)
    column = int((~torch.isfinite(features[row])).nonzero()[0])
    value = came[row, column].item()
    if math.isfinite(value):
        raise InvalidInput(
            f"instance {instance} has {value:g} in column {column}, too large for {str(features.dtype)[6:]}; "
            "scale it, or keep a wider type (dtype=…)",
            instance,
        )
    raise InvalidInput(
        f"features must be finite: instance {instance} has {value} in column {column}"
        f" ({len(bad)} such instances); replace or drop them",
        instance,
    )
