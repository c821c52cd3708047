"""The report: one file that needs nothing else, and says what it was given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from admil.report import Asked, BagPicture, Curve, Report, RoundRow, write_report
from admil.report.figures import curves_figure, picture_png, to_svg
from tests.browser import Page, open_page

ROUNDS = 3


def report(title: str = "A title") -> Report:
    rng = np.random.default_rng(0)
    curves = tuple(
        Curve(name, np.array([0.0, 10.0, 20.0]), 0.5 + 0.3 * rng.random((2, ROUNDS))) for name in ("one", "two")
    )
    bag = BagPicture(
        bag="bag-7",
        f_before=rng.random(4),
        p_before=np.full(4, 0.25),
        f_after=rng.random(4),
        p_after=np.full(4, 0.25),
        positive=np.array([True, False, False, False]),
        asked=np.array([True, True, False, False]),
    )
    asked = tuple(
        Asked(n, 1, f"bag-7[{n}]", "explore", 0.25, 0.5, 1, 0.75, answer, rng.random((8, 8)))
        for n, answer in enumerate((True, False, None), start=1)
    )
    rows = (RoundRow("one", 0, 0.0, 0.0, 0.0, 0.512, 0.034), RoundRow("one", 1, 10.0, 4.5, 0.25, 0.634, 0.012))
    return Report(
        title=title,
        protocol=("What was done.",),
        curves=curves,
        ceiling=np.array([0.9, 0.94]),
        ceiling_note="Ceiling note.",
        rows=rows,
        bags=(bag,),
        asked=asked,
        facts=(("seeds", "0, 1"),),
        next_command="admil ask",
    )


class Collector(HTMLParser):
    """Remembers every address a page names and the text it shows."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        assert tag not in ("script", "link", "iframe")

    def handle_data(self, data: str) -> None:
        self.text += " ".join(data.split()) + " "


def read(path: Path) -> Collector:
    collector = Collector()
    collector.feed(path.read_text(encoding="utf-8"))
    return collector


def test_the_page_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    page = read(write_report(report(), tmp_path))
    assert len(page.addresses) == 2 + 3, "two figures and three pictures"
    assert all(address.startswith("data:image/") for address in page.addresses)


def test_the_table_and_the_gallery_show_what_was_given(tmp_path: Path) -> None:
    text = read(write_report(report(), tmp_path)).text
    assert "51.2 ± 3.4" in text
    assert "63.4 ± 1.2" in text
    assert "25 %" in text
    for word in ("bag-7[1]", "positive", "negative", "skipped", "explore", "f 0.25 · p 0.50", "admil ask"):
        assert word in text


def test_text_is_escaped(tmp_path: Path) -> None:
    path = write_report(report(title="<img src=x onerror=alert(1)>"), tmp_path)
    assert "<img src=x" not in path.read_text(encoding="utf-8")


def test_the_same_report_gives_the_same_bytes(tmp_path: Path) -> None:
    once, again = write_report(report(), tmp_path / "a"), write_report(report(), tmp_path / "b")
    assert once.read_bytes() == again.read_bytes()


def test_a_figure_is_an_svg_that_names_every_method_and_the_ceiling() -> None:
    drawn = report()
    svg = to_svg(curves_figure(drawn.curves, drawn.ceiling, "quality"))
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert set(re.findall(rb"<!-- (one|two|ceiling|quality|answers) -->", svg)) == {
        b"one",
        b"two",
        b"ceiling",
        b"quality",
        b"answers",
    }


def test_a_picture_becomes_a_png_of_the_asked_size() -> None:
    png = picture_png(np.zeros((8, 8)), scale=5)
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") == 40


@pytest.fixture
def page() -> Iterator[Page]:
    with open_page() as opened:
        yield opened


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 1200])
def test_in_a_browser_the_page_shows_its_figures_and_never_scrolls_sideways(
    page: Page, width: int, tmp_path: Path
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(write_report(report(), tmp_path).as_uri())

    shown = page.evaluate("[...document.images].map(i => i.complete && i.naturalWidth > 0)")
    assert shown == [True] * 5
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.get_by_role("heading", name="What was asked, in order").is_visible()
    assert complaints == []
