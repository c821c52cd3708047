"""Running an import from the command line: the options that all share, and what is said before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from admil.cli.program import program, quoted
from admil.cli.progress import progress_bars
from admil.cli.wording import counted
from admil.errors import InvalidInput
from admil.importers import Importer, ImportReport, LabelFile, Missing, run_import
from admil.store import BagStore, DtypeName

__all__ = ["ImportOptions", "Labels", "column_pair", "labels_for", "run"]

_SHOWN = 5


@dataclass(frozen=True)
class ImportOptions:
    """The options that all imports share."""

    labels: Annotated[
        Path | None,
        typer.Option(help="A CSV with columns bag, label and perhaps split; else SOURCE/labels.csv, if there."),
    ] = None
    label_columns: Annotated[
        str | None,
        typer.Option(metavar="BAG,LABEL", help="The label file's columns; else bag, slide_id, … and label, …."),
    ] = None
    strip: Annotated[str, typer.Option(help="An ending to take off the label file's bag ids, such as .svs.")] = ""
    positive: Annotated[
        str | None, typer.Option(help="The label that says positive, where labels are words; others say negative then.")
    ] = None
    missing: Annotated[
        Missing | None,
        typer.Option(
            help="What to do with bags without a line in the label file, and lines without a bag: end with an error, "
            "as else, skip them, or take such bags as unlabelled."
        ),
    ] = None
    skip_errors: Annotated[
        bool, typer.Option("--skip-errors", help="Leave out bags that cannot be read, and say why.")
    ] = False
    dtype: Annotated[DtypeName | None, typer.Option(help="What to keep features in; else what they come in.")] = None
    split: Annotated[str | None, typer.Option(help="The split of bags that have none, such as train.")] = None


@dataclass(frozen=True)
class Labels:
    """Where labels come from.

    Attributes:
        file: the label file, if there is one.
        word: the word for positive in the source itself, where that is what has the labels.
    """

    file: LabelFile | None
    word: str | None


def labels_for(source: Path, shared: ImportOptions, inside: bool = False) -> Labels:
    """Open the label file, if there is one, and say whose labels the word for positive is one of.

    Args:
        source: the source; a folder may hold the label file.
        shared: the options.
        inside: whether labels that the source has itself may be words.
    """
    beside = source / "labels.csv"
    path = shared.labels or (beside if beside.is_file() else None)
    if path is None:
        given = {"--label-columns": shared.label_columns, "--strip": shared.strip, "--missing": shared.missing}
        given |= {} if inside else {"--positive": shared.positive}
        if option := next((name for name, value in given.items() if value), None):
            raise InvalidInput(f"{option} is about a label file: name it with --labels, or leave {option} out", source)
        return Labels(None, shared.positive)
    file = LabelFile(path, shared.strip, shared.positive, column_pair(shared.label_columns))
    if shared.positive is not None and not file.has_labels and not inside:
        raise InvalidInput(f"{path} has no column of labels: leave --positive out, or add the labels", path)
    return Labels(file, None if file.has_labels else shared.positive)


def column_pair(columns: str | None) -> tuple[str, str] | None:
    """Read BAG,LABEL as two names."""
    if columns is None:
        return None
    names = [name.strip() for name in columns.split(",")]
    if len(names) != 2 or not all(names):
        raise InvalidInput(f"--label-columns is two names such as slide,diagnosis, got {columns!r}", columns)
    return names[0], names[1]


def run(importer: Importer, store: Path, shared: ImportOptions, labels: Labels) -> None:
    """Run any import and say how it went."""
    console = Console()
    if labels.file is not None:
        said = f"Labels: {escape(str(labels.file.path))}, {counted(len(labels.file), 'bag')}"
        console.print(said, highlight=False, soft_wrap=True)
    try:
        with progress_bars(console) as progress:
            task = progress.add_task("reading", total=None)
            report = run_import(
                importer,
                store,
                labels=labels.file,
                missing=shared.missing or "error",
                skip_errors=shared.skip_errors,
                dtype=shared.dtype,
                split=shared.split,
                on_bag=lambda done, of: progress.update(task, completed=done, total=of, description="importing, bags"),
            )
    except KeyboardInterrupt:
        Console(stderr=True).print(_interrupted(store), highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
    _say(report, store, console)
    if report.differing and labels.file is not None:
        command = f"{program()} label {quoted(store)} {quoted(labels.file.path)}{_repeated(shared)}"
        console.print(
            f"[yellow]note:[/yellow] {counted(report.differing, 'bag')} that were there already have another label or "
            f"split in the label file, and keep theirs; to change them: [b]{command}[/b]",
            highlight=False,
            soft_wrap=True,
        )


def _interrupted(store: Path) -> str:
    """Say what an interrupted import leaves."""
    kept = len(BagStore.open(store)) if (store / "store.json").exists() else 0
    if not kept:
        return "interrupted; nothing was kept yet"
    are = "is" if kept == 1 else "are"
    return f"interrupted; {counted(kept, 'bag')} {are} kept, the same command goes on from here"


def _repeated(shared: ImportOptions) -> str:
    """Return the options that say how the label file is read."""
    given = {"--strip": shared.strip, "--positive": shared.positive, "--label-columns": shared.label_columns}
    return "".join(f" {option} {quoted(value)}" for option, value in given.items() if value)


def _say(report: ImportReport, store: Path, console: Console) -> None:
    """Summarise an import and name the next commands."""
    parts = [f"Imported [b]{counted(report.added, 'bag')}[/b] with {counted(report.instances, 'instance')}"]
    parts += [f"{report.present:,} were there already"] if report.present else []
    parts += [f"{report.skipped:,} left out that lack a label line, or features"] if report.skipped else []
    console.print(", ".join(parts) + ".", highlight=False)
    for reason in report.left_out[:_SHOWN]:
        console.print(f"[yellow]left out:[/yellow] {escape(reason)}", highlight=False, soft_wrap=True)
    if len(report.left_out) > _SHOWN:
        console.print(f"[yellow]left out:[/yellow] {len(report.left_out) - _SHOWN:,} more", highlight=False)
    if report.hint:
        console.print(f"[yellow]note:[/yellow] {escape(report.hint)}", highlight=False, soft_wrap=True)
    bags = BagStore.open(store)
    console.print(f"Store: [b]{escape(str(store))}[/b]  {_described(bags)}", highlight=False, soft_wrap=True)
    if named := _named(bags):
        console.print(named, highlight=False, soft_wrap=True)
    console.print(f"Next: [b]{program()} {_next(store, bags)}[/b]", highlight=False, soft_wrap=True)


def _described(bags: BagStore) -> str:
    positive, unknown = int((bags.known_labels == 1).sum()), int((bags.known_labels < 0).sum())
    without = f", {unknown:,} without a label" if unknown else ""
    size = f"{counted(bags.index.n_instances, 'instance')} of {bags.width:,} features, {bags.header.dtype}"
    return f"{counted(len(bags), 'bag')} ({positive:,} positive{without}), {size}"


def _named(bags: BagStore) -> str | None:
    """Say which columns of a table became features, and which are kept beside them."""
    features = (bags.header.features or {}).get("columns")
    if features is None:
        return None
    beside = f"; kept beside them: {_listed(bags.columns.names)}" if bags.columns.names else ""
    return f"Features: {_listed(features)}{beside}"


def _listed(names: Sequence[str]) -> str:
    more = f", … ({len(names):,} columns)" if len(names) > _SHOWN else ""
    return escape(", ".join(names[:_SHOWN]) + more)


def _next(store: Path, bags: BagStore) -> str:
    """Return the next command to try: to train, where there are labels of both kinds, else to score."""
    if {0, 1} <= set(bags.known_labels.tolist()):
        return f"fit {quoted(store)} --out model"
    return f"score MODEL {quoted(store)} --out scores.parquet"
