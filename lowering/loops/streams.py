"""Which operands a nest asks for ahead of time, and in which of its stages; which results go round the caches.

A nest that computes at length for each vector gives the hardware too little to see of what it will read next: by the
time that it goes on to the next row, memory has been idle.  So the stage that takes longest also asks for the lines
some way ahead, of what it reads or writes, while it computes.

Of a result that is larger than what the caches keep until the next kernel, whole lines go to memory as they are made:
no line is read only to be overwritten, and nothing that is still to be read makes way for it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from xdsl.ir import SSAValue

from ...dialects.target import Target
from .. import policy
from ..element_types import byte_width
from .generics import Access, Generic, Shapes
from .nests import Nest, Stage
from .points import LINE_BYTES, Stream, element_type


def find_streams(
    nest: Nest,
    shapes: Shapes,
    outputs: Mapping[SSAValue, object],
    lent: Mapping[SSAValue, SSAValue],
    target: Target,
    *,
    in_order: bool,
    nontemporal: Container[SSAValue] = (),
) -> list[list[Stream]]:
    """The streams of each stage. `outputs` are the results that are in memory, `lent` those that lie in an output's,
    `nontemporal` those that go round the caches.

    With `in_order` the first stage that comes to a line asks for it: in a pipeline it is ahead of the others.
    """
    found: list[list[Stream]] = [[] for _ in nest.stages]
    if nest.pure:
        return found  # each stream is walked through as one, which the hardware sees
    if nest.columns:
        return [_next_rows(nest, stage, shapes, target) for stage in nest.stages]
    if not _worth(nest, shapes, target):
        return found
    taken: set[tuple[SSAValue, bool]] = set()
    for number in sorted(range(len(nest.stages)), key=lambda n: 0 if in_order else -_cost(nest.stages[n].generics)):
        for access, write in _accesses(nest, nest.stages[number]):
            memory = lent.get(access.tensor, shapes.root(access.tensor))
            if (memory, write) in taken or (write and (memory not in outputs or memory in nontemporal)):
                continue
            taken.add((memory, write))
            ahead = policy.ahead(write, in_order)
            found[number].append(Stream(access, ahead // _bytes(access.tensor), write))
    return found


def round_the_caches(
    nest: Nest, shapes: Shapes, outputs: Container[SSAValue], lanes_of: Callable[[Stage], int], target: Target
) -> list[SSAValue]:
    """Results of a nest of rows that are stored round the caches, where they start at a cache line.

    They are written once, in vectors that fill the lines of each row, and not read in the nest.
    """
    if nest.pure or nest.columns or any(g.guarded or g.extracts for g in nest.generics):
        return []
    tensors = dict.fromkeys(shapes.root(a.tensor) for g in nest.generics for a in g.accesses)
    made = {r for g in nest.generics for r in g.results}
    moved = [t for t in tensors if t not in made or t in outputs]
    if not policy.known(d for t in moved for d in shapes[t]):
        return []
    if not policy.round_the_caches(sum(policy.estimate(shapes[t]) * _bytes(t) for t in moved), target):
        return []
    read = {shapes.root(t) for g in nest.generics for t in g.tensors}
    found: list[SSAValue] = []
    for stage in nest.stages:
        lanes = lanes_of(stage)
        for access in (a for a, write in _accesses(nest, stage) if write):
            width, result = shapes[access.tensor][-1].value * _bytes(access.tensor), access.tensor
            whole = max(LINE_BYTES, lanes * _bytes(result))
            if lanes > 1 and result in outputs and result not in read and width % whole == 0:
                found.append(result)
    return found


def _bytes(tensor: SSAValue) -> int:
    return byte_width(element_type(tensor))


def _worth(nest: Nest, shapes: Shapes, target: Target) -> bool:
    """Whether there is more than the caches hold, and so much to compute that the hardware does not do as well."""
    return _cost(nest.generics) >= policy.LEAST_AHEAD and _large(nest, shapes, target)


def _next_rows(nest: Nest, stage: Stage, shapes: Shapes, target: Target) -> list[Stream]:
    """What columns are added up of: the next rows, which lie in other pages, where the hardware does not go ahead."""
    reads = [access for access, write in _accesses(nest, stage) if not write]
    if all(g.is_map for g in stage.generics) or not _large(nest, shapes, target):
        return []
    return [Stream(access, 0, False) for access in dict.fromkeys(reads)]


def _large(nest: Nest, shapes: Shapes, target: Target) -> bool:
    """Whether there is more than the caches near by hold, as far as is known."""
    sizes = {a.tensor: shapes[a.tensor] for g in nest.generics for a in g.accesses}
    if not policy.known(d for dims in sizes.values() for d in dims):
        return True
    total = sum(policy.estimate(dims) * _bytes(tensor) for tensor, dims in sizes.items())
    return total > target.l2


def _cost(generics: Sequence[Generic]) -> float:
    return sum(policy.cycles(g.walk()) for g in generics)


def _accesses(nest: Nest, stage: Stage) -> Iterator[tuple[Access, bool]]:
    """The operands and results that have an element for each point, and whether they are written."""
    made = {r for g in nest.generics for r in g.results}
    for generic in stage.generics:
        everywhere = set(range(generic.rank))
        for access in generic.reads:
            if access.tensor not in made and set(access.axes) >= everywhere:
                yield access, False
        for result, access, reduction in zip(generic.results, generic.outputs, generic.reductions):
            if reduction is None and set(access.axes) >= everywhere:
                yield Access(result, access.axes), True
