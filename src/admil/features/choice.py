"""Encoders of pictures by name."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import torch

from admil.errors import InvalidInput
from admil.features.efficientnet import efficientnet_lite0
from admil.features.encoder import PictureEncoder
from admil.features.modules import Precision
from admil.features.onnxfile import OnnxEncoder
from admil.features.pixels import PixelEncoder
from admil.features.vgg import vgg16

__all__ = ["PictureEncoderName", "picture_encoder"]

PictureEncoderName = Literal["pixels", "efficientnet-lite0", "vgg16", "onnx"]


def picture_encoder(
    name: str = "efficientnet-lite0",
    *,
    size: int | None = None,
    weights: str | Path | None = None,
    device: str | torch.device = "cpu",
    batch: int | None = None,
    precision: Precision = "float32",
) -> PictureEncoder:
    """Return an encoder of pictures.

    Args:
        name: "pixels", "efficientnet-lite0" (extra ``images``), "vgg16" (fc2, 4,096 features; ``weights`` names
            the file of its weights) or "onnx" (extra ``onnx``; ``weights`` names the model file).
        size: side that pictures are squeezed to; None takes what the network was made for, and for
            "pixels" keeps them as they are.
        weights: a file, for "vgg16" and "onnx" only.
        device: where to compute.
        batch: pictures at a time; None takes what suits the device.
        precision: see `ModuleEncoder`.

    Raises:
        InvalidInput: no such encoder, or arguments that it does not take.
        MissingExtra: its package is not installed.
    """
    if name not in get_args(PictureEncoderName):
        raise InvalidInput(
            f"an encoder of pictures is one of {', '.join(get_args(PictureEncoderName))}, got {name!r}", name
        )
    if (name in ("vgg16", "onnx")) != (weights is not None):
        rule = "needs a file of weights: give weights" if weights is None else "takes no file of weights"
        raise InvalidInput(f"the encoder {name!r} {rule}", name)
    if name in ("pixels", "onnx") and (str(device) != "cpu" or precision != "float32"):
        raise InvalidInput(
            f"the encoder {name!r} computes on the processor, in its own precision: leave both out", name
        )
    if name == "pixels":
        return PixelEncoder(size)
    if name == "efficientnet-lite0":
        return efficientnet_lite0(224 if size is None else size, device=device, batch=batch, precision=precision)
    assert weights is not None
    if name == "vgg16":
        return vgg16(weights, 224 if size is None else size, device=device, batch=batch, precision=precision)
    return OnnxEncoder(weights, size, batch=16 if batch is None else batch)
