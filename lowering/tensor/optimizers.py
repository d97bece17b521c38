"""The optimizers of ai.onnx.preview.training: pointwise formulas of a tensor, its gradient and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import math
from xdsl.ir import SSAValue

from ...dialects import onnx
from .casts import convert, converted
from .element_kinds import I64, Element
from .graph import Node, pointwise, widened
from .movement import reshaped
from .operators import Operands, Rule
from .scalars import Scalars

Step = Callable[[Operands, Node, Sequence[Node]], Sequence[Node]]
"""(op, learning rate, [X, G, ...] of one tensor) -> its new values, in the compute type."""


def optimizer(kinds: int, step: Step, rate: Callable[[Operands, Element], Node]) -> Rule:
    """Operands are the rate, the count of updates, all X, all G, and so on; results are listed by kind."""

    def rule(o: Operands) -> list[Node]:
        tensors = o.all()[2:]
        each = len(tensors) // kinds
        made: list[Sequence[Node]] = []
        for k in range(each):
            group = [widened(tensors[kind * each + k]) for kind in range(kinds)]
            new = step(o, rate(o, group[0].element), group)
            made.append([converted(n, tensors[k].element) for n in new])
        return [new[kind] for kind in range(len(made[0])) for new in made]

    return rule


class Formula:
    """Arithmetic on values and numbers of one element."""

    def __init__(self, s: Scalars, t: Element) -> None:
        self.s, self.t = s, t

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.s.add(a, b, self.t)

    def times(self, factor: float, x: SSAValue) -> SSAValue:
        return self.s.mul(self.s.constant(factor, self.t), x, self.t)

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.s.mul(a, b, self.t)

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.s.sub(a, b, self.t)

    def over_root(self, x: SSAValue, squares: SSAValue, epsilon: float) -> SSAValue:
        """x / (sqrt(squares) + epsilon)"""
        s = self.s
        return s.divf(x, s.add(s.unary(math.SqrtOp, squares), s.constant(epsilon, self.t), self.t))


def formula(inputs: Sequence[Node], function: Callable[..., SSAValue], cost: float) -> Node:
    """A formula `function(f, *values)` of nodes of one compute element."""
    t = inputs[0].element
    return pointwise(lambda s, *values: function(Formula(s, t), *values), inputs, inputs[0].dims, t, cost)


def regularized(o: Operands, x: Node, g: Node) -> Node:
    """norm_coefficient * x + g"""
    norm = o.attr("norm_coefficient")
    return formula((x, g), lambda f, a, b: f.add(f.times(norm, a), b), 2)


def adagrad(o: Operands, rate: Node, tensors: Sequence[Node]) -> Sequence[Node]:
    x, g, h = tensors
    gradient, epsilon = regularized(o, x, g), o.attr("epsilon")
    squares = formula((h, gradient), lambda f, a, b: f.add(a, f.mul(b, b)), 2)
    moved = formula(
        (x, gradient, squares, rate), lambda f, a, b, q, r: f.sub(a, f.over_root(f.mul(r, b), q, epsilon)), 12
    )
    return [moved, squares]


def adam(o: Operands, rate: Node, tensors: Sequence[Node]) -> Sequence[Node]:
    x, g, v, h = tensors
    alpha, beta, epsilon, post = (o.attr(n) for n in ("alpha", "beta", "epsilon", "norm_coefficient_post"))
    gradient = regularized(o, x, g)
    momentum = formula((v, gradient), lambda f, a, b: f.add(f.times(alpha, a), f.times(1 - alpha, b)), 3)
    squares = formula((h, gradient), lambda f, a, b: f.add(f.times(beta, a), f.times(1 - beta, f.mul(b, b))), 4)
    moved = formula(
        (x, momentum, squares, rate),
        lambda f, a, m, q, r: f.times(1 - post, f.sub(a, f.over_root(f.mul(r, m), q, epsilon))),
        13,
    )
    return [moved, momentum, squares]


def momentum(o: Operands, rate: Node, tensors: Sequence[Node]) -> Sequence[Node]:
    x, g, v = tensors
    alpha, beta, mode = o.attr("alpha"), o.attr("beta"), o.attr("mode")
    gradient, count = regularized(o, x, g), reshaped(o[1], ())

    def velocity_of(f: Formula, a: SSAValue, b: SSAValue, updates: SSAValue) -> SSAValue:
        s = f.s
        later = s.compare("ne", updates, s.constant(0, I64), I64)
        scale = s.select(later, s.constant(beta, f.t), s.constant(1.0, f.t))
        return f.add(f.times(alpha, a), f.mul(scale, b))

    velocity = formula((v, gradient, count), velocity_of, 5)
    direction = velocity
    if mode == "nesterov":
        direction = formula((gradient, velocity), lambda f, a, b: f.add(a, f.times(alpha, b)), 2)
    return [formula((x, direction, rate), lambda f, a, b, r: f.sub(a, f.mul(r, b)), 2), velocity]


# The learning rate


def plain_rate(o: Operands, t: Element) -> Node:
    return converted(reshaped(o[0], ()), t)


def decayed_rate(o: Operands, t: Element) -> Node:
    """rate / (1 + count * decay)"""
    decay = o.attr("decay_factor")

    def function(s: Scalars, r: SSAValue, count: SSAValue) -> SSAValue:
        updates = s.mul(convert(s, count, I64, t), s.constant(decay, t), t)
        return s.divf(r, s.add(s.constant(1.0, t), updates, t))

    return pointwise(function, (plain_rate(o, t), reshaped(o[1], ())), (), t, 6)


def corrected_rate(o: Operands, t: Element) -> Node:
    """rate * sqrt(1 - beta ** count) / (1 - alpha ** count), from the first update on"""
    alpha, beta = o.attr("alpha"), o.attr("beta")

    def less_power(s: Scalars, base: float, count: SSAValue) -> SSAValue:
        power = s.float_binary(math.PowFOp, s.constant(base, t), count)
        return s.sub(s.constant(1.0, t), power, t)

    def function(s: Scalars, r: SSAValue, count: SSAValue) -> SSAValue:
        updates = convert(s, count, I64, t)
        root = s.unary(math.SqrtOp, less_power(s, beta, updates))
        corrected = s.divf(s.mul(r, root, t), less_power(s, alpha, updates))
        return s.select(s.compare("gt", count, s.constant(0, I64), I64), corrected, r)

    return pointwise(function, (plain_rate(o, t), reshaped(o[1], ())), (), t, 50)


OPTIMIZERS: dict[type[onnx.OnnxOp], Rule] = {
    onnx.TrainingAdagradOp: optimizer(3, adagrad, decayed_rate),
    onnx.TrainingAdamOp: optimizer(4, adam, corrected_rate),
    onnx.TrainingMomentumOp: optimizer(3, momentum, plain_rate),
}
