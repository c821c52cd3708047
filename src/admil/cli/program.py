"""How this program is called, for the next command to try."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from rich.markup import escape

__all__ = ["program", "quoted"]


def program() -> str:
    """Return the program's name as it can be typed here: by its path where it is not on the search path."""
    found, own = shutil.which("admil"), Path(sys.argv[0])
    if own.name != "admil" or (found is not None and Path(found).resolve() == own.resolve()):
        return "admil"
    return os.path.relpath(own)


def quoted(path: str | Path) -> str:
    """Return a path as it can be pasted into a shell, and printed by rich."""
    return escape(shlex.quote(str(path)))
