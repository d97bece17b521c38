"""The llvm and llvmx dialects as LLVM IR text.

`emit(module)` prints every function, in reverse postorder of its blocks, with block arguments as phis.  Nothing is
dropped in silence: an op, type or attribute that is not in the tables below is a `CompilerBug`-worthy
`NotImplementedError` with the op's name.  Names are made here (`%v0`, `b0`); symbols must be plain identifiers, so no
text of a model can get into the module.

The module's attribute `sx.target` (`#target.cpu<...>`) gives CPU and features of all functions.  A function's argument
attributes (`llvm.noalias`, `llvm.align`, ...) and its `llvmx.attrs` are printed; other discardable attributes that the
compiler keeps for people (`origin`, ...) are known by name and left out.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.hints import isa

from ..dialects import llvmx
from ..dialects.target import Target, TargetAttr

IGNORED_ATTRIBUTES = frozenset({"origin", "llvmx.attrs"})
"""Discardable attributes that say nothing to LLVM, or that are printed elsewhere."""

ARGUMENT_FLAGS = {
    "llvm.noalias": "noalias",
    "llvm.nonnull": "nonnull",
    "llvm.noundef": "noundef",
    "llvm.readonly": "readonly",
    "llvm.writeonly": "writeonly",
    "llvm.nocapture": "captures(none)",
    "llvm.nofree": "nofree",
}
ARGUMENT_NUMBERS = {"llvm.align": "align {}", "llvm.dereferenceable": "dereferenceable({})"}

LINKAGES = {"external": "", "internal": "internal ", "private": "private "}

SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


class EmitError(NotImplementedError):
    """The emitter met something that it does not know how to print: a bug of whoever made the module."""


def emit(module: ModuleOp) -> str:
    """LLVM IR text of a module of `llvm.func` and `llvm.mlir.global`; raises `EmitError` on anything unknown."""
    return _ModuleEmitter(module).text()


# --- types and constants ---


def type_text(type_: Attribute) -> str:
    """LLVM's spelling of a type."""
    if isinstance(type_, VectorType):
        if len(type_.shape) != 1 or any(scalable for scalable in type_.scalable_dims):
            raise EmitError(f"no LLVM type for {type_}")
        return f"<{type_.get_shape()[0]} x {type_text(type_.element_type)}>"
    if isinstance(type_, IntegerType):
        return f"i{type_.width.data}"
    if isinstance(type_, llvm.LLVMArrayType):
        return f"[{type_.size.data} x {type_text(type_.type)}]"
    if isinstance(type_, llvm.LLVMStructType):
        return "{ " + ", ".join(type_text(t) for t in type_.types) + " }"
    text = SCALAR_TYPES.get(type(type_))
    if text is None:
        raise EmitError(f"no LLVM type for {type_}")
    return text


SCALAR_TYPES: dict[type[Attribute], str] = {
    Float16Type: "half",
    BFloat16Type: "bfloat",
    Float32Type: "float",
    Float64Type: "double",
    llvm.LLVMPointerType: "ptr",
    llvm.LLVMVoidType: "void",
}


def float_text(value: float, type_: Attribute) -> str:
    """A constant by its bits: LLVM rounds no decimal text, and takes f32 as the hex of the double of the same value."""
    if isinstance(type_, Float64Type):
        return f"0x{_double_bits(value):016X}"
    if isinstance(type_, Float32Type):
        return f"0x{_double_bits(_to_f32(value)):016X}"
    if isinstance(type_, Float16Type):
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if isinstance(type_, BFloat16Type):
        bits = struct.unpack("<I", struct.pack("<f", _to_f32(value)))[0]
        if bits & 0xFFFF:
            raise EmitError(f"{value} is no bf16")
        return f"0xR{bits >> 16:04X}"
    raise EmitError(f"no float constant of {type_}")


def _double_bits(value: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def _to_f32(value: float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def scalar_text(value: int | float, type_: Attribute) -> str:
    """One element of a constant."""
    if isinstance(type_, IntegerType):
        if type_.width.data == 1:
            return "true" if value else "false"
        return str(int(value))
    return float_text(float(value), type_)


def constant_text(value: Attribute, type_: Attribute) -> str:
    """The literal of a `llvm.mlir.constant`."""
    if isinstance(value, IntegerAttr):
        return scalar_text(value.value.data, type_)
    if isinstance(value, FloatAttr):
        return scalar_text(value.value.data, type_)
    if isinstance(value, DenseIntOrFPElementsAttr):
        return _dense_text(value, type_)
    raise EmitError(f"no literal for {value}")


def _dense_text(value: DenseIntOrFPElementsAttr, type_: Attribute) -> str:
    if isinstance(type_, VectorType):
        element, opening, closing = type_.element_type, "<", ">"
    elif isinstance(type_, llvm.LLVMArrayType):
        element, opening, closing = type_.type, "[", "]"
    else:
        raise EmitError(f"no literal of {type_}")
    kind = type_text(element)
    values = value.get_values()
    if isinstance(type_, VectorType) and value.is_splat():
        return f"splat ({kind} {scalar_text(_real(values[0]), element)})"
    return opening + ", ".join(f"{kind} {scalar_text(_real(v), element)}" for v in values) + closing


def _real(value: object) -> int | float:
    if isinstance(value, int | float):
        return value
    raise EmitError(f"no literal for {value}")


# --- blocks ---


def successors(op: Operation) -> Iterator[tuple[Block, Sequence[SSAValue]]]:
    """The edges that leave a terminator, with the values that they carry."""
    if isinstance(op, llvm.BrOp):
        yield op.successor, op.operands
    elif isinstance(op, llvm.CondBrOp):
        yield op.then_block, op.then_arguments
        yield op.else_block, op.else_arguments
    elif isinstance(op, llvmx.SwitchOp):
        for block in op.successors:
            yield block, ()
    elif not isinstance(op, llvm.ReturnOp | llvm.UnreachableOp):
        raise EmitError(f"{op.name} ends no block")


def reverse_postorder(entry: Block) -> list[Block]:
    """The reachable blocks, each (but for back edges) after its predecessors."""
    order: list[Block] = []
    seen = {entry}
    stack = [(entry, _next_blocks(entry))]
    while stack:
        block, rest = stack[-1]
        for successor in rest:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, _next_blocks(successor)))
                break
        else:
            stack.pop()
            order.append(block)
    order.reverse()
    return order


def _next_blocks(block: Block) -> Iterator[Block]:
    terminator = block.last_op
    if terminator is None:
        raise EmitError("an empty block")
    # the last successor is visited first and so comes last: a loop's body before its exit
    return iter([target for target, _ in successors(terminator)][::-1])


# --- functions ---


class _Names(dict[SSAValue, str]):
    """The text of each value: a literal for a constant, else a name made at the first use."""

    def __missing__(self, value: SSAValue) -> str:
        owner = value.owner
        if isinstance(owner, llvm.ConstantOp):
            text = constant_text(owner.value, owner.result.type)
        elif isinstance(owner, llvmx.SplatOp) and isinstance(owner.input.owner, llvm.ConstantOp):
            text = f"splat ({type_text(owner.input.type)} {self[owner.input]})"
        elif isinstance(owner, llvmx.PoisonOp):
            text = "poison"
        elif isinstance(owner, llvm.UndefOp):
            text = "undef"
        elif isinstance(owner, llvm.ZeroOp):
            text = "null" if isinstance(owner.res.type, llvm.LLVMPointerType) else "zeroinitializer"
        elif isinstance(owner, llvm.AddressOfOp):
            text = "@" + symbol_text(owner.global_name)
        else:
            text = f"%v{len(self)}"
        self[value] = text
        return text


def symbol_text(symbol: SymbolRefAttr | StringAttr) -> str:
    """A symbol that is safe to print; raises `EmitError` on others."""
    name = symbol.root_reference.data if isinstance(symbol, SymbolRefAttr) else symbol.data
    if not SYMBOL.fullmatch(name):
        raise EmitError(f"not a plain symbol: {name!r}")
    return name


class _Function:
    """Prints one function body; `lines` are those of the whole module."""

    def __init__(self, module: _ModuleEmitter) -> None:
        self.module = module
        self.lines = module.lines
        self.names = _Names()
        self._types: dict[int, str] = {}
        self.labels: dict[Block, str] = {}

    def type(self, value: SSAValue) -> str:
        """The text of a value's type (types are shared objects mostly, so their identity is a quick key)."""
        type_ = value.type
        text = self._types.get(id(type_))
        if text is None:
            text = self._types[id(type_)] = type_text(type_)
        return text

    def typed(self, value: SSAValue) -> str:
        return f"{self.type(value)} {self.names[value]}"

    def body(self, op: llvm.FuncOp) -> None:
        blocks = reverse_postorder(op.body.blocks[0])
        self.labels = {block: f"b{i}" for i, block in enumerate(blocks)}
        incoming = self._incoming(blocks)
        if incoming.get(blocks[0]):
            raise EmitError("a jump to a function's first block")
        emitters, lines = EMITTERS, self.lines
        for block in blocks:
            lines.append(self.labels[block] + ":")
            if block is not blocks[0]:
                self._phis(block, incoming[block])
            for inner in block.ops:
                if inner.attributes and not IGNORED_ATTRIBUTES.issuperset(inner.attributes):
                    raise EmitError(f"unknown attributes {sorted(inner.attributes)} on {inner.name}")
                emitter = emitters.get(type(inner))
                if emitter is None:
                    raise EmitError(f"{inner.name} has no LLVM text")
                emitter(self, inner)

    def _incoming(self, blocks: Sequence[Block]) -> dict[Block, list[tuple[str, Sequence[SSAValue]]]]:
        """The edges into each block as (label that they come from, values); double edges get a label of their own."""
        edges: dict[Block, list[tuple[str, Sequence[SSAValue]]]] = {}
        for block in blocks:
            terminator = block.last_op
            assert terminator is not None
            label = self.labels[block]
            seen: set[Block] = set()
            for i, (target, values) in enumerate(successors(terminator)):
                origin = self.split_label(label, i) if target in seen and target.args else label
                if target not in seen or target.args:
                    edges.setdefault(target, []).append((origin, values))
                seen.add(target)
        return edges

    @staticmethod
    def split_label(label: str, edge: int) -> str:
        return f"{label}.e{edge}"

    def _phis(self, block: Block, edges: list[tuple[str, Sequence[SSAValue]]]) -> None:
        names = self.names
        for i, arg in enumerate(block.args):
            choices = ", ".join(f"[ {names[values[i]]}, %{label} ]" for label, values in edges)
            self.lines.append(f"  {names[arg]} = phi {self.type(arg)} {choices}")


Emitter = Callable[[_Function, Operation], None]


def _nothing(f: _Function, op: Operation) -> None:
    """A literal: printed where it is used."""


def _binary(opcode: str) -> Emitter:
    def emitter(f: _Function, op: Operation) -> None:
        lhs, rhs = op.operands
        names = f.names
        result = op.results[0]
        f.lines.append(f"  {names[result]} = {opcode} {f.type(result)} {names[lhs]}, {names[rhs]}")

    return emitter


def _overflow(opcode: str) -> Emitter:
    flags = ("", " nsw", " nuw", " nuw nsw")

    def emitter(f: _Function, op: Operation) -> None:
        lhs, rhs = op.operands
        names = f.names
        result = op.results[0]
        flag = op.properties.get("overflowFlags")
        mark = flags[flag.value.data] if isinstance(flag, IntegerAttr) else ""
        f.lines.append(f"  {names[result]} = {opcode}{mark} {f.type(result)} {names[lhs]}, {names[rhs]}")

    return emitter


def _flagged(opcode: str, name: str, mark: str) -> Emitter:
    """A binary op with one flag that is a unit property."""

    def emitter(f: _Function, op: Operation) -> None:
        lhs, rhs = op.operands
        names = f.names
        result = op.results[0]
        flag = f" {mark}" if name in op.properties else ""
        f.lines.append(f"  {names[result]} = {opcode}{flag} {f.type(result)} {names[lhs]}, {names[rhs]}")

    return emitter


def _fast(op: Operation) -> str:
    flags = op.properties.get("fastmathFlags")
    if not isinstance(flags, llvm.FastMathAttr) or not flags.data:
        return ""
    return " " + " ".join(sorted(flag.value for flag in flags.data))


def _float_binary(opcode: str) -> Emitter:
    def emitter(f: _Function, op: Operation) -> None:
        lhs, rhs = op.operands
        names = f.names
        result = op.results[0]
        f.lines.append(f"  {names[result]} = {opcode}{_fast(op)} {f.type(result)} {names[lhs]}, {names[rhs]}")

    return emitter


def _fneg(f: _Function, op: Operation) -> None:
    f.lines.append(f"  {f.names[op.results[0]]} = fneg{_fast(op)} {f.typed(op.operands[0])}")


def _cast(opcode: str) -> Emitter:
    def emitter(f: _Function, op: Operation) -> None:
        result = op.results[0]
        f.lines.append(f"  {f.names[result]} = {opcode} {f.typed(op.operands[0])} to {f.type(result)}")

    return emitter


def _llvmx_cast(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvmx.CastOp)
    f.lines.append(f"  {f.names[op.result]} = {op.kind.data} {f.typed(op.input)} to {f.type(op.result)}")


def _trunc(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvm.TruncOp)
    flags = op.overflowFlags.data if op.overflowFlags is not None else ()
    mark = "".join(sorted(f" {flag.value}" for flag in flags))
    f.lines.append(f"  {f.names[op.res]} = trunc{mark} {f.typed(op.arg)} to {f.type(op.res)}")


def _zext(f: _Function, op: Operation) -> None:
    mark = " nneg" if "nonNeg" in op.properties else ""
    result = op.results[0]
    f.lines.append(f"  {f.names[result]} = zext{mark} {f.typed(op.operands[0])} to {f.type(result)}")


ICMP = tuple(flag.value for flag in llvm.ICmpPredicateFlag)


def _icmp(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvm.ICmpOp)
    predicate = ICMP[op.predicate.value.data]
    f.lines.append(f"  {f.names[op.res]} = icmp {predicate} {f.typed(op.lhs)}, {f.names[op.rhs]}")


def _llvm_fcmp(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvm.FCmpOp)
    predicate = llvm.FCmpPredicateFlag.from_int(op.predicate.value.data).value.removeprefix("_")
    f.lines.append(f"  {f.names[op.res]} = fcmp{_fast(op)} {predicate} {f.typed(op.lhs)}, {f.names[op.rhs]}")


def _fcmp(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvmx.FCmpOp)
    lhs, rhs = op.operands
    f.lines.append(f"  {f.names[op.results[0]]} = fcmp {op.predicate.data} {f.typed(lhs)}, {f.names[rhs]}")


def _select(f: _Function, op: Operation) -> None:
    condition, lhs, rhs = op.operands
    f.lines.append(
        f"  {f.names[op.results[0]]} = select{_fast(op)} {f.typed(condition)}, {f.typed(lhs)}, {f.typed(rhs)}"
    )


def _gep(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvm.GEPOp)
    dynamic = iter(op.ssa_indices)
    indices = ", ".join(
        f.typed(next(dynamic)) if index == llvm.GEP_USE_SSA_VAL else f"i32 {index}"
        for index in op.rawConstantIndices.iter_values()
    )
    mark = "inbounds " if op.inbounds is not None else ""
    if op.noWrapFlags.value.data:
        raise EmitError("getelementptr with no-wrap flags")
    f.lines.append(
        f"  {f.names[op.result]} = getelementptr {mark}{type_text(op.elem_type)}, ptr {f.names[op.ptr]}, {indices}"
    )


def _alignment(op: Operation) -> str:
    alignment = op.properties.get("alignment")
    return f", align {alignment.value.data}" if isinstance(alignment, IntegerAttr) else ""


def _plain_ordering(op: Operation) -> None:
    ordering = op.properties.get("ordering")
    if isinstance(ordering, IntegerAttr) and ordering.value.data:
        raise EmitError(f"an atomic {op.name}: use llvmx.atomic_load or llvmx.atomic_store")


def _load(f: _Function, op: Operation) -> None:
    _plain_ordering(op)
    result = op.results[0]
    f.lines.append(f"  {f.names[result]} = load {f.type(result)}, ptr {f.names[op.operands[0]]}{_alignment(op)}")


def _store(f: _Function, op: Operation) -> None:
    _plain_ordering(op)
    value, pointer = op.operands
    volatile = "volatile " if "volatile_" in op.properties else ""
    hint = f", !nontemporal {f.module.nontemporal()}" if "nontemporal" in op.properties else ""
    f.lines.append(f"  store {volatile}{f.typed(value)}, ptr {f.names[pointer]}{_alignment(op)}{hint}")


def _nontemporal_store(f: _Function, op: Operation) -> None:
    value, pointer = op.operands
    hint = f.module.nontemporal()
    f.lines.append(f"  store {f.typed(value)}, ptr {f.names[pointer]}{_alignment(op)}, !nontemporal {hint}")


def _alloca(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvm.AllocaOp)
    f.lines.append(f"  {f.names[op.res]} = alloca {type_text(op.elem_type)}, {f.typed(op.size)}{_alignment(op)}")


def _br(f: _Function, op: Operation) -> None:
    f.lines.append(f"  br label %{f.labels[op.successors[0]]}")


def _cond_br(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvm.CondBrOp)
    first, second = op.then_block, op.else_block
    condition = f.names[op.cond]
    then_label, else_label = f.labels[first], f.labels[second]
    if first is second and first.args and op.parent is not None:
        split = f.split_label(f.labels[op.parent], 1)
        f.lines.append(f"  br i1 {condition}, label %{then_label}, label %{split}")
        f.lines.append(f"{split}:")
        f.lines.append(f"  br label %{else_label}")
    else:
        f.lines.append(f"  br i1 {condition}, label %{then_label}, label %{else_label}")


def _switch(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvmx.SwitchOp)
    kind = f.type(op.value)
    cases = " ".join(
        f"{kind} {case}, label %{f.labels[target]}" for case, target in zip(op.cases.iter_values(), op.targets)
    )
    f.lines.append(f"  switch {f.typed(op.value)}, label %{f.labels[op.default]} [ {cases} ]")


def _return(f: _Function, op: Operation) -> None:
    f.lines.append(f"  ret {f.typed(op.operands[0])}" if op.operands else "  ret void")


def _unreachable(f: _Function, op: Operation) -> None:
    f.lines.append("  unreachable")


def _call_text(f: _Function, op: Operation, callee: str, args: Sequence[SSAValue], fast: str = "") -> None:
    arguments = ", ".join(map(f.typed, args))
    if op.results:
        result = op.results[0]
        f.lines.append(f"  {f.names[result]} = call{fast} {f.type(result)} {callee}({arguments})")
    else:
        f.lines.append(f"  call void {callee}({arguments})")


def _call(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvm.CallOp)
    plain = op.CConv.convention.data == "ccc" and op.TailCallKind.data == llvm.TailCallKind.NONE
    if op.callee is None or op.var_callee_type is not None or op.op_bundle_operands or not plain:
        raise EmitError("llvm.call that is not a plain call of a symbol")
    _call_text(f, op, "@" + symbol_text(op.callee), op.args, _fast(op))


def _call_indirect(f: _Function, op: Operation) -> None:
    callee, *args = op.operands
    _call_text(f, op, f.names[callee], args)


def _intrinsic(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvmx.IntrinsicOp)
    name = op.intrinsic.data
    args = op.operands
    result = f.type(op.results[0]) if op.results else "void"
    f.module.declare(name, result, [f.type(arg) for arg in args])
    flags = op.fastmath
    fast = "" if flags is None else " " + " ".join(flag.data for flag in flags)
    _call_text(f, op, "@" + name, args, fast)


def vector_suffix(type_: Attribute) -> str:
    """How LLVM writes a type into an intrinsic's name: `v16f32`, `i64`, `bf16`, `p0`."""
    if isinstance(type_, VectorType):
        return f"v{type_.get_shape()[0]}{vector_suffix(type_.element_type)}"
    if isinstance(type_, llvm.LLVMPointerType):
        return "p0"
    return str(type_)


def _align_number(op: Operation) -> int:
    alignment = op.properties["alignment"]
    assert isinstance(alignment, IntegerAttr)
    return alignment.value.data


def _masked_load(f: _Function, op: Operation) -> None:
    pointer, mask, passthru = op.operands
    result = op.results[0]
    name = f"llvm.masked.load.{vector_suffix(result.type)}.p0"
    kind = f.type(result)
    f.module.declare(name, kind, ["ptr", f.type(mask), kind])
    f.lines.append(
        f"  {f.names[result]} = call {kind} @{name}(ptr align {_align_number(op)} {f.names[pointer]},"
        f" {f.typed(mask)}, {f.typed(passthru)})"
    )


def _masked_store(f: _Function, op: Operation) -> None:
    value, pointer, mask = op.operands
    name = f"llvm.masked.store.{vector_suffix(value.type)}.p0"
    f.module.declare(name, "void", [f.type(value), "ptr", f.type(mask)])
    f.lines.append(
        f"  call void @{name}({f.typed(value)}, ptr align {_align_number(op)} {f.names[pointer]}, {f.typed(mask)})"
    )


def _lane_pointers(f: _Function, vector: Attribute, pointer: SSAValue, offsets: SSAValue) -> tuple[str, str]:
    """Emits the address of each lane; gives the type and the name of that vector of pointers."""
    assert isinstance(vector, VectorType)
    kind = f"<{vector.get_shape()[0]} x ptr>"
    name = f"%g{len(f.lines)}"
    element = type_text(vector.element_type)
    f.lines.append(f"  {name} = getelementptr inbounds {element}, ptr {f.names[pointer]}, {f.typed(offsets)}")
    return kind, name


def _gather(f: _Function, op: Operation) -> None:
    pointer, offsets, mask, passthru = op.operands
    result = op.results[0]
    pointers, name = _lane_pointers(f, result.type, pointer, offsets)
    intrinsic = f"llvm.masked.gather.{vector_suffix(result.type)}.v{pointers.split()[0][1:]}p0"
    kind = f.type(result)
    f.module.declare(intrinsic, kind, [pointers, f.type(mask), kind])
    f.lines.append(
        f"  {f.names[result]} = call {kind} @{intrinsic}({pointers} align {_align_number(op)} {name},"
        f" {f.typed(mask)}, {f.typed(passthru)})"
    )


def _scatter(f: _Function, op: Operation) -> None:
    value, pointer, offsets, mask = op.operands
    pointers, name = _lane_pointers(f, value.type, pointer, offsets)
    intrinsic = f"llvm.masked.scatter.{vector_suffix(value.type)}.v{pointers.split()[0][1:]}p0"
    f.module.declare(intrinsic, "void", [f.type(value), pointers, f.type(mask)])
    f.lines.append(
        f"  call void @{intrinsic}({f.typed(value)}, {pointers} align {_align_number(op)} {name}, {f.typed(mask)})"
    )


def _splat(f: _Function, op: Operation) -> None:
    value, result = op.operands[0], op.results[0]
    if isinstance(value.owner, llvm.ConstantOp):
        return  # a literal
    kind = f.type(result)
    name = f.names[result]
    lanes = llvmx.lanes_of(result.type)
    f.lines.append(f"  {name}.s = insertelement {kind} poison, {f.typed(value)}, i64 0")
    f.lines.append(f"  {name} = shufflevector {kind} {name}.s, {kind} poison, <{lanes} x i32> zeroinitializer")


def _extract_element(f: _Function, op: Operation) -> None:
    vector, index = op.operands
    f.lines.append(f"  {f.names[op.results[0]]} = extractelement {f.typed(vector)}, {f.typed(index)}")


def _insert_element(f: _Function, op: Operation) -> None:
    vector, value, index = op.operands
    f.lines.append(f"  {f.names[op.results[0]]} = insertelement {f.typed(vector)}, {f.typed(value)}, {f.typed(index)}")


def _shuffle(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvm.ShuffleVectorOp)
    lhs, rhs = op.operands
    mask = list(op.mask.iter_values())
    lanes = ", ".join("i32 poison" if lane < 0 else f"i32 {lane}" for lane in mask)
    f.lines.append(
        f"  {f.names[op.results[0]]} = shufflevector {f.typed(lhs)}, {f.typed(rhs)}, <{len(mask)} x i32> <{lanes}>"
    )


def _extract_value(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvm.ExtractValueOp)
    position = ", ".join(map(str, op.position.iter_values()))
    f.lines.append(f"  {f.names[op.results[0]]} = extractvalue {f.typed(op.operands[0])}, {position}")


def _natural(f: _Function, value: SSAValue) -> int:
    """The alignment that atomics need: the size."""
    type_ = value.type
    return type_.width.data // 8 if isinstance(type_, IntegerType) else 8


def _atomic_load(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvmx.AtomicLoadOp)
    f.lines.append(
        f"  {f.names[op.results[0]]} = load atomic {f.type(op.results[0])}, ptr {f.names[op.pointer]}"
        f" {op.ordering.data}, align {_natural(f, op.results[0])}"
    )


def _atomic_store(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvmx.AtomicStoreOp)
    f.lines.append(
        f"  store atomic {f.typed(op.operands[0])}, ptr {f.names[op.pointer]} {op.ordering.data},"
        f" align {_natural(f, op.operands[0])}"
    )


def _atomic_rmw(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvmx.AtomicRMWOp)
    pointer, value = op.operands
    f.lines.append(
        f"  {f.names[op.results[0]]} = atomicrmw {op.kind.data} ptr {f.names[pointer]}, {f.typed(value)}"
        f" {op.ordering.data}, align {_natural(f, value)}"
    )


def _cmpxchg(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvmx.CompareExchangeOp)
    pointer, expected, desired = op.operands
    previous, stored = op.results
    pair = f"{{ {f.type(expected)}, i1 }}"
    name = f.names[previous]
    f.lines.append(
        f"  {name}.p = cmpxchg ptr {f.names[pointer]}, {f.typed(expected)}, {f.typed(desired)}"
        f" {op.success.data} {op.failure.data}, align {_natural(f, expected)}"
    )
    f.lines.append(f"  {name} = extractvalue {pair} {name}.p, 0")
    f.lines.append(f"  {f.names[stored]} = extractvalue {pair} {name}.p, 1")


def _fence(f: _Function, op: Operation) -> None:
    assert isinstance(op, llvmx.FenceOp)
    f.lines.append(f"  fence {op.ordering.data}")


EMITTERS: dict[type[Operation], Emitter] = {
    llvm.ConstantOp: _nothing,
    llvm.UndefOp: _nothing,
    llvm.ZeroOp: _nothing,
    llvm.AddressOfOp: _nothing,
    llvmx.PoisonOp: _nothing,
    llvm.AddOp: _overflow("add"),
    llvm.SubOp: _overflow("sub"),
    llvm.MulOp: _overflow("mul"),
    llvm.ShlOp: _overflow("shl"),
    llvm.UDivOp: _flagged("udiv", "isExact", "exact"),
    llvm.SDivOp: _flagged("sdiv", "isExact", "exact"),
    llvm.LShrOp: _flagged("lshr", "isExact", "exact"),
    llvm.AShrOp: _flagged("ashr", "isExact", "exact"),
    llvm.OrOp: _flagged("or", "isDisjoint", "disjoint"),
    llvm.URemOp: _binary("urem"),
    llvm.SRemOp: _binary("srem"),
    llvm.AndOp: _binary("and"),
    llvm.XOrOp: _binary("xor"),
    llvm.FAddOp: _float_binary("fadd"),
    llvm.FSubOp: _float_binary("fsub"),
    llvm.FMulOp: _float_binary("fmul"),
    llvm.FDivOp: _float_binary("fdiv"),
    llvm.FRemOp: _float_binary("frem"),
    llvm.FNegOp: _fneg,
    llvm.TruncOp: _trunc,
    llvm.ZExtOp: _zext,
    llvm.SExtOp: _cast("sext"),
    llvm.BitcastOp: _cast("bitcast"),
    llvm.SIToFPOp: _cast("sitofp"),
    llvm.FPExtOp: _cast("fpext"),
    llvm.FPTruncOp: _cast("fptrunc"),
    llvm.IntToPtrOp: _cast("inttoptr"),
    llvm.PtrToIntOp: _cast("ptrtoint"),
    llvmx.CastOp: _llvmx_cast,
    llvm.ICmpOp: _icmp,
    llvm.FCmpOp: _llvm_fcmp,
    llvmx.FCmpOp: _fcmp,
    llvm.SelectOp: _select,
    llvmx.SelectOp: _select,
    llvm.GEPOp: _gep,
    llvm.LoadOp: _load,
    llvm.StoreOp: _store,
    llvmx.NontemporalStoreOp: _nontemporal_store,
    llvm.AllocaOp: _alloca,
    llvm.BrOp: _br,
    llvm.CondBrOp: _cond_br,
    llvmx.SwitchOp: _switch,
    llvm.ReturnOp: _return,
    llvm.UnreachableOp: _unreachable,
    llvm.CallOp: _call,
    llvmx.CallIndirectOp: _call_indirect,
    llvmx.IntrinsicOp: _intrinsic,
    llvmx.MaskedLoadOp: _masked_load,
    llvmx.MaskedStoreOp: _masked_store,
    llvmx.GatherOp: _gather,
    llvmx.ScatterOp: _scatter,
    llvmx.SplatOp: _splat,
    llvmx.ExtractElementOp: _extract_element,
    llvm.InsertElementOp: _insert_element,
    llvm.ShuffleVectorOp: _shuffle,
    llvm.ExtractValueOp: _extract_value,
    llvmx.AtomicLoadOp: _atomic_load,
    llvmx.AtomicStoreOp: _atomic_store,
    llvmx.AtomicRMWOp: _atomic_rmw,
    llvmx.CompareExchangeOp: _cmpxchg,
    llvmx.FenceOp: _fence,
}


# --- modules ---


class _ModuleEmitter:
    """Prints a module; collects what functions need outside of themselves."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self.groups: dict[str, int] = {}
        self._nontemporal = False

    def declare(self, name: str, result: str, args: Sequence[str]) -> None:
        """Notes an intrinsic that is called."""
        text = f"declare {result} @{name}({', '.join(args)})"
        if self.declarations.setdefault(name, text) != text:
            raise EmitError(f"{name} is used with two types")

    def nontemporal(self) -> str:
        self._nontemporal = True
        return "!0"

    def text(self) -> str:
        target = self._target()
        if target is not None:
            self.lines.append(f'target triple = "{target.triple}"')
        for op in self.module.body.block.ops:
            if isinstance(op, llvm.FuncOp):
                self._function(op)
            elif isinstance(op, llvm.GlobalOp):
                self._global(op)
            else:
                raise EmitError(f"{op.name} in a module")
        self.lines.extend(self.declarations.values())
        self.lines.extend(f"attributes #{number} = {{ {text} }}" for text, number in self.groups.items())
        if self._nontemporal:
            self.lines.append("!0 = !{i32 1}")
        self.lines.append("")
        return "\n".join(self.lines)

    def _target(self) -> Target | None:
        attribute = self.module.attributes.get("sx.target")
        if attribute is None:
            return None
        if not isinstance(attribute, TargetAttr):
            raise EmitError(f"sx.target is {attribute}")
        target = attribute.data
        for text in (target.cpu, target.features, target.triple):
            if not re.fullmatch(r"[A-Za-z0-9_.,+-]*", text):
                raise EmitError(f"not the name of a CPU or of features: {text!r}")
        return target

    def _target_attributes(self) -> list[str]:
        target = self._target()
        if target is None:
            return []
        texts = [f'"target-cpu"="{target.cpu}"', f'"target-features"="{target.features}"']
        if target.vector_bytes == 64:
            texts.append('"prefer-vector-width"="512"')
        return texts

    def _group(self, op: llvm.FuncOp) -> str:
        attrs = op.attributes.get("llvmx.attrs")
        names = sorted(_texts(attrs)) if attrs is not None else []
        for name in names:
            if name not in llvmx.FUNCTION_ATTRIBUTES:
                raise EmitError(f"unknown function attribute {name!r}")
        text = " ".join([*names, *(self._target_attributes() if op.body.blocks else [])])
        if not text:
            return ""
        return f" #{self.groups.setdefault(text, len(self.groups))}"

    def _function(self, op: llvm.FuncOp) -> None:
        unknown = set(op.attributes) - IGNORED_ATTRIBUTES
        if unknown or op.CConv.convention.data != "ccc" or op.function_type.is_variadic or op.res_attrs:
            raise EmitError(f"llvm.func with {sorted(unknown) or 'an unknown convention'}")
        function = _Function(self)
        result = type_text(op.function_type.output)
        name = symbol_text(op.sym_name)
        if not op.body.blocks:
            args = ", ".join(type_text(t) + self._argument(op, i) for i, t in enumerate(op.function_type.inputs))
            self.lines.append(f"declare {result} @{name}({args}){self._group(op)}")
            return
        linkage = LINKAGES.get(op.linkage.linkage.data)
        if linkage is None:
            raise EmitError(f"linkage {op.linkage.linkage.data}")
        args = ", ".join(
            f"{type_text(arg.type)}{self._argument(op, i)} {function.names[arg]}"
            for i, arg in enumerate(op.body.blocks[0].args)
        )
        self.lines.append(f"define {linkage}{result} @{name}({args}){self._group(op)} {{")
        function.body(op)
        self.lines.append("}")

    def _argument(self, op: llvm.FuncOp, index: int) -> str:
        if op.arg_attrs is None:
            return ""
        return "".join(f" {text}" for text in _argument_texts(op.arg_attrs.data[index]))

    def _global(self, op: llvm.GlobalOp) -> None:
        if op.thread_local_ or op.section or op.body.blocks or op.addr_space.value.data or op.attributes:
            raise EmitError("llvm.mlir.global with more than a value")
        linkage = LINKAGES.get(op.linkage.linkage.data)
        if linkage is None:
            raise EmitError(f"linkage {op.linkage.linkage.data}")
        kind = "constant" if op.constant is not None else "global"
        value = "zeroinitializer" if op.value is None else constant_text(op.value, op.global_type)
        self.lines.append(
            f"@{symbol_text(op.sym_name)} = {linkage}{kind} {type_text(op.global_type)} {value}{_alignment(op)}"
        )


def _texts(attrs: Attribute) -> list[str]:
    if not isa(attrs, ArrayAttr[StringAttr]):
        raise EmitError(f"llvmx.attrs is {attrs}")
    return [text.data for text in attrs]


def _argument_texts(attrs: DictionaryAttr) -> Iterator[str]:
    for name, value in attrs.data.items():
        if name in ARGUMENT_FLAGS and isinstance(value, UnitAttr):
            yield ARGUMENT_FLAGS[name]
        elif name in ARGUMENT_NUMBERS and isinstance(value, IntegerAttr):
            yield ARGUMENT_NUMBERS[name].format(value.value.data)
        else:
            raise EmitError(f"unknown argument attribute {name} = {value}")
