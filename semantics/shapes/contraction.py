"""Shape rules of products: MatMul and its kin, Gemm, Einsum, Det, attention."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects.builtin import i32

from ...dialects import onnx
from ...dialects.dims.expression import ONE, Dim, as_dim, dim_min
from .context import Context, ResultElements, Rules, ShapeError, Types
from .elementwise import limit_of, one_way, same_shape


def matmul_dims(c: Context, a: Sequence[Dim], b: Sequence[Dim]) -> list[Dim]:
    """numpy's rule: vectors get an axis for the product and lose it again, the axes before the last two broadcast."""
    if not a or not b:
        raise ShapeError("MatMul of a scalar")
    left = list(a) if len(a) > 1 else [ONE, *a]
    right = list(b) if len(b) > 1 else [*b, ONE]
    c.equal(left[-1], right[-2], "the inner sizes of MatMul")
    out = [*c.broadcast(left[:-2], right[:-2]), left[-2], right[-1]]
    if len(a) == 1:
        del out[-2]
    if len(b) == 1:
        del out[-1]
    return out


def matmul(c: Context) -> Types:
    return [c.like(0, matmul_dims(c, c.dims(0), c.dims(1)))]


def matmul_integer(c: Context) -> Types:
    out = matmul_dims(c, c.dims(0), c.dims(1))
    _parameters(c, out, (0, 1), rows=(2,), columns=(3,))
    return [c.tensor(i32, out)]


def qlinear_matmul(c: Context) -> Types:
    """Operands: a, its scale and zero point, b, its scale and zero point, y's scale and zero point."""
    out = matmul_dims(c, c.dims(0), c.dims(3))
    _parameters(c, out, (0, 3), rows=(1, 2, 6, 7), columns=(4, 5))
    return [c.tensor(c.element(7), out)]


def _parameters(
    c: Context, out: list[Dim], factors: tuple[int, int], rows: Sequence[int], columns: Sequence[int]
) -> None:
    """States that scales and zero points are of the whole factor or of its rows (or columns): they broadcast."""
    a, b = (c.rank(k) for k in factors)
    for index in (*rows, *columns):
        if not c.has(index):
            continue
        dims, of_rows = list(c.dims(index)), index in rows
        if len(dims) == 1 and of_rows and b > 1:
            dims.append(ONE)
        axes = 0 if (a if of_rows else b) == 1 else len(out)  # a vector is one row, or one column
        for size in dims[: max(0, len(dims) - axes)]:
            c.equal(size, ONE, "a scale or zero point of one number")
        one_way(c, out, dims[max(0, len(dims) - axes) :])


def gemm(c: Context) -> Types:
    a, b = c.dims_of_rank(0, 2), c.dims_of_rank(1, 2)
    m, k = reversed(a) if c.attr("transA") else a
    k2, n = reversed(b) if c.attr("transB") else b
    c.equal(k, k2, "the inner sizes of Gemm")
    if c.has(2) and limit_of(c) is not None:
        same_shape(
            c, (m, n), c.dims(2), "C has the shape of the product, since without broadcast=1 it does not broadcast"
        )
    elif c.has(2):
        one_way(c, (m, n), c.dims(2))
    return [c.like(0, [m, n])]


def det(c: Context) -> Types:
    x = c.dims(0)
    if len(x) < 2:
        raise ShapeError("Det needs matrices")
    c.equal(x[-1], x[-2], "Det of square matrices")
    return [c.like(0, x[:-2])]


_TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")


def einsum(c: Context) -> Types:
    """`ij,jk->ik`: equal letters are equal sizes (or 1), `...` stands for axes that broadcast."""
    equation = str(c.attr("equation")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(c.operands) or not all(_TERM.fullmatch(t) for t in (*terms, right)):
        raise ShapeError(f"equation {equation!r} for {len(c.operands)} operands")
    sizes: dict[str, Dim] = {}
    dotted: list[Dim] = []
    for index, term in enumerate(terms):
        dims = c.dims(index)
        letters, ellipsis, dots = _einsum_term(term, dims)
        if ellipsis:
            dotted = list(c.broadcast(dotted, dots))
        own: dict[str, Dim] = {}  # a diagonal has one size, and does not broadcast
        for letter, d in letters:
            own[letter] = c.equal(own[letter], d, f"equal letters in term {term!r} of Einsum") if letter in own else d
        for letter, d in own.items():
            sizes[letter] = c.broadcast_dim(sizes[letter], d) if letter in sizes else d
    if not arrow:
        once = sorted(x for x in sizes if sum(t.count(x) for t in terms) == 1)
        right = ("..." if any("..." in t for t in terms) else "") + "".join(once)
    if set(right.replace(".", "")) - set(sizes):
        raise ShapeError(f"equation {equation!r} has output axes that no operand has")
    head, dots_text, tail = right.partition("...")
    middle = dotted if dots_text else []
    return [c.like(0, [*(sizes[x] for x in head), *middle, *(sizes[x] for x in tail)])]


def _einsum_term(term: str, dims: Sequence[Dim]) -> tuple[list[tuple[str, Dim]], bool, Sequence[Dim]]:
    """((letter, size)s, whether it has `...`, what that stands for)."""
    head, dots, tail = term.partition("...")
    rest = len(dims) - len(head) - len(tail)
    if rest < 0 or (rest and not dots):
        raise ShapeError(f"Einsum term {term!r} for rank {len(dims)}")
    at = len(head) + rest
    return [*zip(head, dims[: len(head)]), *zip(tail, dims[at:])], bool(dots), dims[len(head) : at]


# --- attention --------------------------------------------------------------------------------------------------------


def _heads(c: Context, index: int, attribute: str) -> tuple[Dim, Dim, Dim, Dim]:
    """(batch, heads, length, head size) of a query, key or value, from either layout."""
    x = c.dims_of_rank(index, 3, 4)
    if len(x) == 4:
        return x[0], x[1], x[2], x[3]
    heads = c.attr(attribute)
    if not heads:
        raise ShapeError(f"3-D inputs of Attention need {attribute}")
    c.divides(heads, x[2], f"{attribute} divides the hidden size")
    return x[0], c.count([ONE * heads]), x[1], x[2] // heads


def attention(c: Context) -> Types:
    packed = c.rank(0) == 3
    batch, heads, length, size = _heads(c, 0, "q_num_heads")
    kb, kv_heads, kv_length, k_size = _heads(c, 1, "kv_num_heads")
    vb, v_heads, v_length, v_size = _heads(c, 2, "kv_num_heads")
    for b in (kb, vb):
        c.equal(b, batch, "the batches of Attention")
    c.equal(v_heads, kv_heads, "the heads of key and value")
    c.equal(v_length, kv_length, "the lengths of key and value")
    c.equal(k_size, size, "the head sizes of query and key")
    c.divides(kv_heads, heads, "the heads of key and value divide those of the query")
    total = kv_length
    if c.has(4):
        past, past_v = c.dims_of_rank(4, 4), c.dims_of_rank(5, 4)
        for found, wanted in ((past, (batch, kv_heads, past[2], k_size)), (past_v, (batch, kv_heads, past[2], v_size))):
            for a, b in zip(found, wanted):
                c.equal(a, b, "the sizes of past keys and values")
        total = past[2] + kv_length
    if c.has(3):
        _attention_mask(c, (batch, heads, length, total))
    if c.has(6):
        c.equal(c.dims_of_rank(6, 1)[0], batch, "the batches of Attention")
    y = [batch, length, heads * v_size] if packed else [batch, heads, length, v_size]
    return [
        c.like(0, y),
        c.like(1, [batch, kv_heads, total, k_size]),
        c.like(2, [batch, kv_heads, total, v_size]),
        c.like(0, [batch, heads, length, total]),
    ]


def _attention_mask(c: Context, scores: Sequence[Dim]) -> None:
    """The mask broadcasts to the scores; its last axis may be shorter, and then hides the keys behind it."""
    mask = c.dims_of_rank(3, 1, 2, 3, 4)
    one_way(c, scores[:-1], mask[:-1])
    if mask[-1] is not ONE:
        c.at_most(mask[-1], scores[-1], "the mask's keys are not more than there are")
        if onnx.SHARED_KEY in c.op.attributes:
            c.at_most(dim_min(scores[-1], ONE), mask[-1], "the mask has a key")


def flex_attention(c: Context) -> Types:
    batch, heads, length, _ = c.dims_of_rank(0, 4)
    v = c.dims_of_rank(2, 4)
    return [c.like(0, [batch, heads, length, v[3]])]


def linear_attention(c: Context) -> Types:
    """query [B, T, Hq*dk], key [B, T, Hkv*dk], value [B, T, Hkv*dv] -> [B, T, Hq*dv] and the state [B, Hkv, dk, dv]."""
    q, k, v = (c.dims_of_rank(i, 3) for i in range(3))
    heads, kv_heads = c.attr("q_num_heads"), c.attr("kv_num_heads")
    c.divides(heads, q[2], "q_num_heads divides the hidden size")
    c.divides(kv_heads, v[2], "kv_num_heads divides the hidden size")
    dk, dv = q[2] // heads, v[2] // kv_heads
    c.equal(k[2], dk * kv_heads, "the head sizes of query and key")
    for x in (k, v):
        for a, b in zip(x[:2], q):
            c.equal(a, b, "the batches and lengths of LinearAttention")
    if c.has(3):
        for a, b in zip(c.dims_of_rank(3, 4), (q[0], ONE * kv_heads, dk, dv)):
            c.equal(a, b, "the sizes of the past state")
    rule = str(c.attr("update_rule"))
    for index, name, wanted in ((4, "decay", "gated" in rule), (5, "beta", "delta" in rule)):
        if wanted and not c.has(index):
            raise ShapeError(f"its update_rule is {rule!r}, and needs the input '{name}'")
        gate = c.dims_of_rank(index, 3) if c.has(index) else ()
        for a, b in zip(gate[:2], q):
            c.equal(a, b, "the batches and lengths of LinearAttention")
        if gate:  # for each head, or else for each key, or for all heads
            other = k[2] if name == "decay" else ONE
            c.require(f"{(gate[2] - kv_heads) * (gate[2] - other)} == 0", f"'{name}' has a number for each head")
    state = c.element(3) if c.has(3) else c.element(0)
    return [c.like(0, [q[0], q[1], dv * heads]), c.tensor(state, [q[0], ONE * kv_heads, dk, dv])]


def rotary_embedding(c: Context) -> Types:
    """x [B, N, S, D] or [B, S, N*D]; caches [B, S, D/2], or a row for each place that position_ids [B, S] names."""
    x = c.dims_of_rank(0, 3, 4)
    heads = c.attr("num_heads")
    if len(x) == 3 and not heads:
        raise ShapeError("a 3-D input of RotaryEmbedding needs num_heads")
    batch, length, size = (x[0], x[2], x[3]) if len(x) == 4 else (x[0], x[1], x[2] // heads)
    if len(x) == 3:
        c.divides(heads, x[2], "num_heads divides the hidden size")
    width = as_dim(c.attr("rotary_embedding_dim") or size)
    c.divides(2, width, "the rotated part of a head is even")
    c.at_most(width, size, "the rotated part of a head")
    if c.has(3):
        for a, b in zip(c.dims_of_rank(3, 2), (batch, length)):
            c.equal(a, b, "the batches and lengths of RotaryEmbedding")
    for index in (1, 2):
        cache = c.dims_of_rank(index, 2 if c.has(3) else 3)
        c.equal(cache[-1], width // 2, f"input {index} has a number for each pair of the rotated part")
        for a, b in zip(cache[:-1], () if c.has(3) else (batch, length)):
            c.equal(a, b, "the batches and lengths of RotaryEmbedding")
    if c.has(3):
        c.equal(c.dims(2)[0], c.dims(1)[0], "the rows of both caches")
    return [c.type_of(0)]


def causal_conv(c: Context) -> Types:
    batch, channels, _ = c.dims_of_rank(0, 3)
    weight = c.dims_of_rank(1, 3)
    c.equal(weight[0], channels, "the channels of CausalConvWithState")
    return [c.type_of(0), c.like(0, [batch, channels, weight[2] - 1])]


RULES: Rules = {
    onnx.MatMulOp: matmul,
    onnx.MatMulIntegerOp: matmul_integer,
    onnx.QLinearMatMulOp: qlinear_matmul,
    onnx.GemmOp: gemm,
    onnx.DetOp: det,
    onnx.EinsumOp: einsum,
    onnx.AttentionOp: attention,
    onnx.PreviewFlexAttentionOp: flex_attention,
    onnx.LinearAttentionOp: linear_attention,
    onnx.CausalConvWithStateOp: causal_conv,
    onnx.RotaryEmbeddingOp: rotary_embedding,
}

ELEMENTS: ResultElements = {onnx.LinearAttentionOp: lambda c: [c.element(0), c.element(3 if c.has(3) else 0)]}
