"""Sources of pictures, small ones."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from admil.features import Picture, PixelEncoder
from admil.importers import ImageImporter, ReadBag
from tests.features.making import encoded, picture

from .sources import read_all


def write(path: Path, content: Picture | bytes) -> Path:
    """Write a file, as PNG where a picture is given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else encoded(content))
    return path


def write_list(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.DictWriter(file, list(rows[0]))
        lines.writeheader()
        lines.writerows(rows)
    return path


def importer(path: Path, **options: Any) -> ImageImporter:
    """Open a source as pixels."""
    return ImageImporter(path, PixelEncoder(), **options)


def one(path: Path, **options: Any) -> ReadBag:
    (bag,) = read_all(importer(path, **options)).values()
    return bag


def listed(folder: Path, text: str | bytes) -> Path:
    """Write a list beside the pictures a.png, 6 wide and 5 high, and b.png."""
    for number, name in enumerate(("a.png", "b.png")):
        write(folder / name, picture(number, 5, 6))
    path = folder / "list.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path
