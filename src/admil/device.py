"""Where to compute, checked before any work is done."""

from __future__ import annotations

import torch

from admil.errors import InvalidInput

__all__ = ["usable_device"]


def usable_device(device: torch.device | str) -> torch.device:
    """Return the device, or say that this machine or this torch does not have it.

    >>> usable_device("cpu")
    device(type='cpu')

    Raises:
        InvalidInput: no such device.
    """
    try:
        place = torch.device(device)
        torch.zeros(1, device=place).item()  # there are devices without numbers
    except (AssertionError, NotImplementedError, RuntimeError, TypeError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(f"cannot compute on device {device!r} ({said}); try 'cpu'", device) from None
    return place
