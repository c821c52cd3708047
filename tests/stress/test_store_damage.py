"""Thousands of mangled stores: none is taken for a sound one, none makes anything but a clean error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.test_damage import damaged_again_and_again

pytestmark = pytest.mark.stress


@pytest.mark.parametrize("block", range(20))
def test_no_damage_goes_unnoticed(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    first = 1_000 + 300 * block
    assert sum(damaged_again_and_again(tmp_path, range(first, first + 300)).values()) == 300
