"""20 Newsgroups in bags."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import _twenty_newsgroups as sklearn_newsgroups
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer

from admil.datasets import Newsgroups, Post, bag_counts, broken_rules, read_posts
from admil.datasets.newsgroups import NEWSGROUPS_DOWNLOAD, deal_posts, taken
from admil.errors import CorruptFile, InvalidInput
from admil.features import TfIdf
from admil.importers import run_import
from tests.store.making import files_of

from .raws import (
    SHARED,
    TOPICS,
    build,
    check_seeds,
    made_posts,
    needs_shared,
    write_posts,
    write_posts_lines,
    write_posts_tar,
)

POSTS = tuple(sorted(made_posts(), key=lambda post: (post.split, post.topic, post.id)))
SPACE = "sci.space"


def small(posts: Any = POSTS, seed: int = 0, topic: str = SPACE, **options: Any) -> Newsgroups:
    chosen: dict[str, Any] = {"train_bags": 5, "test_bags": 3, "sizes": (6, 9), "share": 0.2}
    return Newsgroups(posts, topic, seed, **{**chosen, **options})


def by_origin() -> dict[str, Post]:
    return {post.origin: post for post in POSTS}


# --- the bags ------------------------------------------------------------------------------------


def test_a_bag_is_positive_if_it_holds_a_post_of_the_topic(tmp_path: Path) -> None:
    built, posts = build(small(), tmp_path / "s"), by_origin()
    assert broken_rules(built.store) == ()
    assert [(count.split, count.label, count.bags) for count in bag_counts(built.store)] == [
        ("train", 1, 5),
        ("train", 0, 5),
        ("test", 1, 3),
        ("test", 0, 3),
    ]
    for number in range(len(built.store)):
        _, truth, rows = built.bag(number)
        found = [posts[row["origin"]] for row in rows]
        assert truth.tolist() == [post.topic == SPACE for post in found]
        assert {post.split for post in found} == {built.store.splits[number]}
        assert 6 <= len(rows) <= 9
        assert truth.sum() == (0 if built.store.known_labels[number] == 0 else pytest.approx(0.2 * len(rows), abs=1))


def test_mixed_bags_hold_posts_of_any_date_and_none_twice(tmp_path: Path) -> None:
    built, posts = build(small(division="mixed"), tmp_path / "s"), by_origin()
    assert broken_rules(built.store) == ()
    assert [count.bags for count in bag_counts(built.store)] == [5, 5, 3, 3]
    held: dict[str, set[str]] = {"train": set(), "test": set()}
    for number in range(len(built.store)):
        _, truth, rows = built.bag(number)
        found = [posts[row["origin"]] for row in rows]
        assert truth.tolist() == [post.topic == SPACE for post in found]
        held[built.store.splits[number]] |= {post.split for post in found}
    assert held == {"train": {"train", "test"}, "test": {"train", "test"}}


def test_mixed_training_bags_stay_whatever_the_test_bags() -> None:
    few, more = (deal_posts(POSTS, SPACE, 0, 5, count, (6, 9), 0.2, "mixed") for count in (1, 3))
    assert [bag.rows.tolist() for bag in few[:10]] == [bag.rows.tolist() for bag in more[:10]]


def test_mixed_features_are_fitted_without_the_posts_of_test_bags() -> None:
    bags = deal_posts(POSTS, SPACE, 0, 5, 3, (6, 9), 0.2, "mixed")
    tested = {int(row) for bag in bags if bag.split == "test" for row in bag.rows}
    rare = [replace(post, text=f"{post.text} word{row}") for row, post in enumerate(POSTS)]
    terms = set(fitted_on(small(rare, vocabulary="all", width=5_000, division="mixed")).terms)
    known = {row for row in range(len(POSTS)) if f"word{row}" in terms}
    assert known == set(range(len(POSTS))) - tested


def test_the_text_and_the_origin_do_not_name_the_topic(tmp_path: Path) -> None:
    store = build(small(), tmp_path / "s").store
    for bag in store.ids:
        for row in store.details(bag):
            assert not any(topic in row["text"] or topic in row["origin"] for topic in TOPICS)
            assert row["text"].startswith("From: a@b.c\nSubject: é ")


def test_the_defaults_are_those_of_table_1() -> None:
    posts = [Post(str(n), topic, split, "x y") for topic in "ab" for split in ("train", "test") for n in range(2500)]
    bags = deal_posts(posts, "a", 0)
    assert Counter((bag.split, bag.label) for bag in bags) == {
        ("train", 1): 30,
        ("train", 0): 30,
        ("test", 1): 20,
        ("test", 0): 20,
    }
    sizes = np.array([len(bag.rows) for bag in bags])
    assert (sizes.min(), sizes.max()) == (30, 49)
    assert sizes.mean() == pytest.approx(40, abs=1.5)
    positives = [bag for bag in bags if bag.label]
    share = sum(int(bag.positive.sum()) for bag in positives) / sum(len(bag.rows) for bag in positives)
    assert share == pytest.approx(0.03, abs=0.003)
    dealt = np.concatenate([bag.rows for bag in bags])
    assert len(set(dealt.tolist())) == len(dealt)
    options = small(topic=SPACE).source.options
    assert (options["vocabulary"], options["width"], options["stop_words"], options["parts"], options["posts"]) == (
        "topic",
        200,
        False,
        "post",
        300,
    )


def test_topics_are_dealt_apart() -> None:
    one, other = (small(topic=topic) for topic in TOPICS[:2])
    assert one.source.name == TOPICS[0]
    origins = [[row for bag in each.bags() for row in bag.read().instances["origin"]] for each in (one, other)]  # type: ignore[index]
    assert origins[0] != origins[1]


# --- the features --------------------------------------------------------------------------------


def fitted_on(dataset: Newsgroups) -> TfIdf:
    return TfIdf.from_json(dataset.features)


def without_naming(post: Post) -> str:
    return post.text.replace(f"Newsgroups: {post.topic}\n\tmisc.test\n", "").replace(f"\nPath: x!{post.topic}", "")


def test_features_are_the_tfidf_of_scikit_learn_fitted_on_training_posts(tmp_path: Path) -> None:
    dataset = small()
    built, posts = build(dataset, tmp_path / "s"), by_origin()
    terms = fitted_on(dataset).terms
    train = [without_naming(post) for post in POSTS if post.split == "train"]
    reference = TfidfVectorizer(vocabulary=list(terms)).fit(train)
    for number in range(len(built.store)):
        features, _, rows = built.bag(number)
        texts = [without_naming(posts[row["origin"]]) for row in rows]
        np.testing.assert_allclose(features, reference.transform(texts).toarray(), atol=1e-6)


def test_words_of_test_posts_are_unknown_to_the_features() -> None:
    for vocabulary in ("topic", "bags", "all"):
        terms = fitted_on(small(vocabulary=vocabulary)).terms
        assert "trainonly" in terms or vocabulary != "all"
        assert "testonly" not in terms


def test_the_default_terms_are_those_of_the_topic() -> None:
    assert fitted_on(small(width=1)).terms == ("scispace",)
    assert fitted_on(small(width=1, topic=TOPICS[0])).terms == ("recsporthockey",)


def test_all_takes_the_most_frequent_terms_whatever_the_topic() -> None:
    one, other = (fitted_on(small(vocabulary="all", width=3, topic=topic)).terms for topic in TOPICS[:2])
    assert one == other == ("lines", "subject", "trainonly")


def test_bags_looks_at_bag_labels_alone(tmp_path: Path) -> None:
    """A word that every post of one topic has, in negative bags only, must not become a term of the other."""
    dataset = small(vocabulary="bags", width=1, share=0.9, sizes=(9, 9), train_bags=3, test_bags=1)
    assert fitted_on(dataset).terms == ("scispace",)
    weak = fitted_on(small(vocabulary="bags", width=200))
    idf = dict(zip(weak.terms, weak.idf, strict=True))
    train = 5 * 2 * 7.5  # posts of training bags, about: what frequencies are learnt on
    assert idf["subject"] == pytest.approx(1.0)
    assert 1 + np.log(1 + train) > max(idf.values()) > 2


@pytest.mark.parametrize("stop_words", [True, False])
def test_stop_words_are_terms_only_if_asked_for(stop_words: bool) -> None:
    terms = fitted_on(small(vocabulary="all", stop_words=stop_words)).terms
    assert (not ENGLISH_STOP_WORDS.isdisjoint(terms)) == stop_words
    assert "the" in ENGLISH_STOP_WORDS


@pytest.mark.parametrize(
    ("parts", "known"), [("post", {"subject", "lines"}), ("body", {"quoted1"}), ("bare", {"post1"})]
)
def test_parts_decide_what_is_read_of_a_post(parts: Any, known: set[str]) -> None:
    terms = set(fitted_on(small(vocabulary="all", parts=parts, width=500)).terms)
    assert known <= terms
    assert ("subject" in terms) == (parts == "post")
    assert (any(term.startswith("quoted") for term in terms)) == (parts != "bare")
    assert not {"newsgroups", "path", "misc"} & terms


def test_the_vectoriser_in_the_store_encodes_new_posts_alike(tmp_path: Path) -> None:
    built, posts = build(small(), tmp_path / "s"), by_origin()
    assert built.store.header.features is not None
    encoder = TfIdf.from_json(built.store.header.features)
    features, _, rows = built.bag(0)
    assert encoder.encode([taken(posts[row["origin"]].text, "post") for row in rows]).tolist() == features.tolist()


WORDS = st.sampled_from(
    ["a", "From: x", "In article <1>", "> quoted", "he writes:", "--", "---", "", " ", "-- me", "|", "b c"]
)


@given(st.lists(WORDS, max_size=12), st.lists(WORDS, max_size=12))
def test_bare_is_what_scikit_learn_takes(head: list[str], body: list[str]) -> None:
    text = "\n".join(["Subject: x", *[line for line in head if line.strip()]]) + "\n\n" + "\n".join(body)
    expected = sklearn_newsgroups.strip_newsgroup_footer(
        sklearn_newsgroups.strip_newsgroup_quoting(sklearn_newsgroups.strip_newsgroup_header(text))
    )
    assert taken(text, "bare").strip() == expected.strip()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Newsgroups: a.b\nSubject: x\n\nbody", "Subject: x\n\nbody"),
        ("Subject: x\nPATH: y\n\tgoes on\nLines: 2\n\nPath: of the body", "Subject: x\nLines: 2\n\nPath: of the body"),
        ("Xref: a\n\nbody", "\n\nbody"),
        ("Followup-To: a\nReferences: b\nArchive-name: c\nKeywords: d\n\n", "Keywords: d\n\n"),
        ("no header at all", "no header at all"),
        ("", ""),
    ],
)
def test_headers_that_name_the_newsgroup_are_never_taken(text: str, kept: str) -> None:
    assert taken(text, "post") == kept


# --- where the posts lie -------------------------------------------------------------------------


def sources(folder: Path) -> dict[str, Path]:
    return {
        "archive": write_posts_tar(folder / "20news-bydate.tar.gz", POSTS),
        "folder": write_posts(folder / "20news-bydate", POSTS),
        "lines": write_posts_lines(folder / "20news.jsonl", POSTS),
        "packed lines": write_posts_lines(folder / "20news.jsonl.gz", POSTS[::-1]),
    }


def test_archive_folder_and_lines_hold_the_same_posts(tmp_path: Path) -> None:
    for path in sources(tmp_path).values():
        assert read_posts(path) == POSTS


def test_they_give_the_same_bytes(tmp_path: Path) -> None:
    made = []
    for name, path in sources(tmp_path).items():
        run_import(small(path), tmp_path / "stores" / name)
        made.append(files_of(tmp_path / "stores" / name))
    assert made[0] == made[1] == made[2] == made[3]


def test_other_files_of_the_folder_are_not_posts(tmp_path: Path) -> None:
    folder = write_posts(tmp_path, POSTS)
    (folder / "README").write_text("no post")
    (folder / "20news-bydate-train" / "notes.txt").write_text("no post")
    assert read_posts(folder) == POSTS


def test_line_ends_of_windows_are_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "20news-bydate-train" / "sci.space" / "1"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"Subject: caf\xe9\r\n\r\nbody")
    (post,) = read_posts(tmp_path)
    assert post == Post("1", "sci.space", "train", "Subject: café\n\nbody")


def test_one_seed_gives_the_same_bytes_and_another_gives_others(tmp_path: Path) -> None:
    check_seeds(lambda seed: small(seed=seed, vocabulary="bags"), tmp_path)


def test_the_download_is_the_one_of_scikit_learn() -> None:
    theirs = sklearn_newsgroups.ARCHIVE
    ours = NEWSGROUPS_DOWNLOAD
    assert (ours.url, ours.name, ours.digest, ours.method) == (theirs.url, theirs.filename, theirs.checksum, "sha256")


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "sci.spice"}, r"there is no topic 'sci\.spice'; choose among rec\.sport\.hockey, sci\.space, talk"),
        ({"vocabulary": "best"}, "vocabulary is one of topic, bags, all, not 'best'"),
        ({"parts": "head"}, "parts is one of post, body, bare, not 'head'"),
        ({"division": "half"}, "division is one of date, mixed, not 'half'"),
        ({"train_bags": 0}, "each split needs a bag at least, got 0 for training and 3 for test"),
        ({"test_bags": 0}, "each split needs a bag at least, got 5 for training and 0 for test"),
        ({"sizes": (0, 4)}, r"sizes are the least and the most posts of a bag, from 1 up, got \(0, 4\)"),
        ({"sizes": (5, 4)}, r"sizes are .* got \(5, 4\)"),
        ({"share": 0.0}, r"share is the positive posts of a positive bag, between 0 and 1, got 0\.0"),
        ({"share": 1.0}, r"share is .* got 1\.0"),
        ({"share": float("nan")}, "share is .* got nan"),
        ({"width": 0}, "width is the number of terms, from 1 up, got 0"),
        ({"train_bags": 30}, r"there are not enough train posts for 30 \+ 30 bags"),
        ({"test_bags": 20}, r"there are not enough test posts for 20 \+ 20 bags"),
        ({"seed": -2}, "a seed is a whole number from 0 up, got -2"),
    ],
    ids=str,
)
def test_orders_that_cannot_be_filled_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        small(**options)


LINE = {"id": "1", "topic": "sci.space", "split": "train", "text": "x"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "line 1 is no JSON"),
        (json.dumps(LINE).encode() + b"\n[1]\n", "line 2 needs the texts id, topic, split"),
        (json.dumps({**LINE, "id": 1}).encode(), "line 1 needs the texts id, topic, split"),
        (json.dumps({**LINE, "split": "dev"}).encode(), r"line 1 needs the texts id, topic, split \(train or test\)"),
        (b'{"id": "1"}', "line 1 needs"),
        (b"[" * 100_000, "line 1 is no JSON"),
        (b"\xff\xfe", "line 1 is no JSON"),
        (b"", "there are no posts in"),
        ((json.dumps(LINE) + "\n").encode() * 2, "has a post twice: train/sci.space/1"),
    ],
)
def test_lines_with_other_content_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    for name, pack in (("20news.jsonl", bytes), ("20news.jsonl.gz", gzip.compress)):
        (tmp_path / name).write_bytes(pack(content))
        with pytest.raises(CorruptFile, match=message):
            read_posts(tmp_path / name)


@pytest.mark.parametrize("damage", [lambda content: content[:-5], lambda content: content[: len(content) // 2]])
def test_files_that_are_cut_off_are_refused(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    for name, path in sources(tmp_path).items():
        if name in ("archive", "packed lines"):
            path.write_bytes(damage(path.read_bytes()))
            with pytest.raises(CorruptFile, match=f"{path.name} cannot be read"):
                read_posts(path)


def test_a_folder_or_archive_without_posts_is_refused(tmp_path: Path) -> None:
    message = r"there are no posts in .*; expected 20news-bydate-train/TOPIC/ID and 20news-bydate-test/TOPIC/ID"
    for path in (tmp_path, write_posts_tar(tmp_path / "20news.tar.gz", [])):
        with pytest.raises(CorruptFile, match=message):
            read_posts(path)
    with pytest.raises(CorruptFile, match="there is no file"):
        read_posts(tmp_path / "nowhere.jsonl")


# --- the real posts ------------------------------------------------------------------------------


@needs_shared
def test_all_twenty_topics_have_the_papers_counts() -> None:
    posts = read_posts(SHARED / "data" / "20news.jsonl.gz")
    assert Counter(post.split for post in posts) == {"train": 11_314, "test": 7_532}
    topics = sorted({post.topic for post in posts})
    assert len(topics) == 20
    for topic in topics:
        bags = deal_posts(posts, topic, seed=0)
        assert Counter((bag.split, bag.label) for bag in bags) == {
            ("train", 1): 30,
            ("train", 0): 30,
            ("test", 1): 20,
            ("test", 0): 20,
        }
        dealt = np.concatenate([bag.rows for bag in bags])
        assert len(set(dealt.tolist())) == len(dealt)
        assert len(dealt) / 100 == pytest.approx(40, abs=2)
        positive = np.concatenate([bag.positive for bag in bags if bag.label])
        assert positive.mean() == pytest.approx(0.03, abs=0.005)
        assert all(posts[row].split == bag.split for bag in bags for row in bag.rows)


@needs_shared
def test_a_store_of_real_posts_keeps_the_rules(tmp_path: Path) -> None:
    posts = read_posts(SHARED / "data" / "20news.jsonl.gz")
    built = build(Newsgroups(posts, "sci.space", 0, "bags"), tmp_path / "s")
    assert broken_rules(built.store) == ()
    assert [(count.split, count.label, count.bags) for count in bag_counts(built.store)] == [
        ("train", 1, 30),
        ("train", 0, 30),
        ("test", 1, 20),
        ("test", 0, 20),
    ]
    assert built.store.width == 200
    assert not any("newsgroups:" in row["text"].lower() for row in built.store.details("train-00"))
