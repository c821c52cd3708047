"""Pictures that a store keeps itself, for people to look at."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from admil.errors import InvalidInput
from admil.store.layout import PICTURES

__all__ = ["PictureFolder"]


class PictureFolder:
    """The pictures of a store, while it is written.

    Args:
        folder: the store's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._unsynced = folder, False

    def put(self, name: str, data: bytes) -> tuple[str, str]:
        """Write a picture unless it is there; return its path and checksum.  See `StoreWriter.picture`."""
        words = name.split("/")
        if any(not word or word[0] == "." or set(word) & set("\\:\0") for word in words):
            raise InvalidInput(f"expected the name of a picture such as 'scan/17.png', got {name!r}", name)
        path = self._folder.joinpath(PICTURES, *words)
        if not path.exists():
            self._write(path, data)
        elif path.read_bytes() != data:
            raise InvalidInput(f"{path} is another picture already; give this one a name of its own", path)
        return f"{PICTURES}/{name}", hashlib.sha256(data).hexdigest()

    def sync(self) -> None:
        """See to it that what was written is on the disk."""
        if self._unsynced and hasattr(os, "sync"):  # of each of thousands of small files it would take minutes
            os.sync()
        self._unsynced = False

    def remove_unfinished(self) -> None:
        """Delete what was being written when a process ended."""
        for path in (self._folder / PICTURES).rglob(".*.part"):
            path.unlink(missing_ok=True)

    def _write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.part")
        try:
            beside.write_bytes(data)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        self._unsynced = True
