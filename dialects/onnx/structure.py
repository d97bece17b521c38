"""The operations that ONNX has as structure, not as operators: initializers, bodies' ends, calls, unknown operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure

from .attributes import plain, read, shown, string_attr, text_of
from .base import OnnxOp, PositionedOp
from .types import parse_text, print_text


@irdl_op_definition
class InitializerOp(IRDLOperation):
    """A constant of the graph: `onnx.Initializer "conv1.weight" #onnx.weight<"w3"> : tensor<8x3x3x3xf32>`.

    `overridable` marks one that the file also lists as an input: a default that a caller may replace.
    """

    name = "onnx.Initializer"
    sym = prop_def(Attribute, prop_name="name")
    value = prop_def(Attribute)
    overridable = opt_prop_def(UnitAttr)
    result = result_def()
    traits = traits_def(Pure())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_text(printer, text_of(self.sym))
        printer.print_string(" ")
        printer.print_attribute(shown(self.value))
        if self.overridable is not None:
            printer.print_string(" overridable")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name, value = parse_text(parser), read(parser.parse_attribute())
        overridable = parser.parse_optional_keyword("overridable") is not None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls.make(name, value, parser.parse_type(), overridable)
        op.attributes.update(attributes)
        return op

    @classmethod
    def make(cls, name: str, value: Attribute, type_: Attribute, overridable: bool = False) -> Self:
        """The constant `value` (dense, sparse or a weight's handle) of that type under that name."""
        properties: dict[str, Attribute] = {"name": string_attr(name), "value": value}
        if overridable:
            properties["overridable"] = UnitAttr()
        return cls.create(result_types=[type_], properties=properties)


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends the body of If, Loop, Scan, SequenceMap and of a local function with the graph's outputs."""

    name = "onnx.Yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "($values^ `:` type($values))? attr-dict"

    @classmethod
    def make(cls, values: Sequence[SSAValue]) -> Self:
        """Yields the values."""
        return cls.create(operands=values)


class NamedOp(PositionedOp):
    """A node by the name of its operator, with the attributes that the file gives it."""

    name = "onnx.Named"  # no operation: subclasses have their own

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as a plain Python value; `default` where the node does not have it."""
        given = self.properties["attributes"]
        assert isinstance(given, DictionaryAttr)
        value = given.data.get(name)
        return default if value is None else plain(value)


@irdl_op_definition
class CustomOp(NamedOp):
    """An operator of a domain that we do not know: `onnx.Custom "com.acme" "Fancy"(%x, _) {...} : (...) -> (...)`.

    `attributes_` holds the node's attributes; graphs among them are regions, named in order by `graphs`.  With
    `kind = "pointwise"` the only region computes one element of the result, and kernels take it.
    """

    name = "onnx.Custom"
    domain = prop_def(Attribute)
    op_type = prop_def(Attribute)
    attributes_ = prop_def(DictionaryAttr, prop_name="attributes")
    graphs = opt_prop_def(Attribute)
    kind = opt_prop_def(StringAttr)
    inputs = opt_prop_def(DenseArrayBase)
    outputs = opt_prop_def(DenseArrayBase)
    operands_ = var_operand_def()
    results_ = var_result_def()
    bodies = var_region_def("single_block")

    def print(self, printer: Printer) -> None:
        _print_texts(printer, self.domain, self.op_type)
        self.print_rest(printer, frozenset(("domain", "op_type")))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cls.parse_rest(parser, _parse_identity(parser))


@irdl_op_definition
class VersionedOp(NamedOp):
    """A node of an older version whose form or meaning is not the newest class's, as the file has it.

    `onnx.Versioned "" "Squeeze" 11(%x) {attributes = {axes = array<i64: 1>}} : ...`; `sx-upgrade-opset` replaces it.
    """

    name = "onnx.Versioned"
    domain = prop_def(Attribute)
    op_type = prop_def(Attribute)
    since_version = prop_def(IntegerAttr)
    attributes_ = prop_def(DictionaryAttr, prop_name="attributes")
    graphs = opt_prop_def(Attribute)
    inputs = opt_prop_def(DenseArrayBase)
    outputs = opt_prop_def(DenseArrayBase)
    operands_ = var_operand_def()
    results_ = var_result_def()
    bodies = var_region_def("single_block")

    def print(self, printer: Printer) -> None:
        _print_texts(printer, self.domain, self.op_type)
        printer.print_string(f" {self.since_version.value.data}")
        self.print_rest(printer, frozenset(("domain", "op_type", "since_version")))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        properties = _parse_identity(parser)
        properties["since_version"] = IntegerAttr(parser.parse_integer(allow_boolean=False, allow_negative=False), 64)
        return cls.parse_rest(parser, properties)


@irdl_op_definition
class CallOp(PositionedOp):
    """A call of a local function: `onnx.Call @f(%x, _) {attributes = {alpha = 0.1 : f32}} : (...) -> (...)`."""

    name = "onnx.Call"
    callee = prop_def(FlatSymbolRefAttrConstr)
    attributes_ = prop_def(DictionaryAttr, prop_name="attributes")
    inputs = opt_prop_def(DenseArrayBase)
    outputs = opt_prop_def(DenseArrayBase)
    operands_ = var_operand_def()
    results_ = var_result_def()

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.callee.string_value())
        self.print_rest(printer, frozenset(("callee",)))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cls.parse_rest(parser, {"callee": SymbolRefAttr(parser.parse_symbol_name())})


def _print_texts(printer: Printer, *texts: Attribute) -> None:
    for text in texts:
        printer.print_string(" ")
        print_text(printer, text_of(text))


def _parse_identity(parser: Parser) -> dict[str, Attribute]:
    return {key: string_attr(parse_text(parser)) for key in ("domain", "op_type")}


OPS: list[type[Operation]] = [InitializerOp, YieldOp, CustomOp, VersionedOp, CallOp]


def operator_name(op: Operation) -> str:
    """ONNX's spelling: `Conv`, `ai.onnx.ml.ZipMap`, or domain and type of an unknown operator."""
    if isinstance(op, CustomOp):
        domain, name = plain(op.domain), plain(op.op_type)
        return f"{domain}::{name}" if domain else str(name)
    if isinstance(op, OnnxOp):
        schema = op.SCHEMA
        return f"{schema.domain}.{schema.op_type}" if schema.domain else schema.op_type
    return op.name
