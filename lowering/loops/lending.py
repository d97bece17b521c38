"""Which results of a nest may lie in the memory of a later output, until that is written over them point by point.

A softmax's exponentials are such a result: the quotients replace them.  Written to the output early, they take no room
in the caches, and the memory's latency is spent while exponentials are computed.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from xdsl.ir import SSAValue

from .generics import Access, Generic, Shapes
from .nests import Nest, order_of


@dataclass(frozen=True)
class _Write:
    """Result of the generic that is number `order` in stage number `stage`."""

    result: SSAValue
    access: Access
    stage: int
    order: int
    generic: Generic


def lent_outputs(nest: Nest, shapes: Shapes, outputs: Container[SSAValue]) -> dict[SSAValue, SSAValue]:
    """For each result that may lie in an output's memory: that output. Each output lends to one result."""
    lent: dict[SSAValue, SSAValue] = {}
    writes = list(_writes(nest))
    for write in writes:
        if write.result in outputs or not write.generic.is_map or len(shapes.views(write.result)) > 1:
            continue
        for output in writes:
            taken = output.result in lent.values() or output.result not in outputs
            if not taken and _may_lend(nest, shapes, write, output):
                lent[write.result] = output.result
                break
    return lent


def _writes(nest: Nest) -> Iterator[_Write]:
    for stage, members in enumerate(nest.stages):
        for order, generic in enumerate(members.generics):
            for result, access in zip(generic.results, generic.outputs):
                yield _Write(result, access, stage, order, generic)


def _may_lend(nest: Nest, shapes: Shapes, write: _Write, output: _Write) -> bool:
    """Whether both have the same points, and the result has been read at each when the output is written there."""
    alike = write.result.type == output.result.type and shapes[write.result] == shapes[output.result]
    if not alike or output.stage <= write.stage or order_of(output.generic) is not None:
        return False
    if output.access.axes != write.access.axes:
        return False
    for stage, members in enumerate(nest.stages):
        for order, generic in enumerate(members.generics):
            if any(shapes.root(t) is output.result for t in generic.tensors):
                return False  # a load of the output must not be taken for one of the result
            if write.result in generic.tensors and not _has_read(write, output, stage, order, generic):
                return False
    return True


def _has_read(write: _Write, output: _Write, stage: int, order: int, reader: Generic) -> bool:
    """Whether a reader of the result is done with each point when the output is written there."""
    if stage != output.stage:
        return stage < output.stage
    same_point = all(a.axes == output.access.axes for a in reader.reads if a.tensor is write.result)
    return order <= output.order and same_point and not any(e.tensor is write.result for e in reader.extracts)
