"""MNIST-bags."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admil.datasets import MnistBags, bag_counts, broken_rules
from admil.datasets.mnist import MNIST_DOWNLOADS
from admil.errors import CorruptFile, InvalidInput
from admil.features import PixelEncoder, read_picture
from admil.importers import run_import
from tests.store.making import files_of

from .raws import build, check_seeds, idx, mnist_picture, write_mnist

LABELS = {"train": [number % 10 for number in range(300)], "test": [(number * 7) % 10 for number in range(200)]}
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def raw(folder: Path) -> Path:
    return write_mnist(folder / "raw", LABELS)


def small(path: Path, seed: int = 0, **options: Any) -> MnistBags:
    return MnistBags(path, seed, **{"train_bags": 6, "test_bags": 4, **options})


def origins(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(split, int(number)) for split, number in (row["origin"].split("/") for row in rows)]


def test_features_are_the_grey_values_of_the_pictures(tmp_path: Path) -> None:
    built = build(small(raw(tmp_path)), tmp_path / "s")
    assert built.store.width == 784
    assert built.store.header.features == {"encoder": "grey", "size": 28}
    for number in range(len(built.store)):
        features, _, rows = built.bag(number)
        expected = np.stack([mnist_picture(at) for _, at in origins(rows)]).reshape(len(rows), 784)
        np.testing.assert_allclose(features, expected / 255, rtol=1e-6)


def test_an_encoder_gets_the_pictures_in_grey(tmp_path: Path) -> None:
    built = build(small(raw(tmp_path), encoder=PixelEncoder(None)), tmp_path / "s")
    features, _, rows = built.bag(0)
    colours = features.reshape(-1, 28, 28, 3)
    expected = np.stack([mnist_picture(at) for _, at in origins(rows)])
    for channel in range(3):
        np.testing.assert_allclose(colours[..., channel], expected / 255, rtol=1e-6)


def test_the_contact_sheet_shows_the_pictures(tmp_path: Path) -> None:
    store = build(small(raw(tmp_path)), tmp_path / "s").store
    rows = store.details("test-0")
    page = read_picture(store.root_of("test-0") / rows[0]["path"])
    for row, (_, number) in zip(rows, origins(rows), strict=True):
        box = page[row["top"] : row["bottom"], row["left"] : row["right"], 1]
        np.testing.assert_array_equal(box, mnist_picture(number))


def test_bags_with_a_nine_are_positive_and_all_others_negative(tmp_path: Path) -> None:
    built = build(small(raw(tmp_path)), tmp_path / "s")
    assert broken_rules(built.store, reuse=True) == ()
    for number in range(len(built.store)):
        _, truth, rows = built.bag(number)
        assert {split for split, _ in origins(rows)} == {built.store.splits[number]}
        assert truth.tolist() == [LABELS[split][at] == 9 for split, at in origins(rows)]
    counts = bag_counts(built.store)
    assert [(count.split, count.label, count.bags) for count in counts] == [
        ("train", 1, 6),
        ("train", 0, 6),
        ("test", 1, 4),
        ("test", 0, 4),
    ]


def test_the_target_may_be_another_digit(tmp_path: Path) -> None:
    built = build(small(raw(tmp_path), target=3), tmp_path / "s")
    _, truth, rows = built.bag(0)
    assert truth.tolist() == [LABELS[split][at] == 3 for split, at in origins(rows)]


@pytest.mark.parametrize(("mean", "variance"), [(10.0, 2.0), (10.0, 4.0), (5.0, 0.0), (1.0, 2.0)])
def test_sizes_are_normal_rounded_and_one_at_least(mean: float, variance: float, tmp_path: Path) -> None:
    dataset = small(raw(tmp_path), train_bags=1500, test_bags=1, mean=mean, variance=variance)
    negative = [len(reader.read().features) for reader in list(dataset.bags())[1500:3000]]
    if mean == 1:
        assert min(negative) == 1
        return
    assert np.mean(negative) == pytest.approx(mean, abs=0.15)
    assert np.var(negative) == pytest.approx(variance + (variance > 0) / 12, rel=0.12)  # rounding adds a twelfth


def test_a_positive_bag_is_one_of_all_pictures_that_happens_to_hold_the_target(tmp_path: Path) -> None:
    dataset = small(raw(tmp_path), train_bags=2000, test_bags=1, mean=10, variance=0)
    found = Counter(int(reader.read().truth.sum()) for reader, _ in zip(dataset.bags(), range(2000), strict=False))  # type: ignore[union-attr]
    chances = np.array([0.0, 0.3874, 0.1937, 0.0574])  # of 1, 2, 3 nines among ten pictures, one in ten a nine
    expected = 2000 * chances / (1 - 0.3487)
    assert [found[number] for number in (1, 2)] == pytest.approx(expected[1:3], rel=0.1)
    assert found[3] == pytest.approx(expected[3], rel=0.3)
    assert found[0] == 0


def test_the_defaults_are_those_of_ilse_and_others(tmp_path: Path) -> None:
    assert MnistBags(raw(tmp_path), 5).source.options == {
        "seed": 5,
        "target": 9,
        "train_bags": 100,
        "test_bags": 500,
        "mean": 10.0,
        "variance": 2.0,
        "train_pictures": 300,
        "test_pictures": 200,
    }
    assert [download.name for download in MNIST_DOWNLOADS] == [f"{name}.gz" for name in FILES]


def test_packed_files_and_the_folders_of_torchvision_give_the_same_bags(tmp_path: Path) -> None:
    path = raw(tmp_path)
    (tmp_path / "packed").mkdir()
    (tmp_path / "tv" / "MNIST" / "raw").mkdir(parents=True)
    write_mnist(tmp_path / "tv" / "FashionMNIST" / "raw", {"train": [0] * 9, "test": [1] * 9})
    for name in FILES:
        (tmp_path / "packed" / f"{name}.gz").write_bytes(gzip.compress((path / name).read_bytes()))
        (tmp_path / "tv" / "MNIST" / "raw" / name).write_bytes((path / name).read_bytes())
    for name, place in (("a", path), ("b", tmp_path / "packed"), ("c", tmp_path / "tv")):
        run_import(small(place), tmp_path / name)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b") == files_of(tmp_path / "c")


def test_one_seed_gives_the_same_bytes_and_another_gives_others(tmp_path: Path) -> None:
    path = raw(tmp_path)
    check_seeds(lambda seed: small(path, seed), tmp_path / "stores")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 10}, "the target is a digit 0 to 9, got 10"),
        ({"target": -1}, "the target is a digit 0 to 9, got -1"),
        ({"train_bags": 0}, "each split needs a bag at least, got 0 for training and 4 for test"),
        ({"test_bags": 0}, "each split needs a bag at least, got 6 for training and 0 for test"),
        ({"mean": 0.5}, r"expected a mean size from 1 up and a variance from 0 up, got 0\.5 and 2"),
        ({"mean": float("nan")}, "expected a mean size from 1 up"),
        ({"variance": -1.0}, r"a variance from 0 up, got 10\.0 and -1\.0"),
        ({"mean": 500.0}, "expected pictures of 9 and of other digits, enough for a bag"),
        ({"variance": float("inf")}, "enough for a bag"),
        ({"seed": -3}, "a seed is a whole number from 0 up, got -3"),
    ],
    ids=str,
)
def test_orders_that_cannot_be_filled_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        small(raw(tmp_path), **options)


def test_a_target_that_no_picture_shows_is_refused(tmp_path: Path) -> None:
    path = write_mnist(tmp_path / "raw", {"train": [0, 1] * 50, "test": [9] * 50})
    with pytest.raises(InvalidInput, match="expected pictures of 9 and of other digits"):
        small(path)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content + b"\0",
        lambda content: b"",
        lambda content: content[:6],
        lambda content: b"\0\0\x0d" + content[3:],  # of floats
        lambda content: content[:3] + b"\2" + content[4:],  # another number of dimensions
        lambda content: content[:4] + b"\xff\xff\xff\xff" + content[8:],
        lambda content: gzip.compress(content),
    ],
    ids=["cut", "long", "empty", "head", "type", "dimensions", "count", "packed"],
)
def test_damaged_files_are_named(name: str, damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    file = raw(tmp_path) / name
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(CorruptFile, match=rf"{name} is no whole IDX file of [13] dimensions of bytes"):
        small(tmp_path / "raw")


def test_pictures_and_labels_must_be_as_many(tmp_path: Path) -> None:
    (raw(tmp_path) / FILES[1]).write_bytes(idx(np.zeros(299, np.uint8)))
    with pytest.raises(CorruptFile, match="300 train pictures do not fit 299 labels 0 to 9"):
        small(tmp_path / "raw")


def test_labels_are_digits(tmp_path: Path) -> None:
    (raw(tmp_path) / FILES[3]).write_bytes(idx(np.full(200, 10, np.uint8)))
    with pytest.raises(CorruptFile, match="200 test pictures do not fit 200 labels 0 to 9"):
        small(tmp_path / "raw")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (raw(tmp_path) / FILES[2]).unlink()
    with pytest.raises(CorruptFile, match=r"there is no t10k-images-idx3-ubyte in .*; expected the four IDX files"):
        small(tmp_path / "raw")
