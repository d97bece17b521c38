"""What xDSL's llvm dialect lacks, so that the last inspectable level says all that the LLVM text will say.

Vector compares and selects, the missing conversions, masked and scattered memory accesses, atomics with their
ordering, any intrinsic by its mangled name, indirect calls and switches.  `codegen/llvm_text.py` prints both dialects.

Functions carry what xDSL's `llvm.func` cannot print and parse back as the discardable attribute `llvmx.attrs`, an
array of LLVM's function attributes as text (`["nounwind", "noinline"]`), checked against `FUNCTION_ATTRIBUTES`.
A conditional branch that mostly goes one way has `llvmx.weights`, how often it is taken for how often it is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    I1,
    AnyFloatConstr,
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    VectorType,
    i64,
)
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute, Block, Dialect, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    successor_def,
    traits_def,
    var_operand_def,
    var_successor_def,
)
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

FUNCTION_ATTRIBUTES = frozenset(
    {"nounwind", "noinline", "alwaysinline", "cold", "minsize", "mustprogress", "willreturn"}
)
"""What `llvmx.attrs` of a function may hold."""

WEIGHTS = "llvmx.weights"
"""Of a conditional branch: two numbers."""

FCMP_PREDICATES = ("oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno")

CASTS = ("fptosi", "fptoui", "sitofp", "uitofp", "fpext", "fptrunc", "bitcast", "zext", "sext", "trunc")

ORDERINGS = ("monotonic", "acquire", "release", "acq_rel", "seq_cst")

RMW_KINDS = ("xchg", "add", "sub", "and", "or", "xor", "max", "min", "umax", "umin")

FAST_MATH = ("reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "fast")


def _check(kind: StringAttr, allowed: Sequence[str], what: str) -> None:
    if kind.data not in allowed:
        raise VerifyException(f"unknown {what} {kind.data!r}")


def lanes_of(type_: Attribute) -> int | None:
    """The number of lanes of a vector type, None for a scalar."""
    return type_.get_shape()[0] if isinstance(type_, VectorType) else None


@irdl_op_definition
class FCmpOp(IRDLOperation):
    """Compares floats, scalars or lane by lane: `llvmx.fcmp "olt" %a, %b : vector<16xf32> to vector<16xi1>`."""

    name = "llvmx.fcmp"
    _T: ClassVar = VarConstraint("_T", AnyFloatConstr | VectorType.constr(AnyFloatConstr))
    predicate = prop_def(StringAttr)
    lhs = operand_def(_T)
    rhs = operand_def(_T)
    result = result_def(I1 | VectorType[I1])
    traits = traits_def(Pure())
    assembly_format = "$predicate $lhs `,` $rhs attr-dict `:` type($lhs) `to` type($result)"

    def verify_(self) -> None:
        _check(self.predicate, FCMP_PREDICATES, "predicate")
        if lanes_of(self.lhs.type) != lanes_of(self.result.type):
            raise VerifyException("operands and result differ in their number of lanes")


@irdl_op_definition
class SelectOp(IRDLOperation):
    """Chooses by one condition or lane by lane: `llvmx.select %c, %a, %b : vector<16xi1>, vector<16xf32>`."""

    name = "llvmx.select"
    _T: ClassVar = VarConstraint("_T", AnyAttr())
    condition = operand_def(I1 | VectorType[I1])
    lhs = operand_def(_T)
    rhs = operand_def(_T)
    result = result_def(_T)
    traits = traits_def(Pure())
    assembly_format = "$condition `,` $lhs `,` $rhs attr-dict `:` type($condition) `,` type($result)"

    def verify_(self) -> None:
        lanes = lanes_of(self.condition.type)
        if lanes is not None and lanes != lanes_of(self.result.type):
            raise VerifyException("condition and result differ in their number of lanes")


@irdl_op_definition
class CastOp(IRDLOperation):
    """LLVM's conversion of that name, lane by lane: `llvmx.cast "uitofp" %x : vector<16xi32> to vector<16xf32>`.

    fptosi and fptoui here are LLVM's own: poison out of range (the saturating ones are intrinsics).
    """

    name = "llvmx.cast"
    kind = prop_def(StringAttr)
    input = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$kind $input attr-dict `:` type($input) `to` type($result)"

    def verify_(self) -> None:
        _check(self.kind, CASTS, "conversion")
        if self.kind.data != "bitcast" and lanes_of(self.input.type) != lanes_of(self.result.type):
            raise VerifyException("operand and result differ in their number of lanes")


@irdl_op_definition
class SplatOp(IRDLOperation):
    """One scalar in all lanes: `llvmx.splat %x : f32 to vector<16xf32>`."""

    name = "llvmx.splat"
    _E: ClassVar = VarConstraint("_E", AnyAttr())
    input = operand_def(_E)
    result = result_def(VectorType.constr(_E))
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"


@irdl_op_definition
class FreezeOp(IRDLOperation):
    """The value itself, of whose making LLVM's code generator knows nothing: `llvmx.freeze %x : i64`.

    It may write anew, in a loop, what it can see through.
    """

    name = "llvmx.freeze"
    _T: ClassVar = VarConstraint("_T", AnyAttr())
    input = operand_def(_T)
    result = result_def(_T)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input)"


@irdl_op_definition
class PoisonOp(IRDLOperation):
    """A value that is never looked at (a lane that no mask selects): `llvmx.poison : vector<16xf32>`."""

    name = "llvmx.poison"
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"


@irdl_op_definition
class ExtractElementOp(IRDLOperation):
    """One lane: `llvmx.extractelement %v[%i : i64] : vector<16xf32> to f32`."""

    name = "llvmx.extractelement"
    _E: ClassVar = VarConstraint("_E", AnyAttr())
    vector = operand_def(VectorType.constr(_E))
    index = operand_def(IntegerType)
    result = result_def(_E)
    traits = traits_def(Pure())
    assembly_format = "$vector `[` $index `:` type($index) `]` attr-dict `:` type($vector) `to` type($result)"


@irdl_op_definition
class IntrinsicOp(IRDLOperation):
    """Calls an LLVM intrinsic by its mangled name: `llvmx.intrinsic "llvm.fma.v16f32" (%a, %b, %c) : (...) -> ...`.

    `fastmath` lists flags for a floating-point call; constants where LLVM wants immediates are `llvm.mlir.constant`.
    """

    name = "llvmx.intrinsic"
    intrinsic = prop_def(StringAttr)
    fastmath = opt_prop_def(ArrayAttr[StringAttr])
    args = var_operand_def()
    result = opt_result_def()
    assembly_format = "$intrinsic `(` $args `)` (`fastmath` $fastmath^)? attr-dict `:` functional-type($args, results)"

    def verify_(self) -> None:
        name = self.intrinsic.data
        if not name.startswith("llvm.") or not all(c.isalnum() or c in "._" for c in name):
            raise VerifyException(f"not the name of an intrinsic: {name!r}")
        for flag in self.fastmath or ():
            _check(flag, FAST_MATH, "fast-math flag")


@irdl_op_definition
class MaskedLoadOp(IRDLOperation):
    """Loads the lanes that the mask selects, else `passthru`: `llvmx.masked_load %p, %m, %v {alignment = 4} : ...`."""

    name = "llvmx.masked_load"
    pointer = operand_def(LLVMPointerType)
    mask = operand_def(VectorType[I1])
    passthru = operand_def(VectorType)
    result = result_def(VectorType)
    alignment = prop_def(IntegerAttr)
    assembly_format = (
        "$pointer `,` $mask `,` $passthru `align` $alignment attr-dict `:`"
        " type($pointer) `,` type($mask) `,` type($passthru) `to` type($result)"
    )


@irdl_op_definition
class MaskedStoreOp(IRDLOperation):
    """Stores the lanes that the mask selects."""

    name = "llvmx.masked_store"
    value = operand_def(VectorType)
    pointer = operand_def(LLVMPointerType)
    mask = operand_def(VectorType[I1])
    alignment = prop_def(IntegerAttr)
    assembly_format = (
        "$value `,` $pointer `,` $mask `align` $alignment attr-dict `:` type($value) `,` type($pointer) `,` type($mask)"
    )


@irdl_op_definition
class GatherOp(IRDLOperation):
    """Loads element `offsets[lane]` behind the pointer, counted in elements of the result, where the mask is set."""

    name = "llvmx.gather"
    pointer = operand_def(LLVMPointerType)
    offsets = operand_def(VectorType)
    mask = operand_def(VectorType[I1])
    passthru = operand_def(VectorType)
    result = result_def(VectorType)
    alignment = prop_def(IntegerAttr)
    assembly_format = (
        "$pointer `[` $offsets `]` `,` $mask `,` $passthru `align` $alignment attr-dict `:`"
        " type($pointer) `,` type($offsets) `,` type($mask) `,` type($passthru) `to` type($result)"
    )


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """Stores lanes to element `offsets[lane]` behind the pointer where the mask is set, first lane first."""

    name = "llvmx.scatter"
    value = operand_def(VectorType)
    pointer = operand_def(LLVMPointerType)
    offsets = operand_def(VectorType)
    mask = operand_def(VectorType[I1])
    alignment = prop_def(IntegerAttr)
    assembly_format = (
        "$value `,` $pointer `[` $offsets `]` `,` $mask `align` $alignment attr-dict `:`"
        " type($value) `,` type($pointer) `,` type($offsets) `,` type($mask)"
    )


@irdl_op_definition
class NontemporalStoreOp(IRDLOperation):
    """A store that goes round the caches; `alignment` must be the size of the value."""

    name = "llvmx.nontemporal_store"
    value = operand_def()
    pointer = operand_def(LLVMPointerType)
    alignment = prop_def(IntegerAttr)
    assembly_format = "$value `,` $pointer `align` $alignment attr-dict `:` type($value) `,` type($pointer)"


@irdl_op_definition
class AtomicLoadOp(IRDLOperation):
    """`llvmx.atomic_load "acquire" %p : !llvm.ptr to i32`, naturally aligned."""

    name = "llvmx.atomic_load"
    ordering = prop_def(StringAttr)
    pointer = operand_def(LLVMPointerType)
    result = result_def(IntegerType | LLVMPointerType)
    assembly_format = "$ordering $pointer attr-dict `:` type($pointer) `to` type($result)"

    def verify_(self) -> None:
        _check(self.ordering, ("monotonic", "acquire", "seq_cst"), "ordering of a load")


@irdl_op_definition
class AtomicStoreOp(IRDLOperation):
    """`llvmx.atomic_store "release" %v, %p : i32, !llvm.ptr`, naturally aligned."""

    name = "llvmx.atomic_store"
    ordering = prop_def(StringAttr)
    value = operand_def(IntegerType | LLVMPointerType)
    pointer = operand_def(LLVMPointerType)
    assembly_format = "$ordering $value `,` $pointer attr-dict `:` type($value) `,` type($pointer)"

    def verify_(self) -> None:
        _check(self.ordering, ("monotonic", "release", "seq_cst"), "ordering of a store")


@irdl_op_definition
class AtomicRMWOp(IRDLOperation):
    """`llvmx.atomic_rmw "add" "acq_rel" %p, %v : !llvm.ptr, i64` gives the value from before."""

    name = "llvmx.atomic_rmw"
    _T: ClassVar = VarConstraint("_T", AnyAttr())
    kind = prop_def(StringAttr)
    ordering = prop_def(StringAttr)
    pointer = operand_def(LLVMPointerType)
    value = operand_def(_T)
    result = result_def(_T)
    assembly_format = "$kind $ordering $pointer `,` $value attr-dict `:` type($pointer) `,` type($value)"

    def verify_(self) -> None:
        _check(self.kind, RMW_KINDS, "read-modify-write")
        _check(self.ordering, ORDERINGS, "ordering")


@irdl_op_definition
class CompareExchangeOp(IRDLOperation):
    """Stores `desired` if the memory holds `expected`; gives the value from before and whether it was stored."""

    name = "llvmx.cmpxchg"
    _T: ClassVar = VarConstraint("_T", AnyAttr())
    success = prop_def(StringAttr)
    failure = prop_def(StringAttr)
    pointer = operand_def(LLVMPointerType)
    expected = operand_def(_T)
    desired = operand_def(_T)
    previous = result_def(_T)
    stored = result_def(I1)
    assembly_format = (
        "$success $failure $pointer `,` $expected `,` $desired attr-dict `:`"
        " type($pointer) `,` type($expected) `,` type($stored)"
    )

    def verify_(self) -> None:
        _check(self.success, ORDERINGS, "ordering")
        _check(self.failure, ("monotonic", "acquire", "seq_cst"), "ordering of a failure")


@irdl_op_definition
class FenceOp(IRDLOperation):
    """`llvmx.fence "seq_cst"`."""

    name = "llvmx.fence"
    ordering = prop_def(StringAttr)
    assembly_format = "$ordering attr-dict"

    def verify_(self) -> None:
        _check(self.ordering, ORDERINGS[1:], "ordering of a fence")


@irdl_op_definition
class CallIndirectOp(IRDLOperation):
    """Calls through a pointer: `llvmx.call_indirect %f(%a, %b) : !llvm.ptr, (i64, i64) -> i32`."""

    name = "llvmx.call_indirect"
    callee = operand_def(LLVMPointerType)
    args = var_operand_def()
    result = opt_result_def()
    assembly_format = "$callee `(` $args `)` attr-dict `:` type($callee) `,` functional-type($args, results)"


@irdl_op_definition
class SwitchOp(IRDLOperation):
    """Jumps to the block of the case that equals `value`, else to the default; blocks take no arguments."""

    name = "llvmx.switch"
    value = operand_def(IntegerType)
    cases = prop_def(DenseArrayBase.constr(i64))
    default = successor_def()
    targets = var_successor_def()
    traits = traits_def(IsTerminator())
    assembly_format = "$value `:` type($value) $cases `,` $default `,` $targets attr-dict"

    def __init__(self, value: SSAValue, default: Block, cases: Sequence[tuple[int, Block]]) -> None:
        super().__init__(
            operands=[value],
            properties={"cases": DenseArrayBase.from_list(i64, [case for case, _ in cases])},
            successors=[default, [block for _, block in cases]],
        )

    def verify_(self) -> None:
        if len(self.cases) != len(self.targets):
            raise VerifyException("one target for each case, please")
        if any(block.args for block in (self.default, *self.targets)):
            raise VerifyException("the blocks of a switch take no arguments")


LLVMX = Dialect(
    "llvmx",
    [
        FCmpOp,
        SelectOp,
        CastOp,
        SplatOp,
        FreezeOp,
        PoisonOp,
        ExtractElementOp,
        IntrinsicOp,
        MaskedLoadOp,
        MaskedStoreOp,
        GatherOp,
        ScatterOp,
        NontemporalStoreOp,
        AtomicLoadOp,
        AtomicStoreOp,
        AtomicRMWOp,
        CompareExchangeOp,
        FenceOp,
        CallIndirectOp,
        SwitchOp,
    ],
    [],
)
