"""The data sets there are: what each needs and where that comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from admil.datasets.cifar import CIFAR10, CIFAR100
from admil.datasets.classic import CLASSIC_SETS
from admil.datasets.download import Download, fetch
from admil.datasets.mnist import MNIST_DOWNLOADS
from admil.datasets.newsgroups import NEWSGROUPS_DOWNLOAD
from admil.datasets.voc import VOC_DOWNLOAD
from admil.errors import InvalidInput
from admil.features import cache_folder

__all__ = ["CATALOG", "CatalogEntry", "raw_path"]


@dataclass(frozen=True)
class CatalogEntry:
    """A data set.

    Attributes:
        name: what it is called here.
        bags: its bags, in words: positive + negative of each split, or in all.
        needs: what it is made from.
        home: where that is published.
        downloads: what is downloaded where no path is given; () where nothing can be, or nothing need be.
        inside: whether its raw data come with the installation.
        verified: whether a build from the real files was checked; else the layout alone, on files made for the tests.
    """

    name: str
    bags: str
    needs: str
    home: str
    downloads: tuple[Download, ...] = ()
    inside: bool = False
    verified: bool = False

    @property
    def megabytes(self) -> float:
        """The size of its downloads."""
        return sum(download.bytes for download in self.downloads) / 1e6


_CIFAR_HOME = "https://www.cs.toronto.edu/~kriz/cifar.html"
_ANDREWS_HOME = "http://www.cs.columbia.edu/~andrews/mil/datasets.html"
_UCI_HOMES = {
    "musk1": "https://archive.ics.uci.edu/dataset/74/musk+version+1",
    "musk2": "https://archive.ics.uci.edu/dataset/75/musk+version+2",
}


def _classic(name: str) -> CatalogEntry:
    known = CLASSIC_SETS[name]
    bags = f"{known.positive}+{known.negative}, no split, no truth"
    return CatalogEntry(name, bags, " or ".join(known.files), _UCI_HOMES.get(name, _ANDREWS_HOME))


CATALOG: dict[str, CatalogEntry] = {
    entry.name: entry
    for entry in (
        CatalogEntry(
            "20newsgroups",
            "per topic 30+30 train, 20+20 test",
            "20news-bydate, 20 topics",
            "http://qwone.com/~jason/20Newsgroups/",
            (NEWSGROUPS_DOWNLOAD,),
            verified=True,
        ),
        CatalogEntry(
            "cifar10",
            "500+500 train, 100+100 test",
            "CIFAR-10, binary version",
            _CIFAR_HOME,
            (CIFAR10.download,),
            verified=True,
        ),
        CatalogEntry(
            "cifar100",
            "500+500 train, 100+100 test",
            "CIFAR-100, binary version",
            _CIFAR_HOME,
            (CIFAR100.download,),
        ),
        CatalogEntry(
            "voc",
            "bird: 124+124 train, 84+84 test",
            "VOC2012, segmentation",
            "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/",
            (VOC_DOWNLOAD,),
        ),
        CatalogEntry(
            "digits",
            "26+26 train, 30+30 test",
            "nothing: comes with scikit-learn",
            "https://archive.ics.uci.edu/dataset/80",
            inside=True,
            verified=True,
        ),
        CatalogEntry(
            "mnist-bags",
            "100+100 train, 500+500 test",
            "MNIST, four IDX files",
            "http://yann.lecun.com/exdb/mnist/",
            MNIST_DOWNLOADS,
        ),
        *(_classic(name) for name in CLASSIC_SETS),
    )
}
"""The data sets by name."""


def raw_path(name: str, given: Path | None, on_bytes: Callable[[int, int], None] | None = None) -> Path:
    """Return where the raw data of a set lie: what was given, else downloads in the cache, fetched if need be.

    Args:
        name: one of `CATALOG`.
        given: a file or folder of the user's.
        on_bytes: called with the bytes of a download so far and in all.

    Raises:
        InvalidInput: there is no such set, or nothing was given and nothing can be downloaded.
        DownloadFailed: there is no network, or not this file any more.
    """
    entry = CATALOG.get(name)
    if entry is None:
        raise InvalidInput(f"there is no data set {name!r}; choose among {', '.join(CATALOG)}", name)
    if given is not None:
        return given
    if entry.inside:
        raise InvalidInput(f"{name} has no raw data of its own: it comes with the installation", name)
    if not entry.downloads:
        raise InvalidInput(
            f"{name} cannot be downloaded by itself: get {entry.needs} from {entry.home} and name the file with "
            "--from PATH",
            name,
        )
    folder = cache_folder() / "downloads" / name
    files = [fetch(download, folder, on_bytes) for download in entry.downloads]
    return files[0] if len(files) == 1 else folder
