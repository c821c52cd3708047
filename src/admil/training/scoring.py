"""Scores of every instance under a trained model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import cycle

import numpy as np
import torch
from torch import Tensor

from admil.bags import BagIndex, BagSource, IntArray, LabelBook, LabelState, Need, Scores
from admil.errors import InvalidInput
from admil.functional import Robustness, SizeClasses, disagreement, gini, robust_score, robust_weights
from admil.models import Scorer
from admil.training.ahead import Room, one_ahead
from admil.training.model import TrainedModel

__all__ = ["highest_logits", "read_in_chunks", "score"]

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
    score are computed with the recipe's robustness among the instances not answered negative.

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
    extras: dict[str, list[Tensor]] = {need: [] for need in needs}
    device = next(model.module.parameters()).device
    with torch.no_grad():
        for chunk in read_in_chunks(bags, np.arange(len(bags.index)), device):
            logits = model.scorer.forward(chunk).double()  # (E, m)
            flat.append(torch.sigmoid(logits.mean(0)).cpu())
            for need in needs:
                extras[need].append(_NEEDS[need](model.scorer, chunk, logits).cpu())
    f = torch.cat(flat)
    kept = torch.ones(len(f), dtype=torch.bool)
    if labels is not None and model.recipe.remove_known_negatives:
        kept = torch.from_numpy(labels.state != LabelState.NEGATIVE)
    p, bag_score = _weights_and_bag_scores(f, kept, bags.index, model.recipe.robustness)
    return Scores(
        bags.index, f.numpy(), p, bag_score, {need: torch.cat(parts).numpy() for need, parts in extras.items()}
    )


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
    assert isinstance(scorer, torch.nn.Module)
    was_training = scorer.training
    scorer.eval()
    bag_of = torch.from_numpy(np.repeat(np.arange(len(numbers)), bags.index.sizes[numbers])).to(device)
    best: Tensor | None = None
    start = 0
    try:
        with torch.no_grad():
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
    finally:
        scorer.train(was_training)
    assert best is not None, "bags hold at least one instance"
    best = torch.where(torch.isfinite(best), best, 0.0)
    return best[:-1], best[-1]


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
