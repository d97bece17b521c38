"""Kernels that are one: siblings, rows through views, products of swapped operands; the values stay the same bits."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from sardonyx.tools.explain import explain

import sardonyx as sx

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '
CONSTANTS = """ zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
  two = Constant <value_ints = [2]> () three = Constant <value_ints = [3]> ()
  axis = Constant <value_int = 1> () """
CASES = {
    "two columns of one value": (
        "(float[N, 4] x) => (float[N, 1] y, float[N, 1] z) {"
        " y = Slice (x, one, two, one) z = Slice (x, two, three, one) }",
        ["slice_0"],
        [{"N": 5}, {"N": 1}, {"N": 0}],
    ),
    "siblings of other spaces stay apart": (
        "(float[N, 4] x) => (float[N, 1] y, float[N, 2] z) {"
        " y = Slice (x, one, two, one) z = Slice (x, one, three, one) }",
        ["slice_0", "slice_1"],
        [{"N": 5}, {"N": 0}],
    ),
    "one sibling needs the other": (
        "(float[N, 4] x, float[4, 4] w) => (float[N, 4] y, float[N, 4] z) {"
        " y = Exp (x) m = MatMul (y, w) z = Mul (m, x) }",
        ["exp_0", "matmul_mul_0"],
        [{"N": 5}, {"N": 1}],
    ),
    "a softmax by hand, through reshapes": (
        "(float[N, 8] x) => (float[N, 8] y) { s = Constant <value_ints = [-1, 1]> ()"
        " m = ReduceMax <keepdims = 0> (x, one) c = Reshape (m, s) d = Sub (x, c) e = Exp (d)"
        " t = ReduceSum <keepdims = 0> (e, one) r = Reshape (t, s) y = Div (e, r) }",
        ["reducemax_reducesum_div_0"],
        [{"N": 5}, {"N": 1}, {"N": 0}],
    ),
    "a product of a swapped operand": (
        "(float[N, 4, M] x, float[N, M, 6] b) => (float[N, 4, 6] y) {"
        " e = Transpose <perm = [0, 2, 1]> (b) f = Transpose <perm = [0, 2, 1]> (e) y = MatMul (x, f) }",
        ["matmul_0"],
        [{"N": 3, "M": 5}, {"N": 1, "M": 1}],
    ),
    "scores": (
        "(float[N, 4, M] q, float[N, 6, M] k) => (float[N, 4, 6] y) {"
        " t = Transpose <perm = [0, 2, 1]> (k) y = MatMul (q, t) }",
        ["transpose_matmul_0"],
        [{"N": 3, "M": 5}, {"N": 1, "M": 1}, {"N": 2, "M": 0}],
    ),
    "rows of a turned image": (
        "(float[N, 6, M] x, float[6, 3] w) => (float[R, 3] y) { s = Constant <value_ints = [-1, 6]> ()"
        " t = Transpose <perm = [0, 2, 1]> (x) r = Reshape (t, s) m = MatMul (r, w) y = Relu (m) }",
        ["transpose_matmul_relu_0"],
        [{"N": 3, "M": 5}, {"N": 1, "M": 1}, {"N": 2, "M": 0}],
    ),
    "a token in front of an image's patches": (
        "(float[N, 3, H, H] x, float[8, 3, 4, 4] w, float[1, 1, 8] token) => (float[N, T, 8] y) {"
        " s = Constant <value_ints = [0, 8, -1]> () n = Shape <start = 0, end = 1> (x)"
        " e = Concat <axis = 0> (n, one, one) c = Conv <strides = [4, 4]> (x, w) r = Reshape (c, s)"
        " t = Transpose <perm = [0, 2, 1]> (r) f = Expand (token, e) j = Concat <axis = 1> (f, t) y = Neg (j) }",
        ["conv_neg_0"],
        [{"N": 2, "H": 12}, {"N": 1, "H": 4}, {"N": 3, "H": 9}],
    ),
    "places made of sizes, turned, on a part": (
        "(float[N, 6, M] x) => (float[N, 6, M] y) { n = Shape <start = 2, end = 3> (x) end = Squeeze (n)"
        " begin = Constant <value_int = 0> () i = Constant <value_int = 1> () parts = Constant <value_ints = [2, 4]> ()"
        " r = Range (begin, end, i) f = Cast <to = 1> (r) u = Unsqueeze (f, one) c = Concat <axis = 1> (u, u)"
        " t = Transpose <perm = [1, 0]> (c) a, b = Split <axis = 1> (x, parts) p = Add (a, t) q = Sigmoid (b)"
        " y = Concat <axis = 1> (p, q) }",
        ["range_sigmoid_0"],
        [{"N": 3, "M": 5}, {"N": 1, "M": 1}, {"N": 2, "M": 0}],
    ),
    "a recurrent layer that begins at zero": (
        "(float[S, B, 4] x, float[2, 15, 4] w, float[2, 15, 5] r) => (float[S, 2, B, 5] y) {"
        " size = Shape <start = 1, end = 2> (x) four = Constant <value_ints = [4]> ()"
        " five = Constant <value_ints = [5]> ()"
        " shape = Concat <axis = 0> (four, size, five) h = ConstantOfShape (shape) i = Slice (h, zero, two, zero)"
        ' y = GRU <hidden_size = 5, direction = "bidirectional"> (x, w, r, , , i) }',
        ["gru_0"],
        [{"S": 3, "B": 2}, {"S": 1, "B": 1}],
    ),
    "a recurrence with the batch in front, that two read": (
        "(float[S, B, 4] x, float[2, 15, 4] w, float[2, 15, 5] r, float[B, S, 1] m)"
        " => (float[B, S, 10] y, float[B, S, 10] z) { s = Constant <value_ints = [0, 0, -1]> ()"
        ' g = GRU <hidden_size = 5, direction = "bidirectional"> (x, w, r) t = Transpose <perm = [0, 2, 1, 3]> (g)'
        " f = Reshape (t, s) y = Transpose <perm = [1, 0, 2]> (f) z = Mul (y, m) }",
        ["gru_mul_0"],
        [{"S": 3, "B": 2}, {"S": 1, "B": 1}, {"S": 19, "B": 1}, {"S": 2, "B": 0}],
    ),
    "pixels in the place of channels": (
        "(float[B, 3, H, W] x, float[8, 3, 1, 1] w) => (float[B, 2, P, Q] y) {"
        " c = Conv (x, w) y = DepthToSpace <blocksize = 2> (c) }",
        ["conv_depthtospace_0"],
        [{"B": 2, "H": 5, "W": 7}, {"B": 1, "H": 1, "W": 1}, {"B": 0, "H": 2, "W": 2}],
    ),
    "a turned sum and its normalization": (
        "(float[N, 8, M] x, float[N, M, 8] r, float[8] s) => (float[N, M, 8] a, float[N, M, 8] y) {"
        " t = Transpose <perm = [0, 2, 1]> (x) a = Add (t, r) y = LayerNormalization (a, s) }",
        ["transpose_add_layernormalization_0"],
        [{"N": 3, "M": 5}, {"N": 1, "M": 1}, {"N": 2, "M": 70}, {"N": 2, "M": 0}],
    ),
    "rows that are looked up, and their normalization": (
        "(float[9, 8] x, float[N, M] i, float[8] s) => (float[N, M, 8] e, float[N, M, 8] y) {"
        " l = Cast <to = 7> (i) e = Gather (x, l) y = LayerNormalization (e, s) }",
        ["cast_gather_layernormalization_0"],
        [{"N": 3, "M": 5}, {"N": 1, "M": 1}, {"N": 0, "M": 3}],
    ),
    "a costly column": (
        "(float[S, 1] x, float[1, T] b) => (float[S, T] y) { e = Exp (x) y = Mul (e, b) }",
        ["exp_mul_0"],
        [{"S": 3, "T": 5}, {"S": 1, "T": 1}, {"S": 40, "T": 33}, {"S": 0, "T": 3}, {"S": 3, "T": 0}],
    ),
    "a costly row under a softmax": (
        "(float[S, T] x, float[1, T] b) => (float[S, T] y) { e = Tanh (b) a = Add (x, e) y = Softmax (a) }",
        ["tanh_add_softmax_0"],
        [{"S": 3, "T": 5}, {"S": 1, "T": 1}, {"S": 40, "T": 33}, {"S": 0, "T": 3}],
    ),
    "a row repeated for two that add it up": (
        "(float[1, T] x, float[S, T] b) => (float[S, T] y) { s = Shape (b) e = Expand (x, s)"
        " u = CumSum (e, axis) v = CumSum <reverse = 1> (e, axis) y = Add (u, v) }",
        ["expand_cumsum_0", "expand_cumsum_1", "add_0"],
        [{"S": 3, "T": 5}, {"S": 1, "T": 1}, {"S": 4, "T": 0}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_they_are_one_kernel_with_the_same_bits(name: str) -> None:
    text, kernels, bindings = CASES[name]
    signature, _, body = text.partition("{")
    model = onnx.parser.parse_model(f"{HEAD}{signature}{{ {CONSTANTS} {body}")
    report = explain(sx.lower(model, to="kernels"))
    assert [k["name"] for k in report["kernels"]] == kernels
    program, unfused = sx.compile(model, cache=False), sx.compile(model, cache=False, fuse=False)
    rng = np.random.default_rng(0)
    for sizes in bindings:
        feeds = {
            spec.name: rng.standard_normal([sizes.get(str(d), d) for d in spec.shape]).astype(np.float32)
            for spec in program.inputs
        }
        found, want = program(feeds), unfused(feeds)
        reference = sx.run(sx.lower(model, to="graph"), feeds)
        for output, value in want.items():
            assert found[output].tobytes() == value.tobytes()
            np.testing.assert_allclose(value, reference[output], rtol=1e-5, atol=1e-5)


def test_a_view_of_an_inner_value_comes_behind_the_kernel() -> None:
    text = """(float[N, 4] x, float[2, 6] w) => (float[N, 4] y, float[N, 6] z) {
      e = Exp (x) s = Constant <value_ints = [-1, 2]> () v = Reshape (e, s) m = MatMul (v, w) y = Neg (e)
      t = Constant <value_ints = [-1, 12]> () u = Reshape (m, t) z = Slice (u, zero, six, one) }"""
    text = text.replace("{", "{ zero = Constant <value_ints = [0]> () six = Constant <value_ints = [6]> ()"
                        " one = Constant <value_ints = [1]> ()", 1)  # fmt: skip
    model = onnx.parser.parse_model(HEAD + text)
    x, w = np.random.default_rng(0).random((3, 4), np.float32), np.ones((2, 6), np.float32)
    found = sx.compile(model, cache=False)(x=x, w=w)
    np.testing.assert_allclose(found["y"], -np.exp(x), rtol=1e-6)
    np.testing.assert_allclose(found["z"], (np.exp(x).reshape(-1, 2) @ w).reshape(-1, 12)[:, :6], rtol=1e-5)
