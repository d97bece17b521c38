"""Random models with If, Loop, Scan and SequenceMap, inside of one another, whose sizes change as they run."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

SIZES = ((0, 0), (1, 1), (4, 4), (0, 3), (3, 0), (1, 5), (5, 1), (2, 3), (3, 2), (4, 6))
"""Of A and B: 0, 1, equal, unequal, odd."""
LAST = 2**63 - 1
MAX_DEPTH = 3


@dataclass(frozen=True)
class Tensor:
    """A float tensor of some rank."""

    name: str
    rank: int


@dataclass
class Maker:
    """What all graphs of one model share."""

    draw: random.Random
    constants: list[TensorProto] = field(default_factory=list[TensorProto])
    kinds: dict[str, int] = field(default_factory=dict[str, int])
    """The element types of values that are not of floats."""
    count: int = 0

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def constant(self, array: Any) -> str:
        name = self.name("c")
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        self.kinds[name] = self.constants[-1].data_type
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def number(self, value: int) -> str:
        return self.constant(np.int64(value))


@dataclass
class Graph:
    """The main graph or a body: its nodes, and what can be read in it, captured values included."""

    maker: Maker
    depth: int
    loops: int
    """How many loops are around it."""
    tensors: list[Tensor]
    numbers: list[str]
    nodes: list[Any] = field(default_factory=list[Any])

    @property
    def draw(self) -> random.Random:
        return self.maker.draw

    def inner(self, loop: bool = False) -> Graph:
        return Graph(self.maker, self.depth + 1, self.loops + loop, list(self.tensors), list(self.numbers))

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        names = [self.maker.name("v") for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names

    def tensor(self, op: str, *inputs: str, rank: int, **attributes: Any) -> Tensor:
        made = Tensor(self.add(op, *inputs, **attributes)[0], rank)
        self.tensors.append(made)
        return made

    def integer(self, op: str, *inputs: str, **attributes: Any) -> str:
        [made] = self.add(op, *inputs, **attributes)
        self.number(made)
        return made

    def number(self, name: str) -> None:
        self.numbers.append(name)
        self.maker.kinds[name] = TensorProto.INT64

    def truth(self, op: str, *inputs: str) -> str:
        [made] = self.add(op, *inputs)
        self.maker.kinds[made] = TensorProto.BOOL
        return made

    def any_tensor(self, rank: int | None = None) -> Tensor:
        """One that fits, the newer the likelier."""
        fitting = [t for t in self.tensors if rank is None or t.rank == rank]
        return self.draw.choice(fitting[-4:] if self.draw.random() < 0.7 else fitting)

    def any_number(self) -> str:
        if not self.numbers or self.draw.random() < 0.3:
            return size(self)
        return self.draw.choice(self.numbers)

    def vector(self, number: str) -> str:
        return self.add("Unsqueeze", number, self.maker.ints(0))[0]

    def graph(self, inputs: list[Any], outputs: list[str], sequences: int = 0) -> Any:
        """As a body, whose last outputs are sequences; what it gives has new names, since it may not be captured."""
        given = [self.add("Identity", name)[0] for name in outputs]
        kinds = [self.maker.kinds.get(name, TensorProto.FLOAT) for name in outputs]
        tensors = len(given) - sequences
        infos = [helper.make_tensor_value_info(n, k, None) for n, k in zip(given[:tensors], kinds)]
        infos += [helper.make_tensor_sequence_value_info(n, TensorProto.FLOAT, None) for n in given[tensors:]]
        return helper.make_graph(self.nodes, self.maker.name("body"), inputs, infos)


def info(name: str, kind: int, rank: int) -> Any:
    return helper.make_tensor_value_info(name, kind, [None] * rank)


# --- operators without bodies -----------------------------------------------------------------------------------------


def size(g: Graph) -> str:
    x = g.any_tensor()
    [shape] = g.add("Shape", x.name)
    return g.integer("Gather", shape, g.maker.number(g.draw.randrange(x.rank)))


def arithmetic(g: Graph) -> None:
    a, k = g.any_number(), g.draw.randint(1, 3)
    match g.draw.choice(("Add", "Sub", "Div", "Mod", "Min", "Max", "two")):
        case "two":
            g.integer(g.draw.choice(("Add", "Sub", "Min", "Max")), a, g.any_number())
        case op:
            g.integer(op, a, g.maker.number(k))


def pointwise(g: Graph) -> None:
    x = g.any_tensor()
    if g.draw.random() < 0.5:
        g.tensor(g.draw.choice(("Abs", "Neg", "Relu")), x.name, rank=x.rank)
    else:
        g.tensor(g.draw.choice(("Add", "Max")), x.name, g.any_tensor(x.rank).name, rank=x.rank)


def join(g: Graph) -> None:
    x = g.any_tensor()
    others = [x] if g.loops < 2 and g.draw.random() < 0.3 else [t for t in g.tensors[:2] if t.rank == x.rank]
    if others:
        g.tensor("Concat", x.name, g.draw.choice(others).name, rank=x.rank, axis=g.draw.randrange(x.rank))


def cut(g: Graph) -> None:
    x, m = g.any_tensor(), g.maker
    axis = m.ints(g.draw.randrange(x.rank))
    match g.draw.choice(("ends", "stride", "to", "from", "back")):
        case "ends":
            operands = m.ints(g.draw.randint(-3, 2)), m.ints(g.draw.choice((LAST, -1, 2, 3))), axis
        case "stride":
            operands = m.ints(g.draw.randint(0, 1)), m.ints(LAST), axis, m.ints(g.draw.randint(2, 3))
        case "to":
            operands = m.ints(0), g.vector(g.any_number()), axis
        case "from":
            operands = g.vector(g.any_number()), m.ints(LAST), axis
        case _:
            operands = m.ints(-1), m.ints(-LAST), axis, m.ints(-1)
    g.tensor("Slice", x.name, *operands, rank=x.rank)


def turn(g: Graph) -> None:
    x = g.any_tensor()
    perm = list(range(x.rank))
    g.draw.shuffle(perm)
    g.tensor("Transpose", x.name, rank=x.rank, perm=perm)


def flatten(g: Graph) -> None:
    x = g.any_tensor()
    match g.draw.choice(("flat", "row", "Flatten", "to another")):
        case "flat":
            g.tensor("Reshape", x.name, g.maker.ints(-1), rank=1)
        case "row":
            g.tensor("Reshape", x.name, g.maker.ints(1, -1), rank=2)
        case "Flatten":
            g.tensor("Flatten", x.name, rank=2, axis=g.draw.randint(0, x.rank))
        case _:
            other = g.any_tensor()
            g.tensor("Reshape", x.name, g.add("Shape", other.name)[0], rank=other.rank)


def pad(g: Graph) -> None:
    x = g.any_tensor()
    pads = [g.draw.randint(0, 1) for _ in range(2 * x.rank)]
    g.tensor("Pad", x.name, g.maker.ints(*pads), rank=x.rank)


def reduce(g: Graph) -> None:
    x = g.any_tensor()
    if x.rank > 1 and g.draw.random() < 0.5:
        axes = g.maker.ints(g.draw.randrange(x.rank))
        g.tensor("ReduceSum", x.name, axes, rank=x.rank - 1, keepdims=0)
    else:
        g.tensor("ReduceSum", x.name, g.maker.ints(g.draw.randrange(x.rank)), rank=x.rank, keepdims=1)


def expand(g: Graph) -> None:
    x, other = g.any_tensor(), g.any_tensor()
    if other.rank >= x.rank:
        g.tensor("Expand", x.name, g.add("Shape", other.name)[0], rank=other.rank)


def fill(g: Graph) -> None:
    """Ones, as many as a number says."""
    [n] = g.add("Max", g.any_number(), g.maker.number(0))
    [m] = g.add("Min", n, g.maker.number(6))
    value = numpy_helper.from_array(np.ones(1, np.float32))
    g.tensor("ConstantOfShape", g.vector(m), rank=1, value=value)


def positions(g: Graph) -> None:
    [m] = g.add("Min", g.any_number(), g.maker.number(6))
    [r] = g.add("Range", g.maker.number(0), m, g.maker.number(1))
    g.tensor("Cast", r, rank=1, to=TensorProto.FLOAT)


def places(g: Graph) -> None:
    """Where a tensor is positive: sizes that are data."""
    x = g.any_tensor(1)
    [mask] = g.add("Greater", x.name, g.maker.constant(np.float32(0.2)))
    g.tensor("Compress", x.name, mask, rank=1, axis=0)


def halves(g: Graph) -> None:
    x = g.any_tensor()
    first, second = g.add("Split", x.name, outputs=2, axis=g.draw.randrange(x.rank), num_outputs=2)
    g.tensors += [Tensor(first, x.rank), Tensor(second, x.rank)]


# --- bodies -----------------------------------------------------------------------------------------------------------


def condition(g: Graph) -> str:
    """A truth value: of sizes, of data, or a constant."""
    match g.draw.choice(("size", "size", "sizes", "even", "data", "constant")):
        case "size":
            return g.truth(
                g.draw.choice(("Less", "Greater", "Equal")), g.any_number(), g.maker.number(g.draw.randint(0, 5))
            )
        case "sizes":
            return g.truth(g.draw.choice(("Less", "Equal")), g.any_number(), g.any_number())
        case "even":
            [rest] = g.add("Mod", g.any_number(), g.maker.number(2))
            return g.truth("Equal", rest, g.maker.number(0))
        case "data":
            [total] = g.add("ReduceSum", g.any_tensor().name, keepdims=0)
            return g.truth("Greater", total, g.maker.constant(np.float32(0)))
        case _:
            return g.maker.constant(np.bool_(g.draw.random() < 0.7))


def choice(g: Graph) -> None:
    test, ranks = condition(g), [g.draw.choice((1, 2)) for _ in range(g.draw.randint(1, 2))]
    integers = g.draw.random() < 0.4
    bodies: list[Any] = []
    for _ in range(2):
        body = g.inner()
        grow(body, g.draw.randint(1, 3))
        outputs = [of_rank(body, rank).name for rank in ranks]
        bodies.append(body.graph([], outputs + ([body.any_number()] if integers else [])))
    made = g.add("If", test, outputs=len(ranks) + integers, then_branch=bodies[0], else_branch=bodies[1])
    g.tensors += map(Tensor, made, ranks)
    for name in made[len(ranks) :]:
        g.number(name)


def of_rank(g: Graph, rank: int) -> Tensor:
    """A tensor of this rank, the newest that there is, or made of it."""
    x = g.tensors[-1]
    if x.rank == rank:
        return x
    if rank < x.rank:
        return g.tensor("Reshape", x.name, g.maker.ints(*[1] * (rank - 1), -1), rank=rank)
    return g.tensor("Unsqueeze", x.name, g.maker.ints(*range(rank - x.rank)), rank=rank)


def loop(g: Graph) -> None:
    m = g.maker
    start = [g.any_tensor() for _ in range(g.draw.randint(1, 2))]
    counted = g.draw.random() < 0.5
    body = g.inner(loop=True)
    i, go = m.name("i"), m.name("go")
    m.kinds[go] = TensorProto.BOOL
    states = [Tensor(m.name("s"), t.rank) for t in start]
    inputs = [info(i, TensorProto.INT64, 0), info(go, TensorProto.BOOL, 0)]
    inputs += [info(s.name, TensorProto.FLOAT, s.rank) for s in states]
    body.tensors += states
    body.number(i)
    if counted:
        number = m.name("n")
        inputs.append(info(number, TensorProto.INT64, 0))
        body.number(number)
    grow(body, g.draw.randint(1, 4))
    outputs = [(condition(body) if g.draw.random() < 0.4 else go)]
    outputs += [g.draw.choice([t for t in body.tensors if t.rank == s.rank][-3:]).name for s in states]
    outputs += [body.any_number()] if counted else []
    rows = [body.tensors[-1]] if g.draw.random() < 0.5 else []
    rows = [row for row in rows if row.rank < 3]
    graph = body.graph(inputs, outputs + [row.name for row in rows])
    given = [t.name for t in start] + ([g.any_number()] if counted else [])
    first = condition(g) if g.draw.random() < 0.2 else ""
    made = g.add("Loop", trips(g), first, *given, outputs=len(given) + len(rows), body=graph)
    g.tensors += map(Tensor, made, [s.rank for s in states])
    for name in made[len(states) : len(given)]:
        g.number(name)
    g.tensors += [Tensor(name, row.rank + 1) for name, row in zip(made[len(given) :], rows)]


def trips(g: Graph) -> str:
    if g.draw.random() < 0.3:
        return g.maker.number(g.draw.randint(0, 3))
    if g.loops:
        return g.add("Min", g.any_number(), g.maker.number(2))[0]
    return g.any_number() if g.draw.random() < 0.5 else g.add("Min", g.any_number(), g.maker.number(3))[0]


def scan(g: Graph) -> None:
    m = g.maker
    x = g.any_tensor()
    if x.rank < 2:
        return
    state = g.any_tensor()
    axis = g.draw.randrange(x.rank)
    body = g.inner(loop=True)
    row, s = Tensor(m.name("r"), x.rank - 1), Tensor(m.name("s"), state.rank)
    body.tensors += [s, row]
    grow(body, g.draw.randint(1, 3))
    [after] = body.add("Add", s.name, m.constant(np.ones((1,) * s.rank, np.float32)))
    out = body.tensors[-1]
    if out.rank > 2:
        out = row
    out_axis = g.draw.randint(-1, out.rank)
    inputs = [info(t.name, TensorProto.FLOAT, t.rank) for t in (s, row)]
    made = g.add(
        "Scan", state.name, x.name, outputs=2, num_scan_inputs=1, scan_input_axes=[axis], scan_output_axes=[out_axis],
        scan_input_directions=[g.draw.randint(0, 1)], body=body.graph(inputs, [after, out.name]),
    )  # fmt: skip
    g.tensors += [Tensor(made[0], state.rank), Tensor(made[1], out.rank + 1)]


def sequence(g: Graph) -> None:
    """Parts of a tensor, each changed by a body, and joined again."""
    m, x = g.maker, g.any_tensor()
    axis = g.draw.randrange(x.rank)
    length = g.draw.choice(("", m.number(2), m.number(1)))
    [parts] = g.add("SplitToSequence", x.name, *[length] * bool(length), axis=axis)
    body = g.inner(loop=True)
    part = Tensor(m.name("p"), x.rank)
    body.tensors.append(part)
    extra = g.any_tensor()
    other = Tensor(m.name("o"), extra.rank)
    body.tensors.append(other)
    grow(body, g.draw.randint(1, 2))
    out = body.tensors[-1]
    inputs = [info(t.name, TensorProto.FLOAT, t.rank) for t in (part, other)]
    [mapped] = g.add("SequenceMap", parts, extra.name, body=body.graph(inputs, [out.name]))
    if g.draw.random() < 0.3:
        g.integer("SequenceLength", mapped)
    if g.draw.random() < 0.7:
        g.tensor("ConcatFromSequence", mapped, rank=out.rank, axis=g.draw.randrange(out.rank))
    else:
        g.tensor("SequenceAt", mapped, m.number(0), rank=out.rank)


def collected(g: Graph) -> None:
    """A loop that puts a tensor an iteration into a sequence, joined behind it."""
    m = g.maker
    [empty] = g.add("SequenceEmpty")
    body = g.inner(loop=True)
    i, go, s = m.name("i"), m.name("go"), m.name("q")
    m.kinds[go] = TensorProto.BOOL
    inputs = [info(i, TensorProto.INT64, 0), info(go, TensorProto.BOOL, 0)]
    inputs.append(helper.make_tensor_sequence_value_info(s, TensorProto.FLOAT, None))
    body.number(i)
    grow(body, g.draw.randint(1, 2))
    out = body.tensors[-1]
    [longer] = body.add("SequenceInsert", s, out.name)
    [mapped] = g.add("Loop", trips(g), "", empty, body=body.graph(inputs, [go, longer], sequences=1))
    new_axis = int(out.rank < 3 and g.draw.random() < 0.4)
    axis = g.draw.randrange(out.rank)
    g.tensor("ConcatFromSequence", mapped, rank=out.rank + new_axis, axis=axis, new_axis=new_axis)


PLAIN: tuple[Callable[[Graph], object], ...] = (
    size, arithmetic, pointwise, join, cut, cut, turn, flatten, pad, reduce, expand, fill, positions, places, halves,
)  # fmt: skip
BODIES: tuple[Callable[[Graph], object], ...] = (choice, loop, loop, scan, sequence, collected)


def grow(g: Graph, steps: int) -> None:
    """Adds so many operators, some of them with bodies."""
    for _ in range(steps):
        with_body = g.depth < MAX_DEPTH and g.draw.random() < (0.4 if g.depth == 0 else 0.2)
        g.draw.choice(BODIES if with_body else PLAIN)(g)


def random_model(seed: int) -> ModelProto:
    """A model of x [A, B], y [B] and z [A, 2], whose outputs are its last tensors and all of its numbers."""
    maker = Maker(random.Random(seed))
    inputs = {"x": ["A", "B"], "y": ["B"], "z": ["A", 2]}
    given = [Tensor(name, len(shape)) for name, shape in inputs.items()]
    g = Graph(maker, 0, 0, given, [])
    grow(g, maker.draw.randint(3, 6))
    g.draw.choice(BODIES)(g)
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in inputs.items()]
    names = [t.name for t in g.tensors[len(given) :]] + list(g.numbers)
    kinds = {name: maker.kinds.get(name, TensorProto.FLOAT) for name in names}
    outputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()]
    graph = helper.make_graph(g.nodes, "random", infos, outputs, maker.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def feeds(seed: int, a: int, b: int) -> dict[str, Any]:
    """Inputs of these sizes."""
    data = np.random.default_rng(seed)
    return {n: data.standard_normal(s).astype(np.float32) for n, s in {"x": (a, b), "y": (b,), "z": (a, 2)}.items()}
