"""A rewrite pattern of one's own, for `sx.compile("model.onnx", patterns=[FoldRootOfSquare()])`."""

from sardonyx.dialects import onnx
from sardonyx.rewrites.driver import Pattern, PatternRewriter
from xdsl.ir import Operation


class FoldRootOfSquare(Pattern):
    """Sqrt(Mul(x, x))  ->  Abs(x)

    Declines when the square has a second user: it would be computed all the same.
    """

    root = onnx.SqrtOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        square = op.operands[0].owner
        if not isinstance(square, onnx.MulOp) or square.operands[0] is not square.operands[1]:
            return
        if square.results[0].uses.get_length() != 1:
            return
        rewriter.replace(op, onnx.AbsOp.make([square.operands[0]], {}, [op.results[0].type]))
        rewriter.erase(square)
