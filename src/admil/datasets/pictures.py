"""Bags of small pictures: what CIFAR, MNIST and the digits have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admil.bags import IntArray
from admil.datasets.dealing import Dealt
from admil.datasets.sheets import boxes, contact_sheet
from admil.features import Picture
from admil.importers import BagReader, ReadBag

__all__ = ["Encode", "PictureSplits", "as_rgb", "picture_bags"]

Encode = Callable[[Dealt, Sequence[Picture]], NDArray[np.float32]]
"""Returns the features (n, D) of a bag with these pictures."""

PictureSplits = Mapping[str, Callable[[IntArray], NDArray[np.uint8]]]
"""By split, what returns the pictures (n, H, W, 3) of the given rows."""


def picture_bags(bags: Sequence[Dealt], splits: PictureSplits, encode: Encode) -> Iterator[BagReader]:
    """Yield dealt bags, their features made as they are read.

    Each brings a contact sheet, ``pictures/BAG.png``, the box of every instance on it, and the instance's
    ``origin``: its split and row in the raw data, which says where it comes from and not what it shows.
    """
    for bag in bags:
        yield BagReader(bag.id, partial(_read, bag, splits, encode))


def as_rgb(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return grey pictures (n, H, W) in colour, (n, H, W, 3)."""
    return np.repeat(grey[..., np.newaxis], 3, axis=3)


def _read(bag: Dealt, splits: PictureSplits, encode: Encode) -> ReadBag:
    pictures = splits[bag.split](bag.rows)
    name = f"{bag.id}.png"
    count, height, width = pictures.shape[:3]
    columns: dict[str, Sequence[Any]] = {
        "path": [f"pictures/{name}"] * count,
        **boxes(count, height, width),
        "origin": [f"{bag.split}/{row}" for row in bag.rows],
    }
    return ReadBag(
        encode(bag, list(pictures)),
        bag.label,
        bag.split,
        columns,
        bag.positive,
        pictures={name: contact_sheet(list(pictures))},
    )
