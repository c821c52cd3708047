"""Finding the result of a trial without its store: by the trial itself, as results hold it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from admil.bench.plans import Trial
from admil.errors import InvalidInput

__all__ = ["ResultIndex"]


class ResultIndex:
    """Results by their trial; of several (from other stores) the last, but a success before a failure.

    Args:
        results: such as the values of `ResultFile.read`.

    Attributes:
        results: what is found.
        doubled: how many trials have more than one result.
    """

    def __init__(self, results: Iterable[Mapping[str, Any]]) -> None:
        self.results: dict[str, Mapping[str, Any]] = {}
        self.doubled = 0
        for result in results:
            name = _name(result["trial"])
            before = self.results.get(name)
            self.doubled += before is not None
            if before is None or before["status"] != "done" or result["status"] == "done":
                self.results[name] = result
        self._first_seconds = self._longest_first_rounds()

    def of(self, trial: Trial) -> Mapping[str, Any] | None:
        """Return the result of a trial; None where it has not been run."""
        return self.results.get(_name(trial.model_dump(mode="json")))

    def seconds(self, trial: Trial) -> float:
        """Return the time of all rounds of a trial that is done.

        Trials that start from one model train it once; each is given the whole time of that.
        """
        rounds = self.results[_name(trial.model_dump(mode="json"))]["rounds"]
        first = max(rounds[0]["seconds"], self._first_seconds.get(trial.passive_key(""), 0.0))
        return float(first + sum(each["seconds"] for each in rounds[1:]))

    def _longest_first_rounds(self) -> dict[str, float]:
        longest: dict[str, float] = {}
        for result in self.results.values():
            if not result.get("rounds"):
                continue
            try:
                key = Trial.model_validate(result["trial"]).passive_key("")
            except InvalidInput:  # of another version; no suite of this one asks for it
                continue
            longest[key] = max(longest.get(key, 0.0), result["rounds"][0]["seconds"])
        return longest


def _name(trial: Any) -> str:
    return json.dumps(trial, sort_keys=True)
