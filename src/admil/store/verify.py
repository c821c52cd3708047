"""Looking at every byte of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from admil.errors import AdmilError
from admil.store.layout import SUM_SCHEMA, Header
from admil.store.part_reader import PartReader
from admil.store.shards import checksum_of
from admil.store.tables import check_file, read_labels, read_table, truth_row

__all__ = ["verify_store"]


def verify_store(path: str | Path, on_bag: Callable[[int, int], None] | None = None) -> tuple[str, ...]:
    """Read every byte of a store; return what is wrong, a sentence each, () where all is well.

    Args:
        path: the store's folder.
        on_bag: called with the bags looked at so far and their number.
    """
    folder = Path(path)
    try:
        header = Header.read(folder)
    except AdmilError as error:
        return (str(error),)
    if not header.parts:
        return (f"the store {folder} has no bags; import some into it",)
    problems = _label_problems(folder, header)
    total, before, seen = sum(part.bags for part in header.parts), 0, set[str]()
    for part in header.parts:
        reader = PartReader(folder, header, part)
        for number, found in enumerate(_bag_problems(reader, seen), start=1):
            problems += found
            if on_bag is not None:
                on_bag(before + number, total)
        before += part.bags
    return tuple(problems)


def _label_problems(folder: Path, header: Header) -> list[str]:
    """Return what is wrong with the labels that were set later."""
    try:
        later = read_labels(folder, header)
    except AdmilError as error:
        return [str(error)]
    wrong = [bag for bag, (label, _) in later.items() if label not in (0, 1, None)]
    return [f"the labels of {folder} say {later[wrong[0]][0]} of bag {wrong[0]!r}, expected 0 or 1"] if wrong else []


def _bag_problems(reader: PartReader, seen: set[str]) -> Iterator[list[str]]:
    """Yield what is wrong with a part, bag after bag; what is wrong with all of it comes with the first."""
    try:
        bags = reader.bags()
    except AdmilError as error:
        yield [str(error)]
        return
    general = [
        *(f"{reader.files['bags']} names bag {bag!r}, which is in the store already" for bag in _doubles(bags, seen)),
        *_instance_problems(reader, bags),
        *_picture_problems(reader),
        *_truth_problems(reader, bags),
    ]
    try:
        reader.map(bags)
    except AdmilError as error:
        yield [*general, str(error)]
        return
    for row in bags.to_pylist():
        good = checksum_of(reader.features[row["start"] : row["start"] + row["count"]]) == row["checksum"]
        yield (
            general
            if good
            else [
                *general,
                f"shard {reader.files['features']} is damaged: the features of bag {row['bag']!r} are not those "
                "written; restore it from a copy, or import it again",
            ]
        )
        general = []


def _doubles(bags: pa.Table, seen: set[str]) -> Iterator[str]:
    """Yield the bags that were seen before; remember all."""
    for bag in bags["bag"].to_pylist():
        if bag in seen:
            yield bag
        seen.add(bag)


def _instance_problems(reader: PartReader, bags: pa.Table) -> list[str]:
    """Return what is wrong with the instance table of a part."""
    path, digest = reader.files["instances"], reader.part.details
    if digest is None:
        return []
    try:
        check_file(path, digest)
        table = pq.ParquetFile(path).read()
    except (AdmilError, pa.ArrowException, OSError) as error:
        return [str(error)]
    counts, starts = bags["count"].to_numpy(), bags["start"].to_numpy()
    places = np.arange(counts.sum()) - np.repeat(starts, counts)
    same_bags = np.array_equal(table["bag"].to_numpy(), np.repeat(bags["bag"].to_numpy(), counts))
    if not same_bags or not np.array_equal(table["index"].to_numpy(), places):
        return [f"{path} does not describe its shard: its bags and indices are not those of the manifest"]
    return []


def _picture_problems(reader: PartReader) -> list[str]:
    """Return what is wrong with the pictures that the store keeps itself."""
    if reader.part.pictures is None:
        return []
    try:
        sums = read_table(reader.files["picture_sums"], reader.part.pictures, SUM_SCHEMA)
    except AdmilError as error:
        return [str(error)]
    wrong = []
    for row in sums.to_pylist():
        try:
            check_file(reader.folder / row["path"], row["sha256"])
        except (AdmilError, OSError) as error:
            wrong.append(str(error))
    return wrong if len(wrong) < 2 else [f"{wrong[0]} ({len(wrong) - 1} more pictures are missing or damaged)"]


def _truth_problems(reader: PartReader, bags: pa.Table) -> list[str]:
    """Return what is wrong with the truth of a part."""
    known = {row["bag"]: row for row in bags.select(["bag", "label", "count"]).to_pylist()}
    try:
        for bag, positive in reader.truth():
            if bag not in known:
                return [f"{reader.files['truth']} tells of bag {bag!r}, which is not in this part"]
            truth_row(bag, known[bag]["label"], np.array(positive), known[bag]["count"])
    except AdmilError as error:
        return [str(error)]
    return []
