"""The robust score against slow independent solutions, by hand, and by the laws it obeys."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Literal

import cvxpy
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq
from torch import Tensor

from admil.functional import Robustness, robust_score, robust_weights

FloatArray = NDArray[np.float64]
Family = Literal["chi_square", "kl"]
cp: Any = cvxpy  # typed by half
FAMILIES: tuple[Family, ...] = ("chi_square", "kl")
EXACT = 1e-6  # what is promised
SEEN = 1e-9  # what is kept, so that a loss of digits shows before the promise breaks


# --- slow, obvious references -------------------------------------------------------------------


def chi_square_by_dual(f: FloatArray, lam: float) -> float:
    """Minimise the dual over one number: R = min over eta of eta + sqrt(rho) |(f - eta)+|, rho = 1/n + lam/n^2."""
    n = len(f)
    if lam < 1e-20:  # eta would lie beyond what float64 can add to a score
        return float(f.mean())
    rho = 1 / n + lam / n**2

    def dual(eta: float) -> float:
        return float(eta + math.sqrt(rho) * np.linalg.norm(np.maximum(f - eta, 0)))

    low, high = float(min(f.min(), f.mean() - 2 * f.std() / math.sqrt(lam / n))), float(f.max())
    golden = (math.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = dual(left), dual(right)
    for _ in range(100):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = dual(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = dual(right)
    return min(at_left, at_right, dual(high))


def kl_by_tilting(f: FloatArray, lam: float) -> float:
    """Find the tilt b of p ~ exp(b f) whose divergence is lam / n by Brent's method."""
    n, radius = len(f), lam / len(f)
    if lam < 1e-20 or np.ptp(f) == 0:
        return float(f.mean())

    def tilted(log_b: float) -> FloatArray:
        weights = np.exp(np.exp(log_b) * (f - f.max()))
        result: FloatArray = weights / weights.sum()
        return result

    def excess(log_b: float) -> float:
        u = n * tilted(log_b) - 1
        grown = np.where(u > -1, (1 + u) * np.log1p(np.maximum(u, -1 + 1e-16)), 0.0)
        return float((grown - u).mean() - radius)

    low, high = -40 - math.log(np.ptp(f)), 60.0
    if excess(high) <= 0:
        return float(f.max())
    return float(f @ tilted(float(brentq(excess, low, high, xtol=1e-14, rtol=1e-14))))


def by_cvxpy(f: FloatArray, lam: float, family: Family) -> float:
    n = len(f)
    p = cp.Variable(n, nonneg=True)
    if family == "chi_square":
        ball = cp.norm(p - 1 / n) <= math.sqrt(lam) / n
    else:
        ball = cp.sum(cp.rel_entr(p, np.full(n, 1 / n))) <= lam / n
    problem = cp.Problem(cp.Maximize(f @ p), [cp.sum(p) == 1, ball])
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
    return float(problem.solve(solver=cp.CLARABEL, **tight))


REFERENCES: dict[Family, Callable[[FloatArray, float], float]] = {
    "chi_square": chi_square_by_dual,
    "kl": kl_by_tilting,
}


# --- random bags --------------------------------------------------------------------------------

KINDS: tuple[Callable[[np.random.Generator, int], FloatArray], ...] = (
    lambda rng, n: rng.random(n),
    lambda rng, n: rng.beta(0.1, 2.0, n),  # nearly all near 0, as after training
    lambda rng, n: 1 / (1 + np.exp(-8 * rng.standard_normal(n))),  # saturated both ways
    lambda rng, n: rng.integers(0, 4, n) / 3,  # ties, also at the top
    lambda rng, n: np.full(n, rng.random()),  # constant
    lambda rng, n: (np.arange(n) == rng.integers(n)).astype(float),  # one 1 among zeros
    lambda rng, n: 0.9 - 1e-9 * rng.random(n),  # nearly constant
    lambda rng, n: np.where(rng.random(n) < 0.2, 0.8 - 1e-13 * rng.random(n), 0.3 * rng.random(n)),  # near ties on top
)


def random_bags(rng: np.random.Generator, count: int) -> list[FloatArray]:
    sizes = np.where(rng.random(count) < 0.3, rng.integers(1, 6, count), rng.integers(1, 201, count))
    return [KINDS[number % len(KINDS)](rng, int(n)) for number, n in enumerate(sizes)]


def padded(bags: list[FloatArray]) -> tuple[Tensor, Tensor]:
    width = max(map(len, bags))
    mask = torch.tensor([[i < len(bag) for i in range(width)] for bag in bags])
    scores = torch.full(mask.shape, 7.0, dtype=torch.float64)  # what is outside the mask must not matter
    for row, bag in zip(scores, bags, strict=True):
        row[: len(bag)] = torch.from_numpy(bag)
    return scores, mask


def strengths(family: Family, rng: np.random.Generator) -> list[Robustness]:
    of = Robustness.chi_square if family == "chi_square" else Robustness.kl
    radii = [0.0, 1e-300, *10 ** rng.uniform(-10, 6, 42), 1e12, 1e300, 1.7e308]
    counts = [1, 1.001, 1.5, 2, 3, 7.3, 50, 199.5, 200, 1e6]
    return [*map(of, radii), *(Robustness.effective(k, family) for k in counts)]


def radius(robustness: Robustness, n: int) -> float:
    """Return the paper's lambda that a strength amounts to on a bag of n."""
    if robustness.measure == "radius":
        return robustness.strength
    k = min(robustness.strength, n)
    return n * (n / k - 1) if robustness.family == "chi_square" else n * math.log(n / k)


def largest_difference(family: Family, bags_per_strength: int, seed: int) -> tuple[float, int]:
    """Return the largest |R - reference| over many random bags, and how many there were."""
    rng = np.random.default_rng(seed)
    worst, count = 0.0, 0
    for robustness in strengths(family, rng):
        bags = random_bags(rng, bags_per_strength)
        for bag, value in zip(bags, robust_score(*padded(bags), robustness).tolist(), strict=True):
            worst = max(worst, abs(value - REFERENCES[family](bag, min(radius(robustness, len(bag)), 1e15))))
            count += 1
    return worst, count


# --- exactness ----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_it_equals_an_independent_solution_on_more_than_2000_random_bags(family: Family) -> None:
    worst, count = largest_difference(family, bags_per_strength=40, seed=0)
    assert count >= 2000
    assert worst <= EXACT
    assert worst <= SEEN


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("family", FAMILIES)
def test_it_equals_a_convex_solver_on_2000_random_bags(family: Family, seed: int) -> None:
    rng = np.random.default_rng(seed)
    worst, solved = 0.0, 0
    # a ball whose radius is near the solver's tolerance of 1e-10 it cannot see; of the chi-square ball it sees the root
    smallest = -8 if family == "chi_square" else 0
    for bag in random_bags(rng, 500):
        lam = float(10 ** rng.uniform(smallest, 4))
        with warnings.catch_warnings(record=True) as said:  # the solver says so itself where it is not sure
            warnings.simplefilter("always")
            value = by_cvxpy(bag, lam, family)
        ours = robust_score(torch.from_numpy(bag), robustness=Robustness(family, "radius", lam)).item()
        assert ours == pytest.approx(REFERENCES[family](bag, lam), abs=SEEN)
        if not said:
            solved += 1
            worst = max(worst, abs(ours - value))
    assert solved > 490
    assert worst <= EXACT


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("k", [1, 2, 50, 5000])
def test_it_stays_exact_on_bags_of_ten_thousand(family: Family, k: float) -> None:
    rng = np.random.default_rng(2)
    n = 10_000
    one_on_top = np.r_[1.0, 1e-3 * rng.random(n - 1)]
    for bag in (rng.beta(0.1, 3, n), one_on_top):
        robustness = Robustness.effective(k, family)
        value = robust_score(torch.from_numpy(bag), robustness=robustness).item()
        assert value == pytest.approx(REFERENCES[family](bag, radius(robustness, n)), abs=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_the_tilt_converges_on_one_high_score_among_many_low_ones(seed: int) -> None:
    # plain Newton swings across the bracket for ever here, and a row that had converged could be thrown off
    rng = np.random.default_rng(seed)
    bags = [(np.arange(n) == 0) * rng.uniform(0.5, 1) + 0.0 for n in rng.integers(60, 201, 100)]
    for lam in (34.9794875771, 39.5, 78 * math.log(78 / 50)):
        values = robust_score(*padded(bags), Robustness.kl(lam)).tolist()
        assert values == pytest.approx([kl_by_tilting(bag, lam) for bag in bags], abs=1e-12)


# --- two instances, by hand ---------------------------------------------------------------------

THREE_QUARTERS = 0.75 * math.log(0.75) + 0.25 * math.log(0.25)  # sum p log p of p = (3/4, 1/4)


@pytest.mark.parametrize(
    ("robustness", "first"),
    [
        (Robustness.chi_square(0.5), 0.75),  # p = 1/2 +- s and 2 s^2 = lambda / 4
        (Robustness.chi_square(0.0), 0.5),
        (Robustness.chi_square(2.0), 1.0),
        (Robustness.chi_square(99.0), 1.0),
        (Robustness.effective(1.6), 0.75),  # 1 / (9/16 + 1/16)
        (Robustness.effective(1.0), 1.0),
        (Robustness.effective(2.0), 0.5),
        (Robustness.effective(3.0), 0.5),  # k is clamped to the bag's size
        (Robustness.kl(2 * (THREE_QUARTERS + math.log(2))), 0.75),
        (Robustness.kl(0.0), 0.5),
        (Robustness.kl(2 * math.log(2)), 1.0),
        (Robustness.effective(math.exp(-THREE_QUARTERS), "kl"), 0.75),
        (Robustness.effective(1.0, "kl"), 1.0),
        (Robustness.effective(2.0, "kl"), 0.5),
        (Robustness.temperature(0.4 / math.log(3)), 0.75),  # exp(0.4 / gamma) = 3
    ],
    ids=repr,
)
def test_the_weights_of_two_instances_are_those_computed_by_hand(robustness: Robustness, first: float) -> None:
    scores = torch.tensor([0.3, 0.7], dtype=torch.float64)
    expected = torch.tensor([1 - first, first], dtype=torch.float64)
    torch.testing.assert_close(robust_weights(scores, robustness=robustness), expected, atol=1e-12, rtol=0)
    value = robust_score(scores, robustness=robustness).item()
    assert value == pytest.approx(0.7 * first + 0.3 * (1 - first), abs=1e-12)


def test_the_soft_maximum_of_two_instances_is_the_one_computed_by_hand() -> None:
    gamma = 0.4 / math.log(3)
    value = robust_score(torch.tensor([0.3, 0.7]).double(), robustness=Robustness.temperature(gamma, through=False))
    assert value.item() == pytest.approx(0.3 + gamma * math.log(2), abs=1e-7)  # mean of 1 and 3 is 2


def test_two_instances_share_the_weight_where_nothing_is_said() -> None:
    scores = torch.tensor([[0.9, 0.5, 0.45, 0.1]])
    two = Robustness.effective(2)
    assert torch.equal(robust_score(scores), robust_score(scores, robustness=two))
    assert torch.equal(robust_weights(scores), robust_weights(scores, robustness=two))
    assert 1 / robust_weights(scores).square().sum().item() == pytest.approx(2)


# --- laws ---------------------------------------------------------------------------------------

ONE_SCORE = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
ONE_BAG = st.lists(ONE_SCORE, min_size=1, max_size=12)
RADII = st.one_of(st.just(0.0), st.floats(-10, 10).map(lambda power: 10.0**power))
COUNTS = st.one_of(st.integers(1, 14).map(float), st.floats(1, 14))
BALLS = st.one_of(
    st.builds(Robustness.chi_square, RADII),
    st.builds(Robustness.kl, RADII),
    st.builds(Robustness.effective, COUNTS, st.sampled_from(FAMILIES)),
)
SOFT = st.builds(Robustness.temperature, st.floats(-3, 4).map(lambda power: 10.0**power), st.booleans())
ROBUSTNESS = st.one_of(BALLS, SOFT)


def bag(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(actual: Tensor, expected: Tensor, within: float = 1e-9) -> bool:
    return actual.shape == expected.shape and torch.allclose(actual, expected, rtol=0, atol=within)


@given(ONE_BAG, ROBUSTNESS)
def test_weights_are_a_distribution_that_increases_with_the_score(values: list[float], robustness: Robustness) -> None:
    scores = bag(values)
    weights = robust_weights(scores, robustness=robustness)
    assert bool((weights >= 0).all())
    assert weights.sum().item() == pytest.approx(1, abs=1e-12)
    ordered = weights[scores.argsort(stable=True)]
    assert bool((ordered.diff() >= -1e-12).all())
    tied = scores.unsqueeze(0) == scores.unsqueeze(1)
    assert bool(((weights.unsqueeze(0) - weights.unsqueeze(1))[tied].abs() <= 1e-12).all())


@given(ONE_BAG, BALLS)
def test_weights_stay_within_the_ball(values: list[float], robustness: Robustness) -> None:
    n, weights = len(values), robust_weights(bag(values), robustness=robustness)
    if robustness.family == "chi_square":
        spent = n * (weights - 1 / n).square().sum().item()
    else:
        spent = torch.xlogy(weights, n * weights).sum().item()
    assert spent <= radius(robustness, n) / n * (1 + 1e-9) + 1e-12


@given(ONE_BAG, COUNTS)
def test_at_least_k_instances_share_the_weight(values: list[float], k: float) -> None:
    scores, least = bag(values), min(k, len(values)) * (1 - 1e-9)
    on_the_ball = robust_weights(scores, robustness=Robustness.effective(k))
    assert 1 / on_the_ball.square().sum().item() >= least
    tilted = robust_weights(scores, robustness=Robustness.effective(k, "kl"))
    assert math.exp(-torch.xlogy(tilted, tilted).sum().item()) >= least


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("k", [1.2, 1.7, 1.99])
def test_near_ties_at_the_top_do_not_loosen_the_ball(gap: float, family: Family, k: float) -> None:
    weights = robust_weights(bag([0.9, 0.9 - gap, 0.1, 0.2, 0.3]), robustness=Robustness.effective(k, family))
    if family == "chi_square":
        count = 1 / weights.square().sum().item()
    else:
        count = math.exp(-torch.xlogy(weights, weights).sum().item())
    assert count == pytest.approx(k, rel=1e-9)  # the bound is reached: not loosened, not left unused


@given(ONE_BAG, ROBUSTNESS, st.randoms(use_true_random=False))
def test_permuting_a_bag_permutes_its_weights(values: list[float], robustness: Robustness, random: object) -> None:
    assert hasattr(random, "sample")
    order = torch.tensor(random.sample(range(len(values)), len(values)))
    scores = bag(values)
    assert close(
        robust_weights(scores[order], robustness=robustness), robust_weights(scores, robustness=robustness)[order]
    )
    assert close(robust_score(scores[order], robustness=robustness), robust_score(scores, robustness=robustness))


@given(ONE_BAG, ROBUSTNESS, st.lists(st.sampled_from([0.0, 1.0, -5.0, 1e9, math.nan, math.inf]), max_size=5))
def test_padding_changes_nothing_whatever_it_holds(
    values: list[float], robustness: Robustness, padding: list[float]
) -> None:
    mask = torch.tensor([False] * len(padding) + [True] * len(values))
    scores = bag(padding + values).requires_grad_()
    weights = robust_weights(scores, mask, robustness)
    assert bool((weights[~mask] == 0).all())
    assert close(weights[mask], robust_weights(bag(values), robustness=robustness))
    value = robust_score(scores, mask, robustness)
    assert close(value, robust_score(bag(values), robustness=robustness))
    (gradient,) = torch.autograd.grad(value, scores)
    assert bool((gradient[~mask] == 0).all())
    assert bool(gradient.isfinite().all())


@given(st.lists(ONE_BAG, min_size=1, max_size=4), ROBUSTNESS)
def test_bags_in_a_batch_do_not_touch_each_other(batch: list[list[float]], robustness: Robustness) -> None:
    scores, mask = padded([np.array(values) for values in batch])
    together = robust_score(scores, mask, robustness)
    alone = torch.stack([robust_score(bag(values), robustness=robustness) for values in batch])
    assert close(together, alone)


@given(ONE_BAG, ROBUSTNESS)
def test_the_score_lies_between_mean_and_maximum(values: list[float], robustness: Robustness) -> None:
    scores = bag(values)
    value = robust_score(scores, robustness=robustness).item()
    assert scores.mean().item() - 1e-12 <= value <= scores.max().item() + 1e-12


@given(ONE_BAG, st.sampled_from(FAMILIES), RADII, RADII)
def test_a_larger_ball_never_lowers_the_score(values: list[float], family: Family, one: float, other: float) -> None:
    of = Robustness.chi_square if family == "chi_square" else Robustness.kl
    less, more = (robust_score(bag(values), robustness=of(lam)).item() for lam in sorted((one, other)))
    assert less <= more + 1e-12


@given(ONE_BAG, st.sampled_from(FAMILIES), COUNTS, COUNTS)
def test_asking_for_more_instances_never_raises_the_score(
    values: list[float], family: Family, one: float, other: float
) -> None:
    fewer, more = (
        robust_score(bag(values), robustness=Robustness.effective(k, family)).item() for k in sorted((one, other))
    )
    assert more <= fewer + 1e-12


@given(ONE_BAG, st.floats(-2, 3), st.booleans())
def test_a_higher_temperature_never_raises_the_score(values: list[float], power: float, through: bool) -> None:
    cold, warm = (
        robust_score(bag(values), robustness=Robustness.temperature(gamma, through)).item()
        for gamma in (10**power, 2 * 10**power)
    )
    assert warm <= cold + 1e-12


@given(ONE_BAG, BALLS, st.floats(0.01, 100), st.floats(-50, 50))
def test_the_ball_scores_follow_scaling_and_shifting(
    values: list[float], robustness: Robustness, scale: float, shift: float
) -> None:
    moved = robust_score(scale * bag(values) + shift, robustness=robustness)
    assert close(moved, scale * robust_score(bag(values), robustness=robustness) + shift, within=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e200])
def test_the_weights_know_no_scale_however_small_or_large(family: Family, scale: float) -> None:
    scores, robustness = bag([0.9, 0.5, 0.45, 0.1]), Robustness.effective(2.5, family)
    expected = robust_weights(scores, robustness=robustness)
    assert close(robust_weights(scores * scale, robustness=robustness), expected, within=1e-12)


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(*[st.lists(ONE_SCORE, min_size=n, max_size=n)] * 2)), BALLS)
def test_the_score_is_convex_in_the_scores(pair: tuple[list[float], list[float]], robustness: Robustness) -> None:
    one, other = bag(pair[0]), bag(pair[1])
    middle = robust_score((one + other) / 2, robustness=robustness).item()
    ends = robust_score(torch.stack([one, other]), robustness=robustness).mean().item()
    assert middle <= ends + 1e-12


@given(ONE_BAG, st.sampled_from(FAMILIES))
def test_both_ends_of_the_strength_are_the_mean_and_the_maximum(values: list[float], family: Family) -> None:
    of = Robustness.chi_square if family == "chi_square" else Robustness.kl
    scores = bag(values)
    for robustness in (of(0.0), Robustness.effective(len(values), family), Robustness.effective(1e9, family)):
        assert close(robust_score(scores, robustness=robustness), scores.mean(), within=1e-14)
    for robustness in (of(1e9), of(1.7e308), Robustness.effective(1, family)):
        assert close(robust_score(scores, robustness=robustness), scores.max(), within=1e-14)


@pytest.mark.parametrize("through", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_ends_of_the_temperature_are_the_maximum_and_the_mean(through: bool, dtype: torch.dtype) -> None:
    scores = torch.tensor([0.9, 0.9, 0.4, 0.2], dtype=dtype)
    for gamma in (1e-310, 1e-40, 1e-9):
        value = robust_score(scores, robustness=Robustness.temperature(gamma, through))
        torch.testing.assert_close(value, torch.tensor(0.9, dtype=dtype), atol=2e-7, rtol=0)
    for gamma in (1e7, 1e12, 1e20, 1e300):
        value = robust_score(scores, robustness=Robustness.temperature(gamma, through))
        torch.testing.assert_close(value, torch.tensor(0.6, dtype=dtype), atol=2e-7, rtol=0)


def test_ties_at_the_top_share_what_the_maximum_takes() -> None:
    scores = bag([0.8, 0.2, 0.8, 0.8, 0.1])
    third = torch.tensor([1, 0, 1, 1, 0], dtype=torch.float64) / 3
    for robustness in (
        *(Robustness.effective(k, family) for k in (1, 2, 3) for family in FAMILIES),
        Robustness.chi_square(1e6),
        Robustness.kl(1e6),
        Robustness.temperature(1e-6),
    ):
        assert close(robust_weights(scores, robustness=robustness), third, within=1e-12)


# --- empty rows, leading dimensions, precision --------------------------------------------------

EACH = (
    Robustness.effective(2),
    Robustness.effective(2, "kl"),
    Robustness.chi_square(1.0),
    Robustness.kl(1.0),
    Robustness.temperature(0.1),
    Robustness.temperature(0.1, through=False),
    Robustness.temperature(10.0, through=False),
)


@pytest.mark.parametrize("robustness", EACH, ids=repr)
def test_a_row_without_instances_has_no_weight_no_score_and_no_gradient(robustness: Robustness) -> None:
    scores = torch.tensor([[0.9, 0.3], [0.9, 0.3]], requires_grad=True)
    mask = torch.tensor([[False, False], [True, True]])
    assert robust_weights(scores, mask, robustness)[0].tolist() == [0.0, 0.0]
    value = robust_score(scores, mask, robustness)
    assert value[0].item() == 0.0
    assert value[1].item() > 0.5
    (gradient,) = torch.autograd.grad(value.sum(), scores)
    assert gradient[0].tolist() == [0.0, 0.0]
    assert gradient[1].sum().item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("robustness", EACH, ids=repr)
def test_leading_dimensions_are_batches_and_one_mask_serves_all_members(robustness: Robustness) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(3, 4, 5, generator=generator, dtype=torch.float64)
    mask = torch.tensor([[True] * n + [False] * (5 - n) for n in (5, 3, 1, 4)])
    weights = robust_weights(scores, mask, robustness)
    value = robust_score(scores, mask, robustness)
    assert weights.shape == (3, 4, 5)
    assert value.shape == (3, 4)
    for member in range(3):
        assert close(weights[member], robust_weights(scores[member], mask, robustness))
        for row in range(4):
            alone = robust_score(scores[member, row][mask[row]], robustness=robustness)
            assert close(value[member, row], alone)
    assert robust_score(scores[0, 0], robustness=robustness).shape == ()
    assert robust_score(scores[:0], mask, robustness).shape == (0, 4)


@pytest.mark.parametrize(
    "robustness",
    [
        *EACH,
        Robustness.chi_square(1e-8),
        Robustness.kl(1e-8),
        Robustness.chi_square(480),
        Robustness.temperature(1e-3, through=False),
        Robustness.temperature(1e3, through=False),
        Robustness.temperature(1e6, through=False),
    ],
    ids=repr,
)
def test_float32_agrees_with_float64(robustness: Robustness) -> None:
    rng = np.random.default_rng(3)
    scores, mask = padded(random_bags(rng, 200))
    single = torch.where(mask, scores, 0.0).float()
    value = robust_score(single, mask, robustness)
    assert value.dtype == robust_weights(single, mask, robustness).dtype == torch.float32
    torch.testing.assert_close(value.double(), robust_score(single.double(), mask, robustness), atol=1e-5, rtol=0)


# --- gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "robustness",
    [
        Robustness.effective(2.3),
        Robustness.effective(2.3, "kl"),
        Robustness.chi_square(0.7),
        Robustness.chi_square(9.0),
        Robustness.kl(0.7),
        Robustness.kl(4.0),
        *(Robustness.temperature(gamma, through) for gamma in (0.07, 0.6, 5.0) for through in (True, False)),
    ],
    ids=repr,
)
def test_the_gradient_is_the_derivative(robustness: Robustness) -> None:
    scores = torch.tensor([[0.91, 0.52, 0.37, 0.08, 0.66], [0.2, 0.45, 0.11, 0.83, 0.5]], dtype=torch.float64)
    mask = torch.tensor([[True, True, True, True, True], [True, True, False, True, False]])

    def score(values: Tensor) -> Tensor:
        return robust_score(values, mask, robustness)

    assert torch.autograd.gradcheck(score, (scores.requires_grad_(),), eps=1e-6, atol=1e-7)


@given(ONE_BAG, BALLS)
def test_the_gradient_of_a_ball_score_is_its_weights(values: list[float], robustness: Robustness) -> None:
    scores = bag(values).requires_grad_()
    (gradient,) = torch.autograd.grad(robust_score(scores, robustness=robustness), scores)
    assert torch.equal(gradient, robust_weights(scores, robustness=robustness))
    assert not robust_weights(scores, robustness=robustness).requires_grad


@given(ONE_BAG, st.floats(-3, 3).map(lambda power: 10.0**power))
def test_the_gradient_through_the_softmax_is_the_authors(values: list[float], gamma: float) -> None:
    scores = bag(values).requires_grad_()
    robustness = Robustness.temperature(gamma)
    value = robust_score(scores, robustness=robustness)
    (gradient,) = torch.autograd.grad(value, scores)
    weights = robust_weights(scores.detach(), robustness=robustness)
    expected = weights * (1 + (scores.detach() - value.detach()) / gamma)
    assert close(gradient, expected, within=1e-12)


@given(ONE_BAG, st.floats(-3, 6).map(lambda power: 10.0**power))
def test_the_gradient_around_the_softmax_is_its_weights(values: list[float], gamma: float) -> None:
    scores = bag(values).requires_grad_()
    robustness = Robustness.temperature(gamma, through=False)
    (gradient,) = torch.autograd.grad(robust_score(scores, robustness=robustness), scores)
    assert close(gradient, robust_weights(scores.detach(), robustness=robustness), within=1e-14)


# --- Theorem 2 ----------------------------------------------------------------------------------


def test_the_expansion_of_theorem_2_errs_by_the_three_halves_power() -> None:
    scores = torch.tensor([0.05, 0.1, 0.2, 0.25, 0.7, 0.9, 0.3, 0.15], dtype=torch.float64)
    n, centred = len(scores), scores - scores.mean()
    variance, third = centred.square().mean(), centred.pow(3).mean()
    radii = 10.0 ** np.arange(-7.0, -1.4, 0.5)  # lambda / n
    errors = []
    for epsilon in radii:
        expansion = scores.mean() + (2 * epsilon * variance).sqrt() + epsilon / 3 * third / variance
        errors.append(abs((robust_score(scores, robustness=Robustness.kl(n * epsilon)) - expansion).item()))
    rate = np.polyfit(np.log(radii), np.log(errors), 1)[0]
    assert rate == pytest.approx(1.5, abs=0.05)
    assert errors[0] < 1e-10


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=3, max_size=12, unique=True), st.integers(-6, -3))
def test_doubling_the_radius_by_four_multiplies_the_bonus_by_two(values: list[float], power: int) -> None:
    scores = bag(values)
    if scores.std().item() < 1e-3:
        return
    bonus = [
        (robust_score(scores, robustness=Robustness.kl(lam)) - scores.mean()).item()
        for lam in (10.0**power, 4 * 10.0**power)
    ]
    assert bonus[1] / bonus[0] == pytest.approx(2, rel=0.1)
