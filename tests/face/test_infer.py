"""`sx.infer_shapes` writes sizes into bodies and local functions, too, and others take what it writes."""

from __future__ import annotations

import onnx
import onnxruntime
import pytest
from onnx import GraphProto, ModelProto, ValueInfoProto, helper

import sardonyx as sx

onnxruntime.set_default_logger_severity(4)


def model(text: str) -> ModelProto:
    graph = onnx.parser.parse_graph("g " + text)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def sizes(info: ValueInfoProto) -> list[str | int] | None:
    """A value's sizes as they are written, "?" for one that is open; None where there is not even a rank."""
    tensor = info.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [d.dim_param or (d.dim_value if d.HasField("dim_value") else "?") for d in tensor.shape.dim]


def told(graph: GraphProto) -> dict[str, list[str | int] | None]:
    """What is written of the values of all bodies in a graph, by their names."""
    found: dict[str, list[str | int] | None] = {}
    for node in graph.node:
        for body in (a.g for a in node.attribute if a.HasField("g")):
            found |= {i.name: sizes(i) for i in (*body.input, *body.value_info, *body.output)} | told(body)
    return found


def loads(proto: ModelProto) -> bool:
    """Whether checker and onnxruntime take a model; they raise where they do not."""
    onnx.checker.check_model(proto, full_check=True)
    return onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]) is not None


BODIES = {
    "branches": (
        """(float[N, 4] x, bool c) => (float[K, L] y) {
            y = If(c) <then_branch = t () => (float[P, Q] a) { b = Concat<axis=0>(x, x) a = Neg(b) },
                       else_branch = e () => (float[P, Q] d) { d = Transpose<perm=[1, 0]>(x) }>
        }""",
        {"b": ["2*N", 4], "a": ["2*N", 4], "d": [4, "N"]},
    ),
    "a state that keeps its sizes": (
        """(float[N, 4] x, int64 n, float[M] w) => (float[K, L] y, float[R, S, T] z) {
            y, z = Loop(n, , x) <body = b (int64 i, bool g, float[P, Q] v) => (bool h, float[P, Q] o, float[U, V] s)
                { h = Identity(g) k = Shape(w) o = Exp(v) s = Transpose<perm=[1, 0]>(o) }>
        }""",
        {"v": ["N", 4], "o": ["N", 4], "s": [4, "N"], "k": [1], "i": [], "g": [], "h": []},
    ),
    "rows and their sizes": (
        """(float[N, D] x, float[D] s) => (float[K] t, float[L, M] y) {
            t, y = Scan<num_scan_inputs = 1, body = b (float[P] a, float[Q] r) => (float[P] o, float[U, V] e)
                { o = Add(a, r) q = Shape(r) z = Concat<axis=0>(q, q) e = Expand(o, z) }>(s, x)
        }""",
        {"a": ["D"], "r": ["D"], "o": ["D"], "q": [1], "z": [2], "e": ["D", "D"]},
    ),
}


@pytest.mark.parametrize("case", BODIES)
def test_bodies_have_sizes_in_the_model_s_own_names(case: str) -> None:
    text, wanted = BODIES[case]
    inferred = sx.infer_shapes(model(text))
    assert loads(inferred)
    assert told(inferred.graph) == wanted


def test_what_each_iteration_changes_has_a_name_of_its_own() -> None:
    text = """(float[N, 4] x, int64 n) => (float[K, L] y) {
        y = Loop(n, , x) <body = b (int64 i, bool g, float[P, Q] v) => (bool h, float[P, Q] o)
            { h = Identity(g) a = Concat<axis=0>(v, x) o = Neg(a) }>
    }"""
    inferred = sx.infer_shapes(model(text))
    assert loads(inferred)
    found = told(inferred.graph)
    (state, width), (grown, _) = found["v"] or [], found["a"] or []
    assert width == 4 and found["o"] == found["a"] and str(state) not in ("N", "") and str(state) in str(grown)
    outside = {str(s) for i in (*inferred.graph.value_info, *inferred.graph.output) for s in sizes(i) or ()}
    assert str(state) not in outside


FUNCTIONS = """<ir_version: {}, opset_import: ["" : 18, "my" : 1]>
    g (float[N, 8] x, float[M, 8] w, float[N, 4] z) => (float[A, B] y, float[C, D] u, float[E, F] v) {{
        y = my.halves(x) u = my.halves(w) v = my.once(z)
    }}
    <domain: "my", opset_import: ["" : 18]> halves (a) => (r) {{
        s = Shape(a) h = Neg(a) t = Transpose<perm=[1, 0]>(h) r = Transpose<perm=[1, 0]>(t)
    }}
    <domain: "my", opset_import: ["" : 18]> once (a) => (r) {{ h = Concat<axis=0>(a, a) r = Neg(h) }}"""


def test_values_of_functions_have_what_all_calls_agree_on() -> None:
    inferred = sx.infer_shapes(onnx.parser.parse_model(FUNCTIONS.format(10)))
    assert loads(inferred)
    halves, once = ({i.name: sizes(i) for i in f.value_info} for f in inferred.functions)
    assert (halves["s"], halves["h"], halves["t"]) == ([2], ["?", 8], [8, "?"])
    assert once["h"] == ["2*N", 4]
    assert (halves["a"], once["a"]) == (["?", 8], ["N", 4])
    made = {name for node in inferred.graph.node for name in node.output}
    assert {i.name for i in inferred.graph.value_info} <= made  # nothing of what a function's instance is made of
    old = sx.infer_shapes(onnx.parser.parse_model(FUNCTIONS.format(9)))
    assert not any(f.value_info for f in old.functions)


def test_a_body_of_one_sequence_of_a_batch_stays_as_it_is() -> None:
    text = """(float[B, D] s, float[B, N, D] x) => (float[B, D] t, float[B, N, D] y) {
        t, y = Scan<num_scan_inputs = 1, body = b (float[P] a, float[Q] r) => (float[P] o, float[P] e)
            { o = Add(a, r) e = Neg(o) }>("", s, x)
    }"""
    graph = onnx.parser.parse_graph("g " + text)
    graph.node[0].input[0] = ""
    inferred = sx.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=3))
    assert loads(inferred)
    assert told(inferred.graph) == {"a": ["P"], "r": ["Q"], "o": ["P"], "e": ["P"]}


ENTRIES = {
    "as many rows as the greatest element says": (
        """(float[N, K] x, int64[N] n) => (float[P, Q, R] y) {
            m = ReduceMax<keepdims=0>(n)
            zero = Constant<value_int=0>()
            one = Constant<value_int=1>()
            first = Constant<value_ints=[0]>()
            r = Range(zero, m, one)
            c = CastLike(r, x)
            row = Unsqueeze(c, first)
            ones = ReduceSum<keepdims=1>(x)
            z = Mul(row, ones)
            two = Constant<value_ints=[1, 1]>()
            k = Unsqueeze(m, first)
            s = Concat<axis=0>(two, k)
            y = Reshape(z, s)
        }""",
        [1, 1, "max(v0, 0)"],
    ),
    "windows of an image that is no multiple of them": (
        """(float[B, H, W] x, int64[1] n) => (float[P, Q, R, S] y) {
            seven = Constant<value_ints=[7]>()
            rest = Constant<value_ints=[-1]>()
            h = Shape<start=1, end=2>(x)
            q = Div(h, seven)
            s = Concat<axis=0>(n, q, seven, rest)
            y = Reshape(x, s)
        }""",
        None,
    ),
}


@pytest.mark.parametrize("case", ENTRIES)
def test_entries_of_a_shape_that_are_data_leave_short_sizes(case: str) -> None:
    text, wanted = ENTRIES[case]
    found = sizes(sx.infer_shapes(model(text)).graph.output[0])
    assert found is not None
    assert wanted is None or found == wanted
    assert sum(len(str(size)) for size in found) < 200, found
    assert "-1" not in str(found[1]) and "min(H//7" not in str(found[1])
