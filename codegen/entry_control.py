"""Control flow in the entry: what its ops share, and If.

A branch's or body's values have homes of their own; what it yields is copied to where the scheduler wants the result.
Sizes that differ from branch to branch or from one iteration to the next are kept in words on the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import onnx
from ..dialects.dims import Dim, ShapeAttr
from .entry_builder import EntryBuilder
from .entry_sizes import Sizes, bare_symbol
from .entry_values import (
    EntryError,
    Place,
    escaped,
    homes_of,
    is_object,
    name_of,
    node_of,
    tensor_dims,
)
from .llvm_types import I8, I64, PTR


def nested(e: EntryBuilder, run: Callable[[], None]) -> None:
    """Emits a region: what is bound and computed in it is not known after it."""
    outer = e.sizes
    e.sizes = Sizes(e.b, outer)
    e.forget_stored()
    run()
    e.forget_stored()
    e.sizes = outer


def body_of(op: Operation, index: int) -> tuple[Block, onnx.YieldOp]:
    """A region's block and its terminator."""
    block = op.regions[index].blocks[0]
    last = block.last_op
    if not isinstance(last, onnx.YieldOp):
        raise EntryError(f"a body of {op.name} ends in no onnx.Yield")
    return block, last


def lower_body(e: EntryBuilder, block: Block) -> None:
    """Emits all ops of a block but its terminator."""
    for op in block.ops:
        if not isinstance(op, onnx.YieldOp):
            e.lower(op)


@dataclass(frozen=True)
class Variable:
    """A value that control flow decides: words for its pointer (or number) and for sizes that are not known outside.

    `sizes` has, for each axis whose symbol is bound by the variable, the word on the stack.
    """

    type: Attribute
    word: SSAValue
    sizes: dict[int, SSAValue]

    @property
    def is_object(self) -> bool:
        return is_object(self.type)

    def load(self, e: EntryBuilder) -> SSAValue:
        """The current pointer or number."""
        return e.b.load_at(self.word, 0, I64 if self.is_object else PTR)

    def set(self, e: EntryBuilder, pointer: SSAValue, sizes: Sequence[SSAValue]) -> None:
        """Sets the pointer and the sizes; `sizes` has one for each axis."""
        e.b.store_at(pointer, self.word, 0)
        for axis, word in self.sizes.items():
            e.b.store_at(sizes[axis], word, 0)

    def bind(self, e: EntryBuilder) -> None:
        """Binds the symbols of the axes to the current sizes."""
        for axis, word in self.sizes.items():
            symbol = bare_symbol(tensor_dims(self.type)[axis])
            assert symbol is not None
            if not e.sizes.has(tensor_dims(self.type)[axis]):
                e.bind_symbol(symbol, e.b.load_at(word, 0), f"the size of axis {axis} of a value that a body carries")


def variable(e: EntryBuilder, type_: Attribute) -> Variable:
    """A variable of this type; symbols that are not bound here are its own."""
    sizes: dict[int, SSAValue] = {}
    for axis, dim in enumerate(tensor_dims(type_)):
        if not e.sizes.has(dim):
            if bare_symbol(dim) is None:
                raise EntryError(f"'{dim}' is decided by control flow, but is no symbol alone")
            sizes[axis] = e.b.words(1)
    return Variable(type_, e.b.words(1), sizes)


def sizes_of(e: EntryBuilder, value: SSAValue) -> list[SSAValue]:
    """The sizes of all axes, by the value's type."""
    return [e.size(dim) for dim in tensor_dims(value.type)]


def is_true(e: EntryBuilder, pointer: SSAValue) -> SSAValue:
    """The bool at a pointer."""
    b = e.b
    return b.icmp("ne", b.load(pointer, I8, 1), b.const(0, I8))


def lower_if(e: EntryBuilder, op: Operation) -> None:
    """Both branches as blocks; results in their homes, or as the branch's own memory where that lasts."""
    assert isinstance(op, onnx.IfOp)
    b = e.b
    homes = homes_of(op, "kernel.outputs", len(op.results))
    fixed = [home_before(e, home, result) for home, result in zip(homes, op.results, strict=True)]
    variables = [variable(e, result.type) for result in op.results]
    then, otherwise, done = b.new_block(), b.new_block(), b.new_block()
    b.branch(is_true(e, e.pointer(op.cond)), then, otherwise)
    for region, start in ((op.then_branch, then), (op.else_branch, otherwise)):
        b.at(start)
        block, end = body_of(op, op.get_region_index(region))

        def branch(block: Block = block, end: onnx.YieldOp = end, number: int = op.get_region_index(region)) -> None:
            if isinstance(needs := op.attributes.get("kernel.branch_arenas"), ShapeAttr):
                e.reserve_branch(needs.data[number], node_of(op))
            lower_body(e, block)
            for value, result, target, place in zip(end.operands, op.results, variables, fixed, strict=True):
                leave_branch(e, op, value, result, target, place)

        nested(e, branch)
        b.br(done)
    b.at(done)
    for result, target, place in zip(op.results, variables, fixed, strict=True):
        target.bind(e)
        e.places[result] = place or Place(target.load(e), True)


def home_before(e: EntryBuilder, home: Dim | str, value: SSAValue) -> Place | None:
    """A result's home, where it is the same whatever branch is taken."""
    return None if is_object(value.type) or home == "dynamic" else e.home(home, value)


def leave_branch(
    e: EntryBuilder, op: Operation, value: SSAValue, result: SSAValue, target: Variable, place: Place | None
) -> None:
    """Puts a branch's value where the If's result is."""
    source = e.place(value)
    sizes = sizes_of(e, value)
    if target.is_object:
        target.set(e, source.pointer, sizes)
        return
    if place is None:
        target.set(e, lasting(e, value, source), sizes)
        return
    if source.home != place.home:
        agree(e, op, value, result)
        e.copy(place.pointer, source.pointer, e.bytes_of(value))
    target.set(e, place.pointer, sizes)


def lasting(e: EntryBuilder, value: SSAValue, source: Place) -> SSAValue:
    """A pointer to the value in memory that stays: its own, or a copy."""
    if source.lasting:
        return source.pointer
    pointer = e.room_of(value)
    e.copy(pointer, source.pointer, e.bytes_of(value))
    return pointer


def agree(e: EntryBuilder, op: Operation, value: SSAValue, planned: SSAValue) -> None:
    """Guards that a value has the sizes of the memory that was planned for it, where its type does not say so."""
    b = e.b
    for axis, (dim, expected) in enumerate(zip(tensor_dims(value.type), tensor_dims(planned.type), strict=True)):
        if dim is not expected and e.sizes.has(expected):
            sizes = [e.size(dim), e.size(expected)]
            name = escaped(name_of(planned, op.name))
            message = f"a value for '{name}' has size {{0}} on axis {axis}, expected {{1}}"
            e.guard(b.icmp("eq", *sizes), "guard", message, sizes, node_of(op))
