"""Keys that are left out, since the mask is so low there that all weights of a tile's rows are exactly 0.

A score is at most |q| |k| (Cauchy-Schwarz), so with the greatest element of the mask there is a bound for the scores of
a tile and some keys without computing them.  Where that is so far below the least of the rows' maxima that its
exponential is 0, the keys would add 0 times their values to the sums: nothing, as long as these are finite.  A row's
maximum is at least that of the blocks so far, and what the mask has for it in this block less |q| |k|.  So blocks are
left out, and a block ends behind the last vector of keys that may count.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import Float64Type
from xdsl.ir import SSAValue

from ..template import whole
from .activations import like
from .attention_plan import MASK
from .attention_scores import added_by_mask
from .emit import Ix
from .matmul_problem import batch_strides
from .panels import reduced_across

if TYPE_CHECKING:
    from .attention import Attention
    from .attention_tile import QueryTile

ROWS_IN_STEP = 4
"""Rows of values that are gone through at once.  A sum alone waits for itself."""
MARGIN = 1.01
"""What a sum of products may be more than the product of the norms, by rounding."""


class BlockBounds:
    """What bounds scores: for each head and block of keys the greatest norm of a key, infinite where a value is not
    finite; for each row of the mask and vector of keys the mask's greatest element."""

    def __init__(self, a: Attention, key_block: int) -> None:
        self.a, self.e, self.key_block = a, a.e, key_block
        self.blocks = (a.keys + (key_block - 1)) // key_block
        self.norms = a.context.scratch(a.sums, a.batch * a.kv_heads * self.blocks)
        self.mask_dims = a.o.dims(MASK)[:-1]
        self.mask_rows = whole(*self.mask_dims)
        # reading and writing is by whole vectors of rows
        self.pitch = (self.mask_rows + (a.lanes - 1)) // a.lanes * a.lanes + a.lanes
        self.tops = a.context.scratch(a.sums, self.pitch * ((a.keys + (a.lanes - 1)) // a.lanes))
        self.zero_below = -746.0 if isinstance(a.sums, Float64Type) else -104.0
        """From here on exponentials are 0."""

    def measure(self) -> None:
        a, e = self.a, self.e
        heads, blocks = e.dim(a.kv_heads), e.dim(self.blocks)
        extent = e.dim(a.batch) * heads * blocks
        grain = e.ix(e.grain_cycles) // (e.dim(a.size + a.value_size) * (self.key_block // a.lanes)).max(1) + 1
        with e.parallel(extent, grain) as (lower, upper, _), e.loop(lower, upper, nonempty=True) as loop:
            head, first = loop.index // blocks, loop.index % blocks * self.key_block
            count = (e.dim(a.keys) - first).min(self.key_block)
            greatest = e.add(self._keys(head, first, count), self._values(head, first, count))
            e.store(greatest, self.norms, loop.index)
        grain = e.ix(e.grain_cycles) // (e.dim(a.keys) * 8).max(1) + 1
        rows = e.dim(self.mask_rows)
        with e.parallel(rows.ceildiv(a.lanes), grain) as (lower, upper, _), e.loop(lower, upper, nonempty=True) as loop:
            self._tops(loop.index * a.lanes, rows - 1)

    def _keys(self, head: Ix, first: Ix, count: Ix) -> SSAValue:
        """The greatest norm of the packed keys."""
        a, e = self.a, self.e
        zero = e.constant(0, a.sums, a.lanes)
        start = (head * a.key_panels + first // a.panel) * e.dim(a.panel_steps)
        with e.loop(0, count.ceildiv(a.panel), carried=[zero]) as panels:
            at = start + panels.index * e.dim(a.panel_steps)
            with e.loop(0, e.dim(a.size), carried=[zero, zero]) as steps:
                place = (at + steps.index) * a.panel
                keys = [e.load_vector(a.packed, place + v * a.lanes, a.lanes) for v in range(2)]
                steps.carry([e.fma(k, k, total) for k, total in zip(keys, steps.carried)])
            panels.carry([e.extremum("maximumf", panels.carried[0], e.extremum("maximumf", *steps.results))])
        return e.math("sqrt", e.reduce("maximumf", panels.results[0]))

    def _values(self, head: Ix, first: Ix, count: Ix) -> SSAValue:
        """0 where all values are finite, else infinity."""
        a, e = self.a, self.e
        rows, size = a.value_rows, e.dim(a.value_size)
        start = rows.at(head // rows.heads, head % rows.heads, first)
        zero = e.constant(0, a.sums, a.lanes)
        with e.loop(0, size, a.lanes, carried=[zero] * ROWS_IN_STEP) as columns:
            mask = e.mask(size - columns.index, a.lanes)
            with e.loop(0, count, ROWS_IN_STEP, carried=columns.carried) as keys:
                sums: list[SSAValue] = []
                for r, total in enumerate(keys.carried):
                    at = (keys.index + r).min(count - 1) * rows.pitch + start + columns.index
                    # 0 times what is not finite is no number
                    sums.append(e.fma(a.values_at(at, mask), zero, total))
                keys.carry(sums)
            columns.carry(keys.results)
        total = columns.results[0]
        for other in columns.results[1:]:
            total = e.add(total, other)
        nothing = e.reduce("add", total)
        is_finite = e.compare("oeq", nothing, like(e, 0.0, nothing))
        return e.select(is_finite, like(e, 0.0, nothing), like(e, inf, nothing))

    def _tops(self, first: Ix, last: Ix) -> None:
        """The greatest elements of as many rows of the mask as a vector has lanes."""
        a, e = self.a, self.e
        keys = e.dim(a.keys)
        lowest = e.constant(-inf, a.sums, a.lanes)
        with e.loop(0, keys, a.lanes) as loop:
            there = e.mask(keys - loop.index, a.lanes)
            values: list[SSAValue] = []
            for r in range(a.lanes):
                at = (first + r).min(last) * keys + loop.index
                values.append(e.select(there, added_by_mask(a, at, there), lowest))
            top = reduced_across(e, lambda x, y: e.extremum("maximumf", x, y), values)
            e.store_vector(top, self.tops, loop.index // a.lanes * e.dim(self.pitch) + first)

    def rows_norm(self, tile: QueryTile) -> SSAValue:
        """The greatest norm of a tile's rows, which are packed and scaled."""
        a, e, rows = self.a, self.e, tile.height
        mask = e.mask(tile.count, a.lanes)
        with e.loop(0, e.dim(a.size), carried=[e.constant(0, a.sums, a.lanes)]) as loop:
            q = e.load_vector(tile.s.queries, loop.index * rows, a.lanes, mask)
            loop.carry([e.fma(q, q, loop.carried[0])])
        return e.math("sqrt", e.reduce("maximumf", loop.results[0]))

    def counting(self, tile: QueryTile, rows_norm: SSAValue, first: Ix, count: Ix) -> Ix:
        """Of a block's `count` keys those behind which none may add anything to one of the rows; 0: none at all."""
        a, e = self.a, self.e
        head = tile.sample * e.dim(a.kv_heads) + tile.kv_head
        norm = e.load(self.norms, head * e.dim(self.blocks) + first // self.key_block)
        bound = e.mul(e.mul(rows_norm, norm), e.constant(MARGIN, a.sums))
        mask = e.mask(tile.count, a.lanes)
        lowest = e.constant(-inf, a.sums, a.lanes)
        maxima = lowest if a.one_block else e.load_vector(tile.s.maxima, 0, a.lanes)
        if not a.limited:
            with e.loop(0, count, a.lanes, carried=[lowest]) as loop:
                tops = self._tops_of(tile, first + loop.index, mask)
                loop.carry([e.extremum("maximumf", loop.carried[0], tops)])
            maxima = e.extremum("maximumf", maxima, e.sub(loop.results[0], e.b.broadcast(bound, a.lanes)))
        least = e.reduce("minimumf", e.select(mask, maxima, like(e, inf, maxima)))
        with e.loop(0, count, a.lanes, carried=[e.ix(0).ssa]) as loop:
            tops = self._tops_of(tile, first + loop.index, mask)
            top = e.reduce("maximumf", e.select(mask, tops, lowest))
            distance = e.sub(e.add(bound, top), least)
            # not so where that is no number
            is_nothing = e.compare("ole", distance, e.constant(self.zero_below, a.sums))
            loop.carry([e.select_index(is_nothing, loop.carried[0], loop.index + a.lanes).ssa])
        return e.ix(loop.results[0]).min(count)

    def _tops_of(self, tile: QueryTile, key: Ix, mask: SSAValue) -> SSAValue:
        """The greatest elements of the mask for each row, from a key on."""
        a, e = self.a, self.e
        strides = batch_strides(e, self.mask_dims, (a.batch, a.q_heads, a.queries), e.ix(1))
        start = key // a.lanes * e.dim(self.pitch)
        for index, stride in zip((tile.sample, tile.head, tile.row), strides, strict=True):
            start = start + index * stride
        step = strides[-1]
        if step.known == 1:
            return e.load_vector(self.tops, start, a.lanes, mask)
        if step.known == 0:
            return e.splat(e.load(self.tops, start), a.lanes)
        return e.gather(self.tops, e.ramp(start, step, a.lanes), mask)
