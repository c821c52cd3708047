"""The truth of a store, as `admil.oracle` reads it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from admil.errors import CorruptFile, InvalidInput
from admil.oracle import Truth
from admil.store import BagStore
from admil.store.layout import TRUTH_SCHEMA, Header
from admil.store.tables import write_table
from tests.store.making import Given, full, written


def test_truth_follows_the_bags_chosen_and_their_order(tmp_path: Path) -> None:
    given = {each.bag: each for each in full()}
    store = written(tmp_path, list(given.values()))
    for bags in (store, store.subset([5, 0, 3]), store.where("test")):
        truth = Truth.of_store(bags)
        assert truth.index is bags.index
        wanted = [given[bag].truth for bag in bags.ids]
        assert truth.positive.tolist() == np.concatenate(wanted).tolist()  # type: ignore[arg-type]


def test_bags_without_truth_are_named(tmp_path: Path) -> None:
    given = full()
    store = written(tmp_path, [*given[:2], *(Given(each.bag, each.features, each.label) for each in given[2:])])
    with pytest.raises(InvalidInput, match=r"holds no truth for 5 of these bags \('bag 2 ü', …\); import it with them"):
        Truth.of_store(store)
    assert Truth.of_store(store.subset([1, 0])).positive.tolist() == [False, False, True]


def test_truth_of_other_bags_is_found_out(tmp_path: Path) -> None:
    written(tmp_path, full(), part_bytes=10**6)
    digest = write_table(pa.table([["bag 3 ü"], [[True]]], schema=TRUTH_SCHEMA), tmp_path / "truth" / "000000.parquet")
    header = Header.read(tmp_path)
    header.model_copy(update={"parts": (header.parts[0].model_copy(update={"truth": digest}),)}).write(tmp_path)
    with pytest.raises(CorruptFile, match=r"the truth of bag 'bag 3 ü' in .* has 1 values, it has 4 instances"):
        Truth.of_store(BagStore.open(tmp_path).subset([3]))
