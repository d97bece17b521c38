"""Template "unique": the different elements, or slices along an axis, with first places, inverse and counts.

Indices are sorted by their slices, element by element; NaNs are equal and behind all numbers.  Then each run of equal
slices is numbered, in sorted order or by first places.  How many there are is the last result.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType, i1, i64
from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim
from ...dialects.dims.expression import dim_max
from ..template import TemplateContext, whole
from ..tensor.element_kinds import F32, F64, Element
from .emit import Emitter, Ix
from .found_sizes import deliver_size
from .operator import Operator
from .sorting import sort_indices
from .topk import as_i64, order_key


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    operator = Operator(context, op)
    e, dims = operator.e, operator.dims(0)
    axis = operator.attr("axis")
    if axis is None:
        before, size, behind = whole(), whole(*dims), whole()
    else:
        axis %= len(dims)
        before, size, behind = whole(*dims[:axis]), dims[axis], whole(*dims[axis + 1 :])
    parts = 2 if operator.kind(0).kind == "c" else 1
    keys = context.scratch(i64, dim_max(whole(*dims) * parts, 1))
    slices = Slices(operator, keys, before, size, behind, parts)
    slices.compute_keys()
    count = e.dim(size)
    order, other, number = (context.scratch(i64, size) for _ in range(3))
    sort_indices(e, count, order, other, slices.less)
    found = number_runs(e, slices, order, other, number, count)
    if not operator.attr("sorted", 1):
        found = number_by_place(e, order, other, number, count)
    deliver(operator, slices, order, number, count, found)
    deliver_size(operator, found, 4)


@dataclass(frozen=True)
class Slices:
    """Slices of [before, size, behind] along the middle, and their elements as integers that compare as they do.

    A complex number has two `parts`, of which the real one decides first.
    """

    operator: Operator
    keys: SSAValue
    before: Dim
    size: Dim
    behind: Dim
    parts: int

    @property
    def e(self) -> Emitter:
        return self.operator.e

    @property
    def length(self) -> Ix:
        """Keys of a slice."""
        return self.e.dim(self.before * self.behind * self.parts)

    def compute_keys(self) -> None:
        e, x, kind = self.e, self.operator.buffer(0), self.operator.kind(0)
        with e.loop(0, e.dim(self.before * self.size * self.behind)) as loop:
            value = e.load(x, loop.index)
            if kind.kind == "b":
                e.store(e.convert("extui", value, i64), self.keys, loop.index)
            elif kind.kind == "c":
                part = F64 if kind.bits == 128 else F32
                for at, number in enumerate(complex_parts(e, value, part)):
                    e.store(order_key(e, part, number, flip=False), self.keys, loop.index * 2 + at)
            else:
                e.store(order_key(e, kind, value, flip=False), self.keys, loop.index)

    def place(self, index: Ix, element: Ix) -> Ix:
        """The offset of a key of a slice; that of the first one, which is always there, where slices are empty."""
        behind = self.e.dim(self.behind * self.parts)
        most = behind.max(1)
        outer = element // most * self.e.dim(self.size) + index
        offset = outer * behind + element % most
        return offset if self.length.known is not None else self.e.select_index(self.is_empty(), 0, offset)

    def is_empty(self) -> SSAValue:
        return self.length.compare("eq", 0)

    def less(self, a: Ix, b: Ix) -> SSAValue:
        return self.compare("slt", a, b)

    def compare(self, predicate: str, a: Ix, b: Ix) -> SSAValue:
        """The comparison of the first elements that differ; of the last ones where none does."""
        e = self.e
        if self.length.known == 1:
            return e.compare(predicate, e.load(self.keys, a), e.load(self.keys, b))
        if self.length.known == 0:
            return e.constant(predicate == "eq", i1)
        last = (self.length - 1).max(0)

        def keys(element: Ix) -> tuple[SSAValue, SSAValue]:
            return e.load(self.keys, self.place(a, element)), e.load(self.keys, self.place(b, element))

        def goes_on(state: tuple[SSAValue, ...]) -> SSAValue:
            element = e.ix(state[0])
            return e.both(e.compare("eq", *keys(element)), element.compare("slt", last))

        def step(state: tuple[SSAValue, ...]) -> list[SSAValue]:
            return [(e.ix(state[0]) + 1).ssa]

        first = e.ix(e.while_([e.ix(0).ssa], goes_on, step)[0])
        return e.compare(predicate, *keys(first))


def complex_parts(e: Emitter, value: SSAValue, part: Element) -> tuple[SSAValue, SSAValue]:
    """The real and the imaginary part of a number that is held as one integer."""
    whole, shift = IntegerType(part.bits), e.constant(part.bits, value.type)
    low, high = (e.convert("trunci", v, whole) for v in (value, e.bits("shrui", value, shift)))
    return e.convert("bitcast", low, part.ir), e.convert("bitcast", high, part.ir)


def number_runs(e: Emitter, slices: Slices, order: SSAValue, first: SSAValue, number: SSAValue, count: Ix) -> Ix:
    """Numbers the runs of equal slices: `number` of each slice, and the `first` slice of each run."""
    with e.loop(0, count, carried=[e.ix(0).ssa]) as loop:
        runs = e.ix(loop.carried[0])
        here = e.as_index(e.load(order, loop.index))
        previous = e.as_index(e.load(order, (loop.index - 1).max(0)))
        is_same = e.both(loop.index.compare("sgt", 0), slices.compare("eq", here, previous))
        with e.when(e.flip(is_same)):
            e.store(as_i64(e, here), first, runs)
        after = e.select_index(is_same, runs, runs + 1)
        e.store(as_i64(e, after - 1), number, here)
        loop.carry([after.ssa])
    with e.loop(0, e.ix(loop.results[0])) as back:
        e.store(e.load(first, back.index), order, back.index)
    return e.ix(loop.results[0])


def number_by_place(e: Emitter, first: SSAValue, renamed: SSAValue, number: SSAValue, count: Ix) -> Ix:
    """Numbers the runs anew, by their first places, which are left in `first`."""
    with e.loop(0, count, carried=[e.ix(0).ssa]) as loop:
        runs = e.ix(loop.carried[0])
        run = e.as_index(e.load(number, loop.index))
        # a run that has its new number has it from its first slice
        is_first = e.as_index(e.load(first, run)).compare("eq", loop.index)
        with e.when(is_first):
            e.store(as_i64(e, runs), renamed, run)
        e.store(e.load(renamed, run), number, loop.index)
        loop.carry([e.select_index(is_first, runs + 1, runs).ssa])
    with e.loop(0, count) as places:
        # from the back, so that the first place of each run is written last
        at = count - 1 - places.index
        e.store(as_i64(e, at), first, e.as_index(e.load(number, at)))
    return e.ix(loop.results[0])


def deliver(operator: Operator, slices: Slices, first: SSAValue, number: SSAValue, count: Ix, found: Ix) -> None:
    e, x = operator.e, operator.buffer(0)
    if operator.has_result(0):
        y = operator.result_buffer(0)
        before, behind = e.dim(slices.before), e.dim(slices.behind)
        with e.loop(0, before) as outer, e.loop(0, found) as runs:
            index = e.as_index(e.load(first, runs.index))
            source = (outer.index * e.dim(slices.size) + index) * behind
            target = (outer.index * found + runs.index) * behind
            if behind.known == 1:
                e.store(e.load(x, source), y, target)
            else:
                e.copy(x, source, y, target, behind)
    if operator.has_result(1):
        with e.loop(0, found) as runs:
            e.store(e.load(first, runs.index), operator.result_buffer(1), runs.index)
    if operator.has_result(2):
        with e.loop(0, count) as all_:
            e.store(e.load(number, all_.index), operator.result_buffer(2), all_.index)
    if operator.has_result(3):
        counts = operator.result_buffer(3)
        with e.loop(0, found) as runs:
            e.store(e.constant(0, i64), counts, runs.index)
        with e.loop(0, count) as all_:
            run = e.as_index(e.load(number, all_.index))
            e.store(e.add(e.load(counts, run), e.constant(1, i64)), counts, run)
