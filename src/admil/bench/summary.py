"""What results say about a suite: means, paired differences, and what is not there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from admil.bags import FloatArray
from admil.bench.intervals import Interval, Mean, paired_interval
from admil.bench.lookup import ResultIndex
from admil.bench.plans import DataSpec, Suite, Trial
from admil.metrics import area_under_curve, average_precision

__all__ = ["CEILING", "Absent", "DataSummary", "Difference", "HardBags", "MethodSummary", "SuiteSummary", "summarise"]

CEILING = "ceiling"
"""What `Suite.trials` calls the ceiling."""
_BY_TOPIC = "20newsgroups"
_ROUNDING = 1e-12
"""A method reaches its own end point, whatever the order of a sum."""

Run = Mapping[str, Any]
Unit = tuple[str, int]
"""Part and seed: what trials of different methods are paired by."""


@dataclass(frozen=True)
class Absent:
    """A planned trial that tells nothing; ``reason`` is None where it has not been run."""

    method: str
    data: str
    reason: str | None = None


@dataclass(frozen=True)
class Difference:
    """A method less the baseline, over the replicates that both have.

    Attributes:
        quantity: ``area`` under the curve where both ask, else ``before``: instance AP before any answer.
        interval: mean and 95 % interval.
        n: replicates.
        comparable: whether both kept to the same protocol.
    """

    quantity: str
    interval: Interval
    n: int
    comparable: bool

    @property
    def verdict(self) -> str:
        """``higher`` or ``lower`` only where the interval excludes 0 and the protocols agree."""
        if not self.comparable:
            return "another protocol"
        if self.interval.low is None:
            return "one replicate"
        if not self.interval.excludes_zero:
            return "not told apart"
        return "higher" if self.interval.mean > 0 else "lower"


@dataclass(frozen=True)
class HardBags:
    """The hardest bags of one trial, as results hold them, and the AP within them."""

    data: str
    bags: tuple[Mapping[str, Any], ...]

    def quality(self, when: str) -> float:
        """Return the mean AP within the bags ``before`` any answer or ``after`` all."""
        return float(np.mean([average_precision(bag["positive"], bag[f"f_{when}"]) for bag in self.bags]))


@dataclass(frozen=True, eq=False)
class MethodSummary:
    """One method on one data set; every mean is over replicates.

    Attributes:
        name: what the suite calls it.
        trial: one of its trials, to read settings from.
        planned: how many trials the suite wants.
        n: how many of them have told something.
        answers: (R,) mean number of answers at each round that all trials reached.
        quality: (S, R) instance AP of each replicate at each of them.
        found: (S, R) share of positive bags with a known positive.
        before: instance AP before any answer.
        after: instance AP after the last round.
        area: under the AP-answers curve, in the unit of AP; None where nothing is asked.
        gap_closed: share of the way from AP before any answer to the ceiling; None where the ceiling does not lie
            above it, or nothing is asked.
        answers_to_reach: the reference's AP after its last round, on the mean curve, straight between rounds; None
            where it is never reached, or the suite has no reference.
        difference: from the baseline; None for the baseline itself, and where they share no replicate.
        positives: positives found.
        bag_auroc: of test bags after the last round.
        bag_ap: instance AP within positive test bags after the last round.
        ece: calibration error after the last round.
        seconds: training, scoring and selecting, a shared first model counted in full.
        ended_early: trials that had nothing left to ask before the last round.
        hard_bags: kept for drawing.
    """

    name: str
    trial: Trial
    planned: int
    n: int
    answers: FloatArray
    quality: FloatArray
    found: FloatArray
    before: Mean | None
    after: Mean | None
    area: Mean | None
    gap_closed: float | None
    answers_to_reach: float | None
    difference: Difference | None
    positives: Mean | None
    bag_auroc: Mean | None
    bag_ap: Mean | None
    ece: Mean | None
    seconds: Mean | None
    ended_early: int
    hard_bags: tuple[HardBags, ...]

    @property
    def asks(self) -> bool:
        """Whether it asks questions."""
        return self.trial.rounds > 0

    @property
    def optimistic(self) -> bool:
        """Whether the test truth chose its settings and checkpoints."""
        return self.trial.protocol == "paper"


@dataclass(frozen=True, eq=False)
class DataSummary:
    """All methods on one data set.

    Attributes:
        name: of the data set.
        label: what to call it: the name, and the part where that is fixed.
        replicates: what means are over: ``topics`` (seeds of one topic averaged) or ``seeds``.
        methods: in the suite's order.
        ceiling: (S,) instance AP of each replicate.
        ceiling_fits: the fits that won, and how often.
        absent: planned trials that tell nothing.
        planned: number of trials.
    """

    name: str
    label: str
    replicates: str
    methods: tuple[MethodSummary, ...]
    ceiling: FloatArray
    ceiling_fits: tuple[tuple[str, int], ...]
    absent: tuple[Absent, ...]
    planned: int


@dataclass(frozen=True, eq=False)
class SuiteSummary:
    """A suite; ``reference`` is the method whose end point the others are to reach."""

    name: str
    suite: Suite
    baseline: str
    reference: str | None
    data: tuple[DataSummary, ...]

    @property
    def absent(self) -> tuple[Absent, ...]:
        """Planned trials that tell nothing, of all data sets."""
        return tuple(absent for data in self.data for absent in data.absent)

    @property
    def planned(self) -> int:
        """The number of trials."""
        return sum(data.planned for data in self.data)


def summarise(name: str, suite: Suite, results: ResultIndex, reference: str | None = None) -> SuiteSummary:
    """Summarise what results say about a suite.

    Args:
        name: of the suite.
        suite: what was planned.
        results: what came of it, of other suites as well.
        reference: the method whose end point is to be reached; None for the baseline where it asks by P-F, else the
            first that does.
    """
    plans: dict[tuple[str, str], dict[str, list[Trial]]] = {}
    for method, trial in suite.trials():
        plans.setdefault(_group(trial.data), {}).setdefault(method, []).append(trial)
    first = next((method for plan in plans.values() for method in plan if method != CEILING), CEILING)
    baseline = suite.baseline or first
    reference = reference or _reference(baseline, plans.values())
    data = [_data(*group, plan, results, baseline, reference) for group, plan in plans.items()]
    return SuiteSummary(name, suite, baseline, reference, tuple(data))


def _group(data: DataSpec) -> tuple[str, str]:
    return data.name, data.name if data.name == _BY_TOPIC else f"{data.name} {data.part}".strip()


def _reference(baseline: str, plans: Iterable[Mapping[str, Sequence[Trial]]]) -> str | None:
    asking = [
        method
        for plan in plans
        for method, trials in plan.items()
        if trials[0].rounds and trials[0].recipe.sampler.kind == "pf" and trials[0].protocol == "honest"
    ]
    return baseline if baseline in asking else next(iter(asking), None)


@dataclass(frozen=True, eq=False)
class _Runs:
    """The trials of a method that tell something, by unit."""

    name: str
    trials: Sequence[Trial]
    runs: Mapping[Unit, Run]
    absent: tuple[Absent, ...]
    by_topic: bool

    @classmethod
    def of(cls, name: str, trials: Sequence[Trial], results: ResultIndex) -> _Runs:
        runs, absent = {}, []
        for trial in trials:
            run = results.of(trial)
            if run is None or (reason := _useless(run)):
                absent.append(Absent(name, trial.data.folder, None if run is None else reason))
            else:
                runs[_unit(trial)] = run
        return cls(name, trials, runs, tuple(absent), trials[0].data.name == _BY_TOPIC)

    def last(self, field: str) -> dict[Unit, float]:
        """Return a field of every trial's last round; nan where it is not defined."""
        return {unit: _number(run["rounds"][-1][field]) for unit, run in self.runs.items()}

    def before(self) -> dict[Unit, float]:
        """Return the AP before any answer."""
        return {unit: run["rounds"][0]["ap"] for unit, run in self.runs.items()}

    def areas(self) -> dict[Unit, float]:
        """Return the area under each trial's curve."""
        return {unit: _area(run) for unit, run in self.runs.items()}

    def curves(self, field: str, units: Iterable[Unit]) -> FloatArray:
        """Return (S, R): a field of each replicate at each round that all trials reached."""
        length = min((len(run["rounds"]) for run in self.runs.values()), default=0)
        rows = {unit: [_number(each[field]) for each in self.runs[unit]["rounds"][:length]] for unit in units}
        columns = [_replicates({unit: row[at] for unit, row in rows.items()}, self.by_topic) for at in range(length)]
        return np.array(columns).T if length else np.zeros((0, 0))

    def mean(self, values: Mapping[Unit, float]) -> Mean | None:
        """Return the mean over replicates."""
        return Mean.of(_replicates(values, self.by_topic))


def _data(
    name: str,
    label: str,
    plan: Mapping[str, Sequence[Trial]],
    results: ResultIndex,
    baseline: str,
    reference: str | None,
) -> DataSummary:
    runs = {method: _Runs.of(method, trials, results) for method, trials in plan.items()}
    top = runs.pop(CEILING, None)
    ceiling = {} if top is None else {unit: run["ceiling"]["ap"] for unit, run in top.runs.items()}
    fits = [] if top is None else [run["ceiling"]["name"] for run in top.runs.values()]
    every = [*runs.values(), *([] if top is None else [top])]
    against, goal = runs.get(baseline), runs.get(reference or "")
    return DataSummary(
        name=name,
        label=label,
        replicates="topics" if name == _BY_TOPIC else "seeds",
        methods=tuple(_method(each, results, ceiling, against, goal) for each in runs.values()),
        ceiling=_replicates(ceiling, name == _BY_TOPIC),
        ceiling_fits=tuple((fit, fits.count(fit)) for fit in sorted(set(fits))),
        absent=tuple(absent for each in every for absent in each.absent),
        planned=sum(len(each.trials) for each in every),
    )


def _method(
    runs: _Runs, results: ResultIndex, ceiling: Mapping[Unit, float], against: _Runs | None, goal: _Runs | None
) -> MethodSummary:
    trial = runs.trials[0]
    answers = runs.curves("answers", runs.runs)
    pictured = [
        HardBags(one.data.folder, tuple(runs.runs[_unit(one)]["bags"]))
        for one in runs.trials
        if _unit(one) in runs.runs and runs.runs[_unit(one)].get("bags")
    ]
    seconds = {_unit(one): results.seconds(one) for one in runs.trials if _unit(one) in runs.runs}
    return MethodSummary(
        name=runs.name,
        trial=trial,
        planned=len(runs.trials),
        n=len(runs.runs),
        answers=answers.mean(0) if len(answers) else np.zeros(0),
        quality=runs.curves("ap", runs.runs),
        found=runs.curves("bags_found", runs.runs),
        before=runs.mean(runs.before()),
        after=runs.mean(runs.last("ap")),
        area=runs.mean(runs.areas()) if trial.rounds else None,
        gap_closed=_gap_closed(runs, ceiling) if trial.rounds else None,
        answers_to_reach=None if goal is None or not trial.rounds else _answers_to_reach(runs, goal),
        difference=None if against is None or against is runs else _difference(runs, against),
        positives=runs.mean(runs.last("positives")),
        bag_auroc=runs.mean(runs.last("bag_auroc")),
        bag_ap=runs.mean(runs.last("bag_ap")),
        ece=runs.mean(runs.last("ece")),
        seconds=runs.mean(seconds),
        ended_early=sum(len(run["rounds"]) <= trial.rounds for run in runs.runs.values()),
        hard_bags=tuple(pictured),
    )


def _gap_closed(runs: _Runs, ceiling: Mapping[Unit, float]) -> float | None:
    units = [unit for unit in runs.runs if unit in ceiling]
    if not units:
        return None
    before, after, top = (
        float(_replicates({unit: values[unit] for unit in units}, runs.by_topic).mean())
        for values in (runs.before(), runs.last("ap"), ceiling)
    )
    return (after - before) / (top - before) if top > before else None


def _answers_to_reach(runs: _Runs, goal: _Runs) -> float | None:
    units = [unit for unit in runs.runs if unit in goal.runs]
    if not units:
        return None
    ends = goal.last("ap")
    target = float(_replicates({unit: ends[unit] for unit in units}, runs.by_topic).mean())
    answers, quality = runs.curves("answers", units).mean(0), runs.curves("ap", units).mean(0)
    return _crossing(answers, quality, target)


def _crossing(answers: FloatArray, quality: FloatArray, target: float) -> float | None:
    """Return where a curve first reaches a height, straight between its points; None where it never does."""
    target -= _ROUNDING
    if quality[0] >= target:
        return float(answers[0])
    for (x, y), (next_x, next_y) in pairwise(zip(answers, quality, strict=True)):
        if next_y >= target:
            return float(x + (next_x - x) * (target - y) / (next_y - y))
    return None


def _difference(runs: _Runs, against: _Runs) -> Difference | None:
    units = [unit for unit in runs.runs if unit in against.runs]
    if not units:
        return None
    one, other = runs.trials[0], against.trials[0]
    both_ask = one.rounds > 0 and other.rounds > 0
    own, theirs = (runs.areas(), against.areas()) if both_ask else (runs.before(), against.before())
    pairs = _replicates({unit: own[unit] - theirs[unit] for unit in units}, runs.by_topic)
    quantity = "area" if both_ask else "before"
    return Difference(quantity, paired_interval(pairs), len(pairs), one.protocol == other.protocol)


def _replicates(values: Mapping[Unit, float], by_topic: bool) -> FloatArray:
    """Return a value per replicate: seeds of a topic are averaged, for they are not independent of each other."""
    groups: dict[str | int, list[float]] = {}
    for (part, seed), value in values.items():
        groups.setdefault(part if by_topic else seed, []).append(value)
    return np.array([np.mean(group) for group in groups.values()], dtype=np.float64)


def _area(run: Run) -> float:
    """Return the area under a trial's curve; of rounds with as many answers the last counts."""
    points = {each["answers"]: each["ap"] for each in run["rounds"]}
    return area_under_curve(list(points), list(points.values()))


def _useless(run: Run) -> str | None:
    """Return why a result tells nothing, or None."""
    if run["status"] != "done":
        return str(run.get("reason", run["status"]))
    values = [run["ceiling"]["ap"]] if "ceiling" in run else [each["ap"] for each in run["rounds"]]
    bad = any(value is None or value != value for value in values)
    return "its AP is not defined: no test instance is positive" if bad else None


def _unit(trial: Trial) -> Unit:
    return trial.data.part, trial.data.seed


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
