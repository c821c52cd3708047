"""Bags on disk: shards read in place, a manifest, checksums.  The format is written down in docs/store.md."""

from admil.store.changes import relabel, relocate
from admil.store.described import difference, in_short
from admil.store.details import instance_columns, instance_table
from admil.store.dump import dump_store
from admil.store.layout import DTYPES, DtypeName, Source
from admil.store.store import BagStore
from admil.store.summary import missing_sources, summary_of
from admil.store.verify import verify_store
from admil.store.writer import PART_BYTES, StoreWriter

__all__ = [
    "DTYPES",
    "PART_BYTES",
    "BagStore",
    "DtypeName",
    "Source",
    "StoreWriter",
    "difference",
    "dump_store",
    "in_short",
    "instance_columns",
    "instance_table",
    "missing_sources",
    "relabel",
    "relocate",
    "summary_of",
    "verify_store",
]
