"""Convolution with one input channel to a group: a vector of columns, some rows high, with all taps written out.

Each group of each image is one unit of work.  Where sizes are known its channel is read where it is: tiles at the edges
have masks and zeros of their own.  Else it is copied to the thread's scratch, padded (see `window`).
A tile is `rows` output rows by one vector; an input row is loaded once for all output rows that use it, so 8 rows of a
3x3 window take 30 loads for 72 products.  Sums go over taps in order, in one chain, as in the general form.

A long epilogue needs the registers in which the weights are: then sums go to memory, those of a whole channel where it
is small, and the epilogue runs over them without gaps between the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim
from ..choices import GRAIN_CYCLES, Choices, Given, given_number
from ..loop_builder import Scalar
from ..template import TemplateContext
from .conv_plan import DEPTHWISE, DIRECT
from .emit import Emitter, Ix, plain
from .epilogues import WaitingSums, flat_epilogue, store_flat
from .operands import stored_type
from .phase_image import PhaseImage
from .register_tile import Products
from .rows import StoredRows, input_rows
from .window import ONE, ZERO, Axis, Convolution, Windows, product

MOST_TAPS = 49
MOST_PRODUCTS = 150
"""Products that are written out in one tile, at most."""
MOST_ROWS = 8
MOST_IN_PLACE = 1500
"""Products that are written out for all edges of an input that is not copied, at most."""
SHARE_OF_L1 = 3
"""Sums that take less than such a part of the first cache wait there for the epilogue,"""
MOST_WAITING = 16
"""and those of so many groups at most."""


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
    def choose(axis: Axis, taps: int, registers: int, given: Given) -> ColumnTile:
        """The height that takes the fewest loads, or the one that is given."""
        grain = given_number(given, "grain_cycles", GRAIN_CYCLES, 1)
        most = max(1, min(MOST_ROWS, MOST_PRODUCTS // taps))
        if keeps_weights(taps, 1, registers):
            most = min(most, registers - taps - SPARE_REGISTERS)
        rows = min(4, most)
        if axis.out.is_const:
            out, more = max(1, axis.out.value), axis.kernel.value / axis.stride

            def loads(height: int) -> float:
                whole, rest = divmod(out, height)
                return whole * (height + more) + (rest and rest + more)

            rows = min(range(1, most + 1), key=lambda r: (loads(r), -r))
        wanted = given_number(given, "rows", rows, 1)
        return ColumnTile(wanted if wanted <= most else rows, taps, grain_cycles=grain)


SPARE_REGISTERS = 2
"""For a vector of the image, and one besides."""


def keeps_weights(taps: int, rows: int, registers: int) -> bool:
    """Whether all weights stay in registers beside the sums of so many rows."""
    return taps + rows + SPARE_REGISTERS <= registers


def build(context: TemplateContext, op: kernel.TemplateOp, c: Convolution, products: Products) -> None:
    """Emits the convolution; w is as it is in the model."""
    if any(d == ZERO for d in context.dims(op.results_[0])):
        return
    builder = DepthwiseBuilder(Emitter(context.builder), context, op, c, products)
    parts = find_parts(builder.row_axis, builder.column_axis, builder.tile.rows, builder.lanes)
    short = parts is not None and parts.tiles * builder.tile.rows * c.windows.taps.value <= MOST_IN_PLACE
    if parts is not None and short and isinstance(builder.input_rows, StoredRows):
        builder.build_in_place(builder.input_rows.buffer, parts)
    else:
        builder.build()


@dataclass(frozen=True)
class Part:
    """Steps of `count` output rows or columns from `start` to before `stop`.

    At an edge there is one step, and its windows may reach over the input's edge.
    """

    start: int
    stop: int
    count: int
    edge: bool


@dataclass(frozen=True)
class Parts:
    """The parts of both axes."""

    rows: list[Part]
    columns: list[Part]

    @property
    def tiles(self) -> int:
        """Tiles that are written out."""
        return len(self.rows) * len(self.columns)


def find_parts(rows: Axis, columns: Axis, height: int, lanes: int) -> Parts | None:
    """How a channel is computed where it is; None where a size is not known, or columns are far apart."""
    sizes = [d for a in (rows, columns) for d in (a.size, a.out, a.before)]
    if not all(d.is_const and d.value >= 0 for d in sizes) or columns.stride > 2:
        return None
    return Parts(parts_of(rows, height, 0), parts_of(columns, lanes, columns.stride - 1))


def parts_of(axis: Axis, count: int, more: int) -> list[Part]:
    """Edges, and runs of steps between them whose windows, and `more` elements besides, are inside of the input."""
    out, size, reach = axis.out.value, axis.size.value, axis.reach.value
    parts: list[Part] = []
    for start in range(0, out, count):
        stop = min(start + count, out)
        first = start * axis.stride - axis.before.value
        last = (start + count - 1) * axis.stride + reach - axis.before.value + more
        edge = first < 0 or last >= size or stop - start < count
        if not edge and parts and not parts[-1].edge:
            parts[-1] = replace(parts[-1], stop=stop)
        else:
            parts.append(Part(start, stop, stop - start, edge))
    return parts


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
        self.registers = e.target.vector_registers
        self.tile = ColumnTile.choose(self.row_axis, c.windows.taps.value, self.registers, context.part.given)
        context.part.adopt(self.tile)
        self.lanes = e.target.lanes(products.bytes)
        self.image = PhaseImage(e, products, self.windows)
        self.input_rows = input_rows(e, context, op, products)
        self.waiting = self.how_many_wait()
        """Groups whose sums wait for the epilogue together; 0: in place those of some rows do, in a copy none."""
        self.rows_wait = self.waiting == 0
        self.sums: SSAValue | None = None
        self.slot = e.ix(0)
        """Where in `sums` those of the channel at hand begin."""

    def how_many_wait(self) -> int | None:
        """Groups whose sums wait for a long epilogue together; 0 where they are large, None where nothing waits."""
        c, outputs = self.c, self.windows.outputs
        if self.context.points_in_step(self.op) == 1 or not flat_epilogue(self.context, self.op, self.rank):
            return None
        size = outputs * c.rows * self.products.bytes * SHARE_OF_L1
        if size.is_const and size.value <= self.e.target.l1:
            return min(MOST_WAITING, self.e.target.l1 // size.value)
        return 0

    def build(self) -> None:
        """Each channel of the input is copied, padded and split into phases."""
        e = self.e
        with self.units() as (lower, upper, thread):
            size = self.windows.channel + self.windows.pitches[0] * self.tile.rows + self.lanes
            image = self.context.scratch(self.products.sums, size, thread)
            self.image.write_padding(image, e.ix(0))
            # tiles read rows behind the last: what they make of these is not stored, but is made of numbers
            zero = e.constant(0, self.products.sums, self.lanes)
            end = e.dim(size)
            with e.loop(e.dim(self.windows.channel), end, self.lanes) as behind:
                e.store_vector(zero, image, behind.index, e.mask(end - behind.index, self.lanes))

            def compute(unit: Ix, first: Ix) -> None:
                self.image.copy_inside(self.input_rows, unit, image, e.ix(0))
                with self.channels(unit, first) as (number, channel, factor):
                    self.copied_channel(image, number, channel, factor)

            self.all_units(lower, upper, thread, compute)

    def build_in_place(self, x: SSAValue, parts: Parts) -> None:
        """The input is read where it is, with masks at its edges."""
        e = self.e
        plane = e.dim(product([a.size for a in self.windows.axes]))
        width = self.column_axis.out.value

        def compute(unit: Ix, first: Ix) -> None:
            with self.channels(unit, first) as (number, channel, factor):
                # from the innermost loop's own channel, so that places in it are constants added to it, not kept one by
                # one
                own = unit if self.c.rows is ONE else number * self.c.groups + channel // e.dim(self.c.rows)
                for rows in parts.rows:
                    with self.steps(rows) as row:
                        for columns in parts.columns:
                            with self.steps(columns) as column:
                                source = self.in_place(x, own * plane, rows, columns, row, column)
                                totals = self.totals(rows.count, source, factor)
                                mask = e.mask(width - column, self.lanes) if columns.edge else None
                                self.store(number, channel, row, column, mask, totals)
                        if self.sums is not None and self.rows_wait:
                            self.finish(number, channel, e.ix(0), row * width, e.ix(rows.count * width))

        with self.units() as (lower, upper, thread):
            if self.rows_wait:
                self.sums = self.sums_scratch(self.column_axis.out * self.tile.rows, thread)
            self.all_units(lower, upper, thread, compute)

    def all_units(self, lower: Ix, upper: Ix, thread: SSAValue, compute: Callable[[Ix, Ix], None]) -> None:
        """`compute(unit, first)` for all groups of all images: some, from `first` on, and then the epilogue of these.

        While one channel's epilogue waits for its own chains, the processor goes on with the next one's.
        """
        e = self.e
        if not self.waiting:
            with e.loop(lower, upper, nonempty=True) as units:
                compute(units.index, units.index)
            return
        outputs = e.dim(self.windows.outputs)
        self.sums = self.sums_scratch(self.windows.outputs * self.c.rows * self.waiting, thread)
        with e.loop(lower, upper, self.waiting, nonempty=True) as some:
            last = (some.index + self.waiting).min(upper)
            with e.loop(some.index, last, nonempty=True) as units:
                compute(units.index, some.index)
            with (
                e.loop(some.index, last, nonempty=True) as units,
                self.outputs_of(units.index, some.index) as (number, channel),
            ):
                self.finish(number, channel, self.slot, e.ix(0), outputs)

    def sums_scratch(self, size: Dim, thread: SSAValue) -> SSAValue:
        """Memory for sums; vectors behind the last are read whole."""
        return self.context.scratch(self.products.sums, size + self.lanes, thread)

    def finish(self, number: Ix, channel: Ix, slot: Ix, start: Ix, count: Ix) -> None:
        """The epilogue of `count` positions from `start` on, whose sums wait in order from `slot` on."""
        assert self.sums is not None
        sums = WaitingSums(self.sums, slot, count)
        store_flat(self.e, self.context, self.op, self.products, sums, [number, channel], start, self.rank)

    @contextmanager
    def steps(self, part: Part) -> Generator[Ix]:
        """The output rows or columns at which the part's tiles start."""
        if part.edge:
            yield self.e.ix(part.start)
            return
        with self.e.loop(part.start, part.stop, part.count) as loop:
            yield loop.index

    @contextmanager
    def units(self) -> Generator[tuple[Ix, Ix, SSAValue]]:
        """The parallel loop over the groups of all images."""
        e, c = self.e, self.c
        work = e.dim(self.windows.outputs) * (c.windows.taps.value // 2 + 2) // self.lanes * e.dim(c.rows)
        grain = e.ix(e.grain_cycles) // work.max(1) + 1
        with e.parallel(e.dim(c.images) * c.groups, grain) as bounds:
            yield bounds

    @contextmanager
    def outputs_of(self, unit: Ix, first: Ix) -> Generator[tuple[Ix, Ix]]:
        """A group's image and each of its output channels; of those from `first` on they have their place in `sums`."""
        e, c = self.e, self.c
        multiplier = e.dim(c.rows)
        with ExitStack() as loops:
            number = e.ix(0) if multiplier.known == 1 else loops.enter_context(e.loop(0, multiplier)).index
            if self.waiting:
                self.slot = ((unit - first) * multiplier + number) * e.dim(self.windows.outputs)
            yield unit // c.groups, unit % c.groups * multiplier + number

    @contextmanager
    def channels(self, unit: Ix, first: Ix) -> Generator[tuple[Ix, Ix, Callable[[int], SSAValue]]]:
        """The output channels of a group: its image, its number, and the vector of a tap's weight."""
        taps = self.tile.taps
        w = self.context.buffer(self.op.inputs[1])
        with self.outputs_of(unit, first) as (image, channel):
            kept: list[SSAValue] = []
            if keeps_weights(taps, self.tile.rows, self.registers):
                kept = [self.weight(w, channel, t) for t in range(taps)]
            yield image, channel, lambda tap: kept[tap] if kept else self.weight(w, channel, tap)

    def copied_channel(self, image: SSAValue, number: Ix, channel: Ix, factor: Callable[[int], SSAValue]) -> None:
        """One output channel: tiles of whole height, then one of what is left."""
        e, height = self.e, self.tile.rows
        columns, rows = e.dim(self.column_axis.out), e.dim(self.row_axis.out)
        whole = rows // height * height
        rest = (rows - whole).known
        tiles = [(height, e.ix(0), whole), (rest or 1, whole, rows)]
        with e.loop(0, columns, self.lanes) as across:
            mask = e.mask(columns - across.index, self.lanes)
            for count, start, end in tiles:
                if start.known is not None and start.known == end.known:
                    continue
                with e.loop(start, end, count) as down:
                    totals = self.totals(count, self.copied(image, down.index, across.index), factor)
                    self.store(number, channel, down.index, across.index, mask, totals)

    def weight(self, w: SSAValue, channel: Ix, tap: int) -> SSAValue:
        e = self.e
        return e.splat(self.products.load(e, w, channel * self.tile.taps + tap), self.lanes)

    def totals(
        self, height: int, source: Callable[[int, int], SSAValue], factor: Callable[[int], SSAValue]
    ) -> list[SSAValue]:
        """The sums of a tile, one vector a row.  Input rows in order give each output row its taps in order.

        `source` gives a vector for an input row, counted from the tile's first one, and a shift of columns.
        """
        e, rows, columns = self.e, self.row_axis, self.column_axis
        width = columns.kernel.value
        totals = [e.constant(0, self.products.sums, self.lanes)] * height
        users: dict[int, list[tuple[int, int]]] = {}
        for r in range(height):
            for k in range(rows.kernel.value):
                users.setdefault(r * rows.stride + k * rows.dilation, []).append((r, k))
        for y in sorted(users):
            for kx in range(width):
                values = source(y, kx * columns.dilation)
                for r, ky in users[y]:
                    totals[r] = e.fma(factor(ky * width + kx), values, totals[r])
        return totals

    def copied(self, image: SSAValue, row: Ix, column: Ix) -> Callable[[int, int], SSAValue]:
        """Vectors of the copied image."""
        e, rows, columns = self.e, self.row_axis, self.column_axis
        pitch = e.dim(self.windows.pitches[0])
        start = row * pitch + column

        def source(y: int, shift: int) -> SSAValue:
            row_phase = y % rows.stride if rows.phases > 1 else 0
            column_phase = shift % columns.stride if columns.phases > 1 else 0
            phase = e.dim(self.windows.phase) * (row_phase * columns.phases + column_phase)
            at = start + (phase + pitch * (y // rows.stride) + shift // columns.stride)
            return e.load_vector(image, at, self.lanes)

        return source

    def in_place(
        self, x: SSAValue, start: Ix, rows: Part, columns: Part, row: Ix, column: Ix
    ) -> Callable[[int, int], SSAValue]:
        """Vectors of the input, and zeros beside it."""
        e, lanes = self.e, self.lanes
        height, width, stride = self.row_axis.size.value, self.column_axis.size.value, self.column_axis.stride
        first_row, first_column = (a.before.value for a in (self.row_axis, self.column_axis))
        origin = (row * self.row_axis.stride * width + column * stride) + start
        zero = e.constant(0, self.products.sums, lanes)
        pairs: dict[tuple[int, int], list[SSAValue]] = {}

        def load(y: int, shift: int) -> SSAValue:
            """Neighbouring elements; which are of the input is known at an edge, and all are elsewhere."""
            if rows.edge and not 0 <= rows.start * self.row_axis.stride - first_row + y < height:
                return zero
            left = columns.start * stride - first_column + shift
            first, last = max(0, -left), min(lanes, width - left)
            if columns.edge and first >= last:
                return zero
            at = origin + ((y - first_row) * width + (shift - first_column))
            whole = not columns.edge or (first == 0 and last == lanes)
            return self.products.load_vector(e, x, at, lanes, None if whole else self.between(first, last))

        def source(y: int, shift: int) -> SSAValue:
            if stride == 1:
                return load(y, shift)
            odd = shift % 2
            pair = pairs.setdefault((y, shift - odd), [])
            if not pair:
                pair += [load(y, shift - odd), load(y, shift - odd + lanes)]
            low, high = pair
            return e.shuffle(low, high, range(odd, 2 * lanes, 2))

        return source

    def between(self, first: int, last: int) -> SSAValue:
        """The lanes from `first` to before `last`."""
        e = self.e
        mask = e.mask(last, self.lanes)
        return e.both(mask, e.flip(e.mask(first, self.lanes))) if first else mask

    def store(
        self, number: Ix, channel: Ix, row: Ix, column: Ix, mask: SSAValue | None, totals: Sequence[SSAValue]
    ) -> None:
        """The epilogue and the stores of a tile, or its sums to where they wait."""
        if self.sums is not None:
            first = self.e.ix(0) if self.rows_wait else row
            width = self.e.dim(self.column_axis.out)
            for r, total in enumerate(totals):
                self.e.store_vector(total, self.sums, self.slot + ((first + r) * width + column), mask)
            return
        points: list[list[SSAValue]] = []
        places: list[list[Scalar]] = []
        for r, total in enumerate(totals):
            points.append([self.products.narrow(self.e, total, stored_type(self.op))])
            position = [row + r, column] if self.rank == 2 else [column]
            places.append([plain(i) for i in (number, channel, *position)])
        if self.context.points_in_step(self.op) == 1:
            self.context.store_in_step(self.op, points, places, mask)
            return
        # long epilogues in step would take the registers of the weights
        for values, place in zip(points, places):
            self.context.store(self.op, values, place, mask)
