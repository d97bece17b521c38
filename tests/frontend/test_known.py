"""Values that the IR knows, from every form that a constant has."""

from __future__ import annotations

import numpy as np
import pytest
from sardonyx.dialects import dims, onnx
from sardonyx.semantics.known import constant_value, known_dims
from sardonyx.semantics.weights import WeightStore
from xdsl.dialects.builtin import TensorType, i64

FORMS = [
    ({"value_int": 3}, np.array(3, np.int64)),
    ({"value_ints": [1, 2]}, np.array([1, 2], np.int64)),
    ({"value_ints": []}, np.array([], np.int64)),
    ({"value_float": 0.5}, np.array(0.5, np.float32)),
    ({"value_floats": [0.5, float("inf")]}, np.array([0.5, np.inf], np.float32)),
    ({"value_floats": []}, np.array([], np.float32)),
    ({"value_string": "größe"}, np.array("größe", object)),
    ({"value_strings": ["a", "ü"]}, np.array(["a", "ü"], object)),
    ({"value": np.array([[True, False]])}, np.array([[True, False]])),
    ({"value": np.array(2.5, np.float16)}, np.array(2.5, np.float16)),
]


@pytest.mark.parametrize(("attributes", "wanted"), FORMS, ids=lambda form: str(form)[:30])
def test_constants(attributes: dict[str, object], wanted: np.ndarray) -> None:
    found = constant_value(onnx.ConstantOp.make([], attributes).output)
    assert found is not None
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    assert found.tolist() == wanted.tolist()


def test_weights_need_their_store() -> None:
    weights = WeightStore()
    array = np.arange(100)
    op = onnx.InitializerOp.make("w", weights.add(array), TensorType(i64, [100]))
    assert constant_value(op.result) is None
    assert constant_value(op.result, weights) is array


def test_dims() -> None:
    assert known_dims(dims.TensorOp(["N", "2*N"], TensorType(i64, [2])).result) == dims.parse_dims("N, 2*N")
    assert known_dims(onnx.ConstantOp.make([], {"value_ints": [3, -1]}).output) == (dims.as_dim(3), dims.as_dim(-1))
    assert known_dims(onnx.ConstantOp.make([], {"value_floats": [3.0]}).output) is None
    relu = onnx.ReluOp.make([onnx.ConstantOp.make([], {"value_int": 1}).output])
    assert known_dims(relu.Y) is None
    assert constant_value(relu.Y) is None
