"""Operators that move no element are views in `main`: contiguous stretches, and no others; with the same values."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from sardonyx.dialects import kernel
from sardonyx.dialects.dims import as_dim
from sardonyx.rewrites.views import mapped_dims, matched_axes
from sardonyx.tools.explain import explain, main_of

import sardonyx as sx

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '
SHAPES: list[dict[str, int]] = [{"N": 5, "M": 3}, {"N": 2, "M": 1}, {"N": 7, "M": 0}]


def model(signature: str, body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEAD}{signature} {{ {body} }}")


def calls(text: onnx.ModelProto, assume: tuple[str, ...] = ()) -> list[str]:
    report = explain(sx.lower(text, to="kernels", assume=assume))
    return [k["name"] for k in report["kernels"]]


def views(text: onnx.ModelProto) -> list[str]:
    found = [op for op in main_of(sx.lower(text, to="kernels")).walk() if isinstance(op, kernel.ViewOp)]
    return [str(op.offset.data[0]) for op in found if op.offset is not None]


CASES = {
    "a slice of rows": ("i = Slice (x, one, three, zero) y = MatMul (i, w)", ["matmul_0"], ["M"]),
    "from the end": ("i = Slice (x, last, three, zero) y = MatMul (i, w)", ["slice_matmul_0"], []),
    "one row": ("r = Gather <axis = 0> (x, index) i = Unsqueeze (r, zero) y = MatMul (i, w)", ["matmul_0"], ["M"]),
    "columns": ("i = Slice (x, one, three, ones) y = MatMul (i, v)", ["slice_matmul_0"], []),
    "with steps": ("i = Slice (x, one, three, zero, two) y = MatMul (i, w)", ["slice_matmul_0"], []),
}
CONSTANTS = """
  zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> () ones = Constant <value_ints = [1]> ()
  two = Constant <value_ints = [2]> () three = Constant <value_ints = [3]> () last = Constant <value_ints = [-1]> ()
  index = Constant <value_int = 1> ()
"""


@pytest.mark.parametrize("case", CASES)
def test_stretches_of_memory_need_no_kernel(case: str) -> None:
    body, kernels, offsets = CASES[case]
    text = model("(float[N, M] x, float[M, 4] w, float[2, 4] v) => (float[P, 4] y)", CONSTANTS + body)
    assume = ("2 <= N",) if case == "one row" else ()
    assert calls(text, assume) == kernels
    if not assume:
        assert views(text) == offsets
    program = sx.compile(text, assume=assume, cache=False)
    rng = np.random.default_rng(0)
    for sizes in SHAPES if case != "columns" else [{"N": 5, "M": 3}, {"N": 2, "M": 7}]:
        feeds = {
            "x": rng.standard_normal((sizes["N"], sizes["M"]), np.float32),
            "w": rng.standard_normal((sizes["M"], 4), np.float32),
            "v": rng.standard_normal((2, 4), np.float32),
        }
        want = sx.run(sx.lower(text, to="graph"), feeds)["y"]
        np.testing.assert_allclose(program(feeds)["y"], want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(
            sx.run(sx.lower(text, to="kernels", assume=assume), feeds)["y"], want, rtol=1e-5, atol=1e-6
        )


def test_parts_of_a_split_are_views_where_they_are_in_order() -> None:
    body = "a, b = Split <axis = 0, num_outputs = 2> (x) y = MatMul (a, w) z = MatMul (b, w)"
    text = model("(float[4, M] x, float[M, 4] w) => (float[2, 4] y, float[2, 4] z)", body)
    assert calls(text) == ["matmul_0", "matmul_0"]
    x, w = np.random.default_rng(0).random((4, 6), np.float32), np.eye(6, 4, dtype=np.float32)
    found = sx.compile(text, cache=False)(x=x, w=w)
    np.testing.assert_array_equal(found["y"], x[:2, :4])
    np.testing.assert_array_equal(found["z"], x[2:, :4])


def test_an_output_that_is_a_stretch_is_copied() -> None:
    body = "s = Exp (x) a, b = Split <axis = 0, num_outputs = 2> (s) t = MatMul (s, w)"
    text = model("(float[4, M] x, float[M, 4] w) => (float[2, M] a, float[2, M] b, float[4, 4] t)", body)
    x, w = np.random.default_rng(0).random((4, 6), np.float32), np.eye(6, 4, dtype=np.float32)
    found = sx.compile(text, cache=False)(x=x, w=w)
    np.testing.assert_allclose(np.concatenate([found["a"], found["b"]]), np.exp(x), rtol=1e-6)
    np.testing.assert_allclose(found["t"], np.exp(x)[:, :4], rtol=1e-6)


def test_a_transpose_of_a_batch_of_one_is_a_view_where_that_is_assumed() -> None:
    text = model(
        "(float[B, T, 8] x, float[8, 8] w) => (float[T, B, 8] y, float[B, T, 8] m)",
        "m = MatMul (x, w) y = Transpose <perm = [1, 0, 2]> (m)",
    )
    assert calls(text) == ["matmul_0", "transpose_0"]
    assert calls(text, ("B == 1",)) == ["matmul_0"]


PASSED = {
    "bias and activation": "s = Squeeze (c, two) a = Add (s, b) r = Relu (a) y = Transpose <perm = [0, 2, 1]> (r)",
    "a branch": "s = Squeeze (c, two) g = Sigmoid (s) r = Mul (s, g) y = Transpose <perm = [0, 2, 1]> (r)",
    "two views": "s = Squeeze (c, two) u = Reshape (s, flat) r = Relu (u) y = Reshape (r, back)",
}


@pytest.mark.parametrize("case", PASSED)
def test_views_pass_behind_an_epilogue(case: str) -> None:
    head = """two = Constant <value_ints = [2]> () flat = Constant <value_ints = [0, -1]> ()
        back = Constant <value_ints = [0, 3, 9]> () bias = Constant <value_floats = [1.0, -2.0, 3.0]> ()
        wide = Constant <value_ints = [3, 1]> () b = Reshape (bias, wide) c = Conv <pads = [0, 1, 0, 1]> (x, w) """
    text = model("(float[N, 2, 1, 9] x, float[3, 2, 1, 3] w) => (float[A, B, C] y)", head + PASSED[case])
    [function] = explain(sx.lower(text, to="kernels"))["functions"].values()
    last = "onnx.Swish" if case == "a branch" else "onnx.Relu"
    assert {"producer": "onnx.Conv", "consumer": last, "reason": "epilogue"} in function["fused"]
    rng = np.random.default_rng(1)
    program = sx.compile(text, cache=False)
    for n in (2, 1, 0):
        feeds = {"x": rng.standard_normal((n, 2, 1, 9), np.float32), "w": rng.standard_normal((3, 2, 1, 3), np.float32)}
        want = sx.run(sx.lower(text, to="graph"), feeds)["y"]
        np.testing.assert_allclose(program(feeds)["y"], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("left", "right", "cuts"),
    [
        ("2,3,4", "6,4", [((0, 2), (0, 1)), ((2, 3), (1, 2))]),
        ("N,1,H,W", "N,H*W", [((0, 2), (0, 1)), ((2, 4), (1, 2))]),
        ("1,5", "5", [((0, 1), (0, 0)), ((1, 2), (0, 1))]),
        ("A,B", "B,A", [((0, 2), (0, 2))]),
        ("", "1,1", [((0, 0), (0, 2))]),
        ("2,0", "0,3", None),
        ("N,2", "M,2", None),
    ],
)
def test_shapes_are_cut_where_both_can_be(left: str, right: str, cuts: object) -> None:
    one, other = ([as_dim(d) for d in text.split(",") if d] for text in (left, right))
    found = matched_axes(one, other)
    assert (None if found is None else [((a.start, a.stop), (b.start, b.stop)) for a, b in found]) == cuts


def test_a_broadcast_is_mapped_by_whole_stretches_only() -> None:
    shown, stored = [as_dim(d) for d in ("N", "C", "H*W")], [as_dim(d) for d in ("N", "C", "H", "W")]
    assert mapped_dims([as_dim("C"), as_dim(1)], shown, stored) == tuple(map(as_dim, (1, "C", 1, 1)))
    assert mapped_dims([as_dim("H*W")], shown, stored) == tuple(map(as_dim, (1, 1, "H", "W")))
    assert mapped_dims([as_dim("C"), as_dim("H*W")], [as_dim("C*H"), as_dim("H*W")], [as_dim("C"), *shown]) is None
