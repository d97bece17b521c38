"""Attention as runtimes have it: projections, biases, masks of several forms and caches around ONNX's `Attention`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim, dims_of
from ..node_builder import Results
from .expansion import Expansion, Rule
from .grouped_attention import group_query_attention
from .quantized import scaled_product

MASK_VALUE = -10000.0


@dataclass(frozen=True)
class Heads:
    """Queries, keys and values [batch, length, heads * size], keys and values that came before [batch, heads, ...]."""

    count: int
    q: SSAValue
    k: SSAValue
    v: SSAValue
    past_k: SSAValue | None = None
    past_v: SSAValue | None = None


def attend(b: Expansion, heads: Heads, mask: SSAValue | None, present: bool) -> Results:
    """Y [batch, length, heads * size], and where wanted the keys and values with those that came before."""
    scale = b.attr("scale", 0.0)
    causal, mask = causality(b, heads, mask)
    attributes = {
        "q_num_heads": heads.count,
        "kv_num_heads": heads.count,
        "is_causal": int(causal),
        "scale": scale or None,
    }
    operands = [heads.q, heads.k, heads.v, mask, heads.past_k, heads.past_v]
    if heads.past_k is None:
        y = b.value(onnx.AttentionOp, *operands[:4], attributes=attributes)
        return [y, *(apart(b, x, heads.count) if present else None for x in (heads.k, heads.v))]
    return b.several(onnx.AttentionOp, operands, [True] * 3, attributes)


def causality(b: Expansion, heads: Heads, mask: SSAValue | None) -> tuple[bool, SSAValue | None]:
    """Whether queries see no later keys, and what is added to the scores for it.

    The last query sees all keys, as it does anyway unless there are others than those of the queries and before.
    """
    queries, keys = dims_of(heads.q)[1], dims_of(heads.k)[1]
    if not b.attr("unidirectional", 0):
        return False, mask
    if heads.past_k is not None or queries is keys:
        return True, mask
    q, k = (b.value(onnx.RangeOp, b.ints(0), b.scalar(b.size_of(x, 1)), b.ints(1)) for x in (heads.q, heads.k))
    of_queries = b.unsqueezed(q, 1)
    is_last = b.value(onnx.EqualOp, of_queries, b.sub(b.size_of(heads.q, 1), b.ints([1])))
    seen = b.value(onnx.OrOp, b.value(onnx.LessOrEqualOp, k, of_queries), is_last)
    unseen = b.value(onnx.WhereOp, seen, b.number(0, heads.q), b.number(-np.inf, heads.q))
    return False, unseen if mask is None else b.add(mask, unseen)


def apart(b: Expansion, x: SSAValue, count: int) -> SSAValue:
    """[batch, length, heads * size] as [batch, heads, length, size]."""
    return b.transposed(b.reshaped(x, [0, 0, count, -1]), [0, 2, 1, 3])


def joined(b: Expansion, x: SSAValue) -> SSAValue:
    """[batch, heads, length, size] as [batch, length, heads * size]."""
    return b.reshaped(b.transposed(x, [0, 2, 1, 3]), [0, 0, -1])


# Masks


def total_length(b: Expansion, heads: Heads) -> SSAValue:
    """The number of keys, a vector of one element."""
    length = b.size_of(heads.k, 1)
    return length if heads.past_k is None else b.add(b.size_of(heads.past_k, 2), length)


def added_mask(b: Expansion, heads: Heads, mask: SSAValue | None, bias: SSAValue | None) -> SSAValue | None:
    """What is added to the scores: the bias, and `mask_filter_value` where the mask says so."""
    if mask is None:
        return bias
    allowed = allowed_keys(b, heads, mask)
    zero, fill = b.number(0, heads.q), b.number(b.attr("mask_filter_value", MASK_VALUE), heads.q)
    found = b.value(onnx.WhereOp, allowed, zero, fill)
    return found if bias is None else b.add(found, bias)


def allowed_keys(b: Expansion, heads: Heads, mask: SSAValue) -> SSAValue:
    """Which keys a query sees, by a mask of ones, by the lengths of the samples, or by their ends and starts."""
    rank = b.rank(mask)
    if rank in (2, 3):
        return b.unsqueezed(b.value(onnx.GreaterOp, mask, b.number(0, mask)), *((1, 2) if rank == 2 else (1,)))
    if rank != 1:
        raise b.unsupported(f"a mask of rank {rank} is not supported")
    keys = b.value(onnx.RangeOp, b.ints(0), b.scalar(total_length(b, heads)), b.ints(1))
    ends, starts = bounds_of(b, heads, b.cast(mask, i64), dims_of(heads.q)[0], dims_of(mask)[0])
    inside = b.value(onnx.LessOp, keys, b.unsqueezed(ends, 1))
    if starts is not None:
        inside = b.value(onnx.AndOp, inside, b.value(onnx.GreaterOrEqualOp, keys, b.unsqueezed(starts, 1)))
    return b.unsqueezed(inside, 1, 2)


def bounds_of(b: Expansion, heads: Heads, mask: SSAValue, batch: Dim, count: Dim) -> tuple[SSAValue, SSAValue | None]:
    """The end of each sample's keys, and the starts that stand behind the ends where there are any."""
    if count is batch:
        return mask, None
    if count is not batch * 2:
        if batch.is_const and count.is_const:
            raise b.unsupported(f"a mask of {count} elements for {batch} samples is not supported")
        rows = b.value(onnx.ReshapeOp, mask, b.concat([b.ints([-1]), b.size_of(heads.q, 0)], 0))
        missing = b.sub(b.ints([2]), b.size_of(rows, 0))  # without starts they are 0
        mask = b.value(onnx.PadOp, rows, b.concat([b.ints([0, 0]), missing, b.ints([0])], 0))
        ends, starts = (b.squeezed(part, 0) for part in b.split(mask, 0, 2))
        return ends, starts
    ends, starts = b.split(mask, 0, 2)
    return ends, starts


# The operators

COMMON = ("mask_filter_value", "num_heads", "scale", "unidirectional")


def attention(b: Expansion) -> Results:
    """Of x weights + bias, split into queries, keys and values; `past` and `present` are keys and values in one."""
    b.known(*COMMON, "do_rotary", "past_present_share_buffer", "qkv_hidden_sizes", "rotary_embedding_dim")
    b.only("do_rotary", 0)
    b.only("past_present_share_buffer", 0)
    b.absent(past_sequence_length=6)
    projected = b.biased(b.value(onnx.MatMulOp, b.x(0), b.x(1)), b.at(2))
    sizes = b.attr("qkv_hidden_sizes")
    parts = b.split(projected, 2, b.ints(sizes) if sizes else 3)
    return _self_attention(b, parts, mask=3, past=4, bias=5)


def qattention(b: Expansion) -> Results:
    """Attention with x and the weights quantized."""
    b.known(*COMMON, "do_rotary", "past_present_share_buffer")
    b.only("do_rotary", 0)
    b.only("past_present_share_buffer", 0)
    scale = b.mul(b.scalar(b.x(3)), b.x(4))
    projected = scaled_product(b, (b.x(0), b.x(1)), (b.at(6), b.at(7)), scale, b.x(2))
    return _self_attention(b, b.split(projected, 2, 3), mask=5, past=8)


def _self_attention(b: Expansion, parts: list[SSAValue], mask: int, past: int, bias: int = 99) -> Results:
    q, k, v = parts
    before: list[SSAValue] | list[None] = [None, None]
    if b.at(past) is not None:
        before = [b.squeezed(part, 0) for part in b.split(b.x(past), 0, 2)]
    heads = Heads(b.attr("num_heads"), q, k, v, *before)
    y, keys, values = attend(b, heads, added_mask(b, heads, b.at(mask), b.at(bias)), b.used(1))
    if not b.used(1):
        return [y, None]
    assert keys is not None and values is not None
    return [y, b.concat([b.unsqueezed(keys, 0), b.unsqueezed(values, 0)], 0)]


def multi_head_attention(b: Expansion) -> Results:
    """Of queries, keys and values that are given apart, packed, or (keys and values) by heads already."""
    b.known(*COMMON)
    b.absent(past_sequence_length=8, cache_indirection=9)
    b.no_result(qk=3)
    b.ranked()
    count = b.attr("num_heads")
    q, k, v = _given(b, count)
    if b.at(3) is not None:
        q, k, v = _with_biases(b, q, k, v, b.x(3))
    heads = Heads(count, q, k, v, b.at(6), b.at(7))
    mask = added_mask(b, heads, b.at(4), b.at(5))
    return [*attend(b, heads, mask, b.used(1) or b.used(2)), None]


def _given(b: Expansion, count: int) -> tuple[SSAValue, SSAValue, SSAValue]:
    q, k, v = b.x(0), b.at(1), b.at(2)
    if k is None:
        q, k, v = _unpacked(b, q, 3)
    elif v is None:
        k, v = _unpacked(b, k, 2)
    if b.rank(k) == 4:
        k = joined(b, k)
    if b.rank(v) == 4:
        v = joined(b, v)
    return q, k, v


def _unpacked(b: Expansion, x: SSAValue, parts: int) -> list[SSAValue]:
    """[batch, length, heads, parts, size] as so many tensors."""
    if b.rank(x) != 5:
        raise b.unsupported(f"packed heads of rank {b.rank(x)} are not supported")
    return [b.reshaped(b.squeezed(part, 3), [0, 0, -1]) for part in b.split(x, 3, parts)]


def _with_biases(b: Expansion, q: SSAValue, k: SSAValue, v: SSAValue, bias: SSAValue) -> list[SSAValue]:
    sizes = b.concat([b.size_of(x, 2) for x in (q, k, v)], 0)
    found = [b.size(x, 2) for x in (q, k, v)]
    parts = b.ints([n for n in found if n is not None]) if None not in found else sizes
    return [b.add(x, part) for x, part in zip((q, k, v), b.split(bias, 0, parts))]


def rotary_embedding(b: Expansion) -> Results:
    """RotaryEmbedding, whose positions may be one offset, and which may leave the number of heads to the angles.

    Its attribute `scale` is read by no implementation.
    """
    b.known("interleaved", "is_packed_batching", "num_heads", "rotary_embedding_dim", "scale")
    b.only("is_packed_batching", 0)
    x, positions = b.x(0), b.x(1)
    rank = b.rank(x)
    if b.rank(positions) == 1:
        places = b.value(onnx.RangeOp, b.ints(0), b.scalar(b.size_of(x, 1 if rank == 3 else 2)), b.ints(1))
        batch_and_length = b.concat([b.size_of(x, 0), b.ints([-1])], 0)
        offsets = b.value(onnx.ExpandOp, b.unsqueezed(b.add(places, positions), 0),
                          b.concat([b.size_of(x, 0), b.ints([1])], 0))  # fmt: skip
        positions = b.value(onnx.ReshapeOp, offsets, batch_and_length)
    attributes = {
        "interleaved": b.attr("interleaved", 0),
        "rotary_embedding_dim": b.attr("rotary_embedding_dim", 0),
        "num_heads": b.attr("num_heads", 0),
    }
    heads = _in_heads_by_angles(b, x) if rank == 3 and not attributes["num_heads"] else x
    y = b.value(onnx.RotaryEmbeddingOp, heads, b.x(2), b.x(3), positions, attributes=attributes)
    if heads is x:
        return [y]
    return [b.value(onnx.ReshapeOp, b.transposed(y, (0, 2, 1, 3)), b.shape(x), attributes={"allowzero": 1})]


def _in_heads_by_angles(b: Expansion, x: SSAValue) -> SSAValue:
    """x [B, S, hidden] as [B, heads, S, size], where a head has two elements for each angle."""
    size = b.mul(b.size_of(b.x(2), 1), b.ints([2]))
    sizes = b.concat([b.size_of(x, 0), b.size_of(x, 1), b.value(onnx.DivOp, b.size_of(x, 2), size), size], 0)
    return b.transposed(b.value(onnx.ReshapeOp, x, sizes, attributes={"allowzero": 1}), (0, 2, 1, 3))


def relative_position_bias(b: Expansion) -> Results:
    """The table's entry for each head and the bucket of each distance, as T5 has them."""
    b.known("is_bidirectional", "max_distance")
    table, both = b.x(0), bool(b.attr("is_bidirectional", 0))
    buckets, furthest = b.size(table, 0), b.attr("max_distance")
    if buckets is None:
        raise b.unsupported("the number of buckets is no number")
    queries, keys = (b.value(onnx.RangeOp, b.ints(0), b.scalar(b.x(k)), b.ints(1)) for k in (1, 2))
    distance = b.sub(b.unsqueezed(keys, 0), b.unsqueezed(queries, 1))
    start = b.ints(0)
    if both:
        buckets //= 2
        after = b.cast(b.value(onnx.GreaterOp, distance, b.ints(0)), i64)
        start, distance = b.mul(after, b.ints(buckets)), b.value(onnx.AbsOp, distance)
    else:
        distance = b.value(onnx.MaxOp, b.value(onnx.NegOp, distance), b.ints(0))
    exact = buckets // 2
    ratio = b.value(onnx.DivOp, b.value(onnx.CastLikeOp, b.value(onnx.MaxOp, distance, b.ints(1)), table),
                    b.number(exact, table))  # fmt: skip
    factor = (buckets - exact) / float(np.log(furthest / exact))
    steps = b.cast(b.mul(b.value(onnx.LogOp, ratio), b.number(factor, table)), i64)
    large = b.value(onnx.MinOp, b.add(steps, b.ints(exact)), b.ints(buckets - 1))
    bucket = b.value(onnx.WhereOp, b.value(onnx.LessOp, distance, b.ints(exact)), distance, large)
    found = b.value(onnx.GatherOp, table, b.add(start, bucket))
    return [b.unsqueezed(b.transposed(found, [2, 0, 1]), 0)]


ATTENTION: Mapping[str, Rule] = {
    "Attention": attention,
    "GroupQueryAttention": group_query_attention,
    "MultiHeadAttention": multi_head_attention,
    "QAttention": qattention,
    "RelativePositionBias": relative_position_bias,
    "RotaryEmbedding": rotary_embedding,
}
