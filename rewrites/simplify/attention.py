"""Attention and rotary embeddings recognized from what exporters write for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim, as_dim, dims_of, tensor_type
from ...semantics.facts import Facts
from ..constants import attributes_of
from ..driver import PatternRewriter
from .movement import Part, part_of, permutation
from .rule import Rule, axes_constant, element_of, is_float, only_producer, producer, scalar_of
from .views import viewed


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
    """What the softmax is taken of: scale * q k^T + mask, k^T being given."""

    query: SSAValue
    keys: SSAValue
    scale: float
    mask: SSAValue | None


def scores_of(value: SSAValue) -> Scores | None:
    """A softmax's operand as scores; None where it is no product."""
    mask: SSAValue | None = None
    added = only_producer(value, onnx.AddOp)
    if added is not None:
        for inner, other in (added.operands[:2], added.operands[1::-1]):
            if only_producer(scaled(inner).value, onnx.MatMulOp) is not None and inner.type == value.type:
                value, mask = inner, other
                break
        else:
            return None
    inner, scale = scaled(value)
    product = only_producer(inner, onnx.MatMulOp)
    if product is None:
        return None
    query, keys = scaled(product.operands[0]), scaled(product.operands[1])
    return Scores(query.value, keys.value, scale * query.scale * keys.scale, mask)


class Softmaxed(NamedTuple):
    """What the values are multiplied with: softmax of `scores`, computed in f32 where `widened`."""

    scores: SSAValue
    widened: bool


def softmaxed(weights: SSAValue) -> Softmaxed | None:
    """The softmax along the last axis that gives the weights, perhaps with 0 for NaN, perhaps in f32 for halves."""
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


class RecognizeAttention(Rule):
    """MatMul(Softmax(s * MatMul(q, Transpose(k)) + mask), v)  ->  Attention(q, k, v, mask) {scale = s}

    Of four axes [batch, heads, rows, size], or of three without heads.  The scale may stand at the scores, at q, at k,
    or at both.  A row that may attend to no key is 0 afterwards, not NaN.  Declines when something else reads the
    scores or the weights, where k is not transposed, where heads or batch broadcast, for a scale that is not positive,
    and where the mask does not broadcast to the scores.
    """

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
        if keys is None or not fits(query, keys, values, scores.mask, softmax.scores):
            return
        if not rewriter.may_make(onnx.AttentionOp):
            return
        attributes: dict[str, object] = {"scale": scores.scale}
        if softmax.widened:
            attributes["softmax_precision"] = onnx.ELEMENT_CODES[f32]
        if rank == 3:
            attributes |= {"q_num_heads": 1, "kv_num_heads": 1}
        operands = [query, keys.inserted(rewriter), values, scores.mask]
        rewriter.replace(op, onnx.AttentionOp.make(operands, attributes, [op.results[0].type]))


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


def transposed(value: SSAValue) -> Turned | None:
    """k of Transpose(k), with the last two axes exchanged; None where the value is no transpose.

    A view may follow that leaves the last two axes as they are.
    """
    shape = list(dims_of(value))
    view = only_producer(value, onnx.ReshapeOp, onnx.UnsqueezeOp, onnx.SqueezeOp)
    if view is not None and list(dims_of(view.operands[0])[-2:]) == shape[-2:]:
        value = view.operands[0]
    inner = producer(value, onnx.TransposeOp)
    if inner is None:
        return None
    perm = permutation(inner)
    return Turned(inner.operands[0], [*perm[:-2], perm[-1], perm[-2]], [*shape[:-2], shape[-1], shape[-2]])


def fits(query: SSAValue, keys: Turned, values: SSAValue, mask: SSAValue | None, scores: SSAValue) -> bool:
    """Whether the operands are as Attention wants them."""
    q, k, v, s = dims_of(query), keys.shape, dims_of(values), dims_of(scores)
    rank = len(s)
    if len(q) != rank or len(k) != rank or v[-2] is not k[-2] or q[-1] is not k[-1]:
        return False
    if any(d is not e or d is not f for d, e, f in zip(q[:-2], k[:-2], v[:-2], strict=True)):
        return False
    if any(element_of(x) != element_of(query) for x in (keys.source, values)):
        return False
    return mask is None or fits_scores(mask, query, s)


def fits_scores(mask: SSAValue, query: SSAValue, scores: Sequence[Dim]) -> bool:
    """Whether a mask broadcasts to the scores, whatever the sizes are."""
    shape = dims_of(mask)
    if element_of(mask) != element_of(query) or not 2 <= len(shape) <= (4 if len(scores) == 4 else 2):
        return False
    tail = scores[len(scores) - len(shape) :]
    if shape[-1] is not tail[-1]:
        return False  # a short last axis would be filled up with minus infinity
    return all(m is n or m is as_dim(1) for m, n in zip(shape, tail, strict=True))


class RecognizeRotary(Rule):
    """Add(Mul(x, c), Mul(Concat(Neg(x2), x1), s))  ->  RotaryEmbedding(x, c[..., :n], s[..., :n]), x1 and x2 x's halves

    Of x [batch, heads, rows, size] and cosines and sines [batch, 1, rows, size] whose two halves are equal: made from
    Concat(a, a) by pointwise operators.  Declines where that is not so.
    """

    root = onnx.AddOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        products = [only_producer(o, onnx.MulOp) for o in op.operands]
        if products[0] is None or products[1] is None or len(dims_of(op.results[0])) != 4:
            return
        for straight, turned in (products, products[::-1]):
            assert straight is not None and turned is not None
            for x, cosine in (straight.operands[:2], straight.operands[1::-1]):
                for half_turned, sine in (turned.operands[:2], turned.operands[1::-1]):
                    if (
                        x.type == op.results[0].type
                        and turns(half_turned, x)
                        and self.make(op, x, cosine, sine, rewriter)
                    ):
                        return

    def make(self, op: Operation, x: SSAValue, cosine: SSAValue, sine: SSAValue, rewriter: PatternRewriter) -> bool:
        shape = dims_of(x)
        size = shape[3]
        if not is_float(x) or not size.is_const or size.value % 2:
            return False
        one = as_dim(1)
        for angles in (cosine, sine):
            dims = dims_of(angles)
            if element_of(angles) != element_of(x) or len(dims) != 4 or dims[1] is not one:
                return False
            if dims[0] is not shape[0] or dims[2] is not shape[2] or not repeats_half(angles):
                return False
        if not rewriter.may_make(onnx.RotaryEmbeddingOp):
            return False
        caches = [cache(angles, rewriter) for angles in (cosine, sine)]
        rewriter.replace(op, onnx.RotaryEmbeddingOp.make([x, *caches], {}, [op.results[0].type]))
        return True


def cache(angles: SSAValue, rewriter: PatternRewriter) -> SSAValue:
    """The first half of [batch, 1, rows, size] as [batch, rows, size / 2]."""
    half = first_half(angles, rewriter)
    batch, _, rows, size = dims_of(half)
    type_ = tensor_type(element_of(half), [batch, rows, size])
    return rewriter.insert(onnx.SqueezeOp.make([half, axes_constant([1], rewriter)], {}, [type_])).results[0]


def turns(value: SSAValue, x: SSAValue) -> bool:
    """Whether a value is Concat(-x2, x1) along the last axis, x1 and x2 being the halves of x."""
    joined = only_producer(value, onnx.ConcatOp)
    rank = len(dims_of(x))
    if joined is None or len(joined.operands) != 2 or onnx.attr(joined, "axis") % rank != rank - 1:
        return False
    negated = only_producer(joined.operands[0], onnx.NegOp)
    if negated is None:
        return False
    second, first = part_of(negated.operands[0], rank - 1), part_of(joined.operands[1], rank - 1)
    return is_half(first, x, 0) and is_half(second, x, 1)


def is_half(part: Part | None, x: SSAValue, which: int) -> bool:
    """Whether a part is the first (0) or second (1) half of a tensor along its last axis."""
    size = dims_of(x)[-1]
    if part is None or part.source is not x or not size.is_const or size.value % 2:
        return False
    half = as_dim(size.value // 2)
    return part.length is half and part.start is (half if which else as_dim(0))


POINTWISE: tuple[type[onnx.OnnxOp], ...] = (
    onnx.CosOp, onnx.SinOp, onnx.CastOp, onnx.MulOp, onnx.UnsqueezeOp,
)  # fmt: skip


def repeats_half(value: SSAValue) -> bool:
    """Whether the two halves of a tensor along its last axis are equal for all data: Concat(a, a) at its source."""
    op = producer(value, *POINTWISE)
    if isinstance(op, onnx.UnsqueezeOp):
        source = dims_of(op.operands[0])
        return bool(source) and dims_of(value)[-1] is source[-1] and repeats_half(op.operands[0])
    if isinstance(op, onnx.MulOp):
        for inner, other in (op.operands[:2], op.operands[1::-1]):
            if scalar_of(other) is not None:
                return inner.type == value.type and repeats_half(inner)
        return False
    if op is not None:
        return repeats_half(op.operands[0])
    joined = producer(value, onnx.ConcatOp)
    if joined is None or len(joined.operands) != 2:
        return False
    rank = len(dims_of(value))
    return onnx.attr(joined, "axis") % rank == rank - 1 and joined.operands[0] is joined.operands[1]


def first_half(value: SSAValue, rewriter: PatternRewriter) -> SSAValue:
    """The first half along the last axis of a tensor that `repeats_half`, made without the other one."""
    op = producer(value, *POINTWISE)
    if op is None:
        joined = producer(value, onnx.ConcatOp)
        assert joined is not None
        return joined.operands[0]
    data = next(at for at, o in enumerate(op.operands) if scalar_of(o) is None)
    half = first_half(op.operands[data], rewriter)
    operands = [half if at == data else o for at, o in enumerate(op.formal_operands())]
    type_ = tensor_type(element_of(value), [*dims_of(value)[:-1], dims_of(half)[-1]])
    return rewriter.insert(type(op).make(operands, attributes_of(op), [type_])).results[0]
