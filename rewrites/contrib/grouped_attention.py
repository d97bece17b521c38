"""GroupQueryAttention: heads that share keys, a cache that is written in place, angles, windows and sinks.

`seqlens_k` is a sample's number of keys less one, `total_sequence_length` the greatest number of keys.  A call whose
queries are all of them is the first of a sequence, and writes from the cache's start; else a sample's queries are its
last keys.  Rows of queries behind a sample's end, and of the cache behind its keys, mean nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...dialects import onnx
from ..node_builder import Results
from .expansion import Expansion

KNOWN = (
    "causal", "do_rotary", "k_norm_epsilon", "k_quant_type", "kv_cache_bit_width", "kv_num_heads", "local_window_size",
    "num_heads", "q_norm_epsilon", "qk_norm_epsilon", "qk_output", "rotary_interleaved", "scale",
    "sliding_window_cache", "smooth_softmax", "softcap", "v_quant_type",
)  # fmt: skip
(QUERY, KEY, VALUE, PAST_K, PAST_V, LENGTHS, TOTAL, COSINES, SINES, POSITIONS, BIAS, SINK, K_SCALE, V_SCALE,
 Q_NORM, K_NORM, QUERY_LENGTHS) = range(17)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """Where a call stands in its sequences: numbers of int64."""

    first: SSAValue
    """[batch, 1]: how many keys of a sample came before."""
    positions: SSAValue
    """[batch, queries]: the place of each query in its sequence."""
    total: SSAValue
    """[1]: the greatest number of keys."""


def group_query_attention(b: Expansion) -> Results:
    """Y [batch, queries, heads * size], and the caches with the new keys and values."""
    b.known(*KNOWN)
    for name, value in (("k_quant_type", "NONE"), ("v_quant_type", "NONE"), ("sliding_window_cache", 0)):
        b.only(name, value)
    b.absent(k_scale=K_SCALE, v_scale=V_SCALE, query_seqlens=QUERY_LENGTHS)
    b.no_result(output_qk=3)
    heads, shared = b.attr("num_heads"), b.attr("kv_num_heads")
    q, k, v = given(b, heads, shared)
    step = step_of(b, q)
    q, k = _normalized(b, q, heads, Q_NORM, "q"), _normalized(b, k, shared, K_NORM, "k")
    if b.attr("do_rotary", 0):
        positions = step.positions if b.at(POSITIONS) is None else b.x(POSITIONS)
        angles = b.x(COSINES), b.x(SINES)
        q, k = turned(b, q, positions, heads, *angles), turned(b, k, positions, shared, *angles)
    keys, values = cached(b, apart(b, k, shared), PAST_K, step), cached(b, apart(b, v, shared), PAST_V, step)
    mask = seen(b, step, keys)
    attended_keys, attended_values = keys, values
    if b.attr("smooth_softmax", 0) or b.at(SINK) is not None:
        mask = with_sink(b, mask, q, heads)
        attended_keys, attended_values = (_with_empty_row(b, x) for x in (keys, values))
    attributes = {"scale": b.attr("scale", 0.0) or None, "softcap": b.attr("softcap", 0.0)}
    y = b.value(onnx.AttentionOp, apart(b, q, heads), attended_keys, attended_values, mask, attributes=attributes)
    return [b.reshaped(b.transposed(y, [0, 2, 1, 3]), [0, 0, -1]), keys, values, None]


def apart(b: Expansion, x: SSAValue, count: int) -> SSAValue:
    """[batch, heads, places, size] from [batch, places, heads * size]."""
    return b.transposed(b.reshaped(x, [0, 0, count, -1]), [0, 2, 1, 3])


def given(b: Expansion, heads: int, shared: int) -> list[SSAValue]:
    """Queries, keys and values [batch, queries, heads * size], also from one tensor."""
    if b.at(KEY) is not None:
        return [b.x(QUERY), b.x(KEY), b.x(VALUE)]
    by_head = b.reshaped(b.x(QUERY), [0, 0, heads + 2 * shared, -1])
    return [b.reshaped(part, [0, 0, -1]) for part in b.split(by_head, 2, b.ints([heads, shared, shared]))]


def step_of(b: Expansion, q: SSAValue) -> Step:
    """From the two lengths that the node is given."""
    return step_from(b, q, b.x(TOTAL), b.add(b.cast(b.x(LENGTHS), i64), b.ints(1)))


def step_from(b: Expansion, q: SSAValue, greatest: SSAValue, lengths: SSAValue) -> Step:
    """From the greatest number of keys and each sample's."""
    count = b.size_of(q, 1)
    total = b.reshaped(b.cast(greatest, i64), [1])
    before = b.sub(b.unsqueezed(b.reshaped(b.cast(lengths, i64), [-1]), 1), count)
    first = b.value(onnx.WhereOp, b.value(onnx.EqualOp, total, count), b.ints([0]), before)
    places = b.value(onnx.RangeOp, b.ints(0), b.scalar(count), b.ints(1))
    return Step(first, b.add(first, places), total)


def _normalized(b: Expansion, x: SSAValue, count: int, weight: int, side: str) -> SSAValue:
    """With each head normalized, where there is a weight for it."""
    if b.at(weight) is None:
        return x
    epsilon = b.attr(f"{side}_norm_epsilon", b.attr("qk_norm_epsilon", 1e-6))
    heads = b.reshaped(x, [0, 0, count, -1])
    normal = b.value(onnx.RMSNormalizationOp, heads, b.x(weight), attributes={"axis": -1, "epsilon": epsilon})
    return b.reshaped(normal, [0, 0, -1])


def turned(b: Expansion, x: SSAValue, positions: SSAValue, count: int, cosines: SSAValue, sines: SSAValue) -> SSAValue:
    """By the angles of the positions."""
    half = b.size(cosines, 1)
    attributes = {
        "interleaved": b.attr("rotary_interleaved", 0),
        "num_heads": count,
        "rotary_embedding_dim": 2 * half if half is not None else 0,
    }
    return b.value(onnx.RotaryEmbeddingOp, x, cosines, sines, positions, attributes=attributes)


def cached(b: Expansion, new: SSAValue, past: int, step: Step) -> SSAValue:
    """The cache, as long as it was or as all keys need, with the new rows at their places."""
    if b.at(past) is None:
        return new
    cache = b.x(past)
    missing = b.value(onnx.MaxOp, b.sub(step.total, b.size_of(cache, 2)), b.ints([0]))
    pads = b.concat([b.ints([0] * 6), missing, b.ints([0])], 0)
    longer = b.value(onnx.PadOp, cache, pads)
    starts = b.reshaped(step.first, [-1])
    return b.value(onnx.TensorScatterOp, longer, new, starts, attributes={"axis": -2})


def seen(b: Expansion, step: Step, keys: SSAValue) -> SSAValue:
    """[batch, 1, queries, keys]: which keys a query attends to; with a bias, what is added to the scores."""
    places = b.value(onnx.RangeOp, b.ints(0), b.scalar(b.size_of(keys, 2)), b.ints(1))
    own = b.unsqueezed(step.positions, 2)
    if b.attr("causal", 1):
        allowed = b.value(onnx.LessOrEqualOp, places, own)
        window = b.attr("local_window_size", -1)
        if window >= 0:
            near = b.value(onnx.GreaterOp, places, b.sub(own, b.ints([window])))
            allowed = b.value(onnx.AndOp, allowed, near)
    else:
        last = b.add(step.first, b.size_of(b.x(QUERY), 1))
        allowed = b.value(onnx.LessOp, places, b.unsqueezed(last, 2))
    allowed = b.unsqueezed(allowed, 1)
    if b.at(BIAS) is None:
        return allowed
    bias = b.x(BIAS)
    missing = b.sub(b.size_of(keys, 2), b.size_of(bias, 3))
    padded = b.value(onnx.PadOp, bias, b.concat([b.ints([0] * 7), missing], 0))
    return b.value(onnx.WhereOp, allowed, padded, b.number(-np.inf, bias))


# A sink: one more key whose score is given, and whose value is nothing


def with_sink(b: Expansion, mask: SSAValue, q: SSAValue, heads: int) -> SSAValue:
    """The mask, as numbers, with the sink's score as a last column for each head."""
    if b.at(BIAS) is None:
        mask = b.value(onnx.WhereOp, mask, b.number(0, q), b.number(-np.inf, q))
    column = b.concat([b.size_of(mask, 0), b.ints([heads]), b.size_of(mask, 2), b.ints([1])], 0)
    sink = b.at(SINK)
    score = b.number(0, q) if sink is None else b.reshaped(sink, [1, heads, 1, 1])
    sizes = b.concat([b.ints([1, heads]), b.ints([1, 1])], 0)
    by_head = b.value(onnx.ExpandOp, mask, sizes)
    return b.concat([by_head, b.value(onnx.ExpandOp, score, column)], 3)


def _with_empty_row(b: Expansion, x: SSAValue) -> SSAValue:
    return b.value(onnx.PadOp, x, b.ints([0, 0, 0, 0, 0, 0, 1, 0]))
