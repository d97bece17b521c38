"""Templates "matmulinteger" and "qlinearmatmul": products of bytes less their zero points, exact in 32 bits.

The dot instructions take u8 rows and s8 columns.  With a' and b' the bytes in those forms and p, q their zero points
in the same forms,

    sum (a' - p) (b' - q) = sum a' b' - p * sum b' - q * sum a' + K p q

so the matmul template runs on quads of bytes, and the sums of rows and columns are taken where they are packed.
`qlinearmatmul` scales as if in f64, which holds every sum exactly, and rounds once, half to even.

With the config `panel`, b was a constant of two axes and is `packing.pack_quad_columns(b, panel)`: bytes, one axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim
from ...dialects.dims.expression import ONE, dim_min
from ..loop_builder import Scalar
from ..template import TemplateContext
from ..tensor.element_kinds import Element
from .byte_panels import FLIP, BytePacker, DotProducts, as_bytes, ones, scratch_of_quads
from .emit import F32, F64, Emitter, Ix, lanes_of
from .matmul import MOST_GROUPS, MatmulBuilder, Plan, choose
from .matmul_problem import Problem, Sink, read_problem
from .operands import number
from .operator import Operator, known_number
from .panels import slack
from .register_tile import RegisterTile

Along = Literal["whole", "rows", "columns"]


def sides(operator: Operator, a: int, b: int) -> tuple[Along, Along]:
    """Which axis of a product the parameters of operands a and b run along: a vector has no such axis."""
    a_rank = len(operator.dims(a))
    b_rank = len(operator.dims(b)) if number(operator.op, "panel") is None else 2  # packed, it was a matrix
    of_a: Along = "whole" if a_rank == 1 else "rows" if b_rank > 1 else "columns"
    return of_a, "whole" if b_rank == 1 else "columns"


class Parameter:
    """A scale or zero point: of the whole operand, or of each row (or column); any shape that broadcasts.

    A size that is known only when the kernel runs is 1 or that of the result's axis, as inference has stated.
    """

    def __init__(self, operator: Operator, index: int | None, of: Along) -> None:
        self.operator, self.index = operator, index if index is not None and operator.has(index) else None
        self.e = operator.e
        self.dims: tuple[Dim, ...] = ()
        self.extents = operator.result_dims(0)
        if self.index is not None:
            dims = operator.dims(self.index)
            if of == "whole":
                dims = ()
            elif of == "rows" and len(dims) == 1:
                dims = (*dims, ONE)  # a vector has one for each row of the matrix
            self.dims = dims[max(0, len(dims) - len(self.extents)) :]
            self.buffer = operator.buffer(self.index)

    @property
    def kind(self) -> Element:
        assert self.index is not None
        return self.operator.kind(self.index)

    def known(self) -> float | None:
        """The value, where it is one number that is known; 0 where the operand is absent."""
        return 0 if self.index is None else known_number(self.operator.op, self.index)

    def load(self, indices: Sequence[Scalar], axis: int, lanes: int, mask: SSAValue | None) -> SSAValue:
        """As it is in memory, for lanes along an axis of the result: a scalar where all are the same."""
        e = self.e
        offset, step, lane_step = e.ix(0), e.ix(1), e.ix(0)
        axis %= max(1, len(indices))
        for at in range(1, len(self.dims) + 1):
            size, extent = self.dims[-at], self.extents[-at]
            if size is ONE or extent is ONE:
                continue
            own = step if size is extent else e.select_index(self._is_one(size), 0, step)
            offset = offset + e.ix(indices[-at]) * own
            if len(indices) - at == axis:
                lane_step = own
            step = step * e.dim(size)
        if lane_step.known == 0 or lanes == 1:
            return e.load(self.buffer, offset)
        if lane_step.known == 1:
            return e.load_vector(self.buffer, offset, lanes, mask)
        places = e.add(e.splat(offset.ssa, lanes), e.mul(e.ramp(0, 1, lanes), e.splat(lane_step.ssa, lanes)))
        return e.gather(self.buffer, places, mask)

    def _is_one(self, size: Dim) -> SSAValue:
        return self.e.dim(size).compare("eq", 1)


def widened(e: Emitter, kind: Element, value: SSAValue) -> SSAValue:
    """A byte as i32."""
    return e.convert("extsi" if kind.kind == "i" else "extui", value, i32)


class IntegerMatmul(MatmulBuilder):
    """The matmul template on quads of bytes."""

    def __init__(
        self,
        operator: Operator,
        operands: tuple[int, int],
        zeros: tuple[Parameter, Parameter],
        problem: Problem,
        plan: Plan,
        sink: Sink,
    ) -> None:
        self.bytes_deep = problem.depth
        quads = (problem.depth + 3) // 4
        super().__init__(operator.e, operator.context, replace(problem, depth=quads), DotProducts(), plan, sink)
        self.rows_in_place = self.columns_in_place = self.low_in_place = False
        rows_are_a = problem.row_factor.buffer is operator.buffer(operands[0])
        self.prepacked = problem.column_factor.panel is not None
        self.row_operand, self.column_operand = operands if rows_are_a else operands[::-1]
        self.row_zero, self.column_zero = zeros if rows_are_a else zeros[::-1]
        self.row_flip = operator.kind(self.row_operand).kind == "i"
        self.column_flip = operator.kind(self.column_operand).kind == "u"

    def take_scratch(self, thread: SSAValue) -> None:
        super().take_scratch(thread)
        plan, lanes = self.plan, self.plan.tile.lanes
        if not self.prepacked:
            quads = dim_min(self.problem.depth, as_dim(plan.depth_block)) * plan.tile.columns + slack(lanes, plan.panel)
            self.column_bytes = self.context.scratch(i8, quads * 4, thread)
            self.packed_columns = scratch_of_quads(self.e, self.column_bytes, self.e.dim(quads))
        self.edge = self.context.scratch(i8, lanes * lanes * 4, thread)
        self.row_sums = self.context.scratch(i32, plan.row_block + plan.tile.rows + lanes, thread)
        self.column_sums = self.context.scratch(i32, MOST_GROUPS * plan.tile.columns, thread)

    @property
    def bytes_left(self) -> Ix:
        """Bytes of the depth in this K block."""
        return (self.e.dim(self.bytes_deep) - self.depth_start * 4).min(self.steps * 4)

    def pack_rows(self, tile: RegisterTile, row: Ix) -> None:
        e, factor = self.e, self.problem.row_factor
        assert factor.depth_stride.known == 1
        last = e.dim(self.problem.rows) - 1

        def row_at(r: int) -> Ix:
            return factor.at(self.batch, (row + r).min(last), self.depth_start * 4)

        at = (row - self.row_start) * self.steps
        packer = BytePacker(e, factor.buffer, self.row_flip)
        packer.across(row_at, tile.rows, self.bytes_left, self.packed_rows, at, tile.rows, self.edge)

        def total(q: Ix, sums: SSAValue) -> SSAValue:
            quads = e.load_vector(self.packed_rows, q * tile.rows + at, tile.lanes)
            return e.dot("u8s8", sums, as_bytes(e, quads), ones(e))

        self.add_sums(total, self.row_sums, row - self.row_start, e.mask(tile.rows, tile.lanes))

    def pack_columns(self, group: Ix) -> None:
        e, plan, factor = self.e, self.plan, self.problem.column_factor
        columns = e.dim(self.problem.columns)
        packer = BytePacker(e, factor.buffer, self.column_flip)
        for p in range(plan.panels):
            column = group * plan.tile.columns + p * plan.panel
            at = self.steps * (p * plan.panel)
            if factor.depth_stride.known == 1:

                def row_at(r: int, column: Ix = column) -> Ix:
                    return factor.at(self.batch, (column + r).min(columns - 1), self.depth_start * 4)

                packer.across(row_at, plan.panel, self.bytes_left, self.packed_columns, at, plan.panel, self.edge)
            else:
                start = factor.at(self.batch, column, self.depth_start * 4)
                packer.along(start, factor.depth_stride, columns - column, plan.panel, self.bytes_left,
                             self.packed_columns, self.column_bytes, at)  # fmt: skip
            for v in range(0, plan.panel, plan.tile.lanes):

                def total(q: Ix, sums: SSAValue, at: Ix = at, v: int = v) -> SSAValue:
                    quads = e.load_vector(self.packed_columns, q * plan.panel + at + v, plan.tile.lanes)
                    return e.dot("u8s8", sums, ones(e), as_bytes(e, quads))

                self.add_sums(total, self.column_sums, self.sums_of_columns(group) + (p * plan.panel + v), None)

    def add_sums(
        self, total: Callable[[Ix, SSAValue], SSAValue], sums: SSAValue, at: Ix, mask: SSAValue | None
    ) -> None:
        """Sums over this K block, added to those of the blocks before."""
        e, lanes = self.e, self.plan.tile.lanes
        with e.loop(0, self.steps, carried=[e.constant(0, i32, lanes)]) as loop:
            loop.carry([total(loop.index, loop.carried[0])])
        [value] = loop.results
        if not self.one_block:
            first = e.b.broadcast(self.depth_start.compare("eq", 0), lanes)
            before = e.load_vector(sums, at, lanes)
            value = e.add(value, e.select(first, e.constant(0, i32, lanes), before))
        e.store_vector(value, sums, at, mask)

    def sums_of_columns(self, group: Ix) -> Ix:
        """Where the sums of a group's columns are."""
        return self.e.ix(0) if self.one_block else (group - self.group_base) * self.plan.tile.columns

    def corrected(
        self,
        value: SSAValue,
        row: Ix,
        group: Ix,
        vector: int,
        indices: list[Scalar],
        mask: SSAValue | None,
        axis: int,
    ) -> SSAValue:
        e, lanes = self.e, self.plan.tile.lanes
        p = self.zero(self.row_zero, FLIP if self.row_flip else 0, indices, mask, axis)
        q = self.zero(self.column_zero, -FLIP if self.column_flip else 0, indices, mask, axis)
        if p is not None:
            column_sum = self.column_sum(group, vector)
            value = e.sub(value, e.mul(p, column_sum))
        if q is not None:
            row_sum = e.b.broadcast(e.load(self.row_sums, row - self.row_start), lanes)
            value = e.sub(value, e.mul(q, row_sum))
        if p is not None and q is not None:
            count = e.b.broadcast(e.convert("index_cast", e.dim(self.bytes_deep).ssa, i32), lanes)
            value = e.add(value, e.mul(count, e.mul(p, q)))
        return value

    def column_sum(self, group: Ix, vector: int) -> SSAValue:
        """The sums of a vector of a group's columns; packed, they are behind all panels."""
        e, plan, lanes = self.e, self.plan, self.plan.tile.lanes
        if not self.prepacked:
            return e.load_vector(self.column_sums, self.sums_of_columns(group) + vector * lanes, lanes)
        panels = e.dim(self.problem.columns).ceildiv(plan.panel)
        start = panels * e.dim(self.problem.depth) * plan.panel
        # of the last group some panels may not be there
        at = (group * plan.tile.columns + vector * lanes).min(panels * plan.panel - lanes)
        return e.load_vector(self.problem.column_factor.buffer, start + at, lanes)

    def zero(
        self, zero: Parameter, shift: int, indices: list[Scalar], mask: SSAValue | None, axis: int
    ) -> SSAValue | None:
        """A zero point in the form that its bytes are packed in; None where it is 0."""
        e, lanes = self.e, self.plan.tile.lanes
        known = zero.known()
        if known is not None:
            return None if known + shift == 0 else e.constant(known + shift, i32, lanes)
        value = widened(e, zero.kind, zero.load(indices, axis, lanes, mask))
        return e.add(e.spread(value, lanes), e.constant(shift, i32, lanes))


def matmul_integer(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """y = (a - a_zero_point) (b - b_zero_point), i32."""
    operator = Operator(context, op)

    def sink(value: SSAValue, indices: Sequence[Scalar], mask: SSAValue | None, axis: int) -> None:
        context.store(op, [value], indices, mask, axis)

    of_a, of_b = sides(operator, 0, 1)
    emit(operator, (0, 1), (Parameter(operator, 2, of_a), Parameter(operator, 3, of_b)), sink)


def qlinear_matmul(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """y = saturate(round((a - a_zero) a_scale (b - b_zero) b_scale / y_scale) + y_zero)"""
    operator = Operator(context, op)
    of_a, of_b = sides(operator, 0, 3)
    requantizer = Requantizer(
        operator,
        (Parameter(operator, 1, of_a), Parameter(operator, 4, of_b)),
        Parameter(operator, 6, of_a),
        Parameter(operator, 7, of_a),
    )

    def sink(value: SSAValue, indices: Sequence[Scalar], mask: SSAValue | None, axis: int) -> None:
        context.store(op, [requantizer.apply(value, indices, mask, axis)], indices, mask, axis)

    emit(operator, (0, 3), (Parameter(operator, 2, of_a), Parameter(operator, 5, of_b)), sink)


def emit(operator: Operator, operands: tuple[int, int], zeros: tuple[Parameter, Parameter], sink: Sink) -> None:
    a, b = (operator.operand(i) for i in operands)
    result = operator.result_dims(0)
    e, panel = operator.e, number(operator.op, "panel")
    problem = read_problem(e, operator.context, a, b, result, panel=panel)
    if panel is not None:
        quads = scratch_of_quads(e, problem.column_factor.buffer, e.dim(operator.dims(operands[1])[0] // 4))
        problem = replace(problem, column_factor=replace(problem.column_factor, buffer=quads))
    part, target = operator.context.part, operator.context.target
    plan = choose(DotProducts(), problem.rows, problem.columns, target, panel, packs=True, given=part.given)
    part.adopt(plan)
    IntegerMatmul(operator, operands, zeros, problem, plan, sink).build()


MOST = 512.0
"""What is rounded to more than this is beyond a byte's range whatever the zero point."""
DOUBT = 2.0**-13
"""A product in f32 that is not above that is less than this from the one in f64: three roundings."""


@dataclass(frozen=True)
class Scale:
    """What sums are multiplied with: in f32, and in f64 where it is asked for."""

    rounded: SSAValue
    exact: Callable[[], SSAValue]


class Requantizer:
    """From exact sums to the quantized result: the scale is f64, and its product with a sum is rounded once.

    Nearly always the product in f32 tells to which integer that is: where it is not near the middle between two.  The
    product in f64 is computed where some lane of a vector is.
    """

    def __init__(
        self, operator: Operator, scales: tuple[Parameter, Parameter], y_scale: Parameter, y_zero: Parameter
    ) -> None:
        self.e = operator.e
        self.scales, self.y_scale, self.y_zero = scales, y_scale, y_zero
        self.kind = operator.result_kind(0)

    def scale(self, indices: Sequence[Scalar], axis: int, lanes: int | None, mask: SSAValue | None) -> SSAValue:
        """scales / y_scale in f64: a scalar where it is the same for all lanes."""
        e = self.e

        def alike(a: SSAValue, b: SSAValue) -> tuple[SSAValue, SSAValue]:
            """Both in lanes where one is: numbers are divided as numbers, which is many times as fast."""
            if lanes is None or lanes_of(a) == lanes_of(b):
                return a, b
            return e.spread(a, lanes), e.spread(b, lanes)

        wide = [e.convert("extf", p.load(indices, axis, lanes or 1, mask), F64) for p in (*self.scales, self.y_scale)]
        return e.div(*alike(e.mul(*alike(*wide[:2])), wide[2]))

    def apply(self, sums: SSAValue, indices: Sequence[Scalar], mask: SSAValue | None, axis: int) -> SSAValue:
        """saturate(round(sums * scales / y_scale) + y_zero), as the result's element type."""
        scale = self.scale(indices, axis, lanes_of(sums), mask)
        both = Scale(self.e.convert("truncf", scale, F32), lambda: scale)
        return self.rounded(sums, both, indices, mask, axis)

    def rounded(
        self, sums: SSAValue, scale: Scale, indices: Sequence[Scalar], mask: SSAValue | None, axis: int
    ) -> SSAValue:
        """saturate(round(sums * scale) + y_zero)"""
        e, lanes = self.e, lanes_of(sums)

        def spread(value: SSAValue) -> SSAValue:
            return value if lanes is None else e.spread(value, lanes)

        real = e.mul(e.convert("sitofp", sums, F32), spread(scale.rounded))
        whole = e.math("roundeven", real)
        sure = e.compare("ole", e.math("absf", e.sub(real, whole)), e.constant(0.5 - DOUBT, F32, lanes))
        doubt = e.flip(sure if lanes is None else e.reduce("and", sure))
        with e.loop(0, e.select_index(doubt, 1, 0), carried=[whole]) as again:
            exact = e.math("roundeven", e.mul(e.convert("sitofp", sums, F64), spread(scale.exact())))
            low, high = (e.constant(bound, F64, lanes) for bound in (-MOST, MOST))
            exact = e.extremum("minimumf", e.extremum("maximumf", exact, low), high)
            again.carry([e.convert("truncf", exact, F32)])
        shifted = e.add(again.results[0], spread(self.zero(indices, mask, axis, lanes)))
        return e.convert("fptosi" if self.kind.kind == "i" else "fptoui", shifted, self.kind.ir)

    def zero(self, indices: Sequence[Scalar], mask: SSAValue | None, axis: int, lanes: int | None) -> SSAValue:
        """The result's zero point in f32."""
        e, known = self.e, self.y_zero.known()
        if known is not None:
            return e.constant(known, F32)
        loaded = self.y_zero.load(indices, axis, lanes or 1, mask)
        return e.convert("sitofp", widened(e, self.y_zero.kind, loaded), F32)
