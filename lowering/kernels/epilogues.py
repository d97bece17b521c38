"""What templates ask of the epilogue behind them."""

from __future__ import annotations

from xdsl.dialects import tensor
from xdsl.ir import BlockArgument, Operation

from ...dialects import kernel
from ..template import TemplateContext


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
