"""Counting bags, and the rules that they keep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admil.bags import BagIndex
from admil.datasets import BagCount, bag_counts, broken_rules
from tests.store.making import Given, rows, written


def bag(
    name: str, truth: list[int] | None, origins: list[str] | None, split: str | None = "train", label: Any = "truth"
) -> Given:
    count = len(truth or origins or [])
    known = None if truth is None else np.array(truth, dtype=bool)
    if label == "truth":
        label = None if known is None else int(known.any())
    return Given(name, rows(count), label, split, None if origins is None else {"origin": origins}, known)


GOOD = [
    bag("a", [1, 0, 1], ["1", "2", "3"]),
    bag("b", [0, 0], ["4", "5"]),
    bag("c", [0, 1], ["6", "7"], "test"),
    bag("d", [0], ["8"], "test"),
    bag("e", [0, 0, 0], ["9", "10", "11"]),
]


def test_bags_are_counted_by_split_and_label(tmp_path: Path) -> None:
    counts = bag_counts(written(tmp_path, GOOD))
    assert counts == (
        BagCount("train", 1, 1, 3, 2),
        BagCount("train", 0, 2, 5, 0),
        BagCount("test", 1, 1, 2, 1),
        BagCount("test", 0, 1, 1, 0),
    )
    assert counts[1].mean_size == 2.5
    assert counts[0].positive_share == pytest.approx(2 / 3)


def test_bags_without_split_label_or_truth_are_counted_as_such(tmp_path: Path) -> None:
    given = [bag("a", None, ["1"], None, 1), bag("b", None, ["2", "3"], None, None), bag("c", None, ["4"], "dev", 0)]
    counts = bag_counts(written(tmp_path, given))
    assert counts == (
        BagCount(None, 1, 1, 1, None),
        BagCount(None, None, 1, 2, None),
        BagCount("dev", 0, 1, 1, None),
    )
    assert counts[0].positive_share is None


def test_sound_bags_break_no_rule(tmp_path: Path) -> None:
    store = written(tmp_path, GOOD)
    assert broken_rules(store) == ()
    assert broken_rules(store, (1, 2)) == ()
    assert broken_rules(store, reuse=True) == ()


def test_too_many_and_too_few_positives_are_named(tmp_path: Path) -> None:
    store = written(tmp_path, GOOD)
    assert broken_rules(store, (1, 1)) == ("positive bag 'a' has 2 positive instances, not 1 to 1",)
    assert broken_rules(store, (2, 3)) == ("positive bag 'c' has 1 positive instances, not 2 to 3",)


def test_an_instance_in_two_bags_is_named(tmp_path: Path) -> None:
    store = written(tmp_path, [*GOOD, bag("f", [0, 0], ["2", "12"])])
    assert broken_rules(store) == ("instance 2 is in bag 'a' and in bag 'f'",)
    assert broken_rules(store, reuse=True) == ()


def test_an_instance_in_bags_of_two_splits_is_named_with_reuse_too(tmp_path: Path) -> None:
    store = written(tmp_path, [*GOOD, bag("f", [0, 0], ["2", "12"], "test")])
    for reuse in (False, True):
        assert broken_rules(store, reuse=reuse) == ("instance 2 is in bag 'a' and in bag 'f'",)


def test_an_instance_twice_in_a_bag_is_named(tmp_path: Path) -> None:
    store = written(tmp_path, [bag("a", [0, 0], ["1", "1"])])
    for reuse in (False, True):
        assert broken_rules(store, reuse=reuse) == ("instance 1 is in bag 'a' twice",)


def test_pictures_and_boxes_tell_instances_apart(tmp_path: Path) -> None:
    def cell(name: str, path: str, *lefts: int) -> Given:
        sides = {"left": list(lefts), "right": [left + 9 for left in lefts]}
        sides |= dict.fromkeys(("top", "bottom"), [0] * len(lefts))
        return Given(name, rows(len(lefts)), 0, "train", {"path": [path] * len(lefts), **sides})

    assert broken_rules(written(tmp_path / "good", [cell("a", "1.jpg", 0, 9), cell("b", "2.jpg", 0, 9)])) == ()
    store = written(tmp_path / "bad", [cell("a", "1.jpg", 0, 9), cell("b", "1.jpg", 9, 18)])
    assert broken_rules(store) == ("instance 1.jpg/9/0/18/0 is in bag 'a' and in bag 'b'",)


@pytest.mark.parametrize("columns", [None, {"text": ["same", "same"]}, {"path": [None, None]}])
def test_instances_that_nothing_tells_apart_are_not_mistaken_for_each_other(columns: Any, tmp_path: Path) -> None:
    store = written(tmp_path, [Given(name, rows(2), 1, "train", columns) for name in ("a", "b")])
    assert broken_rules(store) == ()


def test_labels_that_the_truth_contradicts_are_named(tmp_path: Path) -> None:
    """Only a store that was tampered with can have them: see here that it would not go unnoticed."""
    store = written(tmp_path, GOOD)
    turned = 1 - store.known_labels
    turned[0] = -1  # with all labels known, reading the truth refuses by itself
    index = BagIndex(store.ids, store.index.offsets, None)
    false = replace(store, index=index, known_labels=turned)
    assert broken_rules(false)[:2] == (
        "positive bag 'b' has 0 positive instances, not 1 to 3",
        "negative bag 'c' has 1 positive instances",
    )
