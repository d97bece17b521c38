"""Weights of a few bits in blocks along the depth, in the layout that machine code reads.

Columns stand in panels of `PANEL`.  A panel has for each step one word of 32 bits of each of its columns, with
32 / bits neighbours along the depth: of `4 f + i` the bits from `8 i + bits f` on, so that the numbers of one f are the
four bytes of a word, shifted and masked.  Scales and zero points are f32, of a panel's columns for each block.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"

PANEL = 32
"""Columns of a panel: whole vectors on all targets."""


def panels_of(columns: int) -> int:
    """How many panels hold the columns."""
    return -(-columns // PANEL)


def pack_words(numbers: Array, bits: int) -> Array:
    """[columns, depth] of numbers below 2^bits, the depth of whole words -> int32 [panels, words * PANEL]."""
    columns, depth = numbers.shape
    fields = 8 // bits
    padded = np.zeros((panels_of(columns) * PANEL, depth), np.uint8)
    padded[:columns] = numbers
    split = padded.reshape(-1, PANEL, depth // (4 * fields), fields, 4)
    packed = np.zeros((*split.shape[:3], 4), np.uint8)
    for f in range(fields):
        packed |= split[:, :, :, f] << np.uint8(bits * f)
    words = packed.view("<i4")[..., 0].transpose(0, 2, 1)
    return np.ascontiguousarray(words, np.int32).reshape(len(split), -1)


def unpack_words(words: Array, bits: int, columns: int) -> Array:
    """The inverse of `pack_words`."""
    fields = 8 // bits
    by_column = np.ascontiguousarray(words.reshape(len(words), -1, PANEL).transpose(0, 2, 1), "<i4")
    packed = by_column[..., None].view(np.uint8)
    split = [(packed >> np.uint8(bits * f)) & np.uint8((1 << bits) - 1) for f in range(fields)]
    return np.stack(split, -2).reshape(len(words) * PANEL, -1)[:columns]


def pack_of_blocks(values: Array) -> Array:
    """[columns, blocks] -> f32 [panels, blocks * PANEL]."""
    columns, blocks = values.shape
    padded = np.zeros((panels_of(columns) * PANEL, blocks), np.float32)
    padded[:columns] = values
    split = padded.reshape(-1, PANEL, blocks).transpose(0, 2, 1)
    return np.ascontiguousarray(split).reshape(len(split), -1)


def unpack_of_blocks(values: Array, columns: int) -> Array:
    """The inverse of `pack_of_blocks`."""
    return values.reshape(len(values), -1, PANEL).transpose(0, 2, 1).reshape(len(values) * PANEL, -1)[:columns]
