"""The commands that show the method on the digits, and the speed of a step."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table

from admil.api import ActiveLearner
from admil.bags import InstanceId
from admil.bench import (
    METHODS,
    Demo,
    DemoResult,
    RoundResult,
    SpeedRow,
    as_json,
    as_report,
    measure_speed,
    measure_stores,
    rows_of,
    run_demo,
)
from admil.cli.program import program
from admil.cli.progress import progress_bars
from admil.cli.wording import counted
from admil.datasets import DigitBags, digits
from admil.learner import Recipe
from admil.metrics import average_precision
from admil.report import write_report
from admil.training import Progress as TrainingProgress
from admil.training import TrainingRecipe

__all__ = ["ask", "demo", "speed"]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for report.html and the PNGs.")] = Path("admil-demo"),
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Seeds: each has its own bags and networks.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of questions.")] = 5,
    budget: Annotated[int, typer.Option(min=1, help="Questions a round.")] = 20,
) -> None:
    """Compare four samplers on bags of digit pictures and write a report to look at."""
    console = Console()
    _use_one_thread()
    plan = Demo(tuple(range(seeds)), rounds, budget, Recipe(training=_training()))
    _check_folder(out)
    console.print(
        f"Bags of handwritten digits, labelled only [b]has an 8[/b] or [b]has none[/b]. "
        f"{len(METHODS)} samplers ask {rounds} x {budget} questions on {counted(seeds, 'seed')}."
    )
    result = _run_with_progress(plan, console)
    (out / "results.json").write_text(json.dumps(as_json(result), indent=1), encoding="utf-8")
    page = write_report(as_report(result, f"{program()} ask"), out)
    console.print(_rounds_table(result))
    console.print(_ceiling_line(result))
    console.print(f"Report: [b]{page}[/b]  (beside it: curves.png, p-f.png, results.json)")
    console.print(f"Next, answer the questions yourself: [b]{program()} ask[/b]")


def ask(
    seed: Annotated[int, typer.Option(min=0, help="Which bags and networks.")] = 0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of questions.")] = 2,
    budget: Annotated[int, typer.Option(min=1, help="Questions a round.")] = 10,
) -> None:
    """Answer the questions yourself: is this digit an 8?  Then see how much your answers helped."""
    console = Console()
    _use_one_thread()
    train, test = digits(seed)
    learner = ActiveLearner(train.bags, Recipe(training=_training(), budget=budget), seed)
    console.print("Every picture comes from a bag that has an 8 somewhere. [b]y[/b] it is an 8 · [b]n[/b] it is not")
    console.print("[b]s[/b] skip · [b]u[/b] take the last answer back · [b]q[/b] stop asking")
    quality = [_quality(learner, test)]
    for _ in range(rounds):
        if not _ask_round(console, learner, train):
            break
        quality.append(_quality(learner, test))
        console.print(f"Instance AP on {len(test.bags)} other bags: " + " → ".join(f"{q:.1f}" for q in quality))


def speed(
    repeats: Annotated[int, typer.Option(min=1, max=10_000, help="Timed steps a side; the median counts.")] = 15,
    threads: Annotated[int, typer.Option(min=0, max=1024, help="Threads of torch; 0 leaves its default.")] = 0,
) -> None:
    """Time training steps and reads from a store against plain ones, as ratios within this run."""
    if threads:
        torch.set_num_threads(threads)
    console = Console()
    threads = torch.get_num_threads()
    console.print(_speed_table(f"One step on 60 + 60 bags of 32 x 4,096, {threads} threads", measure_speed(repeats)))
    console.print(_speed_table(f"Bags on disk, warm, {threads} threads", measure_stores(repeats)))


def _check_folder(out: Path) -> None:
    """Make the folder before minutes of work, not after."""
    out.mkdir(parents=True, exist_ok=True)


def _training() -> TrainingRecipe:
    """Return the default training, or with ADMIL_SMOKE=1 one so short that it only shows that all runs."""
    if os.environ.get("ADMIL_SMOKE") == "1":
        return TrainingRecipe(members=2, held_out_folds=2, max_steps=20)
    return TrainingRecipe()


def _use_one_thread() -> None:
    """Compute on one core: networks this small only wait for each other on several."""
    torch.set_num_threads(1)


def _quality(learner: ActiveLearner, test: DigitBags) -> float:
    with Console(stderr=True).status("training"):
        return 100 * average_precision(test.truth.positive, learner.score(test.bags).f)


def _ask_round(console: Console, learner: ActiveLearner, train: DigitBags) -> bool:
    """Ask one round's questions; False once the person stops."""
    given: list[InstanceId] = []
    values = {"y": True, "n": False, "s": None}
    round_ = learner.query()
    while items := [item for item in round_ if not learner.labels.knows(item.id)]:
        item = items[0]
        console.print()
        console.print(_drawn(train.bags[item.id.bag][item.id.index].reshape(8, 8).tolist()))
        place = f"{len(round_) - len(items) + 1} of {len(round_)}"
        try:
            key = console.input(f"{place} · {item.id} · {item.reason} · f {item.f:.2f} · an 8? ").strip().lower()
        except EOFError:
            return False
        if key == "q":
            return False
        if key == "u" and given:
            learner.undo(given.pop())
        elif key in values:
            learner.answer({item.id: values[key]})
            given.append(item.id)
        else:
            console.print("y, n, s, u or q")
    return True


def _drawn(picture: list[list[float]]) -> str:
    """Draw a picture with values 0 to 1 in shades of block characters, two to a pixel."""
    shades = " ░▒▓█"
    return "\n".join("  " + "".join(2 * shades[min(4, int(5 * value))] for value in row) for row in picture)


def _run_with_progress(plan: Demo, console: Console) -> DemoResult:
    with progress_bars(console) as progress:
        total = len(plan.seeds) * len(METHODS) * (plan.rounds + 1)
        rounds = progress.add_task("ceiling", total=total)
        training = progress.add_task("  training", total=None)

        def on_round(method: str, seed: int, result: RoundResult) -> None:
            quality = 100 * result.average_precision
            progress.update(rounds, advance=1, description=f"{method}, seed {seed}: AP {quality:.1f}")

        def on_step(method: str, seed: int, step: TrainingProgress) -> None:
            progress.update(training, completed=step.step, total=step.max_steps, description="  training steps")

        return run_demo(plan, on_round=on_round, on_step=on_step)


def _rounds_table(result: DemoResult) -> Table:
    title = "Means over seeds. AP: of test instances, in %, ± sd. Gap: how much of the way from passive to the ceiling."
    table = Table(title=title, title_justify="left")
    for name in ("method", "round", "answers", "positives", "TP bags", "AP", "gap"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for method, trials in result.trials.items():
        for row in rows_of(method, trials, result.ceilings):
            table.add_row(
                method if row.round == 0 else "",
                "passive" if row.round == 0 else str(row.round),
                f"{row.answers:.0f}",
                f"{row.positives:.1f}",
                f"{100 * row.positive_bag_share:.0f} %",
                f"{100 * row.average_precision:.1f}" + _spread(row.deviation),
                "" if row.gap_closed is None else f"{100 * row.gap_closed:.0f} %",
            )
        table.add_section()
    return table


def _speed_table(title: str, rows: Sequence[SpeedRow]) -> Table:
    table = Table(title=f"{title}: medians", title_justify="left")
    for name in ("what", "against", "ms", "against ms", "ratio"):
        table.add_column(name, justify="left" if name in ("what", "against") else "right")
    for row in rows:
        times = (f"{1e3 * seconds:.3g}" for seconds in (row.seconds, row.against_seconds))
        table.add_row(row.what, row.against, *times, f"{row.ratio:.2f}")
    return table


def _spread(deviation: float | None) -> str:
    return "" if deviation is None else f" ± {100 * deviation:.1f}"


def _ceiling_line(result: DemoResult) -> str:
    values = [c.average_precision for c in result.ceilings]
    mean = 100 * sum(values) / len(values)
    spread = ", ".join(f"{100 * value:.1f}" for value in values)
    return f"Ceiling (every training instance labelled): [b]{mean:.1f}[/b]  (seeds: {spread})"
