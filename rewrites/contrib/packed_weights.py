"""Weights of a few bits, packed into bytes and quantized by blocks: repacked for the template that reads them so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ...dialects import onnx
from ...semantics.block_weights import PANEL, pack_of_blocks, pack_words, panels_of
from ..node_builder import Results
from .expansion import Array, Expansion, Rule

BITS = (2, 4, 8)
"""What weights may have."""


def matmul_nbits(b: Expansion) -> Results:
    """a ((w - zero) scale)^T + bias, w [N, K] packed in blocks along K."""
    b.known("K", "N", "accuracy_level", "bits", "block_size", "weight_prepacked")
    b.only("weight_prepacked", 0)
    if b.attr("bits", 4) not in BITS:
        raise b.unsupported(f"weights of {b.attr('bits', 4)} bits are not supported")
    block = b.attr("block_size")
    if block < LEAST_BLOCK or block & (block - 1):
        raise b.unsupported(f"its attribute 'block_size' is {block}, no power of two from {LEAST_BLOCK} on")
    product = packed_product(b) or dequantized_product(b)
    return [b.biased(product, b.at(5))]


LEAST_BLOCK = 16
INT8 = 4
"""The accuracy level that lets a's blocks be rounded to bytes."""


def packed_product(b: Expansion) -> SSAValue | None:
    """The product of MatMulNBits that reads packed weights, where all that they are made of is constant.

    With a block for each index of the depth (`g_idx`) the depth is put in their order first, if all are equally large.
    """
    depth, columns, block, bits = b.attr("K"), b.attr("N"), b.attr("block_size"), b.attr("bits", 4)
    packed, scales, zeros, groups = (b.array(b.at(k)) for k in (1, 2, 3, 4))
    blocks = -(-depth // block)
    if packed is None or scales is None or any(b.at(k) is not None and v is None for k, v in ((3, zeros), (4, groups))):
        return None
    if packed.size * 8 != columns * blocks * block * bits or depth == 0 or columns == 0:
        return None
    order: Array | None = None
    if groups is not None and not np.array_equal(groups, np.arange(depth) // block):
        order = np.argsort(groups, kind="stable")
        if not np.array_equal(groups[order], np.arange(depth) // block):
            return None
    if zeros is not None and zeros.dtype == np.uint8:
        zeros = unpack(zeros, bits).reshape(columns, -1)[:, :blocks]

    def numbers() -> Array:
        found = unpack(packed, bits).reshape(columns, -1)
        return found if order is None else np.concatenate([found[:, order], found[:, depth:]], 1)

    a = b.x(0)
    if order is not None:
        a = b.value(onnx.GatherOp, a, b.large_constant(order), attributes={"axis": -1})
    if zeros is not None:
        zeros = zeros.reshape(columns, blocks)
    weights = BlockWeights(depth, bits, block, numbers, scales.reshape(columns, blocks), zeros)
    return weights.product(b, a, quantized=b.attr("accuracy_level", 0) == INT8)


@dataclass(frozen=True)
class BlockWeights:
    """Constant weights [columns, depth] of a few bits: (number - zero) scale, with scales and zeros [columns, blocks].

    `numbers` gives them where their value matters, [columns, blocks * block].  Zeros are half of 2^bits where they are
    not given.
    """

    depth: int
    bits: int
    block: int
    numbers: Callable[[], Array]
    scales: Array
    zeros: Array | None

    def product(self, b: Expansion, a: SSAValue, *, quantized: bool) -> SSAValue:
        """a [.., depth] times the weights; with `quantized` a's blocks are rounded to bytes."""
        columns, blocks = self.scales.shape
        panels, words = panels_of(columns), blocks * self.block * self.bits // 32

        def of_blocks(values: Array) -> SSAValue:
            return b.computed((panels, blocks * PANEL), np.dtype(np.float32), lambda: pack_of_blocks(values))

        def compute() -> Array:
            return pack_words(self.numbers(), self.bits)

        operands = [a, b.computed((panels, words * PANEL), np.dtype(np.int32), compute), of_blocks(self.scales)]
        if self.zeros is not None:
            operands.append(of_blocks(self.zeros))
        known = {"bits": self.bits, "block": self.block, "columns": columns, "depth": self.depth}
        return b.own("BlockMatMul", operands, {**known, "quantized": int(quantized)})


def dequantized_product(b: Expansion) -> SSAValue:
    """The product of MatMulNBits with weights that are computed, or whose blocks are of any order, in f32."""
    a = b.x(0)
    weights = b.transposed(block_weights(b), [1, 0])
    return b.value(onnx.CastLikeOp, b.value(onnx.MatMulOp, b.cast(a, f32), weights), a)


def block_weights(b: Expansion) -> SSAValue:
    """The weights [N, K] of MatMulNBits as f32: (w - zero) scale."""
    depth, columns, block, bits = b.attr("K"), b.attr("N"), b.attr("block_size"), b.attr("bits", 4)
    blocks = -(-depth // block)
    numbers = b.sliced(b.reshaped(apart(b, b.reshaped(b.x(1), [columns, -1]), bits), [columns, -1]), 1, 0, depth)
    groups = b.at(4) if b.at(4) is not None else b.large_constant(np.arange(depth) // block)

    def spread(x: SSAValue) -> SSAValue:
        """[N, blocks] as [N, K]."""
        return b.make(onnx.GatherOp, [b.cast(x, f32), groups], {"axis": 1}).results[0]

    zero, scale = b.at(3), spread(b.reshaped(b.x(2), [columns, blocks]))
    if zero is None:
        return b.mul(b.sub(b.cast(numbers, f32), b.like(1 << (bits - 1), scale)), scale)
    if b.element(zero) == b.element(b.x(1)):
        zero = b.sliced(apart(b, b.reshaped(zero, [columns, -1]), bits), 1, 0, blocks)
    return b.mul(b.sub(b.cast(numbers, f32), spread(b.reshaped(zero, [columns, blocks]))), scale)


def apart(b: Expansion, x: SSAValue, bits: int) -> SSAValue:
    """Bytes [.., n] as uint8 [.., 8 / bits * n]: the numbers in them, low bits first."""
    if bits == 8:
        return x
    shifts = b.constant(np.arange(0, 8, bits, dtype=np.uint8))
    rank = b.rank(x)
    shifted = b.value(onnx.BitShiftOp, b.unsqueezed(x, rank), shifts, attributes={"direction": "RIGHT"})
    masked = b.value(onnx.BitwiseAndOp, shifted, b.constant(np.array((1 << bits) - 1, np.uint8)))
    return b.reshaped(masked, [*[0] * (rank - 1), -1])


def unpack(array: Array, bits: int) -> Array:
    """The numbers in bytes, low bits first, flat."""
    flat = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    if bits == 8:
        return flat
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((flat[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)


def gather_block_quantized(b: Expansion) -> Results:
    """Rows of quantized data, dequantized.  Bytes hold numbers of `bits` along the last axis."""
    b.known("bits", "block_size", "gather_axis", "quantize_axis")
    data, indices, zero, bits = b.x(0), b.x(1), b.at(3), b.attr("bits", 4)
    rank = b.rank(data)
    gather, along = b.attr("gather_axis", 0) % rank, b.attr("quantize_axis", 1) % rank
    if gather == along:
        raise b.unsupported("its 'gather_axis' is its 'quantize_axis'")
    packed = onnx.numpy_dtype(b.element(data)) == np.uint8
    if packed and (bits not in BITS or (bits != 8 and gather == rank - 1)):
        raise b.unsupported(f"bytes of {bits} bits along axis {gather} are not supported")

    def picked(x: SSAValue) -> SSAValue:
        return b.value(onnx.GatherOp, x, indices, attributes={"axis": gather})

    rows, scales = picked(data), picked(b.x(2))
    zero = None if zero is None else picked(zero)
    axis = along if along < gather else along - 1 + b.rank(indices)
    last = b.rank(rows) - 1
    if packed:
        rows = apart(b, rows, bits)
        if zero is None:
            half = b.cast(b.constant(np.array(1 << (bits - 1))), b.element(rows))
            zero = b.value(onnx.ExpandOp, half, b.shape(scales))
        else:
            zero = apart(b, zero, bits)
            stop = b.size_of(scales, last)
            zero = b.value(onnx.SliceOp, zero, b.ints([0]), stop, b.ints([last]))
    attributes = {"axis": axis, "block_size": b.attr("block_size", 128)}
    return [b.value(onnx.DequantizeLinearOp, rows, scales, zero, attributes=attributes)]


PACKED_WEIGHTS: Mapping[str, Rule] = {
    "GatherBlockQuantized": gather_block_quantized,
    "MatMulNBits": matmul_nbits,
}
