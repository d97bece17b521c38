"""Everything that a user can get wrong gives one clear error of the right class, at once, and harms nothing."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import sardonyx as sx

Make = Callable[..., onnx.ModelProto]
ADD = "g (float[N, 4] x, float[N, 4] y) => (float[N, 4] z) { z = Add(x, y) }"


@pytest.fixture(autouse=True)
def within_two_seconds() -> Iterator[None]:
    sx.compile  # noqa: B018  (imported before the clock starts)
    gc.disable()  # nor is what other tests left behind ours
    began, used = time.perf_counter(), time.process_time()
    yield
    taken = time.process_time() - used
    gc.enable()
    assert taken < 2  # what other processes take of the machine is not ours
    assert time.perf_counter() - began < 20


@pytest.fixture(scope="module")
def add() -> sx.Program:
    graph = onnx.parser.parse_graph(ADD)
    return sx.compile(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 22)]))


def zeros(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"x": zeros(2, 4), "w": zeros(2, 4)}, "no input named 'w'; the inputs are 'x', 'y'"),
        ({"x": zeros(2, 4)}, "input 'y' is missing; the inputs are 'x', 'y'"),
        ({"x": zeros(2, 4), "y": zeros(2, 4).astype(np.float64)}, "input 'y' is float64, expected float32"),
        ({"x": zeros(2, 4), "y": zeros(2, 4, 1)}, "input 'y' has 3 axes (2, 4, 1), expected 2 axes"),
        ({"x": zeros(2, 5), "y": zeros(2, 4)}, "input 'x' axis 1 has size 5, expected 4"),
        (
            {"x": zeros(2, 4), "y": zeros(3, 4)},
            "input 'y' axis 0 has size 3, expected N = 2 (N is the size of 'x' axis 0)",
        ),
    ],
)
def test_inputs_that_do_not_fit(add: sx.Program, feeds: dict[str, Any], message: str) -> None:
    with pytest.raises(sx.InputError) as caught:
        add(feeds)
    assert str(caught.value) == message
    assert add(x=zeros(2, 4) + 1, y=zeros(2, 4))["z"].sum() == 8


def test_gather_out_of_range_at_run_time(model: Make) -> None:
    program = sx.compile(model("g (float[N, 4] x, int64[K] i) => (float[K, 4] z) { z = Gather <axis=0> (x, i) }"))
    with pytest.raises(sx.InputError) as caught:
        program(zeros(3, 4), np.array([0, 7]))
    assert str(caught.value) == (
        "Gather: 'indices' has the index 7; axis 0 of 'data' has size 3, so -3 <= index < 3\n  --> node 'node_0'"
    )
    assert program(zeros(3, 4), np.array([0, -3]))["z"].shape == (2, 4)


def test_reshape_that_does_not_fit_at_run_time(model: Make) -> None:
    program = sx.compile(model("g (float[N, 4] x, int64[2] s) => (float[A, B] z) { z = Reshape(x, s) }"))
    for shape, count in (([5, 3], 15), ([5, -1], 10)):
        with pytest.raises(sx.InputError, match="Reshape keeps the number of elements") as caught:
            program(zeros(3, 4), np.array(shape))
        fact = f"12 and {count}, where N = 3 (the size of 'x' axis 0), v0 = 5 (element 0 of 's'), v1 = {shape[1]} ("
        assert fact in str(caught.value)
    assert program(zeros(3, 4), np.array([6, -1]))["z"].shape == (6, 2)


def test_operators_of_other_opsets_are_not_known(model: Make) -> None:
    """Though there are numpy functions for them."""
    proto = model("g (float[N] x) => (float[N] y) { y = Gelu(x) }")
    for imports, reason in (
        ([17], "it is new in opset 20, and the model imports 17"),
        ([], "the model imports no opset"),
    ):
        del proto.opset_import[:]
        proto.opset_import.extend(onnx.helper.make_opsetid("", version) for version in imports)
        with pytest.raises(sx.UnsupportedError, match=f"Gelu: {reason}"):
            sx.compile(proto)


def test_unknown_operators_are_named_together_when_compiling(model: Make) -> None:
    text = "g (float[N] x) => (float[N] z) { a = com.acme.Fancy(x) b = Relu(a) c = com.acme.Odd(b) z = org.o.Third(c) }"
    with pytest.raises(sx.UnsupportedError) as caught:
        sx.compile(model(text, "com.acme", "org.o"))
    lines = str(caught.value).splitlines()
    assert lines[0] == "3 operators are not known"
    for line, operator, node in zip(lines[1:], ("com.acme::Fancy", "com.acme::Odd", "org.o::Third"), (0, 2, 3)):
        assert line.startswith(f"  --> {operator}: ") and line.endswith(f"; 'node_{node}'")


@pytest.mark.parametrize("kept", [0, 1, 100, 0.5, -1])
def test_truncated_files(kept: float, digits: Path, tmp_path: Path) -> None:
    data = digits.read_bytes()
    end = int(len(data) * kept) if isinstance(kept, float) else kept
    (tmp_path / "cut.onnx").write_bytes(data[:end])
    with pytest.raises(sx.ModelError, match=r"cut.onnx: the file is (empty|no ONNX model, or damaged)"):
        sx.compile(tmp_path / "cut.onnx")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(sx.ModelError, match=r"none.onnx: cannot be read: No such file"):
        sx.compile(tmp_path / "none.onnx")
    with pytest.raises(sx.ModelError, match="is not a regular file"):
        sx.compile(tmp_path)
    with pytest.raises(sx.ModelError, match="no ONNX model"):
        sx.compile(b"some text")


def test_assumptions(model: Make) -> None:
    with pytest.raises(sx.InputError, match="not a condition on dimensions: 'N =='"):
        sx.compile(model(ADD), assume=["N =="])
    with pytest.raises(sx.InputError, match="assume='Q == 3': the model has no symbol 'Q', but N"):
        sx.compile(model(ADD), assume=["Q == 3"])
    for condition in "Q < 2", "Q > 3", "2*Q < 9", "N < Q", "Q <= 2", "Q >= 2", "Q % 2 == 0", "N <= 3 and Q < 2":
        for entry in sx.compile, partial(sx.lower, to="graph"):
            with pytest.raises(sx.InputError, match=r"assume='.*Q.*': the model has no symbol 'Q', but N"):
                entry(model(ADD), assume=condition)
    program = sx.compile(model(ADD), assume=["N == 2"])
    with pytest.raises(sx.InputError, match=r"N == 2 does not hold: 3 and 2 \(N is the size of 'x' axis 0\)"):
        program(zeros(3, 4), zeros(3, 4))


def test_levels(model: Make) -> None:
    with pytest.raises(sx.InputError, match="no level 'nope'; there are graph, kernels, tensor, loops, schedule, llvm"):
        sx.lower(model(ADD), to="nope")
    with pytest.raises(sx.InputError, match="the module is at level 'loops', past 'graph'"):
        sx.lower(sx.lower(model(ADD), to="loops"), to="graph")


ROWS = "float[N, 4] x"
OUT_OF_RANGE = {
    "Gather": (
        f"g ({ROWS}, int64[K] i) => (float[N, K] z) {{ a = Abs(i) b = Neg(a) z = Gather <axis = 1> (x, b) }}",
        {"x": zeros(3, 4), "i": np.array([0, 7])},
        "'indices' has the index -7; axis 1 of 'data' has size 4, so -4 <= index < 4\n  --> node 'node_2'",
    ),
    "GatherElements": (
        f"g ({ROWS}, int64[N, 4] i) => (float[N, 4] z) {{ z = GatherElements <axis = 1> (x, i) }}",
        {"x": zeros(2, 4), "i": np.full((2, 4), -5)},
        "'indices' has the index -5; axis 1 of 'data' has size 4, so -4 <= index < 4\n  --> node 'node_0'",
    ),
    "GatherND": (
        f"g ({ROWS}, int64[K, 2] i) => (float[K] z) {{ z = GatherND(x, i) }}",
        {"x": zeros(2, 4), "i": np.array([[0, 0], [1, 4]])},
        "'indices' has the index 4; axis 1 of 'data' has size 4, so -4 <= index < 4\n  --> node 'node_0'",
    ),
    "ScatterElements": (
        f"g ({ROWS}, int64[2, 4] i, float[2, 4] u) => (float[N, 4] z) {{ n = Neg(u) z = ScatterElements(x, i, n) }}",
        {"x": zeros(2, 4), "i": np.full((2, 4), 2), "u": zeros(2, 4)},
        "'indices' has the index 2; axis 0 of 'data' has size 2, so -2 <= index < 2\n  --> node 'node_1'",
    ),
    "ScatterND": (
        f"g ({ROWS}, int64[K, 1] i, float[K, 4] u) => (float[N, 4] z) {{ z = ScatterND(x, i, u) }}",
        {"x": zeros(2, 4), "i": np.array([[-3]]), "u": zeros(1, 4)},
        "'indices' has the index -3; axis 0 of 'data' has size 2, so -2 <= index < 2\n  --> node 'node_0'",
    ),
    "ReverseSequence": (
        f"g ({ROWS}, int64[4] i) => (float[N, 4] z) {{ z = ReverseSequence <batch_axis = 1, time_axis = 0> (x, i) }}",
        {"x": zeros(2, 4), "i": np.array([0, 1, 2, 3])},
        "'sequence_lens' has the length 3; axis 0 of 'input' has size 2\n  --> node 'node_0'",
    ),
    "NegativeLogLikelihoodLoss": (
        f"g ({ROWS}, int64[N] i) => (float z) {{ z = NegativeLogLikelihoodLoss(x, i) }}",
        {"x": zeros(2, 4), "i": np.array([0, 4])},
        "'target' has the class 4; there are 4 classes, axis 1 of 'input'\n  --> node 'node_0'",
    ),
    "TensorScatter": (
        "g (float[N, 8, 3] x, float[N, 2, 3] u, int64[N] i) => (float[N, 8, 3] z) "
        "{ z = TensorScatter <axis = 1> (x, u, i) }",
        {"x": zeros(2, 8, 3), "u": zeros(2, 2, 3), "i": np.array([0, 7])},
        "'write_indices' has the index 7: from there on, axis 1 of 'past_cache' (size 8) has no room for the update"
        " (size 2)\n  --> node 'node_0'",
    ),
}


EMPTY = {
    "Gather": f"g ({ROWS}, int64[K] i) => (float[K, 4] z) {{ z = Gather(x, i) }}",
    "GatherND": f"g ({ROWS}, int64[K] j) => (float[K, 4] z) {{ a = Constant <value_ints = [1]> () "
    "i = Unsqueeze(j, a) z = GatherND(x, i) }",
}


@pytest.mark.parametrize("operator", EMPTY)
@pytest.mark.parametrize("size", ["N", "0"])
def test_an_axis_without_elements_has_no_index(operator: str, size: str, model: Make) -> None:
    program = sx.compile(model(EMPTY[operator].replace("N, 4", f"{size}, 4")))
    with pytest.raises(sx.InputError) as caught:
        program(zeros(0, 4), np.array([0]))
    assert f"{operator}: 'indices' has the index 0; axis 0 of 'data' is empty\n  --> node" in str(caught.value)
    assert program(zeros(0, 4), np.array([], np.int64))["z"].shape == (0, 4)


COUNTED = {
    "Tile": ("y = Tile(x, k)", [2], "Tile: 'k' has 2 elements, one for each axis: K == 2 does not hold: 1 and 2"),
    "Pad": ("y = Pad(x, k)", [2, 1, 1], "Pad has two pads for each of its axes (onnx.Pad 'node_0'): K == 4 does"),
    "CenterCropPad": (
        "y = CenterCropPad(x, k)",
        [1, 2, 3],
        "CenterCropPad: 'k' has 2 elements, one for each axis: K == 2 does not hold: 3 and 2",
    ),
    "Slice": (
        "y = Slice(x, k, k)",
        [0, 0, 0],
        "Slice: 'k' has at most one element for each axis: the sizes do not fit: K = 3",
    ),
    "axes of Slice": ("y = Slice(x, k, k, k)", [1, -1], "Slice: 'k' has an axis twice"),
    "axes of Pad": ("p = Concat <axis = 0> (k, k) y = Pad(x, p, , k)", [0, 0], "Pad: 'k' has an axis twice"),
    "axes of Unsqueeze": (
        "u = Unsqueeze(x, k) y = ReduceSum <keepdims = 0> (u)",
        [3, -1],
        "Unsqueeze: 'k' has an axis twice",
    ),
    "axes of a reduction": ("y = ReduceMax <keepdims = 0> (x, k)", [1, 1], "ReduceMax: 'k' has an axis twice"),
    "sizes of AffineGrid": (
        "t = Constant <value = float[1, 2, 3] {0, 0, 0, 0, 0, 0}> () a = AffineGrid(t, k) y = ReduceMax(a)",
        [1, 1, -2, 3],
        "AffineGrid: the sizes [1, 1, -2, 3] for 1 transformations",
    ),
    "the length of MelWeightMatrix": (
        """z = Constant <value_int = 0> () b = Gather(k, z) f = Constant <value_float = 9.0> ()
           m = MelWeightMatrix(b, b, b, f, f) y = ReduceSum(m)""",
        [-3],
        "the number of bins of MelWeightMatrix (onnx.MelWeightMatrix 'node_3'): 0 <= v0 does not hold: 0 and -3",
    ),
}


@pytest.mark.parametrize("case", COUNTED)
def test_what_data_say_of_sizes_is_held_against_the_operator(case: str, model: Make) -> None:
    nodes, given, message = COUNTED[case]
    program = sx.compile(model(f"g (float[N, 4] x, int64[K] k) => (float y) {{ {nodes} }}", opset=22))
    with pytest.raises(sx.InputError) as caught:
        program(zeros(3, 4), np.array(given))
    assert str(caught.value).startswith(message)
    assert "\n  --> node 'node_" in str(caught.value)


AXES = "float[N, 4] x, int64[1] s, int64[1] e, int64[K] a, int64[K] t"
MADE_OF_OTHERS = {
    "a step of 0": (
        "g (float[N, 4] x, int64[1] s, int64[1] e, int64[1] t) => (float[K, 4] z) "
        "{ a = Constant <value_ints = [0]> () z = Slice(x, s, e, a, t) }",
        {"s": [0], "e": [3], "t": [0]},
        "Slice: 't' has a step of 0, and a step must not be 0\n  --> node 'node_1'",
    ),
    "a step of 0 along any axis": (
        f"g ({AXES}) => (float[A, B] z) {{ z = Slice(x, s, e, a, t) }}",
        {"s": [0], "e": [3], "a": [1], "t": [0]},
        "Slice: 't' has a step of 0, and a step must not be 0\n  --> node 'node_0'",
    ),
    "an axis of Slice": (
        f"g ({AXES}) => (float[A, B] z) {{ z = Slice(x, s, e, a, t) }}",
        {"s": [0], "e": [3], "a": [2], "t": [1]},
        "Slice: 'a' has the axis 2; the rank is 2, so -2 <= axis < 2\n  --> node 'node_0'",
    ),
    "an axis of a reduction": (
        "g (float[N, 4] x, int64[K] a) => (float[A, B] z) { z = ReduceSum(x, a) }",
        {"a": [-3]},
        "ReduceSum: 'a' has the axis -3; the rank is 2, so -2 <= axis < 2\n  --> node 'node_0'",
    ),
    "an axis of CumSum": (
        "g (float[N, 4] x, int64 a) => (float[N, 4] z) { z = CumSum(x, a) }",
        {"a": 2},
        "CumSum: 'axis' has the axis 2; the rank is 2, so -2 <= axis < 2\n  --> node 'node_0'",
    ),
    "an axis of CumProd": (
        "g (float[N, 4] x, int64 a) => (float[N, 4] z) { z = CumProd(x, a) }",
        {"a": 2**63 - 1},
        f"CumProd: 'axis' has the axis {2**63 - 1}; the rank is 2, so -2 <= axis < 2\n  --> node 'node_0'",
    ),
    "an axis of DFT": (
        "g (float[N, 4, 1] x, int64 a) => (float[A, B, 2] z) { z = DFT(x, , a) }",
        {"a": 3},
        "DFT: 'axis' has the axis 3; the rank is 3, so -3 <= axis < 3\n  --> node 'node_0'",
    ),
}


@pytest.mark.parametrize("case", MADE_OF_OTHERS)
def test_operators_made_of_others_speak_of_their_own_operands(case: str, model: Make) -> None:
    text, given, message = MADE_OF_OTHERS[case]
    made = model(text, opset=26 if "CumProd" in text else 22)
    feeds = {name: np.array(value) for name, value in given.items()}
    feeds["x"] = zeros(3, 4, 1) if "DFT" in text else zeros(3, 4)
    with pytest.raises(sx.InputError) as caught:
        sx.compile(made)(feeds)
    assert str(caught.value) == message
    if "Cum" not in case:
        with pytest.raises(sx.InputError) as caught:
            sx.run(sx.lower(made, to="graph"), feeds)
        assert message.partition("\n")[0] in str(caught.value)


@pytest.mark.parametrize("operator", OUT_OF_RANGE)
def test_what_is_out_of_range_is_said_in_words(operator: str, model: Make) -> None:
    text, feeds, message = OUT_OF_RANGE[operator]
    program = sx.compile(model(text, opset=24), threads=1)
    with pytest.raises(sx.InputError) as caught:
        program(feeds)
    assert str(caught.value) == f"{operator}: {message}"


def test_two_calls_of_one_kernel_name_their_own_nodes(model: Make) -> None:
    text = """g (float[N, 4] x, int64[K] i, int64[K] j) => (float[K, 4] a, float[K, 4] b) {
        a = Gather <axis = 0> (x, i) b = Gather <axis = 0> (x, j)
    }"""
    program = sx.compile(model(text), threads=1)
    assert len(program.explain().to_dict()["functions"]) == 1
    for feeds, node in ((([9], [0]), "node_0"), (([0], [9]), "node_1"), (([9], [9]), "node_0")):
        with pytest.raises(sx.InputError, match=f"the index 9.*\n  --> node '{node}'"):
            program(zeros(3, 4), *map(np.array, feeds))


@pytest.mark.parametrize(
    ("text", "feeds", "message"),
    [
        (
            f"g ({ROWS}, float[M, 4] y) => (float[A, 4] z) {{ z = Add(x, y) }}",
            {"x": zeros(2, 4), "y": zeros(3, 4)},
            "sizes N and M broadcast (onnx.Add 'node_0'): the sizes do not fit: M = 3 (the size of 'y' axis 0), "
            "N = 2 (the size of 'x' axis 0)",
        ),
        (
            "g (float[N, K] x, float[M, 4] y) => (float[N, 4] z) { z = MatMul(x, y) }",
            {"x": zeros(2, 4), "y": zeros(3, 4)},
            "(onnx.MatMul 'node_0'): K == M does not hold: 4 and 3 (K is the size of 'x' axis 1, M is the size of "
            "'y' axis 0)",
        ),
        (
            f"g ({ROWS}, int64[1] k) => (float[N, K] v, int64[N, K] i) {{ v, i = TopK(x, k) }}",
            {"x": zeros(2, 4), "k": np.array([9])},
            "k of TopK is at most the axis' size (onnx.TopK 'node_0'): v0 <= 4 does not hold: 9 and 4 (v0 is element 0 "
            "of 'k')",
        ),
        (
            "g (float[N] x, float[M] y) => (float[A] z) "
            "{ n = NonZero(x) a = Constant <value_ints=[0]> () s = Squeeze(n, a) f = Cast <to=1> (s) z = Add(f, y) }",
            {"x": np.ones(4, np.float32), "y": zeros(3)},
            "M = 3 (the size of 'y' axis 0), u0 = 4 (the size of axis 1 of 'n')",
        ),
    ],
)
def test_guards_name_symbols_inputs_axes_and_sizes(text: str, feeds: dict[str, Any], message: str, model: Make) -> None:
    with pytest.raises(sx.InputError) as caught:
        sx.compile(model(text), threads=1)(feeds)
    assert message in str(caught.value) and "\n  --> node 'node_" in str(caught.value)
