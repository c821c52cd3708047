"""What people have, as bags in a store: one file per kind of source."""

from admil.importers.arrays import ArrayImporter
from admil.importers.columns import ColumnNames
from admil.importers.h5 import H5Importer
from admil.importers.images import ImageImporter
from admil.importers.jsonl import JsonlImporter
from admil.importers.labels import LabelFile, LabelReader, as_label
from admil.importers.matching import Missing
from admil.importers.pt import PtImporter
from admil.importers.run import ImportReport, run_import
from admil.importers.source import BagReader, FollowingImporter, Importer, ReadBag, reading
from admil.importers.table import TableImporter
from admil.importers.text import TextImporter, TextVocabulary
from admil.importers.tiles import EdgeRule, Tiling
from admil.importers.torchmil import TorchmilImporter

__all__ = [
    "ArrayImporter",
    "BagReader",
    "ColumnNames",
    "EdgeRule",
    "FollowingImporter",
    "H5Importer",
    "ImageImporter",
    "ImportReport",
    "Importer",
    "JsonlImporter",
    "LabelFile",
    "LabelReader",
    "Missing",
    "PtImporter",
    "ReadBag",
    "TableImporter",
    "TextImporter",
    "TextVocabulary",
    "Tiling",
    "TorchmilImporter",
    "as_label",
    "reading",
    "run_import",
]
