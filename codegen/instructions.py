"""The instructions of LLVM IR, by the operations of the llvm and llvmx dialects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import llvmx
from .literals import EmitError, constant_text, symbol_text, type_text
from .llvm_types import suffix


class Names(dict[SSAValue, str]):
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


class ModuleText:
    """The lines of the module being printed, and what its functions need outside of themselves."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self.metadata: dict[str, str] = {}

    def declare(self, name: str, result: str, args: Sequence[str]) -> None:
        """Notes an intrinsic that is called."""
        text = f"declare {result} @{name}({', '.join(args)})"
        if self.declarations.setdefault(name, text) != text:
            raise EmitError(f"{name} is used with two types")

    def node(self, content: str) -> str:
        """The name of a metadata node."""
        return self.metadata.setdefault(content, f"!{len(self.metadata)}")

    def nontemporal(self) -> str:
        """The metadata node that marks a store."""
        return self.node("!{i32 1}")


class FunctionText:
    """What is known of the function being printed: the names of its values and blocks; `lines` are the module's."""

    def __init__(self, module: ModuleText) -> None:
        self.module = module
        self.lines = module.lines
        self.names = Names()
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

    @staticmethod
    def split_label(label: str, edge: int) -> str:
        """The block in the middle of a jump's edge of that number."""
        return f"{label}.e{edge}"


Instruction = Callable[[FunctionText, Operation], None]


def _nothing(f: FunctionText, op: Operation) -> None:
    """A literal: printed where it is used."""


def _binary(opcode: str) -> Instruction:
    def instruction(f: FunctionText, op: Operation) -> None:
        lhs, rhs = op.operands
        names = f.names
        result = op.results[0]
        f.lines.append(f"  {names[result]} = {opcode} {f.type(result)} {names[lhs]}, {names[rhs]}")

    return instruction


def _overflow(opcode: str) -> Instruction:
    flags = ("", " nsw", " nuw", " nuw nsw")

    def instruction(f: FunctionText, op: Operation) -> None:
        lhs, rhs = op.operands
        names = f.names
        result = op.results[0]
        flag = op.properties.get("overflowFlags")
        mark = flags[flag.value.data] if isinstance(flag, IntegerAttr) else ""
        f.lines.append(f"  {names[result]} = {opcode}{mark} {f.type(result)} {names[lhs]}, {names[rhs]}")

    return instruction


def _flagged(opcode: str, name: str, mark: str) -> Instruction:
    """A binary op with one flag that is a unit property."""

    def instruction(f: FunctionText, op: Operation) -> None:
        lhs, rhs = op.operands
        names = f.names
        result = op.results[0]
        flag = f" {mark}" if name in op.properties else ""
        f.lines.append(f"  {names[result]} = {opcode}{flag} {f.type(result)} {names[lhs]}, {names[rhs]}")

    return instruction


def _fast(op: Operation) -> str:
    flags = op.properties.get("fastmathFlags")
    if not isinstance(flags, llvm.FastMathAttr) or not flags.data:
        return ""
    return " " + " ".join(sorted(flag.value for flag in flags.data))


def _float_binary(opcode: str) -> Instruction:
    def instruction(f: FunctionText, op: Operation) -> None:
        lhs, rhs = op.operands
        names = f.names
        result = op.results[0]
        f.lines.append(f"  {names[result]} = {opcode}{_fast(op)} {f.type(result)} {names[lhs]}, {names[rhs]}")

    return instruction


def _fneg(f: FunctionText, op: Operation) -> None:
    f.lines.append(f"  {f.names[op.results[0]]} = fneg{_fast(op)} {f.typed(op.operands[0])}")


def _cast(opcode: str) -> Instruction:
    def instruction(f: FunctionText, op: Operation) -> None:
        result = op.results[0]
        f.lines.append(f"  {f.names[result]} = {opcode} {f.typed(op.operands[0])} to {f.type(result)}")

    return instruction


def _llvmx_cast(f: FunctionText, op: Operation) -> None:
    assert isinstance(op, llvmx.CastOp)
    f.lines.append(f"  {f.names[op.result]} = {op.kind.data} {f.typed(op.input)} to {f.type(op.result)}")


def _trunc(f: FunctionText, op: Operation) -> None:
    assert isinstance(op, llvm.TruncOp)
    flags = op.overflowFlags.data if op.overflowFlags is not None else ()
    mark = "".join(sorted(f" {flag.value}" for flag in flags))
    f.lines.append(f"  {f.names[op.res]} = trunc{mark} {f.typed(op.arg)} to {f.type(op.res)}")


def _zext(f: FunctionText, op: Operation) -> None:
    mark = " nneg" if "nonNeg" in op.properties else ""
    result = op.results[0]
    f.lines.append(f"  {f.names[result]} = zext{mark} {f.typed(op.operands[0])} to {f.type(result)}")


ICMP = tuple(flag.value for flag in llvm.ICmpPredicateFlag)


def _icmp(f: FunctionText, op: Operation) -> None:
    assert isinstance(op, llvm.ICmpOp)
    predicate = ICMP[op.predicate.value.data]
    f.lines.append(f"  {f.names[op.res]} = icmp {predicate} {f.typed(op.lhs)}, {f.names[op.rhs]}")


def _llvm_fcmp(f: FunctionText, op: Operation) -> None:
    assert isinstance(op, llvm.FCmpOp)
    predicate = llvm.FCmpPredicateFlag.from_int(op.predicate.value.data).value.removeprefix("_")
    f.lines.append(f"  {f.names[op.res]} = fcmp{_fast(op)} {predicate} {f.typed(op.lhs)}, {f.names[op.rhs]}")


def _fcmp(f: FunctionText, op: Operation) -> None:
    assert isinstance(op, llvmx.FCmpOp)
    lhs, rhs = op.operands
    f.lines.append(f"  {f.names[op.results[0]]} = fcmp {op.predicate.data} {f.typed(lhs)}, {f.names[rhs]}")


def _select(f: FunctionText, op: Operation) -> None:
    condition, lhs, rhs = op.operands
    f.lines.append(
        f"  {f.names[op.results[0]]} = select{_fast(op)} {f.typed(condition)}, {f.typed(lhs)}, {f.typed(rhs)}"
    )


def _gep(f: FunctionText, op: Operation) -> None:
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


def alignment_text(op: Operation) -> str:
    alignment = op.properties.get("alignment")
    return f", align {alignment.value.data}" if isinstance(alignment, IntegerAttr) else ""


def _plain_ordering(op: Operation) -> None:
    ordering = op.properties.get("ordering")
    if isinstance(ordering, IntegerAttr) and ordering.value.data:
        raise EmitError(f"an atomic {op.name}: use llvmx.atomic_load or llvmx.atomic_store")


def _load(f: FunctionText, op: Operation) -> None:
    _plain_ordering(op)
    result = op.results[0]
    f.lines.append(f"  {f.names[result]} = load {f.type(result)}, ptr {f.names[op.operands[0]]}{alignment_text(op)}")


def _store(f: FunctionText, op: Operation) -> None:
    _plain_ordering(op)
    value, pointer = op.operands
    volatile = "volatile " if "volatile_" in op.properties else ""
    hint = f", !nontemporal {f.module.nontemporal()}" if "nontemporal" in op.properties else ""
    f.lines.append(f"  store {volatile}{f.typed(value)}, ptr {f.names[pointer]}{alignment_text(op)}{hint}")


def _nontemporal_store(f: FunctionText, op: Operation) -> None:
    value, pointer = op.operands
    hint = f.module.nontemporal()
    f.lines.append(f"  store {f.typed(value)}, ptr {f.names[pointer]}{alignment_text(op)}, !nontemporal {hint}")


def _alloca(f: FunctionText, op: Operation) -> None:
    assert isinstance(op, llvm.AllocaOp)
    f.lines.append(f"  {f.names[op.res]} = alloca {type_text(op.elem_type)}, {f.typed(op.size)}{alignment_text(op)}")


def _br(f: FunctionText, op: Operation) -> None:
    f.lines.append(f"  br label %{f.labels[op.successors[0]]}")


def _cond_br(f: FunctionText, op: Operation) -> None:
    assert isinstance(op, llvm.CondBrOp)
    first, second = op.then_block, op.else_block
    condition = f.names[op.cond]
    then_label, else_label = f.labels[first], f.labels[second]
    weights = op.attributes.get(llvmx.WEIGHTS)
    hint = ""
    if isinstance(weights, DenseArrayBase):
        taken, other = weights.get_values()
        content = f'!{{!"branch_weights", i32 {taken}, i32 {other}}}'
        hint = f", !prof {f.module.node(content)}"
    if first is second and first.args and op.parent is not None:
        split = f.split_label(f.labels[op.parent], 1)
        f.lines.append(f"  br i1 {condition}, label %{then_label}, label %{split}{hint}")
        f.lines.append(f"{split}:")
        f.lines.append(f"  br label %{else_label}")
    else:
        f.lines.append(f"  br i1 {condition}, label %{then_label}, label %{else_label}{hint}")


def _switch(f: FunctionText, op: Operation) -> None:
    assert isinstance(op, llvmx.SwitchOp)
    kind = f.type(op.value)
    cases = " ".join(
        f"{kind} {case}, label %{f.labels[target]}" for case, target in zip(op.cases.iter_values(), op.targets)
    )
    f.lines.append(f"  switch {f.typed(op.value)}, label %{f.labels[op.default]} [ {cases} ]")


def _return(f: FunctionText, op: Operation) -> None:
    f.lines.append(f"  ret {f.typed(op.operands[0])}" if op.operands else "  ret void")


def _unreachable(f: FunctionText, op: Operation) -> None:
    f.lines.append("  unreachable")


def _call_text(f: FunctionText, op: Operation, callee: str, args: Sequence[SSAValue], fast: str = "") -> None:
    arguments = ", ".join(map(f.typed, args))
    if op.results:
        result = op.results[0]
        f.lines.append(f"  {f.names[result]} = call{fast} {f.type(result)} {callee}({arguments})")
    else:
        f.lines.append(f"  call void {callee}({arguments})")


def _call(f: FunctionText, op: Operation) -> None:
    assert isinstance(op, llvm.CallOp)
    plain = op.CConv.convention.data == "ccc" and op.TailCallKind.data == llvm.TailCallKind.NONE
    if op.callee is None or op.var_callee_type is not None or op.op_bundle_operands or not plain:
        raise EmitError("llvm.call that is not a plain call of a symbol")
    _call_text(f, op, "@" + symbol_text(op.callee), op.args, _fast(op))


def _call_indirect(f: FunctionText, op: Operation) -> None:
    callee, *args = op.operands
    _call_text(f, op, f.names[callee], args)


def _intrinsic(f: FunctionText, op: Operation) -> None:
    assert isinstance(op, llvmx.IntrinsicOp)
    name = op.intrinsic.data
    args = op.operands
    result = f.type(op.results[0]) if op.results else "void"
    f.module.declare(name, result, [f.type(arg) for arg in args])
    flags = op.fastmath
    fast = "" if flags is None else " " + " ".join(flag.data for flag in flags)
    _call_text(f, op, "@" + name, args, fast)


def _align_number(op: Operation) -> int:
    alignment = op.properties["alignment"]
    assert isinstance(alignment, IntegerAttr)
    return alignment.value.data


def _masked_load(f: FunctionText, op: Operation) -> None:
    pointer, mask, passthru = op.operands
    result = op.results[0]
    name = f"llvm.masked.load.{suffix(result.type)}.p0"
    kind = f.type(result)
    f.module.declare(name, kind, ["ptr", f.type(mask), kind])
    f.lines.append(
        f"  {f.names[result]} = call {kind} @{name}(ptr align {_align_number(op)} {f.names[pointer]},"
        f" {f.typed(mask)}, {f.typed(passthru)})"
    )


def _masked_store(f: FunctionText, op: Operation) -> None:
    value, pointer, mask = op.operands
    name = f"llvm.masked.store.{suffix(value.type)}.p0"
    f.module.declare(name, "void", [f.type(value), "ptr", f.type(mask)])
    f.lines.append(
        f"  call void @{name}({f.typed(value)}, ptr align {_align_number(op)} {f.names[pointer]}, {f.typed(mask)})"
    )


def _lane_pointers(f: FunctionText, vector: Attribute, pointer: SSAValue, offsets: SSAValue) -> tuple[str, str]:
    """Emits the address of each lane; gives the type and the name of that vector of pointers."""
    assert isinstance(vector, VectorType)
    kind = f"<{vector.get_shape()[0]} x ptr>"
    name = f"%g{len(f.lines)}"
    element = type_text(vector.element_type)
    f.lines.append(f"  {name} = getelementptr inbounds {element}, ptr {f.names[pointer]}, {f.typed(offsets)}")
    return kind, name


def _gather(f: FunctionText, op: Operation) -> None:
    pointer, offsets, mask, passthru = op.operands
    result = op.results[0]
    pointers, name = _lane_pointers(f, result.type, pointer, offsets)
    intrinsic = f"llvm.masked.gather.{suffix(result.type)}.v{pointers.split()[0][1:]}p0"
    kind = f.type(result)
    f.module.declare(intrinsic, kind, [pointers, f.type(mask), kind])
    f.lines.append(
        f"  {f.names[result]} = call {kind} @{intrinsic}({pointers} align {_align_number(op)} {name},"
        f" {f.typed(mask)}, {f.typed(passthru)})"
    )


def _scatter(f: FunctionText, op: Operation) -> None:
    value, pointer, offsets, mask = op.operands
    pointers, name = _lane_pointers(f, value.type, pointer, offsets)
    intrinsic = f"llvm.masked.scatter.{suffix(value.type)}.v{pointers.split()[0][1:]}p0"
    f.module.declare(intrinsic, "void", [f.type(value), pointers, f.type(mask)])
    f.lines.append(
        f"  call void @{intrinsic}({f.typed(value)}, {pointers} align {_align_number(op)} {name}, {f.typed(mask)})"
    )


def _freeze(f: FunctionText, op: Operation) -> None:
    f.lines.append(f"  {f.names[op.results[0]]} = freeze {f.typed(op.operands[0])}")


def _splat(f: FunctionText, op: Operation) -> None:
    value, result = op.operands[0], op.results[0]
    if isinstance(value.owner, llvm.ConstantOp):
        return  # a literal
    kind = f.type(result)
    name = f.names[result]
    lanes = llvmx.lanes_of(result.type)
    f.lines.append(f"  {name}.s = insertelement {kind} poison, {f.typed(value)}, i64 0")
    f.lines.append(f"  {name} = shufflevector {kind} {name}.s, {kind} poison, <{lanes} x i32> zeroinitializer")


def _extract_element(f: FunctionText, op: Operation) -> None:
    vector, index = op.operands
    f.lines.append(f"  {f.names[op.results[0]]} = extractelement {f.typed(vector)}, {f.typed(index)}")


def _insert_element(f: FunctionText, op: Operation) -> None:
    vector, value, index = op.operands
    f.lines.append(f"  {f.names[op.results[0]]} = insertelement {f.typed(vector)}, {f.typed(value)}, {f.typed(index)}")


def _shuffle(f: FunctionText, op: Operation) -> None:
    assert isinstance(op, llvm.ShuffleVectorOp)
    lhs, rhs = op.operands
    mask = list(op.mask.iter_values())
    lanes = ", ".join("i32 poison" if lane < 0 else f"i32 {lane}" for lane in mask)
    f.lines.append(
        f"  {f.names[op.results[0]]} = shufflevector {f.typed(lhs)}, {f.typed(rhs)}, <{len(mask)} x i32> <{lanes}>"
    )


def _extract_value(f: FunctionText, op: Operation) -> None:
    assert isinstance(op, llvm.ExtractValueOp)
    position = ", ".join(map(str, op.position.iter_values()))
    f.lines.append(f"  {f.names[op.results[0]]} = extractvalue {f.typed(op.operands[0])}, {position}")


def _natural(f: FunctionText, value: SSAValue) -> int:
    """The alignment that atomics need: the size."""
    type_ = value.type
    return type_.width.data // 8 if isinstance(type_, IntegerType) else 8


def _atomic_load(f: FunctionText, op: Operation) -> None:
    assert isinstance(op, llvmx.AtomicLoadOp)
    f.lines.append(
        f"  {f.names[op.results[0]]} = load atomic {f.type(op.results[0])}, ptr {f.names[op.pointer]}"
        f" {op.ordering.data}, align {_natural(f, op.results[0])}"
    )


def _atomic_store(f: FunctionText, op: Operation) -> None:
    assert isinstance(op, llvmx.AtomicStoreOp)
    f.lines.append(
        f"  store atomic {f.typed(op.operands[0])}, ptr {f.names[op.pointer]} {op.ordering.data},"
        f" align {_natural(f, op.operands[0])}"
    )


def _atomic_rmw(f: FunctionText, op: Operation) -> None:
    assert isinstance(op, llvmx.AtomicRMWOp)
    pointer, value = op.operands
    f.lines.append(
        f"  {f.names[op.results[0]]} = atomicrmw {op.kind.data} ptr {f.names[pointer]}, {f.typed(value)}"
        f" {op.ordering.data}, align {_natural(f, value)}"
    )


def _cmpxchg(f: FunctionText, op: Operation) -> None:
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


def _fence(f: FunctionText, op: Operation) -> None:
    assert isinstance(op, llvmx.FenceOp)
    f.lines.append(f"  fence {op.ordering.data}")


INSTRUCTIONS: Mapping[type[Operation], Instruction] = {
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
    llvmx.FreezeOp: _freeze,
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
