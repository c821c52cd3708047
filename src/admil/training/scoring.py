"""Scores of every instance under a trained model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle

import numpy as np
import torch
from torch import Tensor

from admil.bags import BagIndex, BagSource, FloatArray, IntArray, LabelBook, LabelState, Need, Scores
from admil.errors import InvalidInput
from admil.functional import (
    Robustness,
    SizeClasses,
    attention_weights,
    disagreement,
    gini,
    robust_score,
    robust_weights,
)
from admil.models import Attention, Scorer
from admil.training.ahead import Room, one_ahead
from admil.training.families import PooledFamily, pooled_family
from admil.training.model import TrainedModel

__all__ = ["bag_logits", "bag_probability", "highest_logits", "read_in_chunks", "score"]

_ROWS = 16_384
"""Instances read or padded at a time, at most."""

_MONSTROUS = 1e30

_ENTRIES = 2**22
"""Features read at a time, at most: 16 MiB in float32."""


def score(
    model: TrainedModel,
    bags: BagSource,
    labels: LabelBook | None = None,
    needs: Collection[Need] = (),
) -> Scores:
    """Score every instance of ``bags``.

    The score f of an instance is the sigmoid of the members' mean logit.  Its weight p and the bag
    score are computed with the recipe's robustness among the instances not answered negative.  Of a model with a
    pooled loss the bag score is the sigmoid of the members' mean bag logit, among the same instances; and where
    attention makes the score, f is the instance's attention times the probability of its bag, whatever was answered.

    Args:
        model: what `fit` returned.
        bags: bags of the same width; labels are not needed.
        labels: answers about these bags; None for none.
        needs: what a sampler names beside f, p and the bag score.

    Returns:
        Scores in float64 on the CPU.
    """
    _check_width(model, bags)
    _check_needs(needs, model)
    if labels is not None and labels.index is not bags.index and labels.index != bags.index:
        raise InvalidInput("the label book belongs to other bags than those to score; pass theirs, or None")
    flat: list[Tensor] = []
    outputs: list[Tensor] = []
    extras: dict[str, list[Tensor]] = {need: [] for need in needs}
    device = next(model.module.parameters()).device
    pooled = pooled_family(model.recipe.member_losses)
    with torch.no_grad():
        for chunk in read_in_chunks(bags, np.arange(len(bags.index)), device):
            given = model.scorer.outputs(chunk)
            outputs += [] if pooled is None else [given.cpu()]
            logits = given[0].double()  # (E, m)
            flat.append(torch.sigmoid(logits.mean(0)).cpu())
            for need in needs:
                extras[need].append(_NEEDS[need](model.scorer, chunk, logits).cpu())
    f = torch.cat(flat)
    kept = torch.ones(len(f), dtype=torch.bool)
    if labels is not None and model.recipe.remove_known_negatives:
        kept = torch.from_numpy(labels.state != LabelState.NEGATIVE)
    of_bags = None
    if pooled is not None:
        f, of_bags = _pooled_scores(pooled, torch.cat(outputs, -1), f, kept, bags.index, model.recipe.attention)
    p, bag_score = _weights_and_bag_scores(f, kept, bags.index, model.recipe.robustness)
    bag_score = bag_score if of_bags is None else of_bags.numpy()
    return Scores(
        bags.index, f.numpy(), p, bag_score, {need: torch.cat(parts).numpy() for need, parts in extras.items()}
    )


def bag_probability(model: TrainedModel, scores: Scores) -> FloatArray:
    """Return (B,) what tells positive from negative bags: the highest score, or with a pooled loss the bag's own."""
    if pooled_family(model.recipe.member_losses) is not None:
        return scores.bag_score
    highest: FloatArray = np.maximum.reduceat(scores.f, scores.index.offsets[:-1])
    return highest


def read_in_chunks(bags: BagSource, numbers: IntArray, device: torch.device) -> Iterator[Tensor]:
    """Yield the features of whole bags, some thousand instances at a time.

    Each is overwritten once the one after it is asked for.  A bag may end in another chunk than it began in,
    so that one huge bag takes no more memory than many small ones.
    """
    positions = bags.index.positions(numbers)
    at_once = max(1, min(_ROWS, _ENTRIES // bags.width))
    rooms = [Room(bags, torch.float32, device) for _ in range(1 if bags.in_memory else 2)]
    jobs = (
        partial(room.read, len(some), partial(bags.rows, some))
        for some, room in zip(np.split(positions, range(at_once, len(positions), at_once)), cycle(rooms), strict=False)
    )
    yield from one_ahead(jobs, thread=not bags.in_memory)


def bag_logits(
    family: PooledFamily, scorer: Scorer, bags: BagSource, numbers: IntArray, kept: Tensor, device: torch.device
) -> Tensor:
    """Return (E, b) the logits that a pooled loss gives bags, in eval mode and without gradient.

    Args:
        family: the members' losses.
        scorer: the network.
        bags: where they lie.
        numbers: (b,) the bags.
        kept: (m,) on the device: True for their instances that count.
        device: where the network is.
    """
    with _evaluated(scorer), torch.no_grad():
        outputs = torch.cat([scorer.outputs(chunk) for chunk in read_in_chunks(bags, numbers, device)], -1)
    classes = SizeClasses.of(torch.from_numpy(bags.index.sizes[numbers]), device)
    return classes.per_bag(outputs, kept, family.positive).nan_to_num(0.0, _MONSTROUS, -_MONSTROUS)


def highest_logits(
    scorer: Scorer, bags: BagSource, numbers: IntArray, kept: Tensor, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the highest logit of each bag, in eval mode and without gradient; 0 where no instance is kept.

    Args:
        scorer: the network.
        bags: where they lie.
        numbers: (b,) the bags.
        kept: (m,) on the device: True for their instances that count.
        device: where the network is.

    Returns:
        (E, b) of every member, and (b,) of the members' mean.
    """
    bag_of = torch.from_numpy(np.repeat(np.arange(len(numbers)), bags.index.sizes[numbers])).to(device)
    best: Tensor | None = None
    start = 0
    with _evaluated(scorer), torch.no_grad():
        for chunk in read_in_chunks(bags, numbers, device):
            logits = scorer.forward(chunk)
            # one monstrous instance must not spoil what is made of these
            logits = logits.nan_to_num(0.0, _MONSTROUS, -_MONSTROUS)
            logits = torch.cat([logits, logits.mean(0, keepdim=True)])  # (E + 1, rows)
            here = slice(start, start + len(chunk))
            if best is None:
                best = torch.full((len(logits), len(numbers)), -torch.inf, dtype=logits.dtype, device=device)
            logits = logits.masked_fill(~kept[here], -torch.inf)
            best.scatter_reduce_(1, bag_of[here].expand_as(logits), logits, "amax")
            start = here.stop
    assert best is not None, "bags hold at least one instance"
    best = torch.where(torch.isfinite(best), best, 0.0)
    return best[:-1], best[-1]


@contextmanager
def _evaluated(scorer: Scorer) -> Iterator[None]:
    """Put a network into eval mode for a while."""
    assert isinstance(scorer, torch.nn.Module)
    was_training = scorer.training
    scorer.eval()
    try:
        yield
    finally:
        scorer.train(was_training)


def _pooled_scores(
    family: PooledFamily, outputs: Tensor, f: Tensor, kept: Tensor, index: BagIndex, attention: Attention | None
) -> tuple[Tensor, Tensor]:
    """Return the scores (M,) and the bag scores (B,) that a pooled loss gives, of outputs (H, E, M)."""
    outputs = outputs.double()
    bags = SizeClasses.of(torch.from_numpy(index.sizes))
    if attention is not None and attention.instance_score == "attention":
        whole = torch.sigmoid(bags.per_bag(outputs, None, family.positive).mean(0))
        f = bags.per_instance(outputs[1], None, attention_weights).mean(0) * whole[torch.from_numpy(index.bag_of)]
    return f, torch.sigmoid(bags.per_bag(outputs, kept, family.positive).mean(0))


def _weights_and_bag_scores(
    f: Tensor, kept: Tensor, index: BagIndex, robustness: Robustness
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Compute p and R, some thousand instances at a time."""
    weights = partial(robust_weights, robustness=robustness)
    scores = partial(robust_score, robustness=robustness)
    p = np.zeros(len(f))
    bag_score = np.zeros(len(index))
    for some in index.runs(_ROWS, np.argsort(index.sizes, kind="stable")):  # those of a run are alike in size
        positions = torch.from_numpy(index.positions(some))
        bags = SizeClasses.of(torch.from_numpy(index.sizes[some]))
        p[positions] = bags.per_instance(f[positions], kept[positions], weights)
        bag_score[some] = bags.per_bag(f[positions], kept[positions], scores)
    return p, bag_score


def _disagreement(scorer: Scorer, features: Tensor, logits: Tensor) -> Tensor:
    return disagreement(torch.sigmoid(logits))


def _expected_gradient_length(scorer: Scorer, features: Tensor, logits: Tensor) -> Tensor:
    """Return sum_y P(y) |d BCE / d parameters|, mean over members: 2 f (1 - f) |d logit / d parameters|."""
    return (gini(torch.sigmoid(logits)) * scorer.gradient_norm(features)).mean(0)


def _embedding(scorer: Scorer, features: Tensor, logits: Tensor) -> Tensor:
    return scorer.embed(features)


_NEEDS: dict[Need, Callable[[Scorer, Tensor, Tensor], Tensor]] = {
    "disagreement": _disagreement,
    "expected_gradient_length": _expected_gradient_length,
    "embedding": _embedding,
}


def _check_needs(needs: Collection[str], model: TrainedModel) -> None:
    unknown = [needs] if isinstance(needs, str) else [need for need in needs if need not in _NEEDS]
    if unknown:
        raise InvalidInput(f"needs is a list of {', '.join(map(repr, _NEEDS))}; got {unknown[0]!r}", needs)
    if "disagreement" in needs and model.scorer.members < 2:
        raise InvalidInput(
            "one member cannot disagree; train two or more (members=…), or choose another sampler", needs
        )


def _check_width(model: TrainedModel, bags: BagSource) -> None:
    if bags.width != model.width:
        raise InvalidInput(
            f"the model was trained on instances of {model.width} features, these bags have {bags.width}; "
            "use the features that the model was trained on",
            bags.width,
        )
