"""The demonstration: four samplers on bags of digit pictures, a few minutes on two cores."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import sklearn
import torch
from sklearn.datasets import load_digits

from admil.bags import FloatArray
from admil.bench.ceiling import Ceiling, ceiling
from admil.bench.intervals import deviation, paired_interval
from admil.bench.trial import RoundResult, Task, TrialResult, run_trial
from admil.datasets import DigitBags, digits
from admil.learner import Recipe, Trainer
from admil.metrics import area_under_curve
from admil.report import Asked, BagPicture, Curve, Report, RoundRow
from admil.sampling import PF, BagPosterior, FEntropy, RandomSampler, Sampler
from admil.training import Progress, TrainedModel

__all__ = ["METHODS", "Demo", "DemoResult", "as_json", "as_report", "run_demo"]

METHODS: dict[str, Sampler] = {
    "bag posterior": BagPosterior(),
    "P-F": PF(),
    "F-entropy": FEntropy(),
    "random": RandomSampler(),
}

_HARDEST = 3


@dataclass(frozen=True)
class Demo:
    """What to run.

    Attributes:
        seeds: one split, one simulated annotator and one set of networks each.
        rounds: rounds of questions.
        budget: questions a round.
        recipe: how to train; its sampler is replaced by each method's.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    rounds: int = 5
    budget: int = 20
    recipe: Recipe = field(default_factory=Recipe)


@dataclass(frozen=True, eq=False)
class DemoResult:
    """All trials, by method and then seed, and the ceiling per seed."""

    demo: Demo
    splits: tuple[tuple[DigitBags, DigitBags], ...]
    trials: dict[str, tuple[TrialResult, ...]]
    ceilings: tuple[Ceiling, ...]
    seconds: float


def run_demo(
    demo: Demo,
    on_round: Callable[[str, int, RoundResult], None] | None = None,
    on_step: Callable[[str, int, Progress], None] | None = None,
    on_ceiling: Callable[[int, Ceiling], None] | None = None,
) -> DemoResult:
    """Run every method on every seed, and the ceilings; report progress as it comes."""
    started = time.perf_counter()
    splits = tuple(digits(seed) for seed in demo.seeds)
    tasks = [Task(train.bags, train.truth, test.bags, test.truth) for train, test in splits]
    ceilings = []
    for seed, task in zip(demo.seeds, tasks, strict=True):
        ceilings.append(ceiling(task, demo.recipe.training, seed))
        if on_ceiling is not None:
            on_ceiling(seed, ceilings[-1])
    trials: dict[str, list[TrialResult]] = {method: [] for method in METHODS}
    for seed, task in zip(demo.seeds, tasks, strict=True):
        passive: TrainedModel | None = None  # all samplers start from the same model
        for method, sampler in METHODS.items():
            recipe = demo.recipe.model_copy(update={"sampler": sampler, "budget": demo.budget})
            told_round = _bound(on_round, method, seed)
            trainer = Trainer(on_step=_bound(on_step, method, seed))
            trial = run_trial(task, method, recipe, seed, demo.rounds, told_round, trainer, passive)
            passive = trial.rounds[0].model
            trials[method].append(trial)
    seconds = time.perf_counter() - started
    return DemoResult(demo, splits, {m: tuple(t) for m, t in trials.items()}, tuple(ceilings), seconds)


def as_report(result: DemoResult, next_command: str) -> Report:
    """Turn the result into what the page shows."""
    demo = result.demo
    train, test = result.splits[0]
    shown = result.trials[next(iter(METHODS))][0]
    names = ", ".join(sorted({c.name for c in result.ceilings}))
    return Report(
        title="Finding the eights: digit pictures in bags",
        protocol=(
            f"Each training bag holds {train.bags.index.sizes.min()} to {train.bags.index.sizes.max()} handwritten "
            "digits, at most one of them an 8, and is labelled only “has an 8” or “has none”: "
            f"{len(train.bags)} bags, {train.bags.index.n_instances} pictures, of which "
            f"{int(train.truth.positive.sum())} are eights. A simulated annotator answers {demo.budget} questions "
            f"a round; the ranking is judged on {len(test.bags)} other bags, pictures pooled.",
            f"{len(demo.seeds)} seeds, each with its own bags and networks; all methods share the training and "
            "differ in whom they ask. Neither training nor selection sees a test label.",
        ),
        curves=tuple(_curve(method, trials) for method, trials in result.trials.items()),
        ceiling=np.array([c.average_precision for c in result.ceilings]),
        ceiling_note=(
            f"Ceiling: the best supervised fit to every training picture's label, chosen by cross-validation "
            f"on training bags ({names}). It is a reference, not a bound."
        ),
        rows=tuple(row for method, trials in result.trials.items() for row in rows_of(method, trials, result.ceilings)),
        bags=_hardest_bags(shown, train),
        asked=_gallery(shown, train),
        facts=(
            ("seeds", ", ".join(map(str, demo.seeds))),
            ("network", f"{demo.recipe.training.members} members, {demo.recipe.training.robustness!r}"),
            ("answers enter as", demo.recipe.training.answers),
            ("time", f"{result.seconds:.0f} s"),
            (
                "versions",
                f"torch {torch.__version__}, scikit-learn {sklearn.__version__}, Python {platform.python_version()}",
            ),
            ("gallery and bags", f"{shown.method}, seed {shown.seed}"),
        ),
        next_command=next_command,
    )


def as_json(result: DemoResult) -> dict[str, Any]:
    """Return the figures of a demo as plain values: what results.json holds."""
    areas = {method: np.array([_area(trial) for trial in trials]) for method, trials in result.trials.items()}
    first, *others = areas
    return {
        "seeds": list(result.demo.seeds),
        "budget": result.demo.budget,
        "recipe": result.demo.recipe.model_dump(mode="json", exclude={"sampler", "budget"}),
        "versions": {"torch": torch.__version__, "scikit-learn": sklearn.__version__},
        "seconds": round(result.seconds),
        "ceiling": {
            **_mean_sd("", np.array([c.average_precision for c in result.ceilings])),
            "seeds": [c.average_precision for c in result.ceilings],
            "names": [c.name for c in result.ceilings],
        },
        "methods": [
            {
                "name": method,
                "rounds": [
                    {
                        "answers": row.answers,
                        "positives": row.positives,
                        "positive_bag_share": row.positive_bag_share,
                        "ap_mean": row.average_precision,
                        "ap_sd": row.deviation,
                        "gap_closed": row.gap_closed,
                        "ap_seeds": [trial.rounds[row.round].average_precision for trial in trials],
                    }
                    for row in rows_of(method, trials, result.ceilings)
                ],
                **_mean_sd("area_", areas[method]),
                "area_seeds": areas[method].tolist(),
            }
            for method, trials in result.trials.items()
        ],
        "differences": [
            {"method": first, "against": other, **asdict(paired_interval(areas[first] - areas[other]))}
            for other in others
        ],
    }


def rows_of(method: str, trials: Sequence[TrialResult], ceilings: Sequence[Ceiling]) -> list[RoundRow]:
    """Return the table's lines of one method, means over its trials."""
    rows = []
    passive = float(np.mean([trial.rounds[0].average_precision for trial in trials]))
    gap = float(np.mean([ceiling.average_precision for ceiling in ceilings])) - passive
    for number, results in enumerate(zip(*(trial.rounds for trial in trials), strict=False)):
        quality = np.array([r.average_precision for r in results])
        rows.append(
            RoundRow(
                method=method,
                round=number,
                answers=float(np.mean([r.answers for r in results])),
                positives=float(np.mean([r.positives for r in results])),
                positive_bag_share=float(np.mean([r.positive_bag_share for r in results])),
                average_precision=float(quality.mean()),
                deviation=deviation(quality),
                gap_closed=(float(quality.mean()) - passive) / gap if gap > 0 else None,
            )
        )
    return rows


def _curve(method: str, trials: Sequence[TrialResult]) -> Curve:
    length = min(len(trial.rounds) for trial in trials)
    answers = np.mean([[r.answers for r in trial.rounds[:length]] for trial in trials], axis=0)
    return Curve(method, answers, np.array([[r.average_precision for r in t.rounds[:length]] for t in trials]))


def _area(trial: TrialResult) -> float:
    return area_under_curve([r.answers for r in trial.rounds], [r.average_precision for r in trial.rounds])


def _mean_sd(prefix: str, values: FloatArray) -> dict[str, float | None]:
    return {f"{prefix}mean": float(values.mean()), f"{prefix}sd": deviation(values)}


def _hardest_bags(trial: TrialResult, train: DigitBags) -> tuple[BagPicture, ...]:
    before, after = trial.rounds[0].scores, trial.rounds[-1].scores
    index = train.bags.index
    asked = {item.id for result in trial.rounds for item in result.query}
    best = {number: before.of(index.ids[number]).max() for number in index.positive}
    pictures = []
    for number in sorted(best, key=lambda bag: (best[bag], bag))[:_HARDEST]:
        here = slice(index.offsets[number], index.offsets[number + 1])
        pictures.append(
            BagPicture(
                bag=index.ids[number],
                f_before=before.f[here],
                p_before=before.p[here],
                f_after=after.f[here],
                p_after=after.p[here],
                positive=train.truth.positive[here],
                asked=np.array([index.instance(i) in asked for i in range(here.start, here.stop)]),
            )
        )
    return tuple(pictures)


def _gallery(trial: TrialResult, train: DigitBags) -> tuple[Asked, ...]:
    pixels = load_digits().images / 16
    shown: list[Asked] = []
    for number, result in enumerate(trial.rounds):
        for item, answer in zip(result.query, result.given, strict=True):
            picture = train.pictures[train.bags.index.position(item.id)]
            shown.append(
                Asked(
                    number=len(shown) + 1,
                    round=number + 1,
                    instance=str(item.id),
                    reason=item.reason,
                    f=item.f,
                    p=item.p,
                    rank=item.rank,
                    bag_score=item.bag_score,
                    answer=answer,
                    picture=pixels[picture],
                )
            )
    return tuple(shown)


def _bound(told: Callable[..., None] | None, method: str, seed: int) -> Callable[..., None] | None:
    if told is None:
        return None
    return lambda what: told(method, seed, what)
