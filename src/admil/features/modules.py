"""Any torch module as an encoder of pictures."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from admil.device import usable_device
from admil.errors import InvalidInput
from admil.features.encoder import Picture
from admil.features.pictures import checked_picture, resized

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "ModuleEncoder",
    "Precision",
    "checked_scaling",
    "module_digest",
    "stacked",
]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
"""Mean of the colours of ImageNet, 0 to 1, as networks trained on it with torchvision expect it."""

IMAGENET_STD = (0.229, 0.224, 0.225)
"""Standard deviation of the colours of ImageNet, likewise."""

Precision = Literal["float32", "bfloat16"]
"""What products are computed in; vectors are float32 either way."""


class ModuleEncoder:
    """What a torch module makes of pictures.

    Every picture is squeezed to ``size`` x ``size`` (the whole of it: nothing is cropped, sides are not kept in
    proportion), scaled to (colour / 255 - mean) / std and given to the module as (B, 3, size, size).  What comes back
    may be (B, D), or (B, D, H, W), which is averaged over the places.

    The module is copied, and the copy put into evaluation mode: training the module further does not change the
    encoder.  Its code is not part of ``identity``, only its name and weights: give another name after changing it.

    Args:
        module: the network.
        size: side of its input.
        mean: of the three colours, 0 to 1.
        std: likewise.
        name: what the features are called.
        device: where to compute.
        batch: pictures at a time; None takes 16 on a processor, whose caches hold no more, and 64 on a device.
        precision: "bfloat16" is quicker where the processor has it, and good to about two digits.
        weights: checksum of the weights; None takes that of the module's parameters and buffers.
    """

    def __init__(
        self,
        module: nn.Module,
        size: int = 224,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
        name: str = "module",
        *,
        device: str | torch.device = "cpu",
        batch: int | None = None,
        precision: Precision = "float32",
        weights: str | None = None,
    ) -> None:
        if size < 1 or (batch is not None and batch < 1):
            raise InvalidInput(f"size and batch are whole numbers from 1 up, got {size} and {batch}", (size, batch))
        if precision not in ("float32", "bfloat16"):
            raise InvalidInput(f"precision is float32 or bfloat16, got {precision!r}", precision)
        self.size, self.name, self.precision = size, name, precision
        self.mean, self.std = checked_scaling(mean, std)
        self.device = usable_device(device)
        self.batch = batch or (16 if self.device.type == "cpu" else 64)
        self._weights = module_digest(module) if weights is None else weights
        own: Any = copy.deepcopy(module).eval()
        self._module: nn.Module = own.to(self.device, memory_format=torch.channels_last)

    @cached_property
    def width(self) -> int:
        """The number of features of a picture, D, found by encoding a black one."""
        return int(self.encode([np.zeros((1, 1, 3), np.uint8)]).shape[1])

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `PictureEncoder`."""
        return {
            "encoder": self.name,
            "weights": self._weights,
            "size": self.size,
            "resize": "bilinear",
            "mean": list(self.mean),
            "std": list(self.std),
            "precision": self.precision,
        }

    def encode(self, pictures: Sequence[Picture]) -> NDArray[np.float32]:
        """See `PictureEncoder`."""
        if not len(pictures):
            return np.zeros((0, self.width), np.float32)
        parts = [pictures[start : start + self.batch] for start in range(0, len(pictures), self.batch)]
        return np.concatenate([self._encoded(part) for part in parts])

    @torch.inference_mode()
    def _encoded(self, pictures: Sequence[Picture]) -> NDArray[np.float32]:
        pixels = torch.from_numpy(stacked(pictures, self.size)).to(self.device)  # (B, size, size, 3)
        colours = pixels.float()
        colours -= torch.tensor([255 * value for value in self.mean], device=self.device)
        colours /= torch.tensor([255 * value for value in self.std], device=self.device)
        inputs = colours.permute(0, 3, 1, 2)  # (B, 3, size, size), channels last in memory
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            found = self._module(inputs)
        return self._pooled(found, len(pictures)).float().cpu().numpy()

    def _pooled(self, found: Tensor, count: int) -> Tensor:
        if isinstance(found, Tensor) and found.ndim == 4:
            found = found.mean((2, 3))
        if not isinstance(found, Tensor) or found.ndim != 2 or len(found) != count:
            came = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
            raise InvalidInput(
                f"the module {self.name!r} must return (B, D) or (B, D, H, W) for {count} pictures, it returned {came}",
                self.name,
            )
        return found


def checked_scaling(mean: Sequence[float], std: Sequence[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and std if they are values for three colours."""
    if len(mean) != 3 or len(std) != 3 or not all(map(math.isfinite, (*mean, *std))) or min(std) <= 0:
        raise InvalidInput(f"mean and std have a value for each of three colours, std above 0, got {mean} and {std}")
    return tuple(map(float, mean)), tuple(map(float, std))


def stacked(pictures: Sequence[Picture], size: int) -> NDArray[np.uint8]:
    """Return the pictures as one (B, size, size, 3) array."""
    return np.stack([resized(checked_picture(picture), size) for picture in pictures])


def module_digest(module: nn.Module) -> str:
    """Return the SHA-256 of a module's parameters and buffers: names, types, shapes and bytes.

    Raises:
        InvalidInput: its state holds what is no tensor, as that of quantized layers does.
    """
    digest = hashlib.sha256()
    state: dict[str, Any] = module.state_dict()
    state |= dict(module.named_buffers(remove_duplicate=False))  # those that are not saved count as well
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise InvalidInput(
                f"the module's state {name!r} is no tensor but {type(value).__name__}; "
                "give the checksum of its weights yourself (weights=…)",
                name,
            )
        data = value.detach().cpu().contiguous()
        digest.update(f"{name} {data.dtype} {tuple(data.shape)}\n".encode())
        digest.update(data.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
