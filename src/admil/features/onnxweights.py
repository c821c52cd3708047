"""Whether an ONNX model has weights in other files, told from its bytes."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["has_outside_weights"]

_INSIDE = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
"""Which fields of each message of onnx.proto lead to a tensor."""

_DATA_LOCATION = 14
"""The field of a tensor that is not 0 where its values lie in another file."""


def has_outside_weights(model: bytes) -> bool:
    """Tell whether any tensor of a model lies in another file.

    Raises:
        ValueError: the bytes are no protocol buffer.
    """
    waiting = [("model", memoryview(model))]
    while waiting:
        kind, message = waiting.pop()
        for number, value in _fields(message):
            if kind == "tensor" and number == _DATA_LOCATION and value != 0:
                return True
            if number in _INSIDE[kind] and isinstance(value, memoryview):
                waiting.append((_INSIDE[kind][number], value))
    return False


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview | None]]:
    """Yield the fields of a message: whole numbers, what may be messages, and None for the others."""
    place = 0
    while place < len(message):
        key, place = _number(message, place)
        value: int | memoryview | None = None
        match key & 7:
            case 0:
                value, place = _number(message, place)
            case 1:
                place += 8
            case 2:
                size, start = _number(message, place)
                place = start + size
                value = message[start:place]
            case 5:
                place += 4
            case other:
                raise ValueError(f"a field of the unknown type {other}")
        if place > len(message):
            raise ValueError("it is cut off")
        yield key >> 3, value


def _number(message: memoryview, place: int) -> tuple[int, int]:
    """Return a whole number, seven bits a byte, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            raise ValueError("it is cut off")
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return value, place
    raise ValueError("a number of more than ten bytes")
