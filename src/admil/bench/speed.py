"""How long one training step takes, as ratios within one run.

The bags are the paper's shape: 60 positive and 60 negative bags of 32 instances with 4,096 features.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from admil.bags import Bags
from admil.bench.timing import SpeedRow, medians
from admil.training import TrainingRecipe, training_step

__all__ = ["measure_speed"]

_SIDE, _SIZE, _WIDTH = 60, 32, 4096
_POOL = 240
"""Bags on each side to draw from: more than a cache holds."""

_DROPOUT = 0.6


def measure_speed(repeats: int = 15, seed: int = 0) -> list[SpeedRow]:
    """Time our step against a plain one, and many members against as many separate steps."""
    bags = _bags(seed)
    steps = {
        "plain": _plain_step(bags, seed),
        "one": _our_step(bags, seed, members=1),
        "sixteen": _our_step(bags, seed, members=16),
    }
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        narrow = Bags(bags.index, bags.features.bfloat16())
        steps["half"] = _our_step(narrow, seed, members=1, precision="bfloat16")
    seconds = medians(steps, repeats)
    plain, one, sixteen = (seconds[name] for name in ("plain", "one", "sixteen"))
    rows = [
        SpeedRow("one member, float32", "a plain published-style step", one, plain),
        SpeedRow("16 members, float32", "16 separate steps of ours", sixteen, 16 * one),
        SpeedRow("16 members, float32", "16 plain published-style steps", sixteen, 16 * plain),
    ]
    if "half" in seconds:
        rows.insert(1, SpeedRow("one member, bfloat16", "a plain published-style step", seconds["half"], plain))
    return rows


def _bags(seed: int) -> Bags:
    generator = Generator().manual_seed(seed)
    features = torch.randn((2 * _POOL * _SIZE, _WIDTH), generator=generator)
    offsets = np.arange(2 * _POOL + 1) * _SIZE
    return Bags.from_arrays(features, [1] * _POOL + [0] * _POOL, offsets=offsets)


def _our_step(bags: Bags, seed: int, members: int, precision: str = "float32") -> Callable[[], object]:
    """Return one optimizer step of the training loop, gather included."""
    fields = {"members": members, "precision": precision, "member_share": 1.0, "dropout": _DROPOUT}
    recipe = TrainingRecipe.model_validate(fields)
    return training_step(recipe, bags, Generator().manual_seed(seed))


def _plain_step(bags: Bags, seed: int) -> Callable[[], object]:
    """Return the step as the published scripts of this method and its relatives write it.

    Bags are float64 NumPy arrays, gathered one by one and cast; the softmax weights are computed bag by
    bag and the hinge pair by pair, in Python loops.  Same network, batch, dropout and optimizer work.
    """
    stored = [bags.features[i : i + _SIZE].double().numpy() for i in range(0, len(bags.features), _SIZE)]
    torch.manual_seed(seed)
    network = nn.Sequential(
        nn.Linear(_WIDTH, 32),
        nn.ReLU(),
        nn.Dropout(_DROPOUT),
        nn.Linear(32, 16),
        nn.Dropout(_DROPOUT),
        nn.Linear(16, 1),
    )
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    rng = np.random.default_rng(seed)

    def step() -> None:
        chosen = [*rng.permutation(_POOL)[:_SIDE], *(_POOL + rng.permutation(_POOL)[:_SIDE])]
        gathered: NDArray[np.float64] = np.concatenate([stored[i] for i in chosen])
        scores = torch.sigmoid(network(torch.from_numpy(gathered).float())).reshape(-1, _SIZE)
        loss = _looped_hinge(scores)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def _looped_hinge(scores: Tensor) -> Tensor:
    positive = []
    for bag in scores[:_SIDE]:
        weights = torch.softmax(bag / 0.1, 0)
        positive.append((weights * bag).sum())
    negative = [bag.max() for bag in scores[_SIDE:]]
    loss = torch.zeros(())
    for high in positive:
        for low in negative:
            loss = loss + torch.relu(1 - high + low)
    return loss / (len(positive) * len(negative))
