"""Losses: the negative log likelihood of classes, and with the softmax in front of it."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ...dialects import onnx
from .body import Body
from .casts import converted
from .element_kinds import BOOL, I64, Element
from .gathers import guarded_read
from .graph import Combine, Computed, Node, Use, widened, with_unit_axes
from .index_space import Index
from .operators import Operands, Rule, binary, quotient, reduced, reduced_keeping
from .reductions import exp, log
from .scalars import INDEX, Scalars


def negative_log_likelihood_loss(o: Operands) -> list[Node]:
    return [loss(o, widened(o[0]))]


def softmax_cross_entropy_loss(o: Operands) -> list[Node]:
    """The loss, and the log of the probabilities (over axis 1)."""
    x = widened(o[0])
    shifted = binary(Scalars.sub, x, reduced_keeping(Combine.MAX, x, [1]))
    total = reduced(Combine.ADD, exp(shifted), [1])
    logs = binary(Scalars.sub, shifted, with_unit_axes(log(total), [1]))
    results = [loss(o, logs)]
    if o.has_result(1):
        results.append(converted(logs, o.element(1)))
    return results


def loss(o: Operands, logs: Node) -> Node:
    """-weight[class] * log probability [N, C, D...] of each target [N, D...], 0 where ignored; then the reduction."""
    t, reduction = logs.element, o.attr("reduction")
    losses, weights = _terms(o, logs, t)
    if reduction == "none":
        return converted(losses, o.element())
    axes = range(len(losses.dims))
    total = reduced(Combine.ADD, losses, axes)
    if reduction == "mean":
        total = quotient(total, reduced(Combine.ADD, weights, axes))
    return converted(total, o.element())


def _terms(o: Operands, logs: Node, t: Element) -> tuple[Node, Node]:
    """Each target's loss, and the weight that it counts with."""
    target, weight, ignored = o[1], o.get(2), o.attr("ignore_index")
    classes = logs.dims[1]
    message = o.problem(f"'{o.name_of(1)}' has the class {{0}}; there are {{1}} classes, axis 1 of '{o.name_of(0)}'")

    def chosen(body: Body, index: Index) -> tuple[SSAValue, Index, SSAValue]:
        """Whether the target counts, the index of its log probability, and its weight."""
        s = body.scalars
        at = body.index_of(body.read(target, index), target.element)
        valid = s.both(s.compare("ge", at, s.constant(0, INDEX), I64), s.compare("lt", at, body.index(classes), I64))
        counts = s.constant(1, BOOL) if ignored is None else s.compare("ne", at, s.constant(ignored, INDEX), I64)
        s.check(s.either(valid, s.negate(counts)), "index", message, [at, body.index(classes)])
        place = body.variable(s.select(s.both(valid, counts), at, s.constant(0, INDEX)), classes)
        factor = (
            s.constant(1.0, t)
            if weight is None
            else body.widen(guarded_read(body, weight, (place,), [classes]), weight.element)
        )
        return counts, (index[0], place, *index[1:]), factor

    def term(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        counts, place, factor = chosen(body, index)
        value = s.mul(s.neg(guarded_read(body, logs, place, [classes]), t), factor, t)
        return s.select(counts, value, s.constant(0.0, t))

    def counted(body: Body, index: Index) -> SSAValue:
        s = body.scalars
        counts, _, factor = chosen(body, index)
        return s.select(counts, factor, s.constant(0.0, t))

    sources = [(target, Use.ALIGNED)] if weight is None else [(target, Use.ALIGNED), (weight, Use.MANY)]
    losses = Computed(target.dims, t, ((logs, Use.MANY), *sources), term, cost=8)
    return losses, Computed(target.dims, t, tuple(sources), counted, cost=6)


LOSSES: dict[type[onnx.OnnxOp], Rule] = {
    onnx.NegativeLogLikelihoodLossOp: negative_log_likelihood_loss,
    onnx.SoftmaxCrossEntropyLossOp: softmax_cross_entropy_loss,
}
