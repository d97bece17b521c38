"""Template "topk": the k largest or smallest elements along an axis, best first, with their indices.

k is the result's size on the axis.  Elements are compared as integers that have their order: NaN above all numbers, -0
equal to 0; of equal elements the one with the lower index is better.  A heap of the k best so far, the worst on top, is
filled from the line and then emptied from the back: n steps, of which those that find a better element cost log k.
Where the line is contiguous, its elements are passed over a few vectors at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType, i64
from xdsl.ir import SSAValue

from ...dialects import kernel
from ..template import TemplateContext, whole
from ..tensor.element_kinds import Element
from .emit import F32, Emitter, Ix
from .operator import Operator
from .register_tile import Products

VECTORS = 4
"""Vectors that are passed over at once."""


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Emits the selection, one line along the axis at a time."""
    operator = Operator(context, op)
    e = operator.e
    dims = operator.dims(0)
    axis = operator.attr("axis", -1) % len(dims)
    outcome = 0 if operator.has_result(0) else 1
    n, k = e.dim(dims[axis]), e.dim(operator.result_dims(outcome)[axis])
    outer, inner = e.dim(whole(*dims[:axis])), e.dim(whole(*dims[axis + 1 :]))
    grain = e.ix(e.grain_cycles) // (n * 8).max(1) + 1
    with e.parallel(outer * inner, grain) as (lower, upper, thread):
        size = operator.result_dims(outcome)[axis]
        heap = Heap(e, context.scratch(i64, size, thread), context.scratch(i64, size, thread))
        with e.loop(lower, upper, nonempty=True) as lines:
            block, column = lines.index // inner, lines.index % inner
            select(operator, heap, block * n * inner + column, inner, n, k)
            deliver(operator, heap, block * n * inner + column, block * k * inner + column, inner, k)


def select(operator: Operator, heap: Heap, start: Ix, stride: Ix, n: Ix, k: Ix) -> None:
    """Leaves the k best elements of a line in the heap's arrays, best first."""
    e, x = operator.e, operator.buffer(0)
    flip = not operator.attr("largest", 1)

    def key(index: Ix) -> SSAValue:
        return order_key(e, operator.kind(0), e.load(x, index * stride + start), flip)

    with e.loop(0, k) as fill:
        heap.put(fill.index, key(fill.index), as_i64(e, fill.index))
    with e.loop(0, k // 2) as build_:
        heap.sift_down(k // 2 - 1 - build_.index, k)

    def consider(index: Ix) -> None:
        """A later element is better only where it is greater."""
        candidate = key(index)
        with e.when(e.compare("sgt", candidate, e.load(heap.keys, 0))):
            heap.put(e.ix(0), candidate, as_i64(e, index))
            heap.sift_down(e.ix(0), k)

    # with k = 0 there is no worst element to compare with
    first = e.select_index(k.compare("eq", 0), n, k)
    if stride.known == 1:
        chunks = Chunks(operator, heap, start, flip)
        whole = first + (n - first) // chunks.size * chunks.size
        with (
            e.loop(first, whole, chunks.size) as chunk,
            e.when(chunks.may_be_better(chunk.index)),
            e.loop(0, chunks.size) as within,
        ):
            consider(chunk.index + within.index)
        first = whole
    with e.loop(first, n) as rest:
        consider(rest.index)
    with e.loop(1, k) as drain:
        end = k - drain.index
        heap.swap(e.ix(0), end)
        heap.sift_down(e.ix(0), end)


@dataclass(frozen=True)
class Chunks:
    """Elements side by side, most of which are passed over at once."""

    operator: Operator
    heap: Heap
    start: Ix
    flip: bool

    @property
    def products(self) -> Products:
        return Products(self.operator.kind(0).ir)

    @property
    def size(self) -> int:
        return VECTORS * self.operator.e.target.lanes(self.products.bytes)

    def may_be_better(self, at: Ix) -> SSAValue:
        """Whether the best of a chunk is better than the worst kept, or one of them is NaN."""
        e, x, kind = self.operator.e, self.operator.buffer(0), self.operator.kind(0)
        lanes = e.target.lanes(self.products.bytes)
        name = ("min" if self.flip else "max") + ("imumf" if kind.is_float else "si" if kind.kind == "i" else "ui")
        best: SSAValue | None = None
        for v in range(VECTORS):
            values = self.products.load_vector(e, x, at + self.start + v * lanes, lanes)
            best = values if best is None else e.extremum(name, best, values)
        assert best is not None
        worst = self.products.load(e, x, e.as_index(e.load(self.heap.indices, 0)) + self.start)
        order = "lt" if self.flip else "gt"
        predicate = f"u{order}" if kind.is_float or kind.kind == "u" else f"s{order}"
        return e.compare(predicate, e.reduce(name, best), worst)


def deliver(operator: Operator, heap: Heap, source: Ix, dest: Ix, stride: Ix, k: Ix) -> None:
    e, x = operator.e, operator.buffer(0)
    with e.loop(0, k) as loop:
        index = e.load(heap.indices, loop.index)
        at = loop.index * stride + dest
        if operator.has_result(0):
            e.store(e.load(x, e.as_index(index) * stride + source), operator.result_buffer(0), at)
        if operator.has_result(1):
            e.store(index, operator.result_buffer(1), at)


def as_i64(e: Emitter, index: Ix) -> SSAValue:
    return e.convert("index_cast", index.ssa, i64)


def order_key(e: Emitter, kind: Element, value: SSAValue, flip: bool) -> SSAValue:
    """An i64 that is greater where the value is better."""
    key = _float_key(e, kind, value) if kind.is_float else _integer_key(e, kind, value)
    return e.bits("xor", key, e.constant(-1, i64)) if flip else key


def _integer_key(e: Emitter, kind: Element, value: SSAValue) -> SSAValue:
    if kind.bits < 64:
        return e.convert("extsi" if kind.kind == "i" else "extui", value, i64)
    if kind.kind == "u":
        # the order of signed numbers
        return e.bits("xor", value, e.constant(-(1 << 63), i64))
    return value


def _float_key(e: Emitter, kind: Element, value: SSAValue) -> SSAValue:
    """The bits, with those below the sign turned over for negative numbers; one NaN, one zero."""
    if kind.bits < 32:
        value = e.convert("extf", value, F32)
    type_ = value.type
    zero = e.constant(0.0, type_)
    value = e.select(e.compare("oeq", value, zero), zero, value)
    bits = e.convert("bitcast", value, IntegerType(max(kind.bits, 32)))
    bits = e.convert("extsi", bits, i64)
    magnitude = (1 << (max(kind.bits, 32) - 1)) - 1
    negative = e.compare("slt", bits, e.constant(0, i64))
    key = e.select(negative, e.bits("xor", bits, e.constant(magnitude, i64)), bits)
    return e.select(e.compare("uno", value, value), e.constant((1 << 63) - 1, i64), key)


class Heap:
    """Pairs of a key and an index; a parent is not better than its children."""

    def __init__(self, e: Emitter, keys: SSAValue, indices: SSAValue) -> None:
        self.e, self.keys, self.indices = e, keys, indices

    def get(self, at: Ix) -> tuple[SSAValue, SSAValue]:
        return self.e.load(self.keys, at), self.e.load(self.indices, at)

    def put(self, at: Ix, key: SSAValue, index: SSAValue) -> None:
        self.e.store(key, self.keys, at)
        self.e.store(index, self.indices, at)

    def swap(self, a: Ix, b: Ix) -> None:
        first, second = self.get(a), self.get(b)
        self.put(a, *second)
        self.put(b, *first)

    def worse(self, a: tuple[SSAValue, SSAValue], b: tuple[SSAValue, SSAValue]) -> SSAValue:
        """Whether a is worse than b: less, or equal and behind it."""
        e = self.e
        less = e.compare("slt", a[0], b[0])
        behind = e.both(e.compare("eq", a[0], b[0]), e.compare("sgt", a[1], b[1]))
        return e.bits("or", less, behind)

    def sift_down(self, start: Ix, size: Ix) -> None:
        """Lets the pair at `start` sink until its children are not worse."""
        e = self.e
        moved = self.get(start)

        def first_child(at: SSAValue) -> Ix:
            return e.ix(at) * 2 + 1

        def inside(state: tuple[SSAValue, ...]) -> SSAValue:
            return first_child(state[0]).compare("slt", size)

        def sink(state: tuple[SSAValue, ...]) -> list[SSAValue]:
            at = e.ix(state[0])
            left = first_child(state[0])
            right = (left + 1).min(size - 1)
            child = e.select_index(self.worse(self.get(right), self.get(left)), right, left)
            pair = self.get(child)
            sinks = self.worse(pair, moved)
            # where it does not, the pair is put back and the walk ends behind the last child
            self.put(at, e.select(sinks, pair[0], moved[0]), e.select(sinks, pair[1], moved[1]))
            return [e.select_index(sinks, child, size).ssa]

        [end] = e.while_([start.ssa], inside, sink)
        with e.when(e.ix(end).compare("slt", size)):
            self.put(e.ix(end), *moved)
