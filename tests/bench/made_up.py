"""Results of trials that never ran: the lines that a runner would have written, with given numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from admil.bench.plans import Suite, Trial

__all__ = ["bag", "ceiling_result", "failed_result", "result", "results_of"]

Qualities = Callable[[str, Trial], Sequence[float]]


def result(trial: Trial, qualities: Sequence[float | None], seconds: float = 1.0, bags: int = 0) -> dict[str, Any]:
    """Return the result of a trial with these APs, a round each; every second answer is positive."""
    budget = trial.recipe.budget
    rounds = [
        {
            "answers": number * budget,
            "positives": number * budget // 2,
            "bags_found": number / max(1, trial.rounds),
            "ap": quality,
            "bag_ap": 0.5,
            "ece": 0.25,
            "bag_auroc": None,
            "held_out_auroc": None,
            "seconds": seconds,
        }
        for number, quality in enumerate(qualities)
    ]
    kept = {"bags": [bag(f"bag-{number}") for number in range(bags)]} if bags else {}
    return {**_head(trial), "status": "done", "rounds": rounds, **kept, "seconds": seconds * len(rounds)}


def ceiling_result(trial: Trial, quality: float | None) -> dict[str, Any]:
    """Return the result of a ceiling."""
    content = {"name": "logistic regression", "validated": 0.9, "ap": quality}
    return {**_head(trial), "status": "done", "ceiling": content, "seconds": 1.0}


def failed_result(trial: Trial, reason: str) -> dict[str, Any]:
    """Return the result of a trial that failed."""
    return {**_head(trial), "status": "failed", "reason": reason, "seconds": 0.5}


def results_of(suite: Suite, qualities: Qualities) -> list[dict[str, Any]]:
    """Return the results of all trials of a suite; the ceiling's is the first of its qualities."""
    return [
        ceiling_result(trial, qualities(name, trial)[0])
        if trial.ceiling
        else result(trial, qualities(name, trial)[: trial.rounds + 1], bags=trial.pictured)
        for name, trial in suite.trials()
    ]


def bag(name: str) -> dict[str, Any]:
    """Return a bag of three: its positive instance came second, and first after the answers."""
    return {
        "bag": name,
        "f_before": [0.4, 0.3, 0.1],
        "p_before": [0.5, 0.5, 0.0],
        "f_after": [0.2, 0.8, 0.1],
        "p_after": [0.0, 1.0, 0.0],
        "positive": [False, True, False],
        "asked": [True, False, False],
    }


def _head(trial: Trial) -> dict[str, Any]:
    return {
        "key": trial.key("a store"),
        "trial": trial.model_dump(mode="json"),
        "versions": {"admil": "0.1.0"},
        "machine": "a machine",
    }
