"""Sizes that do not fit are refused by every call, in words: which symbols, inputs, axes and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

import sardonyx as sx

HEAD = '<ir_version: 11, opset_import: ["" : 23]> g '


def program(text: str) -> sx.Program:
    return sx.compile(onnx.parser.parse_model(HEAD + text))


def zeros(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float32)


ADD = "(float[N] a, float[M] b) => (float[n] y) { y = Add(a, b) }"
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "Add": (ADD, {"a": zeros(5), "b": zeros(4)}, r"Add.*M = 4 .*'b' axis 0.*N = 5 .*'a' axis 0"),
    "Reshape": (
        "(float[A, B] x) => (float[n, m] y) <int64[2] s = {-1, 4}> { y = Reshape(x, s) }",
        {"x": zeros(5, 3)},
        r"number of elements.*A\*B is no multiple of 4: 15 and 4 .*A is the size of 'x' axis 0",
    ),
    "MatMul": (
        "(float[A, B] x, float[C, D] w) => (float[n, m] y) { y = MatMul(x, w) }",
        {"x": zeros(5, 3), "w": zeros(4, 2)},
        r"MatMul.*B == C does not hold: 3 and 4.*'w' axis 0",
    ),
    "Concat": (
        "(float[A, B] x, float[C, D] w) => (float[n, m] y) { y = Concat<axis=0>(x, w) }",
        {"x": zeros(5, 3), "w": zeros(4, 2)},
        r"axis 1 of Concat.*B == D does not hold: 3 and 2",
    ),
    "a window": (
        "(float[1, 2, N] x, float[3, 2, K] w) => (float[n, m, k] y) { y = Conv(x, w) }",
        {"x": zeros(1, 2, 3), "w": zeros(3, 2, 5)},
        r"window.*K <= N does not hold: 5 and 3",
    ),
    "one symbol of two inputs": (
        "(float[N, 3] x, float[N] w) => (float[n] y) { s = ReduceSum(x) y = Add(w, w) }",
        {"x": zeros(4, 3), "w": zeros(5)},
        r"'w' axis 0 has size 5, expected N = 4 .*'x' axis 0",
    ),
    "a shape that is data": (
        "(float[N] x, int64[2] s) => (float[n, m] y) { y = Reshape(x, s) }",
        {"x": zeros(6), "s": np.array([4, 2])},
        r"6 and 8.*N = 6.*v0 = 4 \(element 0 of 's'\)",
    ),
    "k of TopK": (
        "(float[N] x, int64[1] k) => (float[n] y, int64[m] i) { y, i = TopK(x, k) }",
        {"x": zeros(3), "k": np.array([4])},
        r"v0 <= N does not hold: 4 and 3.*element 0 of 'k'",
    ),
    "heads that share none": (
        "(float[1, H, 2, 4] q, float[1, K, 3, 4] k, float[1, K, 3, 4] v) => (float[a, b, c, d] y)"
        "{ y = Attention(q, k, v) }",
        {"q": zeros(1, 4, 2, 4), "k": zeros(1, 0, 3, 4), "v": zeros(1, 0, 3, 4)},
        r"1 <= K does not hold.*'k' axis 1",
    ),
    "a size divided by none": (
        "(float[N] x, float[M] w) => (float[k] y) { n = Shape(x) m = Shape(w) q = Div(n, m) y = ConstantOfShape(q) }",
        {"x": zeros(4), "w": zeros(0)},
        r"not divided by 0.*1 <= M does not hold.*'w' axis 0",
    ),
    "a step of none": (
        "(float[N] x, float[M] w) => (float[k] y) <int64[1] z = {0}, int64[1] e = {9223372036854775807}>"
        "{ m = Shape(w) y = Slice(x, z, e, z, m) }",
        {"x": zeros(7), "w": zeros(0)},
        r"step of Slice is not 0.*1 <= M",
    ),
    "elements of none": (
        '(float[N, M] x) => (float[n, m] y) <int64[2] s = {4, 4}> { y = Resize<mode="nearest">(x, , , s) }',
        {"x": zeros(3, 0)},
        r"Resize of an axis of size 0.*1 <= M does not hold.*'x' axis 1",
    ),
    "samples of none": (
        "(float[1, 1, H, W] x, float[1, K, 2, 2] g) => (float[a, b, c, d] y)"
        '{ y = GridSample<padding_mode="border">(x, g) }',
        {"x": zeros(1, 1, 0, 3), "g": zeros(1, 2, 2, 2)},
        r"GridSample of an image of size 0.*'x' axis 2",
    ),
    "boxes of none": (
        "(float[1, 1, H, 3] x, float[R, 4] r, int64[R] i) => (float[a, b, c, d] y) { y = RoiAlign(x, r, i) }",
        {"x": zeros(1, 1, 0, 3), "r": zeros(2, 4), "i": np.zeros(2, np.int64)},
        r"RoiAlign of an image of size 0.*'x' axis 2",
    ),
    "classes of none": (
        "(float[N, C] x) => (int32[a, b] y) { y = Multinomial<sample_size=2>(x) }",
        {"x": zeros(3, 0)},
        r"Multinomial of no classes.*'x' axis 1",
    ),
    "places of a block": (
        "(float[N, 4, L] x) => (float[a, b, c, d] y) <int64[2] i = {3, 3}, int64[2] b = {2, 2}> "
        "{ y = Col2Im(x, i, b) }",
        {"x": zeros(1, 4, 3)},
        r"places of its block.*L == 4 does not hold: 3 and 4",
    ),
    "writes into none": (
        "(float[N, M] x, int64[K, 1] i, float[K, M] u) => (float[n, m] y) { y = ScatterND(x, i, u) }",
        {"x": zeros(0, 4), "i": np.zeros((2, 1), np.int64), "u": zeros(2, 4)},
        r"ScatterND into an axis of size 0.*'x' axis 0",
    ),
    "elements into none": (
        "(float[N, M] x, int64[K, M] i, float[K, M] u) => (float[n, m] y) { y = ScatterElements(x, i, u) }",
        {"x": zeros(0, 4), "i": np.zeros((2, 4), np.int64), "u": zeros(2, 4)},
        r"ScatterElements into an axis of size 0.*'x' axis 0",
    ),
    "transformations of a batch": (
        "(float[N, 2, 3] t) => (float[a, b, c, d] y) <int64[4] s = {2, 3, 4, 5}> { y = AffineGrid(t, s) }",
        {"t": zeros(1, 2, 3)},
        r"the batches of AffineGrid.*N == 2 does not hold",
    ),
    "lengths of a batch": (
        "(float[T, N] x, int64[M] l) => (float[a, b] y) { y = ReverseSequence(x, l) }",
        {"x": zeros(3, 4), "l": np.ones(2, np.int64)},
        r"batch of 'sequence_lens'.*M == N does not hold: 2 and 4",
    ),
    "offsets of a window": (
        "(float[1, 1, 3, 3] x, float[1, 1, 2, 2] w, float[1, K, 2, 2] o) => (float[a, b, c, d] y)"
        "{ y = DeformConv(x, w, o) }",
        {"x": zeros(1, 1, 3, 3), "w": zeros(1, 1, 2, 2), "o": zeros(1, 0, 2, 2)},
        r"channels of DeformConv's offsets.*K == 8 does not hold",
    ),
    "directions of a state": (
        "(float[T, N, 3] x, float[1, 8, 3] w, float[1, 8, 2] r, float[D, N, 2] h) => (float[a, b, c, d] y)"
        "{ y = LSTM<hidden_size=2>(x, w, r, , , h) }",
        {"x": zeros(2, 1, 3), "w": zeros(1, 8, 3), "r": zeros(1, 8, 2), "h": zeros(0, 1, 2)},
        r"directions of the initial state.*D == 1 does not hold",
    ),
    "a diagonal": (
        '(float[N, M] x) => (float[a] y) { y = Einsum<equation="ii->i">(x) }',
        {"x": zeros(5, 1)},
        r"equal letters in term 'ii' of Einsum.*5 and 1",
    ),
}


ACCEPTED: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "Reshape to a size of 0 from 0": (
        "(float[A, B] x, float[M] w) => (float[n, m] y) { s = Shape(w) t = Shape(x) u = Concat<axis=0>(s, s)"
        "y = Reshape(x, u) }",
        {"x": zeros(0, 0), "w": zeros(0)},
        (0, 0),
    ),
    "Resize to nothing": (
        "(float[N, 3] x, float[M] w) => (float[n, m] y) <int64[1] k = {3}> "
        '{ s = Shape(w) t = Concat<axis=0>(s, k) y = Resize<mode="nearest">(x, , , t) }',
        {"x": zeros(0, 3), "w": zeros(0)},
        (0, 3),
    ),
    "slices that are empty": (
        "(float[N, M] x) => (y, i, j, float[1] k) { y, i, j, c = Unique<axis=0>(x) k = Cast<to=1>(c) }",
        {"x": zeros(3, 0)},
        (1, 0),
    ),
    "no places to sample": (
        "(float[1, 1, H, W] x, float[1, K, 2, 2] g) => (float[a, b, c, d] y) { y = GridSample(x, g) }",
        {"x": zeros(1, 1, 0, 3), "g": zeros(1, 0, 2, 2)},
        (1, 1, 0, 2),
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_nothing_is_made_of_nothing(case: str) -> None:
    text, feed, shape = ACCEPTED[case]
    assert program(text)(**feed)["y"].shape == shape


@pytest.mark.parametrize("case", REFUSED)
def test_sizes_that_do_not_fit_are_refused_in_words(case: str) -> None:
    text, feed, message = REFUSED[case]
    with pytest.raises(sx.InputError, match="(?s)" + message):
        program(text)(**feed)


BRANCH = """(float[N] a, float[M] b, bool c) => (float[n] y) { y = If<
    then_branch = t () => (float[k] z) { s = Add(a, b) z = ReduceSum<keepdims=1>(s) },
    else_branch = e () => (float[l] w) { w = ReduceSum<keepdims=1>(a) }>(c) }"""
LOOP = """(float[N] a, float[M] b, int64 n) => (float[k] y) <bool t = {1}> { y = Loop<
    body = q (int64 i, bool c, float[N] h) => (bool d, float[N] g) { d = Identity(c) g = Add(h, b) }>(n, t, a) }"""


def test_what_does_not_run_is_not_held_to_sizes() -> None:
    branch, loop = program(BRANCH), program(LOOP)
    a, b = zeros(5), zeros(4)
    assert branch(a, b, np.array(False))["y"].shape == (1,)
    assert loop(a, b, np.array(0))["y"].shape == (5,)
    with pytest.raises(sx.InputError, match="M = 4"):
        branch(a, b, np.array(True))
    with pytest.raises(sx.InputError, match="M = 4"):
        loop(a, b, np.array(2))
    assert branch(a, zeros(1), np.array(True))["y"].shape == (1,) and loop(a, zeros(1), np.array(2))["y"].shape == (5,)
