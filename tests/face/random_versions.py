"""Random models whose pairs of kernels lack a fact on sizes: batches, inputs of lengths that may be equal or one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

INPUTS = {"x": ["B", "T", 8], "b": ["C", "U", 8], "r": ["V", 8], "w": [8, 8]}
SYMBOLS = ("B", "C", "T", "U", "V")
BORDERS: tuple[dict[str, int], ...] = (
    dict.fromkeys(SYMBOLS, 1),
    dict.fromkeys(SYMBOLS, 3),
    {"B": 1, "C": 1, "T": 5, "U": 5, "V": 5},
    {"B": 2, "C": 1, "T": 16, "U": 16, "V": 1},
    {"B": 1, "C": 4, "T": 17, "U": 1, "V": 17},
    {"B": 3, "C": 3, "T": 1, "U": 15, "V": 1},
    {"B": 3, "C": 1, "T": 1, "U": 1, "V": 4},
    {"B": 1, "C": 2, "T": 1, "U": 4, "V": 4},
    {"B": 0, "C": 1, "T": 4, "U": 4, "V": 4},
    {"B": 1, "C": 0, "T": 4, "U": 1, "V": 1},
    {"B": 2, "C": 2, "T": 0, "U": 1, "V": 1},
    {"B": 2, "C": 2, "T": 0, "U": 0, "V": 1},
    {"B": 2, "C": 3, "T": 4, "U": 4, "V": 4},
)
"""Sizes on both sides of what a version may test: one, equal, broadcast, none, no multiple of a vector."""


@dataclass
class Graph:
    """A model being made; `values` have three axes, the last of 8."""

    draw: random.Random
    nodes: list[Any] = field(default_factory=list[Any])
    constants: list[TensorProto] = field(default_factory=list[TensorProto])
    values: list[str] = field(default_factory=lambda: ["x"])

    def ints(self, values: int | list[int]) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def value(self) -> str:
        return self.values[-1] if self.draw.random() < 0.8 else self.draw.choice(self.values)


def pointwise(g: Graph) -> str:
    return g.add(g.draw.choice(("Tanh", "Abs", "Neg", "Sigmoid")), g.value())


def combined(g: Graph) -> str:
    return g.add(g.draw.choice(("Add", "Mul", "Max")), g.value(), g.draw.choice(("b", "r", "b", *g.values)))


def product(g: Graph) -> str:
    return g.add("MatMul", g.value(), "w")


def rows(g: Graph) -> str:
    return g.add(g.draw.choice(("Softmax", "LogSoftmax")), g.value(), axis=-1)


def turned(g: Graph) -> str:
    return g.add("Transpose", g.value(), perm=[1, 0, 2])


def reduced(g: Graph) -> str:
    return g.add("ReduceSum", g.value(), g.ints([g.draw.choice((0, 1, 2))]), keepdims=1)


def centred(g: Graph) -> str:
    x = g.value()
    mean = g.add("ReduceMean", x, g.ints([g.draw.choice((0, 1, -1))]), keepdims=1)
    return g.add("Sub", x, mean)


def running(g: Graph) -> str:
    return g.add("CumSum", g.value(), g.ints(g.draw.choice((0, 1, 2))))


def first(g: Graph) -> str:
    """The first row of each, spread again."""
    x, axis = g.value(), g.draw.choice((0, 1))
    return g.add("Mul", x, g.add("Slice", x, g.ints([0]), g.ints([1]), g.ints([axis])))


STEPS: tuple[Callable[[Graph], str], ...] = (
    pointwise, combined, combined, combined, product, rows, turned, reduced, centred, running, first,
)  # fmt: skip


def random_model(seed: int) -> ModelProto:
    g = Graph(random.Random(seed))
    for _ in range(g.draw.randint(3, 7)):
        g.values.append(g.draw.choice(STEPS)(g))
    outputs = list(dict.fromkeys([g.values[-1], *(v for v in g.values[1:] if g.draw.random() < 0.15)]))
    graph = helper.make_graph(
        g.nodes,
        "random",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in INPUTS.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None] * 3) for n in outputs],
        g.constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def feeds(seed: int, sizes: dict[str, int]) -> dict[str, Any]:
    data = np.random.default_rng(seed)
    shapes = {n: [sizes.get(str(d), d) for d in shape] for n, shape in INPUTS.items()}
    return {n: data.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}
