"""Templates "maxunpool" and "maxroipool": elements put where a pool took them from, and pools over regions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue

from ...dialects import kernel
from ..policy import GRAIN_CYCLES
from ..template import TemplateContext, whole
from .emit import F64, Emitter, Ix
from .operator import Operator
from .register_tile import Products
from .suppression import wide


def max_unpool(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """y[indices[i]] = x[i], 0 elsewhere.

    The indices count in the map that the attributes give; with a larger one wanted they may count in that.
    """
    operator = Operator(context, op)
    e, x, indices, y = operator.e, operator.buffer(0), operator.buffer(1), operator.result_buffer(0)
    dims, total = operator.dims(0), e.dim(whole(*operator.dims(0)))
    wanted = [e.dim(d) for d in operator.result_dims(0)]
    rank = len(dims) - 2
    steps, edges = operator.attr("strides") or [1] * rank, operator.attr("pads") or [0] * (2 * rank)
    frame = [e.dim(d) for d in dims[:2]]
    for k, size in enumerate(operator.attr("kernel_shape")):
        frame.append(e.dim((dims[2 + k] - 1) * steps[k] + (size - edges[k] - edges[rank + k])))
    if operator.has(2):
        fits = all_below(e, indices, total, e.product(frame))
        frame = [e.select_index(fits, a, b) for a, b in zip(frame, wanted)]
    zero = e.constant(0, operator.kind(0).ir)
    with e.loop(0, e.product(wanted)) as fill:
        e.store(zero, y, fill.index)
    size = e.product(frame)
    with e.loop(0, total) as loop:
        given = e.load_index(indices, loop.index)
        inside = given.compare("ult", size)
        e.check(inside, "index", "MaxUnpool: 'I' has the index {0}; a map has {1} elements", [given.ssa, size.ssa])
        place, is_there = target(e, e.select_index(inside, given, 0), frame, wanted)
        with e.when(e.both(is_there, inside)):
            e.store(e.load(x, loop.index), y, place)


def all_below(e: Emitter, indices: SSAValue, count: Ix, size: Ix) -> SSAValue:
    with e.loop(0, count, carried=[e.constant(1, i1)]) as loop:
        loop.carry([e.both(loop.carried[0], e.load_index(indices, loop.index).compare("ult", size))])
    return loop.results[0]


def target(e: Emitter, offset: Ix, frame: Sequence[Ix], wanted: Sequence[Ix]) -> tuple[Ix, SSAValue]:
    """The offset in a map of other sizes, and whether the place is there."""
    place, step, is_there = e.ix(0), e.ix(1), e.constant(1, i1)
    for size, other in reversed(list(zip(frame, wanted))):
        size = size.max(1)  # an empty map has no places
        at = offset % size
        offset = offset // size
        place, step = place + at * step, step * other
        is_there = e.both(is_there, at.compare("slt", other))
    return place, is_there


def max_roi_pool(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """The greatest element of each of the bins that a region [batch, x1, y1, x2, y2] is cut into, or 0."""
    operator = Operator(context, op)
    e, x, rois, y = operator.e, operator.buffer(0), operator.buffer(1), operator.result_buffer(0)
    batches, channels, *extents = (e.dim(d) for d in operator.dims(0))
    pooled: list[int] = operator.attr("pooled_shape")
    scale: float = operator.attr("spatial_scale", 1.0)
    products = Products(operator.kind(0).ir)
    regions = e.dim(operator.dims(1)[0])
    grain = e.ix(GRAIN_CYCLES) // (channels * (8 * pooled[0] * pooled[1])).max(1) + 1
    with e.parallel(regions, grain) as (lower, upper, _), e.loop(lower, upper, nonempty=True) as loop:
        given = [wide(e, e.load(rois, loop.index * 5 + k)) for k in range(5)]
        batch = e.as_index(e.convert("fptosi", given[0], i64))
        inside = batch.compare("ult", batches)
        e.check(inside, "index", "a region of batch {0}, of {1}", [batch.ssa, batches.ssa])
        batch = e.select_index(inside, batch, 0)
        corners = [rounded(e, e.mul(v, e.constant(scale, F64))) for v in given[1:]]
        rows = Bins(e, corners[1], corners[3], pooled[0], extents[0])
        columns = Bins(e, corners[0], corners[2], pooled[1], extents[1])
        with e.when(inside), e.loop(0, channels) as channel, e.loop(0, pooled[0]) as i, e.loop(0, pooled[1]) as j:
            plane = (batch * channels + channel.index) * (extents[0] * extents[1])
            (top, bottom), (left, right) = rows.span(i.index), columns.span(j.index)
            least = e.constant(float("-inf"), products.sums)
            with e.loop(top, bottom, carried=[least]) as row:
                with e.loop(left, right, carried=[row.carried[0]]) as column:
                    value = products.load(e, x, column.index + (row.index * extents[1] + plane))
                    column.carry([e.extremum("maximumf", column.carried[0], value)])
                row.carry([column.results[0]])
            empty = e.bits("or", top.compare("sge", bottom), left.compare("sge", right))
            value = e.select(empty, e.constant(0.0, products.sums), row.results[0])
            at = ((loop.index * channels + channel.index) * pooled[0] + i.index) * pooled[1] + j.index
            e.store(products.narrow(e, value, products.element), y, at)


def rounded(e: Emitter, value: SSAValue) -> SSAValue:
    """floor(value + 0.5)"""
    return e.math("floor", e.add(value, e.constant(0.5, F64)))


class Bins:
    """An interval of whole elements, both ends included, cut into equal bins; ends are f64."""

    def __init__(self, e: Emitter, first: SSAValue, last: SSAValue, count: int, extent: Ix) -> None:
        self.e, self.extent = e, extent
        self.first = e.as_index(e.convert("fptosi", first, i64))
        length = e.extremum("maximumf", e.add(e.sub(last, first), e.constant(1.0, F64)), e.constant(1.0, F64))
        self.size = e.div(length, e.constant(float(count), F64))

    def span(self, index: Ix) -> tuple[Ix, Ix]:
        """The elements of a bin: from the first on, before the second; elements may be in two."""
        e = self.e
        low = e.math("floor", e.mul(e.as_float(index, F64), self.size))
        high = e.math("ceil", e.mul(e.as_float(index + 1, F64), self.size))
        edges = [e.as_index(e.convert("fptosi", v, i64)) + self.first for v in (low, high)]
        return edges[0].max(0).min(self.extent), edges[1].max(0).min(self.extent)
