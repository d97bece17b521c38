"""The conv template in the precision mode `bf16`: pairs of channels of a position, and of a tap, in a word.

An odd number of channels is filled up with one of zeros.  What is constant was packed by `packing.pack_pair_conv`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from ...dialects import kernel
from ..template import TemplateContext
from .conv import build as build_in_f32
from .direct_conv import ConvBuilder, adopted_plan
from .emit import Emitter, Ix
from .operands import in_bf16, integers
from .pair_products import PairProducts, paired
from .rows import Row, Rows, StoredRows, flattened
from .window import Convolution, product, read_convolution


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Emits the convolution: in the mode, or in the type of its operands."""
    if not in_bf16(op):
        build_in_f32(context, op)
        return
    packed, result = integers(op, "packed"), context.dims(op.results_[0])
    x, w = (context.dims(i) for i in op.inputs)
    convolution, products = of_pairs(read_convolution(op, x, None if packed else w, result)), PairProducts()
    plan = adopted_plan(context, convolution, products, packed)
    PairConvBuilder(Emitter(context.builder), context, op, convolution, products, plan, bool(packed)).build()


def of_pairs(c: Convolution) -> Convolution:
    """A convolution whose channels are pairs."""
    return replace(c, depth=(c.depth + 1) // 2)


@dataclass(frozen=True)
class PairRow:
    """The rows of two channels as words; of the second where there is one."""

    e: Emitter
    low: Row
    high: Row
    there: SSAValue | None

    def vector(self, column: Ix, stride: int, count: Ix | None) -> SSAValue:
        e = self.e
        low, second = self.low.vector(column, stride, count), count
        if self.there is not None:
            second = e.select_index(self.there, e.target.lanes(4) if count is None else count, 0)
        return paired(e, low, self.high.vector(column, stride, second))


@dataclass(frozen=True)
class PairRows:
    """The rows of an operand whose groups have `depth` channels, by pairs of channels."""

    e: Emitter
    rows: Rows
    depth: Ix

    @property
    def unrolled(self) -> int:
        return self.rows.unrolled

    def row(self, channel: Ix, outer: Sequence[Ix]) -> PairRow:
        even = self.depth.known is not None and self.depth.known % 2 == 0
        first, there = channel * 2, None
        if not even:
            pairs = self.depth.ceildiv(2)
            within = channel % pairs * 2
            first = channel // pairs * self.depth + within
            there = (within + 1).compare("slt", self.depth)
        # the row behind the last one is not read, but its address is made
        return PairRow(self.e, self.rows.row(first, outer), self.rows.row(first + 1, outer), there)


class PairConvBuilder(ConvBuilder):
    """One convolution of f32 in bf16; its channels are pairs."""

    @property
    def channels(self) -> Ix:
        """Of a group, as they are in the operands."""
        return self.e.dim(self.context.dims(self.op.inputs[0])[1] // self.convolution.groups)

    def make_rows(self) -> Rows:
        self.stored = super().make_rows()
        return PairRows(self.e, self.stored, self.channels)

    def make_flat_rows(self) -> Rows | None:
        rows: Rows | None = flattened(self.stored)
        if isinstance(self.stored, StoredRows):
            rows = replace(self.stored, sizes=(product(self.stored.sizes),))
        return None if rows is None else PairRows(self.e, rows, self.channels)

    def pack_weights(self) -> SSAValue:
        """[group, tile, pair of channels, tap, row of the tile]."""
        e, c, height, lanes = self.e, self.convolution, self.height, self.tile.lanes
        tiles = (c.rows + (height - 1)) // height
        packed = self.context.scratch(self.products.packed, tiles * c.groups * c.steps * height)
        source, taps, depth = self.context.buffer(self.op.inputs[1]), e.dim(self.windows.taps), self.channels
        extents = [e.ix(c.groups), self.row_tiles, e.dim(c.depth), taps]

        def pack(index: list[Ix], _: tuple[SSAValue, ...]) -> list[SSAValue]:
            group, tile, pair, tap = index
            at = (((group * self.row_tiles + tile) * e.dim(c.depth) + pair) * taps + tap) * height
            for first in range(0, height, lanes):
                row = tile * height + first
                left = (self.rows - row).min(height - first)
                both = (pair * 2 + 1).compare("slt", depth)
                place = ((group * self.rows + row) * depth + pair * 2) * taps + tap
                low, high = (
                    e.gather(source, e.ramp(place + taps * n, depth * taps, lanes), e.mask(count, lanes))
                    for n, count in enumerate((left, e.select_index(both, left, 0)))
                )
                e.store_vector(paired(e, low, high), packed, at + first, e.mask(height - first, lanes))
            return []

        e.nest(extents, [], pack)
        return packed
