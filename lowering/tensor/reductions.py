"""Reductions, softmax and the normalizations: accumulations between pointwise formulas, each op rounded once.

Narrow floats are summed in f32, integers in their own type, wrapping; a sum of which a mean, a root or a logarithm is
taken does not wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, math
from xdsl.ir import SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim, as_dim
from ...dialects.dims.expression import ONE, ZERO
from ...dialects.onnx import ELEMENT_TYPES
from ...semantics.chosen_axes import is_chosen, reduced_to_one
from .arithmetic import safe_quotient
from .body import Body
from .casts import convert, converted
from .element_kinds import BF16, F32, F64, I64, Element, element_of
from .graph import Combine, Computed, Node, Use, View, pointwise, widened, with_unit_axes
from .index_space import Index, IndexSpace
from .movement import reshaped
from .operators import (
    Operands,
    Rule,
    axis_of,
    binary,
    count_of,
    mean_of,
    quotient,
    reduced,
    reduced_keeping,
    size_value,
)
from .scalars import Scalars

Formula = Callable[[Scalars, SSAValue, Element], SSAValue]
RUN = 8
"""Numbers of bf16 that are added one by one in bf16."""


def mapped(formula: Formula, x: Node, cost: float = 1) -> Node:
    """A formula of each element of a node of a compute element."""
    t = x.element
    return pointwise(lambda s, v: formula(s, v, t), (x,), x.dims, t, cost)


def exp(x: Node) -> Node:
    return mapped(lambda s, v, t: s.unary(math.ExpOp, v), x, 10)


def log(x: Node) -> Node:
    return mapped(lambda s, v, t: s.unary(math.LogOp, v), x, 10)


def square(x: Node) -> Node:
    return mapped(lambda s, v, t: s.mul(v, v, t), x)


def square_root(x: Node) -> Node:
    return mapped(lambda s, v, t: s.unary(math.SqrtOp, v), x, 4)


def absolute(x: Node) -> Node:
    return mapped(lambda s, v, t: s.abs(v, t), x)


# The Reduce operators


def reduced_axes(o: Operands) -> list[int]:
    """The axes, from an operand or (older forms) an attribute; all of them where none are given, or none of them."""
    rank = len(o[0].dims)
    axes = o.known_ints(1)
    if not axes:
        return [] if o.attr("noop_with_empty_axes") else list(range(rank))
    return sorted(axis_of(a, rank) for a in axes)


def _with_chosen_axes(o: Operands, x: Node) -> tuple[Node, list[int]]:
    """x for a reduction over axes known at run time: its axes, then as many that are reduced, and these.

    An axis is its first half where it is kept and its second where it is reduced; the other half has size 1.
    """
    axes, rank = o.known(1), len(x.dims)
    assert axes is not None
    flags = [is_chosen(axes, a, rank) for a in range(rank)]
    kept = reduced_to_one(x.dims, axes)
    gone = tuple(ONE + (d - 1) * flag for d, flag in zip(x.dims, flags))

    def halves(space: IndexSpace, index: Index) -> Index:
        return tuple(a + b for a, b in zip(index[:rank], index[rank:]))

    return View((*kept, *gone), x.element, x, halves), list(range(rank, 2 * rank))


def source_of(o: Operands) -> tuple[Node, list[int], bool]:
    """What a Reduce operator reduces, over which axes, and whether these stay with size 1 in its result."""
    if (axes := o.known(1)) is not None and not all(a.is_const for a in axes):
        x, gone = _with_chosen_axes(o, o[0])
        return x, gone, False
    axes = reduced_axes(o)
    return o[0], axes, bool(o.attr("keepdims"))


def result_of(o: Operands, value: Node, axes: Sequence[int], keep: bool) -> Node:
    """A reduction's value (its axes gone), with the op's element and dims."""
    kept = with_unit_axes(value, axes) if keep and axes else value
    return converted(reshaped(kept, o.dims()), o.element())


def reduction(
    combine: Combine,
    before: Callable[[Node], Node] | None,
    after: Callable[[Node], Node] | None,
    within: Callable[[Node], Node] = widened,
) -> Rule:
    """A Reduce operator: a formula of each element, a combination, a formula of the result, in the type `within`."""

    def rule(o: Operands) -> list[Node]:
        source, axes, keep = source_of(o)
        if not axes and not before and not after:
            return [source]
        x = within(source)
        x = before(x) if before else x
        value = reduced(combine, x, axes) if axes else x
        value = after(value) if after else value
        return [result_of(o, value, axes, keep)]

    return rule


def reduce_mean(o: Operands) -> list[Node]:
    """The sum over the count; of integers the exact mean, truncated."""
    source, axes, keep = source_of(o)
    if not axes:
        return [source]
    x = widened(source)
    if x.element.is_float:
        mean = quotient(reduced(Combine.ADD, x, axes), size_value(count_of(x, axes), x.element))
    else:
        mean = _mean_of_long_integers(x, axes) if x.element.bits == 64 else _mean_of_integers(x, axes)
    return [result_of(o, mean, axes, keep)]


def _mean_of_integers(x: Node, axes: Sequence[int]) -> Node:
    """The mean of integers of at most 32 bits, whose sum an i64 holds."""
    total, count = reduced(Combine.ADD, converted(x, I64), axes), size_value(count_of(x, axes), I64)
    return pointwise(lambda s, a, b: safe_quotient(s, a, b, I64), (total, count), total.dims, I64, 10)


def _mean_of_long_integers(x: Node, axes: Sequence[int]) -> Node:
    """The mean of integers of 64 bits, whose sum may have up to 32 bits more: by long division of two sums of halves.

    There are fewer than 2**32 elements.
    """
    t, count = x.element, size_value(count_of(x, axes), I64)
    shift = arith.ShRSIOp if t.kind == "i" else arith.ShRUIOp

    def halves(s: Scalars, v: SSAValue) -> tuple[SSAValue, SSAValue]:
        half = s.constant(32, t)
        low = s.int_binary(arith.AndIOp, v, s.constant((1 << 32) - 1, t))
        return s.int_binary(shift, v, half), low

    high = reduced(Combine.ADD, mapped(lambda s, v, t: halves(s, v)[0], x), axes)
    low = reduced(Combine.ADD, mapped(lambda s, v, t: halves(s, v)[1], x), axes)

    def divided(s: Scalars, high: SSAValue, low: SSAValue, count: SSAValue) -> SSAValue:
        zero, one, half = s.constant(0, t), s.constant(1, t), s.constant(32, t)
        empty = s.compare("eq", count, zero, t)
        by = s.select(empty, one, count)
        carry, low = s.int_binary(arith.ShRUIOp, low, half), halves(s, low)[1]
        high = s.add(high, carry, t)
        first = s.int_binary(arith.FloorDivSIOp if t.kind == "i" else arith.DivUIOp, high, by)
        rest = s.add(s.int_binary(arith.ShLIOp, s.sub(high, s.mul(first, by, t), t), half), low, t)
        second = s.int_binary(arith.DivUIOp, rest, by)
        mean = s.add(s.int_binary(arith.ShLIOp, first, half), second, t)
        if t.kind == "i":  # from the floor to the truncated quotient
            cut = s.both(s.compare("lt", mean, zero, t), s.compare("ne", rest, s.mul(second, by, t), t))
            mean = s.add(mean, s.select(cut, one, zero), t)
        return s.select(empty, zero, mean)

    return pointwise(divided, (high, low, count), high.dims, t, 20)


def _as_float(x: Node) -> Node:
    """Where a root or a logarithm is taken of a sum of integers: in f64, where it does not wrap."""
    return widened(x) if x.element.is_float else converted(x, F64)


def reduce_log_sum_exp(o: Operands) -> list[Node]:
    """log(sum(exp(x))) from the greatest element on, so that it does not overflow."""
    source, axes, keep = source_of(o)
    x = _as_float(source)
    if not axes:
        return [converted(log(exp(x)), o.element())]
    greatest = finite_or_zero(reduced(Combine.MAX, x, axes))
    total = reduced(Combine.ADD, exp(binary(Scalars.sub, x, with_unit_axes(greatest, axes))), axes)
    return [result_of(o, binary(Scalars.add, log(total), greatest), axes, keep)]


def finite_or_zero(x: Node) -> Node:
    """0 for an infinity: subtracting it would give NaN, and exp needs no help there."""

    def function(s: Scalars, v: SSAValue, t: Element) -> SSAValue:
        infinite = s.compare("eq", s.abs(v, t), s.constant(float("inf"), t), t)
        return s.select(infinite, s.constant(0.0, t), v)

    return mapped(function, x, 3)


def arg_extremum(combine: Combine) -> Rule:
    """ArgMax and ArgMin: the first (or last) index with the extremum; a NaN counts as the extremum.

    Two passes: the extremum, which propagates NaN, then the least (or greatest) index of an element equal to it.
    """

    def rule(o: Operands) -> list[Node]:
        x = widened(o[0])
        if not x.dims:
            return [size_value(ZERO, I64)]
        axis, last = axis_of(o.attr("axis"), len(x.dims)), bool(o.attr("select_last_index"))
        index = extremum_index(x, axis, combine, last)
        return [with_unit_axes(index, [axis]) if o.attr("keepdims") else index]

    return rule


def extremum_index(x: Node, axis: int, combine: Combine, last: bool = False) -> Node:
    """The index (i64) along an axis, which is gone, of the extremum."""
    best, t = reduced_keeping(combine, x, [axis]), x.element
    none = -1 if last else (1 << 31) - 1

    def formula(body: Body, index: tuple[Dim, ...]) -> SSAValue:
        s = body.scalars
        value, extremum = body.read(x, index), body.read(best, (*index[:axis], ZERO, *index[axis + 1 :]))
        found = s.compare("eq", value, extremum, t)
        if t.is_float:
            found = s.either(found, s.both(s.is_nan(value, t), s.is_nan(extremum, t)))
        at = s.convert("index_cast", body.index(index[axis]), I64)
        return s.select(found, at, s.constant(none, I64))

    candidates = Computed(x.dims, I64, ((x, Use.ALIGNED), (best, Use.MANY)), formula, cost=3)
    return reduced(Combine.MAX if last else Combine.MIN, candidates, [axis])


# Softmax


def softmax(o: Operands) -> list[Node]:
    """exp(x - max) times 1 / its sum"""
    x = widened(o[0])
    if not x.dims:
        return [converted(mapped(lambda s, v, t: s.constant(1.0, t), x), o.element())]
    axes = [axis_of(o.attr("axis"), len(x.dims))]
    if o[0].element is BF16:
        return [softmax_in_steps(x, axes[0])]
    e = exp(below_greatest(x, axes))
    inverse = reciprocal(reduced_keeping(Combine.ADD, e, axes))
    return [converted(binary(Scalars.mul, e, inverse), o.element())]


def softmax_in_steps(x: Node, axis: int) -> Node:
    """A softmax of bf16 as the standard's function body has it: each step rounded, the additions of the sum too."""

    def rounded(y: Node) -> Node:
        return widened(converted(y, BF16))

    e = rounded(exp(rounded(below_greatest(x, [axis]))))
    total = rounded(reduced_keeping(Combine.ADD, summed_in_runs(e, axis), [axis]))
    return converted(quotient(e, total), BF16)


def summed_in_runs(x: Node, axis: int) -> Node:
    """Up to `RUN` elements of an axis of f32 added one by one, each sum rounded to bf16.

    The elements of a run are as far apart as there are runs, so that runs are neighbours in a vector. Longer sums than
    that are not rounded at each addition: from 256 on a number in bf16 does not grow any more by 1.
    """
    count = x.dims[axis]
    runs = (count + (RUN - 1)) // RUN

    def formula(body: Body, index: Index) -> SSAValue:
        s = body.scalars

        def term(step: int) -> SSAValue:
            place = index[axis] + runs * step
            there = s.compare("lt", body.index(place), body.index(count), I64)
            at = (*index[:axis], place, *index[axis + 1 :])
            return body.guarded([there] if step else [], lambda: body.read(x, at), lambda: s.constant(0.0, F32))

        total = term(0)
        for step in range(1, RUN if not count.is_const else min(RUN, count.value)):
            total = s.widen(s.narrow(s.add(total, term(step), F32), BF16), BF16)
        return total

    dims = (*x.dims[:axis], runs, *x.dims[axis + 1 :])
    return Computed(dims, F32, ((x, Use.MANY),), formula, cost=4 * RUN)


def below_greatest(x: Node, axes: Sequence[int]) -> Node:
    """x less the greatest number along axes: NaN stays NaN, and need not be the greatest."""
    return binary(Scalars.sub, x, reduced_keeping(Combine.MAX_OF_NUMBERS, x, axes))


def reciprocal(x: Node) -> Node:
    """1 / x: dividing a row by one number takes as many divisions as the row has elements, this takes one."""
    return mapped(lambda s, v, t: s.divf(s.constant(1.0, t), v), x, 8)


def log_softmax(o: Operands) -> list[Node]:
    """(x - max) - log(sum(exp(x - max)))"""
    x = widened(o[0])
    if not x.dims:
        return [converted(mapped(lambda s, v, t: s.constant(0.0, t), x), o.element())]
    axes = [axis_of(o.attr("axis"), len(x.dims))]
    shifted = below_greatest(x, axes)
    total = reduced(Combine.ADD, exp(shifted), axes)
    return [converted(binary(Scalars.sub, shifted, with_unit_axes(log(total), axes)), o.element())]


def hardmax(o: Operands) -> list[Node]:
    """1 at the first maximum along the axis, else 0"""
    x = widened(o[0])
    axis = axis_of(o.attr("axis"), len(x.dims))
    best = extremum_index(x, axis, Combine.MAX)
    t = x.element

    def formula(body: Body, index: tuple[Dim, ...]) -> SSAValue:
        s = body.scalars
        at = s.convert("index_cast", body.index(index[axis]), I64)
        here = s.compare("eq", at, body.read(best, (*index[:axis], *index[axis + 1 :])), I64)
        return s.select(here, s.constant(1.0, t), s.constant(0.0, t))

    return [converted(Computed(x.dims, t, ((best, Use.MANY),), formula, cost=3), o.element())]


# Normalizations


def inverse_deviation(variance: Node, epsilon: float) -> Node:
    """1 / sqrt(variance + epsilon)"""

    def function(s: Scalars, v: SSAValue, t: Element) -> SSAValue:
        root = s.unary(math.SqrtOp, s.add(v, s.constant(epsilon, t), t))
        return s.divf(s.constant(1.0, t), root)

    return mapped(function, variance, 9)


def centered(x: Node, axes: Sequence[int]) -> tuple[Node, Node, Node]:
    """(x - mean, mean, variance) over axes, the latter two with size 1 there; in two passes."""
    mean = mean_of(x, axes)
    difference = binary(Scalars.sub, x, mean)
    return difference, mean, mean_of(square(difference), axes)


def layer_normalization(o: Operands) -> list[Node | None]:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over the axes from `axis` on; mean and 1 / deviation."""
    x, scale, bias = _stashed(o), o[1], o.get(2)
    axes = list(range(axis_of(o.attr("axis"), len(x.dims)), len(x.dims)))
    difference, mean, variance = centered(x, axes)
    inverse = inverse_deviation(variance, o.attr("epsilon"))
    normal = converted(binary(Scalars.mul, difference, inverse), o.element())
    y = scaled(normal, scale, bias, o.element())
    return [y, *(converted(v, o.element(k)) if o.has_result(k) else None for k, v in ((1, mean), (2, inverse)))]


def _stashed(o: Operands) -> Node:
    """The operand in the type of the first stage: `stash_type`, f32 unless the model asks for another."""
    stash = element_of(ELEMENT_TYPES[o.attr("stash_type")])
    return widened(converted(o[0], stash))


def scaled(normal: Node, scale: Node, bias: Node | None, element: Element) -> Node:
    """normal * scale + bias in the result's type, rounded after each step as the standard's function body does."""
    t = element.compute
    product = pointwise(
        lambda s, a, b: s.mul(a, convert(s, b, scale.element, t), t), (normal, scale), normal.dims, element
    )
    if bias is None:
        return product
    return pointwise(lambda s, a, b: s.add(a, convert(s, b, bias.element, t), t), (product, bias), normal.dims, element)


def rms_normalization(o: Operands) -> list[Node]:
    """x / sqrt(mean(x * x) + epsilon) * scale over the axes from `axis` on"""
    x = _stashed(o)
    axes = list(range(axis_of(o.attr("axis"), len(x.dims)), len(x.dims)))
    inverse = inverse_deviation(mean_of(square(x), axes), o.attr("epsilon"))
    normal = converted(binary(Scalars.mul, x, inverse), o[0].element)
    return [scaled(converted(normal, o.element()), o[1], None, o.element())]


def per_channel(parameter: Node, rank: int) -> Node:
    """A 1-d parameter along axis 1 of a tensor of that rank."""
    if rank < 2:
        return parameter
    return reshaped(parameter, (parameter.dims[0], *([ONE] * (rank - 2))))


def instance_normalization(o: Operands) -> list[Node]:
    x = widened(o[0])
    rank = len(x.dims)
    axes = list(range(2, rank))
    difference, _, variance = centered(x, axes)
    normal = binary(Scalars.mul, difference, inverse_deviation(variance, o.attr("epsilon")))
    return [affine(normal, per_channel(o[1], rank), per_channel(o[2], rank), o.element())]


def affine(normal: Node, scale: Node, bias: Node, element: Element) -> Node:
    """normal * scale + bias in normal's compute element, rounded once."""
    t = normal.element
    return pointwise(
        lambda s, v, a, b: s.add(s.mul(v, convert(s, a, scale.element, t), t), convert(s, b, bias.element, t), t),
        (normal, scale, bias),
        normal.dims,
        element,
        2,
    )


def group_normalization(o: Operands) -> list[Node]:
    """Over groups of channels with all spatial axes, then scale and bias by channel."""
    x = _stashed(o)
    n, c, *spatial = x.dims
    groups = as_dim(o.attr("num_groups"))
    apart = reshaped(x, (n, groups, c // groups, *spatial))
    axes = list(range(2, len(apart.dims)))
    difference, _, variance = centered(apart, axes)
    normal = binary(Scalars.mul, difference, inverse_deviation(variance, o.attr("epsilon")))
    together = converted(reshaped(normal, x.dims), o.element())
    rank = len(x.dims)
    return [scaled(together, per_channel(o[1], rank), per_channel(o[2], rank), o.element())]


def batch_normalization(o: Operands) -> list[Node | None]:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, with given statistics or, in training, the batch's."""
    x = widened(o[0])
    t = x.element
    rank = len(x.dims)
    scale, bias, mean, variance = (per_channel(converted(o[k], t), rank) for k in range(1, 5))
    running: list[Node | None] = []
    if o.attr("training_mode"):
        axes = [a for a in range(rank) if a != 1]
        _, *batch = centered(x, axes)
        pairs = zip((1, 2), (mean, variance), batch)
        running = [_running(o, k, old, new) if o.has_result(k) else None for k, old, new in pairs]
        mean, variance = batch
    inverse = inverse_deviation(variance, o.attr("epsilon"))
    factor = binary(Scalars.mul, scale, inverse)
    return [affine(binary(Scalars.sub, x, mean), factor, bias, o.element()), *running]


def _running(o: Operands, result: int, old: Node, new: Node) -> Node:
    """The running statistic with that of the batch in it, by channel."""
    share, t = o.attr("momentum"), old.element

    def function(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
        return s.add(s.mul(a, s.constant(share, t), t), s.mul(b, s.constant(1 - share, t), t), t)

    channels = o[3].dims
    kept = pointwise(function, (reshaped(old, channels), reshaped(new, channels)), channels, t, 3)
    return converted(kept, o.element(result))


def mean_variance_normalization(o: Operands) -> list[Node]:
    """(x - mean) / (deviation + 1e-9), the standard's constant"""
    x = widened(o[0])
    axes = sorted(axis_of(a, len(x.dims)) for a in o.attr("axes"))
    difference, _, variance = centered(x, axes)
    deviation = mapped(lambda s, v, t: s.add(s.unary(math.SqrtOp, v), s.constant(1e-9, t), t), variance, 5)
    return [converted(quotient(difference, deviation), o.element())]


def lp_normalization(o: Operands) -> list[Node]:
    """x over its norm along an axis; 0 where the norm is 0"""
    x = widened(o[0])
    axes = [axis_of(o.attr("axis"), len(x.dims))]
    if o.attr("p") == 1:
        norm = reduced(Combine.ADD, absolute(x), axes)
    else:
        norm = square_root(reduced(Combine.ADD, square(x), axes))
    t = x.element

    def unless_zero(s: Scalars, v: SSAValue, by: SSAValue) -> SSAValue:
        zero = s.constant(0.0, t)
        return s.select(s.compare("eq", by, zero, t), zero, s.divf(v, by))

    return [pointwise(unless_zero, (x, with_unit_axes(norm, axes)), x.dims, o.element(), 6)]


def global_pool(kind: str) -> Rule:
    """GlobalAveragePool, GlobalMaxPool and GlobalLpPool: over all axes behind the channels."""

    def rule(o: Operands) -> list[Node]:
        x = widened(o[0])
        axes = list(range(2, len(x.dims)))
        if kind == "average":
            value = mean_of(x, axes)
        elif kind == "max":
            value = reduced_keeping(Combine.MAX, x, axes)
        else:
            value = with_unit_axes(lp_norm(x, axes, o.attr("p")), axes)
        return [converted(value, o.element())]

    return rule


def lp_norm(x: Node, axes: Sequence[int], p: int) -> Node:
    """(sum of |x| ** p) ** (1 / p) over axes, which are gone."""
    if p == 1:
        return reduced(Combine.ADD, absolute(x), axes)
    if p == 2:
        return square_root(reduced(Combine.ADD, square(x), axes))
    power = mapped(lambda s, v, t: s.float_binary(math.PowFOp, s.abs(v, t), s.constant(float(p), t)), x, 20)
    total = reduced(Combine.ADD, power, axes)
    return mapped(lambda s, v, t: s.float_binary(math.PowFOp, v, s.constant(1.0 / p, t)), total, 20)


REDUCTIONS: dict[type[onnx.OnnxOp], Rule] = {
    onnx.ArgMaxOp: arg_extremum(Combine.MAX),
    onnx.ArgMinOp: arg_extremum(Combine.MIN),
    onnx.BatchNormalizationOp: batch_normalization,
    onnx.GlobalAveragePoolOp: global_pool("average"),
    onnx.GlobalLpPoolOp: global_pool("lp"),
    onnx.GlobalMaxPoolOp: global_pool("max"),
    onnx.GroupNormalizationOp: group_normalization,
    onnx.HardmaxOp: hardmax,
    onnx.InstanceNormalizationOp: instance_normalization,
    onnx.LayerNormalizationOp: layer_normalization,
    onnx.LogSoftmaxOp: log_softmax,
    onnx.LpNormalizationOp: lp_normalization,
    onnx.MeanVarianceNormalizationOp: mean_variance_normalization,
    onnx.RMSNormalizationOp: rms_normalization,
    onnx.ReduceL1Op: reduction(Combine.ADD, absolute, None),
    onnx.ReduceL2Op: reduction(Combine.ADD, square, square_root, _as_float),
    onnx.ReduceLogSumExpOp: reduce_log_sum_exp,
    onnx.ReduceLogSumOp: reduction(Combine.ADD, None, log, _as_float),
    onnx.ReduceMaxOp: reduction(Combine.MAX, None, None),
    onnx.ReduceMeanOp: reduce_mean,
    onnx.ReduceMinOp: reduction(Combine.MIN, None, None),
    onnx.ReduceProdOp: reduction(Combine.MUL, None, None),
    onnx.ReduceSumOp: reduction(Combine.ADD, None, None),
    onnx.ReduceSumSquareOp: reduction(Combine.ADD, square, None),
    onnx.SoftmaxOp: softmax,
}
