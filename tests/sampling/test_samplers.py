"""Every priority against its formula, worked out another way."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from admil.bags import LabelBook, LabelState, Query, Scores
from admil.errors import InvalidInput
from admil.sampling import (
    EGL,
    MIALMIU,
    BagPosterior,
    Disagreement,
    FEntropy,
    MIALUncertainty,
    PEntropy,
    RandomSampler,
    Sampler,
)
from admil.sampling.samplers import _Priority
from tests.sampling.situations import (
    Situation,
    bag_by_bag,
    generator,
    ids,
    ragged,
    scores_of,
    situations,
)


def test_f_entropy_is_the_entropy_of_the_score() -> None:
    scores, book = bag_by_bag([[0.0, 0.25, 1.0], [0.5, 0.9]])
    priority = FEntropy().priority(scores, book, generator())
    assert priority.tolist() == pytest.approx([0, 0.562335, 0, math.log(2), 0.325083], abs=1e-6)
    assert _asked(FEntropy(), (scores, book), 4) == ids((1, 0), (0, 1), (1, 1), (0, 0))


def test_p_entropy_is_the_entropy_of_the_weight_whatever_the_score() -> None:
    scores, book = bag_by_bag([[0.5, 0.5, 0.5], [0.5, 0.5]])
    scores = replace(scores, p=np.array([0.1, 0.0, 0.9, 0.25, 0.75]))
    priority = PEntropy().priority(scores, book, generator())
    assert priority.tolist() == pytest.approx([0.325083, 0, 0.325083, 0.562335, 0.562335], abs=1e-6)
    assert set(_asked(PEntropy(), (scores, book), 2)) == set(ids((1, 0), (1, 1)))


def test_mial_uncertainty_is_the_gini_impurity() -> None:
    scores, book = bag_by_bag([[0.0, 0.25, 1.0], [0.5, 0.9]])
    priority = MIALUncertainty().priority(scores, book, generator())
    assert priority.tolist() == pytest.approx([0, 0.375, 0, 0.5, 0.18])


@settings(max_examples=40)
@given(situation=situations(), budget=st.integers(1, 20))
def test_gini_and_entropy_rank_alike(situation: Situation, budget: int) -> None:
    assert _select(MIALUncertainty(), situation, budget).items == _select(FEntropy(), situation, budget).items


@settings(max_examples=40)
@given(situation=situations(), alpha=st.sampled_from([0.1, 2.5, 8.0]))
def test_miu_is_the_slope_of_the_bag_score_times_its_uncertainty(situation: Situation, alpha: float) -> None:
    scores, book = situation
    priority = MIALMIU(alpha=alpha).priority(scores, book, generator())
    for number in range(len(book.index)):
        positions = book.index.positions(np.array([number]))
        kept = [int(at) for at in positions if book.state[at] != LabelState.NEGATIVE]
        expected = dict.fromkeys(map(int, positions), 0.0)
        if kept:
            expected |= dict(zip(kept, _miu_by_autograd(scores.f[kept], alpha), strict=True))
        assert priority[positions].tolist() == pytest.approx(list(expected.values()), abs=1e-12)


def test_miu_of_two_instances_by_hand() -> None:
    scores, book = bag_by_bag([[1.0, 0.0]])
    weight = math.exp(2.5) / (1 + math.exp(2.5))  # of the first; O is the same number
    uncertainty = 2 * weight * (1 - weight)
    first, second = weight * (1 + 2.5 * (1 - weight)), (1 - weight) * (1 - 2.5 * weight)
    priority = MIALMIU().priority(scores, book, generator())
    assert priority.tolist() == pytest.approx([first * uncertainty, second * uncertainty])


@settings(max_examples=60)
@given(situation=situations())
def test_the_bag_posterior_is_that_of_counting_every_possible_truth(situation: Situation) -> None:
    scores, book = situation
    priority = BagPosterior().priority(scores, book, generator())
    for number in map(int, book.index.positive):
        positions = book.index.positions(np.array([number]))
        open_ = [int(at) for at in positions if book.state[at] in (LabelState.UNKNOWN, LabelState.SKIPPED)]
        if not open_:
            continue
        f = scores.f[open_].tolist()
        posterior = f if book.confirmed[number] else _posterior_by_counting(f)
        assert priority[open_].tolist() == pytest.approx([_entropy(share) for share in posterior], abs=1e-9)


def test_the_bag_posterior_of_two_instances_by_hand() -> None:
    scores, book = bag_by_bag([[0.5, 0.2]])
    priority = BagPosterior().priority(scores, book, generator())
    assert priority.tolist() == pytest.approx([_entropy(0.5 / 0.6), _entropy(0.2 / 0.6)])


def test_in_a_bag_with_a_known_positive_the_posterior_is_the_score() -> None:
    scores, book = bag_by_bag([[0.5, 0.2, 0.9]], {2: "positive"})
    priority = BagPosterior().priority(scores, book, generator())
    assert priority[:2].tolist() == pytest.approx([_entropy(0.5), _entropy(0.2)])


def test_known_negatives_leave_the_product_and_skipped_instances_stay_in_it() -> None:
    bag = [0.5, 0.2, 0.3]
    with_all = BagPosterior().priority(*bag_by_bag([bag]), generator())
    assert with_all[0] == pytest.approx(_entropy(0.5 / 0.72))
    negative = BagPosterior().priority(*bag_by_bag([bag], {2: "negative"}), generator())
    assert negative[0] == pytest.approx(_entropy(0.5 / 0.6))
    skipped = BagPosterior().priority(*bag_by_bag([bag], {2: "skipped"}), generator())
    assert skipped[0] == with_all[0]


def test_a_bag_that_the_model_gives_no_chance_at_all_shares_it_equally() -> None:
    priority = BagPosterior().priority(*bag_by_bag([[0.0, 0.0, 0.0, 0.0]]), generator())
    assert priority.tolist() == pytest.approx([_entropy(0.25)] * 4)


def test_tiny_scores_are_no_loss_of_precision() -> None:
    priority = BagPosterior().priority(*bag_by_bag([[3e-18, 1e-18]]), generator())
    assert priority.tolist() == pytest.approx([_entropy(0.75), _entropy(0.25)])


def test_a_weak_front_runner_is_asked_before_a_flat_bag_though_its_score_is_low() -> None:
    front, flat = [0.05] + [0.001] * 31, [0.1] * 32
    situation = bag_by_bag([flat, front])
    assert _asked(BagPosterior(), situation, 1) == ids((1, 0))
    assert _asked(FEntropy(), situation, 1) == ids((0, 0))


@pytest.mark.parametrize("f", [0.0, 1e-12, 1e-5])
def test_a_flat_bag_of_low_scores_is_worth_little_everywhere(f: float) -> None:
    priority = BagPosterior().priority(*bag_by_bag([[f] * 32]), generator())
    assert priority.tolist() == pytest.approx([0.139] * 32, abs=1e-3)


def test_a_front_runner_without_rivals_is_as_good_as_implied_and_waits() -> None:
    """Where one score towers over its bag its posterior nears 1, and so there is little to ask."""
    situation = bag_by_bag([[0.1] * 32, [0.05] + [1e-6] * 31])
    assert _asked(BagPosterior(), situation, 1) == ids((0, 0))


def test_the_bag_posterior_says_whether_it_explores() -> None:
    scores, book = bag_by_bag([[0.4, 0.3], [0.5, 0.6, 0.1]], {2: "positive"})
    query = _select(BagPosterior(), (scores, book), 9)
    assert {(item.id.bag, item.reason) for item in query} == {("bag0", "explore"), ("bag1", "exploit")}


@pytest.mark.parametrize(
    ("sampler", "need"), [(Disagreement(), "disagreement"), (EGL(), "expected_gradient_length")], ids=["D", "EGL"]
)
def test_what_score_added_is_the_priority(sampler: Sampler, need: str) -> None:
    scores, book = bag_by_bag([[0.5, 0.4, 0.3], [0.2, 0.1]], {0: "negative"})
    extras = {need: np.array([9.0, 0.1, 0.3, 0.3, 0.2]), "embedding": np.zeros((5, 2))}
    assert sampler.needs == (need,)
    assert _asked(sampler, (replace(scores, extras=extras), book), 9) == ids((0, 2), (1, 0), (1, 1), (0, 1))


def test_random_asks_every_candidate_equally_often() -> None:
    scores, book = ragged()
    chance, sampler = generator(3), RandomSampler()
    count = np.zeros(book.index.n_instances)
    for _ in range(900):
        for instance in sampler.select(scores, book, 2, chance).ids:
            count[book.index.position(instance)] += 1
    expected = 1800 / 9
    statistic = ((count[book.candidates] - expected) ** 2 / expected).sum()
    assert count.sum() == count[book.candidates].sum() == 1800
    assert statistic < 26.1  # 0.1 % of uniform draws exceed it (8 degrees of freedom)


def test_random_gives_every_order_equally_often() -> None:
    scores, book = bag_by_bag([[0.9, 0.1, 0.5]])
    chance, sampler = generator(4), RandomSampler()
    orders = [tuple(i.index for i in sampler.select(scores, book, 3, chance).ids) for _ in range(600)]
    counts = np.array([orders.count(order) for order in set(orders)])
    assert len(counts) == 6
    assert ((counts - 100) ** 2 / 100).sum() < 20.5  # 0.1 %, 5 degrees of freedom


def test_random_knows_nothing_of_the_scores() -> None:
    scores, book = ragged()
    other = scores_of(1 - scores.f, book)
    asked = [RandomSampler().select(these, book, 5, generator(1)).ids for these in (scores, other)]
    assert asked[0] == asked[1]
    assert {item.reason for item in _select(RandomSampler(), (scores, book), 9)} == {"random"}


@pytest.mark.parametrize("alpha", [0, -1, math.inf, math.nan])
def test_an_alpha_that_is_no_positive_number_is_refused(alpha: float) -> None:
    with pytest.raises(InvalidInput, match="alpha"):
        MIALMIU(alpha=alpha)


def test_a_priority_missing_from_a_new_sampler_is_named() -> None:
    class Forgetful(_Priority):
        pass

    scores, book = ragged()
    with pytest.raises(InvalidInput, match="Forgetful gives no priority"):
        Forgetful().select(scores, book, 1, generator())


@settings(max_examples=30)
@given(f=st.lists(st.floats(0, 1), min_size=2, max_size=6, unique=True))
def test_below_one_half_the_more_probable_of_a_bag_comes_first(f: list[float]) -> None:
    posterior = _posterior_by_counting(f)
    priority = BagPosterior().priority(*bag_by_bag([f]), generator())
    low = sorted((i for i, share in enumerate(posterior) if share < 0.5), key=lambda i: f[i])
    assert all(priority[a] <= priority[b] + 1e-12 for a, b in pairwise(low))


def _select(sampler: Sampler, situation: Situation, budget: int) -> Query:
    return sampler.select(*situation, budget, generator())


def _asked(sampler: Sampler, situation: tuple[Scores, LabelBook], budget: int) -> list[object]:
    return list(_select(sampler, situation, budget).ids)


def _entropy(f: float) -> float:
    return -sum(share * math.log(share) for share in (f, 1 - f) if share > 0)


def _miu_by_autograd(f: np.ndarray[tuple[int], np.dtype[np.float64]], alpha: float) -> list[float]:
    each = [torch.tensor(float(value), dtype=torch.float64, requires_grad=True) for value in f]
    pull = [torch.exp(alpha * value) for value in each]
    bag: Tensor = sum(w * value for w, value in zip(pull, each, strict=True)) / sum(pull)  # type: ignore[assignment]
    slopes = torch.autograd.grad(bag, each)
    chance = bag.item()
    return [slope.item() * 2 * chance * (1 - chance) for slope in slopes]


def _posterior_by_counting(f: list[float]) -> list[float]:
    """Return P(z_i = 1 | at least one is) by going through all truths; equal shares where f is 0."""
    total, share = 0.0, [0.0] * len(f)
    for truth in product((0, 1), repeat=len(f)):
        if any(truth):
            chance = math.prod(value if z else 1 - value for z, value in zip(truth, f, strict=True))
            total += chance
            share = [so_far + chance * z for so_far, z in zip(share, truth, strict=True)]
    return [value / total for value in share] if total > 0 else [1 / len(f)] * len(f)


def test_a_query_says_so_where_every_priority_is_the_same() -> None:
    scores, book = bag_by_bag([[0.9, 0.3, 0.5], [0.2, 0.8]])
    flat = replace(scores, p=np.array([1.0, 0.0, 0.0, 0.0, 1.0]))  # what k = 1 makes of any scores
    query = PEntropy().select(flat, book, 2, generator())
    assert query.note == "all 5 candidates have the same priority: they are asked in the order of the bags"
    assert [item.id.index for item in query] == [0, 1]
    assert PEntropy().select(scores, book, 2, generator()).note == ""
    equal, one_bag = bag_by_bag([[0.5, 0.5, 0.5, 0.5]])
    assert "all 4 candidates have the same priority" in BagPosterior().select(equal, one_bag, 2, generator()).note
