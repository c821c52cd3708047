"""The self-contained HTML report: one file, no script, nothing loaded from elsewhere."""

from __future__ import annotations

import base64
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from admil.report.content import Report
from admil.report.figures import curves_figure, p_f_figure, picture_png, to_png, to_svg

__all__ = ["write_report"]

_QUALITY = "instance AP on test bags"


def write_report(report: Report, folder: Path) -> Path:
    """Write report.html, curves.png and p-f.png into a folder; return the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    curves = curves_figure(report.curves, report.ceiling, _QUALITY)
    plane = p_f_figure(report.bags)
    environment = Environment(
        loader=PackageLoader("admil.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    page = environment.get_template("report.html").render(
        report=report,
        curves=base64.b64encode(to_svg(curves)).decode(),
        plane=base64.b64encode(to_svg(plane)).decode(),
        pictures=[base64.b64encode(picture_png(asked.picture)).decode() for asked in report.asked],
    )
    (folder / "curves.png").write_bytes(to_png(curves))
    (folder / "p-f.png").write_bytes(to_png(plane))
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path
