"""Loops that go through texts or stack them up: native code has no memory of texts that it could cut into rows.

Scan(s, xs) {body}  ->  Loop(n, s) {body of Gather(xs, i)}
Loop(n, s) {.., e}  ->  StackTexts(Loop(n, s, SequenceEmpty) {.., SequenceInsert(q, e)})
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import onnx
from ..dialects.onnx.attributes import ints_attr
from ..dialects.onnx.types import STRING, UNKNOWN
from ..semantics.custom import OWN_DOMAIN
from .axes_from_data import Build
from .driver import Firing, Pattern, PatternRewriter, apply_patterns


def rewrite_texts_in_loops(module: ModuleOp) -> list[Firing]:
    """Rewrites them; what is made has no types yet, so inference is to run again where anything fired."""
    return apply_patterns(module, [ScanTexts(), StackTexts()])


def are_texts(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and value.type.element_type == STRING


def rank_of_tensor(value: SSAValue) -> int:
    assert isinstance(value.type, TensorType)
    return value.type.get_num_dims()


def sizes_of_rows(value: SSAValue) -> tuple[int, ...]:
    """The sizes of what is stacked up, -1 where they are no numbers."""
    assert isinstance(value.type, TensorType)
    return tuple(n if n >= 0 else -1 for n in value.type.get_shape())


def end_of(op: onnx.LoopOp | onnx.ScanOp) -> onnx.YieldOp:
    """The terminator of the body."""
    last = op.body.block.last_op
    assert isinstance(last, onnx.YieldOp)
    return last


class ScanTexts(Pattern):
    """Scan(s, xs) {body}  ->  Loop(n, s) {body of Gather(xs, i)}, where any of xs or of what is stacked is text"""

    root = onnx.ScanOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, onnx.ScanOp)
        count = onnx.attr(op, "num_scan_inputs")
        first = len(op.operands) - count
        sources, stacked = list(op.operands[first:]), list(op.results[first:])
        if not any(map(are_texts, (*sources, *stacked))):
            return
        if not all(isinstance(v.type, TensorType) for v in (*sources, *stacked)):
            return
        b, block = Build(rewriter), op.body.block
        axes = [a % rank_of_tensor(v) for a, v in zip(onnx.attr(op, "scan_input_axes") or [0] * count, sources)]
        backwards = onnx.attr(op, "scan_input_directions") or [0] * count
        trips = b.at(b.shape(sources[0]), axes[0])
        last = b.sub(trips, b.ints(1))
        number = block.insert_arg(UNKNOWN, 0)
        goes_on = block.insert_arg(UNKNOWN, 1)
        start = block.first_op
        assert start is not None
        for argument, source, axis, back in zip(list(block.args[2 + first :]), sources, axes, backwards):
            place: SSAValue = number
            if back:
                counted = onnx.SubOp.make([last, number], {}, [UNKNOWN], like=op)
                block.insert_op_before(counted, start)
                place = counted.results[0]
            taken = onnx.GatherOp.make([source, place], {"axis": axis}, [UNKNOWN], like=op)
            block.insert_op_before(taken, start)
            argument.replace_all_uses_with(taken.results[0])
            block.erase_arg(argument)
        end = end_of(op)
        values = [goes_on, *end.values]
        loop = replaced_body(op, rewriter, [trips, None, *op.operands[:first]], values, len(op.results))
        rows = [self.turned(b, op, k, loop.results[first + k], trips) for k in range(len(stacked))]
        rewriter.replace(op, [*loop.results[:first], *rows])

    def turned(self, b: Build, op: onnx.ScanOp, at: int, rows: SSAValue, trips: SSAValue) -> SSAValue:
        """The rows in the order and along the axis that the Scan has them."""
        first = len(op.operands) - onnx.attr(op, "num_scan_inputs")
        rank = rank_of_tensor(op.results[first + at])
        axes, backwards = onnx.attr(op, "scan_output_axes"), onnx.attr(op, "scan_output_directions")
        if backwards and backwards[at]:
            places = b.op(onnx.RangeOp, b.sub(trips, b.ints(1)), b.ints(-1), b.ints(-1))
            rows = b.op(onnx.GatherOp, rows, places, attributes={"axis": 0})
        axis = axes[at] % rank if axes else 0
        if axis == 0:
            return rows
        perm = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
        return b.op(onnx.TransposeOp, rows, attributes={"perm": perm})


def replaced_body(
    op: onnx.LoopOp | onnx.ScanOp,
    rewriter: PatternRewriter,
    operands: Sequence[SSAValue | None],
    values: Sequence[SSAValue],
    results: int,
) -> onnx.LoopOp:
    """A Loop with the op's body, which gives these values."""
    end, block = end_of(op), op.body.block
    block.insert_op_before(onnx.YieldOp.make(values), end)
    end.detach()
    end.erase()
    region = op.detach_region(op.body)
    loop = onnx.LoopOp.make(operands, {}, [UNKNOWN] * results, like=op, regions=[region])
    rewriter.insert(loop)
    return loop


class StackTexts(Pattern):
    """Loop(n, s) {.., e}  ->  StackTexts(Loop(n, s, SequenceEmpty) {.., SequenceInsert(q, e)})"""

    root = onnx.LoopOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, onnx.LoopOp)
        block, end = op.body.block, end_of(op)
        count = len(op.v_initial)
        given = list(end.values[1 + count :])
        texts = [at for at, value in enumerate(given) if are_texts(value)]
        if not texts:
            return
        b = Build(rewriter)
        empty = [b.op(onnx.SequenceEmptyOp, attributes={"dtype": 8}) for _ in texts]
        longer: list[SSAValue] = []
        for at in texts:
            sequence = block.insert_arg(UNKNOWN, len(block.args))
            made = onnx.SequenceInsertOp.make([sequence, given[at]], {}, [UNKNOWN], like=op)
            block.insert_op_before(made, end)
            longer.append(made.results[0])
        others = [value for at, value in enumerate(given) if at not in texts]
        values = [*end.values[: 1 + count], *longer, *others]
        operands = [op.operand_at(0), op.operand_at(1), *op.v_initial, *empty]
        sizes = [sizes_of_rows(given[at]) for at in texts]
        loop = replaced_body(op, rewriter, operands, values, len(op.results))
        found = iter(loop.results[count + len(texts) :])
        stacks = iter([self.stack(rewriter, loop.results[count + k], row) for k, row in enumerate(sizes)])
        rows = [next(stacks) if at in texts else next(found) for at in range(len(given))]
        rewriter.replace(op, [*loop.results[:count], *rows])

    def stack(self, rewriter: PatternRewriter, sequence: SSAValue, sizes: tuple[int, ...]) -> SSAValue:
        """The operator of the compiler's own that makes a tensor of a sequence, which may be empty."""
        properties: dict[str, Attribute] = {
            "domain": onnx.string_attr(OWN_DOMAIN),
            "op_type": onnx.string_attr("StackTexts"),
            "attributes": DictionaryAttr({"sizes": ints_attr(sizes)}),
        }
        return rewriter.insert(onnx.CustomOp.build_at(properties, [sequence], [UNKNOWN])).results[0]


__all__ = ["rewrite_texts_in_loops"]
