"""Templates "cumsum" and "cumprod": running sums and products along an axis.

Operands x and the axis, which may be computed; attributes `exclusive`, `reverse`.  f16 and bf16 run in f32.  Where
the axis has a stride, a vector of neighbouring positions runs at once; each position's order is the axis' own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim
from ..template import TemplateContext, whole
from .emit import Emitter, Ix
from .operator import Operator
from .register_tile import Products

Combine = Callable[[Emitter, SSAValue, SSAValue], SSAValue]


def build(identity: float, combine: Combine, context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Emits the scan along a known axis, or a branch for each axis that it may be."""
    operator = Operator(context, op)
    e, dims = operator.e, operator.dims(0)
    rank = len(dims)
    run = partial(scan, operator, identity, combine)
    axis = operator.constant(1)
    if rank == 0 or axis is not None:
        run(dims, (int(axis[0]) if axis else 0) % max(rank, 1))
        return
    given = e.as_index(e.load(operator.buffer(1), 0))
    # the loaded axis stays as it is outside of the parallel regions
    wrapped = e.select_index(given.compare("slt", 0), given + rank, given)
    title = "CumSum" if op.template.data == "cumsum" else "CumProd"
    problem = f"{title}: 'axis' has the axis {{0}}; the rank is {rank}, so -{rank} <= axis < {rank}"
    e.check(wrapped.compare("ult", rank), "index", operator.problem(problem), [given.ssa])
    for number in range(rank):
        with e.when(wrapped.compare("eq", number)):
            run(dims, number)


def scan(operator: Operator, identity: float, combine: Combine, dims: tuple[Dim, ...], axis: int) -> None:
    e = operator.e
    outer, inner = e.dim(whole(*dims[:axis])), e.dim(whole(*dims[axis + 1 :]))
    count = e.dim(dims[axis]) if dims else e.ix(1)
    products = Products(operator.kind(0).ir)
    vector = bool(dims) and whole(*dims[axis + 1 :]) is not as_dim(1)
    lanes = e.target.lanes(products.bytes) if vector else 1
    width = lanes * VECTORS if vector else 1
    chunks = inner.ceildiv(width)
    grain = e.ix(e.grain_cycles) // (count * 4).max(1) + 1
    with e.parallel(outer * chunks, grain) as (lower, upper, _), e.loop(lower, upper, nonempty=True) as lines:
        column = lines.index % chunks * width
        start = lines.index // chunks * (count * inner) + column
        line = Line(operator, products, identity, combine, lanes)
        if vector:
            line.vectors(start, inner, count, inner - column)
        else:
            line.scalar(start, inner, count)


VECTORS = 4
"""Vectors of neighbouring lines that run at once: whole pages are read further with each step."""


@dataclass(frozen=True)
class Line:
    """Runs along the axis."""

    operator: Operator
    products: Products
    identity: float
    combine: Combine
    lanes: int

    def step(self, index: Ix, count: Ix) -> Ix:
        return count - 1 - index if self.operator.attr("reverse", 0) else index

    def shown(self, before: SSAValue, after: SSAValue) -> SSAValue:
        value = before if self.operator.attr("exclusive", 0) else after
        return self.products.narrow(self.operator.e, value, self.products.element)

    def scalar(self, start: Ix, stride: Ix, count: Ix) -> None:
        """One line."""
        e, x, y = self.operator.e, self.operator.buffer(0), self.operator.result_buffer(0)
        with e.loop(0, count, carried=[e.constant(self.identity, self.products.sums)]) as loop:
            at = self.step(loop.index, count) * stride + start
            [before] = loop.carried
            after = self.combine(e, before, self.products.load(e, x, at))
            e.store(self.shown(before, after), y, at)
            loop.carry([after])

    def vectors(self, start: Ix, stride: Ix, count: Ix, left: Ix) -> None:
        """Neighbouring lines, of which `left` are there."""
        e, x, y, lanes = self.operator.e, self.operator.buffer(0), self.operator.result_buffer(0), self.lanes
        masks = [e.mask(left - v * lanes, lanes) for v in range(VECTORS)]
        first = e.constant(self.identity, self.products.sums, lanes)
        with e.loop(0, count, carried=[first] * VECTORS) as loop:
            place = self.step(loop.index, count) * stride + start
            carried: list[SSAValue] = []
            for v, (before, mask) in enumerate(zip(loop.carried, masks)):
                at = place + v * lanes
                after = self.combine(e, before, self.products.load_vector(e, x, at, lanes, mask))
                e.store_vector(self.shown(before, after), y, at, mask)
                carried.append(after)
            loop.carry(carried)


cumsum = partial(build, 0.0, Emitter.add)
cumprod = partial(build, 1.0, Emitter.mul)
