"""Convolution with one input channel to a group: a vector of columns, some rows high, with all taps written out.

Each group of each image is one unit of work.  Its channel is copied to the thread's scratch, padded (see `window`).
A tile is `rows` output rows by one vector; an input row is loaded once for all output rows that use it, so 8 rows of a
3x3 window take 30 loads for 72 products.  Sums go over taps in order, in one chain, as in the general form.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import as_dim
from ..choices import GRAIN_CYCLES, Choices, Given, given_number
from ..template import TemplateContext
from .conv_plan import DEPTHWISE, DIRECT
from .emit import Emitter, Ix, plain
from .operands import stored_type
from .phase_image import PhaseImage
from .register_tile import Products
from .rows import input_rows
from .window import ONE, ZERO, Axis, Convolution, Windows

MOST_TAPS = 49
MOST_PRODUCTS = 150
"""Products that are written out in one tile, at most."""
KEPT_WEIGHTS = 12
"""Weights that stay in registers, at most."""


def applies(c: Convolution) -> bool:
    """Whether this form takes the convolution: one channel a group, a small known window, one or two axes."""
    taps = c.windows.taps
    return c.depth == ONE and c.groups > 1 and taps.is_const and 0 < taps.value <= MOST_TAPS and len(c.windows.axes) < 3


def is_chosen(c: Convolution, given: Given) -> bool:
    """Whether this form, which adds in the same order as the direct one, takes the convolution."""
    return applies(c) and given.get("algorithm") != DIRECT


@dataclass(frozen=True)
class ColumnTile(Choices):
    """`rows` output rows by one vector of columns."""

    rows: int
    taps: int
    algorithm: str = DEPTHWISE

    FIXED = {"taps": "it is the window"}

    @staticmethod
    def choose(axis: Axis, taps: int, given: Given) -> ColumnTile:
        """The height that wastes least of the last tile, or the one that is given."""
        grain = given_number(given, "grain_cycles", GRAIN_CYCLES, 1)
        most = max(1, min(8, MOST_PRODUCTS // taps))
        if axis.out.is_const:
            out = max(1, axis.out.value)
            rows = min(range(1, most + 1), key=lambda r: (-(-out // r) * (r + 1.5), -r))
        else:
            rows = min(4, most)
        wanted = given_number(given, "rows", rows, 1)
        return ColumnTile(wanted if wanted <= most else rows, taps, grain_cycles=grain)


def build(context: TemplateContext, op: kernel.TemplateOp, c: Convolution, products: Products) -> None:
    """Emits the convolution; w is as it is in the model."""
    if any(d == ZERO for d in context.dims(op.results_[0])):
        return
    DepthwiseBuilder(Emitter(context.builder), context, op, c, products).build()


class DepthwiseBuilder:
    """Emits one such convolution."""

    def __init__(
        self, e: Emitter, context: TemplateContext, op: kernel.TemplateOp, c: Convolution, products: Products
    ) -> None:
        self.e, self.context, self.op, self.c, self.products = e, context, op, c, products
        axes = c.windows.axes
        # one axis is a row of an image one row high
        self.rank = len(axes)
        self.windows = c.windows if self.rank == 2 else Windows((Axis(ONE, ONE, ONE, 1, 1, ZERO), *axes))
        self.row_axis, self.column_axis = self.windows.axes
        self.tile = ColumnTile.choose(self.row_axis, c.windows.taps.value, context.part.given)
        context.part.adopt(self.tile)
        self.lanes = e.target.lanes(products.bytes)
        self.image = PhaseImage(e, products, self.windows)

    def build(self) -> None:
        e, c = self.e, self.c
        x, w = input_rows(e, self.context, self.op, self.products), self.context.buffer(self.op.inputs[1])
        multiplier = e.dim(c.rows)
        work = e.dim(self.windows.outputs) * (c.windows.taps.value // 2 + 2) // self.lanes * multiplier
        grain = e.ix(e.grain_cycles) // work.max(1) + 1
        with e.parallel(e.dim(c.images) * c.groups, grain) as (lower, upper, thread):
            size = self.windows.channel + self.windows.pitches[0] * self.tile.rows + self.lanes
            image = self.context.scratch(self.products.sums, size, thread)
            sums = self.context.scratch(self.products.sums, as_dim(self.tile.rows * self.lanes), thread)
            with e.loop(lower, upper, nonempty=True) as units:
                unit = units.index
                self.image.copy_channel(x, unit, image, e.ix(0))
                with e.loop(0, multiplier) as channels:
                    channel = unit % c.groups * multiplier + channels.index
                    self.channel(image, w, unit // c.groups, channel, sums)

    def channel(self, image: SSAValue, w: SSAValue, number: Ix, channel: Ix, sums: SSAValue) -> None:
        """One output channel."""
        e, taps = self.e, self.tile.taps
        weights = [self.weight(w, channel, t) for t in range(taps)] if taps <= KEPT_WEIGHTS else None
        columns, rows = e.dim(self.column_axis.out), e.dim(self.row_axis.out)
        with e.loop(0, columns, self.lanes) as across:
            mask = e.mask(columns - across.index, self.lanes)
            with e.loop(0, rows, self.tile.rows) as down:
                totals = self.totals(image, w, channel, weights, down.index, across.index)
                for r, total in enumerate(totals):
                    e.store_vector(total, sums, r * self.lanes)
                count = (rows - down.index).min(self.tile.rows)
                self.store(number, channel, down.index, count, across.index, mask, sums)

    def weight(self, w: SSAValue, channel: Ix, tap: int) -> SSAValue:
        e = self.e
        return e.splat(self.products.load(e, w, channel * self.tile.taps + tap), self.lanes)

    def totals(
        self,
        image: SSAValue,
        w: SSAValue,
        channel: Ix,
        weights: list[SSAValue] | None,
        row: Ix,
        column: Ix,
    ) -> list[SSAValue]:
        """The sums of a tile, one vector a row.  Input rows in order give each output row its taps in order."""
        e, tile = self.e, self.tile
        rows, columns = self.row_axis, self.column_axis
        width = columns.kernel.value
        totals = [e.constant(0, self.products.sums, self.lanes)] * tile.rows
        users: dict[int, list[tuple[int, int]]] = {}
        for r in range(tile.rows):
            for k in range(rows.kernel.value):
                users.setdefault(r * rows.stride + k * rows.dilation, []).append((r, k))
        pitch = e.dim(self.windows.pitches[0])
        start = row * pitch + column
        for y in sorted(users):
            row_phase = y % rows.stride if rows.phases > 1 else 0
            for kx in range(width):
                shift = kx * columns.dilation
                column_phase = shift % columns.stride if columns.phases > 1 else 0
                phase = e.dim(self.windows.phase) * (row_phase * columns.phases + column_phase)
                at = start + (phase + pitch * (y // rows.stride) + shift // columns.stride)
                values = e.load_vector(image, at, self.lanes)
                for r, ky in users[y]:
                    tap = ky * width + kx
                    factor = weights[tap] if weights else self.weight(w, channel, tap)
                    totals[r] = e.fma(factor, values, totals[r])
        return totals

    def store(self, number: Ix, channel: Ix, row: Ix, count: Ix, column: Ix, mask: SSAValue, sums: SSAValue) -> None:
        e = self.e
        with e.loop(0, count, nonempty=True) as loop:
            value = self.products.narrow(
                e, e.load_vector(sums, loop.index * self.lanes, self.lanes), stored_type(self.op)
            )
            position = [loop.index + row, column] if self.rank == 2 else [column]
            self.context.store(self.op, [value], [plain(i) for i in (number, channel, *position)], mask)
