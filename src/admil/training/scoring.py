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
from admil.functional import Padding, Robustness, disagreement, gini, robust_score, robust_weights
from admil.models import Scorer
from admil.training.ahead import Room, one_ahead
from admil.training.model import TrainedModel

__all__ = ["member_logits", "read_in_chunks", "score"]

_ROWS = 16_384
"""Instances read or padded at a time, at most."""

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


def member_logits(scorer: Scorer, bags: BagSource, numbers: IntArray, device: torch.device) -> Tensor:
    """Return (E, m) logits of the instances of whole bags, in eval mode and without gradient."""
    assert isinstance(scorer, torch.nn.Module)
    was_training = scorer.training
    scorer.eval()
    try:
        with torch.no_grad():
            return torch.cat([scorer.forward(chunk) for chunk in read_in_chunks(bags, numbers, device)], dim=1)
    finally:
        scorer.train(was_training)


def _weights_and_bag_scores(
    f: Tensor, kept: Tensor, index: BagIndex, robustness: Robustness
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Compute p and R in runs of bags whose sizes are alike, so that a huge bag pads none of the small ones."""
    p = np.zeros(len(f))
    bag_score = np.zeros(len(index))
    smallest_first = np.argsort(index.sizes, kind="stable")
    doubled = np.flatnonzero(np.diff(np.log2(index.sizes[smallest_first]).astype(int))) + 1
    runs = (run for similar in np.split(smallest_first, doubled) for run in index.runs(_ROWS, similar))
    for some in runs:
        positions = torch.from_numpy(index.positions(some))
        padding = Padding.of(torch.from_numpy(index.sizes[some]))
        scores, mask = padding.pad(f[positions]), padding.pad(kept[positions])
        p[positions.numpy()] = padding.flatten(robust_weights(scores, mask, robustness)).numpy()
        bag_score[some] = robust_score(scores, mask, robustness).numpy()
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


def _check_width(model: TrainedModel, bags: BagSource) -> None:
    if bags.width != model.width:
        raise InvalidInput(
            f"the model was trained on instances of {model.width} features, these bags have {bags.width}; "
            "use the features that the model was trained on",
            bags.width,
        )
