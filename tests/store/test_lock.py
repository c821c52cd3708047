"""Who may write where."""

from __future__ import annotations

from pathlib import Path

import pytest

from admil.errors import CorruptFile, InvalidInput
from admil.store import BagStore, StoreWriter
from tests.store.making import files_of, full, rows, written


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with BagStore.create(tmp_path / "s") as writer:
        for open_another in (BagStore.create, StoreWriter):
            with pytest.raises(InvalidInput, match=r"another process is writing to .*; wait until it has finished"):
                open_another(tmp_path / "s")
        writer.add("a", rows(1))
    with BagStore.append(tmp_path / "s") as writer:
        writer.add("b", rows(1))
    assert BagStore.open(tmp_path / "s").ids == ("a", "b")


@pytest.mark.parametrize("fails", ["in the block", "at the end"])
def test_a_writer_that_failed_lets_the_next_write(fails: str, tmp_path: Path) -> None:
    def fail() -> None:
        with BagStore.create(tmp_path / "s") as writer:
            if fails == "in the block":
                writer.add("a", rows(1))
                raise ZeroDivisionError

    with pytest.raises((ZeroDivisionError, InvalidInput)):
        fail()
    with BagStore.create(tmp_path / "s") as writer:
        writer.add("b", rows(1))
    assert BagStore.open(tmp_path / "s").ids == ("b",)


def test_a_new_store_needs_a_place_without_one_and_appending_a_place_with_one(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match=r"there is no store\.json in .*; give the folder of a store"):
        BagStore.append(tmp_path / "s")
    assert not (tmp_path / "s").exists()
    written(tmp_path / "s", full())
    with pytest.raises(InvalidInput, match=r"there is a store in .* already; append to it, or choose another folder"):
        BagStore.create(tmp_path / "s")
    with StoreWriter(tmp_path / "s") as writer:
        writer.add("new", rows(1))
    assert len(BagStore.open(tmp_path / "s")) == 8


@pytest.mark.parametrize(
    "name", ["features/slide.safetensors", "features/000000.safetensors", "pictures/me.png", "a.h5"]
)
def test_a_folder_with_files_of_others_is_never_touched(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"theirs")
    with pytest.raises(InvalidInput, match=r"holds other files \(.*, …\); choose an empty or a new folder"):
        StoreWriter(tmp_path)
    assert files_of(tmp_path) == {name: b"theirs"}


def test_files_of_others_in_the_folder_of_a_store_stay(tmp_path: Path) -> None:
    written(tmp_path, full())
    theirs = {"features/notes.safetensors": b"1", "bags/list.parquet": b"2", "readme.txt": b"3"}
    for name, data in theirs.items():
        (tmp_path / name).write_bytes(data)
    with BagStore.append(tmp_path) as writer:
        writer.add("new", rows(1))
    assert files_of(tmp_path).items() >= theirs.items()
    assert BagStore.open(tmp_path).verify() == ()


def test_an_empty_folder_will_do_and_a_file_will_not(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert len(written(tmp_path / "empty", full())) == 7
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InvalidInput, match="is a file; a store is a folder: choose another name"):
        StoreWriter(tmp_path / "file")
