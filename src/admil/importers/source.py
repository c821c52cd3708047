"""What an importer is: something that names its bags and reads them one at a time."""

from __future__ import annotations

import csv
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from admil.errors import AdmilError, CorruptFile
from admil.store import Source

__all__ = ["BagReader", "Importer", "ReadBag", "reading"]


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
    """

    features: Any
    label: int | None = None
    split: str | None = None
    instances: Mapping[str, Sequence[Any]] | None = None
    truth: NDArray[np.bool_] | None = None
    left_out: tuple[str, ...] = ()


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
        """How the features are made, as JSON, where the importer makes them; None where the source brings them."""

    def ids(self) -> Sequence[str]:
        """Return the ids of all bags, in order, without reading their features."""

    def bags(self) -> Iterator[BagReader]:
        """Yield the bags in the order of `ids`; each is read, or not, before the next is asked for."""


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
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    csv.Error,
    pa.ArrowException,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""What NumPy, h5py, Arrow, torch and zipfile raise on files that are not what they seem."""
