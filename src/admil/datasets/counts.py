"""What a built data set holds: the counts of the paper's Table 1, and whether its bags keep the rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from admil.bags import IntArray
from admil.oracle import Truth
from admil.store import BagStore

__all__ = ["BagCount", "bag_counts", "broken_rules"]

_PLACE = ("path", "left", "top", "right", "bottom")


@dataclass(frozen=True)
class BagCount:
    """The bags of one split with one label.

    Attributes:
        split: the split; None for bags that have none.
        label: 1 or 0; None for bags whose label is not known.
        bags: how many.
        instances: theirs, together.
        positives: positive instances among them; None where the truth is not known.
    """

    split: str | None
    label: int | None
    bags: int
    instances: int
    positives: int | None

    @property
    def mean_size(self) -> float:
        """Instances of a bag, on average."""
        return self.instances / self.bags

    @property
    def positive_share(self) -> float | None:
        """Positive instances among the instances; None where the truth is not known."""
        return None if self.positives is None else self.positives / self.instances


def bag_counts(store: BagStore) -> tuple[BagCount, ...]:
    """Count what a store holds by split (training first) and label (positive first)."""
    positives = _positives(store)
    sizes = store.index.sizes
    splits = sorted({str(split) for split in store.splits}, key=lambda split: (split != "train", split))
    counts = []
    for split in splits:
        for label in (1, 0, -1):
            chosen = np.array([str(each) == split for each in store.splits]) & (store.known_labels == label)
            if chosen.any():
                named = None if split == "None" else split
                found = None if positives is None else int(positives[chosen].sum())
                known = None if label < 0 else label
                counts.append(BagCount(named, known, int(chosen.sum()), int(sizes[chosen].sum()), found))
    return tuple(counts)


def broken_rules(store: BagStore, positives: tuple[int, int] | None = None, reuse: bool = False) -> tuple[str, ...]:
    """Return a sentence for each rule that the bags break, () where they keep all.

    The rules: no instance is in a bag twice, or in two bags, or at least (with ``reuse``) in bags of two splits; a
    negative bag has no positive instance, a positive one has one; and as many as were ordered.

    Args:
        store: the column ``origin`` of its instance table, or ``path`` and box, tell instances apart; where there
            are none, no instance is taken for another.
        positives: least and most positive instances of a positive bag; None for no limits.
        reuse: whether an instance may be in several bags of a split.
    """
    broken = list(_repeated(store, reuse))
    found = _positives(store)
    if found is not None:
        least, most = positives or (1, int(store.index.sizes.max()))
        for number, count in enumerate(found.tolist()):
            bag, label = store.ids[number], store.known_labels[number]
            if label == 0 and count:
                broken.append(f"negative bag {bag!r} has {count} positive instances")
            if label == 1 and not least <= count <= most:
                broken.append(f"positive bag {bag!r} has {count} positive instances, not {least} to {most}")
    return tuple(broken)


def _positives(store: BagStore) -> IntArray | None:
    """Return the number of positive instances of each bag, (B,); None where the truth is not known."""
    if not any(part.truth for part in store.header.parts):
        return None
    truth = Truth.of_store(store).positive
    return np.add.reduceat(truth.astype(np.int64), store.index.offsets[:-1])


def _repeated(store: BagStore, reuse: bool) -> Iterator[str]:
    split_of = dict(zip(store.ids, map(str, store.splits), strict=True))
    seen: dict[tuple[object, ...], str] = {}
    here: set[tuple[str, tuple[object, ...]]] = set()
    for bag, instance in _instances(store):
        other = seen.setdefault(instance, bag)
        name = "/".join(map(str, instance))
        if (bag, instance) in here:
            yield f"instance {name} is in bag {bag!r} twice"
        elif other != bag and (not reuse or split_of[other] != split_of[bag]):
            yield f"instance {name} is in bag {other!r} and in bag {bag!r}"
        here.add((bag, instance))


def _instances(store: BagStore) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Yield (bag, what tells the instance apart) of every instance of these bags that something tells apart."""
    for bag in store.ids:
        for row in store.details(bag):
            instance = (row["origin"],) if "origin" in row else tuple(row.get(name) for name in _PLACE)
            if None not in instance:
                yield bag, instance
