"""Simplified models have no node twice, none for what a constant says, and sizes only where these cost no more."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

from sardonyx.simplifier import count_nodes, simplify_model

FLAT = {"a": np.arange(12.0, dtype=np.float32)}

MODELS = {
    "equal nodes of constants with different names": (
        """(float[N] a) => (float[P, Q] b) <int64[1] first = {1}, int64[1] again = {1}> {
        c = Unsqueeze(a, first)
        d = Unsqueeze(a, again)
        b = Add(c, d) }""",
        {"Unsqueeze": 1, "Add": 1},
    ),
    "a branch that is a constant": (
        """(float[N] a) => (float[M] b) <float[2] one = {1, 1}> {
        n = Size(a)
        k = Constant<value_int: int = 3>()
        less = Less(n, k)
        two = Constant<value_floats: floats = [2.0, 2.0]>()
        b = If(less) <then_branch = then () => (float[2] t) { t = Identity(one) },
                      else_branch = other () => (float[2] e) { e = Add(one, two) }> }""",
        {"Shape": 1, "Less": 1, "If": 1},
    ),
    "a number of a size, which has a node": (
        """(float[N] a) => (int64[P] b, int64 n) {
        s = Shape(a)
        zero = Constant<value_int: int = 0>()
        one = Constant<value_int: int = 1>()
        size = Gather(s, zero)
        r = Range(zero, size, one)
        last = Sub(size, one)
        b = Min(r, last)
        n = Add(size, one) }""",
        {"Shape": 1, "Gather": 1, "Range": 1, "Sub": 1, "Min": 1, "Add": 1},
    ),
    "a constant of the file after an equal one of a size": (
        """(float[N] a) => (int64[P] b) {
        s = Shape(a)
        size = Squeeze(s)
        zero = Constant<value: tensor = int64 {0}>()
        one = Constant<value: tensor = int64 {1}>()
        b = Range(zero, size, one) }""",
        {"Shape": 1, "Gather": 1, "Range": 1},
    ),
    "a symbol that is a size only times a number": (
        """("float[4*C]" a) => (float[P, Q, R] b) {
        s = Shape(a)
        zero = Constant<value_int: int = 0>()
        four = Constant<value_int: int = 4>()
        axis = Constant<value_ints: ints = [0]>()
        size = Gather(s, zero)
        part = Div(size, four)
        p = Unsqueeze(part, axis)
        again = Unsqueeze(part, axis)
        two = Constant<value_ints: ints = [2]>()
        t = Concat<axis: int = 0>(p, two, two)
        c = Reshape(a, t)
        u = Concat<axis: int = 0>(again, two, two)
        d = Reshape(a, u)
        b = Add(c, d) }""",
        {"Constant": 0, "Reshape": 1, "Add": 1},
    ),
}


def model_of(text: str) -> onnx.ModelProto:
    symbolic = text.replace('"float[4*C]" a', "float[C] a")
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g {symbolic}')
    if symbolic is not text:
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "4*C"
    return model


@pytest.mark.parametrize("case", MODELS)
def test_nodes(case: str) -> None:
    text, expected = MODELS[case]
    model = model_of(text)
    found = simplify_model(model).model
    kinds = Counter(node.op_type for node in found.graph.node if node.op_type != "Constant")
    assert kinds.total() <= sum(expected.values()), kinds
    assert count_nodes(found) <= sum(expected.values())
    assert simplify_model(found).model.SerializeToString() == found.SerializeToString()
    want = ReferenceEvaluator(model).run(None, FLAT)
    for got, expected_value in zip(ReferenceEvaluator(found).run(None, FLAT), want, strict=True):
        np.testing.assert_array_equal(got, expected_value)


def test_a_default_is_no_constant() -> None:
    model = model_of(MODELS["equal nodes of constants with different names"][0])
    model.graph.input.append(onnx.helper.make_tensor_value_info("again", onnx.TensorProto.INT64, [1]))
    kept = simplify_model(model, keep_defaults=True).model
    assert sum(node.op_type == "Unsqueeze" for node in kept.graph.node) == 2
