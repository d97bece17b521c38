"""Template "inverse": inverses of square matrices, by elimination with the largest pivot of each column, in f64."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ...dialects import kernel
from ..template import TemplateContext, whole
from .emit import F64, Emitter, Ix
from .operator import Operator
from .pivots import pivot_row


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Emits the operator; matrices of the batch are in parallel."""
    o = Operator(context, op)
    e, dims = o.e, o.dims(0)
    x, y = o.buffer(0), o.result_buffer(0)
    n = e.dim(dims[-1])
    grain = e.ix(e.grain_cycles) // (n * n * n).max(1) + 1
    with e.parallel(e.dim(whole(*dims[:-2])), grain) as (lower, upper, thread):
        pair = Pair(o, context.scratch(F64, dims[-1] * dims[-1] * 2, thread), n)
        with e.loop(lower, upper, nonempty=True) as loop:
            start = loop.index * n * n
            with e.loop(0, n) as rows, e.loop(0, n) as columns:
                value = e.convert("extf", e.load(x, rows.index * n + columns.index + start), F64)
                on_diagonal = rows.index.compare("eq", columns.index)
                one = e.select(on_diagonal, e.constant(1.0, F64), e.constant(0.0, F64))
                e.store(value, pair.buffer, pair.place(rows.index, columns.index))
                e.store(one, pair.buffer, pair.place(rows.index, columns.index + n))
            pair.reduce()
            with e.loop(0, n) as rows, e.loop(0, n) as columns:
                value = e.load(pair.buffer, pair.place(rows.index, columns.index + n))
                e.store(e.convert("truncf", value, o.kind(0).ir), y, rows.index * n + columns.index + start)


class Pair:
    """A matrix and, beside it, what becomes its inverse: rows of 2 n f64."""

    def __init__(self, operator: Operator, buffer: SSAValue, n: Ix) -> None:
        self.operator, self.e, self.buffer, self.n = operator, operator.e, buffer, n

    def place(self, row: Ix, column: Ix) -> Ix:
        return row * (self.n * 2) + column

    def at(self, row: Ix, column: Ix) -> SSAValue:
        return self.e.load(self.buffer, self.place(row, column))

    def reduce(self) -> None:
        """Makes the left half the identity."""
        e: Emitter = self.e
        with e.loop(0, self.n) as loop:
            k = loop.index
            self.exchange(k, pivot_row(e, self.at, k, self.n))
            pivot = self.at(k, k)
            is_regular = e.compare("une", pivot, e.constant(0.0, F64))
            message = "com.microsoft::Inverse: a matrix has no inverse: column {0} depends on those before it"
            e.check(is_regular, "value", self.operator.problem(message), [k.ssa])
            self.scale(k, pivot)
            with e.loop(0, self.n) as rows, e.when(rows.index.compare("ne", k)):
                self.subtract(rows.index, k)

    def exchange(self, a: Ix, b: Ix) -> None:
        e = self.e
        with e.loop(0, self.n * 2) as loop:
            places = [self.place(row, loop.index) for row in (a, b)]
            first, second = (e.load(self.buffer, place) for place in places)
            e.store(second, self.buffer, places[0])
            e.store(first, self.buffer, places[1])

    def scale(self, row: Ix, pivot: SSAValue) -> None:
        """Divides a row by its pivot."""
        e = self.e
        with e.loop(0, self.n * 2) as loop:
            place = self.place(row, loop.index)
            e.store(e.div(e.load(self.buffer, place), pivot), self.buffer, place)

    def subtract(self, row: Ix, k: Ix) -> None:
        """Takes row k off another one, as often as makes its element in column k zero."""
        e, lanes = self.e, self.e.target.lanes(8)
        factor = e.b.broadcast(self.at(row, k), lanes)
        width = self.n * 2
        with e.loop(0, width, lanes) as columns:
            mask = e.mask(width - columns.index, lanes)
            source, place = self.place(k, columns.index), self.place(row, columns.index)
            taken = e.mul(factor, e.load_vector(self.buffer, source, lanes, mask))
            e.store_vector(e.sub(e.load_vector(self.buffer, place, lanes, mask), taken), self.buffer, place, mask)
