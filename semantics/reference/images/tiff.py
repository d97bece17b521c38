"""TIFF 6.0: the first image of a file, in strips or tiles, plain or packed by PackBits, LZW or Deflate."""

from __future__ import annotations

import struct

import numpy as np

from ..dtypes import Array
from .bits import BitReader, DecodeError, checked_size, inflated
from .plain import unpacked

# field type -> its struct code
_TYPES = {1: "B", 2: "s", 3: "H", 4: "I", 5: "II", 6: "b", 8: "h", 9: "i", 16: "Q"}


def _directory(data: bytes, order: str) -> dict[int, list[int]]:
    """The first directory's fields of integers, by tag."""
    (at,) = struct.unpack_from(order + "I", data, 4)
    (count,) = struct.unpack_from(order + "H", data, at)
    fields: dict[int, list[int]] = {}
    for i in range(count):
        tag, kind, length = struct.unpack_from(order + "HHI", data, at + 2 + 12 * i)
        if kind not in _TYPES or kind == 2:
            continue
        code = order + _TYPES[kind] * length
        place = at + 10 + 12 * i
        if struct.calcsize(code) > 4:
            (place,) = struct.unpack_from(order + "I", data, place)
        fields[tag] = list(struct.unpack_from(code, data, place))
    return fields


def decode_tiff(data: bytes) -> Array:
    """[H, W, 1 or 3]."""
    order = "<" if data[:2] == b"II" else ">"
    fields = _directory(data, order)
    width, height = fields[256][0], fields[257][0]
    checked_size(width, height)
    depths, compression, photometric = fields.get(258, [1]), fields.get(259, [1])[0], fields.get(262, [1])[0]
    samples, planar = fields.get(277, [1])[0], fields.get(284, [1])[0] == 2
    if len(set(depths)) > 1 or depths[0] not in (1, 2, 4, 8, 16) or photometric > 3:
        raise NotImplementedError(f"TIFF images of depths {depths} and photometric interpretation {photometric}")
    tiled = 322 in fields
    block_width = fields[322][0] if tiled else width
    block_height = fields[323][0] if tiled else min(fields.get(278, [height])[0], height)
    offsets, sizes = (fields[324], fields[325]) if tiled else (fields[273], fields[279])
    inside = 1 if planar else samples
    pixels = np.zeros((height, width, samples), np.uint8)
    places = [
        (plane, y, x)
        for plane in range(samples if planar else 1)
        for y in range(0, height, block_height)
        for x in range(0, width, block_width)
    ]
    for (plane, y, x), offset, size in zip(places, offsets, sizes):
        rows = block_height if tiled else min(block_height, height - y)
        stride = (block_width * inside * depths[0] + 7) // 8
        raw = _unpacked_block(data[offset : offset + size], compression, rows * stride)
        block = _samples(raw.reshape(rows, stride), block_width * inside, depths[0], order)
        block = block.reshape(rows, block_width, inside)
        if fields.get(317, [1])[0] == 2:  # horizontal differences
            block = np.cumsum(block, axis=1, dtype=np.uint16 if depths[0] == 16 else np.uint8)
        bytes_ = (block >> 8).astype(np.uint8) if depths[0] == 16 else block
        target = pixels[y : y + rows, x : x + block_width, plane : plane + inside]
        target[...] = bytes_[: target.shape[0], : target.shape[1]]
    return _coloured(pixels, photometric, depths[0], fields)


def _samples(rows: Array, count: int, depth: int, order: str) -> Array:
    return rows.view(np.dtype(order + "u2"))[:, :count] if depth == 16 else unpacked(rows, depth, count)


def _coloured(pixels: Array, photometric: int, depth: int, fields: dict[int, list[int]]) -> Array:
    if photometric == 3:
        palette = (np.array(fields[320], np.int64).reshape(3, -1).T >> 8).astype(np.uint8)
        return palette[pixels[:, :, 0]]
    if depth < 8:
        pixels = pixels * np.uint8(255 // ((1 << depth) - 1))
    if photometric == 0:  # white is zero
        pixels = 255 - pixels
    return pixels[:, :, : 3 if photometric == 2 else 1]


def _unpacked_block(data: bytes, compression: int, size: int) -> Array:
    if compression == 1:
        plain = data
    elif compression == 32773:
        plain = _pack_bits(data)
    elif compression == 5:
        plain = _lzw(data, size)
    elif compression in (8, 32946):
        plain = inflated(data, size)
    else:
        raise NotImplementedError(f"TIFF images of compression {compression}")
    if len(plain) < size:
        raise DecodeError("a TIFF's data end too early")
    return np.frombuffer(plain, np.uint8, size)


def _pack_bits(data: bytes) -> bytes:
    result, at = bytearray(), 0
    while at < len(data):
        count = data[at]
        if count < 128:
            result += data[at + 1 : at + 2 + count]
            at += 2 + count
        else:
            result += data[at + 1 : at + 2] * (257 - count if count > 128 else 0)
            at += 2 if count > 128 else 1
    return bytes(result)


def _lzw(data: bytes, size: int) -> bytes:
    reader, result = BitReader(data), bytearray()
    table: list[bytes] = []
    previous = b""
    while len(result) < size:
        # codes grow one entry before the table is full
        code = reader.take(max(9, (len(table) + 1).bit_length()))
        if code == 257:
            break
        if code == 256 or not table:
            table = [bytes([i]) for i in range(256)] + [b"", b""]
            previous = b""
            if code == 256:
                continue
        if code < len(table):
            entry = table[code]
        elif previous:
            entry = previous + previous[:1]
        else:
            raise DecodeError("a TIFF's data are damaged")
        if previous:
            table.append(previous + entry[:1])
        result += entry
        previous = entry
    return bytes(result)
