"""`admil bench`: comparisons of learners and samplers, run, watched, reported."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from admil.bench import (
    PUBLISHED,
    Accuracy,
    DataName,
    DataSpec,
    Job,
    Library,
    ResultFile,
    Runner,
    Suite,
    classic_bags,
    cross_validated,
    learner,
    read_suites,
    suite_names,
    write_bench_report,
)
from admil.cli.program import program, quoted
from admil.cli.progress import progress_bars
from admil.cli.wording import counted
from admil.errors import InvalidInput

__all__ = ["bench_app"]

bench_app = typer.Typer(
    help="Compare learners and samplers as the paper does, and beyond.  A run that was stopped goes on.",
    no_args_is_help=True,
)

SuiteArgument = Annotated[str, typer.Argument(help="A suite by its name, see `admil bench suites`; or a .toml file.")]
Out = Annotated[Path, typer.Option(help="The folder of the results and of the report.")]
Data = Annotated[Path | None, typer.Option(help="The folder of the data sets' stores; else OUT/stores.")]
Only = Annotated[
    list[str] | None, typer.Option(help="Only trials with this in the method's name, the data set or the seed folder.")
]
_OUT = Path("admil-bench")
_SHOWN = 5
_CLASSIC = ("attention", "gated-attention", "mi-network", "ms-mil", "drbl")
_Name = TypeVar("_Name", bound=str)


@bench_app.command("suites")
def list_suites() -> None:
    """List the suites and what each shows."""
    table = Table(title=f"Suites for {program()} bench run NAME", title_justify="left")
    for name in ("name", "title", "data sets", "trials"):
        table.add_column(name, justify="right" if name == "trials" else "left")
    for name in suite_names():
        suites = read_suites(name)
        data = dict.fromkeys(each for suite in suites.values() for each in suite.data)
        trials = {trial.key("") for suite in suites.values() for _, trial in suite.trials()}
        title = suites[name].title if name in suites else f"all of {', '.join(suites)}"
        table.add_row(name, escape(title), ", ".join(data), f"{len(trials):,}")
    Console().print(table)


@bench_app.command("run")
def run(
    suite: SuiteArgument,
    *,
    out: Out = _OUT,
    data: Data = None,
    raw: Annotated[
        list[str] | None, typer.Option("--from", metavar="NAME=PATH", help="Raw data of a data set; else downloaded.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Trials at a time; else one a core.")] = None,
    only: Only = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run trials that failed again.")] = False,
) -> None:
    """Run the trials of a suite that have no result yet."""
    console = Console()
    library = Library(data or out / "stores", _pairs(raw or (), get_args(DataName), "--from "))
    bench = _Bench(read_suites(suite), library, ResultFile(out / "results.jsonl"))
    bench.build(console, only or ())
    runner = Runner(bench.results, jobs or os.cpu_count() or 1)
    wanted = bench.jobs(only or ())
    missing = runner.missing(wanted, retry)
    there = len(wanted) - len(missing)
    console.print(f"{counted(len(wanted), 'trial')}, {there:,} of them there already.", highlight=False)
    with progress_bars(console) as progress:
        task = progress.add_task("trials", total=len(missing))
        runner.run(missing, lambda done: progress.update(task, completed=done))
    bench.say_failed(console, wanted)
    console.print(f"Next: [b]{program()} bench report {quoted(suite)} --out {quoted(out)}[/b]", soft_wrap=True)


@bench_app.command("status")
def status(suite: SuiteArgument, *, out: Out = _OUT, data: Data = None, only: Only = None) -> None:
    """Say how far a suite is."""
    console = Console()
    bench = _Bench(read_suites(suite), Library(data or out / "stores"), ResultFile(out / "results.jsonl"))
    console.print(bench.table(only or ()))


@bench_app.command("report")
def report(
    suite: SuiteArgument,
    *,
    out: Out = _OUT,
    into: Annotated[Path | None, typer.Option(help="The folder of the report; else OUT/report.")] = None,
) -> None:
    """Write tables and figures of what has been run so far."""
    results = ResultFile(out / "results.jsonl").read()
    if not results:
        raise InvalidInput(f"there are no results in {out}; run the suite first: {program()} bench run {suite}", out)
    page = write_bench_report(read_suites(suite), list(results.values()), into or out / "report")
    Console().print(f"Report: [b]{escape(str(page))}[/b]  (beside it: report.md, figures)", soft_wrap=True)


@bench_app.command("classic")
def classic(
    raw: Annotated[
        list[str], typer.Argument(metavar="NAME=PATH...", help="musk1, musk2, elephant, fox or tiger, and its file.")
    ],
    *,
    learners: Annotated[
        list[str] | None, typer.Option("--learner", help="A learner of the benchmark; may be given again.")
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of a cross-validation.")] = 10,
    repeats: Annotated[int, typer.Option(min=1, help="Cross-validations.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Draws folds and networks.")] = 0,
) -> None:
    """Accuracy on bags of the classic sets, beside the published one of attention MIL."""
    console = Console()
    torch.set_num_threads(1)
    files = _pairs(raw, tuple(PUBLISHED), "")
    recipes = {name: learner(name) for name in learners or _CLASSIC}
    table = Table(title=f"Accuracy on bags, {folds} folds, {counted(repeats, 'time')}", title_justify="left")
    for column in ("set", "bags", *recipes, "attention MIL, 2018"):
        table.add_column(column, justify="left" if column == "set" else "right")
    with progress_bars(console) as progress:
        task = progress.add_task("cross-validating", total=len(files) * len(recipes) * folds * repeats)
        for name, path in files.items():
            bags = classic_bags(name, path)
            found = [
                cross_validated(bags, recipe, folds, repeats, seed, lambda: progress.advance(task))
                for recipe in recipes.values()
            ]
            table.add_row(name, str(len(bags)), *map(_accuracy, found), f"{PUBLISHED[name]:.3f}")
    console.print(table)


def _accuracy(found: Accuracy) -> str:
    mean = found.over_repeats
    return f"{mean.mean:.3f}" + ("" if mean.deviation is None else f" ± {mean.deviation:.3f}")


@dataclass(frozen=True)
class _Bench:
    """Suites, the stores of their data, and their results."""

    suites: Mapping[str, Suite]
    library: Library
    results: ResultFile

    def specs(self, only: Sequence[str]) -> list[DataSpec]:
        """Return the data sets that trials need, each once."""
        return list(dict.fromkeys(trial.data for suite in self.suites.values() for _, trial in suite.trials(only)))

    def build(self, console: Console, only: Sequence[str]) -> None:
        """Make the stores that are missing."""
        missing = [spec for spec in self.specs(only) if not self.library.has(spec)]
        with progress_bars(console) as progress:
            task = progress.add_task("data sets", total=len(missing))
            for spec in missing:
                progress.update(task, description=f"making {spec.folder}")
                self.library.store(spec)
                progress.advance(task)

    def jobs(self, only: Sequence[str]) -> list[Job]:
        """Return the jobs of all trials whose store is there, each once."""
        digests = {spec: self.library.store(spec).digest for spec in self.specs(only) if self.library.has(spec)}
        jobs = [
            Job.of(trial, self.library.path(trial.data), digests[trial.data])
            for suite in self.suites.values()
            for _, trial in suite.trials(only)
            if trial.data in digests
        ]
        return list({job.key: job for job in jobs}.values())

    def say_failed(self, console: Console, jobs: Iterable[Job]) -> None:
        """Name the first of the trials that failed."""
        there = self.results.read()
        failed = [there[job.key] for job in jobs if there.get(job.key, {}).get("status") == "failed"]
        for result in failed[:_SHOWN]:
            console.print(f"[yellow]failed:[/yellow] {escape(_failure(result))}", highlight=False, soft_wrap=True)
        if failed:
            console.print(f"{counted(len(failed), 'trial')} failed; --retry runs them again.", highlight=False)

    def table(self, only: Sequence[str]) -> Table:
        """Return a line per data set and suite: trials done, failed, missing, and how long these may take."""
        table = Table(title="Trials", title_justify="left")
        for name in ("suite", "data set", "done", "failed", "missing", "core-minutes left"):
            table.add_column(name, justify="left" if name in ("suite", "data set") else "right")
        there = self.results.read()
        jobs = {job.trial: job for job in self.jobs(only)}
        for name, suite in self.suites.items():
            for data in suite.data:
                trials = list(dict.fromkeys(trial for _, trial in suite.trials(only) if trial.data.name == data))
                found = [there.get(jobs[trial].key) if trial in jobs else None for trial in trials]
                count = Counter("missing" if result is None else result["status"] for result in found)
                numbers = (f"{count[each]:,}" for each in ("done", "failed", "missing"))
                table.add_row(name, data, *numbers, _left(found))
        return table


def _left(results: Sequence[Mapping[str, Any] | None]) -> str:
    """Return how many minutes of a core those without a result may take, by those that have one."""
    seconds = [result["seconds"] for result in results if result is not None and result["status"] == "done"]
    missing = sum(result is None for result in results)
    if not missing:
        return "0"
    return f"{missing * sum(seconds) / len(seconds) / 60:,.0f}" if seconds else "not known yet"


def _failure(result: Mapping[str, Any]) -> str:
    data = DataSpec.model_validate(result["trial"]["data"])
    return f"{data.folder}, sampler {result['trial']['recipe']['sampler']['kind']}: {result['reason']}"


def _pairs(given: Sequence[str], names: Sequence[_Name], option: str) -> dict[_Name, Path]:
    """Read NAME=PATH, again and again."""
    found: dict[_Name, Path] = {}
    for each in given:
        name, mark, path = each.partition("=")
        known = next((known for known in names if known == name), None)
        if not mark or known is None:
            said = f"expected {option}NAME=PATH, NAME one of {', '.join(names)}"
            raise InvalidInput(f"{said}; got {each!r}", each)
        found[known] = Path(path)
    return found
