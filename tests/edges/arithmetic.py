"""Random small models whose sizes are computed: shapes taken apart, added, divided, and put together again.

A model grows from inputs whose sizes are symbols.  Each step takes values that are there and numbers that arithmetic on
sizes gives, whatever they may be: many models run at few sizes only, and what does not fit has to be refused.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from .values import F32, I64, Array

SHAPES: tuple[tuple[int | str, ...], ...] = (
    ("A",), ("A", "B"), ("B", "A"), ("A", 3), ("A", 1), (1, "B"), ("A", "B", 2), ("A", "A"), ("B",), (), (4, "B"),
)  # fmt: skip
SIZES = ((1, 1), (4, 4), (3, 5), (5, 3), (2, 1), (1, 6), (0, 0), (0, 3), (3, 0))
LARGEST = 30
"""No size is made larger than this at once."""


class Sized:
    """A graph that grows: `values` by name with their rank, `numbers` that are sizes or made of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: dict[str, tuple[int | str, ...]] = {}
        self.values: dict[str, int] = {}
        self.numbers: list[str] = []

    def add(self, op: str, inputs: list[str], results: int = 1, **attributes: Any) -> list[str]:
        names = [f"{op.lower()}{len(self.nodes)}_{at}" for at in range(results)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names

    def constant(self, value: Any, dtype: np.dtype = I64) -> str:
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def keep(self, op: str, inputs: list[str], rank: int, **attributes: Any) -> str:
        """A node whose result is a value of this rank."""
        name = self.add(op, inputs, **attributes)[0]
        self.values[name] = rank
        return name

    def value(self, low: int = 0, high: int = 3) -> str:
        """A value of a rank between these; late ones more often.  Raises IndexError where there is none."""
        fitting = [v for v, rank in self.values.items() if low <= rank <= high]
        return self.random.choice(fitting[-3:] if self.random.random() < 0.7 else fitting)

    def axis(self, value: str) -> int:
        return self.random.randrange(self.values[value])

    def number(self) -> str:
        """A size of a value, a constant, or arithmetic on numbers."""
        kind = self.random.random()
        if kind < 0.5 or not self.numbers:
            value = self.value(1)
            shape = self.add("Shape", [value])[0]
            name = self.add("Gather", [shape, self.constant(self.axis(value))], axis=0)[0]
        elif kind < 0.65:
            return self.constant(self.random.choice([-2, -1, 0, 1, 1, 2, 3, 4]))
        else:
            name = self.arithmetic(self.random.choice(self.numbers))
        self.numbers.append(name)
        return name

    def arithmetic(self, number: str) -> str:
        op = self.random.choice(["Add", "Sub", "Sub", "Mul", "Min", "Max", "Div", "Mod", "Neg", "Abs"])
        if op in ("Neg", "Abs"):
            operands = [number]
        elif op in ("Div", "Mod"):
            divisor = self.add("Max", [self.random.choice(self.numbers), self.constant(1)])[0]
            operands = [number, self.random.choice([self.constant(2), self.constant(3), self.constant(-2), divisor])]
        else:
            operands = [number, self.number()]
        return self.add("Min", [self.add(op, operands)[0], self.constant(LARGEST)])[0]

    def vector(self, numbers: list[str]) -> str:
        parts = [self.add("Unsqueeze", [n, self.constant([0])])[0] for n in numbers]
        return self.add("Concat", parts, axis=0)[0] if parts else self.constant([])

    def numbers_of(self, count: int) -> str:
        return self.vector([self.number() for _ in range(count)])


Step = Callable[[Sized], object]


def sliced(s: Sized) -> object:
    x = s.value(1)
    step = s.constant([s.random.choice([1, 1, 2, -1, 3])])
    return s.keep("Slice", [x, s.numbers_of(1), s.numbers_of(1), s.constant([s.axis(x)]), step], s.values[x])


def padded(s: Sized) -> object:
    x = s.value(1, 2)
    return s.keep("Pad", [x, s.numbers_of(2 * s.values[x])], s.values[x], mode=s.random.choice(["constant", "edge"]))


def ranged(s: Sized) -> object:
    made = s.add("Range", [s.constant(0), s.number(), s.constant(s.random.choice([1, 1, 2, -1]))])
    return s.keep("Cast", made, 1, to=T.FLOAT)


def tiled(s: Sized) -> object:
    x = s.value(1, 2)
    return s.keep("Tile", [x, s.numbers_of(s.values[x])], s.values[x])


def expanded(s: Sized) -> object:
    x, count = s.value(), s.random.randrange(4)
    return s.keep("Expand", [x, s.numbers_of(count)], max(count, s.values[x]))


def reshaped(s: Sized) -> object:
    x, count = s.value(), s.random.randrange(1, 4)
    numbers = [s.number() for _ in range(count)]
    if s.random.random() < 0.6:
        numbers[s.random.randrange(count)] = s.constant(-1)
    return s.keep("Reshape", [x, s.vector(numbers)], count)


def split(s: Sized) -> object:
    x = s.value(1)
    for name in s.add("Split", [x, s.numbers_of(2)], results=2, axis=s.axis(x)):
        s.values[name] = s.values[x]
    return x


def filled(s: Sized) -> object:
    count = s.random.randrange(3)
    return s.keep("ConstantOfShape", [s.numbers_of(count)], count, value=helper.make_tensor("v", T.FLOAT, [1], [0.5]))


def combined(s: Sized) -> object:
    x, y = s.value(), s.value()
    return s.keep(s.random.choice(["Add", "Mul", "Sub", "Max"]), [x, y], max(s.values[x], s.values[y]))


def product(s: Sized) -> object:
    x, y = s.value(1), s.value(1)
    ranks = s.values[x], s.values[y]
    return s.keep("MatMul", [x, y], max(ranks) - (min(ranks) == 1) - (max(ranks) == 1))


def joined(s: Sized) -> object:
    x = s.value(1)
    rank = s.values[x]
    return s.keep("Concat", [x, s.value(rank, rank)], rank, axis=s.axis(x))


def reduced(s: Sized) -> object:
    x, keep = s.value(1), s.random.randrange(2)
    return s.keep("ReduceSum", [x, s.constant([s.axis(x)])], s.values[x] - 1 + keep, keepdims=keep)


def transposed(s: Sized) -> object:
    x = s.value(1)
    return s.keep("Transpose", [x], s.values[x], perm=s.random.sample(range(s.values[x]), s.values[x]))


def chosen(s: Sized) -> object:
    x = s.value(1)
    return s.keep("TopK", [x, s.numbers_of(1)], s.values[x], results=2, axis=s.axis(x))


def counted(s: Sized) -> object:
    x = s.value(2, 2)
    return s.keep("CumSum", [x, s.constant(s.axis(x))], 2)


def branched(s: Sized) -> object:
    """What only one branch needs of sizes is not asked where the other one runs."""
    x, y = s.value(0, 2), s.value(0, 2)
    rank = max(s.values[x], s.values[y])
    z = s.value(rank, rank)
    condition = s.add(s.random.choice(["Greater", "Equal", "Less"]), [s.number(), s.number()])
    bodies = [
        helper.make_graph(
            [helper.make_node(op, operands, [result])], "body", [], [helper.make_empty_tensor_value_info(result)]
        )
        for op, operands, result in (("Add", [x, y], f"t{len(s.nodes)}"), ("Neg", [z], f"e{len(s.nodes)}"))
    ]
    return s.keep("If", condition, rank, then_branch=bodies[0], else_branch=bodies[1])


STEPS: tuple[Step, ...] = (
    sliced, sliced, padded, ranged, ranged, tiled, tiled, expanded, reshaped, reshaped, reshaped, split, filled,
    combined, combined, combined, product, product, joined, joined, reduced, transposed, chosen, counted, branched,
)  # fmt: skip


def model_of_sizes(seed: int) -> tuple[onnx.ModelProto, list[dict[str, Array]]]:
    """A model of a few steps, and inputs at sizes that are 0, 1, equal and not."""
    s = Sized(seed)
    shapes = [s.random.choice(SHAPES) for _ in range(s.random.randrange(1, 3))]
    for at, shape in enumerate(shapes if any(shapes) else [("A", "B")]):
        s.inputs[f"x{at}"] = shape
        s.values[f"x{at}"] = len(shape)
    for _ in range(s.random.randrange(1, 5)):
        try:
            s.random.choice(STEPS)(s)
        except IndexError:  # no value is of such a rank
            continue
    outputs = [v for v in s.values if v not in s.inputs][-4:]
    graph = helper.make_graph(
        s.nodes, "sizes",
        [helper.make_tensor_value_info(name, T.FLOAT, shape) for name, shape in s.inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs], s.initializers,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    rng = np.random.default_rng(seed)
    feeds: list[dict[str, Array]] = []
    for sizes in SIZES:
        named = dict(zip("AB", sizes))
        numbers = {name: [named.get(str(d), d) for d in shape] for name, shape in s.inputs.items()}
        feeds.append({name: rng.standard_normal(shape).astype(F32) for name, shape in numbers.items()})
    return model, feeds
