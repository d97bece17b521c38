"""Weights of a few bits, packed into bytes and quantized by blocks: unpacked, and dequantized where they are read."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np
from xdsl.ir import SSAValue

from ...dialects import onnx
from ..node_builder import Results
from .expansion import Array, Expansion, Rule

DTYPES: Mapping[int, np.dtype[np.generic]] = {
    2: np.dtype(ml_dtypes.uint2),
    4: np.dtype(ml_dtypes.uint4),
    8: np.dtype(np.uint8),
}
"""The element type of weights of so many bits."""


def matmul_nbits(b: Expansion) -> Results:
    """a ((w - zero) scale)^T + bias, w [N, K] packed in blocks along K."""
    b.known("K", "N", "accuracy_level", "bits", "block_size", "weight_prepacked")
    b.only("weight_prepacked", 0)
    b.absent(g_idx=4)
    weights = known_weights(b)
    if weights is None:
        weights = b.transposed(block_weights(b), [1, 0])
    return [b.biased(b.value(onnx.MatMulOp, b.x(0), weights), b.at(5))]


LARGE = 1 << 26
"""Weights of more elements stay packed in memory, and are dequantized when they are read; others once for all."""


def known_weights(b: Expansion) -> SSAValue | None:
    """The weights [K, N] of MatMulNBits as numbers, where all that they are made of is constant."""
    depth, columns, block, bits = b.attr("K"), b.attr("N"), b.attr("block_size"), b.attr("bits", 4)
    packed, scales, zeros = (b.array(b.at(k)) for k in (1, 2, 3))
    if depth * columns > LARGE or bits not in DTYPES or packed is None or scales is None:
        return None
    blocks = -(-depth // block)
    if packed.size * 8 != columns * blocks * block * bits or (b.at(3) is not None and zeros is None):
        return None
    if zeros is None:
        zeros = np.full((columns, blocks), 1 << (bits - 1))
    elif zeros.dtype == np.uint8:
        zeros = unpack(zeros, bits).reshape(columns, -1)[:, :blocks]
    per_block = zeros.reshape(columns, blocks, 1), scales.reshape(columns, blocks, 1)

    def compute() -> Array:
        numbers = unpack(packed, bits).reshape(columns, blocks, block).astype(np.float32)
        numbers -= per_block[0].astype(np.float32)
        numbers *= per_block[1].astype(np.float32)
        return np.ascontiguousarray(numbers.reshape(columns, -1)[:, :depth].T.astype(scales.dtype))

    return b.computed((depth, columns), scales.dtype, compute)


def block_weights(b: Expansion) -> SSAValue:
    """The weights [N, K] of MatMulNBits, dequantized."""
    depth, columns, block = b.attr("K"), b.attr("N"), b.attr("block_size")
    bits = b.attr("bits", 4)
    if bits not in DTYPES:
        raise b.unsupported(f"weights of {bits} bits are not supported")
    blocks = -(-depth // block)
    packed = unpacked(b, b.x(1), "B", bits, (columns, blocks * block), depth)
    scales = b.reshaped(b.x(2), [columns, blocks])
    zero = zero_points(b, packed, bits, (columns, blocks))
    attributes = {"axis": 1, "block_size": block}
    if zero is None or b.element(zero) == b.element(packed):
        return b.value(onnx.DequantizeLinearOp, packed, scales, zero, attributes=attributes)
    # zero points that are no integers: (w - zero) scale
    ones = b.value(onnx.CastLikeOp, b.constant(np.ones((columns, blocks), np.float32)), scales)
    wide = b.value(onnx.DequantizeLinearOp, packed, ones, None, attributes=attributes)
    spread = [along_blocks(b, x, block, depth) for x in (b.reshaped(zero, [columns, blocks]), scales)]
    return b.mul(b.sub(wide, spread[0]), spread[1])


def along_blocks(b: Expansion, x: SSAValue, block: int, depth: int) -> SSAValue:
    """[N, blocks] as [N, depth]."""
    wide = b.value(onnx.ExpandOp, b.unsqueezed(x, 2), b.ints([1, 1, block]))
    return b.sliced(b.reshaped(wide, [0, -1]), 1, 0, depth)


def zero_points(b: Expansion, weights: SSAValue, bits: int, shape: tuple[int, int]) -> SSAValue | None:
    """One for each block: packed as the weights are, or of the scales' type; without them half of the range."""
    given = b.at(3)
    if given is None:
        half = np.full(shape, 1 << (bits - 1))
        return b.large_constant(half.astype(DTYPES[bits]))
    if b.element(given) != b.element(b.x(1)):
        return given
    padded = -(-shape[1] * bits // 8) * 8 // bits
    return unpacked(b, given, "zero_points", bits, (shape[0], padded), shape[1])


def unpacked(b: Expansion, x: SSAValue, name: str, bits: int, shape: tuple[int, int], columns: int) -> SSAValue:
    """A constant of bytes as `shape` numbers of so many bits, low bits first, of which the first `columns` count."""
    array = b.array(x)
    if array is None:
        raise b.unsupported(f"its input '{name}' is no constant")
    if array.size * 8 // bits != shape[0] * shape[1]:
        raise b.unsupported(f"its input '{name}' has {array.size} bytes, and {shape[0] * shape[1]} numbers are needed")
    dtype = DTYPES[bits]
    return b.computed((shape[0], columns), dtype, lambda: unpack(array, bits).reshape(shape)[:, :columns].astype(dtype))


def unpack(array: Array, bits: int) -> Array:
    """The numbers in bytes, low bits first, flat."""
    flat = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    if bits == 8:
        return flat
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((flat[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)


def gather_block_quantized(b: Expansion) -> Results:
    """Rows of quantized data, dequantized."""
    b.known("bits", "block_size", "gather_axis", "quantize_axis")
    data, indices = b.x(0), b.x(1)
    array = b.array(data)
    if array is None:
        raise b.unsupported("its input 'data' is no constant")
    rank, bits = array.ndim, b.attr("bits", 4)
    gather, along = b.attr("gather_axis", 0) % rank, b.attr("quantize_axis", 1) % rank
    if gather == along:
        raise b.unsupported("its 'gather_axis' is its 'quantize_axis'")
    zero = b.at(3)
    if array.dtype == np.uint8:
        data = _unpacked_rows(b, array, bits)
        zero_array = None if zero is None else b.array(zero)
        if zero is not None and zero_array is None:
            raise b.unsupported("its input 'zero_points' is no constant")
        if zero_array is None:
            scales = b.x(2)
            sizes = [b.size(scales, axis) or 0 for axis in range(rank)]
            zero = b.large_constant(np.full(sizes, 1 << (bits - 1)).astype(DTYPES[bits]))
        else:
            zero = _unpacked_rows(b, zero_array, bits, b.size(b.x(2), rank - 1))
    picked = [
        None if x is None else b.value(onnx.GatherOp, x, indices, attributes={"axis": gather})
        for x in (data, b.x(2), zero)
    ]
    axis = along if along < gather else along - 1 + b.rank(indices)
    attributes = {"axis": axis, "block_size": b.attr("block_size", 128)}
    return [b.value(onnx.DequantizeLinearOp, *picked, attributes=attributes)]


def _unpacked_rows(b: Expansion, array: Array, bits: int, columns: int | None = None) -> SSAValue:
    """Bytes along the last axis as numbers of so many bits."""
    numbers = unpack(array, bits).reshape(*array.shape[:-1], -1)
    return b.large_constant(numbers[..., :columns].astype(DTYPES[bits]))


PACKED_WEIGHTS: Mapping[str, Rule] = {
    "GatherBlockQuantized": gather_block_quantized,
    "MatMulNBits": matmul_nbits,
}
