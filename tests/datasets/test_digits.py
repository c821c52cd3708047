"""Bags of digit pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from admil.datasets import DigitBags, DigitSet, bag_counts, broken_rules, digits
from admil.errors import InvalidInput
from admil.features import read_picture

from .raws import build, check_seeds


def _shown(split: DigitBags) -> Any:
    """Return the digit that each instance shows."""
    return load_digits().target[split.pictures]


def test_no_picture_is_dealt_twice() -> None:
    train, test = digits(seed=0)
    dealt = np.concatenate([train.pictures, test.pictures])
    assert len(set(dealt.tolist())) == len(dealt)


def test_features_are_the_pixels_of_the_pictures() -> None:
    for split in digits(seed=3, train_bags=4, test_bags=3):
        expected = load_digits().data[split.pictures] / 16
        np.testing.assert_allclose(split.bags.features, expected, rtol=1e-6)
        assert split.bags.features.min() >= 0
        assert split.bags.features.max() <= 1


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10_000),
    targets=st.sets(st.integers(0, 9), min_size=1, max_size=3),
    counts=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    sizes=st.tuples(st.integers(3, 5), st.integers(5, 9)),
    positives=st.tuples(st.integers(1, 2), st.integers(2, 3)),
)
def test_bags_are_as_ordered(
    seed: int, targets: set[int], counts: tuple[int, int], sizes: tuple[int, int], positives: tuple[int, int]
) -> None:
    made = digits(seed, sorted(targets), *counts, sizes, (3, 4), positives)
    for split, count, (least, most) in zip(made, counts, (sizes, (3, 4)), strict=True):
        index, shown = split.bags.index, _shown(split)
        assert split.bags.labels is not None
        assert split.bags.labels.tolist() == [1] * count + [0] * count
        assert ((index.sizes >= least) & (index.sizes <= most)).all()
        assert split.truth.positive.tolist() == np.isin(shown, sorted(targets)).tolist()
        found = np.bincount(index.bag_of, split.truth.positive, len(index))
        assert ((found > 0) == (split.bags.labels == 1)).all()
        assert ((found[:count] >= positives[0]) & (found[:count] <= positives[1])).all()


def test_the_counts_are_those_documented() -> None:
    train, test = digits(seed=1)
    assert (len(train.bags), len(test.bags)) == (52, 60)
    assert (len(train.bags.index.positive), len(test.bags.index.positive)) == (26, 30)
    assert (train.truth.positive.sum(), test.truth.positive.sum()) == (26, 30), "one a bag"
    assert train.bags.width == 64
    assert train.bags.ids[:2] == ("train-00", "train-01")
    assert test.bags.ids[-1] == "test-59"
    assert set(train.bags.index.sizes.tolist()) == set(range(16, 23))
    assert set(test.bags.index.sizes.tolist()) == set(range(8, 15))
    assert set(_shown(train)[train.truth.positive].tolist()) == {8}


def test_targets_lie_anywhere_in_their_bag() -> None:
    train, _ = digits(seed=0)
    within = (
        np.flatnonzero(train.truth.positive) - train.bags.index.offsets[train.bags.index.bag_of][train.truth.positive]
    )
    assert len(set(within.tolist())) > 6


def test_the_seed_decides_the_bags() -> None:
    one, same, other = digits(seed=5), digits(seed=5), digits(seed=6)
    for split in (0, 1):
        assert np.array_equal(one[split].pictures, same[split].pictures)
        assert np.array_equal(one[split].bags.index.offsets, same[split].bags.index.offsets)
        assert not np.array_equal(one[split].pictures[:50], other[split].pictures[:50])


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ({"train_bags": 200}, r"not enough pictures for 200 \+ 200 bags"),
        ({"test_bags": 130}, r"not enough pictures for 130 \+ 130 bags"),
        ({"targets": ()}, "not enough pictures"),
        ({"targets": (17,)}, "not enough pictures"),
        ({"targets": tuple(range(10))}, "not enough pictures"),
        ({"train_bags": 0}, "each split needs a bag at least, got 0 for training and 30 for test"),
        ({"test_bags": -3}, "each split needs a bag at least"),
        ({"sizes": (0, 3)}, r"sizes are .* from 1 up, got \(0, 3\)"),
        ({"sizes": (9, 8)}, r"sizes are .* got \(9, 8\)"),
        ({"positives": (0, 1)}, r"positives are .* from 1 up to the 8 pictures"),
        ({"positives": (3, 2)}, r"positives are .* got \(3, 2\)"),
        ({"positives": (1, 9)}, r"positives are .* up to the 8 pictures of the smallest bag, got \(1, 9\)"),
        ({"seed": -1}, "a seed is a whole number from 0 up, got -1"),
    ],
    ids=str,
)
def test_orders_that_cannot_be_filled_are_refused(order: dict[str, Any], message: str) -> None:
    for make in (digits, DigitSet):
        with pytest.raises(InvalidInput, match=message):
            make(**{"seed": 0, **order})


# --- the same bags in a store --------------------------------------------------------------------


def test_the_store_holds_the_bags_of_the_demo(tmp_path: Path) -> None:
    built = build(DigitSet(3), tmp_path)
    for split in digits(3):
        for bag in split.bags.ids:
            assert built.store[bag].equal(split.bags[bag])
        name = split.bags.ids[0].split("-")[0]
        origins = [int(row["origin"].split("/")[1]) for bag in split.bags.ids for row in built.store.details(bag)]
        assert origins == split.pictures.tolist()
        assert {built.store.splits[built.store.index.number(bag)] for bag in split.bags.ids} == {name}
    assert built.truth.positive.tolist() == np.concatenate([split.truth.positive for split in digits(3)]).tolist()


def test_the_store_has_the_documented_counts_and_keeps_the_rules(tmp_path: Path) -> None:
    built = build(DigitSet(0), tmp_path)
    assert broken_rules(built.store, (1, 1)) == ()
    assert [(count.split, count.label, count.bags) for count in bag_counts(built.store)] == [
        ("train", 1, 26),
        ("train", 0, 26),
        ("test", 1, 30),
        ("test", 0, 30),
    ]
    assert built.store.header.features == {"encoder": "grey", "size": 8}
    assert DigitSet(0).source.options == {
        "seed": 0,
        "targets": [8],
        "train_bags": 26,
        "test_bags": 30,
        "sizes": [16, 22],
        "test_sizes": [8, 14],
        "positives": [1, 1],
    }


def test_the_contact_sheet_shows_the_digits(tmp_path: Path) -> None:
    store = build(DigitSet(0, train_bags=1, test_bags=1), tmp_path).store
    rows = store.details("train-00")
    page = read_picture(store.root_of("train-00") / rows[0]["path"])
    for row in rows:
        box = page[row["top"] : row["bottom"], row["left"] : row["right"]]
        digit = load_digits().images[int(row["origin"].split("/")[1])]
        np.testing.assert_allclose(box[..., 0], digit * 255 / 16, atol=0.5)
        assert (box[..., 0] == box[..., 2]).all()


def test_one_seed_gives_the_same_bytes_and_another_gives_others(tmp_path: Path) -> None:
    check_seeds(lambda seed: DigitSet(seed, train_bags=3, test_bags=2), tmp_path)
