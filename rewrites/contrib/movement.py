"""Operators that runtimes had before ONNX did, or have under another form."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import i1, i32, i64

from ...dialects import onnx
from ..node_builder import Results
from .expansion import Expansion, Rule


def expand_dims(b: Expansion) -> Results:
    """Unsqueeze at an axis that is a tensor of int32."""
    b.known()
    axis = b.value(onnx.ReshapeOp, b.cast(b.x(1), i64), b.ints([1]))
    return [b.value(onnx.UnsqueezeOp, b.x(0), axis)]


def range_(b: Expansion) -> Results:
    """Range, of scalars or vectors of one element; the step may be left out."""
    b.known()
    start, limit, step = b.x(0), b.x(1), b.at(2)
    step = b.number(1, start) if step is None else b.scalar(step)
    return [b.value(onnx.RangeOp, b.scalar(start), b.scalar(limit), step)]


def trilu(b: Expansion) -> Results:
    """Trilu."""
    b.known("upper")
    return [b.value(onnx.TriluOp, b.x(0), b.at(1), attributes={"upper": b.attr("upper", 1)})]


def gather_nd(b: Expansion) -> Results:
    """GatherND, also with indices of int32."""
    b.known()
    return [b.value(onnx.GatherNDOp, b.x(0), b.cast(b.x(1), i64))]


def pad(b: Expansion) -> Results:
    """Pad, also with its sizes as a matrix of one row, and the value as a vector of one element."""
    b.known("mode")
    value = None if b.at(2) is None else b.scalar(b.x(2))
    return [b.value(onnx.PadOp, b.x(0), b.reshaped(b.x(1), [-1]), value, attributes={"mode": b.attr("mode")})]


def unique(b: Expansion) -> Results:
    """Values in the order in which they occur first, the place of each element among them, and how often each is."""
    b.known()
    found = b.several(onnx.UniqueOp, [b.x()], [True, False, True, True], {"sorted": 0})
    return [found[0], found[2], found[3]]


def unfold_tensor(b: Expansion) -> Results:
    """The slices of `size` elements of an axis, `step` apart, as a last axis."""
    b.known("dim", "size", "step")
    x, size, step = b.x(), b.attr("size"), b.attr("step", 1)
    rank = b.rank(x)
    axis = b.attr("dim", -1) % rank
    room = b.sub(b.size_of(x, axis), b.ints([size - step]))
    starts = b.value(onnx.RangeOp, b.ints(0), b.scalar(b.value(onnx.DivOp, room, b.ints([step]))), b.ints(1))
    places = b.add(b.unsqueezed(b.mul(starts, b.ints(step)), 1), b.constant(np.arange(size)[None]))
    found = b.value(onnx.GatherOp, x, places, attributes={"axis": axis})  # the slice's axis is behind `axis`
    return [b.transposed(found, [*range(axis + 1), *range(axis + 2, rank + 1), axis + 1])]


def is_all_finite(b: Expansion) -> Results:
    """Whether no element of any tensor is a NaN (but with `isinf_only`) or infinite (but with `isnan_only`)."""
    b.known("isinf_only", "isnan_only")
    found = []
    for value in b.inputs():
        assert value is not None
        tests = [] if b.attr("isinf_only", 0) else [b.value(onnx.IsNaNOp, value)]
        tests += [] if b.attr("isnan_only", 0) else [b.value(onnx.IsInfOp, value)]
        for test in tests:
            found.append(b.value(onnx.ReduceMaxOp, b.cast(test, i32), attributes={"keepdims": 0}))
    worst = b.make(onnx.MaxOp, found).results[0]
    return [b.value(onnx.NotOp, b.cast(worst, i1))]


MOVEMENT: Mapping[str, Rule] = {
    "ExpandDims": expand_dims,
    "GatherND": gather_nd,
    "IsAllFinite": is_all_finite,
    "Pad": pad,
    "Range": range_,
    "Trilu": trilu,
    "UnfoldTensor": unfold_tensor,
    "Unique": unique,
}
