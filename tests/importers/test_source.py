"""What all importers share: errors of libraries as sentences, and bombs."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from admil.errors import CorruptFile, InvalidInput
from admil.importers.source import check_file, check_unpacked, name_of, reading


@pytest.mark.parametrize("error", [ValueError("of\n no use"), OSError(5, "torn"), zlib.error("bad"), RecursionError()])
def test_what_libraries_raise_becomes_a_sentence(error: Exception) -> None:
    with (
        pytest.raises(CorruptFile, match=r"^a\.bin cannot be read: expected a thing \(.+\)$"),
        reading(Path("a.bin"), "a thing"),
    ):
        raise error


def test_our_own_errors_and_those_of_the_user_pass() -> None:
    for error in (InvalidInput("said already"), KeyboardInterrupt()):
        with pytest.raises(type(error)), reading(Path("a.bin"), "a thing"):
            raise error


def test_a_file_that_goes_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "gone"
    with pytest.raises(CorruptFile, match=r"there is no file .*gone$"), reading(path, "a thing"):
        path.open()


def test_bombs_are_told_from_large_bags() -> None:
    check_unpacked(2**30, 1)
    check_unpacked(200 * 2**30, 2**30)
    for size, packed in ((2**30 + 1, 1), (200 * 2**30 + 1, 2**30)):
        with pytest.raises(ValueError, match="looks like a decompression bomb"):
            check_unpacked(size, packed)


def test_a_source_has_a_name_however_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert name_of(Path(".")) == name_of(tmp_path) == tmp_path.name


def test_an_empty_file_and_a_folder_are_no_file_to_read(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(CorruptFile, match="empty is empty; expected a thing"):
        check_file(tmp_path / "empty", "a thing")
    with pytest.raises(InvalidInput, match="is a folder; expected a thing"):
        check_file(tmp_path, "a thing")
