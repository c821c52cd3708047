"""Between flat values (..., M) of ragged bags and padded ones (..., B, N) with a mask."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Padding"]


@dataclass(frozen=True, eq=False)
class Padding:
    """Where each instance of B ragged bags stands in a padded (B, N) array.

    >>> padding = Padding.of(torch.tensor([2, 1]))
    >>> padding.pad(torch.tensor([0.1, 0.2, 0.3]))
    tensor([[0.1000, 0.2000],
            [0.3000, 0.0000]])

    Attributes:
        index: (B, N) positions in the flat array; 0 where nothing is.
        mask: (B, N) True where an instance is.
    """

    index: Tensor
    mask: Tensor

    @classmethod
    def of(cls, sizes: Tensor) -> Padding:
        """Build the padding of bags of the given sizes, (B,), that lie one after another."""
        width = int(sizes.max()) if len(sizes) else 0
        column = torch.arange(width, device=sizes.device)
        mask = column < sizes.unsqueeze(-1)
        start = sizes.cumsum(0) - sizes
        return cls(torch.where(mask, start.unsqueeze(-1) + column, 0), mask)

    def pad(self, flat: Tensor) -> Tensor:
        """Return (..., B, N) with 0 outside the mask; gradients flow back to the flat values."""
        padded = flat[..., self.index]
        return torch.where(self.mask, padded, torch.zeros((), dtype=flat.dtype, device=flat.device))

    def flatten(self, padded: Tensor) -> Tensor:
        """Return the flat (..., M) values of a padded array: the inverse of `pad`."""
        return padded[..., self.mask]
