"""Template "blockmatmul" with rows rounded to bytes: each block of a row gets a scale, and products are of integers.

A block's numbers x become q = round(127 x / greatest |x|), signed bytes, so that with w the weights' numbers

    sum x (w - zero) scale = sum over blocks of greatest / 127 * scale * (sum q w - zero * sum q)

where both sums are exact.  The rows are rounded first, all of them; then each group of columns meets tiles of rows.
The order of additions is that of the blocks, for any number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from ...dialects.dims import as_dim
from ...semantics.block_weights import PANEL
from ..choices import GRAIN_CYCLES, VECTOR_WIDTH, Choices, given_number
from ..loop_builder import Scalar
from .byte_panels import as_bytes, scratch_of_quads
from .emit import F32, Emitter, Ix, plain
from .matmul_problem import Problem, Sink, row_index
from .operator import Operator
from .register_tile import Products

BYTE_MOST = 127
TINY = 2.0**-64


@dataclass(frozen=True)
class Weights:
    """The operands of the weights, and how a number is taken from a word."""

    bits: int
    block: int
    depth: int
    words: SSAValue
    scales: SSAValue
    zeros: SSAValue | None

    @staticmethod
    def read(operator: Operator) -> Weights:
        zeros = operator.buffer(3) if operator.has(3) else None
        bits, block, depth = (operator.attr(name) for name in ("bits", "block", "depth"))
        return Weights(bits, block, depth, operator.buffer(1), operator.buffer(2), zeros)

    @property
    def fields(self) -> int:
        """Numbers in a byte."""
        return 8 // self.bits

    @property
    def word_steps(self) -> int:
        """Steps of the depth in a word."""
        return 4 * self.fields

    @property
    def blocks(self) -> int:
        """Scales of a column."""
        return -(-self.depth // self.block)

    @property
    def most(self) -> int:
        """The greatest number."""
        return (1 << self.bits) - 1

    def places(self, e: Emitter, column: Ix, vectors: int, lanes: int, columns: Ix) -> list[tuple[Ix, Ix]]:
        """For each vector of columns its panel and its place there; behind the last panel that one again."""
        last = columns.ceildiv(PANEL) - 1
        found: list[tuple[Ix, Ix]] = []
        for v in range(vectors):
            at = column + v * lanes
            found.append(((at // PANEL).min(last), at % PANEL))
        return found

    def _at(self, place: tuple[Ix, Ix], count: int, number: Ix) -> Ix:
        panel, column = place
        return number * PANEL + (panel * (count * PANEL) + column)

    def load_words(self, e: Emitter, place: tuple[Ix, Ix], number: Ix, lanes: int) -> SSAValue:
        """A word of each column."""
        count = self.blocks * self.block // self.word_steps
        return e.load_vector(self.words, self._at(place, count, number), lanes)

    def load_scales(self, e: Emitter, place: tuple[Ix, Ix], block: Ix, lanes: int) -> SSAValue:
        return e.load_vector(self.scales, self._at(place, self.blocks, block), lanes)

    def load_zeros(self, e: Emitter, place: tuple[Ix, Ix], block: Ix, lanes: int) -> SSAValue:
        if self.zeros is None:
            return e.constant(1 << (self.bits - 1), F32, lanes)
        return e.load_vector(self.zeros, self._at(place, self.blocks, block), lanes)

    def number(self, e: Emitter, word: SSAValue, step: int, lanes: int) -> SSAValue:
        """The integer of one of a word's steps."""
        field, byte = divmod(step, 4)
        shift = 8 * byte + self.bits * field
        shifted = e.bits("shrui", word, e.constant(shift, i32, lanes)) if shift else word
        if shift + self.bits == 32:
            return shifted
        return e.bits("and", shifted, e.constant(self.most, i32, lanes))

    def quad(self, e: Emitter, word: SSAValue, field: int, lanes: int) -> SSAValue:
        """Four numbers of a word as bytes."""
        if self.bits == 8:
            return word
        shifted = e.bits("shrui", word, e.constant(self.bits * field, i32, lanes)) if field else word
        return e.bits("and", shifted, e.constant(self.most * 0x01010101, i32, lanes))


@dataclass(frozen=True)
class BytesPlan(Choices):
    """The sizes of one product.

    `rows`, `vectors`: the tile for several rows.
    `row_block`: rows that meet a group of columns together.
    """

    rows: int
    vectors: int
    row_block: int
    lanes: int

    FIXED = {"lanes": VECTOR_WIDTH}


def build(operator: Operator, problem: Problem, products: Products, weights: Weights, sink: Sink) -> None:
    """Rounds the rows, then multiplies."""
    part, target = operator.context.part, operator.context.target
    lanes = target.lanes(4)
    # a tile has a sum and a total for each vector of a row, words, their quads and a scalar
    vectors = given_number(part.given, "vectors", min(2, PANEL // lanes), 1)
    most = max(1, (target.vector_registers - 2 * vectors - 2) // (2 * vectors))
    if problem.rows.is_const and problem.rows.value > 0:
        most = -(-problem.rows.value // -(-problem.rows.value // most))
    rows = min(given_number(part.given, "rows", most, 1), most)
    block = given_number(part.given, "row_block", max(1, target.l2 // 2 // max(1, weights.depth)), 1)
    grain = given_number(part.given, "grain_cycles", GRAIN_CYCLES, 1)
    plan = BytesPlan(rows, vectors, block, lanes, grain_cycles=grain)
    part.adopt(plan)
    BlockBytes(operator, problem, products, weights, sink, plan).build()


class BlockBytes:
    """Emits one product."""

    def __init__(
        self,
        operator: Operator,
        problem: Problem,
        products: Products,
        weights: Weights,
        sink: Sink,
        plan: BytesPlan,
    ) -> None:
        self.e, self.context = operator.e, operator.context
        self.problem, self.products, self.weights = problem, products, weights
        self.sink, self.plan = sink, plan
        self.pitch = weights.blocks * weights.block
        """Bytes of a row."""

    def build(self) -> None:
        e, problem, plan = self.e, self.problem, self.plan
        if problem.rows is as_dim(0) or problem.columns is as_dim(0):
            return
        rows = e.dim(problem.rows)
        self.bytes = self.context.scratch(i8, problem.rows * self.pitch + 64)
        self.quads = scratch_of_quads(e, self.bytes, rows * (self.pitch // 4) + 16)
        self.row_scales = self.context.scratch(F32, problem.rows * self.weights.blocks)
        self.row_sums = self.context.scratch(F32, problem.rows * self.weights.blocks)
        grain = e.ix(e.grain_cycles) // (self.pitch // 4 + 1) + 1
        with (
            e.parallel(rows, grain) as (lower, upper, _),
            e.loop(lower, upper, nonempty=True) as loop,
            e.loop(0, self.weights.blocks) as block,
        ):
            self.round_block(loop.index, block.index)
        blocks = rows.ceildiv(plan.row_block)
        groups = e.dim(problem.columns).ceildiv(plan.vectors * plan.lanes)
        work = rows.min(plan.row_block) * (self.pitch // 4 * plan.vectors)
        grain = e.ix(e.grain_cycles) // work.max(1) + 1
        with (
            e.parallel(blocks * groups, grain) as (lower, upper, _),
            e.loop(lower, upper, nonempty=True) as items,
        ):
            block, group = items.index // groups, items.index % groups
            start = block * plan.row_block
            self.row_block(start, (start + plan.row_block).min(rows), group)

    # Rows to bytes

    def round_block(self, row: Ix, block: Ix) -> None:
        """The bytes, the scale and the sum of a block of a row."""
        e, weights, lanes = self.e, self.weights, self.plan.lanes
        factor = self.problem.row_factor
        first = block * weights.block
        count = (e.ix(weights.depth) - first).min(weights.block)
        source = factor.at((), row, first)
        zero = e.constant(0, F32, lanes)

        def load(k: Ix) -> SSAValue:
            mask = e.mask(count - k, lanes) if weights.depth % weights.block else None
            return self.products.load_vector(e, factor.buffer, k + source, lanes, mask)

        with e.loop(0, weights.block, lanes, carried=[zero]) as loop:
            loop.carry([e.extremum("maximumf", loop.carried[0], e.math("absf", load(loop.index)))])
        greatest = e.reduce("maximumf", loop.results[0])
        at = row * weights.blocks + block
        # NaN where a number is not finite
        scale = e.add(e.mul(greatest, e.constant(1 / BYTE_MOST, F32)), e.sub(greatest, greatest))
        e.store(scale, self.row_scales, at)
        # the quotient by a tiny number would be infinite
        tiny = e.compare("olt", greatest, e.constant(TINY, F32))
        larger = e.select(tiny, e.constant(1 / TINY, F32), e.constant(1, F32))
        divisor = e.mul(greatest, larger)
        none = e.compare("oeq", divisor, e.constant(0, F32))
        inverse = e.select(none, divisor, e.div(e.constant(BYTE_MOST, F32), divisor))
        enlarge, factors = e.splat(larger, lanes), e.splat(inverse, lanes)
        low, high = (e.constant(float(n), F32, lanes) for n in (-BYTE_MOST, BYTE_MOST))
        none_yet = e.constant(0, i32, lanes)
        with e.loop(0, weights.block, lanes, carried=[none_yet]) as loop:
            real = e.math("roundeven", e.mul(e.mul(load(loop.index), enlarge), factors))
            real = e.select(e.compare("ogt", real, low), real, low)  # also of NaN
            rounded = e.convert("fptosi", e.select(e.compare("olt", real, high), real, high), i32)
            e.store_vector(e.convert("trunci", rounded, i8), self.bytes, loop.index + row * self.pitch + first)
            loop.carry([e.add(loop.carried[0], rounded)])
        total = e.convert("sitofp", e.reduce("add", loop.results[0]), F32)
        e.store(total, self.row_sums, at)

    # Products

    def row_block(self, start: Ix, end: Ix, group: Ix) -> None:
        """The rows [start, end) of one group of columns: whole tiles, of which the last may be a single row."""
        e, plan = self.e, self.plan
        if plan.rows == 1:
            with e.loop(start, end) as loop:
                self.tile(1, loop.index, end, group)
            return
        count = end - start
        whole = count - e.select_index((count % plan.rows).compare("eq", 1), 1, 0)
        with e.loop(start, start + whole, plan.rows) as loop:
            self.tile(plan.rows, loop.index, end, group)
        with e.loop(start + whole, end) as loop:
            self.tile(1, loop.index, end, group)

    def tile(self, height: int, row: Ix, end: Ix, group: Ix) -> None:
        """A tile of finished sums; below the last row it is repeated, and not stored."""
        e, plan, weights, problem = self.e, self.plan, self.weights, self.problem
        lanes, column = plan.lanes, group * (plan.vectors * plan.lanes)
        columns = e.dim(problem.columns)
        places = weights.places(e, column, plan.vectors, lanes, columns)
        rows = [(row + r).min(end - 1) if r else row for r in range(height)]
        quads_at = [r * (self.pitch // 4) for r in rows]
        scales_at = [r * weights.blocks for r in rows]
        zero = e.constant(0, F32, lanes)
        with e.loop(0, weights.blocks, carried=[zero] * (height * plan.vectors)) as loop:
            block = loop.index
            sums = self.block_sums(block, places, quads_at)
            loop.carry(self.scaled(block, places, scales_at, sums, loop.carried))
        masks = None
        if not problem.columns.is_const or problem.columns.value % (plan.vectors * lanes):
            masks = [e.mask(columns - column - v * lanes, lanes) for v in range(plan.vectors)]
        axis = problem.column_axis
        assert axis is not None
        for r in range(height):
            with e.when((row + r).compare("slt", end)):
                index = row_index(e, problem, row + r)
                for v in range(plan.vectors):
                    indices: list[Scalar] = [0] * problem.result_rank
                    for k, i in zip(problem.row_axes, index):
                        indices[k] = plain(i)
                    indices[axis] = plain(column + v * lanes)
                    self.sink(loop.results[r * plan.vectors + v], indices, masks[v] if masks else None, axis)

    def block_sums(self, block: Ix, places: Sequence[tuple[Ix, Ix]], quads_at: Sequence[Ix]) -> Sequence[SSAValue]:
        """The integer sums of a block, of each row and vector."""
        e, weights, lanes = self.e, self.weights, self.plan.lanes
        words = weights.block // weights.word_steps
        first = block * words
        with e.loop(0, words, carried=[e.constant(0, i32, lanes)] * (len(places) * len(quads_at))) as loop:
            number = loop.index + first
            loaded = [weights.load_words(e, place, number, lanes) for place in places]
            sums = list(loop.carried)
            for field in range(weights.fields):
                columns = [as_bytes(e, weights.quad(e, word, field, lanes)) for word in loaded]
                for r, at in enumerate(quads_at):
                    quad = e.splat(e.load(self.quads, number * weights.fields + at + field), lanes)
                    for v, column in enumerate(columns):
                        n = r * len(places) + v
                        sums[n] = e.dot("u8s8", sums[n], column, as_bytes(e, quad))
            loop.carry(sums)
        return loop.results

    def scaled(
        self,
        block: Ix,
        places: Sequence[tuple[Ix, Ix]],
        scales_at: Sequence[Ix],
        sums: Sequence[SSAValue],
        totals: Sequence[SSAValue],
    ) -> list[SSAValue]:
        """The totals with those of a block."""
        e, weights, lanes = self.e, self.weights, self.plan.lanes
        scales = [weights.load_scales(e, place, block, lanes) for place in places]
        zeros = [weights.load_zeros(e, place, block, lanes) for place in places]
        found: list[SSAValue] = []
        for r, at in enumerate(scales_at):
            row_scale = e.splat(e.load(self.row_scales, block + at), lanes)
            row_sum = e.splat(e.load(self.row_sums, block + at), lanes)
            for v in range(len(places)):
                n = r * len(places) + v
                exact = e.sub(e.convert("sitofp", sums[n], F32), e.mul(zeros[v], row_sum))
                found.append(e.fma(exact, e.mul(scales[v], row_scale), totals[n]))
        return found
