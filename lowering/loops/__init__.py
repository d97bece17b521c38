"""Tensor level to loops level: kernels of `linalg.generic` and `kernel.template` become loops over flat memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import (
    AffineMapAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    FunctionType,
    IntegerAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from ...dialects import kernel
from ...dialects.dims import Dim, ShapeAttr, as_dim
from ...dialects.dims.expression import dim_max, dim_min
from ...dialects.target import Target
from ..body import Buffer, Splat, Storage, row_major
from ..choices import (
    GRAIN_CYCLES,
    LOOPS,
    SCHEDULE,
    Choices,
    Given,
    Part,
    ScheduleError,
    given_number,
    parts_of,
    schedule_attribute,
    schedule_of,
)
from ..loop_builder import INDEX, LoopBuilder, ScratchSpace, either_space, flat
from ..policy import LoopsChoices
from ..template import TemplateContext, Unmade, whole
from .generics import Generic, LoweringError, dense_attribute, joint_origin, read_generics, shapes_of, splat_value
from .moved import moved_operands, ordered_results
from .nest_emitter import NestEmitter
from .nests import Nest, RowLimit, plan
from .overwritten import overwritten_operands
from .unmade import COPYING, Computed, read_by, unmade_operands


def lower_to_loops(func: FuncOp, target: Target) -> FuncOp:
    """A tensor-level kernel as a loops-level one; the given function is not to be used afterwards.

    Arguments are the index symbols, one flat memref for each tensor argument, then one for each result.  The function's
    attributes `kernel.scratch` and `kernel.thread_scratch` say how many bytes it needs besides, and `kernel.schedule`
    all that was chosen (see `choices`; what is in it before is taken as given).  Raises ScheduleError for what cannot
    be.
    """
    return _KernelLowering(func, target).run()


@dataclass
class _KernelLowering:
    func: FuncOp
    target: Target
    storage: dict[SSAValue, Storage] = field(default_factory=dict[SSAValue, Storage])
    space: ScratchSpace = field(default_factory=ScratchSpace)
    chosen: dict[str, Given] = field(default_factory=dict[str, Given])

    def run(self) -> FuncOp:
        returned = _own_results(self.func)
        self.shapes = shapes_of(self.func)
        block = self._signature(returned)
        self.builder = LoopBuilder(block, self.target)
        self.given = schedule_of(self.func)
        self.parts = parts_of(self.func.body.block)
        self.builder.loops = LoopsChoices.choose(self.given.get(LOOPS, {}))
        self.builder.origin = whole_kernel = joint_origin(self.func.body.block.ops)
        self._place_arguments(block, returned)
        self._emit_all(self._items())
        self._check_parts()
        self.builder.origin = whole_kernel
        self.builder.insert(ReturnOp())
        return self._finish(block)

    # Versions

    def _emit_all(self, items: Sequence[Generic | kernel.TemplateOp]) -> None:
        """Everything; where symbolic sizes decide whether only a row of a result is kept, once for short rows and once
        for others.
        """
        short, long = (RowLimit(self.target.l2 // 16, unknown) for unknown in (True, False))
        steps, others = (plan(items, self.shapes, limit) for limit in (short, long))
        if _alike(steps, others):
            self._emit_steps(steps)
            return
        longest = dim_max(*short.assumed)
        builder, storage, spaces = self.builder, self.storage, list[ScratchSpace]()
        is_short = builder.compare("sle", builder.dim(longest), short.elements)
        choice = builder.insert(scf.IfOp(is_short, [], Region(Block()), [Block()]))
        for region, version in zip(choice.regions, (steps, others)):
            self.storage, self.space = dict(storage), ScratchSpace()
            with builder.branch(choice, region):
                self._emit_steps(version)
                builder.insert(scf.YieldOp())
            spaces.append(self.space)
        self.space = either_space(dim_min(dim_max(longest - short.elements, 0), 1), *spaces)

    def _emit_steps(self, steps: Sequence[Nest | kernel.TemplateOp]) -> None:
        self.unmade = unmade_operands(steps, self.storage, self.shapes)
        self.moved, idle = moved_operands(steps, self.storage, self.shapes)
        self.ordered, behind = ordered_results(steps, self.storage, self.shapes)
        idle += behind
        waiting = set(map(id, [*self.unmade.values(), *idle]))
        self._place_constants(steps)
        self._place_shared([step for step in steps if id(step) not in map(id, idle)])
        self._place_views()
        self._place_moved()
        for step in steps:
            if id(step) not in waiting:
                self._emit(step)

    def _signature(self, returned: Sequence[SSAValue]) -> Block:
        inputs = [flat(a.type.element_type) if isinstance(a.type, TensorType) else INDEX for a in self.func.args]
        return Block(arg_types=[*inputs, *(flat(_element(v)) for v in returned)])

    def _finish(self, block: Block) -> FuncOp:
        kind = FunctionType.from_lists([a.type for a in block.args], [])
        new = FuncOp(self.func.sym_name.data, kind, Region(block), self.func.sym_visibility)
        kept = {k: v for k, v in self.func.attributes.items() if not k.endswith("_dims")}
        scratch = {
            "kernel.scratch": ShapeAttr((self.space.shared,)),
            "kernel.thread_scratch": ShapeAttr((self.space.per_thread,)),
        }
        new.attributes.update(kept | scratch | {SCHEDULE: schedule_attribute(self.chosen)})
        return new

    # Where tensors are

    def _whole(self, base: SSAValue, dims: Sequence[Dim]) -> Buffer:
        return Buffer(base, row_major(self.builder, [self.builder.dim(d) for d in dims]))

    def _place_arguments(self, block: Block, returned: Sequence[SSAValue]) -> None:
        count = len(self.func.args)
        for old, new in zip(self.func.args, block.args[:count], strict=True):
            if isinstance(old.type, TensorType):
                self.storage[old] = self._whole(new, self.shapes[old])
        for value, new in zip(returned, block.args[count:], strict=True):
            root = self.shapes.root(value)
            self.storage[root] = self._whole(new, self.shapes[root])

    def _place_constants(self, steps: Sequence[Nest | kernel.TemplateOp]) -> None:
        """Constants that are the same everywhere are no memory; others, which are small, are."""
        written = {r for s in steps for r in _results(s)}
        for op in self.func.body.block.ops:
            for result in op.results:
                if not isinstance(result.type, TensorType) or result in self.storage or result in written:
                    continue
                value = _constant_value(result)
                if value is not None:
                    self.storage[result] = Splat(value)
                elif isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseIntOrFPElementsAttr):
                    self.storage[result] = self._written_out(result, op.value)

    def _written_out(self, result: SSAValue, dense: DenseIntOrFPElementsAttr) -> Buffer:
        """A small constant, written to scratch when the kernel starts."""
        base = self.space.take(self.builder, _element(result), len(dense), None)
        for at in range(len(dense)):
            self.builder.store(self.builder.literal(dense_attribute(dense, at)), base, at)
        return self._whole(base, self.shapes[result])

    def _place_shared(self, steps: Sequence[Nest | kernel.TemplateOp]) -> None:
        """Full-size scratch for what one step writes and another reads."""
        reads = [{self.shapes.root(t) for t in read_by(step)} for step in steps]
        unmade = {r for nest in self.unmade.values() for r in _results(nest)}
        overwritten = overwritten_operands(steps, self.storage, self.shapes)
        for number, step in enumerate(steps):
            for value in _results(step):
                if value in unmade or value in self.ordered or value in overwritten:
                    continue
                elsewhere = any(value in r for i, r in enumerate(reads) if i != number)
                if value in self.storage or not (elsewhere or isinstance(step, kernel.TemplateOp)):
                    continue
                size = self.shapes[value]
                base = self.space.take(self.builder, _element(value), whole(*size), None)
                self.storage[value] = self._whole(base, size)
        for value, result in reversed(overwritten.items()):
            self.storage[value] = self.storage[result]
        written = {r for step in steps for r in _results(step)}
        for value in dict.fromkeys(t for read in reads for t in read):
            # nothing makes what has no elements, and what reads it may be of unknown size
            if value not in self.storage and value not in written and as_dim(0) in self.shapes[value]:
                base = self.space.take(self.builder, _element(value), 0, None)
                self.storage[value] = self._whole(base, self.shapes[value])

    def _place_views(self) -> None:
        for view, root in self.shapes.roots.items():
            place = self.storage.get(root)
            if isinstance(place, Buffer):
                self.storage[view] = self._whole(place.base, self.shapes[view])
            elif place is not None:
                self.storage[view] = place

    def _place_moved(self) -> None:
        for operand, moved in self.moved.items():
            source = self.storage[moved.source]
            assert isinstance(source, Buffer), "an argument"
            self.storage[operand] = moved.place(self.builder, source)
        for result, ordered in self.ordered.items():
            target = self.storage[ordered.target]
            assert isinstance(target, Buffer), "a result"
            self.storage[result] = ordered.place(target)

    # Steps

    def _items(self) -> list[Generic | kernel.TemplateOp]:
        """What there is to run, in order; constants that are written out as generics are none of it."""
        live = _live_ops(self.func.body.block)
        items: list[Generic | kernel.TemplateOp] = []
        for op in self.func.body.block.ops:
            if op not in live:
                continue
            if isinstance(op, kernel.TemplateOp):
                items.append(op)
            elif isinstance(op, linalg.GenericOp) and any(r in self.storage or splat_value(r) is None for r in op.res):
                items.extend(g for g in read_generics(op, self.shapes) if self._writes(g))
        return items

    def _writes(self, generic: Generic) -> bool:
        """Whether any result has elements, as far as is known now."""
        return any(as_dim(0) not in self.shapes[o.tensor] for o in generic.outputs)

    def _check_parts(self) -> None:
        """Raises ScheduleError where something is given for a part that the kernel does not have."""
        if unknown := sorted(self.given.keys() - self.chosen.keys()):
            there_are = f"there are {', '.join(self.chosen)}" if self.chosen else "it has none"
            raise ScheduleError(f"there is no part {unknown[0]!r} in this kernel; {there_are}")

    def _emit(self, step: Nest | kernel.TemplateOp) -> None:
        if isinstance(step, Nest):
            self.builder.loops.check(LOOPS, self.given.get(LOOPS, {}))
            self.chosen[LOOPS] = self.builder.loops.numbers()
            NestEmitter(self.builder, step, self.shapes, self.storage, self.space).run()
        else:
            from ..kernels import TEMPLATES

            build = TEMPLATES.get(step.template.data)
            if build is None:
                raise LoweringError(f"no kernel template {step.template.data!r}")
            self.builder.origin = step.attributes.get("origin")
            given = self.given.get(self.parts[step], {})
            grain = Choices(grain_cycles=given_number(given, "grain_cycles", GRAIN_CYCLES, 1))
            part = self.builder.part = Part(self.parts[step], given, grain)
            operands = self._operands(step)
            build(TemplateContext(self.builder, self.storage, self.shapes.dims, self.space, operands), step)
            part.chosen.check(part.name, given)
            self.chosen[part.name] = part.chosen.numbers()

    def _operands(self, template: kernel.TemplateOp) -> Mapping[SSAValue, Unmade]:
        """The operand that the template may compute where it copies it."""
        if (nest := self.unmade.get(template)) is None:
            return {}
        operand = template.inputs[COPYING[template.template.data]]
        [generic] = nest.generics

        def make() -> None:
            origin, part = self.builder.origin, self.builder.part
            [result] = generic.results
            size = self.shapes[result]
            base = self.space.take(self.builder, _element(result), whole(*size), None)
            for view in self.shapes.views(result):
                self.storage[view] = self._whole(base, self.shapes[view])
            self._emit(nest)
            self.builder.origin, self.builder.part = origin, part

        dims = self.shapes[operand]
        return {operand: Computed(self.builder, generic, dims, self.shapes, self.storage, make)}


def _alike(steps: Sequence[Nest | kernel.TemplateOp], others: Sequence[Nest | kernel.TemplateOp]) -> bool:
    """Whether both plans share the same loops among the same generics."""

    def shared(step: Nest | kernel.TemplateOp) -> object:
        return (step.rows, [id(g) for g in step.generics]) if isinstance(step, Nest) else id(step)

    return [shared(s) for s in steps] == [shared(s) for s in others]


def _constant_value(tensor: SSAValue) -> IntegerAttr | FloatAttr | None:
    """The number that a tensor has everywhere."""
    value = splat_value(tensor)
    if isinstance(value, SSAValue):
        constant = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
        return constant if isinstance(constant, IntegerAttr | FloatAttr) else None
    return value


def _element(value: SSAValue) -> Attribute:
    assert isinstance(value.type, TensorType)
    return value.type.element_type


def _results(step: Nest | kernel.TemplateOp) -> list[SSAValue]:
    if isinstance(step, Nest):
        return [r for g in step.generics for r in g.results]
    return list(step.results)


def _live_ops(block: Block) -> set[Operation]:
    """The ops that the results depend on."""
    live: set[Operation] = set()
    work: list[Operation] = [] if block.last_op is None else [block.last_op]
    while work:
        op = work.pop()
        if op in live:
            continue
        live.add(op)
        for inner in op.walk():
            work.extend(o.owner for o in inner.operands if isinstance(o.owner, Operation) and o.owner.parent is block)
    return live


def _own_results(func: FuncOp) -> list[SSAValue]:
    """The returned values, each written by one op of its own: arguments, constants and repetitions are copied."""
    terminator = func.body.block.last_op
    assert isinstance(terminator, ReturnOp)
    shapes = shapes_of(func)
    seen: set[SSAValue] = set()
    for number, value in enumerate(terminator.operands):
        root = shapes.root(value)
        if root in seen or not isinstance(root.owner, linalg.GenericOp | kernel.TemplateOp):
            terminator.operands[number] = _copy(value, shapes[value], terminator)
        seen.add(shapes.root(terminator.operands[number]))
    return list(terminator.operands)


def _copy(value: SSAValue, dims: Sequence[Dim], before: Operation) -> SSAValue:
    sizes = [kernel.DimOp(d) for d in dims if not d.is_const]
    empty = tensor.EmptyOp([s.result for s in sizes], value.type)
    body = Block(arg_types=[_element(value)] * 2)
    body.add_op(linalg.YieldOp(body.args[0]))
    identity = AffineMapAttr(AffineMap.identity(len(dims)))
    parallel = [IteratorTypeAttr(IteratorType.PARALLEL)] * len(dims)
    copy = linalg.GenericOp([value], [empty.tensor], Region(body), [identity] * 2, parallel, [value.type])
    Rewriter.insert_op([*sizes, empty, copy], InsertPoint.before(before))
    return copy.res[0]
