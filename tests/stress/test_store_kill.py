"""SIGKILL at random moments of an import: what is resumed verifies and equals an uninterrupted import."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.store.kills import SOURCES, killed_and_resumed


@pytest.mark.stress
@pytest.mark.parametrize("kind", SOURCES)
def test_twenty_kills_leave_no_trace(kind: str, tmp_path: Path) -> None:
    assert killed_and_resumed(kind, tmp_path, 20, random.Random(1)) >= 10
