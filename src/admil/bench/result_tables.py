"""The tables of a benchmark's report: numbers as they are printed, blanks where there is nothing to print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from admil.bench.intervals import Mean
from admil.bench.published import PUBLISHED, WHAT_DIFFERS
from admil.bench.summary import CEILING, DataSummary, Difference, MethodSummary, SuiteSummary
from admil.report.comparison import Table

__all__ = ["Overview", "answers_table", "overview_table", "percent", "ranking_table", "rounds_table", "shown_name"]

_MINUS = "\N{MINUS SIGN}"
_NEVER = "-"


@dataclass(frozen=True)
class Overview:
    """A table over all data sets, and what has to be said of it."""

    table: Table
    note: str


def percent(values: Sequence[float]) -> str:
    """Return the mean in percent with its deviation; blank without values.

    >>> percent([0.5, 0.6])
    '55.0 ± 7.1'
    """
    return _percent(Mean.of(values))


def shown_name(method: MethodSummary) -> str:
    """Return the method's name, marked where its numbers are optimistic."""
    marked = not method.optimistic or "optimistic" in method.name
    return method.name if marked else f"{method.name} (optimistic)"


def overview_table(summary: SuiteSummary, published: bool) -> Overview:
    """Return instance AP of every method on every data set; with ``published`` the paper's own below."""
    names = {data.label: data.name for data in summary.data}
    if published:
        known = {name for row in PUBLISHED.values() for name in row}
        names |= {name: name for name in sorted(known - set(names.values()))}
    methods = list(dict.fromkeys(method.name for data in summary.data for method in data.methods))
    rows = [_overview_row(summary, method, list(names)) for method in methods]
    tops = {data.label: percent(data.ceiling.tolist()) for data in summary.data}
    rows += [(CEILING, *(tops.get(label, "") for label in names))] if any(tops.values()) else []
    if published:
        rows += [(row, *(values.get(name, "") for name in names.values())) for row, values in PUBLISHED.items()]
    caption = "Instance AP, %: before any answer → after the last round."
    return Overview(Table(caption, ("method", *names), tuple(rows)), WHAT_DIFFERS if published else "")


def _overview_row(summary: SuiteSummary, name: str, labels: Sequence[str]) -> tuple[str, ...]:
    cells, shown = dict.fromkeys(labels, ""), name
    for data in summary.data:
        for method in (each for each in data.methods if each.name == name):
            shown = shown_name(method)
            after = f" → {_percent(method.after)}" if method.asks and method.after else ""
            short = f" (n = {_count(method)})" if 0 < method.n < method.planned else ""
            cells[data.label] = _percent(method.before) + after + short
    return (shown, *cells.values())


def ranking_table(summary: SuiteSummary, data: DataSummary) -> Table:
    """Return how good every method's ranking is, and whether it differs from the baseline."""
    asks = any(method.asks for method in data.methods)
    columns = ["method", "n", "AP before any answer" if asks else "AP"]
    columns += ["AP after", "gap closed", "area"] if asks else []
    columns += [f"less {summary.baseline}", "verdict"]
    columns += ["answers to reach"] if asks and summary.reference else []
    rows = [_ranking_row(summary, method, asks) for method in data.methods]
    if len(data.ceiling):
        top = (CEILING, str(len(data.ceiling)), percent(data.ceiling.tolist()))
        rows.append((*top, *[""] * (len(columns) - len(top))))
    return Table(_ranking_caption(summary, data, asks), tuple(columns), tuple(rows))


def _ranking_caption(summary: SuiteSummary, data: DataSummary, asks: bool) -> str:
    words = f"Instance AP on test bags, all instances pooled, %, over {data.replicates}; n counts trials."
    if asks:
        words += (
            " Area: mean height of the curve of AP over answers. Differences are in area where both methods ask, else"
            " in AP before any answer."
        )
        if summary.reference:
            words += f" Answers to reach: {summary.reference}'s AP after its last round, read off the mean curve"
            words += f" between rounds; {_NEVER} where it is never reached."
    return words


def _ranking_row(summary: SuiteSummary, method: MethodSummary, asks: bool) -> tuple[str, ...]:
    row = [shown_name(method), _count(method), _percent(method.before)]
    if asks:
        gap = "" if method.gap_closed is None else f"{100 * method.gap_closed:.0f} %".replace("-", _MINUS)
        row += [_percent(method.after) if method.asks else "", gap, _percent(method.area)]
    row += [_difference(method.difference), _verdict(summary, method, asks)]
    if asks and summary.reference:
        reached = "" if not (method.asks and method.n) else _NEVER
        row.append(reached if method.answers_to_reach is None else f"{method.answers_to_reach:.0f}")
    return tuple(row)


def _difference(difference: Difference | None) -> str:
    if difference is None:
        return ""
    found = difference.interval
    if found.low is None or found.high is None:
        return _signed(found.mean, 2)
    return f"{_signed(found.mean, 2)} [{_signed(found.low, 2)}, {_signed(found.high, 2)}]"


def _verdict(summary: SuiteSummary, method: MethodSummary, asks: bool) -> str:
    if method.name == summary.baseline:
        return "baseline"
    if method.difference is None:
        return "no common replicate" if method.n else "no result"
    words = method.difference.verdict
    if words in ("higher", "lower") and method.optimistic:
        words += " (optimistic)"
    return f"{words} ({method.difference.quantity})" if asks and method.difference.comparable else words


def answers_table(data: DataSummary) -> Table:
    """Return what the answers brought to every method, and what else is known of its model."""
    columns = ("method", "answers", "positives found", "TP bags", "bag AUROC", "AP within bags", "ECE", "seconds")
    rows = [
        (
            shown_name(method),
            f"{method.answers[-1]:.0f}" if len(method.answers) else "",
            _plain(method.positives, 1) if method.asks else "",
            percent(method.found[:, -1].tolist()) if method.asks and method.n else "",
            _percent(method.bag_auroc),
            _percent(method.bag_ap),
            _percent(method.ece),
            _seconds(method.seconds),
        )
        for method in data.methods
    ]
    caption = (
        "After the last round. TP bags: share of positive training bags with a found positive, %. AP within bags: mean "
        "over positive test bags, %. ECE: calibration error of instance scores, %. Seconds: training, scoring and "
        "selecting of all rounds; what several methods share is counted in each."
    )
    return Table(caption, columns, tuple(rows))


def rounds_table(methods: Sequence[MethodSummary]) -> Table:
    """Return instance AP at every round, of methods that ask."""
    length = max(len(method.answers) for method in methods)
    rows = []
    for method in methods:
        cells = [percent(column.tolist()) for column in method.quality.T]
        spent = [f"{cell} ({answers:.0f})" for cell, answers in zip(cells, method.answers, strict=True)]
        rows.append((shown_name(method), *spent, *[""] * (length - len(spent))))
    columns = ("method", *(f"round {number}" for number in range(length)))
    return Table("Instance AP, %, at every round; in brackets the answers so far.", columns, tuple(rows))


def _count(method: MethodSummary) -> str:
    return str(method.n) if method.n == method.planned else f"{method.n} of {method.planned}"


def _percent(mean: Mean | None) -> str:
    return "" if mean is None else _plain(Mean(100 * mean.mean, _times(100, mean.deviation), mean.n), 1)


def _plain(mean: Mean | None, digits: int) -> str:
    if mean is None:
        return ""
    deviation = "" if mean.deviation is None else f" ± {mean.deviation:.{digits}f}"
    return f"{mean.mean:.{digits}f}{deviation}"


def _seconds(mean: Mean | None) -> str:
    return _plain(mean, 1 if mean is not None and mean.mean < 10 else 0)


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def _signed(value: float, digits: int) -> str:
    """Return 100 times the value with its sign; none where it rounds to 0."""
    text = f"{100 * value:+.{digits}f}"
    return text[1:] if not float(text) else text.replace("-", _MINUS)
