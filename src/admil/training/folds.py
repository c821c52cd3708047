"""Which bags each member holds out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator

from admil.bags import BagIndex
from admil.errors import InvalidInput

__all__ = ["held_out_by_member"]


def held_out_by_member(
    index: BagIndex,
    members: int,
    folds: int,
    at_most: int,
    generator: Generator,
    groups: Sequence[object] | None = None,
) -> NDArray[np.bool_]:
    """Return (E, B) True where a member holds a bag out; all False where no split is possible.

    The bags are split into folds that are balanced in positive and negative bags and never divide a
    group; member e holds out fold e modulo the number of folds.  So every bag label trains most
    members, and every fold's bags are judged by members that never saw them.  Each fold needs a
    positive and a negative bag.

    Args:
        index: bags with labels.
        members: E.
        folds: folds wanted; fewer are made where there are fewer groups.  0 holds out nothing.
        at_most: bags that may be held out, over all folds.
        generator: shuffles groups.
        groups: one per bag; bags of a group stay together.  None makes every bag its own.
    """
    none = np.zeros((members, len(index)), dtype=bool)
    group_of = _group_numbers(index, groups)
    for count in range(min(folds, len(set(group_of.tolist()))), 1, -1):
        fold_of = _assign(index, group_of, count, generator)
        fold_of = _capped(index, fold_of, group_of, at_most)
        if _every_fold_has_both(index, fold_of, count):
            held_out: NDArray[np.bool_] = (np.arange(members) % count)[:, None] == fold_of[None, :]
            return held_out
    return none


def _group_numbers(index: BagIndex, groups: Sequence[object] | None) -> NDArray[np.int64]:
    if groups is None:
        return np.arange(len(index))
    if len(groups) != len(index):
        raise InvalidInput(f"expected one group per bag: {len(index)} bags, {len(groups)} groups", groups)
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(group, len(numbers)) for group in groups], dtype=np.int64)


def _assign(index: BagIndex, group_of: NDArray[np.int64], folds: int, generator: Generator) -> NDArray[np.int64]:
    """Deal shuffled groups, the largest first, to the fold that has fewest bags of their kind."""
    count = int(group_of.max()) + 1
    tally = np.zeros((count, 2))
    tally[:, 1] = np.bincount(group_of[index.positive], minlength=count)
    tally[:, 0] = np.bincount(group_of[index.negative], minlength=count)
    shuffled = torch.randperm(count, generator=generator).numpy()
    order = shuffled[np.argsort(-tally[shuffled].sum(1), kind="stable")]
    total = np.maximum(tally.sum(0), 1)
    filled = np.zeros((folds, 2))
    fold_of_group = np.zeros(count, dtype=np.int64)
    for group in order:
        load = ((filled + tally[group]) ** 2 / total**2).sum(1) - (filled**2 / total**2).sum(1)
        fold_of_group[group] = int(np.argmin(load))
        filled[fold_of_group[group]] += tally[group]
    return fold_of_group[group_of]


def _capped(
    index: BagIndex, fold_of: NDArray[np.int64], group_of: NDArray[np.int64], at_most: int
) -> NDArray[np.int64]:
    """Take bags (whole groups, the last dealt first) out of every fold until ``at_most`` are left."""
    share = at_most / len(index)
    if share >= 1:
        return fold_of
    capped = fold_of.copy()
    for label_bags in (index.positive, index.negative):
        for fold in range(int(fold_of.max()) + 1):
            bags = label_bags[fold_of[label_bags] == fold]
            keep = max(1, int(share * len(bags)))
            capped[bags[keep:]] = -1
    for group in set(group_of[(capped == -1) & (fold_of >= 0)].tolist()):
        inside = group_of == group
        if inside.sum() > 1 and (capped[inside] >= 0).any():
            capped[inside] = fold_of[inside]  # a group is held out whole
    return capped


def _every_fold_has_both(index: BagIndex, fold_of: NDArray[np.int64], folds: int) -> bool:
    return all(len(set(range(folds)) - set(fold_of[bags].tolist())) == 0 for bags in (index.positive, index.negative))
