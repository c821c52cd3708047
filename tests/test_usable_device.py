"""Devices that are not there."""

from __future__ import annotations

import pytest
import torch

from admil.device import usable_device
from admil.errors import InvalidInput


def test_the_cpu_is_always_there() -> None:
    assert usable_device(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize("device", ["toaster", "cuda:97", "cpu:x", 3.5, "meta"])
def test_what_is_not_there_is_named_with_a_way_out(device: object) -> None:
    with pytest.raises(InvalidInput, match=r"cannot compute on device .*try 'cpu'"):
        usable_device(device)  # type: ignore[arg-type]
