"""Shape rules of operators of other domains that models in use have, by domain and name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import f32, f64

from ...dialects import onnx
from ...dialects.dims.expression import ONE, as_dim
from ..custom import OWN_DOMAIN
from .context import Context, Types
from .contraction import matmul_dims


def _attribute(c: Context, name: str) -> Any:
    """An attribute as a plain value; None where the node does not have it."""
    assert isinstance(c.op, onnx.CustomOp)
    value = c.op.attributes_.data.get(name)
    return None if value is None else onnx.plain(value)


def dynamic_quantize_lstm(c: Context) -> Types:
    """X [length, batch, input], W [directions, input, 4*hidden], R [directions, hidden, 4*hidden], both quantized."""
    length, batch, size = c.dims_of_rank(0, 3)
    w, r = c.dims_of_rank(1, 3), c.dims_of_rank(2, 3)
    directions = as_dim(2 if _attribute(c, "direction") == "bidirectional" else 1)
    c.equal(w[0], directions, "the directions of the weights")
    c.equal(w[1], size, "the input's size and the weight")
    hidden = c.equal(r[1], r[2] // 4, "the recurrence weight's sizes")
    state = c.like(0, [directions, batch, hidden])
    return [c.like(0, [length, directions, batch, hidden]), state, state]


def same(c: Context) -> Types:
    """The first operand's type."""
    return [c.type_of(0)]


def fused_matmul(c: Context) -> Types:
    """MatMul with either operand's last two axes exchanged."""
    a, b = list(c.dims(0)), list(c.dims(1))
    for dims, name in ((a, "transA"), (b, "transB")):
        if _attribute(c, name) and len(dims) > 1:
            dims[-2:] = dims[-1], dims[-2]
    return [c.like(0, matmul_dims(c, a, b))]


def skip_layer_normalization(c: Context) -> Types:
    """y, mean, deviation, the sum of input and skip."""
    x = c.dims(0)
    reduced = c.like(0, [*x[:-1], ONE])
    return [c.type_of(0), reduced, reduced, c.type_of(0)]


def trees(c: Context) -> Types:
    """Scores of the rows: [N, targets] in float32 or float64."""
    n, _ = c.dims_of_rank(0, 2)
    return [c.tensor(f64 if _attribute(c, "double_result") else f32, [n, _attribute(c, "targets")])]


RULES: dict[tuple[str, str], Callable[[Context], Types]] = {
    ("com.microsoft", "DynamicQuantizeLSTM"): dynamic_quantize_lstm,
    ("com.microsoft", "Gelu"): same,
    ("com.microsoft", "FastGelu"): same,
    ("com.microsoft", "BiasGelu"): same,
    ("com.microsoft", "QuickGelu"): same,
    ("com.microsoft", "FusedMatMul"): fused_matmul,
    ("com.microsoft", "SkipLayerNormalization"): skip_layer_normalization,
    (OWN_DOMAIN, "Trees"): trees,
}
