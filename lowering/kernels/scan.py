"""Templates "cumsum" and "cumprod": running sums and products along an axis.

Operands x and the axis, which may be computed; attributes `exclusive`, `reverse`.  f16 and bf16 run in f32.  Where
the axis has a stride, a vector of neighbouring positions runs at once; each position's order is the axis' own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim
from ..policy import GRAIN_CYCLES
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
    for number in range(rank):
        with e.when(wrapped.compare("eq", number)):
            run(dims, number)


def scan(operator: Operator, identity: float, combine: Combine, dims: tuple[Dim, ...], axis: int) -> None:
    e = operator.e
    outer, inner = e.dim(whole(*dims[:axis])), e.dim(whole(*dims[axis + 1 :]))
    count = e.dim(dims[axis]) if dims else e.ix(1)
    products = Products(operator.kind(0).ir)
    lanes = 1 if not dims or whole(*dims[axis + 1 :]) == as_dim(1) else e.target.lanes(products.bytes)
    chunks = inner.ceildiv(lanes)
    grain = e.ix(GRAIN_CYCLES) // (count * 4).max(1) + 1
    with e.parallel(outer * chunks, grain) as (lower, upper, _), e.loop(lower, upper, nonempty=True) as lines:
        column = lines.index % chunks * lanes
        start = lines.index // chunks * (count * inner) + column
        line(operator, products, identity, combine, start, inner, count, lanes, inner - column)


def line(
    operator: Operator,
    products: Products,
    identity: float,
    combine: Combine,
    start: Ix,
    stride: Ix,
    count: Ix,
    lanes: int,
    left: Ix,
) -> None:
    """One line along the axis, or a vector of neighbouring ones of which `left` are there."""
    e = operator.e
    x, y = operator.buffer(0), operator.result_buffer(0)
    exclusive, reverse = operator.attr("exclusive", 0), operator.attr("reverse", 0)
    mask = None if lanes == 1 else e.mask(left, lanes)
    first = e.constant(identity, products.sums, None if lanes == 1 else lanes)
    with e.loop(0, count, carried=[first]) as loop:
        step = count - 1 - loop.index if reverse else loop.index
        at = step * stride + start
        [before] = loop.carried
        value = products.load(e, x, at) if lanes == 1 else products.load_vector(e, x, at, lanes, mask)
        after = combine(e, before, value)
        shown = products.narrow(e, before if exclusive else after, products.element)
        if lanes == 1:
            e.store(shown, y, at)
        else:
            e.store_vector(shown, y, at, mask)
        loop.carry([after])


cumsum = partial(build, 0.0, Emitter.add)
cumprod = partial(build, 1.0, Emitter.mul)
