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


def test_a_bags_score_is_that_of_the_members_that_hold_it_out_lowered_by_what_averaging_does() -> None:
    bags, scorer = bags_of(SIZES, LABELS), network(3)
    held_out = np.array([[1, 0, 0, 1, 0, 0], [1, 1, 0, 0, 1, 0], [0, 0, 0, 0, 1, 0]], dtype=bool)
    book = book_of(bags.index, {(0, 2): False})
    best = best_logits(scorer, bags, book)
    with torch.no_grad():
        mean = scorer.forward(bags.features).mean(0)
    kept = [
        rows[:-1] if bag == 0 else rows for bag, rows in enumerate(np.split(np.arange(15), bags.index.offsets[1:-1]))
    ]
    lowered = [float(mean[kept[bag]].max()) - sum(row[bag] for row in best) / 3 for bag in range(6)]
    assert min(lowered) < -1e-3, "or this test shows nothing"
    found = HeldOutJudge(bags, book, held_out, CPU).bag_scores(scorer)
    assert found == pytest.approx(
        {
            "bag0": (best[0][0] + best[1][0]) / 2 + lowered[0],
            "bag1": best[1][1] + lowered[1],
            "bag3": best[0][3] + lowered[3],
            "bag4": (best[1][4] + best[2][4]) / 2 + lowered[4],
        },
        rel=1e-4,
    )


def test_each_fold_is_judged_at_the_look_that_is_best_for_the_others() -> None:
    bags = bags_of([1] * 12, [1, 0] * 6, width=2)
    held_out = np.arange(3)[:, None] == (np.arange(12) // 2 % 3)[None, :]
    judge = HeldOutJudge(bags, LabelBook(bags.index), held_out, CPU)
    looks = []  # (look, fold): pairs in order, hinge
    for seed in range(6):
        scorer = network(3, width=2, seed=seed)
        judge.look(scorer, seed)
        best = best_logits(scorer, bags, LabelBook(bags.index))
        f = [[1 / (1 + np.exp(-x)) for x in row] for row in best]
        folds = [[bag for bag in range(12) if held_out[e, bag]] for e in range(3)]
        looks.append(
            [
                (
                    sum(best[e][a] > best[e][b] for a in folds[e][::2] for b in folds[e][1::2]),
                    sum(max(0.0, 1 - f[e][a] + f[e][b]) for a in folds[e][::2] for b in folds[e][1::2]),
                )
                for e in range(3)
            ]
        )
    ordered = 0
    chosen = set()
    for fold in range(3):
        others = [[look[e] for e in range(3) if e != fold] for look in looks]
        key = [(-sum(o for o, _ in other), sum(h for _, h in other)) for other in others]
        chosen.add(min(range(6), key=key.__getitem__))
        ordered += looks[min(range(6), key=key.__getitem__)][fold][0]
    assert len(chosen) > 1, "or this test shows nothing"
    assert judge.auroc() == pytest.approx(ordered / 12)


def test_one_fold_is_judged_in_halves() -> None:
    bags = bags_of([1] * 8, [1, 0] * 4, width=2)
    judge = HeldOutJudge(bags, LabelBook(bags.index), np.ones((1, 8), dtype=bool), CPU)
    pairs = []  # (look, half): pairs in order of the half's 2 x 2
    for seed in range(20):
        scorer = network(1, width=2, seed=seed)
        judge.look(scorer, seed)
        best = best_logits(scorer, bags, LabelBook(bags.index))[0]
        halves = ([0, 4], [1, 5]), ([2, 6], [3, 7])
        pairs.append([sum(best[a] > best[b] for a in positive for b in negative) for positive, negative in halves])
    by_other = []
    for half in (0, 1):
        most = max(look[1 - half] for look in pairs)
        by_other.append({look[half] for look in pairs if look[1 - half] == most})
    possible = {(a + b) / 8 for a in by_other[0] for b in by_other[1]}
    assert judge.auroc() in possible
    assert judge.auroc() < sum(max(look[half] for look in pairs) for half in (0, 1)) / 8, "or the best looks would do"


def test_a_fold_too_small_for_halves_is_judged_at_its_best_look() -> None:
    bags = bags_of([1] * 3, [1, 0, 0], width=2)
    judge = HeldOutJudge(bags, LabelBook(bags.index), np.ones((1, 3), dtype=bool), CPU)
    checks = [judge.look(network(1, width=2, seed=seed), seed) for seed in range(5)]
    assert judge.auroc() == max(check.auroc for check in checks)


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
