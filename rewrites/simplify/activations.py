"""Activation functions recognized from the arithmetic that exporters write for them."""

from __future__ import annotations

from collections.abc import Iterator
from math import pi, sqrt

from xdsl.ir import Operation, SSAValue

from ...dialects import onnx
from ..driver import PatternRewriter
from .polynomials import MAX_DEPTH, is_polynomial, polynomial_of, product_of
from .rule import Rule, is_float, only_producer, producer, scalar_of

TOLERANCE = 1e-3
"""Relative: exporters write some constants with four digits."""


class RecognizeActivation(Rule):
    """x * g(x), where g is one of `GATES`  ->  that activation of x

    The factors may stand in any order, with numbers among them, and x may be a product itself.  Declines where the
    model's opset has no such operator.
    """

    root = (onnx.MulOp, onnx.DivOp)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not is_float(op.results[0]):
            return
        for x, gate, number in gated(op):
            for recognize in GATES:
                found = recognize(x, gate, number)
                if found is not None and rewriter.may_make(type(found)):
                    rewriter.replace(op, found)
                    return


def gated(op: Operation) -> Iterator[tuple[SSAValue, SSAValue, float]]:
    """The ways to read a product as a value of its type, times one factor, times a number."""
    product = product_of(op.results[0])
    if not any(producer(factor, *GATE_OPS) is not None for factor in product.factors):
        return
    for x in dict.fromkeys(values_in(op)):
        part = product_of(x)
        if x.type != op.results[0].type or not part.number:
            continue
        rest = list(product.factors)
        for factor in part.factors:
            if factor not in rest:
                break
            rest.remove(factor)
        else:
            if len(rest) == 1:
                yield x, rest[0], product.number / part.number


GATE_OPS = (onnx.AddOp, onnx.SigmoidOp, onnx.ClipOp, onnx.HardSigmoidOp, onnx.TanhOp)


def values_in(op: Operation, depth: int = MAX_DEPTH) -> Iterator[SSAValue]:
    """The operands of a product, each behind what it is a product of."""
    for operand in op.operands:
        inner = producer(operand, onnx.MulOp, onnx.DivOp, onnx.NegOp) if depth else None
        if inner is not None:
            yield from values_in(inner, depth - 1)
        yield operand


def near(a: float, b: float) -> bool:
    return abs(a - b) <= TOLERANCE * abs(b)


def gelu(x: SSAValue, gate: SSAValue, number: float) -> onnx.OnnxOp | None:
    """0.5 x (1 + erf(x / sqrt(2))), or 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    total = producer(gate, onnx.AddOp)
    if total is None:
        return None
    for inner, one in (total.operands[:2], total.operands[1::-1]):
        plain = scalar_of(one)
        if plain is None or not near(plain * number, 0.5):
            continue
        # the sum may be (1 + erf) or, with the half inside, (0.5 + 0.5 erf)
        part = product_of(inner)
        if len(part.factors) != 1 or not near(part.number * number, 0.5):
            continue
        curve = producer(part.factors[0], onnx.ErfOp, onnx.TanhOp)
        if curve is None:
            continue
        root = sqrt(2 / pi)
        exact = isinstance(curve, onnx.ErfOp)
        wanted = {1: sqrt(0.5)} if exact else {1: root, 3: root * 0.044715}
        if is_polynomial(curve.operands[0], x, wanted, TOLERANCE):
            return onnx.GeluOp.make([x], {} if exact else {"approximate": "tanh"}, [x.type])
    return None


def swish(x: SSAValue, gate: SSAValue, number: float) -> onnx.OnnxOp | None:
    """x sigmoid(alpha x)."""
    sigmoid = producer(gate, onnx.SigmoidOp)
    inner = polynomial_of(sigmoid.operands[0], x) if sigmoid is not None else None
    if number != 1 or inner is None or set(inner) != {1}:
        return None
    return onnx.SwishOp.make([x], {} if inner[1] == 1 else {"alpha": inner[1]}, [x.type])


def hard_swish(x: SSAValue, gate: SSAValue, number: float) -> onnx.OnnxOp | None:
    """x min(max(x + 3, 0), 6) / 6."""
    hard = producer(gate, onnx.HardSigmoidOp)
    if hard is not None:
        slope, middle = onnx.attr(hard, "alpha"), onnx.attr(hard, "beta")
        same = hard.operands[0] is x and number == 1 and near(slope, 1 / 6) and middle == 0.5
        return onnx.HardSwishOp.make([x], {}, [x.type]) if same else None
    if clipped_line(gate, x) and near(number, 1 / 6):
        return onnx.HardSwishOp.make([x], {}, [x.type])
    return None


def clipped_line(value: SSAValue, x: SSAValue) -> bool:
    """Whether a value is min(max(x + 3, 0), 6)."""
    clip = producer(value, onnx.ClipOp)
    if clip is None or scalar_of(clip.operand_at(1)) != 0 or scalar_of(clip.operand_at(2)) != 6:
        return False
    return is_polynomial(clip.operands[0], x, {0: 3.0, 1: 1.0})


def mish(x: SSAValue, gate: SSAValue, number: float) -> onnx.OnnxOp | None:
    """x tanh(softplus(x))."""
    tanh = producer(gate, onnx.TanhOp)
    softplus = producer(tanh.operands[0], onnx.SoftplusOp) if tanh is not None else None
    if softplus is None or softplus.operands[0] is not x or number != 1:
        return None
    return onnx.MishOp.make([x], {}, [x.type])


GATES = (gelu, swish, hard_swish, mish)


class RecognizeHardSigmoid(Rule):
    """min(max(a x + b, 0), c) / c  ->  HardSigmoid {alpha = a / c, beta = b / c} (x)

    The number may also be a factor beside others: y * clip(x + 3, 0, 6) / 6  ->  y * HardSigmoid(x).  Declines when
    something else reads what stands between.
    """

    root = (onnx.DivOp, onnx.MulOp)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not is_float(op.results[0]):
            return
        product = product_of(op.results[0])
        ways: list[tuple[SSAValue | None, SSAValue, float]]
        ways = [(x, gate, number) for x, gate, number in gated(op) if x not in product.factors]  # of a product
        for at, gate in enumerate(product.factors):
            rest = [f for i, f in enumerate(product.factors) if i != at]
            if len(rest) < 2:
                ways.append((rest[0] if rest else None, gate, product.number))
        for x, gate, number in ways:
            if not all(o.has_one_use() or o is x or o in product.factors for o in factors_between(op)):
                continue
            made = hard_sigmoid(gate, number)
            if made is None or (x is None and made.results[0].type != op.results[0].type):
                continue
            if not rewriter.may_make(onnx.HardSigmoidOp):
                continue
            found = rewriter.insert(made)
            if x is not None:
                found = onnx.MulOp.make([x, found.results[0]], {}, [op.results[0].type])
            rewriter.replace(op, found)
            return


def factors_between(op: Operation) -> list[SSAValue]:
    """The operands that are taken apart further."""
    return [o for o in op.operands if producer(o, onnx.MulOp, onnx.DivOp) is not None]


def hard_sigmoid(value: SSAValue, number: float) -> onnx.OnnxOp | None:
    """The HardSigmoid that a clipped line, times a number, is."""
    clip = only_producer(value, onnx.ClipOp)
    if clip is None or scalar_of(clip.operand_at(1)) != 0:
        return None
    top = scalar_of(clip.operand_at(2))
    line = clip.operands[0]
    linear = only_producer(line, onnx.AddOp)
    if not top or top < 0 or linear is None or not near(number * top, 1.0):
        return None
    for x, offset in (linear.operands[:2], linear.operands[1::-1]):
        shift = scalar_of(offset)
        if shift is None or x.type != value.type:
            continue
        inner = product_of(x)
        slope, source = (inner.number, inner.factors[0]) if len(inner.factors) == 1 else (1.0, x)
        if source.type != value.type:
            continue
        return onnx.HardSigmoidOp.make([source], {"alpha": slope / top, "beta": shift / top}, [value.type])
    return None
