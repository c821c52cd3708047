"""What is passed over in a folder of pictures."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from admil.errors import InvalidInput
from admil.importers.source import reading

__all__ = ["PassedOver", "check_links", "passed_over"]

_WHAT = "a folder of pictures"


@dataclass(frozen=True)
class PassedOver:
    """What was passed over.

    Attributes:
        hidden: entries whose names begin with a dot.
        folders: folders that were not looked into.
        broken: links that lead nowhere.
        files: other files.
        first: the first of those files.
    """

    hidden: int = 0
    folders: int = 0
    broken: int = 0
    files: int = 0
    first: Path | None = None

    def __add__(self, more: PassedOver) -> PassedOver:
        return PassedOver(
            self.hidden + more.hidden,
            self.folders + more.folders,
            self.broken + more.broken,
            self.files + more.files,
            self.first or more.first,
        )

    def __bool__(self) -> bool:
        return self != PassedOver()

    def __str__(self) -> str:
        """Say what there is.

        >>> str(PassedOver(hidden=2, files=1, first=Path("a/notes.txt")))
        'not named like pictures: 1, first a/notes.txt; hidden: 2'
        """
        parts = {
            "not named like pictures": f"{self.files:,}, first {self.first}" if self.files else "",
            "hidden": f"{self.hidden:,}" if self.hidden else "",
            "folders inside those of bags": f"{self.folders:,}" if self.folders else "",
            "links that lead nowhere": f"{self.broken:,}" if self.broken else "",
        }
        return "; ".join(f"{what}: {count}" for what, count in parts.items() if count)


def passed_over(folder: Path, taken: Collection[str]) -> PassedOver:
    """Return what is in a folder beside the names that were taken."""
    total = PassedOver()
    with reading(folder, _WHAT), os.scandir(folder) as entries:
        for entry in sorted((entry for entry in entries if entry.name not in taken), key=lambda entry: entry.name):
            total += _kind_of(entry)
    return total


def check_links(folder: Path) -> None:
    """Raise if a link in a folder leads nowhere; hidden ones may.

    Raises:
        InvalidInput: naming the link.
    """
    with reading(folder, _WHAT), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(".") and _is_broken(entry):
                raise InvalidInput(
                    f"the link {entry.path} leads to {os.readlink(entry)}, where nothing is: mend or delete it",
                    entry.path,
                )


def _kind_of(entry: os.DirEntry[str]) -> PassedOver:
    if entry.name.startswith("."):
        return PassedOver(hidden=1)
    if _is_broken(entry):
        return PassedOver(broken=1)
    return PassedOver(folders=1) if entry.is_dir() else PassedOver(files=1, first=Path(entry))


def _is_broken(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink() and not os.path.exists(entry)
