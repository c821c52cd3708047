"""Figures that compare many methods: each its own colour, marker and dashes, the legend outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from admil.report.comparison import FloatArray, Lines, Panel, Sweeps
from admil.report.content import Curve
from admil.report.figures import bare, deviations

__all__ = ["lines_figure", "sweeps_figure"]

# Okabe and Ito's palette without its yellow, which is pale on white, and with their black
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#111827")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h")
_DASHES: tuple[Any, ...] = ("solid", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.2, 1.2, 1.2)))
_GREY, _FAINT, _RULE = "#6b7280", "#c5cad3", "#e5e7eb"
_TOGETHER = 3
"""More bands than these would hide each other: each method then has a panel of its own as well."""
_COLUMNS = 4
_FEW = 14
_POWERS = 1e4
"""Beyond this ratio powers of ten are the ticks."""
_WIDE = 30
"""From this ratio of largest to smallest on, a setting is drawn on a logarithmic axis."""


def lines_figure(lines: Lines) -> Figure:
    """Draw mean curves with bands of one standard deviation; of many curves the bands in panels of their own."""
    if len(lines.curves) <= _TOGETHER:
        figure = Figure(figsize=(8.6, 4.2), layout="constrained")
        _together(figure, lines, bands=True)
        return figure
    rows = -(-len(lines.curves) // _COLUMNS)
    figure = Figure(figsize=(8.6, 4.4 + 1.6 * rows), layout="constrained")
    top, below = np.asarray(figure.subfigures(2, 1, height_ratios=(4.4, 1.6 * rows), hspace=0.04))
    _together(top, lines, bands=False)
    _apart(below, lines, rows)
    return figure


def sweeps_figure(sweeps: Sweeps) -> Figure:
    """Draw quality over a setting, a panel for each, with bars of one standard deviation."""
    count = len(sweeps.panels)
    figure = Figure(figsize=(8.6, 0.4 + 3.1 * count), layout="constrained")
    rows = figure.subplots(count, 1, squeeze=False, sharey=True).ravel()
    for axes, panel in zip(rows, sweeps.panels, strict=True):
        _panel(axes, panel, sweeps)
    return figure


def _style(number: int) -> dict[str, Any]:
    """Return colour, marker and dashes of a line: no two alike below a hundred."""
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": _DASHES[number // len(_COLOURS) % len(_DASHES)],
    }


def _together(figure: Figure | SubFigure, lines: Lines, bands: bool) -> None:
    axes = figure.subplots()
    for number, curve in enumerate(lines.curves):
        style = _style(number)
        if bands:
            _band(axes, curve, style["color"])
        axes.plot(curve.answers, curve.values.mean(0), markersize=5, linewidth=1.8, label=curve.method, **style)
    if len(lines.ceiling):
        middle = float(lines.ceiling.mean())
        if bands:
            spread = float(deviations(lines.ceiling[:, None])[0])
            axes.axhspan(middle - spread, middle + spread, color=_GREY, alpha=0.08, linewidth=0)
        axes.axhline(middle, color=_GREY, linestyle=(0, (5, 3)), linewidth=1.4, label="ceiling")
    axes.set_xlabel("answers")
    axes.set_ylabel(lines.quality)
    _ticks(axes, lines.curves)
    _quiet(axes)
    _legend(figure, axes)


def _apart(figure: Figure | SubFigure, lines: Lines, rows: int) -> None:
    """Draw every curve in a panel of its own, with its band, before all others in grey."""
    grid = np.asarray(figure.subplots(rows, _COLUMNS, sharex=True, sharey=True, squeeze=False)).ravel()
    for number, (axes, curve) in enumerate(zip(grid, lines.curves, strict=False)):
        for other in lines.curves:
            axes.plot(other.answers, other.values.mean(0), color=_FAINT, linewidth=0.7, zorder=1)
        style = _style(number)
        _band(axes, curve, style["color"])
        axes.plot(curve.answers, curve.values.mean(0), markersize=3, linewidth=1.5, **style)
        axes.set_title(curve.method, fontsize=8, loc="left")
        _quiet(axes)
        axes.tick_params(labelsize=7)
        _ticks(axes, lines.curves)
    for axes in grid[len(lines.curves) :]:
        axes.set_axis_off()
    for axes in grid[max(0, len(lines.curves) - _COLUMNS) : len(lines.curves)]:
        axes.tick_params(labelbottom=True)
    figure.supxlabel("answers; each method with its band of one standard deviation", fontsize=8)


def _band(axes: Axes, curve: Curve, colour: str) -> None:
    mean, spread = curve.values.mean(0), deviations(curve.values)
    for edge in (mean - spread, mean + spread):
        axes.plot(curve.answers, edge, color=colour, alpha=0.4, linewidth=0.6)
    axes.fill_between(curve.answers, mean - spread, mean + spread, color=colour, alpha=0.1, linewidth=0)


def _panel(axes: Axes, panel: Panel, sweeps: Sweeps) -> None:
    for number, series in enumerate(panel.series):
        style = _style(number)
        x = _set_aside(series.x, number, panel)
        axes.plot(x, series.mean, markersize=5, linewidth=1.6, label=series.name, **style)
        bars = {"color": style["color"], "linestyle": "none", "elinewidth": 0.9, "capsize": 2.5}
        axes.errorbar(x, series.mean, np.nan_to_num(series.deviation), **bars)
    for number, (name, level) in enumerate(sweeps.levels):
        axes.axhline(level, color=_GREY, linestyle=_DASHES[1 + number % 3], linewidth=1.3, label=name)
    _scale(axes, _values(panel))
    axes.set_xlabel(panel.setting)
    axes.set_ylabel(sweeps.quality)
    _quiet(axes)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.02), fontsize=8, handlelength=3.2)


def _set_aside(x: FloatArray, number: int, panel: Panel) -> FloatArray:
    """Return x a little aside, so that bars of several series do not lie on each other."""
    values, count = _values(panel), len(panel.series)
    shift = (number / (count - 1) - 0.5) * 0.015 if count > 1 else 0.0
    if _is_wide(values):
        moved: FloatArray = x * float(values.max() / values[values > 0].min()) ** shift
        return moved
    return x + shift * float(values.max() - values.min())


def _scale(axes: Axes, values: FloatArray) -> None:
    """Choose the axis of a setting; where its values are few, they are its ticks."""
    above = values[values > 0]
    if _is_wide(values) and values.min() == 0:
        axes.set_xscale("symlog", linthresh=float(above.min()), linscale=0.5)
        axes.set_xlim(-0.2 * float(above.min()), 1.6 * float(values.max()))
    elif _is_wide(values):
        axes.set_xscale("log")
        if float(values.max() / values.min()) > _POWERS:
            return
    if len(values) <= _FEW:
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.minorticks_off()


def _is_wide(values: FloatArray) -> bool:
    above = values[values > 0]
    return len(above) > 1 and bool(values.min() >= 0) and float(above.max() / above.min()) >= _WIDE


def _values(panel: Panel) -> FloatArray:
    values: FloatArray = np.unique(np.concatenate([each.x for each in panel.series]))
    return values


def _ticks(axes: Axes, curves: Sequence[Curve]) -> None:
    """Put a tick at every round where all methods have the same ones."""
    first = curves[0].answers
    if len(first) <= 9 and all(np.array_equal(curve.answers, first) for curve in curves):
        axes.set_xticks(first, [f"{answers:g}" for answers in first])


def _legend(figure: Figure | SubFigure, axes: Axes) -> None:
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, loc="outside right upper", fontsize=8, handlelength=3.2)


def _quiet(axes: Axes) -> None:
    axes.grid(axis="y", color=_RULE, linewidth=0.8)
    bare(axes)
