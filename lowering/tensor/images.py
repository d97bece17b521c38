"""GridSample, AffineGrid and RoiAlign: reads of images at computed places, with interpolation.

For each axis of the image, tables over the places hold neighbours' indices and weights; the sum reads through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.dialects import math
from xdsl.ir import SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim, as_dim
from .body import Body
from .casts import convert, converted
from .complex_parts import by_parts
from .element_kinds import BOOL, F64, I64, Element
from .gathers import checked_index, out_of_range
from .graph import Combine, Computed, Dims, Node, Use, View, pointwise
from .index_space import Index
from .index_space import product as product_of
from .movement import reshaped
from .operators import Operands, Rule, quotient, reduced, size_value
from .resize import tap_weight, to_result
from .scalars import Scalars
from .templates import channel_bias, matrix_product, template


@dataclass(frozen=True)
class Tap:
    """One neighbour along one axis: its index (i64, inside), its weight, whether it counts. Tables over the places."""

    index: Node
    weight: Node
    inside: Node


# GridSample


def grid_sample(o: Operands) -> list[Node]:
    """x [N, C, D...] at normalized places [N, out..., r], innermost coordinate first."""
    x, grid, mode = o[0], o[1], o.attr("mode")
    t = x.element.compute if x.element.is_float else F64
    rank = len(x.dims) - 2
    corners, padding = bool(o.attr("align_corners")), o.attr("padding_mode")
    taps: list[list[Tap]] = []
    for axis in range(rank):
        extent = size_value(x.dims[2 + axis], t)
        place = _denormalized(_coordinate(grid, rank - 1 - axis, t), extent, corners, t)
        if padding == "reflection":
            place = pointwise(
                lambda s, v, n: _reflected_outside(s, v, n, corners, t), (place, extent), place.dims, t, 15
            )
        taps.append(_taps(place, x.dims[2 + axis], extent, mode, corners, padding, t))
    if mode == "nearest":
        return [_nearest(o, x, [axis[0] for axis in taps])]
    return [_weighted(o, converted(x, t), taps)]


def _coordinate(grid: Node, number: int, t: Element) -> Node:
    place = converted(grid, t)
    at = as_dim(number)
    return View(grid.dims[:-1], t, place, lambda space, index: (*index, at))


def _denormalized(place: Node, extent: Node, corners: bool, t: Element) -> Node:
    """From [-1, 1] to the image's own coordinates."""

    def function(s: Scalars, g: SSAValue, n: SSAValue) -> SSAValue:
        one, two = s.constant(1.0, t), s.constant(2.0, t)
        moved = s.add(g, one, t)
        if corners:
            return s.mul(s.divf(moved, two), s.sub(n, one, t), t)
        return s.divf(s.sub(s.mul(moved, n, t), one, t), two)

    return pointwise(function, (place, extent), place.dims, t, 8)


def _ends(s: Scalars, n: SSAValue, corners: bool, t: Element) -> tuple[SSAValue, SSAValue]:
    """The edges of the image at which places are reflected."""
    if corners:
        return s.constant(0.0, t), s.sub(n, s.constant(1.0, t), t)
    return s.constant(-0.5, t), s.sub(n, s.constant(0.5, t), t)


def _reflected(s: Scalars, v: SSAValue, n: SSAValue, corners: bool, t: Element) -> SSAValue:
    low, high = _ends(s, n, corners, t)
    span = s.sub(high, low, t)
    twice = s.add(span, span, t)
    moved = s.sub(v, low, t)
    folded = s.sub(moved, s.mul(s.unary(math.FloorOp, s.divf(moved, twice)), twice, t), t)
    inside = s.add(low, s.min(folded, s.sub(twice, folded, t), t), t)
    zero = s.constant(0.0, t)
    return s.select(s.compare("le", span, zero, t), zero, inside)


def _reflected_outside(s: Scalars, v: SSAValue, n: SSAValue, corners: bool, t: Element) -> SSAValue:
    low, high = _ends(s, n, corners, t)
    outside = s.either(s.compare("lt", v, low, t), s.compare("gt", v, high, t))
    return s.select(outside, _reflected(s, v, n, corners, t), v)


def _taps(place: Node, extent: Dim, size: Node, mode: str, corners: bool, padding: str, t: Element) -> list[Tap]:
    """The neighbours of each place along one axis."""
    whole = math.RoundEvenOp if mode == "nearest" else math.FloorOp
    base = pointwise(lambda s, v: s.unary(whole, v), (place,), place.dims, t)
    steps = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}[mode]
    reach = 2 if mode == "cubic" else 1
    return [_tap(place, base, size, extent, step, mode != "nearest", reach, corners, padding, t) for step in steps]


def _tap(
    place: Node,
    base: Node,
    size: Node,
    extent: Dim,
    step: int,
    interpolates: bool,
    reach: int,
    corners: bool,
    padding: str,
    t: Element,
) -> Tap:
    dims = place.dims

    def within(s: Scalars, at: SSAValue, n: SSAValue) -> SSAValue:
        return s.both(s.compare("ge", at, s.constant(0.0, t), t), s.compare("lt", at, n, t))

    def inside(s: Scalars, b: SSAValue, n: SSAValue) -> SSAValue:
        return within(s, s.add(b, s.constant(float(step), t), t), n)

    def index(s: Scalars, b: SSAValue, n: SSAValue) -> SSAValue:
        at = s.add(b, s.constant(float(step), t), t)
        if padding == "reflection":
            turned = s.unary(math.RoundEvenOp, _reflected(s, at, n, corners, t))
            at = s.select(within(s, at, n), at, turned)
        last = s.sub(s.convert("fptosi", n, I64), s.constant(1, I64), I64)
        return s.max(s.min(s.convert("fptosi", at, I64), last, I64), s.constant(0, I64), I64)

    def weight(s: Scalars, v: SSAValue, b: SSAValue, n: SSAValue) -> SSAValue:
        at = s.add(b, s.constant(float(step), t), t)
        value = tap_weight(s, s.sub(at, v, t), reach, -0.75, t)
        return s.select(within(s, at, n), value, s.constant(0.0, t)) if padding == "zeros" else value

    counts = pointwise(inside, (base, size), dims, BOOL, 4)
    if padding != "zeros":
        counts = pointwise(lambda s: s.constant(1, BOOL), (), dims, BOOL, 0)
    if interpolates:
        weights = pointwise(weight, (place, base, size), dims, t, 10)
    else:
        weights = pointwise(lambda s: s.constant(1.0, t), (), dims, t, 0)
    return Tap(pointwise(index, (base, size), dims, I64, 8), weights, counts)


def _at(index: Index) -> Index:
    """The place of a result's element [n, c, out...]: [n, out...]."""
    return (index[0], *index[2:])


def _nearest(o: Operands, x: Node, taps: Sequence[Tap]) -> Node:
    element = x.element

    def formula(body: Body, index: Index) -> SSAValue:
        s, at = body.scalars, _at(index)
        places = [
            body.variable(body.index_of(body.read(tap.index, at), I64), size) for tap, size in zip(taps, x.dims[2:])
        ]
        counts = [body.read(tap.inside, at) for tap in taps]
        zero = s.narrow(s.constant(0, element.compute), element)
        return body.guarded(counts, lambda: body.read(x, (*index[:2], *places)), lambda: zero)

    sources = [(x, Use.MANY), *((n, Use.MANY) for tap in taps for n in (tap.index, tap.inside))]
    return Computed(o.dims(), element, tuple(sources), formula, cost=6)


def _weighted(o: Operands, x: Node, taps: Sequence[Sequence[Tap]]) -> Node:
    t = x.element

    def formula(body: Body, index: Index) -> SSAValue:
        s, at = body.scalars, _at(index)
        total: SSAValue | None = None
        for corner in product(*taps):
            places = [
                body.variable(body.index_of(body.read(tap.index, at), I64), size)
                for tap, size in zip(corner, x.dims[2:])
            ]
            weight: SSAValue | None = None
            for tap in corner:
                factor = body.read(tap.weight, at)
                weight = factor if weight is None else s.mul(weight, factor, t)
            assert weight is not None
            term = s.mul(weight, body.read(x, (*index[:2], *places)), t)
            total = term if total is None else s.add(total, term, t)
        assert total is not None
        return total

    sources = [(x, Use.MANY), *((n, Use.MANY) for axis in taps for tap in axis for n in (tap.index, tap.weight))]
    return to_result(Computed(o.dims(), t, tuple(sources), formula, cost=30), o.element())


# DeformConv


def deform_conv(o: Operands) -> list[Node]:
    """A convolution at places shifted by `offset` and weighted by `mask`: the sampled columns, then a product."""
    x, w, offset, bias, mask = o[0], o[1], o[2], o.get(3), o.get(4)
    rank, t = len(x.dims) - 2, x.element.compute
    kernel = tuple(as_dim(k) for k in o.attr("kernel_shape") or w.dims[2:])
    groups, offset_groups = as_dim(o.attr("group")), as_dim(o.attr("offset_group"))
    dims, channels = o.dims(), x.dims[1]
    output = dims[2:]
    shifts = reshaped(converted(offset, t), (x.dims[0], offset_groups, *kernel, as_dim(rank), *output))
    taps = [_shifted_taps(o, x, shifts, axis, t) for axis in range(rank)]
    image = reshaped(converted(x, t), (x.dims[0], offset_groups, channels // offset_groups, *x.dims[2:]))
    scale = None
    if mask is not None:
        scale = reshaped(converted(mask, t), (x.dims[0], offset_groups, *kernel, *output))

    def sampled(body: Body, index: Index) -> SSAValue:
        """[n, offset group, channel, kernel..., output...]"""
        s, at = body.scalars, (*index[:2], *index[3:])
        total: SSAValue | None = None
        for corner in product(*taps):
            places = [
                body.variable(body.index_of(body.read(tap.index, at), I64), size)
                for tap, size in zip(corner, x.dims[2:])
            ]
            term = body.read(image, (*index[:3], *places))
            for tap in corner:
                term = s.mul(term, body.read(tap.weight, at), t)
            total = term if total is None else s.add(total, term, t)
        assert total is not None
        return total if scale is None else s.mul(total, body.read(scale, at), t)

    tables = [n for axis in taps for tap in axis for n in (tap.index, tap.weight)]
    sources = [(image, Use.MANY), *((n, Use.MANY) for n in tables), *([] if scale is None else [(scale, Use.MANY)])]
    shape = (x.dims[0], offset_groups, channels // offset_groups, *kernel, *output)
    columns = Computed(shape, t, tuple(sources), sampled, cost=40)
    depth = channels // groups * product_of(kernel)
    right = reshaped(columns, (x.dims[0], groups, depth, product_of(output)))
    left = reshaped(converted(w, t), (groups, w.dims[0] // groups, depth))
    wide = (x.dims[0], groups, w.dims[0] // groups, product_of(output))
    total = reshaped(matrix_product(left, right, 0, 0, wide, t), dims)
    if (each := channel_bias(bias, rank + 2)) is None:
        return [converted(total, o.element())]
    return [pointwise(lambda s, v, c: s.add(v, convert(s, c, each.element, t), t), (total, each), dims, o.element())]


def _shifted_taps(o: Operands, x: Node, shifts: Node, axis: int, t: Element) -> list[Tap]:
    """The two neighbours of each place [n, offset group, kernel..., output...] along one axis."""
    rank = len(x.dims) - 2
    strides, dilations = o.attr("strides") or [1] * rank, o.attr("dilations") or [1] * rank
    pads = o.attr("pads") or [0] * (2 * rank)
    dims = (*shifts.dims[: 2 + rank], *shifts.dims[3 + rank :])

    def place(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        tap, window = index[2 + axis], index[2 + rank + axis]
        start = window * strides[axis] + tap * dilations[axis] - pads[axis]
        whole = convert(s, s.convert("index_cast", body.index(start), I64), I64, t)
        return s.add(whole, body.read(shifts, (*index[: 2 + rank], as_dim(axis), *index[2 + rank :])), t)

    places = Computed(dims, t, ((shifts, Use.ONCE),), place, cost=6)
    extent = x.dims[2 + axis]
    return _taps(places, extent, size_value(extent, t), "linear", False, "zeros", t)


# AffineGrid


def affine_grid(o: Operands) -> list[Node]:
    """Sampling places [N, (D,) H, W, 2 or 3]: theta [N, r, r + 1] times the places of an even grid and 1."""
    theta, dims = o[0], o.dims()
    t = theta.element.compute
    lines = [_line(size, bool(o.attr("align_corners")), t) for size in dims[1:-1]]

    def formula(body: Body, index: Index) -> SSAValue:
        s, row = body.scalars, (index[0], index[-1])
        total: SSAValue | None = None
        for k, (line, at) in enumerate(zip(reversed(lines), reversed(index[1:-1]))):
            term = s.mul(body.wide(theta, (*row, as_dim(k))), body.read(line, (at,)), t)
            total = term if total is None else s.add(total, term, t)
        assert total is not None
        return s.add(total, body.wide(theta, (*row, as_dim(len(lines)))), t)

    sources = [(theta, Use.MANY), *((line, Use.MANY) for line in lines)]
    return [converted(Computed(dims, t, tuple(sources), formula, cost=8), o.element())]


def _line(size: Dim, corners: bool, t: Element) -> Node:
    count = size_value(size, t)

    def formula(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        at = convert(s, s.convert("index_cast", body.index(index[0]), I64), I64, t)
        n, one, two = body.read(count, ()), s.constant(1.0, t), s.constant(2.0, t)
        if not corners:
            return s.sub(s.divf(s.add(s.mul(at, two, t), one, t), n), one, t)
        several = s.compare("gt", n, one, t)
        step = s.select(several, s.divf(two, s.sub(n, one, t)), s.constant(0.0, t))
        return s.sub(s.mul(at, step, t), one, t)

    return Computed((size,), t, ((count, Use.MANY),), formula, cost=8)


# RoiAlign


def roi_align(o: Operands) -> list[Node]:
    """Means (or maxima of the weighted corners) of bilinear samples in the bins of each region."""
    x, rois, batches = o[0], o[1], o[2]
    ratio, t = o.attr("sampling_ratio"), x.element.compute
    if ratio <= 0:  # the regions decide how many samples there are
        return [n for n in template(o) if n is not None]
    rows = _samples(o, rois, 1, o.attr("output_height"), ratio, x.dims[2], t)
    columns = _samples(o, rois, 0, o.attr("output_width"), ratio, x.dims[3], t)
    regions, channels, height, width = o.dims()
    dims = (regions, channels, height, width, as_dim(ratio), as_dim(ratio))
    source, largest = converted(x, t), o.attr("mode") == "max"
    message = out_of_range(o, 2, "axis 0 of 'X'")

    def formula(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        region, channel, h, w, i, j = index
        image = checked_index(body, body.read(batches, (region,)), batches.element, x.dims[0], message)
        total: SSAValue | None = None
        for row, column in product(rows, columns):
            row_at, column_at = (region, h, i), (region, w, j)
            y = body.variable(body.index_of(body.read(row.index, row_at), I64), x.dims[2])
            z = body.variable(body.index_of(body.read(column.index, column_at), I64), x.dims[3])
            weight = s.mul(body.read(row.weight, row_at), body.read(column.weight, column_at), t)
            term = s.mul(body.read(source, (image, channel, y, z)), weight, t)
            total = term if total is None else s.max(total, term, t) if largest else s.add(total, term, t)
        assert total is not None
        return total

    tables = [n for tap in (*rows, *columns) for n in (tap.index, tap.weight)]
    sources = [(source, Use.MANY), (batches, Use.MANY), *((n, Use.MANY) for n in tables)]
    samples = Computed(dims, t, tuple(sources), formula, cost=30)
    total = reduced(Combine.MAX if largest else Combine.ADD, samples, [4, 5])
    if not largest:
        total = quotient(total, size_value(as_dim(ratio * ratio), t))
    return [converted(total, o.element())]


def _samples(o: Operands, rois: Node, first: int, bins: int, ratio: int, extent: Dim, t: Element) -> list[Tap]:
    """The two neighbours of each sample [region, bin, sample] along one axis; `first` is 0 for x, 1 for y."""
    half_pixel, scale = o.attr("coordinate_transformation_mode") == "half_pixel", o.attr("spatial_scale")
    dims: Dims = (rois.dims[0], as_dim(bins), as_dim(ratio))

    def edge(body: Body, region: Dim, number: int) -> SSAValue:
        s = body.scalars
        scaled = s.mul(convert(s, body.wide(rois, (region, as_dim(number))), rois.element, t), s.constant(scale, t), t)
        return s.sub(scaled, s.constant(0.5, t), t) if half_pixel else scaled

    def place(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        region, number, sample = index
        start, end = edge(body, region, first), edge(body, region, first + 2)
        length = s.sub(end, start, t)
        if not half_pixel:
            length = s.max(length, s.constant(1.0, t), t)
        size = s.divf(length, s.constant(float(bins), t))
        at, within = (convert(s, s.convert("index_cast", body.index(d), I64), I64, t) for d in (number, sample))
        offset = s.divf(s.mul(s.add(within, s.constant(0.5, t), t), size, t), s.constant(float(ratio), t))
        return s.add(s.add(start, s.mul(at, size, t), t), offset, t)

    places = Computed(dims, t, ((rois, Use.MANY),), place, cost=15)
    last = size_value(extent - 1, t)
    return [_corner(places, last, high, t) for high in (False, True)]


def _corner(places: Node, last: Node, high: bool, t: Element) -> Tap:
    """The lower or higher neighbour: places up to one outside count as the edge, those further out weigh nothing."""

    def clamped(s: Scalars, v: SSAValue, end: SSAValue) -> SSAValue:
        return s.max(s.min(v, end, t), s.constant(0.0, t), t)

    def low_of(s: Scalars, v: SSAValue, end: SSAValue) -> SSAValue:
        before_last = s.max(s.sub(end, s.constant(1.0, t), t), s.constant(0.0, t), t)
        return s.min(s.unary(math.FloorOp, clamped(s, v, end)), before_last, t)

    def index(s: Scalars, v: SSAValue, end: SSAValue) -> SSAValue:
        low = low_of(s, v, end)
        at = s.min(s.add(low, s.constant(1.0, t), t), end, t) if high else low
        return s.convert("fptosi", s.max(at, s.constant(0.0, t), t), I64)

    def weight(s: Scalars, v: SSAValue, end: SSAValue) -> SSAValue:
        at, low, one = clamped(s, v, end), low_of(s, v, end), s.constant(1.0, t)
        value = s.sub(at, low, t) if high else s.sub(s.add(low, one, t), at, t)
        inside = s.both(s.compare("ge", v, s.constant(-1.0, t), t), s.compare("le", v, s.add(end, one, t), t))
        return s.select(inside, value, s.constant(0.0, t))

    dims = places.dims
    inside = pointwise(lambda s: s.constant(1, BOOL), (), dims, BOOL, 0)
    return Tap(pointwise(index, (places, last), dims, I64, 8), pointwise(weight, (places, last), dims, t, 10), inside)


IMAGES: dict[type[onnx.OnnxOp], Rule] = {
    onnx.AffineGridOp: affine_grid,
    onnx.DeformConvOp: deform_conv,
    onnx.GridSampleOp: by_parts(grid_sample),
    onnx.RoiAlignOp: roi_align,
}
