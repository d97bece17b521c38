"""Each pair of neighbouring kernels has a reason; a fact that it lacks, given as an assumption, makes the pair fuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest
from sardonyx.rewrites.reasons import TAKEN, Reason
from sardonyx.runtime.errors import InputError
from sardonyx.tools.explain import explain

import sardonyx as sx

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '
CONSTANTS = """ zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
  two = Constant <value_ints = [2]> () last = Constant <value_ints = [-1]> () """

MODELS = {
    "an epilogue of another length": (
        "(float[S, 16] x, float[16, 8] w, float[T, 8] b) => (float[P, 8] y) { m = MatMul (x, w) y = Add (m, b) }",
        {"broadcast(S, T) == S"},
    ),
    "rows that a result is broadcast over": (
        "(float[S, 8] x, float[T, 1] b) => (float[P, 8] y) {"
        "r = ReduceSum (x, one) a = Add (r, b) q = Sqrt (a) y = Mul (q, x) }",
        {"broadcast(S, T) == S"},
    ),
    "a costly value that is looked up": (
        "(float[S, 8] x, int64[T] i) => (float[T, 8] y) { e = Exp (x) y = Gather (e, i) }",
        set[str](),
    ),
    "a transpose behind a product": (
        "(float[B, T, 8] x, float[8, 8] w) => (float[T, B, 8] y, float[B, T, 8] m) {"
        "m = MatMul (x, w) y = Transpose <perm = [1, 0, 2]> (m) }",
        {"B == 1"},
    ),
    "a part in front of two sums": (
        "(float[B, 8] x) => (float[B, 4] y) { four = Constant <value_ints = [4]> () k = Constant <value_int = 0> ()"
        "i = Slice (x, zero, four, one) a = CumSum (i, k) b = CumSum <reverse = 1> (i, k) y = Add (a, b) }",
        {"B == 1"},
    ),
    "a value that two read": (
        "(float[S, 8] x, float[T, 8] b) => (float[S, 8] y, float[P, 8] z) { e = Neg (x) y = Abs (e) z = Add (e, b) }",
        {"S == broadcast(S, T)"},
    ),
    "control flow": (
        "(float[S, 8] x, bool c) => (float[S, 8] y) { e = Exp (x) y = If (c) <"
        "then_branch = a () => (float[S, 8] p) { p = Neg (e) },"
        "else_branch = b () => (float[S, 8] q) { q = Abs (e) }> }",
        set[str](),
    ),
    "a view that kernels share": (
        "(float[S, 8] x, float[1, 8] w, float[8, 4] k) => (float[1, 8] y, float[1, 4] u) {"
        "r = ReduceSum <keepdims = 0> (x, zero) v = Unsqueeze (r, zero) y = Mul (v, w) u = MatMul (v, k) }",
        set[str](),
    ),
    "products in a row": (
        "(float[S, 8] x, float[8, 8] v, float[8, 8] w) => (float[S, 8] y) { m = MatMul (x, v) y = MatMul (m, w) }",
        set[str](),
    ),
}  # fmt: skip


def report_of(name: str, assume: tuple[str, ...] = ()) -> dict[str, Any]:
    signature, _, body = MODELS[name][0].partition("{")
    model = onnx.parser.parse_model(f"{HEAD}{signature}{{ {CONSTANTS} {body}")
    return explain(sx.lower(model, to="kernels", assume=assume))


def nodes(report: dict[str, Any], pair: dict[str, Any]) -> tuple[set[str], set[str]]:
    """The model's nodes in the two kernels of a pair."""
    first, second = (set(report["kernels"][pair[end]]["nodes"]) for end in ("producer", "consumer"))
    return first, second


@pytest.mark.parametrize("name", MODELS)
def test_every_pair_has_a_reason(name: str) -> None:
    report = report_of(name)
    refusals = {reason.name.lower() for reason in Reason if reason not in TAKEN}
    assert all(p["reason"] in refusals and p["why"] for p in report["pairs"])
    assert {p["missing"] for p in report["pairs"] if "missing" in p} == MODELS[name][1]


@pytest.mark.parametrize("name", [n for n, (_, facts) in MODELS.items() if facts])
def test_a_missing_fact_makes_its_pair_fuse(name: str) -> None:
    before = report_of(name)
    lacking = [p for p in before["pairs"] if "missing" in p]
    for pair in lacking:
        after = report_of(name, (pair["missing"],))
        assert len(after["kernels"]) < len(before["kernels"])
        producer, consumer = nodes(before, pair)
        apart = [nodes(after, p) for p in after["pairs"]]
        assert not any(a & producer and b & consumer and a <= producer and b <= consumer for a, b in apart)


def test_an_assumption_is_a_guard() -> None:
    signature, _, body = MODELS["an epilogue of another length"][0].partition("{")
    model = onnx.parser.parse_model(f"{HEAD}{signature}{{ {CONSTANTS} {body}")
    program = sx.compile(model, assume=["S == T"], cache=False)
    x, w = np.ones((3, 16), np.float32), np.ones((16, 8), np.float32)
    np.testing.assert_array_equal(
        program(x=x, w=w, b=np.ones((3, 8), np.float32))["y"], np.full((3, 8), 17, np.float32)
    )
    with pytest.raises(InputError, match="S == T"):
        program(x=x, w=w, b=np.ones((1, 8), np.float32))


def test_sizes_that_do_not_agree_are_an_input_error() -> None:
    add = onnx.parser.parse_model(HEAD + "(float[N] a, float[M] b) => (float[P] y) { y = Add (a, b) }")
    with pytest.raises(InputError):
        sx.compile(add, cache=False)(a=np.ones(5, np.float32), b=np.ones(4, np.float32))
    text = "(float[N, M] x) => (float[P, 4] y) { s = Constant <value_ints = [-1, 4]> () y = Reshape (x, s) }"
    with pytest.raises(InputError):
        sx.compile(onnx.parser.parse_model(HEAD + text), cache=False)(x=np.ones((5, 3), np.float32))


def test_an_assumption_of_a_branch_not_taken_fails_no_call() -> None:
    text = """(float[N, M] x, float[K] b, bool c) => (float[P, Q] y) { y = If (c) <
        then_branch = t () => (float[A, B] p) { p = Add (x, b) },
        else_branch = e () => (float[C, D] q) { q = Neg (x) }> }"""
    program = sx.compile(onnx.parser.parse_model(HEAD + text), cache=False)
    x, b = np.ones((2, 3), np.float32), np.ones(5, np.float32)
    np.testing.assert_array_equal(program(x=x, b=b, c=np.array(False))["y"], -x)
    with pytest.raises(InputError):
        program(x=x, b=b, c=np.array(True))
