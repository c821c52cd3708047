"""Which bags the label file names, and what may be wrong where it names others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from admil.errors import InvalidInput
from admil.importers.labels import LabelFile

__all__ = ["Matched", "Missing", "matched"]

Missing = Literal["error", "skip", "unlabelled"]
"""What to do with bags without a line in the label file: end, leave them out, or take them without a label."""


@dataclass(frozen=True)
class Matched:
    """The bags to import.

    Attributes:
        bags: their ids.
        skipped: bags without a line, and lines without a bag, that are left out.
        hint: a sentence on why ids that are left over may not match; empty where nothing comes to mind.
    """

    bags: frozenset[str]
    skipped: int = 0
    hint: str = ""


def matched(ids: Collection[str], labels: LabelFile, missing: Missing) -> Matched:
    """Match bags with the lines of a label file.

    Raises:
        InvalidInput: there is a bag without a line or a line without a bag, and ``missing`` is "error"; or no bag
            has a line at all.
    """
    there = frozenset(ids)
    both = there & labels.keys()
    without_line, without_bag = sorted(there - both), sorted(labels.keys() - both)
    hint = _hint(without_line, without_bag)
    if missing == "error":
        _check(labels, without_line, without_bag, hint)
    if not both:
        raise InvalidInput(
            f"no bag has a line in {labels.path}: the bags are {_first(without_line)}, the lines name "
            f"{_first(without_bag) or 'none'}{_after(hint)}",
            labels.path,
        )
    if missing == "unlabelled":
        return Matched(there, len(without_bag), hint)
    return Matched(both, len(without_line) + len(without_bag), hint)


def _check(labels: LabelFile, without_line: list[str], without_bag: list[str], hint: str) -> None:
    if without_bag:
        raise InvalidInput(
            f"{labels.path} names {_bags_have(without_bag, ' that')} no features: {_first(without_bag)}; "
            f"add their files, remove their lines, or leave them out with --missing skip{_after(hint)}",
            without_bag,
        )
    if without_line:
        raise InvalidInput(
            f"{_bags_have(without_line)} no line in {labels.path}: {_first(without_line)}; add lines (an empty "
            "label says not known), leave them out with --missing skip, or take them without a label with --missing "
            f"unlabelled{_after(hint)}",
            without_line,
        )


def _hint(bags: list[str], lines: list[str]) -> str:
    """Say what keeps ids of bags and of lines from being the same, by what explains the most of them."""
    found = [
        _ending(lines, bags, "the lines end in {ending!r}, which the bags do not: take it off with --strip {ending}"),
        _ending(bags, lines, "the bags end in {ending!r}, which the lines do not: write it into the label file"),
        _alike(
            bags,
            lines,
            _without_zeros,
            "zeros in front were lost, as in spreadsheets: write the ids as the bags have them",
        ),
        _alike(bags, lines, _plain, "capitals or blanks differ: write the ids as the bags have them"),
        _alike(bags, lines, _file_name, "folders stand in front of the names: write the ids as the bags have them"),
    ]
    count, said = max(found, key=lambda each: each[0])
    return f"{count:,} of the ids left over would match: {said}" if count else ""


def _ending(longer: list[str], shorter: list[str], said: str) -> tuple[int, str]:
    """Count the ids that are others but for an ending, the most frequent one; it begins with a dot."""
    known = frozenset(shorter)
    endings = Counter(
        name[dot:] for name in longer for dot, letter in enumerate(name) if letter == "." and name[:dot] in known
    )
    if not endings:
        return 0, ""
    ((ending, count),) = endings.most_common(1)
    return count, said.format(ending=ending)


def _alike(bags: list[str], lines: list[str], change: Callable[[str], str], said: str) -> tuple[int, str]:
    """Count the lines that name a bag once both are changed."""
    known: Mapping[str, str] = {change(bag): bag for bag in bags}
    pairs = [(known[change(name)], name) for name in lines if change(name) in known]
    if not pairs:
        return 0, ""
    bag, name = pairs[0]
    return len(pairs), f"such as bag {bag!r} and line {name!r}: {said}"


def _without_zeros(name: str) -> str:
    return name.lstrip("0")


def _plain(name: str) -> str:
    return "".join(name.casefold().split())


def _file_name(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2]


def _bags_have(names: list[str], that: str = "") -> str:
    return f"1 bag{that} has" if len(names) == 1 else f"{len(names):,} bags{that} have"


def _after(hint: str) -> str:
    return f" ({hint})" if hint else ""


def _first(names: list[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")
