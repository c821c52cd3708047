"""Looking at every byte: what is damaged is named, all of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from admil.errors import CorruptFile
from admil.store import BagStore, verify_store
from admil.store.layout import Header
from admil.store.tables import write_table
from tests.store.making import Given, full, rows, written


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def replaced(folder: Path, kind: str, table: pa.Table, number: int = 0) -> None:
    """Put another table into a part and its checksum into the header, as somebody else's program might."""
    header = Header.read(folder)
    field = {"bags": "manifest", "instances": "details", "truth": "truth"}[kind]
    digest = write_table(table, folder / kind / f"{number:06d}.parquet")
    parts = list(header.parts)
    parts[number] = parts[number].model_copy(update={field: digest})
    header.model_copy(update={"parts": tuple(parts)}).write(folder)


def test_a_sound_store_has_no_problems_and_every_bag_is_counted(tmp_path: Path) -> None:
    store = written(tmp_path, full())
    seen: list[tuple[int, int]] = []
    assert verify_store(tmp_path, lambda done, total: seen.append((done, total))) == ()
    assert seen == [(number, 7) for number in range(1, 8)]
    assert store.verify() == store.subset([0]).verify() == ()


def test_a_flipped_bit_in_a_shard_is_found_by_reading_it_and_names_shard_and_bag(tmp_path: Path) -> None:
    store = written(tmp_path, full())
    shard = tmp_path / "features" / "000001.safetensors"
    first_of_part = store.ids[store.header.parts[0].bags]
    flip(shard, 1_024)
    assert len(BagStore.open(tmp_path)) == 7, "opening reads no features"
    assert store.verify() == (
        f"shard {shard} is damaged: the features of bag {first_of_part!r} are not those written; "
        "restore it from a copy, or import it again",
    )


def test_everything_that_is_wrong_is_named_though_the_store_cannot_be_opened(tmp_path: Path) -> None:
    store = written(tmp_path, full())
    parts = len(store.header.parts)
    assert parts >= 4
    (tmp_path / "features" / "000000.safetensors").unlink()
    flip(tmp_path / "bags" / "000001.parquet", 30)
    flip(tmp_path / "instances" / "000002.parquet", 30)
    (tmp_path / "truth" / "000002.parquet").write_bytes(b"")
    flip(tmp_path / "features" / "000003.safetensors", 20)
    with pytest.raises(CorruptFile, match=r"000001\.parquet is damaged"):
        BagStore.open(tmp_path)
    problems = verify_store(tmp_path)
    named = ["features/000000", "bags/000001", "instances/000002", "truth/000002", "features/000003"]
    assert [name in problem for name, problem in zip(named, problems, strict=True)] == [True] * 5


def test_a_shard_or_manifest_of_another_store_is_found_when_opening(tmp_path: Path) -> None:
    written(tmp_path / "s", full())
    written(tmp_path / "other", [Given(each.bag, rows(len(each.features), seed=9)) for each in full()])
    for kind, suffix, message in (("features", "safetensors", "its header differs"), ("bags", "parquet", "is damaged")):
        shutil.copytree(tmp_path / "s", tmp_path / kind)
        name = f"{kind}/000000.{suffix}"
        shutil.copy(tmp_path / "other" / name, tmp_path / kind / name)
        with pytest.raises(CorruptFile, match=message):
            BagStore.open(tmp_path / kind)
        assert len(verify_store(tmp_path / kind)) == 1


def test_what_only_a_wrong_program_would_write_is_found_too(tmp_path: Path) -> None:
    store = written(tmp_path / "s", full(), part_bytes=10**6)
    tables = {kind: pq.ParquetFile(tmp_path / "s" / kind / "000000.parquet").read() for kind in ("instances", "truth")}
    bags = pq.ParquetFile(tmp_path / "s" / "bags" / "000000.parquet").read()
    wrong = {
        "instances of other bags": ("instances", tables["instances"].slice(1), "bags and indices are not those"),
        "truth of no bag": ("truth", pa.table([["x"], [[True]]], tables["truth"].schema), "tells of bag 'x'"),
        "truth too short": (
            "truth",
            pa.table([["bag 3 ü"], [[True]]], tables["truth"].schema),
            "expected 4 truth values",
        ),
        "no tiling": ("bags", bags.slice(1), "counts and starts do not fit"),
        "a bag twice": (
            "bags",
            bags.set_column(0, bags.schema[0], pa.array(["a"] * 7)),
            "names bag 'a', which is in the store already",
        ),
    }
    for name, (kind, table, message) in wrong.items():
        folder = tmp_path / name
        shutil.copytree(store.path, folder)
        replaced(folder, kind, table)
        assert message in " ".join(verify_store(folder)), name
    assert store.verify() == ()


def test_a_bag_that_is_in_two_parts_is_named(tmp_path: Path) -> None:
    written(tmp_path / "a", [Given("a", rows(1)), Given("b", rows(1))], part_bytes=1)
    one = pq.ParquetFile(tmp_path / "a" / "bags" / "000000.parquet").read()
    two = pq.ParquetFile(tmp_path / "a" / "bags" / "000001.parquet").read()
    replaced(tmp_path / "a", "bags", two.set_column(0, two.schema[0], one["bag"]), number=1)
    (problem,) = verify_store(tmp_path / "a")
    assert problem.endswith("bags/000001.parquet names bag 'a', which is in the store already")


def test_missing_and_damaged_pictures_are_counted_and_those_of_others_not_looked_for(tmp_path: Path) -> None:
    with BagStore.create(tmp_path) as writer:
        paths = [writer.picture(f"{number}.png", b"x") for number in range(3)]
        writer.add("a", rows(4), instances={"path": [*paths, None]})
        writer.add("b", rows(1), instances={"path": ["elsewhere/x.png"]})
    assert verify_store(tmp_path) == ()
    (tmp_path / paths[1]).unlink()
    (problem,) = verify_store(tmp_path)
    assert problem.endswith("pictures/1.png is missing; the store was not copied whole")
    (tmp_path / paths[2]).write_bytes(b"y")
    (problem,) = verify_store(tmp_path)
    assert problem.endswith("(1 more pictures are missing or damaged)")
    (tmp_path / paths[1]).write_bytes(b"x")
    (problem,) = verify_store(tmp_path)
    assert "pictures/2.png is damaged: its checksum is not the one written" in problem


def test_no_store_at_all_is_a_problem_and_no_exception(tmp_path: Path) -> None:
    (problem,) = verify_store(tmp_path)
    assert problem.startswith("there is no store.json in ")
    store = written(tmp_path / "s", full())
    store.header.model_copy(update={"parts": ()}).write(tmp_path / "s")
    (problem,) = verify_store(tmp_path / "s")
    assert problem.endswith("has no bags; import some into it")
