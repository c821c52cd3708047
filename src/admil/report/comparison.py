"""What a comparison of many methods shows, as plain values; whoever fills in tables writes their numbers out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from admil.report.content import BagPicture, Curve

__all__ = ["Chapter", "Comparison", "Drawing", "Lines", "Panel", "Planes", "Section", "Series", "Sweeps", "Table"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """Cells as they are shown; the first column names the row.  ``caption`` says what the columns mean."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class Lines:
    """Curves over answers with a band of one standard deviation, and the (S,) values of a ceiling, perhaps none."""

    curves: tuple[Curve, ...]
    ceiling: FloatArray
    quality: str


@dataclass(frozen=True, eq=False)
class Series:
    """Means over a setting, with standard deviations: nan where there is one replicate."""

    name: str
    x: FloatArray
    mean: FloatArray
    deviation: FloatArray


@dataclass(frozen=True, eq=False)
class Panel:
    """All series over one setting."""

    setting: str
    series: tuple[Series, ...]


@dataclass(frozen=True, eq=False)
class Sweeps:
    """A panel for each setting, of one quality; ``levels`` are drawn across all, by name."""

    panels: tuple[Panel, ...]
    levels: tuple[tuple[str, float], ...]
    quality: str


@dataclass(frozen=True, eq=False)
class Planes:
    """Bags before and after the answers in the plane of score and weight."""

    bags: tuple[BagPicture, ...]


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure: the name of its files, its content, and what it shows in a sentence."""

    name: str
    content: Lines | Sweeps | Planes
    caption: str


@dataclass(frozen=True, eq=False)
class Section:
    """A part with a heading, and an ``anchor`` that no other has; ``listed`` are lines of a list."""

    title: str
    anchor: str
    sentences: tuple[str, ...] = ()
    exhibits: tuple[Table | Drawing, ...] = ()
    listed: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Chapter:
    """One question that was asked, and the sections that answer it."""

    title: str
    anchor: str
    sentences: tuple[str, ...]
    sections: tuple[Section, ...]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Everything on the page; ``facts`` are name and value pairs."""

    title: str
    sentences: tuple[str, ...]
    chapters: tuple[Chapter, ...]
    facts: tuple[tuple[str, str], ...]
