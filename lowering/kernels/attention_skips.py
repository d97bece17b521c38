"""Blocks of keys that are left out, since the mask is so low there that all weights of a tile's rows are exactly 0.

A score is at most |q| |k| (Cauchy-Schwarz), so with the greatest element of the mask there is a bound for the scores of
a tile and a block without computing them.  Where that is so far below the least of the rows' maxima so far that its
exponential is 0, the block would add 0 times its values to the sums: nothing, as long as these are finite.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import Float64Type
from xdsl.ir import SSAValue

from .activations import like
from .emit import Ix

if TYPE_CHECKING:
    from .attention import Attention
    from .attention_tile import QueryTile

MARGIN = 1.01
"""What a sum of products may be more than the product of the norms, by rounding."""


class BlockBounds:
    """For each head and block of keys: the greatest norm of a key, infinite where a value is not finite."""

    def __init__(self, a: Attention, key_block: int) -> None:
        self.a, self.e, self.key_block = a, a.e, key_block
        self.blocks = (a.keys + (key_block - 1)) // key_block
        self.norms = a.context.scratch(a.sums, a.batch * a.kv_heads * self.blocks)
        self.zero_below = -746.0 if isinstance(a.sums, Float64Type) else -104.0
        """From here on exponentials are 0."""

    def measure(self) -> None:
        a, e = self.a, self.e
        heads, blocks = e.dim(a.kv_heads), e.dim(self.blocks)
        extent = e.dim(a.batch) * heads * blocks
        with e.parallel(extent, 1) as (lower, upper, _), e.loop(lower, upper, nonempty=True) as loop:
            head, first = loop.index // blocks, loop.index % blocks * self.key_block
            count = (e.dim(a.keys) - first).min(self.key_block)
            greatest = e.extremum("maximumf", self._keys(head, first, count), self._values(head, first, count))
            e.store(greatest, self.norms, loop.index)

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
        with e.loop(0, count, carried=[e.constant(0, a.sums, a.lanes)]) as keys:
            with e.loop(0, size, a.lanes, carried=keys.carried) as loop:
                mask = e.mask(size - loop.index, a.lanes)
                at = start + keys.index * rows.pitch + loop.index
                loop.carry([e.extremum("maximumf", loop.carried[0], e.math("absf", a.values_at(at, mask)))])
            keys.carry(loop.results)
        greatest = e.reduce("maximumf", keys.results[0])
        return e.select(
            e.compare("olt", greatest, like(e, inf, greatest)), like(e, 0.0, greatest), like(e, inf, greatest)
        )

    def rows_norm(self, tile: QueryTile) -> SSAValue:
        """The greatest norm of a tile's rows, which are packed and scaled."""
        a, e, rows = self.a, self.e, tile.height
        mask = e.mask(tile.count, a.lanes)
        with e.loop(0, e.dim(a.size), carried=[e.constant(0, a.sums, a.lanes)]) as loop:
            q = e.load_vector(tile.s.queries, loop.index * rows, a.lanes, mask)
            loop.carry([e.fma(q, q, loop.carried[0])])
        return e.math("sqrt", e.reduce("maximumf", loop.results[0]))

    def counts(self, tile: QueryTile, rows_norm: SSAValue, first: Ix, count: Ix) -> SSAValue:
        """Whether the block may add anything to one of the rows."""
        a, e = self.a, self.e
        head = tile.sample * e.dim(a.kv_heads) + tile.kv_head
        norm = e.load(self.norms, head * e.dim(self.blocks) + first // self.key_block)
        bound = e.mul(e.mul(rows_norm, norm), e.constant(MARGIN, a.sums))
        lowest = e.constant(-inf, a.sums, a.lanes)
        with e.loop(0, tile.count, carried=[lowest, e.constant(inf, a.sums)], nonempty=True) as rows:
            with e.loop(0, count, a.lanes, carried=rows.carried[:1], nonempty=True) as loop:
                there = e.mask(count - loop.index, a.lanes)
                values = tile.mask_values(rows.index, first + loop.index, there)
                loop.carry([e.extremum("maximumf", loop.carried[0], e.select(there, values, lowest))])
            least = e.extremum("minimumf", rows.carried[1], e.load(tile.s.maxima, rows.index))
            rows.carry([*loop.results, least])
        top = e.reduce("maximumf", rows.results[0])
        distance = e.sub(e.add(bound, top), rows.results[1])
        # also where that is no number
        return e.flip(e.compare("ole", distance, e.constant(self.zero_below, a.sums)))
