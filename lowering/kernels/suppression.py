"""Template "nonmaxsuppression": of boxes that overlap, those with the best scores.

Each class of each batch is a task of its own: its scores are sorted (a heap, emptied from the back), and a box is taken
unless it overlaps one that was taken too much; these lie side by side, so that several are compared at once.  What is
chosen is then written row by row, and how many rows there are is the last result.  Overlaps are computed in f64.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...dialects import kernel
from ..template import TemplateContext, whole
from .emit import F64, Emitter, Ix
from .found_sizes import deliver_size
from .operator import Operator
from .topk import Heap, as_i64, order_key

BOXES, SCORES, LIMIT, OVERLAP, LEAST = range(5)


def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
    operator = Operator(context, op)
    e = operator.e
    batches, classes, count = operator.dims(SCORES)
    tasks, boxes = e.dim(batches * classes), e.dim(count)
    limit = wanted(operator).min(boxes)
    if operator.has(OVERLAP):
        share = wide(e, e.load(operator.buffer(OVERLAP), 0))
        inside = e.both(e.compare("oge", share, e.constant(0.0, F64)), e.compare("ole", share, e.constant(1.0, F64)))
        e.check(inside, "value", operator.problem("NonMaxSuppression: 'iou_threshold' is not in [0, 1]"), [])
    chosen = context.scratch(i64, whole(batches, classes, count))
    counts = context.scratch(i64, whole(batches, classes))
    with e.parallel(tasks, 1) as (lower, upper, thread):
        heap = Heap(e, context.scratch(i64, count, thread), context.scratch(i64, count, thread))
        taken = [context.scratch(F64, count, thread) for _ in range(5)]
        with e.loop(lower, upper, nonempty=True) as tasks_:
            task = Task(operator, heap, taken, tasks_.index, boxes, limit)
            size = task.sort()
            e.store(as_i64(e, task.choose(size, chosen, tasks_.index * boxes)), counts, tasks_.index)
    y = operator.result_buffer(0)
    with e.loop(0, tasks, carried=[e.ix(0).ssa]) as rows:
        row = e.ix(rows.carried[0])
        number = e.as_index(e.load(counts, rows.index))
        with e.loop(0, number) as loop:
            at = (loop.index + row) * 3
            e.store(as_i64(e, rows.index // e.dim(classes)), y, at)
            e.store(as_i64(e, rows.index % e.dim(classes)), y, at + 1)
            e.store(e.load(chosen, loop.index + rows.index * boxes), y, at + 2)
        rows.carry([(row + number).ssa])
    deliver_size(operator, e.ix(rows.results[0]))


def wanted(operator: Operator) -> Ix:
    """How many boxes a class may give."""
    e = operator.e
    if not operator.has(LIMIT):
        return e.ix(0)
    return e.as_index(e.load(operator.buffer(LIMIT), 0)).max(0)


@dataclass
class Task:
    """One class of one batch."""

    operator: Operator
    heap: Heap
    taken: list[SSAValue]
    """y1, x1, y2, x2 and area of the boxes that are taken"""
    number: Ix
    boxes: Ix
    limit: Ix

    def sort(self) -> Ix:
        """Leaves the boxes whose score is high enough in the heap's arrays, best first; gives how many they are."""
        e, scores = self.operator.e, self.operator.buffer(SCORES)
        kind = self.operator.kind(SCORES)
        least = e.load(self.operator.buffer(LEAST), 0) if self.operator.has(LEAST) else None
        with e.loop(0, self.boxes, carried=[e.ix(0).ssa]) as fill:
            size = e.ix(fill.carried[0])
            score = e.load(scores, fill.index + self.number * self.boxes)
            passes = e.compare("oge", score, e.constant(float("-inf"), score.type) if least is None else least)
            with e.when(passes):
                self.heap.put(size, order_key(e, kind, score, flip=False), as_i64(e, fill.index))
            fill.carry([e.select_index(passes, size + 1, size).ssa])
        size = e.ix(fill.results[0])
        with e.loop(0, size // 2) as build_:
            self.heap.sift_down(size // 2 - 1 - build_.index, size)
        with e.loop(1, size) as drain:
            end = size - drain.index
            self.heap.swap(e.ix(0), end)
            self.heap.sift_down(e.ix(0), end)
        return size

    def choose(self, size: Ix, chosen: SSAValue, first: Ix) -> Ix:
        """Writes the boxes that are taken; gives how many."""
        e = self.operator.e

        def goes_on(state: tuple[SSAValue, ...]) -> SSAValue:
            at, taken = e.ix(state[0]), e.ix(state[1])
            return e.both(at.compare("slt", size), taken.compare("slt", self.limit))

        def consider(state: tuple[SSAValue, ...]) -> list[SSAValue]:
            at, taken = e.ix(state[0]), e.ix(state[1])
            index = e.load(self.heap.indices, at)
            box = self.corners(e.as_index(index))
            box.append(e.mul(e.sub(box[2], box[0]), e.sub(box[3], box[1])))
            free = self.is_free(box, taken)
            with e.when(free):
                e.store(index, chosen, taken + first)
                for value, place in zip(box, self.taken):
                    e.store(value, place, taken)
            return [(at + 1).ssa, e.select_index(free, taken + 1, taken).ssa]

        return e.ix(e.while_([e.ix(0).ssa, e.ix(0).ssa], goes_on, consider)[1])

    def corners(self, index: Ix) -> list[SSAValue]:
        """y1, x1, y2, x2 in f64, the lesser of both first."""
        e = self.operator.e
        batch = self.number // e.dim(self.operator.dims(SCORES)[1])
        at = (batch * self.boxes + index) * 4
        a, b, c, d = (wide(e, e.load(self.operator.buffer(BOXES), at + k)) for k in range(4))
        if self.operator.attr("center_point_box", 0):
            half = e.constant(0.5, F64)
            dx, dy = e.mul(c, half), e.mul(d, half)
            return [e.sub(b, dy), e.sub(a, dx), e.add(b, dy), e.add(a, dx)]
        low, high = "minimumf", "maximumf"
        return [e.extremum(low, a, c), e.extremum(low, b, d), e.extremum(high, a, c), e.extremum(high, b, d)]

    def is_free(self, box: list[SSAValue], taken: Ix) -> SSAValue:
        """Whether a box overlaps none of those taken by more than the threshold."""
        e = self.operator.e
        lanes = e.target.lanes(8)
        zero = e.constant(0.0, F64, lanes)
        y1, x1, y2, x2, area = (e.splat(v, lanes) for v in box)
        with e.loop(0, taken, lanes, carried=[zero]) as loop:
            mask = e.mask(taken - loop.index, lanes)
            a1, b1, a2, b2, other = (e.load_vector(place, loop.index, lanes, mask) for place in self.taken)
            height = e.sub(e.extremum("minimumf", y2, a2), e.extremum("maximumf", y1, a1))
            width = e.sub(e.extremum("minimumf", x2, b2), e.extremum("maximumf", x1, b1))
            shared = e.mul(e.extremum("maximumf", height, zero), e.extremum("maximumf", width, zero))
            union = e.sub(e.add(area, other), shared)
            counts = e.both(e.compare("ogt", union, zero), mask)
            share = e.select(counts, e.div(shared, e.select(counts, union, e.constant(1.0, F64, lanes))), zero)
            loop.carry([e.extremum("maximumf", loop.carried[0], share)])
        threshold = e.constant(0.0, F64)
        if self.operator.has(OVERLAP):
            threshold = wide(e, e.load(self.operator.buffer(OVERLAP), 0))
        return e.compare("ole", e.reduce("maximumf", loop.results[0]), threshold)


def wide(e: Emitter, value: SSAValue) -> SSAValue:
    """Floats as f64."""
    return e.convert("extf", value, F64)
