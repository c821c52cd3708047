"""Which bags the label file names, and what is said where it names others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from admil.errors import InvalidInput
from admil.importers import LabelFile
from admil.importers.matching import Matched, matched


def lines(folder: Path, ids: Sequence[str]) -> LabelFile:
    (folder / "labels.csv").write_text("bag,label\n" + "".join(f'"{bag}",1\n' for bag in ids), encoding="utf-8")
    return LabelFile(folder / "labels.csv")


def test_bags_and_lines_that_are_the_same_need_no_word(tmp_path: Path) -> None:
    assert matched(["a", "b"], lines(tmp_path, "ba"), "error") == Matched(frozenset("ab"))


def test_what_is_left_over_is_counted_and_left_out_or_taken_without_a_label(tmp_path: Path) -> None:
    given = lines(tmp_path, ["b", "x", "y"])
    assert matched(["a", "b", "c"], given, "skip") == Matched(frozenset("b"), 4)
    assert matched(["a", "b", "c"], given, "unlabelled") == Matched(frozenset("abc"), 2)


HINTS: dict[str, tuple[list[str], list[str], str]] = {
    "lines-end": (
        ["a", "b.2"],
        ["a.svs", "b.2.svs"],
        r"2 of the ids left over would match: the lines end in '.svs', .*--strip .svs",
    ),
    "lines-end-often": (["a", "b", "c"], ["a.h5", "b.h5", "c.pt"], r"2 of .* take it off with --strip .h5"),
    "lines-end-twice": (["a", "b"], ["a.ome.tif", "b.ome.tif"], r"--strip .ome.tif"),
    "bags-end": (
        ["a.svs", "b.svs"],
        ["a", "b"],
        r"2 of the ids left over would match: the bags end in '.svs', .*write it into",
    ),
    "zeros-lost": (["007", "012"], ["7", "12"], r"2 of .*bag '012' and line '12': zeros in front were lost"),
    "zeros-more": (["7"], ["007"], r"bag '7' and line '007': zeros"),
    "capitals": (["Slide A"], ["slide a"], r"bag 'Slide A' and line 'slide a': capitals or blanks differ"),
    "blanks": (["slide a"], ["slide  a"], "capitals or blanks differ"),
    "folders": (["a", "b"], ["x/a", "y\\b"], "2 of .*folders stand in front of the names"),
}


@pytest.mark.parametrize("name", HINTS)
def test_what_keeps_ids_from_matching_is_named(name: str, tmp_path: Path) -> None:
    bags, named, hint = HINTS[name]
    given = lines(tmp_path, named)
    with pytest.raises(
        InvalidInput, match=rf"(?s)that ha(ve|s) no features: .*leave them out with --missing skip \(.*{hint}"
    ):
        matched(bags, given, "error")
    with pytest.raises(InvalidInput, match=rf"no bag has a line in .*labels\.csv: the bags are .*{hint}"):
        matched(bags, given, "skip")
    with pytest.raises(InvalidInput, match=hint):
        matched([*bags, "other"], given, "unlabelled")


def test_the_hint_is_kept_where_only_some_are_left_over(tmp_path: Path) -> None:
    found = matched(["a", "b"], lines(tmp_path, ["a", "b.svs"]), "skip")
    assert found.hint.startswith("1 of the ids left over would match: the lines end in '.svs'")


def test_bags_without_a_line_may_be_taken_without_a_label(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"1 bag has no line in .*: 'b'; add lines .*--missing unlabelled$"):
        matched(["a", "b"], lines(tmp_path, "a"), "error")


def test_where_nothing_is_alike_nothing_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"the bags are 'a', 'b', the lines name 'x'$"):
        matched(["a", "b"], lines(tmp_path, "x"), "skip")
    with pytest.raises(InvalidInput, match=r"the lines name none$"):
        matched(["a", "b"], lines(tmp_path, ""), "unlabelled")
