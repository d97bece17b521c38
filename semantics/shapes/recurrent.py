"""Shape rules of recurrences, losses and optimizers."""

from __future__ import annotations

from ...dialects import onnx
from ...dialects.dims.expression import Dim, as_dim
from .context import Context, Rules, ShapeError, Types


def _recurrent(c: Context) -> tuple[list[Dim], list[Dim]]:
    """The dims of Y and of the last states."""
    x = c.dims_of_rank(0, 3)
    w, r = c.dims_of_rank(1, 3), c.dims_of_rank(2, 3)
    directions = as_dim(2 if c.attr("direction") == "bidirectional" else 1)
    given = c.attr("hidden_size")
    hidden = r[2] if given is None else c.equal(r[2], as_dim(given), "hidden_size and the recurrence weight")
    c.equal(w[0], directions, "the directions of the weights")
    c.equal(r[0], directions, "the directions of the weights")
    c.equal(w[2], x[2], "the input's size and the weight")
    batch_first = bool(c.attr("layout"))
    length, batch = (x[1], x[0]) if batch_first else (x[0], x[1])
    if c.has(4):
        c.equal(c.dims_of_rank(4, 1)[0], batch, "the batch of 'sequence_lens'")
    for i in (5, 6):  # the initial states
        if c.has(i):
            state = c.dims_of_rank(i, 3)
            c.equal(state[0 if batch_first else 1], batch, "the batch of the initial state")
            c.equal(state[1 if batch_first else 0], directions, "the directions of the initial state")
    if batch_first:
        return [batch, length, directions, hidden], [batch, directions, hidden]
    return [length, directions, batch, hidden], [directions, batch, hidden]


def rnn(c: Context) -> Types:
    y, state = _recurrent(c)
    return [c.like(0, y), c.like(0, state)]


def lstm(c: Context) -> Types:
    y, state = _recurrent(c)
    return [c.like(0, y), c.like(0, state), c.like(0, state)]


def nll_loss(c: Context) -> Types:
    x = c.dims(0)
    target = c.dims_of_rank(1, len(x) - 1)
    if c.attr("reduction") != "none":
        return [c.like(0, ())]
    sizes = [x[0], *x[2:]]
    return [c.like(0, [c.equal(a, b, "scores and labels") for a, b in zip(sizes, target)])]


def cross_entropy_loss(c: Context) -> Types:
    return [*nll_loss(c), c.type_of(0)]


def _updated(c: Context, groups: int, kept: tuple[int, ...]) -> Types:
    """Optimizers: operands 2.. are `groups` lists of tensors; results are the lists of the given numbers."""
    count, rest = divmod(len(c.operands) - 2, groups)
    if rest or count < 1:
        raise ShapeError(f"{len(c.operands)} inputs are not two and a multiple of {groups}")
    for at in range(2 + count, len(c.operands)):
        first = 2 + (at - 2) % count
        if c.element(at) != c.element(first) or c.rank(at) != c.rank(first):
            raise ShapeError(f"input {at} is {c.type_of(at)}, and belongs to input {first}, {c.type_of(first)}")
        for a, b in zip(c.dims(at), c.dims(first)):
            c.equal(a, b, f"the sizes of inputs {first} and {at}")
    return [c.type_of(2 + group * count + at) for group in kept for at in range(count)]


def adagrad(c: Context) -> Types:
    return _updated(c, 3, (0, 2))


def adam(c: Context) -> Types:
    return _updated(c, 4, (0, 2, 3))


def momentum(c: Context) -> Types:
    return _updated(c, 3, (0, 2))


def gradient(c: Context) -> Types:
    return [c.type_of(i) for i in range(len(c.attr("xs")))]


RULES: Rules = {
    onnx.RNNOp: rnn,
    onnx.GRUOp: rnn,
    onnx.LSTMOp: lstm,
    onnx.NegativeLogLikelihoodLossOp: nll_loss,
    onnx.SoftmaxCrossEntropyLossOp: cross_entropy_loss,
    onnx.TrainingAdagradOp: adagrad,
    onnx.TrainingAdamOp: adam,
    onnx.TrainingMomentumOp: momentum,
    onnx.TrainingGradientOp: gradient,
}
