"""Which bags each member holds out."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from admil.bags import BagIndex, IntArray
from admil.errors import InvalidInput

__all__ = ["held_out_by_member", "still_held_out"]


def held_out_by_member(
    index: BagIndex,
    positive: IntArray,
    members: int,
    folds: int,
    at_most: int,
    generator: Generator,
    groups: Sequence[object] | Tensor | None = None,
) -> NDArray[np.bool_]:
    """Return (E, B) True where a member holds a bag out; all False where no split is possible.

    The bags are split into folds that are balanced in positive and negative bags and never divide a
    group; member e holds out fold e modulo the number of folds.  So every bag label trains most
    members, and every fold's bags are judged by members that never saw them.  Each fold needs a
    positive and a negative bag.

    Args:
        index: bags with labels.
        positive: numbers of the positive bags to judge by; any other (its label contradicted by its
            answers) goes where its group goes.
        members: E.
        folds: folds wanted; fewer are made where there are fewer groups.  0 holds out nothing.
        at_most: bags that may be held out, over all members.
        generator: shuffles groups.
        groups: one per bag; bags of a group stay together.  None makes every bag its own.
    """
    group_of = _group_numbers(index, groups)
    sizes = np.bincount(group_of)
    tally = np.stack([np.bincount(group_of[bags], minlength=len(sizes)) for bags in (index.negative, positive)], 1)
    for count in range(min(folds, len(sizes)), 1, -1):
        shuffled = torch.randperm(len(sizes), generator=generator).numpy()
        largest_first = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
        fold_of = _dealt(tally, largest_first, count)
        used = min(count, members)
        if sizes[(fold_of >= 0) & (fold_of < used)].sum() > at_most:
            fold_of = _capped(fold_of, tally, sizes, largest_first[::-1], at_most // used)
        if all((tally[fold_of == fold].sum(0) > 0).all() for fold in range(count)):
            held_out: NDArray[np.bool_] = (np.arange(members) % count)[:, None] == fold_of[group_of][None, :]
            return held_out
    return np.zeros((members, len(index)), dtype=bool)


def still_held_out(index: BagIndex, positive: IntArray, before: Sequence[Collection[str]]) -> NDArray[np.bool_] | None:
    """Return (E, B) True where a member that goes on training has held a bag out so far, by its id.

    Other folds would judge members by bags that they have seen.  None where all of these bags are new
    to the members, so that any folds will do; all False where no member has kept a bag of each kind.

    Args:
        index: bags with labels.
        positive: numbers of the positive bags to judge by.
        before: by member, the ids of the bags it held out.
    """
    known = set().union(*before)
    if known and not known & set(index.ids):
        return None
    held_out = np.array([[bag in ids for bag in index.ids] for ids in map(set, before)], dtype=bool)
    both = held_out[:, positive].any(1) & held_out[:, index.negative].any(1)
    return held_out & both.any()


def _group_numbers(index: BagIndex, groups: Sequence[object] | Tensor | None) -> IntArray:
    if groups is None:
        return np.arange(len(index))
    if len(groups) != len(index):
        raise InvalidInput(f"expected one group per bag: {len(index)} bags, {len(groups)} groups", groups)
    names = groups.tolist() if isinstance(groups, Tensor | np.ndarray) else groups  # a 0-d tensor equals no other
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)


def _dealt(tally: IntArray, order: IntArray, folds: int) -> IntArray:
    """Deal groups in order, each to the fold that has fewest bags of its kind; -1 for one without any."""
    total = np.maximum(tally.sum(0), 1)
    filled = np.zeros((folds, 2))
    fold_of = np.full(len(tally), -1, dtype=np.int64)
    for group in order[tally[order].any(1)]:
        load = ((filled + tally[group]) ** 2 / total**2).sum(1) - (filled**2 / total**2).sum(1)
        fold_of[group] = int(np.argmin(load))
        filled[fold_of[group]] += tally[group]
    return fold_of


def _capped(fold_of: IntArray, tally: IntArray, sizes: IntArray, order: IntArray, quota: int) -> IntArray:
    """Keep whole groups of each fold, in order, up to ``quota`` bags; -1 for the others."""
    capped = np.full_like(fold_of, -1)
    for fold in range(int(fold_of.max()) + 1):
        waiting = order[fold_of[order] == fold]
        kept = np.zeros(2)
        left = quota
        while len(waiting := waiting[sizes[waiting] <= left]):
            wanted = int(np.argmin(kept / np.maximum(tally.sum(0), 1)))  # keep the two kinds in proportion
            holding = waiting[tally[waiting, wanted] > 0]
            if not len(holding):
                break
            chosen = holding[0]
            capped[chosen] = fold
            kept += tally[chosen]
            left -= sizes[chosen]
            waiting = waiting[waiting != chosen]
    return capped
