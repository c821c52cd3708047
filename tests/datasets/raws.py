"""Raw data as they are published, small, each byte written here; and what every built data set is asked."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from admil.datasets import CifarRelease, Post
from admil.importers import Importer, run_import
from admil.oracle import Truth
from admil.store import BagStore
from tests.store.making import files_of

SHARED = Path(os.environ.get("ADMIL_SHARED", ""))
needs_shared = pytest.mark.skipif(
    "ADMIL_SHARED" not in os.environ, reason="needs real data: set ADMIL_SHARED to the folder with the development data"
)


@dataclass(frozen=True)
class Built:
    """A store and the truth that goes with it."""

    store: BagStore
    truth: Truth

    def bag(self, number: int) -> tuple[NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Return the features, the truth and the rows of the instance table of a bag."""
        start, stop = self.store.index.offsets[number : number + 2]
        bag = self.store.ids[number]
        return self.store[bag].numpy(), self.truth.positive[start:stop], self.store.details(bag)

    def positives(self, split: str, label: int) -> list[int]:
        """Return how many positive instances each bag of a split with a label has."""
        chosen = np.flatnonzero((self.store.splits == split) & (self.store.known_labels == label))
        return [int(self.bag(number)[1].sum()) for number in chosen.tolist()]


def build(dataset: Importer, folder: Path) -> Built:
    """Build a data set, whole and sound."""
    run_import(dataset, folder)
    store = BagStore.open(folder)
    assert store.verify() == ()
    assert list(store.ids) == list(dataset.ids())
    return Built(store, Truth.of_store(store))


def check_seeds(made: Callable[[int], Importer], folder: Path) -> None:
    """Assert that two builds with one seed are the same, byte by byte, and that another seed deals anew."""
    for name, seed in (("one", 3), ("same", 3), ("other", 4)):
        run_import(made(seed), folder / name)
    one, same, other = (files_of(folder / name) for name in ("one", "same", "other"))
    assert one == same
    assert one.keys() == other.keys()
    changed = {name for name in one if one[name] != other[name]}
    assert {name.split("/")[0] for name in changed} >= {"bags", "features", "instances", "store.json", "truth"}


# --- CIFAR ---------------------------------------------------------------------------------------


def cifar_colour(number: int, row: int, column: int) -> tuple[int, int, int]:
    """Return red, green and blue of a pixel of a made picture: each place of each picture has its own."""
    return row * 8, column * 8 + 3, number % 256


def cifar_record(labels: Sequence[int], number: int) -> bytes:
    """Return a record of the binary version, written down pixel by pixel."""
    record = bytearray(labels)
    for channel in (0, 1, 2):
        for row in range(32):
            for column in range(32):
                record.append(cifar_colour(number, row, column)[channel])
    return bytes(record)


def write_cifar(folder: Path, release: CifarRelease, labels: Mapping[str, Sequence[int]]) -> Path:
    """Write pictures with these labels, by split, in the files of a release; CIFAR-100's fine label is 2 throughout."""
    place = folder / release.folder
    place.mkdir(parents=True)
    for split, names in release.files.items():
        fine = [2] * (release.label_bytes - 1)
        records = [cifar_record([label, *fine], number) for number, label in enumerate(labels[split])]
        share = -(-len(records) // len(names))
        for at, name in enumerate(names):
            (place / name).write_bytes(b"".join(records[at * share : (at + 1) * share]))
    return folder


# --- MNIST ---------------------------------------------------------------------------------------


def idx(values: NDArray[np.uint8]) -> bytes:
    """Return an IDX file of bytes."""
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def mnist_picture(number: int) -> NDArray[np.uint8]:
    """Return a made picture, 28 x 28: rows grow darker, the first pixels say which picture it is."""
    picture = np.repeat(np.arange(28, dtype=np.uint8)[:, None] * 9, 28, axis=1)
    picture[0, :2] = divmod(number, 256)
    return picture


def write_mnist(folder: Path, labels: Mapping[str, Sequence[int]]) -> Path:
    folder.mkdir(parents=True)
    for split, prefix in (("train", "train"), ("test", "t10k")):
        pictures = np.stack([mnist_picture(number) for number in range(len(labels[split]))])
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(idx(pictures))
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(idx(np.array(labels[split], np.uint8)))
    return folder


# --- 20 Newsgroups -------------------------------------------------------------------------------

TOPICS = ("rec.sport.hockey", "sci.space", "talk.politics.misc")


def made_posts(train: int = 60, test: int = 40) -> list[Post]:
    """Make as many posts of each topic and split, with a word of its own, and some of its topic's."""
    posts = []
    for topic in TOPICS:
        for split, count in (("train", train), ("test", test)):
            for number in range(count):
                words = f"{topic.replace('.', '')} {split}only the and about post{number % 7}"
                head = f"From: a@b.c\nNewsgroups: {topic}\n\tmisc.test\nSubject: é {number}\nPath: x!{topic}\nLines: 2"
                posts.append(Post(str(1000 + number), topic, split, f"{head}\n\n{words}\n> quoted{number}\n"))
    return posts


def write_posts(folder: Path, posts: Sequence[Post]) -> Path:
    """Write posts as 20news-bydate.tar.gz unpacks to."""
    for post in posts:
        file = folder / f"20news-bydate-{post.split}" / post.topic / post.id
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(post.text.encode("latin-1"))
    return folder


def write_posts_tar(path: Path, posts: Sequence[Post]) -> Path:
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for post in reversed(posts):
            entry = tarfile.TarInfo(f"20news-bydate-{post.split}/{post.topic}/{post.id}")
            content = post.text.encode("latin-1")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def write_posts_lines(path: Path, posts: Sequence[Post]) -> Path:
    lines = [json.dumps({"id": p.id, "topic": p.topic, "split": p.split, "text": p.text}) for p in posts]
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


# --- PASCAL VOC ----------------------------------------------------------------------------------

VOC_PALETTE = [value for number in range(256) for value in (number, 255 - number, 7)]


def write_voc(folder: Path, masks: Mapping[str, NDArray[np.uint8]]) -> Path:
    """Write VOCdevkit/VOC2012 with these masks; a picture is bright where its mask says something."""
    place = folder / "VOCdevkit" / "VOC2012"
    for name in ("JPEGImages", "SegmentationClass", "ImageSets/Segmentation"):
        (place / name).mkdir(parents=True)
    for name, mask in masks.items():
        image = Image.fromarray(mask).convert("P")
        image.putdata(mask.ravel().tolist())
        image.putpalette(VOC_PALETTE)
        image.save(place / "SegmentationClass" / f"{name}.png")
        grey = np.where(mask[..., None] > 0, 200, 20).repeat(3, axis=2).astype(np.uint8)
        Image.fromarray(grey).save(place / "JPEGImages" / f"{name}.jpg", quality=95)
    (place / "ImageSets" / "Segmentation" / "trainval.txt").write_text("".join(f"{name}\n" for name in masks))
    return folder


# --- features ------------------------------------------------------------------------------------


class MeanColour:
    """An encoder as a network is one: its last digits depend on how many pictures it gets at once.

    Attributes:
        encoded: how many pictures it has encoded.
    """

    def __init__(self) -> None:
        self.encoded = 0

    @property
    def width(self) -> int:
        return 3

    @property
    def identity(self) -> dict[str, Any]:
        return {"encoder": "mean-colour"}

    def encode(self, pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        self.encoded += len(pictures)
        means = np.array([picture.mean((0, 1)) for picture in pictures]).reshape(-1, 3)
        return (means * (1 + len(pictures) * 1e-6)).astype(np.float32)
