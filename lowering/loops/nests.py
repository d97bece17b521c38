"""Plans a kernel's loops: which generics share rows, and which run in one inner loop.

A *nest* is a run of generics that share leading parallel loops, the rows: `for row: stage; stage; ...`.  A generic
that reads a result of the same nest reads it in the same row, so a row of it is all that need be kept.  A *stage* is
one inner loop over the rest of the loops, in which several generics may run point by point.

The order in which a reduction adds depends on the op alone (`Order`), never on what it shares loops with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim
from .. import policy
from .generics import Access, Generic, Shapes

Axis: TypeAlias = tuple[int, ...]
"""Loops that are walked through as one; the last one's index stands for all."""


class Order(Enum):
    """How a reduction adds up, by its iterator types.

    LANES, where the last loop is reduced: the elements of the trailing reduced loops, counted in row-major order, go
    in turn to the lanes of a few vectors, which are combined as a tree.  COLUMNS, where the last loop is parallel:
    each result adds its elements in order, several results side by side in vectors.
    """

    LANES = "lanes"
    COLUMNS = "columns"


def order_of(generic: Generic) -> Order | None:
    """The order of a generic's reductions; None where it has none."""
    if generic.is_map:
        return None
    return Order.LANES if generic.reduced[-1] else Order.COLUMNS


@dataclass
class Stage:
    """Generics that run in one inner loop. `reduced` is of the inner loops, None while there are only maps."""

    extents: tuple[Dim, ...]
    generics: list[Generic]
    reduced: tuple[bool, ...] | None = None

    def trailing(self, generic: Generic) -> range:
        """The trailing reduced loops, as numbers of one of its generics' loops."""
        count = next((i for i, r in enumerate(reversed(self.reduced or ())) if not r), len(self.reduced or ()))
        return range(generic.rank - count, generic.rank)


@dataclass
class Nest:
    """Generics that share their first `rows` loops, and with `order` COLUMNS their last loops too."""

    rows: int
    order: Order | None
    generics: list[Generic]
    stages: list[Stage] = field(default_factory=list[Stage])
    last: int = 1
    """With COLUMNS: how many of the last loops all walk through as one."""

    @property
    def columns(self) -> bool:
        return self.order is Order.COLUMNS

    @property
    def pure(self) -> bool:
        """Whether it is one pointwise loop nest, whose loops may be ordered and merged at will."""
        return len(self.stages) == 1 and not self.stages[0].extents and not self.columns

    def inner(self, generic: Generic) -> range:
        """The numbers of a generic's loops that are neither rows nor columns."""
        return range(self.rows, generic.rank - self.last * self.columns)

    def column(self, generic: Generic) -> Axis:
        """The loops that a generic's columns are numbered by."""
        return tuple(range(generic.rank - self.last, generic.rank))

    @property
    def width(self) -> Dim:
        """How many columns there are."""
        return self.generics[0].extent(self.column(self.generics[0]))

    def column_tile(self, lanes: int, most: int) -> int:
        """How many columns are computed side by side."""
        one_row = all(extent is as_dim(1) for extent in self.generics[0].extents[: self.rows])
        return policy.column_tile(self.width, lanes, most, wide=one_row and len(self.stages) == 1)

    def is_register(self, generic: Generic, write: Access) -> bool:
        """Whether a row has a single element of the result."""
        return not self.pure and not self.columns and not any(axis in self.inner(generic) for axis in write.axes)


@dataclass
class RowLimit:
    """How many elements a row may have whose scratch costs a row loop."""

    elements: int
    unknown: bool = True
    """Whether rows of a symbolic size are within the limit."""
    assumed: list[Dim] = field(default_factory=list[Dim])
    """The symbolic sizes that were taken to be within it."""

    def admits(self, size: Dim) -> bool:
        if size.is_const:
            return size.value <= self.elements
        if self.unknown:
            self.assumed.append(size)
        return self.unknown


def plan(
    items: Sequence[Generic | kernel.TemplateOp], shapes: Shapes, row_limit: RowLimit
) -> list[Nest | kernel.TemplateOp]:
    """Groups generics into nests, in order; a nest waits for what one of its readers needs besides."""
    nests: list[Nest | kernel.TemplateOp] = []
    for item in items:
        if isinstance(item, kernel.TemplateOp):
            nests.append(item)
            continue
        joinable = _joinable(nests, item, shapes)
        number = next((n for n, nest in joinable if _join(nest, item, shapes, row_limit)), None)
        if number is None:
            columns = order_of(item) is Order.COLUMNS
            nests.append(Nest(min(item.leading, item.rank - columns), order_of(item), [item]))
        else:
            nests.append(nests.pop(number))
    for nest in nests:
        if isinstance(nest, Nest):
            nest.last = _column_loops(nest, shapes)
            nest.stages = _stages(nest, shapes)
    return nests


def _column_loops(nest: Nest, shapes: Shapes) -> int:
    """How many of the last loops are parallel, the same in all generics, and walked through as one by all operands."""
    count, first = 1, nest.generics[0]
    while nest.columns and all(
        nest.rows < g.rank - count
        and g.extents[-count - 1] is first.extents[-count - 1]
        and _mergeable(g.rank - count - 1, g.rank - count, g, shapes)
        for g in nest.generics
    ):
        count += 1
    return count


# Rows


def _joinable(
    steps: Sequence[Nest | kernel.TemplateOp], generic: Generic, shapes: Shapes
) -> Iterator[tuple[int, Nest]]:
    """The nests that the generic may join: the last one, and those that it reads and no step since does."""
    read: set[SSAValue] = set()
    checked = False
    for number, step in reversed(list(enumerate(steps))):
        if isinstance(step, kernel.TemplateOp):
            return
        checks = any(isinstance(op, kernel.CheckOp) for g in step.generics for op in g.walk())
        made = {r for g in step.generics for r in g.results}
        waits = made.isdisjoint(read) and not (checks and checked)  # what fails first stays first
        if number == len(steps) - 1 or (waits and _inside_reads(step.generics, generic, shapes)):
            yield number, step
        read.update(shapes.root(t) for g in step.generics for t in g.tensors)
        checked = checked or checks


def _join(nest: Nest, generic: Generic, shapes: Shapes, row_limit: RowLimit) -> bool:
    """Adds the generic to the nest where it can share its rows."""
    order = order_of(generic)
    if None not in (nest.order, order) and nest.order is not order:
        return False
    maps_only = nest.order is None and generic.is_map
    if maps_only and generic.extents != nest.generics[0].extents and not _inside_reads(nest.generics, generic, shapes):
        return False  # loops of their own may be ordered and merged at will
    joint = nest.order or order
    rows = _shared_rows(nest, generic, joint is Order.COLUMNS, shapes)
    if rows < 1 and not (joint is Order.COLUMNS and rows == 0):
        return False
    if rows < nest.rows and not _may_lose_rows(nest, generic, rows, row_limit):
        return False
    nest.rows, nest.order = rows, joint
    nest.generics.append(generic)
    return True


def _shared_rows(nest: Nest, generic: Generic, columns: bool, shapes: Shapes) -> int:
    """How many leading loops all can share; -1 where they cannot share the columns."""
    first = nest.generics[0]
    most = min(nest.rows, generic.leading, *(g.rank - columns for g in (*nest.generics, generic)))
    rows = next((i for i in range(most) if generic.extents[i] is not first.extents[i]), most)
    if columns and not _share_columns(nest.generics, generic):
        return -1
    for read in _inside_reads(nest.generics, generic, shapes):
        if columns and not read.aligned(read.producer.rank - 1, generic.rank - 1):
            return -1
        if read.computed:
            rows = min(rows, generic.rank - 1)  # a row is complete before it is read
        rows = next((i for i in range(rows) if not read.aligned(i, i)), rows)
    return rows


def _share_columns(generics: Sequence[Generic], generic: Generic) -> bool:
    return all(g.rank > 0 and not g.reduced[-1] for g in (*generics, generic)) and all(
        g.extents[-1] is generic.extents[-1] for g in generics
    )


@dataclass(frozen=True)
class _Read:
    """A read of a result of the same nest, by `axes`: the loop along each axis, None for anything else."""

    producer: Generic
    write: Access
    axes: tuple[int | None, ...]
    computed: bool
    """Whether the body computes the indices, or reads the tensor under other dims."""

    def aligned(self, written: int, read: int) -> bool:
        """Whether the read stays where loop `read` is at the write's loop `written`."""
        return any(w == written and r == read for w, r in zip(self.write.axes, self.axes))

    def same_point(self, reader: Generic) -> bool:
        """Whether each point of the reader reads what the same point of the producer wrote."""
        same = self.write.axes == self.axes and self.producer.extents == reader.extents
        return same and self.producer.is_map and not self.computed


def _inside_reads(generics: Sequence[Generic], generic: Generic, shapes: Shapes) -> list[_Read]:
    writes = {r: (g, o) for g in generics for r, o in zip(g.results, g.outputs)}
    plain = [(a.tensor, a.axes, False) for a in generic.reads]
    computed = [(e.tensor, tuple(map(_plain_index, e.indices)), True) for e in generic.extracts]
    found: list[_Read] = []
    for tensor, axes, inexact in (*plain, *computed):
        root = shapes.root(tensor)
        if root not in writes:
            continue
        if root is not tensor:
            shared = shapes.shared_axes(tensor)
            axes, inexact = (*axes[:shared], *(None for _ in shapes[root][shared:])), True
        found.append(_Read(*writes[root], axes, inexact))
    return found


def _plain_index(index: SSAValue) -> int | None:
    return index.owner.dim.value.data if isinstance(index.owner, linalg.IndexOp) else None


def _may_lose_rows(nest: Nest, generic: Generic, rows: int, row_limit: RowLimit) -> bool:
    """Whether sharing only `rows` loops is worth it: always for maps that feed a reduction, else for small rows."""
    if nest.order is None and not generic.is_map:
        return True
    size = as_dim(1)
    for extent in max((g.extents for g in (*nest.generics, generic)), key=len)[rows:]:
        size = size * extent
    return row_limit.admits(size)


# Stages


def _stages(nest: Nest, shapes: Shapes) -> list[Stage]:
    stages: list[Stage] = []
    at: dict[Generic, int] = {}
    for generic in nest.generics:
        least = 0
        for read in _inside_reads(list(at), generic, shapes):
            least = max(least, at[read.producer] + (not read.same_point(generic)))
        number = next((i for i in range(least, len(stages)) if _fits(nest, stages[i], generic, shapes)), len(stages))
        if number == len(stages):
            stages.append(Stage(_inner_extents(nest, generic), []))
        stages[number].generics.append(generic)
        if not generic.is_map:
            stages[number].reduced = _inner_reduced(nest, generic)
        at[generic] = number
    return stages


def _inner_extents(nest: Nest, generic: Generic) -> tuple[Dim, ...]:
    return tuple(generic.extents[i] for i in nest.inner(generic))


def _inner_reduced(nest: Nest, generic: Generic) -> tuple[bool, ...]:
    return tuple(generic.reduced[i] for i in nest.inner(generic))


def _fits(nest: Nest, stage: Stage, generic: Generic, shapes: Shapes) -> bool:
    """Whether the generic can run in the stage's loop."""
    if stage.extents != _inner_extents(nest, generic):
        return False
    if generic.is_map or stage.reduced is None:
        reduced = stage.reduced if generic.is_map else _inner_reduced(nest, generic)
    elif stage.reduced != _inner_reduced(nest, generic):
        return False
    else:
        reduced = stage.reduced
    if reduced is None or nest.columns:
        return True
    if len({policy.reduction_width(g.ordered) for g in (*stage.generics, generic) if g.ordered is not None}) > 1:
        return False  # they have different lanes
    # The vector runs over all trailing reduced loops at once: no generic may have to split them up again.
    trailing = next((i for i, r in enumerate(reversed(reduced)) if not r), len(reduced))
    loops = list(range(generic.rank - trailing, generic.rank))
    return len(merge_loops(loops, [*stage.generics, generic], shapes)) <= 1


# Merging loops


def merge_loops(loops: Sequence[int], generics: Sequence[Generic], shapes: Shapes) -> list[Axis]:
    """Merges adjacent loops that every access walks through as one; loops of extent 1 vanish.

    Loops (d, e) are one where in all accesses a step of d is as long as all of e: the operand is contiguous over both
    or does not depend on either.
    """
    extents = generics[0].extents
    merged: list[Axis] = []
    for loop in loops:
        if extents[loop] is as_dim(1):
            continue
        if merged and all(_mergeable(merged[-1][-1], loop, g, shapes) for g in generics):
            merged[-1] = (*merged[-1], loop)
        else:
            merged.append((loop,))
    return merged


def _mergeable(outer: int, inner: int, generic: Generic, shapes: Shapes) -> bool:
    if outer in generic.indexed or inner in generic.indexed or generic.reduced[outer] != generic.reduced[inner]:
        return False
    return all(
        loop_stride(access, outer, shapes) is loop_stride(access, inner, shapes) * generic.extents[inner]
        for access in generic.accesses
    )


def loop_stride(access: Access, loop: int, shapes: Shapes) -> Dim:
    """How far the access moves, in elements of its row-major tensor, with one step of the loop."""
    stride, total = as_dim(1), as_dim(0)
    for axis, size in zip(reversed(access.axes), reversed(shapes[access.tensor]), strict=True):
        if axis == loop:
            total = total + stride
        stride = stride * size
    return total


def best_vector_axis(axes: Sequence[Axis], generics: Sequence[Generic], shapes: Shapes, lanes: int) -> int:
    """The axis along which most operands are contiguous, results counting twice; the last of equals.

    A short axis counts only for the part of a vector that it fills.
    """

    def score(number: int) -> tuple[float, int]:
        loop, one = axes[number][-1], as_dim(1)
        extent = generics[0].extent(axes[number])
        filled = min(1.0, extent.value / lanes) if extent.is_const else 1.0
        reads = sum(loop_stride(a, loop, shapes) is one for g in generics for a in g.reads)
        writes = sum(loop_stride(a, loop, shapes) is one for g in generics for a in g.outputs)
        return (0.5 + reads + 2 * writes) * filled, number

    return max(range(len(axes)), key=score)


__all__ = [
    "Axis",
    "Nest",
    "Order",
    "RowLimit",
    "Stage",
    "best_vector_axis",
    "loop_stride",
    "merge_loops",
    "order_of",
    "plan",
]
