"""Operands that the standard does not allow: refused when compiling where they are constants, else when called."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import sardonyx as sx

f32, i64 = np.float32, np.int64


def model(text: str, opset: int = 22) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", opset)]
    made = helper.make_model(parser.parse_graph(f"g {text}"), opset_imports=imports, ir_version=10)
    next(n for n in made.graph.node if n.op_type not in ("Concat", "Constant", "SequenceLength")).name = "this"
    return made


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, i64)


IMAGE, SIZES = "float[1, 1, H, W] x", "float[A, B, C, D] y"
CROP = 'coordinate_transformation_mode = "tf_crop_and_resize"'


@pytest.mark.parametrize(
    ("graph", "opset", "text"),
    [
        ("(float[N, 4] x) => (float[A, B] y) <int64[2] s = {0, -1}> { y = Reshape <allowzero = 1> (x, s) }", 22,
         "a size cannot be inferred beside one of 0"),
        ("(float[1, 1, 4] x) => (float[A, 4] y) <int64[2] a = {0, 0}> { y = Squeeze (x, a) }", 22, "given twice"),
        ("(float[N, M] x) => (float[A, B] y) <int64[3] p = {1, 1, 2}> { y = Pad (x, p) }", 22, "3 pads for 2 axes"),
        ("(float[N, M] x, int64[3] p) => (float[A, B] y) { y = Pad (x, p) }", 22, "3 pads for 2 axes"),
        ("(float[N, M] x, int64[4] p, int64[1] a) => (float[A, B] y) { y = Pad (x, p, , a) }", 22, "4 pads for 1 axes"),
        (f"({IMAGE}, float[4] s, int64[4] z) => ({SIZES}) {{ y = Resize (x, , s, z) }}", 22,
         "both 'scales' and 'sizes'"),
        (f"({IMAGE}, float[4] s, int64[4] z) => ({SIZES}) <float[0] r = {{}}> {{ y = Resize (x, r, s, z) }}", 11,
         "both 'scales' and 'sizes'"),
        (f"({IMAGE}, float[4] s) => ({SIZES}) {{ y = Resize <{CROP}> (x, , s) }}", 22, "needs the input 'roi'"),
        (f"({IMAGE}, float[4] s) => ({SIZES}) <float[0] r = {{}}> {{ y = Resize <{CROP}> (x, r, s) }}", 11,
         "needs the input 'roi'"),
        (f"({IMAGE}) => ({SIZES}) <float[4] s = {{1, 1, -2, 1}}> {{ y = Resize (x, , s) }}", 22, "must be above 0"),
        (f"({IMAGE}) => ({SIZES}) {{ y = Upsample <scales = [1.0, 1.0, 0.0, 1.0]> (x) }}", 7, "must be above 0"),
        ("(float[5] x) => (int64 y) <int64[2] l = {-1, 6}> { s = SplitToSequence (x, l) y = SequenceLength (s) }", 22,
         "the length of a part of SplitToSequence"),
        ("(float[5] x) => (int64 y) <int64[2] l = {1, 2}> { s = SplitToSequence (x, l) y = SequenceLength (s) }", 22,
         "the lengths of the parts of SplitToSequence add up"),
        ("(float[5] x) => (int64 y) <int64 l = {0}> { s = SplitToSequence (x, l) y = SequenceLength (s) }", 22,
         "the length of a part of SplitToSequence"),
        ("(float x) => (int64 y) { s = SplitToSequence (x) y = SequenceLength (s) }", 22, "a scalar has no axis"),
        ("(float[N] x) => (float[A] y, float[B] z) { y, z = Split <num_outputs = 3> (x) }", 22,
         "'num_outputs' is 3, and it has 2 outputs"),
        ("(float x) => (float y) { y = LpNormalization (x) }", 22, "rank 0"),
        ("(float x) => (float y) { y = LRN <size = 3> (x) }", 22, "rank 0"),
        ("(float x, float[1] s) => (float y) { y = BatchNormalization (x, s, s, s, s) }", 22, "rank 0"),
        ("(float x) => (float y) { y = RMSNormalization (x, x) }", 23, "rank 0"),
    ],
)  # fmt: skip
def test_what_is_refused_when_compiling(graph: str, opset: int, text: str) -> None:
    with pytest.raises(sx.ModelError) as caught:
        sx.compile(model(graph, opset))
    assert text in str(caught.value) and "'this'" in str(caught.value)


ROWS, PICTURE = np.ones((2, 4), f32), np.ones((1, 1, 4, 4), f32)
NOTHING = np.ones((0, 4), f32)
RESHAPE_3 = "(float[N, 4] x, int64[3] s) => (float[A, B, C] y) {{ y = Reshape <allowzero = {}> (x, s) }}"
PARTS = "(float[N, 4] x, int64{} l) => (int64 y) {{ s = SplitToSequence (x, l) y = SequenceLength (s) }}"
ITEM = "(float[N, 4] x, int64[K] l, int64 k) => (float[A, 4] y) { s = SplitToSequence (x, l) y = SequenceAt (s, k) }"
SCALED = f"({IMAGE}, float[4] s) => ({SIZES}) {{{{ y = {{}} }}}}"


@pytest.mark.parametrize(
    ("graph", "opset", "feeds", "text"),
    [
        (RESHAPE_3.format(1), 22, {"x": NOTHING, "s": ints(0, -1, 2)}, "'s' has a -1 beside a size of 0"),
        (RESHAPE_3.format(0), 22, {"x": NOTHING, "s": ints(-1, -1, 2)}, "'s' has more than one -1"),
        ("(float[N, 4] x, int64[2] s) => (float[A, B] y) { y = Reshape <allowzero = 1> (x, s) }", 22,
         {"x": NOTHING, "s": ints(0, -1)}, "a size cannot be inferred beside one of 0"),
        ("(float[N, M] x, int64[K] p) => (float[A, B] y) <int64[1] a = {0}> { y = Pad (x, p, , a) }", 22,
         {"x": ROWS, "p": ints(1, 1, 1, 1)}, "K == 2 does not hold: 4 and 2"),
        ("(float[N, M] x, int64[K] p, int64[L] a) => (float[A, B] y) { y = Pad (x, p, , a) }", 22,
         {"x": ROWS, "p": ints(1, 1, 1, 1), "a": ints(1)}, "K == 2*L does not hold: 4 and 2"),
        (SCALED.format("Resize (x, , s)"), 22, {"x": PICTURE, "s": np.array([1, 1, 0, 1], f32)}, "'s' has a scale"),
        (SCALED.format("Resize (x, , s)"), 22, {"x": PICTURE, "s": np.array([1, 1, -0.1, 1], f32)}, "'s' has a scale"),
        (SCALED.format("Resize (x, s)"), 10, {"x": PICTURE, "s": np.array([1, 1, 0, 1], f32)}, "'s' has a scale"),
        (SCALED.format("Upsample (x, s)"), 9, {"x": PICTURE, "s": np.array([1, 1, np.nan, 1], f32)}, "'s' has a scale"),
        (f"({IMAGE}, float[1] s) => ({SIZES}) {{ o = Constant <value_floats = [1.0, 1.0, 1.0]> () "
         "t = Concat <axis = 0> (o, s) y = Resize (x, , t) }", 22, {"x": PICTURE, "s": np.array([-1], f32)}, "a scale"),
        ("(float[N, C, 4] x, float[2] s) => (float[A, B, D] y) { y = GroupNormalization <num_groups = 2> (x, s, s) }",
         18, {"x": np.ones((1, 3, 4), f32), "s": np.ones(2, f32)}, "C*N == 2*N*(C//2) does not hold: 3 and 2"),
        (PARTS.format("[2]"), 22, {"x": np.ones((5, 4), f32), "l": ints(6, -1)}, "0 <= v1 does not hold: 0 and -1"),
        (ITEM, 22, {"x": np.ones((5, 4), f32), "k": np.array(0), "l": ints(6, -1)}, "parts of [6, -1]"),
        (PARTS.format(""), 22, {"x": np.ones((5, 4), f32), "l": np.array(0)}, "1 <= v0 does not hold: 1 and 0"),
    ],
)  # fmt: skip
def test_what_is_refused_when_called(graph: str, opset: int, feeds: dict[str, Any], text: str) -> None:
    with pytest.raises(sx.InputError) as caught:
        sx.compile(model(graph, opset))(feeds)
    assert text in str(caught.value) and "'this'" in str(caught.value)


def test_what_is_no_error() -> None:
    reshape = sx.compile(model(RESHAPE_3.format(1)))
    assert reshape(NOTHING, ints(0, 7, 2))["y"].shape == (0, 7, 2)
    assert reshape(ROWS, ints(2, -1, 2))["y"].shape == (2, 2, 2)
    pad = "(float[N, M] x, int64[K] p, int64[L] a) => (float[A, B] y) { y = Pad (x, p, , a) }"
    assert sx.compile(model(pad))(ROWS, ints(1, 2), ints(1))["y"].shape == (2, 7)
    sizes = f"({IMAGE}, int64[4] z) => ({SIZES}) <float[0] r = {{}}, float[0] s = {{}}> {{ y = Resize (x, r, s, z) }}"
    assert sx.compile(model(sizes, 11))(PICTURE, ints(1, 1, 2, 4))["y"].shape == (1, 1, 2, 4)
    assert sx.compile(model(PARTS.format("[2]")))(ROWS, ints(0, 2))["y"] == 2
