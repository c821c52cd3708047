"""Small stores to test on, and what is in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from admil.store import BagStore, DtypeName, Source, StoreWriter


@dataclass(frozen=True)
class Given:
    """A bag as it is handed to `StoreWriter.add`."""

    bag: str
    features: Any
    label: int | None = None
    split: str | None = None
    instances: dict[str, Any] | None = None
    truth: NDArray[np.bool_] | None = None

    def add(self, writer: StoreWriter) -> None:
        writer.add(self.bag, self.features, self.label, self.split, self.instances, self.truth)


def rows(count: int, width: int = 3, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(count, width))).float()


def full(bags: int = 7, width: int = 3) -> list[Given]:
    """Make bags with everything: both labels and none, two splits and none, instance columns, truth."""
    given = []
    for number in range(bags):
        count = 1 + number % 4
        label = (1, 0, None)[number % 3]
        truth = np.zeros(count, dtype=bool)
        truth[number % count] = label == 1
        columns = {
            "text": [f"post {number}.{place}" for place in range(count)],
            "x": [place / 2 for place in range(count)],
        }
        split = ("train", "test", None)[number % 3]
        given.append(Given(f"bag {number} ü", rows(count, width, number), label, split, columns, truth))
    return given


def written(
    folder: Path,
    given: list[Given],
    part_bytes: int = 200,
    dtype: DtypeName | None = None,
    source: Source | None = None,
) -> BagStore:
    """Write bags into a new store, in parts so small that there are several; open it."""
    with BagStore.create(folder, dtype=dtype, source=source, part_bytes=part_bytes) as writer:
        for each in given:
            each.add(writer)
    return BagStore.open(folder)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def content_of(store: BagStore) -> list[tuple[object, ...]]:
    """Return all that a store says of its bags."""
    truth = dict(store.truth_rows())
    return [
        (
            bag,
            store[bag].tolist(),
            int(store.known_labels[number]),
            store.splits[number],
            store.details(bag),
            truth.get(bag),
            store.root_of(bag) == store.path,
        )
        for number, bag in enumerate(store.ids)
    ]
