"""`admil data`: the data sets there are, and building them into stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TaskID
from rich.table import Table

from admil.cli.options import PictureOptions, flattened
from admil.cli.program import program, quoted
from admil.cli.progress import progress_bars
from admil.datasets import (
    CATALOG,
    CIFAR10,
    CIFAR100,
    BagCount,
    Cifar,
    CifarRelease,
    Classic,
    DigitSet,
    MnistBags,
    Newsgroups,
    Voc,
    bag_counts,
    broken_rules,
    raw_path,
    read_posts,
)
from admil.datasets.newsgroups import Division, PostParts, Vocabulary
from admil.datasets.voc import Edges, NoCell, Void
from admil.errors import CorruptFile, InvalidInput
from admil.importers import Importer, ImportReport, run_import
from admil.store import BagStore

__all__ = ["data_app"]

data_app = typer.Typer(help="The data sets of the paper, and others, as bags.", no_args_is_help=True)
build_app = typer.Typer(help="Build a data set into a store; stopped, the same command goes on.", no_args_is_help=True)
data_app.add_typer(build_app, name="build")

Out = Annotated[Path, typer.Option(help="The store's folder.")]
From = Annotated[
    Path | None, typer.Option("--from", help="Raw data on this machine: file or folder; else they are downloaded.")
]
Seed = Annotated[int, typer.Option(min=0, help="Deals the bags.")]
TrainBags = Annotated[int, typer.Option(min=1, help="Positive training bags, and as many negative ones.")]
TestBags = Annotated[int, typer.Option(min=1, help="Positive test bags, and as many negative ones.")]
BagSize = Annotated[int, typer.Option(min=1, help="Pictures of a bag.")]
Least = Annotated[int, typer.Option(min=1, help="Least targets of a positive bag.")]
Most = Annotated[int, typer.Option(min=1, help="Most targets of a positive bag.")]
Reuse = Annotated[
    bool, typer.Option("--reuse", help="Let bags of a split share pictures; else each is in one at most.")
]
Targets = Annotated[list[str] | None, typer.Option("--target", help="A positive class; may be given again.")]


@data_app.command("list")
def list_sets() -> None:
    """List the data sets: their bags, what they are made from, and where that comes from."""
    table = Table(title=f"Data sets for [b]{program()} data build NAME[/b]", title_justify="left")
    for name in ("name", "bags, positive + negative", "download", "checked on"):
        table.add_column(name, justify="right" if name == "download" else "left")
    for entry in CATALOG.values():
        size = f"{entry.megabytes:,.0f} MB" if entry.downloads else ("none needed" if entry.inside else "by hand")
        checked = "the real files" if entry.verified else "made files of its layout"
        table.add_row(f"[b]{entry.name}[/b]", entry.bags, size, checked)
    console = Console()
    console.print(table)
    console.print("Their homes:")
    for home, names in _homes().items():
        console.print(f"  {', '.join(names)}: {home}", highlight=False, soft_wrap=True)


def _homes() -> dict[str, list[str]]:
    homes: dict[str, list[str]] = {}
    for entry in CATALOG.values():
        homes.setdefault(entry.home, []).append(entry.name)
    return homes


@build_app.command("20newsgroups")
def build_newsgroups(
    out: Out,
    topic: Annotated[
        str | None, typer.Option(help="One topic, such as sci.space; else all, each in OUT/TOPIC.")
    ] = None,
    raw: From = None,
    seed: Seed = 0,
    vocabulary: Annotated[Vocabulary, typer.Option(help="How terms are chosen; see docs/datasets.md.")] = "topic",
    terms: Annotated[int, typer.Option(min=1, help="How many terms.")] = 200,
    stop_words: Annotated[bool, typer.Option(help="Whether English stop words may be terms.")] = False,
    parts: Annotated[PostParts, typer.Option(help="What is taken of a post: all, no headers, or bare text.")] = "post",
    train_bags: TrainBags = 30,
    test_bags: TestBags = 20,
    least: Annotated[int, typer.Option(min=1, help="Least posts of a bag.")] = 30,
    most: Annotated[int, typer.Option(min=1, help="Most posts of a bag.")] = 49,
    share: Annotated[float, typer.Option(help="Positive posts of a positive bag; at least one.")] = 0.03,
    division: Annotated[
        Division, typer.Option(help="Training and test posts: the release's, by date, or bags of all posts, mixed.")
    ] = "date",
) -> None:
    """20 Newsgroups, rebuilt: a bag is about 40 posts, positive if one is from the topic."""
    console = Console()
    path = _raw("20newsgroups", raw, console)
    with console.status("reading posts"):
        posts = read_posts(path)
    topics = sorted({post.topic for post in posts}) if topic is None else [topic]
    for each in topics:
        with console.status(f"choosing terms for {each}"):
            dataset = Newsgroups(
                posts,
                each,
                seed,
                vocabulary,
                terms,
                stop_words,
                parts,
                train_bags,
                test_bags,
                (least, most),
                share,
                division,
            )
        _build(dataset, out if topic is not None else out / each, console, last=each == topics[-1])


def _cifar_command(release: CifarRelease) -> Callable[..., None]:
    def build(
        out: Out,
        *,
        raw: From = None,
        seed: Seed = 0,
        target: Targets = None,
        train_bags: TrainBags = 500,
        test_bags: TestBags = 100,
        bag_size: BagSize = 32,
        least: Least = 1,
        most: Most = 3,
        reuse: Reuse = False,
        encoding: PictureOptions,
    ) -> None:
        console = Console()
        encoder = encoding.make(small=True)  # first: what is wrong with it is known before anything is downloaded
        dataset = Cifar(
            release,
            _raw(release.kind, raw, console),
            seed,
            encoder,
            encoding.kept,
            targets=target or None,
            train_bags=train_bags,
            test_bags=test_bags,
            size=bag_size,
            positives=(least, most),
            reuse=reuse,
        )
        _build(dataset, out, console, (least, most), reuse)

    targets = ", ".join(release.targets)
    build.__doc__ = f"{release.title}: 32 pictures a bag, 1 to 3 of them of {targets} in a positive one."
    return build


for _release in (CIFAR10, CIFAR100):
    build_app.command(_release.kind)(flattened(_cifar_command(_release)))


@build_app.command("voc")
@flattened
def build_voc(
    out: Out,
    *,
    raw: From = None,
    seed: Seed = 0,
    target: Annotated[str, typer.Option(help="The class that is looked for.")] = "bird",
    cell_width: Annotated[int, typer.Option(min=1, help="Width of a grid cell in pixels.")] = 60,
    cell_height: Annotated[int, typer.Option(min=1, help="Height of a grid cell in pixels.")] = 75,
    edges: Annotated[
        Edges, typer.Option(help="Strips that no full cell covers: smaller cells, none, or joined.")
    ] = "keep",
    least: Annotated[float, typer.Option(help="Share of a cell's pixels from which it is positive.")] = 0.05,
    void: Annotated[Void, typer.Option(help="Whether void pixels count among a cell's pixels.")] = "counts",
    no_cell: Annotated[NoCell, typer.Option(help="A target too small for any cell: best cell, or no bag.")] = "best",
    train_share: Annotated[float, typer.Option(help="Share of the positive pictures for training.")] = 0.6,
    encoding: PictureOptions,
) -> None:
    """PASCAL VOC 2012: a bag is a photograph, its instances the cells of a grid over it."""
    console = Console()
    encoder = encoding.make(small=True)
    path = _raw("voc", raw, console)
    with progress_bars(console) as progress:
        dataset = Voc(
            path,
            seed,
            encoder,
            encoding.kept,
            target=target,
            cell=(cell_width, cell_height),
            edges=edges,
            least=least,
            void=void,
            no_cell=no_cell,
            train_share=train_share,
            on_picture=_on_count(progress, "looking for the target, masks"),
        )
    _build(dataset, out, console)


@build_app.command("digits")
def build_digits(
    out: Out,
    seed: Seed = 0,
    target: Annotated[int, typer.Option(min=0, max=9, help="The digit that is looked for.")] = 8,
    train_bags: TrainBags = 26,
    test_bags: TestBags = 30,
) -> None:
    """Digit pictures that come with scikit-learn: the bags of the demo."""
    _build(DigitSet(seed, (target,), train_bags, test_bags), out, Console(), (1, 1))


@build_app.command("mnist-bags")
@flattened
def build_mnist(
    out: Out,
    *,
    raw: From = None,
    seed: Seed = 0,
    target: Annotated[int, typer.Option(min=0, max=9, help="The digit that is looked for.")] = 9,
    train_bags: TrainBags = 100,
    test_bags: TestBags = 500,
    mean: Annotated[float, typer.Option(help="Mean size of a bag.")] = 10.0,
    variance: Annotated[float, typer.Option(help="Variance of the size.")] = 2.0,
    grey: Annotated[bool, typer.Option("--grey/--encoded", help="784 grey values, or what the encoder makes.")] = True,
    encoding: PictureOptions,
) -> None:
    """MNIST-bags of Ilse et al. (2018): about ten digits a bag, is one a nine?"""
    console = Console()
    made = None if grey else encoding.make(small=True)
    path = _raw("mnist-bags", raw, console)
    dataset = MnistBags(path, seed, made, encoding.kept, target, train_bags, test_bags, mean, variance)
    _build(dataset, out, console, reuse=True)


def _classic_command(name: str) -> Callable[..., None]:
    def build(out: Out, raw: From = None) -> None:
        console = Console()
        _build(Classic(name, _raw(name, raw, console)), out, console)

    build.__doc__ = f"{name}: bag labels alone; {CATALOG[name].bags}."
    return build


for _name in ("musk1", "musk2", "elephant", "fox", "tiger"):
    build_app.command(_name)(_classic_command(_name))


def _raw(name: str, given: Path | None, console: Console) -> Path:
    """Return where the raw data lie, downloaded if need be."""
    with progress_bars(console) as progress:
        on_megabytes = _on_count(progress, f"downloading {name}, MB")
        return raw_path(name, given, lambda done, total: on_megabytes(done // 10**6, total // 10**6))


def _build(
    dataset: Importer,
    out: Path,
    console: Console,
    positives: tuple[int, int] | None = None,
    reuse: bool = False,
    last: bool = True,
) -> None:
    """Build a data set: say what was chosen, run, count, check, name the next command."""
    source = dataset.source
    chosen = ", ".join(f"{name} {_plain(name, value)}" for name, value in source.options.items())
    words = f"[b]{source.kind}[/b] ({escape(source.name)})" + (f": {escape(chosen)}" if chosen else "")
    console.print(words, highlight=False)
    _check_free(dataset, out)
    with progress_bars(console) as progress:
        report = run_import(dataset, out, on_bag=_on_count(progress, "making bags"))
    store = BagStore.open(out)
    console.print(_counts_table(bag_counts(store)))
    console.print(_checked(store, positives, reuse), highlight=False)
    console.print(f"Store: [b]{escape(str(out))}[/b]  {_done(report)}", highlight=False, soft_wrap=True)
    if last:
        console.print(f"Next: [b]{program()} fit {quoted(out)} --out model[/b]", soft_wrap=True)


def _check_free(dataset: Importer, out: Path) -> None:
    """Refuse a store that holds something else: two data sets in one would be counted together."""
    if not (out / "store.json").exists():
        return
    for source in BagStore.open(out).header.sources:
        if not source.same(dataset.source):
            raise InvalidInput(
                f"{out} holds {source.kind} with other options already; name another folder, or delete it", out
            )


def _on_count(progress: Progress, what: str) -> Callable[[int, int], None]:
    """Return what shows a count; the bar appears with the first one."""
    tasks: dict[str, TaskID] = {}

    def on_count(done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = progress.add_task(what, total=total)
        progress.update(tasks[what], completed=done, total=total)

    return on_count


def _counts_table(counts: tuple[BagCount, ...]) -> Table:
    table = Table(title="Bags", title_justify="left")
    for name in ("split", "label", "bags", "instances", "a bag", "positive instances", "share"):
        table.add_column(name, justify="left" if name in ("split", "label") else "right")
    for count in counts:
        share = "" if count.positive_share is None else f"{100 * count.positive_share:.1f} %"
        label = {1: "positive", 0: "negative", None: "not known"}[count.label]
        found = "not known" if count.positives is None else str(count.positives)
        numbers = (str(count.bags), str(count.instances), f"{count.mean_size:.1f}", found, share)
        table.add_row(count.split or "none", label, *numbers)
    return table


def _checked(store: BagStore, positives: tuple[int, int] | None, reuse: bool) -> str:
    broken = broken_rules(store, positives, reuse)
    if broken:
        raise CorruptFile(f"{len(broken)} rules of the bags are broken; the first: {broken[0]}", store.path)
    rules = ["no instance is in bags of two splits" if reuse else "no instance is in two bags"]
    if any(part.truth for part in store.header.parts):
        rules += ["positive bags have positives", "negative bags have none"]
    return f"Checked: {', '.join(rules)}."


def _done(report: ImportReport) -> str:
    return f"{report.added} bags added" + (f", {report.present} were there" if report.present else "")


def _plain(name: str, value: object) -> str:
    """Say the value of an option as a person would."""
    if not isinstance(value, list):
        return str(value)
    if name in ("sizes", "test_sizes", "positives") and value[0] == value[1]:
        return str(value[0])
    between = {"sizes": " to ", "test_sizes": " to ", "positives": " to ", "cell": " x "}
    return between.get(name, " and ").join(map(str, value))
