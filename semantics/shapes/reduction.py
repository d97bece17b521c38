"""Shape rules of reductions and of operators whose result sizes only data decides."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i64

from ...dialects import onnx
from ...dialects.dims import as_dim
from ...dialects.dims.expression import ONE, ZERO
from ..chosen_axes import reduced_to_one, without_one
from .context import Context, Rules, ShapeError, Types

FEW_AXES = 3
"""Of so many axes without one that is data the sizes are short expressions; of more they are bound at run time."""


def reduce(c: Context) -> Types:
    """The axes are an operand; without any, all are reduced, or none where the attribute says so."""
    x = c.dims(0)
    keep = bool(c.attr("keepdims"))
    axes: list[int] | None = []
    if c.has(1):
        axes = c.known_ints(1)
    if axes is None and x and c.dims(1) == (as_dim(len(x)),):
        axes = list(range(len(x)))  # as many as there are
    if axes is None and not x:
        c.equal(c.count(c.dims(1)), ZERO, "a scalar has no axis to reduce")
        axes = []
    if axes is None and (chosen := c.ints(1)) is not None and (keep or (len(chosen) == 1 and len(x) <= FEW_AXES)):
        for axis in chosen:
            c.at_most(-len(x), axis, "axes of a reduction")
            c.at_most(axis, len(x) - 1, "axes of a reduction")
        return [c.like(0, reduced_to_one(x, chosen) if keep else without_one(x, chosen[0]))]
    if axes is None:
        # which axes is not known; how many may be
        count = c.lengths(1)
        if keep:
            return [c.like(0, [c.fresh(0, a) for a in range(len(x))])]
        if count is None or len(count) != 1 or not count[0]:
            return [c.open_rank(0, 1)]
        return [c.like(0, [c.fresh(0, a) for a in range(len(x) - count[0])])]
    if not axes:
        if c.attr("noop_with_empty_axes"):
            return [c.type_of(0)]
        axes = list(range(len(x)))
    gone = {c.axis(a, len(x)) for a in axes}
    if keep:
        return [c.like(0, [ONE if a in gone else d for a, d in enumerate(x)])]
    return [c.like(0, [d for a, d in enumerate(x) if a not in gone])]


def arg_reduce(c: Context) -> Types:
    x = c.dims(0)
    axis = c.axis(c.attr("axis"), len(x))
    if x:
        # an empty axis has no index to give, unless there is no result either
        results = c.count([d for a, d in enumerate(x) if a != axis])
        c.at_most(results, results * x[axis], f"axis {axis} of 'data', along which an index is asked for, is not empty")
    if c.attr("keepdims"):
        return [c.tensor(i64, [ONE if a == axis else d for a, d in enumerate(x)])]
    return [c.tensor(i64, [d for a, d in enumerate(x) if a != axis])]


def top_k(c: Context) -> Types:
    x = list(c.dims(0))
    if not x:
        raise ShapeError("TopK of a scalar")
    axis = c.axis(c.attr("axis"), len(x))
    k = c.ints(1)
    if k is None:
        x[axis] = c.fresh(0, axis)
    else:
        c.at_most(0, k[0], "k of TopK")
        c.at_most(k[0], x[axis], "k of TopK is at most the axis' size")
        x[axis] = k[0]
    return [c.like(0, x), c.tensor(i64, x)]


def non_zero(c: Context) -> Types:
    """All elements count where they are one value that is not 0, or known not to be."""
    fill = _fill_of(c, 0)
    if fill is not None:
        return [c.tensor(i64, [c.rank(0), c.count(c.dims(0)) if fill else 0])]
    return [c.tensor(i64, [c.rank(0), c.fresh(0, 1)])]


def _fill_of(c: Context, index: int) -> bool | None:
    """Whether a tensor of one repeated value, as ConstantOfShape makes it, is not zero."""
    owner = c.need(index).owner
    while isinstance(owner, onnx.CastOp | onnx.IdentityOp | onnx.ReshapeOp | onnx.UnsqueezeOp | onnx.SqueezeOp):
        owner = owner.operands[0].owner
    if not isinstance(owner, onnx.ConstantOfShapeOp):
        return None
    value = onnx.attr(owner, "value")
    return False if value is None else bool(np.asarray(value).ravel()[0])


def unique(c: Context) -> Types:
    """y, indices, inverse_indices, counts."""
    axis = c.attr("axis")
    if axis is not None and not c.dims(0):
        raise ShapeError("Unique of a scalar along an axis")
    count = c.fresh(0, 0 if axis is None else c.axis(axis, c.rank(0)))
    if axis is None:
        y = [count]
        total = c.count(c.dims(0))
    else:
        y = list(c.dims(0))
        at = c.axis(axis, len(y))
        total, y[at] = y[at], count
    return [c.like(0, y), c.tensor(i64, [count]), c.tensor(i64, [total]), c.tensor(i64, [count])]


def non_max_suppression(c: Context) -> Types:
    return [c.tensor(i64, [c.fresh(0, 0), 3])]


_REDUCE = (
    onnx.ReduceL1Op, onnx.ReduceL2Op, onnx.ReduceLogSumOp, onnx.ReduceLogSumExpOp, onnx.ReduceMaxOp,
    onnx.ReduceMeanOp, onnx.ReduceMinOp, onnx.ReduceProdOp, onnx.ReduceSumOp, onnx.ReduceSumSquareOp,
)  # fmt: skip

RULES: Rules = {
    **dict.fromkeys(_REDUCE, reduce),
    onnx.ArgMaxOp: arg_reduce,
    onnx.ArgMinOp: arg_reduce,
    onnx.TopKOp: top_k,
    onnx.NonZeroOp: non_zero,
    onnx.UniqueOp: unique,
    onnx.NonMaxSuppressionOp: non_max_suppression,
}
