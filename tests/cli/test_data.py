"""`admil data`, from the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from admil.datasets import CATALOG, CIFAR10, CIFAR100
from admil.store import BagStore
from tests.cli.calling import call
from tests.datasets.raws import TOPICS, made_posts, write_cifar, write_mnist, write_posts_tar, write_voc
from tests.store.making import files_of


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADMIL_CACHE", str(tmp_path / "cache"))


def cells(out: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]


def test_the_list_names_every_set_and_its_home() -> None:
    done = call("data", "list", columns=80)
    assert done.code == 0
    for entry in CATALOG.values():
        assert entry.name in done.out
        assert entry.home in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_digits_are_built_counted_and_checked(tmp_path: Path) -> None:
    done = call("data", "build", "digits", "--out", tmp_path / "s", "--train-bags", 3, "--test-bags", 2)
    assert done.code == 0, done.err
    assert "digits (scikit-learn): seed 0, targets 8, train_bags 3, test_bags 2, sizes 16 to 22" in done.out
    assert [row[:3] for row in cells(done.out)] == [
        ["train", "positive", "3"],
        ["train", "negative", "3"],
        ["test", "positive", "2"],
        ["test", "negative", "2"],
    ]
    assert [row[5] for row in cells(done.out)] == ["3", "0", "2", "0"]
    assert "Checked: no instance is in two bags, positive bags have positives, negative bags have none." in done.out
    assert f"Next: admil fit {tmp_path / 's'} --out model" in done.out


def test_the_same_command_again_changes_nothing_and_another_seed_is_refused(tmp_path: Path) -> None:
    command = ("data", "build", "digits", "--out", tmp_path / "s", "--train-bags", 2, "--test-bags", 1)
    call(*command)
    before = files_of(tmp_path / "s")
    again = call(*command)
    assert again.code == 0
    assert "0 bags added, 6 were there" in again.out
    other = call(*command, "--seed", 1)
    assert other.code == 1
    assert "holds digits with other options already; name another folder, or delete it" in other.err
    assert files_of(tmp_path / "s") == before


def test_cifar_is_built_with_the_classes_and_numbers_asked_for(tmp_path: Path) -> None:
    labels = {"train": [number % 10 for number in range(100)], "test": [number % 10 for number in range(60)]}
    raw = write_cifar(tmp_path / "raw", CIFAR10, labels)
    options = ("--train-bags", 2, "--test-bags", 1, "--bag-size", 6, "--encoder", "pixels", "--size", 2)
    done = call(
        *("data", "build", "cifar10", "--from", raw, "--out", tmp_path / "s", *options),
        *("--target", "frog", "--target", "cat", "--least", 2, "--most", 3, "--seed", 5),
    )
    assert done.code == 0, done.err
    assert "targets frog and cat" in done.out
    assert "positives 2 to 3" in done.out
    store = BagStore.open(tmp_path / "s")
    assert store.index.sizes.tolist() == [6] * 6
    truth = dict(store.truth_rows())
    assert all(2 <= sum(truth[bag]) <= 3 for bag, label in zip(store.ids, store.known_labels, strict=True) if label)


def test_the_superclasses_of_cifar100_are_found(tmp_path: Path) -> None:
    labels = {"train": [number % 20 for number in range(80)], "test": [number % 20 for number in range(80)]}
    raw = write_cifar(tmp_path / "raw", CIFAR100, labels)
    options = ("--train-bags", 1, "--test-bags", 1, "--bag-size", 4, "--encoder", "pixels", "--size", 1, "--most", 2)
    done = call("data", "build", "cifar100", "--from", raw, "--out", tmp_path / "s", *options)
    assert done.code == 0, done.err
    assert "targets flowers" in done.out


def test_pictures_may_be_reused_where_that_is_asked_for(tmp_path: Path) -> None:
    labels = {"train": [1, *[0] * 9] * 2, "test": [1, *[0] * 9] * 2}
    raw = write_cifar(tmp_path / "raw", CIFAR10, labels)
    options = ("--train-bags", 4, "--test-bags", 1, "--bag-size", 8, "--most", 1, "--encoder", "pixels", "--size", 1)
    command = ("data", "build", "cifar10", "--from", raw, *options)
    assert "not enough train pictures" in call(*command, "--out", tmp_path / "s").err
    done = call(*command, "--out", tmp_path / "s", "--reuse")
    assert done.code == 0, done.err
    assert "Checked: no instance is in bags of two splits" in done.out


def test_voc_is_built_with_its_cells(tmp_path: Path) -> None:
    masks = {f"2007_{number:06d}": np.zeros((75, 120), np.uint8) for number in range(8)}
    for number, mask in enumerate(masks.values()):
        if number < 4:
            mask[:, :30] = 17
    raw = write_voc(tmp_path / "raw", masks)
    options = ("--target", "sheep", "--encoder", "pixels", "--size", 1)
    done = call("data", "build", "voc", "--from", raw, "--out", tmp_path / "s", *options)
    assert done.code == 0, done.err
    assert "target sheep" in done.out
    assert "cell 60 x 75" in done.out
    store = BagStore.open(tmp_path / "s")
    assert sorted(store.splits.tolist()) == ["test"] * 4 + ["train"] * 4
    assert store.index.sizes.tolist() == [2] * 8


def test_every_topic_of_the_newsgroups_gets_a_folder(tmp_path: Path) -> None:
    raw = write_posts_tar(tmp_path / "news.tar.gz", made_posts())
    options = ("--train-bags", 3, "--test-bags", 2, "--least", 4, "--most", 6, "--terms", 8)
    done = call("data", "build", "20newsgroups", "--from", raw, "--out", tmp_path / "news", *options)
    assert done.code == 0, done.err
    assert sorted(path.name for path in (tmp_path / "news").iterdir()) == sorted(TOPICS)
    assert done.out.count("Checked: ") == 3
    assert done.out.count("Next: ") == 1
    one = call(
        *("data", "build", "20newsgroups", "--from", raw, "--out", tmp_path / "one", *options),
        *("--topic", "sci.space", "--vocabulary", "all"),
    )
    assert one.code == 0, one.err
    assert "vocabulary all" in one.out
    assert len(BagStore.open(tmp_path / "one")) == 10


def test_mnist_bags_share_pictures_within_a_split(tmp_path: Path) -> None:
    raw = write_mnist(tmp_path / "raw", {split: [number % 10 for number in range(100)] for split in ("train", "test")})
    options = ("--train-bags", 3, "--test-bags", 2, "--mean", 4, "--variance", 1)
    done = call("data", "build", "mnist-bags", "--from", raw, "--out", tmp_path / "s", *options)
    assert done.code == 0, done.err
    assert "Checked: no instance is in bags of two splits" in done.out
    assert BagStore.open(tmp_path / "s").width == 784
    encoded = call(
        *("data", "build", "mnist-bags", "--from", raw, "--out", tmp_path / "e", *options),
        *("--encoded", "--encoder", "pixels", "--size", 2),
    )
    assert encoded.code == 0, encoded.err
    assert BagStore.open(tmp_path / "e").width == 12


def test_a_classic_set_that_cannot_be_downloaded_says_where_to_get_it(tmp_path: Path) -> None:
    done = call("data", "build", "musk1", "--out", tmp_path / "s")
    assert done.code == 1
    for words in ("musk1 cannot be downloaded by itself", "clean1.data", CATALOG["musk1"].home, "--from"):
        assert words in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cifar10", "--from", "{tmp}/none"], "none"),
        (["cifar10", "--encoder", "vgg16"], "the encoder 'vgg16' needs a file of weights"),
        (["voc", "--encoder", "vgg16", "--weights", "{tmp}/none"], "none"),
        (["voc", "--from", "{tmp}"], "there is no ImageSets/Segmentation/trainval.txt"),
        (["20newsgroups", "--from", "{tmp}/none"], "none"),
        (["mnist-bags", "--from", "{tmp}"], "train-images-idx3-ubyte"),
        (["digits", "--train-bags", "900"], "not enough pictures"),
    ],
)
def test_what_cannot_be_built_gets_one_sentence_and_no_download(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    """There is no network in these tests: a download would fail with other words."""
    name, *rest = (word.format(tmp=tmp_path) for word in arguments)
    done = call("data", "build", name, "--out", tmp_path / "s", *rest)
    assert done.code == 1
    assert words in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "s").exists()
