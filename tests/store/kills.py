"""Imports in a process of their own, killed while they run."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path

import numpy as np
from PIL import Image

from admil.datasets import DigitSet
from admil.features import PixelEncoder
from admil.importers import ArrayImporter, ImageImporter, Importer, TableImporter, TextImporter, run_import
from admil.store import BagStore
from tests.store.making import files_of

BAGS = 60
_PART_BYTES = 4_000
_WORDS = [f"word{number}" for number in range(23)]


def _arrays(folder: Path) -> Importer:
    """Bags as .npy files."""
    folder.mkdir(exist_ok=True)
    chance = np.random.default_rng(0)
    for number in range(BAGS):
        np.save(folder / f"bag {number:03d}.npy", chance.normal(size=(chance.integers(1, 20), 16)).astype(np.float32))
    return ArrayImporter(folder)


def _table(folder: Path) -> Importer:
    """Bags as rows of a CSV, with what a person sees and the truth."""
    chance = np.random.default_rng(1)
    lines = ["bag,label,truth,text,f0,f1,f2,f3"]
    for number in range(BAGS):
        label = number % 2
        for place in range(int(chance.integers(1, 20))):
            values = ",".join(f"{value:.4f}" for value in chance.normal(size=4))
            lines.append(f"b{number},{label},{int(label and place == 0)},row {place},{values}")
    folder.mkdir(exist_ok=True)
    (folder / "bags.csv").write_text("\n".join(lines))
    return TableImporter(folder / "bags.csv")


def _texts(folder: Path) -> Importer:
    """Posts, whose terms are chosen anew by the import that goes on."""
    chance = random.Random(2)
    lines = [
        json.dumps({"bag": f"thread {number}", "label": number % 2, "text": " ".join(chance.sample(_WORDS, 8))})
        for number in range(BAGS)
        for _ in range(chance.randint(1, 12))
    ]
    folder.mkdir(exist_ok=True)
    (folder / "posts.jsonl").write_text("\n".join(lines))
    return TextImporter(folder / "posts.jsonl", width=10)


def _images(folder: Path) -> Importer:
    """Folders of pictures, encoded on the way."""
    chance = np.random.default_rng(3)
    for number in range(BAGS):
        (folder / f"{number:03d}").mkdir(parents=True, exist_ok=True)
        for place in range(int(chance.integers(1, 6))):
            picture = chance.integers(0, 256, (12, 12, 3), dtype=np.uint8)
            Image.fromarray(picture).save(folder / f"{number:03d}" / f"{place}.png")
    return ImageImporter(folder, PixelEncoder(8))


def _digits(_: Path) -> Importer:
    """A data set that puts its pictures into the store."""
    return DigitSet(seed=0, train_bags=15, test_bags=15)


SOURCES: dict[str, Callable[[Path], Importer]] = {
    "arrays": _arrays,
    "table": _table,
    "texts": _texts,
    "images": _images,
    "digits": _digits,
}
"""Imports to kill, all of 60 bags; each writes its files into a folder and is the same in every process."""


def import_and_die(kind: str, files: Path, store: Path, after: int, seconds: float) -> None:
    """Import bags; SIGKILL comes some time after so many of them, wherever the import is by then."""

    def on_bag(seen: int, total: int) -> None:
        if seen == after:
            threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()

    run_import(SOURCES[kind](files), store, part_bytes=_PART_BYTES, on_bag=on_bag)


def killed_and_resumed(kind: str, tmp_path: Path, kills: int, chance: random.Random) -> int:
    """Kill an import at random moments, in a new folder each time; see that it goes on to the same bytes.

    Returns:
        How many kills left a store with some of the bags.
    """
    files, whole = tmp_path / "files", tmp_path / "whole"
    run_import(SOURCES[kind](files), whole, part_bytes=_PART_BYTES)
    assert len(BagStore.open(whole)) == BAGS
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    partly = 0
    for number in range(kills):
        store = tmp_path / str(number)
        _run(context, kind, files, store, chance)
        if (store / "store.json").exists():
            left = BagStore.open(store)
            assert left.verify() == ()
            partly += len(left) < BAGS
        run_import(SOURCES[kind](files), store, part_bytes=_PART_BYTES)
        assert BagStore.open(store).verify() == ()
        assert files_of(store) == files_of(whole)
    return partly


def _run(context: ForkServerContext, kind: str, files: Path, store: Path, chance: random.Random) -> None:
    after, seconds = chance.randrange(1, BAGS), chance.choice([0.0, 0.002, 0.02]) * chance.random()
    process = context.Process(target=import_and_die, args=(kind, files, store, after, seconds))
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL)
    process.close()
