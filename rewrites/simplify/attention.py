"""Attention recognized from what exporters write for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import StringAttr, UnitAttr, f32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import dims, onnx
from ...dialects.dims import Dim, as_dim, dims_of, tensor_type
from ...dialects.dims.expression import cuts_size
from ...semantics.facts import Facts
from ...semantics.kinds import is_view
from ...semantics.weights import WeightStore
from ..constants import attributes_of
from ..driver import PatternRewriter
from .masks import Masked, is_causal_bias, masked, triangle
from .movement import permutation
from .rule import FLOATS, Rule, axes_constant, constant, element_of, is_float, only_producer, producer, scalar_of
from .views import VIEW_OPS, viewed


class Scaled(NamedTuple):
    """A value times a number."""

    value: SSAValue
    scale: float


def scaled(value: SSAValue) -> Scaled:
    """A value without the numbers that it is multiplied with or divided by."""
    scale = 1.0
    while True:
        product = only_producer(value, onnx.MulOp, onnx.DivOp)
        if product is None:
            return Scaled(value, scale)
        left, right = product.operands
        factor = scalar_of(right)
        if factor is not None and left.type == value.type and factor != 0:
            value, scale = left, scale * factor if isinstance(product, onnx.MulOp) else scale / factor
            continue
        factor = scalar_of(left) if isinstance(product, onnx.MulOp) else None
        if factor is None or right.type != value.type:
            return Scaled(value, scale)
        value, scale = right, scale * factor


class Scores(NamedTuple):
    """What the softmax is taken of: scale * q k^T + masks, or with some of them masked; k^T being given.

    With a `cap` c the products are c * tanh(scale * q k^T / c).  `value` has the shape that masks are broadcast to:
    [batch, heads, rows, keys] also where the products have batch and heads in one axis.
    """

    value: SSAValue
    query: SSAValue
    keys: SSAValue
    scale: float
    masks: tuple[SSAValue, ...]
    masked: Masked | None
    cap: float


class Products(NamedTuple):
    """scale * q k^T, or c * tanh(scale * q k^T / c) with a `cap` c."""

    matmul: onnx.MatMulOp
    scale: float
    cap: float


def products_of(value: SSAValue) -> Products | None:
    """A value as products of rows with a scale, perhaps capped softly."""
    inner, scale = scaled(value)
    tanh, cap = only_producer(inner, onnx.TanhOp), 0.0
    if tanh is not None:
        inner, cap = tanh.operands[0], scale
        inner, scale = scaled(inner)
        scale *= cap
    view = only_producer(inner, *VIEW_OPS)
    if view is not None and joins_heads(view.results[0], view.operands[0]):
        inner, factor = scaled(view.operands[0])
        scale *= factor
    product = only_producer(inner, onnx.MatMulOp)
    return Products(product, scale, cap) if product is not None and cap >= 0 else None


def joins_heads(apart: SSAValue, joined: SSAValue) -> bool:
    """Whether [batch, heads, rows, size] and [batch * heads, rows, size] are shapes of the same elements."""
    four, three = dims_of(apart), dims_of(joined)
    return len(four) == 4 and tuple(three) == (four[0] * four[1], *four[2:])


def with_heads(value: SSAValue) -> SSAValue:
    """x [batch, heads, rows, keys] of a view of it as [batch * heads, rows, keys] that nothing else reads."""
    view = only_producer(value, *VIEW_OPS)
    return view.operands[0] if view is not None and joins_heads(view.operands[0], value) else value


MOST_MASKS = 3


def without_masks(value: SSAValue, most: int = MOST_MASKS) -> tuple[Products, tuple[SSAValue, ...]] | None:
    """Products, and what is added to them; None where a value is no such sum."""
    products = products_of(value)
    if products is not None:
        return products, ()
    added = only_producer(value, onnx.AddOp) if most else None
    if added is None:
        return None
    for inner, other in (added.operands[:2], added.operands[1::-1]):
        found = without_masks(inner, most - 1) if inner.type == value.type else None
        if found is not None:
            return found[0], (*found[1], other)
    return None


def scores_of(value: SSAValue) -> Scores | None:
    """A softmax's operand as scores; None where it is no product."""
    value = with_heads(value)
    hidden = masked(value)
    found = without_masks(value if hidden is None else hidden.scores)
    if found is None:
        return None
    products, masks = found
    query, keys = map(scaled, products.matmul.operands)
    scale = products.scale * query.scale * keys.scale
    return Scores(value, query.value, keys.value, scale, masks, hidden, products.cap)


class Softmaxed(NamedTuple):
    """What the values are multiplied with: softmax of `scores`, computed in f32 where `widened`."""

    scores: SSAValue
    widened: bool


def softmaxed(weights: SSAValue) -> Softmaxed | None:
    """The softmax along the last axis that gives the weights, perhaps with 0 for NaN, perhaps in f32 for halves."""
    weights = with_heads(weights)
    chosen = only_producer(weights, onnx.WhereOp)
    if chosen is not None:
        condition, zero, inner = chosen.operands
        tested = only_producer(condition, onnx.IsNaNOp)
        if tested is None or tested.operands[0] is not inner or scalar_of(zero) != 0:
            return None
        if inner.uses.get_length() != 2 or inner.type != weights.type:
            return None
        softmax = producer(inner, onnx.SoftmaxOp)
        narrowed = None
    else:
        narrowed = only_producer(weights, onnx.CastOp)
        softmax = only_producer(narrowed.operands[0] if narrowed is not None else weights, onnx.SoftmaxOp)
    if softmax is None or onnx.attr(softmax, "axis") not in (-1, len(dims_of(weights)) - 1):
        return None
    scores = softmax.operands[0]
    if narrowed is None:
        return Softmaxed(scores, False)
    wide = only_producer(scores, onnx.CastOp)
    if wide is None or element_of(scores) != f32 or element_of(wide.operands[0]) != element_of(weights):
        return None
    return Softmaxed(wide.operands[0], True)


@dataclass(frozen=True)
class RecognizeAttention(Rule):
    """MatMul(Softmax(s * MatMul(q, Transpose(k)) + mask), v)  ->  Attention(q, k, v, mask) {scale = s}

    Of four axes [batch, heads, rows, size], or of three without heads, or of [batch * heads, rows, size] where masks
    are added to, or the softmax is taken of, [batch, heads, rows, keys]; k^T may be given as such. The scale may stand
    at the scores, at q, at k, or at both. Several masks are one, their sum. Where(condition, scores, -inf) is a mask,
    too, and one that keeps what is on and below the diagonal of a square is `is_causal`; c * tanh(scores / c) is a
    `softcap`. A row that may attend to no key is NaN as
    before (`EMPTY_ROWS`); in a file, which cannot say so, it is 0. Declines when something else reads the scores
    or the weights, where heads or batch broadcast, for a scale that is not positive, and where the mask does not
    broadcast to the scores.
    """

    weights: WeightStore
    for_file: bool

    root = onnx.MatMulOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        weights, values = op.operands
        rank = len(dims_of(weights))
        if not is_float(weights) or rank not in (3, 4) or len(dims_of(values)) != rank:
            return
        softmax = softmaxed(weights)
        scores = scores_of(softmax.scores) if softmax is not None else None
        if softmax is None or scores is None or scores.scale <= 0:
            return
        query, keys = scores.query, transposed(scores.keys)
        if not fits(query, keys, values, weights):
            return
        shape = dims_of(scores.value)
        heads = shape[:2] if len(shape) > rank else None
        if heads is not None and self.for_file:
            return  # the views would cost more than they save
        causal = self.is_causal(scores, shape)
        if not causal and not fits_masks(scores, self.for_file):
            return
        if not rewriter.may_make(onnx.AttentionOp) or (scores.cap and self.for_file):
            return  # versions of the operator differ in what comes first, the cap or the mask
        attributes: dict[str, object] = {"scale": scores.scale}
        if scores.cap:
            attributes["softcap"] = scores.cap
        if causal:
            attributes["is_causal"] = 1
        if softmax.widened:
            attributes["softmax_precision"] = onnx.ELEMENT_CODES[f32]
        if len(shape) == 3:
            attributes |= {"q_num_heads": 1, "kv_num_heads": 1}
        mask = None if causal else self.mask_of(scores, rewriter)
        operands = [apart(x, heads, rewriter) for x in (query, keys.inserted(rewriter), values)]
        y = op.results[0].type if heads is None else like(values, [*shape[:3], dims_of(values)[-1]])
        attention = onnx.AttentionOp.make([*operands, mask], attributes, [y])
        if mask is not None and not self.for_file:
            attention.attributes[onnx.EMPTY_ROWS] = StringAttr("nan")
            if dims_of(mask)[-1] is not shape[-1]:
                attention.attributes[onnx.SHARED_KEY] = UnitAttr()
        if heads is None:
            rewriter.replace(op, attention)
            return
        view = viewed(rewriter.insert(attention).results[0], op.results[0].type, Facts(), rewriter, computed=True)
        assert view is not None
        rewriter.replace(op, view)

    def is_causal(self, scores: Scores, shape: Sequence[Dim]) -> bool:
        """Whether each query attends to the keys up to its own position, of as many keys as queries."""
        if shape[-1] is not shape[-2]:
            return False
        if scores.masked is not None:
            kept = triangle(scores.masked.condition, self.weights)
            return not scores.masks and kept is not None and kept is not scores.masked.where
        return len(scores.masks) == 1 and is_causal_bias(scores.masks[0], self.weights)

    def mask_of(self, scores: Scores, rewriter: PatternRewriter) -> SSAValue | None:
        """The mask operand: the sum of what is added, and of what may be attended to."""
        mask: SSAValue | None = None
        for part in scores.masks:
            mask = part if mask is None else added(mask, part, rewriter)
        if scores.masked is not None:
            mask = self.hiding(scores.masked, mask, scores.query, rewriter)
        if mask is None:
            return None
        rank = len(dims_of(scores.value))
        if rank == 3 and len(dims_of(mask)) == 3:  # its first axis is the batch's, not that of heads
            shape = dims_of(mask)
            type_ = like(mask, [shape[0], 1, *shape[1:]])
            mask = rewriter.insert(onnx.UnsqueezeOp.make([mask, axes_constant([1], rewriter)], {}, [type_])).results[0]
        return with_rows(mask, dims_of(scores.value)[-2], rewriter) if self.for_file else mask

    def hiding(self, hidden: Masked, mask: SSAValue | None, query: SSAValue, rewriter: PatternRewriter) -> SSAValue:
        """A mask, or none, with the number that is put in place of a score where scores are hidden."""
        condition, element = hidden.condition, element_of(query)
        if mask is None and np.isinf(hidden.fill):
            if not hidden.where:
                return condition
            return rewriter.insert(onnx.NotOp.make([condition], {}, [condition.type])).results[0]
        dtype = onnx.numpy_dtype(element)
        low = constant(np.array(hidden.fill, dtype), rewriter, self.weights)
        other = constant(np.array(0.0, dtype), rewriter, self.weights) if mask is None else mask
        shape = broadcast_dims(dims_of(condition), dims_of(other))
        operands = [condition, low, other] if hidden.where else [condition, other, low]
        return rewriter.insert(onnx.WhereOp.make(operands, {}, [tensor_type(element, shape)])).results[0]


def like(value: SSAValue, shape: Sequence[Dim | int]) -> Attribute:
    """The type of a tensor with the elements of a value's type."""
    return tensor_type(element_of(value), shape)


def apart(value: SSAValue, heads: Sequence[Dim] | None, rewriter: PatternRewriter) -> SSAValue:
    """[batch * heads, rows, size] as [batch, heads, rows, size]; the value itself where no heads are given."""
    if heads is None:
        return value
    view = viewed(value, like(value, [*heads, *dims_of(value)[1:]]), Facts(), rewriter, computed=True)
    assert view is not None
    return rewriter.insert(view).results[0]


def added(left: SSAValue, right: SSAValue, rewriter: PatternRewriter) -> SSAValue:
    type_ = like(left, broadcast_dims(dims_of(left), dims_of(right)))
    return rewriter.insert(onnx.AddOp.make([left, right], {}, [type_])).results[0]


def broadcast_dims(left: Sequence[Dim], right: Sequence[Dim]) -> list[Dim]:
    """The sizes that two shapes broadcast to, of which each axis is 1 or that of the scores."""
    rank = max(len(left), len(right))
    one = as_dim(1)
    padded = ([one] * (rank - len(shape)) + list(shape) for shape in (left, right))
    return [b if a is one else a for a, b in zip(*padded, strict=True)]


class Turned(NamedTuple):
    """A tensor whose transpose is wanted, as a source, the permutation that gives the transpose, and the transpose's
    sizes: other leading axes, where it is also reshaped."""

    source: SSAValue
    perm: list[int]
    shape: list[Dim]

    def inserted(self, rewriter: PatternRewriter) -> SSAValue:
        """The transpose as a value."""
        value, shape = self.source, [dims_of(self.source)[axis] for axis in self.perm]
        if self.perm != sorted(self.perm):
            type_ = tensor_type(element_of(value), shape)
            value = rewriter.insert(onnx.TransposeOp.make([value], {"perm": self.perm}, [type_])).results[0]
        if shape == self.shape:
            return value
        view = viewed(value, tensor_type(element_of(value), self.shape), Facts(), rewriter, computed=True)
        assert view is not None
        return rewriter.insert(view).results[0]


def transposed(value: SSAValue) -> Turned:
    """k of Transpose(k), with the last two axes exchanged; the value itself where it is no transpose.

    A view may follow that leaves the last two axes as they are.
    """
    given = value
    shape = list(dims_of(value))
    view = only_producer(value, onnx.ReshapeOp, onnx.UnsqueezeOp, onnx.SqueezeOp)
    if view is not None and list(dims_of(view.operands[0])[-2:]) == shape[-2:]:
        value = view.operands[0]
    inner = producer(value, onnx.TransposeOp)
    if inner is None:
        perm = list(range(len(shape)))
        return Turned(given, [*perm[:-2], perm[-1], perm[-2]], [*shape[:-2], shape[-1], shape[-2]])
    perm = permutation(inner)
    return Turned(inner.operands[0], [*perm[:-2], perm[-1], perm[-2]], [*shape[:-2], shape[-1], shape[-2]])


def with_rows(mask: SSAValue, rows: Dim, rewriter: PatternRewriter) -> SSAValue:
    """A mask with a row for each query: other runtimes do not broadcast that axis."""
    shape = dims_of(mask)
    if shape[-2] is rows:
        return mask
    full = [*shape[:-2], rows, shape[-1]]
    sizes = rewriter.insert(dims.TensorOp(full, tensor_type(i64, [len(full)]))).results[0]
    return rewriter.insert(onnx.ExpandOp.make([mask, sizes], {}, [tensor_type(element_of(mask), full)])).results[0]


def fits(query: SSAValue, keys: Turned, values: SSAValue, scores: SSAValue) -> bool:
    """Whether the operands are as Attention wants them."""
    q, k, v, s = dims_of(query), keys.shape, dims_of(values), dims_of(scores)
    rank = len(s)
    if len(q) != rank or len(k) != rank or v[-2] is not k[-2] or q[-1] is not k[-1]:
        return False
    if any(d is not e or d is not f for d, e, f in zip(q[:-2], k[:-2], v[:-2], strict=True)):
        return False
    return all(element_of(x) == element_of(query) for x in (keys.source, values))


def fits_masks(scores: Scores, for_file: bool) -> bool:
    """Whether what is added to the scores, and where they are left out, can be the mask operand."""
    hidden, shape = scores.masked, dims_of(scores.value)
    narrow = any(element_of(value) not in FLOATS[2:] for value in (scores.query, scores.value))
    if hidden is not None and not np.isinf(hidden.fill) and narrow:
        return False  # what is added to a half must not round: only a wider sum with so low a number is that number
    if any(element_of(mask) != element_of(scores.query) for mask in scores.masks):
        return False
    parts = [dims_of(part) for part in (*scores.masks, *(() if hidden is None else (hidden.condition,)))]
    if not parts:
        return True
    full: list[Dim] = []
    for part in parts:
        if not fits_scores(part, shape, for_file):
            return False
        full = broadcast_dims(full, part)
    # a short last axis would be filled up with minus infinity
    return len(full) >= 2 and is_same(full[-1], shape[-1], for_file)


def fits_scores(mask: Sequence[Dim], scores: Sequence[Dim], for_file: bool) -> bool:
    """Whether a mask broadcasts to the scores, whatever the sizes are.

    It does where it was added, so that its rows are one or as many as those of the scores: a part of a table that
    begins at a size has an expression of its own for them.
    """
    if len(mask) > len(scores):
        return False
    tail = scores[len(scores) - len(mask) :]
    rows = len(mask) - 2
    return all(
        m is as_dim(1) or is_same(m, n, for_file) or (axis == rows and not for_file)
        for axis, (m, n) in enumerate(zip(mask, tail, strict=True))
    )


def is_same(size: Dim, other: Dim, for_file: bool) -> bool:
    """Whether sizes that broadcast are equal; one may be the other, cut to the length of a table."""
    return size is other or (not for_file and cuts_size(size, other))


class ShareHeads(Rule):
    """Attention(q, repeat(k, n), repeat(v, n))  ->  Attention(q, k, v), whose heads are shared by n heads of q each

    Where each head of keys and of values is repeated n times, as Unsqueeze, Expand and Reshape do it.  Declines where
    keys are repeated and values are not, or not as often.
    """

    root = onnx.AttentionOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        attention = cast(onnx.AttentionOp, op)
        if len(attention.results) > 1 or any(attention.operand_at(i) is not None for i in (4, 5, 6)):
            return
        keys, values = (repeated(o) for o in op.operands[1:3])
        if keys is None or values is None or dims_of(keys)[1] is not dims_of(values)[1]:
            return
        shared_heads = (once(apart, rewriter) for apart in (keys, values))
        operands = [op.operands[0], *shared_heads, attention.operand_at(3)]
        shared = onnx.AttentionOp.make(operands, attributes_of(attention), [op.results[0].type])
        for said in (onnx.EMPTY_ROWS, onnx.SHARED_KEY):
            if said in op.attributes:
                shared.attributes[said] = op.attributes[said]
        rewriter.replace(op, shared)


def repeated(value: SSAValue) -> SSAValue | None:
    """x [batch, heads, 1, rows, size] of [batch, heads * n, rows, size] in which each head stands n times in a row."""
    joined = producer(value, *VIEW_OPS)
    spread = producer(joined.operands[0], onnx.ExpandOp) if joined is not None and is_view(joined) else None
    if spread is None:
        return None
    apart = spread.operands[0]
    x, many, y = dims_of(apart), dims_of(spread.results[0]), dims_of(value)
    if len(x) != 5 or len(many) != 5 or x[2] is not as_dim(1) or (*many[:2], *many[3:]) != (*x[:2], *x[3:]):
        return None
    return apart if tuple(y) == (x[0], x[1] * many[2], x[3], x[4]) else None


def once(apart: SSAValue, rewriter: PatternRewriter) -> SSAValue:
    """[batch, heads, 1, rows, size] as [batch, heads, rows, size]."""
    batch, heads, _, *row = dims_of(apart)
    view = producer(apart, *VIEW_OPS)
    if view is not None and is_view(view) and tuple(dims_of(view.operands[0])) == (batch, heads, *row):
        return view.operands[0]
    type_ = like(apart, [batch, heads, *row])
    return rewriter.insert(onnx.SqueezeOp.make([apart, axes_constant([2], rewriter)], {}, [type_])).results[0]
