"""Encoding pictures and texts, each content once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from admil.features.cache import FeatureCache
from admil.features.encoder import Picture, PictureEncoder, TextEncoder
from admil.features.pictures import checked_picture
from admil.features.pixels import PixelEncoder
from admil.features.tfidf import TfIdf

__all__ = ["encode_pictures", "encode_texts"]

_AT_ONCE = 256
"""Contents encoded before they are put into the cache: what an interruption can cost."""

_T = TypeVar("_T")


def encode_pictures(
    pictures: Sequence[Picture], encoder: PictureEncoder, cache: FeatureCache | None = None
) -> NDArray[np.float32]:
    """Return (n, D) vectors of pictures.

    With a cache, pictures with the same pixels that this encoder has seen before are looked up, and give the same
    vectors bit by bit; the others are encoded once each and added.  Without one, a vector may differ in its
    last digits with what else is in the batch.  Plain pixels are never cached: they are made faster than found.

    Args:
        pictures: any sizes.
        encoder: what encodes them.
        cache: where vectors are kept.
    """
    if cache is None or isinstance(encoder, PixelEncoder):
        return encoder.encode(pictures)
    keys = [_picture_key(checked_picture(picture)) for picture in pictures]
    return _cached(pictures, keys, encoder.encode, cache, encoder)


def encode_texts(texts: Sequence[str], encoder: TextEncoder, cache: FeatureCache | None = None) -> NDArray[np.float32]:
    """Return (n, D) vectors of texts; see `encode_pictures`.  TF-IDF is never cached."""
    if cache is None or isinstance(encoder, TfIdf):
        return encoder.encode(texts)
    keys = [hashlib.sha256(b"text\n" + text.encode("utf-8", "surrogatepass")).digest() for text in texts]
    return _cached(texts, keys, encoder.encode, cache, encoder)


def _picture_key(picture: Picture) -> bytes:
    digest = hashlib.sha256(f"picture {picture.shape}\n".encode())
    digest.update(np.ascontiguousarray(picture).data)
    return digest.digest()


def _cached(
    contents: Sequence[_T],
    keys: Sequence[bytes],
    encode: Callable[[Sequence[_T]], NDArray[np.float32]],
    cache: FeatureCache,
    encoder: PictureEncoder | TextEncoder,
) -> NDArray[np.float32]:
    file = cache.vectors(encoder.identity, encoder.width)
    found = file.get(keys)
    missing = {key: content for key, content in zip(keys, contents, strict=True) if key not in found}
    names = list(missing)
    for start in range(0, len(names), _AT_ONCE):
        part = names[start : start + _AT_ONCE]
        fresh = dict(zip(part, encode([missing[key] for key in part]), strict=True))
        file.add(fresh)
        # another process may have been quicker: what the cache holds is what everyone gets
        found |= fresh | file.get(part)
    rows = np.empty((len(keys), encoder.width), np.float32)
    for row, key in zip(rows, keys, strict=True):
        row[:] = found[key]
    return rows
