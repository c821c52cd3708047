"""A network in an ONNX file as an encoder of pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from admil.errors import CorruptFile, InvalidInput
from admil.features.encoder import Picture
from admil.features.extras import needed
from admil.features.modules import IMAGENET_MEAN, IMAGENET_STD, checked_scaling, stacked
from admil.features.onnxweights import has_outside_weights

__all__ = ["OnnxEncoder", "Pooling"]

Pooling = Literal["mean", "flatten"]
"""What is done to an output of more than two dimensions."""

_TYPES: dict[str, type[np.floating[Any]]] = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


class OnnxEncoder:
    """What a network in an ONNX file makes of pictures, computed by onnxruntime on the processor.

    The network takes one input, (B, 3, H, W) in float32 or float16 with H = W; pictures are squeezed and scaled as for
    `ModuleEncoder`.  Its weights must be in the file itself.

    Args:
        path: the file.
        size: side of its input; None takes the one that the file fixes.
        mean: of the three colours, 0 to 1.
        std: likewise.
        output: name of the output to take; None takes the first.
        pooling: an output (B, D, H, W) or (B, T, D) is averaged over its places ("mean") or kept whole ("flatten").
        batch: pictures at a time, from 1 up, where the file does not fix it.

    Raises:
        MissingExtra: onnxruntime is not installed.
        CorruptFile: the file is missing or no ONNX model.
        InvalidInput: its input or output is of another kind, or weights of it lie in another file.
    """

    def __init__(
        self,
        path: str | Path,
        size: int | None = None,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
        *,
        output: str | None = None,
        pooling: Pooling = "mean",
        batch: int = 16,
    ) -> None:
        if pooling not in ("mean", "flatten"):
            raise InvalidInput(f"pooling is mean or flatten, got {pooling!r}", pooling)
        if batch < 1:
            raise InvalidInput(f"batch is the number of pictures at a time, from 1 up, got {batch}", batch)
        self.path, self.pooling = Path(path), pooling
        self.mean, self.std = checked_scaling(mean, std)
        self._session, self._weights = _loaded(self.path)
        try:
            self._input, fixed_batch, self._dtype, fixed_size = _input_of(self._session, self.path)
            self.output = _output_of(self._session, output, self.path)
        except UnicodeDecodeError as error:  # names are first looked at here
            raise CorruptFile(f"{self.path} cannot be read: expected an ONNX model ({error})", self.path) from error
        self._pads = fixed_batch is not None
        self.batch = batch if fixed_batch is None else fixed_batch
        self.size = _agreed(size, fixed_size, self.path)

    @cached_property
    def width(self) -> int:
        """The number of features of a picture, D, found by encoding a black one."""
        return int(self.encode([np.zeros((1, 1, 3), np.uint8)]).shape[1])

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `PictureEncoder`."""
        return {
            "encoder": "onnx",
            "weights": self._weights,
            "output": self.output,
            "pooling": self.pooling,
            "size": self.size,
            "resize": "bilinear",
            "mean": list(self.mean),
            "std": list(self.std),
        }

    def encode(self, pictures: Sequence[Picture]) -> NDArray[np.float32]:
        """See `PictureEncoder`."""
        if not len(pictures):
            return np.zeros((0, self.width), np.float32)
        parts = [pictures[start : start + self.batch] for start in range(0, len(pictures), self.batch)]
        return np.concatenate([self._encoded(part) for part in parts])

    def _encoded(self, pictures: Sequence[Picture]) -> NDArray[np.float32]:
        colours = stacked(pictures, self.size).astype(np.float32)  # (B, size, size, 3)
        scaled = (colours - np.float32(255) * np.array(self.mean, np.float32)) / (
            np.float32(255) * np.array(self.std, np.float32)
        )
        inputs = np.ascontiguousarray(scaled.transpose(0, 3, 1, 2), self._dtype)
        if self._pads:
            inputs = np.concatenate([inputs, np.zeros((self.batch - len(inputs), *inputs.shape[1:]), self._dtype)])
        try:
            found = np.asarray(self._session.run([self.output], {self._input: inputs})[0])
        except _errors() as error:
            raise InvalidInput(f"{self.path} cannot be run on pictures of size {self.size}: {_said(error)}") from error
        return self._pooled(found, len(inputs))[: len(pictures)]

    def _pooled(self, found: NDArray[Any], count: int) -> NDArray[np.float32]:
        if found.ndim not in (2, 3, 4) or len(found) != count or found.dtype.kind not in "fiub":
            raise InvalidInput(
                f"{self.path}: output {self.output!r} must be numbers, (B, D), (B, T, D) or (B, D, H, W), for {count} "
                f"pictures; it is {found.dtype} with shape {found.shape}; name another output",
                self.path,
            )
        if self.pooling == "mean" and found.ndim > 2:
            found = found.mean(axis=1 if found.ndim == 3 else (2, 3), dtype=np.float32)
        return found.reshape(count, -1).astype(np.float32)


def _loaded(path: Path) -> tuple[Any, str]:
    """Return a session and the checksum of what it was made from."""
    runtime = needed("onnxruntime", "onnx", "an ONNX model")
    if not path.is_file():
        raise CorruptFile(f"there is no file {path}; give the .onnx file of a model", path)
    data = path.read_bytes()
    _check_weights(data, path)
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # its warnings are about how it optimises, not about the user's data
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        session = runtime.InferenceSession(data, options, ["CPUExecutionProvider"], enable_fallback=0)
    except _errors() as error:
        raise CorruptFile(
            f"{path} cannot be read: expected an ONNX model with its weights inside ({_said(error)})", path
        ) from error
    return session, hashlib.sha256(data).hexdigest()


def _check_weights(data: bytes, path: Path) -> None:
    """Refuse weights in other files: they could be any, and the checksum would not know of them."""
    try:
        outside = has_outside_weights(data)
    except ValueError as error:
        raise CorruptFile(f"{path} cannot be read: expected an ONNX model ({error})", path) from error
    if outside:
        raise InvalidInput(f"{path} has weights in another file; save the model with its weights inside", path)


def _input_of(session: Any, path: Path) -> tuple[str, int | None, type[np.floating[Any]], int | None]:
    """Return the name, the fixed batch, the type and the fixed size of the one input."""
    inputs = session.get_inputs()
    shape = list(inputs[0].shape) if inputs else []
    if len(inputs) != 1 or len(shape) != 4 or inputs[0].type not in _TYPES or shape[1] != 3:
        came = "; ".join(f"{each.name} {each.type} {each.shape}" for each in inputs) or "none"
        raise InvalidInput(f"{path}: expected one input (B, 3, H, W) of floats, its inputs are: {came}", path)
    batch, _, height, width = (side if isinstance(side, int) and side > 0 else None for side in shape)
    if height is not None and width is not None and height != width:
        raise InvalidInput(f"{path} takes {height} x {width} pixels; only square inputs are supported", path)
    return inputs[0].name, batch, _TYPES[inputs[0].type], height or width


def _agreed(size: int | None, fixed: int | None, path: Path) -> int:
    if size is not None and size < 1:
        raise InvalidInput(f"size is the side of a picture in pixels, from 1 up, got {size}", size)
    if size is None and fixed is None:
        raise InvalidInput(f"{path} takes pictures of any size; say which: give size", path)
    if size is not None and fixed is not None and size != fixed:
        raise InvalidInput(f"{path} takes pictures of size {fixed} only, got size {size}; leave it out", size)
    return size or fixed or 0


def _output_of(session: Any, wanted: str | None, path: Path) -> str:
    names = [str(each.name) for each in session.get_outputs()]
    if wanted is not None and wanted not in names:
        raise InvalidInput(f"{path} has no output {wanted!r}; it has {', '.join(names)}", wanted)
    return names[0] if wanted is None else wanted


def _errors() -> tuple[type[Exception], ...]:
    """Return what onnxruntime raises: classes that share no base of their own."""
    state = needed("onnxruntime.capi.onnxruntime_pybind11_state", "onnx", "an ONNX model")
    own = [each for each in vars(state).values() if isinstance(each, type) and issubclass(each, Exception)]
    return (*own, RuntimeError, ValueError, TypeError)


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
