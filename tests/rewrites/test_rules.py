"""Every rule of the rule set: what it makes of a graph, checked by numbers on random sizes, and where it declines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx
import pytest
from sardonyx.dialects import onnx as dialect
from sardonyx.dialects.onnx.model import main_of
from sardonyx.frontend.importer import import_model
from sardonyx.rewrites.driver import Pattern, apply_patterns
from sardonyx.rewrites.infer import infer_shapes
from sardonyx.rewrites.simplify import exact_rules, file_rules, rounding_rules, spelling_rules
from sardonyx.rewrites.simplify.redundancy import eliminate_dead_code
from sardonyx.rewrites.upgrade import upgrade_opset
from sardonyx.semantics.facts import Facts
from sardonyx.semantics.weights import WeightStore
from xdsl.dialects.builtin import ModuleOp

from sardonyx import testing


def module_of(text: str, opset: int = 24, *, decided: bool = True) -> ModuleOp:
    """A graph in ONNX's text, inferred."""
    graph = onnx.parser.parse_graph("g " + text)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    module, weights = import_model(model)
    upgrade_opset(module, weights)
    infer_shapes(module, weights, compile_mode=decided)
    return module


def rules() -> list[Pattern]:
    weights, facts = WeightStore(), Facts()
    found = [
        *exact_rules(weights, facts, exact=False, for_file=False),
        *rounding_rules(weights),
        *file_rules(weights, facts, exact=False),
        *spelling_rules(facts),
    ]
    assert len({rule.title() for rule in found}) == len(found)
    return found


RULES = {rule.title(): rule for rule in rules()}


@dataclass(frozen=True)
class Fires:
    """A graph, and the operators that are left: constants and what nothing reads do not count."""

    text: str
    left: str
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    decided: bool = True
    """Whether inference has written what it knows into the graph, and decided branches."""


X = "(float[N, 4] x) => (float[A, B] y)"
X3 = "(float[N, 3, 4] x) => (y)"

CASES: dict[str, tuple[Sequence[Fires], Sequence[str]]] = {
    "InlineKnownIf": (
        [
            Fires(
                """(float[N] x) => (y) <bool c = {1}> {
                y = If (c) <then_branch = t () => (a) { a = Neg(x) }, else_branch = e () => (b) { b = Abs(x) }>
            }""",
                "Neg",
                decided=False,
            )
        ],
        [
            """(float[N] x, bool c) => (y) {
            y = If (c) <then_branch = t () => (a) { a = Neg(x) }, else_branch = e () => (b) { b = Abs(x) }>
        }"""
        ],
    ),
    "UnrollLoop": (
        [
            Fires(
                """(float[N] x) => (y, z) <int64 n = {2}, bool c = {1}> {
                y, z = Loop (n, c, x) <body = b (int64 i, bool k, float[N] a) => (bool l, float[N] d, float[N] e)
                    { l = Identity(k) d = Neg(a) e = Abs(a) }>
            }""",
                "Neg Abs Neg Abs Unsqueeze Unsqueeze Concat",
            ),
            Fires(
                """(float[N] x) => (y) <int64 n = {0}, bool c = {1}> {
                y = Loop (n, c, x) <body = b (int64 i, bool k, float[N] a) => (bool l, float[N] d)
                    { l = Identity(k) d = Neg(a) }>
                }""",
                "",
            ),
        ],
        [
            """(float[N] x, int64 n) => (y) <bool c = {1}> {
            y = Loop (n, c, x) <body = b (int64 i, bool k, float[N] a) => (bool l, float[N] d)
                { l = Identity(k) d = Neg(a) }>
        }""",
            """(float[N] x) => (y) <int64 n = {3}, bool c = {1}, float limit = {9}> {
            y = Loop (n, c, x) <body = b (int64 i, bool k, float[N] a) => (bool l, float[N] d)
                { d = Neg(a) s = ReduceSum<keepdims=0>(a) l = Less(s, limit) }>
        }""",
            """(float[N] x) => (y) <int64 n = {1000}, bool c = {1}> {
            y = Loop (n, c, x) <body = b (int64 i, bool k, float[N] a) => (bool l, float[N] d)
                { l = Identity(k) d = Neg(a) }>
        }""",
        ],
    ),
    "DropIdentity": ([Fires(X + "{ y = Identity(x) }", "")], [X + "{ y = Neg(x) }"]),
    "DropSameType": (
        [
            Fires(X + "<int64[2] s = {-1, 4}> { y = Reshape(x, s) }", ""),
            Fires(X + "<int64[2] s = {1, 4}> { y = Expand(x, s) }", ""),
            Fires(X + "{ y = Cast<to=1>(x) }", ""),
            Fires(X + "{ y = Flatten(x) }", ""),
        ],
        [X + "<int64[1] s = {-1}> { y = Reshape(x, s) }", X + "{ y = Cast<to=11>(x) }"],
    ),
    "DropWholeSlice": (
        [
            Fires(X + "<int64[1] s = {0}, int64[1] e = {4}, int64[1] a = {1}> { y = Slice(x, s, e, a) }", ""),
            Fires(X + "<int64[1] s = {0}, int64[1] a = {0}> { n = Shape<end=1>(x) y = Slice(x, s, n, a) }", ""),
        ],
        [
            X + "<int64[1] s = {0}, int64[1] e = {3}, int64[1] a = {1}> { y = Slice(x, s, e, a) }",
            X + "<int64[1] s = {-1}, int64[1] e = {-9}, int64[1] a = {1}, int64[1] t = {-1}> { y = Slice(x,s,e,a,t) }",
        ],
    ),
    "DropZeroPad": (
        [Fires(X + "<int64[4] p = {0, 0, 0, 0}> { y = Pad(x, p) }", "")],
        [X + "<int64[4] p = {0, 1, 0, 0}> { y = Pad(x, p) }", X + "<int64[4] p = {0, 1, 0, -1}> { y = Pad(x, p) }"],
    ),
    "DropSingleTile": (
        [Fires(X + "<int64[2] r = {1, 1}> { y = Tile(x, r) }", "")],
        [X + "<int64[2] r = {1, 2}> { y = Tile(x, r) }"],
    ),
    "DropEmptyOperands": (
        [
            Fires(X + "{ y = Concat<axis=0>(x) }", ""),
            Fires("(float[N, 4] x, float[0, 4] e) => (y) { y = Concat<axis=0>(x, e) }", ""),
            Fires("(float[N, 4] x, float[0, 4] e) => (y) { y = Concat<axis=0>(x, e, x) }", "Concat"),
        ],
        ["(float[N, 4] x, float[M, 4] e) => (y) { y = Concat<axis=0>(x, e) }"],
    ),
    "DropSingleSplit": (
        [Fires(X + "{ y = Split<axis=0, num_outputs=1>(x) }", "")],
        [X3.replace("(y)", "(y, z)") + "{ y, z = Split<axis=2, num_outputs=2>(x) }"],
    ),
    "DropIdleDropout": (
        [
            Fires(X + "{ y = Dropout(x) }", ""),
            Fires(X + "<float r = {0.5}, bool t = {0}> { y = Dropout(x, r, t) }", ""),
        ],
        [X.replace("(float[A, B] y)", "(y, m)") + "{ y, m = Dropout(x) }"],
    ),
    "DropExpand": (
        [
            Fires(
                "(float[1, 4] x, float[N, 4] z) => (y) { s = Shape(z) e = Expand(x, s) y = Add(e, z) }",
                "Add",
            )
        ],
        ["(float[1, 4] x, float[4] z) => (y) <int64[2] s = {3, 4}> { e = Expand(x, s) y = Add(e, z) }"],
    ),
    "DropReductionOfOne": (
        [
            Fires("(float[N, 1, 4] x) => (y) <int64[1] a = {1}> { y = ReduceMax(x, a) }", ""),
            Fires("(float[N, 1, 4] x) => (y) <int64[1] a = {-2}> { y = ReduceMean<keepdims=0>(x, a) }", "Squeeze"),
        ],
        [
            "(float[N, 2, 4] x) => (y) <int64[1] a = {1}> { y = ReduceSum(x, a) }",
            "(float[N, M, 4] x) => (y) <int64[1] a = {1}> { y = ReduceSum(x, a) }",
        ],
    ),
    "DropNeutral": (
        [
            Fires(X + "<float c = {1}> { y = Mul(x, c) }", ""),
            Fires(X + "<float c = {1}> { y = Mul(c, x) }", ""),
            Fires(X + "<float[1] c = {1}> { y = Div(x, c) }", ""),
            Fires(X + "<float c = {0}> { y = Sub(x, c) }", ""),
            Fires(X + "<float c = {0}> { y = Add(x, c) }", ""),
            Fires("(int32[N] x) => (y) <int32 c = {0}> { y = Add(x, c) }", ""),
        ],
        [
            X + "<float c = {2}> { y = Mul(x, c) }",
            X + "<float c = {1}> { y = Div(c, x) }",
            X + "<float c = {0}> { y = Sub(c, x) }",
            "(float[4] x) => (y) <float[2, 4] c = {1, 1, 1, 1, 1, 1, 1, 1}> { y = Mul(x, c) }",
        ],
    ),
    "DropSecond": (
        [Fires(X + "{ a = Relu(x) y = Relu(a) }", "Relu"), Fires(X + "{ a = Floor(x) y = Floor(a) }", "Floor")],
        [X + "{ a = Relu(x) y = Abs(a) }"],
    ),
    "DropInverse": (
        [Fires(X + "{ a = Neg(x) y = Neg(a) }", ""), Fires("(bool[N] x) => (y) { a = Not(x) y = Not(a) }", "")],
        [X + "{ a = Abs(x) y = Neg(a) }"],
    ),
    "DropNotOfChoice": (
        [Fires("(bool[N] c, float[N] a, float[N] b) => (y) { n = Not(c) y = Where(n, a, b) }", "Where")],
        ["(bool[N] c, float[N] a, float[N] b) => (y) { y = Where(c, a, b) }"],
    ),
    "DropWholeGather": (
        [
            Fires(X + "<int64[4] i = {0, 1, 2, 3}> { y = Gather<axis=1>(x, i) }", ""),
            Fires(X + "<int64[4] i = {-4, 1, -2, 3}> { y = Gather<axis=1>(x, i) }", ""),
        ],
        [
            X + "<int64[4] i = {0, 1, 3, 2}> { y = Gather<axis=1>(x, i) }",
            X + "<int64[3] i = {0, 1, 2}> { y = Gather<axis=1>(x, i) }",
        ],
    ),
    "MergeCasts": (
        [
            Fires("(int8[N] x) => (y) { a = Cast<to=7>(x) y = Cast<to=3>(a) }", ""),
            Fires("(float16[N] x) => (y) { a = Cast<to=1>(x) y = Cast<to=11>(a) }", "Cast"),
            Fires("(bool[N] x) => (y) { a = Cast<to=10>(x) y = Cast<to=9>(a) }", ""),
            Fires("(int32[N] x) => (y) { a = Cast<to=11>(x) y = Cast<to=1>(a) }", "Cast"),
        ],
        [
            "(float[N] x) => (y) { a = Cast<to=10>(x) y = Cast<to=1>(a) }",
            "(int32[N] x) => (y) { a = Cast<to=1>(x) y = Cast<to=6>(a) }",
            "(int32[N] x) => (y) { a = Cast<to=11>(x) y = Cast<to=3>(a) }",
            "(int8[N] x) => (y) { a = Cast<to=13>(x) y = Cast<to=3>(a) }",
            "(float[N] x) => (y) { a = Cast<to=9>(x) y = Cast<to=1>(a) }",
        ],
    ),
    "MergeClips": (
        [
            Fires(X + "<float a = {-1}, float b = {1}> { r = Relu(x) y = Clip(r, a, b) }", "Clip"),
            Fires(X + "<float a = {-1}, float b = {1}> { c = Clip(x, a, b) y = Relu(c) }", "Clip"),
            Fires(X + "<float b = {1}> { c = Clip(x, , b) y = Relu(c) }", "Clip"),
        ],
        [
            X + "<float a = {-2}, float b = {-1}> { c = Clip(x, a, b) y = Relu(c) }",
            "(float[N] x, float a) => (y) { c = Clip(x, a) y = Relu(c) }",
            "(float[N] x) => (y, c) <float a = {-2}> { c = Clip(x, a) y = Relu(c) }",
        ],
    ),
    "MergeTransposes": (
        [
            Fires(X3 + "{ t = Transpose<perm=[1, 2, 0]>(x) y = Transpose<perm=[2, 0, 1]>(t) }", ""),
            Fires(X3 + "{ t = Transpose<perm=[1, 2, 0]>(x) y = Transpose(t) }", "Transpose"),
            Fires(X3 + "{ y = Transpose<perm=[0, 1, 2]>(x) }", ""),
        ],
        [X3 + "{ y = Transpose<perm=[0, 2, 1]>(x) }"],
    ),
    "SinkTranspose": (
        [
            Fires(
                X3 + "<float c = {2}> { t = Transpose(x) r = Relu(t) m = Mul(c, r) y = Transpose(m) }",
                "Relu Mul Transpose",
            )
        ],
        [
            "(float[N, 3, 4] x) => (y, r) { t = Transpose(x) r = Relu(t) y = Transpose(r) }",
            X3 + "<float[3] c = {2, 1, 3}> { t = Transpose<perm=[0,2,1]>(x) m = Mul(c, t) y = Transpose(m) }",
        ],
    ),
    "SinkView": (
        [
            Fires(
                X3 + "<int64[2] s = {-1, 4}> { t = Shape(x) f = Reshape(x, s) a = Softmax(f) y = Reshape(a, t) }",
                "Softmax",
            ),
            Fires(X3 + "<int64[1] a = {1}> { f = Unsqueeze(x, a) e = Exp(f) y = Squeeze(e, a) }", "Exp"),
        ],
        [
            X3 + "<int64[2] s = {-1, 12}> { t = Shape(x) f = Reshape(x, s) a = Softmax(f) y = Reshape(a, t) }",
            X3 + "<int64[2] s = {-1, 4}> { f = Reshape(x, s) a = Softmax(f) y = Flatten<axis=0>(a) }",
        ],
    ),
    "JoinTransposes": (
        [
            Fires(
                "(float[N, 4] x, float[N, 4] z) => (y) { a = Transpose(x) b = Transpose(z) y = Add(a, b) }",
                "Add Transpose",
            )
        ],
        [
            "(float[N, 4, 4] x, float[N, 4, 4] z) => (y) "
            "{ a = Transpose<perm=[0,2,1]>(x) b = Transpose<perm=[1,0,2]>(z) y = Add(a, b) }",
            "(float[N, 4] x, float[N, 4] z) => (y, a) { a = Transpose(x) b = Transpose(z) y = Add(a, b) }",
        ],
    ),
    "MergeSlices": (
        [
            Fires(
                X3 + "<int64[1] o = {1}, int64[1] t = {2}, int64[1] e = {3}>"
                "{ a = Slice(x, o, e, o) y = Slice(a, o, e, t) }",
                "Slice",
            ),
            Fires(
                "(float[N] x) => (y) <int64[1] o = {1}, int64[1] e = {7}> { a = Slice(x, o, e) y = Slice(a, o, e) }",
                "Slice",
                {"N": (0, 12)},
            ),
            Fires(
                "(float[N] x) => (y) <int64[1] o = {1}, int64[1] m = {-2}, int64[1] e = {9223372036854775807}>"
                "{ a = Slice(x, o, e) y = Slice(a, o, m) }",
                "Slice",
            ),
            Fires(
                "(float[N] x) => (y) <int64[1] o = {1}, int64[1] m = {-2}, int64[1] e = {9223372036854775807}>"
                "{ a = Slice(x, o, m) y = Slice(a, o, e) }",
                "Slice",
            ),
        ],
        [
            "(float[N] x) => (y) <int64[1] o = {-3}, int64[1] e = {7}> { a = Slice(x, o, e) y = Slice(a, o, e) }",
            "(float[N] x) => (y) <int64[1] o = {0}, int64[1] e = {9}, int64[1] a = {0}, int64[1] s = {2}>"
            "{ b = Slice(x, o, e, a, s) y = Slice(b, o, e, a, s) }",
            "(float[N] x) => (y, a) <int64[1] o = {1}, int64[1] e = {7}> { a = Slice(x, o, e) y = Slice(a, o, e) }",
        ],
    ),
    "RejoinParts": (
        [
            Fires(
                "(float[N] x) => (y) <int64[1] z = {0}, int64[1] m = {-1}, int64[1] e = {9223372036854775807}>"
                "{ a = Slice(x, z, m) b = Slice(x, m, e) y = Concat<axis=0>(a, b) }",
                "",
            ),
            Fires(
                "(float[N] x) => (y) <int64[1] z = {0}, int64[1] m = {3}, int64[1] e = {9223372036854775807}>"
                "{ a = Slice(x, z, m) b = Slice(x, m, e) y = Concat<axis=0>(a, b) }",
                "",
            ),
            Fires(X + "{ a, b = Split<axis=1, num_outputs=2>(x) y = Concat<axis=1>(a, b) }", ""),
            Fires(
                X + "{ a, b, c, d = Split<axis=1, num_outputs=4>(x) y = Concat<axis=1>(b, c, a) }", "Split Slice Concat"
            ),
        ],
        [
            X + "{ a, b = Split<axis=1, num_outputs=2>(x) y = Concat<axis=1>(b, a) }",
            "(float[N] x) => (y) <int64[1] z = {0}, int64[1] m = {3}, int64[1] k = {2}, "
            "int64[1] e = {9223372036854775807}> { a = Slice(x, z, m) b = Slice(x, k, e) y = Concat<axis=0>(a, b) }",
            "(float[N] x) => (y) <int64[1] z = {0}, int64[1] m = {3}, int64[1] e = {5}>"
            "{ a = Slice(x, z, m) b = Slice(x, m, e) y = Concat<axis=0>(a, b) }",
        ],
    ),
    "FlattenConcats": (
        [Fires(X + "{ a = Concat<axis=1>(x, x) y = Concat<axis=-1>(a, x) }", "Concat")],
        [
            X + "{ a = Concat<axis=0>(x, x) y = Concat<axis=1>(a, a) }",
            "(float[N, 4] x) => (y, a) { a = Concat<axis=1>(x, x) y = Concat<axis=1>(a, x) }",
        ],
    ),
    "MergeViews": (
        [
            Fires(
                "(float[A, B] x) => (y) <int64[2] s = {-1, 6}, int64[1] m = {-1}, int64[1] k = {6}>"
                "{ r = Reshape(x, s) a = Shape<end=1>(x) t = Concat<axis=0>(a, m, k) y = Reshape(r, t) }",
                "Reshape",
                {"A": (1, 5), "B": (6, 6)},
            ),
            Fires(X3 + "<int64[2] s = {-1, 4}> { t = Shape(x) f = Reshape(x, s) y = Reshape(f, t) }", ""),
            Fires(
                X + "<int64[1] a = {0}, int64[1] b = {1}> { u = Unsqueeze(x, a) y = Unsqueeze(u, b) }",
                "Unsqueeze",
            ),
            Fires(
                "(float[N, 1, 4] x) => (y) { t = Transpose<perm=[1, 0, 2]>(x) y = Flatten<axis=2>(t) }",
                "Squeeze",
            ),
        ],
        [X3 + "<int64[2] s = {-1, 4}> { t = Transpose<perm=[0, 2, 1]>(x) y = Reshape(t, s) }"],
    ),
    "MergeReductions": (
        [
            Fires(X3 + "<int64[1] a = {1}, int64[1] b = {2}> { r = ReduceMax(x, a) y = ReduceMax(r, b) }", "ReduceMax"),
            Fires(
                X3 + "<int64[1] a = {1}> { r = ReduceMin<keepdims=0>(x, a) y = ReduceMin<keepdims=0>(r, a) }",
                "ReduceMin",
            ),
        ],
        [
            X3 + "<int64[1] a = {1}, int64[1] b = {2}> { r = ReduceMax(x, a) y = ReduceMax<keepdims=0>(r, b) }",
            X3 + "<int64[1] a = {1}, int64[1] b = {2}> { r = ReduceMax(x, a) y = ReduceMin(r, b) }",
        ],
    ),
    "FoldSqueezeIntoReduction": (
        [
            Fires(X3 + "<int64[1] a = {1}> { r = ReduceSum<keepdims=0>(x, a) y = Unsqueeze(r, a) }", "ReduceSum"),
            Fires(X3 + "<int64[1] a = {1}> { r = ReduceSum(x, a) y = Squeeze(r, a) }", "ReduceSum"),
            Fires(X3 + "<int64[1] a = {2}> { r = ArgMax<axis=2>(x) y = Squeeze(r, a) }", "ArgMax"),
        ],
        [X3 + "<int64[1] a = {1}, int64[1] b = {0}> { r = ReduceSum<keepdims=0>(x, a) y = Unsqueeze(r, b) }"],
    ),
    "DropRequantize": (
        [
            Fires(
                "(uint8[N, 4] q) => (y) <float s = {0.1}, uint8 z = {3}>"
                "{ x = DequantizeLinear(q, s, z) t = Transpose(x) y = QuantizeLinear(t, s, z) }",
                "Transpose",
            ),
            Fires(
                "(int8[N, 4] q) => (y) <float s = {0.1}, int8 z = {0}>"
                "{ x = DequantizeLinear(q, s, z) y = QuantizeLinear(x, s, z) }",
                "",
            ),
        ],
        [
            "(uint8[N, 4] q) => (y) <float s = {0.1}, float t = {0.2}, uint8 z = {3}>"
            "{ x = DequantizeLinear(q, s, z) y = QuantizeLinear(x, t, z) }",
            "(uint8[N, 4] q) => (y) <float s = {0.1}, uint8 z = {3}, uint8 w = {4}>"
            "{ x = DequantizeLinear(q, s, z) y = QuantizeLinear(x, s, w) }",
            "(uint8[N, 4] q) => (y) <float s = {0.1}, uint8 z = {3}>"
            "{ x = DequantizeLinear(q, s, z) r = Neg(x) y = QuantizeLinear(r, s, z) }",
        ],
    ),
    "DropZeroState": (
        [
            Fires(
                "(float[N, B, 2] x, float[1, 9, 2] w, float[1, 9, 3] r) => (y) <int64[1] o = {1}, int64[1] k = {3}>"
                "{ b = Shape<start=1, end=2>(x) s = Concat<axis=0>(o, b, k) h = ConstantOfShape(s) "
                "y = GRU<hidden_size=3>(x, w, r, , , h) }",
                "GRU",
            )
        ],
        [
            "(float[N, B, 2] x, float[1, 9, 2] w, float[1, 9, 3] r) => (y) <int64[1] o = {1}, int64[1] k = {3}>"
            "{ b = Shape<start=1, end=2>(x) s = Concat<axis=0>(o, b, k) "
            "h = ConstantOfShape<value = float[1] {1.0}>(s) y = GRU<hidden_size=3>(x, w, r, , , h) }",
        ],
    ),
    "FoldPad": (
        [
            Fires(
                "(float[N, 2, H, 5] x, float[3, 2, 3, 3] w) => (y) <int64[8] p = {0, 0, 1, 2, 0, 0, 0, 1}>"
                "{ a = Pad(x, p) y = Conv<pads=[1, 0, 0, 0]>(a, w) }",
                "Conv",
                {"H": (3, 6)},
            ),
            Fires(
                "(float[N, 2, 5, 5] x) => (y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}>"
                "{ r = Relu(x) a = Pad(r, p) y = MaxPool<kernel_shape=[3, 3], strides=[2, 2]>(a) }",
                "Relu MaxPool",
            ),
            Fires(
                "(float[N, 2, 5, 5] x) => (y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}>"
                "{ a = Pad(x, p) y = AveragePool<kernel_shape=[3, 3]>(a) }",
                "AveragePool",
            ),
        ],
        [
            "(float[N, 2, 5, 5] x) => (y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}>"
            "{ a = Pad(x, p) y = MaxPool<kernel_shape=[3, 3], strides=[2, 2]>(a) }",
            "(float[N, 2, 5, 5] x, float[3, 4, 3, 3] w) => (y) <int64[8] p = {0, 1, 1, 2, 0, 1, 0, 1}>"
            "{ a = Pad(x, p) y = Conv(a, w) }",
            "(float[N, 2, 5, 5] x, float[3, 2, 3, 3] w) => (y) <int64[8] p = {0, 0, 1, 2, 0, 0, 0, 1}, float v = {1}>"
            "{ a = Pad(x, p, v) y = Conv(a, w) }",
            "(float[N, 2, 5, 5] x, float[3, 2, 3, 3] w) => (y) <int64[8] p = {0, 0, 1, 2, 0, 0, 0, 1}>"
            '{ a = Pad<mode="reflect">(x, p) y = Conv(a, w) }',
            "(float[N, 2, 5, 5] x) => (y) <int64[8] p = {0, 0, 3, 3, 0, 0, 3, 3}>"
            "{ r = Relu(x) a = Pad(r, p) y = MaxPool<kernel_shape=[3, 3]>(a) }",
        ],
    ),
    "FoldIntoWeights": (
        [
            Fires(
                "(float[N, 2, 3, 3] x) => (y) <float[1, 2, 1, 1] w = {1, 2}, float[1] b = {3}, float s = {4}>"
                "{ c = Conv(x, w, b) y = Mul(s, c) }",
                "Conv",
            ),
            Fires(
                "(float[N, 2, 3] x) => (y) <float[2, 2, 1] w = {1, 2, 3, 4}, float[2, 1] s = {4, 5}>"
                "{ c = Conv(x, w) d = Div(c, s) y = Sub(s, d) }",
                "Conv",
            ),
            Fires(
                "(float[N, 4, 3] x) => (y) <float[4, 2, 1] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[4, 1] s = {4, 5, 6, 7}>"
                "{ c = ConvTranspose<group=2>(x, w) m = Mul(c, s) y = Add(m, s) }",
                "ConvTranspose",
            ),
            Fires(
                "(float[N, 2] x) => (y) <float[2, 2] w = {1, 2, 3, 4}, float[2] b = {1, 2}, float[2] s = {4, 5}>"
                "{ c = Gemm<transB=1>(x, w, b) m = Mul(c, s) y = Sub(m, b) }",
                "Gemm",
            ),
            Fires(
                "(float[N, 2, 3] x) => (y) <float[2, 2, 1] w = {1, 2, 3, 4}, float[2] s = {4, 5}>"
                "{ c = Conv(x, w) y = BatchNormalization(c, s, s, s, s) }",
                "Conv",
            ),
        ],
        [
            "(float[N, 2, 3] x) => (y, c) <float[2, 2, 1] w = {1, 2, 3, 4}, float s = {4}>"
            "{ c = Conv(x, w) y = Mul(c, s) }",
            "(float[N, 2, 3] x, float s) => (y) <float[2, 2, 1] w = {1, 2, 3, 4}> { c = Conv(x, w) y = Mul(c, s) }",
            "(float[N, 2, 3] x) => (y) <float[2, 2, 1] w = {1, 2, 3, 4}, float[3] s = {4, 5, 6}>"
            "{ c = Conv(x, w) y = Mul(c, s) }",
            "(float[N, 2, 3] x) => (y) <float[2, 2, 1] w = {1, 2, 3, 4}, float[2, 2, 1, 1] s = {4, 5, 6, 7}>"
            "{ c = Conv(x, w) y = Mul(c, s) }",
            "(float[N, 2, 3] x) => (y) <float[2, 2, 1] w = {1, 2, 3, 4}, float s = {0}>"
            "{ c = Conv(x, w) y = Div(c, s) }",
        ],
    ),
    "MergeConstants": (
        [
            Fires(X + "<float a = {2}, float[4] b = {1, 2, 3, 4}> { s = Add(x, a) y = Add(b, s) }", "Add"),
            Fires(X + "<float a = {2}, float[4] b = {1, 2, 3, 4}> { s = Mul(a, x) y = Mul(s, b) }", "Mul"),
        ],
        [
            X + "<float a = {2}> { s = Add(x, a) y = Mul(s, a) }",
            "(float[N, 4] x) => (y, s) <float a = {2}> { s = Add(x, a) y = Add(s, a) }",
            "(float[N, 4] x) => (y) <float a = {1e-30}> { s = Mul(x, a) y = Mul(s, a) }",
            "(float[N, 4] x) => (y) <float a = {1e30}> { s = Mul(x, a) y = Mul(s, a) }",
            "(int32[N, 4] x) => (y) <int32 a = {2}> { s = Mul(x, a) y = Mul(s, a) }",
        ],
    ),
    "FoldScaleBefore": (
        [
            Fires(
                "(float[N, 2, 5] x) => (y) <float[2, 1] s = {2, 3}, float[1, 2, 3] w = {1, 2, 3, 4, 5, 6}>"
                "{ m = Mul(x, s) y = Conv<pads=[1, 1]>(m, w) }",
                "Conv",
            ),
            Fires(
                "(float[N, 2] x) => (y) <float[2] s = {2, 4}, float[2, 1] w = {1, 2}>"
                "{ m = Div(x, s) y = MatMul(m, w) }",
                "MatMul",
            ),
        ],
        [
            "(float[N, 2] x) => (y, m) <float[2] s = {2, 3}, float[2, 1] w = {1, 2}>{ m = Mul(x, s) y = MatMul(m, w) }",
            "(float[N, 2, 5] x) => (y) <float[2, 1] s = {2, 3}, float[2, 1, 1] w = {1, 2}>"
            "{ m = Mul(x, s) y = Conv<group=2>(m, w) }",
        ],
    ),
    "FuseMatMulAdd": (
        [
            Fires("(float[N, 4] a, float[4, M] b, float[M] c) => (y) { m = MatMul(a, b) y = Add(m, c) }", "Gemm"),
            Fires("(float[N, 4] a, float[4, M] b, float[N, 1] c) => (y) { m = MatMul(a, b) y = Add(c, m) }", "Gemm"),
        ],
        [
            "(float[N, 4] a, float[4, M] b, float[M] c) => (y, m) { m = MatMul(a, b) y = Add(m, c) }",
            "(float[K, N, 4] a, float[4, M] b, float[M] c) => (y) { m = MatMul(a, b) y = Add(m, c) }",
            "(float[N, 4] a, float[4, M] b, float[3, N, M] c) => (y) { m = MatMul(a, b) y = Add(m, c) }",
            "(int32[N, 4] a, int32[4, M] b, int32[M] c) => (y) { m = MatMul(a, b) y = Add(m, c) }",
        ],
    ),
    "FoldTransposeIntoGemm": (
        [Fires("(float[4, N] a, float[M, 4] b) => (y) { s = Transpose(a) t = Transpose(b) y = Gemm(s, t) }", "Gemm")],
        ["(float[4, N] a, float[4, M] b) => (y, t) { t = Transpose(a) y = Gemm(t, b) }"],
    ),
    "RecognizeActivation": (
        [
            Fires(
                X + "<float r = {1.4142135}, float o = {1}, float h = {0.5}>"
                "{ d = Div(x, r) e = Erf(d) a = Add(e, o) m = Mul(x, a) y = Mul(m, h) }",
                "Gelu",
            ),
            Fires(
                X + "<float r = {0.70710677}, float o = {1}, float h = {0.5}>"
                "{ d = Mul(r, x) e = Erf(d) a = Add(o, e) m = Mul(h, x) y = Mul(a, m) }",
                "Gelu",
            ),
            Fires(
                X + "<float k = {0.7978845608}, float c = {0.044715}, float o = {1}, float h = {0.5}, float t = {3}>"
                "{ p = Pow(x, t) q = Mul(c, p) s = Add(x, q) u = Mul(k, s) v = Tanh(u) w = Add(o, v) "
                "m = Mul(h, x) y = Mul(m, w) }",
                "Gelu",
            ),
            Fires(
                X + "<float k = {0.7978845608}, float c = {0.044715}, float o = {1}, float h = {0.5}>"
                "{ p = Mul(x, x) q = Mul(c, p) s = Add(o, q) l = Mul(k, x) u = Mul(l, s) v = Tanh(u) w = Add(o, v) "
                "m = Mul(h, x) y = Mul(m, w) }",
                "Gelu",
            ),
            Fires(X + "{ s = Sigmoid(x) y = Mul(s, x) }", "Swish"),
            Fires(X + "<float a = {1.702}> { t = Mul(x, a) s = Sigmoid(t) y = Mul(x, s) }", "Swish"),
            Fires(
                X + "<float t = {3}, float z = {0}, float s = {6}>"
                "{ a = Add(x, t) c = Clip(a, z, s) m = Mul(x, c) y = Div(m, s) }",
                "HardSwish",
            ),
            Fires(X + "{ h = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(x, h) }", "HardSwish"),
            Fires(X + "{ s = Softplus(x) t = Tanh(s) y = Mul(x, t) }", "Mish"),
        ],
        [
            X + "<float r = {1.5}, float o = {1}, float h = {0.5}>"
            "{ d = Div(x, r) e = Erf(d) a = Add(e, o) m = Mul(x, a) y = Mul(m, h) }",
            X + "<float r = {1.4142135}, float o = {1}, float h = {0.6}>"
            "{ d = Div(x, r) e = Erf(d) a = Add(e, o) m = Mul(x, a) y = Mul(m, h) }",
            "(float[N, 4] x, float[N, 4] z) => (y) { s = Sigmoid(z) y = Mul(s, x) }",
            X + "<float t = {3}, float z = {0}, float s = {5}>"
            "{ a = Add(x, t) c = Clip(a, z, s) m = Mul(x, c) y = Div(m, s) }",
            X + "<float a = {1}> { t = Add(x, a) s = Sigmoid(t) y = Mul(x, s) }",
        ],
    ),
    "RecognizeHardSigmoid": (
        [
            Fires(
                X + "<float t = {3}, float z = {0}, float s = {6}> { a = Add(x, t) c = Clip(a, z, s) y = Div(c, s) }",
                "HardSigmoid",
            ),
            Fires(
                "(float[N, 4] x, float[N, 4] w) => (y) <float t = {1}, float k = {0.5}, float z = {0}, float s = {2}>"
                "{ m = Mul(k, x) a = Add(m, t) c = Clip(a, z, s) p = Mul(w, c) y = Div(p, s) }",
                "HardSigmoid Mul",
            ),
        ],
        [
            X + "<float t = {3}, float z = {0}, float s = {6}, float f = {5}>"
            "{ a = Add(x, t) c = Clip(a, z, s) y = Div(c, f) }",
            X + "<float t = {3}, float z = {1}, float s = {6}> { a = Add(x, t) c = Clip(a, z, s) y = Div(c, s) }",
            "(float[N, 4] x) => (y, c) <float t = {3}, float z = {0}, float s = {6}>"
            "{ a = Add(x, t) c = Clip(a, z, s) y = Div(c, s) }",
        ],
    ),
    "RecognizeNormalization": (
        [
            Fires(
                X + "<int64[1] l = {-1}, float e = {1e-5}, float t = {2}>"
                "{ m = ReduceMean(x, l) d = Sub(x, m) p = Pow(d, t) v = ReduceMean(p, l) a = Add(v, e) "
                "r = Sqrt(a) y = Div(d, r) }",
                "LayerNormalization",
            ),
            Fires(
                X + "<int64[1] l = {1}, float e = {1e-5}>"
                "{ p = Mul(x, x) v = ReduceMean(p, l) a = Add(e, v) r = Sqrt(a) i = Reciprocal(r) y = Mul(x, i) }",
                "RMSNormalization",
            ),
        ],
        [
            X + "<int64[1] l = {0}, float e = {1e-5}, float t = {2}>"
            "{ m = ReduceMean(x, l) d = Sub(x, m) p = Pow(d, t) v = ReduceMean(p, l) a = Add(v, e) "
            "r = Sqrt(a) y = Div(d, r) }",
            X + "<int64[1] l = {-1}, float e = {1e-5}, float t = {3}>"
            "{ p = Pow(x, t) v = ReduceMean(p, l) a = Add(v, e) r = Sqrt(a) y = Div(x, r) }",
            X + "<int64[1] l = {-1}, float e = {1e-5}, float t = {2}>"
            "{ p = Pow(x, t) v = ReduceMean(p, l) a = Add(v, e) r = Sqrt(a) y = Mul(x, r) }",
            "(float[N, M] x) => (y) <int64[1] l = {-1}, float e = {1e-5}, float t = {2}>"
            "{ p = Pow(x, t) v = ReduceMean(p, l) a = Add(v, e) r = Sqrt(a) y = Div(x, r) }",
        ],
    ),
    "FoldScaleIntoNormalization": (
        [
            Fires(
                "(float[N, 4] x, float[4] s) => (y) <float[4] o = {1, 1, 1, 1}>"
                "{ n = LayerNormalization(x, o) y = Mul(s, n) }",
                "LayerNormalization",
            ),
            Fires(
                X + "<float[4] o = {1, 1, 1, 1}, float[1, 1] s = {3}> { n = RMSNormalization(x, o) y = Mul(n, s) }",
                "RMSNormalization",
            ),
        ],
        [
            X + "<float[4] o = {1, 1, 1, 2}, float[4] s = {3, 4, 5, 6}> { n = LayerNormalization(x, o) y = Mul(n, s) }",
            "(float[N, 4] x) => (y, n) <float[4] o = {1, 1, 1, 1}> { n = LayerNormalization(x, o) y = Mul(n, o) }",
            "(float[N, 4] x, float[N, 1] s) => (y) <float[4] o = {1, 1, 1, 1}>"
            "{ n = LayerNormalization(x, o) y = Mul(n, s) }",
        ],
    ),
    "FoldShiftIntoNormalization": (
        [
            Fires(
                "(float[N, 4] x, float[4] s, float[4] b) => (y) { n = LayerNormalization(x, s) y = Add(b, n) }",
                "LayerNormalization",
            )
        ],
        [
            "(float[N, 4] x, float[4] s, float[4] b) => (y) { n = LayerNormalization(x, s, b) y = Add(n, b) }",
            "(float[N, 4] x, float[4] s, float[N, 4] b) => (y) { n = LayerNormalization(x, s) y = Add(n, b) }",
        ],
    ),
    "RecognizeAttention": (
        [
            Fires(
                "(float[B, 2, S, 4] q, float[B, 2, T, 4] k, float[B, 2, T, 3] v, float[B, 1, S, T] m) => (y)"
                "<float c = {2}> { t = Transpose<perm=[0, 1, 3, 2]>(k) s = MatMul(q, t) d = Div(s, c) a = Add(d, m) "
                "w = Softmax<axis=-1>(a) y = MatMul(w, v) }",
                "Attention",
                {"T": (1, 6)},
            ),
            Fires(
                "(float[B, S, 2, 4] q, float[B, S, 2, 4] k, float[B, 2, S, 4] v) => (y) <float c = {0.7}>"
                "{ h = Transpose<perm=[0, 2, 1, 3]>(q) t = Transpose<perm=[0, 2, 3, 1]>(k) a = Mul(h, c) b = Mul(t, c) "
                "s = MatMul(a, b) w = Softmax<axis=3>(s) y = MatMul(w, v) }",
                "Transpose Transpose Attention",
                {"S": (1, 6)},
            ),
        ],
        [
            "(float[B, 2, S, 4] q, float[B, 2, 4, T] k, float[B, 2, T, 3] v) => (y)"
            "{ s = MatMul(q, k) w = Softmax<axis=-1>(s) y = MatMul(w, v) }",
            "(float[B, 2, S, 4] q, float[B, 2, T, 4] k, float[B, 2, T, 3] v) => (y, w)"
            "{ t = Transpose<perm=[0, 1, 3, 2]>(k) s = MatMul(q, t) w = Softmax<axis=-1>(s) y = MatMul(w, v) }",
            "(float[B, 2, S, 4] q, float[B, 2, S, 4] k, float[B, 2, S, 3] v) => (y)"
            "{ t = Transpose<perm=[0, 1, 3, 2]>(k) s = MatMul(q, t) w = Softmax<axis=2>(s) y = MatMul(w, v) }",
            "(float[B, 2, S, 4] q, float[1, 2, T, 4] k, float[1, 2, T, 3] v) => (y)"
            "{ t = Transpose<perm=[0, 1, 3, 2]>(k) s = MatMul(q, t) w = Softmax<axis=-1>(s) y = MatMul(w, v) }",
        ],
    ),
    "RecognizeRotary": (
        [
            Fires(
                "(float[B, 2, S, 4] x, float[B, S, 2] f) => (y) <int64[1] o = {1}, int64[1] z = {0}, int64[1] h = {2},"
                "int64[1] e = {9223372036854775807}, int64[1] l = {3}>"
                "{ g = Concat<axis=-1>(f, f) u = Cos(g) c = Unsqueeze(u, o) v = Sin(g) s = Unsqueeze(v, o) "
                "a = Slice(x, z, h, l) b = Slice(x, h, e, l) n = Neg(b) t = Concat<axis=-1>(n, a) "
                "p = Mul(x, c) q = Mul(t, s) y = Add(p, q) }",
                "Concat Cos Unsqueeze Sin Unsqueeze Slice Squeeze Slice Squeeze RotaryEmbedding",
            )
        ],
        [
            "(float[B, 2, S, 4] x, float[B, S, 4] f) => (y) <int64[1] o = {1}, int64[1] z = {0}, int64[1] h = {2},"
            "int64[1] e = {9223372036854775807}, int64[1] l = {3}>"
            "{ u = Cos(f) c = Unsqueeze(u, o) v = Sin(f) s = Unsqueeze(v, o) "
            "a = Slice(x, z, h, l) b = Slice(x, h, e, l) n = Neg(b) t = Concat<axis=-1>(n, a) "
            "p = Mul(x, c) q = Mul(t, s) y = Add(p, q) }",
            "(float[B, 2, S, 4] x, float[B, S, 2] f) => (y) <int64[1] o = {1}, int64[1] z = {0}, int64[1] h = {2},"
            "int64[1] e = {9223372036854775807}, int64[1] l = {3}>"
            "{ g = Concat<axis=-1>(f, f) u = Cos(g) c = Unsqueeze(u, o) v = Sin(g) s = Unsqueeze(v, o) "
            "a = Slice(x, z, h, l) b = Slice(x, h, e, l) n = Neg(a) t = Concat<axis=-1>(b, n) "
            "p = Mul(x, c) q = Mul(t, s) y = Add(p, q) }",
        ],
    ),
    "SpellTransposeOfOnes": (
        [
            Fires("(float[N, 1, 4] x) => (y) { y = Transpose<perm=[1, 0, 2]>(x) }", "Reshape"),
        ],
        [X3 + "{ y = Transpose<perm=[1, 0, 2]>(x) }"],
    ),
    "SpellReshape": (
        [
            Fires(
                "(float[N, M, 8] x) => (y) <int64[2] t = {2, 4}>"
                "{ s = Shape<end=2>(x) r = Concat<axis=0>(s, t) y = Reshape(x, r) }",
                "Reshape",
            ),
            Fires(
                "(float[N, 2, 4] x) => (y) <int64[1] t = {8}>"
                "{ s = Shape<end=1>(x) r = Concat<axis=0>(s, t) y = Reshape(x, r) }",
                "Reshape",
            ),
        ],
        [
            "(float[N, 6] x, float[M] z) => (y) <int64[1] t = {-1}>"
            "{ s = Shape(z) r = Concat<axis=0>(s, t) y = Reshape(x, r) }",
        ],
    ),
    "SpellExpand": (
        [
            Fires(
                "(float[N, 1] x) => (y) <int64[1] t = {4}>"
                "{ s = Shape<end=1>(x) r = Concat<axis=0>(s, t) y = Expand(x, r) }",
                "Expand",
            )
        ],
        ["(float[1, 4] x, float[N, 4] z) => (y) { s = Shape(z) y = Expand(x, s) }"],
    ),
    "SpellSlice": (
        [
            Fires(
                "(float[N, 4] x, float[N] w) => (y) <int64[1] z = {1}, int64[1] a = {0}>"
                "{ n = Shape(w) y = Slice(x, z, n, a) }",
                "Slice",
            )
        ],
        [
            "(float[N, 4] x, float[M] w) => (y) <int64[1] z = {1}, int64[1] a = {0}>"
            "{ n = Shape(w) y = Slice(x, z, n, a) }",
        ],
    ),
}


def left(module: ModuleOp) -> str:
    """The operators of main that something reads, in order, but constants."""
    eliminate_dead_code(module)
    ignored = (dialect.ConstantOp, dialect.InitializerOp)
    return " ".join(
        op.name.removeprefix("onnx.")
        for op in main_of(module).body.block.ops
        if isinstance(op, dialect.OnnxOp) and not isinstance(op, ignored)
    )


def test_every_rule_has_cases() -> None:
    assert set(CASES) == set(RULES)
    assert all(fires and declines for fires, declines in CASES.values())


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, (fires, _) in CASES.items() for c in fires])
def test_fires_and_keeps_values(name: str, case: Fires) -> None:
    module = module_of(case.text, decided=case.decided)
    text = str(module)
    testing.check(RULES[name], text, bindings=12, ranges=case.ranges, rtol=1e-5, atol=1e-5)
    apply_patterns(module, [RULES[name]])
    assert left(module) == case.left


@pytest.mark.parametrize(("name", "text"), [(n, t) for n, (_, declines) in CASES.items() for t in declines])
def test_declines(name: str, text: str) -> None:
    module = module_of(text)
    assert apply_patterns(module, [RULES[name]]) == []
