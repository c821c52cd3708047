"""The same five bags as every kind of source has them, each written by the tool that writes such files."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from PIL import Image

from admil.features import PixelEncoder
from admil.importers import (
    ArrayImporter,
    H5Importer,
    ImageImporter,
    Importer,
    JsonlImporter,
    LabelFile,
    PtImporter,
    ReadBag,
    TableImporter,
    TextImporter,
    TorchmilImporter,
)

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Made:
    """A bag, as all sources have it."""

    id: str
    label: int
    split: str
    features: Floats
    truth: tuple[int, ...]
    coords: tuple[tuple[int, int], ...]


def _bags() -> tuple[Made, ...]:
    generator = np.random.default_rng(7)
    made = []
    for name, label, split, size in (("a", 1, "train", 3), ("b", 0, "train", 1), ("c-3", 1, "test", 4)):
        made.append((name, label, split, size))
    made += [("d d", 0, "test", 2), ("e", 1, "train", 2)]
    return tuple(
        Made(
            name,
            label,
            split,
            generator.integers(-8, 8, (size, 3)).astype(np.float32) / np.float32(4),
            tuple(int(label and i % 2 == 0) for i in range(size)),
            tuple((256 * i, 512) for i in range(size)),
        )
        for name, label, split, size in made
    )


BAGS = _bags()


@dataclass(frozen=True)
class Kind:
    """A kind of source.

    Attributes:
        name: what it is called in a test's name.
        write: writes the bags below a folder; returns the source's path.
        open: opens it.
        labelled: whether it has the labels of its bags; others need the label file.
        truth: whether it has those of the instances.
    """

    name: str
    write: Callable[[Path], Path]
    open: Callable[[Path], Importer]
    labelled: bool = True
    truth: bool = True

    def labels(self, folder: Path) -> LabelFile | None:
        """Write and read the label file, where the source needs one."""
        return None if self.labelled else LabelFile(write_labels(folder / "labels-of-bags.csv"))


def read_all(importer: Importer) -> dict[str, ReadBag]:
    """Read every bag."""
    return {bag.id: bag.read() for bag in importer.bags()}


def write_labels(path: Path, bags: Sequence[Made] = BAGS) -> Path:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["bag", "label", "split"])
        rows.writerows([bag.id, bag.label, bag.split] for bag in bags)
    return path


def _array_folder(folder: Path) -> Path:
    (folder / "arrays").mkdir()
    for bag in BAGS:
        np.save(folder / "arrays" / f"{bag.id}.npy", bag.features)
    return folder / "arrays"


def _npz(folder: Path) -> Path:
    np.savez_compressed(folder / "bags.npz", **{bag.id: bag.features for bag in BAGS})  # type: ignore[arg-type]
    return folder / "bags.npz"


def _flat_npz(folder: Path) -> Path:
    np.savez(
        folder / "flat.npz",
        features=np.concatenate([bag.features for bag in BAGS]),
        offsets=np.cumsum([0, *(len(bag.features) for bag in BAGS)]),
        ids=[bag.id for bag in BAGS],
        labels=[bag.label for bag in BAGS],
        splits=[bag.split for bag in BAGS],
        truth=[bool(value) for bag in BAGS for value in bag.truth],
    )
    return folder / "flat.npz"


def rows() -> list[dict[str, Any]]:
    """A row per instance, with a column per feature."""
    return [
        {"bag": bag.id, "label": bag.label, "split": bag.split, "truth": truth, "x": x, "y": y}
        | {f"f{i}": float(value) for i, value in enumerate(row)}
        | {"text": f'{bag.id}, "{x}"\nsecond line'}
        for bag in BAGS
        for row, truth, (x, y) in zip(bag.features, bag.truth, bag.coords, strict=True)
    ]


def write_csv(path: Path, table: Sequence[dict[str, Any]], delimiter: str = ",") -> Path:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(table[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(table)
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def _csv(folder: Path) -> Path:
    return write_csv(folder / "table.csv", rows())


def _csv_gz(folder: Path) -> Path:
    return write_csv(folder / "table.csv.gz", rows())


def _parquet(folder: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(rows()), folder / "table.parquet", row_group_size=4)
    return folder / "table.parquet"


def _parquet_lists(folder: Path) -> Path:
    table = pa.table(
        {
            "slide_id": pa.array([bag.id for bag in BAGS for _ in bag.features]).dictionary_encode(),
            "label": pa.array([bag.label for bag in BAGS for _ in bag.features], pa.int8()),
            "split": [bag.split for bag in BAGS for _ in bag.features],
            "truth": [bool(value) for bag in BAGS for value in bag.truth],
            "features": pa.array([row for bag in BAGS for row in bag.features], pa.list_(pa.float32())),
        }
    )
    pq.write_table(table, folder / "lists.pq", row_group_size=5)
    return folder / "lists.pq"


def save_as_clam_does(path: Path, assets: dict[str, NDArray[Any]], attributes: Any, mode: str) -> None:
    """Write what CLAM's and TRIDENT's writers do: a chunk per row, growing along the first axis."""
    with h5py.File(path, mode) as file:
        for name, values in assets.items():
            if name in file:
                data = file[name]
                data.resize(len(data) + len(values), axis=0)
                data[-len(values) :] = values
                continue
            data = file.create_dataset(
                name,
                shape=values.shape,
                maxshape=(None, *values.shape[1:]),
                chunks=(1, *values.shape[1:]),
                dtype=values.dtype,
            )
            data[:] = values
            for key, value in (attributes or {}).get(name, {}).items():
                data.attrs[key] = value


def _clam_h5(folder: Path) -> Path:
    """Lay out the folder that CLAM's feature extraction writes, in batches of two patches, without attributes."""
    (folder / "FEATURES" / "h5_files").mkdir(parents=True)
    for bag in BAGS:
        for start in range(0, len(bag.features), 2):
            coords = np.array(bag.coords[start : start + 2], dtype=np.int32)
            assets: dict[str, NDArray[Any]] = {"features": bag.features[start : start + 2], "coords": coords}
            path = folder / "FEATURES" / "h5_files" / f"{bag.id}.h5"
            save_as_clam_does(path, assets, None, "a" if start else "w")
    return folder / "FEATURES"


def _trident_h5(folder: Path) -> Path:
    """Lay out TRIDENT's features, with its attributes; of three axes, as older releases write them."""
    (folder / "features_uni_v1").mkdir()
    about = {
        "patch_size": 256,
        "patch_size_level0": 512,
        "level0_magnification": 40,
        "target_magnification": 20,
        "overlap": 0,
        "name": "slide",
        "savetodir": "/data/20x_256px",
        "level0_width": 10_000,
        "level0_height": 9_000,
    }
    for bag in BAGS:
        assets: dict[str, NDArray[Any]] = {"features": bag.features[None], "coords": np.array(bag.coords)[None]}
        attributes = {"features": {"name": bag.id, "savetodir": "out"}, "coords": about}
        save_as_clam_does(folder / "features_uni_v1" / f"{bag.id}.h5", assets, attributes, "w")
    return folder / "features_uni_v1"


def _pt(folder: Path) -> Path:
    (folder / "FEATURES" / "pt_files").mkdir(parents=True)
    for bag in BAGS:
        torch.save(torch.from_numpy(bag.features), folder / "FEATURES" / "pt_files" / f"{bag.id}.pt")
    return folder / "FEATURES"


def _old_pt(folder: Path) -> Path:
    (folder / "pt").mkdir()
    for bag in BAGS:
        tensor = torch.from_numpy(bag.features)
        torch.save(tensor, folder / "pt" / f"{bag.id}.pt", _use_new_zipfile_serialization=False)
    return folder / "pt"


def _torchmil(folder: Path) -> Path:
    for name in ("features", "labels", "inst_labels", "coords"):
        (folder / "mil" / name).mkdir(parents=True)
    for bag in BAGS:
        np.save(folder / "mil" / "features" / f"{bag.id}.npy", bag.features)
        np.save(folder / "mil" / "labels" / f"{bag.id}.npy", np.array([bag.label]))
        np.save(folder / "mil" / "inst_labels" / f"{bag.id}.npy", np.array(bag.truth)[:, None])
        np.save(folder / "mil" / "coords" / f"{bag.id}.npy", np.array(bag.coords))
    return folder / "mil"


def _jsonl_bags(folder: Path) -> Path:
    lines = [
        {
            "id": bag.id,
            "label": bag.label,
            "split": bag.split,
            "instances": bag.features.tolist(),
            "instance_labels": list(bag.truth),
            "x": [x for x, _ in bag.coords],
            "patient": f"p-{bag.id}",
        }
        for bag in BAGS
    ]
    path = folder / "bags.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n", encoding="utf-8")
    return path


def _jsonl_instances(folder: Path) -> Path:
    path = folder / "instances.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for row in rows():
            features = [row.pop(f"f{i}") for i in range(3)]
            file.write(json.dumps(row | {"features": features}) + "\n")
    return path


KINDS = (
    Kind("arrays-folder", _array_folder, ArrayImporter, labelled=False, truth=False),
    Kind("arrays-npz", _npz, ArrayImporter, labelled=False, truth=False),
    Kind("arrays-flat", _flat_npz, ArrayImporter),
    Kind("table-csv", _csv, TableImporter),
    Kind("table-csv-gz", _csv_gz, TableImporter),
    Kind("table-parquet", _parquet, TableImporter),
    Kind("table-lists", _parquet_lists, TableImporter),
    Kind("h5-clam", _clam_h5, H5Importer, labelled=False, truth=False),
    Kind("h5-trident", _trident_h5, H5Importer, labelled=False, truth=False),
    Kind("pt-clam", _pt, PtImporter, labelled=False, truth=False),
    Kind("pt-old", _old_pt, PtImporter, labelled=False, truth=False),
    Kind("torchmil", _torchmil, TorchmilImporter),
    Kind("jsonl-bags", _jsonl_bags, JsonlImporter),
    Kind("jsonl-instances", _jsonl_instances, JsonlImporter),
)


def _bag_picture(bag: Made, place: int) -> Image.Image:
    """Draw an instance: a picture of 4 x 4 in which its features can be seen."""
    grey = (128 + 16 * np.resize(bag.features[place], (4, 4))).astype(np.uint8)
    return Image.fromarray(grey).convert("RGB")


def _album(folder: Path) -> Path:
    for bag in BAGS:
        (folder / "album" / bag.id).mkdir(parents=True)
        for place in range(len(bag.features)):
            _bag_picture(bag, place).save(folder / "album" / bag.id / f"{place}.{('png', 'jpg', 'tif')[place % 3]}")
    return folder / "album"


def _picture_list(folder: Path) -> Path:
    listed = []
    for bag in BAGS:
        _bag_picture(bag, 0).save(folder / f"{bag.id}.png")
        for place, truth in enumerate(bag.truth):
            box = {"left": place, "top": 0, "right": place + 1, "bottom": 4}
            about = {"bag": bag.id, "path": f"{bag.id}.png", "label": bag.label, "split": bag.split}
            listed.append(about | box | {"instance_label": truth})
    return write_csv(folder / "pictures.csv", listed)


def _posts(folder: Path) -> Path:
    path = folder / "posts.jsonl"
    lines = []
    for bag in BAGS:
        for place, truth in enumerate(bag.truth):
            text = f"{'rocket' if truth else 'rain'} number {place} of {bag.id}"
            about = {"bag": bag.id, "label": bag.label, "split": bag.split, "text": text}
            lines.append(json.dumps(about | {"id": place, "instance_label": truth}))
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


ENCODED = (
    Kind("images-folder", _album, lambda path: ImageImporter(path, PixelEncoder(2)), labelled=False, truth=False),
    Kind("images-list", _picture_list, lambda path: ImageImporter(path, PixelEncoder(2))),
    Kind("images-tiles", _album, lambda path: ImageImporter(path, PixelEncoder(2), tiles=(2, 2)), labelled=False),
    Kind("text", _posts, lambda path: TextImporter(path, width=5)),
)
"""Sources of pictures and texts: the same bags, whose features an encoder makes."""
