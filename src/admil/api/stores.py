"""Training and scoring on stores: features are read as they are needed, scores are written as they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import torch
from torch import Generator

from admil.api.files import features_of_model, load_model, save_model
from admil.bags import FloatArray, Scores
from admil.device import usable_device
from admil.errors import InvalidInput
from admil.store import BagStore, difference, instance_columns, instance_table
from admil.store.documents import make_folder, moved_in
from admil.training import Progress, TrainedModel, TrainingInterrupted, TrainingRecipe, bag_probability, fit, score

__all__ = ["StoreScores", "fit_store", "score_store", "training_bags"]

_AT_ONCE = 200_000
"""Instances scored and written together, about."""

_OWN_NAME = "_of_instance"

_SCHEMA = pa.schema(
    [
        pa.field("bag", pa.string()),
        pa.field("index", pa.int32()),
        pa.field("f", pa.float64()),
        pa.field("p", pa.float64()),
        pa.field("bag_score", pa.float64()),
        pa.field("label", pa.int8()),
        pa.field("split", pa.string()),
    ]
)


@dataclass(frozen=True, eq=False)
class StoreScores:
    """What `score_store` wrote.

    Attributes:
        store: the bags that were scored.
        f: (M,) score of each instance; features are never held whole, these numbers are.
        bag_score: (B,) robust score of each bag.
        best: (B,) highest instance score of each bag; with a pooled loss its own.
        trained_on: whether bags among these, by their ids, are known to have taken part in the model's training.
    """

    store: BagStore
    f: np.ndarray[tuple[int], np.dtype[np.float64]]
    bag_score: np.ndarray[tuple[int], np.dtype[np.float64]]
    best: np.ndarray[tuple[int], np.dtype[np.float64]]
    trained_on: bool


def training_bags(store: BagStore, split: str | None = None) -> BagStore:
    """Return the labelled bags of a split: by default of "train" where there is one, else all that have a label."""
    if split is None and "train" in store.splits:
        split = "train"
    return store.where(split=split, labelled=True)


def fit_store(
    store: BagStore,
    out: str | Path,
    recipe: TrainingRecipe | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    on_step: Callable[[Progress], None] | None = None,
) -> TrainedModel:
    """Train on the bags of a store and write the model into a folder.

    Args:
        store: labelled bags, such as `training_bags` returns.
        out: the model's folder.
        recipe: how to train.
        seed: the source of all randomness.
        device: where to train.
        on_step: called with the progress after every step.

    Raises:
        TrainingInterrupted: Ctrl-C; the best model so far has been written.
    """
    generator = Generator().manual_seed(seed)
    try:
        model = fit(recipe or TrainingRecipe(), store, None, generator, device, on_step=on_step)
    except TrainingInterrupted as interrupted:
        save_model(interrupted.model, out, store.header.features)
        raise
    save_model(model, out, store.header.features)
    return model


def score_store(
    model: str | Path,
    store: BagStore,
    out: str | Path,
    device: torch.device | str = "cpu",
    on_bags: Callable[[int], None] | None = None,
    highest: int | None = None,
) -> StoreScores:
    """Score every instance of a store with a saved model; write a row for each into a file.

    The columns are ``bag``, ``index``, ``f`` (score), ``p`` (robust weight within the bag), ``bag_score``, ``label``,
    ``split``, and what the store knows of the instance (``path``, ``x``, ``text``, …; one that has the name of
    another column gets ``_of_instance`` behind it), in the order of the store.  The file appears whole or not at all.

    Args:
        model: the folder of a saved model.
        store: the bags; labels are not needed.
        out: a .parquet or .csv file.
        device: where to compute.
        on_bags: called with the number of bags scored so far.
        highest: write only so many instances, the highest first; None writes all.

    Raises:
        InvalidInput: the model was trained on other features, or the file's ending is unknown.
    """
    path = Path(out)
    _check_ending(path)
    trained = load_model(model)
    _check_features(features_of_model(model), store, model)
    trained.module.to(usable_device(device))
    parts: list[Scores] = []
    done = 0
    with _writer(path, _schema(store, nested=path.suffix == ".parquet")) as writer:
        for bags in store.index.runs(_AT_ONCE):
            run = store.subset(bags)
            scores = score(trained, run)
            if highest is None:
                writer.write_table(_table(run, scores, writer.schema))
            parts.append(scores)
            done += len(bags)
            if on_bags is not None:
                on_bags(done)
        found = _joined(store, parts, trained)
        if highest is not None:
            writer.write_table(_highest(store, parts, found.f, highest, writer.schema))
    return found


def _joined(store: BagStore, parts: Sequence[Scores], model: TrainedModel) -> StoreScores:
    return StoreScores(
        store,
        np.concatenate([part.f for part in parts]),
        np.concatenate([part.bag_score for part in parts]),
        np.concatenate([bag_probability(model, part) for part in parts]),
        not model.history.held_out_scores.keys().isdisjoint(store.ids),
    )


def _highest(store: BagStore, parts: Sequence[Scores], f: FloatArray, count: int, schema: pa.Schema) -> pa.Table:
    """Return the rows of the highest instances, ties in the order of the store; only their bags are looked at."""
    order = np.argsort(-f, kind="stable")[:count]
    bags = np.unique(store.index.bag_of[order])
    some = store.subset(bags)
    kept = store.index.positions(bags)
    p = np.concatenate([part.p for part in parts])
    bag_score = np.concatenate([part.bag_score for part in parts])
    rows = _table(some, Scores(some.index, f[kept], p[kept], bag_score[bags]), schema)
    return rows.take(np.searchsorted(kept, order))


@dataclass(frozen=True)
class _TableWriter:
    """Writes tables of one schema into a file."""

    schema: pa.Schema
    write_table: Callable[[pa.Table], None]


@contextmanager
def _writer(path: Path, schema: pa.Schema) -> Iterator[_TableWriter]:
    """Write a file that appears whole or not at all."""
    make_folder(path.absolute().parent)
    make = pq.ParquetWriter if path.suffix == ".parquet" else pc.CSVWriter
    with moved_in(path) as beside, make(str(beside), schema) as writer:
        yield _TableWriter(schema, writer.write_table)


def _schema(store: BagStore, nested: bool) -> pa.Schema:
    """Return the columns of the file: the scores', then those of the instances, lists only where they can be."""
    known = [field for field in instance_columns(store) if nested or not pa.types.is_nested(field.type)]
    return pa.schema([*_SCHEMA, *(field.with_name(_name_of(field.name)) for field in known)])


def _name_of(column: str) -> str:
    return f"{column}{_OWN_NAME}" if column in _SCHEMA.names else column


def _table(store: BagStore, scores: Scores, schema: pa.Schema) -> pa.Table:
    sizes, bag_of = store.index.sizes, store.index.bag_of
    index = np.arange(len(bag_of)) - np.repeat(store.index.offsets[:-1], sizes)
    labels = pa.array(store.known_labels, mask=store.known_labels < 0)
    columns = {
        "bag": pa.array(store.ids, pa.string()).take(bag_of),
        "index": index,
        "f": scores.f,
        "p": scores.p,
        "bag_score": scores.bag_score[bag_of],
        "label": labels.take(bag_of),
        "split": pa.array(store.splits, pa.string()).take(bag_of),
    }
    details = instance_table(store, np.arange(len(store)))
    known = {_name_of(name): column for name, column in zip(details.column_names, details.columns, strict=True)}
    return pa.table({**columns, **known}).select(schema.names).cast(schema)


def _check_ending(path: Path) -> None:
    if path.suffix not in (".parquet", ".csv"):
        raise InvalidInput(f"scores are written as .parquet or .csv, {path.name} is neither; rename it", path)


def _check_features(wanted: Mapping[str, Any] | None, store: BagStore, model: str | Path) -> None:
    there = store.header.features
    if wanted is not None and there is not None and wanted != there:
        raise InvalidInput(
            f"the features of {store.path} were made otherwise than those that the model {model} was trained on: "
            f"{difference(wanted, there)}; import the bags with the same encoder and options, or --like the store that "
            "it was trained on",
            store.path,
        )
