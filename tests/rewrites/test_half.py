"""Half-precision islands: nearer to float64 than with a rounding after each operator; the model's own casts stay."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from sardonyx.dialects import onnx
from sardonyx.rewrites.simplify.half import widen_half
from sardonyx.semantics.weights import WeightStore
from sardonyx.tools.explain import main_of

import sardonyx as sx
from sardonyx.testing import parse

HALF = "tensor<8xf16>"


def test_a_value_between_two_operators_is_not_rounded() -> None:
    module = parse(f"""
func.func @main(%x: {HALF}) -> {HALF} {{
  %a = onnx.Exp(%x) : ({HALF}) -> {HALF}
  %b = onnx.Sqrt(%a) : ({HALF}) -> {HALF}
  func.return %b : {HALF}
}}
""")
    assert len(widen_half(module, WeightStore())) == 2
    module.verify()
    live = [op for op in main_of(module).walk() if op.results and op.results[0].uses.get_length()]
    assert [type(op) for op in live] == [onnx.CastOp, onnx.ExpOp, onnx.SqrtOp, onnx.CastOp]


def test_bf16_keeps_its_roundings() -> None:
    module = parse("""
func.func @main(%x: tensor<8xbf16>) -> tensor<8xbf16> {
  %a = onnx.Exp(%x) : (tensor<8xbf16>) -> tensor<8xbf16>
  %b = onnx.Sqrt(%a) : (tensor<8xbf16>) -> tensor<8xbf16>
  func.return %b : tensor<8xbf16>
}
""")
    assert not widen_half(module, WeightStore())


def test_the_models_own_cast_rounds() -> None:
    module = parse(f"""
func.func @main(%x: tensor<8xf32>) -> {HALF} {{
  %h = onnx.Cast(%x) {{to = 10 : i64}} : (tensor<8xf32>) -> {HALF}
  %b = onnx.Sqrt(%h) : ({HALF}) -> {HALF}
  func.return %b : {HALF}
}}
""")
    widen_half(module, WeightStore())
    module.verify()
    (root,) = [op for op in main_of(module).walk() if isinstance(op, onnx.SqrtOp)]
    assert isinstance(root.operands[0].owner, onnx.CastOp)
    assert isinstance(root.operands[0].owner.operands[0].owner, onnx.CastOp)


def test_it_is_nearer_to_float64_than_rounding_everywhere() -> None:
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((32, 32)).astype(np.float16) / np.float16(6) for _ in range(3)]
    nodes, at = [], "x"
    for i in range(3):
        nodes += [helper.make_node("MatMul", [at, f"w{i}"], [f"m{i}"]), helper.make_node("Tanh", [f"m{i}"], [f"t{i}"])]
        at = f"t{i}"
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "half",
        [value("x", TensorProto.FLOAT16, ["N", 32])],
        [value(at, TensorProto.FLOAT16, None)],
        [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()
    x = rng.standard_normal((64, 32)).astype(np.float16)
    true = x.astype(np.float64)
    for w in weights:
        true = np.tanh(true @ w.astype(np.float64))
    wide, exact = (sx.compile(model, exact=e)(x)[at] for e in (False, True))
    assert wide.dtype == exact.dtype == np.float16
    wide_error, exact_error = (np.abs(y.astype(np.float64) - true) for y in (wide, exact))
    assert wide_error.mean() < exact_error.mean()
    assert wide_error.max() <= 2**-11  # half a unit in the last place of results below 1
