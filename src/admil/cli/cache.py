"""`admil cache`: what is kept to save time, and can be made again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape

from admil.cli.wording import counted
from admil.features import FeatureCache, cache_folder

__all__ = ["cache"]

Part = Literal["features", "downloads", "all"]


def cache(
    clear: Annotated[Part | None, typer.Option(help="What to delete; it is computed or downloaded again then.")] = None,
) -> None:
    """Say where features and downloads are kept and how much there is; or delete them."""
    features, downloads = FeatureCache(), cache_folder() / "downloads"
    console = Console()
    console.print(f"Cache: [b]{escape(str(cache_folder()))}[/b]", highlight=False, soft_wrap=True)
    there, files = features.size(), _sizes(downloads)
    lines = {
        "features": f"{counted(there.entries, 'vector')}, {decimal(there.bytes)}",
        "downloads": f"{counted(len(files), 'file')}, {decimal(sum(files))}",
    }
    if clear in ("features", "all"):
        features.clear()
    if clear in ("downloads", "all") and downloads.is_dir():
        shutil.rmtree(downloads)
    for part, held in lines.items():
        console.print(f"{part:<11}{held}{' deleted' if clear in (part, 'all') else ''}", highlight=False)


def _sizes(folder: Path) -> list[int]:
    """Return the bytes of each file below a folder."""
    return [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
