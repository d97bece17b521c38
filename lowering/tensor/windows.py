"""Pools and local response normalization: reductions over windows whose reads are guarded at the edges."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, math
from xdsl.ir import SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim, as_dim
from ...dialects.dims.expression import ONE, ZERO, dim_max, dim_min
from .body import Body
from .casts import convert, converted
from .complex_parts import by_parts
from .element_kinds import I64, Element
from .elementary import sigmoid
from .graph import Combine, Computed, Dims, Node, Use, pointwise, widened
from .index_space import Index
from .movement import concatenated, padded, reshaped, sliced
from .operators import Operands, Rule, quotient, reduced, scalar_literal
from .reductions import absolute, mapped, square, square_root
from .scalars import INDEX, Scalars
from .templates import channel_bias, resolved_pads


@dataclass(frozen=True)
class Windows:
    """Where the windows of a pool lie, one entry for each spatial axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[Dim, ...]
    after: tuple[Dim, ...]
    spatial: Dims

    @staticmethod
    def of(o: Operands, x: Node) -> Windows:
        kernel = o.attr("kernel_shape")
        rank = len(kernel)
        strides = o.attr("strides") or [1] * rank
        dilations = o.attr("dilations") or [1] * rank
        pads = resolved_pads(o.attr("auto_pad"), o.attr("pads"), x.dims, list(map(as_dim, kernel)), strides, dilations)
        return Windows(
            tuple(kernel), tuple(strides), tuple(dilations), tuple(pads[:rank]), tuple(pads[rank:]), x.dims[2:]
        )

    @property
    def rank(self) -> int:
        return len(self.kernel)

    def elements(self, axis: int) -> Dim:
        """How many elements of a window are read: of a long one no more than the axis can have in it."""
        size, step = as_dim(self.kernel[axis]), self.dilations[axis]
        return dim_min(size, (self.spatial[axis] + (step - 1)) // step) if self.kernel[axis] > LONG else size

    def first(self, axis: int, window: Dim) -> Dim:
        """Which element of a window is the first that is read: of a long one the first that is inside."""
        if self.kernel[axis] <= LONG:
            return ZERO
        step = self.dilations[axis]
        return dim_max((self.before[axis] - window * self.strides[axis] + (step - 1)) // step, ZERO)

    def place(self, axis: int, window: Dim, element: Dim) -> Dim:
        """The index into the unpadded axis of an element of a window."""
        return window * self.strides[axis] + element * self.dilations[axis] - self.before[axis]


def windowed(x: Node, windows: Windows, dims: Dims, fill: float) -> Node:
    """The elements of each window, `fill` where it hangs over: [N, C, output..., kernel..., last output].

    The last output axis is innermost, so that neighbouring windows are neighbours in a vector.
    """
    rank = windows.rank
    whole = (*dims[:-1], *map(windows.elements, range(rank)), dims[-1])
    t = x.element

    def formula(body: Body, index: Index) -> SSAValue:
        index, element = parts_of(windows, index)
        places, conditions = places_of(body, windows, index, element)
        return body.guarded(
            conditions, lambda: body.read(x, (*index[:2], *places)), lambda: body.scalars.constant(fill, t)
        )

    assert len(dims) == rank + 2
    return Computed(whole, t, ((x, Use.MANY),), formula, cost=3)


def parts_of(windows: Windows, index: Index) -> tuple[Index, Index]:
    """An index of `windowed` as (index of the result, index within the window)."""
    rank = windows.rank
    result = (*index[: 1 + rank], index[-1])
    read = index[1 + rank : -1]
    return result, tuple(windows.first(k, result[2 + k]) + read[k] for k in range(rank))


def places_of(body: Body, windows: Windows, index: Index, element: Index) -> tuple[list[Dim], list[SSAValue]]:
    """The spatial index of a window's element, and the conditions that it is inside."""
    places = [windows.place(k, index[2 + k], element[k]) for k in range(windows.rank)]
    conditions = [c for place, size in zip(places, windows.spatial) for c in body.inside(place, size)]
    long = [k for k in range(windows.rank) if windows.kernel[k] > LONG]
    conditions += [c for k in long for c in body.inside(element[k], as_dim(windows.kernel[k]))]
    return places, conditions


def kernel_axes(windows: Windows) -> list[int]:
    return list(range(1 + windows.rank, 1 + 2 * windows.rank))


LONG = 1024
"""Of windows over more elements along an axis, those in the padding are not gone through."""

UNROLLED = 25
"""Windows of up to so many elements are combined in one expression."""


def over_windows(combine: Combine, x: Node, windows: Windows, dims: Dims, fill: float) -> Node:
    """The elements of each window combined, in the window's row-major order."""
    total = 1
    for size in windows.kernel:
        total *= size
    if total > UNROLLED:
        return reduced(combine, windowed(x, windows, dims, fill), kernel_axes(windows))
    return Computed(dims, x.element, ((x, Use.MANY),), UnrolledWindow(combine, x, windows, fill).emit, cost=3 * total)


@dataclass(frozen=True)
class UnrolledWindow:
    """A window's elements combined in one expression: axis by axis, so that a whole row is guarded at once."""

    combine: Combine
    x: Node
    windows: Windows
    fill: float

    def emit(self, body: Body, index: Index) -> SSAValue:
        return self._along(body, index, index[:2])

    def _along(self, body: Body, index: Index, place: Index) -> SSAValue:
        """Over the axes from `place`'s end on."""
        axis = len(place) - 2
        if axis == self.windows.rank:
            return body.read(self.x, place)
        s, t = body.scalars, self.x.element
        total: SSAValue | None = None
        for number in range(self.windows.kernel[axis]):
            at = self.windows.place(axis, index[2 + axis], as_dim(number))
            value = body.guarded(
                body.inside(at, self.windows.spatial[axis]),
                lambda at=at: self._along(body, index, (*place, at)),
                lambda: s.constant(self.fill, t),
            )
            total = value if total is None else self._combined(s, total, value)
        assert total is not None
        return total

    def _combined(self, s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
        t = self.x.element
        return s.max(a, b, t) if self.combine is Combine.MAX else s.add(a, b, t)


def max_pool(o: Operands) -> list[Node]:
    """The greatest element of each window, and its index into x flattened; padding does not count."""
    x = widened(o[0])
    windows, dims = Windows.of(o, x), o.dims()
    view = windowed(x, windows, dims, x.element.lowest)
    best = over_windows(Combine.MAX, x, windows, dims, x.element.lowest)
    results = [converted(best, o.element())]
    if o.has_result(1):
        results.append(max_index(o, x, windows, view, best))
    return results


def max_index(o: Operands, x: Node, windows: Windows, view: Node, best: Node) -> Node:
    """The flat index of the first element of each window that is the greatest; a real one before padding."""
    t, rank = x.element, windows.rank
    total = 1
    for size in windows.kernel:
        total *= size

    def candidate(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        index, element = parts_of(windows, index)
        places, conditions = places_of(body, windows, index, element)
        number = body.space.linearize(element, [as_dim(k) for k in windows.kernel])
        at = s.convert("index_cast", body.index(number), I64)

        def inside() -> SSAValue:
            value, greatest = body.read(x, (*index[:2], *places)), body.read(best, index)
            hit = s.compare("eq", value, greatest, t)
            if t.is_float:
                hit = s.either(hit, s.both(s.is_nan(value, t), s.is_nan(greatest, t)))
            # an element that is not the greatest is behind all that are, but before padding
            return s.select(hit, at, s.add(at, s.constant(total, I64), I64))

        return body.guarded(conditions, inside, lambda: s.constant(2 * total, I64))

    sources = ((x, Use.MANY), (best, Use.MANY))
    first = reduced(Combine.MIN, Computed(view.dims, I64, sources, candidate, cost=5), kernel_axes(windows))
    column_major = bool(o.attr("storage_order"))

    def flat(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        number = s.int_binary(arith.RemUIOp, body.read(first, index), s.constant(total, I64))
        within = body.variable(body.index_of(number, I64), as_dim(total))
        elements = body.space.delinearize(within, [as_dim(k) for k in windows.kernel])
        places = [windows.place(k, index[2 + k], elements[k]) for k in range(rank)]
        order = range(rank) if column_major else reversed(range(rank))
        offset, factor = ZERO, as_dim(1)
        for k in order:
            offset, factor = offset + places[k] * factor, factor * windows.spatial[k]
        image = (index[0] * x.dims[1] + index[1]) * factor
        return s.convert("index_cast", body.index(offset + image), I64)

    return Computed(o.dims(1), I64, ((first, Use.ALIGNED),), flat, cost=10)


def average_pool(o: Operands) -> list[Node]:
    """Means over the windows; padding counts only with `count_include_pad`, and then only what `pads` names."""
    x = widened(o[0])
    windows, dims, t = Windows.of(o, x), o.dims(), x.element
    total = over_windows(Combine.ADD, x, windows, dims, 0.0)
    with_pads = bool(o.attr("count_include_pad"))

    counts = [_counts(windows, axis, dims[2 + axis], with_pads, t) for axis in range(windows.rank)]
    number = counts[0]
    for other in counts[1:]:
        number = pointwise(
            lambda s, a, c: s.mul(a, c, t), (with_trailing_axis(number), other), (*number.dims, other.dims[0]), t
        )
    return [converted(quotient(total, number), o.element())]


def with_trailing_axis(x: Node) -> Node:
    return reshaped(x, (*x.dims, ONE))


def _counts(windows: Windows, axis: int, size: Dim, with_pads: bool, t: Element) -> Node:
    """How many elements count along an axis, for each window."""

    def formula(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        number = counted(body, windows, axis, index[0], with_pads)
        if number.is_const:
            return s.constant(number.value, t)
        return s.convert("sitofp", s.convert("index_cast", body.index(number), I64), t)

    return Computed((size,), t, (), formula, cost=6)


def counted(body: Body, windows: Windows, axis: int, window: Dim, with_pads: bool) -> Dim:
    """How many elements of a window count along an axis."""
    kernel, step, size = windows.kernel[axis], windows.dilations[axis], windows.spatial[axis]
    start = windows.place(axis, window, ZERO)
    low = -windows.before[axis] if with_pads else ZERO
    high = size + windows.after[axis] if with_pads else size
    first = ZERO
    if not body.space.is_negative_free(start - low):  # elements before `low`, rounded up
        first = dim_max((low - start + (step - 1)) // step, ZERO)
    end = as_dim(kernel)
    if not body.space.is_negative_free(high - start - (kernel - 1) * step - 1):
        end = dim_max(dim_min((high - start + (step - 1)) // step, end), ZERO)
    return end - first


def lp_pool(o: Operands) -> list[Node]:
    """(sum of |x| ** p) ** (1 / p) over the windows"""
    x, p = widened(o[0]), o.attr("p")
    windows = Windows.of(o, x)
    view = windowed(x, windows, o.dims(), 0.0)
    axes = kernel_axes(windows)
    if p == 1:
        value = reduced(Combine.ADD, absolute(view), axes)
    elif p == 2:
        value = square_root(reduced(Combine.ADD, square(view), axes))
    else:
        powers = mapped(lambda s, v, t: s.float_binary(math.PowFOp, s.abs(v, t), s.constant(float(p), t)), view, 20)
        total = reduced(Combine.ADD, powers, axes)
        value = mapped(lambda s, v, t: s.float_binary(math.PowFOp, v, s.constant(1.0 / p, t)), total, 20)
    return [converted(value, o.element())]


def causal_conv_with_state(o: Operands) -> list[Node]:
    """A depthwise convolution over the state and x, and the last positions seen as the new state."""
    x, w, bias, state = o[0], o[1], o.get(2), o.get(3)
    taps, t = w.dims[2], x.element.compute
    if o.attr("activation") not in ("none", "silu", "swish"):
        raise o.refuse("another activation")
    length = x.dims[2] + (taps - 1)
    seen_dims = (*x.dims[:2], length)
    if state is None:
        none = scalar_literal(0.0, t)
        seen = padded(widened(x), seen_dims, [ZERO, ZERO, taps - 1], none)
    else:
        seen = widened(concatenated([state, x], 2, seen_dims))
    sources = ((seen, Use.MANY), (weights := widened(w), Use.MANY))

    def product(body: Body, index: Index) -> SSAValue:
        """[batch, channel, position, tap]"""
        value = body.read(seen, (*index[:2], index[2] + index[3]))
        return body.scalars.mul(value, body.read(weights, (index[1], ZERO, index[3])), t)

    def unrolled(body: Body, index: Index) -> SSAValue:
        total = body.scalars.constant(0.0, t)
        for k in range(taps.value):
            value = body.read(seen, (*index[:2], index[2] + k))
            total = body.scalars.fma(value, body.read(weights, (index[1], ZERO, as_dim(k))), total)
        return total

    if taps.is_const:
        total: Node = Computed(x.dims, t, sources, unrolled, cost=3 * taps.value)
    else:
        total = reduced(Combine.ADD, Computed((*x.dims, taps), t, sources, product, cost=3), [3])
    if (each := channel_bias(bias, 3)) is not None:
        total = pointwise(lambda s, v, c: s.add(v, convert(s, c, each.element, t), t), (total, each), x.dims, t)
    if o.attr("activation") != "none":
        total = pointwise(lambda s, v: s.mul(v, sigmoid(s, v, t), t), (total,), x.dims, t, 20)
    results = [converted(total, o.element())]
    if o.has_result(1):
        last = sliced(seen, o.dims(1), [ZERO, ZERO, length - (taps - 1)], [1, 1, 1])
        results.append(converted(last, o.element(1)))
    return results


def col2im(o: Operands) -> list[Node]:
    """Blocks [N, C * block, L] added up where they lie in an image: for each element, what lies on it."""
    x, image, sizes = widened(o[0]), o.known(1), o.known(2)
    assert image is not None and sizes is not None
    rank, t = len(image), x.element
    strides, dilations = o.attr("strides") or [1] * rank, o.attr("dilations") or [1] * rank
    pads = o.attr("pads") or [0] * (2 * rank)
    counts = tuple(
        (image[k] + pads[k] + pads[rank + k] - (sizes[k] - 1) * dilations[k] - 1) // strides[k] + 1 for k in range(rank)
    )
    dims = o.dims()
    columns = reshaped(x, (*dims[:2], *sizes, *counts))

    def formula(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        place, element = (*index[2 : 1 + rank], index[-1]), index[1 + rank : -1]
        conditions: list[SSAValue] = []
        numbers: list[Dim] = []
        for k in range(rank):
            distance = place[k] + pads[k] - element[k] * dilations[k]
            step = as_dim(strides[k])
            conditions.extend(body.inside(distance, counts[k] * step))
            number, rest = body.space.divide(distance, step)
            numbers.append(number)
            if rest is not ZERO:
                conditions.append(s.compare("eq", body.index(rest), s.constant(0, INDEX), I64))
        return body.guarded(
            conditions, lambda: body.read(columns, (*index[:2], *element, *numbers)), lambda: s.constant(0, t)
        )

    terms = Computed((*dims[:-1], *sizes, dims[-1]), t, ((columns, Use.ONCE),), formula, cost=6)
    combine = Combine.MAX if t.kind == "b" else Combine.ADD  # two truths are one
    return [converted(reduced(combine, terms, list(range(1 + rank, 1 + 2 * rank))), o.element())]


UNCLAMPED = 32
"""Windows over so many channels stay as they are where it is not known how many channels there are."""


def local_response_normalization(o: Operands) -> list[Node]:
    """x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ** beta"""
    x, size = widened(o[0]), o.attr("size")
    before, after, t = as_dim((size - 1) // 2), as_dim(size // 2), x.element
    if size > UNCLAMPED or x.dims[1].is_const:  # no channel has more neighbours than there are others
        others = dim_max(x.dims[1] - 1, ZERO)
        before, after = dim_min(before, others), dim_min(after, others)
    squares = square(x)

    def formula(body: Body, index: Index) -> SSAValue:
        channel = index[1] + index[2] - before
        return body.guarded(
            body.inside(channel, x.dims[1]),
            lambda: body.read(squares, (index[0], channel, *index[3:])),
            lambda: body.scalars.constant(0.0, t),
        )

    around = Computed((*x.dims[:2], before + after + 1, *x.dims[2:]), t, ((squares, Use.MANY),), formula, cost=3)
    total = reduced(Combine.ADD, around, [2])
    scale, bias, beta = (o.attr("alpha") / size, o.attr("bias"), o.attr("beta"))

    def normalized(s: Scalars, v: SSAValue, squared: SSAValue) -> SSAValue:
        base = s.add(s.constant(bias, t), s.mul(squared, s.constant(scale, t), t), t)
        return s.divf(v, s.float_binary(math.PowFOp, base, s.constant(beta, t)))

    return [pointwise(normalized, (x, total), x.dims, o.element(), 25)]


WINDOWS: dict[type[onnx.OnnxOp], Rule] = {
    onnx.AveragePoolOp: average_pool,
    onnx.CausalConvWithStateOp: causal_conv_with_state,
    onnx.Col2ImOp: by_parts(col2im),
    onnx.LRNOp: local_response_normalization,
    onnx.LpPoolOp: lp_pool,
    onnx.MaxPoolOp: max_pool,
}
