"""Encoding with and without a cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import nn

from admil.errors import AdmilWarning, InvalidInput
from admil.features import (
    FeatureCache,
    ModuleEncoder,
    PixelEncoder,
    TfIdf,
    encode_pictures,
    encode_texts,
)
from tests.features.making import Counting, picture, pictures

TEXTS = ["rain and wind", "", "sun", "half of \ud83d", "sun"]


def test_without_a_cache_everything_is_encoded_each_time() -> None:
    encoder = Counting()
    for _ in range(2):
        rows = encode_pictures(pictures(3), encoder)
        assert np.array_equal(rows, [encoder.vector(made) for made in pictures(3)])
    assert encoder.given == [3, 3]


def test_with_a_cache_each_content_is_encoded_once(tmp_path: Path) -> None:
    encoder, made = Counting(), [*pictures(3), picture(1), picture(0)]
    rows = encode_pictures(made, encoder, FeatureCache(tmp_path))
    assert np.array_equal(rows, [encoder.vector(each) for each in made])
    assert encoder.given == [3]
    again = encode_pictures([picture(9), *made[::-1]], encoder, FeatureCache(tmp_path))
    assert np.array_equal(again, [encoder.vector(each) for each in (picture(9), *made[::-1])])
    assert encoder.given == [3, 1]


def test_nothing_to_encode_gives_no_rows(tmp_path: Path) -> None:
    assert encode_pictures([], Counting(), FeatureCache(tmp_path)).shape == (0, 3)
    assert encode_texts([], Counting(), FeatureCache(tmp_path)).shape == (0, 3)


def test_cached_vectors_are_the_same_bit_by_bit_whatever_is_in_the_batch(tmp_path: Path) -> None:
    encoder = ModuleEncoder(nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU()), 16)
    made = pictures(20, 20, 20)
    together = encode_pictures(made, encoder, FeatureCache(tmp_path))
    apart = np.concatenate([encode_pictures([each], encoder, FeatureCache(tmp_path)) for each in made[::-1]])[::-1]
    assert together.tobytes() == np.ascontiguousarray(apart).tobytes()
    np.testing.assert_allclose(together, encoder.encode(made), atol=1e-5)


def test_content_is_pixels_and_shape_and_not_how_they_lie_in_memory(tmp_path: Path) -> None:
    encoder, cache = Counting(), FeatureCache(tmp_path)
    made = picture(height=4, width=6)
    wide = np.zeros((8, 12, 3), np.uint8)
    wide[::2, ::2] = made
    encode_pictures([made, wide[::2, ::2], np.asfortranarray(made)], encoder, cache)
    assert encoder.given == [1]
    encode_pictures([made.reshape(6, 4, 3), made[::-1]], encoder, cache)
    assert encoder.given == [1, 2]


def test_a_picture_and_a_text_of_the_same_bytes_are_two_things(tmp_path: Path) -> None:
    encoder, cache = Counting(), FeatureCache(tmp_path)
    encode_pictures([np.full((1, 1, 3), 65, np.uint8)], encoder, cache)
    encode_texts(["AAA"], encoder, cache)
    assert encoder.given == [1, 1]


def test_another_encoder_finds_nothing_of_the_first(tmp_path: Path) -> None:
    cache, made = FeatureCache(tmp_path), pictures(4)
    first, second, wider = Counting("first"), Counting("second"), Counting("first", width=5)
    for encoder in (first, second, wider):
        rows = encode_pictures(made, encoder, cache)
        assert np.array_equal(rows, [encoder.vector(each) for each in made])
        assert encoder.given == [4]


def test_a_damaged_vector_is_encoded_again(tmp_path: Path) -> None:
    encoder, made = Counting(), pictures(3)
    before = encode_pictures(made, encoder, FeatureCache(tmp_path))
    (path,) = tmp_path.glob("*/vectors.bin")
    data = bytearray(path.read_bytes())
    data[13] ^= 1
    path.write_bytes(data)
    with pytest.warns(AdmilWarning, match="damaged"):
        assert np.array_equal(encode_pictures(made, encoder, FeatureCache(tmp_path)), before)
    assert encoder.given == [3, 1]
    assert np.array_equal(encode_pictures(made, encoder, FeatureCache(tmp_path)), before)
    assert encoder.given == [3, 1]


class Interrupted(Counting):
    """An encoder that is stopped in its second call."""

    def encode(self, contents: object) -> NDArray[np.float32]:
        if self.given:
            raise KeyboardInterrupt
        return super().encode(contents)  # type: ignore[arg-type]


def test_an_interruption_keeps_what_was_encoded_before(tmp_path: Path) -> None:
    texts = [str(number) for number in range(600)]
    with pytest.raises(KeyboardInterrupt):
        encode_texts(texts, Interrupted(), FeatureCache(tmp_path))
    encoder = Counting()
    rows = encode_texts(texts, encoder, FeatureCache(tmp_path))
    assert encoder.given == [256, 600 - 2 * 256]
    assert np.array_equal(rows, [encoder.vector(text) for text in texts])


def test_texts_are_cached_too_broken_characters_included(tmp_path: Path) -> None:
    class Texts(Counting):
        def vector(self, content: str) -> NDArray[np.float32]:
            return np.full(self.width, len(content), np.float32)

    encoder = Texts()
    for _ in range(2):
        rows = encode_texts(TEXTS, encoder, FeatureCache(tmp_path))
        assert rows[:, 0].tolist() == [len(text) for text in TEXTS]
    assert encoder.given == [4]


def test_pixels_and_tfidf_are_never_cached(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path)
    pixels, weights = PixelEncoder(), TfIdf(["sun"], [1.0])
    assert np.array_equal(encode_pictures(pictures(2), pixels, cache), pixels.encode(pictures(2)))
    assert np.array_equal(encode_texts(TEXTS, weights, cache), weights.encode(TEXTS))
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_picture_is_refused_before_it_is_looked_up(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a picture is a uint8 array"):
        encode_pictures([np.zeros((2, 2, 3))], Counting(), FeatureCache(tmp_path))  # type: ignore[list-item]
