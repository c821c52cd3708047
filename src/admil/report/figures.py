"""Figures of a report, drawn without a display."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from admil.report.content import BagPicture, Curve

__all__ = ["bare", "curves_figure", "deviations", "p_f_figure", "picture_png", "to_png", "to_svg"]

# Okabe and Ito's palette: told apart by colour-blind readers too; markers repeat the distinction
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_GREY = "#6b7280"
_POSITIVE, _NEGATIVE = "#D55E00", "#9ca3af"


def curves_figure(curves: Sequence[Curve], ceiling: NDArray[np.float64], quality: str) -> Figure:
    """Draw mean curves over answers with a band of one standard deviation, and the ceiling's line."""
    figure = Figure(figsize=(7.6, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for curve, colour, marker in zip(curves, _COLOURS, _MARKERS, strict=False):
        mean, deviation = curve.values.mean(0), deviations(curve.values)
        for edge in (mean - deviation, mean + deviation):
            axes.plot(curve.answers, edge, color=colour, alpha=0.4, linewidth=0.7)
        axes.fill_between(curve.answers, mean - deviation, mean + deviation, color=colour, alpha=0.09, linewidth=0)
        axes.plot(curve.answers, mean, color=colour, marker=marker, markersize=5, linewidth=2, label=curve.method)
    if len(ceiling):
        middle, spread = float(ceiling.mean()), float(deviations(ceiling[:, None])[0])
        axes.axhspan(middle - spread, middle + spread, color=_GREY, alpha=0.1, linewidth=0)
        axes.axhline(middle, color=_GREY, linestyle=(0, (5, 3)), linewidth=1.4, label="ceiling")
    axes.set_xlabel("answers")
    axes.set_ylabel(quality)
    axes.grid(axis="y", color="#e5e7eb", linewidth=0.8)
    figure.legend(frameon=False, loc="outside lower center", ncols=len(curves) + 1)
    bare(axes)
    return figure


def p_f_figure(bags: Sequence[BagPicture]) -> Figure:
    """Draw every bag twice, before and after: each instance at its score f and weight p."""
    figure = Figure(figsize=(7.6, 2.7 * len(bags)), layout="constrained")
    grid = np.asarray(figure.subplots(len(bags), 2, sharex=True, sharey=True, squeeze=False))
    for row, bag in zip(grid, bags, strict=True):
        _one_bag(row[0], bag, bag.f_before, bag.p_before, np.zeros_like(bag.asked))
        _one_bag(row[1], bag, bag.f_after, bag.p_after, bag.asked)
        row[0].set_title(f"{bag.bag}: before any answer", fontsize=10, loc="left")
        row[1].set_title(f"{bag.bag}: after the last round", fontsize=10, loc="left")
        row[0].set_ylabel("weight p")
    for axes in grid[-1]:
        axes.set_xlabel("score f")
    handles, names = grid[0, 1].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, loc="outside lower center", ncols=3)
    return figure


def picture_png(picture: NDArray[np.float64], scale: int = 6) -> bytes:
    """Return a PNG of a grey picture with values 0 to 1, dark on light, each pixel ``scale`` wide."""
    grey = np.clip(255 * (1 - picture), 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(grey).resize((grey.shape[1] * scale, grey.shape[0] * scale), Image.Resampling.BICUBIC).save(
        buffer, "PNG", optimize=True
    )
    return buffer.getvalue()


def to_svg(figure: Figure) -> bytes:
    """Return the figure as an SVG, the same bytes every time."""
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "admil"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def to_png(figure: Figure) -> bytes:
    """Return the figure as a PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160)
    return buffer.getvalue()


def bare(axes: Axes) -> None:
    """Take the upper and the right edge away."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def deviations(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard deviation over the rows of (S, R); 0 where there is one."""
    deviation: NDArray[np.float64] = values.std(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
    return deviation


def _one_bag(
    axes: Axes, bag: BagPicture, f: NDArray[np.float64], p: NDArray[np.float64], asked: NDArray[np.bool_]
) -> None:
    for positive, colour, marker, name in (
        (False, _NEGATIVE, "o", "negative"),
        (True, _POSITIVE, "D", "positive"),
    ):
        here = bag.positive == positive
        axes.scatter(f[here], p[here], c=colour, marker=marker, s=42, label=name, zorder=3)
    axes.scatter(
        f[asked], p[asked], facecolors="none", edgecolors="#111827", marker="o", s=130, label="asked", zorder=4
    )
    axes.set_xlim(-0.03, 1.03)
    axes.grid(color="#f3f4f6", linewidth=0.8)
    bare(axes)
