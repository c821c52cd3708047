"""Whatever holds real numbers, as a tensor."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["as_tensor"]


def as_tensor(data: Any) -> Tensor:
    """Return arrays, tensors, nested lists or SciPy sparse matrices as a tensor on the CPU, copied only if need be.

    >>> as_tensor([[1, 2]])
    tensor([[1, 2]])

    Raises:
        TypeError: saying what came instead of real numbers, to follow "got".
    """
    if hasattr(data, "toarray"):  # SciPy sparse
        data = data.toarray()
    if isinstance(data, Tensor):
        if data.is_complex() or data.is_quantized:
            raise TypeError(f"a tensor of {data.dtype}")
        return data.detach().cpu().to_dense()
    array = _as_array(data)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{type(data).__name__} of {'objects' if array.dtype == object else array.dtype}")
    if array.dtype.itemsize > 8 or array.dtype.kind == "u":  # torch has no long double, and does little with these
        array = array.astype(np.float64)
    return torch.from_numpy(np.require(array, array.dtype.newbyteorder("="), ["C", "W"]))


def _as_array(data: Any) -> np.ndarray[Any, Any]:
    if isinstance(data, np.ma.MaskedArray):
        if np.ma.is_masked(data):
            raise TypeError("a masked array with values missing; fill or drop them")
        data = data.data
    try:
        array = np.asarray(data)
        if array.dtype == object and array.size and all(isinstance(value, Real) for value in array.flat):
            return array.astype(np.float64)
        return array
    except (TypeError, ValueError, RuntimeError):  # ragged lists, words, tensors on a device inside lists
        raise TypeError(f"{type(data).__name__} that is no rectangular array of numbers") from None
