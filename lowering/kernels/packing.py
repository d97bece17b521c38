"""Packing of constant operands at compile time: numpy beside the templates that read these layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def pack_columns(matrix: NDArray[Any], panel: int) -> NDArray[Any]:
    """[K, N] -> flat [ceil(N / panel), K, panel]: panels of columns, the last filled up with zeros."""
    depth, columns = matrix.shape
    panels = -(-columns // panel)
    padded = np.zeros((depth, panels * panel), matrix.dtype)
    padded[:, :columns] = matrix
    return np.ascontiguousarray(padded.reshape(depth, panels, panel).transpose(1, 0, 2)).reshape(-1)


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


def pack_conv_transpose(weights: NDArray[Any], groups: int, rows: int, columns: int, pixels: bool) -> NDArray[Any]:
    """[C, M / group, ...] as the conv_transpose template reads it with a tile of `rows` by `columns`."""
    channels, height = weights.shape[:2]
    matrices = weights.reshape(groups, channels // groups, height, -1).swapaxes(1, 2)
    return pack_rows(matrices.reshape(groups, height, -1), columns if pixels else rows)
