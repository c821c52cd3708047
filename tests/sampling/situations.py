"""Hand-made situations for samplers: bags, what was answered, and what a model said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import numpy as np
from hypothesis import strategies as st
from torch import Generator

from admil.bags import Answer, AnswerValue, BagIndex, FloatArray, InstanceId, LabelBook, LabelState, Scores
from admil.sampling import BuiltinSampler, Sampler

SAMPLERS: list[Sampler] = [kind() for kind in get_args(get_args(BuiltinSampler)[0])]
"""Every built-in sampler with its default fields; a new one is found here by itself."""

GRID = (0.0, 0.02, 0.05, 0.11, 0.2, 0.28, 0.3, 0.31, 0.42, 0.5, 0.55, 0.61, 0.66, 0.74, 0.83, 0.91, 0.97, 1.0)
"""Scores with many ties but, 0 and 1 aside, none between f and 1 - f, where only rounding would decide."""

Situation = tuple[Scores, LabelBook]


def name_of(sampler: Sampler) -> str:
    return type(sampler).__name__


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def index_of(sizes: Sequence[int], labels: Sequence[int] | None = None, prefix: str = "bag") -> BagIndex:
    ids = tuple(f"{prefix}{number}" for number in range(len(sizes)))
    offsets = np.cumsum([0, *sizes], dtype=np.int64)
    return BagIndex(ids, offsets, np.array([1] * len(sizes) if labels is None else labels, dtype=np.int64))


def book_of(index: BagIndex, answers: Mapping[int, str] | None = None) -> LabelBook:
    """Make a label book of answers by position."""
    return LabelBook(
        index, tuple(Answer(index.instance(at), AnswerValue(word)) for at, word in (answers or {}).items())
    )


def scores_of(f: Sequence[float] | FloatArray, book: LabelBook, seed: int = 0) -> Scores:
    """Make scores whose weights increase with f, leave out known negatives, and sum to 1 in a bag.

    The arrays are read-only: a sampler that wrote to them would fail.
    """
    index, scores = book.index, np.array(f, dtype=np.float64)
    strength = np.where(book.state == LabelState.NEGATIVE, 0.0, np.exp(3 * scores))
    total = np.bincount(index.bag_of, strength, len(index))
    p = strength / np.where(total > 0, total, 1.0)[index.bag_of]
    bag_score = np.asarray(np.bincount(index.bag_of, p * scores, len(index)), dtype=np.float64)
    chance = np.random.default_rng(seed)
    extras = {name: chance.random(len(scores)) for name in ("disagreement", "expected_gradient_length")}
    extras["embedding"] = chance.random((len(scores), 3))
    for array in (scores, p, bag_score, *extras.values()):
        array.setflags(write=False)
    return Scores(index, scores, p, bag_score, extras)


def bag_by_bag(bags: Sequence[Sequence[float]], answers: Mapping[int, str] | None = None) -> Situation:
    """Make positive bags of these scores."""
    book = book_of(index_of([len(bag) for bag in bags]), answers)
    return scores_of([f for bag in bags for f in bag], book), book


def ragged(seed: int = 0) -> Situation:
    """Make ragged bags of distinct scores in which every state of an instance occurs."""
    index = index_of([4, 1, 3, 2, 5, 3, 4, 2], [1, 1, 0, 1, 1, 1, 1, 0])
    answers = {0: "negative", 2: "skipped", 8: "negative", 10: "positive", 11: "negative"}
    answers |= {15: "skipped", 16: "skipped", 17: "skipped"}
    book = book_of(index, answers)
    assert set(book.state) == set(LabelState)
    return scores_of(np.random.default_rng(seed).random(index.n_instances), book, seed), book


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """Draw ragged bags of both kinds, tied and extreme scores, and any answers."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    labels = draw(st.lists(st.integers(0, 1), min_size=len(sizes), max_size=len(sizes)))
    index = index_of(sizes, labels)
    words = st.sampled_from(["", "", "positive", "negative", "negative", "skipped"])
    answers = {int(at): draw(words) for at in index.positions(index.positive)}
    book = book_of(index, {at: word for at, word in answers.items() if word})
    f = draw(st.lists(st.sampled_from(GRID), min_size=index.n_instances, max_size=index.n_instances))
    return scores_of(f, book, draw(st.integers(0, 9))), book


def ids(*pairs: tuple[int, int]) -> list[InstanceId]:
    """Name instances by bag number and index."""
    return [InstanceId(f"bag{bag}", at) for bag, at in pairs]
