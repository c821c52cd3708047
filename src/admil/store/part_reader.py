"""A part of a store while it is read: its shard in place, its tables when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

from admil.bags import IntArray
from admil.errors import CorruptFile
from admil.store.layout import BAG_SCHEMA, TRUTH_SCHEMA, Header, Part, part_files
from admil.store.shards import identity_of, map_shard
from admil.store.tables import check_file, read_rows, read_table

__all__ = ["PartReader"]


class PartReader:
    """Reads one part.

    Attributes:
        folder: the store's folder.
        part: what the header says of it.
        files: its files by what they hold.
        features: (rows, D) features of its bags; there once `map` was called.
        raw: (rows, bytes) the same as bytes.
    """

    def __init__(self, folder: Path, header: Header, part: Part) -> None:
        self.folder, self.part, self.files = folder, part, part_files(folder, part.name)
        self._header = header

    @property
    def root(self) -> Path:
        """The folder that the ``path`` of its instances is relative to."""
        root = None if self.part.source is None else self._header.sources[self.part.source].root
        return self.folder if root is None else Path(root)

    def bags(self) -> pa.Table:
        """Read the manifest and check that its bags tile the shard.

        Raises:
            CorruptFile: missing, damaged, or not about this shard.
        """
        table = read_table(self.files["bags"], self.part.manifest, BAG_SCHEMA)
        counts, starts = table["count"].to_numpy(), table["start"].to_numpy()
        tiled = len(table) == self.part.bags and (counts > 0).all() and counts.sum() == self.part.instances
        if not tiled or not np.array_equal(starts, np.cumsum(counts) - counts):
            path = self.files["bags"]
            raise CorruptFile(f"{path} does not describe its shard: counts and starts do not fit", path)
        return table

    def map(self, bags: pa.Table) -> None:
        """Map the features, given the manifest.

        Raises:
            CorruptFile: the shard is missing, cut off, or another one.
        """
        identity = identity_of(bags["checksum"].to_pylist())
        header = self._header
        self.features: Tensor = map_shard(
            self.files["features"], header.dtype, self.part.instances, header.width, identity
        )
        self.raw: NDArray[np.uint8] = self.features.view(torch.uint8).numpy()

    @cached_property
    def columns(self) -> pa.Schema:
        """Names and types of what is known of instances; a column without any value is of Arrow's null type."""
        if self.part.details is None:
            return pa.schema([])
        return pq.read_schema(self._instances).remove_metadata().remove(1).remove(0)  # bag and index

    def details(self, bags: Sequence[str], starts: IntArray, counts: IntArray) -> pa.Table | None:
        """Read what is known of the instances of some bags, given where they lie; None where nothing is."""
        if self.part.details is None:
            return None
        first, stop = int(starts.min()), int((starts + counts).max())
        table = read_rows(self._instances, first, stop - first)
        places = np.arange(counts.sum()) + np.repeat(starts - first - (np.cumsum(counts) - counts), counts)
        table = table.take(places)
        if table["bag"].to_pylist() != np.repeat(np.array(bags, dtype=object), counts).tolist():
            path = self._instances
            raise CorruptFile(f"{path} does not describe its shard: bag {bags[0]!r} is not in its place", path)
        return table.drop_columns(["bag", "index"])

    def truth(self) -> Iterator[tuple[str, list[bool]]]:
        """Yield (bag id, truth of its instances), where it is known."""
        if self.part.truth is not None:
            table = read_table(self.files["truth"], self.part.truth, TRUTH_SCHEMA)
            yield from zip(table["bag"].to_pylist(), table["positive"].to_pylist(), strict=True)

    @cached_property
    def _instances(self) -> Path:
        """The file of the instance table, its checksum looked at once."""
        assert self.part.details is not None
        check_file(self.files["instances"], self.part.details)
        return self.files["instances"]
