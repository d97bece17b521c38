"""Normalizations, with what exporters fuse in front of them, and softmax with a bias."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import SSAValue

from ...dialects import onnx
from ..node_builder import Results
from .expansion import Expansion, Rule

MASK_INDEX = 1
EMBEDDING_SUM = 2


def skip_layer_normalization(b: Expansion) -> Results:
    """LayerNormalization(input + skip + bias), and the sum."""
    b.known("epsilon")
    b.no_result(mean=1, inv_std_var=2)
    total = b.biased(b.add(b.x(0), b.x(1)), b.at(4))
    y = layer_normalization(b, total, b.x(2), b.at(3), b.attr("epsilon", 1e-12))
    return [y, None, None, total]


def layer_normalization(b: Expansion, x: SSAValue, scale: SSAValue, bias: SSAValue | None, epsilon: float) -> SSAValue:
    """Along the last axis."""
    return b.value(onnx.LayerNormalizationOp, x, scale, bias, attributes={"axis": -1, "epsilon": epsilon})


def skip_simplified_layer_normalization(b: Expansion) -> Results:
    """RMSNormalization(input + skip + bias), and the sum."""
    b.known("epsilon")
    b.no_result(mean=1, inv_std_var=2)
    total = b.biased(b.add(b.x(0), b.x(1)), b.at(3))
    attributes = {"axis": -1, "epsilon": b.attr("epsilon", 1e-12)}
    return [b.value(onnx.RMSNormalizationOp, total, b.x(2), attributes=attributes), None, None, total]


def simplified_layer_normalization(b: Expansion) -> Results:
    """RMSNormalization, and 1 / sqrt(mean(x^2) + epsilon)."""
    b.known("axis", "epsilon", "stash_type")
    x, axis, epsilon = b.x(0), b.attr("axis", -1), b.attr("epsilon", 1e-5)
    attributes = {"axis": axis, "epsilon": epsilon, "stash_type": b.attr("stash_type", 1)}
    y = b.value(onnx.RMSNormalizationOp, x, b.x(1), attributes=attributes)
    if not b.used(1):
        return [y, None]
    wide = b.cast(x, f32)
    rank = b.rank(x)
    mean = b.value(onnx.ReduceMeanOp, b.mul(wide, wide), b.ints(list(range(axis % rank, rank))))
    root = b.value(onnx.SqrtOp, b.add(mean, b.number(epsilon, mean)))
    return [y, b.value(onnx.ReciprocalOp, root)]


def embed_layer_normalization(b: Expansion) -> Results:
    """LayerNormalization of the embeddings of words, positions and segments; the length that each mask counts."""
    b.known("epsilon", "mask_index_type")
    words, positions = b.x(0), b.at(8)
    total = b.value(onnx.GatherOp, b.x(2), words)
    if positions is None:
        places = b.value(onnx.RangeOp, b.ints(0), b.scalar(b.size_of(words, 1)), b.ints(1))
        positions = b.unsqueezed(places, 0)
    total = b.add(total, b.value(onnx.GatherOp, b.x(3), positions))
    if b.at(4) is not None and b.at(1) is not None:
        total = b.add(total, b.value(onnx.GatherOp, b.x(4), b.x(1)))
    y = layer_normalization(b, total, b.x(5), b.x(6), b.attr("epsilon", 1e-12))
    return [y, mask_index(b, words, b.at(7)) if b.used(MASK_INDEX) else None, total]


def quantized_embed_layer_normalization(b: Expansion) -> Results:
    """EmbedLayerNormalization with tables, scale and bias quantized, each by one scale and zero point."""
    b.known("epsilon")
    tables = {k: b.value(onnx.DequantizeLinearOp, b.x(k), b.scalar(b.x(k + 6)), b.scalar(b.x(k + 11)))
              for k in range(2, 7) if b.at(k) is not None}  # fmt: skip
    words = b.x(0)
    places = b.value(onnx.RangeOp, b.ints(0), b.scalar(b.size_of(words, 1)), b.ints(1))
    total = b.value(onnx.GatherOp, tables[2], words)
    total = b.add(total, b.value(onnx.GatherOp, tables[3], b.unsqueezed(places, 0)))
    if 4 in tables and b.at(1) is not None:
        total = b.add(total, b.value(onnx.GatherOp, tables[4], b.x(1)))
    y = layer_normalization(b, total, tables[5], tables[6], b.attr("epsilon", 1e-12))
    return [y, mask_index(b, words, b.at(7)) if b.used(MASK_INDEX) else None]


def mask_index(b: Expansion, words: SSAValue, mask: SSAValue | None) -> SSAValue:
    """How many ones each row of the mask has; 0 without a mask."""
    if mask is None:
        batch = b.value(onnx.ConstantOfShapeOp, b.size_of(words, 0))
        return b.cast(batch, i32)
    ones = b.cast(b.value(onnx.EqualOp, mask, b.number(1, mask)), i64)
    return b.cast(b.value(onnx.ReduceSumOp, ones, b.ints([1]), attributes={"keepdims": 0}), i32)


def group_norm(b: Expansion) -> Results:
    """GroupNormalization with the channels last or second, and SiLU behind it where `activation` is 1."""
    return [_group_norm(b, b.x(0))]


def skip_group_norm(b: Expansion) -> Results:
    """GroupNorm of x + skip + bias, and the sum."""
    x, skip, bias = b.x(0), b.x(3), b.at(4)
    last = bool(b.attr("channels_last", 1))
    if b.rank(skip) == 2:
        skip = b.unsqueezed(skip, *((1, 2) if last else (2, 3)))
    total = b.add(x, skip)
    if bias is not None:
        total = b.add(total, bias if last else b.unsqueezed(bias, 1, 2))
    return [_group_norm(b, total), total]


def _group_norm(b: Expansion, x: SSAValue) -> SSAValue:
    b.known("activation", "channels_last", "epsilon", "groups")
    last, rank = bool(b.attr("channels_last", 1)), b.rank(x)
    moved = b.transposed(x, [0, rank - 1, *range(1, rank - 1)]) if last else x
    scale, bias = (b.value(onnx.CastLikeOp, b.x(k), moved) for k in (1, 2))
    attributes = {"num_groups": b.attr("groups"), "epsilon": b.attr("epsilon", 1e-5)}
    y = b.value(onnx.GroupNormalizationOp, moved, scale, bias, attributes=attributes)
    y = b.transposed(y, [0, *range(2, rank), 1]) if last else y
    return b.value(onnx.SwishOp, y) if b.attr("activation", 0) else y


def gated_rms_norm(b: Expansion) -> Results:
    """RMSNormalization of rows as long as the scale, times the gate's activation."""
    b.known("activation", "epsilon")
    x, scale, gate = b.x(0), b.x(1), b.x(2)
    wide, element = b.cast(x, f32), b.element(x)
    width = b.size_of(scale, 0)
    lead = b.make(onnx.ShapeOp, [x], {"end": -1}).results[0]
    rows = b.value(onnx.ReshapeOp, wide, b.concat([lead, b.ints([-1]), width], 0))
    attributes = {"axis": -1, "epsilon": b.attr("epsilon", 1e-5)}
    normal = b.value(onnx.RMSNormalizationOp, rows, b.cast(scale, f32), attributes=attributes)
    cls = {"silu": onnx.SwishOp, "swish": onnx.SwishOp, "sigmoid": onnx.SigmoidOp}.get(b.attr("activation", "silu"))
    if cls is None:
        raise b.unsupported(f"its activation '{b.attr('activation')}' is not supported")
    y = b.mul(b.value(onnx.ReshapeOp, normal, b.shape(x), attributes={"allowzero": 1}), b.value(cls, b.cast(gate, f32)))
    return [b.cast(y, element)]


def bias_softmax(b: Expansion) -> Results:
    """Softmax over all axes from `axis` on, of data + bias."""
    b.known("axis", "is_inner_broadcast")
    data, bias = b.x(0), b.x(1)
    rank, axis = b.rank(data), b.attr("axis", 1) % b.rank(data)
    if b.attr("is_inner_broadcast") and b.rank(bias) < rank:  # the bias has the axes in front, and those of the row
        lead = b.rank(bias) - (rank - axis)
        bias = b.unsqueezed(bias, *range(lead, lead + rank - b.rank(bias)))
    total = b.add(data, bias)
    if axis == rank - 1:
        return [b.value(onnx.SoftmaxOp, total)]
    flat = b.value(onnx.FlattenOp, total, attributes={"axis": axis})
    return [b.value(onnx.ReshapeOp, b.value(onnx.SoftmaxOp, flat), b.shape(total), attributes={"allowzero": 1})]


NORMALIZATIONS: Mapping[str, Rule] = {
    "BiasSoftmax": bias_softmax,
    "EmbedLayerNormalization": embed_layer_normalization,
    "GatedRMSNorm": gated_rms_norm,
    "GroupNorm": group_norm,
    "QEmbedLayerNormalization": quantized_embed_layer_normalization,
    "SimplifiedLayerNormalization": simplified_layer_normalization,
    "SkipGroupNorm": skip_group_norm,
    "SkipLayerNormalization": skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": skip_simplified_layer_normalization,
}
