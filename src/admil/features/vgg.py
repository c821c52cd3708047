"""VGG16 up to fc2: the features of the paper."""

from __future__ import annotations

import pickle
import struct
import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from admil.errors import CorruptFile, InvalidInput
from admil.features.modules import ModuleEncoder, Precision
from admil.store.documents import file_digest

__all__ = ["vgg16", "vgg16_fc2"]

_CHANNELS = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
"""Of each convolution; 0 is a halving."""

_UNUSED = ("classifier.6.weight", "classifier.6.bias")
"""The published file's last layer, which names the classes of ImageNet."""

_DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SafetensorError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
    struct.error,
)
"""What torch and safetensors raise on files that are not what they seem, or hold more than tensors."""


def vgg16(
    weights: str | Path,
    size: int = 224,
    *,
    device: str | torch.device = "cpu",
    batch: int | None = None,
    precision: Precision = "float32",
) -> ModuleEncoder:
    """Return VGG16 up to its second fully connected layer, after its ReLU: 4,096 features.

    Colours are scaled by ImageNet's mean and standard deviation, as the published weights want it.

    Args:
        weights: a file with the names that torchvision published, ``features.0.weight`` to
            ``classifier.3.bias``: a state dict (.pth, read without running code) or .safetensors.  The last layer,
            ``classifier.6``, may be there and is not used.
        size: side that pictures are squeezed to, from 32 up; it was trained at 224.
        device: where to compute.
        batch: see `ModuleEncoder`.
        precision: see `ModuleEncoder`.

    Raises:
        CorruptFile: the file is missing or cannot be read.
        InvalidInput: it holds other weights.
    """
    if size < 32:
        raise InvalidInput(f"VGG16 needs pictures of 32 pixels a side at least, got size {size}", size)
    path = Path(weights)
    state = _read(path)
    network = vgg16_fc2()
    _check(state, network.state_dict(), path)
    network.load_state_dict({name: value for name, value in state.items() if name not in _UNUSED}, assign=True)
    return ModuleEncoder(
        network.float(),
        size,
        name="vgg16-fc2",
        device=device,
        batch=batch,
        precision=precision,
        weights=file_digest(path),
    )


def vgg16_fc2() -> nn.Module:
    """Return the network, (B, 3, H, W) to (B, 4096), its weights not filled in."""
    layers: list[nn.Module] = []
    before = 3
    for channels in _CHANNELS:
        if channels:
            layers += [nn.Conv2d(before, channels, 3, padding=1, device="meta"), nn.ReLU(inplace=True)]
            before = channels
        else:
            layers.append(nn.MaxPool2d(2))
    network = nn.Sequential()
    network.add_module("features", nn.Sequential(*layers))
    network.add_module("average", nn.AdaptiveAvgPool2d(7))  # (B, 512, 7, 7), which changes nothing at 224 pixels
    network.add_module("flat", nn.Flatten())
    network.add_module(
        "classifier",
        nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096, device="meta"),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096, device="meta"),
            nn.ReLU(inplace=True),
        ),
    )
    return network


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise CorruptFile(f"there is no file {path}; give the file with the weights of VGG16", path)
    try:
        if path.suffix == ".safetensors":
            state = load_file(path)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of old formats
                state = torch.load(path, map_location="cpu", weights_only=True)
    except _DAMAGE as error:
        raise CorruptFile(
            f"{path} cannot be read: expected the weights of VGG16, .pth or .safetensors", path
        ) from error
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise CorruptFile(f"{path} holds no state dict: expected weights by name", path)
    return dict(state)


def _check(state: Mapping[str, Tensor], wanted: Mapping[str, Tensor], path: Path) -> None:
    missing = [name for name in wanted if name not in state]
    if missing:
        raise InvalidInput(
            f"{path} lacks {len(missing)} of the {len(wanted)} weights of VGG16, first {missing[0]}; "
            f"its first name is {next(iter(state), 'none')}; names must be those of torchvision's vgg16",
            path,
        )
    if other := [name for name in state if name not in wanted and name not in _UNUSED]:
        raise InvalidInput(f"{path} holds {other[0]}, which VGG16 does not have; it is another network's", path)
    for name, value in wanted.items():
        if state[name].shape != value.shape or not state[name].is_floating_point():
            raise InvalidInput(
                f"{path}: expected {name} with shape {tuple(value.shape)}, "
                f"got {state[name].dtype} {tuple(state[name].shape)}",
                name,
            )
