"""Scores and queries: how they are read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admil.bags import BagIndex, InstanceId, Query, QueryItem, Scores
from admil.errors import UnknownInstance


def scores_of(f: list[float], sizes: list[int]) -> Scores:
    index = BagIndex(tuple("abcdefgh"[: len(sizes)]), np.cumsum([0, *sizes]))
    return Scores(index, np.array(f), np.full(len(f), 0.5), np.zeros(len(sizes)))


def item(bag: str, place: int, reason: str = "exploit") -> QueryItem:
    return QueryItem(InstanceId(bag, place), reason, f=0.4, p=0.5, rank=1, bag_score=0.3)


# --- scores -------------------------------------------------------------------------------------


def test_the_scores_of_a_bag_are_found_by_its_id() -> None:
    scores = scores_of([0.1, 0.9, 0.5, 0.2], [2, 1, 1])
    assert scores.of("a").tolist() == [0.1, 0.9]
    assert scores.of("b").tolist() == [0.5]
    assert scores.of("c").tolist() == [0.2]
    with pytest.raises(UnknownInstance, match="there is no bag 'x' among these 3"):
        scores.of("x")


def test_scores_are_split_bag_by_bag() -> None:
    parts = scores_of([0.1, 0.9, 0.5, 0.2], [2, 1, 1]).split()
    assert [part.tolist() for part in parts] == [[0.1, 0.9], [0.5], [0.2]]
    assert [part.tolist() for part in scores_of([0.1, 0.9], [2]).split()] == [[0.1, 0.9]]


def test_instances_are_ranked_from_the_highest_with_ties_by_position() -> None:
    ranking = scores_of([0.5, 0.9, 0.5, 0.0, 0.9], [2, 3]).ranking()
    assert ranking == [
        InstanceId("a", 1),
        InstanceId("b", 2),
        InstanceId("a", 0),
        InstanceId("b", 0),
        InstanceId("b", 1),
    ]


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from([0.0, 0.25, 0.5, 1.0])), min_size=1, max_size=8))
def test_the_ranking_is_pythons_stable_sort(bags: list[tuple[int, float]]) -> None:
    sizes = [size for size, _ in bags]
    f = [(start + place) % 2 * start for size, start in bags for place in range(size)]
    scores = scores_of(f, sizes)
    names = [scores.index.instance(position) for position in range(len(f))]
    assert scores.ranking() == [name for _, name in sorted(zip(f, names, strict=True), key=lambda pair: -pair[0])]


def test_nothing_more_than_was_asked_for_comes_with_the_scores() -> None:
    assert dict(scores_of([0.1], [1]).extras) == {}
    assert scores_of([0.1], [1]).extras is not scores_of([0.1], [1]).extras


# --- queries ------------------------------------------------------------------------------------


def test_a_query_is_read_in_the_order_of_asking() -> None:
    items = (item("b", 1), item("a", 0, "explore"), item("b", 0))
    query = Query(items)
    assert list(query) == list(items)
    assert len(query) == 3
    assert query[1].reason == "explore"
    assert query[-1] is items[2]
    assert query.ids == (InstanceId("b", 1), InstanceId("a", 0), InstanceId("b", 0))
    assert query.note == ""
    assert query == Query(items)
    with pytest.raises(IndexError, match="out of range"):
        query[3]


def test_an_empty_query_says_why() -> None:
    query = Query(note="every instance has been answered")
    assert len(query) == 0
    assert list(query) == []
    assert query.ids == ()
    assert not query
    assert query.note == "every instance has been answered"


def test_a_question_keeps_why_it_is_asked() -> None:
    question = item("a", 2)
    assert (question.id, question.reason) == (InstanceId("a", 2), "exploit")
    assert (question.f, question.p, question.rank, question.bag_score) == (0.4, 0.5, 1, 0.3)
    with pytest.raises(AttributeError, match="cannot assign to field 'f'"):
        question.f = 1.0  # type: ignore[misc]
