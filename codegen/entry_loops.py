"""Loops in the entry: Loop and Scan.

A loop's state is double-buffered where its size is known at entry: the body reads one buffer, what it yields goes into
the other, and they swap.  State of changing size lives in the growing region, which is a stack: at the end of an
iteration it is moved down to the loop's mark and all else that the iteration made is gone.  Outputs that a loop
stacks up without knowing how many there will be are blocks below that mark, replaced by larger ones when full.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import kernel, onnx
from ..dialects.dims import Dim
from ..runtime.abi import WORD, Slot
from ..runtime.errors import UnsupportedError
from .entry_builder import EntryBuilder
from .entry_control import (
    Variable,
    agree,
    body_of,
    home_before,
    is_true,
    lasting,
    lower_body,
    nested,
    sizes_of,
    variable,
)
from .entry_ops import bind_sizes, write_fill
from .entry_sizes import bare_symbol
from .entry_values import (
    Place,
    element_bytes,
    escaped,
    homes_of,
    is_object,
    name_of,
    node_of,
    tensor_dims,
)
from .llvm_types import I8, I64, PTR

DYNAMIC = StringAttr("dynamic")
UNLIMITED = (1 << 63) - 1
FIRST_CAPACITY = 1 << 12
"""Bytes of the first block of a stacked output of unknown length."""


@dataclass
class State:
    """A loop-carried value: read by the body as `argument`, yielded as `value`, given out as `result`.

    `buffers` are its two places where its size is known at entry; None: in the growing region.
    """

    argument: SSAValue
    value: SSAValue
    result: SSAValue
    variable: Variable
    buffers: tuple[SSAValue, SSAValue] | None
    spare: SSAValue
    """Word with the pointer of the buffer that is not being read."""

    @property
    def is_object(self) -> bool:
        return self.variable.is_object

    @property
    def unchanged(self) -> bool:
        return self.value is self.argument


@dataclass
class Stack:
    """A scan output: what the iterations yield, one behind the other along an axis of the result.

    `place` is its memory where the number of iterations is known before the loop; else `block` and `capacity` are
    words with the current block and its bytes.  `sizes` are words with the sizes of one iteration's value by axis.
    """

    value: SSAValue
    result: SSAValue
    place: Place | None
    block: SSAValue
    capacity: SSAValue
    sizes: list[SSAValue]
    axis: int = 0
    backwards: bool = False
    room: SSAValue | None = None
    """The iterations that `place` is for, where the loop's condition has to end it before more."""


@dataclass
class LoopShape:
    """What Loop and Scan have in common, to be filled in."""

    op: Operation
    block: Block
    states: list[State]
    stacks: list[Stack]
    start: Callable[[EntryBuilder, SSAValue], None]
    """Emitted at the head of an iteration with its number: places the other block arguments."""
    condition: SSAValue | None = None
    """The yielded value that ends the loop where it is false."""


def make_states(
    e: EntryBuilder,
    op: Operation,
    arguments: Sequence[SSAValue],
    values: Sequence[SSAValue],
    homes: Sequence[Dim | str],
    carried: Sequence[Dim | str],
) -> list[State]:
    """The loop's states, with their buffers."""
    states: list[State] = []
    for argument, value, result, home, own in zip(arguments, values, op.results, homes, carried):
        buffers = None
        if not is_object(argument.type) and home != "dynamic" and own != "dynamic":
            buffers = (e.home(own, argument).pointer, e.home(home, result).pointer)
        states.append(State(argument, value, result, variable(e, argument.type), buffers, e.b.words(1)))
    return states


def make_stacks(
    e: EntryBuilder, values: Sequence[SSAValue], results: Sequence[SSAValue], homes: Sequence[Dim | str]
) -> list[Stack]:
    """The loop's stacked outputs."""
    b = e.b
    stacks: list[Stack] = []
    for value, result, home in zip(values, results, homes, strict=True):
        sizes = [b.words(1) for _ in tensor_dims(value.type)]
        place = home_before(e, home, result)
        stacks.append(Stack(value, result, place, b.words(1), b.words(1), sizes))
    return stacks


def room_for(e: EntryBuilder, op: Operation, result: SSAValue) -> Place:
    """Memory of the growing region for a stacked output that is not filled from its beginning to its end.

    Raises UnsupportedError where only the body tells the sizes of what it yields.
    """
    if not all(e.sizes.has(dim) for dim in tensor_dims(result.type)):
        name = name_of(result, op.name)
        where = f"{onnx.describe(op)}: its output '{name}'"
        raise UnsupportedError(f"{where} is stacked backwards or along another axis, and only its body tells the sizes")
    return Place(e.room_of(result), True)


def enter(e: EntryBuilder, op: Operation, state: State, initial: SSAValue) -> None:
    """Copies the initial value into the state's memory: the loop will write there."""
    if initial not in e.places and isinstance(initial.owner, kernel.FillOp):
        enter_fill(e, op, state, initial.owner)
        return
    source = e.place(initial)
    sizes = sizes_of(e, initial)
    if state.unchanged or state.is_object:
        state.variable.set(e, source.pointer, sizes)
    elif state.buffers is None:
        pointer = e.room_of(initial)
        e.copy(pointer, source.pointer, e.bytes_of(initial))
        state.variable.set(e, pointer, sizes)
    else:
        first, second = state.buffers
        agree(e, op, initial, state.argument)
        e.copy(first, source.pointer, e.bytes_of(initial))
        state.variable.set(e, first, sizes)
        e.b.store_at(second, state.spare, 0)


def enter_fill(e: EntryBuilder, op: Operation, state: State, initial: kernel.FillOp) -> None:
    """Fills the state's memory with the one value that it begins with."""
    sizes = sizes_of(e, initial.result)
    if state.buffers is None:
        pointer = e.room_of(initial.result)
    else:
        pointer, second = state.buffers
        agree(e, op, initial.result, state.argument)
        e.b.store_at(second, state.spare, 0)
    write_fill(e, initial, pointer)
    state.variable.set(e, pointer, sizes)


def allocates(op: Operation) -> bool:
    """Whether anything in a loop takes memory of the growing region."""
    for inner in op.walk():
        for name in ("kernel.outputs", "kernel.carried"):
            homes = inner.attributes.get(name)
            if isinstance(homes, ArrayAttr) and any(home == DYNAMIC for home in homes):
                return True
    return False


def run_loop(
    e: EntryBuilder, shape: LoopShape, initial: Sequence[SSAValue], trips: SSAValue, go: SSAValue | None
) -> SSAValue:
    """Emits the loop: at most `trips` iterations, none if `go` is false. Gives their number."""
    b = e.b
    mark: SSAValue | None = None
    for stack in shape.stacks:
        start_stack(e, shape, stack, trips)
    if allocates(shape.op):
        # below the mark are the blocks of stacked outputs; the states of changing size come right behind it
        mark = b.words(1)
        e.allocate(b.int(0), "a loop")  # the region's first use says where it begins
        b.store_at(b.load_at(e.context, WORD * Slot.DYNAMIC_TOP), mark, 0)
    for state, value in zip(shape.states, initial, strict=True):
        enter(e, shape.op, state, value)
    going = b.words(1)
    b.store_at(b.int(1) if go is None else b.cast("zext", go, I64), going, 0)
    head, again, body, done = b.new_block(I64), b.new_block(), b.new_block(), b.new_block()
    b.br(head, [b.int(0)])
    number = b.at(head)[0]
    more = b.icmp("slt", number, trips)
    b.branch(b.and_(more, b.icmp("ne", b.load_at(going, 0), b.int(0))), again, done)

    def iteration() -> None:
        b.at(again)
        e.poll()
        b.br(body)
        b.at(body)
        shape.start(e, number)
        for state in shape.states:
            state.variable.bind(e)
            e.places[state.argument] = Place(state.variable.load(e), False, ("state", state.argument))
        lower_body(e, shape.block)
        if shape.condition is not None:
            b.store_at(b.cast("zext", is_true(e, e.pointer(shape.condition)), I64), going, 0)
        for stack in shape.stacks:
            push(e, shape.op, stack, number, trips, mark)
        advance(e, shape.op, shape.states, mark)
        b.br(head, [b.add(number, b.int(1))])

    nested(e, iteration)
    b.at(done)
    return number


def start_stack(e: EntryBuilder, shape: LoopShape, stack: Stack, trips: SSAValue) -> None:
    """Sets up a stacked output before the loop, with room for each iteration where no condition ends it before."""
    b = e.b
    for word in (stack.block, stack.capacity, *stack.sizes):
        b.store_at(b.int(0), word, 0)
    if stack.place is not None:
        planned = e.size(tensor_dims(stack.result.type)[stack.axis])
        if planned is not trips and shape.condition is None:
            name = escaped(name_of(stack.result, shape.op.name))
            message = f"the loop runs {{0}} times, '{name}' has room for {{1}}"
            e.guard(b.icmp("sle", trips, planned), "guard", message, [trips, planned], node_of(shape.op))
        elif planned is not trips:
            stack.room = planned


def push(
    e: EntryBuilder, op: Operation, stack: Stack, number: SSAValue, trips: SSAValue, mark: SSAValue | None
) -> None:
    """Adds an iteration's value to a stacked output."""
    b = e.b
    source = e.pointer(stack.value)
    sizes = sizes_of(e, stack.value)
    size = e.bytes_of(stack.value)
    if stack.room is not None:
        name = escaped(name_of(stack.result, op.name))
        message = f"the loop goes on after {{0}} iterations, '{name}' has no room for more"
        e.guard(b.icmp("slt", number, stack.room), "guard", message, [number], node_of(op))
    outer_dims = tensor_dims(stack.result.type)
    planned = [*outer_dims[: stack.axis], *outer_dims[stack.axis + 1 :]]
    first = b.icmp("eq", number, b.int(0))
    for axis, (value, word, dim) in enumerate(zip(sizes, stack.sizes, planned, strict=True)):
        if dim is tensor_dims(stack.value.type)[axis]:
            continue
        expected = e.size(dim) if e.sizes.has(dim) else b.select(first, value, b.load_at(word, 0))
        name = escaped(name_of(stack.result, op.name))
        message = f"an iteration's value for '{name}' has size {{0}} on axis {axis}, expected {{1}}"
        e.guard(b.icmp("eq", value, expected), "guard", message, [value, expected], node_of(op))
        b.store_at(value, word, 0)
    if stack.place is not None:
        inner, outer = slice_sizes(e, stack.value.type, sizes, stack.axis)
        place = b.sub(b.sub(trips, b.int(1)), number) if stack.backwards else number
        target = b.at_byte(stack.place.pointer, b.mul(place, inner))
        copy_slices(e, target, b.mul(trips, inner), source, inner, inner, outer, stack.axis)
        return
    assert not stack.axis and not stack.backwards, "only what is added at the end may be longer than was known"
    full = b.new_block()
    room = b.new_block()
    needed = b.mul(size, b.add(number, b.int(1)))
    b.branch(b.icmp("ule", needed, b.load_at(stack.capacity, 0)), room, full)
    b.at(full)
    assert mark is not None, "a block of the growing region in a loop that has no mark"
    enlarge(e, stack, needed, b.mul(size, number), mark)
    b.br(room)
    b.at(room)
    e.copy(b.at_byte(b.load_at(stack.block, 0, PTR), b.mul(size, number)), source, size)


def enlarge(e: EntryBuilder, stack: Stack, needed: SSAValue, used: SSAValue, mark: SSAValue) -> None:
    """A new block of twice the bytes, above all that there is; the loop's mark moves behind it."""
    b = e.b
    capacity = b.smax(b.mul(needed, b.int(2)), b.int(FIRST_CAPACITY))
    pointer = e.allocate(capacity, e.called_of(stack.result))
    old = b.load_at(stack.block, 0, PTR)
    e.copy(pointer, b.select(b.is_null(old), pointer, old), used)
    b.store_at(pointer, stack.block, 0)
    b.store_at(capacity, stack.capacity, 0)
    b.store_at(b.load_at(e.context, WORD * Slot.DYNAMIC_TOP), mark, 0)


def advance(e: EntryBuilder, op: Operation, states: Sequence[State], mark: SSAValue | None) -> None:
    """Makes what the body yielded the state of the next iteration."""
    b = e.b
    objects = [(s, e.pointer(s.value), sizes_of(e, s.value)) for s in states if s.is_object]
    buffered = [s for s in states if s.buffers is not None and not s.unchanged]
    growing = [s for s in states if s.buffers is None and not s.is_object and not s.unchanged]
    moved: list[tuple[State, list[SSAValue], SSAValue]] = []
    for state in buffered:  # into the spare buffers first: a yielded value may be another state's old one
        agree(e, op, state.value, state.argument)
        spare = b.load_at(state.spare, 0, PTR)
        e.copy(spare, e.pointer(state.value), e.bytes_of(state.value))
        moved.append((state, sizes_of(e, state.value), spare))
    staged: list[tuple[State, list[SSAValue], SSAValue, SSAValue]] = []
    for state in growing:
        size, pointer = e.bytes_of(state.value), e.pointer(state.value)
        if len(growing) > 1:  # one's new place may be where another's value is; one alone moves down over itself
            source, pointer = pointer, e.room_of(state.value)
            e.copy(pointer, source, size)
        staged.append((state, sizes_of(e, state.value), size, pointer))
    for state, pointer, sizes in objects:
        state.variable.set(e, pointer, sizes)
    for state, sizes, spare in moved:
        b.store_at(state.variable.load(e), state.spare, 0)
        state.variable.set(e, spare, sizes)
    if mark is not None:
        b.store_at(b.load_at(mark, 0), e.context, WORD * Slot.DYNAMIC_TOP)
    for state, sizes, size, pointer in staged:
        target = e.allocate(size, e.called_of(state.value))
        e.copy(target, pointer, size)
        state.variable.set(e, target, sizes)


def leave_loop(e: EntryBuilder, op: Operation, shape: LoopShape, initial: Sequence[SSAValue], count: SSAValue) -> None:
    """The results, where the scheduler wants them, and their symbols."""
    b = e.b
    for state, value in zip(shape.states, initial, strict=True):
        pointer = state.variable.load(e)
        inner = tensor_dims(state.argument.type)
        sizes = [
            b.load_at(state.variable.sizes[axis], 0) if axis in state.variable.sizes else e.size(dim)
            for axis, dim in enumerate(inner)
        ]
        bind_sizes(e, op, state.result, sizes)
        if state.buffers is None:
            if state.unchanged and not state.is_object:
                pointer = lasting(e, state.result, Place(pointer, e.place(value).lasting))
            e.places[state.result] = Place(pointer, True, ("loop", state.result))
            continue
        home = state.buffers[1]
        e.copy(home, pointer, e.bytes_of(state.result))
        e.places[state.result] = Place(home, False, ("loop", state.result))
    for stack in shape.stacks:
        elements = [b.load_at(word, 0) for word in stack.sizes]
        known = tensor_dims(stack.value.type)
        for axis, dim in enumerate(known):  # with no iteration, sizes that are known anyway still hold
            if e.sizes.has(dim):
                elements[axis] = e.size(dim)
        sizes = [*elements[: stack.axis], count, *elements[stack.axis :]]
        bind_sizes(e, op, stack.result, sizes)
        e.places[stack.result] = stack.place or Place(b.load_at(stack.block, 0, PTR), True)


def rehome(e: EntryBuilder, op: Operation, homes: Sequence[Dim | str]) -> None:
    """Results that are written straight into an output say so."""
    for result, home in zip(op.results, homes, strict=True):
        if isinstance(home, str) and home.startswith("output:"):
            e.places[result] = Place(e.places[result].pointer, True, home)


def lower_loop(e: EntryBuilder, op: Operation) -> None:
    """onnx.Loop: body (number, condition, states...) -> (condition, states..., stacked values...)."""
    assert isinstance(op, onnx.LoopOp)
    b = e.b
    block, end = body_of(op, 0)
    count = len(op.v_initial)
    homes = homes_of(op, "kernel.outputs", len(op.results))
    carried = homes_of(op, "kernel.carried", len(block.args))
    trips = b.int(UNLIMITED) if op.M is None else b.load_at(e.pointer(op.M), 0)
    go = None if op.cond is None else is_true(e, e.pointer(op.cond))
    states = make_states(e, op, block.args[2:], end.operands[1 : 1 + count], homes, carried[2:])
    stacks = make_stacks(e, end.operands[1 + count :], op.results[count:], homes[count:])
    numbers, conditions = b.words(1), b.words(1)

    def start(e: EntryBuilder, number: SSAValue) -> None:
        b.store_at(number, numbers, 0)
        b.store(b.const(1, I8), conditions, 1)
        e.places[block.args[0]] = Place(numbers, False, ("number", op))
        e.places[block.args[1]] = Place(conditions, False, ("condition", op))

    ends = None if op.cond is None else end.operands[0]  # without a condition before, the body's is ignored
    shape = LoopShape(op, block, states, stacks, start, ends)
    made = run_loop(e, shape, op.v_initial, trips, go)
    leave_loop(e, op, shape, op.v_initial, made)
    rehome(e, op, homes)


def lower_scan(e: EntryBuilder, op: Operation) -> None:
    """onnx.Scan: one iteration for each slice of the scan inputs, forwards or backwards along their axes."""
    assert isinstance(op, onnx.ScanOp)
    b = e.b
    block, end = body_of(op, 0)
    scans = onnx.attr(op, "num_scan_inputs")
    count = len(op.operands) - scans
    homes = homes_of(op, "kernel.outputs", len(op.results))
    carried = homes_of(op, "kernel.carried", len(block.args))
    sources = list(op.operands[count:])
    axes = axes_of(op, "scan_input_axes", [len(tensor_dims(v.type)) for v in sources])
    backwards = onnx.attr(op, "scan_input_directions") or [0] * scans
    trips = e.size(tensor_dims(sources[0].type)[axes[0]])
    for source, axis in zip(sources[1:], axes[1:], strict=True):
        other = e.size(tensor_dims(source.type)[axis])
        e.guard(b.icmp("eq", other, trips), "guard", "scan inputs have {0} and {1} slices", [other, trips], node_of(op))
    states = make_states(e, op, block.args[:count], end.operands[:count], homes, carried)
    stacks = make_stacks(e, end.operands[count:], op.results[count:], homes[count:])
    out_axes = axes_of(op, "scan_output_axes", [len(tensor_dims(r.type)) for r in op.results[count:]])
    out_backwards = onnx.attr(op, "scan_output_directions") or [0] * len(stacks)
    for stack, axis, back in zip(stacks, out_axes, out_backwards, strict=True):
        stack.axis, stack.backwards = axis, bool(back)
        if stack.place is None and (axis or back):
            stack.place = room_for(e, op, stack.result)
    cut = [
        None if axis == 0 else e.home(home, argument).pointer
        for axis, home, argument in zip(axes, carried[count:], block.args[count:], strict=True)
    ]

    def start(e: EntryBuilder, number: SSAValue) -> None:
        for argument, source, axis, back, own in zip(block.args[count:], sources, axes, backwards, cut, strict=True):
            place = b.sub(b.sub(trips, b.int(1)), number) if back else number
            sizes = sizes_of(e, source)
            rest = [*sizes[:axis], *sizes[axis + 1 :]]
            inner, outer = slice_sizes(e, argument.type, rest, axis)
            pointer = b.at_byte(e.pointer(source), b.mul(place, inner))
            for own_axis, dim in enumerate(tensor_dims(argument.type)):
                symbol = bare_symbol(dim)
                if symbol is not None and not e.sizes.has(dim):
                    e.bind_symbol(symbol, rest[own_axis], e.size_of(argument, own_axis))
            if own is not None:
                copy_slices(e, own, inner, pointer, b.mul(trips, inner), inner, outer, axis)
                pointer = own
            e.places[argument] = Place(pointer, False, ("slice", argument))

    shape = LoopShape(op, block, states, stacks, start)
    made = run_loop(e, shape, op.operands[:count], trips, None)
    leave_loop(e, op, shape, op.operands[:count], made)
    rehome(e, op, homes)


def axes_of(op: Operation, name: str, ranks: Sequence[int]) -> list[int]:
    """The attribute's axes, counted from the front; 0 where it is absent."""
    axes: list[int] = onnx.attr(op, name) or [0] * len(ranks)
    return [axis + rank if axis < 0 else axis for axis, rank in zip(axes, ranks, strict=True)]


def slice_sizes(e: EntryBuilder, type_: Attribute, sizes: Sequence[SSAValue], axis: int) -> tuple[SSAValue, SSAValue]:
    """Bytes of one row of a slice taken along `axis`, and how many rows it has; `sizes` are the slice's."""
    assert isinstance(type_, TensorType)
    inner = e.b.int(element_bytes(type_.element_type))
    for size in sizes[axis:]:
        inner = e.b.times(inner, size)
    outer = e.b.int(1)
    for size in sizes[:axis]:
        outer = e.b.times(outer, size)
    return inner, outer


def copy_slices(
    e: EntryBuilder,
    target: SSAValue,
    target_step: SSAValue,
    source: SSAValue,
    source_step: SSAValue,
    size: SSAValue,
    rows: SSAValue,
    axis: int,
) -> None:
    """Copies rows of `size` bytes between memory with these distances from row to row."""
    b = e.b
    if axis == 0:
        e.copy(target, source, size)
        return
    head, row, done = b.new_block(I64), b.new_block(), b.new_block()
    b.br(head, [b.int(0)])
    at = b.at(head)[0]
    b.branch(b.icmp("slt", at, rows), row, done)
    b.at(row)
    e.copy(b.at_byte(target, b.mul(at, target_step)), b.at_byte(source, b.mul(at, source_step)), size)
    b.br(head, [b.add(at, b.int(1))])
    b.at(done)
