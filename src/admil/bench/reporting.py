"""The report of a benchmark: summaries turned into what the pages show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from admil.bench.lookup import ResultIndex
from admil.bench.plans import Suite
from admil.bench.result_tables import answers_table, overview_table, percent, ranking_table, rounds_table, shown_name
from admil.bench.summary import Absent, DataSummary, HardBags, MethodSummary, SuiteSummary, summarise
from admil.bench.sweeps import Sweep, SweptSeries, sweeps
from admil.report import BagPicture, Curve
from admil.report.compared import write_comparison
from admil.report.comparison import Chapter, Comparison, Drawing, Lines, Panel, Planes, Section, Series, Sweeps, Table

__all__ = ["comparison_of", "write_bench_report"]

_TITLE = "Benchmark: bags with few answers"
_AP = "instance AP on test bags, %"
_HOW_TO_READ = (
    "Numbers are percent where nothing else is said, and mean ± standard deviation over replicates: seeds, each with "
    "its own bags, batches and networks; for 20 Newsgroups topics, the seeds of a topic averaged first. Where there "
    "is one replicate there is no deviation.",
    "A difference is paired: the same replicates, method less baseline, with the 95 % interval of Student's t. Only "
    "where it excludes 0 is a method called higher or lower. The intervals are not widened for the number of "
    "comparisons: of twenty methods that are all alike one is expected to seem different.",
    "“Optimistic” marks protocol “paper”: settings and checkpoints were chosen on the test bags, as the authors did. "
    "Such a method is never called higher or lower than one that kept to the honest protocol. All other methods chose "
    "by held-out training bags and answers.",
    "The ceiling saw the label of every training instance. It is a reference, not a bound: where it does not lie above "
    "what a method knows before any answer, “gap closed” is left empty.",
)

Results = Iterable[Mapping[str, Any]]


def write_bench_report(suites: Mapping[str, Suite], results: Results, out: Path) -> Path:
    """Write report.md, report.html and figures/ into a folder; return the page's path.

    Args:
        suites: by name, such as `read_suites` returns; those without methods are left out.
        results: such as the values of `ResultFile.read`; what belongs to no suite does no harm.
        out: the folder; made where it is missing.
    """
    return write_comparison(comparison_of(suites, results), out)


def comparison_of(suites: Mapping[str, Suite], results: Results) -> Comparison:
    """Return everything that the report shows."""
    index = ResultIndex(results)
    found = [summarise(name, suite, index) for name, suite in suites.items() if suite.methods]
    return Comparison(_TITLE, _HOW_TO_READ, tuple(_chapter(each) for each in found), tuple(_facts(index, found)))


def _chapter(summary: SuiteSummary) -> Chapter:
    sections: list[Section] = []
    if len(summary.data) > 1 or _has_published(summary):
        overview = overview_table(summary, _has_published(summary))
        notes = (overview.note,) if overview.note else ()
        sections.append(Section("All data sets", _slug(summary.name, "overview"), notes, (overview.table,)))
    sections += [_section(summary, data) for data in summary.data]
    if summary.absent:
        sections.append(_absent(summary))
    return Chapter(f"{summary.name}: {summary.suite.title}", _slug(summary.name), _state(summary), tuple(sections))


def _has_published(summary: SuiteSummary) -> bool:
    return summary.name.startswith("table2")


def _state(summary: SuiteSummary) -> tuple[str, ...]:
    failed = sum(absent.reason is not None for absent in summary.absent)
    missing = len(summary.absent) - failed
    there = summary.planned - len(summary.absent)
    words = [f"{there} of {summary.planned} trials are done"]
    words += [f"{failed} failed"] if failed else []
    words += [f"{missing} {'has' if missing == 1 else 'have'} not been run"] if missing else []
    compared = f"Differences are from {summary.baseline}"
    goal = f"; “answers to reach” means the AP of {summary.reference} after its last round" if summary.reference else ""
    return (f"{', '.join(words)}{'; they are named below' if summary.absent else ''}. {compared}{goal}.",)


def _section(summary: SuiteSummary, data: DataSummary) -> Section:
    shows = summary.suite.shows
    exhibits: list[Table | Drawing] = [ranking_table(summary, data)]
    told: list[str] = list(_notes(data))
    asking = [method for method in data.methods if method.asks and method.n]
    if asking:
        exhibits.append(answers_table(data))
    if "curves" in shows and asking:
        exhibits += [_lines(summary, data, asking, "curves"), rounds_table(asking)]
    if "sweep" in shows:
        swept = sweeps([method for method in data.methods if method.n])
        exhibits += [_swept(summary, data, swept)] if swept else []
        told += (
            [] if swept else ["No two methods with results differ in a swept setting only: there is no sweep to draw."]
        )
    if "bags" in shows and asking:
        exhibits += [_lines(summary, data, asking, "bags"), *_planes(summary, data)]
    return Section(data.label, _slug(summary.name, data.label), tuple(told), tuple(exhibits))


def _notes(data: DataSummary) -> Iterator[str]:
    if data.ceiling_fits:
        fits = ", ".join(f"{name} ({count})" for name, count in data.ceiling_fits)
        yield f"Ceiling: chosen by cross-validation on training labels among supervised fits; {fits} won."
    for method in data.methods:
        if method.ended_early:
            yield (
                f"{method.name}: {method.ended_early} of {method.n} trials had nothing left to ask before round "
                f"{method.trial.rounds}; curves show the rounds that all reached."
            )


def _lines(summary: SuiteSummary, data: DataSummary, methods: Sequence[MethodSummary], what: str) -> Drawing:
    is_quality = what == "curves"
    curves = [
        Curve(shown_name(method), method.answers, 100 * (method.quality if is_quality else method.found))
        for method in methods
    ]
    ceiling = 100 * data.ceiling if is_quality else np.zeros(0)
    quality = _AP if is_quality else "positive bags with a found positive, %"
    content = Lines(tuple(curves), ceiling, quality)
    words = "Instance AP" if is_quality else "Share of positive bags with a found positive (TP bags)"
    name = _slug(summary.name, data.label, "curves" if is_quality else "tp-bags")
    return Drawing(name, content, f"{words} over answers, {data.label}; bands of one deviation over {data.replicates}.")


def _swept(summary: SuiteSummary, data: DataSummary, swept: Sequence[Sweep]) -> Drawing:
    drawn = {method.name for sweep in swept for series in sweep.series for method in series.methods}
    base = next((method for method in data.methods if method.name == summary.baseline), None)
    levels = [(base.name, 100 * base.after.mean)] if base and base.after and base.name not in drawn else []
    levels += [("ceiling", float(100 * data.ceiling.mean()))] if len(data.ceiling) else []
    panels = [Panel(sweep.setting, tuple(s for series in sweep.series for s in _series(series))) for sweep in swept]
    words = f"Instance AP over the swept setting, {data.label}; bars of one deviation over {data.replicates}."
    return Drawing(_slug(summary.name, data.label, "sweep"), Sweeps(tuple(panels), tuple(levels), _AP), words)


def _series(swept: SweptSeries) -> Iterator[Series]:
    """Yield the AP after the last round, and before any answer where the setting matters there."""
    before = {method.before.mean for method in swept.methods if method.before}
    asks = any(method.asks for method in swept.methods)
    x = np.array(swept.x)
    if asks:
        yield _one_series(f"{swept.name}, after the last round", x, [method.after for method in swept.methods])
    if not asks or len(before) > 1:
        name = f"{swept.name}, before any answer" if asks else swept.name
        yield _one_series(name, x, [method.before for method in swept.methods])


def _one_series(name: str, x: np.ndarray[Any, np.dtype[np.float64]], means: Sequence[Any]) -> Series:
    nan = float("nan")
    middle = [nan if mean is None else 100 * mean.mean for mean in means]
    spread = [nan if mean is None or mean.deviation is None else 100 * mean.deviation for mean in means]
    return Series(name, x, np.array(middle), np.array(spread))


def _planes(summary: SuiteSummary, data: DataSummary) -> Iterator[Table | Drawing]:
    """Yield the AP within the hardest bags of every method that kept them, and a picture of the first trial of each."""
    kept = [method for method in data.methods if method.hard_bags]
    if kept:
        rows = [(shown_name(method), *_hardest(method.hard_bags)) for method in kept]
        caption = (
            "The positive training bags whose best instance scored lowest before any answer: mean instance AP within "
            "the bag, before and after. The model has learned from answers in these very bags: this is no test."
        )
        columns = ("method", "trials", "bags", "AP within, before", "AP within, after", "instances asked")
        yield Table(caption, columns, tuple(rows))
    for number, method in enumerate(kept, start=1):
        first = method.hard_bags[0]
        caption = f"The hardest bags of {first.data} with {method.name}: score f and weight p, before and after."
        planes = Planes(tuple(_picture(bag) for bag in first.bags))
        yield Drawing(_slug(summary.name, data.label, f"bags-{number}", method.name), planes, caption)


def _hardest(trials: Sequence[HardBags]) -> tuple[str, ...]:
    asked = [sum(map(sum, (bag["asked"] for bag in trial.bags))) for trial in trials]
    return (
        str(len(trials)),
        str(sum(len(trial.bags) for trial in trials)),
        percent([trial.quality("before") for trial in trials]),
        percent([trial.quality("after") for trial in trials]),
        str(sum(asked)),
    )


def _picture(bag: Mapping[str, Any]) -> BagPicture:
    scores = {name: np.array(bag[name], dtype=float) for name in ("f_before", "p_before", "f_after", "p_after")}
    return BagPicture(bag["bag"], **scores, positive=np.array(bag["positive"]), asked=np.array(bag["asked"]))


def _absent(summary: SuiteSummary) -> Section:
    listed = [
        *_gathered("failed", [each for each in summary.absent if each.reason is not None]),
        *_gathered("not run", [each for each in summary.absent if each.reason is None]),
    ]
    words = ("No number above contains these trials; “n” in the tables counts those that are there.",)
    return Section("Failed and missing trials", _slug(summary.name, "absent"), words, (), tuple(listed))


def _gathered(word: str, absent: Sequence[Absent]) -> Iterator[str]:
    """Yield a line per method and reason that names the trials' data."""
    groups: dict[tuple[str, str | None], list[str]] = {}
    for each in absent:
        groups.setdefault((each.method, each.reason), []).append(each.data)
    for (method, why), data in groups.items():
        yield f"{word}: {method} on {', '.join(data)}" + (f" — {why}" if why else "")


def _facts(index: ResultIndex, found: Sequence[SuiteSummary]) -> Iterator[tuple[str, str]]:
    used = [result for result in map(index.of, (t for s in found for _, t in s.suite.trials())) if result is not None]
    unique = {str(result["key"]): result for result in used}
    versions = {f"{name} {version}" for each in unique.values() for name, version in each["versions"].items()}
    yield "trials", f"{len(unique)} results shown, of {len(index.results)} in the file"
    if index.doubled:
        yield "of several stores", f"{index.doubled} trials have results of several stores; the last is shown"
    yield (
        "time",
        f"{sum(each['seconds'] for each in unique.values()) / 3600:.2f} h of all trials shown, one after another",
    )
    yield "versions", ", ".join(sorted(versions)) or "none"
    yield "machines", "; ".join(sorted({each["machine"] for each in unique.values()})) or "none"


def _slug(*words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")
