"""Bags on disk: shards read in place, a manifest, checksums.  The format is written down in docs/store.md."""

from admil.store.layout import DTYPES, DtypeName, Source
from admil.store.store import BagStore
from admil.store.verify import verify_store
from admil.store.writer import PART_BYTES, StoreWriter

__all__ = ["DTYPES", "PART_BYTES", "BagStore", "DtypeName", "Source", "StoreWriter", "verify_store"]
