"""Reading ahead: the same results in the same order, the next one on its way while this one is used."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from admil.bags import BagSource, LabelBook
from admil.store import BagStore
from admil.training.ahead import Room, one_ahead
from admil.training.batches import StepReader
from admil.training.scoring import read_in_chunks
from tests.training.problems import bags_of, book_of, generator, recipe

CPU = torch.device("cpu")


def jobs_of(log: list[str], count: int = 4) -> Iterator[Callable[[], int]]:
    for number in range(count):
        log.append(f"draw {number} in {'caller' if _is_main() else 'thread'}")
        yield partial(_run, log, number)


def _run(log: list[str], number: int) -> int:
    log.append(f"run {number} in {'caller' if _is_main() else 'thread'}")
    return number


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("admil-read")]


@pytest.mark.parametrize("thread", [False, True])
def test_results_come_in_order(thread: bool) -> None:
    assert list(one_ahead(jobs_of([]), thread)) == [0, 1, 2, 3]
    assert list(one_ahead(iter(()), thread)) == []
    assert list(one_ahead(jobs_of([], 1), thread)) == [0]


@pytest.mark.parametrize("thread", [False, True])
def test_jobs_are_drawn_one_turn_ahead_by_the_caller(thread: bool) -> None:
    log: list[str] = []
    results = one_ahead(jobs_of(log), thread)
    for turn in range(3):
        assert next(results) == turn
        drawn = [entry for entry in log if entry.startswith("draw")]
        assert drawn == [f"draw {number} in caller" for number in range(turn + 2)]
    results.close()  # type: ignore[attr-defined]


def test_without_a_thread_a_job_runs_when_its_turn_comes() -> None:
    log: list[str] = []
    results = one_ahead(jobs_of(log), thread=False)
    next(results)
    assert [entry for entry in log if entry.startswith("run")] == ["run 0 in caller"]
    next(results)
    assert [entry for entry in log if entry.startswith("run")] == ["run 0 in caller", "run 1 in caller"]


def test_with_a_thread_the_next_job_runs_while_the_result_before_is_used() -> None:
    begun = threading.Event()
    results = one_ahead(iter([lambda: "first", lambda: begun.set() or "second"]), thread=True)  # type: ignore[func-returns-value]
    assert next(results) == "first"
    assert begun.wait(60), "the second job runs though nobody has asked for it"
    assert list(results) == ["second"]


@pytest.mark.parametrize("thread", [False, True])
def test_an_error_comes_when_its_turn_has_come(thread: bool) -> None:
    def fail() -> int:
        raise ZeroDivisionError

    results = one_ahead(iter([lambda: 1, fail, lambda: 3]), thread)
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert list(results) == []


def test_who_stops_early_leaves_no_thread() -> None:
    before = len(readers())
    results = one_ahead(jobs_of([]), thread=True)
    next(results)
    assert len(readers()) == before + 1
    results.close()  # type: ignore[attr-defined]
    assert len(readers()) == before


# --- rooms ---------------------------------------------------------------------------------------


def test_a_room_grows_to_the_largest_read_and_is_used_again() -> None:
    room = Room(bags_of([2, 2], None), torch.float64, CPU)
    small = room.read(2, lambda out: out.fill_(1))
    large = room.read(5, lambda out: out.fill_(2))
    assert (small.shape, large.shape, large.dtype) == ((2, 3), (5, 3), torch.float64)
    again = room.read(3, lambda out: out.fill_(3))
    assert again.data_ptr() == large.data_ptr()
    assert large[:, 0].tolist() == [3, 3, 3, 2, 2]


# --- bags on disk --------------------------------------------------------------------------------


def ragged(folder: Path) -> tuple[BagSource, BagSource]:
    """Make the same bags in memory and in a store of several parts."""
    sizes = np.random.default_rng(0).integers(1, 30, 24)
    bags = bags_of(sizes.tolist(), [1, 0] * 12)
    with BagStore.create(folder, part_bytes=1_000) as writer:
        for number, bag in enumerate(bags.ids):
            writer.add(bag, bags[bag], 1 - number % 2)
    return bags, BagStore.open(folder)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_steps_from_a_store_are_those_from_memory(precision: str, tmp_path: Path) -> None:
    sources = ragged(tmp_path)
    made = recipe(bags_per_side=5, positives_per_step=2, precision=precision)
    answers = {(0, 0): False, (2, 1): True, (2, 2): False, (4, 0): True, (6, 0): True, (6, 1): None}
    steps = []
    for bags in sources:
        reader = StepReader(made, bags, book_of(bags.index, answers), CPU)
        steps.append(reader.steps(bags.index.positive, bags.index.negative, generator(3)))
    for _ in range(12):
        one, other = next(steps[0]), next(steps[1])
        assert torch.equal(one.features, other.features)
        assert one.features.dtype == getattr(torch, precision)
        for name in ("positive", "negative", "answered"):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name
        assert one.kept is not None
        assert other.kept is not None
        assert torch.equal(one.kept, other.kept)
    for each in steps:
        each.close()  # type: ignore[attr-defined]


def test_a_batch_stays_as_it_is_until_the_next_is_asked_for(tmp_path: Path) -> None:
    _, store = ragged(tmp_path)
    reader = StepReader(recipe(bags_per_side=3), store, LabelBook(store.index), CPU)
    steps = reader.steps(store.index.positive, store.index.negative, generator())
    for _ in range(20):
        batch = next(steps)
        wanted = store.gather(np.concatenate([batch.positive, batch.negative])).features
        assert torch.equal(batch.features, wanted)
    steps.close()  # type: ignore[attr-defined]


def test_chunks_of_a_store_are_those_from_memory_though_bags_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admil.training.scoring._ROWS", 7)
    bags, store = ragged(tmp_path)
    for numbers in (np.arange(24), np.array([5, 3, 20]), np.array([], dtype=np.int64)):
        one = [chunk.clone() for chunk in read_in_chunks(bags, numbers, CPU)]
        other = [chunk.clone() for chunk in read_in_chunks(store, numbers, CPU)]
        assert [chunk.shape for chunk in one] == [chunk.shape for chunk in other]
        assert torch.equal(torch.cat(one), torch.cat(other))
        assert torch.equal(torch.cat(one), bags.gather(numbers).features)
