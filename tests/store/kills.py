"""Imports in a process of their own, killed while they run."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
from multiprocessing.context import ForkServerContext
from pathlib import Path

import numpy as np

from admil.importers import ArrayImporter, run_import
from admil.store import BagStore
from tests.store.making import files_of

BAGS = 60
_PART_BYTES = 4_000


def bags_on_disk(folder: Path) -> Path:
    """Write bags as .npy files; return their folder."""
    folder.mkdir()
    chance = np.random.default_rng(0)
    for number in range(BAGS):
        np.save(folder / f"bag {number:03d}.npy", chance.normal(size=(chance.integers(1, 20), 16)).astype(np.float32))
    return folder


def import_and_die(bags: Path, store: Path, after: int, seconds: float) -> None:
    """Import bags; SIGKILL comes some time after so many of them, wherever the import is by then."""

    def on_bag(seen: int, total: int) -> None:
        if seen == after:
            threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()

    run_import(ArrayImporter(bags), store, part_bytes=_PART_BYTES, on_bag=on_bag)


def killed_and_resumed(tmp_path: Path, kills: int, chance: random.Random) -> int:
    """Kill an import at random moments, in a new folder each time; see that it goes on to the same bytes.

    Returns:
        How many kills left a store with some of the bags.
    """
    bags, whole = bags_on_disk(tmp_path / "bags"), tmp_path / "whole"
    run_import(ArrayImporter(bags), whole, part_bytes=_PART_BYTES)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    partly = 0
    for number in range(kills):
        store = tmp_path / str(number)
        _run(context, bags, store, chance)
        if (store / "store.json").exists():
            left = BagStore.open(store)
            assert left.verify() == ()
            partly += len(left) < BAGS
        run_import(ArrayImporter(bags), store, part_bytes=_PART_BYTES)
        assert BagStore.open(store).verify() == ()
        assert files_of(store) == files_of(whole)
    return partly


def _run(context: ForkServerContext, bags: Path, store: Path, chance: random.Random) -> None:
    after, seconds = chance.randrange(1, BAGS), chance.choice([0.0, 0.002, 0.02]) * chance.random()
    process = context.Process(target=import_and_die, args=(bags, store, after, seconds))
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL)
    process.close()
