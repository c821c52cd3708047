"""`admil import`: what people have, into a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from admil.cli.importing import ImportOptions, labels_for, run
from admil.cli.options import CacheOption, DeviceOption, PictureOptions, flattened
from admil.errors import InvalidInput
from admil.features import MAX_PIXELS, FeatureCache, MiniLM, TextEncoder
from admil.importers import (
    ArrayImporter,
    ColumnNames,
    EdgeRule,
    H5Importer,
    ImageImporter,
    JsonlImporter,
    PtImporter,
    TableImporter,
    TextImporter,
    TextVocabulary,
    TorchmilImporter,
)
from admil.store import BagStore

__all__ = ["import_app"]

import_app = typer.Typer(
    help="Import bags into a store, a new one or one to go on with.  Stopped, the same command goes on; run "
    "again, it adds what is new.",
    no_args_is_help=True,
)

FolderArgument = Annotated[Path, typer.Argument(help="The folder with a file per bag.")]
FileArgument = Annotated[Path, typer.Argument(help="The file.")]
StoreArgument = Annotated[Path, typer.Argument(help="The store's folder.")]
Root = Annotated[Path | None, typer.Option(help="The folder that the column path is relative to; else the file's own.")]


def _command(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a kind of import."""
    return lambda command: import_app.command(name)(flattened(command))


@_command("arrays")
def import_arrays(
    source: Annotated[Path, typer.Argument(help="A folder of BAG.npy files, or an .npz file.")],
    store: StoreArgument,
    shared: ImportOptions,
) -> None:
    """NumPy files: an (n, D) array per bag, or one .npz with all of them."""
    run(ArrayImporter(source), store, shared, labels_for(source, shared))


@_command("table")
def import_table(
    source: Annotated[Path, typer.Argument(help="A .csv, .tsv (also .gz) or .parquet file.")],
    store: StoreArgument,
    *,
    bag_column: Annotated[str | None, typer.Option(help="The column of the bag id; else bag, slide_id, ….")] = None,
    label_column: Annotated[str | None, typer.Option(help="The column of the bag's label; else label.")] = None,
    split_column: Annotated[str | None, typer.Option(help="The column of the bag's split; else split.")] = None,
    truth_column: Annotated[
        str | None, typer.Option(help="The column of the instance's label; else truth, instance_label.")
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            help="A column of features, or a pattern such as 'f*'; may be given again.  Else numbers that are no ids "
            "or places."
        ),
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="What separates values; else a comma, or a tab.")] = None,
    root: Root = None,
    like: Annotated[
        Path | None, typer.Option(help="A store whose features to bring, in its order, for new bags; else STORE's.")
    ] = None,
    shared: ImportOptions,
) -> None:
    """A CSV or Parquet table with a row per instance; the rows of a bag stand together."""
    names = ColumnNames(bag_column, label_column, split_column, truth_column, tuple(features or ()))
    labels = labels_for(source, shared, inside=True)
    importer = TableImporter(source, names, delimiter, root, labels.word)
    run(importer if like is None else importer.following(_columns_of(like), like), store, shared, labels)


@_command("h5")
def import_h5(
    source: FolderArgument,
    store: StoreArgument,
    shared: ImportOptions,
) -> None:
    """HDF5 files of CLAM or TRIDENT: features and coords in BAG.h5."""
    run(H5Importer(source), store, shared, labels_for(source, shared))


@_command("pt")
def import_pt(
    source: FolderArgument,
    store: StoreArgument,
    shared: ImportOptions,
) -> None:
    """Torch files of CLAM: a tensor in BAG.pt; nothing is ever unpickled."""
    run(PtImporter(source), store, shared, labels_for(source, shared))


@_command("torchmil")
def import_torchmil(
    source: Annotated[Path, typer.Argument(help="The folder with features, labels, inst_labels and coords.")],
    store: StoreArgument,
    *,
    features: Annotated[str, typer.Option(help="The folder of features in it.")] = "features",
    shared: ImportOptions,
) -> None:
    """Folders of torchmil: a BAG.npy in each."""
    run(TorchmilImporter(source, features), store, shared, labels_for(source, shared))


@_command("jsonl")
def import_jsonl(
    source: Annotated[Path, typer.Argument(help="A .jsonl file (also .gz).")],
    store: StoreArgument,
    *,
    root: Root = None,
    shared: ImportOptions,
) -> None:
    """Lines of JSON: a bag per line, or an instance per line."""
    labels = labels_for(source, shared, inside=True)
    run(JsonlImporter(source, root, labels.word), store, shared, labels)


@_command("images")
def import_images(
    source: Annotated[
        Path, typer.Argument(help="A folder with a folder of pictures per bag, or with --tiles of pictures; or a CSV.")
    ],
    store: StoreArgument,
    *,
    tiles: Annotated[str | None, typer.Option(help="Cut pictures into tiles of this size: 256, or 60x75.")] = None,
    stride: Annotated[str | None, typer.Option(help="How far tiles lie apart: 128, or 30x30; else side by side.")] = (
        None
    ),
    edge: Annotated[EdgeRule, typer.Option(help="What becomes of a last tile that reaches over the edge.")] = "shift",
    root: Root = None,
    max_pixels: Annotated[int, typer.Option(min=1, help="The largest picture to decode.")] = MAX_PIXELS,
    encoding: PictureOptions,
    shared: ImportOptions,
) -> None:
    """Pictures, encoded on the way: folders of them, a list of them, or tiles cut from them."""
    importer = ImageImporter(
        source,
        encoding.make(),
        encoding.kept,
        tiles=_sides("--tiles", tiles),
        stride=_sides("--stride", stride),
        edge=edge,
        root=root,
        max_pixels=max_pixels,
        skip_errors=shared.skip_errors,
    )
    run(importer, store, shared, labels_for(source, shared))


@_command("text")
def import_text(
    source: Annotated[Path, typer.Argument(help="A .jsonl file (also .gz) with a bag and a text in each line.")],
    store: StoreArgument,
    *,
    bag_key: Annotated[str, typer.Option(help="What the bag is called in a line.")] = "bag",
    text_key: Annotated[str, typer.Option(help="What the text is called in a line.")] = "text",
    encoder: Annotated[Literal["tfidf", "minilm"], typer.Option(help="What makes features.")] = "tfidf",
    terms: Annotated[int | None, typer.Option(min=1, help="Terms of the TF-IDF; else 200.")] = None,
    vocabulary: Annotated[
        TextVocabulary | None,
        typer.Option(help="Terms that tell positive from negative bags, or the most frequent ones; else bags."),
    ] = None,
    stop_words: Annotated[bool, typer.Option("--stop-words", help="Let English stop words be terms.")] = False,
    like: Annotated[
        Path | None, typer.Option(help="A store whose TF-IDF to use, for new bags; else STORE's, if it has bags.")
    ] = None,
    device: DeviceOption = "cpu",
    batch: Annotated[int | None, typer.Option(min=1, help="Texts at a time, of MiniLM.")] = None,
    cache: CacheOption = True,
    shared: ImportOptions,
) -> None:
    """Texts, encoded on the way: TF-IDF fitted to the training bags, or MiniLM."""
    chosen = terms is not None or vocabulary is not None or stop_words
    if encoder == "minilm" and (like is not None or chosen):
        raise InvalidInput("--like, --terms, --vocabulary and --stop-words are for TF-IDF; leave them out", encoder)
    made = _minilm(device, batch) if encoder == "minilm" else None
    fitted = None if made is not None else _fitted(store, like, chosen)
    labels = labels_for(source, shared, inside=True)
    importer = TextImporter(
        source,
        made,
        FeatureCache() if cache else None,
        width=terms or 200,
        vocabulary=vocabulary or "bags",
        stop_words=stop_words,
        fitted=fitted,
        labels=labels.file,
        split=shared.split,
        skip_errors=shared.skip_errors,
        positive=labels.word,
        bag_key=bag_key,
        text_key=text_key,
    )
    run(importer, store, shared, labels)


def _sides(option: str, value: str | None) -> tuple[int, int] | None:
    """Read 256 or 60x75 as a width and a height."""
    if value is None:
        return None
    words = value.lower().split("x")
    if len(words) > 2 or not all(word.isdecimal() and len(word) < 10 for word in words):
        raise InvalidInput(f"{option} is a side in pixels such as 256, or width x height such as 60x75, got {value!r}")
    return int(words[0]), int(words[-1])


def _minilm(device: str, batch: int | None) -> TextEncoder:
    return MiniLM(device=device) if batch is None else MiniLM(device=device, batch=batch)


def _fitted(store: Path, like: Path | None, chosen: bool) -> Mapping[str, Any] | None:
    """Return the TF-IDF of another store, or of the one that is gone on with; None where one is to be fitted."""
    if like is not None and chosen:
        raise InvalidInput(
            f"the terms of {like} are chosen already: leave --terms, --vocabulary and --stop-words out", like
        )
    if like is None and (chosen or not (store / "store.json").exists()):
        return None
    return BagStore.open(like or store).header.features or {}


def _columns_of(store: Path) -> Mapping[str, Any]:
    """Return what a store says of its features, which must be columns of a table."""
    features = BagStore.open(store).header.features
    if features is None or "columns" not in features:
        raise InvalidInput(f"{store} does not name the columns that are its features; leave --like out", store)
    return features
