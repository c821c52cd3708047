"""CIFAR-10 and CIFAR-100 in bags."""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from admil.datasets import CIFAR10, CIFAR100, Cifar, CifarRelease, bag_counts, broken_rules
from admil.errors import CorruptFile, InvalidInput
from admil.features import FeatureCache, PixelEncoder, read_picture
from admil.importers import run_import
from tests.store.making import files_of

from .raws import MeanColour, build, check_seeds, cifar_colour, cifar_record, write_cifar

RELEASES = pytest.mark.parametrize("release", [CIFAR10, CIFAR100], ids=lambda release: release.kind)
TEN = {"train": [number % 10 for number in range(100)], "test": [(number * 3) % 10 for number in range(60)]}
HUNDRED = {"train": [number % 20 for number in range(160)], "test": [(number * 3) % 20 for number in range(100)]}


def raw(folder: Path, release: CifarRelease = CIFAR10) -> Path:
    return write_cifar(folder / "raw", release, TEN if release is CIFAR10 else HUNDRED)


def small(path: Path, release: CifarRelease = CIFAR10, seed: int = 0, **options: Any) -> Cifar:
    """Deal a few small bags, with the pixels as features unless told otherwise."""
    chosen: dict[str, Any] = {
        "encoder": PixelEncoder(),
        "train_bags": 4,
        "test_bags": 2,
        "size": 6,
        "positives": (1, 2),
    }
    return Cifar(release, path, seed, **{**chosen, **options})


def labels_of(release: CifarRelease, split: str) -> NDArray[np.int64]:
    return np.array((TEN if release is CIFAR10 else HUNDRED)[split])


def shown(rows: Sequence[dict[str, Any]]) -> list[tuple[str, int]]:
    """Return the split and the number of each picture."""
    return [(split, int(number)) for split, number in (row["origin"].split("/") for row in rows)]


# --- the pictures --------------------------------------------------------------------------------


@RELEASES
def test_every_pixel_has_its_colour_at_its_place(release: CifarRelease, tmp_path: Path) -> None:
    built = build(small(raw(tmp_path, release), release), tmp_path / "s")
    for bag in range(len(built.store)):
        features, _, rows = built.bag(bag)
        pictures = (features.reshape(-1, 32, 32, 3) * 255).round().astype(int)
        for picture, (_, number) in zip(pictures, shown(rows), strict=True):
            for row, column in ((0, 0), (0, 31), (31, 0), (13, 20), (31, 31)):
                assert tuple(picture[row, column]) == cifar_colour(number, row, column)


def test_taking_the_bytes_for_height_width_colour_would_scramble_them() -> None:
    pixels = np.frombuffer(cifar_record([3], 7)[1:], np.uint8)
    right = pixels.reshape(3, 32, 32).transpose(1, 2, 0)
    scrambled = pixels.reshape(32, 32, 3)
    expected = np.array([[cifar_colour(7, row, column) for column in range(32)] for row in range(32)])
    assert (right == expected).all()
    assert (scrambled == expected).all(axis=2).mean() < 0.01


def test_the_contact_sheet_shows_each_picture_in_its_box(tmp_path: Path) -> None:
    store = build(small(raw(tmp_path), size=10, train_bags=2), tmp_path / "s").store
    rows = store.details("train-0")
    page = read_picture(store.root_of("train-0") / rows[0]["path"])
    for row, (_, number) in zip(rows, shown(rows), strict=True):
        picture = page[row["top"] : row["bottom"], row["left"] : row["right"]]
        assert picture.shape == (32, 32, 3)
        for at in ((0, 0), (5, 30), (31, 31)):
            assert tuple(picture[at]) == cifar_colour(number, *at)


# --- the bags ------------------------------------------------------------------------------------


@RELEASES
def test_positives_are_the_pictures_of_the_papers_classes(release: CifarRelease, tmp_path: Path) -> None:
    built = build(small(raw(tmp_path, release), release), tmp_path / "s")
    targets = [1, 2, 5] if release is CIFAR10 else [2]  # automobile, bird, dog; flowers
    assert [release.classes[target] for target in targets] == list(release.targets)
    for number in range(len(built.store)):
        _, truth, rows = built.bag(number)
        classes = [labels_of(release, split)[at] for split, at in shown(rows)]
        assert truth.tolist() == np.isin(classes, targets).tolist()


def test_the_coarse_label_decides_in_cifar100_not_the_fine_one(tmp_path: Path) -> None:
    path = raw(tmp_path, CIFAR100)
    content = (path / "cifar-100-binary" / "train.bin").read_bytes()
    assert set(content[1 :: 2 + 3072]) == {2}  # a fine label that would make flowers of all
    built = build(small(path, CIFAR100), tmp_path / "s")
    assert 0 < built.truth.positive.mean() < 0.3


@RELEASES
def test_bags_keep_the_papers_rules(release: CifarRelease, tmp_path: Path) -> None:
    built = build(small(raw(tmp_path, release), release), tmp_path / "s")
    assert broken_rules(built.store, (1, 2)) == ()
    assert [(count.split, count.label, count.bags, count.instances) for count in bag_counts(built.store)] == [
        ("train", 1, 4, 24),
        ("train", 0, 4, 24),
        ("test", 1, 2, 12),
        ("test", 0, 2, 12),
    ]
    for number, split in enumerate(built.store.splits):
        assert {origin for origin, _ in shown(built.bag(number)[2])} == {split}


def test_the_defaults_are_those_of_table_1(tmp_path: Path) -> None:
    options = Cifar(CIFAR10, tenfold(tmp_path), 0, PixelEncoder(1)).source.options
    assert options == {
        "seed": 0,
        "targets": ["automobile", "bird", "dog"],
        "train_bags": 500,
        "test_bags": 100,
        "size": 32,
        "positives": [1, 3],
        "reuse": False,
        "train_pictures": 46_000,
        "test_pictures": 9_200,
    }
    assert CIFAR100.targets == ("flowers",)
    assert len(CIFAR100.classes) == 20
    assert list(CIFAR100.classes) == sorted(CIFAR100.classes)


def tenfold(folder: Path) -> Path:
    """Write pictures, black ones, as many as Table 1 takes: 46,000 and 9,200, three classes of ten positive."""
    place = folder / "cifar-10-batches-bin"
    place.mkdir(parents=True)
    for name, count in [*((f"data_batch_{number}.bin", 9_200) for number in range(1, 6)), ("test_batch.bin", 9_200)]:
        records = np.zeros((count, 3073), np.uint8)
        records[:, 0] = np.arange(count) % 10
        (place / name).write_bytes(records.tobytes())
    return place


def test_one_two_and_three_positives_are_as_likely(tmp_path: Path) -> None:
    path = tenfold(tmp_path)
    dataset = Cifar(CIFAR10, path, 0, MeanColour(), size=4, train_bags=1500, test_bags=1)
    found = Counter(int(reader.read().truth.sum()) for reader, _ in zip(dataset.bags(), range(1500), strict=False))  # type: ignore[union-attr]
    assert sorted(found) == [1, 2, 3]
    assert list(found.values()) == pytest.approx([500] * 3, rel=0.12)


def test_bags_of_one_split_do_not_change_with_the_number_of_the_other(tmp_path: Path) -> None:
    few, many = (build(small(raw(tmp_path / str(n)), test_bags=n), tmp_path / f"s{n}").store for n in (1, 3))
    for bag in few.where("train").ids:
        assert few[bag].equal(many[bag])


def test_the_targets_are_the_users(tmp_path: Path) -> None:
    built = build(small(raw(tmp_path), targets=["ship"]), tmp_path / "s")
    for number in range(len(built.store)):
        _, truth, rows = built.bag(number)
        assert truth.tolist() == [bool(labels_of(CIFAR10, split)[at] == 8) for split, at in shown(rows)]


def test_pictures_may_be_in_several_bags_if_one_asks_for_it(tmp_path: Path) -> None:
    path = raw(tmp_path)
    with pytest.raises(InvalidInput, match=r"not enough train pictures for 40 \+ 40 bags"):
        small(path, train_bags=40)
    built = build(small(path, train_bags=40, reuse=True), tmp_path / "s")
    assert broken_rules(built.store, (1, 2), reuse=True) == ()
    assert any("is in bag" in rule for rule in broken_rules(built.store, (1, 2)))


# --- where the files lie -------------------------------------------------------------------------


@RELEASES
def test_folder_folder_above_and_archive_give_the_same_bags(release: CifarRelease, tmp_path: Path) -> None:
    path = raw(tmp_path, release)
    with tarfile.open(tmp_path / "raw.tar.gz", "w:gz", compresslevel=1) as tar:
        tar.add(path / release.folder, arcname=release.folder)
    for name, place in (("a", path), ("b", path / release.folder), ("c", tmp_path / "raw.tar.gz")):
        run_import(small(place, release), tmp_path / name)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b") == files_of(tmp_path / "c")


# --- the same again ------------------------------------------------------------------------------


def test_one_seed_gives_the_same_bytes_and_another_gives_others(tmp_path: Path) -> None:
    path = raw(tmp_path)
    check_seeds(lambda seed: small(path, seed=seed), tmp_path / "stores")


def test_features_from_one_cache_are_the_same_bytes_and_are_made_once(tmp_path: Path) -> None:
    path, cache = raw(tmp_path), FeatureCache(tmp_path / "features")
    first, second = MeanColour(), MeanColour()
    run_import(small(path, encoder=first, cache=cache), tmp_path / "one")
    run_import(small(path, encoder=second, cache=FeatureCache(tmp_path / "features")), tmp_path / "two")
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert first.encoded > 40
    assert second.encoded == 0


def test_a_build_that_stops_goes_on_to_the_same_store(tmp_path: Path) -> None:
    path = raw(tmp_path)

    def stop(seen: int, total: int) -> None:
        if seen == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_import(small(path), tmp_path / "stopped", part_bytes=200_000, on_bag=stop)
    report = run_import(small(path), tmp_path / "stopped", part_bytes=200_000)
    assert report.present > 0
    run_import(small(path), tmp_path / "whole", part_bytes=200_000)
    assert files_of(tmp_path / "stopped") == files_of(tmp_path / "whole")


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": ["aeroplane"]}, "there is no class 'aeroplane'; choose among airplane, automobile, .*, truck"),
        ({"targets": []}, "name at least one class whose pictures are positive"),
        ({"train_bags": 0}, "each split needs a bag at least, got 0 for training and 2 for test"),
        ({"test_bags": -1}, "each split needs a bag at least, got 4 for training and -1 for test"),
        ({"positives": (0, 2)}, r"positives are .*, from 1 up to its 6 pictures, got \(0, 2\)"),
        ({"positives": (3, 2)}, r"positives are .* got \(3, 2\)"),
        ({"positives": (1, 7)}, r"positives are .* up to its 6 pictures, got \(1, 7\)"),
        ({"size": 0}, r"up to its 0 pictures, got \(1, 2\)"),
        ({"train_bags": 99}, r"not enough train pictures for 99 \+ 99 bags \(there are for \d+ bags\)"),
        ({"test_bags": 30}, r"not enough test pictures for 30 \+ 30 bags"),
        ({"targets": list(CIFAR10.classes)}, r"not enough train pictures .* \(there are for 0 bags\)"),
        ({"seed": -1}, "a seed is a whole number from 0 up, got -1"),
    ],
    ids=str,
)
def test_orders_that_cannot_be_filled_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        small(raw(tmp_path), **options)


@RELEASES
def test_a_missing_file_is_named(release: CifarRelease, tmp_path: Path) -> None:
    path = raw(tmp_path, release)
    missing = release.files["train"][-1]
    (path / release.folder / missing).unlink()
    with pytest.raises(
        CorruptFile, match=rf"there is no {missing} in .*; expected the binary version of {release.title}"
    ):
        small(path, release)
    with pytest.raises(CorruptFile, match=r"there is no file .*nowhere"):
        small(tmp_path / "nowhere", release)


@pytest.mark.parametrize("length", [0, 1, 3072, 3074, 20 * 3073 - 1])
def test_files_that_do_not_hold_whole_records_are_refused(length: int, tmp_path: Path) -> None:
    file = raw(tmp_path) / "cifar-10-batches-bin" / "data_batch_2.bin"
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(
        CorruptFile,
        match=rf"data_batch_2\.bin in .* has {length} bytes, expected whole records of 3073: it is truncated, or",
    ):
        small(tmp_path / "raw")


def test_a_label_that_names_no_class_is_refused(tmp_path: Path) -> None:
    file = raw(tmp_path) / "cifar-10-batches-bin" / "test_batch.bin"
    file.write_bytes(b"\x0a" + file.read_bytes()[1:])
    with pytest.raises(CorruptFile, match="label 10 names none of 10 classes"):
        small(tmp_path / "raw")
