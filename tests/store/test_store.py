"""Bags on disk, read as bags in memory are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from admil.bags import Bags, BagSource, IntArray
from admil.errors import CorruptFile, InvalidInput, UnknownInstance
from admil.store import BagStore, Source
from tests.store.making import Given, content_of, files_of, full, rows, written


def numbers(*values: int) -> IntArray:
    return np.array(values, dtype=np.int64)


def flat(given: list[Given]) -> torch.Tensor:
    return torch.cat([each.features for each in given])


def test_a_store_says_what_was_written(tmp_path: Path) -> None:
    given = full()
    store = written(tmp_path / "s", given)
    assert isinstance(store, BagSource)
    assert len(store.header.parts) > 2, "the test is about several parts"
    assert store.ids == tuple(each.bag for each in given)
    assert store.known_labels.tolist() == [1, 0, -1, 1, 0, -1, 1]
    assert store.splits.tolist() == ["train", "test", None, "train", "test", None, "train"]
    assert store.index.sizes.tolist() == [1, 2, 3, 4, 1, 2, 3]
    assert (len(store), store.width, store.in_memory, store.header.dtype) == (7, 3, False, "float32")
    assert store.labels is None, "one label is missing"
    for each in given:
        assert torch.equal(store[each.bag], each.features)
        assert each.instances is not None
        assert store.details(each.bag) == [
            {"text": text, "x": x} for text, x in zip(each.instances["text"], each.instances["x"], strict=True)
        ]
        assert store.root_of(each.bag) == tmp_path / "s"
    assert dict(store.truth_rows()) == {each.bag: each.truth.tolist() for each in given if each.truth is not None}
    assert repr(store).endswith("7 bags, 3 positive, 2 unlabelled, 16 instances, 3 features, float32)")


def test_labels_are_known_where_every_bag_has_one(tmp_path: Path) -> None:
    store = written(tmp_path / "s", [Given("a", rows(1), 1), Given("b", rows(2), 0)])
    assert store.labels is not None
    assert store.labels.tolist() == [1, 0]
    assert repr(store).endswith("2 bags, 1 positive, 3 instances, 3 features, float32)")


@pytest.mark.parametrize("order", [(2, 0, 6), (6, 5, 4, 3, 2, 1, 0), (3,), (0, 1, 2, 3)])
def test_gather_reads_whole_bags_in_the_order_asked_for(order: tuple[int, ...], tmp_path: Path) -> None:
    given = full()
    batch = written(tmp_path / "s", given).gather(numbers(*order))
    assert batch.bags.tolist() == list(order)
    assert batch.sizes.tolist() == [len(given[number].features) for number in order]
    assert torch.equal(batch.features, flat([given[number] for number in order]))


@pytest.mark.parametrize("positions", [(0,), (15, 0, 7), (3, 4, 5, 6, 7), (5, 5, 5), (2, 1, 0), ()])
def test_rows_reads_single_instances_by_position(positions: tuple[int, ...], tmp_path: Path) -> None:
    given = full()
    got = written(tmp_path / "s", given).rows(numbers(*positions))
    assert torch.equal(got, flat(given)[list(positions)])


def test_all_rows_of_a_store_are_its_bags_one_after_another(tmp_path: Path) -> None:
    given = full()
    assert torch.equal(written(tmp_path / "s", given).rows(np.arange(16)), flat(given))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_reading_goes_into_the_first_rows_of_a_buffer_in_its_type(dtype: torch.dtype, tmp_path: Path) -> None:
    given = full()
    store = written(tmp_path / "s", given)
    out = torch.full((9, 3), 7.0, dtype=dtype)
    batch = store.gather(numbers(3, 1), out)
    assert batch.features.data_ptr() == out.data_ptr()
    assert torch.equal(out, torch.cat([flat([given[3], given[1]]).to(dtype), torch.full((3, 3), 7.0, dtype=dtype)]))
    assert torch.equal(store.rows(numbers(4), out), flat(given)[4:5].to(dtype))


def test_a_buffer_that_is_too_small_or_too_narrow_is_refused(tmp_path: Path) -> None:
    store = written(tmp_path / "s", full())
    with pytest.raises(InvalidInput, match=r"out needs 4 rows or more of 3 features, its shape is \(3, 3\)"):
        store.gather(numbers(3), torch.empty(3, 3))
    with pytest.raises(InvalidInput, match=r"out needs 2 rows or more of 3 features, its shape is \(9, 2\)"):
        store.rows(numbers(0, 1), torch.empty(9, 2))


def test_what_is_read_is_a_copy(tmp_path: Path) -> None:
    store = written(tmp_path / "s", full())
    before = store["bag 3 ü"]
    store["bag 3 ü"].zero_()
    store.gather(numbers(3)).features.zero_()
    assert torch.equal(store["bag 3 ü"], before)
    assert store.verify() == ()


def test_an_unknown_bag_is_named(tmp_path: Path) -> None:
    store = written(tmp_path / "s", full())
    for ask in (store.__getitem__, store.details, store.root_of):
        with pytest.raises(UnknownInstance, match="no bag 'nobody' among these 7"):
            ask("nobody")


# --- some of the bags ----------------------------------------------------------------------------


def test_a_subset_is_a_store_of_its_own_in_the_order_given(tmp_path: Path) -> None:
    given = full()
    some = written(tmp_path / "s", given).subset([6, 0, 3])
    assert some.ids == (given[6].bag, given[0].bag, given[3].bag)
    assert some.labels is not None
    assert some.labels.tolist() == [1, 1, 1]
    assert torch.equal(some.gather(np.arange(3)).features, flat([given[6], given[0], given[3]]))
    assert torch.equal(some.rows(numbers(3, 0)), torch.stack([given[0].features[0], given[6].features[0]]))
    assert some.details(given[3].bag)[2] == {"text": "post 3.2", "x": 1.0}
    again = some.subset(numbers(1))
    assert torch.equal(again[given[0].bag], given[0].features)
    with pytest.raises(UnknownInstance, match="no bag"):
        some[given[1].bag]


def test_a_mask_is_no_list_of_bag_numbers(tmp_path: Path) -> None:
    store = written(tmp_path / "s", full())
    with pytest.raises(InvalidInput, match=r"expected bag numbers.*np\.flatnonzero"):
        store.subset(np.ones(7, dtype=bool))


def test_where_chooses_by_split_and_by_label(tmp_path: Path) -> None:
    store = written(tmp_path / "s", full())
    assert store.where("train").ids == ("bag 0 ü", "bag 3 ü", "bag 6 ü")
    assert store.where(labelled=False).ids == ("bag 2 ü", "bag 5 ü")
    assert len(store.where(labelled=True)) == 5
    assert store.where("test", labelled=True).ids == ("bag 1 ü", "bag 4 ü")
    assert store.where().ids == store.ids
    with pytest.raises(InvalidInput, match="no bag of split 'dev'; its splits are: 'test', 'train', none"):
        store.where("dev")
    with pytest.raises(InvalidInput, match="no bag of split 'test' without a label"):
        store.where("test", labelled=False)


def test_loading_gives_the_same_bags_in_memory(tmp_path: Path) -> None:
    store = written(tmp_path / "s", full())
    some = store.where(labelled=True)
    bags = some.load()
    assert isinstance(bags, Bags)
    assert bags.index == some.index
    assert torch.equal(bags.features, some.gather(np.arange(5)).features)
    assert store.load().labels is None


# --- what a store is -----------------------------------------------------------------------------


def test_the_digest_tells_features_ids_labels_and_the_choice_of_bags(tmp_path: Path) -> None:
    given = full()
    store = written(tmp_path / "s", given)
    digests = {
        "same, in one part": written(tmp_path / "one", given, part_bytes=10**6).digest,
        "features": written(tmp_path / "f", [*given[:-1], Given(given[-1].bag, rows(3, seed=99), 1)]).digest,
        "id": written(tmp_path / "i", [*given[:-1], Given("other", given[-1].features, 1)]).digest,
        "label": written(tmp_path / "l", [*given[:-1], Given(given[-1].bag, given[-1].features, 0)]).digest,
        "order": store.subset([1, 0, 2, 3, 4, 5, 6]).digest,
        "fewer": store.subset([0, 1]).digest,
    }
    assert digests.pop("same, in one part") == store.digest == store.where().digest
    assert len({store.digest, *digests.values()}) == 6


def test_reading_changes_nothing_in_the_folder(tmp_path: Path) -> None:
    store = written(tmp_path / "s", full())
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "s").rglob("*")}
    content_of(BagStore.open(tmp_path / "s"))
    assert store.verify() == ()
    assert store.load().features.shape == (16, 3)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "s").rglob("*")} == before


def test_a_store_opens_in_a_folder_whose_name_means_something_to_arrow(tmp_path: Path) -> None:
    (tmp_path / "split=train").mkdir()
    store = written(tmp_path / "split=train" / "label=1", full())
    assert store.splits.tolist()[:3] == ["train", "test", None]
    assert content_of(store) == content_of(written(tmp_path / "plain", full()))


def test_a_store_that_moved_or_was_copied_opens_as_it_was(tmp_path: Path) -> None:
    before = content_of(written(tmp_path / "s", full()))
    (tmp_path / "s").rename(tmp_path / "other name")
    assert content_of(BagStore.open(str(tmp_path / "other name"))) == before


def test_bags_added_later_do_not_disturb_who_has_the_store_open(tmp_path: Path) -> None:
    given = full(9)
    old = written(tmp_path / "s", given[:5])
    content = content_of(old)
    with BagStore.append(tmp_path / "s", part_bytes=100) as writer:
        for each in given[5:]:
            each.add(writer)
            opened = BagStore.open(tmp_path / "s")
            assert opened.verify() == ()
            assert 5 <= len(opened) <= 9
            assert content_of(opened)[:5] == content
    assert content_of(old) == content
    assert content_of(BagStore.open(tmp_path / "s")) == content_of(written(tmp_path / "at once", given))


def test_paths_are_relative_to_the_root_of_their_source(tmp_path: Path) -> None:
    source = Source(kind="images", name="photos", root=str(tmp_path / "photos"))
    written(tmp_path / "s", [Given("a", rows(1), instances={"path": ["a.png"]})], source=source)
    with BagStore.append(tmp_path / "s") as writer:
        path = writer.picture("b/1.png", b"picture")
        writer.add("b", rows(1), instances={"path": [path]})
    store = BagStore.open(tmp_path / "s")
    assert store.root_of("a") == tmp_path / "photos"
    assert (store.root_of("b") / store.details("b")[0]["path"]).read_bytes() == b"picture"


def test_the_same_source_elsewhere_moves_the_root(tmp_path: Path) -> None:
    for place in ("here", "there"):
        source = Source(kind="images", name="photos", options={"size": (60, 75)}, root=str(tmp_path / place))
        with (
            BagStore.append(tmp_path / "s", source=source)
            if place == "there"
            else BagStore.create(tmp_path / "s", source=source) as writer
        ):
            if "a" not in writer.done:
                writer.add("a", rows(1))
    store = BagStore.open(tmp_path / "s")
    assert store.root_of("a") == tmp_path / "there"
    assert len(store.header.sources) == 1
    assert store.header.sources[0].complete


def test_a_folder_without_a_store_and_a_store_without_bags_are_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match=r"there is no store\.json in .*; give the folder that an import wrote"):
        BagStore.open(tmp_path)
    store = written(tmp_path / "s", full())
    store.header.model_copy(update={"parts": ()}).write(tmp_path / "s")
    with pytest.raises(CorruptFile, match="has no bags; import some into it"):
        BagStore.open(tmp_path / "s")
    assert files_of(tmp_path / "s").keys() >= {"store.json", "store.lock"}
