"""Options that several commands share, as one value each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from admil.features import FeatureCache, PictureEncoder, PictureEncoderName, Precision, picture_encoder

__all__ = ["CacheOption", "DeviceOption", "PictureOptions", "flattened"]

CacheOption = Annotated[
    bool, typer.Option("--cache/--no-cache", help="Keep features for the next time, by content and encoder.")
]
_SMALL_SIDE = 128

DeviceOption = Annotated[str, typer.Option(help="Where to compute features: cpu, cuda, cuda:1, mps.")]


@dataclass(frozen=True)
class PictureOptions:
    """What makes features of pictures."""

    encoder: Annotated[PictureEncoderName, typer.Option(help="What makes features of a picture.")] = (
        "efficientnet-lite0"
    )
    size: Annotated[
        int | None, typer.Option(min=1, help="Side that pictures are squeezed to; else what suits the encoder.")
    ] = None
    weights: Annotated[Path | None, typer.Option(help="The file of its weights, for vgg16 and onnx.")] = None
    device: DeviceOption = "cpu"
    batch: Annotated[int | None, typer.Option(min=1, help="Pictures at a time; else what suits the device.")] = None
    precision: Annotated[Precision, typer.Option(help="What the encoder computes in.")] = "float32"
    cache: CacheOption = True

    def make(self, small: bool = False) -> PictureEncoder:
        """Make the encoder; where pictures are small and no size is given, EfficientNet gets 128.

        That is a third of the work, for two or three points of a linear probe on CIFAR-10.
        """
        halved = small and self.size is None and self.encoder == "efficientnet-lite0"
        side = _SMALL_SIDE if halved else self.size
        return picture_encoder(
            self.encoder,
            size=side,
            weights=self.weights,
            device=self.device,
            batch=self.batch,
            precision=self.precision,
        )

    @property
    def kept(self) -> FeatureCache | None:
        """Where features are kept; None for nowhere."""
        return FeatureCache() if self.cache else None


def flattened(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer in which a parameter that is a dataclass has become an option per field."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if parameter.name in groups:
            parameters += _options(groups[parameter.name])
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def flat(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        command(**values)

    flat.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # read by inspect.signature
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def _options(kind: Any) -> list[Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
        for field in fields(kind)
    ]
