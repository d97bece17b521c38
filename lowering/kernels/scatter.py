"""Templates "scatterelements" and "scatternd": a copy of the data, in which elements or slices are written or combined.

Updates are applied in row-major order of the indices, so the result does not depend on threads: those of one line (or
all, for scatternd) are one thread's.  An index out of range is an error; f16 and bf16 combine in f32, each
time rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim
from ..template import TemplateContext, whole
from ..tensor.element_kinds import C64, F32, F64, I32, I64, Element
from .emit import Emitter, Ix, lanes_of
from .operator import Operator
from .register_tile import Products

Combine = Callable[[Emitter, Element, SSAValue, SSAValue], SSAValue]


def _extremum(name: str) -> Combine:
    def combine(e: Emitter, kind: Element, a: SSAValue, b: SSAValue) -> SSAValue:
        suffix = "imumf" if kind.is_float else "si" if kind.kind == "i" else "ui"
        return e.extremum(name + suffix, a, b)

    return combine


def _add(e: Emitter, kind: Element, a: SSAValue, b: SSAValue) -> SSAValue:
    return e.bits("or", a, b) if kind.kind == "b" else e.add(a, b)


def _mul(e: Emitter, kind: Element, a: SSAValue, b: SSAValue) -> SSAValue:
    return e.bits("and", a, b) if kind.kind == "b" else e.mul(a, b)


COMBINE: dict[str, Combine] = {"add": _add, "mul": _mul, "max": _extremum("max"), "min": _extremum("min")}

Parts = tuple[SSAValue, SSAValue]


def _add_parts(e: Emitter, a: Parts, b: Parts) -> Parts:
    return e.add(a[0], b[0]), e.add(a[1], b[1])


def _mul_parts(e: Emitter, a: Parts, b: Parts) -> Parts:
    real = e.sub(e.mul(a[0], b[0]), e.mul(a[1], b[1]))
    return real, e.add(e.mul(a[0], b[1]), e.mul(a[1], b[0]))


def _extremum_parts(predicate: str) -> Callable[[Emitter, Parts, Parts], Parts]:
    """In numpy's order: by the real parts, then by the imaginary ones; the first that has a NaN stays."""

    def combine(e: Emitter, a: Parts, b: Parts) -> Parts:
        (x, xi), (y, yi) = a, b
        apart = e.both(e.compare(predicate + "t", x, y), e.compare("ord", xi, yi))
        level = e.both(e.compare("oeq", x, y), e.compare(predicate + "e", xi, yi))
        keep = e.bits("or", e.compare("uno", x, xi), e.bits("or", apart, level))
        return e.select(keep, x, y), e.select(keep, xi, yi)

    return combine


COMBINE_PARTS: dict[str, Callable[[Emitter, Parts, Parts], Parts]] = {
    "add": _add_parts, "mul": _mul_parts, "max": _extremum_parts("og"), "min": _extremum_parts("ol"),
}  # fmt: skip
"""Of complex numbers, by their real and imaginary parts."""


def of_parts(e: Emitter, kind: Element, reduction: str, old: SSAValue, value: SSAValue) -> SSAValue:
    """Two complex numbers combined, all three as integers that hold both parts."""
    whole, part = (I32, F32) if kind is C64 else (I64, F64)
    shift = e.constant(whole.bits, kind.ir, lanes_of(old))

    def parts(v: SSAValue) -> Parts:
        halves = (v, e.bits("shrui", v, shift))
        real, imaginary = (e.convert("bitcast", e.convert("trunci", h, whole.ir), part.ir) for h in halves)
        return real, imaginary

    low, high = (
        e.convert("extui", e.convert("bitcast", v, whole.ir), kind.ir)
        for v in COMBINE_PARTS[reduction](e, parts(old), parts(value))
    )
    return e.bits("or", low, e.bits("shl", high, shift))


class Scatter:
    """What both forms share."""

    def __init__(self, context: TemplateContext, op: kernel.TemplateOp) -> None:
        self.operator = Operator(context, op)
        self.e = self.operator.e
        self.reduction: str = self.operator.attr("reduction", "none")
        self.indices, self.updates = self.operator.buffer(1), self.operator.buffer(2)
        self.y = self.operator.result_buffer(0)
        self.products = Products(self.operator.kind(0).ir)
        self.sizes = self.operator.dims(0)

    def copy_data(self) -> None:
        """The result begins as the data, which may be there already."""
        count = self.e.dim(whole(*self.sizes))
        number = self.operator.repeated(0)
        if number is not None:
            self.e.fill_all(self.y, number, count)
        elif (data := self.operator.buffer(0)) is not self.y:
            self.e.copy_all(data, self.y, count)

    def index(self, at: Ix, axis: int, title: str) -> Ix:
        """An index on an axis of the data, counted from the front; 0 where it is out of range, which is reported."""
        e = self.e
        given = e.load_index(self.indices, at)
        extent = e.dim(self.sizes[axis])
        wrapped = e.select_index(given.compare("slt", 0), given + extent, given)
        inside = wrapped.compare("ult", extent)
        message = self.operator.problem(kernel.within(f"{title}: 'indices'", f"axis {axis} of 'data'"))
        e.check(inside, "index", message, [given.ssa, extent.ssa])
        return e.select_index(inside, wrapped, 0)

    def apply(self, value: SSAValue, old: SSAValue) -> SSAValue:
        """The new element; both are as in memory."""
        e, products = self.e, self.products
        if self.reduction == "none":
            return value
        kind = self.operator.kind(0)
        if kind.kind == "c":
            return of_parts(e, kind, self.reduction, old, value)
        result = COMBINE[self.reduction](e, kind, products.widen(e, old), products.widen(e, value))
        return products.narrow(e, result, products.element)


def scatter_elements(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """y[.., indices[.., j, ..], ..] = updates[.., j, ..]; the outer axes are in parallel."""
    scatter = Scatter(context, op)
    e, operator = scatter.e, scatter.operator
    dims, extents = scatter.sizes, operator.dims(1)
    axis = operator.attr("axis", 0) % len(dims)
    scatter.copy_data()
    steps = strides(e, dims)
    outer = whole(*extents[:axis])
    per_line = e.dim(whole(*extents[axis:]))
    grain = e.ix(e.grain_cycles) // (per_line * 16).max(1) + 1
    with e.parallel(e.dim(outer), grain) as (lower, upper, _), e.loop(lower, upper, nonempty=True) as lines:
        place = e.ix(0)
        rest = lines.index
        for size, step in reversed(list(zip(extents[:axis], steps))):
            place = place + rest % e.dim(size) * step
            rest = rest // e.dim(size)

        def write(index: list[Ix], _: tuple[SSAValue, ...]) -> list[SSAValue]:
            at = lines.index
            for i, size in zip(index, extents[axis:]):
                at = at * e.dim(size) + i
            chosen = [scatter.index(at, axis, "ScatterElements"), *index[1:]]
            target = place
            for i, step in zip(chosen, steps[axis:]):
                target = target + i * step
            e.store(scatter.apply(e.load(scatter.updates, at), e.load(scatter.y, target)), scatter.y, target)
            return []

        e.nest([e.dim(s) for s in extents[axis:]], [], write)


def scatter_nd(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """y[indices[i]] = updates[i], where an index tuple names a slice of the data."""
    scatter = Scatter(context, op)
    e, operator = scatter.e, scatter.operator
    dims, extents = scatter.sizes, operator.dims(1)
    depth = len(extents) - 1 + len(dims) - len(operator.dims(2))  # how long an index is, by the ranks
    scatter.copy_data()
    steps = strides(e, dims)
    slice_ = e.dim(whole(*dims[depth:]))
    lanes = e.target.lanes(scatter.products.bytes)
    with e.loop(0, e.dim(whole(*extents[:-1]))) as tuples:
        place = e.ix(0)
        for i in range(depth):
            place = place + scatter.index(tuples.index * depth + i, i, "ScatterND") * steps[i]
        source = tuples.index * slice_
        with e.loop(0, slice_, lanes) as loop:
            mask = e.mask(slice_ - loop.index, lanes)
            target = loop.index + place
            value = e.load_vector(scatter.updates, loop.index + source, lanes, mask)
            old = e.load_vector(scatter.y, target, lanes, mask)
            assert lanes_of(value) == lanes
            e.store_vector(scatter.apply(value, old), scatter.y, target, mask)


def strides(e: Emitter, dims: Sequence[Dim]) -> list[Ix]:
    """Row-major steps, in elements."""
    return [e.dim(whole(*dims[i + 1 :])) for i in range(len(dims))]
