"""Reading picture files: upright RGB or one clear error."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image

from admil.errors import CorruptFile, InvalidInput
from admil.features.encoder import Picture

__all__ = ["MAX_PIXELS", "PICTURE_SUFFIXES", "checked_picture", "read_picture", "resized"]

MAX_PIXELS = 80_000_000
"""The largest picture that is decoded unless a caller says otherwise; below the number at which Pillow warns."""

PICTURE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Endings, in small letters, of the files that are pictures."""

_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""What is decoded, whatever the file is called: Pillow knows others that start programs or reach for other files."""

_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What undoes each EXIF orientation."""

_ORIENTATION = 0x0112

_GREY_16 = ("PNG", "PPM")
"""Formats that have no more than 16 bits, though Pillow may read them into 32."""

_DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    Warning,
    struct.error,
    zlib.error,
)
"""What Pillow raises on files that are not what they seem; warnings where a caller makes errors of them."""


def read_picture(source: str | Path | bytes, max_pixels: int = MAX_PIXELS) -> Picture:
    """Read a picture file as upright RGB.

    BMP, GIF, JPEG, PNG, PPM, TIFF and WebP are read, by content and not by name; of several frames the first.
    The EXIF orientation is applied, where it can be read.  Grey and palette become RGB; 16-bit grey keeps its upper
    eight bits; what is transparent lies on white; CMYK is converted without a colour profile, as any profile
    is left unused.

    Args:
        source: the file, or its content.
        max_pixels: the largest picture to decode; a larger one is refused by its header, before memory is taken.
            Above twice ``PIL.Image.MAX_IMAGE_PIXELS`` Pillow refuses as well.

    Returns:
        (H, W, 3) array of its own.

    Raises:
        CorruptFile: there is no such file, or it is no picture, or a damaged one.
        InvalidInput: it has too many pixels, or pixels that are no colours (32-bit numbers).
    """
    name = "the picture" if isinstance(source, bytes) else str(source)
    try:
        if isinstance(source, bytes):
            return _decoded(io.BytesIO(source), name, max_pixels)
        with Path(source).open("rb") as file:
            return _decoded(file, name, max_pixels)
    except (InvalidInput, CorruptFile):
        raise
    except FileNotFoundError:
        raise CorruptFile(f"there is no file {name}", source) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InvalidInput(f"{name} is too large to decode: {error}", name) from error
    except _DAMAGE as error:
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise CorruptFile(f"{name} cannot be read as a picture ({said})", name) from error


def checked_picture(picture: Picture) -> Picture:
    """Return the picture if it is one: (H, W, 3) bytes with pixels in it.

    Raises:
        InvalidInput: it is something else.
    """
    if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8:
        came = f"an array of {picture.dtype}" if isinstance(picture, np.ndarray) else type(picture).__name__
        raise InvalidInput(f"a picture is a uint8 array (height, width, 3) in RGB, got {came}", picture)
    if picture.ndim != 3 or picture.shape[2] != 3 or 0 in picture.shape:
        raise InvalidInput(f"a picture has shape (height, width, 3), at least 1 x 1, got {picture.shape}", picture)
    return picture


def resized(picture: Picture, size: int) -> Picture:
    """Return the whole picture squeezed to (size, size, 3): bilinear, averaged over what shrinks."""
    if picture.shape[:2] == (size, size):
        return picture
    image = Image.fromarray(np.ascontiguousarray(picture))
    return np.asarray(image.resize((size, size), Image.Resampling.BILINEAR))


def _decoded(file: IO[bytes], name: str, max_pixels: int) -> Picture:
    with Image.open(file, formats=_FORMATS) as image:
        width, height = image.size
        if width * height > max_pixels:
            raise InvalidInput(
                f"{name} has {width:,} x {height:,} pixels, more than the {max_pixels:,} allowed; "
                "make it smaller, or raise max_pixels",
                name,
            )
        image.load()
        return checked_picture(np.array(_rgb(_upright(image), name, image.format), np.uint8))


def _upright(image: Image.Image) -> Image.Image:
    try:
        turn = _UPRIGHT.get(image.getexif().get(_ORIENTATION, 1))
    except _DAMAGE:  # the pixels are whole: a mangled note beside them is no reason to refuse the picture
        return image
    return image if turn is None else image.transpose(turn)


def _rgb(image: Image.Image, name: str, kind: str | None) -> Image.Image:
    if image.mode.startswith("I;16") or (image.mode == "I" and kind in _GREY_16):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        raise InvalidInput(f"{name} holds 32-bit numbers, not colours; save it with 8 bits a channel", name)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")
