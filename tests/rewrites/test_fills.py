"""Values that are the same everywhere need no kernel: at each size the bits are those of operators run one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest
from sardonyx.dialects import kernel
from sardonyx.tools.explain import explain
from sardonyx.tools.opt import context_of
from xdsl.parser import Parser

import sardonyx as sx
from sardonyx.universe import UNIVERSE

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '
LOOP = """(float[B, T] x, int64 n) => (float[P, Q] y, bool[P, Q] f) {
  s = Shape (x) z = ConstantOfShape <value = float[1] {FILL}> (s) t = ConstantOfShape <value = bool[1] {1}> (s)
  c = Constant <value = bool {1}> ()
  y, f = Loop (n, c, z, t) <body = b (int64 i, bool ci, float[K, L] h, bool[K, L] g)
    => (bool co, float[K, L] ho, bool[K, L] go) { co = Identity (ci) ho = Add (h, x) go = Not (g) }> }"""

MODELS = {
    "results": (
        "(float[B, T] x) => (float[P, Q] y, int64[P, Q] z, float[P, Q] w) { s = Shape (x)"
        "y = ConstantOfShape <value = float[1] {1.5}> (s) z = ConstantOfShape <value = int64[1] {-3}> (s)"
        "w = ConstantOfShape (s) }",
        [],
    ),
    "one in a sum and a result": (
        "(float[B, T] x) => (float[P, Q] y, float[P, Q] z) { s = Shape (x)"
        "y = ConstantOfShape <value = float[1] {0.5}> (s) z = Add (x, y) }",
        ["add_0"],
    ),
    "an operand of a product, and parts of a join": (
        "(float[B, T] x, float[8, 4] w) => (float[P, 4] y, float[P, R] j) { s = Shape (x)"
        "k = Constant <value_ints = [0]> () o = Constant <value_ints = [1]> () b = Slice (s, k, o)"
        "e = Constant <value_ints = [8]> () q = Concat <axis = 0> (b, e) h = Constant <value_float = 0.25> ()"
        "r = Expand (h, q) y = MatMul (r, w) j = Concat <axis = 1> (x, r, x) }",
        ["matmul_0", "concat_0"],
    ),
    "states of a loop": (LOOP.replace("FILL", "0.0"), ["add_0", "not_0"]),
    "states of a loop, no zeros": (LOOP.replace("FILL", "2.5"), ["add_0", "not_0"]),
    "a branch": (
        "(float[B, T] x, bool c) => (float[P, Q] y) { s = Shape (x) z = ConstantOfShape <value = float[1] {-0.0}> (s)"
        "y = If (c) <then_branch = t () => (float[P, Q] p) { p = Identity (z) },"
        "else_branch = e () => (float[P, Q] q) { q = Add (x, z) }> }",
        ["add_0"],
    ),
}  # fmt: skip


def model_of(name: str) -> Any:
    return onnx.parser.parse_model(HEAD + MODELS[name][0])


def feeds_of(model: Any, sizes: dict[str, int]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    given = {"n": np.array(3), "c": np.array(sizes["T"] % 2 == 1)}
    return {
        i.name: given.get(i.name)
        if i.name in given
        else rng.standard_normal([sizes.get(d.dim_param, d.dim_value) for d in i.type.tensor_type.shape.dim]).astype(
            "f"
        )
        for i in model.graph.input
    }


@pytest.mark.parametrize("name", MODELS)
def test_a_fill_is_no_kernel(name: str) -> None:
    module = sx.lower(model_of(name), to="kernels")
    report = explain(module)
    assert [k["name"] for k in report["kernels"]] == MODELS[name][1]
    assert not report["hosted"]
    assert any(isinstance(op, kernel.FillOp) for op in module.walk())
    assert str(Parser(context_of(UNIVERSE), str(module)).parse_module()) == str(module)


@pytest.mark.parametrize("name", MODELS)
def test_the_bits_are_those_of_single_operators(name: str) -> None:
    model = model_of(name)
    program, single = sx.compile(model, cache=False), sx.compile(model, cache=False, fuse=False)
    for sizes in ({"B": 2, "T": 3}, {"B": 0, "T": 4}, {"B": 5, "T": 67}, {"B": 1, "T": 1}):
        feeds = feeds_of(model, sizes)
        got, want = program(feeds), single(feeds)
        reference = sx.run(sx.lower(model, to="kernels"), feeds)
        for key, value in want.items():
            assert (got[key].shape, got[key].tobytes()) == (value.shape, value.tobytes()), (key, sizes)
            np.testing.assert_allclose(np.asarray(reference[key], np.float64), value.astype(np.float64), rtol=1e-5)


def test_a_result_of_half_floats() -> None:
    value = onnx.helper.make_tensor("v", onnx.TensorProto.FLOAT16, [1], [1.5])
    nodes = [
        onnx.helper.make_node("Shape", ["x"], ["s"]),
        onnx.helper.make_node("ConstantOfShape", ["s"], ["y"], value=value),
    ]
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 3])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT16, ["N", 3])
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "g", [x], [y]), opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10
    )
    for rows in (0, 1, 50):
        got = sx.compile(model, cache=False)(np.zeros((rows, 3), np.float32))["y"]
        np.testing.assert_array_equal(got, np.full((rows, 3), 1.5, np.float16))
