"""Lazy tensors: what a kernel computes, as formulas of an index, before anything is built.

Each onnx op becomes a few nodes.  A node knows its dims, its element, and for any index how to emit the scalar there
from the scalars of the nodes that it reads.  Which nodes become tensors in memory is decided later (`plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from xdsl.ir import Attribute, SSAValue

from ...dialects.dims import Dim
from ...dialects.dims.expression import ONE
from .element_kinds import Element
from .index_space import Index, IndexSpace, broadcast_stride
from .scalars import Scalars

if TYPE_CHECKING:
    from .body import Body

Dims = tuple[Dim, ...]
Scalar = Callable[..., SSAValue]
"""(scalars, *operands) -> result, in the compute types of the operands' and the result's elements."""
IndexMap = Callable[[IndexSpace, Index], Index]


class Use(Enum):
    """How often a node reads the elements of another."""

    ALIGNED = "aligned"  # the element at the same index
    ONCE = "once"  # each at most once, somewhere else
    MANY = "many"  # each possibly often


@dataclass(eq=False)
class Node:
    """A lazy tensor. `cost` is what computing one element costs, in loads or additions, without what it reads.

    `origin` are the ids of the model's nodes that it comes from, `hint` is its name there; the reader sets both.
    """

    dims: Dims
    element: Element
    cost: float = field(default=0, kw_only=True)
    origin: tuple[int, ...] = field(default=(), kw_only=True)
    hint: str | None = field(default=None, kw_only=True)

    def reads(self) -> Sequence[tuple[Node, Use]]:
        """The nodes whose elements this one's formula reads."""
        return ()

    def emit(self, body: Body, index: Index) -> SSAValue:
        """The scalar at an index, of the element's `ir` type."""
        raise NotImplementedError(type(self).__name__)

    def reading(self, source: Node) -> Use:
        """The use of one that is read with broadcasting."""
        return Use.ALIGNED if same_dims(source.dims, self.dims) else Use.MANY


def same_dims(left: Dims, right: Dims) -> bool:
    return left == right


@dataclass(eq=False)
class Leaf(Node):
    """A tensor in memory: an argument of the kernel, or a result of an earlier op."""

    value: SSAValue

    def emit(self, body: Body, index: Index) -> SSAValue:
        return body.load(self.value, self.dims, index)


@dataclass(eq=False)
class Literal(Node):
    """A small constant."""

    array: np.ndarray

    def emit(self, body: Body, index: Index) -> SSAValue:
        return body.literal(self, index)


@dataclass(eq=False)
class Sizes(Node):
    """An integer tensor of expressions in the kernel's symbols, row-major."""

    exprs: Dims

    def emit(self, body: Body, index: Index) -> SSAValue:
        return body.sizes(self, index)


@dataclass(eq=False)
class Pointwise(Node):
    """A scalar function of the elements at the same index, with broadcasting; rounded to the element once."""

    inputs: tuple[Node, ...]
    function: Scalar

    def reads(self) -> Sequence[tuple[Node, Use]]:
        return [(i, self.reading(i)) for i in self.inputs]

    def operand_indices(self, index: Index) -> list[Index]:
        return [broadcast_index(i.dims, self.dims, index) for i in self.inputs]


@dataclass(eq=False)
class View(Node):
    """Another node's elements at a mapped index."""

    source: Node
    index_map: IndexMap
    use: Use = Use.ONCE

    def reads(self) -> Sequence[tuple[Node, Use]]:
        return [(self.source, self.use)]


@dataclass(eq=False)
class Computed(Node):
    """A formula that reads its sources at indices of its own: padding, gathers, concatenation."""

    sources: tuple[tuple[Node, Use], ...]
    formula: Callable[[Body, Index], SSAValue]

    def reads(self) -> Sequence[tuple[Node, Use]]:
        return self.sources

    def emit(self, body: Body, index: Index) -> SSAValue:
        return self.formula(body, index)


class Combine(Enum):
    """How a reduction combines two values."""

    ADD = "add"
    MUL = "mul"
    MAX = "max"
    MIN = "min"
    MAX_OF_NUMBERS = "max of numbers"
    """NaN is passed over: cheaper, where NaN comes through by another way."""


@dataclass(eq=False)
class Reduce(Node):
    """The elements of `source` along `axes` combined; the axes are gone from `dims`.

    The element is the type of the accumulator, and `source` has it too.
    """

    combine: Combine
    source: Node
    axes: tuple[int, ...]

    def reads(self) -> Sequence[tuple[Node, Use]]:
        return [(self.source, Use.ALIGNED)]


@dataclass(eq=False)
class Template(Node):
    """A `kernel.template`, whose values are its `results`.

    With `accumulates` it has one result, whose scalar reaches the epilogue in the element's compute type.
    """

    name: str
    inputs: tuple[Node, ...]
    config: dict[str, Attribute]
    accumulates: bool = False
    results: list[TemplateResult] = field(default_factory=list["TemplateResult"])

    def reads(self) -> Sequence[tuple[Node, Use]]:
        return [(i, Use.MANY) for i in self.inputs]


@dataclass(eq=False)
class TemplateResult(Node):
    """One result of a template."""

    template: Template

    def reads(self) -> Sequence[tuple[Node, Use]]:
        return [(self.template, Use.MANY)]


def broadcast_index(dims: Dims, to: Dims, index: Index) -> Index:
    """The index into a tensor of `dims` that is broadcast to dims `to`."""
    if dims == to:
        return index
    offset = len(to) - len(dims)
    return tuple(_scaled(index[offset + axis], size, to[offset + axis]) for axis, size in enumerate(dims))


def _scaled(at: Dim, size: Dim, to: Dim) -> Dim:
    stride = broadcast_stride(size, to)
    return at if stride is ONE else at * stride


# Building blocks


def pointwise(function: Scalar, inputs: Sequence[Node], dims: Dims, element: Element, cost: float = 1) -> Pointwise:
    return Pointwise(dims, element, tuple(inputs), function, cost=cost)


def _same(scalars: Scalars, x: SSAValue) -> SSAValue:
    return x


def widened(x: Node) -> Node:
    """The same values in the type that arithmetic is done in."""
    compute = x.element.compute
    return x if compute is x.element else Pointwise(x.dims, compute, (x,), _same, cost=1)


def with_unit_axes(x: Node, axes: Sequence[int]) -> Node:
    """A reduced tensor with its reduced axes back, of size 1; `axes` are those of the result, sorted."""
    dims = list(x.dims)
    for axis in axes:
        dims.insert(axis, ONE)
    kept = [axis for axis in range(len(dims)) if axis not in axes]
    return View(tuple(dims), x.element, x, lambda space, index: tuple(index[k] for k in kept))
