"""Downloads: from a server in this process, whole, broken, refused and wrong."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from random import Random
from threading import Thread
from typing import Literal

import pytest

from admil.datasets import Download, fetch
from admil.errors import CorruptFile, DownloadFailed

CONTENT = Random(0).randbytes(700_000)


@dataclass
class Site:
    """A server of one file.

    Attributes:
        port: where it listens.
        content: what it serves.
        status: what it answers; 200 for the file.
        sends: bytes after which it drops the connection; None for all.
        ranges: whether it goes on from where it is asked to.
        length: whether it says how long the file is.
        part: what it says of the part that it sends; None for the truth.
        asked: the Range of every request so far.
    """

    port: int = 0
    content: bytes = CONTENT
    status: int = 200
    sends: int | None = None
    ranges: bool = True
    length: bool = True
    part: str | None = None
    asked: list[str | None] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/set.bin"

    def download(
        self, method: Literal["md5", "sha256"] = "sha256", digest: str | None = None, *mirrors: Site
    ) -> Download:
        right = hashlib.new(method, CONTENT).hexdigest()
        others = tuple(mirror.url for mirror in mirrors)
        return Download(self.url, "set.bin", len(CONTENT), digest or right, method, others)


@contextmanager
def served() -> Iterator[Site]:
    """Serve a file at this machine."""
    made = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self, made)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_port
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "*")
    with served() as made:
        yield made


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "*")
    with served() as made:
        yield made


def answer(request: BaseHTTPRequestHandler, site: Site) -> None:
    asked = request.headers["Range"]
    site.asked.append(asked)
    start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and site.ranges else 0
    has_content = site.status in (200, 206)
    rest = site.content[start:] if has_content else b""
    request.send_response(206 if start and has_content else site.status)
    if start and has_content and site.part != "":
        request.send_header("Content-Range", site.part or f"bytes {start}-{len(site.content) - 1}/{len(site.content)}")
    if site.length:
        request.send_header("Content-Length", str(len(rest)))
    request.end_headers()
    with suppress(ConnectionError):  # who does not want it hangs up
        request.wfile.write(rest[: site.sends])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("method", ["md5", "sha256"])
def test_a_file_is_fetched_into_a_folder_that_is_made(
    method: Literal["md5", "sha256"], site: Site, tmp_path: Path
) -> None:
    folder = tmp_path / "cache" / "downloads"
    path = fetch(site.download(method), folder)
    assert path == folder / "set.bin"
    assert path.read_bytes() == CONTENT
    assert names(folder) == ["set.bin"]


def test_a_file_that_is_there_is_not_fetched_again(site: Site, tmp_path: Path) -> None:
    fetch(site.download(), tmp_path)
    fetch(site.download(), tmp_path)
    assert site.asked == [None]


@pytest.mark.parametrize("length", [True, False])
def test_progress_grows_to_the_whole(length: bool, site: Site, tmp_path: Path) -> None:
    site.length = length
    seen: list[tuple[int, int]] = []
    fetch(site.download(), tmp_path, lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert {total for _, total in seen} == {len(CONTENT)}
    assert seen[-1][0] == len(CONTENT)


BY_HAND = "download it by hand and name it with --from PATH, or try again"


@pytest.mark.parametrize("ranges", [True, False])
def test_a_transfer_that_breaks_goes_on_with_the_next_call(ranges: bool, site: Site, tmp_path: Path) -> None:
    site.sends, site.ranges = 300_000, ranges
    with pytest.raises(
        DownloadFailed,
        match=r"cannot download set\.bin from http://127\.0\.0\.1:\d+/set\.bin "
        rf"\(the connection ended after 300,000 of 700,000 bytes\); {BY_HAND}: what has come is kept$",
    ):
        fetch(site.download(), tmp_path)
    assert names(tmp_path) == ["set.bin.part"]
    site.sends = None
    seen: list[tuple[int, int]] = []
    path = fetch(site.download(), tmp_path, lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == ["set.bin"]
    assert site.asked == [None, "bytes=300000-"]
    assert (seen[0][0] > 300_000) == ranges  # a server that cannot go on sends all of it again
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_what_came_is_not_lost_where_a_server_that_begins_anew_breaks_off_sooner(site: Site, tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(CONTENT[:500_000])
    site.sends, site.ranges = 100_000, False
    with pytest.raises(DownloadFailed, match=r"after 100,000 of 700,000 bytes.*: what has come is kept$"):
        fetch(site.download(), tmp_path)
    assert (tmp_path / "set.bin.part").read_bytes() == CONTENT[:500_000]


def test_a_file_that_came_whole_before_the_stop_is_taken_as_it_is(site: Site, tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(CONTENT)
    assert fetch(site.download(), tmp_path).read_bytes() == CONTENT
    assert site.asked == []


@pytest.mark.parametrize("method", ["md5", "sha256"])
def test_another_file_than_was_published_leaves_nothing(
    method: Literal["md5", "sha256"], site: Site, tmp_path: Path
) -> None:
    site.content = CONTENT[::-1]
    found = hashlib.new(method, site.content).hexdigest()
    with pytest.raises(
        CorruptFile,
        match=r"cannot download set\.bin from http.* \(not the file that was published: "
        rf"its {method} is {found}, expected {'b' * 8}; it was deleted\); {BY_HAND}$",
    ):
        fetch(site.download(method, "b" * 8), tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("size", [700_000, 700_001])
def test_what_cannot_be_the_beginning_of_the_file_is_fetched_anew(size: int, site: Site, tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(b"x" * size)
    assert fetch(site.download(), tmp_path).read_bytes() == CONTENT
    assert site.asked == [None]


def test_the_beginning_of_another_file_is_noticed_at_the_end_and_leaves_nothing(site: Site, tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(b"old" * 1000)
    with pytest.raises(CorruptFile, match="not the file that was published"):
        fetch(site.download(), tmp_path)
    assert names(tmp_path) == []
    assert fetch(site.download(), tmp_path).read_bytes() == CONTENT


# --- what a server says before it sends ----------------------------------------------------------


@pytest.mark.parametrize("have", [0, 300_000])
def test_a_page_in_the_place_of_the_file_is_told_by_its_size_and_not_written(
    have: int, site: Site, tmp_path: Path
) -> None:
    (tmp_path / "set.bin.part").write_bytes(CONTENT[:have])
    site.content, site.ranges = b"<html>log in first</html>", False
    with pytest.raises(CorruptFile, match=r"\(another file: it has 25 bytes, expected 700,000\); download it by hand"):
        fetch(site.download(), tmp_path)
    assert (tmp_path / "set.bin.part").read_bytes() == CONTENT[:have]


def test_more_than_was_published_is_cut_off_and_what_came_before_is_kept(site: Site, tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(CONTENT[:300_000])
    site.content, site.length = CONTENT + b"more", False
    with pytest.raises(CorruptFile, match=r"\(more than 700,000 bytes came\).*: what has come is kept"):
        fetch(site.download(), tmp_path)
    assert (tmp_path / "set.bin.part").read_bytes() == CONTENT[:300_000]


@pytest.mark.parametrize(
    ("part", "said"),
    [("", "an unknown part"), ("bytes 0-699999/700000", "bytes 0-699999/700000")],
    ids=["unsaid", "another"],
)
def test_another_part_than_was_asked_for_is_not_joined_on(part: str, said: str, site: Site, tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").write_bytes(CONTENT[:300_000])
    site.part = part
    with pytest.raises(DownloadFailed, match=rf"\(it answers with {said} of the file, expected bytes from 300000 on\)"):
        fetch(site.download(), tmp_path)
    assert (tmp_path / "set.bin.part").read_bytes() == CONTENT[:300_000]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (404, "HTTP Error 404: Not Found"),
        (503, "HTTP Error 503: Service Unavailable"),
        (204, "it answers with the status 204, expected 200"),
        (206, "it answers with an unknown part of the file, expected bytes from 0 on"),
    ],
)
def test_a_server_that_refuses_is_quoted(status: int, reason: str, site: Site, tmp_path: Path) -> None:
    site.status = status
    with pytest.raises(
        DownloadFailed, match=rf"cannot download set\.bin from http://127.*/set\.bin \({reason}\); {BY_HAND}$"
    ):
        fetch(site.download(), tmp_path)
    assert names(tmp_path) == []


# --- mirrors -------------------------------------------------------------------------------------


def test_a_mirror_is_asked_only_where_the_first_address_fails(site: Site, mirror: Site, tmp_path: Path) -> None:
    assert fetch(site.download("md5", None, mirror), tmp_path / "one").read_bytes() == CONTENT
    assert mirror.asked == []
    site.status = 404
    assert fetch(site.download("md5", None, mirror), tmp_path / "two").read_bytes() == CONTENT
    assert mirror.asked == [None]


def test_a_mirror_goes_on_where_the_first_address_broke_off(site: Site, mirror: Site, tmp_path: Path) -> None:
    site.sends = 300_000
    assert fetch(site.download("md5", None, mirror), tmp_path).read_bytes() == CONTENT
    assert mirror.asked == ["bytes=300000-"]


def test_a_mirror_begins_anew_after_another_file(site: Site, mirror: Site, tmp_path: Path) -> None:
    site.content = CONTENT[::-1]
    assert fetch(site.download("md5", None, mirror), tmp_path).read_bytes() == CONTENT
    assert mirror.asked == [None]


def test_what_each_address_said_is_told(site: Site, mirror: Site, tmp_path: Path) -> None:
    site.status, mirror.content = 404, b"moved"
    with pytest.raises(
        DownloadFailed,
        match=rf"from {site.url} \(HTTP Error 404: Not Found\), nor from {mirror.url} "
        rf"\(another file: it has 5 bytes, expected 700,000\); {BY_HAND}$",
    ):
        fetch(site.download("md5", None, mirror), tmp_path)


# --- no server, no room --------------------------------------------------------------------------


def test_a_folder_that_cannot_be_made_is_one_sentence(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DownloadFailed, match=r"cannot write .*set\.bin\.part \(.+\); make room, or set ADMIL_CACHE"):
        fetch(site.download(), tmp_path / "file" / "folder")
    assert site.asked == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_a_full_disk_is_one_sentence_and_no_reason_to_try_a_mirror(site: Site, mirror: Site, tmp_path: Path) -> None:
    (tmp_path / "set.bin.part").symlink_to("/dev/full")
    with pytest.raises(DownloadFailed, match=r"cannot write .*set\.bin\.part \(No space left on device\)"):
        fetch(site.download("md5", None, mirror), tmp_path)
    assert mirror.asked == []


def test_no_connection_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # it does not listen: whoever calls is refused
        nobody = Site(port=unused.getsockname()[1])
        with pytest.raises(DownloadFailed, match=rf"set\.bin from http://127.* \(.*refused\); {BY_HAND}"):
            fetch(nobody.download(), tmp_path)
    assert names(tmp_path) == []


def test_what_is_no_web_server_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"220 mail\r\n")

        thread = Thread(target=talk)
        thread.start()
        with pytest.raises(DownloadFailed, match=r"cannot download set\.bin from http://127.* \(220 mail"):
            fetch(Site(port=server.getsockname()[1]).download(), tmp_path)
        thread.join()


def test_an_interrupted_download_is_kept_for_the_next(site: Site, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(site.download(), tmp_path, stop)
    assert names(tmp_path) == ["set.bin.part"]
    assert 0 < (tmp_path / "set.bin.part").stat().st_size < len(CONTENT)
    assert fetch(site.download(), tmp_path).read_bytes() == CONTENT
