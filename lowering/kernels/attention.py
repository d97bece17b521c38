"""Template "attention": softmax(scale q k^T + mask) v in one pass over the keys, block by block.

All of the operator: three or four axes, shared key heads, past keys and values, boolean and added masks, causal and
windowed masks, soft capping, valid lengths, the scores as a result.  f16, and bf16 with its softmax in f32, are
computed in f32 and rounded once; other attention of bf16 in the steps of `attention_steps.py`.

Keys are packed into panels once for each head.  A tile of query rows then goes through the keys in blocks: scores of
the block by register tiles, their formula and the running maximum row by row, exponentials and their sum, and the
product with the values, which is added to what was there, scaled to the new maximum.  The order of a row's sums depends
on the number of keys alone.  A row that may attend to no key is 0,
or NaN where the operator was written with a Softmax.
"""

from __future__ import annotations

from xdsl.ir import Attribute, SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim
from ..template import TemplateContext
from .attention_plan import (
    KEY_BLOCK,
    LENGTHS,
    MASK,
    PAST_K,
    PAST_V,
    PRESENT_K,
    PRESENT_V,
    SCORES,
    AttentionPlan,
    Heads,
    K,
    Q,
    V,
)
from .attention_skips import BlockBounds
from .attention_steps import in_steps, rounded, scale_in_steps
from .attention_tile import QueryTile, TileScratch
from .emit import Ix
from .matmul_plan import tall_tiles
from .operator import Operator
from .panels import pack_across
from .register_tile import Products

IN_STEP = 4
"""Vectors of scores that are exponentiated in step."""


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
        self.empty_is_nan = o.attr("empty_rows") == "nan"
        self.in_steps = in_steps(o.kind(Q).ir, o.attr("softmax_precision"), self.root)
        # keys whose scores are kept at once, in rows that are not a power of two apart
        self.block = self.keys if self.in_steps else as_dim(KEY_BLOCK)
        self.pitch = self.block + (self.wide + self.lanes if self.in_steps else self.lanes)
        self.one_block = self.in_steps or (self.keys.is_const and 0 < self.keys.value <= KEY_BLOCK)
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
        """Whether there is a mask that may leave keys out: whole blocks, or of one block its end for some rows."""
        o = self.o
        if (
            self.in_steps
            or not o.has(MASK)
            or o.has_result(SCORES)
            or o.dims(MASK)[-1] is not self.keys
            or self.e.target.plain
        ):
            return False
        if not self.keys.is_const or self.keys.value > KEY_BLOCK:
            return True
        return self.keys.value >= 2 * self.panel and o.dims(MASK)[-2:-1] != (as_dim(1),)

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
        e = self.e
        self.query_rows = self.heads_of(Q, self.q_heads, self.queries, self.size)
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
        self.all_tiles(plan)

    def heads_of(self, operand: int, heads: Dim, rows: Dim, size: Dim) -> Heads:
        e = self.e
        place = self.context.place(self.o.operand(operand))
        return Heads.placed(e, place, e.dim(heads), e.dim(rows), e.dim(size))

    # Keys and values

    def with_past(self, operand: int, past: int, present: int, size: Dim) -> Heads:
        """The keys or values of all positions; those of before are put in front, in the result or in scratch."""
        e, o = self.e, self.o
        new = self.heads_of(operand, self.kv_heads, self.new_keys, size)
        if not o.has(past) and not o.has_result(present):
            return new
        if o.has_result(present):
            buffer = o.result_buffer(present)
        else:
            buffer = self.context.scratch(o.kind(operand).ir, self.batch * self.kv_heads * self.keys * size)
        whole = Heads.whole(buffer, new.heads, e.dim(self.keys), new.size, False)
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

    def all_tiles(self, plan: AttentionPlan) -> None:
        """Every tile of query rows of every head, in parallel; the tiles of a head one after the other."""
        e = self.e
        queries, heads = e.dim(self.queries), e.dim(self.q_heads)
        height = plan.rows
        tall = per_head = queries.ceildiv(height)
        if plan.tail_rows and self.queries.is_const:
            tall = tall_tiles(queries, height, plan.tail_rows)
            per_head = tall + (queries - tall * height).ceildiv(plan.tail_rows)
        work = e.dim(self.keys) * (e.dim(self.size) + e.dim(self.value_size) + 16) * height // (2 * self.lanes)
        grain = e.ix(e.grain_cycles) // work.max(1) + 1
        with e.parallel(e.dim(self.batch) * heads * per_head, grain) as (lower, upper, thread):
            scratch = TileScratch.take(self, height, thread)
            with e.loop(lower, upper, nonempty=True) as loop:
                head, number = loop.index // per_head, loop.index % per_head
                row, most = number * height, e.ix(height)
                if tall is not per_head:
                    row = row - (number - tall).max(0) * (height - plan.tail_rows)
                    most = e.select_index(number.compare("slt", tall), height, plan.tail_rows)
                count = (queries - row).min(most)
                QueryTile(self, plan, scratch, head // heads, head % heads, row, count).build()


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Emits the operator."""
    Attention(context, op).build()
