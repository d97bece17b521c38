"""Some query rows of one head, through all keys: register tiles for the products, and between them the softmax."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from xdsl.ir import Attribute, SSAValue

from ...dialects.dims import Dim
from ..loop_builder import INDEX
from .activations import like
from .attention_plan import KEY_BLOCK, LENGTHS, SCORES, AttentionPlan, Heads, Y
from .attention_softmax import BlockSoftmax, inverse
from .attention_steps import scale_in_steps
from .emit import Ix
from .panels import pack_across, slack
from .register_tile import Factors, RegisterTile

if TYPE_CHECKING:
    from .attention import Attention


@dataclass(frozen=True)
class TileScratch:
    """A thread's memory for one tile: packed queries, a block of scores, the sums of values.

    For each row: its maximum and its sum of exponentials so far, what is subtracted from its scores, what its sums of
    values are to be multiplied with, the keys that it may attend to, and vectors that are not reduced yet.  `kept` has
    all scores, where the probabilities are a result.
    """

    queries: SSAValue
    scores: SSAValue
    values: SSAValue
    partial: SSAValue
    maxima: SSAValue
    totals: SSAValue
    bases: SSAValue
    scales: SSAValue
    bounds: SSAValue
    kept: SSAValue | None

    @staticmethod
    def take(a: Attention, rows: int, thread: SSAValue) -> TileScratch:
        def some(size: Dim | int, element: Attribute = a.sums) -> SSAValue:
            return a.context.scratch(element, size, thread)

        kept = some(a.keys * rows) if a.shows_weights and not a.in_steps else None
        whole = -(-rows // a.lanes) * a.lanes
        return TileScratch(
            some(a.panel_steps * rows + slack(a.lanes, rows)),
            some(rows * a.pitch),
            some(0 if a.one_block else a.value_width * rows),
            some(rows * a.wide),
            some(whole),
            some(whole),
            some(whole),
            some(whole),
            some(2 * rows, INDEX),
            kept,
        )


class QueryTile:
    """Some query rows of one head, through all keys."""

    def __init__(
        self, a: Attention, plan: AttentionPlan, s: TileScratch, sample: Ix, head: Ix, row: Ix, count: Ix
    ) -> None:
        self.a, self.e, self.o, self.plan, self.s = a, a.e, a.o, plan, s
        self.sample, self.head, self.row, self.count = sample, head, row, count
        self.height = plan.rows
        self.kv_head = head // (a.e.dim(a.q_heads) // a.e.dim(a.kv_heads))
        e, size = a.e, a.e.dim(a.value_size)
        self.out = Heads.placed(e, a.context.place(a.o.result(Y)), e.dim(a.q_heads), e.dim(a.queries), size)

    def build(self) -> None:
        a, e = self.a, self.e
        self.start()
        keys = e.dim(a.keys)
        begin, end = e.ix(0), keys
        if a.limited and not a.o.has_result(SCORES) and not a.in_steps:
            # what no row may attend to adds nothing
            begin, end = self.first_key // KEY_BLOCK * KEY_BLOCK, self.last_key.min(keys)
        bounds = a.bounds if self.height <= a.lanes else None
        norm = None if bounds is None else bounds.rows_norm(self)
        if a.one_block:
            if bounds is not None and norm is not None:
                end = bounds.counting(self, norm, begin, end)
            self.block(e.ix(0), end)
            self.deliver_scores()
            return
        block = e.dim(a.block)
        with e.loop(begin, end, block) as blocks:
            first = blocks.index
            count = (end - first).min(block)
            if bounds is None or norm is None:
                self.block(first, count)
            else:
                count = bounds.counting(self, norm, first, count)
                with e.when(count.compare("sgt", 0)):
                    self.block(first, count)
        self.deliver()
        self.deliver_scores()

    def block(self, first: Ix, count: Ix) -> None:
        """All rows and some keys."""
        self.at_height(lambda rows: self.scores(rows, first, count))
        BlockSoftmax(self, first, count).build()
        self.at_height(lambda rows: self.add_values(rows, first, count))

    def at_height(self, body: Callable[[int], None]) -> None:
        """The body for as many rows as there are, or for a few more."""
        tall, low = self.plan.rows, self.plan.tail_rows
        if not low:
            body(tall)
            return
        for rows, predicate in ((tall, "sgt"), (low, "sle")):
            with self.e.when(self.count.compare(predicate, low)):
                body(rows)

    def panels(self, extent: Ix, body: Callable[[int, Ix], None]) -> None:
        """The body for two vectors from an index on, and again; for one where no more is left."""
        a, e = self.a, self.e
        whole = (extent + (a.lanes - 1)) // a.panel * a.panel
        if whole.known != 0:
            with e.loop(0, whole, a.panel) as loop:
                body(2, loop.index)
        left = extent - whole
        if left.known is None:
            with e.when(left.compare("sgt", 0)):
                body(1, whole)
        elif left.known > 0:
            body(1, whole)

    def start(self) -> None:
        """Packs the rows, scaled, and sets sums to 0 and maxima to minus infinity."""
        a, e, s = self.a, self.e, self.s
        rows = a.query_rows
        last = rows.rows - 1

        def row_at(r: int) -> Ix:
            return rows.at(self.sample, self.head, (self.row + r).min(last))

        size, height = e.dim(a.size), self.height
        scale = None if a.in_steps else e.b.broadcast(a.scale(), a.lanes)

        def scaled(_: int, queries: SSAValue) -> SSAValue:
            return queries if scale is None else e.mul(queries, scale)

        def pack(count: int) -> None:
            pack_across(e, a.products, rows.buffer, row_at, count, size, s.queries, e.ix(0), height, scaled)

        if self.plan.tail_rows * 2 > height:
            pack(height)
        else:
            self.at_height(pack)
        if a.in_steps:
            scale_in_steps(e, a.scale(), s.queries, e.ix(0), size * height, a.lanes)
        if a.limited:
            self.find_bounds()
        if a.one_block:
            return
        zero = e.constant(0, a.sums, a.lanes)
        with e.loop(0, e.dim(a.value_width) * height, a.lanes) as loop:
            e.store_vector(zero, s.values, loop.index)
        for first in range(0, height, a.lanes):
            e.store_vector(like(e, -inf, zero), s.maxima, first)
            e.store_vector(zero, s.totals, first)

    def find_bounds(self) -> None:
        """The keys that each row may attend to, but for the mask; those that any does, and before which all do."""
        a, e, s = self.a, self.e, self.s
        keys = e.dim(a.keys)
        with e.loop(0, self.count, carried=[keys.ssa, e.ix(0).ssa, keys.ssa], nonempty=True) as loop:
            low, high = self.visible(loop.index)
            e.store(low.ssa, s.bounds, loop.index * 2)
            e.store(high.ssa, s.bounds, loop.index * 2 + 1)
            first, last, seen = loop.carried
            loop.carry([low.min(first).ssa, high.max(last).ssa, high.min(seen).ssa])
        self.first_key, self.last_key, self.seen_by_all = (e.ix(r) for r in loop.results)

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

    def scores(self, rows: int, first: Ix, count: Ix) -> None:
        """scores[row, key of the block] = the products of the rows with the keys."""
        a, e, s = self.a, self.e, self.s
        steps = e.dim(a.panel_steps)
        panels = (self.sample * e.dim(a.kv_heads) + self.kv_head) * a.key_panels

        def panel(vectors: int, key: Ix) -> None:
            at = (panels + (first + key) // a.panel) * (steps * a.panel)

            def factors(indices: list[Ix]) -> Factors:
                [k] = indices
                columns = [e.load_vector(a.packed, k * a.panel + at + v * a.lanes, a.lanes) for v in range(vectors)]
                return columns, lambda r: e.load(s.queries, k * self.height + r)

            tile = RegisterTile(rows, vectors, a.lanes)
            for i, total in enumerate(tile.accumulate(e, a.products, [e.dim(a.size)], factors)):
                row, vector = divmod(i, vectors)
                e.store_vector(total, s.scores, key + e.dim(a.pitch) * row + vector * a.lanes)

        self.panels(count, panel)

    def add_values(self, rows: int, first: Ix, count: Ix) -> None:
        """The row's exponentials times the block's values: added to what was there, or the result."""
        a, e, s = self.a, self.e, self.s
        values, size, pitch = a.value_rows, e.dim(a.value_size), e.dim(a.pitch)
        start = values.at(self.sample, self.kv_head, first)

        def panel(vectors: int, column: Ix) -> None:
            masks = self.value_masks(size - column, vectors)

            def factors(indices: list[Ix]) -> Factors:
                [k] = indices
                at = k * values.pitch + start + column
                columns = [a.values_at(at + v * a.lanes, masks[v]) for v in range(vectors)]
                return columns, lambda r: e.load(s.scores, pitch * r + k)

            tile = RegisterTile(rows, vectors, a.lanes)
            sums = tile.accumulate(e, a.products, [count], factors)
            for row in range(rows):
                of_row = sums[row * vectors : (row + 1) * vectors]
                if a.one_block:
                    self.deliver_row(row, column, of_row, masks)
                else:
                    self.add_to_row(row, column, of_row)

        self.panels(size, panel)

    def add_to_row(self, row: int, column: Ix, sums: list[SSAValue]) -> None:
        """Adds to the row's sums of values, scaled to the new maximum."""
        a, e, s = self.a, self.e, self.s
        factor = e.splat(e.load(s.scales, row), a.lanes)
        for v, total in enumerate(sums):
            place = column + e.dim(a.value_width) * row + v * a.lanes
            e.store_vector(e.add(e.mul(e.load_vector(s.values, place, a.lanes), factor), total), s.values, place)

    def deliver_row(self, row: int, column: Ix, sums: list[SSAValue], masks: list[SSAValue | None]) -> None:
        """Stores the sums, divided by the row's total, where there is such a row."""
        a, e = self.a, self.e
        with nullcontext() if self.plan.fits(a.queries) else e.when(self.count.compare("sgt", row)):
            factor = e.splat(e.load(self.s.scales, row), a.lanes)
            at = self.out.at(self.sample, self.head, self.row + row) + column
            for v, (total, mask) in enumerate(zip(sums, masks)):
                value = a.products.narrow(e, e.mul(total, factor), self.o.result_kind(Y).ir)
                e.store_vector(value, self.out.buffer, at + v * a.lanes, mask)

    def value_masks(self, left: Ix, vectors: int) -> list[SSAValue | None]:
        a = self.a
        if a.value_size.is_const and a.value_size.value % a.lanes == 0:
            return [None] * vectors
        return [self.e.mask(left - v * a.lanes, a.lanes) for v in range(vectors)]

    # Results

    def deliver(self) -> None:
        """Stores sums divided by totals."""
        a, e, s, out = self.a, self.e, self.s, self.out
        size, width = e.dim(a.value_size), e.dim(a.value_width)
        for first in range(0, self.height, a.lanes):
            e.store_vector(inverse(self, e.load_vector(s.totals, first, a.lanes)), s.scales, first)
        with e.loop(0, self.count, nonempty=True) as rows:
            row = rows.index
            factor = e.b.broadcast(e.load(s.scales, row), a.lanes)
            at = out.at(self.sample, self.head, self.row + row)
            with e.loop(0, size, a.lanes) as loop:
                value = e.mul(e.load_vector(s.values, row * width + loop.index, a.lanes), factor)
                mask = e.mask(size - loop.index, a.lanes)
                narrow = a.products.narrow(e, value, self.o.result_kind(Y).ir)
                e.store_vector(narrow, out.buffer, loop.index + at, mask)

    def deliver_scores(self) -> None:
        """The probabilities, where they are wanted."""
        a, e, s = self.a, self.e, self.s
        if not a.shows_weights:
            return
        with e.loop(0, self.count, nonempty=True) as rows:
            if s.kept is None:
                self.copy_weights(rows.index)
            else:
                factor = e.b.broadcast(e.load(s.scales, rows.index), a.lanes)
                self.deliver_weights(rows.index, factor, s.kept)

    def keep(self, scores: SSAValue, row: Ix, key: Ix, left: Ix | None) -> None:
        """Keeps scores from `key` on, of which `left` are there, until the row's maximum and total are known."""
        a, e = self.a, self.e
        if self.s.kept is not None:
            mask = None if left is None else e.mask(left, a.lanes)
            e.store_vector(scores, self.s.kept, row * e.dim(a.keys) + key, mask)

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
        shift = e.b.broadcast(e.load(self.s.bases, row), a.lanes)
        with e.loop(0, keys, a.lanes) as loop:
            mask = e.mask(keys - loop.index, a.lanes)
            scores = e.load_vector(kept, row * keys + loop.index, a.lanes, mask)
            weights = e.mul(e.math("exp", e.sub(scores, shift)), factor)
            self.store_scores(weights, row, loop.index, mask)

    def store_scores(self, value: SSAValue, row: Ix, key: Ix, mask: SSAValue | None) -> None:
        a, e = self.a, self.e
        element = self.o.result_kind(SCORES).ir
        line = (self.sample * e.dim(a.q_heads) + self.head) * e.dim(a.queries) + self.row + row
        buffer = self.o.result_buffer(SCORES)
        e.store_vector(a.products.narrow(e, value, element), buffer, line * e.dim(a.keys) + key, mask)
