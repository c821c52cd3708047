"""Shards: plain safetensors files that are read in place."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from admil.errors import CorruptFile
from admil.store.shards import ShardFile, checksum_of, identity_of, map_shard
from tests.store.making import rows


def shard(path: Path, *bags: torch.Tensor, dtype: Any = "float32") -> tuple[str, int]:
    """Write a shard of bags; return its identity and size."""
    file = ShardFile(path, dtype, bags[0].shape[1])
    checksums = [file.add(bag) for bag in bags]
    return identity_of(checksums), file.close()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_any_safetensors_reader_reads_a_shard(dtype: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    identity, size = shard(path, rows(3), rows(2, seed=1), dtype=dtype)
    wanted = torch.cat([rows(3), rows(2, seed=1)]).to(getattr(torch, dtype))
    assert torch.equal(load_file(path)["features"], wanted)
    with safe_open(path, "pt") as file:
        assert file.metadata() == {"admil": identity}
    assert size == path.stat().st_size == 1_024 + 5 * 3 * wanted.itemsize
    assert path.read_bytes()[1_024:] == wanted.view(torch.uint8).numpy().tobytes(), "features start at byte 1,024"
    assert torch.equal(map_shard(path, dtype, 5, 3, identity), wanted)


def test_the_checksum_of_a_bag_is_the_sha256_of_its_bytes_and_the_identity_that_of_the_checksums(
    tmp_path: Path,
) -> None:
    bag = torch.tensor([[1.0, 2.0]])
    file = ShardFile(tmp_path / "a", "float32", 2)
    checksum = file.add(bag)
    assert checksum == checksum_of(bag) == hashlib.sha256(bytes.fromhex("0000803f00000040")).hexdigest()
    assert identity_of([checksum, "ab"]) == hashlib.sha256(f"{checksum}ab".encode()).hexdigest()
    file.discard()


def test_mapping_reads_nothing_keeps_no_file_open_and_never_writes(tmp_path: Path) -> None:
    path = tmp_path / "a"
    identity, _ = shard(path, rows(4))
    before, handles = path.read_bytes(), len(os.listdir("/dev/fd"))
    mapped = [map_shard(path, "float32", 4, 3, identity) for _ in range(5)]
    assert len(os.listdir("/dev/fd")) == handles
    mapped[0].zero_()  # a private mapping: what is changed stays in this process
    assert path.read_bytes() == before
    assert torch.equal(mapped[1], rows(4))


def test_a_shard_that_is_missing_cut_off_or_another_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "000000.safetensors"
    identity, size = shard(path, rows(4))
    data = path.read_bytes()
    other, _ = shard(tmp_path / "other", rows(4, seed=1))

    def refused(message: str, of: str = identity) -> None:
        with pytest.raises(CorruptFile, match=rf"shard .*000000\.safetensors {message}") as caught:
            map_shard(path, "float32", 4, 3, of)
        assert caught.value.subject == path

    refused("is not the one that this store was written with: its header differs from the manifest", of=other)
    path.write_bytes(data[:-1])
    refused(f"has {size - 1:,} bytes, expected {size:,}: it was cut off or replaced")
    path.write_bytes(data + b"\0")
    refused("has 1,073 bytes, expected 1,072")
    path.write_bytes(b"\0" * size)
    refused("is not the one that this store was written with")
    path.unlink()
    refused("is missing; the store was not copied whole")


def test_a_discarded_shard_is_gone(tmp_path: Path) -> None:
    file = ShardFile(tmp_path / "a", "float32", 3)
    file.add(rows(2))
    file.discard()
    assert not (tmp_path / "a").exists()
