"""ONNX models as encoders, against NumPy."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from admil.errors import AdmilError, CorruptFile, InvalidInput, MissingExtra
from admil.features import IMAGENET_MEAN, IMAGENET_STD, OnnxEncoder, Picture
from admil.store.documents import file_digest
from tests.features.making import picture, pictures
from tests.mangling import mangle

WEIGHTS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
Side = int | str


def model(
    shape: Sequence[Side] = ("batch", 3, "height", "width"),
    kind: int = TensorProto.FLOAT,
    nodes: Sequence[tuple[str, list[str], str]] = (("Conv", ["x", "w"], "y"),),
    outputs: Sequence[str] = ("y",),
    output_kind: int | None = None,
    inputs: Sequence[str] = ("x",),
) -> onnx.ModelProto:
    """Make a model; its one weight mixes the three colours of a pixel to five."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    graph = helper.make_graph(
        [helper.make_node(name, given, [made]) for name, given, made in nodes],
        "made",
        [helper.make_tensor_value_info(name, kind, list(shape)) for name in inputs],
        [helper.make_tensor_value_info(name, output_kind or kind, None) for name in outputs],
        [numpy_helper.from_array(WEIGHTS[:, :, None, None].astype(dtype), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def saved(path: Path, made: onnx.ModelProto | None = None) -> Path:
    onnx.save_model(made or model(), path)
    return path


def mixed(made: Sequence[Picture]) -> NDArray[np.float64]:
    """Return (B, 5, H, W): what the weight makes of scaled pictures of one size."""
    colours = (np.stack(made) / 255 - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD)
    mixture: NDArray[np.float64] = np.einsum("of,bhwf->bohw", WEIGHTS, colours)
    return mixture


# --- what it makes -------------------------------------------------------------------------------


def test_features_are_what_the_network_makes_averaged_over_places(tmp_path: Path) -> None:
    encoder = OnnxEncoder(saved(tmp_path / "m.onnx"), 6)
    made = pictures(4, 6, 6)
    rows = encoder.encode(made)
    assert rows.dtype == np.float32
    assert encoder.width == 5
    np.testing.assert_allclose(rows, mixed(made).mean((2, 3)), atol=1e-5)


def test_colours_are_scaled_as_asked(tmp_path: Path) -> None:
    encoder = OnnxEncoder(saved(tmp_path / "m.onnx"), 1, (0.5, 0.25, 0), (1, 2, 4))
    rows = encoder.encode([np.array([[[255, 0, 51]]], np.uint8)])
    np.testing.assert_allclose(rows[0], WEIGHTS @ [0.5, -0.125, 0.05], atol=1e-6)


def test_pictures_of_any_size_are_squeezed(tmp_path: Path) -> None:
    encoder = OnnxEncoder(saved(tmp_path / "m.onnx"), 4)
    grey = [np.full((height, width, 3), 100, np.uint8) for height, width in ((1, 9), (4, 4), (30, 2))]
    np.testing.assert_allclose(encoder.encode(grey), mixed([grey[1]] * 3).mean((2, 3)), atol=1e-5)


def test_places_may_be_kept_whole(tmp_path: Path) -> None:
    encoder = OnnxEncoder(saved(tmp_path / "m.onnx"), 2, pooling="flatten")
    made = pictures(3, 2, 2)
    assert encoder.width == 20
    np.testing.assert_allclose(encoder.encode(made), mixed(made).reshape(3, 20), atol=1e-5)


def test_tokens_are_averaged_and_rows_are_taken_as_they_are(tmp_path: Path) -> None:
    shape = numpy_helper.from_array(np.array([0, 0, -1]), "shape")
    nodes = [
        ("Conv", ["x", "w"], "y"),
        ("Reshape", ["y", "shape"], "places"),
        ("Transpose", ["places"], "backwards"),
        ("Flatten", ["y"], "rows"),
    ]
    made = model(nodes=nodes, outputs=["backwards", "rows"])
    made.graph.initializer.append(shape)
    made.graph.node[2].attribute.append(helper.make_attribute("perm", [0, 2, 1]))
    path = saved(tmp_path / "m.onnx", made)
    given = pictures(3, 2, 2)
    tokens = mixed(given).reshape(3, 5, 4).transpose(0, 2, 1)  # (B, T, D)
    first, rows = OnnxEncoder(path, 2), OnnxEncoder(path, 2, output="rows")
    assert (first.output, first.width, rows.width) == ("backwards", 5, 20)
    np.testing.assert_allclose(first.encode(given), tokens.mean(1), atol=1e-5)
    np.testing.assert_allclose(rows.encode(given), mixed(given).reshape(3, 20), atol=1e-5)
    kept = OnnxEncoder(path, 2, pooling="flatten").encode(given)
    np.testing.assert_allclose(kept, tokens.reshape(3, 20), atol=1e-5)


def test_half_precision_goes_in_and_single_comes_out(tmp_path: Path) -> None:
    encoder = OnnxEncoder(saved(tmp_path / "m.onnx", model(kind=TensorProto.FLOAT16)), 4)
    rows = encoder.encode(pictures(3, 4, 4))
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, mixed(pictures(3, 4, 4)).mean((2, 3)), atol=0.02)


@pytest.mark.parametrize("batch", [1, 2, 5, 16])
def test_batches_change_nothing(batch: int, tmp_path: Path) -> None:
    encoder = OnnxEncoder(saved(tmp_path / "m.onnx"), 6, batch=batch)
    np.testing.assert_allclose(encoder.encode(pictures(5, 6, 6)), mixed(pictures(5, 6, 6)).mean((2, 3)), atol=1e-5)


@pytest.mark.parametrize("count", [1, 3, 4, 6])
def test_a_batch_that_the_file_fixes_is_filled_up(count: int, tmp_path: Path) -> None:
    encoder = OnnxEncoder(saved(tmp_path / "m.onnx", model((3, 3, 4, 4))), batch=16)
    assert (encoder.batch, encoder.size) == (3, 4)
    rows = encoder.encode(pictures(count, 4, 4))
    np.testing.assert_allclose(rows, mixed(pictures(count, 4, 4)).mean((2, 3)), atol=1e-5)


@pytest.mark.parametrize("shape", [("n", 3, 4, 4), ("n", 3, "h", 4), ("n", 3, 4, "w")])
def test_the_size_is_the_one_that_the_file_fixes(shape: tuple[Side, ...], tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", model(shape))
    assert OnnxEncoder(path).size == OnnxEncoder(path, 4).size == 4
    with pytest.raises(InvalidInput, match=r"m\.onnx takes pictures of size 4 only, got size 5; leave it out"):
        OnnxEncoder(path, 5)


def test_no_pictures_and_one_array_of_them_are_taken(tmp_path: Path) -> None:
    encoder = OnnxEncoder(saved(tmp_path / "m.onnx"), 4)
    assert encoder.encode([]).shape == (0, 5)
    assert encoder.encode(np.stack(pictures(2))).shape == (2, 5)  # type: ignore[arg-type]


# --- what it is ----------------------------------------------------------------------------------


def test_the_identity_says_all_that_a_vector_depends_on(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx")
    identity = OnnxEncoder(path, 4).identity
    assert identity == {
        "encoder": "onnx",
        "weights": file_digest(path),
        "output": "y",
        "pooling": "mean",
        "size": 4,
        "resize": "bilinear",
        "mean": list(IMAGENET_MEAN),
        "std": list(IMAGENET_STD),
    }
    assert json.loads(json.dumps(identity)) == identity
    assert OnnxEncoder(path, 4, batch=3).identity == identity
    others = [
        OnnxEncoder(path, 5),
        OnnxEncoder(path, 4, (0, 0, 0)),
        OnnxEncoder(path, 4, std=(1, 1, 1)),
        OnnxEncoder(path, 4, pooling="flatten"),
        OnnxEncoder(saved(tmp_path / "other.onnx", model(("b", 3, 4, 4))), 4),
    ]
    assert all(other.identity != identity for other in others)
    path.rename(tmp_path / "moved.onnx")
    assert OnnxEncoder(tmp_path / "moved.onnx", 4).identity == identity


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (("b", 1, 4, 4), r"expected one input \(B, 3, H, W\) of floats, its inputs are: x tensor\(float\)"),
        (("b", 4, 4, 3), r"expected one input \(B, 3, H, W\) of floats"),
        (("b", 3, 4), r"expected one input \(B, 3, H, W\) of floats"),
        (("b", 3, 4, 6), "takes 4 x 6 pixels; only square inputs are supported"),
        (("b", 3, "h", "w"), r"m\.onnx takes pictures of any size; say which: give size"),
    ],
)
def test_inputs_that_are_no_pictures_are_refused(shape: tuple[Side, ...], message: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", model(shape, nodes=[("Identity", ["x"], "y")]))
    with pytest.raises(InvalidInput, match=message):
        OnnxEncoder(path)


def test_other_types_and_several_inputs_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", model(kind=TensorProto.INT64, nodes=[("Identity", ["x"], "y")]))
    with pytest.raises(InvalidInput, match=r"its inputs are: x tensor\(int64\)"):
        OnnxEncoder(path, 4)
    saved(path, model(inputs=["x", "z"], nodes=[("Add", ["x", "z"], "y")]))
    with pytest.raises(InvalidInput, match=r"its inputs are: x .*; z tensor\(float\)"):
        OnnxEncoder(path, 4)


@pytest.mark.parametrize(
    ("node", "kind", "came"),
    [
        (("ReduceSum", ["x"], "y"), TensorProto.FLOAT, r"float32 with shape \(1, 1, 1, 1\)"),
        (("Size", ["x"], "y"), TensorProto.INT64, r"int64 with shape \(\)"),
        (("Shape", ["x"], "y"), TensorProto.INT64, r"int64 with shape \(4,\)"),
        (("Cast", ["x"], "y"), TensorProto.STRING, r"object with shape \(2, 3, 4, 4\)"),
    ],
)
def test_outputs_that_are_no_features_are_refused(
    node: tuple[str, list[str], str], kind: int, came: str, tmp_path: Path
) -> None:
    made = model(nodes=[node], output_kind=kind)
    if node[0] == "Cast":
        made.graph.node[0].attribute.append(helper.make_attribute("to", kind))
    encoder = OnnxEncoder(saved(tmp_path / "m.onnx", made), 4)
    with pytest.raises(InvalidInput, match=rf"output 'y' must be numbers, \(B, D\).* for 2 pictures; it is {came}"):
        encoder.encode(pictures(2, 4, 4))


def test_a_model_that_cannot_take_this_size_says_so(tmp_path: Path) -> None:
    encoder = OnnxEncoder(saved(tmp_path / "m.onnx", model(nodes=[("MatMul", ["x", "w"], "y")])), 4)
    with pytest.raises(InvalidInput, match=r"m\.onnx cannot be run on pictures of size 4: .+"):
        encoder.encode(pictures(1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output": "z"}, r"m\.onnx has no output 'z'; it has y"),
        ({"pooling": "max"}, "pooling is mean or flatten, got 'max'"),
        ({"size": 0}, "size is the side of a picture in pixels, from 1 up, got 0"),
        ({"batch": 0}, "batch is the number of pictures at a time, from 1 up, got 0"),
        ({"mean": (0, 0)}, "mean and std have a value for each of three colours"),
        ({"std": (0, 0, 0)}, "mean and std have a value for each of three colours"),
    ],
)
def test_settings_that_cannot_be_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        OnnxEncoder(saved(tmp_path / "m.onnx"), **({"size": 4} | options))


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04" + bytes(60), b"\x08\x08", b"\xff" * 30])
def test_files_that_are_no_models_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(CorruptFile, match=r"m\.onnx cannot be read: expected an ONNX model .*\(.+\)$"):
        OnnxEncoder(tmp_path / "m.onnx", 4)


def test_a_model_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    data = saved(tmp_path / "m.onnx").read_bytes()
    for length in (1, len(data) // 2, len(data) - 1):
        (tmp_path / "m.onnx").write_bytes(data[:length])
        with pytest.raises(CorruptFile, match=r"m\.onnx cannot be read: expected an ONNX model"):
            OnnxEncoder(tmp_path / "m.onnx", 4)


@pytest.mark.parametrize("word", [b"height", b"Conv", b"x", b"y"])
def test_a_model_with_names_that_are_no_text_is_refused_quietly(
    word: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = model().SerializeToString().replace(word, b"\xff" * len(word))
    (tmp_path / "m.onnx").write_bytes(data)
    with pytest.raises(CorruptFile, match=r"m\.onnx cannot be read: expected an ONNX model .*'utf-8' codec"):
        OnnxEncoder(tmp_path / "m.onnx", 4)
    assert capfd.readouterr() == ("", "")


def test_mangled_models_end_in_features_or_an_error_of_ours(tmp_path: Path) -> None:
    files = [model(shape).SerializeToString() for shape in (("b", 3, "h", "w"), ("b", 3, 4, 4))]
    whole = 0
    for case in range(300):
        (tmp_path / "m.onnx").write_bytes(mangle(files[case % 2], files, np.random.default_rng([17, case])))
        try:
            with np.errstate(over="ignore"):
                rows = OnnxEncoder(tmp_path / "m.onnx", 4).encode(pictures(2))
        except AdmilError as error:
            assert "m.onnx" in str(error), "it is named"  # noqa: PT017
        else:
            whole += 1
            assert len(rows) == 2
    assert 0 < whole < 300


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "gone.onnx", tmp_path):
        with pytest.raises(CorruptFile, match=r"there is no file .*; give the \.onnx file of a model"):
            OnnxEncoder(path)


def test_a_missing_package_is_said_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r'an ONNX model needs a package .*: pip install "admil\[onnx\]"'):
        OnnxEncoder(saved(tmp_path / "m.onnx"))


def test_weights_in_another_file_are_refused_wherever_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They could be any file, and the identity would be that of the model without them."""
    options: dict[str, Any] = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    onnx.save_model(model(), tmp_path / "m.onnx", **options)
    assert (tmp_path / "weights.bin").stat().st_size >= WEIGHTS.nbytes
    for folder in (tmp_path, tmp_path.parent):
        monkeypatch.chdir(folder)
        with pytest.raises(InvalidInput, match=r"m\.onnx has weights in another file; save the model with its weights"):
            OnnxEncoder(tmp_path / "m.onnx", 4)
    onnx.save_model(onnx.load(tmp_path / "m.onnx"), tmp_path / "inside.onnx")
    assert OnnxEncoder(tmp_path / "inside.onnx", 4).encode([picture()]).shape == (1, 5)
