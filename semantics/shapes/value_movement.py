"""Value rules of operators that move elements or make them from sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
from xdsl.ir import Operation

from ...dialects import onnx
from ...dialects.dims.cases import MAX_CASES, MAX_CHOSEN, any_case, indicator
from ...dialects.dims.expression import ONE, ZERO, Dim, as_dim, dim_sum
from ...dialects.dims.interval import interval
from ...dialects.onnx.types import OptionalType
from .containers import known_item, length_of
from .context import Context, static_shape
from .creation import shape_bounds
from .elements import Element, Elements, Ratio, as_integers, elements_of_array, filled, is_integer, row_major
from .movement import compressed_positions
from .progressions import progression_of
from .value_rule import Known, numbers_of, result_element, result_shape, small_result, zero_of


def identity(c: Context) -> Known:
    return [c.elements(0)]


def reshaped(c: Context) -> Known:
    x, shape = c.elements(0), result_shape(c)
    return None if x is None or shape is None else [x.reshape(shape)]


def transposed(c: Context) -> Known:
    x = c.elements(0)
    return None if x is None else [x.transpose(c.attr("perm"))]


def concatenated(c: Context) -> Known:
    """Parts of which nothing is known leave a gap."""
    parts: list[Elements] = []
    for i in range(len(c.operands)):
        part = c.elements(i)
        if part is None:
            shape = static_shape(c.need(i))
            if shape is None:
                return None
            part = np.full(shape, None, object)
        parts.append(part)
    return [np.concatenate(parts, c.attr("axis"))]


def gathered(c: Context) -> Known:
    x, indices = c.elements(0), c.elements(1)
    if x is None and indices is not None:
        return _gathered_of_range(c, indices)
    if x is None or indices is None or not x.ndim:
        return None
    axis = c.axis(c.attr("axis"), x.ndim)
    numbers = numbers_of(indices)
    if numbers is None and indices.size == 1:
        return _one_of_few(x, axis, indices)
    if numbers is None or any(not -x.shape[axis] <= n < x.shape[axis] for n in numbers):
        return None
    found = x.take(np.array(numbers, np.int64).reshape(indices.shape), axis)
    return [np.asarray(found, object)]  # a single element comes without its array


def _one_of_few(x: Elements, axis: int, indices: Elements) -> Known:
    """One of a few integers, at a position that sizes decide, as the first and the steps to the others."""
    (index,) = indices.reshape(-1)
    if x.ndim != 1 or not isinstance(index, Dim):
        return None
    low, high = interval(index)
    if not 0 <= low <= high < x.shape[axis] or high - low > MAX_CASES:
        return None
    sides = as_integers(x[int(low) : int(high) + 1])
    if sides is None:
        return None
    found = _side(sides, index - int(low), MAX_CASES)
    return [filled(indices.shape, [found])] if len(found.terms) <= MAX_CHOSEN else None


def _side(sides: list[Dim], at: Dim, conditions: int) -> Dim:
    """One of these, by the conditions that the position is counted from, else by steps from each to the next."""
    if at.is_const:  # where conditions exclude each other it may be none of them
        return sides[min(max(at.value, 0), len(sides) - 1)]
    case = any_case(at) if conditions else None
    if case is not None:
        holds, fails = (_side(sides, d, conditions - 1) for d in (case.holds, case.fails))
        return fails + (holds - fails) * indicator(case.margin)
    steps = ((b - a) * indicator(at - i) for i, (a, b) in enumerate(pairwise(sides)))
    return dim_sum([sides[0], *steps])


def _gathered_of_range(c: Context, indices: Elements) -> Known:
    """Elements at known positions of a long, or open, row of numbers."""
    numbers = numbers_of(indices)
    row = progression_of(c, 0) if numbers is not None and len(c.dims(0)) == 1 else None
    return None if row is None or numbers is None else [filled(indices.shape, [row.at(c, n) for n in numbers])]


def gathered_elements(c: Context) -> Known:
    x, indices = c.elements(0), c.elements(1)
    numbers = numbers_of(indices)
    if x is None or indices is None or numbers is None:
        return None
    axis = c.axis(c.attr("axis"), x.ndim)
    if any(not -x.shape[axis] <= n < x.shape[axis] for n in numbers):
        return None
    at = np.array(numbers, np.int64).reshape(indices.shape)
    return [np.take_along_axis(x, at % max(x.shape[axis], 1), axis)]


def gathered_nd(c: Context) -> Known:
    x, indices = c.elements(0), c.elements(1)
    numbers = numbers_of(indices)
    if x is None or indices is None or numbers is None or c.attr("batch_dims"):
        return None
    at = np.array(numbers, np.int64).reshape(indices.shape)
    if not at.shape[-1]:  # tuples of no index: each is the whole
        return [np.broadcast_to(x, (*at.shape[:-1], *x.shape))]
    found = x[tuple(np.moveaxis(at, -1, 0))]
    return [np.asarray(found, object)]


def compressed(c: Context) -> Known:
    x = c.elements(0)
    if x is None:
        return None
    axis = c.attr("axis")
    x, axis = (x.reshape(-1), 0) if axis is None else (x, c.axis(axis, x.ndim))
    taken = compressed_positions(c, as_dim(x.shape[axis]))
    return None if taken is None else [x.take(taken, axis)]


def scattered_nd(c: Context) -> Known:
    x, indices, updates = c.elements(0), c.elements(1), c.elements(2)
    numbers = numbers_of(indices)
    if x is None or indices is None or numbers is None or updates is None or c.attr("reduction") != "none":
        return None
    at = np.array(numbers, np.int64).reshape(indices.shape)
    out = x.copy()
    for index in np.ndindex(*at.shape[:-1]):
        out[tuple(at[index])] = updates[index]
    return [out]


def scattered_elements(c: Context) -> Known:
    x, indices, updates = c.elements(0), c.elements(1), c.elements(2)
    numbers = numbers_of(indices)
    if x is None or indices is None or numbers is None or updates is None or c.attr("reduction") != "none":
        return None
    axis = c.axis(c.attr("axis"), x.ndim)
    at = np.array(numbers, np.int64).reshape(indices.shape)
    out = x.copy()
    for index in np.ndindex(*at.shape):
        out[(*index[:axis], at[index], *index[axis + 1 :])] = updates[index]
    return [out]


def sliced(c: Context) -> Known:
    x = c.elements(0)
    starts, ends = (numbers_of(c.elements(i)) for i in (1, 2))
    if x is None or starts is None or ends is None:
        return None
    axes = numbers_of(c.elements(3)) if c.has(3) else list(range(len(starts)))
    steps = numbers_of(c.elements(4)) if c.has(4) else [1] * len(starts)
    if axes is None or steps is None:
        return None
    for axis, start, end, step in zip(axes, starts, ends, steps):
        axis = c.axis(axis, x.ndim)
        x = x.take(_positions(x.shape[axis], start, end, step), axis)
    return [x]


def _positions(size: int, start: int, end: int, step: int) -> range:
    """The positions that Slice takes of an axis."""
    start, end = (v + size if v < 0 else v for v in (start, end))
    if step > 0:
        return range(min(max(start, 0), size), min(max(end, 0), size), step)
    return range(min(max(start, 0), size - 1), min(max(end, -1), size - 1), step)


def split(c: Context) -> Known:
    x = c.elements(0)
    if x is None:
        return None
    axis = c.axis(c.attr("axis"), x.ndim)
    out: list[Elements | None] = []
    at = 0
    for i in range(len(c.results)):
        shape = result_shape(c, i)
        if shape is None:
            return None
        out.append(x.take(range(at, at + shape[axis]), axis))
        at += shape[axis]
    return out


def broadcast_to_result(c: Context) -> Known:
    x, shape = c.elements(0), small_result(c)
    return None if x is None or shape is None else [np.broadcast_to(x, shape)]


def tiled(c: Context) -> Known:
    x, repeats = c.elements(0), numbers_of(c.elements(1))
    if x is None or repeats is None or small_result(c) is None:
        return None
    return [np.tile(x, repeats)]


def padded(c: Context) -> Known:
    x, pads = c.elements(0), numbers_of(c.elements(1))
    if x is None or pads is None or c.attr("mode") != "constant" or c.has(3) or min(pads, default=0) < 0:
        return None
    if small_result(c) is None:
        return None
    fill = c.elements(2) if c.has(2) else None
    if c.has(2) and fill is None:
        return None
    value: Element = row_major(fill)[0] if fill is not None else zero_of(c.element(0))
    out = np.full(result_shape(c) or (), value, object)
    half = len(pads) // 2
    out[tuple(slice(p, p + n) for p, n in zip(pads[:half], x.shape))] = x
    return [out]


def shape(c: Context) -> Known:
    dims = c.dims(0)
    start, end = shape_bounds(c, len(dims))
    out = np.empty(max(end - start, 0), object)
    out[:] = dims[start:end]
    return [out]


def size(c: Context) -> Known:
    return [filled((), [c.count(c.dims(0))])]


def sequence_length(c: Context) -> Known:
    length = length_of(c)
    return None if length is None else [filled((), [length])]


def sequence_item(c: Context) -> Known:
    item = known_item(c)
    return None if item is None else [item.elements]


def has_element(c: Context) -> Known:
    """An optional that was made of a value has one."""
    owner = c.need(0).owner if c.has(0) else None
    if isinstance(owner, onnx.OptionalOp):
        return [filled((), [ONE if owner.operands else ZERO])]
    return None if c.has(0) and isinstance(c.type_of(0), OptionalType) else [filled((), [ONE if c.has(0) else ZERO])]


def constant_of_shape(c: Context) -> Known:
    found = small_result(c)
    if found is None:
        return None
    value = c.attr("value")
    one = Ratio(ZERO) if value is None else row_major(elements_of_array(np.asarray(value)) or np.array([None]))[0]
    return [np.full(found, one, object)]


def range_(c: Context) -> Known:
    found = small_result(c)
    values = [c.elements(i) for i in (0, 2)]
    if found is None or any(v is None or v.size != 1 for v in values):
        return None
    start, delta = (row_major(v)[0] for v in values if v is not None)
    if not isinstance(start, Dim) or not isinstance(delta, Dim):
        return None
    return [filled(found, [start + delta * i for i in range(found[0])])]


def eye_like(c: Context) -> Known:
    found = small_result(c)
    result = c.results[0]
    if found is None or result is None:
        return None
    one, zero = (ONE, ZERO) if is_integer(result_element(c)) else (Ratio(ONE), Ratio(ZERO))
    k = c.attr("k")
    return [filled(found, [one if j - i == k else zero for i in range(found[0]) for j in range(found[1])])]


RULES: Mapping[type[Operation], Callable[[Context], Known]] = {
    onnx.IdentityOp: identity,
    onnx.DropoutOp: identity,
    onnx.ReshapeOp: reshaped,
    onnx.FlattenOp: reshaped,
    onnx.SqueezeOp: reshaped,
    onnx.UnsqueezeOp: reshaped,
    onnx.TransposeOp: transposed,
    onnx.ConcatOp: concatenated,
    onnx.GatherOp: gathered,
    onnx.GatherElementsOp: gathered_elements,
    onnx.GatherNDOp: gathered_nd,
    onnx.CompressOp: compressed,
    onnx.ScatterNDOp: scattered_nd,
    onnx.ScatterElementsOp: scattered_elements,
    onnx.SliceOp: sliced,
    onnx.SplitOp: split,
    onnx.ExpandOp: broadcast_to_result,
    onnx.TileOp: tiled,
    onnx.PadOp: padded,
    onnx.ShapeOp: shape,
    onnx.SizeOp: size,
    onnx.SequenceLengthOp: sequence_length,
    onnx.SequenceAtOp: sequence_item,
    onnx.OptionalHasElementOp: has_element,
    onnx.ConstantOfShapeOp: constant_of_shape,
    onnx.RangeOp: range_,
    onnx.EyeLikeOp: eye_like,
}
