"""What the cache holds is said, and deleted on demand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from admil.features import FeatureCache
from tests.cli.calling import call


@pytest.fixture(autouse=True)
def _a_filled_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADMIL_CACHE", str(tmp_path / "cache"))
    FeatureCache().vectors({"encoder": "net"}, 2).add({bytes([k]) * 32: np.ones(2, np.float32) for k in range(3)})
    (tmp_path / "cache" / "downloads" / "mnist").mkdir(parents=True)
    (tmp_path / "cache" / "downloads" / "mnist" / "a.gz").write_bytes(b"x" * 2_000)


def test_what_is_there_is_counted(tmp_path: Path) -> None:
    out = call("cache").out
    assert f"Cache: {tmp_path / 'cache'}" in out
    assert "features   3 vectors, " in out
    assert "downloads  1 file, 2.0 kB" in out
    assert "deleted" not in out


@pytest.mark.parametrize(("part", "features", "downloads"), [("features", 0, 1), ("downloads", 3, 0), ("all", 0, 0)])
def test_what_is_asked_for_is_deleted(part: str, features: int, downloads: int, tmp_path: Path) -> None:
    done = call("cache", "--clear", part)
    assert done.code == 0
    assert done.out.count("deleted") == (features == 0) + (downloads == 0)
    assert FeatureCache().size().entries == features
    assert len(list((tmp_path / "cache").rglob("*.gz"))) == downloads


def test_an_empty_cache_has_nothing_to_delete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADMIL_CACHE", str(tmp_path / "none"))
    assert "features   0 vectors, 0 bytes deleted" in call("cache", "--clear", "all").out
    assert not (tmp_path / "none").exists()
