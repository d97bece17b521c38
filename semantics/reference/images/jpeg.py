"""JPEG (ITU T.81): Huffman-coded baseline, extended and progressive images of 8 bits.

The integer inverse transform, the smooth upsampling of colour and the colour conversion are those of the IJG's library,
so that the pixels are equal to what most decoders give.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ..dtypes import Array
from .bits import BitReader, DecodeError, checked_size

_ZIGZAG = np.array(
    [0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
     28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61,
     54, 47, 55, 62, 63]
)  # fmt: skip


@dataclass
class Component:
    """One colour: its sampling, its quantizers, and the coefficients of its blocks [rows, columns, 64]."""

    horizontal: int
    vertical: int
    quantizer: int
    blocks: Array = field(default_factory=lambda: np.zeros((0, 0, 64), np.int64))
    needed: tuple[int, ...] = (0, 0)
    """Rows and columns of blocks that hold the image."""


@dataclass
class Scan:
    """What one scan codes: components with their Huffman tables, and a band of coefficients."""

    parts: list[tuple[Component, list[int], list[int]]]
    first: int
    last: int
    high: int
    low: int


Table = list[int]
"""For the next 16 bits: the code's length times 256 plus its symbol; 0 where no code begins so."""


def _huffman(lengths: bytes, symbols: bytes) -> Table:
    table, code, at = [0] * 65536, 0, 0
    for length, count in enumerate(lengths, start=1):
        for symbol in symbols[at : at + count]:
            first, span = code << (16 - length), 1 << (16 - length)
            if first + span > 65536:
                raise DecodeError("a Huffman table of a JPEG is damaged")
            table[first : first + span] = [length << 8 | symbol] * span
            code += 1
        at += count
        code <<= 1
    return table


def _symbol(reader: BitReader, table: Table) -> int:
    entry = table[reader.peek(16)]
    if not entry:
        raise DecodeError("a JPEG's data are damaged")
    reader.skip(entry >> 8)
    return entry & 255


def _signed(reader: BitReader, size: int) -> int:
    """The next `size` bits as the standard codes differences."""
    value = reader.take(size)
    return value if not size or value >> (size - 1) else value - (1 << size) + 1


def _segments(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """(marker, its body, where it ends)."""
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF or data[at + 1] in (0, 0xFF) or 0xD0 <= data[at + 1] <= 0xD7:
            at += 1
            continue
        marker = data[at + 1]
        if marker == 0xD9:
            return
        (length,) = struct.unpack_from(">H", data, at + 2)
        yield marker, data[at + 4 : at + 2 + length], at + 2 + length
        at += 2 + length


def _entropy_coded(data: bytes, at: int) -> list[bytes]:
    """The data of a scan from `at` on, cut at the restart markers, without stuffed zeros."""
    parts, start = [bytearray()], at
    while at + 1 < len(data):
        at = data.find(b"\xff", at)
        if at < 0 or at + 1 >= len(data):
            at = len(data)
            break
        follows = data[at + 1]
        if follows == 0:
            parts[-1] += data[start : at + 1]
            at = start = at + 2
        elif 0xD0 <= follows <= 0xD7:
            parts[-1] += data[start:at]
            parts.append(bytearray())
            at = start = at + 2
        else:
            break
    parts[-1] += data[start:at]
    return [bytes(p) for p in parts]


class _Decoder:
    def __init__(self) -> None:
        self.width = self.height = 0
        self.components: dict[int, Component] = {}
        self.quantizers: dict[int, Array] = {}
        self.tables: dict[int, Table] = {}
        self.restart = 0
        self.progressive = False
        self.adobe: int | None = None

    def read(self, data: bytes) -> None:
        for marker, body, end in _segments(data):
            if marker == 0xDB:
                self._quantizers(body)
            elif marker == 0xC4:
                self._huffman_tables(body)
            elif marker in (0xC0, 0xC1, 0xC2):
                self.progressive = marker == 0xC2
                self._frame(body)
            elif 0xC3 <= marker <= 0xCF and marker != 0xCC:
                raise NotImplementedError("JPEG images that are lossless, hierarchical or arithmetically coded")
            elif marker == 0xDD:
                (self.restart,) = struct.unpack(">H", body)
            elif marker == 0xEE and body.startswith(b"Adobe"):
                self.adobe = body[11]
            elif marker == 0xDA:
                self._scan(body, _entropy_coded(data, end))

    def _quantizers(self, body: bytes) -> None:
        at = 0
        while at < len(body):
            wide, number = body[at] >> 4, body[at] & 15
            values = np.frombuffer(body, np.dtype(">u2") if wide else np.uint8, 64, at + 1)
            table = np.zeros(64, np.int64)
            table[_ZIGZAG] = values
            self.quantizers[number] = table
            at += 65 + 64 * bool(wide)

    def _huffman_tables(self, body: bytes) -> None:
        at = 0
        while at < len(body):
            lengths = body[at + 1 : at + 17]
            count = sum(lengths)
            self.tables[body[at]] = _huffman(lengths, body[at + 17 : at + 17 + count])
            at += 17 + count

    def _frame(self, body: bytes) -> None:
        depth, self.height, self.width, count = struct.unpack_from(">BHHB", body)
        if depth != 8:
            raise NotImplementedError(f"JPEG images of {depth} bits")
        checked_size(self.width, self.height)
        self.components = {}
        for i in range(count):
            name, sampling, quantizer = body[6 + 3 * i : 9 + 3 * i]
            self.components[name] = Component(sampling >> 4, sampling & 15, quantizer)
        across, down = self._most()
        columns, rows = -(-self.width // (8 * across)), -(-self.height // (8 * down))
        for c in self.components.values():
            c.blocks = np.zeros((rows * c.vertical, columns * c.horizontal, 64), np.int64)
            c.needed = tuple(-(-n // 8) for n in self._sizes(c))

    def _sizes(self, component: Component) -> tuple[int, int]:
        """Rows and columns of samples of a component."""
        across, down = self._most()
        return -(-self.height * component.vertical // down), -(-self.width * component.horizontal // across)

    def _most(self) -> tuple[int, int]:
        parts = self.components.values()
        return max(c.horizontal for c in parts), max(c.vertical for c in parts)

    def _scan(self, body: bytes, data: list[bytes]) -> None:
        count = body[0]
        parts: list[tuple[Component, Table, Table]] = []
        for i in range(count):
            name, tables = body[1 + 2 * i : 3 + 2 * i]
            dc, ac = self.tables.get(tables >> 4, []), self.tables.get(16 | tables & 15, [])
            parts.append((self.components[name], dc, ac))
        first, last, approximation = body[1 + 2 * count : 4 + 2 * count]
        scan = Scan(parts, first, last, approximation >> 4, approximation & 15)
        units = self._units(parts)
        step = self.restart or len(units)
        for number, start in enumerate(range(0, len(units), step)):
            if number < len(data):
                _decode_interval(BitReader(data[number]), scan, units[start : start + step], self.progressive)

    def _units(self, parts: list[tuple[Component, Table, Table]]) -> list[list[tuple[int, Array]]]:
        """The blocks of each unit between which a scan may restart, with their part's number."""
        if len(parts) == 1:
            component = parts[0][0]
            rows, columns = component.needed
            return [[(0, component.blocks[y, x])] for y in range(rows) for x in range(columns)]
        across, down = self._most()
        columns, rows = -(-self.width // (8 * across)), -(-self.height // (8 * down))
        return [
            [
                (i, c.blocks[y * c.vertical + v, x * c.horizontal + h])
                for i, (c, _, _) in enumerate(parts)
                for v in range(c.vertical)
                for h in range(c.horizontal)
            ]
            for y in range(rows)
            for x in range(columns)
        ]

    def pixels(self) -> Array:
        """[H, W, 1 or 3] in grey or RGB."""
        across, down = self._most()
        planes: list[Array] = []
        for c in self.components.values():
            rows, columns = self._sizes(c)
            plane = _inverse(c.blocks * self.quantizers[c.quantizer])[:rows, :columns]
            planes.append(_upsampled(plane, across // c.horizontal, down // c.vertical)[: self.height, : self.width])
        if len(planes) == 1:
            return planes[0][:, :, None].astype(np.uint8)
        if len(planes) != 3:
            raise NotImplementedError(f"JPEG images of {len(planes)} components")
        plain = self.adobe == 0 or (self.adobe is None and list(self.components) == [82, 71, 66])
        return np.stack(planes, axis=2).astype(np.uint8) if plain else _to_rgb(*planes)


def _decode_interval(reader: BitReader, scan: Scan, units: list[list[tuple[int, Array]]], progressive: bool) -> None:
    """The units between two restarts."""
    predictions = [0] * len(scan.parts)
    run = 0  # blocks whose band is known to be over
    for unit in units:
        for part, block in unit:
            _, dc, ac = scan.parts[part]
            if not progressive:
                predictions[part] += _signed(reader, _symbol(reader, dc))
                block[0] = predictions[part]
                _sequential(reader, ac, block)
            elif scan.first == 0:
                if scan.high:
                    block[0] |= reader.take(1) << scan.low
                else:
                    predictions[part] += _signed(reader, _symbol(reader, dc))
                    block[0] = predictions[part] << scan.low
            elif scan.high:
                run = _refined(reader, ac, block, scan, run)
            else:
                run = _band(reader, ac, block, scan, run)


def _sequential(reader: BitReader, table: Table, block: Array) -> None:
    k = 1
    while k < 64:
        symbol = _symbol(reader, table)
        zeros, size = symbol >> 4, symbol & 15
        if not size:
            if zeros < 15:
                return
            k += 16
            continue
        k += zeros
        if k > 63:
            raise DecodeError("a JPEG's data are damaged")
        block[_ZIGZAG[k]] = _signed(reader, size)
        k += 1


def _band(reader: BitReader, table: Table, block: Array, scan: Scan, run: int) -> int:
    """A band's first bits; the result is how many further blocks have none."""
    if run:
        return run - 1
    k = scan.first
    while k <= scan.last:
        symbol = _symbol(reader, table)
        zeros, size = symbol >> 4, symbol & 15
        if not size:
            if zeros < 15:
                return (1 << zeros) + reader.take(zeros) - 1
            k += 16
            continue
        k += zeros
        if k > 63:
            raise DecodeError("a JPEG's data are damaged")
        block[_ZIGZAG[k]] = _signed(reader, size) << scan.low
        k += 1
    return 0


def _refined(reader: BitReader, table: Table, block: Array, scan: Scan, run: int) -> int:
    """One more bit of a band's coefficients, and coefficients that it makes non-zero."""
    bit = 1 << scan.low
    k = scan.first
    while not run and k <= scan.last:
        symbol = _symbol(reader, table)
        zeros, size = symbol >> 4, symbol & 15
        value = 0
        if size:
            value = bit if reader.take(1) else -bit
        elif zeros < 15:
            run = (1 << zeros) + reader.take(zeros)
            break
        while k <= scan.last:
            place = _ZIGZAG[k]
            k += 1
            if block[place]:
                _sharpen(reader, block, place, bit)
            elif zeros:
                zeros -= 1
            else:
                block[place] = value
                break
    if run:
        for place in _ZIGZAG[k : scan.last + 1]:
            if block[place]:
                _sharpen(reader, block, place, bit)
        run -= 1
    return run


def _sharpen(reader: BitReader, block: Array, place: int, bit: int) -> None:
    if reader.take(1) and not abs(int(block[place])) & bit:
        block[place] += bit if block[place] > 0 else -bit


def _one_pass(x: list[Array], shift: int) -> list[Array]:
    """The 8-point inverse transform in fixed point of 13 bits (Loeffler, Ligtenberg and Moschytz; IJG's "islow")."""
    z1 = (x[2] + x[6]) * 4433
    t2, t3 = z1 - x[6] * 15137, z1 + x[2] * 6270
    t0, t1 = (x[0] + x[4]) << 13, (x[0] - x[4]) << 13
    even = [t0 + t3, t1 + t2, t1 - t2, t0 - t3]
    z1, z2, z3, z4 = x[7] + x[1], x[5] + x[3], x[7] + x[3], x[5] + x[1]
    z5 = (z3 + z4) * 9633
    z1, z2, z3, z4 = z1 * -7373, z2 * -20995, z5 - z3 * 16069, z5 - z4 * 3196
    odd = [x[1] * 12299 + z1 + z4, x[3] * 25172 + z2 + z3, x[5] * 16819 + z2 + z4, x[7] * 2446 + z1 + z3]
    half = 1 << (shift - 1)
    first = [(e + o + half) >> shift for e, o in zip(even, odd, strict=True)]
    second = [(e - o + half) >> shift for e, o in zip(even, odd, strict=True)]
    return first + second[::-1]


def _inverse(blocks: Array) -> Array:
    """Coefficients [rows, columns, 64] as samples [8 rows, 8 columns] of 0 to 255."""
    rows, columns = blocks.shape[:2]
    x = blocks.reshape(rows, columns, 8, 8)
    down = np.stack(_one_pass([x[:, :, i] for i in range(8)], 11), axis=2)
    across = np.stack(_one_pass([down[..., i] for i in range(8)], 18), axis=3)
    return np.clip(across + 128, 0, 255).transpose(0, 2, 1, 3).reshape(8 * rows, 8 * columns)


def _upsampled(plane: Array, across: int, down: int) -> Array:
    """Smooth where one of two samples is missing across (and down), else repeated."""
    if across == 2 and down == 1 and plane.shape[1] > 2:
        return _doubled(plane, 1, (1, 2), 2)
    if across == 2 and down == 2 and plane.shape[1] > 2:
        # sums of 3 near and 1 far row, then the same across; rounded up and down by turns
        above, below = np.vstack([plane[:1], plane[:-1]]), np.vstack([plane[1:], plane[-1:]])
        sums = np.stack([3 * plane + above, 3 * plane + below], axis=1).reshape(-1, plane.shape[1])
        return _doubled(sums, 4, (8, 7), 4)
    return np.repeat(np.repeat(plane, across, axis=1), down, axis=0)


def _doubled(plane: Array, edge: int, rounding: tuple[int, int], shift: int) -> Array:
    """Twice the columns, each 3 parts of the nearer and 1 of the farther sample."""
    left, right = np.hstack([plane[:, :1], plane[:, :-1]]), np.hstack([plane[:, 1:], plane[:, -1:]])
    even, odd = (3 * plane + left + rounding[0]) >> shift, (3 * plane + right + rounding[1]) >> shift
    if edge == 1:
        even[:, 0], odd[:, -1] = plane[:, 0], plane[:, -1]
    return np.stack([even, odd], axis=2).reshape(len(plane), -1)


def _to_rgb(y: Array, cb: Array, cr: Array) -> Array:
    """JFIF's colours in fixed point of 16 bits."""
    blue, red, half = cb - 128, cr - 128, 1 << 15
    planes = [
        y + ((91881 * red + half) >> 16),
        y + ((-22554 * blue - 46802 * red + half) >> 16),
        y + ((116130 * blue + half) >> 16),
    ]
    return np.clip(np.stack(planes, axis=2), 0, 255).astype(np.uint8)


def decode_jpeg(data: bytes) -> Array:
    """[H, W, 1 or 3]."""
    decoder = _Decoder()
    decoder.read(data)
    if not decoder.components:
        raise DecodeError("a JPEG without a frame")
    return decoder.pixels()
