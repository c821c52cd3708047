"""Between flat values (..., M) of ragged bags and padded ones (..., B, N) with a mask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["BagFunction", "Padding", "SizeClasses"]

BagFunction = Callable[[Tensor, Tensor], Tensor]
"""Of padded values (..., b, N) and a mask (b, N)."""

_ENTRIES = 2**16
"""Padded entries that are not worth a second class."""


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

    def mask_of(self, kept: Tensor | None) -> Tensor:
        """Return the mask (B, N) of the flat instances (M,) that are kept; None keeps all."""
        return self.mask if kept is None else self.pad(kept)

    @property
    def positions(self) -> Tensor:
        """(m,) flat positions of the entries that `flatten` returns."""
        return self.index[self.mask]

    def flatten(self, padded: Tensor) -> Tensor:
        """Return the flat (..., M) values of a padded array: the inverse of `pad`."""
        return padded[..., self.mask]


@dataclass(frozen=True, eq=False)
class SizeClasses:
    """B ragged bags in classes of similar size, each padded by itself: a huge bag pads none of the small ones.

    >>> classes = SizeClasses.of(torch.tensor([1, 40_000, 2]))
    >>> [(bags.tolist(), padding.mask.shape[1]) for bags, padding in classes]
    [([1], 40000), ([2, 0], 2)]
    >>> classes.per_bag(torch.arange(40_003), None, lambda values, mask: values.amax(-1))
    tensor([    0, 40000, 40002])

    Attributes:
        classes: bag numbers (b,) and padding of each class; all bags in order where there is one class.
    """

    classes: tuple[tuple[Tensor, Padding], ...]
    _back: Tensor | None

    @classmethod
    def of(cls, sizes: Tensor, device: torch.device | str = "cpu") -> SizeClasses:
        """Sort bags that lie one after another into classes.

        Args:
            sizes: (B,) on the CPU.
            device: where the paddings go.
        """
        widest = int(sizes.max()) if len(sizes) else 0
        if len(sizes) * widest <= max(_ENTRIES, 2 * int(sizes.sum())):
            everything = torch.arange(len(sizes), device=device)
            return cls(((everything, Padding.of(sizes.to(device))),), None)
        order = torch.argsort(sizes, descending=True, stable=True)
        starts = sizes.cumsum(0) - sizes
        classes = []
        for bags in torch.split(order, _halvings(sizes[order].tolist())):
            padding = Padding.of(sizes[bags])
            index = torch.where(padding.mask, starts[bags].unsqueeze(-1) + torch.arange(padding.mask.shape[1]), 0)
            classes.append((bags.to(device), Padding(index.to(device), padding.mask.to(device))))
        return cls(tuple(classes), torch.argsort(order).to(device))

    def __iter__(self) -> Iterator[tuple[Tensor, Padding]]:
        return iter(self.classes)

    def per_bag(self, values: Tensor, kept: Tensor | None, function: BagFunction) -> Tensor:
        """Return (..., B) what ``function`` makes of the values of each bag.

        Args:
            values: (..., M) flat.
            kept: (M,) True for the instances that count; None for all.
            function: of padded values (..., b, N) and their mask (b, N), to (..., b).
        """
        parts = [function(padding.pad(values), padding.mask_of(kept)) for _, padding in self]
        if self._back is None:
            return parts[0]
        return torch.cat(parts, -1)[..., self._back]

    def per_instance(self, values: Tensor, kept: Tensor | None, function: BagFunction) -> Tensor:
        """Return (..., M), without gradient, what a ``function`` to (..., b, N) makes of each instance."""
        result = torch.empty_like(values)
        for _, padding in self:
            result[..., padding.positions] = padding.flatten(function(padding.pad(values), padding.mask_of(kept)))
        return result


def _halvings(sizes: list[int]) -> list[int]:
    """Cut descending sizes where one is less than half of the first since the last cut; return the lengths."""
    lengths: list[int] = []
    first = 0
    for size in sizes:
        if not lengths or 2 * size < first:
            lengths.append(0)
            first = size
        lengths[-1] += 1
    return lengths
