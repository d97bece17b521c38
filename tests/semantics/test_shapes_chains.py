"""Chains of operators, each on what the one before gave: expressions that grow stay exact at every size."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto as T
from onnx import helper as h

BINDINGS = [{"A": a, "B": b} for a in (0, 1, 2, 5, 8) for b in (1, 3, 4, 7)]
LAST = 2**63 - 1


class Chain:
    """Nodes on one tensor of three axes, [A, B, 4] at first."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.value = "x"

    def ints(self, *values: int) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.array(values, np.int64)
        return name

    def add(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(h.make_node(op_type, list(inputs), names, **attributes))
        return names

    def size(self, axis: int) -> str:
        """A vector of one: the size of an axis."""
        shape = self.add("Shape", self.value)[0]
        return self.add("Gather", shape, self.ints(axis))[0]

    def step(self, kind: str, axis: int, k: int) -> None:
        """Puts another tensor of three axes in place of the value."""
        x = self.value
        match kind:
            case "slice":
                self.value = self.add("Slice", x, self.ints(k - 2), self.ints(LAST), self.ints(axis))[0]
            case "stride":
                self.value = self.add("Slice", x, self.ints(0), self.ints(LAST), self.ints(axis), self.ints(k))[0]
            case "half":
                half = self.add("Div", self.size(axis), self.ints(2))[0]
                self.value = self.add("Slice", x, self.ints(0), half, self.ints(axis))[0]
            case "rest":
                half = self.add("Div", self.size(axis), self.ints(k + 1))[0]
                self.value = self.add("Slice", x, half, self.ints(LAST), self.ints(axis))[0]
            case "pad":
                self.value = self.add("Pad", x, self.ints(k - 1, 1), "", self.ints(axis))[0]
            case "fill up":
                size = self.size(axis)
                rest = self.add("Mod", size, self.ints(k + 1))[0]
                missing = self.add("Mod", self.add("Sub", self.ints(k + 1), rest)[0], self.ints(k + 1))[0]
                pads = self.add("Concat", self.ints(0), missing, axis=0)[0]
                self.value = self.add("Pad", x, pads, "", self.ints(axis))[0]
            case "twice":
                self.value = self.add("Concat", x, x, axis=axis)[0]
            case "turn":
                self.value = self.add("Transpose", x, perm=[[1, 0, 2], [2, 1, 0], [0, 2, 1]][axis])[0]
            case "fold":  # two axes into one, and a new one
                flat = self.add("Reshape", x, self.ints(0, -1) if axis else self.ints(-1, 4))[0]
                self.value = self.add("Unsqueeze", flat, self.ints(axis))[0]
            case "apart":
                flat = self.add("Flatten", x, axis=axis)[0]
                self.value = self.add("Unsqueeze", flat, self.ints(2))[0]
            case "pool":
                self.value = self.add("MaxPool", x, kernel_shape=[2], strides=[k], pads=[1, 0])[0]
            case "grow":
                self.value = self.add("Tile", x, self.ints(*[k if a == axis else 1 for a in range(3)]))[0]
            case "longest":
                most = self.add("Max", self.size(axis), self.ints(k + 2))[0]
                missing = self.add("Sub", most, self.size(axis))[0]
                pads = self.add("Concat", self.ints(0), missing, axis=0)[0]
                self.value = self.add("Pad", x, pads, "", self.ints(axis))[0]
            case "first":
                self.value = self.add("Split", x, outputs=2, axis=axis, num_outputs=2)[0]
            case _:
                cut = self.add("Slice", x, self.ints(0), self.ints(-1), self.ints(axis))[0]
                last = self.add("Slice", x, self.ints(-1), self.ints(LAST), self.ints(axis))[0]
                self.value = self.add("Concat", last, cut, axis=axis)[0]


KINDS = (
    "slice", "stride", "half", "rest", "pad", "fill up", "twice", "turn", "fold", "apart", "pool", "grow", "longest",
    "first", "roll",
)  # fmt: skip
steps = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 2), st.integers(1, 3)), min_size=2, max_size=6)


@settings(max_examples=25, deadline=None)
@given(steps=steps)
def test_sizes_along_a_chain(oracle: Any, steps: list[tuple[str, int, int]]) -> None:
    chain = Chain()
    for step in steps:
        chain.step(*step)
    model = oracle.make(chain.nodes, {"x": (T.FLOAT, ["A", "B", 4])}, [chain.value], chain.constants)
    outcome = oracle.check(model, BINDINGS)
    assert not outcome.fresh and not outcome.refused
