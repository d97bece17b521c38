"""Resize: tables of places and weights for each axis, and reads at these places.

Coordinates are computed in f32, as the standard's tests have them: 1.5 / 0.6 is then 2.5, which decides what is
nearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from xdsl.dialects import math
from xdsl.ir import SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim, as_dim
from ...dialects.dims.expression import ONE, ZERO, dim_max
from .body import Body
from .casts import convert, converted
from .complex_parts import by_parts
from .element_kinds import BOOL, F32, F64, I64, Element
from .graph import Combine, Computed, Dims, Node, Pointwise, Use, View, pointwise
from .index_space import Index, IndexSpace
from .operators import Operands, Rule, axis_of, reduced, scalar_literal, size_value
from .scalars import Scalars


@dataclass(frozen=True)
class Axis:
    """How one axis is resized. `scale` is a scalar f32 node; `factor` its value where it is a constant."""

    number: int
    extent: Dim
    resized: Dim
    scale: Node
    factor: float | None
    region: tuple[Node, Node] | None = None
    """The start and end of the region of interest, normalized, as scalar f32 nodes; None for the whole axis."""


def resize(o: Operands) -> list[Node]:
    x, mode = o[0], o.attr("mode")
    axes = resized_axes(o, x)
    if mode == "nearest":
        y = x
        for axis in axes:
            y = nearest(o, y, axis)
        y = converted(y, o.element())
    elif mode in ("linear", "cubic"):
        y = interpolated(o, x, axes, 1 if mode == "linear" else 2)
    else:
        raise o.refuse(f"mode {mode}")
    if o.attr("coordinate_transformation_mode") == "tf_crop_and_resize":
        y = extrapolated(o, y, axes)
    return [y]


def resized_axes(o: Operands, x: Node) -> list[Axis]:
    """The axes with their scales: from `scales`, or from `sizes` under the policy on the aspect ratio."""
    rank = len(x.dims)
    numbers = [axis_of(a, rank) for a in (o.attr("axes") or range(rank))]
    regions = _regions(o, len(numbers))
    dims = o.dims()
    if _is_given(o, 2):
        return [_axis_by_scale(o, x, n, k, region) for k, (n, region) in enumerate(zip(numbers, regions))]
    if o.attr("keep_aspect_ratio_policy") == "stretch":
        return [_axis_by_size(x, dims, n, region) for n, region in zip(numbers, regions)]
    wanted = o.known(3) if all(d.is_const for d in dims) else None
    sizes = [x.dims[n] for n in numbers]
    smallest = o.attr("keep_aspect_ratio_policy") == "not_larger"
    if wanted is not None and all(d.is_const for d in (*wanted, *sizes)):
        factors = [w.value / s.value for w, s in zip(wanted, sizes)]
        common = float(np.float32(min(factors) if smallest else max(factors)))
        return [_axis(x, dims, n, common, region) for n, region in zip(numbers, regions)]
    ratio = _common_ratio(o, sizes, smallest)
    return [Axis(n, x.dims[n], dims[n], ratio, None, region) for n, region in zip(numbers, regions)]


Region = tuple[Node, Node] | None


def _is_given(o: Operands, index: int) -> bool:
    """Whether an operand is there and not the empty tensor by which older exporters leave one out."""
    value = o.get(index)
    return value is not None and value.dims[0] is not ZERO


def _common_ratio(o: Operands, sizes: Sequence[Dim], smallest: bool) -> Node:
    """The least or greatest quotient of the wanted sizes and those that are there, in f32."""
    wanted = converted(o[3], F64)

    def function(s: Scalars, *values: SSAValue) -> SSAValue:
        quotients = [s.divf(w, n) for w, n in zip(values[::2], values[1::2])]
        total = quotients[0]
        for q in quotients[1:]:
            total = s.min(total, q, F64) if smallest else s.max(total, q, F64)
        return s.convert("truncf", total, F32)

    operands: list[Node] = []
    for k, size in enumerate(sizes):
        operands += [element_at(wanted, k), size_value(size, F64)]
    return pointwise(function, operands, (), F32, 5 * len(sizes))


def element_at(vector: Node, place: int) -> Node:
    """An element as a scalar."""
    return View((), vector.element, vector, lambda space, index: (as_dim(place),), Use.MANY)


def _regions(o: Operands, count: int) -> list[Region]:
    if o.attr("coordinate_transformation_mode") != "tf_crop_and_resize" or not _is_given(o, 1):
        return [None] * count
    roi = converted(o[1], F32)
    return [(element_at(roi, k), element_at(roi, count + k)) for k in range(count)]


def _axis(x: Node, dims: Dims, number: int, factor: float, region: Region) -> Axis:
    return Axis(number, x.dims[number], dims[number], scalar_literal(factor, F32), factor, region)


def _axis_by_scale(o: Operands, x: Node, number: int, place: int, region: Region) -> Axis:
    scales, dims = o.constant(2), o.dims()
    if scales is not None:
        return _axis(x, dims, number, float(np.float32(scales[place])), region)
    if region is not None and o.attr("antialias") and o.attr("mode") != "nearest":
        raise o.refuse("antialias of a region by scales that are known at run time only")
    return Axis(number, x.dims[number], dims[number], element_at(converted(o[2], F32), place), None, region)


def _axis_by_size(x: Node, dims: Dims, number: int, region: Region) -> Axis:
    """The scale is the quotient of the sizes, in f64 rounded to f32."""
    extent, resized = x.dims[number], dims[number]
    if extent.is_const and resized.is_const and extent.value:
        return _axis(x, dims, number, float(np.float32(resized.value / extent.value)), region)
    ratio = pointwise(
        lambda s, a, b: s.convert("truncf", s.divf(a, b), F32),
        (size_value(resized, F64), size_value(extent, F64)), (), F32, 5,
    )  # fmt: skip
    return Axis(number, extent, resized, ratio, None, region)


def is_untouched(axis: Axis) -> bool:
    """Whether every element of the axis stays where it is, in every coordinate mode."""
    return axis.resized is axis.extent and axis.factor in (None, 1.0) and axis.region is None


# Coordinates


def coordinates(o: Operands, axis: Axis) -> Node:
    """The place in the original axis of each resized element, f32."""
    mode = o.attr("coordinate_transformation_mode")
    if mode not in _COORDINATES:
        raise o.refuse(f"coordinate_transformation_mode {mode}")
    extent, resized = size_value(axis.extent, F32), size_value(axis.resized, F32)
    region = axis.region or (scalar_literal(0.0, F32), scalar_literal(1.0, F32))
    scalars = (axis.scale, extent, resized, *(region if mode == "tf_crop_and_resize" else ()))

    def formula(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        x = s.convert("sitofp", s.convert("index_cast", body.index(index[0]), I64), F32)
        scale, n, m, *bounds = (body.read(v, tuple(ZERO for _ in v.dims)) for v in scalars)
        return _COORDINATES[mode](F32Formula(s), x, scale, n, m, bounds)

    return Computed((axis.resized,), F32, tuple((v, Use.MANY) for v in scalars), formula, cost=10)


@dataclass(frozen=True)
class F32Formula:
    """f32 arithmetic on values and numbers, for formulas to be read."""

    s: Scalars

    def value(self, v: SSAValue | float) -> SSAValue:
        return v if isinstance(v, SSAValue) else self.s.constant(float(np.float32(v)), F32)

    def add(self, a: SSAValue | float, b: SSAValue | float) -> SSAValue:
        return self.s.add(self.value(a), self.value(b), F32)

    def sub(self, a: SSAValue | float, b: SSAValue | float) -> SSAValue:
        return self.s.sub(self.value(a), self.value(b), F32)

    def mul(self, a: SSAValue | float, b: SSAValue | float) -> SSAValue:
        return self.s.mul(self.value(a), self.value(b), F32)

    def div(self, a: SSAValue | float, b: SSAValue | float) -> SSAValue:
        return self.s.divf(self.value(a), self.value(b))

    def if_more_than_one(self, count: SSAValue, value: SSAValue, otherwise: SSAValue | float) -> SSAValue:
        more = self.s.compare("gt", count, self.value(1.0), F32)
        return self.s.select(more, value, self.value(otherwise))


def _half_pixel(
    f: F32Formula, x: SSAValue, scale: SSAValue, n: SSAValue, m: SSAValue, region: Sequence[SSAValue]
) -> SSAValue:
    return f.sub(f.div(f.add(x, 0.5), scale), 0.5)


def _without_shift(
    f: F32Formula, x: SSAValue, scale: SSAValue, n: SSAValue, m: SSAValue, region: Sequence[SSAValue]
) -> SSAValue:
    """Of Resize-11."""
    return f.div(f.add(x, 0.5), scale)


def _symmetric(
    f: F32Formula, x: SSAValue, scale: SSAValue, n: SSAValue, m: SSAValue, region: Sequence[SSAValue]
) -> SSAValue:
    adjustment = f.div(m, f.mul(scale, n))
    offset = f.mul(f.div(n, 2.0), f.sub(1.0, adjustment))
    return f.sub(f.add(offset, f.div(f.add(x, 0.5), scale)), 0.5)


def _pytorch(
    f: F32Formula, x: SSAValue, scale: SSAValue, n: SSAValue, m: SSAValue, region: Sequence[SSAValue]
) -> SSAValue:
    return f.if_more_than_one(m, _half_pixel(f, x, scale, n, m, region), 0.0)


def _align_corners(
    f: F32Formula, x: SSAValue, scale: SSAValue, n: SSAValue, m: SSAValue, region: Sequence[SSAValue]
) -> SSAValue:
    """The length that a scale asks for counts, before it is rounded down."""
    return f.if_more_than_one(m, f.div(f.mul(x, f.sub(n, 1.0)), f.sub(f.mul(scale, n), 1.0)), 0.0)


def _asymmetric(
    f: F32Formula, x: SSAValue, scale: SSAValue, n: SSAValue, m: SSAValue, region: Sequence[SSAValue]
) -> SSAValue:
    return f.div(x, scale)


def _crop(
    f: F32Formula, x: SSAValue, scale: SSAValue, n: SSAValue, m: SSAValue, region: Sequence[SSAValue]
) -> SSAValue:
    """`region` are its start and end."""
    start, end = region
    last = f.sub(n, 1.0)
    step = f.div(f.mul(f.sub(end, start), last), f.sub(m, 1.0))
    inside = f.add(f.mul(start, last), f.mul(x, step))
    return f.if_more_than_one(m, inside, f.mul(f.mul(f.add(start, end), 0.5), last))


_COORDINATES = {
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": _pytorch,
    "tf_crop_and_resize": _crop,
    "tf_half_pixel": _without_shift,
}


# Nearest

_WHOLE_NUMBER_MODES = {
    ("half_pixel", "round_prefer_floor"),
    ("half_pixel", "round_prefer_ceil"),
    ("half_pixel_symmetric", "round_prefer_floor"),
    ("half_pixel_symmetric", "round_prefer_ceil"),
    ("asymmetric", "floor"),
}
"""With a scale that is a whole number s, element i is then that at i // s."""


def nearest(o: Operands, x: Node, axis: Axis) -> Node:
    if is_untouched(axis):
        return x
    dims = (*x.dims[: axis.number], axis.resized, *x.dims[axis.number + 1 :])
    modes = (o.attr("coordinate_transformation_mode"), o.attr("nearest_mode"))
    factor = axis.factor
    if factor is not None and factor.is_integer() and modes in _WHOLE_NUMBER_MODES:
        whole = as_dim(int(factor))
        if whole is not ZERO and axis.resized is axis.extent * whole:
            return View(dims, x.element, x, lambda space, index: _divided(space, index, axis.number, whole), Use.MANY)
    return _at_places(x, dims, axis.number, nearest_places(o, axis))


def _divided(space: IndexSpace, index: Index, axis: int, by: Dim) -> Index:
    return (*index[:axis], space.divide(index[axis], by)[0], *index[axis + 1 :])


def nearest_places(o: Operands, axis: Axis) -> Node:
    """The index of the nearest element for each resized one, i64."""
    mode = o.attr("nearest_mode")

    def function(s: Scalars, x: SSAValue) -> SSAValue:
        half = s.constant(0.5, F32)
        if mode == "round_prefer_floor":
            return s.convert("fptosi", s.unary(math.CeilOp, s.sub(x, half, F32)), I64)
        if mode == "round_prefer_ceil":
            return s.convert("fptosi", s.unary(math.FloorOp, s.add(x, half, F32)), I64)
        return s.convert("fptosi", s.unary(math.FloorOp if mode == "floor" else math.CeilOp, x), I64)

    place = coordinates(o, axis)
    return clipped(pointwise(function, (place,), place.dims, I64, 5), axis.extent)


def clipped(places: Node, extent: Dim) -> Node:
    """Places moved into [0, extent)."""
    last = size_value(extent - 1, I64)
    return pointwise(
        lambda s, v, high: s.max(s.min(v, high, I64), s.constant(0, I64), I64), (places, last), places.dims, I64, 2
    )


def _at_places(x: Node, dims: Dims, axis: int, places: Node) -> Node:
    """x at a table of places along an axis."""

    def formula(body: Body, index: Index) -> SSAValue:
        at = body.variable(body.index_of(body.read(places, (index[axis],)), I64), x.dims[axis])
        return body.read(x, (*index[:axis], at, *index[axis + 1 :]))

    return Computed(dims, x.element, ((x, Use.MANY), (places, Use.MANY)), formula, cost=3)


# Interpolation


def interpolated(o: Operands, x: Node, axes: Sequence[Axis], reach: int) -> Node:
    """Weighted sums of neighbours, axis by axis, in the compute type (f64 for integers), rounded once.

    Integers are truncated, but with `antialias` rounded: the standard leaves it open, and runtimes do so.
    """
    t = x.element.compute if x.element.is_float else F64
    y = converted(x, t)
    antialias = bool(o.attr("antialias"))
    for axis in axes:
        if is_untouched(axis):
            continue
        if antialias and (axis.factor is None or axis.factor < 1.0):
            y = _with_table(o, y, axis, reach)
        else:
            y = _with_neighbours(o, y, axis, reach)
    return to_result(y, o.element(), antialias)


def to_result(y: Node, element: Element, nearest: bool = False) -> Node:
    """Rounded to the op's element: for integers truncated, or to the nearest (the even one of two), and saturated."""
    if element.is_float or y.element is element:
        return converted(y, element)
    t = y.element

    def function(s: Scalars, v: SSAValue) -> SSAValue:
        whole = s.unary(math.RoundEvenOp, v) if nearest else v
        return convert(s, s.clamp(whole, element.lowest, element.highest, t), t, element)

    return pointwise(function, (y,), y.dims, element, 3)


def tap_weight(s: Scalars, distance: SSAValue, reach: int, a: float, t: Element) -> SSAValue:
    """The interpolation's kernel at a distance: a triangle, or Keys' cubic with its free coefficient."""
    d, one = s.abs(distance, t), s.constant(1.0, t)
    if reach == 1:
        return s.max(s.sub(one, d, t), s.constant(0.0, t), t)
    near = s.polynomial(d, (a + 2, -(a + 3), 0.0, 1.0), t)
    far = s.polynomial(d, (a, -5 * a, 8 * a, -4 * a), t)
    two = s.constant(2.0, t)
    outer = s.select(s.compare("lt", d, two, t), far, s.constant(0.0, t))
    return s.select(s.compare("le", d, one, t), near, outer)


def _with_neighbours(o: Operands, x: Node, axis: Axis, reach: int) -> Node:
    """The 2 * reach nearest neighbours of each place, by tables of places and weights."""
    t, number = x.element, axis.number
    place = converted(coordinates(o, axis), t)
    base = pointwise(lambda s, v: s.convert("fptosi", s.unary(math.FloorOp, v), I64), (place,), place.dims, I64, 3)
    steps = range(1 - reach, 1 + reach)
    a, exclude = o.attr("cubic_coeff_a"), bool(o.attr("exclude_outside"))
    last = size_value(axis.extent - 1, I64)

    def weight_of(step: int) -> Node:
        def function(s: Scalars, v: SSAValue, whole: SSAValue, high: SSAValue) -> SSAValue:
            neighbour = s.add(whole, s.constant(step, I64), I64)
            weight = tap_weight(s, s.sub(s.convert("sitofp", neighbour, t), v, t), reach, a, t)
            if not exclude:
                return weight
            inside = s.both(s.compare("ge", neighbour, s.constant(0, I64), I64), s.compare("le", neighbour, high, I64))
            return s.select(inside, weight, s.constant(0.0, t))

        return pointwise(function, (place, base, last), place.dims, t, 8)

    weights = [weight_of(step) for step in steps]
    if exclude:
        total = pointwise(lambda s, *w: _sum(s, w, t), weights, place.dims, t, 4)
        weights = [pointwise(lambda s, w, by: s.divf(w, by), (w, total), place.dims, t, 5) for w in weights]
    places = [
        clipped(pointwise(lambda s, v, k=step: s.add(v, s.constant(k, I64), I64), (base,), base.dims, I64), axis.extent)
        for step in steps
    ]
    dims = (*x.dims[:number], axis.resized, *x.dims[number + 1 :])

    def formula(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        terms: list[SSAValue] = []
        for table, weight in zip(places, weights):
            at = body.variable(body.index_of(body.read(table, (index[number],)), I64), axis.extent)
            value = body.read(x, (*index[:number], at, *index[number + 1 :]))
            terms.append(s.mul(value, body.read(weight, (index[number],)), t))
        return _sum(s, terms, t)

    sources = [(x, Use.MANY), *((n, Use.MANY) for n in (*places, *weights))]
    return Computed(dims, t, tuple(sources), formula, cost=4 * len(weights))


def _sum(s: Scalars, terms: Sequence[SSAValue], t: Element) -> SSAValue:
    total = terms[0]
    for term in terms[1:]:
        total = s.add(total, term, t)
    return total


def _with_table(o: Operands, x: Node, axis: Axis, reach: int) -> Node:
    """A widened kernel, for shrinking without aliasing: a reduction over as many neighbours as it spans."""
    t, number = x.element, axis.number
    if axis.factor is not None:
        radius = as_dim(ceil(reach * max(1.0, 1.0 / axis.factor)))
    else:
        # a size of 0 divides nothing; a scale given is not below the quotient of the sizes
        resized = dim_max(axis.resized, ONE)
        radius = dim_max((reach * axis.extent + resized - 1) // resized, as_dim(reach))
    taps = 2 * radius + 2
    place = converted(coordinates(o, axis), t)
    stretch = pointwise(
        lambda s, v: s.max(s.divf(s.constant(1.0, t), v), s.constant(1.0, t), t),
        (converted(axis.scale, t),), axis.scale.dims, t, 5,
    )  # fmt: skip
    a, exclude = o.attr("cubic_coeff_a"), bool(o.attr("exclude_outside"))

    def neighbour(body: Body, index: Index) -> SSAValue:
        """The neighbour's number, which may be outside of the axis, i64."""
        s = body.scalars
        floor = s.convert("fptosi", s.unary(math.FloorOp, body.read(place, index[:1])), I64)
        return s.add(floor, s.convert("index_cast", body.index(index[1] - radius), I64), I64)

    def weight(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        at = neighbour(body, index)
        distance = s.sub(s.convert("sitofp", at, t), body.read(place, index[:1]), t)
        wide = body.read(stretch, tuple(ZERO for _ in stretch.dims))
        value = tap_weight(s, s.divf(distance, wide), reach, a, t)
        if not exclude:
            return value
        last = s.convert("index_cast", body.index(axis.extent - 1), I64)
        inside = s.both(s.compare("ge", at, s.constant(0, I64), I64), s.compare("le", at, last, I64))
        return s.select(inside, value, s.constant(0.0, t))

    table_dims = (axis.resized, taps)
    raw = Computed(table_dims, t, ((place, Use.MANY), (stretch, Use.MANY)), weight, cost=20)
    total = reduced(Combine.ADD, raw, [1])
    spread = View(table_dims, t, total, lambda space, index: index[:1], Use.MANY)
    weights = pointwise(lambda s, w, by: s.divf(w, by), (raw, spread), table_dims, t, 5)
    places = clipped(Computed(table_dims, I64, ((place, Use.MANY),), neighbour, cost=5), axis.extent)
    dims = (*x.dims[:number], axis.resized, *x.dims[number + 1 :])

    def product(body: Body, index: Index) -> SSAValue:
        at_table = (index[number], index[-1])
        at = body.variable(body.index_of(body.read(places, at_table), I64), axis.extent)
        value = body.read(x, (*index[:number], at, *index[number + 1 : -1]))
        return body.scalars.mul(value, body.read(weights, at_table), t)

    sources = ((x, Use.MANY), (places, Use.MANY), (weights, Use.MANY))
    terms = Computed((*dims, taps), t, sources, product, cost=5)
    return reduced(Combine.ADD, terms, [len(dims)])


# Outside of the region of interest


def extrapolated(o: Operands, y: Node, axes: Sequence[Axis]) -> Node:
    """`extrapolation_value` where a place is outside of the original axis."""
    element = o.element()
    t = element.compute
    tables: list[Node] = []
    for axis in axes:
        last = size_value(axis.extent - 1, F32)
        place = coordinates(o, axis)
        beyond = pointwise(
            lambda s, v, high: s.either(
                s.compare("lt", v, s.constant(0.0, F32), F32), s.compare("gt", v, high, F32)
            ),
            (place, last), place.dims, BOOL, 3,
        )  # fmt: skip
        shape = tuple(axis.resized if k == axis.number else ONE for k in range(len(y.dims)))
        tables.append(View(shape, BOOL, beyond, lambda space, index, n=axis.number: (index[n],)))
    value = o.attr("extrapolation_value")
    number = value if element.is_float else int(min(max(value, element.lowest), element.highest))

    def function(s: Scalars, v: SSAValue, *outside: SSAValue) -> SSAValue:
        total = outside[0]
        for other in outside[1:]:
            total = s.either(total, other)
        return s.select(total, s.constant(number, t), v)

    return Pointwise(y.dims, element, (y, *tables), function, cost=2)


RESIZE: dict[type[onnx.OnnxOp], Rule] = {onnx.ResizeOp: by_parts(resize)}
