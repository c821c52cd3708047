"""Work ahead of whoever takes its results: in order, bounded, and not for lists that nobody takes."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admil.features.ahead import ReadAhead

Numbers = ReadAhead[int, int]


class Work:
    """Negates numbers, takes note of them, and waits where it is told to."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.may_go = threading.Event()
        self.may_go.set()

    def __call__(self, item: int) -> int:
        assert self.may_go.wait(10)
        if item < 0:
            raise ValueError(item)
        self.done.append(item)
        return -item


def ahead(
    lists: Sequence[Sequence[int]],
    work: Callable[[int], int],
    weight: Callable[[int], int] = lambda result: 1,
    threads: int = 2,
    most: int = 100,
    heaviest: int = 1000,
) -> Numbers:
    return Numbers(len(lists), lists.__getitem__, work, weight, threads=threads, most=most, heaviest=heaviest)


def results(made: Numbers, number: int) -> list[tuple[int, int]]:
    return [(item, future.result()) for item, future in made.take(number)]


def soon(condition: Callable[[], bool]) -> bool:
    """Wait for what threads are to do."""
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    return condition()


def settled(work: Work) -> list[int]:
    """Return what was worked on once nothing more is."""
    before = -1
    while before != len(work.done):
        before = len(work.done)
        time.sleep(0.05)
    return work.done


LISTS = st.lists(st.lists(st.integers(0, 99), max_size=7), min_size=1, max_size=9)


@given(LISTS, st.data(), st.integers(1, 3), st.integers(1, 5), st.integers(1, 5))
def test_results_come_in_order_whichever_lists_are_taken(
    lists: list[list[int]], data: st.DataObject, threads: int, most: int, heaviest: int
) -> None:
    wanted = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=12))
    with closing(ahead(lists, lambda item: -item, abs, threads, most, heaviest)) as made:
        for number in wanted:
            assert results(made, number) == [(item, -item) for item in lists[number]]


def test_lists_that_follow_are_worked_on_before_they_are_asked_for() -> None:
    work, lists = Work(), [[10 * number, 10 * number + 1] for number in range(9)]
    with closing(ahead(lists, work)) as made:
        for number in range(3):
            results(made, number)
        assert soon(lambda: 41 in work.done), "two follow the third"
        assert settled(work) == sorted(work.done) == [item for each in lists[:5] for item in each]
        for number in range(3, 9):
            results(made, number)
    assert sorted(work.done) == [item for each in lists for item in each], "nothing is done twice"


def test_little_is_done_in_vain_where_few_lists_are_taken() -> None:
    work, lists = Work(), [[number] for number in range(100)]
    with closing(ahead(lists, work)) as made:
        for number in range(3, 100, 7):
            results(made, number)
        assert settled(work) == list(range(3, 100, 7))


def test_what_was_done_for_a_list_beyond_one_that_is_passed_over_is_used() -> None:
    work, lists = Work(), [[number] for number in range(9)]
    with closing(ahead(lists, work)) as made:
        for number in range(4):
            results(made, number)
        assert soon(lambda: 6 in work.done)
        assert results(made, 5) == [(5, -5)]
        assert results(made, 6) == [(6, -6)]
    assert sorted(work.done)[:7] == list(range(7))
    assert len(set(work.done)) == len(work.done)


@pytest.mark.parametrize(("most", "heaviest", "expected"), [(6, 1000, 6), (100, 40, 4), (1, 1, 1)])
def test_no_more_waits_than_may(most: int, heaviest: int, expected: int) -> None:
    work = Work()
    with closing(ahead([[*range(50)]], work, lambda result: 10, 1, most, heaviest)) as made:
        taken: Iterator[object] = made.take(0)
        next(taken)
        assert len(settled(work)) == 1 + expected
        next(taken)
        assert soon(lambda: len(work.done) == 2 + expected)


class Result:
    """A result that can be watched."""


def test_a_result_is_gone_once_it_is_used() -> None:
    """Without waiting for the garbage collector: results are pictures."""
    watched: list[weakref.ref[Result]] = []

    def work(item: int) -> Result:
        made = Result()
        watched.append(weakref.ref(made))
        return made

    gc.disable()
    try:
        with closing(
            ReadAhead(1, lambda number: range(30), work, lambda made: 1, threads=1, most=3, heaviest=9)
        ) as made:
            for _ in made.take(0):
                assert sum(each() is not None for each in watched) <= 2 + 3
    finally:
        gc.enable()
    assert len(watched) == 30


def test_heavy_results_are_not_worked_on_together() -> None:
    """All threads would begin at once if what is not done yet weighed nothing."""
    work = Work()
    with closing(ahead([[0], [*range(1, 50)]], work, lambda result: 1000, 4, 100, 1500)) as made:
        results(made, 0)
        next(made.take(1))
        assert len(settled(work)) <= 1 + 1 + 2


def test_an_error_is_that_of_its_item() -> None:
    with closing(ahead([[1, -2, 3]], Work())) as made:
        first, second, third = (future for _, future in made.take(0))
    assert (first.result(), third.result()) == (-1, -3)
    with pytest.raises(ValueError, match="-2"):
        second.result()


def test_an_error_of_a_list_is_raised_when_it_is_taken_and_the_next_goes_on() -> None:
    work = Work()

    def items(number: int) -> list[int]:
        if number == 2:
            raise OSError("no such list")
        return [number]

    with closing(Numbers(5, items, work, abs, threads=2, most=9, heaviest=99)) as made:
        assert [results(made, number) for number in range(2)] == [[(0, 0)], [(1, -1)]]
        with pytest.raises(OSError, match="no such list"):
            results(made, 2)
        assert [results(made, number) for number in (3, 4)] == [[(3, -3)], [(4, -4)]]


def test_a_list_that_is_left_in_the_middle_is_dropped() -> None:
    work = Work()
    with closing(ahead([[*range(10)], [20, 21]], work, most=3)) as made:
        next(made.take(0))
        assert results(made, 1) == [(20, -20), (21, -21)]
        assert len(settled(work)) < 8


def test_threads_end_and_what_was_not_begun_is_not_worked_on() -> None:
    work, before = Work(), set(threading.enumerate())
    made = ahead([[*range(50)]], work, most=10)
    next(made.take(0))
    work.may_go.clear()
    closer = threading.Thread(target=made.close)
    closer.start()
    work.may_go.set()
    closer.join()
    assert set(threading.enumerate()) <= before
    assert len(work.done) < 20
