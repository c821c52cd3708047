"""What an importer is: something that names its bags and reads them one at a time."""

from __future__ import annotations

import csv
import lzma
import pickle
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from admil.errors import AdmilError, CorruptFile, InvalidInput
from admil.store import Source

__all__ = [
    "BagReader",
    "FollowingImporter",
    "Importer",
    "ReadBag",
    "bag_files",
    "check_file",
    "check_unpacked",
    "most_unpacked",
    "name_of",
    "place_of",
    "reading",
]

_BOMB_BYTES, _BOMB_RATIO = 2**30, 200


@dataclass(frozen=True, eq=False)
class ReadBag:
    """A bag as it was read: the arguments of `StoreWriter.add`.

    Attributes:
        features: (n, D) array or tensor.
        label: 0, 1, or None where the source does not say.
        split: "train", "test" or another word; None where the source does not say.
        instances: what a person needs to see, by column, a value per instance.
        truth: (n,) the true label of each instance, where the source has it.
        left_out: a sentence for each instance that could not be read and was allowed to be missing.
        pictures: files of pictures to put into the store, by name; the ``path`` of their instances is
            "pictures/NAME".
    """

    features: Any
    label: int | None = None
    split: str | None = None
    instances: Mapping[str, Sequence[Any]] | None = None
    truth: NDArray[np.bool_] | None = None
    left_out: tuple[str, ...] = ()
    pictures: Mapping[str, bytes] | None = None


@dataclass(frozen=True, eq=False)
class BagReader:
    """A bag that can be read; nothing of its features is in memory before ``read`` is called."""

    id: str
    read: Callable[[], ReadBag]


class Importer(Protocol):
    """Reads one kind of source.  Making one checks that the source is there and looks right.

    What is wrong with a source is an `AdmilError` that names the file and the bag, never another exception.
    """

    @property
    def source(self) -> Source:
        """Its kind, the name of what it reads, and every option that changes what is read: same source, same bags."""

    @property
    def features(self) -> Mapping[str, Any] | None:
        """How the features are made, or what each is, as JSON; None where the source does not say."""

    def ids(self) -> Sequence[str]:
        """Return the ids of all bags, in order, without reading their features."""

    def bags(self) -> Iterator[BagReader]:
        """Yield the bags in the order of `ids`; each is read, or not, before the next is asked for."""


@runtime_checkable
class FollowingImporter(Importer, Protocol):
    """An importer whose features can be put into the order of a store's, or be seen to be others."""

    def following(self, features: Mapping[str, Any] | None, store: Path) -> Self:
        """Return the importer that brings features as a store has them.

        Args:
            features: what the store says of its features; None where it says nothing: then neither does the
                importer, as nobody knows whether its features are those of the store.
            store: the store, for messages.

        Raises:
            InvalidInput: the features are others.
        """


def bag_files(folder: Path, ending: str) -> list[Path]:
    """Return the files of a folder with one file per bag, sorted by name; hidden ones are left out.

    Raises:
        InvalidInput: it is a file, or has no such file.
        CorruptFile: it is not there, or may not be read.
    """
    expected = f"a folder with a file BAG{ending} for every bag"
    if folder.is_file():
        raise InvalidInput(f"{folder} is a file; expected {expected}", folder)
    if not folder.exists():
        raise CorruptFile(f"there is no folder {folder}; expected {expected}", folder)
    with reading(folder, expected):
        found = [path for path in folder.iterdir() if path.suffix == ending and not path.name.startswith(".")]
        files = sorted(path for path in found if path.is_file())
    if not files:
        raise InvalidInput(f"{folder} holds no {ending} file; expected {expected}", folder)
    return files


def check_file(path: Path, expected: str) -> None:
    """Raise unless there is a file that is not empty; ``expected`` follows "expected" in the message."""
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder; expected {expected}", path)
    if not path.is_file():
        raise CorruptFile(f"there is no file {path}; expected {expected}", path)
    if path.stat().st_size == 0:
        raise CorruptFile(f"{path} is empty; expected {expected}", path)


def check_unpacked(size: int, packed: int) -> None:
    """Refuse a bomb: a bag of more than 1 GiB that unpacks to more than 200 times what the file holds.

    Raises:
        ValueError: for `reading` to name the file.
    """
    if size > most_unpacked(packed):
        raise ValueError(f"a bag of {size:,} bytes or more from {packed:,}: that looks like a decompression bomb")


def most_unpacked(packed: int) -> int:
    """Return the bytes that a bag may unpack to from a file of ``packed`` bytes."""
    return max(_BOMB_BYTES, _BOMB_RATIO * packed)


def name_of(path: Path) -> str:
    """Return the name of a source, without the folder it lies in, also where it was given as "."."""
    return path.resolve().name


def place_of(path: Path) -> str:
    """Return where a source lies, by which it is known again."""
    return str(path.resolve())


@contextmanager
def reading(path: Path, expected: str) -> Iterator[None]:
    """Turn what libraries raise on a damaged or foreign file into one clear error.

    Args:
        path: the file that is read.
        expected: what it should hold, to follow "expected".
    """
    try:
        yield
    except AdmilError:
        raise
    except FileNotFoundError as error:
        raise CorruptFile(f"there is no file {error.filename or path}", path) from None
    except _UNREADABLE as error:
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise CorruptFile(f"{path} cannot be read: expected {expected} ({said})", path) from error


_UNREADABLE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    lzma.LZMAError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    csv.Error,
    pa.ArrowException,
    pickle.UnpicklingError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What NumPy, h5py, Arrow, torch and zipfile raise on files that are not what they seem."""
