"""Packing of bytes for dot products: four steps of the depth in each 32-bit element, as u8 or as s8.

A byte of the other signedness has its top bit turned over, which adds or takes 128; zero points are shifted likewise
(see `integer_product`).  What fills up a quad or a panel is 0 after that, so that it adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import IntegerType, i8, i32
from xdsl.ir import SSAValue

from ..loop_builder import flat, vector_of
from .emit import Emitter, Ix
from .panels import transpose
from .register_tile import Products

I16 = IntegerType(16)
FLIP = 0x80


class DotProducts(Products):
    """Four products of bytes to each 32-bit element: rows are u8 and columns s8, or the other way round."""

    rows_signed: bool

    def __init__(self, rows_signed: bool = False) -> None:
        super().__init__(i32)
        object.__setattr__(self, "rows_signed", rows_signed)

    @property
    def fused(self) -> bool:
        return True

    def multiply_add(self, e: Emitter, row: SSAValue, column: SSAValue, total: SSAValue) -> SSAValue:
        first, second = (column, row) if self.rows_signed else (row, column)
        return e.dot("u8s8", total, as_bytes(e, first), as_bytes(e, second))


def as_bytes(e: Emitter, quads: SSAValue) -> SSAValue:
    """A vector of 32-bit elements as the bytes in them."""
    lanes = e.target.lanes(4)
    return e.b.hoisted(vector.BitcastOp(quads, vector_of(i8, 4 * lanes))).result


def ones(e: Emitter) -> SSAValue:
    """A 1 in each byte: the sum of a quad is its dot product with it."""
    return e.constant(1, i8, 4 * e.target.lanes(4))


def scratch_of_quads(e: Emitter, buffer: SSAValue, size: Ix) -> SSAValue:
    """A buffer of bytes as one of 32-bit elements."""
    zero = e.ix(0).ssa
    return e.b.hoisted(memref.ViewOp.create(operands=[buffer, zero, size.ssa], result_types=[flat(i32)])).results[0]


@dataclass(frozen=True)
class BytePacker:
    """Packs bytes of a source into quads; `flip` turns their top bits over."""

    e: Emitter
    source: SSAValue
    flip: bool

    @property
    def lanes(self) -> int:
        return self.e.target.lanes(4)

    def across(
        self,
        row_at: Callable[[int], Ix],
        rows: int,
        depth: Ix,
        panel: SSAValue,
        at: Ix,
        pitch: int,
        edge: SSAValue,
    ) -> None:
        """panel[at + q * pitch + r] = bytes 4 q .. 4 q + 3 from source[row_at(r)] on, of `depth` bytes.

        As `panels.pack_across` it writes `slack` quads more.  `edge` is scratch for one square of bytes.
        """
        e, lanes = self.e, self.lanes
        assert rows <= lanes or pitch % lanes == 0, "whole vectors would overlap"
        whole = depth // (4 * lanes)
        for first in range(0, rows, lanes):
            starts = [row_at(r) for r in range(first, min(first + lanes, rows))]
            with e.loop(0, whole) as loop:
                k = loop.index * (4 * lanes)
                square = [e.load_vector(self.source, k + start, 4 * lanes) for start in starts]
                self._store_square(square, panel, loop.index * (lanes * pitch) + at + first, pitch)
            with e.when((whole * (4 * lanes)).compare("ne", depth)):
                self._copy_edge(starts, whole * (4 * lanes), depth, edge)
                square = [e.load_vector(edge, r * 4 * lanes, 4 * lanes) for r in range(len(starts))]
                self._store_square(square, panel, whole * (lanes * pitch) + at + first, pitch)

    def _copy_edge(self, starts: Sequence[Ix], begin: Ix, end: Ix, edge: SSAValue) -> None:
        """The last bytes of each row, filled up with what is 0 in the end."""
        e, lanes = self.e, self.lanes
        filler = e.constant(FLIP - 256 if self.flip else 0, i8, 4 * lanes)
        for r, start in enumerate(starts):
            e.store_vector(filler, edge, r * 4 * lanes)
            with e.loop(begin, end) as loop:
                e.store(e.load(self.source, loop.index + start), edge, loop.index - begin + r * 4 * lanes)

    def _store_square(self, rows: list[SSAValue], panel: SSAValue, at: Ix, pitch: int) -> None:
        e, lanes = self.e, self.lanes
        quads = [self._turned(e.b.hoisted(vector.BitcastOp(row, vector_of(i32, lanes))).result) for row in rows]
        quads += [e.constant(0, i32, lanes)] * (lanes - len(quads))
        for step, column in enumerate(transpose(e, quads)):
            e.store_vector(column, panel, at + step * pitch)

    def _turned(self, quads: SSAValue) -> SSAValue:
        if not self.flip:
            return quads
        return self.e.bits("xor", quads, self.e.constant(-0x7F7F7F80, i32, self.lanes))

    def along(
        self, start: Ix, source_pitch: Ix, columns: Ix, width: int, depth: Ix, panel: SSAValue, bytes_: SSAValue, at: Ix
    ) -> None:
        """panel[at + q * width + c] = bytes (4 q .. 4 q + 3, c) of rows `source_pitch` apart, `columns` of them there.

        `bytes_` is the panel as bytes.
        """
        e = self.e
        whole = e.select_index(columns.compare("sge", width), depth // 4, 0)
        with e.loop(0, whole) as loop:
            row = loop.index * 4 * source_pitch + start
            for c in range(0, width, self.lanes):
                rows = [e.load_vector(self.source, row + source_pitch * i + c, self.lanes) for i in range(4)]
                e.store_vector(self._turned(zipped(e, rows)), panel, loop.index * width + at + c)
        with e.loop(whole, depth.ceildiv(4)) as loop, e.loop(0, 4) as within, e.loop(0, width) as across:
            k, c = loop.index * 4 + within.index, across.index
            inside = e.both(k.compare("slt", depth), c.compare("slt", columns))
            place = e.select_index(inside, k * source_pitch + start + c, 0)
            value = e.load(self.source, place)
            if self.flip:
                value = e.bits("xor", value, e.constant(FLIP - 256, i8))
            value = e.select(inside, value, e.constant(0, i8))
            e.store(value, bytes_, ((loop.index * width + at + c) * 4) + within.index)


def zipped(e: Emitter, rows: Sequence[SSAValue]) -> SSAValue:
    """Four vectors of bytes as one of quads."""
    lanes = e.target.lanes(4)
    order = [i + lanes * half for i in range(lanes) for half in range(2)]
    pairs = [
        e.b.insert(vector.BitcastOp(e.shuffle(a, b, order), vector_of(I16, lanes))).result
        for a, b in (rows[:2], rows[2:])
    ]
    return e.b.insert(vector.BitcastOp(e.shuffle(pairs[0], pairs[1], order), vector_of(i32, lanes))).result
