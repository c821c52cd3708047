"""What a summary says is what its results hold, and what they do not hold is said too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from admil.bench.intervals import Interval, Mean, paired_interval
from admil.bench.lookup import ResultIndex
from admil.bench.plans import Suite, Trial
from admil.bench.summary import DataSummary, MethodSummary, SuiteSummary, summarise
from admil.bench.sweeps import sweeps
from tests.bench.made_up import ceiling_result, failed_result, result, results_of

CURVES = {"pf": ([0.2, 0.4], [0.4, 0.8]), "random": ([0.2, 0.3], [0.4, 0.6])}
"""AP before and after ten answers, by method and seed."""


def suite(**changes: Any) -> Suite:
    fields: dict[str, Any] = {
        "title": "Two samplers",
        "data": {"digits": {"seeds": [0, 1], "budget": 10, "rounds": 1}},
        "methods": [{"name": "pf", "sampler": "pf"}, {"name": "random", "sampler": "random"}],
    }
    return Suite.model_validate({**fields, **changes})


def curves_of(name: str, trial: Trial) -> Sequence[float]:
    return [[0.8, 1.0][trial.data.seed]] if trial.ceiling else CURVES[name][trial.data.seed]


def summary_of(suite: Suite, results: Sequence[Mapping[str, Any]]) -> SuiteSummary:
    return summarise("a-suite", suite, ResultIndex(results))


def both(suite: Suite, results: Sequence[Mapping[str, Any]]) -> tuple[DataSummary, MethodSummary, MethodSummary]:
    data = summary_of(suite, results).data[0]
    return data, data.methods[0], data.methods[1]


def test_means_are_over_seeds_and_deviations_those_of_a_sample() -> None:
    data, pf, random = both(suite(), results_of(suite(), curves_of))
    assert data.replicates == "seeds"
    assert fields(pf.before) == pytest.approx((0.3, 0.2 / 2**0.5, 2))
    assert fields(pf.after) == pytest.approx((0.6, 0.4 / 2**0.5, 2))
    assert fields(pf.area) == pytest.approx((0.45, 0.3 / 2**0.5, 2))  # the mean height of each curve
    assert fields(random.area) == pytest.approx((0.375, 0.25 / 2**0.5, 2))
    assert pf.answers.tolist() == [0, 10]
    assert pf.quality.tolist() == [[0.2, 0.4], [0.4, 0.8]]
    assert pf.found.tolist() == [[0, 1], [0, 1]]
    assert pf.positives == Mean(5.0, 0.0, 2)
    assert pf.bag_auroc is None, "it was not defined in any trial"
    assert pf.ece == Mean(0.25, 0.0, 2)
    assert data.ceiling.tolist() == [0.8, 1.0]
    assert data.ceiling_fits == (("logistic regression", 2),)


def test_the_gap_closed_is_the_share_of_the_way_to_the_ceiling() -> None:
    _, pf, random = both(suite(), results_of(suite(), curves_of))
    assert pf.gap_closed == pytest.approx((0.6 - 0.3) / (0.9 - 0.3))
    assert random.gap_closed == pytest.approx((0.45 - 0.3) / (0.9 - 0.3))


@pytest.mark.parametrize("top", [0.3, 0.25], ids=["at passive", "below passive"])
def test_where_the_ceiling_is_not_above_passive_no_gap_is_closed(top: float) -> None:
    results = results_of(suite(), lambda name, trial: [top] if trial.ceiling else curves_of(name, trial))
    _, pf, _ = both(suite(), results)
    assert pf.gap_closed is None
    assert pf.after is not None


def test_the_gap_is_judged_on_the_replicates_whose_ceiling_is_known() -> None:
    kept = [each for each in results_of(suite(), curves_of) if not each["trial"]["ceiling"] or _seed(each) == 0]
    data, pf, _ = both(suite(), kept)
    assert pf.gap_closed == pytest.approx((0.4 - 0.2) / (0.8 - 0.2))
    assert [(absent.method, absent.data) for absent in data.absent] == [("ceiling", "digits/seed-1")]


def test_differences_are_paired_and_their_interval_is_students() -> None:
    _, pf, random = both(suite(), results_of(suite(), curves_of))
    assert pf.difference is None, "it is the baseline"
    assert random.difference is not None
    differences = np.array([0.25 - 0.3, 0.5 - 0.6])
    half = stats.t.ppf(0.975, 1) * differences.std(ddof=1) / 2**0.5
    found = random.difference.interval
    assert (found.mean, found.low, found.high) == pytest.approx((-0.075, -0.075 - half, -0.075 + half))
    assert random.difference.quantity == "area"
    assert random.difference.n == 2
    assert random.difference.verdict == "not told apart", "two seeds that differ in how much do not tell"


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [([0.1, 0.11, 0.09], "higher"), ([-0.1, -0.11, -0.09], "lower"), ([0.0, 0.0], "not told apart")],
)
def test_only_an_interval_without_zero_makes_a_winner(differences: list[float], verdict: str) -> None:
    seeds = list(range(len(differences)))
    planned = suite(data={"digits": {"seeds": seeds, "budget": 10, "rounds": 1}})

    def qualities(name: str, trial: Trial) -> Sequence[float]:
        shift = differences[trial.data.seed] if name == "random" else 0.0
        return [0.5 + shift, 0.5 + shift]

    _, _, random = both(planned, results_of(planned, qualities))
    assert random.difference is not None
    assert random.difference.verdict == verdict


def test_one_seed_has_neither_deviation_nor_interval_nor_winner() -> None:
    planned = suite(data={"digits": {"seeds": [0], "budget": 10, "rounds": 1}})
    _, pf, random = both(planned, results_of(planned, curves_of))
    assert pf.after == Mean(0.4, None, 1)
    assert random.difference is not None
    assert random.difference.interval == Interval(random.difference.interval.mean, None, None)
    assert random.difference.interval.mean == pytest.approx(-0.05)
    assert random.difference.verdict == "one replicate"


def test_one_that_does_not_ask_is_compared_before_any_answer() -> None:
    planned = suite(methods=[{"name": "pf", "sampler": "pf"}, {"name": "mean", "learner": "mean"}])
    curves = {"pf": [0.2, 0.9], "mean": [0.3, 0.3]}
    _, _, mean = both(planned, results_of(planned, lambda name, _: curves.get(name, [0.95])))
    assert mean.area is None
    assert mean.gap_closed is None
    assert mean.answers_to_reach is None
    assert mean.difference is not None
    assert mean.difference.quantity == "before"
    assert mean.difference.interval.mean == pytest.approx(0.1)


def test_the_paper_protocol_is_optimistic_and_beats_nobody_honest() -> None:
    planned = suite(methods=[{"name": "pf", "sampler": "pf"}, {"name": "leaky", "sampler": "pf", "protocol": "paper"}])
    curves = {"pf": [0.2, 0.2], "leaky": [0.9, 0.9]}
    _, pf, leaky = both(planned, results_of(planned, lambda name, _: curves.get(name, [0.95])))
    assert (pf.optimistic, leaky.optimistic) == (False, True)
    assert leaky.difference is not None
    assert leaky.difference.interval.excludes_zero
    assert leaky.difference.verdict == "another protocol"


def test_the_answers_to_reach_the_reference_lie_between_rounds() -> None:
    planned = suite(data={"digits": {"seeds": [0], "budget": 10, "rounds": 2}})
    for curve, expected in (([0.1, 0.3, 0.7], 15.0), ([0.6, 0.4, 0.4], 0.0), ([0.1, 0.2, 0.3], None)):
        curves = {"pf": [0.1, 0.2, 0.5], "random": curve}
        results = results_of(planned, lambda name, _, curves=curves: curves.get(name, [0.9]))  # type: ignore[misc]
        _, pf, random = both(planned, results)
        assert pf.answers_to_reach == pytest.approx(20), "its own end point is its end"
        assert random.answers_to_reach == (None if expected is None else pytest.approx(expected))


def test_topics_are_the_replicates_of_newsgroups_and_their_seeds_are_averaged() -> None:
    data = {"20newsgroups": {"parts": ["sci.space", "rec.autos"], "seeds": [0, 1], "budget": 15, "rounds": 1}}
    planned = suite(data=data)
    starts = {("sci.space", 0): 0.2, ("sci.space", 1): 0.4, ("rec.autos", 0): 0.5, ("rec.autos", 1): 0.7}

    def qualities(name: str, trial: Trial) -> Sequence[float]:
        start = starts[trial.data.part, trial.data.seed]
        return [start, start + 0.1 * (name == "pf")]

    shown, pf, random = both(planned, results_of(planned, qualities))
    assert (shown.label, shown.replicates) == ("20newsgroups", "topics")
    assert pf.n == 4
    assert fields(pf.before) == pytest.approx((0.45, 0.3 / 2**0.5, 2))
    assert random.difference is not None
    assert random.difference.n == 2


def test_what_failed_or_is_missing_is_counted_and_named_and_in_no_mean() -> None:
    planned = suite()
    trials = [(name, trial) for name, trial in planned.trials() if not trial.ceiling]
    results = [result(trial, CURVES[name][trial.data.seed]) for name, trial in trials[:3] if name == "pf"]
    results += [failed_result(trial, "MemoryError: none left") for name, trial in trials if name == "random"][:1]
    summary = summary_of(planned, results)
    data = summary.data[0]
    told = {(absent.method, absent.data, absent.reason) for absent in data.absent}
    assert told == {
        ("random", "digits/seed-0", "MemoryError: none left"),
        ("random", "digits/seed-1", None),
        ("ceiling", "digits/seed-0", None),
        ("ceiling", "digits/seed-1", None),
    }
    assert (summary.planned, len(summary.absent)) == (6, 4)
    random = data.methods[1]
    assert (random.n, random.planned) == (0, 2)
    assert (random.before, random.after, random.area, random.difference) == (None, None, None, None)
    assert random.quality.shape == (0, 0)


def test_pairs_are_those_that_both_have() -> None:
    kept = [
        each
        for each in results_of(suite(), curves_of)
        if each["trial"]["recipe"]["sampler"]["kind"] != "random" or _seed(each)
    ]
    _, pf, random = both(suite(), kept)
    assert (pf.n, random.n, random.planned) == (2, 1, 2)
    assert random.difference is not None
    assert random.difference.n == 1
    assert random.difference.interval.mean == pytest.approx(0.5 - 0.6)
    assert random.answers_to_reach is None, "on seed 1, where both are, pf ends at 0.8"


def test_a_trial_whose_ap_is_not_defined_is_named_not_averaged() -> None:
    planned = suite()
    results: list[Mapping[str, Any]] = []
    for _, trial in planned.trials():
        if trial.ceiling:
            results.append(ceiling_result(trial, None if trial.data.seed else 0.9))
        else:
            results.append(result(trial, [0.1, None] if trial.data.seed else [0.1, 0.2]))
    data, pf, _ = both(planned, results)
    assert (pf.n, pf.after) == (1, Mean(0.2, None, 1))
    assert len(data.absent) == 3
    assert all("not defined" in str(absent.reason) for absent in data.absent)


def test_a_trial_that_ran_out_of_questions_counts_by_its_own_end() -> None:
    planned = suite(data={"digits": {"seeds": [0, 1], "budget": 10, "rounds": 2}})
    lengths = {0: [0.1, 0.2], 1: [0.1, 0.2, 0.6]}
    results = [result(trial, lengths[trial.data.seed]) for name, trial in planned.trials() if name == "pf"]
    _, pf, _ = both(planned, results)
    assert pf.ended_early == 1
    assert pf.quality.shape == (2, 2), "rounds that all reached"
    assert fields(pf.after) == pytest.approx((0.4, 0.4 / 2**0.5, 2))


def test_rounds_without_an_answer_do_not_break_the_area() -> None:
    planned = suite(data={"digits": {"seeds": [0], "budget": 10, "rounds": 1}})
    (trial,) = [trial for name, trial in planned.trials() if name == "pf"]
    stuck = result(trial, [0.2, 0.6])
    stuck["rounds"][1]["answers"] = 0
    _, pf, _ = both(planned, [stuck])
    assert pf.area == Mean(0.6, None, 1)


def test_a_model_trained_once_for_several_costs_each_its_whole_time() -> None:
    planned = suite(data={"digits": {"seeds": [0], "budget": 10, "rounds": 1}})
    results = []
    for name, trial in planned.trials():
        if not trial.ceiling:
            results.append(result(trial, [0.1, 0.2], seconds=2.0))
            results[-1]["rounds"][0]["seconds"] = 30.0 if name == "pf" else 0.01
    _, pf, random = both(planned, results)
    assert pf.seconds == random.seconds == Mean(32.0, None, 1)


def test_of_two_results_of_one_trial_a_success_is_taken_and_the_last() -> None:
    planned = suite()
    (trial, *_) = [trial for name, trial in planned.trials() if name == "pf"]
    first, second, failed = result(trial, [0.1, 0.1]), result(trial, [0.2, 0.2]), failed_result(trial, "no")
    index = ResultIndex([failed, first, second, failed])
    assert index.doubled == 3
    assert index.of(trial) is second


def test_results_of_other_suites_and_versions_do_no_harm() -> None:
    strange = {"key": "x", "trial": {"what": "is this"}, "status": "done", "rounds": [{"seconds": 1.0}], "seconds": 1.0}
    summary = summary_of(suite(), [strange, *results_of(suite(), curves_of)])
    assert summary.absent == ()


def test_the_reference_asks_by_pf_and_is_honest() -> None:
    methods = [
        {"name": "leaky", "sampler": "pf", "protocol": "paper"},
        {"name": "random", "sampler": "random"},
        {"name": "pf", "sampler": "pf"},
    ]
    assert summary_of(suite(methods=methods), []).reference == "pf"
    assert summary_of(suite(methods=methods), []).baseline == "leaky"
    assert summary_of(suite(methods=methods[1:2]), []).reference is None


def test_a_sweep_is_found_where_methods_differ_in_one_setting() -> None:
    def drbl(name: str, family: str, strength: float) -> dict[str, Any]:
        robustness = {"family": family, "measure": "radius", "strength": strength}
        return {"name": name, "training": {"loss": {"kind": "drbl", "robustness": robustness}}}

    methods = [drbl(f"{family} {s}", family, s) for family in ("chi_square", "kl") for s in (1.0, 0.01)]
    methods += [{"name": f"asks {k}", "sampler": {"kind": "pf", "per_bag": k}} for k in (3, 1)]
    planned = suite(methods=[*methods, {"name": "alone", "learner": "mean"}])
    data = summary_of(planned, results_of(planned, lambda *_: [0.5, 0.5])).data[0]
    found = {sweep.setting: sweep.series for sweep in sweeps(data.methods)}
    assert set(found) == {"radius of the ball", "k of P-F: questions in a difficult bag"}
    assert [(each.name, each.x) for each in found["radius of the ball"]] == [
        ("chi-square", (0.01, 1.0)),
        ("kl", (0.01, 1.0)),
    ]
    (asked,) = found["k of P-F: questions in a difficult bag"]
    assert [method.name for method in asked.methods] == ["asks 1", "asks 3"]


def test_a_mean_of_nothing_is_nothing() -> None:
    assert Mean.of([math.nan]) is None
    assert paired_interval(np.array([0.5])) == Interval(0.5, None, None)


def fields(mean: Mean | None) -> tuple[float, ...]:
    assert mean is not None
    assert mean.deviation is not None
    return mean.mean, mean.deviation, mean.n


def _seed(result: Mapping[str, Any]) -> int:
    return int(result["trial"]["data"]["seed"])
