"""What every importer does: the same bags, in any kind of source, become the same store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from admil.importers import LabelFile, run_import
from admil.store import BagStore

from .sources import BAGS, KINDS, Kind, write_labels

each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def _stop_at(bag: int) -> Callable[[int, int], None]:
    def on_bag(seen: int, of: int) -> None:
        assert of == len(BAGS)
        if seen == bag:
            raise KeyboardInterrupt

    return on_bag


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@each_kind
def test_all_bags_arrive_with_their_labels_splits_and_truth(kind: Kind, tmp_path: Path) -> None:
    importer = kind.open(kind.write(tmp_path))

    report = run_import(importer, tmp_path / "store", labels=kind.labels(tmp_path))

    assert (report.added, report.instances, report.present, report.skipped, report.left_out) == (5, 12, 0, 0, ())
    store = BagStore.open(tmp_path / "store")
    assert store.verify() == ()
    assert sorted(store.ids) == [bag.id for bag in BAGS]
    for bag in BAGS:
        assert store[bag.id].numpy().tolist() == bag.features.tolist()
        assert store.known_labels[store.index.number(bag.id)] == bag.label
        if kind.name != "torchmil":
            assert store.splits[store.index.number(bag.id)] == bag.split
    truth = {bag: tuple(map(int, values)) for bag, values in store.truth_rows()}
    assert truth == ({bag.id: bag.truth for bag in BAGS} if kind.truth else {})
    assert store.header.sources[0].complete
    assert store.header.sources[0].kind == kind.name.split("-")[0]


@each_kind
def test_ids_name_the_bags_in_order(kind: Kind, tmp_path: Path) -> None:
    importer = kind.open(kind.write(tmp_path))
    assert [bag.id for bag in importer.bags()] == list(importer.ids())
    assert [bag.id for bag in importer.bags()] == list(importer.ids()), "bags can be asked for twice"


@each_kind
def test_the_same_import_again_changes_no_file(kind: Kind, tmp_path: Path) -> None:
    path = kind.write(tmp_path)
    run_import(kind.open(path), tmp_path / "store", labels=kind.labels(tmp_path))
    before = _files(tmp_path / "store")

    report = run_import(kind.open(path), tmp_path / "store", labels=kind.labels(tmp_path))

    assert (report.added, report.present) == (0, 5)
    assert _files(tmp_path / "store") == before


@each_kind
def test_a_stopped_import_goes_on_to_the_store_of_one_that_was_not(kind: Kind, tmp_path: Path) -> None:
    path, labels = kind.write(tmp_path), kind.labels(tmp_path)
    run_import(kind.open(path), tmp_path / "whole", labels=labels, part_bytes=48)

    for stopped in map(_stop_at, (4, 3, 1)):
        with pytest.raises(KeyboardInterrupt):
            run_import(kind.open(path), tmp_path / "store", labels=labels, part_bytes=48, on_bag=stopped)
    report = run_import(kind.open(path), tmp_path / "store", labels=labels, part_bytes=48)

    assert 0 < report.present < 5, "some parts were finished"
    assert _files(tmp_path / "store") == _files(tmp_path / "whole")


@each_kind
def test_bags_that_are_passed_over_do_not_shift_the_others(kind: Kind, tmp_path: Path) -> None:
    some = [BAGS[1], BAGS[3], BAGS[4]]
    labels = LabelFile(write_labels(tmp_path / "some.csv", some))

    report = run_import(kind.open(kind.write(tmp_path)), tmp_path / "store", labels=labels, missing="skip")

    assert (report.added, report.skipped) == (3, 2)
    store = BagStore.open(tmp_path / "store")
    assert sorted(store.ids) == [bag.id for bag in some]
    for bag in some:
        np.testing.assert_array_equal(store[bag.id].numpy(), bag.features)


@each_kind
def test_files_of_one_name_in_two_places_are_two_sources(kind: Kind, tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here, there = (kind.open(kind.write(tmp_path / name)).source for name in ("here", "there"))
    assert not here.same(there)
    assert here.same(kind.open(Path(here.place or "")).source)
