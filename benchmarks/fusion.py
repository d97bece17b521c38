"""Fusion under symbolic axes: kernels, and the bytes that they read and write, against the same model with fixed axes.

    python benchmarks/fusion.py FOLDER [--only NAME ...] [--at SIZE ...] [--json FILE]

Each model below the folder is compiled to the kernels level twice: as it is, and with the axes of its inputs set to
those of the arrays in an `.npz` beside it (members named as the inputs, or with `in_` in front; the first such file in
order of names; where there is none, every symbol is 16), or with `--at` once for each of these sizes of all symbols.
No code is generated.  An anchor is what a kernel must be
made for: a contraction, a windowed operator, a reduction, an operator whose result's size or place data decides,
control flow.  Counted is what a call runs: of an If's branches the one with most (`--all` counts each of them), loops'
bodies once.  Bytes are those of operands and results of every kernel; sizes that only data decides are taken to be 64,
or their bound where that is smaller.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx as onnx_package
from sardonyx.dialects import kernel, onnx
from sardonyx.dialects.dims import Dim, ShapeAttr, dims_of
from sardonyx.dialects.onnx.model import main_of
from sardonyx.lowering.schedule import byte_size
from sardonyx.rewrites.versions import VERSION
from sardonyx.runtime.errors import Error
from sardonyx.semantics.kinds import Kind, kind_of
from sardonyx.tools.explain import listed
from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from sardonyx.compiler import state_of
from sardonyx.pipeline import State
from sardonyx.pipeline import run as run_steps

ANCHORS = (Kind.TEMPLATE, Kind.WINDOW, Kind.REDUCTION, Kind.CONTROL)
UNKNOWN = 64
"""The size of an axis that only data decides."""
DEFAULT = 16
"""The size of a symbolic axis where no arrays tell."""


@dataclass(frozen=True)
class Count:
    """One compilation to the kernels level."""

    kernels: int
    distinct: int
    hosted: int
    bytes: int
    anchors: int
    outputs: int
    seconds: float

    @property
    def excess(self) -> float:
        """Kernels for each anchor and output."""
        return self.kernels / max(1, self.anchors + self.outputs)


@dataclass(frozen=True)
class Row:
    """A model, with symbolic and with fixed axes."""

    model: str
    symbolic: Count
    fixed: Count

    @property
    def kernels(self) -> float:
        """Kernels with symbolic axes for each kernel with fixed ones."""
        return self.symbolic.kernels / max(1, self.fixed.kernels)

    @property
    def bytes(self) -> float:
        """Bytes with symbolic axes for each byte with fixed ones."""
        return self.symbolic.bytes / max(1, self.fixed.bytes)


def models_in(folder: Path) -> Iterator[Path]:
    """Every model below the folder."""
    yield from sorted(folder.rglob("*.onnx"))


def arrays_beside(path: Path, names: list[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of the inputs in the first `.npz` beside the model."""
    for file in sorted(path.parent.glob("*.npz")):
        with np.load(file, allow_pickle=False) as data:
            found = {n: data[k].shape for n in names for k in (n, f"in_{n}") if k in data.files}
        if found:
            return found
    return {}


def shapes_at(main: FuncOp, size: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the inputs where every symbol has this size."""
    return {
        name: tuple(d.evaluate(dict.fromkeys(d.symbols, size)) for d in dims_of(argument))
        for argument in main.body.block.args
        if isinstance(argument.type, TensorType) and (name := onnx.value_name(argument)) is not None
    }


def fix_axes(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> Any:
    """A copy of the model with these sizes for its inputs, and no declared sizes elsewhere that could differ."""
    fixed = onnx_package.ModelProto()
    fixed.CopyFrom(model)
    for value in fixed.graph.input:
        sizes = shapes.get(value.name)
        dimensions = value.type.tensor_type.shape.dim
        for axis, dimension in enumerate(dimensions):
            if dimension.WhichOneof("value") != "dim_value" or dimension.dim_value < 0:
                dimension.dim_value = sizes[axis] if sizes is not None and axis < len(sizes) else DEFAULT
    return fixed


def bindings(main: FuncOp, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The value of each symbol of the inputs."""
    found: dict[str, int] = {}
    for argument in main.body.block.args:
        if not isinstance(argument.type, TensorType):
            continue
        sizes = shapes.get(onnx.value_name(argument) or "")
        for axis, d in enumerate(dims_of(argument)):
            if not d.is_const and d is Dim.symbol(str(d)):
                found.setdefault(str(d), sizes[axis] if sizes is not None and axis < len(sizes) else DEFAULT)
    return found


def evaluate(d: Dim, known: dict[str, int]) -> int:
    """The expression's value; symbols that are not known are UNKNOWN."""
    return d.evaluate({s: known.get(s, UNKNOWN) for s in d.symbols})


Weight: TypeAlias = Callable[[Operation], int]


def on_the_way(op: Operation, weight: Weight, every: bool) -> int:
    """What an op and those inside weigh together: of an If, the branch that weighs most, or with `every` both."""
    choice = isinstance(op, onnx.IfOp)
    regions = [op.else_branch] if choice and VERSION in op.attributes else op.regions
    inside = [sum(on_the_way(inner, weight, every) for b in region.blocks for inner in b.ops) for region in regions]
    return weight(op) + (max(inside, default=0) if choice and not every else sum(inside))


def bytes_moved(main: FuncOp, known: dict[str, int], every: bool) -> int:
    """The bytes of the operands and results of what runs."""
    known = dict(known)
    for op in listed(main):
        names, upper = op.attributes.get("dims.binds"), op.attributes.get("dims.upper")
        if isinstance(names, ArrayAttr) and isinstance(upper, ShapeAttr):
            for name, bound in zip(names.data, upper.data, strict=True):
                assert isinstance(name, StringAttr)
                known.setdefault(name.data, min(UNKNOWN, evaluate(bound, known)))

    def weight(op: Operation) -> int:
        tensors = [v.type for v in (*op.inputs, *op.outputs)] if isinstance(op, kernel.CallOp) else []
        return sum(evaluate(byte_size(t), known) for t in tensors if isinstance(t, TensorType))

    return on_the_way(main, weight, every)


def count(model: Any, shapes: Mapping[str, tuple[int, ...]], every: bool = False) -> tuple[Count, State]:
    """Compiles to the kernels level and counts."""
    began = time.perf_counter()
    state = state_of(model.SerializeToString())
    for _ in run_steps(state, to="graph"):
        pass
    main = main_of(state.module)
    anchors = on_the_way(main, lambda op: kind_of(op) in ANCHORS, every)
    for _ in run_steps(state, to="kernels", start="graph"):
        pass
    seconds = time.perf_counter() - began
    main = main_of(state.module)
    calls = [op for op in listed(main) if isinstance(op, kernel.CallOp)]
    others = (kernel.CallOp, kernel.ViewOp, onnx.InitializerOp, onnx.ConstantOp, onnx.YieldOp)
    hosted = [
        op
        for op in main.walk()
        if isinstance(op, onnx.OnnxOp) and not isinstance(op, others) and kind_of(op) is not Kind.CONTROL
    ]
    return Count(
        kernels=on_the_way(main, lambda op: isinstance(op, kernel.CallOp), every),
        distinct=len({op.callee.string_value() for op in calls}),
        hosted=len(hosted),
        bytes=bytes_moved(main, bindings(main, shapes), every),
        anchors=anchors,
        outputs=len(model.graph.output),
        seconds=seconds,
    ), state


def measure(path: Path, every: bool, sizes: Sequence[int]) -> Iterator[Row | str]:
    """One model, both ways: with the sizes of the arrays beside it, or with each of those given."""
    model = onnx_package.load(str(path))
    weights = {w.name for w in model.graph.initializer}
    shapes = arrays_beside(path, [i.name for i in model.graph.input if i.name not in weights])
    try:
        symbolic, state = count(model, shapes, every)
    except Error as e:
        yield f"{name_of(path):36} {str(e).splitlines()[0]}"
        return
    main = main_of(state.module)
    if sizes and not bindings(main, {}):
        return  # nothing to fix
    for size in sizes or (None,):
        name = name_of(path) + ("" if size is None else f" at {size}")
        try:
            if size is not None:
                shapes = shapes_at(main, size)
                symbolic = replace(symbolic, bytes=bytes_moved(main, bindings(main, shapes), every))
            fixed, _ = count(fix_axes(model, shapes), shapes, every)
        except Error as e:
            yield f"{name:36} {str(e).splitlines()[0]}"
        else:
            yield Row(name, symbolic, fixed)


def name_of(path: Path) -> str:
    """The model's folder, or where it has none of its own, its file."""
    return path.parent.name if len(list(path.parent.glob("*.onnx"))) == 1 else path.stem


def line(row: Row) -> str:
    """A row of the table; what is beyond the goals is marked."""
    marks = [
        "kernels" if row.kernels > 1.1 else "",
        "bytes" if row.bytes > 1.05 else "",
        "anchors" if row.fixed.excess > 1.2 else "",
    ]
    s, f = row.symbolic, row.fixed
    return (
        f"{row.model:36} {s.kernels:5} {f.kernels:5} {row.kernels:5.2f} {s.bytes / 1e6:9.2f} {f.bytes / 1e6:9.2f} "
        f"{row.bytes:5.2f} {f.anchors:5}+{f.outputs:<2} {f.excess:5.2f} {s.hosted:3} {f.hosted:3} "
        f"{s.seconds:5.1f} {f.seconds:5.1f}  {' '.join(filter(None, marks))}"
    )


HEAD = (
    f"{'model':36} {'sym':>5} {'fix':>5} {'ratio':>5} {'sym MB':>9} {'fix MB':>9} {'ratio':>5} {'anchors':>8} "
    f"{'k/a':>5} {'host':>7} {'seconds':>11}  beyond"
)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="models whose path has one of these words")
    parser.add_argument("--all", action="store_true", help="count all branches of an If")
    parser.add_argument("--at", nargs="*", type=int, default=[], help="sizes that all symbols have")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    print(HEAD)
    rows: list[Row] = []
    for path in models_in(arguments.folder):
        if arguments.only and not any(word in str(path) for word in arguments.only):
            continue
        for row in measure(path, arguments.all, arguments.at):
            print(line(row) if isinstance(row, Row) else row, flush=True)
            rows += [row] if isinstance(row, Row) else []
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(r) for r in rows], indent=1))


if __name__ == "__main__":
    main()
