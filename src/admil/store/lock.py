"""Who may write to a store's folder: one process at a time, and only where no other data lie."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from admil.errors import CorruptFile, InvalidInput
from admil.store.documents import make_folder
from admil.store.layout import HEADER, PICTURES, part_files

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows: two writers at once are then the user's to avoid
    fcntl = None

__all__ = ["LOCK", "StoreLock"]

LOCK = "store.lock"


class StoreLock:
    """Holds a store's folder for writing; the system lets go of it when the process ends, however it ends.

    Where the system or the file system has no locks, two writers at once are the user's to avoid.

    Args:
        folder: the store's folder; made if need be.
        new: True where no store may be there yet, False where one must be, None for either.

    Attributes:
        made: whether the folder was not there before.
    """

    def __init__(self, folder: Path, new: bool | None) -> None:
        _check(folder, new)
        self.made = not folder.exists()
        make_folder(folder)
        self._file: BinaryIO = (folder / LOCK).open("ab")
        try:
            _take(self._file, folder)
            _check(folder, new)  # another process may have been quicker
        except BaseException:
            self._file.close()
            raise

    @property
    def held(self) -> bool:
        """Whether it has not been released."""
        return not self._file.closed

    def release(self) -> None:
        """Let others write."""
        self._file.close()


def _take(file: BinaryIO, folder: Path) -> None:
    if fcntl is None:
        return
    with suppress(OSError):  # a file system without locks
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken = os.fstat(file.fileno()).st_nlink > 0  # else it was deleted, with the folder, before it was ours
        except BlockingIOError:
            taken = False
        if not taken:
            raise InvalidInput(f"another process is writing to {folder}; wait until it has finished", folder)


def _check(folder: Path, new: bool | None) -> None:
    there = (folder / HEADER).exists()
    if new is True and there:
        raise InvalidInput(f"there is a store in {folder} already; append to it, or choose another folder", folder)
    if new is False and not there:
        raise CorruptFile(f"there is no {HEADER} in {folder}; give the folder of a store", folder)
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file; a store is a folder: choose another name", folder)
    if there or not folder.exists():
        return
    found = {path.name for path in folder.iterdir()}
    ours = (
        {LOCK, PICTURES, "labels", *part_files(folder, "x")} if LOCK in found else set()
    )  # an import that was cut short
    foreign = sorted(name for name in found - ours if not name.endswith(".part"))
    if foreign:
        raise InvalidInput(f"{folder} holds other files ({foreign[0]}, …); choose an empty or a new folder", folder)
