"""Template "einsum": sums of products of any number of operands.

Two operands with one axis each of rows, columns and depth, and any batch axes, are a matrix product, by that template.
Everything else is computed element by element: a vector along the result's last axis, the summed axes in the order of
their letters, the product from left to right.  f16 and bf16 are summed in f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim
from ...dialects.dims.expression import dim_broadcast
from ...semantics.reference.linear import einsum_terms
from ..loop_builder import Scalar
from ..template import TemplateContext
from .emit import Emitter, Ix, plain
from .matmul import MatmulBuilder, choose
from .matmul_problem import Factor, Problem
from .operator import Operator
from .register_tile import Products

ONE = as_dim(1)


@dataclass(frozen=True)
class Term:
    """An operand: what a step along each of its numbered axes is in it, but for those of size 1."""

    buffer: SSAValue
    strides: dict[int, Ix]

    def stride(self, axis: int, e: Emitter) -> Ix:
        return self.strides.get(axis, e.ix(0))


class Einsum:
    """One operator."""

    def __init__(self, context: TemplateContext, op: kernel.TemplateOp) -> None:
        o = self.o = Operator(context, op)
        self.context, self.op, self.e = context, op, o.e
        count = len(op.inputs)
        terms, self.result = einsum_terms(o.attr("equation"), [len(o.dims(i)) for i in range(count)])
        self.sizes: dict[int, Dim] = {}
        for i, axes in enumerate(terms):
            for axis, size in zip(axes, o.dims(i), strict=True):
                known = self.sizes.get(axis, ONE)
                self.sizes[axis] = size if known is ONE else known if size is ONE else dim_broadcast(known, size)
        self.terms = [self.term(i, axes) for i, axes in enumerate(terms)]
        self.plain_terms = all(
            len(set(axes)) == len(axes) and all(o.dims(i)[k] is self.sizes[a] for k, a in enumerate(axes))
            for i, axes in enumerate(terms)
        )
        self.axes_of = terms
        self.products = Products(o.kind(0).ir)
        self.summed = sorted(a for a in self.sizes if a not in self.result)

    def term(self, index: int, axes: list[int]) -> Term:
        e, dims = self.e, self.o.dims(index)
        strides: dict[int, Ix] = {}
        step = e.ix(1)
        for axis, size in reversed(list(zip(axes, dims, strict=True))):
            known = size is self.sizes[axis]
            if size is not ONE or known:
                # a size that may be 1 broadcasts where it is
                own = step if known else e.select_index(e.dim(size).compare("eq", 1), 0, step)
                strides[axis] = strides[axis] + own if axis in strides else own
            step = step * e.dim(size)
        return Term(self.o.buffer(index), strides)

    def build(self) -> None:
        if any(d is as_dim(0) for d in self.o.result_dims(0)):
            return
        problem = self.as_product()
        if problem is None:
            self.by_elements()
            return
        context, op, e, products = self.context, self.op, self.e, self.products

        def sink(value: SSAValue, indices: Sequence[Scalar], mask: SSAValue | None, axis: int) -> None:
            context.store(op, [products.narrow(e, value, products.element)], indices, mask, axis)

        plan = choose(products, problem.rows, problem.columns, context.target, given=context.part.given)
        context.part.adopt(plan)
        MatmulBuilder(e, context, problem, products, plan, sink).build()

    def as_product(self) -> Problem | None:
        """The operands as a matrix product, where they are one."""
        if len(self.terms) != 2 or not self.plain_terms or len(self.summed) != 1:
            return None
        left, right = (set(axes) for axes in self.axes_of)
        [depth] = self.summed
        rows = [a for a in self.result if a in left and a not in right]
        columns = [a for a in self.result if a in right and a not in left]
        if depth not in left & right or len(rows) > 1 or len(columns) != 1:
            return None
        batch = [a for a in self.result if a in left and a in right]
        row_factor = self.factor(self.terms[0], rows[0] if rows else None, depth, batch)
        column_factor = self.factor(self.terms[1], columns[0], depth, batch)
        if row_factor is None or column_factor is None:
            return None
        place = {axis: i for i, axis in enumerate(self.result)}
        height = self.sizes[rows[0]] if rows else ONE
        return Problem(
            tuple(self.sizes[a] for a in batch), height, self.sizes[columns[0]], self.sizes[depth],
            row_factor, column_factor, tuple(place[r] for r in rows), (height,), place[columns[0]],
            len(self.result), tuple(place[a] for a in batch),
        )  # fmt: skip

    def factor(self, term: Term, outer: int | None, depth: int, batch: list[int]) -> Factor | None:
        """The operand as rows or columns; None where neither of its axes is contiguous."""
        e = self.e
        along = e.ix(1) if outer is None else term.stride(outer, e)
        deep = term.stride(depth, e)
        if along.known != 1 and deep.known != 1:
            return None
        return Factor(term.buffer, along, deep, tuple(term.stride(a, e) for a in batch))

    # Any other

    def by_elements(self) -> None:
        e = self.e
        outer, last = self.result[:-1], self.result[-1] if self.result else None
        lanes = 1 if last is None else e.target.lanes(self.products.bytes)
        width = e.ix(1) if last is None else e.dim(self.sizes[last])
        chunks = width.ceildiv(lanes)
        extent = e.product([e.dim(self.sizes[a]) for a in outer]) * chunks
        work = e.product([e.dim(self.sizes[a]) for a in self.summed]) * (4 * len(self.terms))
        grain = e.ix(e.grain_cycles) // work.max(1) + 1
        with e.parallel(extent, grain) as (lower, upper, _), e.loop(lower, upper, nonempty=True) as loop:
            index: dict[int, Ix] = {}
            rest = loop.index // chunks
            for axis in reversed(outer):
                index[axis] = rest % e.dim(self.sizes[axis])
                rest = rest // e.dim(self.sizes[axis])
            column = loop.index % chunks * lanes
            mask = None if lanes == 1 else e.mask(width - column, lanes)
            if last is not None:
                index[last] = column
            total = self.total(index, last, lanes, mask)
            indices = [plain(index[a]) for a in self.result]
            self.context.store(self.op, [self.products.narrow(e, total, self.products.element)], indices, mask)

    def total(self, index: dict[int, Ix], last: int | None, lanes: int, mask: SSAValue | None) -> SSAValue:
        """The sum of products for a vector of elements."""
        e = self.e
        zero = e.constant(0, self.products.sums, None if lanes == 1 else lanes)

        def add(summed: list[Ix], sums: tuple[SSAValue, ...]) -> list[SSAValue]:
            at = index | dict(zip(self.summed, summed))
            value: SSAValue | None = None
            for term in self.terms:
                factor = self.load(term, at, last, lanes, mask)
                value = factor if value is None else e.mul(value, factor)
            assert value is not None
            return [e.add(sums[0], value)]

        [result] = e.nest([e.dim(self.sizes[a]) for a in self.summed], [zero], add)
        return result

    def load(self, term: Term, at: dict[int, Ix], last: int | None, lanes: int, mask: SSAValue | None) -> SSAValue:
        e, products = self.e, self.products
        offset = e.ix(0)
        for axis, stride in term.strides.items():
            offset = offset + at[axis] * stride
        step = e.ix(0) if last is None else term.stride(last, e)
        if lanes == 1:
            return products.load(e, term.buffer, offset)
        if step.known == 0:
            return e.splat(products.load(e, term.buffer, offset), lanes)
        if step.known == 1:
            return products.load_vector(e, term.buffer, offset, lanes, mask)
        return products.widen(e, e.gather(term.buffer, e.ramp(offset, step, lanes), mask))


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Emits the operator."""
    Einsum(context, op).build()
