"""Mangled sources: an import ends in an error of ours or in a store that verifies, whatever the bytes are.

A child process does the work, so that a crash of a library is told from a failed check, and the case can be
named.  A case is made from (seed, number) alone; this repeats some:

    python -m tests.stress.test_importers_fuzz SEED FIRST STOP
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
from tests.importers.sources import KINDS, Kind

ROOT = Path(__file__).parents[2]
FEW, MANY, SHARE = 280, 10_500, 1_500
MEMORY = 6 * 2**30
"""Address space of the child: more than two bags as large as a source may unpack to."""

INTERESTING = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)
SCRAPS = (
    b"\0",
    b"\n",
    b'"',
    b",",
    b"{",
    b"[[",
    b"nan",
    b"1e999",
    b"-",
    b"\xff\xfe",
    b"\x1f\x8b",
    b"PK\x03\x04",
    b"\\ud8",
)
IN_MEMORY = Path("/dev/shm")
"""Where there is such a folder, nothing waits for a disk."""


def mangle(data: bytes, others: Sequence[bytes], generator: np.random.Generator) -> bytes:
    """Change bytes in one to four of the ways that files go wrong."""
    changed = bytearray(data)
    for _ in range(generator.integers(1, 5)):
        size = len(changed)
        start, end = sorted(int(i) for i in generator.integers(0, size + 1, 2))
        if generator.random() < 0.7:
            end = min(end, start + int(generator.integers(1, 9)))
        piece = bytes(changed[start:end])
        match generator.integers(0, 9):
            case 0 if size:  # flip bits
                for place in generator.integers(0, size, generator.integers(1, 9)):
                    changed[place] ^= 1 << int(generator.integers(0, 8))
            case 1:  # cut off
                del changed[start:]
            case 2:  # take out
                del changed[start:end]
            case 3:  # put in
                changed[start:start] = generator.bytes(int(generator.integers(1, 65)))
            case 4:  # say twice
                changed[start:start] = piece * int(generator.integers(1, 4))
            case 5:  # swap
                there = int(generator.integers(0, size + 1))
                changed[there : there + len(piece)] = piece
            case 6:  # a piece of another file
                other = others[int(generator.integers(0, len(others)))]
                begin = int(generator.integers(0, len(other) + 1))
                changed[start:end] = other[begin : begin + int(generator.integers(1, 257))]
            case 7:  # a number that means something
                width = int(generator.choice([1, 2, 4, 8]))
                value = INTERESTING[int(generator.integers(0, len(INTERESTING)))] % 256**width
                changed[start : start + width] = value.to_bytes(width, "little")
            case _:  # a word that means something
                changed[start:end] = SCRAPS[int(generator.integers(0, len(SCRAPS)))]
    return bytes(changed)


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


def run_cases(seed: int, first: int, stop: int) -> Counter[str]:
    """Run cases; the number of each is written first, for whoever finds the body."""
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as name:
        folder = Path(name)
        sources = [Pristine.write(kind, folder / kind.name) for kind in KINDS]
        others = [data for source in sources for data in source.files.values()]
        for case in range(first, stop):
            generator = np.random.default_rng([seed, case])
            source = sources[case % len(sources)]
            file = source.mangled(others, generator)
            sys.stderr.write(f"case {case}: {source.kind.name}, {file.name}\n")
            ends[attempt(source, folder / "store", bool(generator.integers(0, 2)))] += 1
            file.write_bytes(source.files[file])
            shutil.rmtree(folder / "store", ignore_errors=True)
    return ends


def fuzz(seed: int, first: int, stop: int) -> Counter[str]:
    """Run cases in a process of their own; fail with the case that ended it."""
    arguments = [sys.executable, "-m", "tests.stress.test_importers_fuzz", *map(str, (seed, first, stop))]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, f"seed {seed}, exit {done.returncode}: {done.stderr[-3000:]}"
    return Counter({name: int(count) for name, count in (line.split(": ") for line in done.stdout.splitlines())})


def test_mangled_sources_end_in_an_error_or_a_sound_store() -> None:
    ends = fuzz(20_220_814, 0, FEW)
    assert sum(ends.values()) == FEW
    assert ends["an error"] > FEW / 4
    assert ends["a store"] > FEW / 20


@pytest.mark.stress
def test_many_mangled_sources_end_in_an_error_or_a_sound_store() -> None:
    seed = int(os.environ.get("ADMIL_FUZZ_SEED", secrets.randbelow(2**32)))
    sys.stdout.write(f"seed {seed}\n")
    ends: Counter[str] = Counter()
    for first in range(0, MANY, SHARE):
        ends += fuzz(seed, first, min(MANY, first + SHARE))
    sys.stdout.write(f"{dict(ends)}\n")
    assert sum(ends.values()) == MANY


def main() -> None:
    warnings.simplefilter("error")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        ends = run_cases(*map(int, sys.argv[1:4]))
    except BaseException:
        traceback.print_exc()
        raise SystemExit(1) from None
    for name, count in ends.items():
        sys.stdout.write(f"{name}: {count}\n")


if __name__ == "__main__":
    main()
