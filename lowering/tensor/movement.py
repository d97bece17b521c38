"""Movement operators as maps of the index: no element is computed, only found."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim, as_dim
from ...dialects.dims.expression import ONE, ZERO, dim_max, dim_min
from ...dialects.dims.interval import SIZE_LIMIT
from .body import Body
from .element_kinds import I64
from .graph import Computed, Dims, Node, Use, View, broadcast_index, pointwise
from .index_space import Index, IndexSpace
from .operators import Operands, Rule, axis_of, scalar_literal
from .scalars import INDEX


def view(dims: Dims, source: Node, map_: Callable[[IndexSpace, Index], Index], use: Use = Use.ONCE) -> View:
    return View(dims, source.element, source, map_, use)


def reshaped(source: Node, dims: Dims) -> Node:
    """The same elements in row-major order under other dims."""
    if source.dims == dims:
        return source
    return view(dims, source, lambda space, index: space.reshape(index, dims, source.dims))


def transposed(source: Node, perm: Sequence[int]) -> Node:
    """Axis k of the result is axis perm[k] of the source."""
    dims = tuple(source.dims[p] for p in perm)
    place = sorted(range(len(perm)), key=perm.__getitem__)
    return view(dims, source, lambda space, index: tuple(index[p] for p in place))


def expanded(source: Node, dims: Dims) -> Node:
    """The source broadcast to dims."""
    if source.dims == dims:
        return source
    return view(dims, source, lambda space, index: broadcast_index(source.dims, dims, index), Use.MANY)


def reshape(o: Operands) -> list[Node]:
    return [reshaped(o[0], o.dims())]


def transpose(o: Operands) -> list[Node]:
    source = o[0]
    perm = o.attr("perm") or list(reversed(range(len(source.dims))))
    return [transposed(source, perm)]


def expand(o: Operands) -> list[Node]:
    return [expanded(o[0], o.dims())]


def tile(o: Operands) -> list[Node]:
    source = o[0]

    def wrapped(space: IndexSpace, index: Index) -> Index:
        return tuple(space.divide(at, size)[1] for at, size in zip(index, source.dims))

    return [view(o.dims(), source, wrapped, Use.MANY)]


# Slices


def slice_(o: Operands) -> list[Node]:
    """Slice: starts and steps; the sizes are the result's. Starts are clamped as the standard says."""
    source = o[0]
    starts, ends, axes, steps = o.known(1), o.known(2), o.known_ints(3), o.known_ints(4)
    assert starts is not None and ends is not None
    if axes is None:
        axes = list(range(len(starts)))
    steps = steps or [1] * len(starts)
    first = [ZERO] * len(source.dims)
    stride = [1] * len(source.dims)
    for start, axis, step in zip(starts, axes, steps):
        axis = axis_of(axis, len(source.dims))
        first[axis] = clamped_start(start, source.dims[axis], step)
        stride[axis] = step
    return [sliced(source, o.dims(), first, stride)]


def clamped_start(start: Dim, size: Dim, step: int) -> Dim:
    """Where a slice that is not empty begins: negative starts count from the end, and some are moved into the range."""
    if not start.is_const:
        return _clamped_unknown(start, size, step)
    value = start.value
    if value < 0:
        return size - 1 if value == -1 else dim_max(size + value, ZERO)
    if step > 0:
        return start
    return size - 1 if value >= SIZE_LIMIT - 1 else dim_min(start, size - 1)


def _clamped_unknown(start: Dim, size: Dim, step: int) -> Dim:
    """A start that may be negative at run time: size is added where it is."""
    negative = dim_min(dim_max(-start, ZERO), ONE)  # 1 where start < 0
    counted = start + negative * size
    return dim_max(counted if step > 0 else dim_min(counted, size - 1), ZERO)


def sliced(source: Node, dims: Dims, first: Sequence[Dim], stride: Sequence[int]) -> Node:
    """From `first` on, every stride-th element along each axis."""

    def moved(space: IndexSpace, index: Index) -> Index:
        return tuple(f + at * s for f, at, s in zip(first, index, stride))

    return view(dims, source, moved)


def split(o: Operands) -> list[Node]:
    source = o[0]
    axis = axis_of(o.attr("axis"), len(source.dims))
    results: list[Node] = []
    at = ZERO
    for k in range(len(o.op.results)):
        dims = o.dims(k)
        first = [at if a == axis else ZERO for a in range(len(dims))]
        results.append(sliced(source, dims, first, [1] * len(dims)))
        at = at + dims[axis]
    return results


# Joining


def concat(o: Operands) -> list[Node]:
    parts = o.all()
    axis = axis_of(o.attr("axis"), len(parts[0].dims))
    return [concatenated(parts, axis, o.dims())]


def concatenated(parts: Sequence[Node], axis: int, dims: Dims) -> Node:
    """Parts side by side along an axis: a search by halves for the part that an index is in."""
    parts = [p for p in parts if p.dims[axis] is not ZERO] or list(parts[:1])
    if len(parts) == 1:
        return parts[0]
    bounds = [ZERO]
    for part in parts:
        bounds.append(bounds[-1] + part.dims[axis])

    def within(body: Body, index: Index, low: int, high: int) -> SSAValue:
        if high - low == 1:
            at = index[axis] - bounds[low]
            return body.read(parts[low], (*index[:axis], at, *index[axis + 1 :]))
        middle = (low + high) // 2
        here = body.below(index[axis], bounds[middle])
        if here is True:
            return within(body, index, low, middle)
        if here is False:
            return within(body, index, middle, high)
        return body.branch(here, lambda: within(body, index, low, middle), lambda: within(body, index, middle, high))

    sources = tuple((p, Use.ONCE) for p in parts)
    return Computed(dims, parts[0].element, sources, lambda body, index: within(body, index, 0, len(parts)), cost=1)


# Padding


def pad(o: Operands) -> list[Node]:
    source = o[0]
    rank = len(source.dims)
    if not rank:
        return [source]
    pads, axes = o.known(1), o.known_ints(3)
    assert pads is not None
    axes = [axis_of(a, rank) for a in axes] if axes is not None else list(range(rank))
    before = [ZERO] * rank
    for k, axis in enumerate(axes):
        before[axis] = pads[k]
    after = [d - size - b for d, size, b in zip(o.dims(), source.dims, before)]
    mode = o.attr("mode")
    if mode == "constant":
        value = o.get(2)
        return [padded(source, o.dims(), before, value if value is not None else _zero(source), after)]
    places = {"edge": _edge, "reflect": _reflect, "wrap": _wrap}
    place = places[mode]
    return [_mirrored(source, o.dims(), before, after, place)]


def _zero(source: Node) -> Node:
    t = source.element
    return scalar_literal(0, t) if t.compute is t else _narrow_zero(source)


def _narrow_zero(source: Node) -> Node:
    t = source.element
    return pointwise(lambda s: s.constant(0.0, t.compute), (), (), t, 0)


def padded(source: Node, dims: Dims, before: Sequence[Dim], value: Node, after: Sequence[Dim] | None = None) -> Node:
    """The source with `value` (a scalar) around it; negative pads cut."""
    value_index = tuple(ZERO for _ in value.dims)

    def formula(body: Body, index: Index) -> SSAValue:
        moved = tuple(at - b for at, b in zip(index, before))
        conditions: list[SSAValue] = []
        for axis, (at, size) in enumerate(zip(moved, source.dims)):
            if before[axis] is ZERO and dims[axis] is size:
                continue
            conditions.extend(body.inside(at, size))
        return body.guarded(conditions, lambda: body.read(source, moved), lambda: body.read(value, value_index))

    return Computed(dims, source.element, ((source, Use.ONCE), (value, Use.MANY)), formula, cost=2)


Place = Callable[[Body, Dim, Dim], Dim]
"""(body, index that may be outside, size) -> index inside."""


def _mirrored(source: Node, dims: Dims, before: Sequence[Dim], after: Sequence[Dim], place: Place) -> Node:
    """Padded by elements of the source; what negative pads cut off is not seen."""

    def formula(body: Body, index: Index) -> SSAValue:
        inside: list[Dim] = []
        for at, b, a, size in zip(index, before, after, source.dims):
            if b is ZERO and a is ZERO:
                inside.append(at)
                continue
            first = dim_max(-b, ZERO)
            kept = size - first - dim_max(-a, ZERO)
            inside.append(place(body, at - dim_max(b, ZERO), kept) + first)
        return body.read(source, tuple(inside))

    return Computed(dims, source.element, ((source, Use.MANY),), formula, cost=4)


def _edge(body: Body, at: Dim, size: Dim) -> Dim:
    s = body.scalars
    low = s.max(body.index(at), s.constant(0, INDEX), I64)
    return body.variable(s.min(low, body.index(size - 1), I64), size)


def _wrap(body: Body, at: Dim, size: Dim) -> Dim:
    return body.space.divide(at, size)[1]


def _reflect(body: Body, at: Dim, size: Dim) -> Dim:
    """Mirrored at the first and the last element, which are not repeated, any number of times."""
    s = body.scalars
    period = dim_max(2 * size - 2, as_dim(1))
    folded = body.index(body.space.divide(at, period)[1])
    back = s.sub(body.index(period), folded, I64)
    return body.variable(s.select(s.compare("lt", folded, body.index(size), I64), folded, back), size)


def center_crop_pad(o: Operands) -> list[Node]:
    """Cut or padded with zeros to a size around the middle of some axes; an odd difference is more at the end."""
    source = o[0]
    rank = len(source.dims)
    axes = [axis_of(a, rank) for a in (o.attr("axes") or range(rank))]
    before = [ZERO] * rank
    for axis in axes:
        want, size = o.dims()[axis], source.dims[axis]
        difference = want - size
        if not difference.is_const:
            # half of the difference toward zero: one of the two terms is 0
            more, less = dim_max(difference, ZERO), dim_max(-difference, ZERO)
            before[axis] = more // 2 - less // 2
        else:
            value = difference.value
            before[axis] = as_dim(value // 2 if value >= 0 else -((-value) // 2))
    return [padded(source, o.dims(), before, _zero(source))]


# Blocks


def depth_to_space(o: Operands) -> list[Node]:
    source, block = o[0], as_dim(o.attr("blocksize"))
    n, c, h, w = source.dims
    inner = c // (block * block)
    if o.attr("mode") == "DCR":
        apart = transposed(reshaped(source, (n, block, block, inner, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        apart = transposed(reshaped(source, (n, inner, block, block, h, w)), (0, 1, 4, 2, 5, 3))
    return [reshaped(apart, o.dims())]


def space_to_depth(o: Operands) -> list[Node]:
    source, block = o[0], as_dim(o.attr("blocksize"))
    n, c, h, w = source.dims
    apart = reshaped(source, (n, c, h // block, block, w // block, block))
    order = (0, 3, 5, 1, 2, 4) if o.attr("mode") == "DCR" else (0, 1, 3, 5, 2, 4)
    return [reshaped(transposed(apart, order), o.dims())]


def trilu(o: Operands) -> list[Node]:
    """The triangle above (with) or below a diagonal; 0 elsewhere."""
    source, upper = o[0], bool(o.attr("upper"))
    k = o.get(1)
    zero = _zero(source)

    def formula(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        diagonal = s.constant(0, INDEX)
        if k is not None:
            diagonal = body.index_of(body.read(k, tuple(ZERO for _ in k.dims)), k.element)
        distance = s.sub(body.index(index[-1]), body.index(index[-2]), I64)
        inside = s.compare("ge" if upper else "le", distance, diagonal, I64)
        return body.branch(inside, lambda: body.read(source, index), lambda: body.read(zero, ()))

    sources = [(source, Use.ONCE), (zero, Use.MANY)]
    if k is not None:
        sources.append((k, Use.MANY))
    return [Computed(o.dims(), source.element, tuple(sources), formula, cost=3)]


def reverse_sequence(o: Operands) -> list[Node]:
    """The first lengths[b] elements of each sequence in reverse order."""
    source, lengths = o[0], o[1]
    batch, time = o.attr("batch_axis"), o.attr("time_axis")
    message = o.problem(f"'sequence_lens' has the length {{0}}; axis {time} of 'input' has size {{1}}")

    def formula(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        length = body.index_of(body.read(lengths, (index[batch],)), lengths.element)
        size = source.dims[time]
        valid = s.both(
            s.compare("ge", length, s.constant(0, INDEX), I64), s.compare("le", length, body.index(size), I64)
        )
        s.check(valid, "value", message, [length, body.index(size)])
        at = body.index(index[time])
        back = s.sub(s.sub(length, at, I64), s.constant(1, INDEX), I64)
        turned = s.both(s.compare("lt", at, length, I64), valid)
        moved = list(index)
        moved[time] = body.variable(s.select(turned, back, at), size)
        return body.read(source, tuple(moved))

    return [Computed(o.dims(), source.element, ((source, Use.ONCE), (lengths, Use.MANY)), formula, cost=4)]


MOVEMENT: dict[type[onnx.OnnxOp], Rule] = {
    onnx.CenterCropPadOp: center_crop_pad,
    onnx.ConcatOp: concat,
    onnx.DepthToSpaceOp: depth_to_space,
    onnx.ExpandOp: expand,
    onnx.FlattenOp: reshape,
    onnx.PadOp: pad,
    onnx.ReshapeOp: reshape,
    onnx.ReverseSequenceOp: reverse_sequence,
    onnx.SliceOp: slice_,
    onnx.SpaceToDepthOp: space_to_depth,
    onnx.SplitOp: split,
    onnx.SqueezeOp: reshape,
    onnx.TileOp: tile,
    onnx.TransposeOp: transpose,
    onnx.TriluOp: trilu,
    onnx.UnsqueezeOp: reshape,
}
