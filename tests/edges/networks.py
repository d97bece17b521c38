"""Random networks: chains and diamonds of operators of all kinds on small tensors, with symbolic sizes.

A network grows from its inputs: each step takes values that are there and an operator that is valid on them.  Values
stay moderate: what could grow is brought back by a bounded function, so that two implementations stay comparable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .values import F32, I64, Array, Rng

OPSET = 22


@dataclass(frozen=True)
class Value:
    """A value of the network by its name: sizes are numbers, or names of symbols."""

    name: str
    dims: tuple[int | str, ...]


@dataclass
class Network:
    """A graph that grows; `bindings` are the numbers that the symbols have in the run."""

    rng: Rng
    bindings: dict[str, int]
    dtype: np.dtype = F32
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    count: int = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def size(self, dim: int | str) -> int:
        return dim if isinstance(dim, int) else self.bindings[dim]

    def constant(self, array: Array) -> str:
        name = self.name("c")
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, I64))

    def weights(self, *shape: int) -> str:
        return self.constant((self.rng.standard_normal(shape) / np.sqrt(max(1, shape[0]))).astype(self.dtype))

    def add(self, op: str, inputs: list[str], dims: tuple[int | str, ...], **attributes: Any) -> Value:
        value = Value(self.name("v"), dims)
        self.nodes.append(helper.make_node(op, inputs, [value.name], **attributes))
        self.values.append(value)
        return value

    def pick(self) -> Value:
        """One of the last values, more often than others."""
        at = len(self.values) - 1 - min(int(self.rng.exponential(2)), len(self.values) - 1)
        return self.values[at]


Step = Callable[[Network, Value], Value | None]


def choice(rng: Rng, *options: Any) -> Any:
    return options[rng.integers(len(options))]


def unary(n: Network, x: Value) -> Value:
    op = choice(
        n.rng,
        "Relu",
        "Sigmoid",
        "Tanh",
        "Abs",
        "Neg",
        "Erf",
        "Sin",
        "Cos",
        "Softplus",
        "Softsign",
        "Elu",
        "Gelu",
        "HardSwish",
        "LeakyRelu",
        "Selu",
        "Mish",
        "HardSigmoid",
        "Identity",
        "Celu",
    )
    return n.add(op, [x.name], x.dims)


def bounded_root(n: Network, x: Value) -> Value:
    return n.add("Sqrt", [n.add("Abs", [x.name], x.dims).name], x.dims)


def binary(n: Network, x: Value) -> Value:
    y = next((v for v in reversed(n.values) if v.dims == x.dims and v is not x and n.rng.random() < 0.7), x)
    result = n.add(choice(n.rng, "Add", "Sub", "Mul", "Max", "Min"), [x.name, y.name], x.dims)
    return n.add("Tanh", [result.name], x.dims)


def scaled(n: Network, x: Value) -> Value | None:
    """By a constant that broadcasts."""
    if not x.dims or isinstance(x.dims[-1], str):
        return n.add("Mul", [x.name, n.constant(np.array(0.5, n.dtype))], x.dims)
    op = choice(n.rng, "Add", "Mul", "Sub", "Div", "PRelu")
    w = n.rng.uniform(0.5, 1.5, (x.dims[-1],)).astype(n.dtype)
    return n.add(op, [x.name, n.constant(w)], x.dims)


def compared(n: Network, x: Value) -> Value:
    op = choice(n.rng, "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
    condition = Value(n.name("b"), x.dims)
    n.nodes.append(helper.make_node(op, [x.name, n.constant(np.array(0.1, n.dtype))], [condition.name]))
    if n.rng.random() < 0.3:
        turned = n.name("b")
        n.nodes.append(helper.make_node("Not", [condition.name], [turned]))
        condition = Value(turned, x.dims)
    return n.add("Where", [condition.name, x.name, n.constant(np.array(-0.5, n.dtype))], x.dims)


def clipped(n: Network, x: Value) -> Value:
    return n.add(
        "Clip",
        [x.name, n.constant(np.array(-0.7, n.dtype)), choice(n.rng, "", n.constant(np.array(0.9, n.dtype)))],
        x.dims,
    )


def reduced(n: Network, x: Value) -> Value | None:
    if not x.dims:
        return None
    axis, keep = int(n.rng.integers(len(x.dims))), int(n.rng.integers(2))
    if n.size(x.dims[axis]) == 0:
        return None
    op = choice(
        n.rng,
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceSum",
        "ReduceL2",
        "ReduceLogSumExp",
        "ReduceL1",
        "ReduceSumSquare",
    )
    dims = (*x.dims[:axis], *([1] if keep else []), *x.dims[axis + 1 :])
    shown = axis - len(x.dims) if n.rng.integers(2) else axis
    result = n.add(op, [x.name, n.ints(shown)], dims, keepdims=keep)
    if keep:
        result = n.add(choice(n.rng, "Sub", "Add", "Mul"), [x.name, result.name], x.dims)
    return n.add("Tanh", [result.name], result.dims)


def softmax(n: Network, x: Value) -> Value | None:
    if not x.dims:
        return None
    return n.add(
        choice(n.rng, "Softmax", "LogSoftmax", "Softmax"),
        [x.name],
        x.dims,
        axis=int(n.rng.integers(-len(x.dims), len(x.dims))),
    )


def normalized(n: Network, x: Value) -> Value | None:
    if not x.dims or isinstance(x.dims[-1], str):
        return None
    return n.add("LayerNormalization", [x.name, n.weights(x.dims[-1]), n.weights(x.dims[-1])], x.dims, epsilon=1e-2)


def transposed(n: Network, x: Value) -> Value | None:
    if len(x.dims) < 2:
        return None
    perm = [int(k) for k in n.rng.permutation(len(x.dims))]
    return n.add("Transpose", [x.name], tuple(x.dims[k] for k in perm), perm=perm)


def product(n: Network, x: Value) -> Value | None:
    if len(x.dims) < 2 or isinstance(x.dims[-1], str):
        return None
    width = int(choice(n.rng, 1, 3, 8))
    result = n.add("MatMul", [x.name, n.weights(x.dims[-1], width)], (*x.dims[:-1], width))
    return n.add("Add", [result.name, n.weights(width)], result.dims) if n.rng.random() < 0.5 else result


def attention(n: Network, x: Value) -> Value | None:
    """Softmax(x x^T) x"""
    if len(x.dims) < 2:
        return None
    perm = [*range(len(x.dims) - 2), len(x.dims) - 1, len(x.dims) - 2]
    turned = n.add("Transpose", [x.name], tuple(x.dims[k] for k in perm), perm=perm)
    scores = n.add("MatMul", [x.name, turned.name], (*x.dims[:-1], x.dims[-2]))
    weights = n.add(
        "Softmax", [n.add("Mul", [scores.name, n.constant(np.array(0.3, n.dtype))], scores.dims).name], scores.dims
    )
    return n.add("MatMul", [weights.name, x.name], x.dims)


def convolved(n: Network, x: Value) -> Value | None:
    if len(x.dims) not in (3, 4) or isinstance(x.dims[1], str) or any(n.size(d) == 0 for d in x.dims[2:]):
        return None
    kernel = [int(choice(n.rng, 1, 3)) for _ in x.dims[2:]]
    group = x.dims[1] if n.rng.random() < 0.3 and x.dims[1] else 1
    outputs = group * int(n.rng.integers(1, 4)) if group == 1 else group
    if not x.dims[1]:
        return None
    w = n.weights(outputs, x.dims[1] // group, *kernel)
    pads = [k // 2 for k in kernel] * 2
    return n.add("Conv", [x.name, w], (x.dims[0], outputs, *x.dims[2:]), kernel_shape=kernel, pads=pads, group=group)


def pooled(n: Network, x: Value) -> Value | None:
    if len(x.dims) not in (3, 4) or any(n.size(d) == 0 for d in x.dims):
        return None
    kernel = [3] * (len(x.dims) - 2)
    return n.add(
        choice(n.rng, "MaxPool", "AveragePool"), [x.name], x.dims, kernel_shape=kernel, pads=[1] * (2 * len(kernel))
    )


def sliced(n: Network, x: Value) -> Value | None:
    fixed = [a for a, d in enumerate(x.dims) if isinstance(d, int) and d > 1]
    if not fixed:
        return None
    axis = fixed[n.rng.integers(len(fixed))]
    size = x.dims[axis]
    assert isinstance(size, int)
    start, stop, step = choice(
        n.rng, (0, size - 1, 1), (1, 2**31, 2), (-1, -(2**31), -1), (-1, -(2**31), -2), (1, size, 1)
    )
    length = len(range(size)[slice(start, None if abs(stop) > size else stop, step)])
    dims = (*x.dims[:axis], length, *x.dims[axis + 1 :])
    return n.add("Slice", [x.name, n.ints(start), n.ints(stop), n.ints(axis), n.ints(step)], dims)


def joined(n: Network, x: Value) -> Value | None:
    """With another value that differs at most along a fixed axis."""
    fixed = [a for a, d in enumerate(x.dims) if isinstance(d, int)]
    if not fixed:
        return None
    axis = fixed[n.rng.integers(len(fixed))]
    rest = [
        v
        for v in n.values
        if len(v.dims) == len(x.dims)
        and isinstance(v.dims[axis], int)
        and all(a == axis or p == q for a, (p, q) in enumerate(zip(v.dims, x.dims)))
    ]
    y = rest[n.rng.integers(len(rest))]
    total = int(x.dims[axis]) + int(y.dims[axis])
    if total > 24:
        return None
    return n.add("Concat", [x.name, y.name], (*x.dims[:axis], total, *x.dims[axis + 1 :]), axis=axis)


def reshaped(n: Network, x: Value) -> Value | None:
    """The last two axes are one, or a fixed last one is split."""
    if len(x.dims) >= 3 and n.rng.random() < 0.5 and all(isinstance(d, int) for d in x.dims[-2:]):
        merged = int(x.dims[-2]) * int(x.dims[-1])
        zeros = [0] * (len(x.dims) - 2)
        return n.add("Reshape", [x.name, n.ints(*zeros, merged)], (*x.dims[:-2], merged))
    if (
        x.dims
        and isinstance(x.dims[-1], int)
        and x.dims[-1] % 2 == 0
        and x.dims[-1]
        and len(x.dims) < 4
        and all(n.size(d) for d in x.dims)
    ):
        half = x.dims[-1] // 2
        zeros = [0] * (len(x.dims) - 1)
        return n.add("Reshape", [x.name, n.ints(*zeros, 2, -1)], (*x.dims[:-1], 2, half))
    return None


def unsqueezed(n: Network, x: Value) -> Value | None:
    if len(x.dims) > 3:
        return None
    axis = int(n.rng.integers(len(x.dims) + 1))
    return n.add("Unsqueeze", [x.name, n.ints(axis)], (*x.dims[:axis], 1, *x.dims[axis:]))


def gathered(n: Network, x: Value) -> Value | None:
    fixed = [a for a, d in enumerate(x.dims) if isinstance(d, int) and d > 0]
    if not fixed:
        return None
    axis = fixed[n.rng.integers(len(fixed))]
    size = int(x.dims[axis])
    indices = n.rng.integers(-size, size, int(n.rng.integers(1, 4)))
    return n.add(
        "Gather", [x.name, n.constant(indices)], (*x.dims[:axis], len(indices), *x.dims[axis + 1 :]), axis=axis
    )


def summed_up(n: Network, x: Value) -> Value | None:
    if not x.dims:
        return None
    axis = np.array(n.rng.integers(-len(x.dims), len(x.dims)))
    result = n.add(
        "CumSum", [x.name, n.constant(axis)], x.dims, reverse=int(n.rng.integers(2)), exclusive=int(n.rng.integers(2))
    )
    return n.add("Tanh", [result.name], x.dims)


def padded(n: Network, x: Value) -> Value | None:
    fixed = [a for a, d in enumerate(x.dims) if isinstance(d, int) and 1 < d < 9]
    if not fixed:
        return None
    axis = fixed[n.rng.integers(len(fixed))]
    amounts = [0] * (2 * len(x.dims))
    amounts[axis], amounts[axis + len(x.dims)] = (int(k) for k in n.rng.integers(-1, 2, 2))
    size = int(x.dims[axis]) + amounts[axis] + amounts[axis + len(x.dims)]
    if size < 1:
        return None
    mode = choice(n.rng, "constant", "edge", "reflect")
    if mode != "constant" and any(n.size(d) < 2 for d in x.dims):
        mode = "constant"
    return n.add("Pad", [x.name, n.ints(*amounts)], (*x.dims[:axis], size, *x.dims[axis + 1 :]), mode=mode)


def branched(n: Network, x: Value) -> Value:
    """If the mean is positive: one function of x, else another."""
    condition, mean = n.name("b"), n.name("m")
    n.nodes.append(helper.make_node("ReduceMean", [x.name], [mean], keepdims=0))
    n.nodes.append(helper.make_node("Greater", [mean, n.constant(np.array(0.0, n.dtype))], [condition]))
    bodies: list[onnx.GraphProto] = []
    for op in (choice(n.rng, "Sin", "Neg", "Relu"), choice(n.rng, "Cos", "Abs", "Tanh")):
        result = n.name("r")
        bodies.append(
            helper.make_graph(
                [helper.make_node(op, [x.name], [result])], "body", [], [helper.make_empty_tensor_value_info(result)]
            )
        )
    return n.add("If", [condition], x.dims, then_branch=bodies[0], else_branch=bodies[1])


def looped(n: Network, x: Value) -> Value:
    """x = tanh(x + 0.1), some times."""
    names = [n.name(s) for s in ("i", "k", "s", "o", "t")]
    i, going, state, kept, after = names
    body = helper.make_graph(
        [
            helper.make_node("Identity", [going], [kept]),
            helper.make_node("Add", [state, n.constant(np.array(0.1, n.dtype))], [f"{after}_"]),
            helper.make_node("Tanh", [f"{after}_"], [after]),
        ],
        "body",
        [
            helper.make_tensor_value_info(i, onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info(going, onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info(state, helper.np_dtype_to_tensor_dtype(n.dtype), None),
        ],
        [
            helper.make_tensor_value_info(kept, onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info(after, helper.np_dtype_to_tensor_dtype(n.dtype), None),
        ],
    )
    return n.add("Loop", [n.constant(np.array(n.rng.integers(0, 4))), "", x.name], x.dims, body=body)


STEPS: tuple[Step, ...] = (
    unary, unary, unary, binary, binary, scaled, scaled, compared, clipped, reduced, reduced, softmax,
    normalized, transposed,
    transposed, product, product, attention, convolved, convolved, pooled, sliced, sliced, joined, reshaped,
    reshaped, unsqueezed,
    gathered, summed_up, padded, branched, looped, bounded_root,
)  # fmt: skip


def network(seed: int, dtype: np.dtype = F32) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of about ten to thirty nodes, and inputs."""
    rng = np.random.default_rng(seed)
    bindings = {"N": int(choice(rng, 0, 1, 1, 2, 3, 5)), "M": int(choice(rng, 1, 2, 4, 7))}
    n = Network(rng, bindings, dtype)
    for k in range(int(rng.integers(1, 3))):
        rank = int(rng.integers(1, 5))
        dims = tuple(choice(rng, "N", "M", 1, 2, 4, 6, 8) for _ in range(rank))
        value = Value(f"x{k}", dims)
        n.inputs.append(value)
        n.values.append(value)
    steps = int(rng.integers(6, 18))
    while steps:
        if STEPS[rng.integers(len(STEPS))](n, n.pick()) is not None:
            steps -= 1
    used = {name for node in n.nodes for name in node.input}
    outputs = [v for v in n.values if v.name not in used and v not in n.inputs][-4:]
    code = helper.np_dtype_to_tensor_dtype(dtype)
    graph = helper.make_graph(
        n.nodes, "network",
        [helper.make_tensor_value_info(v.name, code, v.dims) for v in n.inputs],
        [helper.make_tensor_value_info(v.name, code, None) for v in outputs], n.initializers,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    feeds = {v.name: rng.standard_normal([n.size(d) for d in v.dims]).astype(dtype) for v in n.inputs}
    return model, feeds
