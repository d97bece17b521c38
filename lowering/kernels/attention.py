"""Template "attention": softmax(scale q k^T + mask) v in one pass over the keys, block by block.

All of the operator: three or four axes, shared key heads, past keys and values, boolean and added masks, causal and
windowed masks, soft capping, valid lengths, the scores as a result.  f16, and bf16 with its softmax in f32, are
computed in f32 and rounded once; other attention of bf16 in the steps of `attention_steps.py`.

Keys are packed into panels once for each head.  A tile of query rows then goes through the keys in blocks: scores of
the block by register tiles, their formula and the running maximum row by row, exponentials and their sum, and the
product with the values, which is added to what was there, scaled to the new maximum.  The order of a row's sums depends
on the number of keys alone.  A row that may attend to no key is 0.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from math import inf

from xdsl.ir import Attribute, SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim
from ...dialects.target import Target
from ..choices import GRAIN_CYCLES, ORDER, VECTOR_WIDTH, Choices, Given, given_number
from ..loop_builder import INDEX
from ..template import TemplateContext
from .activations import like
from .attention_skips import BlockBounds
from .attention_steps import in_steps, rounded, scale_in_steps, weights_in_steps
from .emit import Ix, lanes_of
from .matmul_problem import batch_strides
from .operator import Operator
from .panels import pack_across, slack
from .register_tile import Factors, Products, RegisterTile, largest_rows

Q, K, V, MASK, PAST_K, PAST_V, LENGTHS = range(7)
Y, PRESENT_K, PRESENT_V, SCORES = range(4)
KEY_BLOCK = 256
"""Keys whose scores are kept at once."""
IN_STEP = 4
"""Vectors of scores that are exponentiated in step."""
SHORT_VALUES = 8
"""Vectors of a row's sums that are scaled always: where only some rows of a block have a new maximum, guessing wrong
takes longer."""
FEW_QUERIES = 4
"""The height of a tile for few rows, where their number is not known."""


@dataclass(frozen=True)
class AttentionPlan(Choices):
    """The sizes of one attention: `rows` query rows go through the keys together, `tail_rows` where there are no more
    (0: there is one kind of tile), by blocks of `key_block` keys."""

    rows: int
    tail_rows: int
    key_block: int
    lanes: int

    FIXED = {"key_block": ORDER, "lanes": VECTOR_WIDTH}

    @staticmethod
    def choose(queries: Dim, target: Target, lanes: int, given: Given) -> AttentionPlan:
        """Equal tiles, as high as the registers allow; or as given."""
        tall = rows = 1 if target.plain else largest_rows(target.vector_registers, 2)
        if queries.is_const:
            rows = -(-queries.value // -(-queries.value // tall))
        tail = 0 if queries.is_const else FEW_QUERIES
        wanted = given_number(given, "rows", rows, 1)
        rows = wanted if wanted <= tall else rows
        wanted = given_number(given, "tail_rows", tail, 1)
        tail = wanted if tail and wanted < rows else min(tail, rows)
        grain = given_number(given, "grain_cycles", GRAIN_CYCLES, 1)
        return AttentionPlan(rows, tail, KEY_BLOCK, lanes, grain_cycles=grain)


@dataclass(frozen=True)
class Heads:
    """Rows of a tensor of heads: row s of head h of sample b is `size` elements at `at(b, h, s)`."""

    buffer: SSAValue
    heads: Ix
    rows: Ix
    size: Ix
    joined: bool
    """Whether the heads of a row follow one another ([B, S, heads * size]); else [B, heads, S, size]."""

    @property
    def pitch(self) -> Ix:
        return self.heads * self.size if self.joined else self.size

    def at(self, sample: Ix, head: Ix, row: Ix | int = 0) -> Ix:
        if self.joined:
            return (sample * self.rows + row) * self.pitch + head * self.size
        return ((sample * self.heads + head) * self.rows + row) * self.size


class Attention:
    """One operator; the methods are its phases, then the loops from outside in."""

    def __init__(self, context: TemplateContext, op: kernel.TemplateOp) -> None:
        self.context = context
        o = self.o = Operator(context, op)
        e = self.e = o.e
        q, k, v = o.dims(Q), o.dims(K), o.dims(V)
        self.joined = len(q) == 3
        self.q_heads = as_dim(o.attr("q_num_heads", 0)) if self.joined else q[1]
        self.kv_heads = as_dim(o.attr("kv_num_heads", 0)) if len(k) == 3 else k[1]
        self.batch, self.queries = q[0], q[1] if self.joined else q[2]
        self.size = q[2] // self.q_heads if self.joined else q[3]
        self.value_size = v[2] // self.kv_heads if len(v) == 3 else v[3]
        new_keys = k[1] if len(k) == 3 else k[2]
        self.past = o.dims(PAST_K)[2] if o.has(PAST_K) else as_dim(0)
        self.new_keys, self.keys = new_keys, self.past + new_keys
        self.products, self.value_products = Products(o.kind(Q).ir), Products(o.kind(V).ir)
        self.sums: Attribute = self.products.sums
        self.lanes = e.target.lanes(self.products.bytes)
        self.panel = 2 * self.lanes
        # of a row's scores so many in step, as one vector: a block is a multiple of that
        self.wide = self.lanes if e.target.plain else IN_STEP * self.lanes
        self.root = o.attr("scale")
        self.in_steps = in_steps(o.kind(Q).ir, o.attr("softmax_precision"), self.root)
        # keys whose scores are kept at once, in rows that are not a power of two apart
        self.block = self.keys if self.in_steps else as_dim(KEY_BLOCK)
        self.pitch = self.block + (self.wide + self.lanes if self.in_steps else self.lanes)
        self.bounds: BlockBounds | None = None
        # packing writes whole chunks
        self.panel_steps = (self.size + (self.lanes - 1)) // self.lanes * self.lanes
        # the stored columns of a row of values are whole vectors
        self.value_width = (self.value_size + (self.panel - 1)) // self.panel * self.panel

    @property
    def limited(self) -> bool:
        """Whether there are keys that a row may not attend to, but for the mask."""
        windows = self.o.attr("left_window_size", -1), self.o.attr("right_window_size", -1)
        return bool(self.o.attr("is_causal", 0)) or max(windows) >= 0 or self.o.has(LENGTHS)

    @property
    def shows_weights(self) -> bool:
        """Whether the probabilities are a result."""
        return self.o.has_result(SCORES) and self.o.attr("qk_matmul_output_mode", 0) == 3

    @property
    def may_skip(self) -> bool:
        """Whether there are several blocks, and a mask that may leave some of them out."""
        o = self.o
        if (
            self.in_steps
            or not o.has(MASK)
            or o.has_result(SCORES)
            or o.dims(MASK)[-1] is not self.keys
            or self.e.target.plain
        ):
            return False
        return not self.keys.is_const or self.keys.value > KEY_BLOCK

    def rounded(self, value: SSAValue) -> SSAValue:
        """What a step of the function body gives."""
        return rounded(self.e, value) if self.in_steps else value

    def scale(self) -> SSAValue:
        """The attribute, or 1 / sqrt(size)."""
        e = self.e
        if self.root is not None:
            return e.constant(float(self.root), self.sums)
        if self.size.is_const:
            return e.constant(self.size.value**-0.5 if self.size.value else 1.0, self.sums)
        return e.div(e.constant(1, self.sums), e.math("sqrt", e.as_float(e.dim(self.size), self.sums)))

    def build(self) -> None:
        e, o = self.e, self.o
        self.query_rows = self.heads_of(o.buffer(Q), o.dims(Q), self.q_heads, self.queries, self.size)
        self.key_rows = self.with_past(K, PAST_K, PRESENT_K, self.size)
        self.value_rows = self.with_past(V, PAST_V, PRESENT_V, self.value_size)
        if any(d is as_dim(0) for d in (self.batch, self.q_heads, self.queries)):
            return
        self.key_panels = e.dim(self.keys).ceildiv(self.panel)
        self.packed = self.pack_keys()
        if self.may_skip:
            self.bounds = BlockBounds(self, KEY_BLOCK)
            self.bounds.measure()
        plan = AttentionPlan.choose(self.queries, e.target, self.lanes, self.context.part.given)
        self.context.part.adopt(plan)
        heights = [plan.rows, plan.tail_rows] if plan.tail_rows else [plan.rows]
        self.all_tiles([RegisterTile(rows, 2, self.lanes) for rows in heights])

    def heads_of(self, buffer: SSAValue, dims: tuple[Dim, ...], heads: Dim, rows: Dim, size: Dim) -> Heads:
        e = self.e
        return Heads(buffer, e.dim(heads), e.dim(rows), e.dim(size), len(dims) == 3)

    # Keys and values

    def with_past(self, operand: int, past: int, present: int, size: Dim) -> Heads:
        """The keys or values of all positions; those of before are put in front, in the result or in scratch."""
        e, o = self.e, self.o
        new = self.heads_of(o.buffer(operand), o.dims(operand), self.kv_heads, self.new_keys, size)
        if not o.has(past) and not o.has_result(present):
            return new
        if o.has_result(present):
            buffer = o.result_buffer(present)
        else:
            buffer = self.context.scratch(o.kind(operand).ir, self.batch * self.kv_heads * self.keys * size)
        whole = Heads(buffer, new.heads, e.dim(self.keys), new.size, False)
        before = e.dim(self.past)
        with e.parallel(e.dim(self.batch) * new.heads, 1) as (lower, upper, _), e.loop(lower, upper) as loop:
            sample, head = loop.index // new.heads, loop.index % new.heads
            at = whole.at(sample, head)
            if o.has(past):
                e.copy(o.buffer(past), loop.index * (before * new.size), buffer, at, before * new.size)
            with e.loop(0, new.rows) as rows:
                place = at + (before + rows.index) * new.size
                e.copy(new.buffer, new.at(sample, head, rows.index), buffer, place, new.size)
        return whole

    def pack_keys(self) -> SSAValue:
        """[sample, head, panel, element, key of the panel]"""
        e, rows, panels = self.e, self.key_rows, self.key_panels
        count = self.batch * self.kv_heads * ((self.keys + (self.panel - 1)) // self.panel)
        steps = e.dim(self.panel_steps)
        packed = self.context.scratch(self.sums, count * self.panel_steps * self.panel)
        last, size = rows.rows - 1, e.dim(self.size)
        grain = e.ix(e.grain_cycles) // (size * self.panel).max(1) + 1
        extent = e.dim(self.batch) * rows.heads * panels
        with e.parallel(extent, grain) as (lower, upper, _), e.loop(lower, upper, nonempty=True) as loop:
            head, key = loop.index // panels, loop.index % panels * self.panel
            start = rows.at(head // rows.heads, head % rows.heads)

            def row_at(r: int) -> Ix:
                return (key + r).min(last) * rows.pitch + start

            at = loop.index * (steps * self.panel)
            pack_across(e, self.products, rows.buffer, row_at, self.panel, size, packed, at, self.panel)
            if self.in_steps:
                scale_in_steps(e, self.scale(), packed, at, steps * self.panel, self.lanes)
        return packed

    def values_at(self, at: Ix, mask: SSAValue | None) -> SSAValue:
        """Neighbouring values in the type of the sums, which is the queries': theirs may be another."""
        e = self.e
        loaded = self.value_products.load_vector(e, self.value_rows.buffer, at, self.lanes, mask)
        return e.convert("truncf" if self.value_products.bytes > self.products.bytes else "extf", loaded, self.sums)

    # Tiles of queries

    def all_tiles(self, tiles: list[RegisterTile]) -> None:
        """Every tile of query rows of every head, in parallel; the tiles of a head one after the other."""
        e = self.e
        tall = tiles[0]
        queries, heads = e.dim(self.queries), e.dim(self.q_heads)
        per_head = queries.ceildiv(tall.rows)
        work = e.dim(self.keys) * (e.dim(self.size) + e.dim(self.value_size) + 16) * tall.rows // (2 * self.lanes)
        grain = e.ix(e.grain_cycles) // work.max(1) + 1
        with e.parallel(e.dim(self.batch) * heads * per_head, grain) as (lower, upper, thread):
            scratch = TileScratch.take(self, tall, thread)
            with e.loop(lower, upper, nonempty=True) as loop:
                head, row = loop.index // per_head, loop.index % per_head * tall.rows
                count = (queries - row).min(tall.rows)
                place = head // heads, head % heads
                if len(tiles) == 1:
                    QueryTile(self, tall, scratch, *place, row, count).build()
                for tile, predicate in zip(tiles, ("sgt", "sle")) if len(tiles) > 1 else ():
                    with e.when(count.compare(predicate, tiles[1].rows)):
                        QueryTile(self, tile, scratch, *place, row, count).build()


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
            weights_in_steps(e, s.scores, at, count, shift, a.lanes)
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
            # the sum of no exponentials at all
            empty = e.compare("oeq", total, e.constant(0, a.sums))
            inverse = e.div(e.constant(1, a.sums), e.select(empty, e.constant(1, a.sums), total))
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


class ScoreFormula:
    """What is done to the products of one row: soft cap, mask, limits."""

    def __init__(self, tile: QueryTile, row: Ix) -> None:
        self.tile, self.a, self.e, self.o, self.row = tile, tile.a, tile.e, tile.o, row
        e = self.e
        self.low, self.high = (e.load_index(tile.s.bounds, row * 2 + i) for i in range(2))
        self.mask_at = self._mask_row() if self.o.has(MASK) else None

    def _mask_row(self) -> Ix:
        """Where the row of the mask starts."""
        a, e, tile = self.a, self.e, self.tile
        dims = self.o.dims(MASK)
        space = (a.batch, a.q_heads, a.queries)
        strides = batch_strides(e, dims[:-1], space, e.dim(dims[-1]))
        index = (tile.sample, tile.head, tile.row + self.row)
        at = e.ix(0)
        for i, stride in zip(index, strides, strict=True):
            at = at + i * stride
        return at

    def apply(self, scores: SSAValue, key: Ix, left: Ix) -> SSAValue:
        """The scores of keys from `key` on, of which `left` are there; minus infinity for what is not attended to."""
        a, e, o = self.a, self.e, self.o
        lanes = lanes_of(scores) or 1
        whole = a.keys.is_const and a.keys.value % lanes == 0
        there = e.mask(left, lanes)
        scores = a.rounded(scores)
        mode = o.attr("qk_matmul_output_mode", 0) if o.has_result(SCORES) else None
        self._show(mode == 0, scores, key, there)
        cap = o.attr("softcap", 0.0)
        if cap:
            cap_lanes = like(e, float(cap), scores)
            bent = a.rounded(e.math("tanh", a.rounded(e.div(scores, cap_lanes))))
            scores = a.rounded(e.mul(bent, cap_lanes))
        self._show(mode == 1, scores, key, there)
        lowest = like(e, -inf, scores)
        if self.mask_at is not None:
            scores = self._masked(scores, key, there, lowest)
        if a.limited:
            visible = e.both(e.mask(self.high - key, lanes), e.flip(e.mask(self.low - key, lanes)))
            scores = e.select(visible, scores, lowest)
        if not whole:
            scores = e.select(there, scores, lowest)
        self._show(mode == 2, scores, key, there)
        return scores

    def _show(self, wanted: bool, scores: SSAValue, key: Ix, there: SSAValue) -> None:
        if wanted:
            self.tile.store_scores(scores, self.row, key, there)

    def _masked(self, scores: SSAValue, key: Ix, there: SSAValue, lowest: SSAValue) -> SSAValue:
        """With the mask; keys behind a short mask are not attended to."""
        a, e = self.a, self.e
        assert self.mask_at is not None
        lanes = lanes_of(scores) or 1
        last = self.o.dims(MASK)[-1]
        buffer = self.o.buffer(MASK)
        if last is as_dim(1) and a.keys is not as_dim(1):
            value = e.b.broadcast(e.load(buffer, self.mask_at), lanes)
        else:
            length = e.dim(last)
            inside = e.mask(length - key, lanes)
            value = e.load_vector(buffer, self.mask_at + key, lanes, e.both(inside, there))
            if not last.is_const and last is not a.keys:  # it may turn out to be 1, and then serves all keys
                single = length.compare("eq", 1)
                only = e.b.broadcast(e.load(buffer, self.mask_at), lanes)
                value = e.select(e.b.broadcast(single, lanes), only, value)
                inside = e.mask(e.select_index(single, e.dim(a.keys), length) - key, lanes)
            scores = e.select(inside, scores, lowest)
        if self.o.kind(MASK).kind == "b":
            return e.select(value, scores, lowest)
        return a.rounded(e.add(scores, a.rounded(self.as_sum(value))))

    def as_sum(self, value: SSAValue) -> SSAValue:
        """A mask to be added, in the type of the sums."""
        e, kind = self.e, self.o.kind(MASK)
        if kind.is_float:
            narrow = kind.bits > Products(self.a.sums).bytes * 8
            return e.convert("truncf" if narrow else "extf", value, self.a.sums)
        return e.convert("sitofp" if kind.kind == "i" else "uitofp", value, self.a.sums)


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Emits the operator."""
    Attention(context, op).build()
