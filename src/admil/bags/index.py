"""Which bags there are, how large they are, and how each instance is named."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from admil.errors import InvalidInput, UnknownInstance

__all__ = ["BagIndex", "InstanceId", "IntArray"]

IntArray = NDArray[np.int64]


@dataclass(frozen=True, order=True, slots=True)
class InstanceId:
    """The name of an instance: its bag's id and its index within that bag, from 0."""

    bag: str
    index: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "bag", str(self.bag))  # ids are texts; numbers that were given as ids became texts

    def __str__(self) -> str:
        return f"{self.bag}[{self.index}]"


@dataclass(frozen=True, eq=False)
class BagIndex:
    """Ids, sizes and labels of B bags whose M instances lie one after another.

    A *position* is the place of an instance in that flat order, a *bag number* the place of a bag.

    Attributes:
        ids: B distinct bag ids.
        offsets: (B + 1,) position at which each bag starts; the last entry is M.
        labels: (B,) 1 for positive and 0 for negative bags, or None where they are not known.
    """

    ids: tuple[str, ...]
    offsets: IntArray
    labels: IntArray | None = None
    _numbers: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        numbers = {bag: number for number, bag in enumerate(self.ids)}
        object.__setattr__(self, "_numbers", numbers)
        _check_ids(self.ids, numbers)
        _check_offsets(self.ids, self.offsets)
        object.__setattr__(self, "offsets", _frozen(self.offsets))
        if self.labels is not None:
            _check_labels(self.ids, self.labels)
            object.__setattr__(self, "labels", _frozen(self.labels))

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, bag: object) -> bool:
        return bag in self._numbers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BagIndex):
            return NotImplemented
        same_labels = (self.labels is None) == (other.labels is None) and (
            self.labels is None or other.labels is None or np.array_equal(self.labels, other.labels)
        )
        return self.same_instances(other) and same_labels

    __hash__ = None  # type: ignore[assignment]  # arrays inside

    def same_instances(self, other: BagIndex) -> bool:
        """Tell whether both name the same instances at the same positions, whatever the labels."""
        return self.ids == other.ids and np.array_equal(self.offsets, other.offsets)

    @property
    def n_instances(self) -> int:
        """The number of instances, M."""
        return int(self.offsets[-1])

    @cached_property
    def sizes(self) -> IntArray:
        """The number of instances of each bag, (B,)."""
        return np.diff(self.offsets)

    @cached_property
    def bag_of(self) -> IntArray:
        """The bag number of each position, (M,)."""
        numbers: IntArray = np.repeat(np.arange(len(self)), self.sizes)
        return numbers

    @cached_property
    def positive(self) -> IntArray:
        """The bag numbers of the positive bags; an error where labels are not known."""
        return np.flatnonzero(self._known_labels() == 1)

    @cached_property
    def negative(self) -> IntArray:
        """The bag numbers of the negative bags; an error where labels are not known."""
        return np.flatnonzero(self._known_labels() == 0)

    def number(self, bag: str) -> int:
        """Return the number of the bag with this id."""
        try:
            return self._numbers[bag]
        except KeyError:
            known = ", ".join(map(repr, self.ids[:3]))
            raise UnknownInstance(f"there is no bag {bag!r} among these {len(self)} ({known}, …)", bag) from None

    def numbered(self, bag: str | int) -> int:
        """Return the number of a bag that is named by its id or by its number."""
        if isinstance(bag, str):
            return self.number(bag)
        number = operator.index(bag)
        if not 0 <= number < len(self):
            raise UnknownInstance(f"there is no bag number {number}: there are {len(self)} bags, counted from 0", bag)
        return number

    def position(self, instance: InstanceId) -> int:
        """Return the position of an instance."""
        number = self.number(instance.bag)
        size = int(self.sizes[number])
        if not 0 <= instance.index < size:
            raise UnknownInstance(
                f"there is no instance {instance}: bag {instance.bag!r} has {size} instances, indexed 0 to {size - 1}",
                instance,
            )
        return int(self.offsets[number]) + instance.index

    def instance(self, position: int) -> InstanceId:
        """Return the name of the instance at a position."""
        if not 0 <= position < self.n_instances:
            raise UnknownInstance(f"there is no position {position} among {self.n_instances} instances", position)
        number = int(self.bag_of[position])
        return InstanceId(self.ids[number], int(position - self.offsets[number]))

    def positions(self, bags: IntArray) -> IntArray:
        """Return the positions of all instances of the given bag numbers, bag after bag."""
        sizes = self.sizes[bags]
        shift = np.repeat(self.offsets[:-1][bags] - (np.cumsum(sizes) - sizes), sizes)
        positions: IntArray = np.arange(int(sizes.sum())) + shift
        return positions

    def runs(self, instances: int, bags: IntArray | None = None) -> list[IntArray]:
        """Cut bag numbers, by default all, into runs of about so many instances; a run has a bag at least."""
        numbers = np.arange(len(self)) if bags is None else bags
        block = np.cumsum(self.sizes[numbers]) // instances
        return np.split(numbers, np.flatnonzero(np.diff(block)) + 1)

    def subset(self, bags: Sequence[int] | IntArray) -> BagIndex:
        """Return the index of the given bag numbers, in that order."""
        numbers = _as_numbers(bags)
        labels = None if self.labels is None else self.labels[numbers]
        offsets = np.concatenate([[0], np.cumsum(self.sizes[numbers])]).astype(np.int64)
        return BagIndex(tuple(self.ids[i] for i in numbers), offsets, labels)

    def _known_labels(self) -> IntArray:
        if self.labels is None:
            raise InvalidInput("bag labels are needed here and these bags have none; pass labels=… when you make them")
        return self.labels


def _as_numbers(bags: Sequence[int] | IntArray) -> IntArray:
    numbers = np.asarray(bags)
    if numbers.size and numbers.dtype.kind not in "iu":  # a mask would silently read as bags 0 and 1
        raise InvalidInput(f"expected bag numbers, got values of type {numbers.dtype}; use np.flatnonzero on a mask")
    return numbers.astype(np.int64)


def _frozen(values: IntArray) -> IntArray:
    """Return a copy that cannot be written to: the caller's array stays as it is."""
    copy: IntArray = np.array(values, dtype=np.int64)
    copy.setflags(write=False)
    return copy


def _check_ids(ids: tuple[str, ...], numbers: dict[str, int]) -> None:
    if len(numbers) == len(ids):
        return
    double = next(bag for number, bag in enumerate(ids) if numbers[bag] != number)
    raise InvalidInput(f"bag ids must be distinct; {double!r} comes more than once", double)


def _check_offsets(ids: tuple[str, ...], offsets: IntArray) -> None:
    if len(ids) == 0:
        raise InvalidInput("expected at least one bag, got none")
    if len(offsets) != len(ids) + 1 or offsets[0] != 0:
        raise InvalidInput(
            f"offsets must start at 0 and have one entry more than there are bags: "
            f"{len(ids)} bags need {len(ids) + 1} entries, got {len(offsets)} starting at {offsets[:1]}"
        )
    sizes = np.diff(offsets)
    if (sizes < 0).any():
        raise InvalidInput(f"offsets must not decrease; they do after bag {ids[int((sizes < 0).argmax())]!r}")
    if (sizes == 0).any():
        empty = ids[int((sizes == 0).argmax())]
        raise InvalidInput(f"bag {empty!r} is empty; a bag needs at least one instance: leave it out", empty)


def _check_labels(ids: tuple[str, ...], labels: IntArray) -> None:
    if np.shape(labels) != (len(ids),):
        raise InvalidInput(f"expected one label per bag: {len(ids)} bags, labels of shape {np.shape(labels)}")
    wrong = np.flatnonzero(~np.isin(labels, (0, 1)))
    if len(wrong):
        bag = ids[wrong[0]]
        raise InvalidInput(f"bag {bag!r}: expected a label 0 or 1, got {labels[wrong[0]]}", bag)
