"""The truth, and annotators who answer from it: exactly, or with known rates of mistakes and skips."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch import Generator

from admil.bags import BagIndex, InstanceId, Query, QueryItem
from admil.errors import InvalidInput, UnknownInstance
from admil.oracle import SimulatedAnnotator, Truth


def truth_of(positive: list[bool], sizes: list[int], labels: list[int] | None) -> Truth:
    index = BagIndex(
        tuple("abcdefgh"[: len(sizes)]), np.cumsum([0, *sizes]), None if labels is None else np.array(labels)
    )
    return Truth(index, np.array(positive))


def small_truth() -> Truth:
    return truth_of([False, True, False, True], [2, 1, 1], [1, 0, 1])


def large_truth(count: int) -> Truth:
    """Return one positive bag of which every second instance is positive."""
    return truth_of([place % 2 == 1 for place in range(count)], [count], [1])


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


# --- truth --------------------------------------------------------------------------------------


def test_the_truth_of_an_instance_is_found_by_its_name() -> None:
    truth = small_truth()
    assert truth[InstanceId("a", 0)] is False
    assert truth[InstanceId("a", 1)] is True
    assert truth[InstanceId("b", 0)] is False
    assert truth[InstanceId("c", 0)] is True
    with pytest.raises(UnknownInstance, match=r"there is no instance a\[2\]"):
        truth[InstanceId("a", 2)]
    with pytest.raises(UnknownInstance, match="there is no bag 'x'"):
        truth[InstanceId("x", 0)]


def test_a_truth_that_contradicts_the_bag_labels_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="bag 'b' is labelled positive but no instance of it is positive") as error:
        truth_of([True, False, False], [1, 2], [1, 1])
    assert error.value.subject == "b"
    with pytest.raises(InvalidInput, match="bag 'a' is labelled negative but an instance of it is positive") as error:
        truth_of([False, True, True], [2, 1], [0, 1])
    assert error.value.subject == "a"


@pytest.mark.parametrize("count", [0, 2, 4])
def test_a_truth_of_the_wrong_length_is_refused(count: int) -> None:
    with pytest.raises(InvalidInput, match=rf"one truth value per instance: 3 instances, got shape \({count},\)"):
        truth_of([True] * count, [1, 2], [1, 1])


def test_bags_without_labels_may_have_any_truth() -> None:
    assert truth_of([False, False, True], [2, 1], None)[InstanceId("b", 0)] is True


# --- annotators ---------------------------------------------------------------------------------


def test_an_exact_annotator_answers_the_truth_in_the_order_asked() -> None:
    ids = [InstanceId("c", 0), InstanceId("a", 0), InstanceId("a", 1)]
    query = Query(tuple(QueryItem(instance, "explore", 0.5, 0.5, 1, 0.5) for instance in ids))
    for annotator in (SimulatedAnnotator(small_truth()), SimulatedAnnotator(small_truth(), generator=seeded())):
        answers = annotator.answer(query)
        assert list(answers.items()) == [(ids[0], True), (ids[1], False), (ids[2], True)]
        assert annotator.label(ids) == answers
        assert annotator.answer(Query()) == {}


def test_an_annotator_refuses_instances_that_do_not_exist() -> None:
    with pytest.raises(UnknownInstance, match=r"there is no instance a\[9\]"):
        SimulatedAnnotator(small_truth()).label([InstanceId("a", 9)])


@pytest.mark.parametrize(("mistakes", "skips"), [(0.2, 0.0), (0.0, 0.3), (0.1, 0.5)])
def test_mistakes_and_skips_come_at_the_rates_asked_for(mistakes: float, skips: float) -> None:
    count = 20_000
    truth = large_truth(count)
    answers = SimulatedAnnotator(truth, mistakes, skips, seeded()).label(InstanceId("a", i) for i in range(count))
    skipped = [instance for instance, answer in answers.items() if answer is None]
    wrong = [i for i, answer in answers.items() if answer is not None and answer is not truth[i]]
    assert len(skipped) / count == pytest.approx(skips, abs=0.015)
    assert len(wrong) / (count - len(skipped)) == pytest.approx(mistakes, abs=0.015)
    # neither depends on what is true
    for some in (wrong, skipped):
        if some:
            assert sum(truth[instance] for instance in some) / len(some) == pytest.approx(0.5, abs=0.03)


def test_an_annotator_who_always_errs_and_one_who_always_skips() -> None:
    truth, ids = small_truth(), [InstanceId("a", 0), InstanceId("a", 1)]
    assert SimulatedAnnotator(truth, mistakes=1.0, generator=seeded()).label(ids) == {ids[0]: True, ids[1]: False}
    assert SimulatedAnnotator(truth, 1.0, 1.0, seeded()).label(ids) == {ids[0]: None, ids[1]: None}


def test_the_same_seed_gives_the_same_answers_and_another_seed_others() -> None:
    ids = [InstanceId("a", place) for place in range(200)]

    def answers(seed: int) -> list[bool | None]:
        return list(SimulatedAnnotator(large_truth(200), 0.2, 0.2, seeded(seed)).label(ids).values())

    assert answers(1) == answers(1)
    assert answers(1) != answers(2)


def test_a_skip_does_not_shift_the_mistakes_of_later_answers() -> None:
    ids = [InstanceId("a", place) for place in range(200)]
    with_skips = SimulatedAnnotator(large_truth(200), 0.2, 0.5, seeded()).label(ids)
    without = SimulatedAnnotator(large_truth(200), 0.2, 0.0, seeded()).label(ids)
    assert all(answer is None or answer is without[instance] for instance, answer in with_skips.items())


@pytest.mark.parametrize(("mistakes", "skips"), [(0.1, 0.0), (0.0, 0.1), (1.0, 1.0)])
def test_an_annotator_who_errs_or_skips_needs_a_generator(mistakes: float, skips: float) -> None:
    with pytest.raises(InvalidInput, match=r"errs or skips needs a generator; pass torch\.Generator"):
        SimulatedAnnotator(small_truth(), mistakes, skips)


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["mistakes", "skips"])
def test_a_rate_that_is_no_probability_is_refused(name: str, rate: float) -> None:
    arguments: dict[str, Any] = {name: rate}
    with pytest.raises(InvalidInput, match=rf"{name} is a probability in \[0, 1\], got {rate}"):
        SimulatedAnnotator(small_truth(), generator=seeded(), **arguments)
