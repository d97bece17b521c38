"""SparseAttention: grouped queries that attend to some blocks of keys, as a table says for each block of queries.

`total_sequence_length` is the greatest number of keys, `key_total_sequence_lengths` each sample's.  The tables are in
compressed rows: `block_col_indices[l]` has the blocks of layout l, `block_row_indices[l]` where a row's begin and end.
Head h is of layout h modulo their number.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import f32, i1, i64
from xdsl.ir import SSAValue

from ...dialects import onnx
from ..node_builder import Results
from .expansion import Expansion, Rule
from .grouped_attention import Step, apart, cached, given, step_from, turned

PAST_K, PAST_V, ROWS, COLUMNS, TOTAL, LENGTHS, COSINES, SINES = range(3, 11)


def sparse_attention(b: Expansion) -> Results:
    """Y [batch, queries, heads * size], and the caches with the new keys and values."""
    b.known("do_rotary", "kv_num_heads", "num_heads", "rotary_interleaved", "scale", "sparse_block_size")
    heads, shared = b.attr("num_heads"), b.attr("kv_num_heads")
    q, k, v = given(b, heads, shared)
    step = step_from(b, q, b.x(TOTAL), b.x(LENGTHS))
    if b.attr("do_rotary", 0):
        q, k = (
            turned(b, x, step.positions, n, b.x(COSINES), b.x(SINES)) for x, n in ((q, heads), (k, shared))
        )  # fmt: skip
    keys, values = cached(b, apart(b, k, shared), PAST_K, step), cached(b, apart(b, v, shared), PAST_V, step)
    mask = _seen(b, step, keys, heads)
    y = b.value(
        onnx.AttentionOp, apart(b, q, heads), keys, values, mask, attributes={"scale": b.attr("scale", 0.0) or None}
    )
    return [b.reshaped(b.transposed(y, [0, 2, 1, 3]), [0, 0, -1]), keys, values]


def _seen(b: Expansion, step: Step, keys: SSAValue, heads: int) -> SSAValue:
    """[batch, heads or 1, queries, keys]: which keys a query attends to."""
    places = b.value(onnx.RangeOp, b.ints(0), b.scalar(b.size_of(keys, 2)), b.ints(1))
    causal = b.value(onnx.LessOrEqualOp, places, b.unsqueezed(step.positions, 2))
    blocks = _blocks(b)
    layouts = b.size(blocks, 0)
    if layouts is None or heads % layouts:
        raise b.unsupported(f"its {heads} heads are no multiple of the layouts")
    size, last = b.ints(b.attr("sparse_block_size")), b.sub(b.scalar(b.size_of(blocks, 2)), b.ints(1))

    def block_of(x: SSAValue) -> SSAValue:
        return b.value(onnx.MaxOp, b.value(onnx.MinOp, b.value(onnx.DivOp, x, size), last), b.ints(0))

    rows = b.value(onnx.GatherOp, blocks, block_of(step.positions), attributes={"axis": 1})
    near = b.value(onnx.GatherOp, rows, block_of(places), attributes={"axis": 3})  # [layouts, batch, queries, keys]
    near = b.transposed(near, [1, 0, 2, 3])
    if layouts > 1:
        near = b.value(onnx.TileOp, near, b.ints([1, heads // layouts, 1, 1]))
    return b.value(onnx.AndOp, near, b.unsqueezed(causal, 1))


def _blocks(b: Expansion) -> SSAValue:
    """[layouts, blocks of queries, blocks of keys]: the tables, written out."""
    starts, columns = b.cast(b.x(ROWS), i64), b.cast(b.x(COLUMNS), i64)
    count = b.sub(b.size_of(starts, 1), b.ints([1]))
    entries = b.value(onnx.RangeOp, b.ints(0), b.scalar(b.size_of(columns, 1)), b.ints(1))
    first = b.unsqueezed(b.value(onnx.SliceOp, starts, b.ints([0]), count, b.ints([1])), 2)
    end = b.unsqueezed(b.sliced(starts, 1, 1, 2**31), 2)
    inside = b.value(
        onnx.AndOp, b.value(onnx.GreaterOrEqualOp, entries, first), b.value(onnx.LessOp, entries, end)
    )  # [layouts, rows, entries]
    numbers = b.value(onnx.RangeOp, b.ints(0), b.scalar(count), b.ints(1))
    named = b.value(onnx.EqualOp, b.unsqueezed(columns, 2), numbers)  # [layouts, entries, columns]
    return b.cast(b.value(onnx.MatMulOp, b.cast(inside, f32), b.cast(named, f32)), i1)


SPARSE_ATTENTION: Mapping[str, Rule] = {"SparseAttention": sparse_attention}

__all__ = ["SPARSE_ATTENTION"]
