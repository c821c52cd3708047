"""`admil info`, `head`, `verify` and `dump`, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from admil.store import BagStore, Source, dump_store
from tests.cli.calling import call
from tests.store.making import Given, full, rows, written


def spoilt(folder: Path) -> Path:
    """Write a store and flip a bit of its first shard and of its first instance table."""
    written(folder, full())
    for kind, ending in (("features", "safetensors"), ("instances", "parquet")):
        path = folder / kind / f"000000.{ending}"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    return folder


# --- info ----------------------------------------------------------------------------------------


def test_info_counts_bags_by_label_and_split(tmp_path: Path) -> None:
    source = Source(kind="table", name="posts.csv", options={"delimiter": ";"})
    store = written(tmp_path / "s", full(), source=source, dtype="float16")
    done = call("info", tmp_path / "s")
    assert done.code == 0, done.err
    for words in (
        "7: 3 positive, 2 negative, 2 without a label",
        "16: 1 to 4 a bag, median 2",
        "3 of float16",
        "text (string), x (double)",
        "of 7 bags",
        f"in {len(store.header.parts)} parts",
    ):
        assert words in done.out
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.out.splitlines() if "│" in line]
    assert ["test", "0", "2", "0", "3"] in cells
    assert ["train", "3", "0", "0", "8"] in cells
    assert ["none", "0", "0", "2", "5"] in cells
    assert ["table", "posts.csv", "7", "delimiter ;", "yes"] in cells


def test_info_says_how_features_were_made(tmp_path: Path) -> None:
    with BagStore.create(tmp_path / "s", features={"encoder": "net", "weights": "ab" * 32, "mean": [1.0]}) as writer:
        writer.add("a", rows(1), 1)
    out = call("info", tmp_path / "s").out
    assert (
        "3 of float32, encoder net, weights abababab, mean [1.0]\n"
        in "\n".join(map(str.rstrip, out.splitlines())) + "\n"
    )
    assert "nothing: features alone" in out
    assert "not known" in out


def test_info_as_json_is_for_programs(tmp_path: Path) -> None:
    store = written(tmp_path / "s", full(), source=Source(kind="table", name="posts.csv"))
    said = json.loads(call("info", tmp_path / "s", "--json", columns=20).out)
    assert said["bags"] == {"all": 7, "positive": 3, "negative": 2, "unlabelled": 2}
    assert said["bag_sizes"] == {"smallest": 1, "median": 2.0, "mean": pytest.approx(16 / 7), "largest": 4}
    assert said["instances"] == 16
    assert said["columns"] == {"text": "string", "x": "double"}
    assert said["splits"][0] == {
        "split": "test",
        "bags": {"all": 2, "positive": 0, "negative": 2, "unlabelled": 0},
        "instances": 3,
    }
    assert said["splits"][-1]["split"] is None
    assert said["bags_with_truth"] == 7
    assert said["parts"] == len(store.header.parts)
    assert said["sources"] == [
        {"kind": "table", "name": "posts.csv", "options": {}, "complete": True, "place": None, "root": None, "bags": 7}
    ]
    on_disk = sum(path.stat().st_size for path in (tmp_path / "s").rglob("*") if path.is_file())
    assert sum(said["bytes"].values()) == on_disk


def test_info_of_an_import_that_was_stopped_says_so(tmp_path: Path) -> None:
    writer = BagStore.create(tmp_path / "s", source=Source(kind="table", name="t.csv"))
    writer.add("a", rows(1))
    writer.commit()
    writer.abandon()
    assert "no: run it again" in call("info", tmp_path / "s").out


# --- head ----------------------------------------------------------------------------------------


def test_head_shows_the_first_instances_of_a_bag(tmp_path: Path) -> None:
    written(tmp_path / "s", full())
    done = call("head", tmp_path / "s", "bag 3 ü", "--rows", 3)
    assert done.code == 0, done.err
    assert done.out.startswith("Bag bag 3 ü: positive, split train, 4 instances\n")
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.out.splitlines() if "│" in line]
    values = " ".join(f"{value:.3g}" for value in rows(4, 3, 3)[2].tolist())
    assert cells == [
        *([str(i), f"post 3.{i}", ("0", "0.5")[i], cells[i][3]] for i in range(2)),
        ["2", "post 3.2", "1", values],
    ]
    assert "1 more; --rows shows them" in done.out


def test_head_shows_the_first_bag_unasked_and_the_truth_only_when_asked(tmp_path: Path) -> None:
    written(tmp_path / "s", full())
    out = call("head", tmp_path / "s").out
    assert out.startswith("Bag bag 0 ü: positive, split train, 1 instance\n")
    assert "truth" not in out
    assert "│ positive │" in call("head", tmp_path / "s", "--truth").out


def test_head_fits_a_narrow_terminal(tmp_path: Path) -> None:
    columns: dict[str, Any] = {"path": ["a/very/long/path/to/a/picture.png"], "text": ["many words " * 20]}
    columns |= {side: [value] for side, value in zip(("left", "top", "right", "bottom"), (0, 75, 60, 150), strict=True)}
    written(tmp_path / "s", [Given("a", rows(1, 200), instances={**columns, "empty": [None]})])
    out = call("head", tmp_path / "s", columns=80).out
    assert max(map(len, out.splitlines())) <= 80
    assert "0,75 to 60,150" in out
    assert "200 features" in out
    assert "│ 0 │" in out
    assert "empty" not in out


def test_head_of_a_bag_that_is_not_there_names_it(tmp_path: Path) -> None:
    written(tmp_path / "s", full())
    done = call("head", tmp_path / "s", "nobody")
    assert done.code == 1
    assert "error: there is no bag 'nobody' among these 7" in done.err


# --- verify --------------------------------------------------------------------------------------


def test_verify_says_that_a_store_is_sound(tmp_path: Path) -> None:
    written(tmp_path / "s", full())
    done = call("verify", tmp_path / "s")
    assert done.code == 0
    assert done.out.startswith("Sound: 7 bags, 16 instances, ")


def test_verify_names_everything_that_is_damaged(tmp_path: Path) -> None:
    done = call("verify", spoilt(tmp_path / "s"))
    assert done.code == 1
    assert done.out.count("problem: ") == 2
    assert f"problem: shard {tmp_path / 's' / 'features' / '000000.safetensors'} is damaged" in done.out
    assert f"error: {tmp_path / 's'} has 2 problems" in done.err


def test_verify_shows_the_first_of_many_problems(tmp_path: Path) -> None:
    written(tmp_path / "s", [Given(f"bag {number}", rows(1)) for number in range(25)], part_bytes=1)
    for path in (tmp_path / "s" / "features").iterdir():
        path.write_bytes(b"")
    done = call("verify", tmp_path / "s")
    assert done.out.count("problem: ") == 20
    assert "has 25 problems, the first 20 are shown" in done.err


# --- dump ----------------------------------------------------------------------------------------


def test_dump_writes_what_the_import_it_names_reads_back(tmp_path: Path) -> None:
    written(tmp_path / "s", [each for each in full() if each.label is not None])
    for name, kind in (("bags.parquet", "table"), ("bags.npz", "arrays")):
        out, again = tmp_path / "out" / name, tmp_path / f"again from {kind}"
        done = call("dump", tmp_path / "s", "--out", out, "--truth")
        assert done.code == 0, done.err
        assert "5 bags, 11 instances, " in done.out
        assert f"To read it back: admil import {kind} {out} STORE\n" in done.out
        assert call("import", kind, out, again).code == 0
        assert BagStore.open(again).digest == BagStore.open(tmp_path / "s").digest
        assert dict(BagStore.open(again).truth_rows()) == dict(BagStore.open(tmp_path / "s").truth_rows())


def test_dump_names_the_folder_of_the_pictures(tmp_path: Path) -> None:
    source = Source(kind="images", name="photos", root=str(tmp_path / "photos"))
    written(tmp_path / "s", [Given("a", rows(1), 1, instances={"path": ["a.png"]})], source=source)
    done = call("dump", tmp_path / "s", "--out", tmp_path / "bags.parquet")
    assert f"The pictures' paths are relative to {tmp_path / 'photos'}" in done.out
    assert f"STORE --root {tmp_path / 'photos'}" in done.out


def test_dump_takes_a_split_and_keeps_the_truth_to_itself(tmp_path: Path) -> None:
    written(tmp_path / "s", full())
    assert call("dump", tmp_path / "s", "--out", tmp_path / "b.parquet", "--split", "test").code == 0
    table = pq.read_table(tmp_path / "b.parquet")
    assert sorted(set(table["bag"].to_pylist())) == ["bag 1 ü", "bag 4 ü"]
    assert "truth" not in table.column_names


def test_dump_replaces_nothing_unasked(tmp_path: Path) -> None:
    store = written(tmp_path / "s", full())
    (tmp_path / "b.npz").write_text("mine")
    done = call("dump", tmp_path / "s", "--out", tmp_path / "b.npz")
    assert done.code == 1
    assert "is there already; choose another name, or replace it with --force" in done.err
    assert (tmp_path / "b.npz").read_text() == "mine"
    assert call("dump", tmp_path / "s", "--out", tmp_path / "b.npz", "--force").code == 0
    dump_store(store, tmp_path / "c.npz")
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "c.npz").read_bytes()
    with np.load(tmp_path / "b.npz") as found:
        assert found["offsets"][-1] == 16


@pytest.mark.parametrize("command", ["info", "head", "verify", "dump"])
def test_a_folder_without_a_store_is_named(command: str, tmp_path: Path) -> None:
    done = call(command, tmp_path, *(["--out", tmp_path / "b.npz"] if command == "dump" else []))
    assert done.code == 1
    assert "there is no store.json in" in done.out + done.err
    assert "Traceback" not in done.err


# --- label and relocate --------------------------------------------------------------------------


def test_labels_that_came_later_are_set(tmp_path: Path) -> None:
    written(tmp_path / "s", full())
    (tmp_path / "later.csv").write_text("bag,label,split\nbag 2 ü.svs,1,\nbag 5 ü.svs,0,test\nbag 0 ü.svs,1,\n")
    done = call("label", tmp_path / "s", tmp_path / "later.csv", "--strip", ".svs")
    assert done.code == 1, "the truth of bag 2 is known to be negative"
    assert "bag 'bag 2 ü' is labelled positive but no instance of it is positive" in done.err
    (tmp_path / "later.csv").write_text("bag,label,split\nbag 2 ü,0,\nbag 5 ü,0,test\nbag 0 ü,1,\n")
    done = call("label", tmp_path / "s", tmp_path / "later.csv")
    assert done.code == 0, done.err
    assert "2 bags changed, of 3 in the file." in done.out
    assert "7 bags: 3 positive, 0 without a label." in done.out
    store = BagStore.open(tmp_path / "s")
    assert store.known_labels.tolist() == [1, 0, 0, 1, 0, 0, 1]
    assert store.splits.tolist() == ["train", "test", None, "train", "test", "test", "train"], "no split says nothing"


def test_a_label_for_a_bag_that_is_not_there_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "s", full())
    (tmp_path / "l.csv").write_text("bag,label\nnobody,1\n")
    done = call("label", tmp_path / "s", tmp_path / "l.csv")
    assert done.code == 1
    assert "there is no bag 'nobody' in" in done.err


def test_pictures_that_moved_are_told_of_and_found_again(tmp_path: Path) -> None:
    source = Source(kind="images", name="photos", place=str(tmp_path / "my photos"), root=str(tmp_path / "my photos"))
    written(tmp_path / "s", [Given("a", rows(1), 1, instances={"path": ["a.png"]})], source=source)
    done = call("verify", tmp_path / "s")
    assert done.code == 0
    assert (
        f"note: its pictures should be in {tmp_path / 'my photos'}, which is not there; if they have moved:" in done.out
    )
    assert f"admil relocate {tmp_path / 's'} '{tmp_path / 'my photos'}' NEW" in done.out
    (tmp_path / "elsewhere").mkdir()
    moved = call("relocate", tmp_path / "s", tmp_path / "my photos", tmp_path / "elsewhere")
    assert moved.code == 0, moved.err
    assert f"1 source of {tmp_path / 's'} moved." in moved.out
    assert "note" not in call("verify", tmp_path / "s").out
    wrong = call("relocate", tmp_path / "s", tmp_path / "nowhere", tmp_path / "elsewhere")
    assert wrong.code == 1
    assert f"it comes from: {tmp_path / 'elsewhere'}" in wrong.err


def test_a_store_without_sources_has_no_table_of_them(tmp_path: Path) -> None:
    written(tmp_path / "s", full())
    assert "Imported from" not in call("info", tmp_path / "s").out
