"""The entry's straight-line ops: kernel calls, views, constants, symbols, host operators, the return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, ComplexType, IntegerType, Signedness, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from ..dialects import dims, kernel, onnx
from ..dialects.dims import Dim, ShapeAttr
from ..dialects.dims.interval import SIZE_LIMIT
from ..dialects.dims.text import brief, told_size
from ..runtime.abi import WORD, ErrorCode, ErrorWord, Slot
from ..runtime.manifest import Host
from ..semantics.facts import Condition
from .entry_builder import EntryBuilder
from .entry_sizes import ANY, bare_symbol
from .entry_values import (
    EntryError,
    Place,
    element_bytes,
    escaped,
    homes_of,
    host_result,
    host_value,
    is_object,
    name_of,
    node_of,
    tensor_dims,
)
from .llvm_types import I1, I8, I16, I32, I64, PTR, is_float

CALLS_BETWEEN_POLLS = 8


def call_kernel(e: EntryBuilder, op: Operation) -> None:
    """Stores dims, inputs, outputs and scratch as the kernel's arguments and calls it.

    A call with `dims.binds` and `dims.upper` (for each symbol, the most that it can be) gives results of a size that
    only the kernel finds: they get room for the most, and behind them the kernel gets a pointer to int64 words, one for
    each symbol, which it sets. The content is contiguous for the sizes that were set.
    """
    assert isinstance(op, kernel.CallOp)
    b = e.b
    name = op.callee.string_value()
    info = e.kernels.get(name)
    if info is None:
        raise EntryError(f"no kernel @{name}")
    homes = homes_of(op, "kernel.outputs", len(op.results))
    upper = upper_bounds(op)
    results = [e.home(home, result, most(result.type, upper)) for home, result in zip(homes, op.results, strict=True)]
    found = b.words(len(upper)) if upper else None
    scratch, top = scratch_of(e, op)
    words = [
        *(e.size(dim) for dim in op.dims.data),
        *(e.pointer(value) for value in op.operands),
        *(place.pointer for place in results),
        *([] if found is None else [found]),
        scratch,
    ]
    for word, value in enumerate(words):
        e.store_word(word, value)
    base = e.tables.base(op, info) if info.checks else 0
    e.note(node_of(op), base)
    e.called.setdefault(info.symbol)
    status = e.timed_call(op, lambda: b.value_of(info.symbol, [e.context, e.call_words], I32))
    if top is not None:
        b.store_at(top, e.context, WORD * Slot.DYNAMIC_TOP)
    if info.checks:
        e.go_on_if(b.icmp("eq", status, b.int32(0)), e.fail)
        e.check_record()
    if found is not None:
        bind_found(e, op, upper, found)
    e.places.update(zip(op.results, results, strict=True))
    e.calls += 1
    if e.calls % CALLS_BETWEEN_POLLS == 0:
        e.poll()


def upper_bounds(op: Operation) -> dict[str, Dim]:
    """The symbols that a kernel sets, with the most that each can be."""
    binds, upper = op.attributes.get("dims.binds"), op.attributes.get("dims.upper")
    if binds is None:
        return {}
    if not isa(binds, ArrayAttr[StringAttr]) or not isinstance(upper, ShapeAttr) or len(binds) != len(upper.data):
        raise EntryError(f"{op.name} has dims.binds without as many dims.upper")
    return {symbol.data: most for symbol, most in zip(binds, upper.data, strict=True)}


def most(type_: Attribute, upper: Mapping[str, Dim]) -> Attribute:
    """The tensor type at its largest."""
    if not upper or not isinstance(type_, TensorType):
        return type_
    return dims.tensor_type(type_.element_type, [dim.subs(upper) for dim in tensor_dims(type_)])


def bind_found(e: EntryBuilder, op: Operation, upper: Mapping[str, Dim], found: SSAValue) -> None:
    """Binds the symbols to what the kernel has set."""
    b = e.b
    for index, (symbol, most) in enumerate(upper.items()):
        value, limit = b.load_at(found, WORD * index), e.size(most)
        within = b.and_(b.icmp("sge", value, b.int(0)), b.icmp("sle", value, limit))
        message = f"a kernel found the size {{0}} for {symbol}, which is at most {{1}}"
        e.guard(within, "guard", message, [value, limit], node_of(op))
        e.bind_symbol(symbol, value, found_by(e, op, symbol))


def found_by(e: EntryBuilder, op: Operation, symbol: str) -> str:
    """The size that a kernel finds, as the size of one of its results."""
    for result in op.results:
        for axis, dim in enumerate(tensor_dims(result.type)):
            if bare_symbol(dim) == symbol:
                return e.size_of(result, axis)
    return "a size that a kernel finds"


def scratch_of(e: EntryBuilder, op: Operation) -> tuple[SSAValue, SSAValue | None]:
    """A kernel's scratch: its place in the arena, or new memory and where the growing region ended before."""
    b = e.b
    planned, size = op.attributes.get("kernel.scratch"), op.attributes.get("kernel.scratch_bytes")
    if isinstance(planned, ShapeAttr):
        return e.arena_pointer(planned.data[0]), None
    if isinstance(size, ShapeAttr):
        made = next((result for result in op.results if onnx.value_name(result) is not None), op.results[0])
        pointer = e.allocate(e.size(size.data[0]), f"what makes {e.called_of(made)}")
        return pointer, pointer
    return b.null(), None


def view(e: EntryBuilder, op: Operation) -> None:
    """The same memory, or a part of it."""
    assert isinstance(op, kernel.ViewOp)
    place = e.place(op.source)
    if op.offset is not None:
        [offset] = op.offset.data
        type_ = op.source.type
        assert isinstance(type_, TensorType)
        start = e.size(offset * element_bytes(type_.element_type))
        place = Place(e.b.at_byte(place.pointer, start), place.lasting, ("part", place.home, offset, op.result.type))
    e.places[op.result] = place


def fill(e: EntryBuilder, op: Operation) -> None:
    """Writes the value where the scheduler wants it; of an unmade one, what reads it does that."""
    assert isinstance(op, kernel.FillOp)
    (home,) = homes_of(op, "kernel.outputs", 1)
    if home == UNMADE:
        return
    place = e.home(home, op.result)
    write_fill(e, op, place.pointer)
    e.places[op.result] = place


UNMADE = "unmade"
"""The home of a fill that only begins loops."""


def write_fill(e: EntryBuilder, op: kernel.FillOp, target: SSAValue) -> None:
    """Fills memory: with zeros at once, else one element, then twice as many each time."""
    b = e.b
    content = onnx.dense_array(op.value).tobytes()
    size = e.bytes_of(op.result)
    if not any(content):
        b.call_intrinsic("llvm.memset.p0.i64", [target, b.const(0, I8), size, b.const(0, I1)])
        return
    some, more, twice, done = b.new_block(), b.new_block(I64), b.new_block(), b.new_block()
    b.branch(b.icmp("eq", size, b.int(0)), done, some)
    b.at(some)
    for at, byte in enumerate(content):
        b.store(b.const(byte, I8), b.at_byte(target, at), 1)
    b.br(more, [b.int(len(content))])
    (there,) = b.at(more)
    b.branch(b.icmp("ult", there, size), twice, done)
    b.at(twice)
    e.copy(b.at_byte(target, there), target, b.smin(there, b.sub(size, there)))
    b.br(more, [b.add(there, there)])
    b.at(done)


def constant(e: EntryBuilder, op: Operation) -> None:
    """A weight; an input that the caller may replace is where the caller says; strings come from a host."""
    result = op.results[0]
    if result in e.places:
        return
    if is_object(result.type):
        call_host(e, op)
    else:
        e.places[result] = e.constant(op)


def bind(e: EntryBuilder, op: Operation) -> None:
    """Loads each element and binds it to its symbol, within the range that the program relies on.

    The least and the largest int64 are shown as no values where they may stand for others, as those of floats do.
    """
    assert isinstance(op, dims.BindOp)
    b = e.b
    type_ = op.source.type
    assert isinstance(type_, TensorType)
    name = onnx.value_name(op.source)
    told = op.attributes.get(dims.TOLD_BY)
    if name is not None:
        subject = f"'{name}'"
    elif isa(told, ArrayAttr[StringAttr]):
        subject = told_size([text.data for text in told])
    else:
        subject = f"a size that {source_of(e, op.source)} gives"
    is_exact = name is not None and isinstance(type_.element_type, IntegerType)
    for index, symbol in enumerate(op.symbols):
        value = load_element(e, e.pointer(op.source), type_.element_type, index)
        limit = ANY
        if op.lower is not None and op.upper is not None:
            low, high = op.lower.data[index], op.upper.data[index]
            lower, upper = e.size(low), e.size(high)
            within = b.and_(b.icmp("sge", value, lower), b.icmp("sle", value, upper))
            if not is_exact:
                ends = (b.icmp("ne", value, b.int(end)) for end in (2**63 - 1, -(2**63)))
                said = f"{escaped(subject)} has a value that is no int64, out of the range from {{0}} to {{1}}"
                e.guard(b.and_(*ends), "guard", said, [lower, upper], node_of(op))
            message = f"{escaped(subject)} has the value {{0}}, out of the range from {{1}} to {{2}}"
            e.guard(within, "guard", message, [value, lower, upper], node_of(op))
            if low.is_const and high.is_const:
                limit = float(max(abs(low.value), abs(high.value)))
        what = f"element {index} of {subject}" if name is not None else subject
        e.bind_symbol(symbol.data, value, what, limit)


def source_of(e: EntryBuilder, value: SSAValue) -> str:
    """What an unnamed value is computed from: the nearest value with a name, no constant if there is another.

    Else what a symbol is that it is computed from.
    """
    waiting, seen = [value], set[SSAValue]()
    constant = symbol = ""
    while waiting:
        value = waiting.pop(0)
        name = onnx.value_name(value)
        owner = value.owner
        if name and not isinstance(owner, onnx.InitializerOp | onnx.ConstantOp):
            return f"'{name}'"
        constant = constant or name or ""
        if isinstance(owner, kernel.CallOp) and not symbol:
            symbols = (s for d in owner.dims.data for s in d.symbols)
            symbol = next((e.bound_at[s] for s in sorted(symbols) if s in e.bound_at), "")
        if isinstance(owner, Operation):
            waiting += [v for v in owner.operands if v not in seen]
            seen.update(owner.operands)
    return symbol or (f"'{constant}'" if constant else "a computed value")


def load_element(e: EntryBuilder, pointer: SSAValue, element: Attribute, index: int) -> SSAValue:
    """An element of a number tensor as i64; floats are cut; what is no int64 becomes the nearest, NaN the largest."""
    b = e.b
    size = element_bytes(element)
    memory = MEMORY_TYPES.get(size) if isinstance(element, IntegerType) else element
    if memory is None or isinstance(element, ComplexType):
        raise EntryError(f"no size comes from an element of {element}")
    at = b.at_byte(pointer, index * size)
    value = b.load(at, memory, size)
    if is_float(memory):
        number = b.raw_intrinsic(f"llvm.fptosi.sat.i64.{memory}", [value], I64)
        return b.select(b.fcmp("uno", value, value), b.int(2**63 - 1), number)
    if size == WORD:
        return value
    unsigned = isinstance(element, IntegerType) and (
        element.signedness.data == Signedness.UNSIGNED or element.width.data == 1
    )
    return b.cast("zext" if unsigned else "sext", value, I64)


MEMORY_TYPES = {1: I8, 2: I16, 4: I32, 8: I64}


def assume(e: EntryBuilder, op: Operation) -> None:
    """A guard, where its symbols are bound."""
    assert isinstance(op, dims.AssumeOp)
    why = op.why.data if op.why is not None else ""
    e.assume(op, Condition.parse(op.condition.data), why)


def tensor_of_dims(e: EntryBuilder, op: Operation) -> None:
    """Writes the expressions' values."""
    assert isinstance(op, dims.TensorOp)
    b = e.b
    result = op.result
    type_ = result.type
    assert isinstance(type_, TensorType)
    (home,) = homes_of(op, "kernel.outputs", 1)
    place = e.home(home, result)
    element = type_.element_type
    size = element_bytes(element)
    for index, expression in enumerate(op.exprs.data):
        number = e.size(expression)
        if isinstance(element, IntegerType):
            memory = MEMORY_TYPES[size]
            value = number if size == WORD else b.cast("trunc", number, memory)
        else:
            value = b.cast("sitofp", number, element)
        b.store(value, b.at_byte(place.pointer, index * size), size)
    e.places[result] = place


def call_host(e: EntryBuilder, op: Operation) -> None:
    """Calls the op back: pointers and sizes of operands and results as words, new memory and symbols read back."""
    b = e.b
    if op.regions:
        raise EntryError(f"{op.name} has a body, which no host operator can run")
    operands: list[SSAValue | None] = list(op.operands)
    if isinstance(op, (onnx.OnnxOp, onnx.PositionedOp)):
        operands = op.formal_operands()
    host: Host = {
        "name": onnx.operator_name(op),
        "node": node_of(op),
        "inputs": [host_value(None if v is None else v.type) for v in operands],
        "outputs": [host_result(r.type) for r in op.results],
    }
    homes = homes_of(op, "kernel.outputs", len(op.results)) if "kernel.outputs" in op.attributes else ["dynamic"]
    words: list[SSAValue] = []
    for value in operands:
        words.append(b.int(0) if value is None else as_word(e, e.pointer(value)))
        if value is not None and not is_object(value.type):
            words.extend(e.size(dim) for dim in tensor_dims(value.type))
    starts: list[int] = []
    for home, result in zip(homes, op.results, strict=True):
        starts.append(len(words))
        if is_object(result.type):
            words.append(b.int(0))
            words.extend(e.size(d) if e.sizes.has(d) else b.int(0) for d in tensor_dims(result.type))
            continue
        known = all(e.sizes.has(dim) for dim in tensor_dims(result.type))
        place = e.home(home, result) if known else None
        if place is not None:
            e.places[result] = place
        words.append(b.int(0) if place is None else as_word(e, place.pointer))
        words.extend(e.size(d) if e.sizes.has(d) else b.int(0) for d in tensor_dims(result.type))
    block = b.words(len(words))
    for index, word in enumerate(words):
        b.store_at(word, block, WORD * index)
    number = len(e.tables.hosts)
    e.tables.hosts.append(host)
    e.tables.hosted.append(op)
    e.note(node_of(op), 0)
    call = b.load_at(e.context, WORD * Slot.HOST_CALL, PTR)
    arguments = [e.context, b.int(number), block]
    status = e.timed_call(op, lambda: b.value_of_pointer(call, arguments, I32))
    failed = b.new_block()
    e.go_on_if(b.icmp("eq", status, b.int32(0)), failed)
    on = b.block
    b.at(failed)
    b.store_at(b.int(ErrorCode.CALLBACK), e.error, WORD * ErrorWord.CODE)
    b.br(e.fail)
    b.at(on)
    for start, result in zip(starts, op.results, strict=True):
        read_back(e, op, block, start, result)


def as_word(e: EntryBuilder, pointer: SSAValue) -> SSAValue:
    """A pointer or an object's number as a word."""
    return pointer if pointer.type == I64 else e.b.as_int(pointer)


def read_back(e: EntryBuilder, op: Operation, block: SSAValue, start: int, result: SSAValue) -> None:
    """What a host has set: an object's number, or a new tensor's pointer and sizes."""
    b = e.b
    if result in e.places:
        return
    e.places[result] = Place(b.load_at(block, WORD * start, I64 if is_object(result.type) else PTR), True)
    sizes = [b.load_at(block, WORD * (start + 1 + axis)) for axis in range(len(tensor_dims(result.type)))]
    bind_sizes(e, op, result, sizes)


def bind_sizes(e: EntryBuilder, op: Operation, result: SSAValue, sizes: Sequence[SSAValue]) -> None:
    """Binds the symbols of a result's axes to the sizes that it turned out to have, and checks the other axes."""
    b = e.b
    known: list[tuple[int, Dim]] = []
    for axis, dim in enumerate(tensor_dims(result.type)):
        symbol = bare_symbol(dim)
        if symbol is None or e.sizes.has(dim):
            known.append((axis, dim))
            continue
        message = f"axis {axis} of '{escaped(name_of(result, op.name))}' has size {{0}}, out of the range of sizes"
        e.guard(b.icmp("ult", sizes[axis], b.int(SIZE_LIMIT)), "guard", message, [sizes[axis]], node_of(op))
        e.bind_symbol(symbol, sizes[axis], e.size_of(result, axis))
    for axis, dim in known:
        message = f"axis {axis} of '{escaped(name_of(result, op.name))}' has size {{0}}, expected {{1}} = {brief(dim)}"
        expected = e.size(dim)
        e.guard(b.icmp("eq", sizes[axis], expected), "guard", message, [sizes[axis], expected], node_of(op))


def finish(e: EntryBuilder, op: Operation) -> None:
    """Copies results that were made elsewhere into their outputs, and returns 0."""
    b = e.b
    for index, value in enumerate(op.operands):
        place = e.place(value)
        if is_object(value.type):
            b.store_at(place.pointer, e.args, WORD * (e.first_output + index))
        elif place.home != f"output:{index}":
            target = e.outputs[index] if index in e.outputs else e.output_pointer(index)
            e.copy(target, place.pointer, e.bytes_of(value))
    e.note_time(len(e.steps), e.began)
    b.ret(b.int32(0))
