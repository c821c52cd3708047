"""Mangled sources: an import ends in an error of ours or in a store that verifies, whatever the bytes are.

A child process does the work, so that a crash of a library is told from a failed check, and the case can be
named.  A case is made from (seed, number) alone; this repeats some of an importer:

    python -m tests.stress.test_importers_fuzz IMPORTER SEED FIRST STOP
"""

from __future__ import annotations

import os
import resource
import secrets
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from admil.errors import AdmilError
from admil.importers import run_import
from admil.store import BagStore
from tests.importers.sources import ENCODED, KINDS, Kind
from tests.mangling import mangle

ROOT = Path(__file__).parents[2]
FEW, MANY, SHARE = 40, 10_000, 2_500
"""Cases for each importer: in every run of the tests, in the long one, and of those in one process."""

SOURCES: dict[str, list[Kind]] = {}
for _kind in (*KINDS, *ENCODED):
    SOURCES.setdefault(_kind.name.split("-")[0], []).append(_kind)

MEMORY = 6 * 2**30
"""Address space of the child: more than two bags as large as a source may unpack to."""

IN_MEMORY = Path("/dev/shm")
"""Where there is such a folder, nothing waits for a disk."""


@dataclass(frozen=True)
class Pristine:
    """A source as it was written, to be mangled and put back."""

    kind: Kind
    folder: Path
    path: Path
    files: dict[Path, bytes]

    @classmethod
    def write(cls, kind: Kind, folder: Path) -> Pristine:
        folder.mkdir()
        path = kind.write(folder)
        if not kind.labelled:
            kind.labels(folder)
        files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
        return cls(kind, folder, path, {file: file.read_bytes() for file in files})

    def mangled(self, others: Sequence[bytes], generator: np.random.Generator) -> Path:
        """Change a file, or lose it; return which."""
        file = list(self.files)[int(generator.integers(0, len(self.files)))]
        if generator.random() < 0.02:
            file.unlink()
        else:
            file.write_bytes(mangle(self.files[file], others, generator))
        return file


def attempt(source: Pristine, store: Path, skip_errors: bool) -> str:
    """Import a source; return how that ended."""
    try:
        labels = None if source.kind.labelled else source.kind.labels(source.folder)
        run_import(source.kind.open(source.path), store, labels=labels, skip_errors=skip_errors, part_bytes=48)
        ended = "a store"
    except AdmilError:
        ended = "an error"
    if (store / "store.json").exists():
        assert BagStore.open(store).verify() == ()
    else:
        assert ended == "an error"
    return ended


def run_cases(importer: str, seed: int, first: int, stop: int) -> Counter[str]:
    """Run cases; the number of each is written first, for whoever finds the body."""
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as name:
        folder = Path(name)
        everything = {kind.name: Pristine.write(kind, folder / kind.name) for kind in (*KINDS, *ENCODED)}
        others = [data for source in everything.values() for data in source.files.values()]
        sources = [everything[kind.name] for kind in SOURCES[importer]]
        for case in range(first, stop):
            generator = np.random.default_rng([seed, case])
            source = sources[case % len(sources)]
            file = source.mangled(others, generator)
            sys.stderr.write(f"case {case}: {source.kind.name}, {file.name}\n")
            ends[attempt(source, folder / "store", bool(generator.integers(0, 2)))] += 1
            file.write_bytes(source.files[file])
            shutil.rmtree(folder / "store", ignore_errors=True)
    return ends


def fuzz(importer: str, seed: int, first: int, stop: int) -> Counter[str]:
    """Run cases in a process of their own; fail with the case that ended it."""
    arguments = [sys.executable, "-m", "tests.stress.test_importers_fuzz", importer, *map(str, (seed, first, stop))]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, f"{importer}, seed {seed}, exit {done.returncode}: {done.stderr[-3000:]}"
    return Counter({name: int(count) for name, count in (line.split(": ") for line in done.stdout.splitlines())})


@pytest.mark.parametrize("importer", SOURCES)
def test_mangled_sources_end_in_an_error_or_a_sound_store(importer: str) -> None:
    ends = fuzz(importer, 20_220_814, 0, FEW)
    assert sum(ends.values()) == FEW
    assert ends["an error"] >= FEW / 8


@pytest.mark.stress
@pytest.mark.parametrize("importer", SOURCES)
def test_many_mangled_sources_end_in_an_error_or_a_sound_store(importer: str) -> None:
    seed = int(os.environ.get("ADMIL_FUZZ_SEED", secrets.randbelow(2**32)))
    ends: Counter[str] = Counter()
    for first in range(0, MANY, SHARE):
        ends += fuzz(importer, seed, first, min(MANY, first + SHARE))
    sys.stderr.write(f"{importer}, seed {seed}: {dict(ends)}\n")
    assert sum(ends.values()) == MANY
    assert min(ends["an error"], ends["a store"]) > MANY / 1000


def main() -> None:
    warnings.simplefilter("error")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        ends = run_cases(sys.argv[1], *map(int, sys.argv[2:5]))
    except BaseException:
        traceback.print_exc()
        raise SystemExit(1) from None
    for name, count in ends.items():
        sys.stdout.write(f"{name}: {count}\n")


if __name__ == "__main__":
    main()
