"""What lies where in a store, and the header that names it all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pyarrow as pa
import torch
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from admil.errors import CorruptFile
from admil.store.documents import read_document, write_document

__all__ = [
    "BAG_SCHEMA",
    "DTYPES",
    "KNOWN_COLUMNS",
    "LABEL_SCHEMA",
    "SUM_SCHEMA",
    "TRUTH_SCHEMA",
    "DtypeName",
    "Header",
    "Part",
    "Source",
    "label_file",
    "part_files",
]

HEADER, PICTURES = "store.json", "pictures"
_FORMAT, _VERSION = "admil-store", 1

DtypeName = Literal["float16", "bfloat16", "float32"]

DTYPES: dict[DtypeName, torch.dtype] = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
}
"""The types that a store can keep features in."""

BAG_SCHEMA = pa.schema(
    [
        pa.field("bag", pa.string(), nullable=False),
        pa.field("label", pa.int8()),
        pa.field("split", pa.string()),
        pa.field("shard", pa.string(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("checksum", pa.string(), nullable=False),
    ]
)
"""The manifest: a row per bag."""

TRUTH_SCHEMA = pa.schema(
    [
        pa.field("bag", pa.string(), nullable=False),
        pa.field("positive", pa.list_(pa.bool_()), nullable=False),
    ]
)
"""The truth: a row per bag, a value per instance."""

SUM_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("sha256", pa.string(), nullable=False),
    ]
)
"""The pictures that the store keeps itself: a row per picture of a part."""

LABEL_SCHEMA = pa.schema(
    [
        pa.field("bag", pa.string(), nullable=False),
        pa.field("label", pa.int8()),
        pa.field("split", pa.string()),
    ]
)
"""Labels and splits that were set later: a row per bag, which goes before its row of the manifest."""

KNOWN_COLUMNS: dict[str, pa.DataType] = {
    "path": pa.string(),
    "left": pa.int32(),
    "top": pa.int32(),
    "right": pa.int32(),
    "bottom": pa.int32(),
    "text": pa.string(),
    "x": pa.float64(),
    "y": pa.float64(),
    "begin": pa.float64(),
    "end": pa.float64(),
}
"""Instance columns whose meaning is fixed: a picture and a box in it, a text, coordinates, a time span in seconds."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _as_json(value: dict[str, Any]) -> dict[str, Any]:
    """Return what is read back after writing: tuples are lists, keys are texts."""
    content: dict[str, Any] = json.loads(json.dumps(value, allow_nan=False))
    return content


Json = Annotated[dict[str, Any], AfterValidator(_as_json)]


class Part(_Strict):
    """A shard and the tables about its bags, written together and never changed.

    Attributes:
        name: six digits, the name of its files.
        bags: how many bags.
        instances: how many rows its shard has.
        shard_bytes: size of the shard's file.
        manifest: SHA-256 of its bags file.
        details: SHA-256 of its instances file, if it has one.
        truth: SHA-256 of its truth file, if it has one.
        pictures: SHA-256 of the file with the checksums of its pictures, if it brought any.
        source: number of the import it came from, in the header's list.
    """

    name: str = Field(pattern=r"^\d{6}$")
    bags: int = Field(ge=1)
    instances: int = Field(ge=1)
    shard_bytes: int = Field(ge=1)
    manifest: str
    details: str | None = None
    truth: str | None = None
    pictures: str | None = None
    source: int | None = Field(default=None, ge=0)


class Source(_Strict):
    """Where bags came from, so that an import can be resumed and repeated.

    Attributes:
        kind: the importer.
        name: what it read, without the folder it lay in.
        options: how it read it, as JSON can say it.
        complete: whether it came to its end.
        place: the absolute path of what it read; None where kind, name and options say it all, as for a data set.
        root: the absolute folder that the ``path`` of its instances is relative to; None for the store's own.
    """

    kind: str
    name: str
    options: Json = {}
    complete: bool = False
    place: str | None = None
    root: str | None = None

    def same(self, other: Source) -> bool:
        """Tell whether both are the same import, finished or not.

        Files of one name in two places are two sources: `relocate` says that files have moved.
        """
        mine, theirs = ((each.kind, each.name, each.options, each.place) for each in (self, other))
        return mine == theirs


class Header(_Strict):
    """What store.json says.

    Attributes:
        dtype: type of the features.
        width: features of an instance; 0 while the store is empty.
        parts: the parts, in order.
        sources: the imports so far.
        features: how the features were made, where that is known.
        labels: SHA-256 of the file with labels that were set later, if there is one.
    """

    dtype: DtypeName
    width: int = Field(ge=0)
    parts: tuple[Part, ...] = ()
    sources: tuple[Source, ...] = ()
    features: Json | None = None
    labels: str | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if [part.name for part in self.parts] != [f"{number:06d}" for number in range(len(self.parts))]:
            raise ValueError("its parts are not numbered from 000000 on")
        if any(part.source is not None and part.source >= len(self.sources) for part in self.parts):
            raise ValueError("a part comes from a source that is not in its list")
        if self.parts and not self.width:
            raise ValueError("it has parts, but features of width 0")
        return self

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the header of a store."""
        path = folder / HEADER
        content = read_document(path, _FORMAT, _VERSION, "an import")
        fields = {name: value for name, value in content.items() if name not in ("format", "version", "sha256")}
        for name in ("parts", "sources"):
            if isinstance(fields.get(name), list):
                fields[name] = tuple(fields[name])
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise CorruptFile(f"{path} does not say what a store must: {error.errors()[0]['msg']}", path) from error

    def write(self, folder: Path) -> None:
        """Write the header in one move; from then on the store is what it says."""
        write_document(folder / HEADER, _FORMAT, _VERSION, self.model_dump(mode="json"))

    @property
    def torch_dtype(self) -> torch.dtype:
        """The type of the features."""
        return DTYPES[self.dtype]


def part_files(folder: Path, name: str) -> dict[str, Path]:
    """Return the files of a part by what they hold."""
    return {
        "features": folder / "features" / f"{name}.safetensors",
        "bags": folder / "bags" / f"{name}.parquet",
        "instances": folder / "instances" / f"{name}.parquet",
        "truth": folder / "truth" / f"{name}.parquet",
        "picture_sums": folder / "picture_sums" / f"{name}.parquet",
    }


def label_file(folder: Path, digest: str) -> Path:
    """Return the file with labels that were set later, by its checksum."""
    return folder / "labels" / f"{digest[:16]}.parquet"
