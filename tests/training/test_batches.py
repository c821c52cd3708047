"""Mini-batches: passes over the bags, the rows they read, and the answers that come with them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from admil.bags import Bags, IntArray, LabelBook
from admil.functional import maximum_score
from admil.training.batches import StepBatch, StepReader
from tests.training.problems import bags_of, book_of, generator, recipe

CPU = torch.device("cpu")
NOTHING = np.zeros(0, dtype=np.int64)
SIZES, LABELS = [3, 1, 2, 4, 1, 2, 5], [1, 0, 1, 0, 1, 1, 0]


def reader(bags: Bags, answers: Mapping[tuple[int, int], bool | None] | None = None, **changes: Any) -> StepReader:
    return StepReader(recipe(**changes), bags, book_of(bags.index, answers or {}), CPU)


def steps(count: int, per_side: int, n_positive: int, n_negative: int, seed: int = 0) -> list[StepBatch]:
    bags = bags_of([1] * (n_positive + n_negative), [1] * n_positive + [0] * n_negative)
    found = reader(bags, bags_per_side=per_side).steps(bags.index.positive, bags.index.negative, generator(seed))
    return list(islice(found, count))


@pytest.mark.parametrize(("per_side", "passes"), [(2, 3), (3, 3), (4, 4), (5, 2)])
def test_a_pass_visits_every_bag_once_before_any_comes_again(per_side: int, passes: int) -> None:
    found = steps(passes * 10, per_side, n_positive=10, n_negative=7)
    for bags, n_bags in (
        (np.concatenate([b.positive for b in found]), 10),
        (np.concatenate([b.negative for b in found]), 7),
    ):
        whole = bags[: len(bags) // n_bags * n_bags].reshape(-1, n_bags)
        assert all(len(set(visited)) == n_bags for visited in whole.tolist())


@pytest.mark.parametrize("per_side", [1, 3, 4, 6, 7])
def test_no_bag_comes_twice_in_a_step_even_where_a_pass_ends_within_it(per_side: int) -> None:
    for seed in range(5):
        for batch in steps(40, per_side, n_positive=7, n_negative=8, seed=seed):
            assert len(set(batch.positive.tolist())) == len(batch.positive) == per_side
            assert len(set(batch.negative.tolist())) == len(batch.negative) == per_side


def test_passes_come_in_new_orders() -> None:
    found = steps(6, per_side=8, n_positive=8, n_negative=8)
    assert len({tuple(batch.positive.tolist()) for batch in found}) == 6
    assert any(batch.positive.tolist() != (batch.negative - 8).tolist() for batch in found)


def test_a_side_with_fewer_bags_than_wanted_gives_all_it_has() -> None:
    (batch,) = steps(1, per_side=60, n_positive=3, n_negative=5)
    assert sorted(batch.positive.tolist()) == [0, 1, 2]
    assert sorted(batch.negative.tolist()) == [3, 4, 5, 6, 7]


def test_large_bags_come_fewer_at_a_time_and_still_once_a_pass() -> None:
    bags = bags_of([30, 1, 1, 50, 2, 1, 9, 1], [1, 1, 1, 1, 1, 1, 1, 0])
    found = reader(bags, bags_per_side=4, instances_per_step=40)
    batches = list(islice(found.steps(bags.index.positive, bags.index.negative, generator()), 60))
    sizes = bags.index.sizes
    together = [int(sizes[batch.positive].sum()) for batch in batches]
    assert all(total <= 20 or len(batch.positive) == 1 for total, batch in zip(together, batches, strict=True))
    assert {30, 50} <= set(together), "a bag that is too large comes alone"
    assert max(len(batch.positive) for batch in batches) == 4
    visited = np.concatenate([batch.positive for batch in batches])
    whole = visited[: len(visited) // 7 * 7].reshape(-1, 7)
    assert all(len(set(row)) == 7 for row in whole.tolist())


def test_the_seed_decides_the_batches() -> None:
    one, same, other = (steps(4, 3, 9, 9, seed) for seed in (1, 1, 2))
    assert [b.positive.tolist() for b in one] == [b.positive.tolist() for b in same]
    assert [b.positive.tolist() for b in one] != [b.positive.tolist() for b in other]


def test_the_rows_are_those_of_the_bags_and_answers_in_order() -> None:
    bags = bags_of(SIZES, LABELS)
    known, refuted = np.array([1]), np.array([4, 10])
    batch = reader(bags).read(np.array([5, 0]), np.array([3, 1]), known, refuted)
    expected = torch.cat([bags["bag5"], bags["bag0"], bags["bag3"], bags["bag1"], bags.features[[1, 4, 10]]])
    assert torch.equal(batch.features, expected)
    assert (batch.n_positive_rows, batch.n_negative_rows) == (5, 5)
    assert batch.answered.tolist() == [1, 4, 10]
    assert batch.n_known_positive == 1


def test_each_bags_rows_are_found() -> None:
    bags = bags_of(SIZES, LABELS)
    batch = reader(bags).read(np.array([5, 0]), np.array([3, 1]), NOTHING, NOTHING)
    flat = torch.arange(10.0)
    assert batch.positive_classes.per_bag(flat[:5], None, maximum_score).tolist() == [1, 4]
    assert batch.positive_classes.per_bag(-flat[:5], None, maximum_score).tolist() == [0, -2]
    assert batch.negative_classes.per_bag(flat[5:], None, maximum_score).tolist() == [8, 9]


def test_known_negatives_are_left_out_of_their_bag() -> None:
    bags = bags_of(SIZES, LABELS)
    answers: dict[tuple[int, int], bool | None] = {(0, 1): False, (0, 2): True, (4, 0): False, (5, 0): None}
    numbers = np.array([5, 4, 0]), np.array([3])
    left = reader(bags, answers).read(*numbers, NOTHING, NOTHING)
    assert left.kept is not None
    assert left.kept.tolist() == [True, True, False, True, False, True]
    assert left.judged.tolist() == [True, False, True], "of bag 4 nothing is left"
    kept = reader(bags, answers, remove_known_negatives=False).read(*numbers, NOTHING, NOTHING)
    assert kept.kept is None
    assert kept.judged.tolist() == [True, True, True]


def test_answers_are_drawn_anew_each_step_and_capped() -> None:
    bags = bags_of([6] * 8, [1] * 6 + [0] * 2)
    answers: dict[tuple[int, int], bool | None] = {(bag, 0): True for bag in range(6)}
    answers |= {(bag, at): False for bag in range(6) for at in (1, 2)}
    book = book_of(bags.index, answers)
    found = reader(bags, answers, positives_per_step=2, negatives_per_step=5)
    batches = list(islice(found.steps(bags.index.positive, bags.index.negative, generator()), 40))
    assert {(b.n_known_positive, len(b.answered)) for b in batches} == {(2, 7)}
    _assert_answers_are(batches, book)
    drawn = np.concatenate([b.answered for b in batches])
    assert set(drawn.tolist()) == {*book.positives.tolist(), *book.negatives.tolist()}, "each comes up sooner or later"
    assert all(len(set(b.answered.tolist())) == 7 for b in batches)


def test_without_a_cap_every_answer_enters_every_step() -> None:
    bags = bags_of([6] * 4, [1, 1, 1, 0])
    answers: dict[tuple[int, int], bool | None] = {(0, 0): True, (0, 1): False, (1, 3): False, (2, 5): None}
    found = reader(bags, answers, positives_per_step=None, negatives_per_step=None)
    for batch in islice(found.steps(bags.index.positive, bags.index.negative, generator()), 3):
        assert sorted(batch.answered.tolist()) == [0, 1, 9], "a skipped instance is no answer"
        assert batch.n_known_positive == 1


@pytest.mark.parametrize("answers", [{(0, 0): False}, {(0, 0): False, (0, 1): True}], ids=["implied", "said"])
def test_a_positive_that_is_all_its_bag_has_left_is_no_second_bag_of_one(
    answers: dict[tuple[int, int], bool | None],
) -> None:
    bags = bags_of([2, 2], [1, 0])
    cases: list[tuple[dict[str, Any], tuple[list[int], int]]] = [
        ({}, ([0], 0)),
        ({"remove_known_negatives": False}, ([1, 0], 1)),
        ({"answers": "bce"}, ([1, 0], 1)),
    ]
    for changes, expected in cases:
        made = recipe(**changes)
        found = StepReader(made, bags, book_of(bags.index, answers), CPU)
        batch = next(found.steps(bags.index.positive, bags.index.negative, generator()))
        assert (batch.answered.tolist(), batch.n_known_positive) == expected


def test_one_buffer_serves_every_step_and_grows_with_the_largest() -> None:
    bags = bags_of(SIZES, LABELS)
    found = reader(bags)
    small = found.read(np.array([4]), np.array([1]), NOTHING, NOTHING)
    large = found.read(np.array([0, 2]), np.array([3, 6]), NOTHING, NOTHING)
    again = found.read(np.array([2]), np.array([1]), NOTHING, NOTHING)
    assert small.features.data_ptr() != large.features.data_ptr()
    buffer = found.rooms[0].there
    assert again.features.data_ptr() == large.features.data_ptr() == buffer.data_ptr()
    assert len(buffer) == 14
    assert torch.equal(again.features, torch.cat([bags["bag2"], bags["bag1"]]))


@pytest.mark.parametrize("kept_in", [torch.float64, torch.float16, torch.float32], ids=str)
def test_features_are_read_in_the_type_of_the_recipe(kept_in: torch.dtype) -> None:
    bags = Bags.from_arrays([[[0.5, 1.25]], [[3.0, -2.0]]], [1, 0], dtype=kept_in)
    for precision, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        batch = reader(bags, precision=precision).read(np.array([0]), np.array([1]), NOTHING, NOTHING)
        assert batch.features.dtype is dtype
        assert batch.features.tolist() == [[0.5, 1.25], [3.0, -2.0]]


def test_every_step_reads_rows_that_belong_to_its_bags() -> None:
    bags = bags_of(SIZES, LABELS)
    found = reader(bags, {(0, 1): False, (2, 0): True}, bags_per_side=2)
    for batch in islice(found.steps(bags.index.positive, bags.index.negative, generator(1)), 12):
        rows: IntArray = np.concatenate(
            [bags.index.positions(batch.positive), bags.index.positions(batch.negative), batch.answered]
        )
        assert torch.equal(batch.features, bags.features[rows])


def _assert_answers_are(batches: list[StepBatch], book: LabelBook) -> None:
    for batch in batches:
        assert set(batch.answered[: batch.n_known_positive].tolist()) <= set(book.positives.tolist())
        assert set(batch.answered[batch.n_known_positive :].tolist()) <= set(book.negatives.tolist())
