"""A store of which any file is mangled is refused, reported, or still says what it said.

`make stress` does the same thousands of times (tests/stress/test_store_damage.py).
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from admil.store import BagStore, Source
from tests.store.damage import check, mangle
from tests.store.making import full


def sound(folder: Path) -> BagStore:
    """Write a store with everything, pictures included."""
    with BagStore.create(folder, source=Source(kind="test", name="x", options={"a": [1]}), part_bytes=300) as writer:
        for each in full(9):
            assert each.instances is not None
            paths = [writer.picture(f"{each.bag} {place}.png", b"data") for place in range(len(each.features))]
            each.instances["path"] = paths
            each.add(writer)
    return BagStore.open(folder)


def damaged_again_and_again(tmp_path: Path, seeds: Iterable[int]) -> Counter[str]:
    """Mangle copies of a store; return how often it was refused, reported, or intact all the same."""
    store, seen = sound(tmp_path / "sound"), Counter[str]()
    assert check(store.path, store, "") == "intact"
    for seed in seeds:
        folder = tmp_path / "mangled"
        shutil.copytree(store.path, folder)
        how = mangle(folder, random.Random(seed))
        try:
            seen[check(folder, store, how)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {how}") from error
        shutil.rmtree(folder)
    return seen


def test_no_damage_goes_unnoticed(tmp_path: Path) -> None:
    seen = damaged_again_and_again(tmp_path, range(100))
    assert min(seen["refused"], seen["reported"]) >= 20, "the damage was of every kind"
    assert seen["intact"] >= 1, "such as a file put in its own place"
