"""A store of 8 GB is trained on and scored with less than 1.5 GB of memory beside the pages of its files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GIGABYTES, LIMIT_MB = 8, 1536


def run(what: str, folder: Path, *rest: str) -> dict[str, float]:
    """Run one of the three in a process of its own; return what it printed."""
    arguments = [sys.executable, "-m", "tests.stress.large_store", what, str(folder), *rest]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sys.stderr.write(f"{what}: {' '.join(done.stdout.split())}\n")
    return {name: float(value) for name, value in map(str.split, done.stdout.splitlines())}


@pytest.mark.stress
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_store_larger_than_its_memory_is_trained_on_and_scored(tmp_path: Path) -> None:
    try:
        if shutil.disk_usage(tmp_path).free < 2 * GIGABYTES * 2**30:
            pytest.skip(f"needs {2 * GIGABYTES} GB of free disk")
        made = run("make", tmp_path, str(GIGABYTES))
        assert sum(path.stat().st_size for path in (tmp_path / "store").rglob("*")) > GIGABYTES * 2**30
        fitted, scored = run("fit", tmp_path), run("score", tmp_path)
        assert fitted["auroc"] > 0.99
        assert scored["instances"] == GIGABYTES * 2**30 / 2048
        for each in (made, fitted, scored):
            assert each["peak"] < LIMIT_MB
    finally:
        shutil.rmtree(tmp_path / "store", ignore_errors=True)
