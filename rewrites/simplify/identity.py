"""Operators that do nothing, by their types, attributes and constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import onnx
from ...dialects.dims import dims_of
from ...semantics.kinds import reduced_axes
from ...semantics.known import constant_value, known_dims
from ..driver import PatternRewriter
from .rule import (
    BROADCASTING,
    Rule,
    axes_constant,
    broadcasts,
    element_of,
    is_float,
    is_used,
    producer,
    remade,
    scalar_of,
)


class DropIdentity(Rule):
    """Identity(x)  ->  x"""

    root = onnx.IdentityOp

    @staticmethod
    def takes(op: Operation, /) -> bool:
        return True  # of any type

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        rewriter.replace(op, [op.operands[0]])


class DropSameType(Rule):
    """Reshape, Expand, Cast, Squeeze, Unsqueeze, Flatten of x to x's own type  ->  x

    The result has as many elements in the same order, so equal types mean the same value.
    """

    root = (onnx.ReshapeOp, onnx.ExpandOp, onnx.CastOp, onnx.CastLikeOp, onnx.SqueezeOp, onnx.UnsqueezeOp,
            onnx.FlattenOp)  # fmt: skip

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if op.results[0].type == op.operands[0].type:
            rewriter.replace(op, [op.operands[0]])


class DropWholeSlice(Rule):
    """Slice(x) of x's own type with positive steps  ->  x

    With step 1 a slice as long as its axis starts at 0; a longer step cannot give the same length unless it is below 2.
    """

    root = onnx.SliceOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        slice_ = cast(onnx.SliceOp, op)
        if op.results[0].type != op.operands[0].type:
            return
        steps = slice_.operand_at(4)
        if steps is not None:
            known = known_dims(steps)
            if known is None or not all(s.is_const and s.value == 1 for s in known):
                return
        rewriter.replace(op, [op.operands[0]])


class DropZeroPad(Rule):
    """Pad(x) by nothing  ->  x"""

    root = onnx.PadOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        pads = known_dims(op.operands[1])
        if pads is not None and all(p.is_const and p.value == 0 for p in pads):
            rewriter.replace(op, [op.operands[0]])


class DropSingleTile(Rule):
    """Tile(x) once along each axis  ->  x"""

    root = onnx.TileOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        repeats = known_dims(op.operands[1])
        if repeats is not None and all(r.is_const and r.value == 1 for r in repeats):
            rewriter.replace(op, [op.operands[0]])


class DropEmptyOperands(Rule):
    """Concat(x, empty)  ->  Concat(x), and Concat(x)  ->  x"""

    root = onnx.ConcatOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        axis = onnx.attr(op, "axis")
        kept = [o for o in op.operands if not empty_along(o, axis)]
        if len(kept) == 1 and kept[0].type == op.results[0].type:
            rewriter.replace(op, [kept[0]])
        elif 1 < len(kept) < len(op.operands):
            rewriter.replace(op, [remade(cast(onnx.ConcatOp, op), kept, rewriter)])


def empty_along(value: SSAValue, axis: int) -> bool:
    """Whether a dim is known to be 0."""
    size = dims_of(value)[axis]
    return size.is_const and size.value == 0


class DropSingleSplit(Rule):
    """Split(x) into one part  ->  x"""

    root = onnx.SplitOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if len(op.results) == 1 and op.results[0].type == op.operands[0].type:
            rewriter.replace(op, [op.operands[0]])


class DropIdleDropout(Rule):
    """Dropout(x) that does not train  ->  x

    Declines when something reads the mask.
    """

    root = onnx.DropoutOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        dropout = cast(onnx.DropoutOp, op)
        training = dropout.operand_at(2)
        if training is not None and scalar_of(training) != 0:
            return
        if is_used(dropout.result_at(1)):
            return
        rewriter.replace(op, [op.operands[0], *[None] * (len(op.results) - 1)])


class DropExpand(Rule):
    """Add(Expand(x), y)  ->  Add(x, y), where these broadcast to the same shape; any broadcasting operator"""

    root = BROADCASTING

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not broadcasts(rewriter):
            return
        wanted = dims_of(op.results[0])
        for at, operand in enumerate(op.operands):
            expand = producer(operand, onnx.ExpandOp)
            if expand is None:
                continue
            source = expand.operands[0]
            others = [source if i == at else o for i, o in enumerate(op.operands)]
            if all(any(covers(other, axis, wanted) for other in others) for axis in range(len(wanted))):
                rewriter.replace(op, [remade(cast(onnx.OnnxOp, op), others, rewriter)])
                return


def covers(value: SSAValue, axis: int, wanted: tuple[object, ...]) -> bool:
    """Whether a broadcast operand has the result's own size along an axis of the result."""
    shape = dims_of(value)
    at = axis - (len(wanted) - len(shape))
    return at >= 0 and shape[at] is wanted[axis]


class DropReductionOfOne(Rule):
    """ReduceMax(x) along axes of size 1  ->  x or Squeeze(x); also ReduceMin, ReduceMean, ReduceSum, ReduceProd"""

    root = (onnx.ReduceMaxOp, onnx.ReduceMinOp, onnx.ReduceMeanOp, onnx.ReduceSumOp, onnx.ReduceProdOp)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        axes = reduced_axes(op)
        source = op.operands[0]
        if axes is None or not all(d.is_const and d.value == 1 for d in (dims_of(source)[a] for a in axes)):
            return
        if not axes or onnx.attr(op, "keepdims"):
            rewriter.replace(op, [source])
            return
        operand = axes_constant(axes, rewriter)
        rewriter.replace(op, onnx.SqueezeOp.make([source, operand], {}, [op.results[0].type]))


NEUTRAL: dict[type[Operation], tuple[float, bool]] = {
    onnx.AddOp: (0.0, True),
    onnx.SubOp: (0.0, False),
    onnx.MulOp: (1.0, True),
    onnx.DivOp: (1.0, False),
    onnx.PowOp: (1.0, False),
}
"""The number that changes nothing as the second operand, and whether it may be the first as well."""


@dataclass(frozen=True)
class DropNeutral(Rule):
    """Mul(x, 1)  ->  x, Add(x, 0)  ->  x, Sub(x, 0)  ->  x, Div(x, 1)  ->  x, Pow(x, 1)  ->  x

    With `exact`, a float +0 is not added away: -0 + 0 is 0.
    """

    exact: bool

    root = tuple(NEUTRAL)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        number, commutes = NEUTRAL[type(op)]
        left, right = op.operands[0], op.operands[1]
        for value, other in ((left, right), (right, left)) if commutes else ((left, right),):
            if value.type != op.results[0].type or scalar_of(other) != number:
                continue
            if self.exact and isinstance(op, onnx.AddOp) and is_float(value) and not is_negative_zero(other):
                continue
            rewriter.replace(op, [value])
            return


def is_negative_zero(value: SSAValue) -> bool:
    array = constant_value(value)
    return array is not None and all(str(float(v)) == "-0.0" for v in array.ravel())


class DropSecond(Rule):
    """Relu(Relu(x))  ->  Relu(x), and so for Abs, Ceil, Floor, Round, Sign"""

    root = (onnx.ReluOp, onnx.AbsOp, onnx.CeilOp, onnx.FloorOp, onnx.RoundOp, onnx.SignOp)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if producer(op.operands[0], type(op)) is not None:
            rewriter.replace(op, [op.operands[0]])


class DropInverse(Rule):
    """Neg(Neg(x))  ->  x, and so for Not, BitwiseNot"""

    root = (onnx.NegOp, onnx.NotOp, onnx.BitwiseNotOp)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        inner = producer(op.operands[0], type(op))
        if inner is not None:
            rewriter.replace(op, [inner.operands[0]])


class DropNotOfChoice(Rule):
    """Where(Not(c), a, b)  ->  Where(c, b, a)"""

    root = onnx.WhereOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        negated = producer(op.operands[0], onnx.NotOp)
        if negated is not None:
            operands = [negated.operands[0], op.operands[2], op.operands[1]]
            rewriter.replace(op, onnx.WhereOp.make(operands, {}, [op.results[0].type]))


class DropWholeGather(Rule):
    """Gather(x, [0, 1, ..., n - 1]) along an axis of size n  ->  x"""

    root = onnx.GatherOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if op.results[0].type != op.operands[0].type:
            return
        indices = constant_value(op.operands[1])
        size = dims_of(op.operands[0])[onnx.attr(op, "axis")]
        if indices is None or indices.ndim != 1 or not size.is_const:
            return
        if [i % size.value if size.value else i for i in indices.tolist()] == list(range(size.value)):
            rewriter.replace(op, [op.operands[0]])


MANTISSA_BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


class MergeCasts(Rule):
    """Cast(Cast(x, T), U)  ->  Cast(x, U), or x where that is its type

    Declines where T cannot hold every value of x's type, and where an integer would have gone to U by way of a float
    (which saturates, and an integer wraps) and U is another type than x's.
    """

    root = onnx.CastOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        inner = producer(op.operands[0], onnx.CastOp)
        if inner is None:
            return
        source = inner.operands[0]
        try:
            first, middle, last = (onnx.numpy_dtype(element_of(v)) for v in (source, inner.results[0], op.results[0]))
        except (KeyError, TypeError):
            return
        names = (first.name, middle.name, last.name)
        if not holds(names[1], names[0]):
            return
        if source.type == op.results[0].type:
            rewriter.replace(op, [source])
        elif not (is_integer(names[0]) and not is_integer(names[1]) and is_integer(names[2])) and known(names[2]):
            made = onnx.CastOp.make([source], {"to": onnx.attr(op, "to")}, [op.results[0].type])
            rewriter.replace(op, made)


def is_integer(name: str) -> bool:
    return name.startswith(("int", "uint", "bool"))


def known(name: str) -> bool:
    return name in MANTISSA_BITS or (is_integer(name) and name.lstrip("uint") in ("8", "16", "32", "64", "bool"))


def holds(wide: str, narrow: str) -> bool:
    """Whether a type has every value of another: names of numpy's dtypes."""
    if not known(wide) or not known(narrow):
        return False
    if wide == narrow:
        return True
    if wide == "bool":
        return False
    if narrow == "bool":
        return True
    if not is_integer(narrow):
        return wide in MANTISSA_BITS and MANTISSA_BITS[wide] >= MANTISSA_BITS[narrow] and wide in ("float32", "float64")
    bits, signed = int(narrow.lstrip("uint")), narrow.startswith("int")
    if is_integer(wide):
        more, wide_signed = int(wide.lstrip("uint")), wide.startswith("int")
        return (wide_signed and more > bits) or (signed == wide_signed and more >= bits)
    return bits - signed <= MANTISSA_BITS[wide]


class MergeClips(Rule):
    """Clip(Relu(x), a, b)  ->  Clip(x, max(a, 0), b), and Relu(Clip(x, a, b))  ->  Clip(x, max(a, 0), b)

    Declines where a bound is not constant, and where b is below 0.
    """

    root = (onnx.ClipOp, onnx.ReluOp)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        inner = producer(op.operands[0], onnx.ReluOp if isinstance(op, onnx.ClipOp) else onnx.ClipOp)
        clip = op if isinstance(op, onnx.ClipOp) else inner
        if inner is None or not isinstance(clip, onnx.ClipOp) or not inner.results[0].has_one_use():
            return
        low, high = clip.operand_at(1), clip.operand_at(2)
        if (low is not None and scalar_of(low) is None) or (high is not None and scalar_of(high) is None):
            return
        if high is not None and (scalar_of(high) or 0.0) < 0:
            return
        if low is None or (scalar_of(low) or 0.0) < 0:
            try:
                zero = onnx.tensor_attr(np.zeros((), onnx.numpy_dtype(element_of(op.operands[0]))))
            except (KeyError, TypeError):
                return
            low = rewriter.insert(onnx.ConstantOp.make([], {"value": zero}, [zero.type])).results[0]
        rewriter.replace(op, onnx.ClipOp.make([inner.operands[0], low, high], {}, [op.results[0].type]))


EXACT_IDENTITIES: tuple[Rule, ...] = (
    DropIdentity(),
    DropSameType(),
    DropWholeSlice(),
    DropZeroPad(),
    DropSingleTile(),
    DropEmptyOperands(),
    DropSingleSplit(),
    DropIdleDropout(),
    DropExpand(),
    DropReductionOfOne(),
    DropSecond(),
    DropInverse(),
    DropNotOfChoice(),
    DropWholeGather(),
    MergeCasts(),
    MergeClips(),
)
