"""Templates "convinteger" and "qlinearconv": convolutions of bytes less their zero points, exact in 32 bits.

The conv template on quads: four channels of a position in each 32-bit element of the image, as u8, four channels of a
tap in each of the weights, as s8.  Zero points are taken off as in `integer_product`.  Padding is the input's zero
point.  Where the weights may have a zero point, a tile has one row of ones more, whose sums are those of the inputs.

Config as the operators' attributes; with `packed` = [rows, vectors, pixels] w was a constant and is
`packing.pack_quad_conv(w, group, height)`, where the height is vectors * lanes with pixels, else rows: bytes, one axis;
`kernel_shape` is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim
from ...dialects.dims.expression import ONE
from ..template import TemplateContext
from ..tensor.element_kinds import Element
from .byte_panels import FLIP, DotProducts, as_bytes, ones, scratch_of_quads, zipped
from .conv_plan import ConvPlan, choose_for_bytes, plan_of
from .direct_conv import ConvBuilder
from .emit import F32, F64, Emitter, Ix, plain
from .integer_product import Parameter, Requantizer, Scale, widened
from .operands import dims_list, integers, number, text
from .operator import Operator
from .phase_image import PhaseImage, RowRange
from .register_tile import RegisterTile
from .rows import Row, StoredRow, StoredRows
from .window import ZERO, Axis, Convolution, Windows, product

QUAD_OF_ONES = 0x01010101


class QuadImage(PhaseImage):
    """Copies four channels at once, as quads of u8."""

    def __init__(self, e: Emitter, windows: Windows, flip: bool, zero: SSAValue, channels: Ix, plane: Ix) -> None:
        super().__init__(e, DotProducts(rows_signed=True), windows)
        self.flip, self.zero, self.channels, self.plane = flip, zero, channels, plane
        self.there = e.ix(4)
        self.filling = self.flips = zero

    @property
    def whole_quads(self) -> bool:
        """Whether all channels of all quads are there."""
        return self.channels.known is not None and self.channels.known % 4 == 0

    def of_quad(self, quad: Ix) -> None:
        """Which of a quad's channels there are; the others are 0, as their weights."""
        e = self.e
        none = e.constant(0, i32)
        if not self.whole_quads:
            self.there = (self.channels - quad * 4).min(4)
        self.filling = self.flips = none
        for i in range(4):
            shift = e.constant(8 * i, i32)
            byte, flip = (e.bits("shl", b, shift) for b in (self.zero, e.constant(FLIP * self.flip, i32)))
            if not self.whole_quads:
                inside = self.there.compare("sgt", i)
                byte, flip = e.select(inside, byte, none), e.select(inside, flip, none)
            self.filling, self.flips = e.bits("or", self.filling, byte), e.bits("or", self.flips, flip)

    def filler(self) -> SSAValue:
        """The zero point."""
        return self.e.b.broadcast(self.filling, self.lanes)

    def contiguous(self, row: Row, column: Ix, count: Ix | None) -> SSAValue:
        buffer, start = in_memory(row)

        def load(at: Ix, mask: SSAValue | None) -> SSAValue:
            return self.e.load_vector(buffer, at, self.lanes, mask)

        return self._quads(load, column + start, count)

    def strided(self, row: Row, column: Ix, stride: int, count: Ix | None) -> SSAValue:
        buffer, start = in_memory(row)

        def load(at: Ix, mask: SSAValue | None) -> SSAValue:
            return self.e.gather(buffer, self.e.ramp(at, stride, self.lanes), mask)

        return self._quads(load, column + start, count)

    def _quads(self, load: Callable[[Ix, SSAValue | None], SSAValue], at: Ix, count: Ix | None) -> SSAValue:
        e, lanes = self.e, self.lanes
        masks: list[SSAValue | None]
        if self.whole_quads:
            masks = [None if count is None else e.mask(count, lanes)] * 4
        else:
            left = e.ix(lanes) if count is None else count
            # channels that are not there are not read either
            masks = [e.mask(e.select_index(self.there.compare("sgt", i), left, 0), lanes) for i in range(4)]
        quads = zipped(e, [load(at + self.plane * i, mask) for i, mask in enumerate(masks)])
        if self.flip:
            quads = e.bits("xor", quads, e.b.broadcast(self.flips, lanes))
        return quads if count is None else e.select(e.mask(count, lanes), quads, self.filler())


def in_memory(row: Row) -> tuple[SSAValue, Ix]:
    """Where a row is."""
    assert isinstance(row, StoredRow)
    return row.buffer, row.start


class IntegerConvBuilder(ConvBuilder):
    """One convolution of bytes."""

    sums_are_results = False

    def __init__(
        self,
        operator: Operator,
        operands: tuple[int, int],
        zeros: tuple[Parameter, Parameter],
        convolution: Convolution,
        plan: ConvPlan,
        packed: bool,
        finish: Finish,
    ) -> None:
        quads = Convolution(
            convolution.images, convolution.groups, (convolution.depth + 3) // 4, convolution.rows, convolution.windows
        )
        products = DotProducts(rows_signed=not plan.pixels)
        super().__init__(operator.e, operator.context, operator.op, quads, products, plan, packed)
        self.o, self.finish = operator, finish
        self.channels, self.input, self.weight = convolution.depth, *operands
        self.x_zero, self.w_zero = zeros
        self.copied = self.windows
        if self.windows.is_plain:
            # without padding a channel is one row
            size = product([a.size for a in self.windows.axes])
            self.copied = Windows((Axis(size, size, ONE, 1, 1, ZERO),))
        sizes = [a.size for a in self.copied.axes]
        self.input_rows = StoredRows(self.e, self.products, operator.buffer(operands[0]), sizes)
        self.x_flip = operator.kind(self.input).kind == "i"
        self.w_flip = operator.kind(self.weight).kind == "u"
        self.flat_rows, self.panels = None, False
        self.reads_input = False
        self.extra_row = may_have_zero(operator.kind(self.weight), self.w_zero.known())
        self.height -= self.extra_row

    @property
    def plane(self) -> Ix:
        return self.e.dim(product([a.size for a in self.windows.axes]))

    def make_image(self) -> PhaseImage:
        self.input_zero = self.zero_of(self.x_zero, FLIP if self.x_flip else 0, [])
        return self.quad_image(self.windows)

    def quad_image(self, windows: Windows) -> QuadImage:
        return QuadImage(self.e, windows, self.x_flip, self.input_zero, self.e.dim(self.channels), self.plane)

    def zero_of(self, zero: Parameter, shift: int, indices: Sequence[Ix]) -> SSAValue:
        """A zero point, a scalar, in the form of the packed bytes."""
        e = self.e
        known = zero.known()
        if known is not None:
            return e.constant(known + shift, i32)
        value = widened(e, zero.kind, zero.load([plain(i) for i in indices], 0, 1, None))
        return e.add(value, e.constant(shift, i32))

    def image_scratch(self, size: Dim, thread: SSAValue | None) -> SSAValue:
        """Quads."""
        bytes_ = self.context.scratch(i8, size * 4, thread)
        return scratch_of_quads(self.e, bytes_, self.e.dim(size))

    def copied_image(self) -> tuple[QuadImage, StoredRows]:
        return self.quad_image(self.copied), self.input_rows

    def copy(self, channel: Ix, first: Ix, buffer: SSAValue, part: RowRange | None = None) -> None:
        """A quad of channels; they are numbered within a group."""
        e = self.e
        quads = e.dim(self.convolution.depth)
        group, quad = (first + channel) // quads, (first + channel) % quads
        source = group * e.dim(self.channels) + quad * 4
        image, rows = self.copied_image()
        image.of_quad(quad)
        image.copy_channel(rows, source, buffer, channel * e.dim(self.windows.channel), part)

    def pack_weights(self) -> SSAValue:
        """[group, tile, quad, tap, row of the tile], by bytes."""
        e, c, height = self.e, self.convolution, self.height
        tiles = (c.rows + (height - 1)) // height
        size = tiles * c.groups * c.steps * height
        bytes_ = self.context.scratch(i8, size * 4)
        source, taps, depth = self.o.buffer(self.weight), e.dim(self.windows.taps), e.dim(self.channels)
        extents = [e.ix(c.groups), self.row_tiles, e.dim(c.depth), taps, e.ix(height), e.ix(4)]

        def pack(index: list[Ix], _: tuple[SSAValue, ...]) -> list[SSAValue]:
            group, tile, quad, tap, r, i = index
            row, channel = tile * height + r, quad * 4 + i
            inside = e.both(row.compare("slt", self.rows), channel.compare("slt", depth))
            place = ((group * self.rows + row) * depth + channel) * taps + tap
            value = e.load(source, e.select_index(inside, place, 0))
            if self.w_flip:
                value = e.bits("xor", value, e.constant(FLIP - 256, i8))
            at = ((((group * self.row_tiles + tile) * e.dim(c.depth) + quad) * taps + tap) * height + r) * 4 + i
            e.store(e.select(inside, value, e.constant(0, i8)), bytes_, at)
            return []

        e.nest(extents, [], pack)
        return scratch_of_quads(e, bytes_, e.dim(size))

    def packed_weights(self) -> SSAValue:
        size = self.o.dims(self.weight)[0] // 4
        return scratch_of_quads(self.e, self.o.buffer(self.weight), self.e.dim(size))

    def write_tables(self) -> None:
        super().write_tables()
        self.write_terms()
        self.finish.prepare()

    @property
    def all_tiles(self) -> Dim:
        """Tiles of output channels, of all groups."""
        c = self.convolution
        return (c.rows + (self.height - 1)) // self.height * c.groups

    def write_terms(self) -> None:
        """What is added to the sums of each output channel for the input's zero point, and the bias."""
        e, height, lanes = self.e, self.height, self.tile.lanes
        self.terms = self.context.scratch(i32, self.all_tiles * height)
        zero = e.b.broadcast(self.input_zero, lanes)
        with e.loop(0, e.dim(self.all_tiles)) as loop:
            for first in range(0, height, lanes):
                mask = e.mask(height - first, lanes)
                at = loop.index * height + first
                term = e.sub(e.constant(0, i32, lanes), e.mul(zero, self.weight_sums(loop.index, first, mask)))
                if self.finish.bias is not None:
                    group, row = loop.index // self.row_tiles, loop.index % self.row_tiles * height + first
                    there = e.both(mask, e.mask(self.rows - row, lanes))
                    term = e.add(term, e.load_vector(self.finish.bias, group * self.rows + row, lanes, there))
                e.store_vector(term, self.terms, at, mask)

    def weight_sums(self, tile: Ix, first: int, mask: SSAValue) -> SSAValue:
        """The sums of the weights of a tile's channels, from the one numbered `first` on; packed, they are behind all
        weights."""
        e, height, lanes = self.e, self.height, self.tile.lanes
        if self.packed:
            behind = e.dim(self.all_tiles) * self.steps * height
            return e.load_vector(self.weights, tile * height + behind + first, lanes, mask)
        start = tile * (self.steps * height) + first
        with e.loop(0, self.steps, carried=[e.constant(0, i32, lanes)]) as steps:
            quads = e.load_vector(self.weights, steps.index * height + start, lanes, mask)
            steps.carry([e.dot("u8s8", steps.carried[0], ones(e), as_bytes(e, quads))])
        return steps.results[0]

    def weight_scalar(self, weight: Ix, r: int) -> SSAValue:
        if self.extra_row and r == self.tile.rows - 1:
            return self.e.constant(QUAD_OF_ONES, i32)
        return super().weight_scalar(weight, r)

    def finished(
        self,
        value: SSAValue,
        row: Ix,
        channel: Ix,
        from_sum: Ix,
        sums: SSAValue,
        indices: list[Ix],
        mask: SSAValue | None,
    ) -> SSAValue:
        e, lanes = self.e, self.tile.lanes
        group = channel // self.rows
        tile_rows = self.row_tiles * self.height
        term = e.load(self.terms, group * tile_rows + (channel - group * self.rows))
        value = e.add(value, e.b.broadcast(term, lanes))
        if self.extra_row:
            q = self.zero_of(self.w_zero, -FLIP if self.w_flip else 0, indices)
            inputs = e.load_vector(sums, from_sum + (self.tile.rows - 1) * self.tile.columns, lanes)
            value = e.sub(value, e.mul(e.b.broadcast(q, lanes), inputs))
            count = e.convert("index_cast", e.dim(self.channels * self.windows.taps).ssa, i32)
            value = e.add(value, e.b.broadcast(e.mul(count, e.mul(self.input_zero, q)), lanes))
        return self.finish(value, indices, mask)


def may_have_zero(kind: Element, zero: float | None) -> bool:
    """Whether packed weights may have a zero point that is not 0; `zero` is None where it is not known."""
    shift = -FLIP if kind.kind == "u" else 0
    return zero is None or zero + shift != 0


def read_convolution(
    op: kernel.TemplateOp, x: tuple[Dim, ...], w: tuple[Dim, ...] | None, result: tuple[Dim, ...]
) -> Convolution:
    """The geometry, from the operator's attributes; w None where it is packed."""
    from ..tensor.templates import resolved_pads

    rank = len(x) - 2
    kernel_shape = dims_list(op, "kernel_shape") or (w[2:] if w is not None else ())
    strides = integers(op, "strides") or [1] * rank
    dilations = integers(op, "dilations") or [1] * rank
    auto_pad = text(op, "auto_pad", "NOTSET")
    pads = resolved_pads(auto_pad, integers(op, "pads") or None, x, kernel_shape, strides, dilations)
    axes = tuple(Axis(x[2 + i], result[2 + i], kernel_shape[i], strides[i], dilations[i], pads[i]) for i in range(rank))
    group = number(op, "group") or 1
    return Convolution(x[0], group, x[1] // group, result[1] // group, Windows(axes))


def emit(operator: Operator, operands: tuple[int, int], zeros: tuple[Parameter, Parameter], finish: Finish) -> None:
    packed = integers(operator.op, "packed")
    w = None if packed else operator.dims(operands[1])
    convolution = read_convolution(operator.op, operator.dims(operands[0]), w, operator.result_dims(0))
    products, target = DotProducts(rows_signed=True), operator.context.target
    extra = may_have_zero(operator.kind(operands[1]), zeros[1].known())
    if packed:
        tile, pixels = RegisterTile(packed[0] + extra, packed[1], target.lanes(4)), bool(packed[2])
    else:
        tile, pixels = choose_for_bytes(convolution, products, target, extra, operator.context.part.given)
    plan = plan_of(convolution, products, target, tile, pixels, operator.context.part.given)
    operator.context.part.adopt(plan)
    IntegerConvBuilder(operator, operands, zeros, convolution, plan, bool(packed), finish).build()


class Finish:
    """What becomes of a vector of exact sums; here they are the result."""

    bias: SSAValue | None = None
    """A number for each output channel that is added to its sums."""

    def prepare(self) -> None:
        """What is done once, before all sums."""

    def __call__(self, value: SSAValue, indices: list[Ix], mask: SSAValue | None) -> SSAValue:
        return value


class Requantized(Finish):
    """Sums with their bias, scaled to the result's bytes."""

    def __init__(self, operator: Operator) -> None:
        self.o = operator
        scales = Parameter(operator, 1, "whole"), ByChannel(operator, 4)
        self.requantizer = Requantizer(
            operator, scales, Parameter(operator, 6, "whole"), Parameter(operator, 7, "whole")
        )
        self.bias = operator.buffer(8) if operator.has(8) else None

    def prepare(self) -> None:
        """Writes the scale of each channel, in f64 and rounded."""
        e, channels = self.o.e, self.o.result_dims(0)[1]
        self.exact, self.scales = (self.o.context.scratch(t, channels) for t in (F64, F32))
        with e.loop(0, e.dim(channels)) as loop:
            scale = self.requantizer.scale([0, loop.index.ssa], -1, None, None)
            e.store(scale, self.exact, loop.index)
            e.store(e.convert("truncf", scale, F32), self.scales, loop.index)

    def __call__(self, value: SSAValue, indices: list[Ix], mask: SSAValue | None) -> SSAValue:
        e, channel = self.o.e, indices[1]
        scale = Scale(e.load(self.scales, channel), lambda: e.load(self.exact, channel))
        return self.requantizer.rounded(value, scale, [plain(i) for i in indices], mask, -1)


class ByChannel(Parameter):
    """A parameter with one element for each output channel, or one for all."""

    def __init__(self, operator: Operator, index: int) -> None:
        super().__init__(operator, index, "whole")
        self.size = operator.dims(index)[0] if operator.has(index) and operator.dims(index) else ONE

    def load(self, indices: Sequence[SSAValue | int], axis: int, lanes: int, mask: SSAValue | None) -> SSAValue:
        if self.size is ONE:
            return self.e.load(self.buffer, 0)
        channel = self.e.ix(indices[1])
        if self.size is not self.extents[1]:
            channel = self.e.select_index(self._is_one(self.size), 0, channel)
        return self.e.load(self.buffer, channel)


def conv_integer(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """y = conv(x - x_zero_point, w - w_zero_point), i32."""
    operator = Operator(context, op)
    emit(operator, (0, 1), (Parameter(operator, 2, "whole"), ByChannel(operator, 3)), Finish())


def qlinear_conv(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """y = saturate(round((conv(x - x_zero, w - w_zero) + bias) x_scale w_scale / y_scale) + y_zero)"""
    operator = Operator(context, op)
    emit(operator, (0, 3), (Parameter(operator, 2, "whole"), ByChannel(operator, 5)), Requantized(operator))
