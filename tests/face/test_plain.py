"""The plain setting: no fusion, vectors or tiles.  It computes what the ordinary one does, by the bit where it can."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from sardonyx.codegen.llvm_text import emit
from sardonyx.tools.feeds import make_feeds
from sardonyx.tools.opt import context_of
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.parser import Parser

import sardonyx as sx
from sardonyx.compiler import host_target, target_of
from sardonyx.universe import UNIVERSE

Make = Callable[..., onnx.ModelProto]
PLAIN = replace(host_target(), plain=True)

EXACT = {
    "pointwise": "g (float[N, 7] x, float[7] b) => (float[N, 7] z) { a = Tanh(x) c = Exp(b) d = Mul(a, c) z = Erf(d) }",
    "half": "g (float16[N, 5] x) => (float16[N, 5] z) { a = Sigmoid(x) z = Mul(a, x) }",
    "product": "g (float[N, 9] x, float[9, 21] w) => (float[N, 21] z) { z = MatMul(x, w) }",
    "batched": "g (float[B, 3, 9] x, float[B, 9, 2] w) => (float[B, 3, 2] z) { z = MatMul(x, w) }",
    "gemm": "g (float[9, N] x, float[4, 9] w, float[4] c) => (float[N, 4] z) "
            "{ z = Gemm <transA = 1, transB = 1, alpha = 0.5> (x, w, c) }",
    "deep": "g (float[3, 700] x, float[700, 5] w) => (float[3, 5] z) { z = MatMul(x, w) }",
    "doubles": "g (double[N, 9] x, double[9, 21] w) => (double[N, 21] z) { z = MatMul(x, w) }",
    "integers": "g (int8[3, N] x, int8[N, 5] w) => (int32[3, 5] z) { z = MatMulInteger(x, w) }",
    "convolution": "g (float[N, 3, 9, 8] x, float[5, 3, 3, 3] w) => (float[N, 5, H, W] z) "
                   "{ z = Conv <strides = [2, 1], pads = [1, 1, 1, 1]> (x, w) }",
    "depthwise": "g (float[N, 4, 9] x, float[4, 1, 3] w) => (float[N, 4, 9] z) "
                 "{ z = Conv <group = 4, pads = [1, 1]> (x, w) }",
    "transposed": "g (float[N, 3, 5, 4] x, float[3, 2, 3, 3] w) => (float[N, 2, H, W] z) "
                  "{ z = ConvTranspose <strides = [2, 2]> (x, w) }",
    "pool": "g (float[N, 3, 9, 8] x) => (float[N, 3, H, W] z) { z = MaxPool <kernel_shape = [3, 2]> (x) }",
    "movement": "g (float[N, 3, 5] x, int64[K] i) => (float[K, 5, N] z) "
                "{ t = Transpose <perm = [1, 2, 0]> (x) z = Gather(t, i) }",
    "order": "g (float[N, 9] x, int64[1] k) => (float[N, K] v, int64[N, K] i) { v, i = TopK(x, k) }",
    "zeros": "g (float[N, 5] x) => (int64[2, K] z) { r = Relu(x) z = NonZero(r) }",
    "bytes": "g (uint8[N, 33] x, uint8[33] y) => (uint8[N, 33] z) { z = Max(x, y) }",
    "control": "g (float[N] x, bool c) => (float[N] z) { z = If (c) <then_branch = t () => (float[N] y) { y = Exp(x) },"
               " else_branch = e () => (float[N] w) { w = Neg(x) }> }",
}  # fmt: skip
"""Models in which every element's operations come in one order, whatever the lanes."""
CLOSE = {
    "softmax": "g (float[N, 37] x) => (float[N, 37] z) { z = Softmax(x) }",
    "columns": "g (float[N, 5, 3] x) => (float[5, 3] z) "
               "{ a = Constant <value_ints = [0]> () z = ReduceMean <keepdims = 0> (x, a) }",
    "rows": "g (float[N, 37] x) => (float[N, 1] z) { a = Constant <value_ints = [1]> () z = ReduceSumSquare(x, a) }",
    "normal": "g (float[N, 37] x, float[37] s, float[37] b) => (float[N, 37] z) { z = LayerNormalization(x, s, b) }",
    "winograd": "g (float[1, 16, 24, 24] x, float[16, 16, 3, 3] w) => (float[1, 16, 24, 24] z) "
                "{ z = Conv <pads = [1, 1, 1, 1]> (x, w) }",
    "attention": "g (float[B, 2, N, 5] q, float[B, 2, 6, 5] k, float[B, 2, 6, 4] v) => (float[B, 2, N, 4] z) "
                 "{ t = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul(q, t) p = Softmax(s) z = MatMul(p, v) }",
    "lstm": "g (float[T, B, 5] x, float[1, 12, 5] w, float[1, 12, 3] r) => (float[T, 1, B, 3] z) "
            "{ z = LSTM <hidden_size = 3> (x, w, r) }",
    "gru": "g (float[T, B, 5] x, float[1, 9, 5] w, float[1, 9, 3] r) => (float[T, 1, B, 3] z) "
           "{ z = GRU <hidden_size = 3> (x, w, r) }",
    "sums": "g (float[N, 9] x) => (float[N, 9] z) { a = Constant <value_int = 1> () z = CumSum(x, a) }",
    "einsum": "g (float[N, 3, 4] x, float[4, 3, 2] y) => (float[N, 2] z) "
              '{ z = Einsum <equation = "nij,jik->nk"> (x, y) }',
    "averages": "g (float[N, 3, 9, 8] x) => (float[N, 3, H, W] z) { z = AveragePool <kernel_shape = [4, 3]> (x) }",
}  # fmt: skip
"""Models whose sums are added up by lanes, or for which the ordinary setting has another algorithm."""


def both(made: onnx.ModelProto, sizes: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    ordinary = sx.compile(made, threads=1, cache=False)
    symbols = {d for spec in ordinary.inputs for d in spec.shape}
    feeds = make_feeds(ordinary.inputs, (), [s for s in sizes if s.partition("=")[0] in symbols])
    return ordinary(feeds), sx.compile(made, threads=1, cache=False, fuse=False, target=PLAIN)(feeds)


@pytest.mark.parametrize("name", EXACT)
def test_where_orders_agree_the_bits_do(name: str, model: Make) -> None:
    for size in (1, 6):
        ordinary, plain = both(model(EXACT[name]), (f"N={size}", f"K={size}", f"B={size}"))
        for key, value in ordinary.items():
            np.testing.assert_array_equal(plain[key], value)


@pytest.mark.parametrize("name", CLOSE)
def test_elsewhere_the_values_do(name: str, model: Make) -> None:
    ordinary, plain = both(model(CLOSE[name]), ("N=5", "T=3", "B=2"))
    for key, value in ordinary.items():
        np.testing.assert_allclose(plain[key], value, rtol=2e-5, atol=2e-5)


def test_there_are_no_vectors_and_no_fusion(model: Make) -> None:
    module = sx.lower(model(EXACT["pointwise"]), to="loops", plain=True)
    wide = [r.type for op in module.walk() for r in op.results
            if isinstance(r.type, VectorType) and r.type.get_shape() != (1,)]  # fmt: skip
    assert not wide and len(sx.compile(model(EXACT["pointwise"]), fuse=False).explain().to_dict()["kernels"]) == 4
    text = "".join(
        emit(op) for op in sx.lower(module, to="llvm").walk() if isinstance(op, ModuleOp) and op is not module
    )
    assert "<8 x float>" not in text and "<16 x float>" not in text


def test_a_module_runs_plainly_from_any_level_that_numpy_runs(model: Make) -> None:
    made = model(CLOSE["normal"])
    feeds = make_feeds(sx.compile(made).inputs, (), ("N=3",))
    want = sx.run(sx.lower(made, to="graph"), feeds)["z"]
    for level in ("graph", "kernels", "tensor"):
        module = sx.lower(made, to=level)
        before = str(module)
        np.testing.assert_allclose(sx.run(module, feeds, plain=True)["z"], want, rtol=2e-5, atol=1e-6)
        assert str(module) == before
    with pytest.raises(sx.InputError, match="the module is at level 'loops', where vectors and tiles are settled"):
        sx.run(sx.lower(made, to="loops"), feeds, plain=True)


def test_the_target_survives_text(model: Make) -> None:
    module = sx.lower(model(EXACT["half"]), to="kernels", plain=True)
    parsed = Parser(context_of(UNIVERSE), str(module)).parse_module()
    assert target_of(parsed) == target_of(module) == PLAIN


@pytest.mark.slow
def test_the_demo(digits: Path, images: np.ndarray[Any, Any]) -> None:
    plain = sx.compile(digits, fuse=False, target=PLAIN)(images)["probabilities"]
    np.testing.assert_allclose(plain, sx.compile(digits)(images)["probabilities"], rtol=1e-4, atol=1e-6)
