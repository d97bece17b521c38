"""Sizes that loops and sequences leave behind: what inference gives, and what runs give at several sizes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import sardonyx as sx

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, value = helper.make_node, helper.make_tensor_value_info
NUMBERS = {"one": [1], "two": [2], "big": [2**62], "zero": [0], "five": [5], "axis": 0, "trips": 3, "start": [9, 9]}


def model(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    constants = [numpy_helper.from_array(np.array(v, np.int64), name) for name, v in NUMBERS.items()]
    inputs = [value("x", FLOAT, ["N", "D"])]
    graph = helper.make_graph(nodes, "g", inputs, [value("y", FLOAT, None)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def loop(count: str, first: str, element: int, *nodes: onnx.NodeProto) -> list[onnx.NodeProto]:
    """A Loop that carries `v` and makes `w` of it, behind the number of rows of x as `n`."""
    body = helper.make_graph(
        [node("Identity", ["go"], ["again"]), *nodes],
        "b",
        [value("i", INT64, []), value("go", BOOL, []), value("v", element, None)],
        [value("again", BOOL, []), value("w", element, None)],
    )
    return [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "axis"], ["n"]),
        node("Loop", [count, "", first], ["r"], body=body),
    ]


FILL = node("ConstantOfShape", ["r"], ["y"])
KEEP = node("Identity", ["r"], ["y"])
CUT = node("Slice", ["v", "one", "big", "zero"], ["w"])
SHAPE = node("Shape", ["x"], ["w"])
CASES: dict[str, tuple[list[onnx.NodeProto], list[str]]] = {
    "a part less each of three times": ([*loop("trips", "x", FLOAT, CUT), KEEP], ["max(N, 3) - 3", "D"]),
    "a part less each of N times": ([*loop("n", "x", FLOAT, CUT), KEEP], ["0", "D"]),
    "twice as long each of three times": (
        [*loop("trips", "x", FLOAT, node("Concat", ["v", "v"], ["w"], axis=0)), KEEP],
        ["8*N", "D"],
    ),
    "one more each of three times, and again": (
        [*loop("trips", "x", FLOAT, node("Concat", ["v", "v", "x"], ["w"], axis=0)), KEEP],
        ["15*N", "D"],
    ),
    "a counter": ([*loop("n", "five", INT64, node("Add", ["v", "two"], ["w"])), FILL], ["2*N + 5"]),
    "a counter that is passed on": ([*loop("n", "five", INT64, node("Identity", ["v"], ["w"])), FILL], ["5"]),
    "what each iteration computes anew": ([*loop("trips", "start", INT64, SHAPE), FILL], ["N", "D"]),
    "what each computes anew, as it was": ([*loop("n", "shape", INT64, SHAPE), FILL], ["N", "D"]),
    "a sequence split and joined": (
        [node("SplitToSequence", ["x", "two"], ["q"], axis=0), node("ConcatFromSequence", ["q"], ["y"], axis=-2)],
        ["N", "D"],
    ),
}
CASES["a sequence split and joined"][0].insert(0, node("Squeeze", ["two"], ["scalar"]))
CASES["a sequence split and joined"][0][1].input[1] = "scalar"


@pytest.mark.parametrize("name", CASES)
def test_sizes_behind_loops(name: str) -> None:
    nodes, sizes = CASES[name]
    made = model(nodes)
    (out,) = sx.infer_shapes(made).graph.output
    assert [d.dim_param or str(d.dim_value) for d in out.type.tensor_type.shape.dim] == sizes
    program = sx.compile(made)
    for rows, columns in ((5, 2), (1, 3), (3, 1)):
        (got,) = program.run(None, {"x": np.ones((rows, columns), np.float32)})
        expected = [eval(size, {"max": max}, {"N": rows, "D": columns}) for size in sizes]
        assert list(np.shape(got)) == expected


def test_what_no_iteration_computes_is_not_counted_on() -> None:
    made = model([*loop("n", "start", INT64, SHAPE), FILL])
    (out,) = sx.infer_shapes(made).graph.output
    assert not {d.dim_param for d in out.type.tensor_type.shape.dim} & {"N", "D"}
    program = sx.compile(made)
    assert [np.shape(program.run(None, {"x": np.ones((n, 2), np.float32)})[0]) for n in (0, 3)] == [(9, 9), (3, 2)]


def gathering(*more: onnx.NodeProto, steps: int = 1) -> list[onnx.NodeProto]:
    """A Loop over the rows of x that puts each into a sequence, and gives `l`, its length before."""
    sequence = helper.make_tensor_sequence_value_info
    inserted = [node("SequenceInsert", [f"q{i}", "s"], [f"q{i + 1}"]) for i in range(steps)]
    body = helper.make_graph(
        [node("Identity", ["go"], ["again"]), node("Gather", ["x", "i"], ["s"], axis=0),
         node("SequenceLength", ["q0"], ["l"]), *inserted],
        "b",
        [value("i", INT64, []), value("go", BOOL, []), sequence("q0", FLOAT, None)],
        [value("again", BOOL, []), sequence(f"q{steps}", FLOAT, None), value("l", INT64, [])],
    )  # fmt: skip
    return [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "axis"], ["n"]),
        node("SequenceEmpty", [], ["empty"]),
        node("Loop", ["n", "", "empty"], ["r", "before"], body=body),
        *more,
    ]


SEQUENCES = {
    "stacked": (gathering(node("ConcatFromSequence", ["r"], ["y"], axis=0, new_axis=1)), ["N", "D"]),
    "joined": (gathering(node("ConcatFromSequence", ["r"], ["y"], axis=0)), ["D*N"]),
    "two each": (gathering(node("ConcatFromSequence", ["r"], ["y"], axis=-1, new_axis=1), steps=2), ["D", "2*N"]),
    "less one": (
        gathering(node("SequenceErase", ["r"], ["q"]), node("SequenceInsert", ["q", "x0"], ["p"]),
                  node("SequenceLength", ["p"], ["k"]), node("Reshape", ["k", "one"], ["ku"]),
                  node("ConstantOfShape", ["ku"], ["y"])),
        ["N"],
    ),
}  # fmt: skip
SEQUENCES["less one"][0].insert(0, node("Gather", ["x", "axis"], ["x0"]))


@pytest.mark.parametrize("name", SEQUENCES)
def test_lengths_of_sequences_behind_loops(name: str) -> None:
    nodes, sizes = SEQUENCES[name]
    made = model([*nodes, node("Cast", ["before"], ["z"], to=FLOAT)])
    made.graph.output.add().CopyFrom(value("z", FLOAT, None))
    out, _ = sx.infer_shapes(made).graph.output
    assert [d.dim_param or str(d.dim_value) for d in out.type.tensor_type.shape.dim] == sizes
    program = sx.compile(made)
    for rows, columns in ((5, 2), (1, 3)):
        got, before = program.run(None, {"x": np.ones((rows, columns), np.float32)})
        assert list(np.shape(got)) == [eval(size, {}, {"N": rows, "D": columns}) for size in sizes]
        assert list(np.ravel(before)) == [i * (2 if name == "two each" else 1) for i in range(rows)]


PARTS: dict[str, tuple[list[onnx.NodeProto], str]] = {
    "the rest from its number on": ([node("Slice", ["x", "at", "big", "zero"], ["part"])], "(N*N + N + 1)//2"),
    "the start up to its number": ([node("Slice", ["x", "zero", "at", "zero"], ["part"])], "(N*N + N)//2 - N"),
    "a chunk of five": (
        [
            node("Mul", ["at", "five"], ["begin"]),
            node("Add", ["begin", "five"], ["end"]),
            node("Slice", ["x", "begin", "end", "zero"], ["part"]),
        ],
        "N",
    ),
    "both parts, the other way round": (
        [
            node("Slice", ["x", "at", "big", "zero"], ["rest"]),
            node("Slice", ["x", "zero", "at", "zero"], ["start"]),
            node("Concat", ["rest", "start"], ["part"], axis=0),
        ],
        "N*N",
    ),
    "a row more each time": ([node("Expand", ["row", "more"], ["part"])], "(N*N + N)//2"),
}


@pytest.mark.parametrize("name", PARTS)
def test_sizes_by_the_iterations_number(name: str) -> None:
    """What each of N iterations puts behind what there is; the iteration's number is a size."""
    nodes, size = PARTS[name]
    place = [
        node("Unsqueeze", ["i", "zero"], ["at"]),
        node("Slice", ["x", "zero", "one", "zero"], ["row"]),
        node("Add", ["at", "one"], ["next"]),
        node("Concat", ["next", "one"], ["more"], axis=0),
    ]
    none = node("Slice", ["x", "zero", "zero", "zero"], ["none"])
    made = model([none, *loop("n", "none", FLOAT, *place, *nodes, node("Concat", ["v", "part"], ["w"], axis=0)), KEEP])
    (out,) = sx.infer_shapes(made).graph.output
    assert [d.dim_param for d in out.type.tensor_type.shape.dim] == [size, "D"]
    program = sx.compile(made)
    for rows in (1, 2, 7, 0):
        x = np.random.default_rng(rows).random((rows, 2), dtype=np.float32)
        got = program(x=x)["y"]
        assert len(got) == eval(size, {"min": min}, {"N": rows})
        np.testing.assert_array_equal(got, sx.run(sx.lower(made, to="graph"), {"x": x})["y"])
    assert not any("Clamp" in str(line) for line in str(sx.lower(made, to="graph")).splitlines())


def test_a_state_grows_as_another_shrinks() -> None:
    """p and q have the same number of rows together before and after each iteration."""
    body = helper.make_graph(
        [
            node("Identity", ["go"], ["again"]),
            node("Slice", ["q", "zero", "two", "zero"], ["head"]),
            node("Concat", ["p", "head", "head"], ["p2"], axis=0),
            node("Slice", ["q", "two", "big", "zero"], ["q2"]),
        ],
        "b",
        [value("i", INT64, []), value("go", BOOL, []), value("p", FLOAT, None), value("q", FLOAT, None)],
        [value("again", BOOL, []), value("p2", FLOAT, None), value("q2", FLOAT, None)],
    )
    made = model(
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "axis1"], ["n"]),
            node("Loop", ["n", "", "x", "x"], ["y", "z"], body=body),
        ]
    )
    made.graph.initializer.append(numpy_helper.from_array(np.array(1, np.int64), "axis1"))
    made.graph.output.append(value("z", FLOAT, None))
    y, z = sx.infer_shapes(made).graph.output
    assert [d.dim_param for d in z.type.tensor_type.shape.dim] == ["max(2*D, N) - 2*D", "D"]
    size = y.type.tensor_type.shape.dim[0].dim_param
    program = sx.compile(made)
    for rows, times in ((5, 2), (4, 2), (3, 3), (1, 1), (7, 0), (0, 3)):
        p, q = program.run(None, {"x": np.ones((rows, times), np.float32)})
        taken = min(rows, 2 * times)
        assert (len(p), len(q)) == (rows + 2 * taken, rows - taken)
        assert eval(size, {"min": min, "max": max}, {"N": rows, "D": times}) == len(p)


@pytest.mark.parametrize("count", ["n", ""])
@pytest.mark.parametrize("stop", ["n//2", "3"])
def test_a_condition_ends_a_loop_before_its_number_of_trips(count: str, stop: str) -> None:
    """The stacked result has room for the iterations that there are, not for the number of trips."""
    made, (size,) = stopped(count, stop, [node("Less", ["next", "k"], ["again"])])
    assert size == {("n", "3"): "min(N, 3)", ("", "3"): "3"}.get((count, stop), "N//2")
    program = sx.compile(made)
    for rows in (3, 4, 5, 9):
        x = np.random.default_rng(rows).random((rows, 2), dtype=np.float32)
        np.testing.assert_array_equal(program(x=x)["y"], x[: rows // 2 if stop != "3" else 3])


SPELLINGS = {
    "and what held": [node("Less", ["next", "k"], ["q"]), node("And", ["q", "go"], ["again"])],
    "not at least": [node("GreaterOrEqual", ["next", "k"], ["q"]), node("Not", ["q"], ["again"])],
    "another number": [node("Equal", ["next", "k"], ["q"]), node("Not", ["q"], ["again"])],
}


@pytest.mark.parametrize("count", ["n", ""])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_conditions_that_end_loops_have_many_spellings(count: str, spelling: str) -> None:
    made, (size,) = stopped(count, "n//2", SPELLINGS[spelling])
    assert size == "N//2"
    program = sx.compile(made)
    for rows in (0, 1, 3, 4, 9):
        x = np.random.default_rng(rows).random((rows, 2), dtype=np.float32)
        np.testing.assert_array_equal(program(x=x)["y"], x[: rows // 2])


def test_a_loop_that_does_not_meet_its_end_runs_all_of_its_trips() -> None:
    """`not next == k` is never false where k is 0 at first, and no condition is asked before the loop."""
    made, _ = stopped("n", "n//2", SPELLINGS["another number"])
    made.graph.initializer.append(numpy_helper.from_array(np.array(True), "always"))
    made.graph.node[-1].input[1] = "always"
    size = sx.infer_shapes(made).graph.output[0].type.tensor_type.shape.dim[0].dim_param
    program = sx.compile(made)
    for rows, expected in ((0, 0), (1, 1), (2, 1), (3, 1), (9, 4)):
        x = np.random.default_rng(rows).random((rows, 2), dtype=np.float32)
        np.testing.assert_array_equal(program(x=x)["y"], x[:expected])
        assert eval(size, {"min": min, "max": max}, {"N": rows}) == expected


def test_a_number_taken_from_a_state_ends_a_loop() -> None:
    body = helper.make_graph(
        [
            node("Sub", ["v", "pair"], ["w"]),
            node("Greater", ["w", "axis"], ["again"]),
            node("Identity", ["i"], ["row"]),
        ],
        "b",
        [value("i", INT64, []), value("go", BOOL, []), value("v", INT64, [])],
        [value("again", BOOL, []), value("w", INT64, []), value("row", INT64, [])],
    )
    made = model(
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "axis"], ["n"]),
            node("Greater", ["n", "axis"], ["some"]),
            node("Loop", ["", "some", "n"], ["left", "y"], body=body),
        ]
    )
    made.graph.output[0].type.tensor_type.elem_type = INT64
    made.graph.initializer.append(numpy_helper.from_array(np.array(2), "pair"))
    assert sx.infer_shapes(made).graph.output[0].type.tensor_type.shape.dim[0].dim_param == "(N + 1)//2"
    program = sx.compile(made)
    for rows in (0, 1, 2, 7):
        assert list(program(x=np.ones((rows, 1), np.float32))["y"]) == list(range((rows + 1) // 2))


def stopped(count: str, stop: str, condition: list[onnx.NodeProto]) -> tuple[onnx.ModelProto, list[str]]:
    """A Loop over the rows of x until a condition on the next number and k, with the size of what it stacks."""
    nodes = [node("Add", ["i", "unit"], ["next"]), *condition, node("Gather", ["x", "i"], ["row"])]
    body = helper.make_graph(
        nodes,
        "b",
        [value("i", INT64, []), value("go", BOOL, [])],
        [value("again", BOOL, []), value("row", FLOAT, ["D"])],
    )
    half = node("Div", ["n", "pair"], ["k"]) if stop == "n//2" else node("Identity", ["trips"], ["k"])
    made = model(
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "axis"], ["n"]),
            half,
            node("Greater", ["k", "axis"], ["some"]),
            node("Loop", [count, "some"], ["y"], body=body),
        ]
    )
    made.graph.initializer.extend(numpy_helper.from_array(np.array(v), name) for name, v in (("unit", 1), ("pair", 2)))
    dims = sx.infer_shapes(made).graph.output[0].type.tensor_type.shape.dim
    return made, [d.dim_param or str(d.dim_value) for d in dims][:1]
