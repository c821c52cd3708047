"""Data sets as bags: raw data in, bags and truth out.  One file each."""

from admil.datasets.catalog import CATALOG, CatalogEntry, raw_path
from admil.datasets.cifar import CIFAR10, CIFAR100, Cifar, CifarRelease
from admil.datasets.classic import CLASSIC_SETS, Classic, ClassicSet
from admil.datasets.counts import BagCount, bag_counts, broken_rules
from admil.datasets.digits import DigitBags, DigitSet, digits
from admil.datasets.download import Download, fetch
from admil.datasets.mnist import MnistBags
from admil.datasets.newsgroups import Newsgroups, Post, read_posts
from admil.datasets.voc import VOC_CLASSES, Voc

__all__ = [
    "CATALOG",
    "CIFAR10",
    "CIFAR100",
    "CLASSIC_SETS",
    "VOC_CLASSES",
    "BagCount",
    "CatalogEntry",
    "Cifar",
    "CifarRelease",
    "Classic",
    "ClassicSet",
    "DigitBags",
    "DigitSet",
    "Download",
    "MnistBags",
    "Newsgroups",
    "Post",
    "Voc",
    "bag_counts",
    "broken_rules",
    "digits",
    "fetch",
    "raw_path",
    "read_posts",
]
