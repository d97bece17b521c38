"""What a product multiplies: its operands as matrices for each batch index, by numpy's rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from xdsl.ir import SSAValue

from ...dialects.dims import Dim, as_dim
from ..loop_builder import Scalar
from ..template import TemplateContext, whole
from .emit import Emitter, Ix
from .register_tile import Products

ONE = as_dim(1)

Sink: TypeAlias = Callable[[SSAValue, Sequence[Scalar], "SSAValue | None", int], None]
"""Takes a vector (or scalar) of finished sums: the sums, the result's indices of the first, a mask, the lanes' axis."""

PointsSink: TypeAlias = Callable[[Sequence[SSAValue], Sequence[Sequence[Scalar]], int], None]
"""Takes several whole vectors of finished sums, whose epilogues run in step: sums, the first's indices, lanes' axis."""


@dataclass(frozen=True)
class Factor:
    """An operand as [outer, depth], for each batch index: `outer` are a's rows or b's columns.

    One of the strides is 1.  `panel` is the width of its panels where it is packed already.
    """

    buffer: SSAValue
    outer_stride: Ix
    depth_stride: Ix
    batch_strides: tuple[Ix, ...] = ()
    panel: int | None = None
    offset: Ix | int = 0

    def at(self, batch: Sequence[Ix], outer: Ix | int, depth: Ix) -> Ix:
        """The offset of an element."""
        place = depth * self.depth_stride
        for index, stride in zip(batch, self.batch_strides, strict=True):
            place = place + index * stride
        return place + self.outer_stride * outer + self.offset


@dataclass(frozen=True)
class Problem:
    """c[batch, rows, columns].  `row_axes` are the result's axes that the rows run over, `row_sizes` their sizes."""

    batch: tuple[Dim, ...]
    rows: Dim
    columns: Dim
    depth: Dim
    row_factor: Factor
    column_factor: Factor
    row_axes: tuple[int, ...]
    row_sizes: tuple[Dim, ...]
    column_axis: int | None
    result_rank: int
    batch_axes: tuple[int, ...] | None = None
    """The result's axes of `batch`; None: its first ones."""


@dataclass(eq=False)
class ProductBuilder:
    """What every way to emit a product starts from."""

    e: Emitter
    context: TemplateContext
    problem: Problem
    products: Products


def left_factor(
    e: Emitter, context: TemplateContext, a: SSAValue, batch: Sequence[Dim], swapped: bool
) -> tuple[Dim, Dim, Factor]:
    """(rows, depth, a)."""
    dims = list(context.dims(a))
    buffer = context.buffer(a)
    rows, depth = dims[-2:] if len(dims) > 1 else (ONE, dims[0])
    if swapped:
        rows, depth = depth, rows
    m, k = e.dim(rows), e.dim(depth)
    strides = batch_strides(e, dims[:-2], batch, m * k)
    return rows, depth, Factor(buffer, *((e.ix(1), m) if swapped else (k, e.ix(1))), strides)


def right_factor(
    e: Emitter, context: TemplateContext, b: SSAValue, batch: Sequence[Dim], swapped: bool
) -> tuple[Dim, Factor]:
    """(columns, b), for a b that is not packed."""
    dims = list(context.dims(b))
    buffer = context.buffer(b)
    swapped = swapped and len(dims) > 1
    columns = ONE if len(dims) == 1 else dims[-2] if swapped else dims[-1]
    depth = dims[0] if len(dims) == 1 else dims[-1] if swapped else dims[-2]
    n, k = e.dim(columns), e.dim(depth)
    strides = batch_strides(e, dims[:-2], batch, n * k)
    return columns, Factor(buffer, *((k, e.ix(1)) if swapped else (e.ix(1), n)), strides)


def read_problem(
    e: Emitter,
    context: TemplateContext,
    a_tensor: SSAValue,
    b_tensor: SSAValue,
    result: tuple[Dim, ...],
    trans_a: bool = False,
    trans_b: bool = False,
    panel: int | None = None,
) -> Problem:
    """The operands as factors; a single column becomes a single row by swapping them."""
    rank = len(result)
    b_dims = context.dims(b_tensor)
    has_rows = len(context.dims(a_tensor)) > 1
    has_columns = panel is not None or len(b_dims) > 1
    batch = result[: rank - has_rows - has_columns]
    rows, depth, a = left_factor(e, context, a_tensor, batch, trans_a)
    if panel is None:
        columns, b = right_factor(e, context, b_tensor, batch, trans_b)
    else:
        flat = tuple(e.ix(0) for _ in batch)
        columns, b = result[-1], Factor(context.buffer(b_tensor), e.ix(1), e.ix(1), flat, panel)
    row_axis = len(batch) if has_rows else None
    column_axis = rank - 1 if has_columns else None
    if columns is ONE and rows is not ONE and panel is None:
        axes = () if column_axis is None else (column_axis,)
        return Problem(batch, columns, rows, depth, b, a, axes, (columns,), row_axis, rank)
    if column_axis is None:
        # one row times one column: the lanes need an axis, and the row's (if there is one) has one element too
        return Problem(batch, rows, columns, depth, a, b, (), (rows,), row_axis, rank)
    if row_axis is not None and batch and not trans_a and all(d is ONE for d in b_dims[:-2]):
        # a's rows follow one another through the whole batch
        sizes = (*batch, rows)
        flat_a, flat_b = replace(a, batch_strides=()), replace(b, batch_strides=())
        axes = tuple(range(len(sizes)))
        return Problem((), whole(*sizes), columns, depth, flat_a, flat_b, axes, sizes, column_axis, rank)
    axes = () if row_axis is None else (row_axis,)
    return Problem(batch, rows, columns, depth, a, b, axes, (rows,), column_axis, rank)


def whole_rows(result: tuple[Dim, ...], depth: Dim, a: Factor, b: Factor) -> Problem:
    """All rows of a, which follow one another through the whole batch, times the columns of b."""
    sizes = result[:-1]
    rows = whole(*sizes)
    axes = tuple(range(len(sizes)))
    return Problem((), rows, result[-1], depth, a, b, axes, sizes or (ONE,), len(result) - 1, len(result))


def batch_strides(e: Emitter, own: Sequence[Dim], batch: Sequence[Dim], matrix: Ix) -> tuple[Ix, ...]:
    """What one step of each batch axis is in an operand with the batch axes `own`: 0 where it broadcasts."""
    strides: list[Ix] = []
    step = matrix
    for at in range(1, len(batch) + 1):
        if at > len(own) or (own[-at] is ONE and batch[-at] is not ONE):
            strides.append(e.ix(0))
            continue
        size = e.dim(own[-at])
        known = own[-at] is batch[-at]
        strides.append(step if known else e.select_index(size.compare("eq", 1), 0, step))
        step = step * size
    return tuple(reversed(strides))


def row_index(e: Emitter, problem: Problem, row: Ix) -> list[Ix]:
    """A row number as an index on each row axis."""
    indices: list[Ix] = []
    for size in reversed(problem.row_sizes[1:]):
        extent = e.dim(size)
        indices.append(row % extent)
        row = row // extent
    return [row, *reversed(indices)]
