"""The losses of a step, against loops over members, bags, pairs and answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from admil.bags import Bags, LabelBook, LabelState
from admil.functional import Robustness, robust_score
from admil.losses import BagLoss, Drbl, MaxScore, MeanScore, TopK, Variance
from admil.training import TrainingRecipe
from admil.training.batches import StepBatch, StepReader
from admil.training.objective import Objective
from tests.training.problems import bags_of, book_of, generator, recipe

CPU = torch.device("cpu")
SIZES, LABELS = [3, 4, 1, 5, 2, 3, 4, 1], [1, 1, 1, 0, 0, 0, 1, 0]
ANSWERS: dict[tuple[int, int], bool | None] = {
    (0, 0): False,
    (0, 1): True,
    (1, 0): False,
    (1, 3): False,
    (6, 0): None,
    (6, 1): True,
    (6, 2): True,
    (6, 3): False,
}
LOSSES: dict[str, BagLoss] = {
    "drbl": Drbl(robustness=Robustness.effective(2)),
    "softmax": Drbl(robustness=Robustness.temperature(0.1)),
    "max": MaxScore(),
    "top_k": TopK(k=2),
    "mean": MeanScore(),
    "variance": Variance(c=2.0),
}


def situation(
    made: TrainingRecipe,
    answers: Mapping[tuple[int, int], bool | None] = ANSWERS,
    held_out: Sequence[tuple[int, int]] = (),
    seed: int = 0,
) -> tuple[torch.Tensor, StepBatch, Bags, LabelBook, NDArray[np.bool_]]:
    """Make a step over all bags and answers, logits of it in float64, and who holds out what: (member, bag) pairs."""
    bags = bags_of(SIZES, LABELS)
    book = book_of(bags.index, answers)
    reader = StepReader(made, bags, book, CPU)
    batch = reader.read(bags.index.positive[::-1].copy(), bags.index.negative, book.positives, book.negatives)
    logits = 3 * torch.randn(made.members, len(batch.features), generator=generator(seed), dtype=torch.float64)
    out = np.zeros((made.members, len(bags)), dtype=bool)
    for member, bag in held_out:
        out[member, bag] = True
    return logits, batch, bags, book, out


def losses(made: TrainingRecipe, **changes: Any) -> list[float]:
    logits, batch, bags, _, out = situation(made, **changes)
    return list(Objective(made, bags.index, out, CPU)(logits[None], batch, generator()).tolist())


def reference(made: TrainingRecipe, **changes: Any) -> list[float]:
    logits, batch, bags, book, out = situation(made, **changes)
    return [_member(made, e, logits[e].tolist(), batch, bags, book, out[e]) for e in range(made.members)]


def _member(
    made: TrainingRecipe,
    e: int,
    logits: list[float],
    batch: StepBatch,
    bags: Bags,
    book: LabelBook,
    out: NDArray[np.bool_],
) -> float:
    """Return one member's loss, as a person would write it down."""
    loss, beta = made.member_losses[e], made.member_betas[e]
    rows = iter([_sigmoid(logit) for logit in logits[: batch.n_positive_rows + batch.n_negative_rows]])
    positive, negative = [], []
    for bag in batch.positive:
        scores = {position: next(rows) for position in bags.index.positions(np.array([bag]))}
        kept = [
            f for at, f in scores.items() if book.state[at] != LabelState.NEGATIVE or not made.remove_known_negatives
        ]
        if not out[bag] and kept:
            positive.append(_positive_score(loss, kept))
    for bag in batch.negative:
        highest = max(next(rows) for _ in range(SIZES[bag]))
        if not out[bag]:
            negative.append(highest)
    seen = [not out[bags.index.bag_of[at]] for at in batch.answered]
    answered = logits[batch.n_positive_rows + batch.n_negative_rows :]
    known = [x for x, s in list(zip(answered, seen, strict=True))[: batch.n_known_positive] if s]
    refuted = list(zip(answered, seen, strict=True))[batch.n_known_positive :]
    if made.answers == "bce":
        return _mean_hinge(positive, negative) + beta * _cross_entropy(known, [x for x, s in refuted if s])
    for start in range(0, len(refuted), made.negatives_per_bag):
        extra = [_sigmoid(x) for x, s in refuted[start : start + made.negatives_per_bag] if s]
        negative += [max(extra)] if extra else []
    singles = [_positive_score(loss, [_sigmoid(x)]) for x in known]
    weight = made.singleton_weight
    weighted = [(1.0, f) for f in positive] + [(weight, f) for f in singles]
    pairs = [(w, max(0.0, 1 - a + b)) for w, a in weighted for b in negative if w > 0]
    return sum(w * hinge for w, hinge in pairs) / sum(w for w, _ in pairs) if pairs else 0.0


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _positive_score(loss: BagLoss, scores: list[float]) -> float:
    n, mean = len(scores), sum(scores) / len(scores)
    match loss:
        case MaxScore():
            return max(scores)
        case MeanScore():
            return mean
        case TopK(k=k):
            return sum(sorted(scores)[-k:]) / min(k, n)
        case Variance(c=c):
            return mean + c * math.sqrt(sum((f - mean) ** 2 for f in scores) / n / n)
        case Drbl(robustness=robustness):
            return float(robust_score(torch.tensor([scores], dtype=torch.float64), None, robustness))
        case _:
            raise AssertionError(f"{loss!r} is no hinge loss; see test_pooled.py")


def _mean_hinge(positive: list[float], negative: list[float]) -> float:
    pairs = [max(0.0, 1 - a + b) for a in positive for b in negative]
    return sum(pairs) / len(pairs) if pairs else 0.0


def _cross_entropy(known: list[float], refuted: list[float]) -> float:
    each = [-math.log(_sigmoid(x)) for x in known] + [-math.log(1 - _sigmoid(x)) for x in refuted]
    return sum(each) / len(each) if each else 0.0


def test_without_answers_the_loss_is_the_mean_hinge_over_every_pair_of_bags() -> None:
    bags = Bags.from_arrays([[[0.0], [0.0]], [[0.0]], [[0.0], [0.0]]], [1, 0, 0])
    made = recipe(members=1, loss=MaxScore())
    reader = StepReader(made, bags, LabelBook(bags.index), CPU)
    none = np.zeros(0, dtype=np.int64)
    batch = reader.read(np.array([0]), np.array([1, 2]), none, none)
    logits = torch.logit(torch.tensor([[0.2, 0.9, 0.5, 0.1, 0.3]], dtype=torch.float64))
    loss = Objective(made, bags.index, np.zeros((1, 3), dtype=bool), CPU)(logits[None], batch, generator())
    assert loss.tolist() == pytest.approx([((1 - 0.9 + 0.5) + (1 - 0.9 + 0.3)) / 2])


@pytest.mark.parametrize("answers", ["bags", "bce"])
@pytest.mark.parametrize("name", LOSSES)
def test_each_loss_equals_the_loops(name: str, answers: str) -> None:
    made = recipe(members=2, loss=LOSSES[name], answers=answers, beta=0.7, negatives_per_bag=2, singleton_weight=0.3)
    held_out = [(0, 0), (0, 3), (1, 1), (1, 4)]
    assert losses(made, held_out=held_out) == pytest.approx(reference(made, held_out=held_out), rel=1e-6)


@settings(max_examples=60)
@given(
    out=st.sets(st.tuples(st.integers(0, 2), st.integers(0, 7))),
    words=st.lists(st.sampled_from([True, False, False, None, "nothing"]), min_size=12, max_size=12),
    answers=st.sampled_from(["bags", "bce"]),
    remove=st.booleans(),
    grouped=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_any_answers_and_any_held_out_bags_equal_the_loops(
    out: set[tuple[int, int]], words: list[Any], answers: str, remove: bool, grouped: int, seed: int
) -> None:
    instances = [(bag, at) for bag in (0, 1, 2, 6) for at in range(SIZES[bag])]
    given_ = {key: word for key, word in zip(instances, words, strict=True) if word != "nothing"}
    made = recipe(
        members=3,
        loss=(MaxScore(), Drbl(), Drbl()),
        beta=(0.5, 1.0, 2.0),
        answers=answers,
        remove_known_negatives=remove,
        negatives_per_bag=grouped,
    )
    case: dict[str, Any] = {"answers": given_, "held_out": sorted(out), "seed": seed}
    assert losses(made, **case) == pytest.approx(reference(made, **case), rel=1e-6)


@pytest.mark.parametrize("answers", ["bags", "bce"])
def test_members_may_differ_in_loss_and_beta(answers: str) -> None:
    kinds = (MaxScore(), MaxScore(), MeanScore(), TopK(k=2), MaxScore())
    made = recipe(members=5, loss=kinds, beta=(0.0, 1.0, 2.0, 0.5, 3.0), answers=answers)
    assert losses(made) == pytest.approx(reference(made), rel=1e-6)


def test_known_negatives_stay_in_their_bag_where_the_recipe_says_so() -> None:
    removed, kept = (recipe(members=1, loss=MeanScore(), remove_known_negatives=remove) for remove in (True, False))
    assert losses(removed) == pytest.approx(reference(removed), rel=1e-6)
    assert losses(kept) == pytest.approx(reference(kept), rel=1e-6)
    assert losses(kept) != pytest.approx(losses(removed), rel=1e-3)


def test_a_known_positive_counts_as_so_much_of_a_positive_bag() -> None:
    at = {weight: losses(recipe(members=1, singleton_weight=weight))[0] for weight in (0.0, 0.3, 1.0)}
    bags, singles = 4, 4  # of the situation; the bag of one is a known positive too
    of_singles = ((bags + singles) * at[1.0] - bags * at[0.0]) / singles
    assert at[0.3] == pytest.approx((bags * at[0.0] + 0.3 * singles * of_singles) / (bags + 0.3 * singles), rel=1e-6)
    assert of_singles != pytest.approx(at[0.0], rel=1e-3)


def test_beta_weighs_the_cross_entropy() -> None:
    at = {beta: losses(recipe(members=1, answers="bce", beta=beta))[0] for beta in (0.0, 1.0, 5.0)}
    assert at[5.0] - at[0.0] == pytest.approx(5 * (at[1.0] - at[0.0]), rel=1e-6)
    assert at[1.0] > at[0.0]


def test_twenty_one_known_negatives_make_two_extra_bags() -> None:
    bags = bags_of([30, 1], [1, 0])
    book = book_of(bags.index, {(0, at): False for at in range(21)})
    made = recipe(members=1, loss=MaxScore(), negatives_per_bag=20)
    batch = StepReader(made, bags, book, CPU).read(np.array([0]), np.array([1]), book.positives, book.negatives)
    f = torch.full((1, len(batch.features)), 0.1, dtype=torch.float64)
    f[0, 25] = 0.7  # the positive bag's highest instance that counts
    f[0, 31 + 4], f[0, 31 + 20] = 0.5, 0.3  # one in the bag of twenty, and the last one
    loss = Objective(made, bags.index, np.zeros((1, 2), dtype=bool), CPU)(torch.logit(f)[None], batch, generator())
    assert loss.tolist() == pytest.approx([((1 - 0.7 + 0.1) + (1 - 0.7 + 0.5) + (1 - 0.7 + 0.3)) / 3])


@pytest.mark.parametrize("answers", ["bags", "bce"])
def test_nothing_of_a_held_out_bag_moves_the_member_that_holds_it_out(answers: str) -> None:
    made = recipe(members=2, answers=answers, loss=Drbl(robustness=Robustness.effective(5)))
    logits, batch, bags, _, out = situation(made, held_out=[(0, 0), (0, 3), (1, 6)])
    logits.requires_grad_()
    Objective(made, bags.index, out, CPU)(logits[None], batch, generator()).sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    whole_bags = bags.index.bag_of[bags.index.positions(np.concatenate([batch.positive, batch.negative]))]
    bag_of_row = np.concatenate([whole_bags, bags.index.bag_of[batch.answered]])
    assert not logits.grad[0][np.isin(bag_of_row, [0, 3])].any()
    assert not logits.grad[1][bag_of_row == 6].any()
    assert logits.grad[1][bag_of_row == 0].any()
    assert logits.grad[0][bag_of_row == 6].any()


@pytest.mark.parametrize("answers", ["bags", "bce"])
def test_a_member_that_sees_no_bag_of_a_kind_has_no_loss_from_pairs(answers: str) -> None:
    made = recipe(members=2, answers=answers)
    held_out = [(0, bag) for bag in (0, 1, 2, 6)]
    found = losses(made, held_out=held_out)
    assert found[0] == 0
    assert found[1] == pytest.approx(reference(made, held_out=held_out)[1])


def test_a_bag_answered_negative_throughout_is_no_positive_bag() -> None:
    made = recipe(members=1, answers="bce", beta=0.0)
    without = {(2, 0): False}
    assert losses(made, answers=without) == pytest.approx(reference(made, answers=without), rel=1e-6)
    assert losses(made, answers=without) != pytest.approx(losses(made, answers={}), rel=1e-3)


def test_each_member_sees_its_own_share_of_a_step() -> None:
    made = recipe(members=2000, loss=MaxScore(), member_share=0.25, hidden=())
    bags = bags_of([1] * 8, [1] * 4 + [0] * 4)
    none = np.zeros(0, dtype=np.int64)
    batch = StepReader(made, bags, LabelBook(bags.index), CPU).read(np.arange(4), np.arange(4, 8), none, none)
    logits = torch.zeros(2000, 8, dtype=torch.float64, requires_grad=True)
    objective = Objective(made, bags.index, np.zeros((2000, 8), dtype=bool), CPU)
    first = objective(logits[None], batch, generator(1))
    first.sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    took_part = logits.grad != 0
    # a bag takes part where it is drawn and one of the four of the other kind is
    assert took_part.double().mean().item() == pytest.approx(0.25 * (1 - 0.75**4), abs=0.02)
    assert torch.equal(first, objective(logits[None], batch, generator(1)))
    assert not torch.equal(first, objective(logits[None], batch, generator(2)))


def test_a_single_member_sees_the_whole_step_whatever_its_share() -> None:
    made = recipe(members=1, member_share=0.1)
    assert losses(made) == pytest.approx(reference(made), rel=1e-6)
