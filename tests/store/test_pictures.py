"""Pictures that a store keeps itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from admil.errors import InvalidInput
from admil.store import BagStore, StoreWriter
from tests.store.making import files_of, rows


def test_a_picture_is_written_once_and_named_by_its_path_in_the_store(tmp_path: Path) -> None:
    with BagStore.create(tmp_path) as writer:
        assert writer.picture("scan 1/17 ü.png", b"data") == "pictures/scan 1/17 ü.png"
        path = tmp_path / "pictures" / "scan 1" / "17 ü.png"
        before = path.stat()
        assert writer.picture("scan 1/17 ü.png", b"data") == "pictures/scan 1/17 ü.png"
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns), "not written again"
        writer.add("a", rows(1))
    assert path.read_bytes() == b"data"
    assert [file.name for file in (tmp_path / "pictures").rglob("*")] == ["scan 1", "17 ü.png"]


def test_another_picture_by_the_same_name_is_refused(tmp_path: Path) -> None:
    with BagStore.create(tmp_path) as writer:
        writer.picture("a.png", b"one")
        with pytest.raises(InvalidInput, match=r"a\.png is another picture already; give this one a name of its own"):
            writer.picture("a.png", b"other")
        writer.add("a", rows(1))
    assert (tmp_path / "pictures" / "a.png").read_bytes() == b"one"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        ".",
        "..",
        "../a.png",
        "a/../../b.png",
        "/etc/a.png",
        "a//b.png",
        "a/",
        ".hidden",
        "a\\b.png",
        "C:a",
        "a\0b",
    ],
)
def test_a_name_cannot_leave_the_folder(name: str, tmp_path: Path) -> None:
    writer = BagStore.create(tmp_path / "s")
    with pytest.raises(InvalidInput, match=r"expected the name of a picture such as 'scan/17\.png', got"):
        writer.picture(name, b"data")
    writer.abandon()
    assert files_of(tmp_path) == {}


def test_pictures_of_an_import_that_was_cut_short_serve_the_next_and_unfinished_ones_go(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path)
    writer.picture("sub/a.png", b"one")
    (tmp_path / "pictures" / "sub" / ".b.png.part").write_bytes(b"ha")  # as a killed process leaves it
    writer.abandon()
    with StoreWriter(tmp_path) as again:
        assert again.picture("sub/a.png", b"one") == "pictures/sub/a.png"
        again.add("a", rows(1))
    assert {name for name in files_of(tmp_path) if name.startswith("pictures")} == {"pictures/sub/a.png"}
