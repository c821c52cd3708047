"""Telling from a model's bytes whether weights of it lie in other files."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from admil.features.onnxweights import has_outside_weights
from tests.features.test_onnxfile import model


def tensor(outside: bool) -> TensorProto:
    made = numpy_helper.from_array(np.ones((2, 3), np.float32), "t")
    if outside:
        made.ClearField("raw_data")
        made.data_location = TensorProto.EXTERNAL
        made.external_data.add(key="location", value="../secret.bin")
    return made


def graph(inside: TensorProto) -> onnx.GraphProto:
    return helper.make_graph([], "inner", [], [], [inside])


def initializer(made: TensorProto) -> onnx.ModelProto:
    return helper.make_model(graph(made))


def constant(made: TensorProto) -> onnx.ModelProto:
    whole = model()
    whole.graph.node.append(helper.make_node("Constant", [], ["c"], value=made))
    return whole


def branch(made: TensorProto) -> onnx.ModelProto:
    whole = model()
    whole.graph.node.append(
        helper.make_node("If", ["x"], ["c"], then_branch=graph(made), else_branch=graph(tensor(False)))
    )
    return whole


def lists(made: TensorProto) -> onnx.ModelProto:
    whole = model()
    whole.graph.node.append(helper.make_node("Own", [], ["c"], tensors=[tensor(False), made], graphs=[graph(made)]))
    return whole


def sparse(made: TensorProto) -> onnx.ModelProto:
    whole = model()
    values = onnx.SparseTensorProto(values=made, indices=tensor(False), dims=[3])
    whole.graph.sparse_initializer.append(values)
    return whole


def function(made: TensorProto) -> onnx.ModelProto:
    whole = model()
    node = helper.make_node("Constant", [], ["c"], value=made)
    whole.functions.append(helper.make_function("own", "f", [], ["c"], [node], [helper.make_opsetid("", 17)]))
    return whole


def training(made: TensorProto) -> onnx.ModelProto:
    whole = model()
    whole.training_info.add().initialization.CopyFrom(graph(made))
    return whole


def deep(made: TensorProto) -> onnx.ModelProto:
    inner = graph(made)
    for _ in range(30):
        inner = helper.make_graph([helper.make_node("If", ["x"], ["c"], then_branch=inner)], "deep", [], [])
    return helper.make_model(inner)


@pytest.mark.parametrize("place", [initializer, constant, branch, lists, sparse, function, training, deep])
def test_weights_in_other_files_are_found_wherever_a_model_has_weights(
    place: Callable[[TensorProto], onnx.ModelProto],
) -> None:
    assert has_outside_weights(place(tensor(True)).SerializeToString())
    assert not has_outside_weights(place(tensor(False)).SerializeToString())


def test_an_ordinary_model_has_none() -> None:
    assert not has_outside_weights(model().SerializeToString())
    assert not has_outside_weights(b"")


def test_words_that_look_like_it_are_no_weights() -> None:
    whole = model()
    whole.doc_string = initializer(tensor(True)).SerializeToString().decode("latin-1")
    whole.metadata_props.add(key="location", value="../secret.bin")
    assert not has_outside_weights(whole.SerializeToString())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x3a", "it is cut off"),
        (b"\x3a\x05abc", "it is cut off"),
        (b"\x39\x00\x00", "it is cut off"),
        (b"\x3d\x00", "it is cut off"),
        (b"\x08\x80", "it is cut off"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "a number of more than ten bytes"),
        (b"\x3b\x3c", "a field of the unknown type 3"),
    ],
)
def test_what_is_no_protocol_buffer_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        has_outside_weights(data)


@given(st.binary(max_size=200))
def test_any_bytes_end_in_an_answer_or_a_value_error(data: bytes) -> None:
    whole = initializer(tensor(True)).SerializeToString()
    for each in (data, whole + data, whole[: len(data)], data + whole):
        try:
            assert has_outside_weights(each) in (True, False)
        except ValueError as error:
            assert str(error)  # noqa: PT017


@given(st.lists(st.sampled_from(["graph", "node", "tensor"]), max_size=6), st.booleans())
def test_what_onnx_reads_and_what_we_read_agree(parts: list[str], outside: bool) -> None:
    whole = model()
    for number, part in enumerate(parts):
        made = tensor(outside and number == len(parts) - 1)
        whole.MergeFrom({"graph": branch, "node": constant, "tensor": initializer}[part](made))
    assert has_outside_weights(whole.SerializeToString()) == (outside and bool(parts))
