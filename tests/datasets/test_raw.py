"""Reading raw files where they lie: folders, archives, damaged and hostile ones."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from random import Random
from typing import Any

import pytest

from admil.datasets.raw import is_archive, raw_files, read_named, read_whole, unpack
from admil.errors import AdmilError, CorruptFile, InvalidInput

FILES = {"set/a.txt": b"first", "set/deep/b.txt": b"second" * 300, "set/c.bin": Random(0).randbytes(2000)}
ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")


def write_folder(folder: Path, files: Mapping[str, bytes] = FILES) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def packed(path: Path, files: Mapping[str, bytes] = FILES) -> Path:
    """Write an archive of the kind that its name says."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    else:
        mode: Any = {".tar": "w", ".gz": "w:gz", ".tgz": "w:gz", ".bz2": "w:bz2", ".xz": "w:xz"}[path.suffix]
        with tarfile.open(path, mode) as tar:
            for name, content in files.items():
                add(tar, name, content)
    return path


def add(tar: tarfile.TarFile, name: str, content: bytes = b"", **changed: Any) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    for field, value in changed.items():
        setattr(entry, field, value)
    tar.addfile(entry, io.BytesIO(content))


def read(path: Path, wanted: Callable[[PurePosixPath], bool] = lambda name: True) -> dict[str, bytes]:
    return {str(name): content for name, content in raw_files(path, wanted)}


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_archive_reads_like_the_folder_that_was_packed(ending: str, tmp_path: Path) -> None:
    archive = packed(tmp_path / f"raw{ending}")
    assert is_archive(archive)
    assert read(archive) == read(write_folder(tmp_path / "folder")) == FILES


@pytest.mark.parametrize("ending", ["", *ENDINGS])
def test_only_wanted_files_are_read(ending: str, tmp_path: Path) -> None:
    path = packed(tmp_path / f"raw{ending}") if ending else write_folder(tmp_path / "folder")
    assert read(path, lambda name: name.suffix == ".bin") == {"set/c.bin": FILES["set/c.bin"]}


def test_files_of_a_folder_come_by_name_and_folders_are_passed_over(tmp_path: Path) -> None:
    write_folder(tmp_path, {"b": b"2", "a/z": b"1", "c": b"3"})
    (tmp_path / "d").mkdir()
    assert list(read(tmp_path)) == ["a/z", "b", "c"]


def test_a_file_is_read_whatever_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "x.data").write_bytes(b"1")
    assert read(tmp_path / "x.data", lambda name: False) == {"x.data": b"1"}
    assert not is_archive(tmp_path / "x.data")
    assert not is_archive(tmp_path)


def test_an_archive_is_known_by_its_content_once_its_name_says_archive(tmp_path: Path) -> None:
    (tmp_path / "raw.tgz").write_bytes(packed(tmp_path / "raw.tar").read_bytes())
    assert read(tmp_path / "raw.tgz") == FILES


# --- damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_archive_that_is_cut_off_anywhere_is_refused(ending: str, tmp_path: Path) -> None:
    content = packed(tmp_path / f"whole{ending}").read_bytes()
    cut = tmp_path / f"cut{ending}"
    whole = len(content.rstrip(b"\0")) if ending == ".tar" else len(content)  # zeros fill a tar up
    # 512 bytes are a block of a tar: a header that is missing, or missing in part, looks like the end
    sizes = [size for size in (0, 1, 5, 511, 512, 1024, 1536, 1600, whole // 2, whole - 512) if 0 <= size < whole]
    assert len(sizes) > 6
    for size in [*sizes, whole - 1]:
        cut.write_bytes(content[:size])
        with pytest.raises(CorruptFile, match=f"cut{ending} cannot be read: expected a tar or zip archive"):
            read(cut)


@pytest.mark.parametrize("ending", [".tar.gz", ".tar.bz2", ".tar.xz", ".zip"])
def test_a_flipped_bit_in_a_compressed_archive_is_found(ending: str, tmp_path: Path) -> None:
    content = packed(tmp_path / f"whole{ending}").read_bytes()
    bad = tmp_path / f"bad{ending}"
    end = content.index(b"PK\1\2") if ending == ".zip" else len(content) - 30  # the directory of a zip has no checksum
    for place in range(12, end, 7):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        bad.write_bytes(bytes(flipped))
        try:
            assert read(bad) == FILES  # dates and the like are nobody's content
        except AdmilError:
            continue


def test_a_broken_header_is_not_taken_for_the_end(tmp_path: Path) -> None:
    content = bytearray(packed(tmp_path / "raw.tar").read_bytes())
    assert content[1024:1038] == b"set/deep/b.txt"
    content[1024] ^= 1
    (tmp_path / "raw.tar").write_bytes(bytes(content))
    with pytest.raises(CorruptFile, match="it is cut off or damaged"):
        read(tmp_path / "raw.tar")


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_no_archive_is_refused(ending: str, tmp_path: Path) -> None:
    (tmp_path / f"raw{ending}").write_bytes(b"<html>moved</html>" * 100)
    with pytest.raises(CorruptFile, match=f"raw{ending} cannot be read: expected a tar or zip archive"):
        read(tmp_path / f"raw{ending}")


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    for name in ("nothing", "nothing.tar.gz"):
        with pytest.raises(CorruptFile, match=f"there is no file .*{name}"):
            read(tmp_path / name)


# --- hostile archives ----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".tar", ".tgz", ".zip"])
@pytest.mark.parametrize("name", ["../out.txt", "set/../../out.txt", "/out.txt", "set/..", "c:/out.txt", "a\\..\\b"])
def test_entries_that_leave_the_folder_are_refused(name: str, ending: str, tmp_path: Path) -> None:
    archive = packed(tmp_path / f"raw{ending}", {"set/a.txt": b"1", name: b"2"})
    message = r"raw\.\w+ has an entry that leaves its folder, .*; it is not read"
    with pytest.raises(InvalidInput, match=message):
        read(archive)
    with pytest.raises(InvalidInput, match=message):
        unpack(archive, tmp_path / "cache" / "raw", lambda name: True)
    assert list((tmp_path / "cache").iterdir()) == []
    assert not (tmp_path / "out.txt").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_of_a_tar_are_refused(kind: bytes, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    with tarfile.open(tmp_path / "raw.tar", "w") as tar:
        add(tar, "set/a.txt", type=kind, linkname=str(tmp_path / "secret"))
    with pytest.raises(InvalidInput, match=r"an entry that is no plain file, 'set/a\.txt'; it is not read"):
        read(tmp_path / "raw.tar")


def test_a_link_to_a_folder_does_not_lead_the_next_entry_out(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    with tarfile.open(tmp_path / "raw.tar", "w") as tar:
        add(tar, "set", type=tarfile.SYMTYPE, linkname=str(tmp_path / "outside"))
        add(tar, "set/a.txt", b"1")
    folder = unpack(tmp_path / "raw.tar", tmp_path / "raw", lambda name: name.suffix == ".txt")
    assert (folder / "set" / "a.txt").read_bytes() == b"1"
    assert list((tmp_path / "outside").iterdir()) == []


def test_links_of_a_zip_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "raw.zip", "w") as archive:
        link = zipfile.ZipInfo("set/a.txt")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(InvalidInput, match=r"an entry that is no plain file, 'set/a\.txt'"):
        read(tmp_path / "raw.zip")


def test_entries_that_nobody_wants_may_be_anything(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "raw.tar", "w") as tar:
        add(tar, "../link", type=tarfile.SYMTYPE, linkname="x")
        add(tar, "set/a.txt", b"1")
    assert read(tmp_path / "raw.tar", lambda name: name.name == "a.txt") == {"set/a.txt": b"1"}


def zeros_gz(megabytes: int) -> bytes:
    """Return a gzip file that unpacks to zeros."""
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([packer.compress(bytes(2**20)) for _ in range(megabytes)]) + packer.flush()


def test_files_that_unpack_to_more_than_any_data_set_has_are_refused(tmp_path: Path) -> None:
    content = zeros_gz(257)
    assert len(content) < 300_000
    (tmp_path / "x.bin.gz").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"holds more than 256 MiB, unpacked, in a file: .* decompression bomb"):
        read_whole(tmp_path / "x.bin.gz")
    with pytest.raises(InvalidInput, match="decompression bomb"):
        read_named(tmp_path, ["x.bin"], "", "x")


@pytest.mark.parametrize("ending", [".tar", ".tar.gz", ".zip"])
def test_archives_that_promise_more_than_any_data_set_has_are_refused_before_they_are_read(
    ending: str, tmp_path: Path
) -> None:
    archive = tmp_path / f"raw{ending}"
    if ending == ".zip":
        content = bytearray(packed(archive, {"a": b"1", "b": b"2"}).read_bytes())
        for start in (content.index(b"PK\1\2"), content.rindex(b"PK\1\2")):
            content[start + 24 : start + 28] = (2**32 - 2).to_bytes(4, "little")  # the size, unpacked, in the directory
        archive.write_bytes(bytes(content))
    else:
        entry = tarfile.TarInfo("b")
        entry.size = 2**40
        archive.write_bytes(
            gzip.compress(entry.tobuf(tarfile.GNU_FORMAT)) if ending == ".tar.gz" else entry.tobuf(tarfile.GNU_FORMAT)
        )
    with pytest.raises(InvalidInput, match=r"holds more than \S+ MiB, unpacked, in (all|a file)"):
        read(archive, lambda name: ending == ".zip")


def test_a_header_that_says_it_is_huge_is_not_read_into_memory(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("././@LongLink")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 2**34
    (tmp_path / "raw.tar.gz").write_bytes(gzip.compress(entry.tobuf(tarfile.GNU_FORMAT)) + zeros_gz(8))
    with pytest.raises(CorruptFile, match=r"cannot be read: .*a piece of 17179869184 bytes"):
        read(tmp_path / "raw.tar.gz")


def test_what_follows_the_end_of_a_tar_is_not_unpacked_for_ever(tmp_path: Path) -> None:
    tar = packed(tmp_path / "raw.tar").read_bytes()
    (tmp_path / "raw.tar.gz").write_bytes(gzip.compress(tar) + zeros_gz(6))
    with pytest.raises(CorruptFile, match="it is cut off or damaged"):
        read(tmp_path / "raw.tar.gz")


# --- by name -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["", *ENDINGS])
def test_files_are_found_by_name_wherever_they_lie(ending: str, tmp_path: Path) -> None:
    path = packed(tmp_path / f"raw{ending}") if ending else write_folder(tmp_path / "folder")
    found = read_named(path, ["c.bin", "a.txt"], "elsewhere", "the files")
    assert found == {"c.bin": FILES["set/c.bin"], "a.txt": b"first"}


def test_a_file_of_its_own_may_be_given(tmp_path: Path) -> None:
    write_folder(tmp_path)
    assert read_named(tmp_path / "set" / "a.txt", ["a.txt"], "set", "it") == {"a.txt": b"first"}


@pytest.mark.parametrize("pack", [gzip.compress, lambda raw: gzip.compress(raw[:2]) + gzip.compress(raw[2:])])
def test_a_gzip_file_stands_for_what_it_holds(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    write_folder(tmp_path, {"x/a.txt.gz": pack(b"first")})
    assert read_named(tmp_path, ["a.txt"], "set", "it") == {"a.txt": b"first"}
    assert read_whole(tmp_path / "x" / "a.txt.gz") == b"first"


def test_the_usual_folder_goes_before_others(tmp_path: Path) -> None:
    write_folder(tmp_path, {"Fashion/raw/a": b"fashion", "MNIST/raw/a": b"digits"})
    assert read_named(tmp_path, ["a"], "MNIST/raw", "it") == {"a": b"digits"}


def test_two_files_of_one_name_must_agree(tmp_path: Path) -> None:
    write_folder(tmp_path, {"x/a": b"1", "y/a.gz": gzip.compress(b"1")})
    assert read_named(tmp_path, ["a"], "set", "it") == {"a": b"1"}
    write_folder(tmp_path, {"z/a": b"2"})
    with pytest.raises(CorruptFile, match="holds two different files a; name the folder of one of them"):
        read_named(tmp_path, ["a"], "set", "it")


def test_a_missing_file_is_named_and_so_is_what_was_expected(tmp_path: Path) -> None:
    write_folder(tmp_path)
    with pytest.raises(CorruptFile, match=r"there is no b\.bin in .*; expected the binary version: the archive as it"):
        read_named(tmp_path, ["a.txt", "b.bin"], "set", "the binary version")


@pytest.mark.parametrize("damage", [lambda raw: raw[:-3], lambda raw: raw[:-6] + b"xx" + raw[-4:], lambda raw: b"no"])
def test_a_damaged_gzip_file_is_refused(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(damage(gzip.compress(bytes(range(256)))))
    with pytest.raises(CorruptFile, match=r"cannot be read: expected a gzip file"):
        read_named(tmp_path, ["a"], "", "it")
    with pytest.raises(CorruptFile, match=r"a\.gz cannot be read: expected a gzip file"):
        read_whole(tmp_path / "a.gz")


# --- unpacking -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_archive_is_unpacked_once(ending: str, tmp_path: Path) -> None:
    archive = packed(tmp_path / f"raw{ending}")
    folder = unpack(archive, tmp_path / "cache" / "raw", lambda name: name.suffix == ".txt")
    assert read(folder) == {name: content for name, content in FILES.items() if name.endswith(".txt")}
    archive.unlink()
    assert unpack(archive, folder, lambda name: True) == folder
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["raw"]


def test_unpacking_that_fails_leaves_nothing(tmp_path: Path) -> None:
    content = packed(tmp_path / "raw.tar.gz").read_bytes()
    (tmp_path / "raw.tar.gz").write_bytes(content[:-20])
    with pytest.raises(CorruptFile, match="cannot be read"):
        unpack(tmp_path / "raw.tar.gz", tmp_path / "cache" / "raw", lambda name: True)
    assert list((tmp_path / "cache").iterdir()) == []
