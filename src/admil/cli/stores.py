"""`admil info`, `verify`, `head` and `dump`: what is in a store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table
from torch import Tensor

from admil.cli.importing import column_pair
from admil.cli.program import program, quoted
from admil.cli.progress import progress_bars
from admil.cli.wording import counted, plainly
from admil.errors import InvalidInput
from admil.importers import LabelFile
from admil.oracle import Truth
from admil.store import BagStore, dump_store, in_short, missing_sources, relabel, relocate, summary_of, verify_store

__all__ = ["dump", "head", "info", "label", "relocate_sources", "verify"]

Store = Annotated[Path, typer.Argument(help="The store's folder.")]

_SHOWN = 20
"""Problems of a damaged store that are printed."""

"""Letters of a SHA-256, of which a few will do."""

_SIDES = ("left", "top", "right", "bottom")
_FEATURES, _SHORT = 3, 14
"""Features of an instance that are printed, and letters of a value that always are."""


def info(
    store: Store,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Say what is in a store: bags, splits, features, what can be looked at, and where it came from."""
    summary = summary_of(BagStore.open(store))
    if as_json:
        typer.echo(json.dumps(summary, indent=1))
        return
    console = Console()
    console.print(_facts(summary))
    console.print(_splits(summary["splits"]))
    if summary["sources"]:
        console.print(_sources(summary["sources"]))


def verify(store: Store) -> None:
    """Read every byte of a store and compare it with the checksums."""
    console = Console()
    with progress_bars(console) as progress:
        task = progress.add_task("reading, bags", total=None)
        problems = verify_store(store, lambda done, total: progress.update(task, completed=done, total=total))
    if not problems:
        found = summary_of(BagStore.open(store))
        for place in missing_sources(BagStore.open(store)):
            console.print(
                f"[yellow]note:[/yellow] its pictures should be in {escape(place)}, which is not there; if they have "
                f"moved: {program()} relocate {quoted(store)} {quoted(place)} NEW",
                highlight=False,
                soft_wrap=True,
            )
        amount = (counted(found["bags"]["all"], "bag"), counted(found["instances"], "instance"), _size(found))
        console.print(f"[green]Sound[/green]: {', '.join(amount)}.", highlight=False)
        return
    for problem in problems[:_SHOWN]:
        console.print(f"[red]problem:[/red] {escape(problem)}", highlight=False, soft_wrap=True)
    more = f", the first {_SHOWN} are shown" if len(problems) > _SHOWN else ""
    raise InvalidInput(f"{store} has {counted(len(problems), 'problem')}{more}", store)


def label(
    store: Store,
    labels: Annotated[Path, typer.Argument(help="A CSV with columns bag, label and perhaps split.")],
    strip: Annotated[str, typer.Option(help="An ending to take off its bag ids, such as .svs.")] = "",
    positive: Annotated[str | None, typer.Option(help="Its word for positive; all others say negative then.")] = None,
    label_columns: Annotated[
        str | None, typer.Option(metavar="BAG,LABEL", help="Its columns; else bag, slide_id, … and label, ….")
    ] = None,
) -> None:
    """Set labels, and splits if the file has them, of bags of a store: those that came later, or were wrong."""
    bags, given = BagStore.open(store), LabelFile(labels, strip, positive, column_pair(label_columns))
    wanted = {bag: _merged(bags, bag, *given[bag]) for bag in given}
    changed = relabel(store, wanted)
    after = BagStore.open(store)
    positive_now, unknown = int((after.known_labels == 1).sum()), int((after.known_labels < 0).sum())
    console = Console()
    console.print(f"{counted(changed, 'bag')} changed, of {len(wanted):,} in the file.", highlight=False)
    console.print(
        f"{counted(len(after), 'bag')}: {positive_now:,} positive, {unknown:,} without a label.", highlight=False
    )


def relocate_sources(
    store: Store,
    old: Annotated[Path, typer.Argument(help="Where the files were: the source itself, or a folder above it.")],
    new: Annotated[Path, typer.Argument(help="Where they are now.")],
) -> None:
    """Say that the files a store was imported from have moved, so that pictures and imports find them again."""
    count = relocate(store, old, new)
    Console().print(f"{counted(count, 'source')} of {escape(str(store))} moved.", highlight=False, soft_wrap=True)


def head(
    store: Store,
    bag: Annotated[str | None, typer.Argument(help="The id of a bag; else the first.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="How many of its instances to show.")] = 10,
    with_truth: Annotated[bool, typer.Option("--truth", help="Show the true labels of instances.")] = False,
) -> None:
    """Show a bag: its label and split, and for its first instances what is known of them."""
    bags = BagStore.open(store)
    chosen = bags.subset([0 if bag is None else bags.index.number(bag)])
    label = {1: "positive", 0: "negative", -1: "no label"}[int(chosen.known_labels[0])]
    count = chosen.index.n_instances
    said = [label, *([f"split {chosen.splits[0]}"] if chosen.splits[0] else []), counted(count, "instance")]
    console = Console()
    console.print(f"Bag [b]{escape(chosen.ids[0])}[/b]: {escape(', '.join(said))}", highlight=False)
    console.print(_instances(chosen, rows, Truth.of_store(chosen) if with_truth else None))
    if count > rows:
        console.print(f"[dim]{count - rows:,} more; --rows shows them[/dim]", highlight=False)


def dump(
    store: Store,
    out: Annotated[
        Path, typer.Option(help="A .parquet file, with all there is, or an .npz, with features and labels.")
    ],
    split: Annotated[str | None, typer.Option(help="Only the bags of this split.")] = None,
    with_truth: Annotated[bool, typer.Option("--truth", help="Write the true labels of instances too.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> None:
    """Write a store into one file that other programs read, and `admil import` too."""
    if out.exists() and not force:
        raise InvalidInput(f"{out} is there already; choose another name, or replace it with --force", out)
    bags = BagStore.open(store).where(split=split)
    truth = Truth.of_store(bags).positive if with_truth else None
    console = Console()
    with progress_bars(console) as progress:
        task = progress.add_task("writing, bags", total=len(bags))
        root = dump_store(bags, out, truth, lambda done: progress.update(task, completed=done))
    size = decimal(out.stat().st_size)
    amount = f"{counted(len(bags), 'bag')}, {counted(bags.index.n_instances, 'instance')}, {size}"
    console.print(f"{amount}: [b]{escape(str(out))}[/b]", highlight=False, soft_wrap=True)
    kind, option = ("arrays", "") if out.suffix == ".npz" else ("table", "")
    if root is not None:
        console.print(f"The pictures' paths are relative to {escape(str(root))}", highlight=False, soft_wrap=True)
        option = f" --root {quoted(root)}"
    console.print(f"To read it back: [b]{program()} import {kind} {quoted(out)} STORE{option}[/b]", soft_wrap=True)


def _merged(store: BagStore, bag: str, label: int | None, split: str | None) -> tuple[int | None, str | None]:
    """Return what a line of a label file makes of a bag: where it says nothing, the store's own stays."""
    if bag not in store.index:
        return label, split  # `relabel` names it
    number = store.index.number(bag)
    known = int(store.known_labels[number])
    return (None if known < 0 else known) if label is None else label, split or store.splits[number]


def _facts(summary: Mapping[str, Any]) -> Table:
    bags, sizes = summary["bags"], summary["bag_sizes"]
    table = Table(title=f"Store [b]{escape(summary['path'])}[/b]", title_justify="left", box=None, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    unlabelled = f", {bags['unlabelled']:,} without a label" if bags["unlabelled"] else ""
    columns = ", ".join(f"{name} ({kind})" for name, kind in summary["columns"].items())
    rows = {
        "bags": f"{bags['all']:,}: {bags['positive']:,} positive, {bags['negative']:,} negative{unlabelled}",
        "instances": f"{summary['instances']:,}: {sizes['smallest']:,} to {sizes['largest']:,} a bag, "
        f"median {sizes['median']:,.0f}",
        "features": f"{summary['width']:,} of {summary['dtype']}{_made(summary['features'])}",
        "to look at": columns or "nothing: features alone",
        "truth": f"of {summary['bags_with_truth']:,} bags" if summary["bags_with_truth"] else "not known",
        "on disk": f"{_size(summary)} in {counted(summary['parts'], 'part')}",
    }
    for name, words in rows.items():
        table.add_row(name, escape(words))
    return table


def _size(summary: Mapping[str, Any]) -> str:
    return decimal(sum(summary["bytes"].values()))


def _made(features: Mapping[str, Any] | None) -> str:
    """Say how features were made, where that is known."""
    return "" if features is None else f", {in_short(features)}"


def _splits(splits: list[dict[str, Any]]) -> Table:
    table = Table(title="Splits", title_justify="left")
    for name in ("split", "positive bags", "negative", "no label", "instances"):
        table.add_column(name, justify="left" if name == "split" else "right")
    for row in splits:
        bags = row["bags"]
        counts = (bags["positive"], bags["negative"], bags["unlabelled"], row["instances"])
        table.add_row(escape(row["split"] or "none"), *(f"{count:,}" for count in counts))
    return table


def _sources(sources: list[dict[str, Any]]) -> Table:
    table = Table(title="Imported from", title_justify="left")
    for name in ("kind", "name", "bags", "options", "finished"):
        table.add_column(name, justify="right" if name == "bags" else "left", overflow="fold")
    for row in sources:
        options = ", ".join(f"{name} {value}" for name, value in row["options"].items())
        done = "yes" if row["complete"] else "[yellow]no: run it again[/yellow]"
        table.add_row(escape(row["kind"]), escape(row["name"]), f"{row['bags']:,}", escape(options), done)
    return table


def _instances(store: BagStore, rows: int, truth: Truth | None) -> Table:
    """Return a row per instance; a column that is empty in all of them is left out."""
    features = store[store.ids[0]][:rows].float()
    columns = _columns(store.details(store.ids[0])[:rows])
    long = {name for name, values in columns.items() if max(map(len, values)) > _SHORT}
    table = Table(expand=bool(long))
    table.add_column("#", justify="right", no_wrap=True)
    if truth is not None:
        table.add_column("truth", no_wrap=True)
    for name in columns:  # long ones share the width that short ones leave
        table.add_column(escape(name), no_wrap=True, overflow="ellipsis", ratio=1 if name in long else None)
    table.add_column(f"{store.width:,} features", no_wrap=True)
    for number, row in enumerate(features):
        cells = [str(number)]
        if truth is not None:
            cells.append("positive" if truth.positive[number] else "negative")
        cells += [escape(values[number]) for values in columns.values()]
        table.add_row(*cells, _first(row))
    return table


def _first(row: Tensor) -> str:
    """Return the first features of an instance."""
    return " ".join(f"{value:.3g}" for value in row[:_FEATURES].tolist()) + (" …" if len(row) > _FEATURES else "")


def _columns(details: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the instance columns as words, the sides of a box as one."""
    boxed = bool(details) and all(side in details[0] for side in _SIDES)
    columns: dict[str, list[str]] = {}
    for name in details[0] if details else ():
        if boxed and name == _SIDES[0]:
            columns["box"] = [_box([row[side] for side in _SIDES]) for row in details]
        elif not (boxed and name in _SIDES):
            columns[name] = ["" if row[name] is None else " ".join(plainly(row[name]).split()) for row in details]
    return {name: values for name, values in columns.items() if any(values)}


def _box(sides: list[int | None]) -> str:
    return "" if None in sides else "{},{} to {},{}".format(*sides)
