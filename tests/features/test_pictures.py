"""Reading picture files: every kind becomes upright RGB, and what cannot is one sentence."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from admil.errors import AdmilError, CorruptFile, InvalidInput
from admil.features import PICTURE_SUFFIXES, Picture, read_picture
from admil.features.pictures import checked_picture, resized
from tests.features.making import encoded, picture, pictures, png
from tests.mangling import mangle

LOSSLESS: dict[str, dict[str, Any]] = {
    "PNG": {},
    "BMP": {},
    "PPM": {},
    "TIFF": {"compression": "tiff_lzw"},
    "WEBP": {"lossless": True},
}
ORIENTATION = 0x0112


def column(*values: int) -> Picture:
    """Make a picture of grey pixels below each other."""
    return np.repeat(np.array(values, np.uint8)[:, None, None], 3, axis=2)


# --- what is read --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LOSSLESS)
def test_colours_come_back_as_they_were_written(kind: str, tmp_path: Path) -> None:
    made = picture(height=9, width=7)
    (tmp_path / "a picture").write_bytes(encoded(made, kind, **LOSSLESS[kind]))
    read = read_picture(tmp_path / "a picture")
    assert read.shape == (9, 7, 3)
    assert read.dtype == np.uint8
    assert np.array_equal(read, made)
    assert np.array_equal(read_picture(str(tmp_path / "a picture")), made)
    assert np.array_equal(read_picture((tmp_path / "a picture").read_bytes()), made)


def test_a_picture_is_an_array_of_its_own() -> None:
    read = read_picture(encoded(picture()))
    read[:] = 0
    assert read.max() == 0


def test_jpegs_come_back_nearly() -> None:
    smooth = np.repeat(np.linspace(0, 255, 32).astype(np.uint8)[:, None], 32, axis=1)
    made = np.stack([smooth, smooth.T, 255 - smooth], axis=2)
    read = read_picture(encoded(made, "JPEG", quality=95))
    assert np.abs(read.astype(int) - made).max() < 12


def test_grey_and_bilevel_become_three_equal_colours() -> None:
    grey = picture()[:, :, 0]
    assert np.array_equal(read_picture(encoded(Image.fromarray(grey))), np.repeat(grey[:, :, None], 3, axis=2))
    bilevel = Image.fromarray(grey).convert("1", dither=Image.Dither.NONE)
    expected = np.where(grey >= 128, 255, 0).astype(np.uint8)
    assert np.array_equal(read_picture(encoded(bilevel))[:, :, 1], expected)


def test_a_palette_is_looked_up() -> None:
    image = Image.frombytes("P", (3, 1), bytes([2, 0, 1]))
    image.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    for kind in ("PNG", "GIF", "BMP"):
        assert read_picture(encoded(image, kind)).tolist() == [[[70, 80, 90], [10, 20, 30], [40, 50, 60]]]


def sixteen_bits() -> NDArray[np.uint16]:
    return np.array([[0, 255, 256], [32_768, 65_279, 65_535]], np.uint16)


@pytest.mark.parametrize(
    "data",
    [
        encoded(Image.fromarray(sixteen_bits()), "PNG"),
        encoded(Image.fromarray(sixteen_bits()), "TIFF"),
        encoded(Image.frombytes("I;16B", (3, 2), sixteen_bits().astype(">u2").tobytes()), "TIFF"),
        b"P5\n3 2\n65535\n" + sixteen_bits().astype(">u2").tobytes(),
        b"P2\n3 2\n65535\n" + " ".join(map(str, sixteen_bits().flatten())).encode(),
    ],
    ids=["png", "tiff", "tiff-big-endian", "pgm", "pgm-plain"],
)
def test_grey_of_sixteen_bits_keeps_its_upper_eight(data: bytes) -> None:
    read = read_picture(data)
    assert read[:, :, 0].tolist() == [[0, 0, 1], [128, 254, 255]]
    assert np.array_equal(read[:, :, 1], read[:, :, 2])


def test_colours_of_sixteen_bits_keep_their_upper_eight() -> None:
    row = np.array([0x00FF, 0x8000, 0xFFFF], ">u2").tobytes()
    assert read_picture(png(1, 1, b"\0" + row, bits=16)).tolist() == [[[0, 128, 255]]]


@pytest.mark.parametrize(
    "data",
    [
        png(2, 1, b"\0" + bytes([10, 20, 30, 255, 10, 20, 30, 0]), 8, 6),
        png(2, 1, b"\0" + bytes([10, 20, 30, 1, 2, 3]), 8, 2, (b"tRNS", bytes([0, 1, 0, 2, 0, 3]))),
        png(2, 1, b"\0" + bytes([0, 1]), 8, 3, (b"PLTE", bytes([10, 20, 30, 4, 5, 6])), (b"tRNS", bytes([255, 0]))),
    ],
    ids=["alpha", "one-colour", "palette"],
)
def test_what_is_transparent_lies_on_white(data: bytes) -> None:
    assert read_picture(data).tolist() == [[[10, 20, 30], [255, 255, 255]]]


def test_what_is_half_transparent_is_half_white() -> None:
    grey_and_alpha = png(2, 1, b"\0" + bytes([0, 51, 100, 255]), 8, 4)
    assert read_picture(grey_and_alpha)[0, :, 0].tolist() == [204, 100]


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_inks_become_colours(kind: str) -> None:
    inks = {(0, 0, 0, 0): 255, (0, 0, 0, 255): 0, (255, 255, 255, 0): 0}
    for ink, grey in inks.items():
        read = read_picture(encoded(Image.new("CMYK", (8, 8), ink), kind))
        assert np.abs(read.astype(int) - grey).max() <= 2
    cyan = read_picture(encoded(Image.new("CMYK", (8, 8), (255, 0, 0, 0)), kind))
    assert np.abs(cyan.astype(int) - [0, 255, 255]).max() <= 2


def test_of_several_frames_the_first_is_read() -> None:
    first, second = (Image.fromarray(np.full((4, 4, 3), value, np.uint8)) for value in (0, 255))
    for kind in ("GIF", "PNG", "TIFF", "WEBP"):
        assert read_picture(encoded(first, kind, save_all=True, append_images=[second])).max() == 0


TURNS: dict[int, Callable[[Picture], Picture]] = {
    1: lambda stored: stored,
    2: lambda stored: stored[:, ::-1],
    3: lambda stored: stored[::-1, ::-1],
    4: lambda stored: stored[::-1],
    5: lambda stored: stored.transpose(1, 0, 2),
    6: lambda stored: stored.transpose(1, 0, 2)[:, ::-1],
    7: lambda stored: stored[::-1, ::-1].transpose(1, 0, 2),
    8: lambda stored: stored.transpose(1, 0, 2)[::-1],
}
"""What each EXIF orientation says of the stored rows, in NumPy."""


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", TURNS)
def test_pictures_are_turned_upright(orientation: int, kind: str) -> None:
    stored = picture(height=4, width=3)
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    note: dict[str, Any] = {"tiffinfo": {ORIENTATION: orientation}} if kind == "TIFF" else {"exif": exif}
    options = LOSSLESS[kind] | note
    assert np.array_equal(read_picture(encoded(stored, kind, **options)), TURNS[orientation](stored))


def test_jpegs_are_turned_upright() -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = 6  # the first stored row is the right-hand side
    stored = np.zeros((8, 24, 3), np.uint8)
    stored[:, 16:] = 255
    read = read_picture(encoded(stored, "JPEG", exif=exif, quality=95))
    assert read.shape == (24, 8, 3)
    assert read[:8].max() < 8
    assert read[16:].min() > 247


@pytest.mark.parametrize("exif", [b"Exif\0\0" + b"\xff" * 40, b"Exif\0\0MM\0*\0\0\0\x08\xff\xff", b"Exif\0\0"])
def test_a_mangled_orientation_is_no_reason_to_refuse_a_picture(exif: bytes) -> None:
    made = picture()
    assert np.array_equal(read_picture(encoded(made, "PNG", exif=exif)), made)


def test_an_orientation_that_does_not_exist_turns_nothing() -> None:
    for value in (0, 9, 65_535):
        exif = Image.Exif()
        exif[ORIENTATION] = value
        assert np.array_equal(read_picture(encoded(picture(), "PNG", exif=exif)), picture())


def test_many_threads_may_read_at_once() -> None:
    files = [encoded(made) for made in pictures(40)]
    with ThreadPoolExecutor(4) as pool:
        for made, read in zip(pictures(40), pool.map(read_picture, files), strict=True):
            assert np.array_equal(made, read)


def test_endings_are_those_of_the_kinds_that_are_read() -> None:
    known = Image.registered_extensions()
    assert all(ending == ending.lower() and known[ending] in _KINDS for ending in PICTURE_SUFFIXES)


_KINDS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "PPM", "TIFF", "WEBP"])
def test_a_picture_that_is_cut_off_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    data = encoded(picture(height=40, width=40), kind)
    path = tmp_path / f"torn.{kind}"
    for length in (len(data) // 2, 20, 3):
        path.write_bytes(data[:length])
        with pytest.raises(CorruptFile, match=rf"torn\.{kind} cannot be read as a picture \(.+\)$"):
            read_picture(path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no picture",
        b"\0" * 100,
        b"%PDF-1.4\n",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>",
        png(0, 5),
        b"GIF89a" + bytes(7) + b";",
        b"P6\n0 0\n255\n",
    ],
    ids=["empty", "words", "zeros", "pdf", "eps", "svg", "png-0x5", "gif-0x0", "ppm-0x0"],
)
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptFile, match=r"^the picture cannot be read as a picture"):
        read_picture(data)


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match=r"^there is no file .*gone\.png$") as caught:
        read_picture(tmp_path / "gone.png")
    assert caught.value.subject == tmp_path / "gone.png"
    with pytest.raises(CorruptFile, match=r"cannot be read as a picture .*directory"):
        read_picture(tmp_path)
    with pytest.raises(CorruptFile, match=r"cannot be read as a picture .*null"):
        read_picture(tmp_path / "a\0b.png")


@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_numbers_that_are_no_colours_are_refused(kind: type) -> None:
    image = Image.fromarray(np.full((2, 2), 70_000, kind))
    with pytest.raises(InvalidInput, match="the picture holds 32-bit numbers, not colours; save it with 8 bits"):
        read_picture(encoded(image, "TIFF"))


def test_a_bomb_is_refused_by_its_header_before_memory_is_taken() -> None:
    row = b"\0" + bytes(3 * 8_950)
    bomb = png(8_950, 8_950, row * 2)  # 80,102,500 pixels, which would take 240 MB
    tracemalloc.start()
    with pytest.raises(InvalidInput, match=r"has 8,950 x 8,950 pixels, more than the 80,000,000 allowed; make it"):
        read_picture(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000


@pytest.mark.parametrize(("width", "height"), [(12_000, 12_000), (2**31 - 1, 2**31 - 1), (2**31 - 1, 1)])
def test_bombs_that_pillow_knows_are_refused_in_our_words(width: int, height: int) -> None:
    with pytest.raises(InvalidInput, match="the picture is too large to decode: Image size"):
        read_picture(png(width, height))


def test_the_largest_picture_is_the_callers_choice() -> None:
    data = encoded(picture(height=6, width=5))
    assert read_picture(data, max_pixels=30).shape == (6, 5, 3)
    with pytest.raises(InvalidInput, match=r"the picture has 5 x 6 pixels, more than the 29 allowed; .*raise max_pix"):
        read_picture(data, max_pixels=29)


def test_mangled_pictures_end_in_a_picture_or_an_error_of_ours() -> None:
    made = Image.fromarray(picture(height=12, width=10))
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    files = [encoded(made, kind, exif=exif) for kind in ("PNG", "JPEG", "TIFF", "WEBP")]
    files += [encoded(made.convert("P"), kind) for kind in ("GIF", "BMP", "PNG")]
    files += [encoded(made.convert("1"), "TIFF", compression="group4"), encoded(made.convert("CMYK"), "JPEG")]
    files += [encoded(made, "TIFF", compression="tiff_lzw"), encoded(made, "PPM"), b"P2\n2 1\n65535\n9 256\n"]
    whole = 0
    for case in range(600):
        data = mangle(files[case % len(files)], files, np.random.default_rng([20, case]))
        try:
            read = checked_picture(read_picture(data, max_pixels=10_000))
        except AdmilError as error:
            assert "the picture" in str(error), "it is named"  # noqa: PT017
        else:
            whole += 1
            assert 0 < read.shape[0] * read.shape[1] <= 10_000
    assert 30 < whole < 500


# --- what encoders are given ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((2, 2, 3)), r"a picture is a uint8 array \(height, width, 3\) in RGB, got an array of float64"),
        ([[[1, 2, 3]]], "in RGB, got list"),
        (np.zeros((2, 2), np.uint8), r"has shape \(height, width, 3\), at least 1 x 1, got \(2, 2\)"),
        (np.zeros((2, 2, 4), np.uint8), r"got \(2, 2, 4\)"),
        (np.zeros((0, 2, 3), np.uint8), r"got \(0, 2, 3\)"),
    ],
)
def test_arrays_that_are_no_pictures_are_refused(given: Picture, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        checked_picture(given)


def test_a_picture_that_has_the_size_stays_as_it_is() -> None:
    made = picture(height=4, width=4)
    assert resized(made, 4) is made


def test_a_picture_is_squeezed_whole_and_averaged() -> None:
    assert resized(column(10, 30), 1).tolist() == [[[20, 20, 20]]]
    halves = np.concatenate([np.zeros((2, 4, 3), np.uint8), np.full((2, 4, 3), 255, np.uint8)])
    assert resized(halves, 2)[:, :, 0].tolist() == [[36, 36], [219, 219]]  # Pillow's triangle reaches over the edge
    view = picture(height=8, width=8)[1:7:2, ::2]
    assert np.array_equal(resized(view, 2), resized(view.copy(), 2)), "a view need not lie together"


@given(st.integers(0, 255), st.integers(1, 20), st.integers(1, 20), st.integers(1, 20))
def test_one_colour_stays_one_colour_at_every_size(value: int, height: int, width: int, size: int) -> None:
    squeezed = resized(np.full((height, width, 3), value, np.uint8), size)
    assert squeezed.shape == (size, size, 3)
    assert (squeezed == value).all()
