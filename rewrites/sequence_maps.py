"""SequenceMap as a loop over the items: compilation has loops, and no operator with a body of another kind."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntegerType, ModuleOp, StringAttr, TensorType, UnrankedTensorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ..dialects import onnx
from ..dialects.dims import dims_of, tensor_type
from ..dialects.onnx.types import UNKNOWN, SequenceType
from ..semantics.shapes.containers import ANY, container_dims
from .driver import Firing, Pattern, PatternRewriter, apply_patterns
from .infer.walk import BINDS


def rewrite_sequence_maps(module: ModuleOp) -> list[Firing]:
    """Rewrites them; what is made has no types yet, so inference is to run again where anything fired."""
    return apply_patterns(module, [LoopOverItems()])


class LoopOverItems(Pattern):
    """SequenceMap(s, t) {f}  ->  Loop(SequenceLength(s), , SequenceEmpty()) {SequenceInsert(y, f(SequenceAt(s, i), t))}

    An operand that is a tensor goes to every item as it is, as the standard's function of the operator has it.
    """

    root = onnx.SequenceMapOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, onnx.SequenceMapOp)
        body, end = op.body.block, op.body.block.last_op
        assert isinstance(end, onnx.YieldOp)
        codes = [element_code(value) for value in end.values]
        if None in codes:
            return
        length = rewriter.insert(onnx.SequenceLengthOp.make([op.operands[0]], like=op)).results[0]
        empty = [rewriter.insert(onnx.SequenceEmptyOp.make([], {"dtype": code}, like=op)).results[0] for code in codes]
        block = Block(arg_types=[tensor_type(i64, ()), tensor_type(IntegerType(1), ()), *[UNKNOWN] * len(empty)])
        number, going, *states = block.args
        for operand, argument in zip(op.operands, body.args, strict=True):
            item: SSAValue = operand
            if isinstance(operand.type, SequenceType):
                taken = onnx.SequenceAtOp.make([operand, number], {}, [argument.type], like=op)
                if own := own_sizes(argument.type, operand.type.element):
                    taken.attributes[BINDS] = ArrayAttr(map(StringAttr, own))
                block.add_op(taken)
                rewriter.created.append(taken)
                item = taken.results[0]
                item.name_hint = argument.name_hint
            argument.replace_all_uses_with(item)
        for inner in list(body.ops):
            if inner is not end:
                inner.detach()
                block.add_op(inner)
        longer: list[SSAValue] = []
        for state, value in zip(states, end.values, strict=True):
            made = onnx.SequenceInsertOp.make([state, value, None], like=op)
            block.add_op(made)
            rewriter.created.append(made)
            longer.append(made.results[0])
        block.add_op(onnx.YieldOp.make([going, *longer]))
        types = [result.type for result in op.results]
        rewriter.replace(op, onnx.LoopOp.make([length, None, *empty], {}, types, like=op, regions=[Region(block)]))


def own_sizes(item: Attribute, element: Attribute) -> list[str]:
    """The symbols for sizes of an item that differ from one to another."""
    if not isinstance(item, TensorType) or not isinstance(element, TensorType):
        return []
    pairs = zip(dims_of(item), container_dims(element), strict=True)
    return [str(d) for d, open_ in pairs if open_ is ANY]


def element_code(value: SSAValue) -> int | None:
    """The number of a tensor's element type; None where it is not known."""
    if not isinstance(value.type, TensorType | UnrankedTensorType):
        return None
    return onnx.ELEMENT_CODES.get(value.type.element_type)
