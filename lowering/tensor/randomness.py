"""Random numbers as formulas of an element's place: a hash of the place and a key, so that any order gives the same.

The generator is SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): the number at
place n is mix(key + (n + 1) * GAMMA).  The key is the mixed seed, or a number that no draw has had before.
`semantics/reference/randomness.py` has the same formulas.
"""

from __future__ import annotations

from math import pi

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, i64
from xdsl.ir import Attribute, SSAValue

from ...dialects import onnx
from ...dialects.dims import as_dim
from ...dialects.dims.expression import ZERO
from .body import Body
from .casts import convert, converted
from .element_kinds import BOOL, F32, F64, I32, I64, Element
from .graph import Combine, Computed, Dims, Literal, Node, Pointwise, Template, TemplateResult, Use, View, pointwise
from .index_space import Index
from .operators import Operands, Rule, reduced
from .scalars import Scalars

GAMMA = 0x9E3779B97F4A7C15
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mixed(s: Scalars, x: SSAValue) -> SSAValue:
    """The finalizer: every bit of the result depends on every bit of x."""
    for shift, factor in ((30, FIRST), (27, SECOND)):
        x = s.mul(folded(s, x, shift), s.constant(factor, I64), I64)
    return folded(s, x, 31)


def folded(s: Scalars, x: SSAValue, shift: int) -> SSAValue:
    return s.xor(x, shifted(s, x, shift))


def shifted(s: Scalars, x: SSAValue, by: int) -> SSAValue:
    return s.int_binary(arith.ShRUIOp, x, s.constant(by, I64))


def key_of(o: Operands) -> Node:
    """The key of an op's draws, a scalar of i64."""
    seed = onnx.attr(o.op, "seed")
    if seed is not None:
        return Literal((), I64, np.array(seed_bits(seed), np.uint64).view(np.int64))
    config: dict[str, Attribute] = {
        "operands": DenseArrayBase.from_list(i64, []),
        "results": DenseArrayBase.from_list(i64, [0]),
        "operand_types": ArrayAttr([]),
        "result_types": ArrayAttr([i64]),
    }
    template = Template((), I64, "entropy", (), config)
    template.results.append(TemplateResult((), I64, template))
    return template.results[0]


def seed_bits(seed: float) -> int:
    """The bits of a seed, whether the schema has it as a float or as an integer."""
    return int(np.float64(seed).view(np.uint64))


def numbers(o: Operands, dims: Dims) -> Node:
    """64 random bits for each place of these dims."""
    key = pointwise(mixed, (key_of(o),), (), I64, 8)
    return hashed(key, dims)


def hashed(key: Node, dims: Dims) -> Node:
    def formula(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        place = s.convert("index_cast", body.index(body.space.linearize(index, dims) + 1), I64)
        return mixed(s, s.add(body.read(key, ()), s.mul(place, s.constant(GAMMA, I64), I64), I64))

    return Computed(dims, I64, ((key, Use.MANY),), formula, cost=10)


def precision(element: Element) -> Element:
    """The type that draws are made in: f64 for f64, else f32."""
    return F64 if element is F64 else F32


def unit(bits: Node, t: Element) -> Node:
    """Numbers from 0 on and below 1: the upper 24 bits as f32, or 52 as f64."""
    if t is F32:
        return pointwise(_unit_f32, (bits,), bits.dims, F32, 4)
    return pointwise(_unit_f64, (bits,), bits.dims, F64, 4)


def _unit_f32(s: Scalars, bits: SSAValue) -> SSAValue:
    whole = s.convert("trunci", shifted(s, bits, 40), I32)
    return s.mul(s.convert("sitofp", whole, F32), s.constant(2.0**-24, F32), F32)


def _unit_f64(s: Scalars, bits: SSAValue) -> SSAValue:
    """As the digits of a number from 1 to 2."""
    one = s.constant(np.float64(1.0).view(np.int64).item(), I64)
    return s.sub(s.convert("bitcast", s.either(shifted(s, bits, 12), one), F64), s.constant(1.0, F64), F64)


def uniform(o: Operands, dims: Dims) -> Node:
    return unit(numbers(o, dims), precision(o.element()))


def normal(o: Operands, dims: Dims) -> Node:
    """By Box and Muller: sqrt(-2 ln p) cos(2 pi q), of numbers p above 0 and q from neighbouring places."""
    t = precision(o.element())
    pairs = numbers(o, (*dims, as_dim(2)))

    def half(which: int) -> Node:
        return View(dims, I64, pairs, lambda space, index: (*index, ZERO + which))

    def positive(s: Scalars, bits: SSAValue) -> SSAValue:
        if t is F64:
            return s.sub(s.constant(1.0, F64), _unit_f64(s, bits), F64)
        whole = s.convert("sitofp", s.convert("trunci", shifted(s, bits, 33), I32), F32)
        return s.mul(s.add(whole, s.constant(1.0, F32), F32), s.constant(2.0**-31, F32), F32)

    def function(s: Scalars, first: SSAValue, second: SSAValue) -> SSAValue:
        radius = s.unary(math.SqrtOp, s.mul(s.constant(-2.0, t), s.unary(math.LogOp, positive(s, first)), t))
        turn = _unit_f64(s, second) if t is F64 else _unit_f32(s, second)
        return s.mul(radius, s.unary(math.CosOp, s.mul(s.constant(2 * pi, t), turn, t)), t)

    return pointwise(function, (half(0), half(1)), dims, t, 40)


def scaled(o: Operands, x: Node, factor: float, offset: float) -> list[Node]:
    """x * factor + offset in the result's type."""
    t = x.element
    by, more = float(np.float32(factor)), float(np.float32(offset))
    if t is F64:
        by, more = factor, offset

    def function(s: Scalars, v: SSAValue) -> SSAValue:
        return s.add(s.mul(v, s.constant(by, t), t), s.constant(more, t), t)

    return [converted(pointwise(function, (x,), x.dims, t, 2), o.element())]


def random_uniform(o: Operands) -> list[Node]:
    low, high = o.attr("low"), o.attr("high")
    return scaled(o, uniform(o, o.dims()), high - low, low)


def random_normal(o: Operands) -> list[Node]:
    return scaled(o, normal(o, o.dims()), o.attr("scale"), o.attr("mean"))


def bernoulli(o: Operands) -> list[Node]:
    """1 with the probability that the operand has."""
    x = o[0]
    t = x.element.compute
    draw = unit(numbers(o, x.dims), t)
    drawn = pointwise(lambda s, u, p: s.compare("lt", u, p, t), (draw, x), x.dims, BOOL, 2)
    return [converted(drawn, o.element())]


def multinomial(o: Operands) -> list[Node]:
    """Classes by their unnormalized log-probabilities: how many running sums of these a draw is not below."""
    x, dims = converted(o[0], F64), o.dims()
    classes = x.dims[1]
    greatest = reduced(Combine.MAX, x, [1])
    spread = View(x.dims, F64, greatest, lambda space, index: index[:1], Use.MANY)
    weights = pointwise(lambda s, v, m: s.unary(math.ExpOp, s.sub(v, m, F64)), (x, spread), x.dims, F64, 20)
    sums = running_sums(weights, 1)
    draws = unit(numbers(o, dims), F64)
    wide = (*dims, classes)

    def passed(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        row, place = index[0], index[2]
        total = body.read(sums, (row, classes - 1))
        reached = s.compare("ge", s.mul(body.read(draws, index[:2]), total, F64), body.read(sums, (row, place)), F64)
        counts = s.both(reached, s.compare("lt", body.index(place), body.index(classes - 1), I64))
        return convert(s, counts, BOOL, I64)

    terms = Computed(wide, I64, ((sums, Use.MANY), (draws, Use.MANY)), passed, cost=5)
    return [converted(reduced(Combine.ADD, terms, [2]), o.element())]


def running_sums(x: Node, axis: int) -> Node:
    """The sums up to each element along an axis, one after the other."""
    place = Literal((), I64, np.array(axis, np.int64))
    config: dict[str, Attribute] = {
        "operands": DenseArrayBase.from_list(i64, [0, 1]),
        "results": DenseArrayBase.from_list(i64, [0]),
        "operand_types": ArrayAttr([x.element.ir, i64]),
        "result_types": ArrayAttr([x.element.ir]),
    }
    template = Template(x.dims, x.element, "cumsum", (x, place), config)
    template.results.append(TemplateResult(x.dims, x.element, template))
    return template.results[0]


def dropped(o: Operands) -> list[Node]:
    """Dropout in training mode: x / (1 - ratio) where a draw is not below the ratio, else 0, and the mask of these.

    Where the mode is data, all elements are kept as they are outside of training.
    """
    x, ratio, training = o[0], o.get(1), o[2]
    t, dims = x.element.compute, x.dims
    given = _scalar(converted(ratio, t)) if ratio is not None else pointwise(lambda s: s.constant(0.5, t), (), (), t, 0)
    active, message = _scalar(training), o.problem("'ratio' must be in [0, 1)")

    def dropping(body: Body, index: Index) -> SSAValue:
        s, zero, one = body.scalars, body.scalars.constant(0.0, t), body.scalars.constant(1.0, t)
        r = s.select(body.read(active, ()), body.read(given, ()), zero)
        valid = s.both(s.compare("ge", r, zero, t), s.compare("lt", r, one, t))
        s.check(valid, "value", message, [])
        return r

    share = Computed((), t, ((active, Use.ONCE), (given, Use.ONCE)), dropping, cost=2)
    draw = unit(numbers(o, dims), t)
    kept = pointwise(lambda s, u, r: s.compare("ge", u, r, t), (draw, share), dims, BOOL, 2)

    def function(s: Scalars, v: SSAValue, keep: SSAValue, r: SSAValue) -> SSAValue:
        return s.select(keep, s.divf(v, s.sub(s.constant(1.0, t), r, t)), s.constant(0.0, t))

    y = Pointwise(dims, x.element, (x, kept, share), function, cost=6)
    return [y, kept] if o.has_result(1) else [y]


def _scalar(x: Node) -> Node:
    """The one element of a node as a node of rank 0."""
    return View((), x.element, x, lambda space, index: tuple(ZERO for _ in x.dims), Use.MANY)


RANDOMNESS: dict[type[onnx.OnnxOp], Rule] = {
    onnx.BernoulliOp: bernoulli,
    onnx.MultinomialOp: multinomial,
    onnx.RandomNormalLikeOp: random_normal,
    onnx.RandomNormalOp: random_normal,
    onnx.RandomUniformLikeOp: random_uniform,
    onnx.RandomUniformOp: random_uniform,
}
