"""What templates ask of the epilogue behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import tensor
from xdsl.ir import BlockArgument, Operation, SSAValue

from ...dialects import kernel
from ..loop_builder import Scalar
from ..template import TemplateContext
from .emit import Emitter, Ix, plain
from .operands import stored_type
from .register_tile import Products


def flat_epilogue(context: TemplateContext, op: kernel.TemplateOp, axes: int) -> bool:
    """Whether the epilogue may be given (0, ..., 0, q) for the index of the q-th position.

    So it is where it uses the spatial indices together only, to read tensors that have the result's spatial sizes.
    """
    if op.epilogue is None:
        return True
    arguments = op.epilogue.block.args[-axes:]
    sizes = context.dims(op.results_[0])[-axes:]

    def reads_along(user: Operation) -> bool:
        return (
            isinstance(user, tensor.ExtractOp)
            and tuple(user.indices[-axes:]) == tuple(arguments)
            and context.dims(user.tensor)[-axes:] == sizes
            and not any(isinstance(i, BlockArgument) and i in arguments for i in user.indices[:-axes])
        )

    return all(reads_along(use.operation) for a in arguments for use in a.uses)


@dataclass(frozen=True)
class WaitingSums:
    """`count` sums in memory from `start` on; a vector behind the last one may be read."""

    buffer: SSAValue
    start: Ix
    count: Ix


def store_flat(
    e: Emitter,
    context: TemplateContext,
    op: kernel.TemplateOp,
    products: Products,
    sums: WaitingSums,
    outer: Sequence[Ix],
    start: Ix,
    axes: int,
) -> None:
    """The epilogue and the stores of the positions from `start` on, whose sums wait; `outer` are the indices before.

    Some vectors run in step, as a long epilogue likes it.  For an epilogue that is flat on `axes`.
    """
    count = sums.count
    lanes, together = e.target.lanes(products.bytes), context.points_in_step(op)

    def store(at: Ix, vectors: int, masks: Sequence[SSAValue | None]) -> None:
        points: list[list[SSAValue]] = []
        places: list[list[Scalar]] = []
        for v in range(vectors):
            value = e.load_vector(sums.buffer, sums.start + at + v * lanes, lanes)
            points.append([products.narrow(e, value, stored_type(op))])
            places.append([plain(i) for i in (*outer, *[e.ix(0)] * (axes - 1), start + at + v * lanes)])
        context.store_in_step(op, points, places, masks)

    step = together * lanes
    whole = count // step * step
    if whole.known != 0:
        with e.loop(0, whole, step) as loop:
            store(loop.index, together, [None] * together)
    if count.known is None:
        with e.loop(whole, count, lanes) as loop:
            store(loop.index, 1, [e.mask(count - loop.index, lanes)])
        return
    rest = count.known % step
    if rest:
        full = rest // lanes
        last = [e.mask(rest % lanes, lanes)] if rest % lanes else []
        store(whole, full + len(last), [*[None] * full, *last])
