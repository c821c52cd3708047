"""SIGKILL at random moments of a benchmark: what goes on has the results of an uninterrupted run."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.bench.quick import killed_and_resumed


@pytest.mark.stress
def test_ten_kills_leave_no_trace(tmp_path: Path) -> None:
    assert killed_and_resumed(tmp_path, 10, random.Random(1)) >= 8
