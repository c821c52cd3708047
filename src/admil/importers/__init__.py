"""What people have, as bags in a store: one file per kind of source."""

from admil.importers.arrays import ArrayImporter
from admil.importers.labels import LabelFile
from admil.importers.run import ImportReport, run_import
from admil.importers.source import BagReader, Importer, ReadBag, reading

__all__ = ["ArrayImporter", "BagReader", "ImportReport", "Importer", "LabelFile", "ReadBag", "reading", "run_import"]
