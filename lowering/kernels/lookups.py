"""Templates "lookup", "ngrams" and "couple": what models of ai.onnx.ml ask of their tables.

See `semantics/reference/lookups.py` for operands and results.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from ...dialects import kernel
from ..policy import GRAIN_CYCLES
from ..template import TemplateContext, whole
from .emit import F32, F64, Emitter, Ix
from .operator import Operator
from .topk import order_key


def first_not_before(e: Emitter, first: Ix, end: Ix, is_before: Callable[[Ix], SSAValue]) -> Ix:
    """The first place from `first` on of which `is_before` is false: by halves."""

    def goes_on(state: tuple[SSAValue, ...]) -> SSAValue:
        return e.ix(state[0]).compare("slt", state[1])

    def halve(state: tuple[SSAValue, ...]) -> list[SSAValue]:
        low, high = e.ix(state[0]), e.ix(state[1])
        middle = (low + high) // 2
        before = is_before(middle)
        return [e.select_index(before, middle + 1, low).ssa, e.select_index(before, high, middle).ssa]

    return e.ix(e.while_([first.ssa, end.ssa], goes_on, halve)[0])


def lookup(context: TemplateContext, op: kernel.TemplateOp) -> None:
    operator = Operator(context, op)
    e, x, keys, values, y = operator.e, *(operator.buffer(i) for i in range(3)), operator.result_buffer(0)
    count = e.dim(operator.dims(1)[0])

    def key(buffer: SSAValue, at: Ix) -> SSAValue:
        return order_key(e, operator.kind(0), e.load(buffer, at), flip=False)

    count_all = e.dim(whole(*operator.dims(0)))
    with e.parallel(count_all, GRAIN_CYCLES // 200) as (lower, upper, _), e.loop(lower, upper, nonempty=True) as loop:
        wanted = key(x, loop.index)
        place = first_not_before(e, e.ix(0), count, lambda at: e.compare("slt", key(keys, at), wanted))
        last = (count - 1).max(0)
        is_there = e.both(place.compare("slt", count), e.compare("eq", key(keys, place.min(last)), wanted))
        e.store(e.load(values, e.select_index(is_there, place, count)), y, loop.index)


MOST_SKIPS = 2**31
"""No row of tokens is longer."""


def n_grams(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Each row's n-grams are searched for in the pool, where those of a length are sorted."""
    operator = Operator(context, op)
    e, x, pool, lengths, y = operator.e, *(operator.buffer(i) for i in range(3)), operator.result_buffer(0)
    columns, longest = operator.attr("columns"), operator.attr("longest")
    width = longest + 1
    dims = operator.dims(0)
    rows, tokens = e.dim(whole(*dims[:-1])), e.dim(dims[-1])

    def search(start: Ix, step: Ix, length: int, dest: Ix) -> None:
        def differs(at: Ix) -> tuple[SSAValue, SSAValue]:
            """Whether the n-gram at a place of the pool comes before this one, and whether it is this one."""
            before, same = e.constant(0, i1), e.constant(1, i1)
            for k in range(length):
                theirs, mine = e.load(pool, at * width + k), e.load(x, start + step * k)
                before = e.bits("or", before, e.both(same, e.compare("slt", theirs, mine)))
                same = e.both(same, e.compare("eq", theirs, mine))
            return before, same

        first, end = e.load_index(lengths, length), e.load_index(lengths, length + 1)
        place = first_not_before(e, first, end, lambda at: differs(at)[0])
        with e.when(place.compare("slt", end)):
            _, same = differs(place)
            with e.when(same):
                at = e.load_index(pool, place * width + longest) + dest
                e.store(e.add(e.load(y, at), e.constant(1.0, F32)), y, at)

    grain = e.ix(GRAIN_CYCLES) // (tokens * 100).max(1) + 1
    with e.parallel(rows, grain) as (lower, upper, _), e.loop(lower, upper, nonempty=True) as row:
        dest = row.index * columns
        with e.loop(0, columns) as clear:
            e.store(e.constant(0.0, F32), y, clear.index + dest)
        for length in range(operator.attr("shortest"), longest + 1):
            steps = e.ix(1)  # a longer one than leads from the first token to the last leaves no n-gram
            if length > 1:
                steps = ((tokens.max(1) - 1) // (length - 1)).min(min(operator.attr("skips"), MOST_SKIPS) + 1)
            with e.loop(0, steps) as skip:
                step = skip.index + 1
                with e.loop(0, (tokens - step * (length - 1)).max(0)) as first:
                    search(first.index + row.index * tokens, step, length, dest)


def couple(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Wu, Lin and Weng's second method (2004): a fixed point of p, one class at a time."""
    operator = Operator(context, op)
    e, likely, y = operator.e, operator.buffer(0), operator.result_buffer(0)
    classes: int = operator.attr("classes")
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    rows = e.dim(operator.dims(0)[0])
    with e.parallel(rows, GRAIN_CYCLES // (classes * classes * 1000) + 1) as (lower, upper, thread):
        couplings = Couplings(
            e, classes, context.scratch(F64, classes * classes, thread), context.scratch(F64, classes, thread),
            context.scratch(F64, classes, thread),
        )  # fmt: skip
        with e.loop(lower, upper, nonempty=True) as row:
            couplings.start()
            for number, (i, j) in enumerate(pairs):
                couplings.put(i, j, e.load(likely, row.index * len(pairs) + number))
            couplings.solve()
            with e.loop(0, classes) as out:
                e.store(e.load(couplings.p, out.index), y, row.index * classes + out.index)


class Couplings:
    """q[i, i] = sum of r[j, i]^2 over j, q[i, j] = -r[j, i] r[i, j], and the probabilities p with q @ p."""

    def __init__(self, e: Emitter, classes: int, q: SSAValue, p: SSAValue, product: SSAValue) -> None:
        self.e, self.classes, self.q, self.p, self.product = e, classes, q, p, product

    def start(self) -> None:
        e = self.e
        with e.loop(0, self.classes * self.classes) as loop:
            e.store(e.constant(0.0, F64), self.q, loop.index)
        with e.loop(0, self.classes) as loop:
            e.store(e.constant(1.0 / self.classes, F64), self.p, loop.index)

    def put(self, i: int, j: int, value: SSAValue) -> None:
        e, n = self.e, self.classes
        other = e.sub(e.constant(1.0, F64), value)
        both = e.sub(e.constant(0.0, F64), e.mul(other, value))
        for a, b in ((i, j), (j, i)):
            e.store(both, self.q, a * n + b)
        for at, r in ((i, other), (j, value)):
            e.store(e.add(e.load(self.q, at * n + at), e.mul(r, r)), self.q, at * n + at)

    def total(self, left: Callable[[Ix], SSAValue], right: Callable[[Ix], SSAValue]) -> SSAValue:
        e = self.e
        with e.loop(0, self.classes, carried=[e.constant(0.0, F64)]) as loop:
            loop.carry([e.add(loop.carried[0], e.mul(left(loop.index), right(loop.index)))])
        return loop.results[0]

    def solve(self) -> None:
        e, n = self.e, self.classes
        most = max(100, n)

        def multiply(state: tuple[SSAValue, ...]) -> tuple[SSAValue, SSAValue]:
            """q @ p into its place; p' q p, and whether the fixed point is near."""
            with e.loop(0, n) as t:
                total = self.total(lambda k: e.load(self.q, t.index * n + k), lambda k: e.load(self.p, k))
                e.store(total, self.product, t.index)
            value = self.total(lambda k: e.load(self.p, k), lambda k: e.load(self.product, k))
            with e.loop(0, n, carried=[e.constant(0.0, F64)]) as t:
                distance = e.math("absf", e.sub(e.load(self.product, t.index), value))
                t.carry([e.extremum("maximumf", t.carried[0], distance)])
            return value, e.compare("olt", t.results[0], e.constant(0.005 / n, F64))

        def goes_on(state: tuple[SSAValue, ...]) -> SSAValue:
            return e.both(e.ix(state[0]).compare("slt", most), e.flip(state[1]))

        def turn(state: tuple[SSAValue, ...]) -> list[SSAValue]:
            value, near = multiply(state)
            with e.when(e.flip(near)):
                self.improve(value)
            return [(e.ix(state[0]) + 1).ssa, near]

        e.while_([e.ix(0).ssa, e.constant(0, i1)], goes_on, turn)

    def improve(self, value: SSAValue) -> None:
        """One step for each class: its probability is set, and all are scaled to a sum of 1."""
        e, n = self.e, self.classes
        one, two = e.constant(1.0, F64), e.constant(2.0, F64)
        with e.loop(0, n, carried=[value]) as t:
            own = e.load(self.q, t.index * n + t.index)
            mine = e.load(self.product, t.index)
            step = e.div(e.sub(t.carried[0], mine), own)
            e.store(e.add(e.load(self.p, t.index), step), self.p, t.index)
            scale = e.add(one, step)
            more = e.mul(step, e.add(e.mul(step, own), e.mul(two, mine)))
            t.carry([e.div(e.add(t.carried[0], more), e.mul(scale, scale))])
            with e.loop(0, n) as k:
                moved = e.add(e.load(self.product, k.index), e.mul(step, e.load(self.q, t.index * n + k.index)))
                e.store(e.div(moved, scale), self.product, k.index)
                e.store(e.div(e.load(self.p, k.index), scale), self.p, k.index)
