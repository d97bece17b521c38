"""Attention in its variants, rotary embeddings and linear attention.

Computed in float64 and rounded at the outputs; Attention of 16-bit floats rounds after each step of its function body.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .activations import softmax_in
from .dtypes import Array, double, dtype_of, narrow
from .mathematics import Function


def split_heads(x: Array, heads: int | None) -> Array:
    """[B, S, heads * size] as [B, heads, S, size]; four axes stay as they are."""
    if x.ndim == 4:
        return x
    if not heads:
        raise ValueError("attention on three axes needs the number of heads")
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(0, 2, 1, 3)


def join_heads(x: Array) -> Array:
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def shared_heads(x: Array, heads: int) -> Array:
    """Keys or values [B, H, S, size] repeated for the contiguous query heads that share them."""
    if heads % x.shape[1]:
        raise ValueError(f"{heads} query heads share {x.shape[1]} heads of keys and values")
    return np.repeat(x, heads // x.shape[1], axis=1)


def _additive_mask(mask: Array | None, total: int, shared_key: bool) -> Array:
    """0 and minus infinity for a boolean mask; a short last axis is filled with minus infinity.

    With `shared_key` a last axis of one key broadcasts.
    """
    if mask is None:
        return np.zeros((1, 1))
    bias = np.where(mask, 0.0, -np.inf) if mask.dtype.kind == "b" else double(mask)
    missing = total - bias.shape[-1]
    if missing > 0 and not (shared_key and bias.shape[-1] == 1):
        bias = np.pad(bias, [(0, 0)] * (bias.ndim - 1) + [(0, missing)], constant_values=-np.inf)
    return bias


def _visible(
    queries: int, total: int, offset: Array, valid: Array | None, causal: bool, left: int, right: int
) -> Array:
    """[B, 1, queries, total]: which keys each query may attend; `offset` and `valid` are [B]."""
    position = offset[:, None, None, None] + np.arange(queries)[:, None]
    key = np.arange(total)
    allowed = np.ones((len(offset), 1, queries, total), np.bool_)
    if causal:
        allowed &= key <= position
    if left >= 0:
        allowed &= key >= position - left
    if right >= 0:
        allowed &= key <= position + right
    if valid is not None:
        allowed &= key < valid[:, None, None, None]
    return allowed


def _guarded_softmax(scores: Array, dtype: np.dtype) -> Array:
    """Softmax over the last axis in `dtype`; zeros where every key is masked."""
    masked = np.all(np.isneginf(scores), axis=-1, keepdims=True)
    return np.where(masked, 0.0, softmax_in(np.where(masked, 0.0, scores), scores.ndim - 1, dtype))


def _softmax(scores: Array, dtype: np.dtype) -> Array:
    """Softmax over the last axis in `dtype`; NaN where every key is masked."""
    return softmax_in(scores, scores.ndim - 1, dtype)


def _step(dtype: np.dtype) -> Callable[[Array], Array]:
    """What one step of the function body rounds to, kept in float64."""
    return (lambda x: double(narrow(x, dtype))) if dtype.itemsize < 4 else np.asarray


def attention(
    q: Array,
    k: Array,
    v: Array,
    attn_mask: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    nonpad_kv_seqlen: Array | None = None,
    /,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    empty_rows: str | None = None,
    shared_key: int = 0,
) -> tuple[Array, Array, Array, Array]:
    """Y, the present key and value, and the scores at the stage `qk_matmul_output_mode`.

    With `empty_rows` "nan" a row that may attend to no key is NaN, as with a Softmax; else it is 0.  With `shared_key`
    a mask of one key says the same of all keys; else a short mask hides the keys that it does not name.
    """
    query, key, value = split_heads(q, q_num_heads), split_heads(k, kv_num_heads), split_heads(v, kv_num_heads)
    past = 0
    if past_key is not None and past_value is not None:
        past = past_key.shape[2]
        key, value = np.concatenate([past_key, key], axis=2), np.concatenate([past_value, value], axis=2)
    batch, heads, queries, size = query.shape
    total = key.shape[2]
    root = np.sqrt(1 / np.sqrt(size) if scale is None else scale)
    step = _step(q.dtype)
    left, right = (step(double(x) * step(root)) for x in (query, shared_heads(key, heads)))
    raw = step(np.matmul(left, right.swapaxes(-1, -2)))
    capped = step(softcap * step(np.tanh(step(raw / softcap)))) if softcap else raw
    valid = None if nonpad_kv_seqlen is None else nonpad_kv_seqlen.astype(np.int64)
    offset = np.full(batch, past) if valid is None or past else valid - queries
    allowed = _visible(queries, total, offset, valid, bool(is_causal), left_window_size, right_window_size)
    biased = np.where(allowed, step(capped + _additive_mask(attn_mask, total, bool(shared_key))), -np.inf)
    precision = q.dtype if softmax_precision is None else dtype_of(softmax_precision)
    normalized = _guarded_softmax if empty_rows is None else _softmax
    weights = normalized(double(narrow(biased, precision)), precision)
    y = narrow(np.matmul(step(weights), double(shared_heads(value, heads))), q.dtype)
    shown = (raw, capped, biased, weights)[qk_matmul_output_mode]
    return y if q.ndim == 4 else join_heads(y), key, value, narrow(shown, q.dtype)


def flex_attention(
    q: Array,
    k: Array,
    v: Array,
    /,
    *,
    prob_mod: Callable[[Array], tuple[Array, ...]] | None = None,
    scale: float | None = None,
    score_mod: Callable[[Array], tuple[Array, ...]] | None = None,
    softmax_precision: int | None = None,
) -> Array:
    """Attention with graphs that modify the scores and the probabilities, given as functions."""
    heads, size = q.shape[1], q.shape[3]
    factor = 1 / np.sqrt(size) if scale is None else scale
    precision = np.dtype(np.float64 if q.dtype == np.float64 else np.float32)
    precision = precision if softmax_precision is None else dtype_of(softmax_precision)
    scores = np.matmul(double(q) * factor, double(shared_heads(k, heads)).swapaxes(-1, -2))
    scores = narrow(scores, precision)
    if score_mod is not None:
        (scores,) = score_mod(scores)
    weights = narrow(softmax_in(double(scores), 3, precision), precision)
    if prob_mod is not None:
        (weights,) = prob_mod(weights)
    return narrow(np.matmul(double(weights), double(shared_heads(v, heads))), q.dtype)


def rotary_embedding(
    x: Array,
    cos_cache: Array,
    sin_cache: Array,
    position_ids: Array | None = None,
    /,
    *,
    interleaved: int = 0,
    num_heads: int | None = None,
    rotary_embedding_dim: int = 0,
) -> Array:
    heads = split_heads(x, num_heads)
    width = rotary_embedding_dim or heads.shape[3]
    cosines, sines = double(cos_cache), double(sin_cache)
    if position_ids is not None:
        cosines, sines = cosines[position_ids], sines[position_ids]
    if cosines.shape[-1] != width // 2 or sines.shape[-1] != width // 2:
        raise ValueError(f"caches of width {cosines.shape[-1]} and {sines.shape[-1]} for a rotation of {width}")
    cosines, sines = cosines[:, None], sines[:, None]
    turned = double(heads[..., :width])
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else np.split(turned, 2, axis=-1)
    real, imaginary = cosines * a - sines * b, sines * a + cosines * b
    if interleaved:
        turned = np.stack([real, imaginary], axis=-1).reshape(turned.shape)
    else:
        turned = np.concatenate([real, imaginary], axis=-1)
    y = np.concatenate([narrow(turned, x.dtype), heads[..., width:]], axis=-1)
    return y if x.ndim == 4 else join_heads(y)


def linear_attention(
    query: Array,
    key: Array,
    value: Array,
    past_state: Array | None = None,
    decay: Array | None = None,
    beta: Array | None = None,
    /,
    *,
    kv_num_heads: int,
    q_num_heads: int,
    chunk_size: int = 64,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> tuple[Array, Array]:
    """A state [B, H, d_k, d_v] updated token by token, and what the queries read from it."""
    del chunk_size  # a hint
    if update_rule not in ("linear", "gated", "delta", "gated_delta"):
        raise ValueError(f"LinearAttention has no update_rule {update_rule!r}")
    q, k, v = (double(split_heads(x, n)) for x, n in ((query, q_num_heads), (key, kv_num_heads), (value, kv_num_heads)))
    batch, heads, steps, size = k.shape
    factor = scale or 1 / np.sqrt(q.shape[3])
    state = np.zeros((batch, heads, size, v.shape[3])) if past_state is None else double(past_state)
    gated, delta = "gated" in update_rule, "delta" in update_rule
    if (gated and decay is None) or (delta and beta is None):
        raise ValueError(f"LinearAttention by {update_rule!r} lacks its decay or beta")
    keep = np.exp(double(split_heads(decay, heads))) if gated and decay is not None else None
    rate = double(beta).transpose(0, 2, 1)[..., None] if delta and beta is not None else None
    y = np.empty((batch, q_num_heads, steps, v.shape[3]))
    for t in range(steps):
        key_t, value_t = k[:, :, t, :, None], v[:, :, t, None, :]
        if keep is not None:
            state = keep[:, :, t, :, None] * state
        if rate is not None:
            value_t = rate[:, :, t, :, None] * (value_t - np.sum(state * key_t, axis=2, keepdims=True))
        state = state + key_t * value_t
        y[:, :, t] = factor * np.matmul(q[:, :, t, None, :], shared_heads(state, q_num_heads))[:, :, 0]
    state_type = query.dtype if past_state is None else past_state.dtype
    return join_heads(narrow(y, query.dtype)), narrow(state, state_type)


ATTENTION: dict[str, Function] = {
    "Attention": attention,
    "LinearAttention": linear_attention,
    "RotaryEmbedding": rotary_embedding,
}
ATTENTION_PREVIEW: dict[str, Function] = {"FlexAttention": flex_attention}
