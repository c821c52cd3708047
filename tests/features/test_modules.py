"""Any torch module as an encoder of pictures."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from admil.errors import InvalidInput
from admil.features import IMAGENET_MEAN, IMAGENET_STD, ModuleEncoder
from admil.features.modules import module_digest, stacked
from tests.features.making import picture, pictures

MEAN, STD = (0.5, 0.25, 0.125), (0.5, 2.0, 0.25)


class Colours(nn.Module):
    """Gives back what it is given."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.flatten(1)


class Function(nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, inputs: Tensor) -> Any:
        return self.function(inputs)


def network(seed: int = 0) -> nn.Sequential:
    generator = torch.Generator().manual_seed(seed)
    made = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.9))
    for value in made.parameters():
        nn.init.normal_(value, generator=generator)
    return made


# --- what it makes -------------------------------------------------------------------------------


def test_the_module_is_given_channels_first_and_scaled() -> None:
    made = pictures(3, 4, 4)
    rows = ModuleEncoder(Colours(), 4, MEAN, STD).encode(made)
    expected = (np.stack(made) / 255 - np.array(MEAN)) / np.array(STD)
    np.testing.assert_allclose(rows, expected.transpose(0, 3, 1, 2).reshape(3, 48), atol=1e-5)
    assert rows.dtype == np.float32


def test_the_scaling_is_imagenets_unless_another_is_given() -> None:
    white = np.full((1, 1, 3), 255, np.uint8)
    rows = ModuleEncoder(Colours(), 1).encode([white])
    np.testing.assert_allclose(rows[0], (1 - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD), rtol=1e-5)
    assert IMAGENET_MEAN == (0.485, 0.456, 0.406)
    assert IMAGENET_STD == (0.229, 0.224, 0.225)


def test_pictures_of_any_size_are_squeezed_whole() -> None:
    made = np.zeros((8, 2, 3), np.uint8)
    made[:4] = 255
    rows = ModuleEncoder(Colours(), 2, (0, 0, 0), (1, 1, 1)).encode([made]).reshape(3, 2, 2)
    assert rows[:, 0].min() > 0.8
    assert rows[:, 1].max() < 0.2


def test_places_are_averaged() -> None:
    rows = ModuleEncoder(nn.Identity(), 4, (0, 0, 0), (1, 1, 1)).encode([picture(height=4, width=4)])
    np.testing.assert_allclose(rows[0], picture(height=4, width=4).mean((0, 1)) / 255, rtol=1e-5)


def test_a_module_is_used_as_in_evaluation_and_is_left_as_it_was() -> None:
    module = network()
    module.train()
    normal = module[1]
    assert isinstance(normal, nn.BatchNorm2d)
    encoder = ModuleEncoder(module, 8)
    first, again = encoder.encode(pictures(5)), encoder.encode(pictures(5))
    assert np.array_equal(first, again), "nothing is dropped out at random"
    assert module.training
    assert normal.running_mean is not None
    assert normal.running_mean.abs().max() == 0, "no statistics were taken"
    colours = torch.from_numpy(stacked(pictures(5), 8)).float() / 255
    inputs = ((colours - torch.tensor(IMAGENET_MEAN)) / torch.tensor(IMAGENET_STD)).permute(0, 3, 1, 2)
    evaluated = module.eval()(inputs)
    np.testing.assert_allclose(first, evaluated.mean((2, 3)).detach(), atol=1e-4)


def test_training_the_module_further_does_not_change_the_encoder() -> None:
    module = network()
    encoder = ModuleEncoder(module, 8)
    before, identity = encoder.encode(pictures(2)), dict(encoder.identity)
    with torch.no_grad():
        for value in module.parameters():
            value.zero_()
    assert np.array_equal(encoder.encode(pictures(2)), before)
    assert encoder.identity == identity
    assert ModuleEncoder(module, 8).identity != identity


@pytest.mark.parametrize("batch", [1, 3, 7, 100])
def test_batches_change_nothing(batch: int) -> None:
    seen: list[int] = []

    def counted(inputs: Tensor) -> Tensor:
        seen.append(len(inputs))
        return inputs

    encoder = ModuleEncoder(nn.Sequential(Function(counted), network()), 8, batch=batch, weights="w")
    rows = encoder.encode(pictures(7))
    np.testing.assert_allclose(rows, ModuleEncoder(network(), 8).encode(pictures(7)), atol=1e-4)
    assert seen == [min(batch, 7 - start) for start in range(0, 7, batch)]


def test_pictures_may_be_one_array() -> None:
    encoder = ModuleEncoder(network(), 8)
    assert np.array_equal(encoder.encode(np.stack(pictures(3))), encoder.encode(pictures(3)))  # type: ignore[arg-type]


def test_bfloat16_is_near_and_comes_as_float32() -> None:
    exact, quick = (ModuleEncoder(network(), 8, precision=kind) for kind in ("float32", "bfloat16"))
    rows = quick.encode(pictures(4))
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, exact.encode(pictures(4)), rtol=0.05, atol=0.05)
    assert not np.array_equal(rows, exact.encode(pictures(4)))
    assert quick.identity != exact.identity


def test_the_width_is_found_by_asking() -> None:
    encoder = ModuleEncoder(network(), 8)
    assert encoder.width == 4
    assert encoder.encode([]).shape == (0, 4)


# --- what it is ----------------------------------------------------------------------------------


def test_the_identity_says_all_that_a_vector_depends_on() -> None:
    given: dict[str, Any] = {"module": network(), "size": 8, "mean": MEAN, "std": STD, "name": "mine"}
    identity = ModuleEncoder(**given).identity
    assert identity == {
        "encoder": "mine",
        "weights": module_digest(network()),
        "size": 8,
        "resize": "bilinear",
        "mean": [0.5, 0.25, 0.125],
        "std": [0.5, 2.0, 0.25],
        "precision": "float32",
    }
    assert json.loads(json.dumps(identity)) == identity
    changes: list[dict[str, Any]] = [
        {"module": network(1)},
        {"size": 9},
        {"mean": (0.5, 0.25, 0)},
        {"std": (0.5, 2, 1)},
        {"name": "other"},
        {"precision": "bfloat16"},
        {"weights": "v2"},
    ]
    for change in changes:
        assert ModuleEncoder(**(given | change)).identity != identity, change
    for change in ({"batch": 3}, {"device": torch.device("cpu")}):
        assert ModuleEncoder(**(given | change)).identity == identity, "this is no matter of what comes out"


class Positions(nn.Module):
    """Adds numbers that are not saved with its weights."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.register_buffer("positions", torch.full((3,), value), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        positions: Tensor = self.get_buffer("positions")
        return inputs.mean((2, 3)) + positions


def test_buffers_that_are_not_saved_are_part_of_the_identity() -> None:
    one, two = (ModuleEncoder(Positions(value), 2) for value in (1, 2))
    assert not np.array_equal(one.encode(pictures(1)), two.encode(pictures(1)))
    assert one.identity != two.identity


def test_the_digest_is_of_names_types_shapes_and_bytes() -> None:
    def digest(**values: Tensor) -> str:
        module = nn.Module()
        for name, value in values.items():
            module.register_buffer(name, value)
        return module_digest(module)

    ones = torch.ones(2, 3)
    others = [ones.T.contiguous(), ones.half(), -ones, torch.ones(2, 3).bfloat16(), torch.tensor(1.0)]
    digests = {digest(a=ones), digest(b=ones), *(digest(a=other) for other in others)}
    assert len(digests) == 7
    assert digest(a=ones.T) == digest(a=torch.ones(3, 2)), "not of how it lies in memory"
    assert digest(a=torch.ones(0, 3)) != digest()


def test_a_state_that_is_no_tensor_needs_a_checksum_of_its_own() -> None:
    class Strange(Colours):
        def get_extra_state(self) -> Any:
            return {"scale": 3}

        def set_extra_state(self, state: Any) -> None:
            pass

    with pytest.raises(InvalidInput, match=r"state '_extra_state' is no tensor but dict; .*weights=…"):
        ModuleEncoder(Strange(), 2)
    assert ModuleEncoder(Strange(), 2, weights="v1").identity["weights"] == "v1"


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "came"),
    [
        (lambda inputs: inputs.flatten(), r"shape \(24,\)"),
        (lambda inputs: inputs[:1].flatten(1), r"shape \(1, 12\)"),
        (lambda inputs: inputs[..., 0], r"shape \(2, 3, 2\)"),
        (lambda inputs: (inputs, inputs), "tuple"),
    ],
)
def test_a_module_must_return_a_row_for_every_picture(returned: Callable[[Tensor], Any], came: str) -> None:
    encoder = ModuleEncoder(Function(returned), 2, name="mine")
    with pytest.raises(
        InvalidInput, match=rf"'mine' must return \(B, D\) or \(B, D, H, W\) for 2 pictures, it returned {came}"
    ):
        encoder.encode(pictures(2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 0}, "size and batch are whole numbers from 1 up, got 0 and None"),
        ({"batch": 0}, "size and batch are whole numbers from 1 up, got 224 and 0"),
        ({"precision": "float16"}, "precision is float32 or bfloat16, got 'float16'"),
        ({"mean": (0.5,)}, "mean and std have a value for each of three colours, std above 0"),
        ({"mean": (0, 0, float("nan"))}, "mean and std have a value for each"),
        ({"std": (1, 1)}, "mean and std have a value for each"),
        ({"std": (1, 1, 0)}, "mean and std have a value for each"),
        ({"std": (1, float("nan"), 1)}, "mean and std have a value for each"),
        ({"std": (1, float("inf"), 1)}, "mean and std have a value for each"),
        ({"device": "nowhere"}, r"cannot compute on device 'nowhere' \(.+\); try 'cpu'"),
        ({"device": "cuda:99"}, r"cannot compute on device 'cuda:99' \(.+\); try 'cpu'"),
    ],
)
def test_settings_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ModuleEncoder(Colours(), **change)


def test_what_is_no_picture_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a picture is a uint8 array"):
        ModuleEncoder(Colours(), 2).encode([picture() / 255])  # type: ignore[list-item]
