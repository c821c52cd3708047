"""How held-out bags are judged, against loops over members and pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from admil.bags import Bags, LabelBook
from admil.models import Scaling, ScorerEnsemble
from admil.training.judge import HeldOutJudge
from tests.training.problems import bags_of, book_of, generator

CPU = torch.device("cpu")
SIZES, LABELS = [3, 1, 2, 4, 2, 3], [1, 1, 1, 0, 0, 0]


def network(members: int, width: int = 3, seed: int = 0) -> ScorerEnsemble:
    return ScorerEnsemble(width, members, (4,), 0.5, Scaling.none(width), generator(seed)).eval()


def best_logits(scorer: ScorerEnsemble, bags: Bags, book: LabelBook) -> list[list[float]]:
    """Return every member's highest logit of each bag, known negatives left out."""
    refuted = set(book.negatives.tolist())
    with torch.no_grad():
        logits = scorer.forward(bags.features).tolist()
    return [
        [
            max((row[at] for at in bags.index.positions(np.array([bag])) if at not in refuted), default=float("nan"))
            for bag in range(len(bags))
        ]
        for row in logits
    ]


@settings(max_examples=50)
@given(folds=st.lists(st.integers(0, 2), min_size=6, max_size=6), seed=st.integers(0, 99))
def test_a_look_compares_the_bags_that_one_member_holds_out(folds: list[int], seed: int) -> None:
    held_out = np.arange(3)[:, None] == np.array(folds)[None, :]
    pairs = [(e, a, b) for e in range(3) for a in (0, 1, 2) for b in (3, 4, 5) if held_out[e, a] and held_out[e, b]]
    if not pairs:
        return
    bags, scorer = bags_of(SIZES, LABELS), network(3, seed=seed)
    book = book_of(bags.index, {(0, 0): False, (2, 1): True})
    best = best_logits(scorer, bags, book)
    check = HeldOutJudge(bags, book, held_out, CPU).look(scorer, step=7)
    assert check.step == 7
    above = [(best[e][a] > best[e][b]) + 0.5 * (best[e][a] == best[e][b]) for e, a, b in pairs]
    assert check.auroc == pytest.approx(np.mean(above))
    f = [[1 / (1 + np.exp(-x)) for x in row] for row in best]
    assert check.hinge == pytest.approx(np.mean([max(0, 1 - f[e][a] + f[e][b]) for e, a, b in pairs]), rel=1e-5)


def test_equal_scores_count_half() -> None:
    bags = Bags.from_arrays([[[1.0]], [[1.0]], [[2.0]]], [1, 0, 0])
    scorer = network(1, width=1)
    held_out = np.ones((1, 3), dtype=bool)
    with torch.no_grad():
        positive, _, other = scorer.forward(bags.features)[0].tolist()
    expected = (0.5 + (positive > other)) / 2
    assert HeldOutJudge(bags, LabelBook(bags.index), held_out, CPU).look(scorer, 1).auroc == expected


def test_a_bags_score_is_the_mean_over_the_members_that_hold_it_out() -> None:
    bags, scorer = bags_of(SIZES, LABELS), network(3)
    held_out = np.array([[1, 0, 0, 1, 0, 0], [1, 1, 0, 0, 1, 0], [0, 0, 0, 0, 1, 0]], dtype=bool)
    book = book_of(bags.index, {(0, 2): False})
    best = best_logits(scorer, bags, book)
    found = HeldOutJudge(bags, book, held_out, CPU).bag_scores(scorer)
    assert found == pytest.approx(
        {
            "bag0": (best[0][0] + best[1][0]) / 2,
            "bag1": best[1][1],
            "bag3": best[0][3],
            "bag4": (best[1][4] + best[2][4]) / 2,
        },
        rel=1e-5,
    )


def test_a_bag_answered_negative_throughout_is_not_judged() -> None:
    bags, scorer = bags_of(SIZES, LABELS), network(1)
    book = book_of(bags.index, {(1, 0): False})
    held_out = np.ones((1, 6), dtype=bool)
    found = HeldOutJudge(bags, book, held_out, CPU)
    assert "bag1" not in found.bag_scores(scorer)
    best = best_logits(scorer, bags, book)[0]
    assert found.look(scorer, 1).auroc == pytest.approx(np.mean([best[a] > best[b] for a in (0, 2) for b in (3, 4, 5)]))


def test_an_instance_beyond_all_numbers_leaves_judgements_finite() -> None:
    bags = Bags.from_arrays([[[3e38, -3e38, 3e38], [0.0, 0.0, 0.0]], [[1.0, 1.0, 1.0]]], [1, 0])
    for seed in range(5):
        judge = HeldOutJudge(bags, LabelBook(bags.index), np.ones((1, 2), dtype=bool), CPU)
        scorer = network(1, seed=seed)
        for weight in scorer.parameters():
            weight.data *= 10
        assert np.isfinite(list(judge.bag_scores(scorer).values())).all()
        assert np.isfinite([judge.look(scorer, 1).auroc, judge.look(scorer, 1).hinge]).all()


def test_judging_leaves_a_training_network_in_training() -> None:
    bags, scorer = bags_of(SIZES, LABELS), network(1).train()
    judge = HeldOutJudge(bags, LabelBook(bags.index), np.ones((1, 6), dtype=bool), CPU)
    assert judge.look(scorer, 1) == judge.look(scorer, 1), "no dropout while judging"
    assert scorer.training
