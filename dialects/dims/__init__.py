"""Dimensions in the IR: the expression terms, the shape encoding of tensor types, and the ops that state facts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Data, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure

from .expression import Dim, as_dim, dim_broadcast, dim_max, dim_min, parse_dim


@irdl_attr_definition
class ShapeAttr(Data[tuple[Dim, ...]]):
    """A list of expressions in normal form: `#dims.shape<"N, 2*B, 4">`.

    As the encoding of a tensor type it gives every dim of the type; elsewhere it is a plain list of expressions.
    """

    name: ClassVar[str] = "dims.shape"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Dim, ...]:
        with parser.in_angle_brackets():
            text = parser.parse_str_literal()
        return parse_dims(text)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(", ".join(map(str, self.data)))


def parse_dims(text: str) -> tuple[Dim, ...]:
    """`"N, 2*B"` -> (N, 2*B). Commas inside calls such as `max(a, b)` do not separate."""
    parts: list[str] = []
    depth, start = 0, 0
    for at, ch in enumerate(text):
        if ch == "(":
            depth += 1
        elif ch == ")":
            depth -= 1
        elif ch == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return tuple(parse_dim(p.strip()) for p in parts if p.strip())


@cache
def _tensor_type(element: Attribute, dims: tuple[Dim, ...]) -> TensorType[Attribute]:
    sizes = [d.value if d.is_const else DYNAMIC_INDEX for d in dims]
    if all(d.is_const for d in dims):
        return TensorType(element, sizes)
    return TensorType(element, sizes, ShapeAttr(dims))


def tensor_type(element: Attribute, dims: Sequence[Dim | int | str]) -> TensorType[Attribute]:
    """The tensor type with these dims; a fully static one has no encoding, so equal dims are equal types."""
    return _tensor_type(element, tuple(map(as_dim, dims)))


def dims_of(value: SSAValue | Attribute) -> tuple[Dim, ...]:
    """The dims of a ranked tensor value or type. Raises TypeError for anything else."""
    type_ = value.type if isinstance(value, SSAValue) else value
    if not isinstance(type_, TensorType):
        raise TypeError(f"no ranked tensor: {type_}")
    encoding: Attribute = type_.encoding
    if isinstance(encoding, ShapeAttr):
        return encoding.data
    return _static_dims(cast("TensorType[Attribute]", type_))


@cache
def _static_dims(type_: TensorType[Attribute]) -> tuple[Dim, ...]:
    sizes = type_.get_shape()
    if DYNAMIC_INDEX in sizes:
        raise TypeError(f"a dynamic dim without an expression: {type_}")
    return tuple(map(as_dim, sizes))


@irdl_op_definition
class AssumeOp(IRDLOperation):
    """States a fact on dimensions; a guard where it is not proved: `dims.assume "N == M" {why = "Add of %a and %b"}`.

    `condition` is `expr == expr`, `expr <= expr` or `expr % const == const`.  `node` is the id of the node it is for.
    """

    name = "dims.assume"
    condition = prop_def(StringAttr)
    why = opt_prop_def(StringAttr)

    def __init__(self, condition: str, why: str = "") -> None:
        super().__init__(properties={"condition": StringAttr(condition), "why": StringAttr(why)})


@irdl_op_definition
class TensorOp(IRDLOperation):
    """An integer tensor whose elements are expressions, row-major: `dims.tensor <"N, 2*B"> : tensor<2xi64>`.

    Inference replaces every small integer tensor that it knows by one of these, so a consumer that needs to know its
    shape operand looks at the operand's owner: this op, or `onnx.Constant`.
    """

    name = "dims.tensor"
    exprs = prop_def(ShapeAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$exprs attr-dict `:` type($result)"

    def __init__(self, exprs: Sequence[Dim | int | str], result_type: Attribute) -> None:
        super().__init__(properties={"exprs": ShapeAttr(tuple(map(as_dim, exprs)))}, result_types=[result_type])


@irdl_op_definition
class BindOp(IRDLOperation):
    """Binds new symbols to the elements of an integer tensor computed at run time, in row-major order.

    `dims.bind %s ["v0", "v1"] : tensor<2xi64>`; from here on the symbols may stand in types and `dims.tensor`.
    `lower`/`upper` are the ranges that the program guards (one expression a symbol); without, it is any int64.
    """

    name = "dims.bind"
    source = operand_def(TensorType)
    symbols = prop_def(ArrayAttr[StringAttr])
    lower = opt_prop_def(ShapeAttr)
    upper = opt_prop_def(ShapeAttr)
    assembly_format = "$source $symbols (`lower` $lower^)? (`upper` $upper^)? attr-dict `:` type($source)"

    def __init__(
        self, source: SSAValue, symbols: Sequence[str], lower: ShapeAttr | None = None, upper: ShapeAttr | None = None
    ) -> None:
        super().__init__(
            operands=[source],
            properties={"symbols": ArrayAttr(map(StringAttr, symbols)), "lower": lower, "upper": upper},
        )


TOLD_BY = "dims.told_by"
"""On a `dims.bind`: the names of the values that its sizes come from, for messages."""

Dims = Dialect("dims", [AssumeOp, TensorOp, BindOp], [ShapeAttr])

__all__ = [
    "TOLD_BY",
    "AssumeOp",
    "BindOp",
    "Dim",
    "Dims",
    "ShapeAttr",
    "TensorOp",
    "as_dim",
    "dim_broadcast",
    "dim_max",
    "dim_min",
    "dims_of",
    "parse_dim",
    "parse_dims",
    "tensor_type",
]
