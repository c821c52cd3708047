"""An import that is killed goes on as if nothing had happened; `make stress` kills it more often."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.store.kills import SOURCES, killed_and_resumed


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of multiprocessing, about threads beside forks
@pytest.mark.parametrize("kind", SOURCES)
def test_a_killed_import_goes_on_to_the_same_bytes(kind: str, tmp_path: Path) -> None:
    assert killed_and_resumed(kind, tmp_path, 3, random.Random(0)) >= 1
