"""Templates "nonzero" and "compress": what they pick is counted as they go, and the count is their last result.

The results have room for the most that there can be; what is picked is contiguous at the beginning.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...dialects import kernel
from ..template import TemplateContext, whole
from .emit import F32, Emitter, Ix
from .operator import Operator


def count_where(e: Emitter, condition: SSAValue, so_far: Ix) -> Ix:
    return e.select_index(condition, so_far + 1, so_far)


def deliver_size(operator: Operator, size: Ix, behind: int = 1) -> None:
    """Stores the size that was found, in the result behind the `behind` that the operator can have.

    There is none where the size was known before.
    """
    e = operator.e
    if operator.has_result(behind):
        e.store(e.convert("index_cast", size.ssa, i64), operator.result_buffer(behind), 0)


def nonzero(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """The indices of elements that are not zero, one row an axis: they are counted first, as rows are that long."""
    operator = Operator(context, op)
    e, x, y, dims = operator.e, operator.buffer(0), operator.result_buffer(0), operator.dims(0)
    kind = operator.kind(0)
    total = e.dim(whole(*dims))

    def is_nonzero(at: Ix) -> SSAValue:
        value = e.load(x, at)
        if kind.is_float and kind.bits < 32:
            value = e.convert("extf", value, F32)
        if kind.kind == "c":  # -0.0 is zero in each part
            part = kind.bits // 2
            magnitudes = ((1 << part - 1) - 1) * (1 | 1 << part)
            value = e.bits("and", value, e.constant(magnitudes, value.type))
        return e.compare("une" if kind.is_float else "ne", value, e.constant(0, value.type))

    with e.loop(0, total, carried=[e.ix(0).ssa]) as counting:
        counting.carry([count_where(e, is_nonzero(counting.index), e.ix(counting.carried[0])).ssa])
    count = e.ix(counting.results[0])
    with e.loop(0, total, carried=[e.ix(0).ssa]) as loop:
        column = e.ix(loop.carried[0])
        picked = is_nonzero(loop.index)
        with e.when(picked):
            rest = loop.index
            for axis in reversed(range(len(dims))):
                size = e.dim(dims[axis])
                index = rest % size if axis else rest
                rest = rest // size
                e.store(e.convert("index_cast", index.ssa, i64), y, count * axis + column)
        loop.carry([count_where(e, picked, column).ssa])
    deliver_size(operator, count)


def compress(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """The slices along an axis, or elements, whose condition holds; there may be fewer conditions than slices."""
    operator = Operator(context, op)
    e, x, y, dims = operator.e, operator.buffer(0), operator.result_buffer(0), operator.dims(0)
    condition = operator.buffer(1)
    axis = operator.attr("axis")
    if axis is None:
        outer, slices, inner = e.ix(1), e.dim(whole(*dims)), e.ix(1)
    else:
        axis %= len(dims)
        outer, slices, inner = (e.dim(whole(*part)) for part in (dims[:axis], dims[axis : axis + 1], dims[axis + 1 :]))
    [conditions] = operator.dims(1)
    given = e.dim(conditions).min(slices)
    message = operator.problem("Compress: 'condition' is true at {0}, of {1} elements")
    with e.loop(given, e.dim(conditions)) as behind:  # none of these may be true
        stray = e.select_index(e.load(condition, behind.index), behind.index + 1, e.ix(0))
        e.check(stray.compare("ule", slices), "index", message, [behind.index.ssa, slices.ssa])
    with e.loop(0, given, carried=[e.ix(0).ssa]) as counting:
        counting.carry([count_where(e, e.load(condition, counting.index), e.ix(counting.carried[0])).ssa])
    count = e.ix(counting.results[0])
    with e.loop(0, outer) as blocks, e.loop(0, given, carried=[e.ix(0).ssa]) as loop:
        at = e.ix(loop.carried[0])
        picked = e.load(condition, loop.index)
        source, dest = (blocks.index * slices + loop.index) * inner, (blocks.index * count + at) * inner
        with e.when(picked):
            if inner.known == 1:
                e.store(e.load(x, source), y, dest)
            else:
                e.copy(x, source, y, dest, inner)
        loop.carry([count_where(e, picked, at).ssa])
    deliver_size(operator, count)
