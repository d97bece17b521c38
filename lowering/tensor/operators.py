"""How the onnx ops of a kernel become lazy tensors: what a rule is given, and the helpers that rules share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from ...dialects import kernel, onnx
from ...dialects.dims import Dim, dims_of
from ...dialects.dims.expression import ONE, ZERO
from ...semantics.known import constant_value, known_dims
from .element_kinds import BITS, I64, Element, NotLowered, element_of
from .graph import Combine, Dims, Literal, Node, Pointwise, Reduce, Scalar, Sizes, View, pointwise, with_unit_axes
from .index_space import Index
from .scalars import Scalars

Rule: TypeAlias = "Callable[[Operands], Sequence[Node | None]]"
"""Gives the nodes of an op's results by formal position; None, or too few, for results that it does not have."""


class Operands:
    """One op and the lazy tensors of its operands; `place` is its place among the operators of the kernel."""

    def __init__(self, op: onnx.OnnxOp | onnx.CustomOp, node_of: Callable[[SSAValue], Node], place: int = 0) -> None:
        self.op, self.place = op, place
        self.node_of = node_of

    def __getitem__(self, index: int) -> Node:
        """The operand at a formal position, which must be there."""
        value = self.op.operand_at(index)
        if value is None:
            raise NotLowered(f"{onnx.describe(self.op)}: operand {index} is absent")
        return self.node_of(value)

    def get(self, index: int) -> Node | None:
        """The operand at a formal position; None where it is absent."""
        value = self.op.operand_at(index)
        return None if value is None else self.node_of(value)

    def all(self) -> list[Node]:
        """All operands that are there."""
        return [self.node_of(v) for v in self.op.operands]

    def attr(self, name: str) -> Any:
        """An attribute, or the schema's default. Floats are float32 in a file: 0.01 means its nearest float32."""
        value = onnx.attr(self.op, name)
        if isinstance(value, onnx.WeightAttr):
            raise self.refuse(f"a list '{name}' that is kept with the weights")
        return float(np.float32(value)) if isinstance(value, float) else value

    def dims(self, index: int = 0) -> Dims:
        """The dims of a result, as inference has them."""
        result = self.op.result_at(index)
        assert result is not None
        return dims_of(result)

    def element(self, index: int = 0) -> Element:
        """The element of a result."""
        result = self.op.result_at(index)
        assert result is not None and isinstance(result.type, TensorType)
        return element_of(result.type.element_type)

    def has_result(self, index: int) -> bool:
        return self.op.result_at(index) is not None

    def known(self, index: int) -> tuple[Dim, ...] | None:
        """The values of a shape-like operand.  None where it is absent; raises NotLowered where they are not known."""
        value = self.op.operand_at(index)
        if value is None:
            return None
        found = () if ZERO in dims_of(value) else known_dims(value)  # nothing to know of an empty one
        if found is None:
            raise NotLowered(f"{onnx.describe(self.op)}: operand {index} is known at run time only")
        return found

    def known_ints(self, index: int) -> list[int] | None:
        """The values of an operand that must be numbers (axes)."""
        found = self.known(index)
        if found is None:
            return None
        if not all(d.is_const for d in found):
            raise NotLowered(f"{onnx.describe(self.op)}: operand {index} is not constant")
        return [d.value for d in found]

    def constant(self, index: int) -> np.ndarray | None:
        """The value of a constant operand; None where it is absent or no small constant."""
        value = self.op.operand_at(index)
        return None if value is None else constant_value(value)

    def name_of(self, index: int) -> str:
        """The standard's name of an operand."""
        return self.op.SCHEMA.inputs[index].name if isinstance(self.op, onnx.OnnxOp) else f"input {index}"

    def problem(self, text: str) -> str:
        """The message of a check that fails for this op."""
        name = self.op.SCHEMA.op_type if isinstance(self.op, onnx.OnnxOp) else onnx.text_of(self.op.op_type)
        return kernel.about(self.place, f"{name}: {text}")

    def refuse(self, why: str) -> NotLowered:
        return NotLowered(f"{onnx.describe(self.op)}: {why}")


def axis_of(axis: int, rank: int) -> int:
    """A possibly negative axis as one from 0 on."""
    return axis + rank if axis < 0 else axis


def scalar_literal(value: float, element: Element) -> Literal:
    """A constant of rank 0. For narrow floats pass the compute element."""
    if element.kind == "c":
        return Literal((), element, np.array(value, f"c{element.bits // 8}").view(BITS[element]))
    dtype = {"f32": np.float32, "f64": np.float64, "bool": np.bool_}.get(str(element))
    kind = {"i": "int", "u": "uint"}.get(element.kind)
    return Literal((), element, np.array(value, dtype or f"{kind}{element.bits}"))


def size_value(size: Dim, element: Element) -> Node:
    """A size as a scalar of that element (a float: exact up to its digits)."""
    if size.is_const:
        return scalar_literal(size.value, element)
    whole = Sizes((), I64, (size,))
    return whole if element is I64 else Pointwise((), element, (whole,), _from_i64(element), cost=1)


def _from_i64(element: Element) -> Scalar:
    if element.is_float:
        return lambda s, x: s.convert("sitofp", x, element)
    return (lambda s, x: s.convert("trunci", x, element)) if element.bits < 64 else (lambda s, x: x)


# Formulas on whole tensors, in one compute element


Method: TypeAlias = "Callable[[Scalars, SSAValue, SSAValue, Element], SSAValue]"
"""An operation on two values, as `Scalars` has them."""


def binary(method: Method, a: Node, b: Node) -> Node:
    """`Scalars.add`, `mul`, ... of two nodes of one compute element; the second is broadcast to the first."""
    t = a.element
    return pointwise(lambda s, x, y: method(s, x, y, t), (a, b), a.dims, t)


def quotient(a: Node, b: Node) -> Node:
    """a / b of floats of one compute element, with b broadcast to a."""
    return pointwise(lambda s, x, y: s.divf(x, y), (a, b), a.dims, a.element, 4)


def reduced(combine: Combine, x: Node, axes: Sequence[int]) -> Node:
    """The reduction of a node over axes, which are gone from the result."""
    gone = set(axes)
    dims = tuple(d for axis, d in enumerate(x.dims) if axis not in gone)
    if all(x.dims[axis] is ONE for axis in gone):  # one element each
        return View(dims, x.element, x, lambda space, index: _with_zeros(index, gone))
    return Reduce(dims, x.element, combine, x, tuple(sorted(gone)))


def _with_zeros(index: Index, axes: set[int]) -> Index:
    """The index with a 0 at each of these axes."""
    rest = iter(index)
    return tuple(ZERO if axis in axes else next(rest) for axis in range(len(index) + len(axes)))


def reduced_keeping(combine: Combine, x: Node, axes: Sequence[int]) -> Node:
    """The reduction with its axes kept, of size 1."""
    return with_unit_axes(reduced(combine, x, axes), sorted(axes))


def count_of(x: Node, axes: Sequence[int]) -> Dim:
    """How many elements a reduction over these axes combines."""
    total = ONE
    for axis in axes:
        total = total * x.dims[axis]
    return total


def mean_of(x: Node, axes: Sequence[int]) -> Node:
    """The mean over axes, kept with size 1, in x's compute element."""
    total = reduced(Combine.ADD, x, axes)
    mean = quotient(total, size_value(count_of(x, axes), x.element))
    return with_unit_axes(mean, sorted(axes))
