"""Template "roialign": RoiAlign whose regions decide how many samples their bins have, one for each element of a bin.

Each region's bins are summed for all channels at once: the four pixels round a sample and their weights are the same
for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim
from ..template import TemplateContext
from .emit import F32, F64, Emitter, Ix
from .operator import Operator
from .register_tile import Products

GATHER_CYCLES = 16
"""The four reads of a sample for one channel."""


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Regions are in parallel."""
    operator = Operator(context, op)
    e, x, batches, y = operator.e, operator.buffer(0), operator.buffer(2), operator.result_buffer(0)
    images, channels, height, width = (e.dim(d) for d in operator.dims(0))
    bins = [operator.attr(name, 1) for name in ("output_height", "output_width")]
    products = Products(operator.kind(0).ir)
    largest = operator.attr("mode", "avg") == "max"
    regions: Dim = operator.dims(1)[0]
    grain = e.ix(e.grain_cycles) // (channels * (GATHER_CYCLES * bins[0] * bins[1])).max(1) + 1
    with e.parallel(e.dim(regions), grain) as (lower, upper, thread):
        sums = context.scratch(products.sums, operator.dims(0)[1], thread)
        with e.loop(lower, upper, nonempty=True) as loop:
            image = e.load_index(batches, loop.index)
            inside = image.compare("ult", images)
            message = operator.problem("'batch_indices' has the index {0}; axis 0 of 'X' has size {1}")
            e.check(inside, "index", message, [image.ssa, images.ssa])
            image = e.select_index(inside, image, 0)
            rows = Line.of(operator, loop.index, 1, bins[0], height)
            columns = Line.of(operator, loop.index, 0, bins[1], width)
            samples = rows.count * columns.count
            none = samples.compare("eq", 0)
            count = e.as_float(samples.max(1), products.sums)
            start = e.constant(float("-inf") if largest else 0.0, products.sums)
            with e.loop(0, bins[0]) as i, e.loop(0, bins[1]) as j:
                with e.loop(0, channels) as channel:
                    e.store(start, sums, channel.index)
                with e.loop(0, rows.count) as down, e.loop(0, columns.count) as right:
                    corners = [
                        (row_at * width + column_at, e.mul(row_weight, column_weight))
                        for row_at, row_weight in rows.neighbours(i.index, down.index)
                        for column_at, column_weight in columns.neighbours(j.index, right.index)
                    ]
                    with e.loop(0, channels) as channel:
                        plane = (image * channels + channel.index) * (height * width)
                        terms = [e.mul(products.load(e, x, plane + at), weight) for at, weight in corners]
                        total = e.load(sums, channel.index)
                        if largest:
                            for term in terms:
                                total = e.extremum("maximumf", total, term)
                        else:
                            sample = e.add(e.add(terms[0], terms[1]), e.add(terms[2], terms[3]))
                            total = e.add(total, sample)
                        e.store(total, sums, channel.index)
                with e.loop(0, channels) as channel:
                    value = e.load(sums, channel.index)
                    value = e.select(none, e.constant(0.0, products.sums), value) if largest else e.div(value, count)
                    at = ((loop.index * channels + channel.index) * bins[0] + i.index) * bins[1] + j.index
                    e.store(products.narrow(e, value, products.element), y, at)


@dataclass(frozen=True)
class Line:
    """One axis of a region: where it starts, a bin's length and its number of samples; and the image's size there."""

    e: Emitter
    start: SSAValue
    size: SSAValue
    count: Ix
    extent: Ix

    @staticmethod
    def of(operator: Operator, region: Ix, first: int, bins: int, extent: Ix) -> Line:
        """`first` is where the region has its start on this axis, two before its end."""
        e, rois = operator.e, operator.buffer(1)
        t: Attribute = F64 if operator.kind(1).ir == F64 else F32
        half_pixel = operator.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel"
        scale = e.constant(operator.attr("spatial_scale", 1.0), t)
        ends: list[SSAValue] = []
        for at in (first, first + 2):
            value = e.mul(e.convert("extf", e.load(rois, region * 4 + at), t), scale)
            ends.append(e.sub(value, e.constant(0.5, t)) if half_pixel else value)
        length = e.sub(ends[1], ends[0])
        if not half_pixel:
            length = e.extremum("maximumf", length, e.constant(1.0, t))
        size = e.div(length, e.constant(float(bins), t))
        count = e.as_index(e.convert("fptosi", e.math("ceil", size), i64)).max(0)
        return Line(e, ends[0], size, count, extent)

    def neighbours(self, bin_: Ix, sample: Ix) -> list[tuple[Ix, SSAValue]]:
        """The two elements round a sample, with their weights.

        Places up to one element outside count as the edge, those further out weigh nothing.
        """
        e, t = self.e, self.size.type
        zero, one = e.constant(0.0, t), e.constant(1.0, t)
        within = e.mul(e.add(e.as_float(sample, t), e.constant(0.5, t)), self.size)
        offset = e.div(within, e.as_float(self.count, t))
        place = e.add(e.add(self.start, e.mul(e.as_float(bin_, t), self.size)), offset)
        size = e.as_float(self.extent, t)
        inside = e.both(e.compare("oge", place, e.constant(-1.0, t)), e.compare("ole", place, size))
        at = e.extremum("maximumf", e.extremum("minimumf", place, e.sub(size, one)), zero)
        low = e.as_index(e.convert("fptosi", at, i64)).min((self.extent - 2).max(0)).max(0)
        share = e.sub(at, e.as_float(low, t))
        weights = (e.sub(one, share), share)
        return [
            (place_at, e.select(inside, weight, zero))
            for place_at, weight in zip((low, (low + 1).min((self.extent - 1).max(0))), weights)
        ]
