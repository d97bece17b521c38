"""Operands that a template computes where it copies them, instead of having loops of their own before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim
from ...dialects.dims.expression import ONE
from ..body import BodyEmitter, Lanes, Storage, Value, vectorizable
from ..loop_builder import LoopBuilder, Scalar
from ..places import Buffer
from .generics import Access, Generic, Shapes
from .nests import Nest

COPYING: Mapping[str, int] = {"conv": 0}
"""The operand that a template copies anyway, each element once, in vectors along the last axis."""


def unmade_operands(
    steps: Sequence[Nest | kernel.TemplateOp], kept: Mapping[SSAValue, object], shapes: Shapes
) -> dict[kernel.TemplateOp, Nest]:
    """Templates whose copied operand can be computed there, with the nest that would make it.

    `kept` are the tensors that have a place in any case.
    """
    readers: dict[SSAValue, list[Nest | kernel.TemplateOp]] = {}
    for step in steps:
        for tensor in dict.fromkeys(shapes.root(t) for t in read_by(step)):
            readers.setdefault(tensor, []).append(step)
    makers = {r: step for step in steps if isinstance(step, Nest) for g in step.generics for r in g.results}
    found: dict[kernel.TemplateOp, Nest] = {}
    for step in steps:
        if not isinstance(step, kernel.TemplateOp) or step.template.data not in COPYING:
            continue
        operand = step.inputs[COPYING[step.template.data]]
        root = shapes.root(operand)
        nest = makers.get(root)
        alone = readers.get(root) == [step] and read_by(step).count(operand) == 1 and root not in kept
        if nest is not None and alone and is_copyable(nest, operand, root, shapes):
            found[step] = nest
    return found


def read_by(step: Nest | kernel.TemplateOp) -> list[SSAValue]:
    """The tensors that a step reads, each as often as it does."""
    if isinstance(step, Nest):
        return [t for g in step.generics for t in g.tensors]
    return [o for op in step.walk() for o in op.operands if isinstance(o.type, TensorType)]


def is_copyable(nest: Nest, operand: SSAValue, root: SSAValue, shapes: Shapes) -> bool:
    """Whether a vector along the operand's last axis is one of vectors from memory, and nothing can fail."""
    if len(nest.generics) != 1:
        return False
    [generic] = nest.generics
    if not generic.is_map or len(generic.outputs) != 1 or not vectorizable(generic.walk()):
        return False
    if any(isinstance(op, kernel.CheckOp) for op in generic.walk()):
        return False  # not every element is copied, and each is to be checked
    if without_ones(shapes[operand]) != without_ones(shapes[root]):
        return False
    [write] = generic.outputs
    loops = [axis for axis in write.axes if axis is not None]
    if len(set(loops)) != generic.rank:
        return False
    last = write.axes[-1] if write.axes else None
    return last is None or all(last not in access.axes[:-1] for access in generic.reads)


def without_ones(dims: Sequence[Dim]) -> list[Dim]:
    return [d for d in dims if d is not ONE]


@dataclass(frozen=True)
class Computed:
    """What a generic makes, element by element.  `make` emits its loops, and gives the result a place."""

    builder: LoopBuilder
    generic: Generic
    dims: Sequence[Dim]
    """The dims under which the template reads it."""
    shapes: Shapes
    storage: Mapping[SSAValue, Storage]
    make_: Callable[[], None]

    def make(self) -> None:
        self.make_()

    def is_flat(self, axes: int) -> bool:
        """So it is where sizes are known, and what is read along these axes has them as its last ones, too."""
        [write], [result] = self.generic.outputs, self.generic.results
        sizes = self.dims[-axes:]
        if any(not d.is_const or d is ONE for d in sizes) or tuple(self.shapes[result][-axes:]) != tuple(sizes):
            return False
        if any(isinstance(op, IndexOp) for op in self.generic.walk()):
            return False
        loops = write.axes[-axes:]
        extents = [d.value for d in sizes]
        pitches = [prod(extents[k + 1 :]) for k in range(axes)]

        def is_along(access: Access) -> bool:
            place = self.storage[access.tensor]
            if not any(axis in loops for axis in access.axes):
                return True
            whole = access.axes[-axes:] == loops and not any(axis in loops for axis in access.axes[:-axes])
            return whole and isinstance(place, Buffer) and list(place.strides[-axes:]) == pitches

        return all(is_along(access) for access in self.generic.reads)

    def load(self, indices: Sequence[Scalar], lanes: int, stride: int, count: Scalar | None) -> SSAValue:
        """A vector of every stride-th element along the last axis; anything from the `count`-th on."""
        generic = self.generic
        [write], [result] = generic.outputs, generic.results
        last = len(self.dims) - 1
        given = [(i, axis == last) for axis, (i, d) in enumerate(zip(indices, self.dims, strict=True)) if d is not ONE]
        loops: dict[int, Value] = {}
        large = [axis for axis, d in zip(write.axes, self.shapes[result], strict=True) if d is not ONE]
        for loop, (index, is_last) in zip(large, given, strict=True):
            if loop is not None:
                loops[loop] = Lanes(index, stride if is_last else 0)
        at = [loops.get(k, Lanes(0)) for k in range(generic.rank)]
        origin, self.builder.origin = self.builder.origin, generic.op.attributes.get("origin")
        mask = None if count is None else self.builder.mask(count, lanes)
        first = None if count is None else self.builder.minimum(count, lanes)
        # of a row that is not empty, what is the same in all lanes is there even where no lane is
        guarded = mask is not None and not self._has_rows()
        emitter = BodyEmitter(self.builder, lanes, self.storage, at, mask, guarded, first)
        arguments = {
            argument: emitter.load(
                self.storage[access.tensor], [Lanes(0) if axis is None else at[axis] for axis in access.axes]
            )
            for argument, access in generic.arguments
        }
        [value] = emitter.emit_values(generic.ops, arguments, generic.wanted)
        self.builder.origin = origin
        return emitter.vector(value)

    def _has_rows(self) -> bool:
        """Whether rows are known not to be empty."""
        return not self.dims or (self.dims[-1].is_const and self.dims[-1].value > 0)
