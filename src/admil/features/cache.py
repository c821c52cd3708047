"""Vectors that were computed once are found again: by content and by what encoded it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from admil.errors import CorruptFile, InvalidInput, warn
from admil.features.keyindex import KeyIndex
from admil.store.documents import read_document, write_document

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows: two writers at once are then the user's to avoid
    fcntl = None

__all__ = ["CacheSize", "FeatureCache", "VectorFile", "cache_folder"]

_FORMAT, _VERSION = "admil-features", 1
_KEY_BYTES, _CHECK_BYTES = 32, 8
_ENTRY_BYTES = _KEY_BYTES + _CHECK_BYTES
_IDENTITY, _KEYS, _VECTORS = "identity.json", "keys.bin", "vectors.bin"
_READ_AT_ONCE = 2**16
"""Entries of which the keys are read at a time: what is read is much more than what is kept."""

_ATTEMPTS = 100
"""How often files that others delete meanwhile are opened anew."""


def cache_folder() -> Path:
    r"""Return the folder for what can be made again.

    ``$ADMIL_CACHE``; else ``admil`` in ``$XDG_CACHE_HOME``; else ``~/.cache/admil``, on macOS
    ``~/Library/Caches/admil``, on Windows ``%LOCALAPPDATA%\admil\cache``.  It may not exist yet.
    """
    if own := os.environ.get("ADMIL_CACHE"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "admil"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "admil"
    if os.name == "nt" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "admil" / "cache"
    return Path.home() / ".cache" / "admil"


@dataclass(frozen=True)
class CacheSize:
    """How much there is in a cache.

    Attributes:
        entries: its vectors.
        bytes: of its files.
    """

    entries: int
    bytes: int


class FeatureCache:
    """A folder of vectors: one folder in it per encoder, named by the encoder's identity.

    Several processes may use it at once, and one of them `clear` it.  Its folder may be deleted while nothing uses it.

    Args:
        folder: where it lies; None takes ``features`` in `cache_folder`.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = Path(folder) if folder is not None else cache_folder() / "features"
        self._files: dict[Path, VectorFile] = {}

    def vectors(self, identity: Mapping[str, Any], width: int) -> VectorFile:
        """Return the vectors of the encoder with this identity, which has ``width`` features.

        They are the same object each time: the keys in it, read once, may be many.
        """
        plain = json.loads(json.dumps(identity, allow_nan=False))
        digest = hashlib.sha256(json.dumps([plain, width], sort_keys=True).encode()).hexdigest()
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", str(identity.get("encoder", "encoder")))[:40]
        folder = self.folder / f"{name}-{digest[:20]}"
        if folder not in self._files:
            self._files[folder] = VectorFile(folder, plain, width)
        return self._files[folder]

    def size(self) -> CacheSize:
        """Return how much all encoders have in it."""
        sizes = [_sizes(folder) for folder in self._folders()]
        entries = sum(each.get(_KEYS, 0) // _ENTRY_BYTES for each in sizes)
        return CacheSize(entries, sum(sum(each.values()) for each in sizes))

    def clear(self) -> CacheSize:
        """Delete everything that was put into it, also by other processes; return how much that was.

        What others compute meanwhile they keep, and put into the cache afresh.

        Raises:
            OSError: a file cannot be deleted.
        """
        size = self.size()
        for folder in self._folders():
            _delete(folder)
        return size

    def _folders(self) -> list[Path]:
        """Return the folders in it that are an encoder's."""
        there = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        return [path for path in there if (path / _IDENTITY).is_file() or (path / _KEYS).is_file()]


class VectorFile:
    """The vectors of one encoder: an append-only file of vectors, and one of keys and checksums.

    A vector counts once its key and checksum are written; what a crash left unfinished is overwritten by the next
    writer.  Every vector is checked when it is read: a damaged one is as good as missing, with a warning, and
    is replaced when it has been computed again.

    Args:
        folder: its folder; made when the first vector is added.
        identity: of the encoder; written beside the vectors, for people to read.
        width: features of a vector.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any], width: int) -> None:
        self.folder, self.identity, self.width = folder, identity, width
        self._keys, self._vectors = folder / _KEYS, folder / _VECTORS
        self._forget()
        if (folder / _IDENTITY).exists():
            self._check_identity()

    def get(self, keys: Iterable[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """Return the vectors that are there, by key."""
        wanted = list(set(keys))
        try:
            with self._keys.open("rb") as entries, self._vectors.open("rb") as vectors:
                self._refresh(entries, vectors)
                return self._found(wanted, entries, vectors)
        except (FileNotFoundError, NotADirectoryError):  # nothing was added so far, or all was deleted
            self._forget()
            return {}

    def add(self, vectors: Mapping[bytes, NDArray[np.float32]]) -> None:
        """Add vectors by key; those that are there, undamaged, stay as they are.

        Raises:
            InvalidInput: a vector has another width.
            OSError: the folder cannot be written to.
        """
        for key, vector in vectors.items():
            if len(key) != _KEY_BYTES or vector.shape != (self.width,):
                raise InvalidInput(
                    f"the encoder gives {self.width} features, the vector to keep has shape {vector.shape}", key
                )
        with self._writing() as (keys, stored):
            there = self.get(vectors)
            new = {key: vector.astype("<f4").tobytes() for key, vector in vectors.items() if key not in there}
            stored.truncate(len(self._index) * 4 * self.width)
            keys.truncate(len(self._index) * _ENTRY_BYTES)
            stored.write(b"".join(new.values()))
            stored.flush()
            keys.write(b"".join(key + _checksum(key, data) for key, data in new.items()))

    @contextmanager
    def _writing(self) -> Iterator[tuple[BinaryIO, BinaryIO]]:
        """Hold the files for writing at their ends, alone."""
        try:
            with self._locked() as keys, self._vectors.open("ab") as vectors:
                yield keys, vectors
        except OSError as error:  # no fault of the picture or text: an import that leaves those out must end
            said = f"features cannot be kept ({error.strerror or error}); put this right or go without a cache"
            raise OSError(error.errno, said, str(self.folder)) from error

    def _locked(self) -> BinaryIO:
        """Open the keys for writing, alone, and not those that another process deletes meanwhile."""
        failure: OSError = FileNotFoundError(errno.ENOENT, "others delete them again and again")
        for _ in range(_ATTEMPTS):
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                if not (self.folder / _IDENTITY).exists():
                    content = {"identity": self.identity, "width": self.width}
                    write_document(self.folder / _IDENTITY, _FORMAT, _VERSION, content)
                keys = self._keys.open("ab")
            except (FileExistsError, FileNotFoundError) as error:  # the folder comes and goes
                failure = error
                continue
            if _lock(keys):
                return keys
            keys.close()
        raise failure

    def _forget(self) -> None:
        self._file: tuple[int, int] | None = None  # what the system knows the keys by
        self._index = KeyIndex()
        self._damaged: set[int] = set()  # rows

    def _refresh(self, entries: BinaryIO, vectors: BinaryIO) -> None:
        """Learn of the entries that were added since, or that they are fewer or others: all may have been deleted."""
        sizes = [os.fstat(file.fileno()) for file in (entries, vectors)]
        file = sizes[0].st_dev, sizes[0].st_ino
        whole = min(sizes[0].st_size // _ENTRY_BYTES, sizes[1].st_size // (4 * self.width))
        if file != self._file or whole < len(self._index):
            self._forget()
            self._file = file
        while missing := whole - len(self._index):
            data = _read(entries, len(self._index), _ENTRY_BYTES, min(missing, _READ_AT_ONCE))
            if len(data) < _ENTRY_BYTES:  # they were deleted this moment
                return
            self._index.extend(np.frombuffer(data, np.uint8).reshape(-1, _ENTRY_BYTES)[:, :_KEY_BYTES])

    def _found(self, wanted: list[bytes], entries: BinaryIO, vectors: BinaryIO) -> dict[bytes, NDArray[np.float32]]:
        places = {}
        for key, rows in zip(wanted, self._index.candidates(wanted), strict=True):
            place = self._place_of(key, rows, entries)
            if place is not None:
                places[place] = key
        found = {}
        for (row, check), key in sorted(places.items()):
            data = _read(vectors, row, 4 * self.width)
            if _checksum(key, data) == check:
                found[key] = np.frombuffer(data, "<f4").astype(np.float32)
            elif len(data) == 4 * self.width:  # else they were deleted this moment
                self._mark(row)
        return found

    def _place_of(self, key: bytes, rows: Iterable[int], entries: BinaryIO) -> tuple[int, bytes] | None:
        """Return the row of a key and its checksum: of several rows the latest, as the earlier were damaged."""
        for row in rows:
            entry = _read(entries, row, _ENTRY_BYTES)
            if entry[:_KEY_BYTES] == key:
                return None if row in self._damaged else (row, entry[_KEY_BYTES:])
        return None

    def _mark(self, row: int) -> None:
        warn(f"a vector in {self.folder} is damaged and will be computed again; the disk may be failing")
        self._damaged.add(row)

    def _check_identity(self) -> None:
        path = self.folder / _IDENTITY
        content = read_document(path, _FORMAT, _VERSION, "a feature cache")
        if content.get("identity") != self.identity or content.get("width") != self.width:
            raise CorruptFile(f"{path} is of another encoder than its folder's name says; delete {self.folder}", path)


def _checksum(key: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(key + data, digest_size=_CHECK_BYTES).digest()


def _read(file: BinaryIO, row: int, size: int, count: int = 1) -> bytes:
    """Return rows of a file, without those that it does not have whole."""
    file.seek(row * size)
    data = file.read(count * size)
    return data[: len(data) // size * size]


def _lock(keys: BinaryIO) -> bool:
    """Wait until no other process writes; return whether the file is still there then."""
    if fcntl is not None:
        fcntl.flock(keys, fcntl.LOCK_EX)
    return os.fstat(keys.fileno()).st_nlink > 0


def _sizes(folder: Path) -> dict[str, int]:
    """Return the bytes of each file of an encoder's folder."""
    sizes = {}
    for name in (_KEYS, _VECTORS, _IDENTITY):
        with suppress(FileNotFoundError):
            sizes[name] = (folder / name).stat().st_size
    return sizes


def _delete(folder: Path) -> None:
    """Delete an encoder's folder, while nobody writes to it."""
    with suppress(FileNotFoundError), (folder / _KEYS).open("ab") as keys:
        if not _lock(keys):
            return  # another process was quicker
        keys.truncate(0)
        (folder / _VECTORS).unlink(missing_ok=True)
        (folder / _IDENTITY).unlink(missing_ok=True)
        if fcntl is not None:
            (folder / _KEYS).unlink()
    if fcntl is None:  # Windows deletes no open files
        (folder / _KEYS).unlink(missing_ok=True)
    with suppress(OSError):  # what else lies in it is not ours
        folder.rmdir()
