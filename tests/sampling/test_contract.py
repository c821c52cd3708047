"""What every sampler promises, asked of every sampler that a recipe can name."""

from __future__ import annotations

import inspect
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from torch import Generator

from admil.bags import LabelBook, LabelState, Query, Scores
from admil.errors import InvalidInput
from admil.sampling import BuiltinSampler, RandomSampler, Sampler, by_priority
from tests.sampling.situations import (
    SAMPLERS,
    Situation,
    book_of,
    generator,
    index_of,
    name_of,
    ragged,
    scores_of,
    situations,
)

BUILTIN: TypeAdapter[Any] = TypeAdapter(BuiltinSampler)

every_sampler = pytest.mark.parametrize("sampler", SAMPLERS, ids=name_of)
every_deterministic_sampler = pytest.mark.parametrize(
    "sampler", [s for s in SAMPLERS if not isinstance(s, RandomSampler)], ids=name_of
)


@every_sampler
@settings(max_examples=40)
@given(situation=situations(), budget=st.integers(1, 25), seed=st.integers(0, 2**32))
def test_any_query_keeps_the_contract(sampler: Sampler, situation: Situation, budget: int, seed: int) -> None:
    scores, book = situation
    query = sampler.select(scores, book, budget, generator(seed))
    left = sum(_may_be_asked(book, at) for at in range(book.index.n_instances))
    assert len(query) == min(budget, left)
    assert len(set(query.ids)) == len(query)
    assert all(_may_be_asked(book, book.index.position(instance)) for instance in query.ids)
    assert bool(query.note) == (len(query) < budget or "same priority" in query.note)
    _assert_items_agree(query, scores)
    assert sampler.select(scores, book, budget, generator(seed)) == query


@every_sampler
def test_instances_of_every_state_but_unknown_are_left_alone(sampler: Sampler) -> None:
    scores, book = ragged()
    query = sampler.select(scores, book, 100, generator())
    asked = {book.index.position(instance) for instance in query.ids}
    assert asked == {1, 3, 12, 13, 14, 18, 19, 20, 21}
    assert {LabelState(book.state[at]) for at in asked} == {LabelState.UNKNOWN}


@every_sampler
def test_a_small_budget_is_spent_to_the_last_question(sampler: Sampler) -> None:
    scores, book = ragged()
    for budget in range(1, 9):
        query = sampler.select(scores, book, budget, generator())
        assert len(query) == budget
        assert query.note == ""


@every_deterministic_sampler
def test_a_larger_budget_only_adds_questions_at_the_end(sampler: Sampler) -> None:
    scores, book = ragged()
    everything = sampler.select(scores, book, 9, generator()).ids
    assert [sampler.select(scores, book, n, generator()).ids for n in range(1, 10)] == [
        everything[:n] for n in range(1, 10)
    ]


@every_sampler
def test_the_same_seed_gives_the_same_query_whatever_the_global_state(sampler: Sampler) -> None:
    scores, book = ragged()
    seen = []
    for global_seed in (1, 2):
        _seed_globally(global_seed)
        seen.append(sampler.select(scores, book, 5, generator(7)))
    assert seen[0] == seen[1]


@every_sampler
def test_global_random_state_is_left_as_it_was(sampler: Sampler) -> None:
    scores, book = ragged()
    _seed_globally(1)
    expected = _global_draws()
    _seed_globally(1)
    sampler.select(scores, book, 5, generator())
    assert _global_draws() == expected


@every_deterministic_sampler
def test_a_deterministic_sampler_does_not_depend_on_the_seed(sampler: Sampler) -> None:
    scores, book = ragged()
    assert sampler.select(scores, book, 5, generator(1)) == sampler.select(scores, book, 5, generator(2))


@every_deterministic_sampler
def test_equal_priorities_go_to_the_earlier_position(sampler: Sampler) -> None:
    book = book_of(index_of([3, 3, 3], [1, 0, 1]))
    scores = scores_of([0.5] * 9, book)
    level = {name: np.full(9, 0.25) for name in scores.extras}
    query = sampler.select(replace(scores, extras=level), book, 5, generator())
    assert [book.index.position(instance) for instance in query.ids] == [0, 1, 2, 6, 7]


def test_the_highest_priority_comes_first_and_ties_go_by_position() -> None:
    priority = np.array([1.0, 3.0, 9.0, 3.0, -np.inf, 2.0])
    pool = np.array([True, True, False, True, True, True])
    assert by_priority(priority, pool, 10).tolist() == [1, 3, 5, 0, 4]
    assert by_priority(priority, pool, 2).tolist() == [1, 3]
    assert by_priority(priority, pool, 0).tolist() == []


@every_sampler
@pytest.mark.parametrize(
    ("labels", "answers"),
    [
        ([0, 0], {}),
        ([1, 0], {0: "positive", 1: "negative"}),
        ([1, 0], {0: "negative"}),
        ([1, 1], {0: "skipped", 1: "skipped", 2: "skipped", 3: "skipped"}),
    ],
    ids=["no positive bag", "all answered", "the other one implied", "all skipped"],
)
def test_an_empty_pool_gives_an_empty_query_that_says_why(
    sampler: Sampler, labels: list[int], answers: dict[int, str]
) -> None:
    book = book_of(index_of([2, 2], labels), answers)
    query = sampler.select(scores_of([0.2, 0.9, 0.5, 0.1], book), book, 3, generator())
    assert query.items == ()
    assert query.note == "nothing is left to ask: every instance of the positive bags is answered, skipped or implied"


@every_sampler
def test_a_budget_beyond_what_is_left_gives_all_of_it_and_says_so(sampler: Sampler) -> None:
    scores, book = ragged()
    query = sampler.select(scores, book, 10, generator())
    assert len(query) == 9
    assert query.note == "only 9 instances are left to ask, the budget was 10"
    one_left = book.extended(book_of(book.index, {book.index.position(i): "skipped" for i in query.ids[1:]}).answers)
    query = sampler.select(scores, one_left, 10, generator())
    assert len(query) == 1
    assert query.note == "only 1 instance is left to ask, the budget was 10"


@every_sampler
@pytest.mark.parametrize("budget", [0, -3, True, False, 2.0, 2.5, float("nan"), "3", None])
def test_a_budget_that_is_no_positive_whole_number_is_refused(sampler: Sampler, budget: Any) -> None:
    scores, book = ragged()
    with pytest.raises(InvalidInput, match=r"a whole number of at least 1, got ") as caught:
        sampler.select(scores, book, budget, generator())
    assert repr(budget) in str(caught.value)


@every_sampler
def test_scores_of_other_bags_are_refused(sampler: Sampler) -> None:
    scores, book = ragged()
    others = replace(scores, index=index_of(book.index.sizes.tolist(), [1, 1, 0, 1, 1, 1, 1, 0], prefix="other"))
    with pytest.raises(InvalidInput, match="belong to different bags; score the training bags"):
        sampler.select(others, book, 3, generator())


@every_sampler
def test_an_equal_index_is_as_good_as_the_same_one(sampler: Sampler) -> None:
    scores, book = ragged()
    same = replace(scores, index=index_of([4, 1, 3, 2, 5, 3, 4, 2], [1, 1, 0, 1, 1, 1, 1, 0]))
    assert sampler.select(same, book, 5, generator()) == sampler.select(scores, book, 5, generator())


@every_sampler
def test_selecting_changes_nothing_that_came_in(sampler: Sampler) -> None:
    scores, book = ragged()
    before = _flat(scores), book.state.copy(), book.answers
    sampler.select(scores, book, 5, generator())
    np.testing.assert_array_equal(_flat(scores), before[0])
    np.testing.assert_array_equal(book.state, before[1])
    assert book.answers == before[2]


@every_sampler
def test_skipped_retracted_and_answered_again_instances_can_be_asked_again(sampler: Sampler) -> None:
    scores, book = ragged()
    skipped, answered = book.index.instance(2), book.index.instance(11)
    reopened = book.retracted(skipped).retracted(answered)
    asked = set(sampler.select(scores, reopened, 100, generator()).ids)
    assert {skipped, answered} <= asked
    assert not {skipped, answered} & set(sampler.select(scores, book, 100, generator()).ids)


@every_deterministic_sampler
@settings(max_examples=15)
@given(order=st.permutations(range(8)), seed=st.integers(0, 99), budget=st.integers(1, 9))
def test_the_order_of_the_bags_does_not_matter_without_ties(
    sampler: Sampler, order: Sequence[int], seed: int, budget: int
) -> None:
    scores, book = ragged(seed)
    index = book.index.subset(order)
    moved = book.index.positions(np.array(order))
    permuted = Scores(
        index,
        scores.f[moved],
        scores.p[moved],
        scores.bag_score[list(order)],
        {name: values[moved] for name, values in scores.extras.items()},
    )
    query = sampler.select(permuted, LabelBook(index, book.answers), budget, generator())
    assert query == sampler.select(scores, book, budget, generator())


@every_sampler
def test_a_sampler_survives_json(sampler: Sampler) -> None:
    text = BUILTIN.dump_json(sampler)
    assert BUILTIN.validate_json(text) == sampler
    assert f'"kind":"{BUILTIN.dump_python(sampler)["kind"]}"'.encode() in text


def test_every_kind_is_another_word() -> None:
    kinds = [BUILTIN.dump_python(sampler)["kind"] for sampler in SAMPLERS]
    assert len(set(kinds)) == len(kinds) == len(get_args(get_args(BuiltinSampler)[0]))


def test_an_unknown_kind_is_refused_by_naming_the_known_ones() -> None:
    with pytest.raises(ValidationError, match="'pf', 'f_entropy'"):
        BUILTIN.validate_python({"kind": "clairvoyant"})


@every_sampler
def test_a_misspelt_field_is_refused(sampler: Sampler) -> None:
    with pytest.raises(ValidationError, match=f"{name_of(sampler)} has no field 'budgett'"):
        BUILTIN.validate_python({**BUILTIN.dump_python(sampler), "budgett": 3})


@every_sampler
def test_the_fields_of_a_sampler_stay_as_they_are(sampler: Sampler) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(sampler, "kind", "random")  # noqa: B010


@pytest.mark.parametrize("sampler", [s for s in SAMPLERS if s.needs], ids=name_of)
def test_missing_extras_are_named_with_the_way_to_get_them(sampler: Sampler) -> None:
    scores, book = ragged()
    with pytest.raises(InvalidInput, match=rf"needs '{sampler.needs[0]}' in the scores; call score") as caught:
        sampler.select(replace(scores, extras={}), book, 3, generator())
    assert caught.value.subject == sampler.needs[0]


@pytest.mark.parametrize("sampler", [s for s in SAMPLERS if not s.needs], ids=name_of)
def test_who_needs_no_extras_gets_by_without(sampler: Sampler) -> None:
    scores, book = ragged()
    assert sampler.select(replace(scores, extras={}), book, 3, generator()) == sampler.select(
        scores, book, 3, generator()
    )


@every_sampler
def test_a_sampler_is_given_no_truth(sampler: Sampler) -> None:
    assert isinstance(sampler, Sampler)
    assert get_type_hints(type(sampler).select) == {
        "scores": Scores,
        "labels": LabelBook,
        "budget": int,
        "generator": Generator,
        "return": Query,
    }
    assert list(inspect.signature(sampler.select).parameters) == ["scores", "labels", "budget", "generator"]


def _seed_globally(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def _global_draws() -> tuple[float, float, float]:
    return torch.rand(()).item(), np.random.random(), random.random()


def _may_be_asked(book: LabelBook, position: int) -> bool:
    """Say by the words of the documentation alone whether an instance may be asked."""
    index = book.index
    assert index.labels is not None
    number = index.bag_of[position]
    answers = [book.of(index.instance(int(at))) for at in index.positions(np.array([number]))]
    open_ = [answer for answer in answers if answer in (None, "skipped")]
    implied = len(open_) == 1 and "positive" not in answers
    return bool(index.labels[number] == 1) and book.of(index.instance(position)) is None and not implied


def _assert_items_agree(query: Query, scores: Scores) -> None:
    for item in query:
        position = scores.index.position(item.id)
        number = scores.index.number(item.id.bag)
        here = scores.of(item.id.bag)
        order = sorted(range(len(here)), key=lambda at: (-here[at], at))
        assert item.f == scores.f[position] == here[item.id.index]
        assert item.p == scores.p[position]
        assert item.rank == order.index(item.id.index) + 1
        assert item.bag_score == scores.bag_score[number]
        assert item.reason.isalpha()


def _flat(scores: Scores) -> np.ndarray[Any, Any]:
    arrays = [scores.f, scores.p, scores.bag_score, *(scores.extras[name].ravel() for name in sorted(scores.extras))]
    return np.concatenate(arrays)
