"""Vectors that are kept: found again, told apart, checked, and written by several processes that may die."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
import tracemalloc
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from admil.errors import AdmilWarning, CorruptFile, InvalidInput
from admil.features import FeatureCache, cache_folder
from admil.features.cache import CacheSize, VectorFile

IDENTITY = {"encoder": "made up", "size": 8}
WIDTH = 3


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def vector(number: int) -> NDArray[np.float32]:
    return np.random.default_rng(number).normal(size=WIDTH).astype(np.float32)


def vectors(*numbers: int) -> dict[bytes, NDArray[np.float32]]:
    return {key(number): vector(number) for number in numbers}


def opened(folder: Path) -> VectorFile:
    """Open the vectors as a new process would."""
    return FeatureCache(folder).vectors(IDENTITY, WIDTH)


def same(found: dict[bytes, NDArray[np.float32]], *numbers: int) -> bool:
    """Tell whether these and no others were found, bit by bit."""
    return {name: value.tobytes() for name, value in found.items()} == {
        name: value.tobytes() for name, value in vectors(*numbers).items()
    }


# --- what is kept --------------------------------------------------------------------------------


def test_vectors_are_found_again_bit_by_bit(tmp_path: Path) -> None:
    opened(tmp_path).add(vectors(1, 2, 3))
    found = opened(tmp_path).get([key(3), key(9), key(1), key(3)])
    assert same(found, 1, 3)
    assert all(value.dtype == np.float32 and value.flags.writeable for value in found.values())
    assert opened(tmp_path).get([]) == {}


def test_an_empty_cache_has_nothing_and_makes_no_folder(tmp_path: Path) -> None:
    assert opened(tmp_path / "cache").get([key(1)]) == {}
    assert not (tmp_path / "cache").exists()


def test_what_is_there_stays_as_it_is(tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.add(vectors(1))
    file.add({key(1): vector(7), **vectors(2)})
    assert same(opened(tmp_path).get([key(1), key(2)]), 1, 2)
    assert (file.folder / "keys.bin").stat().st_size == 2 * 40


def test_all_that_use_a_cache_see_what_one_adds(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    assert other.get([key(1)]) == {}
    one.add(vectors(1))
    assert same(other.get([key(1)]), 1)
    other.add(vectors(1, 2))
    assert same(one.get([key(1), key(2)]), 1, 2)


def test_keys_are_read_once_however_often_a_cache_is_asked(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path)
    assert cache.vectors(IDENTITY, WIDTH) is cache.vectors(dict(IDENTITY), WIDTH)
    assert cache.vectors(IDENTITY, WIDTH) is not cache.vectors(IDENTITY, WIDTH + 1)


@pytest.mark.parametrize("deleted", ["folder", "keys.bin", "vectors.bin"])
def test_a_cache_may_be_deleted_between_two_uses(deleted: str, tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path)
    file = cache.vectors(IDENTITY, WIDTH)
    file.add(vectors(1, 2))
    for path in list(file.folder.iterdir()):
        if deleted in ("folder", path.name):
            path.unlink()
    if deleted == "folder":
        file.folder.rmdir()
    assert cache.vectors(IDENTITY, WIDTH).get([key(1)]) == {}
    cache.vectors(IDENTITY, WIDTH).add(vectors(2, 3))
    assert same(file.get([key(1), key(2), key(3)]), 2, 3)
    assert same(opened(tmp_path).get([key(1), key(2), key(3)]), 2, 3)


# --- who made it ---------------------------------------------------------------------------------


def test_encoders_never_mix(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path)
    identities: list[dict[str, Any]] = [
        {"encoder": "a", "size": 8},
        {"encoder": "a", "size": 9},
        {"encoder": "a", "size": 8, "mean": [0.5]},
        {"encoder": "a", "size": "8"},
        {"encoder": "b", "size": 8},
        {"size": 8},
        {},
    ]
    files = [cache.vectors(identity, WIDTH) for identity in identities]
    files += [cache.vectors(identities[0], WIDTH - 1)]
    for number, file in enumerate(files[:-1]):
        assert file.get([key(0)]) == {}
        file.add({key(0): vector(number)})
    files[-1].add({key(0): vector(0)[:2]})
    for number, file in enumerate(files[:-1]):
        assert file.get([key(0)])[key(0)].tobytes() == vector(number).tobytes()
    assert len({file.folder for file in files}) == len(list(tmp_path.iterdir())) == len(files)


def test_the_order_of_an_identity_does_not_matter(tmp_path: Path) -> None:
    FeatureCache(tmp_path).vectors({"a": 1, "b": (1, 2)}, WIDTH).add(vectors(1))
    assert same(FeatureCache(tmp_path).vectors({"b": [1, 2], "a": 1}, WIDTH).get([key(1)]), 1)


def test_a_folder_is_named_for_people_and_holds_the_identity(tmp_path: Path) -> None:
    opened(tmp_path).add(vectors(1))
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("made-up-")
    assert json.loads((folder / "identity.json").read_text())["identity"] == IDENTITY
    strange = FeatureCache(tmp_path).vectors({"encoder": "../../x" * 30}, WIDTH).folder
    assert strange.parent == tmp_path
    assert len(strange.name) < 64


def test_a_folder_that_is_another_encoders_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).add(vectors(1))
    other = FeatureCache(tmp_path).vectors({"encoder": "other"}, WIDTH)
    other.add(vectors(2))
    own = opened(tmp_path).folder
    (own / "identity.json").write_bytes((other.folder / "identity.json").read_bytes())
    with pytest.raises(CorruptFile, match=r"identity\.json is of another encoder than its folder's name says; delete"):
        opened(tmp_path)
    (own / "identity.json").write_text("{}")
    with pytest.raises(CorruptFile, match=r"identity\.json is no admil-features file"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("name", "wrong"), [(key(1), np.zeros(2)), (b"short", np.zeros(3)), (key(1), np.zeros((3, 1)))]
)
def test_a_vector_of_another_shape_is_refused_and_nothing_is_kept(
    name: bytes, wrong: NDArray[np.float32], tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="the encoder gives 3 features, the vector to keep has"):
        opened(tmp_path).add({**vectors(5), name: wrong})
    assert opened(tmp_path).get([key(5)]) == {}


# --- damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 11, 12, 23, 35])
def test_a_damaged_vector_is_noticed_and_replaced(place: int, tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.add(vectors(1, 2, 3))
    flip(file.folder / "vectors.bin", place)
    hit = 1 + place // 12
    others = {1, 2, 3} - {hit}
    for reader in (file, opened(tmp_path)):
        with pytest.warns(AdmilWarning, match="is damaged and will be computed again; the disk may be failing"):
            found = reader.get(vectors(1, 2, 3))
        assert same(found, *others)
    file.add(vectors(hit))
    assert same(file.get(vectors(1, 2, 3)), 1, 2, 3)
    assert same(opened(tmp_path).get(vectors(1, 2, 3)), 1, 2, 3)


def test_another_reader_learns_of_the_replacement(tmp_path: Path) -> None:
    late = opened(tmp_path)
    late.add(vectors(1, 2))
    flip(late.folder / "vectors.bin", 0)
    with pytest.warns(AdmilWarning, match="damaged"):
        opened(tmp_path).add(vectors(1))
    assert same(late.get(vectors(1, 2)), 1, 2)


@pytest.mark.parametrize("place", [0, 31, 39, 40, 79])
def test_a_damaged_key_or_checksum_is_as_good_as_missing(place: int, tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.add(vectors(1, 2))
    flip(file.folder / "keys.bin", place)
    hit = 1 + place // 40
    reader = opened(tmp_path)
    if place in (39, 79):  # in the checksum
        with pytest.warns(AdmilWarning, match="damaged"):
            assert same(reader.get(vectors(1, 2)), *({1, 2} - {hit}))
    else:
        assert same(reader.get(vectors(1, 2)), *({1, 2} - {hit}))
    reader.add(vectors(hit))
    assert same(opened(tmp_path).get(vectors(1, 2)), 1, 2)


def test_a_vector_is_never_taken_for_anothers(tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.add(vectors(1, 2))
    data = (file.folder / "vectors.bin").read_bytes()
    keys = (file.folder / "keys.bin").read_bytes()
    (file.folder / "vectors.bin").write_bytes(data[12:] + data[:12])
    with pytest.warns(AdmilWarning, match="damaged"):
        assert opened(tmp_path).get(vectors(1, 2)) == {}
    (file.folder / "vectors.bin").write_bytes(data)
    (file.folder / "keys.bin").write_bytes(keys[40:72] + keys[32:40] + keys[:32] + keys[72:])
    with pytest.warns(AdmilWarning, match="damaged"):
        assert opened(tmp_path).get(vectors(1, 2)) == {}


@pytest.mark.parametrize("name", ["keys.bin", "vectors.bin"])
def test_whatever_is_cut_off_is_written_again(name: str, tmp_path: Path) -> None:
    whole = opened(tmp_path / "whole")
    whole.add(vectors(1, 2, 3))
    data = (whole.folder / name).read_bytes()
    entry = len(data) // 3
    for length in range(0, len(data), 5):
        file = opened(tmp_path / str(length))
        file.add(vectors(1, 2, 3))
        (file.folder / name).write_bytes(data[:length])
        reader = opened(tmp_path / str(length))
        assert same(reader.get(vectors(1, 2, 3)), *range(1, 1 + length // entry))
        for each in (reader, file):
            each.add(vectors(1, 2, 3, 4))
            assert same(each.get(vectors(1, 2, 3, 4)), 1, 2, 3, 4)
        assert same(opened(tmp_path / str(length)).get(vectors(1, 2, 3, 4)), 1, 2, 3, 4)


def test_what_a_killed_writer_left_unfinished_is_overwritten(tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.add(vectors(1))
    with (file.folder / "vectors.bin").open("ab") as half, (file.folder / "keys.bin").open("ab") as keys:
        half.write(vector(2).tobytes() + b"half")
        keys.write(key(2) + b"chec")
    assert same(opened(tmp_path).get(vectors(1, 2)), 1)
    opened(tmp_path).add(vectors(3))
    assert same(opened(tmp_path).get(vectors(1, 2, 3)), 1, 3)
    assert (file.folder / "vectors.bin").stat().st_size == 2 * 12
    assert (file.folder / "keys.bin").stat().st_size == 2 * 40


def test_a_folder_that_cannot_be_written_to_is_no_error_of_a_bag(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    file = opened(tmp_path / "file")
    assert file.get([key(1)]) == {}
    with pytest.raises(
        OSError, match=r"features cannot be kept \(.+\); put this right or go without a cache"
    ) as caught:
        file.add(vectors(1))
    assert not isinstance(caught.value, InvalidInput), "with skip_errors, every bag would be left out for it"
    assert caught.value.filename == str(file.folder)


# --- how much there is, and none of it ------------------------------------------------------------


def test_the_size_counts_the_vectors_of_all_encoders_and_the_bytes_of_their_files(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path / "cache")
    assert cache.size() == CacheSize(0, 0)
    cache.vectors(IDENTITY, WIDTH).add(vectors(1, 2))
    cache.vectors({"encoder": "other"}, WIDTH).add(vectors(3))
    on_disk = sum(path.stat().st_size for path in cache.folder.rglob("*") if path.is_file())
    assert cache.size() == CacheSize(3, on_disk)
    assert on_disk > 3 * (40 + 12)


def test_clearing_deletes_all_encoders_says_how_much_it_was_and_leaves_what_is_not_the_caches(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path / "cache")
    cache.vectors(IDENTITY, WIDTH).add(vectors(1, 2))
    cache.vectors({"encoder": "other"}, WIDTH).add(vectors(3))
    own = cache.folder / "mine" / "notes.txt"
    own.parent.mkdir()
    own.write_text("keep")
    beside = cache.vectors(IDENTITY, WIDTH).folder / "notes.txt"
    beside.write_text("keep")
    before = cache.size()

    assert cache.clear() == before

    assert [path for path in sorted(cache.folder.rglob("*")) if path.is_file()] == sorted([own, beside])
    assert cache.size() == cache.clear() == CacheSize(0, 0)
    assert not FeatureCache(tmp_path / "no cache").clear().entries


def test_those_who_use_a_cache_that_is_cleared_go_on(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    one.add(vectors(1, 2))
    assert same(other.get(vectors(1, 2)), 1, 2)
    FeatureCache(tmp_path).clear()
    assert one.get(vectors(1, 2)) == other.get(vectors(1, 2)) == {}
    one.add(vectors(3, 4, 5))
    other.add(vectors(2))
    assert same(one.get(vectors(1, 2, 3, 4, 5)), 2, 3, 4, 5)
    assert same(opened(tmp_path).get(vectors(1, 2, 3, 4, 5)), 2, 3, 4, 5)


def test_as_many_others_in_the_place_of_those_that_were_cleared_are_found(tmp_path: Path) -> None:
    late = opened(tmp_path)
    late.add(vectors(1, 2))
    FeatureCache(tmp_path).clear()
    opened(tmp_path).add(vectors(3, 4))
    assert same(late.get(vectors(1, 2, 3, 4)), 3, 4)


def test_an_entry_takes_little_memory(tmp_path: Path) -> None:
    count = 50_000
    names = np.random.default_rng(0).bytes(32 * count)
    file = opened(tmp_path)
    file.add(vectors(1))
    (file.folder / "keys.bin").write_bytes(names_with_checks(names))
    with (file.folder / "vectors.bin").open("wb") as written:
        written.truncate(12 * count)
    file = opened(tmp_path)
    file.get([key(1)])
    tracemalloc.start()
    file = opened(tmp_path)
    assert file.get([key(1)]) == {}
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept / count < 16


def names_with_checks(names: bytes) -> bytes:
    rows = np.frombuffer(names, np.uint8).reshape(-1, 32)
    return np.concatenate([rows, np.zeros((len(rows), 8), np.uint8)], axis=1).tobytes()


# --- several processes ---------------------------------------------------------------------------


def add_all(folder: Path, first: int, until_killed: bool) -> None:
    """Add vectors one by one; the killed one never comes to its end."""
    for number in range(first, first + (100_000 if until_killed else 60)):
        opened(folder).add(vectors(number))


@pytest.fixture
def processes() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


@pytest.mark.skipif(sys.platform == "win32", reason="no fork server")
def test_several_processes_write_at_once_and_one_is_killed(tmp_path: Path, processes: ForkServerContext) -> None:
    firsts = {0: False, 30: False, 1_000: True}
    writers = [processes.Process(target=add_all, args=(tmp_path, *each), daemon=True) for each in firsts.items()]
    for writer in writers:
        writer.start()
    for writer in writers[:2]:
        writer.join(60)
        assert writer.exitcode == 0
    for _ in range(600):
        if opened(tmp_path).get([key(1_000)]):
            break
        time.sleep(0.1)
    assert writers[2].pid is not None
    os.kill(writers[2].pid, signal.SIGKILL)
    writers[2].join(60)
    assert writers[2].exitcode == -signal.SIGKILL

    reader = opened(tmp_path)
    assert same(reader.get(map(key, range(90))), *range(90))
    killed = [name for name in map(key, range(1_000, 2_000)) if name in reader.get([name])]
    assert killed
    assert killed == list(map(key, range(1_000, 1_000 + len(killed)))), "what it finished is there, in order"
    reader.add(vectors(500))
    assert same(opened(tmp_path).get([key(500), key(0)]), 0, 500)
    assert (reader.folder / "keys.bin").stat().st_size // 40 >= 91 + len(killed)


def add_until_told(folder: Path, first: int) -> None:
    file = opened(folder)
    for number in range(first, first + 150):
        file.add(vectors(number))
        assert set(file.get([key(number)])) <= {key(number)}


@pytest.mark.skipif(sys.platform == "win32", reason="no fork server")
def test_a_cache_is_cleared_while_several_processes_write(tmp_path: Path, processes: ForkServerContext) -> None:
    writers = [processes.Process(target=add_until_told, args=(tmp_path, first), daemon=True) for first in (0, 1_000)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        FeatureCache(tmp_path).clear()
        time.sleep(0.002)
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0

    names = [*range(150), *range(1_000, 1_150)]
    found = {int.from_bytes(name, "big") for name in opened(tmp_path).get(map(key, names))}
    assert same(opened(tmp_path).get(map(key, names)), *found), "what is found is right"
    opened(tmp_path).add(vectors(*names))
    assert same(opened(tmp_path).get(map(key, names)), *names)


# --- where it lies -------------------------------------------------------------------------------


def test_the_environment_says_where_the_cache_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADMIL_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    assert cache_folder() == tmp_path / "own"
    assert FeatureCache().folder == tmp_path / "own" / "features"
    monkeypatch.setenv("ADMIL_CACHE", "~/kept")
    assert cache_folder() == Path.home() / "kept"
    monkeypatch.setenv("ADMIL_CACHE", "")
    assert cache_folder() == tmp_path / "shared" / "admil"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder() == Path.home() / ".cache" / "admil"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == Path.home() / "Library" / "Caches" / "admil"


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)
