"""What inference costs: counted work, and models at which the time of a mechanism could explode."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from sardonyx.dialects.dims import Dim, as_dim, dim_max
from sardonyx.dialects.dims.expression import dim_broadcast, dim_sum, parse_dim
from sardonyx.dialects.dims.interval import Ranges, interval
from sardonyx.lowering.tensor.index_space import IndexSpace
from sardonyx.semantics.conditions import broadcast_pair, difference_pair
from sardonyx.semantics.facts import Facts

from sardonyx import infer_shapes, simplifier
from sardonyx.simplifier import simplify_model

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, value = helper.make_node, helper.make_tensor_value_info


def model(
    nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], output: str, numbers: dict[str, list[int]]
) -> onnx.ModelProto:
    constants = [numpy_helper.from_array(np.array(v, np.int64), name) for name, v in numbers.items()]
    graph = helper.make_graph(nodes, "g", inputs, [value(output, FLOAT, None)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def test_sums_of_many_sizes_are_what_sums_one_by_one_are() -> None:
    clamps = [as_dim(f"min(max(N, {i}), {i + 1}) - {i}") for i in range(40)]
    one_by_one = as_dim(0)
    for clamp in clamps:
        one_by_one = one_by_one + clamp
    assert dim_sum(clamps) is one_by_one
    parts = [as_dim(f"(N + {i % 3})//3") for i in range(33)]
    assert dim_sum(parts) is as_dim(0) + sum(parts, as_dim(0))


def nested(depth: int) -> Dim:
    """An expression in which each of so many calls stands in the next one twice."""
    N, M = as_dim("N"), as_dim("M")
    at = N
    for i in range(depth):
        at = dim_max(at // (M + i + 2) + N, at % (N + i + 2) * M)
    return at


def test_shared_parts_of_an_expression_are_looked_at_once() -> None:
    long = nested(12)
    facts = Facts(assumptions=["M*N == 12*K", "max(N//(M + 2), N%(N + 2)) == K"])
    space = IndexSpace({"i0": long})

    def work() -> None:
        interval(long, Ranges())
        space.is_below(Dim.symbol("i0") // 2, long)
        facts.known(long)
        long.subs({"M": as_dim("L")})

    assert seconds(work) < 3


def test_conditions_on_long_expressions_are_read_without_search() -> None:
    long = " + ".join(f"max(x{i} - (1), y{i} - (2))" for i in range(200))
    texts = (f"1 <= max({long} - (1), 1 - ({long}))", f"min(max({long}, N) - min({long}, M), 0) == 0")
    assert seconds(lambda: [pair(text) for text in texts for pair in (broadcast_pair, difference_pair)]) < 1


def nested_loops(depth: int, grows: bool) -> onnx.ModelProto:
    """Loops in loops whose states each iteration changes, by a Concat with an outer value where it grows."""

    def body(level: int) -> onnx.GraphProto:
        last = "Concat" if grows else "Add"
        inner, attributes = f"v{level}", {"axis": 0} if grows else {}
        nodes = [node("Identity", [f"c{level}"], [f"go{level}"])]
        if level + 1 < depth:
            nodes.append(node("Loop", ["n", "", inner], [f"r{level}"], body=body(level + 1)))
            inner = f"r{level}"
        nodes.append(node(last, [inner, "x"], [f"z{level}"], **attributes))
        inputs = [value(f"i{level}", INT64, []), value(f"c{level}", BOOL, []), value(f"v{level}", FLOAT, None)]
        return helper.make_graph(
            nodes, f"b{level}", inputs, [value(f"go{level}", BOOL, []), value(f"z{level}", FLOAT, None)]
        )

    inputs = [value("x", FLOAT, ["A", "B"]), value("n", INT64, [])]
    return model([node("Loop", ["n", "", "x"], ["y"], body=body(0))], inputs, "y", {})


@pytest.mark.parametrize("grows", [True, False])
def test_loops_in_loops_cost_no_rounds_of_rounds(grows: bool) -> None:
    assert seconds(lambda: infer_shapes(nested_loops(14, grows))) < 5


STEPS: dict[str, Callable[[int], list[tuple[str, list[str], dict[str, int]]]]] = {
    "quotients": lambda i: [("Add", [".", f"c{i % 3 + 1}"], {}), ("Mul", [".", "c2"], {}), ("Div", [".", "c3"], {})],
    "signed quotients": lambda i: [("Sub", [".", f"c{i % 3}"], {}), ("Mul", [".", "c2"], {}), ("Div", [".", "c3"], {})],
    "extremes": lambda i: [("Add", [".", f"c{i % 4}"], {}), ("Min", [".", "w"], {}), ("Max", [".", "u"], {})],
    "remainders": lambda i: [("Mod", [".", f"c{i % 3 + 2}"], {}), ("Add", [".", "w"], {})],
}


@pytest.mark.parametrize("name", STEPS)
def test_long_chains_of_sizes(name: str) -> None:
    nodes = [
        node("Shape", ["x"], ["v"], start=0, end=1),
        node("Shape", ["x"], ["w"], start=1, end=2),
        node("Sub", ["c3", "v"], ["u"]),
    ]
    at = "v"
    for i in range(100):
        for op, operands, attributes in STEPS[name](i):
            result = f"t{len(nodes)}"
            nodes.append(node(op, [at if o == "." else o for o in operands], [result], **attributes))
            at = result
    nodes += [node("Max", [at, "c0"], ["size"]), node("ConstantOfShape", ["size"], ["y"])]
    made = model(nodes, [value("x", FLOAT, ["A", "B"])], "y", {f"c{i}": [i] for i in range(5)})
    assert seconds(lambda: infer_shapes(made)) < 6


@pytest.mark.parametrize("size", ["B", 400])
def test_many_slices_of_one_tensor(size: str | int) -> None:
    count, nodes = 400, list[onnx.NodeProto]()
    for i in range(count):
        nodes.append(node("Slice", ["x", f"c{i}", f"c{i + 1}", "c1"], [f"s{i}"]))
        nodes.append(node("Exp", [f"s{i}"], [f"e{i}"]))
    nodes.append(node("Concat", [f"e{i}" for i in range(count)], ["y"], axis=1))
    made = model(nodes, [value("x", FLOAT, ["A", size])], "y", {f"c{i}": [i] for i in range(count + 1)})
    assert seconds(lambda: simplify_model(infer_shapes(made))) < 8


def test_a_result_that_inference_knows_as_well_as_before_is_not_simplified_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[None] = []
    once = simplifier.Reader.__post_init__
    monkeypatch.setattr(simplifier.Reader, "__post_init__", lambda self: (read.append(None), once(self))[1])
    steps = [("Add", ["{}", "c1"]), ("Mul", ["{}", "c2"]), ("Div", ["{}", "c3"])] * 400
    nodes, at = [node("Shape", ["x"], ["v"])], "v"
    for i, (op, operands) in enumerate(steps):
        nodes.append(node(op, [o.format(at) for o in operands], [f"t{i}"]))
        at = f"t{i}"
    nodes += [node("ConstantOfShape", [at], ["z"]), node("Identity", ["z"], ["y"])]
    made = model(nodes, [value("x", FLOAT, ["A"])], "y", {f"c{i}": [i] for i in range(1, 4)})
    assert seconds(lambda: simplify_model(made)) < 4
    assert len(read) == 1


def test_a_length_that_many_nodes_narrow() -> None:
    """Each window is at most as long as what is left: a fact that is solved for what the one before was solved for."""
    nodes = [node("MaxPool", [f"x{i}"], [f"x{i + 1}"], kernel_shape=[3]) for i in range(1500)]
    made = model(nodes, [value("x0", FLOAT, ["B", 4, "L"])], "x1500", {})
    assert seconds(lambda: infer_shapes(made)) < 6


def test_long_sums_of_remainders() -> None:
    text = " + ".join(f"(N + {i})%{i + 2}" for i in range(500))
    assert seconds(lambda: as_dim(text).subs({"N": as_dim("M + 1")})) < 6


def test_sizes_broadcast_from_many_read_back() -> None:
    size = dim_broadcast(*(Dim.symbol(f"L{i}") for i in range(400)))
    parse_dim.cache_clear()
    assert parse_dim(str(size)) is size


def test_a_size_broadcast_from_many() -> None:
    """Each of many symbols is met by all before it."""
    names = [f"S{i}" for i in range(400)]
    inputs = ", ".join(f"float[{name}] x{name}" for name in names)
    made = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 18]> g ({inputs}) => (float[T] y)
        {{ y = Sum ({", ".join("x" + name for name in names)}) }}"""
    )
    assert seconds(lambda: infer_shapes(made)) < 8


def test_lengths_that_each_pad_fills_up() -> None:
    """Guards on long sums of remainders are not read back from their text."""
    nodes, at = "", "x"
    for i in range(200):
        nodes += f"""s{i} = Shape <start = 1> ({at}) n{i} = Neg (s{i}) r{i} = Mod (n{i}, k{i % 7})
            p{i} = Concat <axis = 0> (zero, zero, zero, r{i}) y{i} = Pad ({at}, p{i})\n"""
        at = f"y{i}"
    numbers = ", ".join(f"int64[1] k{k} = {{{k + 2}}}" for k in range(7))
    made = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 18]> g (float[B, L] x) => (float[B, M] y199)
        <{numbers}, int64[1] zero = {{0}}> {{ {nodes} }}"""
    )
    assert seconds(lambda: infer_shapes(made)) < 6
