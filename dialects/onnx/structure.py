"""The operations that ONNX has as structure, not as operators: initializers, bodies' ends, calls, unknown operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Self, TypeVar, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation, OpResult, Region, SSAValue
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
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure

from .base import ints_attr, parse_signature, plain


@irdl_op_definition
class InitializerOp(IRDLOperation):
    """A constant of the graph: `onnx.Initializer "conv1.weight" #onnx.weight<"w3"> : tensor<8x3x3x3xf32>`.

    `overridable` marks one that the file also lists as an input: a default that a caller may replace.
    """

    name = "onnx.Initializer"
    sym = prop_def(StringAttr, prop_name="name")
    value = prop_def(Attribute)
    overridable = opt_prop_def(UnitAttr)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$name $value (`overridable` $overridable^)? attr-dict `:` type($result)"

    @classmethod
    def make(cls, name: str, value: Attribute, type_: Attribute, overridable: bool = False) -> Self:
        """The constant `value` (dense, sparse or a weight's handle) of that type under that name."""
        properties: dict[str, Attribute] = {"name": StringAttr(name), "value": value}
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


class PositionedOp(IRDLOperation):
    """An operation without a schema: which formal positions its operands and results have is in properties.

    `inputs` and `outputs` list the positions of what is present; without them there is no gap.
    """

    name = "onnx.Positioned"  # no operation: subclasses have their own

    def operand_at(self, index: int) -> SSAValue | None:
        """The operand at a formal position; None where it is absent."""
        return _at(self._operands, self.properties.get("inputs"), index)

    def result_at(self, index: int) -> OpResult | None:
        """The result at a formal position; None where it is absent."""
        return _at(self.results, self.properties.get("outputs"), index)

    def formal_operands(self) -> list[SSAValue | None]:
        """All operands by formal position, None for an absent one, without absent ones at the end."""
        return _by_position(self._operands, self.properties.get("inputs"))

    def formal_results(self) -> list[OpResult | None]:
        """All results by formal position, None for an absent one, without absent ones at the end."""
        return _by_position(self.results, self.properties.get("outputs"))

    @classmethod
    def build_at(
        cls,
        properties: dict[str, Attribute],
        operands: Sequence[SSAValue | None],
        types: Sequence[Attribute | None],
        attributes: Mapping[str, Attribute] = {},
        regions: Sequence[Region] = (),
    ) -> Self:
        """Builds the op from its operands and result types by formal position, None for absent ones."""
        for key, values in (("inputs", operands), ("outputs", types)):
            present = tuple(i for i, v in enumerate(values) if v is not None)
            if present != tuple(range(len(present))):
                properties[key] = ints_attr(present)
        return cls.create(
            operands=[v for v in operands if v is not None],
            result_types=[t for t in types if t is not None],
            properties=properties,
            attributes=attributes,
            regions=regions,
        )

    def print_rest(self, printer: Printer, hidden: frozenset[str]) -> None:
        """Prints operands, regions, attributes and types."""

        def or_blank(show: Any, value: object) -> None:
            printer.print_string("_") if value is None else show(value)

        with printer.in_parens():
            printer.print_list(self.formal_operands(), lambda v: or_blank(printer.print_operand, v))
        if self.regions:
            printer.print_string(" (")
            printer.print_list(self.regions, printer.print_region)
            printer.print_string(")")
        shown = {k: v for k, v in self.properties.items() if k not in hidden and k not in ("inputs", "outputs")}
        printer.print_op_attributes(shown | self.attributes)
        printer.print_string(" : ")
        with printer.in_parens():
            printer.print_list(self.operand_types, printer.print_attribute)
        printer.print_string(" -> ")
        with printer.in_parens():
            types = [r and r.type for r in self.formal_results()]
            printer.print_list(types, lambda t: or_blank(printer.print_attribute, t))

    @classmethod
    def parse_rest(cls, parser: Parser, properties: dict[str, Attribute]) -> Self:
        """Parses what `print_rest` prints."""

        def operand() -> UnresolvedOperand | None:
            return None if parser.parse_optional_keyword("_") is not None else parser.parse_unresolved_operand()

        at = parser.pos
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, operand)
        regions = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_region) or []
        shown = parser.parse_optional_attr_dict()
        named = cls.get_irdl_definition().properties
        values, types = parse_signature(parser, operands, at)
        properties |= {k: v for k, v in shown.items() if k in named}
        rest = {k: v for k, v in shown.items() if k not in named}
        return cls.build_at(properties, values, types, rest, regions)


@lru_cache(maxsize=4096)
def _positions(attribute: Attribute) -> tuple[int, ...]:
    return tuple(cast("DenseArrayBase[Any]", attribute).get_values())


ValueT = TypeVar("ValueT", bound=SSAValue)


def _at(values: Sequence[ValueT], positions: Attribute | None, index: int) -> ValueT | None:
    if positions is not None:
        listed = _positions(positions)
        if index not in listed:
            return None
        index = listed.index(index)
    return values[index] if index < len(values) else None


def _by_position(values: Sequence[ValueT], positions: Attribute | None) -> list[ValueT | None]:
    if positions is None:
        return list(values)
    listed = _positions(positions)
    found: list[ValueT | None] = [None] * (listed[-1] + 1 if listed else 0)
    for at, value in zip(listed, values):
        found[at] = value
    return found


@irdl_op_definition
class CustomOp(PositionedOp):
    """An operator of a domain that we do not know: `onnx.Custom "com.acme" "Fancy"(%x, _) {...} : (...) -> (...)`.

    `attributes_` holds the node's attributes; graphs among them are regions, named in order by `graphs`.
    """

    name = "onnx.Custom"
    domain = prop_def(StringAttr)
    op_type = prop_def(StringAttr)
    attributes_ = prop_def(DictionaryAttr, prop_name="attributes")
    graphs = opt_prop_def(Attribute)
    inputs = opt_prop_def(DenseArrayBase)
    outputs = opt_prop_def(DenseArrayBase)
    operands_ = var_operand_def()
    results_ = var_result_def()
    bodies = var_region_def("single_block")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.domain.data)
        printer.print_string(" ")
        printer.print_string_literal(self.op_type.data)
        self.print_rest(printer, frozenset(("domain", "op_type")))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        domain, op_type = parser.parse_str_literal(), parser.parse_str_literal()
        return cls.parse_rest(parser, {"domain": StringAttr(domain), "op_type": StringAttr(op_type)})


@irdl_op_definition
class VersionedOp(PositionedOp):
    """A node of an older version whose form or meaning is not the newest class's, as the file has it.

    `onnx.Versioned "" "Squeeze" 11(%x) {attributes = {axes = array<i64: 1>}} : ...`; `sx-upgrade-opset` replaces it.
    """

    name = "onnx.Versioned"
    domain = prop_def(StringAttr)
    op_type = prop_def(StringAttr)
    since_version = prop_def(IntegerAttr)
    attributes_ = prop_def(DictionaryAttr, prop_name="attributes")
    graphs = opt_prop_def(Attribute)
    inputs = opt_prop_def(DenseArrayBase)
    outputs = opt_prop_def(DenseArrayBase)
    operands_ = var_operand_def()
    results_ = var_result_def()
    bodies = var_region_def("single_block")

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as a plain Python value; `default` where the node does not have it."""
        value = self.attributes_.data.get(name)
        return default if value is None else plain(value)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.domain.data)
        printer.print_string(" ")
        printer.print_string_literal(self.op_type.data)
        printer.print_string(f" {self.since_version.value.data}")
        self.print_rest(printer, frozenset(("domain", "op_type", "since_version")))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        domain, op_type = parser.parse_str_literal(), parser.parse_str_literal()
        version = IntegerAttr(parser.parse_integer(allow_boolean=False, allow_negative=False), 64)
        return cls.parse_rest(
            parser, {"domain": StringAttr(domain), "op_type": StringAttr(op_type), "since_version": version}
        )


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


OPS: list[type[Operation]] = [InitializerOp, YieldOp, CustomOp, VersionedOp, CallOp]
