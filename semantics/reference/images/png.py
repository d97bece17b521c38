"""PNG (ISO/IEC 15948): all colour types, depths and both interlace methods; transparency is dropped."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from ..dtypes import Array
from .bits import DecodeError, checked_size, inflated
from .plain import unpacked

_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
# first row and column, and their steps, of Adam7's passes
_ADAM7 = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 8
    while at + 8 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length


def decode_png(data: bytes) -> Array:
    """[H, W, 1 or 3]."""
    header, palette, packed = b"", b"", b""
    for kind, body in _chunks(data):
        if kind == b"IHDR":
            header = body
        elif kind == b"PLTE":
            palette = body
        elif kind == b"IDAT":
            packed += body
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    checked_size(width, height)
    channels = _CHANNELS[colour]
    # each of the passes may fill up a byte and has a filter for each row
    raw = np.frombuffer(inflated(packed, height * (width * channels * depth // 8 + 16) + 64), np.uint8)
    pixels = np.zeros((height, width, channels), np.uint8)
    at = 0
    for top, left, down, right in _ADAM7 if interlaced else ((0, 0, 1, 1),):
        rows, columns = len(range(top, height, down)), len(range(left, width, right))
        if rows and columns:
            stride = (columns * channels * depth + 7) // 8
            lines = raw[at : at + rows * (stride + 1)].reshape(rows, stride + 1)
            at += lines.size
            plain = _unfiltered(lines, max(channels * depth // 8, 1))
            pixels[top::down, left::right] = _samples(plain, columns * channels, depth).reshape(rows, columns, channels)
    if colour == 3:
        return np.frombuffer(palette, np.uint8).reshape(-1, 3)[pixels[:, :, 0]]
    if depth < 8:
        pixels = pixels * np.uint8(255 // ((1 << depth) - 1))
    return pixels[:, :, : 3 if colour in (2, 6) else 1]


def _samples(rows: Array, count: int, depth: int) -> Array:
    """Samples of 8 bits at most; of 16 the high byte."""
    return rows[:, 0 : 2 * count : 2] if depth == 16 else unpacked(rows, depth, count)


def _unfiltered(lines: Array, step: int) -> Array:
    """Rows without their filter byte, each restored from the one above."""
    above = np.zeros(lines.shape[1] - 1, np.uint8)
    result = np.empty((len(lines), lines.shape[1] - 1), np.uint8)
    for i, line in enumerate(lines):
        above = result[i] = _restored(int(line[0]), line[1:], above, step)
    return result


def _restored(kind: int, line: Array, above: Array, step: int) -> Array:
    if kind == 0:
        return line
    if kind == 2:
        return line + above
    if kind == 1:
        padded = np.concatenate([line, np.zeros(-len(line) % step, np.uint8)]).reshape(-1, step)
        return np.cumsum(padded, axis=0, dtype=np.uint8).reshape(-1)[: len(line)]
    if kind not in (3, 4):
        raise DecodeError(f"a PNG row has the filter {kind}")
    row = [0] * step + [int(v) for v in line]
    upper = [0] * step + [int(v) for v in above]
    for i in range(step, len(row)):
        a, b, c = row[i - step], upper[i], upper[i - step]
        row[i] = (row[i] + ((a + b) // 2 if kind == 3 else _paeth(a, b, c))) & 255
    return np.array(row[step:], np.uint8)


def _paeth(a: int, b: int, c: int) -> int:
    """Of left, above and above left the one nearest to a + b - c."""
    p = a + b - c
    pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
    if pa <= pb and pa <= pc:
        return a
    return b if pb <= pc else c
