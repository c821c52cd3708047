"""Vectors that were computed once are found again: by content and by what encoded it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from admil.errors import CorruptFile, InvalidInput, warn
from admil.store.documents import read_document, write_document

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows: two writers at once are then the user's to avoid
    fcntl = None

__all__ = ["FeatureCache", "VectorFile", "cache_folder"]

_FORMAT, _VERSION = "admil-features", 1
_KEY_BYTES, _CHECK_BYTES = 32, 8
_ENTRY_BYTES = _KEY_BYTES + _CHECK_BYTES


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


class FeatureCache:
    """A folder of vectors: one folder in it per encoder, named by the encoder's identity.

    It may be deleted at any time, as a whole or a folder of it, while nothing uses it.  Several processes may use it
    at once.

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
        self._keys, self._vectors = folder / "keys.bin", folder / "vectors.bin"
        self._rows: dict[bytes, tuple[int, bytes]] = {}
        self._seen = 0
        if (folder / "identity.json").exists():
            self._check_identity()

    def get(self, keys: Iterable[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """Return the vectors that are there, by key."""
        wanted = set(keys)
        self._refresh()
        rows = sorted((self._rows[key], key) for key in wanted if key in self._rows)
        if not rows:
            return {}
        size = 4 * self.width
        found = {}
        with self._vectors.open("rb") as file:
            for (row, check), key in rows:
                file.seek(row * size)
                data = file.read(size)
                if _checksum(key, data) == check:
                    found[key] = np.frombuffer(data, "<f4").astype(np.float32)
                else:
                    self._drop(key)
        return found

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
            stored.truncate(self._seen * 4 * self.width)
            keys.truncate(self._seen * _ENTRY_BYTES)
            stored.write(b"".join(new.values()))
            stored.flush()
            keys.write(b"".join(key + _checksum(key, data) for key, data in new.items()))
        self._refresh()

    @contextmanager
    def _writing(self) -> Iterator[tuple[BinaryIO, BinaryIO]]:
        """Hold the files for writing at their ends, alone."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not (self.folder / "identity.json").exists():
                content = {"identity": self.identity, "width": self.width}
                write_document(self.folder / "identity.json", _FORMAT, _VERSION, content)
            with self._keys.open("ab") as keys, self._vectors.open("ab") as vectors:
                if fcntl is not None:
                    fcntl.flock(keys, fcntl.LOCK_EX)
                yield keys, vectors
        except OSError as error:  # no fault of the picture or text: an import that leaves those out must end
            said = f"features cannot be kept ({error.strerror or error}); put this right or go without a cache"
            raise OSError(error.errno, said, str(self.folder)) from error

    def _refresh(self) -> None:
        """Learn of the entries that were added since, or that there are fewer: the folder may have been deleted."""
        there = self._keys.is_file() and self._vectors.is_file()
        sizes = (self._keys.stat().st_size, self._vectors.stat().st_size) if there else (0, 0)
        whole = min(sizes[0] // _ENTRY_BYTES, sizes[1] // (4 * self.width))
        if whole < self._seen:
            self._rows, self._seen = {}, 0
        if whole == self._seen:
            return
        with self._keys.open("rb") as file:
            file.seek(self._seen * _ENTRY_BYTES)
            data = file.read((whole - self._seen) * _ENTRY_BYTES)
        for start in range(0, len(data), _ENTRY_BYTES):
            key = data[start : start + _KEY_BYTES]
            # of two with one key the later stands: the earlier was found damaged
            self._rows[key] = (self._seen, data[start + _KEY_BYTES : start + _ENTRY_BYTES])
            self._seen += 1

    def _drop(self, key: bytes) -> None:
        warn(f"a vector in {self.folder} is damaged and will be computed again; the disk may be failing")
        del self._rows[key]

    def _check_identity(self) -> None:
        path = self.folder / "identity.json"
        content = read_document(path, _FORMAT, _VERSION, "a feature cache")
        if content.get("identity") != self.identity or content.get("width") != self.width:
            raise CorruptFile(f"{path} is of another encoder than its folder's name says; delete {self.folder}", path)


def _checksum(key: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(key + data, digest_size=_CHECK_BYTES).digest()
