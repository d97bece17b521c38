"""Pointwise operators of arithmetic, comparison and logic, in any numeric type.

Where the standard leaves integers open they wrap, x / 0 and x % 0 are 0, and nothing traps.
"""

from __future__ import annotations

from xdsl.dialects import arith, math, scf
from xdsl.ir import Block, Operation, Region, SSAValue

from ...dialects import onnx
from .element_kinds import BOOL, F64, I64, Element
from .graph import Literal, Node, Scalar, pointwise
from .operators import Method, Operands, Rule
from .scalars import INDEX, Scalars


def folded(method: Method) -> Rule:
    """A variadic operator as a chain of one operation on two values."""

    def rule(o: Operands) -> list[Node]:
        inputs, t = o.all(), o.element().compute

        def function(s: Scalars, *values: SSAValue) -> SSAValue:
            total = values[0]
            for value in values[1:]:
                total = method(s, total, value, t)
            return total

        return [pointwise(function, inputs, o.dims(), o.element(), max(1, len(inputs) - 1))]

    return rule


def mean(o: Operands) -> list[Node]:
    inputs, t = o.all(), o.element().compute

    def function(s: Scalars, *values: SSAValue) -> SSAValue:
        total = values[0]
        for value in values[1:]:
            total = s.add(total, value, t)
        return s.divf(total, s.constant(len(values), t))

    return [pointwise(function, inputs, o.dims(), o.element(), len(inputs) + 3)]


def comparison(predicate: str) -> Rule:
    def rule(o: Operands) -> list[Node]:
        t = o[0].element.compute
        return [pointwise(lambda s, a, b: s.compare(predicate, a, b, t), o.all(), o.dims(), BOOL)]

    return rule


def bitwise(op: type[Operation]) -> Rule:
    """An operator on the bits of integers or bools."""

    def rule(o: Operands) -> list[Node]:
        return [pointwise(lambda s, a, b: s.int_binary(op, a, b), o.all(), o.dims(), o.element())]

    return rule


def inverted(o: Operands) -> list[Node]:
    t = o.element()
    return [pointwise(lambda s, x: s.xor(x, s.constant(-1, t)), o.all(), o.dims(), t)]


# Division


def safe_quotient(s: Scalars, a: SSAValue, b: SSAValue, t: Element, rest: bool = False) -> SSAValue:
    """a / b truncated toward zero, or the remainder with a's sign; 0 for b = 0, and b = -1 never overflows."""
    zero, one = s.constant(0, t), s.constant(1, t)
    if t.kind == "u":
        by_zero = s.compare("eq", b, zero, t)
        result = s.int_binary(arith.RemUIOp if rest else arith.DivUIOp, a, s.select(by_zero, one, b))
        return s.select(by_zero, zero, result)
    by_zero = s.compare("eq", b, zero, t)
    by_minus = s.compare("eq", b, s.constant(-1, t), t)
    divisor = s.select(s.either(by_zero, by_minus), one, b)
    if rest:  # a remainder by 1 is 0, which is right for -1 and for 0 too
        return s.int_binary(arith.RemSIOp, a, divisor)
    result = s.select(by_minus, s.neg(a, t), s.int_binary(arith.DivSIOp, a, divisor))
    return s.select(by_zero, zero, result)


def _divisor(node: Node) -> int | None:
    """The value of a divisor that is one constant other than 0 and -1."""
    if isinstance(node, Literal) and node.array.size == 1:
        value = int(node.array.reshape(()))
        return value if value not in (0, -1) else None
    return None


def divide(o: Operands) -> list[Node]:
    t = o.element().compute
    if t.is_float:
        return [pointwise(lambda s, a, b: s.divf(a, b), o.all(), o.dims(), o.element(), 4)]
    if _divisor(o[1]) is not None:
        op = arith.DivSIOp if t.kind == "i" else arith.DivUIOp
        return [pointwise(lambda s, a, b: s.int_binary(op, a, b), o.all(), o.dims(), t, 6)]
    return [pointwise(lambda s, a, b: safe_quotient(s, a, b, t), o.all(), o.dims(), t, 10)]


def modulo(o: Operands) -> list[Node]:
    t, c_sign = o.element().compute, bool(o.attr("fmod"))

    def of_floats(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
        rest = _float_rest(s, a, b, t)
        return rest if c_sign else _divisor_sign(s, rest, b, t)

    def of_integers(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
        rest = safe_quotient(s, a, b, t, rest=True)
        return rest if c_sign or t.kind == "u" else _divisor_sign(s, rest, b, t)

    return [pointwise(of_floats if t.is_float else of_integers, o.all(), o.dims(), o.element(), 12)]


def _divisor_sign(s: Scalars, rest: SSAValue, b: SSAValue, t: Element) -> SSAValue:
    """A remainder with the dividend's sign as one with the divisor's; of floats, a zero gets the divisor's sign too."""
    zero = s.constant(0, t)
    wrong = s.both(
        s.compare("ne", rest, zero, t),
        s.xor(s.compare("lt", rest, zero, t), s.compare("lt", b, zero, t)),
    )
    if not t.is_float:
        by_zero = s.compare("eq", b, zero, t)
        return s.select(by_zero, zero, s.select(wrong, s.add(rest, b, t), rest))
    moved = s.select(wrong, s.add(rest, b, t), rest)
    signed = s.copysign(moved, b)
    return s.select(s.compare("eq", rest, zero, t), signed, moved)


def _float_rest(s: Scalars, a: SSAValue, b: SSAValue, t: Element) -> SSAValue:
    """The exact remainder of floats with a's sign (C's fmod).

    In f64, by steps `r -= q * b` with q the quotient cut to 26 digits.  Such a difference is exact: it is below
    r * 2**-25 and a multiple of r * 2**-78.  A step takes 25 digits off the quotient, which has 277 at most for f32
    and 2098 for f64; there, where a quotient would not be finite, multiples of b * 2**1100 and b * 2**1000 go first.
    """
    wide = a.type != F64.ir
    x, y = (s.convert("extf", v, F64) if wide else v for v in (a, b))
    rest, by = s.abs(x, F64), s.abs(y, F64)
    if not wide:
        large = s.mul(by, s.constant(2.0**1000, F64), F64)
        for scaled, below in ((s.mul(large, s.constant(2.0**100, F64), F64), large), (large, by)):
            infinite = s.compare("eq", s.divf(rest, below), s.constant(float("inf"), F64), F64)
            rest = _cut_down(s, rest, s.select(infinite, scaled, below), 46)
    rest = _cut_down(s, rest, by, 12 if wide else 46)
    rest = s.select(s.compare("lt", rest, s.constant(0.0, F64), F64), s.add(rest, by, F64), rest)
    signed = s.copysign(rest, x)
    return s.convert("truncf", signed, t) if wide else signed


def _cut_down(s: Scalars, rest: SSAValue, by: SSAValue, steps: int) -> SSAValue:
    """`rest` less a whole multiple of `by`: above -by / 2 and below by, after enough steps."""
    block = Block(arg_types=[INDEX, F64.ir])
    inner = Scalars(block)
    left = block.args[1]
    bits = inner.convert("bitcast", inner.divf(left, by), I64)
    high = inner.convert("bitcast", inner.both(bits, inner.constant(-(1 << 27), I64)), F64)
    quotient = inner.unary(math.TruncOp, high)
    less = inner.fma(inner.neg(quotient, F64), by, left)
    # an infinite divisor leaves the value as it is: 0 * inf would be NaN
    none = inner.compare("eq", quotient, inner.constant(0.0, F64), F64)
    less = inner.select(none, left, less)
    inner.finish()
    block.add_op(scf.YieldOp.create(operands=[less]))
    loop = scf.ForOp.create(
        operands=[s.constant(0, INDEX), s.constant(steps, INDEX), s.constant(1, INDEX), rest],
        result_types=[F64.ir],
        regions=[Region(block)],
    )
    return s.emit(loop)


# Powers


def power(o: Operands) -> list[Node]:
    base, exponent = o[0], o[1]
    t, e = base.element.compute, exponent.element.compute
    constant = float(exponent.array.reshape(())) if isinstance(exponent, Literal) and exponent.array.size == 1 else None
    if t.is_float:
        known = None if constant is None else _known_power(constant, t)
        if known is not None:
            function, cost = known
            return [pointwise(lambda s, x, _: function(s, x), (base, exponent), o.dims(), o.element(), cost)]
        return [pointwise(lambda s, x, y: _float_power(s, x, y, t, e), (base, exponent), o.dims(), o.element(), 20)]
    if e.is_float:
        wide = F64
        return [
            pointwise(
                lambda s, x, y: _to_integer(
                    s, s.float_binary(math.PowFOp, _to_float(s, x, t, wide), _to_float(s, y, e, wide)), t
                ),
                (base, exponent), o.dims(), o.element(), 30,
            )
        ]  # fmt: skip
    if constant is not None and 0 <= constant <= 64:
        count = int(constant)
        return [pointwise(lambda s, x, _: _repeated(s, x, count, t), (base, exponent), o.dims(), t, 4)]
    return [pointwise(lambda s, x, y: _integer_power(s, x, y, t, e), (base, exponent), o.dims(), t, 100)]


def _known_power(exponent: float, t: Element) -> tuple[Scalar, float] | None:
    """Exponents with a formula that is at least as exact as the general one."""
    if exponent in (1.0, 2.0, 3.0):
        return (lambda s, x: _repeated(s, x, int(exponent), t)), exponent
    if exponent == 0.5:  # pow(-0.0, 0.5) is 0.0 and pow(-inf, 0.5) is inf
        return (
            lambda s, x: s.select(
                s.compare("eq", x, s.constant(float("-inf"), t), t),
                s.constant(float("inf"), t),
                s.unary(math.SqrtOp, s.add(x, s.constant(0.0, t), t)),
            )
        ), 6
    if exponent == -1.0:
        return (lambda s, x: s.divf(s.constant(1.0, t), x)), 4
    return None


def _repeated(s: Scalars, x: SSAValue, count: int, t: Element) -> SSAValue:
    """x multiplied by itself, by squaring."""
    result: SSAValue | None = None
    while True:
        if count & 1:
            result = x if result is None else s.mul(result, x, t)
        count >>= 1
        if not count:
            return s.constant(1, t) if result is None else result
        x = s.mul(x, x, t)


def _float_power(s: Scalars, x: SSAValue, y: SSAValue, t: Element, e: Element) -> SSAValue:
    if e is F64 and t is not F64:
        wide = s.float_binary(math.PowFOp, _to_float(s, x, t, F64), y)
        return s.convert("truncf", wide, t)
    return s.float_binary(math.PowFOp, x, _to_float(s, y, e, t))


def _to_float(s: Scalars, x: SSAValue, t: Element, to: Element) -> SSAValue:
    if t.is_float:
        if t.bits == to.bits:
            return x
        return s.convert("extf" if t.bits < to.bits else "truncf", x, to)
    return s.convert("sitofp" if t.kind == "i" else "uitofp", x, to)


def _to_integer(s: Scalars, x: SSAValue, to: Element) -> SSAValue:
    return s.convert("fptosi" if to.kind == "i" else "fptoui", x, to)


def _integer_power(s: Scalars, x: SSAValue, y: SSAValue, t: Element, e: Element) -> SSAValue:
    """By squaring, wrapping; a negative exponent truncates 1 / x ** -y toward zero (and of 0 gives 0)."""
    one, zero = s.constant(1, t), s.constant(0, t)
    none = s.constant(0, e)
    negative = s.compare("lt", y, none, e) if e.kind == "i" else None
    exponent = y if negative is None else s.select(negative, none, y)
    block = Block(arg_types=[INDEX, t.ir, t.ir, e.ir])
    inner = Scalars(block)
    _, result, base, left = block.args
    odd = inner.compare("ne", inner.both(left, inner.constant(1, e)), inner.constant(0, e), e)
    stepped = inner.select(odd, inner.mul(result, base, t), result)
    squared = inner.mul(base, base, t)
    halved = inner.int_binary(arith.ShRUIOp, left, inner.constant(1, e))
    inner.finish()
    block.add_op(scf.YieldOp.create(operands=[stepped, squared, halved]))
    loop = scf.ForOp.create(
        operands=[s.constant(0, INDEX), s.constant(e.bits, INDEX), s.constant(1, INDEX), one, x, exponent],
        result_types=[t.ir, t.ir, e.ir],
        regions=[Region(block)],
    )
    value = s.emit(loop)
    if negative is None:
        return value
    inverse = s.select(s.compare("eq", x, one, t), one, zero)
    if t.kind == "i":
        is_odd = s.compare("ne", s.both(y, s.constant(1, e)), none, e)
        sign = s.select(is_odd, s.constant(-1, t), one)
        inverse = s.select(s.compare("eq", x, s.constant(-1, t), t), sign, inverse)
    return s.select(negative, inverse, value)


def bit_shift(o: Operands) -> list[Node]:
    """Shifts; by the width or more they leave 0."""
    t, left = o.element(), o.attr("direction") == "LEFT"

    def function(s: Scalars, x: SSAValue, y: SSAValue) -> SSAValue:
        width = s.constant(t.bits, t)
        zero = s.constant(0, t)
        valid = s.compare("lt", y, width, t)
        if t.kind == "i":
            valid = s.both(valid, s.compare("ge", y, zero, t))
        op = arith.ShLIOp if left else arith.ShRUIOp if t.kind == "u" else arith.ShRSIOp
        shifted = s.int_binary(op, x, s.select(valid, y, zero))
        fill = zero
        if not left and t.kind == "i":
            fill = s.select(s.compare("lt", x, zero, t), s.constant(-1, t), zero)
        return s.select(valid, shifted, fill)

    return [pointwise(function, o.all(), o.dims(), t, 5)]


# Choice


def where(o: Operands) -> list[Node]:
    return [pointwise(lambda s, c, a, b: s.select(c, a, b), o.all(), o.dims(), o.element())]


def clip(o: Operands) -> list[Node]:
    """min(high, max(low, x)): `high` wins where it is the lower one; of zeros of both signs x stays."""
    t = o.element().compute
    x, low, high = o[0], o.get(1), o.get(2)
    inputs = [n for n in (x, low, high) if n is not None]

    def function(s: Scalars, x: SSAValue, *bounds: SSAValue) -> SSAValue:
        rest = list(bounds)
        if low is not None:
            x = s.max(rest.pop(0), x, t)
        if high is not None:
            x = s.min(rest.pop(0), x, t)
        return x

    return [pointwise(function, inputs, o.dims(), o.element(), 2)]


ARITHMETIC: dict[type[onnx.OnnxOp], Rule] = {
    onnx.AddOp: folded(Scalars.add),
    onnx.AndOp: bitwise(arith.AndIOp),
    onnx.BitShiftOp: bit_shift,
    onnx.BitwiseAndOp: bitwise(arith.AndIOp),
    onnx.BitwiseNotOp: inverted,
    onnx.BitwiseOrOp: bitwise(arith.OrIOp),
    onnx.BitwiseXorOp: bitwise(arith.XOrIOp),
    onnx.ClipOp: clip,
    onnx.DivOp: divide,
    onnx.EqualOp: comparison("eq"),
    onnx.GreaterOp: comparison("gt"),
    onnx.GreaterOrEqualOp: comparison("ge"),
    onnx.LessOp: comparison("lt"),
    onnx.LessOrEqualOp: comparison("le"),
    onnx.MaxOp: folded(Scalars.max),
    onnx.MeanOp: mean,
    onnx.MinOp: folded(Scalars.min),
    onnx.ModOp: modulo,
    onnx.MulOp: folded(Scalars.mul),
    onnx.NotOp: inverted,
    onnx.OrOp: bitwise(arith.OrIOp),
    onnx.PowOp: power,
    onnx.SubOp: folded(Scalars.sub),
    onnx.SumOp: folded(Scalars.add),
    onnx.WhereOp: where,
    onnx.XorOp: bitwise(arith.XOrIOp),
}
