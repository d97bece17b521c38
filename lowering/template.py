"""What a kernel template builds with: sizes, buffers, scratch, loops, and the store through the epilogue.

A template is a function `build(context: TemplateContext, op: kernel.TemplateOp) -> None`, named in the table
`lowering.kernels.TEMPLATES`.  It appends loops-level IR at `context.builder`; everything is row-major and flat.

    def build(context: TemplateContext, op: kernel.TemplateOp) -> None:
        b = context.builder
        rows, depth = context.dims(op.inputs[0])
        source = context.buffer(op.inputs[0])                     # memref<?xf32>
        with context.parallel_rows(rows, flops_per_row) as (row, thread):
            at = b.mul(row, b.dim(depth))
            ...
            context.store(op, [accumulators], [row, column], mask)   # epilogue, then the store
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, VectorType
from xdsl.ir import Attribute, SSAValue

from ..dialects import kernel
from ..dialects.dims import Dim, as_dim
from ..dialects.target import Target
from . import policy
from .body import BodyEmitter, Buffer, Lanes, Splat, Storage, Value, emit_in_step, row_major
from .choices import Part
from .loop_builder import LoopBuilder, Scalar, ScratchSpace


class Unmade(Protocol):
    """An operand that no loops have made yet: the template may compute its elements where it copies them."""

    def load(self, indices: Sequence[Scalar], lanes: int, stride: int, count: Scalar | None) -> SSAValue:
        """A vector of every stride-th element along the last axis, from `indices` on; of these, `count` are there."""
        ...

    def is_flat(self, axes: int) -> bool:
        """Whether `load` may be given (0, ..., 0, q) for the index of the q-th element on the last axes, and go on over
        the ends of rows."""
        ...

    def make(self) -> None:
        """Emits the loops that put it into memory, here."""
        ...


NO_OPERANDS: Mapping[SSAValue, Unmade] = {}


@dataclass(frozen=True)
class TemplateContext:
    """One kernel.template op being lowered. `storage` and `shapes` are by tensor value (inputs and results)."""

    builder: LoopBuilder
    storage: Mapping[SSAValue, Storage]
    shapes: Mapping[SSAValue, tuple[Dim, ...]]
    space: ScratchSpace
    operands: Mapping[SSAValue, Unmade] = field(default_factory=lambda: NO_OPERANDS)
    """The operands that nothing has made yet; `buffer` makes them."""

    @property
    def target(self) -> Target:
        return self.builder.target

    @property
    def part(self) -> Part:
        """What is given for this template, and to be told what was chosen."""
        return self.builder.part

    def dims(self, tensor: SSAValue) -> tuple[Dim, ...]:
        """The sizes of an input or result, in the kernel's symbols."""
        return self.shapes[tensor]

    def dim(self, size: Dim | int) -> SSAValue:
        """A size as an index value."""
        return self.builder.index(self.builder.dim(size))

    def buffer(self, tensor: SSAValue) -> SSAValue:
        """The flat memref of an input or result; row-major, contiguous.  Of an input, for the start of a template."""
        if tensor not in self.storage and (unmade := self.unmade(tensor)) is not None:
            unmade.make()
        place = self.storage[tensor]
        if isinstance(place, Splat):
            return self._filled(tensor, place)
        assert isinstance(place, Buffer), "templates' operands are whole tensors in memory"
        return place.base

    def repeated(self, tensor: SSAValue) -> IntegerAttr | FloatAttr | None:
        """The number that an input has everywhere, which need not be in memory."""
        place = self.storage.get(tensor)
        return place.value if isinstance(place, Splat) else None

    def place(self, tensor: SSAValue) -> Buffer:
        """Where an input or result lies that may have any strides on all axes but the last, see `loops/moved.py`."""
        place = self.storage.get(tensor)
        if isinstance(place, Buffer):
            return place
        sizes = [self.builder.dim(d) for d in self.dims(tensor)]
        return Buffer(self.buffer(tensor), row_major(self.builder, sizes))

    def unmade(self, tensor: SSAValue) -> Unmade | None:
        """An operand that nothing has made yet."""
        return self.operands.get(tensor)

    def _filled(self, tensor: SSAValue, constant: Splat) -> SSAValue:
        """A constant that is the same everywhere, written to scratch; for the start of a template."""
        builder = self.builder
        size = whole(*self.dims(tensor))
        base = self.scratch(constant.value.type, size)
        value = builder.hoisted(arith.ConstantOp(constant.value)).result
        with builder.loop(0, builder.dim(size)) as loop:
            builder.store(value, base, loop.index)
        return base

    def scratch(self, element: Attribute, size: Dim | int, thread: SSAValue | None = None) -> SSAValue:
        """`size` elements, aligned to 64 bytes, uninitialized; each thread's own where `thread` is given."""
        return self.space.take(self.builder, element, size, thread)

    @contextmanager
    def parallel_rows(self, extent: Dim | int, work: float) -> Generator[tuple[SSAValue, SSAValue]]:
        """A parallel loop: yields (index, thread). `work` is about how many vector operations an iteration costs."""
        builder = self.builder
        size, grain = builder.dim(extent), policy.parallel_grain(work, self.part.chosen.grain_cycles)
        with (
            builder.parallel(size, grain) as (lower, upper, thread),
            builder.loop(lower, upper, nonempty=True) as loop,
        ):
            yield loop.index, thread

    def store(
        self,
        op: kernel.TemplateOp,
        values: Sequence[SSAValue],
        indices: Sequence[Scalar],
        mask: SSAValue | None = None,
        axis: int = -1,
        stride: int = 1,
    ) -> None:
        """Applies the epilogue to one value (scalar or vector) for each result of the op, and stores.

        The values are of the template's own result types before the epilogue (the epilogue's first arguments).  Lane l
        is the element at `indices` with l * stride added on `axis`.  Lanes outside of the mask are not touched.
        """
        self.store_in_step(op, [values], [indices], mask, axis, stride)

    def store_in_step(
        self,
        op: kernel.TemplateOp,
        points: Sequence[Sequence[SSAValue]],
        indices: Sequence[Sequence[Scalar]],
        mask: SSAValue | Sequence[SSAValue | None] | None = None,
        axis: int = -1,
        stride: int = 1,
    ) -> None:
        """`store` for several points, all scalars or all vectors of one length, whose epilogues run side by side.

        `mask` is that of all points, or one for each.
        """
        kind = points[0][0].type
        lanes = kind.get_shape()[0] if isinstance(kind, VectorType) else 1
        masks = [mask] * len(points) if mask is None or isinstance(mask, SSAValue) else mask
        if isinstance(kind, VectorType) and lanes == 1:
            for values, at, own in zip(points, indices, masks, strict=True):
                self._store_only_lane(op, values, at, own)
            return
        places: list[list[Value]] = [[Lanes(i) for i in at] for at in indices]
        if lanes > 1:
            for place, at in zip(places, indices):
                place[axis] = Lanes(at[axis], stride)
        emitters = [
            BodyEmitter(self.builder, lanes, self.storage, place, own) for place, own in zip(places, masks, strict=True)
        ]
        stored: Sequence[Sequence[Value]] = points
        if op.epilogue is not None:
            arguments = [[*values, *place] for values, place in zip(points, places, strict=True)]
            stored = emit_in_step(emitters, op.epilogue.block, arguments)
        for emitter, values, place in zip(emitters, stored, places, strict=True):
            for result, value in zip(op.results_, values, strict=True):
                storage = self.storage[result]
                assert isinstance(storage, Buffer)
                emitter.store(value, storage, place)

    def points_in_step(self, op: kernel.TemplateOp) -> int:
        """How many points to store together: several where the epilogue is a long chain of operations."""
        return 1 if op.epilogue is None else policy.points_in_step(list(op.epilogue.block.ops))

    def _store_only_lane(
        self, op: kernel.TemplateOp, values: Sequence[SSAValue], indices: Sequence[Scalar], mask: SSAValue | None
    ) -> None:
        """Stores vectors of one lane as scalars."""

        def lane(value: SSAValue) -> SSAValue:
            assert isinstance(value.type, VectorType)
            return self.builder.hoisted(vector.ExtractOp(value, [0], value.type.element_type)).result

        scalars = [lane(v) if isinstance(v.type, VectorType) else v for v in values]
        if mask is None:
            self.store(op, scalars, indices)
            return
        with self.builder.when(lane(mask)):
            self.store(op, scalars, indices)


def whole(*dims: Dim | int) -> Dim:
    """The number of elements of a shape."""
    total = as_dim(1)
    for dim in dims:
        total = total * as_dim(dim)
    return total
