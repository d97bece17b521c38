"""Rotary embeddings recognized from what exporters write for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from ...dialects import dims, onnx
from ...dialects.dims import as_dim, dims_of, tensor_type
from ...dialects.dims.expression import cuts_size
from ...semantics.kinds import is_view
from ...semantics.known import constant_value
from ...semantics.weights import WeightStore
from ..constants import attributes_of
from ..driver import PatternRewriter
from .movement import Part, cuts_of, part_of
from .rule import Rule, axes_constant, constant, element_of, is_float, only_producer, producer, scalar_of
from .views import VIEW_OPS

Layout: TypeAlias = Literal["halves", "pairs"]
"""Which elements turn together: the first half with the second, or each with its neighbour (`interleaved`)."""


@dataclass(frozen=True)
class RecognizeRotary(Rule):
    """Add(Mul(x, c), Mul(Concat(Neg(x2), x1), s))  ->  RotaryEmbedding(x, c[..., :n], s[..., :n]), x1 and x2 x's halves

    Of x [batch, heads, rows, size] and cosines and sines [batch or 1, 1, rows, size] whose two halves are equal: made
    from Concat(a, a), or a constant, by pointwise operators and by choosing rows.  Also of x [batch, rows, heads, size]
    and [batch or 1, rows, 1, size], and of even and odd elements, which is `interleaved`.  Declines where that is not
    so.
    """

    weights: WeightStore

    root = onnx.AddOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        products = [only_producer(o, onnx.MulOp) for o in op.operands]
        if products[0] is None or products[1] is None or len(dims_of(op.results[0])) != 4:
            return
        for straight, turned in (products, products[::-1]):
            assert straight is not None and turned is not None
            for x, cosine in (straight.operands[:2], straight.operands[1::-1]):
                for half_turned, sine in (turned.operands[:2], turned.operands[1::-1]):
                    layout = turned_by(half_turned, x) if x.type == op.results[0].type else None
                    if layout is not None and self.make(op, x, cosine, sine, layout, rewriter):
                        return

    def make(
        self, op: Operation, x: SSAValue, cosine: SSAValue, sine: SSAValue, layout: Layout, rewriter: PatternRewriter
    ) -> bool:
        rows = self.rows_of(cosine, x, layout) if is_float(x) else None
        if rows is None or self.rows_of(sine, x, layout) != rows:
            return False
        heads = dims_of(x)[2]
        if (rows == 1 and not heads.is_const) or not rewriter.may_make(onnx.RotaryEmbeddingOp):
            return False
        caches = [self.cache(angles, x, rows, layout, rewriter) for angles in (cosine, sine)]
        attributes = {"interleaved": 1} if layout == "pairs" else {}
        if rows == 2:
            rewriter.replace(op, onnx.RotaryEmbeddingOp.make([x, *caches], attributes, [op.results[0].type]))
        else:
            rewriter.replace(op, beside_rows(x, caches, {**attributes, "num_heads": heads.value}, rewriter))
        return True

    def rows_of(self, angles: SSAValue, x: SSAValue, layout: Layout) -> int | None:
        """The axis of x along which angles differ, if they are the same for all heads and what turns together."""
        shape, found = dims_of(x), dims_of(angles)
        full = (*[as_dim(1)] * (4 - len(found)), *found)
        if element_of(angles) != element_of(x) or len(full) != 4 or not repeats(angles, layout, self.weights):
            return None
        if full[3] is not shape[3] or full[0] not in (shape[0], as_dim(1)):
            return None
        for rows, heads in ((2, 1), (1, 2)):  # they are multiplied, so a size that is cut to x's is equal to it
            if full[heads] is as_dim(1) and (full[rows] is shape[rows] or cuts_size(full[rows], shape[rows])):
                return rows
        return None

    def cache(self, angles: SSAValue, x: SSAValue, rows: int, layout: Layout, rewriter: PatternRewriter) -> SSAValue:
        """One of each two equal elements, as [batch, rows, size / 2]."""
        half = one_of_two(angles, layout, rewriter, self.weights)
        found, batch, heads = dims_of(half), dims_of(x)[0], 3 - rows
        if len(found) == 4 or (rows == 1 and len(found) == 3):
            kept = [d for axis, d in enumerate(found) if axis != heads - 4 + len(found)]
            type_ = tensor_type(element_of(half), kept)
            axis = axes_constant([heads - 4 + len(found)], rewriter)
            half = rewriter.insert(onnx.SqueezeOp.make([half, axis], {}, [type_])).results[0]
        if len(dims_of(half)) == 3 and dims_of(half)[0] is batch:
            return half
        shape = [batch, *dims_of(half)[-2:]]
        sizes = rewriter.insert(dims.TensorOp(shape, tensor_type(i64, [3]))).results[0]
        type_ = tensor_type(element_of(half), shape)
        return rewriter.insert(onnx.ExpandOp.make([half, sizes], {}, [type_])).results[0]


def beside_rows(
    x: SSAValue, caches: Sequence[SSAValue], attributes: Mapping[str, object], rewriter: PatternRewriter
) -> onnx.OnnxOp:
    """RotaryEmbedding of x [batch, rows, heads, size], which the operator takes as [batch, rows, heads * size]."""
    batch, rows, heads, size = dims_of(x)
    element, joined = element_of(x), heads.value * size.value
    type_ = tensor_type(element, [batch, rows, joined])
    flat = rewriter.insert(onnx.ReshapeOp.make([x, axes_constant([0, 0, joined], rewriter)], {}, [type_])).results[0]
    turned = rewriter.insert(onnx.RotaryEmbeddingOp.make([flat, *caches], attributes, [type_])).results[0]
    apart = axes_constant([0, 0, heads.value, size.value], rewriter)
    return onnx.ReshapeOp.make([turned, apart], {}, [x.type])


class WidenRotary(Rule):
    """Concat(RotaryEmbedding(x[..., :r]), x[..., r:])  ->  RotaryEmbedding(x) {rotary_embedding_dim = r}

    Along the last axis; also of [batch, rows, heads, size], between the views that make one axis of the last two.
    Declines when something else reads what is turned, and where the parts are not those of one tensor.
    """

    root = onnx.ConcatOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        parts = joined_along_last(op) if isinstance(op, onnx.ConcatOp) else None
        if parts is None or len(dims_of(parts[0])) != 4:
            return
        view = only_producer(parts[0], *VIEW_OPS)
        rotary = only_producer(view.operands[0] if view is not None else parts[0], onnx.RotaryEmbeddingOp)
        if rotary is None or onnx.attr(rotary, "rotary_embedding_dim") or len(rotary.operands) != 3:
            return
        turned = rotary.operands[0]
        if view is not None:
            before = producer(turned, *VIEW_OPS)
            if before is None or before.operands[0].type != parts[0].type or not is_joined(before):
                return
            turned = before.operands[0]
        first, rest = part_of(turned, 3), part_of(parts[1], 3)
        if first is None or rest is None or first.source is not rest.source:
            return
        x, width = first.source, first.length
        if first.start is not as_dim(0) or rest.start is not width or x.type != op.results[0].type:
            return
        if not width.is_const or not (view is None or all(d.is_const for d in dims_of(x)[2:])):
            return
        attributes = {**attributes_of(rotary), "rotary_embedding_dim": width.value}
        caches = rotary.operands[1:]
        if view is not None:
            rewriter.replace(op, beside_rows(x, caches, attributes, rewriter))
        else:
            rewriter.replace(op, onnx.RotaryEmbeddingOp.make([x, *caches], attributes, [x.type]))


def is_joined(view: Operation) -> bool:
    """Whether a view makes one axis of the last two of four."""
    before, after = dims_of(view.operands[0]), dims_of(view.results[0])
    return is_view(view) and len(before) == 4 and tuple(after) == (*before[:2], before[2] * before[3])


# --- what is turned ---------------------------------------------------------------------------------------------------


def turned_by(value: SSAValue, x: SSAValue) -> Layout | None:
    """How a value is x turned by a quarter: (-x2, x1) for each (x1, x2)."""
    size = dims_of(x)[-1]
    if not size.is_const or size.value % 2:
        return None
    return "halves" if turns_halves(value, x) else "pairs" if turns_pairs(value, x) else None


def turns_halves(value: SSAValue, x: SSAValue) -> bool:
    """Whether a value is Concat(-x2, x1) along the last axis, x1 and x2 being the halves of x."""
    joined = joined_along_last(only_producer(value, onnx.ConcatOp))
    if joined is None:
        return False
    negated = only_producer(joined[0], onnx.NegOp)
    if negated is None:
        return False
    rank = len(dims_of(x))
    second, first = part_of(negated.operands[0], rank - 1), part_of(joined[1], rank - 1)
    return is_half(first, x, 0) and is_half(second, x, 1)


def joined_along_last(op: onnx.ConcatOp | None) -> tuple[SSAValue, SSAValue] | None:
    """The two operands of a Concat along the last axis."""
    if op is None or len(op.operands) != 2:
        return None
    rank = len(dims_of(op.results[0]))
    return (op.operands[0], op.operands[1]) if onnx.attr(op, "axis") % rank == rank - 1 else None


def is_half(part: Part | None, x: SSAValue, which: int) -> bool:
    """Whether a part is the first (0) or second (1) half of a tensor along its last axis."""
    if part is None or part.source is not x:
        return False
    half = as_dim(dims_of(x)[-1].value // 2)
    return part.length is half and part.start is (half if which else as_dim(0))


def turns_pairs(value: SSAValue, x: SSAValue) -> bool:
    """Whether a value is Concat(-x2, x1) along a new last axis that is flattened, of odd and even elements of x."""
    flat = only_producer(value, *VIEW_OPS)
    joined = joined_along_last(only_producer(flat.operands[0], onnx.ConcatOp)) if flat and is_view(flat) else None
    if joined is None or flat is None or tuple(dims_of(flat.operands[0])[:-2]) != tuple(dims_of(x)[:-1]):
        return False
    odd, even = (with_last_one(part) for part in joined)
    negated = only_producer(odd, onnx.NegOp) if odd is not None else None
    return (
        negated is not None
        and even is not None
        and is_every_second(negated.operands[0], x, 1)
        and is_every_second(even, x, 0)
    )


def with_last_one(value: SSAValue) -> SSAValue | None:
    """v of a view of v with a last axis of size 1 more."""
    view = only_producer(value, *VIEW_OPS)
    if view is None or not is_view(view):
        return None
    return view.operands[0] if tuple(dims_of(value)) == (*dims_of(view.operands[0]), as_dim(1)) else None


def is_every_second(value: SSAValue, x: SSAValue, first: int) -> bool:
    """Whether a value is x[..., first::2]."""
    cut = producer(value, onnx.SliceOp)
    if cut is None or cut.operands[0] is not x:
        return False
    cuts, last = cuts_of(cut), len(dims_of(x)) - 1
    if cuts is None or set(cuts) != {last} or cuts[last].step != 2:
        return False
    return cuts[last].first is as_dim(first) and cuts[last].length is as_dim(dims_of(x)[-1].value // 2)


# --- angles -----------------------------------------------------------------------------------------------------------

POINTWISE: tuple[type[onnx.OnnxOp], ...] = (onnx.CosOp, onnx.SinOp, onnx.CastOp)
"""Operators of one operand that give equal results for equal elements."""

KEEPS_LAST: tuple[type[onnx.OnnxOp], ...] = (
    *POINTWISE, onnx.MulOp, onnx.UnsqueezeOp, onnx.SqueezeOp, onnx.SliceOp, onnx.GatherOp,
)  # fmt: skip
"""Operators that treat all elements along the last axis alike, where `data_of` gives an operand."""


def data_of(op: Operation) -> SSAValue | None:
    """The operand whose last axis the result has, element by element; None where it has another."""
    source = op.operands[0]
    last = dims_of(op.results[0])[-1:]
    match op:
        case onnx.MulOp():
            for inner, other in (op.operands[:2], op.operands[1::-1]):
                if scalar_of(other) is not None:
                    return inner if inner.type == op.results[0].type else None
            return None
        case onnx.UnsqueezeOp() | onnx.SqueezeOp():
            return source if last and dims_of(source)[-1:] == last else None
        case onnx.SliceOp():
            cuts = cuts_of(op)
            return source if cuts is not None and len(dims_of(source)) - 1 not in cuts else None
        case onnx.GatherOp():
            rank = len(dims_of(source))
            return source if rank > 1 and onnx.attr(op, "axis") % rank != rank - 1 else None
        case _:
            return source


def repeats(value: SSAValue, layout: Layout, weights: WeightStore) -> bool:
    """Whether the elements that turn together are equal for all data."""
    array = constant_value(value, weights)
    if array is not None:
        if array.ndim == 0 or array.shape[-1] % 2:
            return False
        half = array.shape[-1] // 2
        one, two = (array[..., :half], array[..., half:]) if layout == "halves" else (array[..., ::2], array[..., 1::2])
        return bool(np.array_equal(one, two))
    op = producer(value, *KEEPS_LAST)
    if op is not None:
        data = data_of(op)
        return data is not None and repeats(data, layout, weights)
    return doubled(value, layout) is not None


def doubled(value: SSAValue, layout: Layout) -> SSAValue | None:
    """a of Concat(a, a) along the last axis, or of a flattened [..., 2] in which each element of a stands twice.

    The latter perhaps with a last axis of size 1 more.
    """
    if layout == "halves":
        joined = joined_along_last(producer(value, onnx.ConcatOp))
        return joined[0] if joined is not None and joined[0] is joined[1] else None
    flat = producer(value, *VIEW_OPS)
    if flat is None or not is_view(flat):
        return None
    inner = flat.operands[0]
    shape = dims_of(inner)
    if len(shape) < 2 or shape[-1] is not as_dim(2) or tuple(shape[:-2]) != tuple(dims_of(value)[:-1]):
        return None
    spread = producer(inner, onnx.ExpandOp)
    joined = joined_along_last(producer(inner, onnx.ConcatOp))
    one = spread.operands[0] if spread is not None else joined[0] if joined and joined[0] is joined[1] else None
    if one is None or tuple(dims_of(one)) != (*shape[:-1], as_dim(1)):
        return None
    view = producer(one, *VIEW_OPS)
    if view is not None and is_view(view) and tuple(dims_of(view.operands[0])) == tuple(shape[:-1]):
        return view.operands[0]
    return one


def one_of_two(value: SSAValue, layout: Layout, rewriter: PatternRewriter, weights: WeightStore) -> SSAValue:
    """Of a tensor that `repeats`, the first of the elements that turn together, made without the other ones."""
    array = constant_value(value, weights)
    if array is not None:
        half = array[..., : array.shape[-1] // 2] if layout == "halves" else array[..., ::2]
        return constant(np.ascontiguousarray(half), rewriter, weights)
    op = producer(value, *KEEPS_LAST)
    if op is None:
        source = doubled(value, layout)
        assert source is not None
        if len(dims_of(source)) == len(dims_of(value)):
            return source
        type_ = tensor_type(element_of(source), dims_of(source)[:-1])
        return rewriter.insert(onnx.SqueezeOp.make([source, axes_constant([-1], rewriter)], {}, [type_])).results[0]
    data = data_of(op)
    assert data is not None
    half = one_of_two(data, layout, rewriter, weights)
    operands = [half if o is data else o for o in op.formal_operands()]
    type_ = tensor_type(element_of(value), [*dims_of(value)[:-1], dims_of(half)[-1]])
    return rewriter.insert(type(op).make(operands, attributes_of(op), [type_])).results[0]
