"""What is swept in a suite: methods that differ in one setting only, read from their trials."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from admil.bench.summary import MethodSummary

__all__ = ["Sweep", "SweptSeries", "sweeps"]

_TRAINING = ("recipe", "training")
_SETTINGS: dict[tuple[str, ...], str] = {
    (*_TRAINING, "loss", "robustness", "strength"): "strength",
    (*_TRAINING, "loss", "k"): "k of top-k",
    (*_TRAINING, "beta"): "weight β of the answers' term",
    ("recipe", "sampler", "per_bag"): "k of P-F: questions in a difficult bag",
}
_MEASURES = {
    "effective": "effective instances k",
    "radius": "radius of the ball",
    "temperature": "temperature of the softmax",
}


@dataclass(frozen=True, eq=False)
class SweptSeries:
    """Methods that differ in the swept setting only, by its rising values ``x``."""

    name: str
    x: tuple[float, ...]
    methods: tuple[MethodSummary, ...]


@dataclass(frozen=True, eq=False)
class Sweep:
    """All series over one setting."""

    setting: str
    series: tuple[SweptSeries, ...]


def sweeps(methods: Sequence[MethodSummary]) -> tuple[Sweep, ...]:
    """Return what is swept among methods of one data set: a setting, with at least two values of it in a series."""
    found: dict[str, list[SweptSeries]] = {}
    for path, words in _SETTINGS.items():
        groups: dict[str, dict[float, MethodSummary]] = {}
        for method in methods:
            content = method.trial.model_dump(mode="json", exclude={"pictured"})
            x = None if content["choices"] else _taken(content, path)
            if x is not None:
                groups.setdefault(json.dumps(content, sort_keys=True), {}).setdefault(x, method)
        for group in groups.values():
            if len(group) > 1:
                series = _series(group)
                found.setdefault(_setting(series.methods[0], words), []).append(series)
    return tuple(Sweep(setting, _told_apart(series)) for setting, series in found.items())


def _taken(content: dict[str, Any], path: Sequence[str]) -> float | None:
    """Remove a setting from a trial's content and return it; None where there is none."""
    name, *below = path
    value = content.get(name)
    if below:
        return _taken(value, below) if isinstance(value, dict) else None
    return float(content.pop(name)) if isinstance(value, int | float) else None


def _series(group: Mapping[float, MethodSummary]) -> SweptSeries:
    values = sorted(group)
    return SweptSeries(_name(group[values[0]]), tuple(values), tuple(group[value] for value in values))


def _setting(method: MethodSummary, words: str) -> str:
    if words != "strength":
        return words
    return _MEASURES[method.trial.model_dump(mode="json")["recipe"]["training"]["loss"]["robustness"]["measure"]]


def _name(method: MethodSummary) -> str:
    """Return what tells the series from others: the loss, whom it asks, and the protocol."""
    trial = method.trial.model_dump(mode="json")
    loss = trial["recipe"]["training"]["loss"]
    loss = loss if isinstance(loss, dict) else loss[0]
    shape = loss.get("robustness", {})
    words = [str(shape["family"] if shape else loss["kind"]).replace("_", "-")]
    words += ["gradient through p"] if shape.get("through") else []
    if method.asks:
        words += [trial["recipe"]["sampler"]["kind"].replace("_", "-"), trial["recipe"]["training"]["answers"]]
    return ", ".join([*words, *(["optimistic"] if method.optimistic else [])])


def _told_apart(series: Sequence[SweptSeries]) -> tuple[SweptSeries, ...]:
    """Return the series, those of one name called by their first method as well."""
    names = [each.name for each in series]
    return tuple(
        each if names.count(each.name) == 1 else SweptSeries(f"{each.methods[0].name} …", each.x, each.methods)
        for each in series
    )
