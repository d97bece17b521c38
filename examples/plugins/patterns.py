"""A rewrite pattern of one's own, for `sx.compile("model.onnx", patterns=[FoldSigmoidMul()])`."""

from sardonyx.dialects import onnx
from sardonyx.rewrites.driver import Pattern, PatternRewriter
from xdsl.ir import Operation


class FoldSigmoidMul(Pattern):
    """Mul(x, Sigmoid(x))  ->  Swish(x)

    Declines when the sigmoid has a second user: it would be computed twice.
    """

    root = onnx.MulOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        for x, gate in (op.operands, reversed(op.operands)):
            sigmoid = gate.owner
            if not isinstance(sigmoid, onnx.SigmoidOp) or sigmoid.operands[0] is not x:
                continue
            if sigmoid.results[0].uses.get_length() != 1:
                return
            rewriter.replace(op, onnx.SwishOp.make([x], {}, [op.results[0].type]))
            rewriter.erase(sigmoid)
            return
