"""Rows found by the ends of keys, against a dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from admil.features.keyindex import KeyIndex


def keys_of(ends: list[int]) -> NDArray[np.uint8]:
    """Make keys of which only the ends differ."""
    names = b"".join(end.to_bytes(32, "big") for end in ends)
    return np.frombuffer(names, np.uint8).reshape(-1, 32)


@given(st.lists(st.lists(st.integers(0, 12), max_size=9), max_size=12))
def test_all_rows_that_may_have_a_key_are_found_the_latest_first(batches: list[list[int]]) -> None:
    index, expected = KeyIndex(), dict[int, list[int]]()
    for batch in batches:
        for end in batch:
            expected.setdefault(end, []).insert(0, sum(map(len, expected.values())))
        index.extend(keys_of(batch))
    wanted = list(range(13))
    assert index.candidates([bytes(each) for each in keys_of(wanted)]) == [expected.get(end, []) for end in wanted]
    assert len(index) == sum(map(len, batches))


def test_keys_that_end_alike_are_candidates_of_each_other() -> None:
    index = KeyIndex()
    index.extend(np.array([[number] * 24 + [7] * 8 for number in range(3)], np.uint8))
    assert index.candidates([bytes([2] * 24 + [7] * 8), bytes([7] * 24 + [2] * 8)]) == [[2, 1, 0], []]


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_runs_stay_few_however_keys_are_added(at_once: int) -> None:
    index, names = KeyIndex(), np.random.default_rng(0).integers(0, 256, (1000, 32), np.uint8)
    for start in range(0, 1000, at_once):
        index.extend(names[start : start + at_once])
    assert index.candidates([bytes(name) for name in names]) == [[row] for row in range(1000)]
    assert len(index._runs) <= 10
