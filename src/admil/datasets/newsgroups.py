"""20 Newsgroups in bags of posts, rebuilt as the paper describes them: one data set per topic.

A positive bag holds at least one post of the topic, about 3 % of its posts; a negative bag none.  The bag
files that the paper used are not public any more; these are dealt from the raw posts, so results are
those of "20NG (rebuilt)" and not comparable post by post.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

import numpy as np

from admil.datasets.dealing import Dealt, Piles, about, between, deal, named, split_generator
from admil.datasets.download import Download
from admil.datasets.raw import raw_files, read_whole
from admil.errors import CorruptFile, InvalidInput
from admil.features import TfIdf, english_stop_words
from admil.importers import BagReader, ReadBag, reading
from admil.store import Source

__all__ = [
    "NEWSGROUPS_DOWNLOAD",
    "Division",
    "Newsgroups",
    "Post",
    "PostParts",
    "Vocabulary",
    "deal_posts",
    "read_posts",
    "taken",
]

NEWSGROUPS_DOWNLOAD = Download(
    "https://ndownloader.figshare.com/files/5975967",
    "20news-bydate.tar.gz",
    14_464_277,
    "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
    "sha256",
    ("http://qwone.com/~jason/20Newsgroups/20news-bydate.tar.gz",),
)

PostParts = Literal["post", "body", "bare"]
Vocabulary = Literal["topic", "bags", "all"]
Division = Literal["date", "mixed"]

_SPLITS = ("train", "test")
_NAMING = {"newsgroups", "path", "xref", "followup-to", "references", "archive-name"}
"""Headers that name the newsgroup, or lead to it."""

_QUOTE = re.compile(r"(writes in|writes:|wrote:|says:|said:|^In article|^Quoted from|^\||^>)")


@dataclass(frozen=True)
class Post:
    """A post.

    Attributes:
        id: its number; with split and topic it is unique.
        topic: its newsgroup.
        split: "train" or "test".
        text: the raw post, headers first.
    """

    id: str
    topic: str
    split: str
    text: str

    @property
    def origin(self) -> str:
        """What tells it from all others without saying its topic: its split and a checksum of topic and id."""
        return f"{self.split}/{hashlib.sha256(f'{self.topic}/{self.id}'.encode()).hexdigest()[:16]}"


class Newsgroups:
    """The bags of one topic.

    The instance table holds the post but for the headers that name the newsgroup; ``parts`` concerns the
    features alone.

    Args:
        posts: the posts, or where `read_posts` finds them.
        topic: the newsgroup that is looked for.
        seed: deals the bags.
        vocabulary: how the terms are chosen.  ``topic``: those whose mean TF-IDF in training posts of the topic
            most exceeds the mean in the others; it uses the topics of training posts, as the original features
            evidently did.  ``bags``: the same between the posts of positive and of negative training bags, which
            uses bag labels only and fits to the posts of these bags only.  ``all``: the most frequent ones of all
            training posts.
        width: how many terms.
        stop_words: whether English stop words (scikit-learn's list) may be terms; by default they may not.
        parts: what is taken of a post.  ``post``: all but the headers that name the newsgroup.  ``body``: no
            headers.  ``bare``: no headers, quoted lines or signature.
        train_bags: positive training bags, and as many negative ones.
        test_bags: positive test bags, and as many negative ones.
        sizes: least and most posts of a bag; numbers between are as likely.
        share: positive posts of a positive bag; rounded up or down at random, at least one.
        division: what tells training posts from test posts.  ``date``: the release's own division, so that training
            bags hold earlier posts.  ``mixed``: bags are dealt from all posts, training bags first, and the
            posts that are in no test bag count as training posts.
    """

    def __init__(
        self,
        posts: str | Path | Sequence[Post],
        topic: str,
        seed: int,
        vocabulary: Vocabulary = "topic",
        width: int = 200,
        stop_words: bool = False,
        parts: PostParts = "post",
        train_bags: int = 30,
        test_bags: int = 20,
        sizes: tuple[int, int] = (30, 49),
        share: float = 0.03,
        division: Division = "date",
    ) -> None:
        _check_choices(vocabulary, parts, division)
        self._posts = read_posts(posts) if isinstance(posts, str | Path) else tuple(posts)
        self._bags = deal_posts(self._posts, topic, seed, train_bags, test_bags, sizes, share, division)
        chosen, contrast = self._to_fit(vocabulary, topic, division)
        self._parts = parts
        texts = [taken(post.text, parts) for post in chosen]
        self._encoder = TfIdf.fit(texts, width, contrast, () if stop_words else english_stop_words())
        self._labels_seen = vocabulary != "all"
        options = {"topic": topic, "seed": seed, "vocabulary": vocabulary, "width": width, "stop_words": stop_words}
        options |= {"parts": parts, "train_bags": train_bags, "test_bags": test_bags}
        options |= {"sizes": list(sizes), "share": share, "division": division, "posts": len(self._posts)}
        self.source = Source(kind="20newsgroups", name=topic, options=options)

    @property
    def features(self) -> Mapping[str, Any]:
        """See `Importer`; with the whole vectoriser, so that new posts can be turned into the same features.

        ``labels_seen`` is there where labels chose the terms.
        """
        return {**self._encoder.identity, "labels_seen": True} if self._labels_seen else self._encoder.identity

    def ids(self) -> list[str]:
        """See `Importer`."""
        return [bag.id for bag in self._bags]

    def bags(self) -> Iterator[BagReader]:
        """See `Importer`."""
        for bag in self._bags:
            yield BagReader(bag.id, partial(self._read, bag))

    def _to_fit(self, vocabulary: Vocabulary, topic: str, division: Division) -> tuple[list[Post], list[bool] | None]:
        """Return the posts that the terms are fitted to, training posts all, and what they contrast."""
        if vocabulary == "bags":
            dealt = [(row, bag.label == 1) for bag in self._bags if bag.split == "train" for row in bag.rows]
            return [self._posts[row] for row, _ in dealt], [positive for _, positive in dealt]
        tested = {int(row) for bag in self._bags if bag.split == "test" for row in bag.rows}
        mixed = [post for row, post in enumerate(self._posts) if row not in tested]
        chosen = mixed if division == "mixed" else [post for post in self._posts if post.split == "train"]
        return chosen, [post.topic == topic for post in chosen] if vocabulary == "topic" else None

    def _read(self, bag: Dealt) -> ReadBag:
        posts = [self._posts[row] for row in bag.rows]
        columns = {
            "text": [_readable(post.text) for post in posts],
            "origin": [post.origin for post in posts],
        }
        features = self._encoder.encode([taken(post.text, self._parts) for post in posts])
        return ReadBag(features, bag.label, bag.split, columns, bag.positive)


def deal_posts(
    posts: Sequence[Post],
    topic: str,
    seed: int,
    train_bags: int = 30,
    test_bags: int = 20,
    sizes: tuple[int, int] = (30, 49),
    share: float = 0.03,
    division: Division = "date",
) -> list[Dealt]:
    """Deal posts into the bags of a topic, training bags first; see `Newsgroups`.  No post is in two bags.

    Raises:
        InvalidInput: there is no such topic, or there are not enough posts, or the numbers make no sense.
    """
    _check_numbers(train_bags, test_bags, sizes, share)
    topics = sorted({post.topic for post in posts})
    if topic not in topics:
        raise InvalidInput(f"there is no topic {topic!r}; choose among {', '.join(topics)}", topic)
    of_topic = np.array([post.topic == topic for post in posts])
    bags: list[Dealt] = []
    mixed = Piles(of_topic, split_generator(seed, len(_SPLITS), topics.index(topic)))
    for number, (split, count) in enumerate(zip(_SPLITS, (train_bags, test_bags), strict=True)):
        rng = split_generator(seed, number, topics.index(topic))
        rows = np.flatnonzero([division == "mixed" or post.split == split for post in posts])
        piles = mixed if division == "mixed" else Piles(of_topic[rows], rng)
        dealt = deal(piles, count, between(*sizes), about(share), rng, f"{split} posts")
        bags += named(split, [rows[bag] for bag in dealt], of_topic)
    return bags


def read_posts(path: str | Path) -> tuple[Post, ...]:
    """Read the posts, in order of split, topic and id, which does not depend on how they are packed.

    Args:
        path: ``20news-bydate.tar.gz``, a folder with what is in it (``20news-bydate-train/TOPIC/ID``), or a
            file of JSON lines with ``id``, ``topic``, ``split`` and ``text``, .gz or not.

    Raises:
        CorruptFile: it is something else.
    """
    path = Path(path)
    is_lines = path.is_file() and path.name.removesuffix(".gz").endswith((".jsonl", ".json"))
    with reading(path, "the posts of 20 Newsgroups"):
        posts = sorted(_lines(path) if is_lines else _files(path), key=lambda post: (post.split, post.topic, post.id))
    if not posts:
        raise CorruptFile(
            f"there are no posts in {path}; expected 20news-bydate-train/TOPIC/ID and 20news-bydate-test/TOPIC/ID", path
        )
    twice = [key for key, count in Counter((post.split, post.topic, post.id) for post in posts).items() if count > 1]
    if twice:
        raise CorruptFile(f"{path} has a post twice: {'/'.join(twice[0])}", path)
    return tuple(posts)


def taken(text: str, parts: PostParts) -> str:
    r"""Return what is taken of a post for its features.

    >>> taken("Path: sci.space!a\nSubject: Moon\n\nHi\n> so\n", "post")
    'Subject: Moon\n\nHi\n> so\n'
    >>> taken("Path: sci.space!a\nSubject: Moon\n\nHi\n> so\n", "bare")
    'Hi'
    """
    head, gap, body = text.partition("\n\n")
    if parts == "post":
        return _without_naming(head) + gap + body
    return body if parts == "body" else _without_signature(_without_quotes(body))


def _readable(text: str) -> str:
    """Return what a person reads: all but the headers that give the answer away."""
    return taken(text, "post")


def _without_naming(head: str) -> str:
    kept: list[str] = []
    dropping = False
    for line in head.split("\n"):
        if not line[:1].isspace():  # lines that begin with a space go on with the header before
            dropping = line.partition(":")[0].strip().lower() in _NAMING
        if not dropping:
            kept.append(line)
    return "\n".join(kept)


def _without_quotes(body: str) -> str:
    return "\n".join(line for line in body.split("\n") if not _QUOTE.search(line))


def _without_signature(body: str) -> str:
    """Drop the last block, as far as an empty line or one of dashes sets it off."""
    lines = body.strip().split("\n")
    for at in range(len(lines) - 1, 0, -1):
        if not lines[at].strip().strip("-"):
            return "\n".join(lines[:at])
    return "\n".join(lines)


def _lines(path: Path) -> Iterator[Post]:
    for number, line in enumerate(io.BytesIO(read_whole(path)), start=1):
        try:
            row = json.loads(line)
        except (RecursionError, ValueError) as error:
            raise ValueError(f"line {number} is no JSON: {error}") from error
        values = [row.get(name) for name in ("id", "topic", "split", "text")] if isinstance(row, dict) else [None]
        if not all(isinstance(value, str) for value in values) or values[2] not in _SPLITS:
            raise ValueError(f"line {number} needs the texts id, topic, split (train or test) and text")
        yield Post(*values)


def _files(path: Path) -> Iterable[Post]:
    for name, content in raw_files(path, lambda each: _split_of(each) is not None):
        split = _split_of(name)
        if split is not None:
            yield Post(name.name, name.parent.name, split, content.decode("latin-1").replace("\r\n", "\n"))


def _split_of(name: PurePosixPath) -> str | None:
    """Return the split of .../20news-bydate-SPLIT/TOPIC/ID."""
    folder = name.parts[-3] if len(name.parts) >= 3 else ""
    return next((split for split in _SPLITS if folder == f"20news-bydate-{split}"), None)


def _check_choices(vocabulary: str, parts: str, division: str) -> None:
    given = (("vocabulary", vocabulary, Vocabulary), ("parts", parts, PostParts), ("division", division, Division))
    for name, value, allowed in given:
        if value not in get_args(allowed):
            raise InvalidInput(f"{name} is one of {', '.join(get_args(allowed))}, not {value!r}", value)


def _check_numbers(train_bags: int, test_bags: int, sizes: tuple[int, int], share: float) -> None:
    if train_bags < 1 or test_bags < 1:
        raise InvalidInput(f"each split needs a bag at least, got {train_bags} for training and {test_bags} for test")
    if not 1 <= sizes[0] <= sizes[1]:
        raise InvalidInput(f"sizes are the least and the most posts of a bag, from 1 up, got {sizes}", sizes)
    if not 0 < share < 1:
        raise InvalidInput(f"share is the positive posts of a positive bag, between 0 and 1, got {share}", share)
