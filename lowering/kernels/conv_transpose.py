"""Template "conv_transpose": the output of a transposed convolution, gathered by output element.

Inputs x [N, C, ...], w [C, M / group, ...]; result [N, M, ...].  Config: `pads`, `strides`, `dilations`, `group`; sizes
and `output_padding` follow from the result's dims; `kernel_shape` and `packed` as for "conv", with weights from
`packing.pack_conv_transpose`.

Output element o = t * stride + phase takes x[t + (phase + before - k * dilation) / stride] times w[k], for the taps k
where that division leaves no rest.  So each phase is a convolution with stride 1 over the same padded image, with taps
of its own.  They are put into tables when the kernel starts: where a tap lies in the image, and its number.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim
from ...dialects.dims.expression import dim_min
from ..loop_builder import INDEX
from ..template import TemplateContext
from .direct_conv import ConvBuilder, ImageView, adopted_plan
from .emit import Emitter, Ix
from .operands import dims_list, element_type, integers, number
from .panels import pack_across, slack
from .register_tile import Products
from .window import ZERO, Axis, Convolution, Windows, product


class TransposedAxis:
    """One spatial axis: the window of stride 1 that holds the taps of all phases."""

    def __init__(self, size: Dim, out: Dim, kernel: Dim, stride: int, dilation: int, before: Dim) -> None:
        self.out, self.kernel, self.stride, self.dilation, self.before = out, kernel, stride, dilation, before
        # t runs over `positions`, and tap k lies (phase + before - k * dilation) / stride behind it
        positions = (out + (stride - 1)) // stride
        first = dim_min((before - (kernel - 1) * dilation + (stride - 1)) // stride, ZERO)
        last = (before + (stride - 1)) // stride
        self.padding = ZERO - first
        self.window = Axis(size, positions, last - first + 1, 1, 1, self.padding)


def read(
    op: kernel.TemplateOp, x: tuple[Dim, ...], w: tuple[Dim, ...] | None, result: tuple[Dim, ...]
) -> tuple[Convolution, list[TransposedAxis]]:
    """The convolution of each phase, and the axes, from the op's config and dims; w None where it is packed."""
    rank = len(x) - 2
    kernel_shape = dims_list(op, "kernel_shape") or (w[2:] if w is not None else ())
    strides = integers(op, "strides") or [1] * rank
    dilations = integers(op, "dilations") or [1] * rank
    pads = dims_list(op, "pads") or (ZERO,) * (2 * rank)
    axes = [
        TransposedAxis(x[2 + i], result[2 + i], kernel_shape[i], strides[i], dilations[i], pads[i]) for i in range(rank)
    ]
    groups = number(op, "group") or 1
    windows = Windows(tuple(a.window for a in axes))
    return Convolution(x[0], groups, x[1] // groups, result[1] // groups, windows), axes


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Emits the transposed convolution."""
    x, result = context.dims(op.inputs[0]), context.dims(op.results_[0])
    packed = integers(op, "packed")
    convolution, axes = read(op, x, None if packed else context.dims(op.inputs[1]), result)
    products = Products(element_type(op.inputs[0]))
    plan = adopted_plan(context, convolution, products, packed)
    builder = TransposedBuilder(Emitter(context.builder), context, op, convolution, products, plan, bool(packed))
    builder.use_axes(axes)
    builder.build()


class TransposedBuilder(ConvBuilder):
    """A convolution for each phase of the output."""

    def use_axes(self, axes: list[TransposedAxis]) -> None:
        self.axes = axes
        self.output_phases = product([as_dim(a.stride) for a in axes]).value
        self.all_taps = product([a.kernel for a in axes])
        self.flat = self.flat and self.output_phases == 1

    def pack_weights(self) -> SSAValue:
        """[group, tile, channel, tap, row of the tile], from w [channel, row, tap]."""
        e, c, height = self.e, self.convolution, self.height
        depth, taps = e.dim(c.depth), e.dim(self.all_taps)
        self.steps = depth * taps
        tiles = (c.rows + (height - 1)) // height
        size = tiles * c.groups * c.depth * self.all_taps * height + slack(self.tile.lanes, height)
        packed = self.context.scratch(self.products.sums, size)
        source = self.context.buffer(self.op.inputs[1])
        with e.loop(0, c.groups) as groups, e.loop(0, self.row_tiles) as row_tiles, e.loop(0, depth) as channels:
            channel = groups.index * depth + channels.index

            def row_at(r: int) -> Ix:
                row = (row_tiles.index * height + r).min(self.rows - 1)
                return (channel * self.rows + row) * taps

            tile = groups.index * self.row_tiles + row_tiles.index
            at = (tile * depth + channels.index) * (taps * height)
            pack_across(e, self.products, source, row_at, height, taps, packed, at, height)
        return packed

    def write_tables(self) -> None:
        """For each phase how many taps it has, and for each of them what it adds to a position, and its number."""
        e = self.e
        self.steps = e.dim(self.convolution.depth * self.all_taps)
        phases = as_dim(self.output_phases)
        self.counts = self.context.scratch(INDEX, phases)
        self.table = self.context.scratch(INDEX, phases * self.all_taps)
        self.numbers = self.context.scratch(INDEX, phases * self.all_taps)
        with e.loop(0, self.output_phases) as phase:
            digits = self.phase_digits(phase.index)
            start = phase.index * e.dim(self.all_taps)
            e.store(e.ix(0).ssa, self.counts, phase.index)

            def write(indices: list[Ix], _: tuple[SSAValue, ...]) -> list[SSAValue]:
                self.write_tap(phase.index, digits, start, indices)
                return []

            e.nest([e.dim(a.kernel) for a in self.axes], [], write)

    def write_tap(self, phase: Ix, digits: list[Ix], start: Ix, tap: list[Ix]) -> None:
        """Appends a tap to the phase's where it belongs to it."""
        e = self.e
        belongs: SSAValue | None = None
        offset, number_ = e.ix(0), e.ix(0)
        for axis, digit, k, pitch in zip(self.axes, digits, tap, self.windows.pitches):
            # some strides more, so that the dividend is not negative
            more = (axis.kernel - 1) * axis.dilation // axis.stride + 1
            dividend = digit + e.dim(axis.before + more * axis.stride) - k * axis.dilation
            whole = (dividend % axis.stride).compare("eq", 0)
            belongs = whole if belongs is None else e.both(belongs, whole)
            offset = offset + (dividend // axis.stride + e.dim(axis.padding - more)) * e.dim(pitch)
            number_ = number_ * e.dim(axis.kernel) + k
        assert belongs is not None
        with e.when(belongs):
            count = e.load_index(self.counts, phase)
            e.store(offset.ssa, self.table_buffer, count + start)
            e.store(number_.ssa, self.numbers, count + start)
            e.store((count + 1).ssa, self.counts, phase)

    @property
    def table_buffer(self) -> SSAValue:
        assert self.table is not None
        return self.table

    def phase_digits(self, phase: Ix) -> list[Ix]:
        """A phase's number as the phase on each axis."""
        digits: list[Ix] = []
        for axis in reversed(self.axes):
            digits.append(phase % axis.stride)
            phase = phase // axis.stride
        return digits[::-1]

    def tap_offset(self, view: ImageView, position: Ix, indices: list[Ix]) -> tuple[Ix, Ix]:
        e = self.e
        channel, tap = indices
        taps = e.dim(self.all_taps)
        entry = view.phase * taps + tap
        at = e.load_index(self.table_buffer, entry) + (channel * view.channel + view.start)
        return at + position, channel * taps + e.load_index(self.numbers, entry)

    def steps_nest(self, view: ImageView) -> list[Ix]:
        return [self.e.dim(self.convolution.depth), self.e.load_index(self.counts, view.phase)]

    def output_sizes(self, phase: Ix) -> list[Ix]:
        """Positions t with t * stride + phase inside of the output."""
        sizes = zip(self.axes, self.phase_digits(phase))
        return [(self.e.dim(a.out) - digit + (a.stride - 1)) // a.stride for a, digit in sizes]

    def output_index(self, phase: Ix, index: list[Ix]) -> list[Ix]:
        return [i * a.stride + d for a, d, i in zip(self.axes, self.phase_digits(phase), index)]

    def column_stride(self) -> int:
        return self.axes[-1].stride
