"""Labels that come later or were wrong, and sources that have moved."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from admil.errors import CorruptFile, InvalidInput, UnknownInstance
from admil.importers import ArrayImporter, ColumnNames, TableImporter, run_import
from admil.store import BagStore, Source, relabel, relocate, verify_store
from tests.store.making import Given, content_of, files_of, full, rows, written


def test_labels_that_were_set_go_before_those_of_the_manifest(tmp_path: Path) -> None:
    store = written(tmp_path / "s", full())
    assert relabel(tmp_path / "s", {"bag 2 ü": (0, "train"), "bag 1 ü": (0, None), "bag 0 ü": (1, "train")}) == 2
    later = BagStore.open(tmp_path / "s")
    assert later.known_labels.tolist() == [1, 0, 0, 1, 0, -1, 1]
    assert later.splits.tolist() == ["train", None, "train", "train", "test", None, "train"]
    assert later.verify() == ()
    assert store.known_labels.tolist() == [1, 0, -1, 1, 0, -1, 1], "who had it open goes on seeing what it saw"
    assert later.digest != store.digest


def test_setting_labels_again_keeps_the_others_and_one_file(tmp_path: Path) -> None:
    written(tmp_path / "s", [Given("a", rows(1)), Given("b", rows(1))])
    relabel(tmp_path / "s", {"a": (1, None)})
    relabel(tmp_path / "s", {"b": (0, "test")})
    assert relabel(tmp_path / "s", {"a": (1, None)}) == 0
    store = BagStore.open(tmp_path / "s")
    assert (store.known_labels.tolist(), store.splits.tolist()) == ([1, 0], [None, "test"])
    assert len(list((tmp_path / "s" / "labels").iterdir())) == 1
    assert relabel(tmp_path / "s", {"a": (None, None)}) == 1
    assert BagStore.open(tmp_path / "s").known_labels.tolist() == [-1, 0]


def test_bags_added_after_labels_were_set_keep_their_own(tmp_path: Path) -> None:
    written(tmp_path / "s", [Given("a", rows(1))])
    relabel(tmp_path / "s", {"a": (1, None)})
    with BagStore.append(tmp_path / "s") as writer:
        writer.add("b", rows(2), 0)
    store = BagStore.open(tmp_path / "s")
    assert (store.known_labels.tolist(), store.verify()) == ([1, 0], ())


def test_a_label_that_the_truth_contradicts_changes_nothing(tmp_path: Path) -> None:
    written(tmp_path / "s", full())
    before = files_of(tmp_path / "s")
    with pytest.raises(InvalidInput, match="bag 'bag 0 ü' is labelled negative but an instance of it is positive"):
        relabel(tmp_path / "s", {"bag 1 ü": (0, "new"), "bag 0 ü": (0, "train")})
    with pytest.raises(UnknownInstance, match=r"there is no bag 'nobody' in .*; give labels of its bags"):
        relabel(tmp_path / "s", {"bag 1 ü": (0, "new"), "nobody": (1, None)})
    assert files_of(tmp_path / "s") == before


def test_damaged_labels_are_noticed(tmp_path: Path) -> None:
    written(tmp_path / "s", [Given("a", rows(1))])
    relabel(tmp_path / "s", {"a": (1, None)})
    (path,) = (tmp_path / "s" / "labels").iterdir()
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(CorruptFile, match="is damaged: its checksum is not the one written"):
        BagStore.open(tmp_path / "s")
    assert any(path.name in problem for problem in verify_store(tmp_path / "s"))


def test_files_of_one_name_in_another_place_are_not_taken_for_those_imported(tmp_path: Path) -> None:
    for year, value in (("2023", 1.0), ("2024", 2.0)):
        (tmp_path / year / "photos").mkdir(parents=True)
        np.save(tmp_path / year / "photos" / "b.npy", np.full((1, 2), value))
    run_import(ArrayImporter(tmp_path / "2023" / "photos"), tmp_path / "s")
    before = files_of(tmp_path / "s")
    with pytest.raises(InvalidInput) as caught:
        run_import(ArrayImporter(tmp_path / "2024" / "photos"), tmp_path / "s")
    place = tmp_path / "2023" / "photos"
    assert str(caught.value).startswith(
        f"bag 'b' is in the store already, from {place}; if that has moved here, say so"
    )
    assert files_of(tmp_path / "s") == before


def test_a_source_that_has_moved_is_known_again_once_that_was_said(tmp_path: Path) -> None:
    (tmp_path / "old" / "photos").mkdir(parents=True)
    for name in ("a", "b"):
        np.save(tmp_path / "old" / "photos" / f"{name}.npy", np.ones((1, 2)))
    run_import(ArrayImporter(tmp_path / "old" / "photos"), tmp_path / "s")
    shutil.move(tmp_path / "old", tmp_path / "new")
    (tmp_path / "new" / "photos").rename(tmp_path / "new" / "pictures")
    assert relocate(tmp_path / "s", tmp_path / "old" / "photos", tmp_path / "new" / "pictures") == 1
    report = run_import(ArrayImporter(tmp_path / "new" / "pictures"), tmp_path / "s")
    assert (report.added, report.present) == (0, 2)


def test_the_folder_of_pictures_moves_with_a_folder_above_it(tmp_path: Path) -> None:
    source = Source(
        kind="images", name="photos", place=str(tmp_path / "a" / "photos"), root=str(tmp_path / "a" / "photos")
    )
    written(tmp_path / "s", [Given("a", rows(1), instances={"path": ["1.png"]})], source=source)
    (tmp_path / "b" / "photos").mkdir(parents=True)
    content = content_of(BagStore.open(tmp_path / "s"))
    assert relocate(tmp_path / "s", tmp_path / "a", tmp_path / "b") == 1
    store = BagStore.open(tmp_path / "s")
    assert store.root_of("a") == tmp_path / "b" / "photos"
    assert store.header.sources[0].name == "photos"
    assert content_of(store) == content


def test_a_move_that_cannot_be_is_refused(tmp_path: Path) -> None:
    source = Source(kind="images", name="photos", place=str(tmp_path / "photos"), root=str(tmp_path / "photos"))
    written(tmp_path / "s", [Given("a", rows(1))], source=source)
    with pytest.raises(
        InvalidInput, match=f"nothing in .* comes from {tmp_path / 'x'}; it comes from: {tmp_path / 'photos'}$"
    ):
        relocate(tmp_path / "s", tmp_path / "x", tmp_path)
    with pytest.raises(InvalidInput, match=r"there is no .*none; give the place where the files are now"):
        relocate(tmp_path / "s", tmp_path / "photos", tmp_path / "none")


def test_one_process_changes_a_store_at_a_time(tmp_path: Path) -> None:
    written(tmp_path / "s", [Given("a", rows(1))])
    with BagStore.append(tmp_path / "s") as writer:
        writer.add("b", rows(1))
        with pytest.raises(InvalidInput, match="another process is writing to"):
            relabel(tmp_path / "s", {"a": (1, None)})
    assert relabel(tmp_path / "s", {"b": (1, None)}) == 1


def test_other_options_of_an_import_are_not_taken_for_a_move(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("bag,grade,f1\na,1,0.5\n")
    run_import(TableImporter(tmp_path / "t.csv", ColumnNames(features=("f1",))), tmp_path / "s")
    again = TableImporter(tmp_path / "t.csv", ColumnNames(label="grade", features=("f1",)))
    with pytest.raises(InvalidInput, match=r"bag 'a' is in the store already, imported from .*t.csv with other"):
        run_import(again, tmp_path / "s")
