"""Writing a comparison: Markdown, one self-contained page, and every figure as SVG and PNG."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from admil.report.comparison import Chapter, Comparison, Drawing, Lines, Planes, Section, Sweeps, Table
from admil.report.figures import p_f_figure, to_png, to_svg
from admil.report.lines import lines_figure, sweeps_figure

__all__ = ["as_markdown", "table_as_markdown", "write_comparison"]

_FIGURES = "figures"


def write_comparison(comparison: Comparison, folder: Path) -> Path:
    """Write report.md, report.html and the figures into a folder; return the page's path.

    Figures that were there before stay; those of the same name are written anew.
    """
    (folder / _FIGURES).mkdir(parents=True, exist_ok=True)
    pictures: dict[str, str] = {}
    for drawing in _drawings(comparison):
        figure = _figure(drawing.content)
        svg = to_svg(figure)
        (folder / _FIGURES / f"{drawing.name}.svg").write_bytes(svg)
        (folder / _FIGURES / f"{drawing.name}.png").write_bytes(to_png(figure))
        pictures[drawing.name] = base64.b64encode(svg).decode()
    environment = Environment(
        loader=PackageLoader("admil.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    page = environment.get_template("comparison.html").render(comparison=comparison, pictures=pictures)
    (folder / "report.md").write_text(as_markdown(comparison), encoding="utf-8")
    path = folder / "report.html"
    path.write_text(page.lstrip(), encoding="utf-8")
    return path


def as_markdown(comparison: Comparison) -> str:
    """Return the comparison as Markdown that shows the figures of its folder."""
    parts = [f"# {_plain(comparison.title)}", *map(_plain, comparison.sentences)]
    for chapter in comparison.chapters:
        parts += _chapter(chapter)
    parts += ["## How this was made", "\n".join(f"- {name}: {_plain(value)}" for name, value in comparison.facts)]
    return "\n\n".join(parts) + "\n"


def table_as_markdown(table: Table) -> str:
    """Return the table without its caption.

    >>> print(table_as_markdown(Table("", ("method", "AP"), (("P-F", "74.5"),))))
    | method | AP |
    |---|--:|
    | P-F | 74.5 |
    """
    rule = "|---" + "|--:" * (len(table.columns) - 1) + "|"
    return "\n".join([_row(table.columns), rule, *map(_row, table.rows)])


def _chapter(chapter: Chapter) -> Iterator[str]:
    yield f"## {_plain(chapter.title)}"
    yield from map(_plain, chapter.sentences)
    for section in chapter.sections:
        yield from _section(section)


def _section(section: Section) -> Iterator[str]:
    yield f"### {_plain(section.title)}"
    yield from map(_plain, section.sentences)
    for shown in section.exhibits:
        if isinstance(shown, Table):
            yield f"{_plain(shown.caption)}\n\n{table_as_markdown(shown)}"
        else:
            yield f"![{_plain(shown.caption)}]({_FIGURES}/{shown.name}.svg)\n\n*{_plain(shown.caption)}*"
    if section.listed:
        yield "\n".join(f"- {_plain(line)}" for line in section.listed)


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(_plain(cell).replace("|", "\\|") for cell in cells) + " |"


def _plain(text: str) -> str:
    """Return the text on one line, so that nothing in it is taken for Markdown or HTML."""
    line = " ".join(text.split())
    for mark in "\\`*_[]<":
        line = line.replace(mark, f"\\{mark}" if mark != "<" else "&lt;")
    return line


def _drawings(comparison: Comparison) -> Iterator[Drawing]:
    for chapter in comparison.chapters:
        for section in chapter.sections:
            yield from (shown for shown in section.exhibits if isinstance(shown, Drawing))


def _figure(content: Lines | Sweeps | Planes) -> Figure:
    if isinstance(content, Lines):
        return lines_figure(content)
    return sweeps_figure(content) if isinstance(content, Sweeps) else p_f_figure(content.bags)
