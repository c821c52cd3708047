"""A comparison of many methods: one page that needs nothing else, Markdown, and figures that tell methods apart."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from admil.report import BagPicture, Curve
from admil.report.compared import as_markdown, table_as_markdown, write_comparison
from admil.report.comparison import (
    Chapter,
    Comparison,
    Drawing,
    Lines,
    Panel,
    Planes,
    Section,
    Series,
    Sweeps,
    Table,
)
from admil.report.figures import to_svg
from admil.report.lines import lines_figure, sweeps_figure
from tests.browser import open_page

_EMPTY = {"meta", "img", "br", "link", "input", "hr"}


def lines(count: int) -> Lines:
    rng = np.random.default_rng(0)
    answers = np.array([0.0, 10.0, 20.0])
    curves = tuple(Curve(f"method-{n}", answers, 50 + n + rng.random((2, 3))) for n in range(count))
    return Lines(curves, np.array([90.0, 92.0]), "quality")


def swept(x: list[float]) -> Sweeps:
    values = np.array(x)
    series = tuple(Series(name, values, 50 + values, np.full(len(x), np.nan)) for name in ("one", "two"))
    return Sweeps((Panel("a setting", series), Panel("another", series[:1])), (("a level", 51.0),), "quality")


def bag() -> BagPicture:
    f, p = np.array([0.2, 0.8]), np.array([0.5, 0.5])
    return BagPicture("bag-7", f, p, f, p, positive=np.array([False, True]), asked=np.array([True, False]))


def comparison(name: str = "one & two") -> Comparison:
    table = Table("What a | column is.", ("method", "AP"), ((name, "51.2 ± 3.4"), ("a|b", "")))
    drawings = (
        Drawing("curves", lines(2), "Curves of *two* methods."),
        Drawing("sweep", swept([1.0, 2.0]), "A sweep."),
        Drawing("bags", Planes((bag(),)), "Bags."),
    )
    section = Section("Digits", "suite-digits", ("A sentence.",), (table, *drawings), ("failed: <none>",))
    return Comparison(
        "A title", ("How to read.",), (Chapter("Suite", "suite", ("2 of 2.",), (section,)),), (("n", "1"),)
    )


class Page(HTMLParser):
    """Checks that tags are closed in order; remembers addresses, anchors and text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.anchors: list[str] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "iframe")
        self.open += [] if tag in _EMPTY else [tag]
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        self.anchors += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += " ".join(data.split()) + " "


def test_the_page_is_well_formed_and_refers_to_itself_only(tmp_path: Path) -> None:
    path = write_comparison(comparison(), tmp_path)
    page = Page(path)
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    inside = [address for address in page.addresses if address.startswith("#")]
    assert {address[1:] for address in inside} == {"suite", "suite-digits"} == set(page.anchors)
    pictures = [address for address in page.addresses if not address.startswith("#")]
    assert len(pictures) == 3
    assert all(address.startswith("data:image/svg+xml;base64,") for address in pictures)
    for words in ("A title", "How to read.", "51.2 ± 3.4", "failed: <none>", "Curves of *two* methods.", "one & two"):
        assert words in page.text


def test_text_is_escaped_on_the_page_and_in_markdown(tmp_path: Path) -> None:
    bad = "<img src=x onerror=alert(1)>"
    page = write_comparison(comparison(bad), tmp_path).read_text(encoding="utf-8")
    assert "<img src=x" not in page
    assert "<img src=x" not in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_every_figure_lies_beside_as_svg_and_png(tmp_path: Path) -> None:
    write_comparison(comparison(), tmp_path)
    files = {path.name for path in (tmp_path / "figures").iterdir()}
    assert files == {f"{name}.{ending}" for name in ("curves", "sweep", "bags") for ending in ("svg", "png")}
    assert (tmp_path / "figures" / "sweep.png").read_bytes().startswith(b"\x89PNG")
    assert ElementTree.fromstring((tmp_path / "figures" / "bags.svg").read_bytes()).tag.endswith("svg")


def test_the_same_comparison_gives_the_same_bytes(tmp_path: Path) -> None:
    once, again = write_comparison(comparison(), tmp_path / "a"), write_comparison(comparison(), tmp_path / "b")
    assert once.read_bytes() == again.read_bytes()


def test_markdown_has_tables_that_keep_their_columns() -> None:
    text = as_markdown(comparison())
    assert "| one & two | 51.2 ± 3.4 |\n| a\\|b |  |" in text
    assert "## Suite" in text
    assert "### Digits" in text
    assert "- failed: &lt;none>" in text
    assert "![Curves of \\*two\\* methods.](figures/curves.svg)" in text
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")}
    assert widths == {3}


def test_a_table_of_one_column_is_a_table() -> None:
    assert table_as_markdown(Table("", ("method",), (("a",),))) == "| method |\n|---|\n| a |"


@pytest.mark.parametrize("count", [1, 3, 4, 9, 23])
def test_every_curve_and_the_ceiling_are_named_and_no_two_look_alike(count: int) -> None:
    shown = lines(count)
    figure = lines_figure(shown)
    legends = [*figure.legends, *(legend for part in figure.subfigs for legend in part.legends)]
    (legend,) = legends
    assert [text.get_text() for text in legend.get_texts()] == [*(curve.method for curve in shown.curves), "ceiling"]
    looks = {(str(line.get_color()), line.get_marker(), str(line.get_linestyle())) for line in legend.get_lines()}
    assert len(looks) == count + 1
    assert ElementTree.fromstring(to_svg(figure)).tag.endswith("svg")


def test_one_replicate_and_no_ceiling_can_be_drawn() -> None:
    answers = np.array([0.0, 10.0])
    figure = lines_figure(Lines((Curve("one", answers, np.array([[50.0, 60.0]])),), np.zeros(0), "quality"))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one"]
    (axes,) = figure.axes
    assert axes.lines[-1].get_ydata().tolist() == [50.0, 60.0]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("x", "scale"),
    [([1.0, 2.0, 3.0], "linear"), ([1.0, 4.0, 32.0], "log"), ([0.0, 0.01, 1.0], "symlog"), ([1e-10, 1.0], "log")],
)
def test_a_setting_over_magnitudes_has_a_logarithmic_axis(x: list[float], scale: str) -> None:
    figure = sweeps_figure(swept(x))
    first, second = figure.axes
    assert first.get_xscale() == second.get_xscale() == scale
    assert (first.get_xlabel(), second.get_xlabel()) == ("a setting", "another")
    legend = first.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["one", "two", "a level"]
    assert second.lines[0].get_ydata().tolist() == [50 + value for value in x]  # type: ignore[union-attr]


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 1200])
def test_in_a_browser_the_page_shows_its_figures_and_never_scrolls_sideways(width: int, tmp_path: Path) -> None:
    with open_page() as page:
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(write_comparison(comparison(), tmp_path).as_uri())
        assert page.evaluate("[...document.images].map(i => i.complete && i.naturalWidth > 0)") == [True] * 3
        assert page.evaluate("document.documentElement.scrollWidth") <= width
