"""The truth, where a data set has it, and an annotator who answers from it.

Nothing that trains or selects can import this module; a machine checks it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator

from admil.bags import BagIndex, InstanceId, Query
from admil.errors import CorruptFile, InvalidInput
from admil.store import BagStore

__all__ = ["SimulatedAnnotator", "Truth"]


@dataclass(frozen=True, eq=False)
class Truth:
    """The true label of every instance, (M,), by position; consistent with the bag labels."""

    index: BagIndex
    positive: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if self.positive.shape != (self.index.n_instances,):
            raise InvalidInput(
                f"expected one truth value per instance: {self.index.n_instances} instances, "
                f"got shape {self.positive.shape}"
            )
        has_positive = np.bincount(self.index.bag_of, self.positive, len(self.index)) > 0
        if self.index.labels is None:
            return
        wrong = np.flatnonzero(has_positive != (self.index.labels == 1))
        if len(wrong):
            bag = self.index.ids[wrong[0]]
            raise InvalidInput(
                f"bag {bag!r} is labelled {'positive' if self.index.labels[wrong[0]] else 'negative'} but "
                f"{'no' if self.index.labels[wrong[0]] else 'an'} instance of it is positive",
                bag,
            )

    @classmethod
    def of_store(cls, store: BagStore) -> Truth:
        """Read the truth of the bags of a store, or of some of them.

        Raises:
            InvalidInput: a bag has none, or its truth contradicts its label.
            CorruptFile: the truth is damaged or not of this store.
        """
        positive = np.zeros(store.index.n_instances, dtype=bool)
        missing = set(store.ids)
        for bag, values in store.truth_rows():
            if bag in missing:
                number = store.index.number(bag)
                if len(values) != (size := store.index.sizes[number]):
                    raise CorruptFile(
                        f"the truth of bag {bag!r} in {store.path} has {len(values)} values, it has {size} instances",
                        bag,
                    )
                positive[store.index.offsets[number] : store.index.offsets[number + 1]] = values
                missing.remove(bag)
        if missing:
            raise InvalidInput(
                f"{store.path} holds no truth for {len(missing)} of these bags ({min(missing)!r}, …); "
                "import it with them, or choose bags that have it",
                min(missing),
            )
        return cls(store.index, positive)

    def __getitem__(self, instance: InstanceId) -> bool:
        return bool(self.positive[self.index.position(instance)])


@dataclass(frozen=True, eq=False)
class SimulatedAnnotator:
    """Answers queries from the truth, with the mistakes and skips you ask for.

    Attributes:
        truth: what is true.
        mistakes: probability of the wrong answer.
        skips: probability of no answer.
        generator: draws both; needed where one is above 0.
    """

    truth: Truth
    mistakes: float = 0.0
    skips: float = 0.0
    generator: Generator | None = None

    def __post_init__(self) -> None:
        for name, rate in (("mistakes", self.mistakes), ("skips", self.skips)):
            if not 0 <= rate <= 1:
                raise InvalidInput(f"{name} is a probability in [0, 1], got {rate!r}", rate)
        if (self.mistakes or self.skips) and self.generator is None:
            raise InvalidInput(
                "an annotator who errs or skips needs a generator; pass torch.Generator().manual_seed(…)"
            )

    def answer(self, query: Query) -> dict[InstanceId, bool | None]:
        """Return True, False or None (skipped) for every question, as `ActiveLearner.answer` takes them."""
        return self.label(query.ids)

    def label(self, instances: Iterable[InstanceId]) -> dict[InstanceId, bool | None]:
        """Return True, False or None (skipped) for every instance named."""
        return {instance: self._one(instance) for instance in instances}

    def _one(self, instance: InstanceId) -> bool | None:
        truth = self.truth[instance]
        if self.generator is None:
            return truth
        skip, err = (float(draw) for draw in torch.rand(2, generator=self.generator))
        if skip < self.skips:
            return None
        return not truth if err < self.mistakes else truth
