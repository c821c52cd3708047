"""A store, or some of its bags, as one file that other programs read."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray

from admil.bags import IntArray
from admil.errors import InvalidInput
from admil.store.details import instance_columns, instance_table
from admil.store.documents import make_folder, moved_in
from admil.store.store import BagStore

__all__ = ["dump_store"]

_ENTRIES = 2**22
"""Features held at a time, about; a bag is held whole."""

_OWN = ("bag", "label", "split", "truth", "features")


def dump_store(
    store: BagStore,
    out: str | Path,
    truth: NDArray[np.bool_] | None = None,
    on_bag: Callable[[int], None] | None = None,
) -> Path | None:
    """Write the bags of a store into an .npz or a .parquet file, which `admil import` reads back.

    An .npz has ``features`` (M, D), ``offsets`` (B + 1,), ``ids``, ``labels`` (NaN where not known) and
    ``splits`` ("" where there is none); what a person sees of the instances is left out.  A .parquet has a row per
    instance, with the columns ``bag``, ``label``, ``split``, the instance columns, and ``features`` (a list).
    bfloat16, which neither has, becomes float32.  The file appears whole or not at all.

    Args:
        store: the bags.
        out: the file; replaced if there.
        truth: (M,) the true label of each instance, to be written too.
        on_bag: called with the number of bags written so far.

    Returns:
        The folder that the column ``path`` of a .parquet is relative to; None where there is no such column.
    """
    path = Path(out)
    if path.suffix not in (".npz", ".parquet"):
        raise InvalidInput(f"a store is dumped as .npz or .parquet, {path.name} is neither; rename it", path)
    make_folder(path.absolute().parent)
    root = _common_root(store) if path.suffix == ".parquet" and "path" in store.columns.names else None
    with moved_in(path) as beside:
        bags = _write_npz(store, beside, truth) if path.suffix == ".npz" else _write_parquet(store, beside, truth, root)
        for done in bags:
            if on_bag is not None:
                on_bag(done)
    return root


def _write_npz(store: BagStore, path: Path, truth: NDArray[np.bool_] | None) -> Iterator[int]:
    known = store.known_labels
    columns: dict[str, NDArray[Any]] = {
        "offsets": np.array(store.index.offsets),
        "ids": np.array(store.ids),
        "labels": np.where(known < 0, np.nan, known) if (known < 0).any() else known,
    }
    if any(store.splits):
        columns["splits"] = np.array([split or "" for split in store.splits])
    if truth is not None:
        columns["truth"] = truth
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, column in columns.items():
            with archive.open(_entry(name), "w") as file:
                npy.write_array(file, column, allow_pickle=False)
        with archive.open(_entry("features"), "w", force_zip64=True) as file:
            shape, dtype = (store.index.n_instances, store.width), npy.dtype_to_descr(_numpy_dtype(store))
            npy.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
            for bags in _runs(store):
                file.write(_features(store, bags).data)
                yield int(bags[-1]) + 1


def _write_parquet(store: BagStore, path: Path, truth: NDArray[np.bool_] | None, root: Path | None) -> Iterator[int]:
    fields = [("bag", pa.string()), ("label", pa.int8()), ("split", pa.string()), *_checked_columns(store)]
    fields += [("truth", pa.bool_())] if truth is not None else []
    lists = pa.list_(pa.from_numpy_dtype(_numpy_dtype(store)), store.width)
    schema = pa.schema([*fields, ("features", lists)])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for bags in _runs(store):
            rows = np.repeat(bags, store.index.sizes[bags])
            details = instance_table(store, bags, root)
            table = {
                "bag": pa.array(store.ids, pa.string()).take(rows),
                "label": pa.array(store.known_labels, mask=store.known_labels < 0).take(rows),
                "split": pa.array(store.splits, pa.string()).take(rows),
                **dict(zip(details.column_names, details.columns, strict=True)),
                "features": pa.FixedSizeListArray.from_arrays(_features(store, bags).reshape(-1), type=lists),
            }
            if truth is not None:
                table["truth"] = pa.array(truth[store.index.positions(bags)])
            writer.write_table(pa.table([table[name] for name in schema.names], schema))
            yield int(bags[-1]) + 1


def _entry(name: str) -> zipfile.ZipInfo:
    """Return a name in the archive, with the same date always: same store, same bytes."""
    return zipfile.ZipInfo(f"{name}.npy")


def _runs(store: BagStore) -> list[IntArray]:
    return store.index.runs(max(1, _ENTRIES // store.width))


def _numpy_dtype(store: BagStore) -> np.dtype[Any]:
    return np.dtype(np.float16 if store.header.dtype == "float16" else np.float32)


def _features(store: BagStore, bags: IntArray) -> NDArray[Any]:
    rows = store.gather(bags).features
    array: NDArray[Any] = (rows.float() if rows.dtype == torch.bfloat16 else rows).numpy()
    return array


def _checked_columns(store: BagStore) -> pa.Schema:
    """Return the instance columns, none of which is named as a column of the dump."""
    for name in store.columns.names:
        if name in _OWN:
            raise InvalidInput(
                f"an instance column of {store.path} is named {name!r}, as one of the dump is; dump it as .npz", name
            )
    return instance_columns(store)


def _common_root(store: BagStore) -> Path:
    """Return the folder that holds the roots of all parts, which is that of every part in most stores."""
    try:
        return Path(os.path.commonpath([root.absolute() for root in store.roots]))
    except ValueError:  # drives of Windows
        names = ", ".join(map(str, store.roots))
        raise InvalidInput(f"the pictures of {store.path} lie on several drives ({names}); dump it as .npz") from None
