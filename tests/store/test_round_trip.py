"""Whatever is written comes back, in however many sittings and parts it was written."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from admil.bags import Bags
from admil.store import DTYPES, BagStore, Source, StoreWriter
from tests.store.making import Given, content_of, files_of

ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def bag_lists(draw: st.DrawFn) -> list[Given]:
    """Draw bags of one width and type; some with labels, splits, columns and truth."""
    width = draw(st.integers(1, 5))
    kept = DTYPES[draw(st.sampled_from(["float16", "bfloat16", "float32"]))]
    columns = draw(st.sampled_from([(), ("text",), ("text", "left"), ("x", "own column")]))
    names = draw(st.lists(ids, min_size=1, max_size=7, unique=True))
    return [draw(_bags(name, width, kept, columns)) for name in names]


@st.composite
def _bags(draw: st.DrawFn, name: str, width: int, dtype: torch.dtype, columns: tuple[str, ...]) -> Given:
    count = draw(st.integers(1, 6))
    seed = draw(st.integers(0, 2**20))
    features = torch.from_numpy(np.random.default_rng(seed).normal(size=(count, width))).to(dtype)
    values: dict[str, Any] = {"text": texts, "left": st.none() | st.integers(-(2**31), 2**31 - 1)}
    values |= {"x": st.none() | st.floats(allow_nan=False), "own column": st.none() | st.integers(-5, 5)}
    instances = {column: draw(st.lists(values[column], min_size=count, max_size=count)) for column in columns}
    truth = draw(st.none() | st.lists(st.booleans(), min_size=count, max_size=count))
    label = draw(st.sampled_from([None, 0, 1] if truth is None else [None, int(any(truth))]))
    split = draw(st.sampled_from([None, "train", "test", "größer"]))
    return Given(name, features, label, split, instances or None, None if truth is None else np.array(truth))


@settings(max_examples=40)
@given(bag_lists(), st.data())
def test_what_is_written_in_several_sittings_comes_back(given: list[Given], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(1, len(given)), max_size=3)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        for start, stop in zip([0, *cuts], [*cuts, len(given)], strict=True):
            if start < stop:
                with StoreWriter(path, part_bytes=data.draw(st.sampled_from([1, 300, 10**6]))) as writer:
                    for each in given[start:stop]:
                        each.add(writer)
        store = BagStore.open(path)
        assert store.verify() == ()
        _is(store, given)
        chosen = data.draw(st.lists(st.sampled_from(range(len(given))), min_size=1, unique=True))
        _is(store.subset(chosen), [given[number] for number in chosen])


def _is(store: BagStore, given: list[Given]) -> None:
    assert store.ids == tuple(each.bag for each in given)
    assert store.known_labels.tolist() == [-1 if each.label is None else each.label for each in given]
    assert store.splits.tolist() == [each.split for each in given]
    assert torch.equal(store.load().features, torch.cat([each.features for each in given]))
    truth = dict(store.truth_rows())
    for each in given:
        columns = each.instances or {}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        assert store.details(each.bag) == rows
        assert truth.get(each.bag) == (None if each.truth is None else each.truth.tolist())


@settings(max_examples=40)
@given(bag_lists(), st.data())
def test_a_store_reads_as_the_same_bags_in_memory_do(given: list[Given], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with StoreWriter(Path(folder) / "s", part_bytes=200) as writer:
            for each in given:
                each.add(writer)
        store = BagStore.open(Path(folder) / "s")
        features = [each.features for each in given]
        bags = Bags.from_arrays(features, ids=store.ids, dtype=features[0].dtype)
        numbers = np.array(data.draw(st.lists(st.sampled_from(range(len(given))), unique=True)), dtype=np.int64)
        places = np.array(data.draw(st.lists(st.integers(0, bags.index.n_instances - 1), max_size=20)), dtype=np.int64)
        assert torch.equal(store.gather(numbers).features, bags.gather(numbers).features)
        assert torch.equal(store.rows(places), bags.rows(places))
        out, other = torch.zeros(2, len(places) + 1, bags.width).unbind()
        assert torch.equal(store.rows(places, out), bags.rows(places, other))
        assert torch.equal(out, other), "what lies beyond is left alone"


@settings(max_examples=25)
@given(bag_lists(), st.data())
def test_stopped_anywhere_and_run_again_gives_the_same_bytes(given: list[Given], data: st.DataObject) -> None:
    source = Source(kind="test", name="x")
    size = data.draw(st.sampled_from([1, 300, 600]))

    def run(path: Path, stop: int | None) -> None:
        writer = StoreWriter(path, source=source, part_bytes=size)
        for number, each in enumerate(given):
            if number == stop:
                writer.abandon()
                return
            if each.bag not in writer.done:
                each.add(writer)
        writer.close()

    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder) / "whole", None)
        for stop in data.draw(st.lists(st.integers(0, len(given) - 1), max_size=3)):
            run(Path(folder) / "s", stop)
        run(Path(folder) / "s", None)
        assert files_of(Path(folder) / "s") == files_of(Path(folder) / "whole")
        assert content_of(BagStore.open(Path(folder) / "s")) == content_of(BagStore.open(Path(folder) / "whole"))
