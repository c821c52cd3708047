"""Progress bars that all commands share."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["progress_bars"]


def progress_bars(console: Console) -> Progress:
    """Return a live display, to be used in a ``with`` statement: what, how far, how long, how long still.

    Where nobody watches, in a file or a pipe, it shows nothing.
    """
    columns = (
        TextColumn("{task.description:<34}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
