"""Packing of constant operands at compile time: numpy beside the templates that read these layouts."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .winograd_forms import Form


def pack_columns(matrix: NDArray[Any], panel: int) -> NDArray[Any]:
    """[K, N] -> flat [ceil(N / panel), K, panel]: panels of columns, the last filled up with zeros."""
    depth, columns = matrix.shape
    panels = -(-columns // panel)
    padded = np.zeros((depth, panels * panel), matrix.dtype)
    padded[:, :columns] = matrix
    return np.ascontiguousarray(padded.reshape(depth, panels, panel).transpose(1, 0, 2)).reshape(-1)


def rounded_to_bf16(values: NDArray[Any]) -> NDArray[np.uint16]:
    """f32 as the bits of bf16: to nearest even, denormals as zeros of their sign, NaN quiet."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    upper = bits >> 16
    rounded = (bits + (np.uint32(0x7FFF) + (upper & 1))) >> 16
    found = np.where(bits & 0x7F800000 == 0, upper & 0x8000, rounded)
    return np.where(bits & 0x7FFFFFFF > 0x7F800000, upper | 0x40, found).astype(np.uint16)


def as_pairs(matrix: NDArray[Any]) -> NDArray[np.int32]:
    """f32 [K, N] -> [ceil(K / 2), N]: words of two steps of the depth as bf16, the even one in the lower half."""
    depth, columns = matrix.shape
    halves = np.zeros((-(-depth // 2), 2, columns), np.uint16)
    halves.reshape(-1, columns)[:depth] = rounded_to_bf16(matrix)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).view(np.int32)[..., 0]


def pack_pair_columns(matrix: NDArray[Any], panel: int) -> NDArray[Any]:
    """f32 [K, N] as products in bf16 read it: `as_pairs` in panels of columns."""
    return pack_columns(as_pairs(matrix), panel)


def pack_strassen(matrix: NDArray[Any], block: int, panel: int) -> NDArray[Any]:
    """[K, N] -> flat [K / block, N / (2 * panel), 4, block / 2, panel]: see `strassen` for the four sums; then [N].

    These are sums of columns scaled by powers of two, so that all are as large as the largest; at the end are the
    factors that results get for it.
    """
    depth, columns = matrix.shape
    scales, inverses = column_scales(matrix)
    groups = columns // (2 * panel)
    halves = matrix.reshape(depth // block, 2, block // 2, groups, 2, panel).swapaxes(2, 3)
    flat = np.empty((depth + 1) * columns, matrix.dtype)
    sums = flat[:-columns].reshape(depth // block, groups, 4, block // 2, panel)
    left, right = scales.reshape(groups, 2, 1, panel).swapaxes(0, 1)
    np.multiply(halves[:, 0, :, :, 0], left, out=sums[:, :, 0])
    np.multiply(halves[:, 1, :, :, 1], right, out=sums[:, :, 1])
    np.multiply(halves[:, 0, :, :, 1], right, out=sums[:, :, 2])
    np.multiply(halves[:, 1, :, :, 0], left, out=sums[:, :, 3])
    sums[:, :, 2:] -= sums[:, :, 1::-1]
    flat[-columns:] = inverses
    return flat


MOST_SHIFT = 126
"""Powers of two up to this and their inverses are normal numbers of f32."""
MOST_EXPONENT = 60
"""Of scaled columns: products with rows between 1 and 4 are far from the ends of f32's range."""


def column_scales(matrix: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """[K, N] -> [N], [N]: powers of two that bring all columns to the magnitude of the largest, and their inverses.

    A column of zeros has the inverse 0; one that is not finite keeps its scale.
    """
    largest = np.maximum(matrix.max(0), -matrix.min(0))
    scaled = np.isfinite(largest) & (largest != 0)
    exponents = np.frexp(np.where(scaled, largest, 1))[1]
    top = np.clip(exponents[scaled].max(initial=-MOST_EXPONENT), -MOST_EXPONENT, MOST_EXPONENT)
    shifts = np.where(scaled, np.clip(top - exponents, -MOST_SHIFT, MOST_SHIFT), 0)
    one = matrix.dtype.type(1)
    return np.ldexp(one, shifts), np.where(largest == 0, 0, np.ldexp(one, -shifts))


def pack_rows(matrices: NDArray[Any], rows: int) -> NDArray[Any]:
    """[G, M, K] -> flat [G, ceil(M / rows), K, rows]: blocks of rows, the last of each matrix filled up with zeros."""
    groups, height, depth = matrices.shape
    tiles = -(-height // rows)
    padded = np.zeros((groups, tiles * rows, depth), matrices.dtype)
    padded[:, :height] = matrices
    return np.ascontiguousarray(padded.reshape(groups, tiles, rows, depth).swapaxes(2, 3)).reshape(-1)


def pack_conv(weights: NDArray[Any], groups: int, rows: int, columns: int, pixels: bool) -> NDArray[Any]:
    """[M, C / group, ...] as the conv template reads it with a tile of `rows` by `columns`."""
    matrices = weights.reshape(groups, weights.shape[0] // groups, -1)
    return pack_rows(matrices, columns if pixels else rows)


def pack_pair_conv(weights: NDArray[Any], groups: int, rows: int, columns: int, pixels: bool) -> NDArray[Any]:
    """f32 [M, C / group, ...] as convolutions in bf16 read it: `pack_conv` of words of two channels."""
    height, depth = weights.shape[:2]
    words = as_pairs(weights.reshape(height, depth, -1).swapaxes(0, 1).reshape(depth, -1))
    return pack_conv(words.reshape(len(words), height, -1).swapaxes(0, 1), groups, rows, columns, pixels)


def pack_conv_transpose(weights: NDArray[Any], groups: int, rows: int, columns: int, pixels: bool) -> NDArray[Any]:
    """[C, M / group, ...] as the conv_transpose template reads it with a tile of `rows` by `columns`."""
    channels, height = weights.shape[:2]
    matrices = weights.reshape(groups, channels // groups, height, -1).swapaxes(1, 2)
    return pack_rows(matrices.reshape(groups, height, -1), columns if pixels else rows)


def _as_signed(weights: NDArray[Any]) -> NDArray[Any]:
    """Bytes as s8: unsigned ones less 128."""
    return weights.view(np.int8) ^ np.int8(-128) if weights.dtype == np.uint8 else weights


def pack_quad_conv(weights: NDArray[Any], groups: int, height: int) -> NDArray[Any]:
    """Bytes [M, C / group, ...] as the integer convolutions read them: flat, four channels as s8 side by side, in tiles
    of `height` output channels, then i32 sums."""
    signed = _as_signed(weights)
    rows, depth = weights.shape[0] // groups, weights.shape[1]
    taps = prod(weights.shape[2:])
    quads, tiles = -(-depth // 4), -(-rows // height)
    padded = np.zeros((groups, tiles * height, quads * 4, taps), np.int8)
    padded[:, :rows, :depth] = signed.reshape(groups, rows, depth, taps)
    split = padded.reshape(groups, tiles, height, quads, 4, taps).transpose(0, 1, 3, 5, 2, 4)
    sums = padded.sum(axis=(2, 3), dtype=np.int32).reshape(-1)
    return np.concatenate([np.ascontiguousarray(split).reshape(-1), sums.view(np.int8)]).view(weights.dtype)


def pack_quad_columns(matrix: NDArray[Any], panel: int) -> NDArray[Any]:
    """Bytes [K, N] as the integer products read them: flat, panels of four steps as s8 side by side, then i32 sums."""
    depth, columns = matrix.shape
    quads, panels = -(-depth // 4), -(-columns // panel)
    padded = np.zeros((quads * 4, panels * panel), np.int8)
    padded[:depth, :columns] = _as_signed(matrix)
    split = padded.reshape(quads, 4, panels, panel).transpose(2, 0, 3, 1)
    sums = padded.sum(axis=0, dtype=np.int32)
    return np.concatenate([np.ascontiguousarray(split).reshape(-1), sums.view(np.int8)]).view(matrix.dtype)


def pack_winograd(weights: NDArray[Any], form: Form, rows: int) -> NDArray[Any]:
    """[M, C, 3, 3] -> flat, for each element [ceil(M / rows), its terms * C, rows]: G w G^T, rounded once from f64."""
    terms = winograd_terms(weights, form)
    parts: list[NDArray[Any]] = []
    for group in form.groups:
        own = terms[group.slot : group.slot + group.count * group.terms]
        parts.append(pack_rows(_joined(own, group.terms), rows))
    return np.concatenate(parts)


def pack_winograd_columns(weights: NDArray[Any], form: Form, columns: int) -> NDArray[Any]:
    """[M, C, 3, 3] -> flat [ceil(M / columns), term, C, columns], likewise."""
    terms = winograd_terms(weights, form)
    slots, channels, depth = terms.shape
    tiles = -(-channels // columns)
    padded = np.zeros((slots, tiles * columns, depth), weights.dtype)
    padded[:, :channels] = terms
    return np.ascontiguousarray(padded.reshape(slots, tiles, columns, depth).transpose(1, 0, 3, 2)).reshape(-1)


def _joined(terms: NDArray[Any], count: int) -> NDArray[Any]:
    """[elements * count, M, C] -> [elements, M, count * C]"""
    _, channels, depth = terms.shape
    split = terms.reshape(-1, count, channels, depth).transpose(0, 2, 1, 3)
    return split.reshape(-1, channels, count * depth)


def winograd_terms(weights: NDArray[Any], form: Form) -> NDArray[Any]:
    """[term, M, C]"""
    down, across = (np.array(line.weights) for line in form.lines)
    terms = np.einsum("ik,mckl,jl->ijmc", down, weights.astype(np.float64), across, optimize=True)
    places = np.array(form.slots)
    return terms[places[:, 0], places[:, 1]].astype(weights.dtype)


def pack_gates(weights: NDArray[Any], panel: int) -> NDArray[Any]:
    """[directions, gates * H, inputs] as a recurrence's product with its input reads it: panels of each direction."""
    return np.concatenate([pack_columns(w.T, panel) for w in weights])


def pack_recurrence(weights: NDArray[Any], blocks: Sequence[tuple[int, int, int]], lanes: int) -> NDArray[Any]:
    """[directions, gates * H, H] as the steps of a recurrence read it.

    A block is (first gate, gates, vectors of units).  Flat: for each direction and block [block of units, pass, hidden
    unit (whole vectors of them), vector of the pass, lane], see `recurrent`.
    """
    directions, rows, hidden = weights.shape
    gates = weights.reshape(directions, rows // hidden, hidden, hidden)
    steps = -(-hidden // lanes) * lanes
    parts: list[NDArray[Any]] = []
    for direction in gates:
        for first, count, units in blocks:
            width = units * lanes
            tiles = -(-hidden // width)
            padded = np.zeros((count, tiles * width, steps), weights.dtype)
            padded[:, :hidden, :hidden] = direction[first : first + count]
            split = padded.reshape(count, tiles, units, lanes, steps).transpose(1, 0, 2, 4, 3)
            passes = split.reshape(tiles, count * units // 2, 2, steps, lanes).transpose(0, 1, 3, 2, 4)
            parts.append(np.ascontiguousarray(passes).reshape(-1))
    return np.concatenate(parts)
