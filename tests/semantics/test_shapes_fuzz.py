"""Shape and value rules against onnxruntime: random attributes, sizes 0, 1, odd, equal and unequal."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto as T
from onnx import helper as h

N = h.make_node
SIZES = (0, 1, 2, 3, 4, 7)
PAIRS = [{"A": a, "B": b} for a, b in product(SIZES, repeat=2)]
ONES = [{"A": a} for a in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 33)]
positions = st.one_of(st.integers(-6, 9), st.sampled_from([2**31 - 1, 2**63 - 1, -(2**31), -(2**63)]))


def i64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


@settings(max_examples=20, deadline=None)
@given(start=positions, end=positions, step=st.sampled_from([1, 1, 2, 3, -1, -2, 2**31 - 1]))
def test_slice(oracle: Any, start: int, end: int, step: int) -> None:
    if step < 0 and end in (2**31 - 1, 2**63 - 1):
        return  # onnxruntime reads it as "to the beginning", the standard as a position past the end
    model = oracle.make(
        [N("Slice", ["x", "s", "e", "a", "k"], ["y"])],
        {"x": (T.FLOAT, ["A"])},
        ["y"],
        {"s": i64(start), "e": i64(end), "a": i64(0), "k": i64(step)},
    )
    outcome = oracle.check(model, ONES)
    assert outcome.ran == len(ONES) and not outcome.refused and not outcome.fresh


@settings(max_examples=20, deadline=None)
@given(
    step=st.sampled_from([1, 2, -1, -3]),
    offsets=st.tuples(st.integers(-3, 3), st.integers(-3, 3)),
    whose=st.sampled_from(["x", "w"]),
)
def test_slice_at_positions_that_are_sizes(oracle: Any, step: int, offsets: tuple[int, int], whose: str) -> None:
    model = oracle.make(
        [
            N("Shape", [whose], ["n"]),
            N("Add", ["n", "o0"], ["s"]),
            N("Sub", ["o1", "n"], ["e"]),
            N("Slice", ["x", "s", "e", "a", "k"], ["y"]),
        ],
        {"x": (T.FLOAT, ["A"]), "w": (T.FLOAT, ["B"])},
        ["y"],
        {"o0": i64(offsets[0]), "o1": i64(offsets[1]), "a": i64(0), "k": i64(step)},
    )
    outcome = oracle.check(model, PAIRS)
    assert outcome.ran == len(PAIRS) and not outcome.refused and not outcome.fresh


@settings(max_examples=10, deadline=None)
@given(start=st.integers(-3, 3), end=positions, by=st.integers(1, 3), forward=st.booleans())
def test_slice_by_steps_that_are_sizes(oracle: Any, start: int, end: int, by: int, forward: bool) -> None:
    if not forward and end in (2**31 - 1, 2**63 - 1):
        return
    model = oracle.make(
        [
            N("Shape", ["w"], ["n"]),
            N("Add" if forward else "Sub", ["zero", "n"], ["m"]),
            N("Mul", ["m", "by"], ["k"]),
            N("Slice", ["x", "s", "e", "zero", "k"], ["y"]),
        ],
        {"x": (T.FLOAT, ["A"]), "w": (T.FLOAT, ["B"])},
        ["y"],
        {"s": i64(start), "e": i64(end), "by": i64(by), "zero": i64(0)},
    )
    outcome = oracle.check(model, PAIRS)
    assert outcome.ran and not outcome.refused and not outcome.fresh


@settings(max_examples=13, deadline=None)
@given(
    values=st.lists(st.tuples(st.integers(-5, 8), st.integers(-5, 8)), min_size=4, max_size=4),
    step=st.sampled_from([1, 2, -1]),
)
def test_slice_at_positions_that_are_data(oracle: Any, values: list[tuple[int, int]], step: int) -> None:
    model = oracle.make(
        [N("Slice", ["x", "s", "e", "a", "k"], ["y"])],
        {"x": (T.FLOAT, ["A"]), "s": (T.INT64, [1]), "e": (T.INT64, [1])},
        ["y"],
        {"a": i64(0), "k": i64(step)},
    )
    for start, end in values:
        feeds = {"s": lambda _, v=start: [v], "e": lambda _, v=end: [v]}
        outcome = oracle.check(model, ONES[:6], feeds)
        assert outcome.ran == 6 and not outcome.refused and not outcome.fresh


@settings(max_examples=26, deadline=None)
@given(shape=st.lists(st.sampled_from([0, -1, 1, 2, 3, 6]), min_size=1, max_size=4), allow=st.booleans())
def test_reshape(oracle: Any, shape: list[int], allow: bool) -> None:
    if shape.count(-1) > 1 or (allow and 0 in shape):
        return
    model = oracle.make(
        [N("Reshape", ["x", "s"], ["y"], allowzero=int(allow))],
        {"x": (T.FLOAT, ["A", "B", 2, 3])},
        ["y"],
        {"s": i64(*shape)},
    )
    outcome = oracle.check(model, PAIRS)
    assert not outcome.refused and not outcome.fresh


@settings(max_examples=20, deadline=None)
@given(parts=st.lists(st.sampled_from(["a", "b", "-1", "0", "2", "ab", "1"]), min_size=1, max_size=3))
def test_reshape_to_sizes(oracle: Any, parts: list[str]) -> None:
    if parts.count("-1") > 1:
        return
    nodes = [
        N("Shape", ["x"], ["s"]),
        N("Gather", ["s", "i0"], ["a"]),
        N("Gather", ["s", "i1"], ["b"]),
        N("Mul", ["a", "b"], ["ab"]),
        N("Concat", parts, ["t"], axis=0),
        N("Reshape", ["x", "t"], ["y"]),
    ]
    inits = {"i0": i64(0), "i1": i64(1), "-1": i64(-1), "0": i64(0), "1": i64(1), "2": i64(2)}
    model = oracle.make(nodes, {"x": (T.FLOAT, ["A", "B", 2])}, ["y"], inits)
    outcome = oracle.check(model, PAIRS)
    # a size of 0 that Reshape would read as "copy" is refused; nothing else is
    assert all(0 in r.values() for r in outcome.refused) and not outcome.fresh


@settings(max_examples=13, deadline=None)
@given(values=st.lists(st.sampled_from([0, -1, 1, 2, 3, 4, 6, 12]), min_size=2, max_size=2))
def test_reshape_to_data(oracle: Any, values: list[int]) -> None:
    model = oracle.make([N("Reshape", ["x", "s"], ["y"])], {"x": (T.FLOAT, ["A", 4]), "s": (T.INT64, [2])}, ["y"])
    outcome = oracle.check(model, ONES[1:8], {"s": lambda _: values})
    assert not outcome.refused and not outcome.fresh


@settings(max_examples=20, deadline=None)
@given(
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    pads=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    kind=st.sampled_from(["Conv", "MaxPool", "AveragePool", "ceil", "SAME_UPPER", "VALID", "ConvTranspose"]),
)
def test_windows(oracle: Any, kernel: int, stride: int, dilation: int, pads: tuple[int, int], kind: str) -> None:
    common: dict[str, Any] = {"strides": [stride], "dilations": [dilation], "kernel_shape": [kernel]}
    if kind in ("SAME_UPPER", "VALID"):
        node = N("Conv", ["x", "w"], ["y"], auto_pad=kind, **{**common, "dilations": [1]})
    elif kind in ("Conv", "ConvTranspose"):
        node = N(kind, ["x", "w"], ["y"], pads=list(pads), **common)
    else:
        if max(pads) >= kernel:  # pools need pads below the window
            return
        op = "MaxPool" if kind == "ceil" else kind
        node = N(op, ["x"], ["y"], pads=list(pads), ceil_mode=int(kind == "ceil"), **common)
    weight = np.ones((2, 2, kernel), np.float32)
    model = oracle.make([node], {"x": (T.FLOAT, ["B", 2, "A"])}, ["y"], {"w": weight}, opset=19)
    bindings = [{"A": a, "B": b} for a in (1, 2, 3, 4, 5, 7, 8, 12, 17) for b in (1, 2)]
    outcome = oracle.check(model, bindings)
    reach = (kernel - 1) * dilation + 1
    assert not outcome.fresh
    assert kind == "ConvTranspose" or all(r["A"] + sum(pads) < reach for r in outcome.refused)


@settings(max_examples=20, deadline=None)
@given(scale=st.sampled_from([0.5, 2.0, 1.5, 0.25, 0.75, 3.0, 0.3, 0.7, 1.1, 0.6, 1 / 3]))
def test_resize_by_scales(oracle: Any, scale: float) -> None:
    model = oracle.make(
        [N("Resize", ["x", "", "s"], ["y"], mode="nearest")],
        {"x": (T.FLOAT, [1, 1, "A"])},
        ["y"],
        {"s": np.array([1, 1, scale], np.float32)},
    )
    outcome = oracle.check(model, [{"A": a} for a in range(1, 130)])
    assert outcome.ran > 100 and not outcome.refused and not outcome.fresh


@settings(max_examples=8, deadline=None)
@given(pads=st.lists(st.integers(-2, 3), min_size=4, max_size=4))
def test_pad_and_split(oracle: Any, pads: list[int]) -> None:
    model = oracle.make(
        [N("Pad", ["x", "p"], ["y"]), N("Split", ["y"], ["a", "b", "c"], axis=1, num_outputs=3)],
        {"x": (T.FLOAT, ["A", "B"])},
        ["y", "a", "b", "c"],
        {"p": i64(*pads)},
    )
    outcome = oracle.check(model, PAIRS)
    assert not outcome.fresh
    # onnxruntime may give a negative size a value of its own
    assert all(r["A"] + pads[0] + pads[2] < 0 or r["B"] + pads[1] + pads[3] < 3 for r in outcome.refused)


@settings(max_examples=10, deadline=None)
@given(shapes=st.lists(st.lists(st.sampled_from(["A", "B", 1, 3]), max_size=3), min_size=2, max_size=3))
def test_broadcasting(oracle: Any, shapes: list[list[Any]]) -> None:
    names = [f"x{i}" for i in range(len(shapes))]
    try:
        model = oracle.make([N("Sum", names, ["y"])], {n: (T.FLOAT, s) for n, s in zip(names, shapes)}, ["y"])
        outcome = oracle.check(model, PAIRS)
    except AssertionError:
        raise
    assert not outcome.refused and not outcome.fresh


@settings(max_examples=10, deadline=None)
@given(start=st.integers(-3, 5), delta=st.sampled_from([1, 2, 3, -1, -2]), factor=st.integers(-2, 3))
def test_range(oracle: Any, start: int, delta: int, factor: int) -> None:
    nodes = [
        N("Size", ["x"], ["n"]),
        N("Mul", ["n", "f"], ["m"]),
        N("Range", ["s", "m", "d"], ["y"]),
        N("Range", ["m", "s", "d"], ["z"]),
    ]
    inits = {"s": np.int64(start), "d": np.int64(delta), "f": np.int64(factor)}
    model = oracle.make(nodes, {"x": (T.FLOAT, ["A"])}, ["y", "z"], {k: np.asarray(v) for k, v in inits.items()})
    outcome = oracle.check(model, ONES)
    assert outcome.ran == len(ONES) and not outcome.refused and not outcome.fresh


ARITHMETIC = st.recursive(
    st.sampled_from(["a", "b", "c1", "c2", "c3", "m1"]),
    lambda c: st.one_of(
        st.tuples(st.sampled_from(["Add", "Sub", "Mul", "Max", "Min"]), c, c),
        st.tuples(st.sampled_from(["Div", "Mod"]), c, st.sampled_from(["c2", "c3"])),
        st.tuples(st.sampled_from(["Neg", "Abs", "Half", "Third", "Ceil", "Int32"]), c),
    ),
    max_leaves=5,
)


def _emit(tree: Any, nodes: list[Any]) -> str:
    if isinstance(tree, str):
        return tree
    op, *args = tree
    inputs = [_emit(a, nodes) for a in args]
    out = f"t{len(nodes)}"
    if op in ("Half", "Third", "Ceil"):
        nodes += [
            N("Cast", [inputs[0]], [f"{out}f"], to=T.FLOAT),
            N("Mul" if op == "Half" else "Div", [f"{out}f", "half" if op == "Half" else "three"], [f"{out}g"]),
            N("Ceil" if op == "Ceil" else "Floor", [f"{out}g"], [f"{out}h"]),
            N("Cast", [f"{out}h"], [out], to=T.INT64),
        ]
    elif op == "Int32":
        nodes += [N("Cast", inputs, [f"{out}i"], to=T.INT32), N("Cast", [f"{out}i"], [out], to=T.INT64)]
    else:
        nodes.append(N(op, inputs, [out]))
    return out


@settings(max_examples=40, deadline=None)
@given(tree=ARITHMETIC)
def test_values_of_shape_arithmetic(oracle: Any, tree: Any) -> None:
    """The size of a Range up to the value is the value where it is positive."""
    nodes = [N("Shape", ["x"], ["s"]), N("Split", ["s"], ["a1", "b1"], axis=0, num_outputs=2)]
    nodes += [N("Squeeze", ["a1"], ["a"]), N("Squeeze", ["b1"], ["b"])]
    value = _emit(tree, nodes)
    nodes += [N("Min", [value, "most"], ["v"]), N("Range", ["zero", "v", "c1"], ["y"])]
    numbers = {"c1": 1, "c2": 2, "c3": 3, "m1": -1, "zero": 0, "most": 500}
    inits: dict[str, Any] = {k: np.asarray(v, np.int64) for k, v in numbers.items()}
    inits |= {"half": np.asarray(0.5, np.float32), "three": np.asarray(3, np.float32)}
    model = oracle.make(nodes, {"x": (T.BOOL, ["A", "B"])}, ["y"], inits)
    outcome = oracle.check(model, PAIRS)
    assert outcome.ran == len(PAIRS) and not outcome.refused and not outcome.fresh


@settings(max_examples=8, deadline=None)
@given(a=st.integers(-2, 6), b=st.integers(0, 5))
def test_values_that_are_data(oracle: Any, a: int, b: int) -> None:
    nodes = [
        N("Add", ["a", "one"], ["c"]),
        N("Mul", ["c", "b"], ["d"]),
        N("Range", ["zero", "d", "one"], ["r"]),
        N("Unsqueeze", ["b", "axis"], ["b1"]),
        N("ConstantOfShape", ["b1"], ["z"]),
        N("Tile", ["x", "b1"], ["t"]),
        N("Expand", ["u", "b1"], ["e"]),
        N("TopK", ["x", "b1"], ["k", "ki"]),
    ]
    inits = {"zero": np.asarray(0, np.int64), "one": np.asarray(1, np.int64), "axis": i64(0)}
    inputs = {"x": (T.FLOAT, ["A"]), "u": (T.FLOAT, [1]), "a": (T.INT64, []), "b": (T.INT64, [])}
    model = oracle.make(nodes, inputs, ["r", "z", "t", "e", "k"], inits)
    outcome = oracle.check(model, ONES[:8], {"a": lambda _: a, "b": lambda _: b})
    # int64 arithmetic on data may wrap, so the length of the range is a size of its own; all others are expressions
    assert not outcome.refused and outcome.fresh == outcome.ran


@settings(max_examples=12, deadline=None)
@given(tree=ARITHMETIC, op=st.sampled_from(["Div", "Mod"]), divisor=st.sampled_from(["a", "b", "ab"]))
def test_divisors_that_are_sizes(oracle: Any, tree: Any, op: str, divisor: str) -> None:
    """Of 0 is refused, where onnxruntime ends the process; the quotient of a negative number rounds to 0."""
    nodes = [N("Shape", ["x"], ["s"]), N("Split", ["s"], ["a1", "b1"], axis=0, num_outputs=2)]
    nodes += [N("Squeeze", ["a1"], ["a"]), N("Squeeze", ["b1"], ["b"]), N("Mul", ["a", "b"], ["ab"])]
    nodes += [N(op, [_emit(tree, nodes), divisor], ["q"])]
    nodes += [N("Min", ["q", "most"], ["v"]), N("Range", ["zero", "v", "c1"], ["y"])]
    numbers = {"c1": 1, "c2": 2, "c3": 3, "m1": -1, "zero": 0, "most": 500}
    inits: dict[str, Any] = {k: np.asarray(v, np.int64) for k, v in numbers.items()}
    inits |= {"half": np.asarray(0.5, np.float32), "three": np.asarray(3, np.float32)}
    model = oracle.make(nodes, {"x": (T.BOOL, ["A", "B"])}, ["y"], inits)
    outcome = oracle.check(model, [pair for pair in PAIRS if 0 not in pair.values()])
    assert outcome.ran and not outcome.refused and not outcome.fresh
    assert any(str(guard).startswith("1 <= ") for guard in oracle.infer(model).guards)
