"""What cannot be compiled is refused in one error that names it; names of sizes are free."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper

import sardonyx as sx

HEAD = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]> g '


def test_a_rank_that_only_the_middle_of_a_run_tells_is_refused_by_name() -> None:
    text = HEAD + "(float[N, M] x) => (int64[A] y) { n = NonZero (x) [first] y = Squeeze (n) }"
    with pytest.raises(sx.UnsupportedError, match=r"(?s)rank of a value is known at run time only.*Sq.*assume 'u0"):
        sx.compile(onnx.parser.parse_model(text))


def test_operators_without_a_function_are_refused_together() -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy")
    nodes = [
        helper.make_node("Gradient", ["x"], [result], name=name, domain="ai.onnx.preview.training", xs=["x"], y=name)
        for result, name in (("a", "first"), ("b", "second"))
    ]
    graph = helper.make_graph([*nodes, helper.make_node("Add", ["a", "b"], ["y"])], "g", [x], [y])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.preview.training", 1)]
    with pytest.raises(sx.UnsupportedError, match=r"(?s)Gradient.*first.*second"):
        sx.compile(helper.make_model(graph, opset_imports=opsets, ir_version=10))


@pytest.mark.parametrize(("rows", "columns"), [("threads", "d0"), ("d1", "d0"), ("u0", "v0"), ("i0", "max")])
def test_sizes_may_have_any_name(rows: str, columns: str) -> None:
    text = f"(float[{rows}, {columns}] x, int64[2] s) => (float[A, B] y, int64[C, D] z) {{"
    model = onnx.parser.parse_model(HEAD + text + " e = Softmax (x) y = Reshape (e, s) z = NonZero (y) }")
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    outputs = sx.compile(model)(x, np.array([6, 2]))
    e = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    np.testing.assert_allclose(outputs["y"], e.reshape(6, 2), rtol=1e-6)
    np.testing.assert_array_equal(outputs["z"], np.nonzero(e.reshape(6, 2)))
