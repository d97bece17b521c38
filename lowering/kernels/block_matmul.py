"""Template "blockmatmul": a [.., depth] times constant weights of 2, 4 or 8 bits, scaled by blocks along the depth.

Operands: a, words, scales and perhaps zeros, in the layout of `semantics.block_weights`; without zeros they are half of
2^bits.  Config: `bits`, `block` (a power of two, at least 16), `depth`, `columns`, and `quantized`: with it the product
is that of `block_matmul_bytes`.

Weights stay packed in memory.  For a few rows each word is shifted, masked, made f32 and scaled in registers, right
where it is multiplied: the product takes the time to read the packed weights.  For more rows the columns of a tile are
made f32 once for a block of rows, where the matmul template packs its columns.  Both add in the order of the matmul
template, of the same numbers, so results do not depend on the number of rows; their K blocks are short.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import gcd, isqrt

from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import as_dim
from ..loop_builder import Scalar
from ..template import TemplateContext
from . import block_matmul_bytes
from .block_matmul_bytes import Weights
from .emit import F32, Emitter, Ix
from .matmul import MatmulBuilder, choose
from .matmul_problem import Factor, Problem, whole_rows
from .operands import stored_type
from .operator import Operator
from .register_tile import Products, RegisterTile

ONE = as_dim(1)
STEPS = 32
"""The least number of steps to a K block, in whole words of weights."""


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Emits the product; where the number of rows is not known, a form for one row beside the one for many."""
    operator = Operator(context, op)
    e = operator.e
    weights = Weights.read(operator)
    problem = read(e, operator)
    products = Products(operator.kind(0).ir)

    def sink(value: SSAValue, indices: Sequence[Scalar], mask: SSAValue | None, axis: int) -> None:
        context.store(op, [products.narrow(e, value, stored_type(op))], indices, mask, axis)

    if operator.attr("quantized"):
        block_matmul_bytes.build(operator, problem, products, weights, sink)
        return

    def product(rows: Problem) -> None:
        given = context.part.given
        plan = choose(products, rows.rows, rows.columns, context.target, packs=True, given=given)
        plan = replace(plan, depth_block=depth_block(operator.attr("depth")))
        if rows is problem:
            context.part.adopt(plan)
        BlockMatmul(e, context, rows, products, plan, sink, weights).build()

    if problem.rows.is_const:
        product(problem)
        return
    single = e.dim(problem.rows).compare("eq", 1)
    with e.when(single):
        product(replace(problem, rows=ONE, row_sizes=(ONE,) * len(problem.row_sizes)))
    with e.when(e.flip(single)):
        product(problem)


def depth_block(depth: int) -> int:
    """K steps to a block: about as many as there are blocks, so that no chain of additions is long.

    The error is less than that of the usual kernels, which multiply by each block's scale after adding it up.
    """
    return -(-isqrt(max(1, depth)) // STEPS) * STEPS


def read(e: Emitter, operator: Operator) -> Problem:
    """All rows of a, one after the other, times the columns."""
    result = operator.result_dims(0)
    depth: int = operator.attr("depth")
    rows = Factor(operator.buffer(0), e.ix(depth), e.ix(1))
    return whole_rows(result, as_dim(depth), rows, Factor(operator.buffer(1), e.ix(1), e.ix(1)))


@dataclass(eq=False)
class BlockMatmul(MatmulBuilder):
    """The matmul template with columns that are dequantized."""

    weights: Weights

    def __post_init__(self) -> None:
        super().__post_init__()
        self.columns_in_place = self.rows_in_place
        self.unit = gcd(self.weights.block, self.plan.depth_block)
        """Steps of a K block between changes of the scales."""

    def accumulate(self, tile: RegisterTile, row: Ix, group: Ix) -> list[SSAValue]:
        if not self.rows_in_place:
            return super().accumulate(tile, row, group)
        e, products, factor = self.e, self.products, self.problem.row_factor
        starts = [factor.at(self.batch, row + r, self.depth_start) for r in range(tile.rows)]

        def step(k: Ix, columns: list[SSAValue], sums: Sequence[SSAValue]) -> list[SSAValue]:
            found: list[SSAValue] = []
            for r, start in enumerate(starts):
                scalar = e.splat(products.load(e, factor.buffer, k * factor.depth_stride + start), tile.lanes)
                found += [e.fma(scalar, c, sums[r * tile.vectors + v]) for v, c in enumerate(columns)]
            return found

        zero = e.constant(0, F32, tile.lanes)
        return self.dequantized(group, tile.vectors, [zero] * (tile.rows * tile.vectors), step)

    def pack_columns(self, group: Ix) -> None:
        e, plan = self.e, self.plan

        def step(k: Ix, columns: list[SSAValue], sums: Sequence[SSAValue]) -> list[SSAValue]:
            for v, column in enumerate(columns):
                panel, vector = divmod(v, plan.vectors)
                at = self.steps * (panel * plan.panel)
                e.store_vector(column, self.packed_columns, k * plan.panel + at + vector * plan.lanes)
            return []

        self.dequantized(group, plan.tile.vectors, [], step)

    def dequantized(
        self,
        group: Ix,
        vectors: int,
        start: Sequence[SSAValue],
        step: Callable[[Ix, list[SSAValue], Sequence[SSAValue]], list[SSAValue]],
    ) -> list[SSAValue]:
        """`step` with each step of this K block and the group's columns of it; what it gives goes into the next."""
        e, weights, lanes = self.e, self.weights, self.plan.lanes
        places = weights.places(e, group * (vectors * lanes), vectors, lanes, e.dim(self.problem.columns))
        word_steps, depth = weights.word_steps, self.problem.depth.value
        assert self.unit % word_steps == 0

        def word(at: Ix, scales: Scales, values: Sequence[SSAValue], count: int) -> list[SSAValue]:
            """The steps of one word of each column, of which `count` are there; `at` is the first in the K block."""
            number = (self.depth_start + at) // word_steps
            words = [weights.load_words(e, place, number, lanes) for place in places]
            for j in range(count):
                columns = [scales.apply(e, weights.number(e, w, j, lanes), v) for v, w in enumerate(words)]
                values = step(at + j, columns, values)
            return list(values)

        def unit(first: Ix, count: Ix, tail: int, values: Sequence[SSAValue]) -> list[SSAValue]:
            """The steps from `first` on that share scales: whole words, then `tail` steps of one more."""
            block = (self.depth_start + first) // weights.block
            scales = Scales.load(e, weights, places, block, lanes)
            with e.loop(0, count, word_steps, carried=values) as loop:
                loop.carry(word(loop.index + first, scales, loop.carried, word_steps))
            return word(count + first, scales, loop.results, tail) if tail else list(loop.results)

        whole = self.steps // self.unit
        with e.loop(0, whole, carried=start) as loop:
            loop.carry(unit(loop.index * self.unit, e.ix(self.unit), 0, loop.carried))
        values: Sequence[SSAValue] = loop.results
        if rest := depth % self.unit:  # at the end of the last K block
            with e.loop(whole * self.unit, self.steps, self.unit, carried=values) as last:
                tail = rest % word_steps
                last.carry(unit(last.index, e.ix(rest - tail), tail, last.carried))
            values = last.results
        return list(values)


@dataclass(frozen=True)
class Scales:
    """What makes numbers of weights: vectors of scales and zero points of a group's columns for one block."""

    scales: list[SSAValue]
    zeros: list[SSAValue]

    @staticmethod
    def load(e: Emitter, weights: Weights, places: Sequence[tuple[Ix, Ix]], block: Ix, lanes: int) -> Scales:
        scales = [weights.load_scales(e, place, block, lanes) for place in places]
        return Scales(scales, [weights.load_zeros(e, place, block, lanes) for place in places])

    def apply(self, e: Emitter, number: SSAValue, vector: int) -> SSAValue:
        """(number - zero) scale, of integers"""
        real = e.convert("sitofp", number, F32)
        return e.mul(e.sub(real, self.zeros[vector]), self.scales[vector])
