"""Running an import: labels that match, bags left out, what is not read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admil.errors import AdmilError, InvalidInput
from admil.importers import BagReader, ImportReport, LabelFile, ReadBag, run_import
from admil.store import BagStore, Source, relabel


@dataclass
class Given:
    """An importer of bags in memory; one that is an error cannot be read."""

    given: list[tuple[str, Any]]
    features: Mapping[str, Any] | None = None
    read: list[str] = field(default_factory=list)

    @property
    def source(self) -> Source:
        return Source(kind="given", name="memory")

    def ids(self) -> list[str]:
        return [bag for bag, _ in self.given]

    def bags(self) -> Iterator[BagReader]:
        for bag, what in self.given:
            yield BagReader(bag, partial(self._read, bag, what))

    def _read(self, bag: str, what: Any) -> ReadBag:
        self.read.append(bag)
        if isinstance(what, Exception):
            raise what
        return what if isinstance(what, ReadBag) else ReadBag(np.array(what, dtype=np.float32))


def labels(folder: Path, text: str) -> LabelFile:
    (folder / "labels.csv").write_text("bag,label,split\n" + text)
    return LabelFile(folder / "labels.csv")


def test_labels_of_the_file_go_before_those_of_the_source(tmp_path: Path) -> None:
    bags = Given([(bag, ReadBag(np.ones((1, 2)), label=0, split="own")) for bag in "abc"])
    given = labels(tmp_path, "a,1,train\nb,,\nc,0,test\n")
    run_import(bags, tmp_path / "store", labels=given, split="none")
    store = BagStore.open(tmp_path / "store")
    assert store.known_labels.tolist() == [1, 0, 0]
    assert store.splits.tolist() == ["train", "own", "test"]


def test_bags_without_a_split_get_the_one_that_is_given(tmp_path: Path) -> None:
    bags = Given([("a", ReadBag(np.ones((1, 2)), split="own")), ("b", [[1, 2]])])
    run_import(bags, tmp_path / "store", split="train")
    assert BagStore.open(tmp_path / "store").splits.tolist() == ["own", "train"]


def test_labels_without_bags_and_bags_without_labels_are_listed(tmp_path: Path) -> None:
    bags = Given([(f"bag-{i}", [[1.0]]) for i in range(8)])
    with pytest.raises(InvalidInput, match=r"names 7 bags that have no features: 'x-0', .*'x-4', …; add their files"):
        run_import(bags, tmp_path / "store", labels=labels(tmp_path, "".join(f"x-{i},1,\n" for i in range(7))))
    with pytest.raises(InvalidInput, match=r"2 bags have no line in .*: 'bag-6', 'bag-7'; add lines"):
        run_import(bags, tmp_path / "store", labels=labels(tmp_path, "".join(f"bag-{i},1,\n" for i in range(6))))
    assert bags.read == [], "this is said before anything is read"
    assert not (tmp_path / "store").exists()


def test_a_mismatch_can_be_left_out_and_is_counted(tmp_path: Path) -> None:
    bags = Given([("a", [[1.0]]), ("b", [[2.0]]), ("c", [[3.0]])])
    report = run_import(bags, tmp_path / "store", labels=labels(tmp_path, "b,1,\nx,0,\n"), missing="skip")
    assert report == ImportReport(added=1, instances=1, skipped=3)
    assert bags.read == ["b"]


def test_bags_without_a_line_can_be_taken_as_if_it_were_empty(tmp_path: Path) -> None:
    bags = Given([("a", [[1.0]]), ("b", [[2.0]]), ("c", ReadBag(np.ones((1, 1), np.float32), label=0, split="own"))])
    report = run_import(bags, tmp_path / "store", labels=labels(tmp_path, "a,1,\nx,0,\n"), missing="unlabelled")
    assert report == ImportReport(added=3, instances=3, skipped=1)
    store = BagStore.open(tmp_path / "store")
    assert store.known_labels.tolist() == [1, -1, 0]
    assert store.splits.tolist() == [None, None, "own"]


def test_labels_that_differ_from_those_in_the_store_are_counted_and_not_taken(tmp_path: Path) -> None:
    bags = Given([(bag, [[1.0]]) for bag in "abcde"])
    run_import(bags, tmp_path / "store", labels=labels(tmp_path, "a,1,\nb,1,x\nc,,\nd,0,x\ne,1,\n"))
    other = labels(tmp_path, "a,1,\nb,1,y\nc,1,\nd,,\ne,0,new\n")
    report = run_import(bags, tmp_path / "store", labels=other)
    assert (report.present, report.differing) == (5, 3), "b has another split, c a label now, e both"
    store = BagStore.open(tmp_path / "store")
    assert store.known_labels.tolist() == [1, 1, -1, 0, 1]
    relabel(tmp_path / "store", {"b": (1, "y"), "c": (1, None), "e": (0, "new")})
    assert run_import(bags, tmp_path / "store", labels=other).differing == 0


def test_duplicate_ids_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    bags = Given([("a", [[1.0]]), ("b", [[1.0]]), ("a", [[1.0]])])
    with pytest.raises(InvalidInput, match="bag 'a' comes more than once in memory"):
        run_import(bags, tmp_path / "store")
    assert bags.read == []


def test_bags_that_are_there_are_not_read_again(tmp_path: Path) -> None:
    first = [("a", [[1.0]]), ("b", [[2.0]])]
    run_import(Given(first), tmp_path / "store")
    more = Given([*first, ("c", [[3.0], [4.0]])])
    assert run_import(more, tmp_path / "store") == ImportReport(added=1, instances=2, present=2)
    assert more.read == ["c"]


BROKEN = {
    "another-width": ([[1.0, 2.0, 3.0]], "the store has 2, bag 'another-width' has 3"),
    "another-type": (ReadBag(np.ones((1, 2), dtype=np.float16)), "comes in float16, the store keeps float32"),
    "empty": (ReadBag(np.ones((0, 2))), "'empty' is empty"),
    "flat": ([1.0, 2.0], r"expected \(n, D\)"),
    "not-a-number": ([[1.0, 2.0], [1.0, np.nan]], "bag 'not-a-number', row 1 has nan in column 1"),
    "unreadable": (InvalidInput("no such thing"), "no such thing"),
    "lying": (ReadBag(np.ones((1, 2)), label=0, truth=np.array([True])), "labelled negative"),
    "s\udce9": ([[1.0, 2.0]], r"s\\udce9.* no valid"),
}


@pytest.mark.parametrize("bag", BROKEN)
def test_a_bag_that_is_wrong_ends_the_import_and_is_named(bag: str, tmp_path: Path) -> None:
    broken, message = BROKEN[bag]
    with pytest.raises(AdmilError, match=message):
        run_import(Given([("good", [[1.0, 2.0]]), (bag, broken)]), tmp_path / "store")


def test_bags_that_are_wrong_can_be_left_out_with_their_reasons(tmp_path: Path) -> None:
    given: list[tuple[str, Any]] = [("good", [[1.0, 2.0]])]
    given += [(bag, broken) for bag, (broken, _) in BROKEN.items()]
    given += [("last", ReadBag(np.ones((1, 2), dtype=np.float32), left_out=("tile 3 of 'last' is torn",)))]
    seen: list[tuple[int, int]] = []

    report = run_import(
        Given(given), tmp_path / "store", skip_errors=True, on_bag=lambda done, of: seen.append((done, of))
    )

    assert (report.added, report.instances) == (2, 2)
    assert len(report.left_out) == len(BROKEN) + 1
    assert report.left_out[-1] == "tile 3 of 'last' is torn"
    assert seen == [(i, 10) for i in range(1, 11)]
    store = BagStore.open(tmp_path / "store")
    assert store.ids == ("good", "last")
    assert store.verify() == ()


def test_where_no_bag_can_be_read_there_is_no_store(tmp_path: Path) -> None:
    bags = Given([("a", InvalidInput("torn")), ("b", InvalidInput("lost"))])
    with pytest.raises(InvalidInput, match="none of the 2 bags could be read; the first: torn"):
        run_import(bags, tmp_path / "store", skip_errors=True)
    assert not (tmp_path / "store" / "store.json").exists()


def test_mixed_types_can_be_converted(tmp_path: Path) -> None:
    bags = Given([("a", ReadBag(np.ones((1, 2), dtype=np.float16))), ("b", [[1.0, 2.0]])])
    run_import(bags, tmp_path / "store", dtype="bfloat16")
    store = BagStore.open(tmp_path / "store")
    assert store.header.dtype == "bfloat16"
    assert store["b"].float().tolist() == [[1.0, 2.0]]
