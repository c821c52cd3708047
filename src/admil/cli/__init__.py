"""The command line: arguments in, one call each, words out."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; Ctrl-C is a quiet exit, also while libraries are still being imported."""
    try:
        from admil.cli.app import run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
