"""Formats without entropy coding: BMP and the portable any-map (PBM, PGM, PPM)."""

from __future__ import annotations

import re
import struct

import numpy as np

from ..dtypes import Array
from .bits import DecodeError, checked_size


def unpacked(rows: Array, bits: int, count: int) -> Array:
    """Rows of bytes as `count` samples of 1, 2, 4 or 8 bits each, the first in the highest bits."""
    if bits == 8:
        return rows[:, :count]
    flat = np.unpackbits(rows, axis=1)
    samples = flat[:, : flat.shape[1] // bits * bits].reshape(len(rows), -1, bits)
    weights = 1 << np.arange(bits - 1, -1, -1)
    return (samples @ weights)[:, :count].astype(np.uint8)


def decode_bmp(data: bytes) -> Array:
    """A Windows bitmap without compression, [H, W, 3]."""
    start, header = struct.unpack_from("<II", data, 10)
    if header < 40:
        width, height, _, depth = struct.unpack_from("<HhHH", data, 18)
        compression, colours, entry = 0, 0, 3
    else:
        width, height, _, depth, compression, _, _, _, colours = struct.unpack_from("<iiHHIIiiI", data, 18)
        entry = 4
    if compression not in (0, 3) or depth not in (1, 4, 8, 24, 32):
        raise NotImplementedError(f"BMP images of compression {compression} and {depth} bits")
    checked_size(width, abs(height))
    stride = (width * depth + 31) // 32 * 4
    rows = np.frombuffer(data, np.uint8, stride * abs(height), start).reshape(abs(height), stride)
    if depth >= 24:
        pixels = rows[:, : width * depth // 8].reshape(abs(height), width, depth // 8)[:, :, 2::-1]
    else:
        palette = np.frombuffer(data, np.uint8, (colours or 1 << depth) * entry, 14 + header).reshape(-1, entry)
        pixels = palette[unpacked(rows, depth, width)][:, :, 2::-1]
    return pixels if height < 0 else pixels[::-1]


_FIELD = re.compile(rb"(?:\s|#[^\n]*\n)*(\d+)")


def decode_pnm(data: bytes) -> Array:
    """P1 to P6, [H, W, 1 or 3]."""
    kind, at = data[:2], 2
    fields: list[int] = []
    for _ in range(2 if kind in (b"P1", b"P4") else 3):
        match = _FIELD.match(data, at)
        if match is None:
            raise DecodeError("a PNM header lacks its numbers")
        fields.append(int(match[1]))
        at = match.end()
    width, height, limit = (*fields, 1)[:3]
    checked_size(width, height)
    channels = 3 if kind in (b"P3", b"P6") else 1
    count = width * height * channels
    if kind == b"P1":  # digits may stand without spaces between
        values = np.array([int(c) for c in re.findall(rb"[01]", data[at:])[:count]], np.int64)
    elif kind in (b"P2", b"P3"):
        values = np.array(data[at:].split()[:count], np.int64)
    elif kind == b"P4":
        stride = (width + 7) // 8
        rows = np.frombuffer(data, np.uint8, stride * height, at + 1).reshape(height, stride)
        values = unpacked(rows, 1, width).astype(np.int64)
    else:
        values = np.frombuffer(data, np.uint8 if limit < 256 else np.dtype(">u2"), count, at + 1).astype(np.int64)
    if kind in (b"P1", b"P4"):
        values = 1 - values  # 1 is black
    scaled = (values * 255 + limit // 2) // limit
    return scaled.reshape(height, width, channels).astype(np.uint8)
