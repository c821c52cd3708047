"""What can be changed about a store without writing its bags again: labels and splits, and where its sources lie."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from admil.errors import InvalidInput, UnknownInstance
from admil.store.layout import LABEL_SCHEMA, Header, Source, label_file
from admil.store.lock import StoreLock
from admil.store.store import BagStore
from admil.store.tables import read_labels, truth_row, write_table

__all__ = ["relabel", "relocate"]

Label = tuple[int | None, str | None]
"""A label, None where it is not known, and a split, None where there is none."""


def relabel(path: str | Path, labels: Mapping[str, Label]) -> int:
    """Set labels and splits of bags of a store; who has it open goes on seeing those it had.

    Args:
        path: the store's folder.
        labels: what each bag's label and split are from now on.

    Returns:
        How many bags have another label or split now.

    Raises:
        UnknownInstance: a bag is not in the store.
        InvalidInput: a label contradicts the truth of the bag's instances.
    """
    folder = Path(path)
    lock = StoreLock(folder, new=False)
    try:
        store = BagStore.open(folder)
        changed = {bag: label for bag, label in labels.items() if label != _label_of(store, bag)}
        _check_truth(store, changed)
        if changed:
            _write(folder, store.header, changed)
        return len(changed)
    finally:
        lock.release()


def relocate(path: str | Path, old: str | Path, new: str | Path) -> int:
    """Say that what a store was imported from has moved; return how many sources that concerns.

    Args:
        path: the store's folder.
        old: the folder or file where it was, or a folder above.
        new: where that is now.

    Raises:
        InvalidInput: no source was there, or nothing is at the new place.
    """
    folder, before, now = Path(path), Path(old).absolute(), Path(new).absolute()
    lock = StoreLock(folder, new=False)
    try:
        header = Header.read(folder)
        if not now.exists():
            raise InvalidInput(f"there is no {now}; give the place where the files are now", now)
        sources = tuple(_moved(source, before, now) for source in header.sources)
        count = sum(one != other for one, other in zip(sources, header.sources, strict=True))
        if not count:
            places = {str(place) for source in header.sources for place in (source.place, source.root) if place}
            known = ", ".join(sorted(places)) or "no place that is known"
            raise InvalidInput(f"nothing in {folder} comes from {before}; it comes from: {known}", before)
        header.model_copy(update={"sources": sources}).write(folder)
        return count
    finally:
        lock.release()


def _label_of(store: BagStore, bag: str) -> Label:
    try:
        number = store.index.number(bag)
    except UnknownInstance:
        raise UnknownInstance(f"there is no bag {bag!r} in {store.path}; give labels of its bags", bag) from None
    label = int(store.known_labels[number])
    return (None if label < 0 else label), store.splits[number]


def _check_truth(store: BagStore, changed: Mapping[str, Label]) -> None:
    for bag, positive in store.truth_rows():
        if bag in changed:
            truth_row(bag, changed[bag][0], positive, len(positive))


def _write(folder: Path, header: Header, changed: Mapping[str, Label]) -> None:
    """Write a new file of labels, then the header that names it, and delete the one before."""
    rows = {**read_labels(folder, header), **changed}
    columns = [list(rows), [label for label, _ in rows.values()], [split for _, split in rows.values()]]
    beside = folder / "labels" / "new.part"
    digest = write_table(pa.table(columns, schema=LABEL_SCHEMA), beside)
    beside.replace(label_file(folder, digest))
    header.model_copy(update={"labels": digest}).write(folder)
    for path in (folder / "labels").glob("*.parquet"):
        if path != label_file(folder, digest):
            path.unlink()


def _moved(source: Source, old: Path, new: Path) -> Source:
    moved = {
        name: str(new / Path(place).relative_to(old))
        for name, place in (("place", source.place), ("root", source.root))
        if place is not None and Path(place).is_relative_to(old)
    }
    if "place" in moved:
        moved["name"] = Path(moved["place"]).name
    return source.model_copy(update=moved)
