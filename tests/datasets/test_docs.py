"""What docs/datasets.md says is what the code does."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from admil.cli.app import Later, app
from admil.datasets import (
    CATALOG,
    CIFAR10,
    CIFAR100,
    CLASSIC_SETS,
    Cifar,
    DigitSet,
    MnistBags,
    Newsgroups,
    Voc,
    bag_counts,
    read_posts,
)
from admil.datasets.dealing import Piles, between, deal, split_generator
from admil.datasets.newsgroups import deal_posts
from admil.features import PixelEncoder
from admil.store import BagStore
from tests.cli.calling import call

from .raws import SHARED, build, needs_shared

PAGE = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")
SECTIONS = dict(zip(*[iter(re.split(r"^## (.*)$", PAGE, flags=re.MULTILINE)[1:])] * 2, strict=True))
COMMANDS = [line for line in PAGE.splitlines() if line.startswith("admil ")]
WITH_OPTIONS = ("20newsgroups", "cifar10", "voc", "digits", "mnist-bags")


def rows(text: str, header: str) -> list[list[str]]:
    """Return the cells of the table with this header, `code` marks and links taken off."""
    (table,) = re.findall(rf"^\| {re.escape(header)} \|\n\|[-|]+\|\n((?:\|.*\|\n)+)", text, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.strip().splitlines()]


def bare(cell: str) -> str:
    return re.sub(r"\[?`([^`]*)`(\]\([^)]*\))?", r"\1", cell)


def number(cell: str) -> int:
    return int(cell.replace(",", ""))


def command(name: str) -> Any:
    """Return `admil data build NAME`."""
    found: Any = typer.main.get_command(app)
    for part in ("data", "build", name):
        found = found.commands[part]
        found = found.command if isinstance(found, Later) else found
    return found


def defaults(name: str) -> dict[str, Any]:
    """Return the default of every option of a command, by its spelling."""
    return {spelling: each.default for each in command(name).params for spelling in (*each.opts, *each.secondary_opts)}


# --- the sets ------------------------------------------------------------------------------------


def test_every_set_has_a_row_that_says_what_the_catalog_says() -> None:
    table = rows(PAGE, "set | bags, positive + negative | made from | checked on")
    assert [bare(row[0]) for row in table] == list(CATALOG)
    for name, bags, _, checked in table:
        entry = CATALOG[bare(name)]
        assert entry.bags.replace("+", " + ").startswith(bags.removesuffix(", no split, no truth"))
        assert ("not verified on the real files" in checked) == (not entry.verified)


def test_every_set_has_a_section_with_a_command() -> None:
    for name in CATALOG:
        section = SECTIONS["Classic sets" if name in CLASSIC_SETS else name]
        assert re.search(rf"^admil data build {name} ", section, re.MULTILINE)
    for link in re.findall(r"\]\(#([^)]*)\)", PAGE):
        assert link in {title.lower().replace(" ", "-") for title in SECTIONS}


@pytest.mark.parametrize("name", [name for name, entry in CATALOG.items() if not entry.verified])
def test_sections_of_sets_that_were_not_verified_say_so(name: str) -> None:
    section = SECTIONS["Classic sets" if name in CLASSIC_SETS else name]
    assert "not verified on the real files" in " ".join(section.split()).lower()


def test_published_counts_of_the_classic_sets_are_those_that_are_checked() -> None:
    table = rows(SECTIONS["Classic sets"], "set | bags | instances | features | files, the first that is there")
    assert [bare(row[0]) for row in table] == list(CLASSIC_SETS)
    for name, bags, instances, features, files in table:
        known = CLASSIC_SETS[bare(name)]
        assert bags == f"{known.positive} + {known.negative}"
        assert (number(instances), number(features)) == (known.instances, known.width)
        assert tuple(re.findall(r"`([^`]*)`", files)) == known.files


def test_addresses_sizes_and_checksums_are_those_of_the_code() -> None:
    table = rows(SECTIONS["Downloads"], "set | file | bytes | checksum")
    said = [(bare(name), url, number(size), *bare(checksum).split()) for name, url, size, checksum in table]
    assert said == [
        (name, each.url, each.bytes, each.method, each.digest)
        for name, entry in CATALOG.items()
        for each in entry.downloads
    ]
    homes = {
        name: home for names, home in rows(SECTIONS["Downloads"], "set | home") for name in bare(names).split(", ")
    }
    assert homes == {name: entry.home for name, entry in CATALOG.items()}


# --- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_options_and_their_defaults_are_those_of_the_command(name: str) -> None:
    found = defaults(name)
    for option, default, _ in rows(SECTIONS[name], "option | default | what it says"):
        assert bare(option) in found
        expected = found[bare(option)]
        assert bare(default) == (", ".join(CIFAR10.targets) if expected is None else str(expected))


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_every_option_of_a_set_is_on_the_page(name: str) -> None:
    shared = {"--out", "--from", "--seed", "--encoder", "--size", "--weights", "--device", "--batch", "--precision"}
    section = SECTIONS[name] + SECTIONS["What all sets share"]
    for each in command(name).params:
        if each.opts[0] not in shared | {"--cache", "--help"}:
            assert any(f"`{spelling}`" in section for spelling in (*each.opts, *each.secondary_opts)), each.opts


@dataclass(frozen=True)
class Default:
    """A default that a command and the class behind it share under different names."""

    name: str
    made: Any
    parameter: str
    options: tuple[str, ...]


@pytest.mark.parametrize(
    "default",
    [
        Default("20newsgroups", Newsgroups, "width", ("--terms",)),
        Default("20newsgroups", Newsgroups, "sizes", ("--least", "--most")),
        Default("cifar10", Cifar, "size", ("--bag-size",)),
        Default("cifar10", Cifar, "positives", ("--least", "--most")),
        Default("cifar100", Cifar, "positives", ("--least", "--most")),
        Default("voc", Voc, "cell", ("--cell-width", "--cell-height")),
        *(
            Default("20newsgroups", Newsgroups, each, (f"--{each}",))
            for each in ("vocabulary", "parts", "share", "division")
        ),
        *(Default("voc", Voc, each, (f"--{each}",)) for each in ("target", "edges", "least", "void")),
        *(Default("voc", Voc, each, (f"--{each.replace('_', '-')}",)) for each in ("no_cell", "train_share")),
        *(Default("mnist-bags", MnistBags, each, (f"--{each}",)) for each in ("target", "mean", "variance")),
        *(
            Default(name, made, each, (f"--{each.replace('_', '-')}",))
            for each in ("train_bags", "test_bags")
            for name, made in (("20newsgroups", Newsgroups), ("cifar10", Cifar), ("cifar100", Cifar))
        ),
        *(
            Default(name, made, each, (f"--{each.replace('_', '-')}",))
            for each in ("train_bags", "test_bags")
            for name, made in (("digits", DigitSet), ("mnist-bags", MnistBags))
        ),
    ],
    ids=lambda default: f"{default.name} {default.parameter}",
)
def test_the_command_and_the_class_have_the_same_defaults(default: Default) -> None:
    found = tuple(defaults(default.name)[option] for option in default.options)
    expected = signature(default.made).parameters[default.parameter].default
    assert (found if len(found) > 1 else found[0]) == expected


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_are_spelled_right(line: str) -> None:
    words = shlex.split(line)
    if words[1:3] == ["data", "build"]:
        used = {word for word in words if word.startswith("--")}
        assert used <= set(defaults(words[3]))
        assert "--out" in used


@pytest.mark.parametrize("seed_option", WITH_OPTIONS)
def test_the_seed_is_0_unless_told_otherwise(seed_option: str) -> None:
    assert defaults(seed_option)["--seed"] == 0
    assert "`--seed` (default `0`)" in PAGE


# --- counts --------------------------------------------------------------------------------------


def said_counts(name: str) -> list[tuple[str, int, int, int, int]]:
    table = rows(SECTIONS[name], "split | label | bags | instances | positive instances")
    return [(split, int(label == "positive"), *map(number, numbers)) for split, label, *numbers in table]  # type: ignore[misc]


def found_counts(store: BagStore) -> list[tuple[Any, ...]]:
    return [(count.split, count.label, count.bags, count.instances, count.positives) for count in bag_counts(store)]


def test_digits_have_the_counts_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = next(line for line in COMMANDS if line.startswith("admil data build digits"))
    done = call(*shlex.split(line)[1:])
    assert done.code == 0, done.err
    assert found_counts(BagStore.open("digits")) == said_counts("digits")


@pytest.mark.parametrize("release", [CIFAR10], ids=["cifar10"])
def test_cifar_has_the_counts_of_the_page(release: Any) -> None:
    """They depend on how many pictures there are of each kind, and not on what these show."""
    said = said_counts(release.kind)
    for split, (pictures, count) in enumerate([(50_000, 500), (10_000, 100)]):
        rng = split_generator(0, split)
        positive = np.isin(np.arange(pictures) % 10, [1, 2, 5])
        bags = deal(Piles(positive, rng), count, between(32, 32), between(1, 3), rng, "pictures")
        found = [
            (count, 32 * count, sum(int(positive[bag].sum()) for bag in part)) for part in (bags[:count], bags[count:])
        ]
        assert found == [row[2:] for row in said[2 * split : 2 * split + 2]]


def test_flowers_suffice_for_the_bags_of_cifar100() -> None:
    assert CIFAR100.targets == ("flowers",)
    for split, (pictures, flowers, count) in enumerate([(50_000, 2_500, 500), (10_000, 500, 100)]):
        rng = split_generator(0, split)
        piles = Piles(np.arange(pictures) < flowers, rng)
        assert len(deal(piles, count, between(32, 32), between(1, 3), rng, "pictures")) == 2 * count


@needs_shared
def test_sheep_have_the_counts_of_the_page(tmp_path: Path) -> None:
    built = build(Voc(SHARED / "data", 0, PixelEncoder(1), target="sheep"), tmp_path / "s")
    assert found_counts(built.store) == said_counts("voc")


@needs_shared
def test_newsgroups_have_the_counts_of_the_page() -> None:
    posts = read_posts(SHARED / "data" / "20news.jsonl.gz")
    bags = [bag for topic in sorted({post.topic for post in posts}) for bag in deal_posts(posts, topic, seed=0)]
    positive = [bag for bag in bags if bag.label]
    instances, inside = (sum(len(bag.rows) for bag in each) for each in (bags, positive))
    targets = sum(int(bag.positive.sum()) for bag in positive)
    assert Counter((bag.split, bag.label) for bag in bags) == {
        ("train", 1): 600,
        ("train", 0): 600,
        ("test", 1): 400,
        ("test", 0): 400,
    }
    assert (
        f"together {instances:,} posts in 2,000 bags, {instances / 2000:.1f} a bag; "
        f"of the {inside:,} posts in positive bags {targets:,} are positive, {100 * targets / inside:.1f} %."
    ) in " ".join(PAGE.split())


@needs_shared
def test_vocabularies_are_as_sparse_as_the_page_says() -> None:
    posts = read_posts(SHARED / "data" / "20news.jsonl.gz")
    table = rows(SECTIONS["20newsgroups"], "features | terms a post has | terms a positive post has")
    said = {bare(name): (float(every), float(positive)) for name, every, positive in table}
    original = said.pop("original")
    assert list(said) == ["topic", "bags", "all"]
    for vocabulary, expected in said.items():
        read = [reader.read() for reader in Newsgroups(posts, "rec.sport.hockey", 0, vocabulary).bags()]  # type: ignore[arg-type]
        terms = (np.concatenate([each.features for each in read]) != 0).sum(axis=1)
        positive = np.concatenate([each.truth for each in read])
        assert (terms.mean(), terms[positive].mean()) == pytest.approx(expected, abs=0.06)
    assert said["topic"] == pytest.approx(original, abs=0.3)


# --- Python --------------------------------------------------------------------------------------


def test_the_python_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(block, "datasets.md", "exec"), {})
    assert capsys.readouterr().out == "[('train', 1, 26), ('train', 0, 26), ('test', 1, 30), ('test', 0, 30)]\n()\n"
