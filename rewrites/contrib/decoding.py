"""Operators of newer exports: recurrences of linear attention, one step of a decoder, regions, weights of four bits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import SSAValue

from ...dialects import onnx
from ..node_builder import Results
from .expansion import Array, Expansion, Rule
from .packed_weights import unpack

MASK_VALUE = -10000.0


def linear_attention(b: Expansion) -> Results:
    """LinearAttention, without states of several steps."""
    names = ("chunk_size", "kv_num_heads", "q_num_heads", "scale", "update_rule")
    b.known(*names, "state_window")
    b.only("state_window", 0)
    attributes = {name: b.attr(name) for name in names}
    operands = [*b.inputs(), *[None] * 6][:6]
    return b.several(onnx.LinearAttentionOp, operands, [True, True], attributes)


def linear_attention_gate(b: Expansion) -> Results:
    """decay_scale Softplus(a + dt_bias), and the sigmoid of b, in f32."""
    b.known()
    a = b.x(0)
    decay = b.mul(b.value(onnx.SoftplusOp, b.add(b.cast(a, f32), b.x(1))), b.x(2))
    beta = b.at(3)
    rate = None if beta is None else b.cast(b.value(onnx.SigmoidOp, b.cast(beta, f32)), b.element(a))
    return [b.cast(decay, b.element(a)), rate]


def causal_conv_with_state(b: Expansion) -> Results:
    """CausalConvWithState, also dilated, and with the channels last."""
    b.known("activation", "channels_last", "dilation", "ndim", "state_window")
    b.only("state_window", 0)
    dilation, activation, weights = b.attr("dilation", 1), b.attr("activation", "none"), b.x(1)
    operands = [*b.inputs(), None, None][:4]
    if not b.attr("channels_last", 0) and dilation == 1:
        return b.several(onnx.CausalConvWithStateOp, operands, [True] * 2, {"activation": activation})
    b.only("ndim", 1)
    given, before = b.x(0), operands[3]
    if not b.attr("channels_last", 0):
        return list(_dilated(b, given, before, dilation, activation))
    channels = b.size_of(weights, 0)
    x, state = (None if v is None else _channels_second(b, v, channels) for v in (given, before))
    assert x is not None
    sizes = b.concat([b.ints([0, -1]), b.value(onnx.ShapeOp, given, attributes={"start": 2})], 0)
    found = _dilated(b, x, state, dilation, activation)
    return [b.value(onnx.ReshapeOp, b.transposed(v, [0, 2, 1]), sizes) for v in found]


def _channels_second(b: Expansion, x: SSAValue, channels: SSAValue) -> SSAValue:
    """[batch, length, channel axes..] as [batch, channels, length]."""
    return b.transposed(b.value(onnx.ReshapeOp, x, b.concat([b.ints([0, -1]), channels], 0)), [0, 2, 1])


def _dilated(
    b: Expansion, x: SSAValue, state: SSAValue | None, dilation: int, activation: str
) -> tuple[SSAValue, SSAValue]:
    """The results for [batch, channels, length]."""
    if dilation == 1:
        operands = [x, b.x(1), b.at(2), state]
        y, after = b.several(onnx.CausalConvWithStateOp, operands, [True] * 2, {"activation": activation})
        assert y is not None and after is not None
        return y, after
    channels, taps = b.size(b.x(1), 0), b.size(b.x(1), 2)
    if channels is None or taps is None:
        raise b.unsupported("its weights are dilated, and their sizes are known at run time only")
    kept = (taps - 1) * dilation
    longer = b.value(onnx.PadOp, x, b.ints([0, 0, kept, 0, 0, 0])) if state is None else b.concat([state, x], 2)
    y = b.value(onnx.ConvOp, longer, b.x(1), b.at(2), attributes={"group": channels, "dilations": [dilation]})
    if activation in ("silu", "swish"):
        y = b.value(onnx.SwishOp, y)
    elif activation != "none":
        raise b.unsupported(f"its activation '{activation}' is not supported")
    end = b.size_of(longer, 2)
    return y, b.value(onnx.SliceOp, longer, b.sub(end, b.ints([kept])), end, b.ints([2]))


NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
"""The quantiles of a normal distribution that four bits stand for (https://arxiv.org/abs/2305.14314, appendix E)."""
FP4 = (0.0, 0.0052083333, 0.6666667, 1.0, 0.3333333, 0.5, 0.1666667, 0.25)
"""The magnitudes of floats of a sign, two bits of exponent and one of mantissa; the fourth bit is the sign."""


def matmul_bnb4(b: Expansion) -> Results:
    """a w^T with w [N, K] in blocks of numbers of four bits, the high ones first, each block times its `absmax`."""
    b.known("K", "N", "block_size", "quant_type", "training_mode", "transB")
    packed, scales = b.array(b.x(1)), b.array(b.x(2))
    if packed is None or scales is None:
        raise b.unsupported("its quantized weights are computed")
    rows, depth, block = b.attr("N"), b.attr("K"), b.attr("block_size")
    table = np.array(NF4 if b.attr("quant_type") == 1 else (*FP4, *(-v for v in FP4)), np.float32)

    def compute() -> Array:
        pairs = unpack(packed, 4).reshape(-1, 2)[:, ::-1]  # the high bits are first
        numbers = table[pairs.reshape(-1)[: rows * depth]]
        spread = np.repeat(scales.astype(np.float32), block)[: rows * depth]
        weights = (numbers * spread).reshape(rows, depth)
        return np.ascontiguousarray(weights.T if b.attr("transB", 1) else weights)

    shape = (depth, rows) if b.attr("transB", 1) else (rows, depth)
    a = b.x(0)
    y = b.value(onnx.MatMulOp, b.cast(a, f32), b.computed(shape, np.dtype(np.float32), compute))
    return [b.cast(y, b.element(a))]


def decoder_masked_attention(b: Expansion) -> Results:
    """Attention of one query to the keys before it, which a buffer holds, or to those of an encoder."""
    b.known("mask_filter_value", "num_heads", "output_qk", "past_present_share_buffer", "scale")
    b.absent(cache_indirection=9)
    b.no_result(qk=3)
    heads = b.attr("num_heads")

    def apart(x: SSAValue) -> SSAValue:
        return b.transposed(b.reshaped(x, [0, 0, heads, -1]), [0, 2, 1, 3])

    if b.at(1) is None or b.at(2) is None:
        raise b.unsupported("its queries, keys and values are packed")
    given = [b.x(0), b.x(1), b.x(2)]
    is_cross = b.rank(given[1]) == 4
    biases: list[SSAValue | None] = [None] * 3
    if b.at(10) is not None:
        biases = [*b.split(b.x(10), 0, 3)]
    q = apart(b.biased(given[0], biases[0]))
    allowed = b.at(3)
    if allowed is not None:
        allowed = b.unsqueezed(b.value(onnx.GreaterOp, allowed, b.number(0, allowed)), 1, 2)
    if is_cross:
        keys, values = given[1], given[2]
        present: Results = [None, None]
    else:
        if not b.attr("past_present_share_buffer", 0) or b.at(5) is None or b.at(7) is None:
            raise b.unsupported("its keys are not in a shared buffer")
        before = b.reshaped(b.cast(b.x(7), i64), [1])
        starts = b.value(onnx.ExpandOp, before, b.size_of(q, 0))
        new = [apart(b.biased(x, bias)) for x, bias in zip(given[1:], biases[1:])]
        keys, values = (
            b.value(onnx.TensorScatterOp, b.x(5 + k), row, starts, attributes={"axis": -2}) for k, row in enumerate(new)
        )
        present = [keys, values]
        end = b.add(before, b.ints([1]))
        keys, values = (b.value(onnx.SliceOp, v, b.ints([0]), end, b.ints([2])) for v in (keys, values))
    mask = b.at(4)
    if allowed is not None:
        fill = b.number(b.attr("mask_filter_value", MASK_VALUE), q)
        chosen = b.value(onnx.WhereOp, allowed, b.number(0, q), fill)
        mask = chosen if mask is None else b.add(mask, chosen)
    attributes = {"scale": b.attr("scale", 0.0) or None}
    y = b.value(onnx.AttentionOp, q, keys, values, mask, attributes=attributes)
    return [b.reshaped(b.transposed(y, [0, 2, 1, 3]), [0, 0, -1]), *present, None]


def crop_and_resize(b: Expansion) -> Results:
    """Regions [y1, x1, y2, x2] of images, in shares of their sizes, sampled at so many places with corners aligned."""
    b.known("extrapolation_value", "mode")
    x, regions, batches, sizes = b.x(0), b.x(1), b.cast(b.x(2), i64), b.cast(b.x(3), i64)
    images = b.transposed(x, [0, 2, 3, 1])
    places = [_places(b, x, regions, sizes, axis) for axis in (0, 1)]
    mode = b.attr("mode", "bilinear")
    outside = _over_both(b, onnx.OrOp, [beyond for _, beyond in places])
    if mode == "nearest":
        at = [b.value(onnx.FloorOp, b.add(place, b.number(0.5, x))) for place, _ in places]
        y = _taken(b, images, batches, at)
    elif mode == "bilinear":
        y = None
        lows = [b.value(onnx.FloorOp, place) for place, _ in places]
        highs = [b.value(onnx.CeilOp, place) for place, _ in places]
        shares = [b.sub(place, low) for (place, _), low in zip(places, lows)]
        for row in (0, 1):
            for column in (0, 1):
                at = [(highs if far else lows)[axis] for axis, far in enumerate((row, column))]
                parts = [s if far else b.sub(b.number(1, s), s) for s, far in zip(shares, (row, column))]
                weight = b.unsqueezed(_over_both(b, onnx.MulOp, parts), 3)
                term = b.mul(_taken(b, images, batches, at), weight)
                y = term if y is None else b.add(y, term)
    else:
        raise b.unsupported(f"its mode '{mode}' is not supported")
    assert y is not None
    value = b.number(b.attr("extrapolation_value", 0.0), x)
    return [b.transposed(b.value(onnx.WhereOp, b.unsqueezed(outside, 3), value, y), [0, 3, 1, 2])]


def _places(b: Expansion, x: SSAValue, regions: SSAValue, sizes: SSAValue, axis: int) -> tuple[SSAValue, SSAValue]:
    """[regions, samples] places along an axis, 0 for those outside, and which are outside."""
    count = b.scalar(b.sliced(sizes, 0, axis, axis + 1))
    last = b.value(onnx.CastLikeOp, b.sub(b.scalar(b.size_of(x, 2 + axis)), b.ints(1)), x)
    start, end = (b.sliced(regions, 1, axis + k, axis + k + 1) for k in (0, 2))
    steps = b.value(onnx.CastLikeOp, b.value(onnx.RangeOp, b.ints(0), count, b.ints(1)), x)
    intervals = b.value(onnx.CastLikeOp, b.value(onnx.MaxOp, b.sub(count, b.ints(1)), b.ints(1)), x)
    step = b.value(onnx.DivOp, b.mul(b.sub(end, start), last), intervals)
    along = b.add(b.mul(start, last), b.mul(steps, step))
    middle = b.mul(b.mul(b.add(start, end), b.number(0.5, x)), last)
    place = b.value(onnx.WhereOp, b.value(onnx.GreaterOp, count, b.ints(1)), along, middle)
    zero = b.number(0, x)
    outside = b.value(onnx.OrOp, b.value(onnx.LessOp, place, zero), b.value(onnx.GreaterOp, place, last))
    return b.value(onnx.WhereOp, outside, zero, place), outside


def _over_both(b: Expansion, cls: type[onnx.OnnxOp], parts: list[SSAValue]) -> SSAValue:
    """Of the rows' and the columns' values for each place [regions, rows, columns]."""
    return b.value(cls, b.unsqueezed(parts[0], 2), b.unsqueezed(parts[1], 1))


def _taken(b: Expansion, images: SSAValue, batches: SSAValue, at: list[SSAValue]) -> SSAValue:
    """[regions, rows, columns, channels] elements of images with the channels last."""
    rows, columns = (b.unsqueezed(b.cast(v, i64), axis) for v, axis in zip(at, (2, 1)))
    shape = b.shape(b.add(rows, columns))
    index = [b.unsqueezed(b.value(onnx.ExpandOp, v, shape), 3) for v in (b.unsqueezed(batches, 1, 2), rows, columns)]
    return b.value(onnx.GatherNDOp, images, b.concat(index, 3))


DECODING: Mapping[str, Rule] = {
    "CausalConvWithState": causal_conv_with_state,
    "CropAndResize": crop_and_resize,
    "DecoderMaskedMultiHeadAttention": decoder_masked_attention,
    "LinearAttention": linear_attention,
    "LinearAttentionGate": linear_attention_gate,
    "MatMulBnb4": matmul_bnb4,
}
