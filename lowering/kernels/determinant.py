"""Template "det": determinants of square matrices, by elimination with the largest pivot of each column, in f64."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ...dialects import kernel
from ..template import TemplateContext, whole
from .emit import F64, Emitter, Ix
from .operator import Operator
from .pivots import pivot_row


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Emits the operator: one matrix of the batch after the other."""
    o = Operator(context, op)
    e, dims = o.e, o.dims(0)
    x, y = o.buffer(0), o.result_buffer(0)
    n = e.dim(dims[-1])
    grain = e.ix(e.grain_cycles) // (n * n * n).max(1) + 1
    with e.parallel(e.dim(whole(*dims[:-2])), grain) as (lower, upper, thread):
        matrix = Matrix(e, context.scratch(F64, dims[-1] * dims[-1], thread), n)
        with e.loop(lower, upper, nonempty=True) as loop:
            with e.loop(0, n * n) as elements:
                value = e.load(x, loop.index * n * n + elements.index)
                e.store(e.convert("extf", value, F64), matrix.buffer, elements.index)
            e.store(e.convert("truncf", matrix.determinant(), o.kind(0).ir), y, loop.index)


class Matrix:
    """A square matrix of f64, in place."""

    def __init__(self, e: Emitter, buffer: SSAValue, n: Ix) -> None:
        self.e, self.buffer, self.n = e, buffer, n

    def at(self, row: Ix, column: Ix) -> SSAValue:
        return self.e.load(self.buffer, row * self.n + column)

    def determinant(self) -> SSAValue:
        """The product of the pivots, with the sign of the exchanges."""
        e, n = self.e, self.n
        with e.loop(0, n, carried=[e.constant(1, F64)]) as loop:
            k = loop.index
            best = pivot_row(e, self.at, k, n)
            self.exchange(k, best)
            pivot = self.at(k, k)
            minus = e.sub(e.constant(-0.0, F64), pivot)
            factor = e.select(best.compare("ne", k), minus, pivot)
            with e.when(e.compare("une", pivot, e.constant(0, F64))):
                self.eliminate(k, pivot)
            loop.carry([e.mul(loop.carried[0], factor)])
        return loop.results[0]

    def exchange(self, a: Ix, b: Ix) -> None:
        e = self.e
        with e.loop(a, self.n) as loop:
            first, second = self.at(a, loop.index), self.at(b, loop.index)
            e.store(second, self.buffer, a * self.n + loop.index)
            e.store(first, self.buffer, b * self.n + loop.index)

    def eliminate(self, k: Ix, pivot: SSAValue) -> None:
        """Takes row k off all rows below it."""
        e, lanes = self.e, self.e.target.lanes(8)
        with e.loop(k + 1, self.n) as rows:
            factor = e.b.broadcast(e.div(self.at(rows.index, k), pivot), lanes)
            with e.loop(k, self.n, lanes) as columns:
                mask = e.mask(self.n - columns.index, lanes)
                source, place = k * self.n + columns.index, rows.index * self.n + columns.index
                taken = e.mul(factor, e.load_vector(self.buffer, source, lanes, mask))
                e.store_vector(e.sub(e.load_vector(self.buffer, place, lanes, mask), taken), self.buffer, place, mask)
