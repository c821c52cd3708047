"""What is in a store, in numbers and words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.parquet as pq

from admil.store.layout import HEADER, PICTURES, part_files
from admil.store.store import BagStore

__all__ = ["missing_sources", "summary_of"]


def summary_of(store: BagStore) -> dict[str, Any]:
    """Return what a store says of itself, as JSON can say it; for a selection, of those bags where they are counted."""
    sizes = store.index.sizes
    return {
        "path": str(store.path),
        "bags": _labels(store.known_labels),
        "instances": store.index.n_instances,
        "bag_sizes": {
            "smallest": int(sizes.min()),
            "median": float(np.median(sizes)),
            "mean": float(sizes.mean()),
            "largest": int(sizes.max()),
        },
        "splits": _splits(store),
        "width": store.width,
        "dtype": store.header.dtype,
        "features": store.header.features,
        "columns": {field.name: str(field.type) for field in store.columns},
        "bags_with_truth": _with_truth(store),
        "sources": _sources(store),
        "parts": len(store.header.parts),
        "bytes": _bytes(store),
    }


def _labels(known: np.ndarray[Any, np.dtype[np.int8]]) -> dict[str, int]:
    counts = {"positive": int((known == 1).sum()), "negative": int((known == 0).sum())}
    return {"all": len(known), **counts, "unlabelled": int((known < 0).sum())}


def _splits(store: BagStore) -> list[dict[str, Any]]:
    """Return the numbers of each split, those of bags without one last."""
    rows = []
    for split in sorted(set(store.splits.tolist()), key=lambda name: (name is None, name or "")):
        here = np.array([each == split for each in store.splits])
        bags = _labels(store.known_labels[here])
        rows.append({"split": split, "bags": bags, "instances": int(store.index.sizes[here].sum())})
    return rows


def _with_truth(store: BagStore) -> int:
    named = [part_files(store.path, part.name)["truth"] for part in store.header.parts if part.truth is not None]
    return sum(pq.read_metadata(path).num_rows for path in named)


def _sources(store: BagStore) -> list[dict[str, Any]]:
    bags = [0] * len(store.header.sources)
    for part in store.header.parts:
        if part.source is not None:
            bags[part.source] += part.bags
    return [{**source.model_dump(), "bags": count} for source, count in zip(store.header.sources, bags, strict=True)]


def _bytes(store: BagStore) -> dict[str, int]:
    """Return the size of the store's files by what they hold."""
    sizes = dict.fromkeys(part_files(store.path, "x"), 0)
    for part in store.header.parts:
        for kind, path in part_files(store.path, part.name).items():
            sizes[kind] += path.stat().st_size if path.exists() else 0
    pictures = sum(path.stat().st_size for path in (store.path / PICTURES).rglob("*") if path.is_file())
    return {**sizes, "pictures": pictures, "header": (store.path / HEADER).stat().st_size}


def missing_sources(store: BagStore) -> tuple[str, ...]:
    """Return the folders that pictures of a store should lie in, and are not there: people cannot be shown them."""
    with_pictures = "path" in store.columns.names
    return tuple(str(root) for root in store.roots if with_pictures and not root.is_dir())
