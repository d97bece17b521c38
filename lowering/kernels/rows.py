"""Rows of an image along its last axis, from memory or computed where they are copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim
from ..template import TemplateContext, Unmade
from .emit import Emitter, Ix, plain
from .register_tile import Products
from .window import product

MOST_UNROLLED = 8
"""Vectors of a row in memory that are written out one by one."""


class Row(Protocol):
    """One row."""

    def vector(self, column: Ix, stride: int, count: Ix | None) -> SSAValue:
        """Factors, widened: every stride-th element from `column` on; from the `count`-th on, which need not be there,
        they are 0."""
        ...


class Rows(Protocol):
    """The rows of an operand [images, channels, ...]."""

    @property
    def unrolled(self) -> int:
        """How many vectors of a row are worth being written out one by one."""
        ...

    def row(self, channel: Ix, outer: Sequence[Ix]) -> Row:
        """The row at an index on each spatial axis but the last; channels are counted through all images."""
        ...


@dataclass(frozen=True)
class StoredRow:
    """A row in memory that begins at `start`."""

    e: Emitter
    products: Products
    buffer: SSAValue
    start: Ix

    def vector(self, column: Ix, stride: int, count: Ix | None) -> SSAValue:
        e, lanes = self.e, self.e.target.lanes(self.products.bytes)
        mask = None if count is None else e.mask(count, lanes)
        at = column + self.start
        if stride == 1:
            return self.products.load_vector(e, self.buffer, at, lanes, mask)
        return self.products.widen(e, e.gather(self.buffer, e.ramp(at, stride, lanes), mask))


@dataclass(frozen=True)
class StoredRows:
    """An operand in memory with these spatial sizes."""

    e: Emitter
    products: Products
    buffer: SSAValue
    sizes: Sequence[Dim]
    unrolled: int = MOST_UNROLLED

    def row(self, channel: Ix, outer: Sequence[Ix]) -> StoredRow:
        e = self.e
        row = e.ix(0)
        for size, index in zip(self.sizes[:-1], inner(outer, len(self.sizes)), strict=True):
            row = row * e.dim(size) + index
        start = row * e.dim(self.sizes[-1]) + channel * e.dim(product(self.sizes))
        return StoredRow(e, self.products, self.buffer, start)


@dataclass(frozen=True)
class ComputedRow:
    """A row of an operand that nothing has stored, at an index on all axes but the last."""

    e: Emitter
    products: Products
    operand: Unmade
    index: Sequence[Ix]

    def vector(self, column: Ix, stride: int, count: Ix | None) -> SSAValue:
        e, lanes = self.e, self.e.target.lanes(self.products.bytes)
        indices = [plain(i) for i in (*self.index, column)]
        value = self.products.widen(
            e, self.operand.load(indices, lanes, stride, None if count is None else plain(count))
        )
        if count is None:
            return value
        return e.select(e.mask(count, lanes), value, e.constant(0, self.products.sums, lanes))


@dataclass(frozen=True)
class ComputedRows:
    """An operand of these dims that nothing has stored."""

    e: Emitter
    products: Products
    operand: Unmade
    dims: Sequence[Dim]
    flat: bool = False
    """Whether a row is a whole channel."""
    unrolled: int = 1
    """What computes a row is code enough once."""

    def row(self, channel: Ix, outer: Sequence[Ix]) -> ComputedRow:
        channels, axes = self.e.dim(self.dims[1]), len(self.dims) - 2
        before = [self.e.ix(0)] * (axes - 1) if self.flat else inner(outer, axes)
        index = [channel // channels, channel % channels, *before]
        return ComputedRow(self.e, self.products, self.operand, index)


def flattened(rows: Rows) -> ComputedRows | None:
    """The same as one row a channel, where what computes them may go on over the ends of rows."""
    if not isinstance(rows, ComputedRows) or len(rows.dims) == 3 or not rows.operand.is_flat(len(rows.dims) - 2):
        return None
    return replace(rows, flat=True)


def inner(outer: Sequence[Ix], axes: int) -> Sequence[Ix]:
    """The index on all of so many spatial axes but the last; images of one axis are copied as a row of two."""
    return outer[len(outer) - axes + 1 :]


def input_rows(e: Emitter, context: TemplateContext, op: kernel.TemplateOp, products: Products) -> Rows:
    """The rows of the first operand, which is computed where they are copied if nothing has made it yet."""
    x = op.inputs[0]
    dims = context.dims(x)
    if (unmade := context.unmade(x)) is not None:
        return ComputedRows(e, products, unmade, dims)
    return StoredRows(e, products, context.buffer(x), dims[2:])
