"""Calling the command line in this process, as `main` runs it."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from unittest.mock import patch

from admil.cli import main


@dataclass(frozen=True)
class Called:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str


def call(*arguments: object, columns: int = 200) -> Called:
    """Run a command; only the process's own arguments and streams are replaced."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["admil", *map(str, arguments)]),
        patch.dict("os.environ", {"COLUMNS": str(columns)}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Called(code, out.getvalue(), err.getvalue())
