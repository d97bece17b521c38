"""Some query rows of one head, through all keys: a register tile for the products, row by row for the softmax."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from xdsl.ir import Attribute, SSAValue

from ...dialects.dims import Dim
from ..loop_builder import INDEX
from .activations import like
from .attention_plan import KEY_BLOCK, LENGTHS, MASK, SCORES, Heads, Y
from .attention_scores import ScoreFormula
from .attention_steps import divisor_of, scale_in_steps, weights_in_steps
from .emit import Ix
from .panels import pack_across, slack
from .register_tile import Factors, RegisterTile

if TYPE_CHECKING:
    from .attention import Attention

SHORT_VALUES = 8
"""Vectors of a row's sums that are scaled always: where only some rows of a block have a new maximum, guessing wrong
takes longer."""


@dataclass(frozen=True)
class TileScratch:
    """A thread's memory for one tile: packed queries, a block of scores, the sums of values, and for each row its
    maximum and its sum of exponentials so far.  `kept` has all scores, where the probabilities are a result."""

    queries: SSAValue
    scores: SSAValue
    values: SSAValue
    tile: SSAValue
    maxima: SSAValue
    totals: SSAValue
    bounds: SSAValue
    kept: SSAValue | None

    @staticmethod
    def take(a: Attention, tile: RegisterTile, thread: SSAValue) -> TileScratch:
        def some(size: Dim | int, element: Attribute = a.sums) -> SSAValue:
            return a.context.scratch(element, size, thread)

        kept = some(a.keys * tile.rows) if a.shows_weights and not a.in_steps else None
        return TileScratch(
            some(a.panel_steps * tile.rows + slack(a.lanes, tile.rows)),
            some(tile.rows * a.pitch),
            some(a.value_width * tile.rows),
            some(tile.rows * tile.columns),
            some(tile.rows),
            some(tile.rows),
            some(2 * tile.rows, INDEX),
            kept,
        )


class QueryTile:
    """Some query rows of one head, through all keys."""

    def __init__(
        self, a: Attention, tile: RegisterTile, s: TileScratch, sample: Ix, head: Ix, row: Ix, count: Ix
    ) -> None:
        self.a, self.e, self.o, self.tile, self.s = a, a.e, a.o, tile, s
        self.sample, self.head, self.row, self.count = sample, head, row, count
        self.kv_head = head // (a.e.dim(a.q_heads) // a.e.dim(a.kv_heads))

    def build(self) -> None:
        a, e = self.a, self.e
        self.start()
        keys = e.dim(a.keys)
        begin, end = e.ix(0), keys
        if a.limited and not a.o.has_result(SCORES) and not a.in_steps:
            # what no row may attend to adds nothing
            begin, end = self.first_key // KEY_BLOCK * KEY_BLOCK, self.last_key.min(keys)
        bounds = a.bounds if self.tile.rows <= a.lanes else None
        norm = None if bounds is None else bounds.rows_norm(self)
        block = e.dim(a.block)
        with e.loop(begin, end, block) as blocks:
            first = blocks.index
            count = (keys - first).min(block)
            if bounds is None or norm is None:
                self.block(first, count)
            else:
                with e.when(bounds.counts(self, norm, first, count)):
                    self.block(first, count)
        self.deliver()

    def block(self, first: Ix, count: Ix) -> None:
        """All rows and some keys."""
        self.scores(first, count)
        with self.e.loop(0, self.count, nonempty=True) as rows:
            self.softmax_row(rows.index, first, count)
        self.add_values(first, count)

    def mask_values(self, row: Ix, key: Ix, there: SSAValue) -> SSAValue:
        """What the mask adds to a row's scores at some keys, for a mask of all keys."""
        formula = ScoreFormula(self, row)
        assert formula.mask_at is not None
        value = self.e.load_vector(self.o.buffer(MASK), formula.mask_at + key, self.a.lanes, there)
        if self.o.kind(MASK).kind == "b":
            zero = self.e.constant(0, self.a.sums, self.a.lanes)
            return self.e.select(value, zero, like(self.e, -inf, zero))
        return formula.as_sum(value)

    def start(self) -> None:
        """Packs the rows, and sets sums to 0 and maxima to minus infinity."""
        a, e, s = self.a, self.e, self.s
        rows = a.query_rows
        last = rows.rows - 1

        def row_at(r: int) -> Ix:
            return rows.at(self.sample, self.head, (self.row + r).min(last))

        size = e.dim(a.size)
        pack_across(e, a.products, rows.buffer, row_at, self.tile.rows, size, s.queries, e.ix(0), self.tile.rows)
        if a.in_steps:
            scale_in_steps(e, a.scale(), s.queries, e.ix(0), size * self.tile.rows, a.lanes)
        else:
            scale = e.b.broadcast(a.scale(), a.lanes)
            with e.loop(0, size * self.tile.rows, a.lanes) as loop:
                e.store_vector(e.mul(e.load_vector(s.queries, loop.index, a.lanes), scale), s.queries, loop.index)
        zero = e.constant(0, a.sums, a.lanes)
        with e.loop(0, e.dim(a.value_width) * self.tile.rows, a.lanes) as loop:
            e.store_vector(zero, s.values, loop.index)
        with e.loop(0, self.count, carried=[e.dim(a.keys).ssa, e.ix(0).ssa], nonempty=True) as loop:
            e.store(e.constant(-inf, a.sums), s.maxima, loop.index)
            e.store(e.constant(0, a.sums), s.totals, loop.index)
            low, high = self.visible(loop.index)
            e.store(low.ssa, s.bounds, loop.index * 2)
            e.store(high.ssa, s.bounds, loop.index * 2 + 1)
            loop.carry([low.min(loop.carried[0]).ssa, high.max(loop.carried[1]).ssa])
        self.first_key, self.last_key = (e.ix(r) for r in loop.results)

    def visible(self, row: Ix) -> tuple[Ix, Ix]:
        """The keys [low, high) that a row may attend to, but for the mask."""
        a, e, o = self.a, self.e, self.o
        low, high = e.ix(0), e.dim(a.keys)
        offset = e.dim(a.past)
        if o.has(LENGTHS):
            valid = e.load_index(o.buffer(LENGTHS), self.sample)
            high = high.min(valid)
            # with a past the queries are behind it, else they are the last of the valid positions
            offset = e.select_index(offset.compare("eq", 0), valid - e.dim(a.queries), offset)
        position = offset + (self.row + row)
        if o.attr("is_causal", 0):
            high = high.min(position + 1)
        if (right := o.attr("right_window_size", -1)) >= 0:
            high = high.min(position + (right + 1))
        if (left := o.attr("left_window_size", -1)) >= 0:
            low = (position - left).max(0)
        return low, high

    def scores(self, first: Ix, count: Ix) -> None:
        """scores[row, key of the block] = the products of the rows with the keys."""
        a, e, s, tile = self.a, self.e, self.s, self.tile
        steps = e.dim(a.panel_steps)
        panels = (self.sample * e.dim(a.kv_heads) + self.kv_head) * a.key_panels
        with e.loop(0, count, a.panel) as loop:
            at = (panels + (first + loop.index) // a.panel) * (steps * a.panel)

            def factors(indices: list[Ix]) -> Factors:
                [k] = indices
                vectors = [e.load_vector(a.packed, k * a.panel + at + v * a.lanes, a.lanes) for v in range(2)]
                return vectors, lambda r: e.load(s.queries, k * tile.rows + r)

            for i, total in enumerate(tile.accumulate(e, a.products, [e.dim(a.size)], factors)):
                e.store_vector(total, s.scores, loop.index + e.dim(a.pitch) * (i // 2) + i % 2 * a.lanes)

    # A row of a block

    def softmax_row(self, row: Ix, first: Ix, count: Ix) -> None:
        """The scores of a row as exponentials, with its maximum and sum; the sums of values are scaled to it."""
        a, e, s = self.a, self.e, self.s
        formula = ScoreFormula(self, row)
        at, wide = row * e.dim(a.pitch), a.wide
        with e.loop(0, count, wide, carried=[e.constant(-inf, a.sums, wide)], nonempty=True) as loop:
            products = e.load_vector(s.scores, loop.index + at, wide)
            scores = formula.apply(products, first + loop.index, count - loop.index)
            if scores is not products:
                e.store_vector(scores, s.scores, loop.index + at)
            if s.kept is not None:
                mask = e.mask(count - loop.index, wide)
                e.store_vector(scores, s.kept, row * e.dim(a.keys) + first + loop.index, mask)
            # NaN is passed over here, and comes through the exponential
            loop.carry([e.select(e.compare("ogt", scores, loop.carried[0]), scores, loop.carried[0])])
        before = e.load(s.maxima, row)
        maximum = e.extremum("maximumf", e.reduce("maximumf", loop.results[0]), before)
        e.store(maximum, s.maxima, row)
        # exp(-inf - -inf) is no number: without any key so far everything is 0
        none = e.compare("oeq", maximum, e.constant(-inf, a.sums))
        base = e.select(none, e.constant(0, a.sums), maximum)
        shift = e.b.broadcast(base, wide)
        if a.in_steps:
            weights_in_steps(e, s.scores, at, count, shift, a.lanes, a.empty_is_nan)
            e.store(e.constant(1, a.sums), s.totals, row)
            return
        with e.loop(0, count, wide, carried=[e.constant(0, a.sums, wide)], nonempty=True) as loop:
            weights = e.math("exp", e.sub(e.load_vector(s.scores, loop.index + at, wide), shift))
            e.store_vector(weights, s.scores, loop.index + at)
            loop.carry([e.add(loop.carried[0], weights)])
        total = e.reduce("add", loop.results[0])
        scale = e.math("exp", e.sub(before, base))
        e.store(e.add(e.mul(e.load(s.totals, row), scale), total), s.totals, row)
        self.rescale(row, scale)

    def rescale(self, row: Ix, scale: SSAValue) -> None:
        """The row's sums of values, for the new maximum."""
        a, e, s = self.a, self.e, self.s
        width = e.dim(a.value_width)
        factor = e.b.broadcast(scale, a.lanes)
        with ExitStack() as stack:
            if not a.value_size.is_const or a.value_size.value > SHORT_VALUES * a.lanes:
                stack.enter_context(e.when(e.compare("one", scale, like(e, 1.0, scale))))
            loop = stack.enter_context(e.loop(0, width, a.lanes))
            place = row * width + loop.index
            e.store_vector(e.mul(e.load_vector(s.values, place, a.lanes), factor), s.values, place)

    def add_values(self, first: Ix, count: Ix) -> None:
        """values[row] += the row's exponentials times the block's values."""
        a, e, s, tile = self.a, self.e, self.s, self.tile
        rows, width, size, pitch = a.value_rows, e.dim(a.value_width), e.dim(a.value_size), e.dim(a.pitch)
        start = rows.at(self.sample, self.kv_head, first)
        with e.loop(0, size, a.panel) as loop:
            masks = self.value_masks(size - loop.index)

            def factors(indices: list[Ix]) -> Factors:
                [k] = indices
                at = k * rows.pitch + start + loop.index
                vectors = [a.values_at(at + v * a.lanes, masks[v]) for v in range(2)]
                return vectors, lambda r: e.load(s.scores, pitch * r + k)

            for i, total in enumerate(tile.accumulate(e, a.products, [count], factors)):
                place = loop.index + width * (i // 2) + i % 2 * a.lanes
                e.store_vector(e.add(e.load_vector(s.values, place, a.lanes), total), s.values, place)

    def value_masks(self, left: Ix) -> list[SSAValue | None]:
        a = self.a
        if a.value_size.is_const and a.value_size.value % a.panel == 0:
            return [None, None]
        return [self.e.mask(left - v * a.lanes, a.lanes) for v in range(2)]

    # Results

    def deliver(self) -> None:
        """Stores sums divided by totals, and the scores where they are wanted."""
        a, e, s = self.a, self.e, self.s
        size, width = e.dim(a.value_size), e.dim(a.value_width)
        out = Heads(self.o.result_buffer(Y), e.dim(a.q_heads), e.dim(a.queries), size, a.joined)
        element = self.o.result_kind(Y).ir
        with e.loop(0, self.count, nonempty=True) as rows:
            row = rows.index
            total = e.load(s.totals, row)
            inverse = e.div(e.constant(1, a.sums), divisor_of(e, total, a.empty_is_nan, e.dim(a.keys)))
            factor = e.b.broadcast(inverse, a.lanes)
            at = out.at(self.sample, self.head, self.row + row)
            with e.loop(0, size, a.lanes) as loop:
                value = e.mul(e.load_vector(s.values, row * width + loop.index, a.lanes), factor)
                mask = e.mask(size - loop.index, a.lanes)
                e.store_vector(a.products.narrow(e, value, element), out.buffer, loop.index + at, mask)
            if s.kept is not None:
                self.deliver_weights(row, factor, s.kept)
            elif a.shows_weights:
                self.copy_weights(row)

    def copy_weights(self, row: Ix) -> None:
        """The row's probabilities, where they are in place of the scores of all keys."""
        a, e = self.a, self.e
        keys = e.dim(a.keys)
        with e.loop(0, keys, a.lanes) as loop:
            mask = e.mask(keys - loop.index, a.lanes)
            weights = e.load_vector(self.s.scores, row * e.dim(a.pitch) + loop.index, a.lanes, mask)
            self.store_scores(weights, row, loop.index, mask)

    def deliver_weights(self, row: Ix, factor: SSAValue, kept: SSAValue) -> None:
        """The row's probabilities."""
        a, e = self.a, self.e
        keys = e.dim(a.keys)
        maximum = e.load(self.s.maxima, row)
        none = e.compare("oeq", maximum, e.constant(-inf, a.sums))
        shift = e.b.broadcast(e.select(none, e.constant(0, a.sums), maximum), a.lanes)
        with e.loop(0, keys, a.lanes) as loop:
            mask = e.mask(keys - loop.index, a.lanes)
            scores = e.load_vector(kept, row * keys + loop.index, a.lanes, mask)
            weights = e.mul(e.math("exp", e.sub(scores, shift)), factor)
            self.store_scores(weights, row, loop.index, mask)

    def store_scores(self, value: SSAValue, row: Ix, key: Ix, mask: SSAValue) -> None:
        a, e = self.a, self.e
        element = self.o.result_kind(SCORES).ir
        line = (self.sample * e.dim(a.q_heads) + self.head) * e.dim(a.queries) + self.row + row
        buffer = self.o.result_buffer(SCORES)
        e.store_vector(a.products.narrow(e, value, element), buffer, line * e.dim(a.keys) + key, mask)
