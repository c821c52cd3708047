"""What annotators said: answers, and the book of labels that follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admil.bags.index import BagIndex, InstanceId, IntArray
from admil.errors import AnswerConflict, InvalidInput

__all__ = ["Answer", "AnswerValue", "LabelBook", "LabelState"]


class AnswerValue(StrEnum):
    """What an annotator says of an instance; retracted takes back whatever was said before."""

    POSITIVE = "positive"
    NEGATIVE = "negative"
    SKIPPED = "skipped"
    RETRACTED = "retracted"

    @classmethod
    def of(cls, value: Any) -> AnswerValue:
        """Read True, False, None (skipped) or one of the words.

        >>> AnswerValue.of(True), AnswerValue.of(None)
        (<AnswerValue.POSITIVE: 'positive'>, <AnswerValue.SKIPPED: 'skipped'>)
        """
        if value is None:
            return cls.SKIPPED
        if isinstance(value, bool | np.bool_):
            return cls.POSITIVE if value else cls.NEGATIVE
        try:
            return cls(value)
        except ValueError:
            raise InvalidInput(f"an answer is True, False or None (skipped), got {value!r}", value) from None


@dataclass(frozen=True)
class Answer:
    """One answer about one instance."""

    instance: InstanceId
    value: AnswerValue

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", AnswerValue.of(self.value))  # a word read from a file is a plain str


class LabelState(IntEnum):
    """What is known of an instance of the training bags."""

    UNKNOWN = 0
    POSITIVE = 1
    NEGATIVE = 2
    SKIPPED = 3
    IMPLIED = 4
    """Not asked: the only instance of a positive bag that was not answered negative."""


@dataclass(frozen=True)
class LabelBook:
    """The current labels: a fold over the answers, in order.  Every change is a new book.

    >>> index = BagIndex(("a", "b"), np.array([0, 2, 4]), np.array([1, 0]))
    >>> book = LabelBook(index).extended([Answer(InstanceId("a", 0), AnswerValue.NEGATIVE)])
    >>> book.state.tolist()  # the other instance of the positive bag must be positive
    [2, 4, 0, 0]
    >>> book.retracted(InstanceId("a", 0)).state.tolist()
    [0, 0, 0, 0]

    Attributes:
        index: the bags that the answers are about, with labels.
        answers: every answer in order, retractions included.
    """

    index: BagIndex
    answers: tuple[Answer, ...] = ()
    current: Mapping[InstanceId, AnswerValue] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "current", MappingProxyType(self._folded({}, self.answers)))

    def extended(self, answers: Iterable[Answer]) -> LabelBook:
        """Return the book with these answers added: all of them, or an error and none.

        Raises:
            UnknownInstance: an answer names no instance of these bags.
            AnswerConflict: an instance of a negative bag, or one answered before (a skipped one may
                still be answered); retract first.
        """
        added = tuple(answers)
        current = MappingProxyType(self._folded(dict(self.current), added))
        book = LabelBook(self.index)
        object.__setattr__(book, "answers", self.answers + added)  # not folded from the first answer on again
        object.__setattr__(book, "current", current)
        return book

    def retracted(self, instance: InstanceId) -> LabelBook:
        """Return the book with the answer about this instance taken back."""
        return self.extended([Answer(instance, AnswerValue.RETRACTED)])

    def of(self, instance: InstanceId) -> AnswerValue | None:
        """Return the current answer about an instance, or None."""
        return self.current.get(instance)

    def knows(self, instance: InstanceId) -> bool:
        """Tell whether an instance has been answered (or skipped), or is implied positive."""
        return bool(self.state[self.index.position(instance)] != LabelState.UNKNOWN)

    def count(self, value: AnswerValue) -> int:
        """Return how many instances currently have this answer."""
        return sum(current is value for current in self.current.values())

    @cached_property
    def state(self) -> NDArray[np.int8]:
        """(M,) the `LabelState` of every instance, by position, what is implied included."""
        state = np.zeros(self.index.n_instances, dtype=np.int8)
        for instance, value in self.current.items():
            state[self.index.position(instance)] = LabelState[value.name]
        state[_implied(self.index, state)] = LabelState.IMPLIED
        state.setflags(write=False)
        return state

    @cached_property
    def positives(self) -> IntArray:
        """Positions of the instances known to be positive, implied ones included."""
        return np.flatnonzero((self.state == LabelState.POSITIVE) | (self.state == LabelState.IMPLIED))

    @cached_property
    def negatives(self) -> IntArray:
        """Positions of the instances answered negative."""
        return np.flatnonzero(self.state == LabelState.NEGATIVE)

    @cached_property
    def confirmed(self) -> NDArray[np.bool_]:
        """(B,) True for bags with an instance known to be positive."""
        confirmed = np.zeros(len(self.index), dtype=bool)
        confirmed[self.index.bag_of[self.positives]] = True
        return confirmed

    @cached_property
    def found(self) -> NDArray[np.bool_]:
        """(B,) True for bags with an instance that was answered positive; what is implied nobody found."""
        found = np.zeros(len(self.index), dtype=bool)
        found[self.index.bag_of[self.state == LabelState.POSITIVE]] = True
        return found

    @cached_property
    def candidates(self) -> NDArray[np.bool_]:
        """(M,) True for instances a sampler may ask: in positive bags, nothing said or implied."""
        positive_bag = np.zeros(len(self.index), dtype=bool)
        positive_bag[self.index.positive] = True
        open_: NDArray[np.bool_] = positive_bag[self.index.bag_of] & (self.state == LabelState.UNKNOWN)
        return open_

    @cached_property
    def contradicted(self) -> tuple[str, ...]:
        """Ids of positive bags whose instances were all answered negative: label noise somewhere."""
        remaining = np.bincount(self.index.bag_of, self.state != LabelState.NEGATIVE, len(self.index))
        return tuple(self.index.ids[number] for number in self.index.positive if remaining[number] == 0)

    def _folded(
        self, current: dict[InstanceId, AnswerValue], answers: Iterable[Answer]
    ) -> dict[InstanceId, AnswerValue]:
        labels = self.index.labels
        if labels is None:
            raise InvalidInput(
                "every bag needs a label here; pass labels=… when you make the bags, or choose those of a store that "
                "have one: store.where(labelled=True)"
            )
        for answer in answers:
            instance, value = answer.instance, answer.value
            self.index.position(instance)
            if labels[self.index.number(instance.bag)] == 0:
                raise AnswerConflict(
                    f"instance {instance} lies in a negative bag, where every instance is negative already; "
                    "if it is positive, the bag's label is wrong: correct that",
                    instance,
                )
            before = current.get(instance)
            _check_change(instance, before, value)
            if value is AnswerValue.RETRACTED:
                del current[instance]
            else:
                current[instance] = value
        return current


def _check_change(instance: InstanceId, before: AnswerValue | None, value: AnswerValue) -> None:
    if value is AnswerValue.RETRACTED:
        if before is None:
            raise AnswerConflict(f"instance {instance} has no answer to take back", instance)
        return
    if before is None or (before is AnswerValue.SKIPPED and value is not AnswerValue.SKIPPED):
        return
    if before is value:
        raise AnswerConflict(f"instance {instance} has been answered {before.value} already", instance)
    raise AnswerConflict(
        f"instance {instance} has been answered {before.value}, now it is answered {value.value}; "
        "take the first answer back before giving another",
        instance,
    )


def _implied(index: BagIndex, state: NDArray[np.int8]) -> IntArray:
    """Return the positions of sole remaining candidates of positive bags without a positive."""
    bag_of, count = index.bag_of, len(index)
    open_ = (state == LabelState.UNKNOWN) | (state == LabelState.SKIPPED)
    open_count = np.bincount(bag_of, open_, count)
    positives = np.bincount(bag_of, state == LabelState.POSITIVE, count)
    positive_bag = np.zeros(count, dtype=bool)
    positive_bag[index.positive] = True
    sole = positive_bag & (open_count == 1) & (positives == 0)
    return np.flatnonzero(sole[bag_of] & open_)
