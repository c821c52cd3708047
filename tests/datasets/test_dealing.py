"""Dealing instances into bags."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admil.datasets.dealing import Dealt, Piles, about, between, deal, named, split_generator
from admil.errors import InvalidInput


def pool(positives: int, negatives: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.arange(positives + negatives) < positives


@given(
    seed=st.integers(0, 2**40),
    count=st.integers(1, 6),
    sizes=st.tuples(st.integers(2, 4), st.integers(4, 7)),
    most=st.integers(1, 2),
    reuse=st.booleans(),
)
def test_bags_are_as_ordered(seed: int, count: int, sizes: tuple[int, int], most: int, reuse: bool) -> None:
    positive, rng = pool(20, 90), np.random.default_rng(seed)
    bags = deal(Piles(positive, rng, reuse), count, between(*sizes), between(1, most), rng, "things")
    assert len(bags) == 2 * count
    assert all(sizes[0] <= len(bag) <= sizes[1] for bag in bags)
    assert all(1 <= positive[bag].sum() <= most for bag in bags[:count])
    assert all(positive[bag].sum() == 0 for bag in bags[count:])
    assert all(len(set(bag.tolist())) == len(bag) for bag in bags)
    if not reuse:
        dealt = np.concatenate(bags)
        assert len(set(dealt.tolist())) == len(dealt)


def test_all_of_a_pool_can_be_dealt_and_no_more() -> None:
    rng = np.random.default_rng(0)
    bags = deal(Piles(pool(3, 9), rng), 3, between(2, 2), between(1, 1), rng, "things")
    assert sorted(np.concatenate(bags).tolist()) == list(range(12))
    with pytest.raises(
        InvalidInput,
        match=r"there are not enough things for 3 \+ 3 bags \(there are for 5 bags\); ask for fewer or smaller bags",
    ):
        deal(Piles(pool(3, 8), rng), 3, between(2, 2), between(1, 1), rng, "things")
    with pytest.raises(InvalidInput, match=r"there are for 2 bags"):
        deal(Piles(pool(2, 99), rng), 3, between(2, 2), between(1, 1), rng, "things")


def test_with_reuse_a_pool_never_ends_and_serves_all_alike() -> None:
    rng = np.random.default_rng(0)
    bags = deal(Piles(pool(4, 6), rng, reuse=True), 500, between(3, 3), between(1, 1), rng, "things")
    shown = Counter(np.concatenate(bags).tolist())
    assert [shown[row] for row in range(4)] == pytest.approx([125] * 4, rel=0.25)
    assert [shown[row] for row in range(4, 10)] == pytest.approx([2500 / 6] * 6, rel=0.15)
    with pytest.raises(InvalidInput, match="not enough things"):
        deal(Piles(pool(4, 6), rng, reuse=True), 1, between(8, 8), between(1, 1), rng, "things")


def test_positives_lie_anywhere_in_a_bag() -> None:
    rng = np.random.default_rng(1)
    positive = pool(300, 2100)
    bags = deal(Piles(positive, rng), 300, between(4, 4), between(1, 1), rng, "things")[:300]
    places = Counter(int(np.flatnonzero(positive[bag])[0]) for bag in bags)
    assert [places[place] for place in range(4)] == pytest.approx([75] * 4, rel=0.3)


def test_numbers_between_two_are_as_likely() -> None:
    rng = np.random.default_rng(0)
    draws = Counter(between(1, 3)(rng, 0) for _ in range(3000))
    assert sorted(draws) == [1, 2, 3]
    assert list(draws.values()) == pytest.approx([1000] * 3, rel=0.08)


@given(share=st.floats(0.001, 0.999), size=st.integers(1, 200), seed=st.integers(0, 99))
def test_a_share_is_rounded_to_a_neighbour_and_is_one_at_least(share: float, size: int, seed: int) -> None:
    found = about(share)(np.random.default_rng(seed), size)
    assert 1 <= found <= size
    assert found == 1 or abs(found - share * size) < 1


def test_a_share_is_right_on_average() -> None:
    rng = np.random.default_rng(0)
    assert np.mean([about(0.03)(rng, 45) for _ in range(4000)]) == pytest.approx(1.35, abs=0.03)
    assert np.mean([about(0.3)(rng, 7) for _ in range(4000)]) == pytest.approx(2.1, abs=0.03)


def test_what_is_dealt_gets_its_name_split_and_label() -> None:
    bags = named("test", [np.array([row]) for row in range(11)], np.arange(11) == 2)
    assert [bag.id for bag in bags][:3] == ["test-00", "test-01", "test-02"]
    assert bags[10].id == "test-10"
    assert {bag.split for bag in bags} == {"test"}
    assert [bag.label for bag in bags] == [0, 0, 1] + [0] * 8
    assert named("train", [np.array([0])], np.array([True]))[0].id == "train-0"
    assert Dealt("a", "train", np.array([4, 5]), np.array([False, True])).label == 1


def test_parts_of_a_data_set_draw_apart() -> None:
    def draw(*numbers: int) -> bytes:
        return split_generator(*numbers).bytes(8)

    assert draw(7, 1) == draw(7, 1)
    assert len({draw(*numbers) for numbers in [(7, 0), (7, 1), (8, 0), (8, 1), (7, 1, 1), (7, 0, 1)]}) == 6


@pytest.mark.parametrize("seed", [-1, True])
def test_a_seed_is_a_whole_number(seed: int) -> None:
    with pytest.raises(InvalidInput, match=f"a seed is a whole number from 0 up, got {seed}"):
        split_generator(seed)
