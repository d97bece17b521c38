"""Rows that go through the stages of a nest in a pipeline.

A row's stages wait for one another: the exponentials for the greatest element, the quotients for the sum.  In a
pipeline one loop runs all of them, each at another row: while one row is exponentiated, the next one's greatest element
is found, and the last one is divided.  So loads, arithmetic and stores, which the processor can do at once, are there
at once, and what takes long to add up has a whole row's time.  What is added up, and in which order, stays the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from ...dialects.dims import Dim, as_dim
from ...dialects.target import Target
from .. import policy
from ..element_types import byte_width
from .generics import Generic, Shapes
from .nests import Axis, Nest, Stage, merge_loops
from .points import element_type


@dataclass(frozen=True)
class Step:
    """A stage with a loop, and those `before` and `after` it that have one point for each row."""

    number: int
    loop: Stage
    before: Sequence[Stage]
    after: Sequence[Stage]
    taken: Sequence[SSAValue]
    """Results of earlier steps, of one element a row, that it reads."""
    left: Sequence[SSAValue]
    """Its results of one element a row that later steps read."""

    @property
    def stages(self) -> Sequence[Stage]:
        return [*self.before, self.loop, *self.after]


@dataclass(frozen=True)
class Pipeline:
    """The steps of a nest, and the inner axis that all their loops run along."""

    steps: Sequence[Step]
    axis: Axis


def find_pipeline(
    nest: Nest, rows: Dim, shapes: Shapes, lanes_of: Callable[[Stage], int], target: Target
) -> Pipeline | None:
    """The nest's pipeline, where all loops run along the same axis with as many lanes, and it is worth it."""
    axes = [_axes(nest, stage, shapes) for stage in nest.stages]
    loops = [stage for stage, inner in zip(nest.stages, axes) if inner]
    first = next((inner for inner in axes if inner), None)
    if first is None or len(first) != 1 or any(inner not in ([], first) for inner in axes):
        return None
    if any(g.guarded or g.extracts for g in nest.generics) or len({(s.extents, lanes_of(s)) for s in loops}) != 1:
        return None
    cost = sum(policy.cycles(g.walk()) for stage in loops for g in stage.generics)
    if not policy.in_a_pipeline(len(loops), rows, _row_bytes(nest, shapes), cost, target):
        return None
    return Pipeline(_steps(nest, loops, shapes), first[0])


def _axes(nest: Nest, stage: Stage, shapes: Shapes) -> list[Axis]:
    return merge_loops(nest.inner(stage.generics[0]), stage.generics, shapes)


def _row_bytes(nest: Nest, shapes: Shapes) -> Dim:
    """The bytes of one row of all that each row has of its own."""
    total, rows = as_dim(0), range(nest.rows)
    accesses = {shapes.root(a.tensor): (a, g) for g in nest.generics for a in g.accesses}
    for tensor, (access, generic) in accesses.items():
        if not any(axis in rows for axis in access.axes):
            continue
        inner = [a for a in access.axes if a is not None and a in nest.inner(generic)]
        total = total + generic.extent(inner) * byte_width(element_type(tensor))
    return total


def _steps(nest: Nest, loops: Sequence[Stage], shapes: Shapes) -> list[Step]:
    starts = [0, *(nest.stages.index(s) for s in loops[1:]), len(nest.stages)]
    parts = [nest.stages[a:b] for a, b in itertools.pairwise(starts)]
    singles = [_singles(nest, part) for part in parts]
    reads = [{shapes.root(t) for g in _generics(part) for t in g.tensors} for part in parts]
    steps: list[Step] = []
    for number, (part, loop) in enumerate(zip(parts, loops)):
        at = part.index(loop)
        earlier = [r for results in singles[:number] for r in results]
        later = {r for read in reads[number + 1 :] for r in read}
        taken = [r for r in earlier if r in reads[number]]
        left = [r for r in singles[number] if r in later]
        steps.append(Step(number, loop, part[:at], part[at + 1 :], taken, left))
    return steps


def _singles(nest: Nest, part: Sequence[Stage]) -> list[SSAValue]:
    """Results of which a row has a single element."""
    return [r for g in _generics(part) for r, w in zip(g.results, g.outputs) if nest.is_register(g, w)]


def _generics(part: Sequence[Stage]) -> list[Generic]:
    return [g for stage in part for g in stage.generics]
