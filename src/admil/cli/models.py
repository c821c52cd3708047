"""`admil fit` and `admil score`: a model from a store, and its ranking of instances."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from admil import metrics
from admil.api import StoreScores, fit_store, score_store, training_bags
from admil.cli.program import program, quoted
from admil.cli.progress import progress_bars
from admil.cli.wording import plainly
from admil.errors import InvalidInput
from admil.oracle import Truth
from admil.report import Pictured, contact_sheet
from admil.store import BagStore, missing_sources
from admil.store.documents import make_folder
from admil.training import Progress, TrainedModel, TrainingInterrupted, TrainingRecipe

__all__ = ["fit", "score"]

Store = Annotated[Path, typer.Argument(help="The store's folder.")]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, mps.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]


def fit(
    store: Store,
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    split: Annotated[str | None, typer.Option(help="Bags to train on; else those of split train, or all.")] = None,
    recipe: Annotated[Path | None, typer.Option(help="A JSON file with fields of TrainingRecipe.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Optimizer steps at most.")] = None,
    members: Annotated[int | None, typer.Option(min=1, help="Networks in the ensemble.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The source of all randomness.")] = 0,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Train on the bag labels of a store and write the model."""
    console = Console()
    _check_free(out, force)
    training = _recipe(recipe, {"max_steps": steps, "members": members})
    bags = training_bags(BagStore.open(store), split)
    console.print(f"Training on {_described(bags)}.", highlight=False)
    model = _fitted(bags, out, training, seed, device, console)
    for note in model.history.warnings:
        console.print(f"[yellow]note:[/yellow] {escape(note)}", highlight=False)
    auroc = model.history.held_out_auroc
    judged = "no bags were held out" if auroc is None else f"AUROC of held-out bags [b]{auroc:.3f}[/b]"
    console.print(f"{judged}, weights of step {model.history.best_step} of {len(model.history.losses)}.")
    if auroc is not None and (bags.header.features or {}).get("labels_seen"):
        console.print(
            "[yellow]note:[/yellow] the AUROC flatters: the terms that are features were chosen by the labels of these "
            "bags, the held-out ones among them; judge by bags of a test split.",
            highlight=False,
        )
    console.print(f"Model: [b]{escape(str(out))}[/b]")
    console.print(
        f"Next, rank the instances: [b]{program()} score {quoted(out)} {quoted(store)} --out scores.parquet[/b]",
        soft_wrap=True,
    )


def score(
    model: Annotated[Path, typer.Argument(help="The model's folder.")],
    store: Store,
    out: Annotated[Path, typer.Option(help="A .parquet or .csv file: a row for each instance.")],
    split: Annotated[str | None, typer.Option(help="Only the bags of this split.")] = None,
    highest: Annotated[
        int | None, typer.Option(min=1, help="Write only so many rows, the highest first; else all, in order.")
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="How many of the highest instances to show.")] = 10,
    sheet: Annotated[Path | None, typer.Option(help="A .png to show the highest instances' pictures in.")] = None,
    evaluate: Annotated[bool, typer.Option("--evaluate", help="Compare with the store's truth.")] = False,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Score every instance of a store, bags without a label included, and show the highest."""
    console = Console()
    _check_free(out, force)
    if sheet is not None:
        _check_free(sheet, force)
    bags = BagStore.open(store)
    bags = bags if split is None else bags.where(split=split)
    if sheet is not None:
        _check_pictures(bags)
    truth = Truth.of_store(bags) if evaluate else None
    with progress_bars(console) as progress:
        task = progress.add_task("scoring, bags", total=len(bags))
        scores = score_store(model, bags, out, device, lambda done: progress.update(task, completed=done), highest)
    if top:
        console.print(_top_table(scores, top))
    console.print(_quality(scores, truth), highlight=False)
    console.print(f"Scores of {len(scores.f):,} instances of {len(bags):,} bags: [b]{escape(str(out))}[/b]")
    if sheet is not None:
        sheet.parent.mkdir(parents=True, exist_ok=True)
        sheet.write_bytes(contact_sheet(_pictured(scores, max(top, 1))))
        console.print(f"Their pictures: [b]{escape(str(sheet))}[/b]")


def _fitted(
    bags: BagStore, out: Path, recipe: TrainingRecipe, seed: int, device: str, console: Console
) -> TrainedModel:
    with progress_bars(console) as progress:
        task = progress.add_task("training, steps", total=recipe.max_steps)

        def on_step(step: Progress) -> None:
            progress.update(task, completed=step.step)
            if step.check is not None:
                progress.update(task, description=f"training, held-out AUROC {step.check.auroc:.3f}")

        try:
            return fit_store(bags, out, recipe, seed, device, on_step)
        except TrainingInterrupted as interrupted:
            console.print(f"[yellow]{interrupted}[/yellow]: {escape(str(out))}", highlight=False)
            return interrupted.model


def _recipe(path: Path | None, changes: Mapping[str, Any]) -> TrainingRecipe:
    given = {name: value for name, value in changes.items() if value is not None}
    if path is None:
        return TrainingRecipe(**given)
    try:
        read = TrainingRecipe.model_validate_json(path.read_text(encoding="utf-8"))
        return TrainingRecipe.model_validate({**dict(read), **given})
    except ValueError as error:
        raise InvalidInput(f"{path} is no training recipe: {error}", path) from error


def _check_free(path: Path, force: bool) -> None:
    """Refuse what cannot be written, or would be written over, before minutes of work, not after."""
    if path.exists() and not force:
        raise InvalidInput(f"{path} is there already; choose another name, or replace it with --force", path)
    folder = path.absolute().parent
    make_folder(folder)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidInput(f"cannot write to {folder}: {error.strerror}; choose another place", folder) from error


def _described(bags: BagStore) -> str:
    labels = f"{len(bags):,} bags ({len(bags.index.positive):,} positive)"
    return f"{labels} with {bags.index.n_instances:,} instances of {bags.width:,} features"


def _top_table(scores: StoreScores, count: int) -> Table:
    store = scores.store
    rows = []
    for place, position in enumerate(_highest(scores, count), start=1):
        instance = store.index.instance(position)
        words = _words(_seen(store.details(instance.bag), instance.index))
        rows.append((str(place), escape(instance.bag), str(instance.index), f"{scores.f[position]:.3f}", escape(words)))
    described = any(row[-1] for row in rows)
    table = Table(title="Highest instances", title_justify="left", expand=described)
    for name in ("", "bag", "#", "f"):
        table.add_column(name, justify="left" if name == "bag" else "right", overflow="fold")
    if described:  # takes what the others leave
        table.add_column("what it is", no_wrap=True, overflow="ellipsis", ratio=1)
    for row in rows:
        table.add_row(*row[: len(table.columns)])
    return table


def _check_pictures(store: BagStore) -> None:
    if "path" not in store.columns.names:
        raise InvalidInput(f"the instances of {store.path} have no pictures; leave --sheet out", store.path)
    if missing := missing_sources(store):
        raise InvalidInput(
            f"the pictures of {store.path} should be in {missing[0]}, which is not there; if they have moved, say so "
            f"with {program()} relocate",
            missing,
        )


def _highest(scores: StoreScores, count: int) -> list[int]:
    """Return the positions of the highest scores, ties by position."""
    order: list[int] = np.argsort(-scores.f, kind="stable")[:count].tolist()
    return order


def _seen(details: list[dict[str, Any]], index: int) -> dict[str, Any]:
    return details[index] if details else {}


def _words(seen: Mapping[str, Any]) -> str:
    """Say in a line what a person would look at."""
    if seen.get("text"):
        return " ".join(str(seen["text"]).split())[:120]
    box = [seen.get(name) for name in ("left", "top", "right", "bottom")]
    if seen.get("path"):
        return f"{seen['path']}" + ("" if None in box else " [{}, {}, {}, {}]".format(*box))
    return ", ".join(f"{name} {plainly(value)}" for name, value in seen.items() if value is not None)[:120]


def _quality(scores: StoreScores, truth: Truth | None) -> str:
    store = scores.store
    parts = []
    if store.labels is not None and 0 < store.labels.sum() < len(store):
        parts.append(f"bag AUROC {metrics.auroc(store.labels, scores.best):.3f}")
    if truth is not None:
        pooled = metrics.average_precision(truth.positive, scores.f)
        each = metrics.per_bag_average_precision(truth.positive, scores.f, store.index.offsets)
        parts.append(f"instance AP {100 * pooled:.1f} %, within positive bags {100 * each:.1f} %")
        parts.append(f"{truth.positive.mean():.2%} of the instances are positive")
    if scores.trained_on:
        parts.append("the model was trained on bags among these")
    return "; ".join(parts) if parts else "No labels of both kinds: nothing to compare the scores with."


def _pictured(scores: StoreScores, count: int) -> list[Pictured]:
    """Find the pictures of the highest instances."""
    store, found = scores.store, []
    for position in _highest(scores, count):
        instance = store.index.instance(position)
        found.append(Pictured.of(store, instance, f"{instance.bag} #{instance.index}  f {scores.f[position]:.2f}"))
    return found
