"""Running an import: from a source into a store, bag by bag, to be stopped and gone on with at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from admil.errors import AdmilError, InvalidInput
from admil.importers.labels import LabelFile
from admil.importers.matching import Matched, Missing, matched
from admil.importers.source import BagReader, FollowingImporter, Importer, ReadBag
from admil.store import PART_BYTES, BagStore, DtypeName, StoreWriter
from admil.store.layout import HEADER

__all__ = ["ImportReport", "run_import"]


@dataclass(frozen=True)
class ImportReport:
    """What an import did.

    Attributes:
        added: bags that were added.
        instances: their instances.
        present: bags that the store had from this source already.
        skipped: bags left out because they had no line in the label file, and lines without a bag.
        left_out: a sentence for each bag or instance that could not be read and was left out.
        differing: those of the bags present whose label or split the label file gives otherwise; they keep theirs,
            and `relabel` changes them.
        hint: a sentence on why ids of bags and of the label file may not match, where some were left over.
    """

    added: int = 0
    instances: int = 0
    present: int = 0
    skipped: int = 0
    left_out: tuple[str, ...] = ()
    differing: int = 0
    hint: str = ""


def run_import(
    importer: Importer,
    store: str | Path,
    *,
    labels: LabelFile | None = None,
    missing: Missing = "error",
    skip_errors: bool = False,
    dtype: DtypeName | None = None,
    split: str | None = None,
    part_bytes: int = PART_BYTES,
    on_bag: Callable[[int, int], None] | None = None,
) -> ImportReport:
    """Import all bags of a source that the store does not have yet.

    The store is made if need be.  Memory holds one bag at a time and the rows of the open part's tables.
    Stopped at any moment, the same call goes on where the last finished part ended and the store becomes
    the one that an uninterrupted import makes; run again after that, it adds nothing.

    Args:
        importer: where the bags come from.
        store: the store's folder.
        labels: labels (and splits) by bag id; they go before what the source says.
        missing: what to do with a bag that has no line in ``labels``, and a line without a bag: an
            ``error`` before anything is read, ``skip`` and count them, or take bags without a line as
            ``unlabelled``, as if it were there and empty.
        skip_errors: whether a bag that cannot be read is left out, with its reason, instead of ending the import.
        dtype: what features are kept in; None keeps theirs.
        split: split of bags for which neither ``labels`` nor the source names one.
        part_bytes: features after which a shard is closed.
        on_bag: called with the bags seen so far and their number.
    """
    there = BagStore.open(store) if (Path(store) / HEADER).exists() else None
    if there is not None and isinstance(importer, FollowingImporter):
        importer = importer.following(there.header.features, there.path)
    ids = importer.ids()
    _check_distinct(ids, importer.source.name)
    chosen = Matched(frozenset(ids)) if labels is None else matched(ids, labels, missing)
    report = _Tally()
    with StoreWriter(store, dtype, importer.features, importer.source, part_bytes) as writer:
        for seen, bag in enumerate(importer.bags(), start=1):
            if bag.id in writer.done:
                report.present += 1
            elif bag.id in chosen.bags:
                _take(bag, writer, labels, split, skip_errors, report)
            if on_bag is not None:
                on_bag(seen, len(ids))
        if report.left_out and not report.added + report.present:
            raise InvalidInput(f"none of the {len(ids)} bags could be read; the first: {report.left_out[0]}", store)
        differing = 0 if labels is None or there is None else _differing(there, writer.done, labels)
    left_out = tuple(report.left_out)
    return ImportReport(
        report.added, report.instances, report.present, chosen.skipped, left_out, differing, chosen.hint
    )


@dataclass
class _Tally:
    """An `ImportReport` while it grows."""

    added: int = 0
    instances: int = 0
    present: int = 0
    left_out: list[str] = field(default_factory=list)


def _take(
    bag: BagReader, writer: StoreWriter, labels: LabelFile | None, split: str | None, skip_errors: bool, report: _Tally
) -> None:
    try:
        read = bag.read()
        label, own_split = _label_of(bag.id, read, labels)
        for name, data in (read.pictures or {}).items():
            writer.picture(name, data)
        writer.add(bag.id, read.features, label, own_split or split, read.instances, read.truth)
    except AdmilError as error:
        if not skip_errors:
            raise
        report.left_out.append(str(error))
        return
    report.left_out += read.left_out
    report.added += 1
    report.instances += len(read.features)


def _label_of(bag: str, read: ReadBag, labels: LabelFile | None) -> tuple[int | None, str | None]:
    if labels is None:
        return read.label, read.split
    label, split = labels.get(bag, (None, None))
    return read.label if label is None else label, split or read.split


def _check_distinct(ids: Iterable[str], source: str) -> None:
    seen: set[str] = set()
    for bag in ids:
        if bag in seen:
            raise InvalidInput(f"bag {bag!r} comes more than once in {source}; bag ids must be distinct", bag)
        seen.add(bag)


def _differing(store: BagStore, bags: set[str], labels: LabelFile) -> int:
    """Return how many of some bags of a store the label file gives another label or split."""
    count = 0
    for bag in bags & labels.keys() & set(store.ids):
        label, split = labels[bag]
        number = store.index.number(bag)
        count += label not in (None, store.known_labels[number]) or split not in (None, store.splits[number])
    return count
