"""Kernels: calls with symbols as arguments, views, templates, and the loops-level ops that arith and scf lack."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    IndexType,
    IntegerType,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    opt_region_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, Pure

from .dims import Dim, ShapeAttr, as_dim

NODES = "kernel.nodes"
"""On a call: for each operator of its kernel the id of the file's node that it is here, -1 where it is none."""

_UNCOUNTED = frozenset(("onnx.Constant", "dims.tensor", "kernel.fill", "func.return"))
_ABOUT = re.compile(r"\{op (\d+)\}")


def operators_of(block: Block) -> list[Operation]:
    """The operators of a kernel in their order, by which `NODES` and the messages of checks count."""
    return [op for op in block.ops if op.name not in _UNCOUNTED]


def about(operator: int, message: str) -> str:
    """A check's message that says which of the kernel's operators it is about."""
    return f"{{op {operator}}}{message}"


def within(index: str, axis: str, *, signed: bool = True) -> str:
    """The message for an index that is not there; its values are the index and the axis' size."""
    least = "-{1}" if signed else "0"
    return f"{index} has the index {{0}}; {axis} {{1=0|is empty|has size {{1}}, so {least} <= index < {{1}}}}"


def about_which(message: str) -> tuple[int | None, str]:
    """The operator that a message is about, if it says so, and the message for people."""
    found = _ABOUT.match(message)
    return (int(found[1]), message[found.end() :]) if found is not None else (None, message)


@irdl_op_definition
class CallOp(IRDLOperation):
    """Calls a kernel: `kernel.call @k0 <"N, 2*B"> (%x, %w) : (...) -> (...)`.

    The expressions, in the caller's symbols, are the kernel's leading `index` arguments (its symbols d0, d1, ...).
    With them put in place of d0, d1, ..., the kernel's argument and result types are the call's.
    """

    name = "kernel.call"
    callee = prop_def(FlatSymbolRefAttrConstr)
    dims = prop_def(ShapeAttr)
    inputs = var_operand_def()
    outputs = var_result_def()
    assembly_format = "$callee $dims `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)"

    def __init__(
        self,
        callee: str,
        dims: Sequence[Dim | int | str],
        inputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
    ) -> None:
        super().__init__(
            operands=[inputs],
            result_types=[result_types],
            properties={"callee": SymbolRefAttr(callee), "dims": ShapeAttr(tuple(map(as_dim, dims)))},
        )


@irdl_op_definition
class ViewOp(IRDLOperation):
    """Elements of a tensor where they are, under another shape: no copy, no kernel.

    Without `offset` it is all of them (reshape, squeeze, flatten, identity); with it the stretch of as many as the
    result has that begins at this element (a slice of the leading axis, a part of a split).
    """

    name = "kernel.view"
    source = operand_def(TensorType)
    offset = opt_prop_def(ShapeAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source (`from` $offset^)? attr-dict `:` type($source) `to` type($result)"

    def __init__(self, source: SSAValue, result_type: Attribute, offset: Dim | None = None) -> None:
        properties = {} if offset is None else {"offset": ShapeAttr((offset,))}
        super().__init__(operands=[source], result_types=[result_type], properties=properties)


@irdl_op_definition
class FillOp(IRDLOperation):
    """A tensor that has one value everywhere: `kernel.fill dense<0.0> : tensor<f32> as tensor<?x8xf32, ...>`.

    A kernel that reads it holds a fill of its own, which is no memory; in `main` it is written where something other
    than a kernel needs it.
    """

    name = "kernel.fill"
    value = prop_def(DenseIntOrFPElementsAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `as` type($result)"

    def __init__(self, value: Attribute, result_type: Attribute) -> None:
        super().__init__(properties={"value": value}, result_types=[result_type])


@irdl_op_definition
class TemplateOp(IRDLOperation):
    """A computation that is not structured, by a named template of `lowering/kernels` (tensor level).

    `template` names it ("gemm", "conv", "topk", ...), `config` holds its attributes.  `outputs` are `tensor.empty`
    values giving the result dims.  `epilogue`, where there is one, maps (one scalar per template result, then one
    `index` per axis of the result) to the scalars that are stored, by `kernel.yield`; it may read further tensors with
    `tensor.extract`, as a `linalg.generic` body may.
    """

    name = "kernel.template"
    template = prop_def(StringAttr)
    config = prop_def(DictionaryAttr)
    inputs = var_operand_def()
    outputs = var_operand_def()
    results_ = var_result_def()
    epilogue = opt_region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        template: str,
        config: dict[str, Attribute],
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        epilogue: Region | None = None,
    ) -> None:
        super().__init__(
            operands=[inputs, outputs],
            result_types=[[o.type for o in outputs]],
            properties={"template": StringAttr(template), "config": DictionaryAttr(config)},
            regions=[[epilogue] if epilogue else []],
        )


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends an epilogue with the values to store, or a parallel region with nothing."""

    name = "kernel.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator())

    def __init__(self, values: Sequence[SSAValue] = ()) -> None:
        super().__init__(operands=[values])


@irdl_op_definition
class ParallelOp(IRDLOperation):
    """Loops level: runs its region over disjoint ranges that cover [0, extent), on any number of threads.

    The region's arguments are (lower: index, upper: index, thread: index); it ends in `kernel.yield`.  `grain` is the
    least number of iterations worth giving to a thread (work of about 5 us).  Ranges may come in any order or at the
    same time; `thread` is below the number of threads, and no two ranges that run at the same time have the same one.
    """

    name = "kernel.parallel"
    extent = operand_def(IndexType)
    grain = operand_def(IndexType)
    body = region_def("single_block")

    def __init__(self, extent: SSAValue, grain: SSAValue, body: Region | None = None) -> None:
        if body is None:
            body = Region(Block(arg_types=[IndexType(), IndexType(), IndexType()]))
        super().__init__(operands=[extent, grain], regions=[body])


@irdl_op_definition
class CheckOp(IRDLOperation):
    """Loops level: where `condition` (i1 or a vector of i1) is false in any lane, records an error and goes on.

    The caller of the kernel returns after it and delivers no output, so what is computed on does not matter, but must
    not trap or stray: index values are to be made safe by the code around.  `code` names the kind of error
    ("index", "value", ...); `values` (index or i64; scalars or vectors of as many lanes) go into the message.  One
    that `about` made also tells which of the kernel's operators it is about, so that a caller can name its node.
    """

    name = "kernel.check"
    code = prop_def(StringAttr)
    message = prop_def(StringAttr)
    condition = operand_def()
    values = var_operand_def()

    def __init__(self, condition: SSAValue, code: str, message: str, values: Sequence[SSAValue] = ()) -> None:
        super().__init__(
            operands=[condition, values], properties={"code": StringAttr(code), "message": StringAttr(message)}
        )


@irdl_op_definition
class EntropyOp(IRDLOperation):
    """Loops level: a key for random numbers that no draw has had before, as i64."""

    name = "kernel.entropy"
    result = result_def(IntegerType(64))

    def __init__(self) -> None:
        super().__init__(result_types=[IntegerType(64)])


@irdl_op_definition
class ScratchOp(IRDLOperation):
    """Loops level: part of the kernel's scratch, `size` elements from byte `offset` on, both in the kernel's symbols.

    With `per_thread` (inside `kernel.parallel` only) each thread has its own copy, `thread` telling which.  The
    function's attributes `kernel.scratch` and `kernel.thread_scratch` (ShapeAttr of one expression, bytes) give totals.
    """

    name = "kernel.scratch"
    offset = prop_def(ShapeAttr)
    size = prop_def(ShapeAttr)
    thread = var_operand_def(IndexType)
    result = result_def(MemRefType)

    def __init__(
        self, offset: Dim | int, size: Dim | int, result_type: Attribute, thread: SSAValue | None = None
    ) -> None:
        super().__init__(
            operands=[[thread] if thread is not None else []],
            result_types=[result_type],
            properties={"offset": ShapeAttr((as_dim(offset),)), "size": ShapeAttr((as_dim(size),))},
        )


@irdl_op_definition
class DimOp(IRDLOperation):
    """An expression in the kernel's symbols as an index value: `kernel.dim <"4*d0 + 1">` (tensor and loops level)."""

    name = "kernel.dim"
    expr = prop_def(ShapeAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$expr attr-dict"

    def __init__(self, expr: Dim | int | str) -> None:
        super().__init__(properties={"expr": ShapeAttr((as_dim(expr),))}, result_types=[IndexType()])


Kernel = Dialect(
    "kernel",
    [CallOp, ViewOp, FillOp, TemplateOp, YieldOp, ParallelOp, CheckOp, EntropyOp, ScratchOp, DimOp],
    [],
)
