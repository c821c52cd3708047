"""The list of data sets."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from admil.datasets import CATALOG, CIFAR10, CIFAR100, CLASSIC_SETS, Download, raw_path
from admil.errors import InvalidInput
from admil.features import cache_folder

DOWNLOADS = [download for entry in CATALOG.values() for download in entry.downloads]


def test_every_set_of_the_issue_is_there_under_its_name() -> None:
    assert list(CATALOG) == [
        *("20newsgroups", "cifar10", "cifar100", "voc", "digits", "mnist-bags"),
        *("musk1", "musk2", "elephant", "fox", "tiger"),
    ]
    assert all(entry.name == name for name, entry in CATALOG.items())
    assert set(CLASSIC_SETS) < set(CATALOG)
    assert (CIFAR10.kind, CIFAR100.kind) == ("cifar10", "cifar100")


def test_only_sets_whose_real_files_were_built_are_called_verified() -> None:
    assert {name for name, entry in CATALOG.items() if entry.verified} == {"20newsgroups", "cifar10", "digits"}


@pytest.mark.parametrize("download", DOWNLOADS, ids=lambda download: download.name)
def test_downloads_have_an_address_a_size_and_a_checksum(download: Download) -> None:
    assert download.url.startswith(("https://", "http://host.robots.ox.ac.uk/"))
    assert download.bytes > 4_000
    assert len(bytes.fromhex(download.digest)) == hashlib.new(download.method).digest_size
    assert Path(download.name).name == download.name


def test_sizes_are_told_in_megabytes() -> None:
    assert CATALOG["cifar10"].megabytes == pytest.approx(170.05, abs=0.01)
    assert CATALOG["mnist-bags"].megabytes == pytest.approx(11.59, abs=0.01)
    assert CATALOG["musk1"].megabytes == 0


def test_what_was_given_is_taken(tmp_path: Path) -> None:
    for name in CATALOG:
        assert raw_path(name, tmp_path) == tmp_path


def test_what_was_downloaded_is_not_fetched_again() -> None:
    """A file gets its name only once its checksum is right: see `fetch`."""
    for name in ("cifar10", "mnist-bags"):
        folder = cache_folder() / "downloads" / name
        folder.mkdir(parents=True)
        for download in CATALOG[name].downloads:
            (folder / download.name).touch()
    assert raw_path("cifar10", None) == cache_folder() / "downloads" / "cifar10" / "cifar-10-binary.tar.gz"
    assert raw_path("mnist-bags", None) == cache_folder() / "downloads" / "mnist-bags"


def test_sets_that_cannot_be_downloaded_say_where_they_are() -> None:
    with pytest.raises(
        InvalidInput,
        match=r"musk1 cannot be downloaded by itself: get clean1\.data or musk1norm\.svm or musk1norm_matlab\.mat from "
        r"https://archive\.ics\.uci\.edu/dataset/74/.* and name the file with --from",
    ):
        raw_path("musk1", None)
    with pytest.raises(
        InvalidInput, match=r"fox cannot .* get Fox/data_100x100\.svm or fox_100x100_matlab\.mat from http"
    ):
        raw_path("fox", None)
    with pytest.raises(InvalidInput, match="digits has no raw data of its own: it comes with the installation"):
        raw_path("digits", None)


def test_another_name_is_answered_with_the_list() -> None:
    with pytest.raises(
        InvalidInput, match=r"there is no data set 'mnist'; choose among 20newsgroups, cifar10, .* tiger"
    ):
        raw_path("mnist", None)
