"""Operators of the compiler's own, of the domain "sardonyx", on weights in blocks."""

from __future__ import annotations

import numpy as np

from ..block_weights import unpack_of_blocks, unpack_words
from .dtypes import Array, double, narrow
from .mathematics import Function

TINY = 2.0**-64


def block_mat_mul(
    a: Array,
    words: Array,
    scales: Array,
    zeros: Array | None = None,
    /,
    *,
    bits: int,
    block: int,
    columns: int,
    depth: int,
    quantized: int,
) -> Array:
    """a [.., depth] times weights [depth, columns] of a few bits, `(number - zero) * scale` by blocks of the depth.

    `words`, `scales` and `zeros` are in the layout of `block_weights`; without zeros they are half of 2^bits.  With
    `quantized` a's blocks are rounded to bytes first, each by its own scale.
    """
    numbers = unpack_words(words, bits, columns).astype(np.float32)
    of_columns = np.repeat(unpack_of_blocks(scales, columns), block, -1)
    zero = np.float32(1 << (bits - 1))
    if zeros is not None:
        zero = np.repeat(unpack_of_blocks(zeros, columns), block, -1)
    weights = (numbers - zero) * of_columns
    left = quantized_rows(a, block) if quantized else double(a)
    return narrow(left @ double(weights)[:, :depth].T, a.dtype)


def quantized_rows(a: Array, block: int) -> Array:
    """a with each block along its last axis rounded to bytes by a scale, and back."""
    depth = a.shape[-1]
    padded = np.zeros((*a.shape[:-1], -(-depth // block) * block), np.float32)
    padded[..., :depth] = a
    blocks = padded.reshape(*a.shape[:-1], -(-depth // block), block)
    greatest = np.abs(blocks).max(-1, keepdims=True, initial=0)
    larger = np.where(greatest < TINY, np.float32(1 / TINY), np.float32(1))  # else the quotient may be infinite
    divisor = greatest * larger
    inverse = np.where(divisor == 0, np.float32(0), np.float32(127) / divisor)
    rounded = np.clip(np.rint(blocks * larger * inverse), -127, 127)
    scale = greatest * np.float32(1 / 127) + (greatest - greatest)  # NaN where a number is not finite
    return (double(rounded) * double(scale)).reshape(padded.shape)[..., :depth]


BLOCKS: dict[str, Function] = {"BlockMatMul": block_mat_mul}
