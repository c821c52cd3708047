"""Files that carry their checksum and appear whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from admil.errors import CorruptFile
from admil.store.documents import (
    document_digest,
    file_digest,
    make_folder,
    read_document,
    sync_folder,
    write_bytes,
    write_document,
)


def read(path: Path) -> dict[str, object]:
    return read_document(path, "admil-thing", 1, "a test")


def test_a_document_comes_back_with_its_format_version_and_checksum(tmp_path: Path) -> None:
    path = tmp_path / "thing.json"
    write_document(path, "admil-thing", 1, {"name": "ü", "values": [1, 2.5, None]})
    content = read(path)
    assert content.pop("sha256") == document_digest(content)
    assert content == {"format": "admil-thing", "version": 1, "name": "ü", "values": [1, 2.5, None]}
    assert os.listdir(tmp_path) == ["thing.json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no JSON"),
        ("{", "is no JSON"),
        ("[1]", "holds list, expected an object"),
        ("[" * 100_000, "is no JSON"),
        ('{"format": "admil-thing", "version": 1}', "its checksum is not the one written"),
        ('{"format": "admil-thing"}', "has version None"),
        ("{}", "is no admil-thing file but None"),
        ('{"format": {"a": 1}}', "is no admil-thing file"),
    ],
)
def test_what_is_no_such_document_is_called_damaged(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "thing.json"
    path.write_text(text)
    with pytest.raises(CorruptFile, match=message):
        read(path)


def test_bytes_that_are_no_text_and_a_missing_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "thing.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CorruptFile, match="is no JSON"):
        read(tmp_path / "thing.json")
    with pytest.raises(CorruptFile, match=r"there is no other\.json in .*; give the folder that a test wrote"):
        read(tmp_path / "other.json")


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "thing.json"
    write_bytes(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["thing.json"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not say which files are open")
def test_a_file_is_on_the_disk_before_its_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def sync(descriptor: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{descriptor}")).name
        done.append(f"{name}, {'renamed' if (tmp_path / 'thing').exists() else 'not yet renamed'}")

    monkeypatch.setattr(os, "fsync", sync)
    write_bytes(tmp_path / "thing", b"x")
    assert done == [f".thing.{os.getpid()}.part, not yet renamed", f"{tmp_path.name}, renamed"]


def test_the_digest_of_a_file_is_its_sha256(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    assert file_digest(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_folders_are_made_with_those_above_them(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b" / "c")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b" / "c").is_dir()


@pytest.mark.parametrize(("number", "passes"), [(errno.EINVAL, True), (errno.EIO, False)])
def test_a_file_system_that_syncs_no_folders_is_no_error_and_a_broken_disk_is(
    number: int, passes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", sync)
    if passes:
        sync_folder(tmp_path)
    else:
        with pytest.raises(OSError, match="Input/output error"):
            sync_folder(tmp_path)
