"""The files of a raw data set: in a folder, in an archive, or one file.

Archives are read in place where that is possible; `unpack` is for those whose files are needed later.  Whatever an
archive says of itself, no file is larger in memory than any that a data set has.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from admil.errors import CorruptFile, InvalidInput
from admil.importers import reading

__all__ = ["is_archive", "raw_files", "read_named", "read_whole", "unpack", "unzipped"]

_MOST, _MOST_TOGETHER = 2**28, 2**32
"""Bytes of a file, and of an archive unpacked, at most: no data set here has more."""

_TAIL = 2**22
"""Bytes that may follow the end mark of a tar archive: it is filled up to whole records."""

_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


def is_archive(path: Path) -> bool:
    """Tell whether a path is a file named like a tar or zip archive."""
    return path.is_file() and path.name.lower().endswith((*_TARS, ".zip"))


def raw_files(path: Path, wanted: Callable[[PurePosixPath], bool]) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yield (name, content) of the wanted files of a folder or an archive, or of one file.

    A name is relative to the folder or archive; files of a folder come in order of their names, entries of an
    archive in their order.  Nothing is unpacked to the disk.

    Raises:
        CorruptFile: there is no such path, or it cannot be read, or is cut off.
        InvalidInput: an archive has a wanted entry that leaves its folder or is no plain file, or a file is too large.
    """
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            name = PurePosixPath(file.relative_to(path).as_posix())
            if wanted(name) and file.is_file():
                with reading(file, "a file of the data set"), file.open("rb") as opened:
                    yield name, _content(opened, file)
    elif not is_archive(path):
        with reading(path, "a file of the data set"), path.open("rb") as opened:
            yield PurePosixPath(path.name), _content(opened, path)
    else:
        with reading(path, "a tar or zip archive"):
            try:
                yield from (_zip_files if path.suffix.lower() == ".zip" else _tar_files)(path, wanted)
            except tarfile.TarError as error:
                raise ValueError(str(error)) from error


def read_named(path: Path, names: Sequence[str], folder: str, what: str) -> dict[str, bytes]:
    """Read files by name, wherever below a folder or in an archive they lie; ``NAME.gz`` stands for ``NAME``.

    Args:
        path: a folder, an archive, or one of the files.
        names: names of the files, without folders.
        folder: the folder that usually holds them; looked into first, so that ``path`` may be a large one.
        what: what the files are, to follow "expected".

    Raises:
        CorruptFile: one is missing, or there twice with another content.
    """
    place = next((each for each in (path / folder, path) if each.is_dir()), path)
    known = {f"{name}{ending}": name for name in names for ending in ("", ".gz")}
    found: dict[str, bytes] = {}
    for file, raw in raw_files(place, lambda each: each.name in known):
        if file.name in known:
            name, content = known[file.name], unzipped(raw, path) if file.suffix == ".gz" else raw
            if found.setdefault(name, content) != content:
                raise CorruptFile(f"{path} holds two different files {name}; name the folder of one of them", path)
    for name in names:
        if name not in found:
            raise CorruptFile(
                f"there is no {name} in {path}; expected {what}: the archive as it is downloaded, or the folder it "
                "unpacks to",
                path,
            )
    return found


def read_whole(path: Path) -> bytes:
    """Return the content of a file, of one called ``….gz`` unpacked."""
    with reading(path, "a file of the data set"), path.open("rb") as file:
        content = _content(file, path)
    return unzipped(content, path) if path.suffix == ".gz" else content


def unzipped(content: bytes, path: Path) -> bytes:
    """Return what the content of a gzip file unpacks to; ``path`` is where it came from, for messages."""
    with reading(path, "a gzip file"), gzip.open(io.BytesIO(content)) as file:
        return _content(file, path)


def unpack(archive: Path, folder: Path, wanted: Callable[[PurePosixPath], bool]) -> Path:
    """Unpack the wanted files of an archive; return the folder, which appears whole or not at all.

    What `raw_files` refuses is refused.  A folder that is there is left as it is.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        for name, content in raw_files(archive, wanted):
            target = beside.joinpath(*name.parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


def _tar_files(path: Path, wanted: Callable[[PurePosixPath], bool]) -> Iterator[tuple[PurePosixPath, bytes]]:
    with _decompressed(path) as stream, tarfile.open(fileobj=_Bounded(stream), mode="r:") as archive:
        for entry in archive:
            _check_size(entry.offset_data + entry.size, _MOST_TOGETHER, path)
            name = PurePosixPath(entry.name)
            if wanted(name) and not entry.isdir():
                _check_entry(name, entry.isreg(), path)
                file = archive.extractfile(entry)
                assert file is not None
                yield name, _content(file, path)
        # tarfile takes a broken header for the end, and packers check their sums at the end of the file only
        stream.seek(archive.offset)
        if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE) or len(stream.read(_TAIL)) == _TAIL:
            raise ValueError("it does not end as an archive does: it is cut off or damaged")


def _zip_files(path: Path, wanted: Callable[[PurePosixPath], bool]) -> Iterator[tuple[PurePosixPath, bytes]]:
    together = 0
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            name = PurePosixPath(entry.filename)
            if wanted(name) and not entry.is_dir():
                together += entry.file_size
                _check_size(together, _MOST_TOGETHER, path)
                _check_entry(name, stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG), path)
                with archive.open(entry) as file:
                    yield name, _content(file, path)


class _Bounded(io.BufferedIOBase):
    """A stream that is read in pieces of a sane size: a header of a tar says itself how long it is."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile) -> None:
        self._stream = stream

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= _MOST:
            raise ValueError(f"a piece of {size} bytes")
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()


def _decompressed(path: Path) -> IO[bytes] | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile:
    """Open a file that may be compressed, whatever it is called."""
    with path.open("rb") as file:
        start = file.read(6)
    if start.startswith(b"\x1f\x8b"):
        return gzip.open(path)
    if start.startswith(b"BZh"):
        return bz2.open(path)
    return lzma.open(path) if start == b"\xfd7zXZ\0" else path.open("rb")


def _check_entry(name: PurePosixPath, plain: bool, path: Path) -> None:
    if name.is_absolute() or ".." in name.parts or any(set(part) & set("\\:\0") for part in name.parts):
        raise InvalidInput(f"{path} has an entry that leaves its folder, {str(name)!r}; it is not read", path)
    if not plain:
        raise InvalidInput(f"{path} has an entry that is no plain file, {str(name)!r}; it is not read", path)


def _check_size(size: int, most: int, path: Path) -> None:
    if size > most:
        where = "in a file" if most == _MOST else "in all"
        raise InvalidInput(
            f"{path} holds more than {most // 2**20:,} MiB, unpacked, {where}: no data set here does, "
            "that looks like a decompression bomb",
            path,
        )


def _content(file: IO[bytes] | gzip.GzipFile, path: Path) -> bytes:
    content = file.read(_MOST + 1)
    _check_size(len(content), _MOST, path)
    return content
