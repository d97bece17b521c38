"""Random graphs of movement, arithmetic, windows and templates: fused and unfused runs give the same bits."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import sardonyx as sx

SIZES = ((1, 8, 7, 9), (2, 8, 5, 33), (1, 8, 4, 4), (3, 8, 6, 18), (0, 8, 5, 6))


@dataclass
class Value:
    """A tensor [B, channels, rows, columns]."""

    name: str
    channels: int


@dataclass
class Graph:
    """A graph being made, from one seed."""

    seed: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw, self.data = random.Random(self.seed), np.random.default_rng(self.seed)

    def constant(self, array: object) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weights(self, *shape: int) -> str:
        return self.constant(self.data.standard_normal(shape).astype(np.float32))

    def numbers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def add(self, op: str, *inputs: str, channels: int, **attributes: object) -> Value:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return Value(name, channels)


Step = Callable[[Graph, Value], Value]


def pointwise(g: Graph, v: Value) -> Value:
    return g.add(g.draw.choice(("Abs", "Sigmoid", "Tanh", "Neg")), v.name, channels=v.channels)


def scale(g: Graph, v: Value) -> Value:
    return g.add("Mul", v.name, g.weights(v.channels, 1, 1), channels=v.channels)


def pad(g: Graph, v: Value) -> Value:
    sizes = [0, 0, *(g.draw.randint(0, 2) for _ in range(2))] * 2
    mode = g.draw.choice(("constant", "reflect", "edge"))
    return g.add("Pad", v.name, g.numbers(*sizes), channels=v.channels, mode=mode)


def cut(g: Graph, v: Value) -> Value:
    step = g.draw.choice((1, 1, 2, -1))
    start, end = (g.draw.randint(0, 1), 1 << 31) if step > 0 else ((1 << 31) - 1, -(1 << 31))
    operands = (g.numbers(start), g.numbers(end), g.numbers(g.draw.choice((2, 3))), g.numbers(step))
    return g.add("Slice", v.name, *operands, channels=v.channels)


def join(g: Graph, v: Value) -> Value:
    axis = g.draw.choice((1, 3))
    return g.add("Concat", v.name, v.name, channels=v.channels * (2 if axis == 1 else 1), axis=axis)


def turn(g: Graph, v: Value) -> Value:
    return g.add("Transpose", v.name, channels=v.channels, perm=[0, 1, 3, 2])


def pick(g: Graph, v: Value) -> Value:
    return g.add("Gather", v.name, g.numbers(0, v.channels - 1, 0), channels=3, axis=1)


def convolution(g: Graph, v: Value) -> Value:
    channels, kernel, stride = g.draw.choice((4, 8, 16)), g.draw.choice((1, 3)), g.draw.choice((1, 1, 2))
    pads = [kernel // 2] * 4
    w = g.weights(channels, v.channels, kernel, kernel)
    return g.add("Conv", v.name, w, channels=channels, pads=pads, strides=[stride, stride])


def one_channel_a_group(g: Graph, v: Value) -> Value:
    w = g.weights(v.channels, 1, 3, 3)
    return g.add("Conv", v.name, w, channels=v.channels, pads=[1] * 4, group=v.channels)


def product(g: Graph, v: Value) -> Value:
    return g.add("MatMul", v.name, turn(g, v).name, channels=v.channels)


def pool(g: Graph, v: Value) -> Value:
    op = g.draw.choice(("AveragePool", "MaxPool"))
    return g.add(op, v.name, channels=v.channels, kernel_shape=[3, 3], pads=[1] * 4)


def enlarge(g: Graph, v: Value) -> Value:
    scales = g.constant(np.array([1, 1, 2, 2], np.float32))
    return g.add("Resize", v.name, "", scales, channels=v.channels, mode=g.draw.choice(("nearest", "linear")))


def running_sum(g: Graph, v: Value) -> Value:
    return g.add("CumSum", v.name, g.constant(np.int64(3)), channels=v.channels)


def softmax(g: Graph, v: Value) -> Value:
    return g.add("Softmax", v.name, channels=v.channels, axis=-1)


MOVES: tuple[Step, ...] = (pointwise, pointwise, scale, pad, cut, join, turn, pick)
ANCHORS: tuple[Step, ...] = (
    convolution, convolution, one_channel_a_group, product, pool, enlarge, running_sum, softmax,
)  # fmt: skip


def random_model(seed: int) -> onnx.ModelProto:
    g = Graph(seed)
    v = Value("x", 8)
    made, results = [v], list[Value]()
    for _ in range(g.draw.randint(2, 3)):
        for _ in range(g.draw.randint(1, 3)):
            v = g.draw.choice(MOVES)(g, v)
            made.append(v)
        v = g.draw.choice(ANCHORS)(g, v)
        made.append(v)
        if g.draw.random() < 0.4:
            results.append(g.draw.choice(ANCHORS)(g, g.draw.choice(made)))
    if g.draw.random() < 0.3:
        results.append(g.draw.choice(made[1:]))
    names = dict.fromkeys(r.name for r in (*results, v))
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 4) for name in names]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 8, "H", "W"])
    graph = helper.make_graph(g.nodes, "random", [x], outputs, g.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def check(seed: int) -> None:
    model = random_model(seed)
    fused = sx.compile(model, cache=False, threads=1)
    apart = sx.compile(model, cache=False, threads=1, fuse=False)
    assert len(fused.explain().to_dict()["kernels"]) <= len(apart.explain().to_dict()["kernels"])
    for shape in SIZES:
        x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        try:
            want = apart(x=x)
        except sx.InputError:
            continue  # a mirrored edge is longer than the input, a window than what it is over
        found = fused(x=x)
        for name, value in want.items():
            assert found[name].tobytes() == value.tobytes(), (shape, name)


@pytest.mark.parametrize("seed", range(4))
def test_a_random_graph_has_the_same_bits_fused_and_apart(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 200))
def test_many_random_graphs_have_the_same_bits(seed: int) -> None:
    check(seed)
