"""What xDSL's vector, arith and memref dialects lack on vectors: conversions, select, gather, tree reductions.

Every op takes scalars too where that makes sense, so that a body is built the same way for any number of lanes.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS, CMPI_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import I64, IndexType, IntegerAttr, MemRefType, StringAttr, UnitAttr, VectorType
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

CONVERSIONS = (
    "extsi",
    "extui",
    "trunci",
    "sitofp",
    "uitofp",
    "fptosi",
    "fptoui",
    "extf",
    "truncf",
    "bitcast",
    "index_cast",
)
"""fptosi and fptoui saturate, NaN gives 0. truncf rounds to nearest even. index_cast extends or cuts as signed."""

REDUCTIONS = (
    "add",
    "mul",
    "minsi",
    "minui",
    "maxsi",
    "maxui",
    "and",
    "or",
    "xor",
    "minimumf",
    "maximumf",
    "minnumf",
    "maxnumf",
)

PREDICATES = (*CMPI_COMPARISON_OPERATIONS, *CMPF_COMPARISON_OPERATIONS)


@irdl_op_definition
class ConvertOp(IRDLOperation):
    """Changes the element type, lane by lane: `vectorx.convert "sitofp" %x : vector<16xi32> to vector<16xf32>`."""

    name = "vectorx.convert"
    kind = prop_def(StringAttr)
    input = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$kind $input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, kind: str, value: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[value], result_types=[result_type], properties={"kind": StringAttr(kind)})

    def verify_(self) -> None:
        if self.kind.data not in CONVERSIONS:
            raise VerifyException(f"unknown conversion {self.kind.data!r}")


@irdl_op_definition
class SelectOp(IRDLOperation):
    """Chooses lane by lane: `vectorx.select %mask, %a, %b : vector<16xi1>, vector<16xf32>`."""

    name = "vectorx.select"
    _T: ClassVar = VarConstraint("_T", AnyAttr())
    condition = operand_def()
    lhs = operand_def(_T)
    rhs = operand_def(_T)
    result = result_def(_T)
    traits = traits_def(Pure())
    assembly_format = "$condition `,` $lhs `,` $rhs attr-dict `:` type($condition) `,` type($result)"

    def __init__(self, condition: SSAValue, lhs: SSAValue, rhs: SSAValue) -> None:
        super().__init__(operands=[condition, lhs, rhs], result_types=[lhs.type])


@irdl_op_definition
class CompareOp(IRDLOperation):
    """Compares lane by lane: `vectorx.compare "olt" %a, %b : vector<16xf32> to vector<16xi1>`.

    The predicates are those of arith.cmpi (on integers and index) and arith.cmpf (on floats), which xDSL has for
    scalars only.
    """

    name = "vectorx.compare"
    _T: ClassVar = VarConstraint("_T", AnyAttr())
    predicate = prop_def(StringAttr)
    lhs = operand_def(_T)
    rhs = operand_def(_T)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$predicate $lhs `,` $rhs attr-dict `:` type($lhs) `to` type($result)"

    def __init__(self, predicate: str, lhs: SSAValue, rhs: SSAValue, result_type: Attribute) -> None:
        super().__init__(
            operands=[lhs, rhs], result_types=[result_type], properties={"predicate": StringAttr(predicate)}
        )

    def verify_(self) -> None:
        if self.predicate.data not in PREDICATES:
            raise VerifyException(f"unknown predicate {self.predicate.data!r}")


@irdl_op_definition
class StepOp(IRDLOperation):
    """The lane numbers 0, 1, 2, ...: `vectorx.step : vector<16xindex>`."""

    name = "vectorx.step"
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, result_type: Attribute) -> None:
        super().__init__(result_types=[result_type])


@irdl_op_definition
class GatherOp(IRDLOperation):
    """Loads `base[offsets[lane]]` where the mask is set, else `passthru`; without a mask all lanes load."""

    name = "vectorx.gather"
    base = operand_def(MemRefType)
    offsets = operand_def(VectorType)
    mask = opt_operand_def(VectorType)
    passthru = opt_operand_def(VectorType)
    result = result_def(VectorType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        base: SSAValue,
        offsets: SSAValue,
        mask: SSAValue | None,
        passthru: SSAValue | None,
        result_type: Attribute,
    ) -> None:
        super().__init__(
            operands=[base, offsets, [mask] if mask else [], [passthru] if passthru else []], result_types=[result_type]
        )


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """Stores `value[lane]` to `base[offsets[lane]]` where the mask is set, in lane order (a later lane wins)."""

    name = "vectorx.scatter"
    value = operand_def(VectorType)
    base = operand_def(MemRefType)
    offsets = operand_def(VectorType)
    mask = opt_operand_def(VectorType)

    def __init__(self, value: SSAValue, base: SSAValue, offsets: SSAValue, mask: SSAValue | None = None) -> None:
        super().__init__(operands=[value, base, offsets, [mask] if mask else []])


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Combines all lanes as a balanced tree (neighbours first halves: lane i with lane i + n/2), one fixed order."""

    name = "vectorx.reduce"
    kind = prop_def(StringAttr)
    input = operand_def(VectorType)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$kind $input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, kind: str, value: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[value], result_types=[result_type], properties={"kind": StringAttr(kind)})

    def verify_(self) -> None:
        if self.kind.data not in REDUCTIONS:
            raise VerifyException(f"unknown reduction {self.kind.data!r}")


@irdl_op_definition
class ExtractOp(IRDLOperation):
    """One lane, at a lane number known only at run time: `vectorx.extract %v[%i] : vector<16xf32>`."""

    name = "vectorx.extract"
    input = operand_def(VectorType)
    lane = operand_def(IndexType)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$input `[` $lane `]` attr-dict `:` type($input) `to` type($result)"

    def __init__(self, value: SSAValue, lane: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[value, lane], result_types=[result_type])


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """Asks for the cache line of `base[index]`, to write it or to read it: locality 3 (keep in L1) to 0."""

    name = "vectorx.prefetch"
    base = operand_def(MemRefType)
    index = operand_def(IndexType)
    locality = prop_def(IntegerAttr[I64])
    write = opt_prop_def(UnitAttr)

    def __init__(self, base: SSAValue, index: SSAValue, locality: int = 3, *, write: bool = False) -> None:
        properties = {"locality": IntegerAttr(locality, 64), "write": UnitAttr() if write else None}
        super().__init__(operands=[base, index], properties=properties)


@irdl_op_definition
class DotOp(IRDLOperation):
    """acc[lane] + sum of 4 products of 8-bit integers in each 32-bit lane: kinds "u8s8", "s8s8", "u8u8" (exact in i32).

    Of kind "bf16", 2 products of bf16 in each lane of f32: the odd one is added first, each addition rounds, and what
    is denormal counts as 0, factors and sums.

    `vectorx.dot "u8s8" %acc, %a, %b : vector<64xi8>, vector<64xi8> to vector<16xi32>`
    """

    name = "vectorx.dot"
    kind = prop_def(StringAttr)
    acc = operand_def(VectorType)
    lhs = operand_def(VectorType)
    rhs = operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$kind $acc `,` $lhs `,` $rhs attr-dict `:` type($acc) `,` type($lhs) `,` type($rhs) `to` type($result)"
    )

    def __init__(self, kind: str, acc: SSAValue, lhs: SSAValue, rhs: SSAValue) -> None:
        super().__init__(operands=[acc, lhs, rhs], result_types=[acc.type], properties={"kind": StringAttr(kind)})


@irdl_op_definition
class HalvesOp(IRDLOperation):
    """Two vectors of f32 as one of bf16, `low`'s lanes first: to nearest even, denormals as 0, NaN quiet.

    `vectorx.halves %low, %high : vector<16xf32> to vector<32xbf16>`
    """

    name = "vectorx.halves"
    _T: ClassVar = VarConstraint("_T", AnyAttr())
    low = operand_def(_T)
    high = operand_def(_T)
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$low `,` $high attr-dict `:` type($low) `to` type($result)"

    def __init__(self, low: SSAValue, high: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[low, high], result_types=[result_type])


@irdl_op_definition
class LogisticOp(IRDLOperation):
    """x / (1 + exp(-(y + low))) of f32, rounded nearly once: `vectorx.logistic %x, %y, %low : vector<16xf32>`.

    `low` is what y was rounded by; it may be left out.
    """

    name = "vectorx.logistic"
    arguments = var_operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$arguments attr-dict `:` type($arguments) `to` type($result)"

    def __init__(self, *arguments: SSAValue) -> None:
        super().__init__(operands=[arguments], result_types=[arguments[0].type])

    def verify_(self) -> None:
        if len(self.arguments) not in (2, 3) or any(a.type != self.result.type for a in self.arguments):
            raise VerifyException("takes x, y and perhaps what y was rounded by, all of the result's type")


@irdl_op_definition
class GeluOp(IRDLOperation):
    """x times the normal distribution function of x, of f32, with small relative error also where that is tiny:
    `vectorx.gelu %x : vector<16xf32>`.
    """

    name = "vectorx.gelu"
    _T: ClassVar = VarConstraint("_T", AnyAttr())
    operand = operand_def(_T)
    result = result_def(_T)
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($operand)"

    def __init__(self, operand: SSAValue) -> None:
        super().__init__(operands=[operand], result_types=[operand.type])


VectorX = Dialect(
    "vectorx",
    [
        *(ConvertOp, SelectOp, CompareOp, StepOp, GatherOp, ScatterOp, ReduceOp, ExtractOp, PrefetchOp, DotOp),
        *(HalvesOp, LogisticOp, GeluOp),
    ],
    [],
)
