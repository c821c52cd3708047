"""VGG16 up to fc2: names, shapes and numbers, against the architecture as it was published."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor, nn

from admil.errors import AdmilError, CorruptFile, InvalidInput
from admil.features import IMAGENET_MEAN, IMAGENET_STD, Picture
from admil.features.vgg import vgg16, vgg16_fc2
from admil.store.documents import file_digest
from tests.features.making import pictures
from tests.mangling import mangle

CONVOLUTIONS = (
    ((0, 3, 64), (2, 64, 64)),
    ((5, 64, 128), (7, 128, 128)),
    ((10, 128, 256), (12, 256, 256), (14, 256, 256)),
    ((17, 256, 512), (19, 512, 512), (21, 512, 512)),
    ((24, 512, 512), (26, 512, 512), (28, 512, 512)),
)
"""Of configuration D: number in torchvision's file, channels before and after; a halving follows each block."""

LINEAR = ((0, 25_088, 4_096), (3, 4_096, 4_096), (6, 4_096, 1_000))


def published() -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of torchvision's file, in its order."""
    shapes: dict[str, tuple[int, ...]] = {}
    for number, before, after in (each for block in CONVOLUTIONS for each in block):
        shapes |= {f"features.{number}.weight": (after, before, 3, 3), f"features.{number}.bias": (after,)}
    for number, before, after in LINEAR:
        shapes |= {f"classifier.{number}.weight": (after, before), f"classifier.{number}.bias": (after,)}
    return shapes


def weights(seed: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """Make weights of all names that keep the scale of what goes through.

    The rows of each overlap in memory, and so do they in a file: 138 million weights take less than a megabyte.
    """
    generator = torch.Generator().manual_seed(seed)
    made = {}
    for name, shape in published().items():
        strides = (7, 5, 3, 1)[-len(shape) :]
        size = 1 + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
        scale = (2 / float(np.prod(shape[1:]))) ** 0.5 if len(shape) > 1 else 0.1
        made[name] = (torch.randn(size, generator=generator) * scale).to(dtype).as_strided(shape, strides)
    return made


def saved(path: Path, state: Any, **options: Any) -> Path:
    torch.save(state, path, **options)
    return path


def by_hand(made: list[Picture], state: dict[str, Tensor]) -> NDArray[np.float32]:
    """Run the layers one after the other on pictures of 32 pixels a side."""
    colours = torch.from_numpy(np.stack(made)).float() / 255
    values = ((colours - torch.tensor(IMAGENET_MEAN)) / torch.tensor(IMAGENET_STD)).permute(0, 3, 1, 2)
    for block in CONVOLUTIONS:
        for number, _, _ in block:
            weight, bias = (state[f"features.{number}.{kind}"].float().contiguous() for kind in ("weight", "bias"))
            values = nn.functional.conv2d(values, weight, bias, padding=1).clamp(min=0)
        values = values.unfold(2, 2, 2).unfold(3, 2, 2).amax((4, 5))
    flat = values.expand(-1, -1, 7, 7).flatten(1)  # the average of one place, seven times seven
    for number in (0, 3):
        weight, bias = (state[f"classifier.{number}.{kind}"].float() for kind in ("weight", "bias"))
        flat = (flat @ weight.T + bias).clamp(min=0)
    return flat.numpy()


# --- what it is ----------------------------------------------------------------------------------


def test_names_and_shapes_are_those_of_the_published_file_without_its_last_layer() -> None:
    state = vgg16_fc2().state_dict()
    expected = {name: shape for name, shape in published().items() if not name.startswith("classifier.6")}
    assert {name: tuple(value.shape) for name, value in state.items()} == expected
    assert list(state) == list(expected)
    assert sum(value.numel() for value in state.values()) == 138_357_544 - 4_097_000


def test_at_224_pixels_the_average_changes_nothing() -> None:
    network = vgg16_fc2()
    places = network.get_submodule("features")(torch.empty(1, 3, 224, 224, device="meta"))
    assert places.shape == (1, 512, 7, 7)
    values = torch.randn(2, 512, 7, 7)
    torch.testing.assert_close(network.get_submodule("average")(values), values)
    assert network(torch.empty(2, 3, 224, 224, device="meta")).shape == (2, 4096)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_features_are_those_of_the_layers_run_by_hand(dtype: torch.dtype, tmp_path: Path) -> None:
    state = weights(0, dtype)
    path = saved(tmp_path / "vgg16-397923af.pth", state)
    encoder = vgg16(path, 32)
    made = pictures(2, 32, 32)
    rows, expected = encoder.encode(made), by_hand(made, state)
    assert rows.shape == (2, 4096) == (2, encoder.width)
    assert rows.dtype == np.float32
    assert 0.1 < (expected > 0).mean() < 0.9
    np.testing.assert_allclose(rows, expected, atol=1e-4 * expected.max())
    assert (rows >= 0).all()
    assert encoder.identity == {
        "encoder": "vgg16-fc2",
        "weights": file_digest(path),
        "size": 32,
        "resize": "bilinear",
        "mean": list(IMAGENET_MEAN),
        "std": list(IMAGENET_STD),
        "precision": "float32",
    }


# --- what is refused -----------------------------------------------------------------------------


def tiny(**changes: Any) -> dict[str, Any]:
    """Make weights by the right names, all of one number."""
    return {name: torch.ones(1) for name in published()} | changes


WRONG = {
    "other-network": ({"conv1.weight": torch.ones(2)}, "lacks 30 of the 30 weights of VGG16, first features.0.weight"),
    "nothing": ({}, "lacks 30 of the 30 .*; its first name is none; names must be those of torchvision's vgg16"),
    "half": (
        {name: torch.ones(1) for name in published() if "classifier" not in name},
        r"lacks 4 of the 30 weights of VGG16, first classifier.0.weight; its first name is features\.0\.(weight|bias)",
    ),
    "batch-norm": (
        tiny(**{"features.1.running_mean": torch.ones(64)}),
        "holds features.1.running_mean, which VGG16 does not have",
    ),
    "shape": (tiny(), r"expected features.0.weight with shape \(64, 3, 3, 3\), got torch.float32 \(1,\)"),
    "type": (
        tiny(**{"features.0.weight": torch.ones(64, 3, 3, 3, dtype=torch.int8)}),
        r"expected features.0.weight with shape \(64, 3, 3, 3\), got torch.int8 \(64, 3, 3, 3\)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_weights_of_another_network_are_refused(name: str, tmp_path: Path) -> None:
    state, message = WRONG[name]
    with pytest.raises(InvalidInput, match=message):
        vgg16(saved(tmp_path / "w.pth", state))
    with pytest.raises(InvalidInput, match=message):
        vgg16(saved(tmp_path / "old.pth", state, _use_new_zipfile_serialization=False))
    save_file({key: value.contiguous() for key, value in state.items()}, tmp_path / "w.safetensors")
    with pytest.raises(InvalidInput, match=message):
        vgg16(tmp_path / "w.safetensors")


class Runs:
    """Runs code when it is unpickled as usual."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_files_that_would_run_code_are_refused_and_do_not(tmp_path: Path) -> None:
    for name, content in (("state", {"features.0.weight": Runs(tmp_path / "ran")}), ("all", Runs(tmp_path / "ran"))):
        for options in ({}, {"_use_new_zipfile_serialization": False}):
            with pytest.raises(CorruptFile, match="cannot be read: expected the weights of VGG16"):
                vgg16(saved(tmp_path / name, content, **options))
    (tmp_path / "plain.pkl").write_bytes(pickle.dumps(Runs(tmp_path / "ran")))
    with pytest.raises(CorruptFile, match="cannot be read: expected the weights of VGG16"):
        vgg16(tmp_path / "plain.pkl")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["w.pth", "w.safetensors"])
@pytest.mark.parametrize("content", [b"", b"junk", b"\0" * 64, b"PK\x03\x04" + b"\0" * 60])
def test_files_that_are_no_weights_are_refused(content: bytes, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorruptFile, match=rf"{name} cannot be read: expected the weights of VGG16, \.pth or"):
        vgg16(tmp_path / name)


@pytest.mark.parametrize("content", [[1], torch.ones(2), {"state_dict": {"a": torch.ones(1)}}, {"epoch": 3}])
def test_what_holds_more_or_less_than_tensors_by_name_is_refused(content: Any, tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match=r"w\.pth holds no state dict: expected weights by name"):
        vgg16(saved(tmp_path / "w.pth", content))


def test_mangled_weights_end_in_an_error_of_ours(tmp_path: Path) -> None:
    state = {"features.0.weight": torch.ones(2), "b": torch.ones(3, dtype=torch.int8)}
    save_file(state, tmp_path / "s")
    files = [
        saved(tmp_path / "a", state).read_bytes(),
        saved(tmp_path / "b", state, _use_new_zipfile_serialization=False).read_bytes(),
        (tmp_path / "s").read_bytes(),
    ]
    path = tmp_path / "w.pth"
    for case in range(300):
        path = tmp_path / ("w.safetensors" if case % 3 == 2 else "w.pth")
        path.write_bytes(mangle(files[case % 3], files, np.random.default_rng([16, case])))
        with pytest.raises(AdmilError, match=r"w\.(pth|safetensors)"):
            vgg16(path)


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "gone.pth", tmp_path):
        with pytest.raises(CorruptFile, match=r"there is no file .*; give the file with the weights of VGG16"):
            vgg16(path)


def test_pictures_have_32_pixels_a_side_at_least(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="VGG16 needs pictures of 32 pixels a side at least, got size 31"):
        vgg16(tmp_path / "gone.pth", 31)
