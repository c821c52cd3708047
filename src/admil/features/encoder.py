"""What turns pictures and texts into vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Picture", "PictureEncoder", "TextEncoder"]

Picture = NDArray[np.uint8]
"""An RGB picture, (height, width, 3)."""


class PictureEncoder(Protocol):
    """Turns pictures into vectors."""

    @property
    def width(self) -> int:
        """The number of features of a picture, D."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """Everything that a vector depends on, as JSON: backbone, checksum of its weights, preprocessing."""

    def encode(self, pictures: Sequence[Picture]) -> NDArray[np.float32]:
        """Return (n, D) vectors of pictures of any sizes."""


class TextEncoder(Protocol):
    """Turns texts into vectors."""

    @property
    def width(self) -> int:
        """The number of features of a text, D."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """Everything that a vector depends on, as JSON; for a fitted one what it was fitted to."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, D) vectors."""
