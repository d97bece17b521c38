"""Padding that a slice takes away again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.ir import Operation, SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim, as_dim, dims_of
from ...semantics.facts import Facts
from ...semantics.known import known_dims
from ..constants import attributes_of
from ..driver import PatternRewriter
from .movement import cuts_of, entries, given
from .rule import Rule, axes_constant, producer


@dataclass(frozen=True)
class Kept:
    """What a slice of a padded tensor keeps of an axis: `length` elements from `start` on, `before` ones being padding.

    `size` is the axis' size without padding.
    """

    start: Dim
    length: Dim
    before: Dim
    size: Dim


@dataclass(frozen=True)
class CropPad(Rule):
    """Slice(Pad(x))  ->  Slice(x), or x, where no padding is left;  Slice(Pad(x))  ->  Pad(x), where only padding goes

    Of any mode.  The prover is asked where the slice begins and ends along each axis.  Declines when the steps are not
    1, and, where padding is left, when something else reads the padded tensor.
    """

    facts: Facts

    root = onnx.SliceOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        pad = producer(op.operands[0], onnx.PadOp)
        kept = kept_of(cast(onnx.SliceOp, op), pad) if pad is not None else None
        if pad is None or kept is None or not all(self.is_at_most(as_dim(0), k.start) for k in kept):
            return
        x, result = pad.operands[0], op.results[0]
        if all(map(self.is_inside, kept)):
            if x.type == result.type:
                rewriter.replace(op, [x])
            else:
                rewriter.replace(op, slice_of(x, kept, result, rewriter))
        elif pad.results[0].has_one_use() and all(map(self.has_all, kept)):
            pads = [k.before - k.start for k in kept] + [k.start + k.length - k.before - k.size for k in kept]
            operands = [x, entries(pads, rewriter), pad.operand_at(2), None]
            rewriter.replace(op, onnx.PadOp.make(operands, attributes_of(pad), [result.type]))
            rewriter.erase(pad)

    def is_inside(self, kept: Kept) -> bool:
        """Whether none of the padding is kept."""
        ends = self.is_at_most(kept.start + kept.length, kept.before + kept.size)
        return ends and self.is_at_most(kept.before, kept.start)

    def has_all(self, kept: Kept) -> bool:
        """Whether all of what was padded is kept."""
        ends = self.is_at_most(kept.before + kept.size, kept.start + kept.length)
        return ends and self.is_at_most(kept.start, kept.before)

    def is_at_most(self, a: Dim, b: Dim) -> bool:
        return self.facts.prove_le(a, b).answer is True


def kept_of(op: onnx.SliceOp, pad: onnx.PadOp) -> list[Kept] | None:
    """What is kept of each axis; None where an amount of padding, a bound or an axis is not known."""
    shape = dims_of(pad.operands[0])
    pads, axes = known_dims(pad.operands[1]), given(pad.operand_at(3), range(len(shape)))
    cuts = cuts_of(op)
    if pads is None or axes is None or cuts is None or any(cut.step != 1 for cut in cuts.values()):
        return None
    before = dict(zip((axis % max(len(shape), 1) for axis in axes), pads))
    found: list[Kept] = []
    for axis, (size, length) in enumerate(zip(shape, dims_of(op.results[0]), strict=True)):
        start = cuts[axis].start if axis in cuts else as_dim(0)
        found.append(Kept(start, length, before.get(axis, as_dim(0)), size))
    return found


def slice_of(x: SSAValue, kept: list[Kept], like: SSAValue, rewriter: PatternRewriter) -> onnx.SliceOp:
    """The Slice of what was padded."""
    axes = [axis for axis, k in enumerate(kept) if k.length is not k.size]
    first = [kept[axis].start - kept[axis].before for axis in axes]
    last = [start + kept[axis].length for start, axis in zip(first, axes)]
    operands = [x, entries(first, rewriter), entries(last, rewriter), axes_constant(axes, rewriter)]
    return onnx.SliceOp.make(operands, {}, [like.type])
