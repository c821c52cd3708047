"""Robustness: what it accepts, what it refuses, and how it reads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from admil.errors import AdmilError, InvalidInput
from admil.functional import Robustness

NOT_NUMBERS: list[Any] = [math.nan, math.inf, -math.inf, "2", None, [2.0], 1j]


@pytest.mark.parametrize("family", ["chi_square", "kl"])
@pytest.mark.parametrize("k", [0.999, 0, -1, *NOT_NUMBERS], ids=repr)
def test_fewer_than_one_effective_instance_is_refused(k: Any, family: Any) -> None:
    with pytest.raises(InvalidInput, match=r"needs a number of instances >= 1, got .*try Robustness") as error:
        Robustness.effective(k, family)
    assert error.value.subject is k


@pytest.mark.parametrize("of", [Robustness.chi_square, Robustness.kl])
@pytest.mark.parametrize("lam", [-1e-9, -1, *NOT_NUMBERS], ids=repr)
def test_a_radius_below_zero_is_refused(of: Callable[[float], Robustness], lam: Any) -> None:
    with pytest.raises(InvalidInput, match=r"robustness needs a radius lambda >= 0, got .*try Robustness"):
        of(lam)


@pytest.mark.parametrize("gamma", [0.0, -0.0, -0.1, *NOT_NUMBERS], ids=repr)
def test_a_temperature_of_zero_or_less_is_refused(gamma: Any) -> None:
    with pytest.raises(InvalidInput, match=r"robustness needs a temperature > 0, got .*try Robustness"):
        Robustness.temperature(gamma)


@pytest.mark.parametrize(
    ("family", "measure"),
    [
        ("chi_square", "temperature"),
        ("kl", "temperature"),
        ("softmax", "effective"),
        ("softmax", "radius"),
        ("chi_square", "lambda"),
        ("wasserstein", "radius"),
    ],
)
def test_a_measure_that_the_family_does_not_have_is_refused_by_name(family: Any, measure: Any) -> None:
    with pytest.raises(InvalidInput, match=f"family '{family}' has no measure '{measure}'; use Robustness.effective"):
        Robustness(family, measure, 2.0)
    with pytest.raises(InvalidInput, match="family 'softmax' has no measure 'effective'"):
        Robustness.effective(2, "softmax")  # type: ignore[arg-type]


def test_a_refusal_can_be_caught_as_a_value_error_or_as_ours() -> None:
    assert issubclass(InvalidInput, ValueError)
    assert issubclass(InvalidInput, AdmilError)


def test_the_least_and_the_largest_allowed_values_are_allowed() -> None:
    assert Robustness.effective(1).strength == 1
    assert Robustness.chi_square(0).strength == 0
    assert Robustness.kl(1.7e308).strength == 1.7e308
    assert Robustness.temperature(5e-324).strength == 5e-324
    assert Robustness.effective(np.float32(2)).strength == 2  # type: ignore[arg-type]
    assert Robustness.effective(np.int64(2)).strength == 2  # type: ignore[arg-type]


def test_class_methods_set_family_measure_strength_and_through() -> None:
    def fields(robustness: Robustness) -> tuple[str, str, float, bool]:
        return robustness.family, robustness.measure, robustness.strength, robustness.through

    assert fields(Robustness.effective(2)) == ("chi_square", "effective", 2, False)
    assert fields(Robustness.effective(2, "kl")) == ("kl", "effective", 2, False)
    assert fields(Robustness.chi_square(0.1)) == ("chi_square", "radius", 0.1, False)
    assert fields(Robustness.kl(0.1)) == ("kl", "radius", 0.1, False)
    assert fields(Robustness.temperature(0.1)) == ("softmax", "temperature", 0.1, True)
    assert fields(Robustness.temperature(0.1, through=False)) == ("softmax", "temperature", 0.1, False)


def test_equal_ones_are_one_key_and_different_ones_are_not() -> None:
    assert Robustness.effective(2) == Robustness.effective(2.0)
    assert hash(Robustness.effective(2)) == hash(Robustness.effective(2.0))
    different = {
        Robustness.effective(2),
        Robustness.effective(2, "kl"),
        Robustness.effective(3),
        Robustness.chi_square(2),
        Robustness.kl(2),
        Robustness.temperature(2),
        Robustness.temperature(2, through=False),
    }
    assert len(different) == 7


@pytest.mark.parametrize(
    ("robustness", "text"),
    [
        (Robustness.effective(2), "Robustness.effective(2)"),
        (Robustness.effective(1.5, "kl"), "Robustness.effective(1.5, 'kl')"),
        (Robustness.chi_square(1e-8), "Robustness.chi_square(1e-08)"),
        (Robustness.kl(0.123456789), "Robustness.kl(0.123456789)"),
        (Robustness.temperature(0.1), "Robustness.temperature(0.1, through=True)"),
        (Robustness.temperature(0.1, through=False), "Robustness.temperature(0.1, through=False)"),
    ],
)
def test_it_prints_as_the_call_that_makes_it(robustness: Robustness, text: str) -> None:
    assert repr(robustness) == text
    assert eval(text, {"Robustness": Robustness}) == robustness


def test_it_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="cannot assign to field 'strength'"):
        Robustness.effective(2).strength = 3  # type: ignore[misc]
