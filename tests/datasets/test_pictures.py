"""Bags of small pictures."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from admil.datasets.dealing import Dealt
from admil.datasets.pictures import as_rgb, picture_bags


def test_grey_becomes_red_green_and_blue() -> None:
    grey = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    colour = as_rgb(grey)
    assert colour.shape == (2, 2, 3, 3)
    assert colour[1, 0, 2].tolist() == [8, 8, 8]


def test_a_bag_brings_its_features_a_sheet_and_where_each_picture_comes_from() -> None:
    pool = np.random.default_rng(0).integers(0, 256, (9, 4, 6, 3), np.uint8)
    bags = [
        Dealt("train-0", "train", np.array([7, 2, 5]), np.array([False, True, False])),
        Dealt("test-0", "test", np.array([1]), np.array([False])),
    ]
    asked = []

    def encode(bag: Dealt, pictures: object) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        asked.append(bag.id)
        return bag.rows[:, None].astype(np.float32)

    readers = list(
        picture_bags(bags, {"train": lambda rows: pool[rows], "test": lambda rows: 255 - pool[rows]}, encode)
    )
    assert [reader.id for reader in readers] == ["train-0", "test-0"]
    assert asked == []
    train, test = readers[0].read(), readers[1].read()
    assert asked == ["train-0", "test-0"]
    assert (train.label, train.split, test.label, test.split) == (1, "train", 0, "test")
    assert train.features.tolist() == [[7], [2], [5]]
    assert train.truth is not None
    assert train.truth.tolist() == [False, True, False]
    assert train.instances == {
        "path": ["pictures/train-0.png"] * 3,
        "left": [0, 6, 12],
        "top": [0, 0, 0],
        "right": [6, 12, 18],
        "bottom": [4, 4, 4],
        "origin": ["train/7", "train/2", "train/5"],
    }
    assert train.pictures is not None
    assert test.pictures is not None
    page = np.asarray(Image.open(io.BytesIO(train.pictures["train-0.png"])))
    np.testing.assert_array_equal(page[:, 6:12], pool[2])
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(test.pictures["test-0.png"]))), 255 - pool[1])
