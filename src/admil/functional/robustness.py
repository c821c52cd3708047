"""How far a robust bag score may lean towards the best instances of a bag."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal

from admil.errors import InvalidInput

__all__ = ["Robustness"]

Family = Literal["chi_square", "kl", "softmax"]
Measure = Literal["effective", "radius", "temperature"]

_MEASURES: dict[str, tuple[str, ...]] = {
    "chi_square": ("effective", "radius"),
    "kl": ("effective", "radius"),
    "softmax": ("temperature",),
}


@dataclass(frozen=True)
class Robustness:
    """The family and the strength of a robust bag score; build one with a class method.

    >>> Robustness.effective(2)
    Robustness.effective(2)
    >>> Robustness.kl(0.5)
    Robustness.kl(0.5)

    Attributes:
        family: the set the weights may move in (``chi_square``, ``kl``) or ``softmax`` for the KL penalty.
        measure: what ``strength`` counts: effective instances, the radius lambda, or a temperature.
        strength: the value of that measure.
        through: softmax only; whether the gradient also flows through the weights.
    """

    family: Family
    measure: Measure
    strength: float
    through: bool = False

    def __post_init__(self) -> None:
        if self.measure not in _MEASURES.get(self.family, ()):
            raise InvalidInput(
                f"robustness of family {self.family!r} has no measure {self.measure!r}; "
                "use Robustness.effective, .chi_square, .kl or .temperature",
                self,
            )
        _check_strength(self)

    @classmethod
    def effective(cls, k: float, family: Literal["chi_square", "kl"] = "chi_square") -> Robustness:
        """Let at least ``k`` instances share the weight, whatever the size of the bag.

        On the chi-square ball this is ``1 / sum(p**2) >= k``, on the KL ball ``exp(entropy(p)) >= k``.
        ``k = 1`` is the maximum, ``k`` at or above the bag's size the mean.
        """
        return cls(family, "effective", k)

    @classmethod
    def chi_square(cls, lam: float) -> Robustness:
        """Use the ball ``n * sum((p - 1/n)**2) <= lam / n`` (the paper's eq. 3 and Theorem 1)."""
        return cls("chi_square", "radius", lam)

    @classmethod
    def kl(cls, lam: float) -> Robustness:
        """Use the ball ``sum(p * log(n * p)) <= lam / n`` (Theorem 2)."""
        return cls("kl", "radius", lam)

    @classmethod
    def temperature(cls, gamma: float, through: bool = True) -> Robustness:
        """Use ``p = softmax(f / gamma)``, the KL penalty of the authors' code.

        With ``through`` the score is ``p . f`` and the gradient flows through the softmax too, as
        the authors train; without it the score is ``gamma * log(mean(exp(f / gamma)))``, whose
        gradient is exactly ``p``.
        """
        return cls("softmax", "temperature", gamma, through)

    def __repr__(self) -> str:
        strength = f"{self.strength:.12g}"
        if self.measure == "temperature":
            return f"Robustness.temperature({strength}, through={self.through})"
        if self.measure == "effective":
            family = ", 'kl'" if self.family == "kl" else ""
            return f"Robustness.effective({strength}{family})"
        return f"Robustness.{self.family}({strength})"


def _check_strength(robustness: Robustness) -> None:
    value: object = robustness.strength  # typed a number, but a recipe file may say otherwise
    number = float(value) if isinstance(value, Real) else math.nan
    wanted, fits = {
        "effective": ("a number of instances >= 1", number >= 1),
        "radius": ("a radius lambda >= 0", number >= 0),
        "temperature": ("a temperature > 0", number > 0),
    }[robustness.measure]
    if not math.isfinite(number) or not fits:
        raise InvalidInput(f"robustness needs {wanted}, got {value!r}; try Robustness.effective(2)", value)
