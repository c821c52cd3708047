"""SIGKILL at random moments of an import: what is resumed verifies and equals an uninterrupted import."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.store.kills import killed_and_resumed


@pytest.mark.stress
@pytest.mark.parametrize("seed", [1, 2])
def test_twenty_kills_leave_no_trace(seed: int, tmp_path: Path) -> None:
    assert killed_and_resumed(tmp_path, 20, random.Random(seed)) >= 10
