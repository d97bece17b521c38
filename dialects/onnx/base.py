"""What all onnx operations share: building by formal position, printing, parsing, verification, attribute defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar, cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, IntegerAttr, ModuleOp
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.lexer import Position

from .attributes import ints_attr, plain, read, shown, string_attr, text_of, to_attribute
from .nodes import NodeInfo, NodeTableAttr
from .schema import (
    OPERAND_SEGMENTS,
    REGION_SEGMENTS,
    RESULT_SEGMENTS,
    SEGMENTS,
    Schema,
    add_segments,
    padded,
    segment_sizes,
    value_at,
    value_listed,
    values_by_position,
    values_listed,
)
from .signature import type_problem
from .types import UNKNOWN


class OnnxOp(IRDLOperation):
    """An operation of ONNX.

    Operands and results are those that are present, in the schema's order; `operand_at(i)` and `result_at(i)` answer
    by formal position.  Attributes are properties, there only where the file has them; `attr(op, name)` supplies the
    schema's default.  Of the discardable attributes, `onnx.node` is the id of the file's node that the op is, `origin`
    the ids of the nodes that it comes from, and `onnx.names` the values' names by formal position ("" for none).
    """

    name = "onnx.Op"  # no operation: subclasses have their own
    SCHEMA: ClassVar[Schema]

    @classmethod
    def make(
        cls,
        operands: Sequence[SSAValue | None] = (),
        attributes: Mapping[str, object] = {},
        types: Sequence[Attribute | None] = (),
        *,
        like: Operation | None = None,
        regions: Sequence[Region | None] = (),
    ) -> Self:
        """Builds the op from its operands by formal position, None for an absent one.

        `attributes` are plain Python values or attributes; None leaves one out.  `types` are the result types by formal
        position, None for an absent result; without `types`, each result that must be there is `!onnx.unknown`.
        `like` gives the `origin`.  Raises TypeError for an attribute that the schema does not have.
        """
        schema = cls.SCHEMA
        properties: dict[str, Attribute] = {}
        for key, value in attributes.items():
            if value is not None:
                spec = schema.attributes.get(key)
                if spec is None:
                    raise TypeError(f"{cls.name} has no attribute {key!r}")
                properties[key] = to_attribute(spec.kind, value)
        if not types:
            types = [UNKNOWN] * schema.min_outputs
        add_segments(properties, cls.SCHEMA, operands, types, regions)
        origin = like.attributes.get("origin") if like is not None else None
        return cls.create(
            operands=[v for v in operands if v is not None],
            result_types=[t for t in types if t is not None],
            properties=properties,
            attributes={} if origin is None else {"origin": origin},
            regions=[r for r in regions if r is not None],
        )

    def operand_at(self, index: int) -> SSAValue | None:
        """The operand at a formal position; None where it is absent."""
        return value_at(self._operands, self.SCHEMA.inputs, self.properties.get(OPERAND_SEGMENTS), index)

    def result_at(self, index: int) -> OpResult | None:
        """The result at a formal position; None where it is absent."""
        return value_at(self.results, self.SCHEMA.outputs, self.properties.get(RESULT_SEGMENTS), index)

    def formal_operands(self) -> list[SSAValue | None]:
        """All operands by formal position, None for an absent one, without absent ones at the end."""
        return values_by_position(self._operands, self.SCHEMA.inputs, self.properties.get(OPERAND_SEGMENTS))

    def formal_results(self) -> list[OpResult | None]:
        """All results by formal position, None for an absent one, without absent ones at the end."""
        return values_by_position(self.results, self.SCHEMA.outputs, self.properties.get(RESULT_SEGMENTS))

    def formal_regions(self) -> list[Region | None]:
        """The regions in the order of the schema's graph attributes, None for an absent one."""
        sizes = segment_sizes(self.properties.get(REGION_SEGMENTS))
        if sizes is None:
            return list(self.regions)
        rest = iter(self.regions)
        return [next(rest) if size else None for size in sizes]

    def default(self, name: str) -> Any:
        """The schema's default of an attribute, None where it has none. Raises KeyError for an unknown name."""
        default = self.SCHEMA.attributes[name].default
        return list(cast("tuple[object, ...]", default)) if isinstance(default, tuple) else default

    # Printing and parsing: %y = onnx.Conv(%x, %w, _) {group = 1 : i64} : (tensor<...>, tensor<...>) -> tensor<...>

    def print(self, printer: Printer) -> None:
        operands = padded(self.formal_operands(), self.SCHEMA.inputs)
        with printer.in_parens():
            printer.print_list(operands, lambda v: _print_or_blank(printer, printer.print_operand, v))
        if self.regions:
            printer.print_string(" (")
            printer.print_list(self.formal_regions(), lambda r: _print_or_blank(printer, printer.print_region, r))
            printer.print_string(")")
        _print_attributes(printer, self, SEGMENTS)
        printer.print_string(" : ")
        with printer.in_parens():
            printer.print_list(self.operand_types, printer.print_attribute)
        printer.print_string(" -> ")
        results = [r and r.type for r in self.formal_results()]
        if len(results) == 1 and results[0] is not None:
            printer.print_attribute(results[0])
        else:
            with printer.in_parens():
                printer.print_list(results, lambda t: _print_or_blank(printer, printer.print_attribute, t))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        at = parser.pos
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _parse_operand(parser))
        regions = (
            parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, lambda: _parse_region(parser)) or []
        )
        properties, attributes = _parse_attributes(parser, cls)
        values, types = _parse_signature(parser, operands, at)
        add_segments(properties, cls.SCHEMA, values, types, regions)
        return cls.create(
            operands=[v for v in values if v is not None],
            result_types=[t for t in types if t is not None],
            properties=properties,
            attributes=attributes,
            regions=[r for r in regions if r is not None],
        )

    def check(self) -> None:
        """Raises VerifyException where the op does not keep its schema's promises."""
        schema = self.SCHEMA
        definition = self.get_irdl_definition()
        try:
            definition.verify(self)
        except VerifyException as error:
            raise VerifyException(f"{describe(self)}: {error}") from error
        problem = type_problem(schema, self.formal_operands(), self.formal_results())
        if problem is not None:
            raise VerifyException(f"{describe(self)}: {problem}")


class PositionedOp(IRDLOperation):
    """An operation without a schema: which formal positions its operands and results have is in properties.

    `inputs` and `outputs` list the positions of what is present; without them there is no gap.
    """

    name = "onnx.Positioned"  # no operation: subclasses have their own

    def operand_at(self, index: int) -> SSAValue | None:
        """The operand at a formal position; None where it is absent."""
        return value_listed(self._operands, self.properties.get("inputs"), index)

    def result_at(self, index: int) -> OpResult | None:
        """The result at a formal position; None where it is absent."""
        return value_listed(self.results, self.properties.get("outputs"), index)

    def formal_operands(self) -> list[SSAValue | None]:
        """All operands by formal position, None for an absent one, without absent ones at the end."""
        return values_listed(self._operands, self.properties.get("inputs"))

    def formal_results(self) -> list[OpResult | None]:
        """All results by formal position, None for an absent one, without absent ones at the end."""
        return values_listed(self.results, self.properties.get("outputs"))

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

        with printer.in_parens():
            printer.print_list(self.formal_operands(), lambda v: _print_or_blank(printer, printer.print_operand, v))
        if self.regions:
            printer.print_string(" (")
            printer.print_list(self.regions, printer.print_region)
            printer.print_string(")")
        _print_attributes(printer, self, hidden | {"inputs", "outputs"})
        printer.print_string(" : ")
        with printer.in_parens():
            printer.print_list(self.operand_types, printer.print_attribute)
        printer.print_string(" -> ")
        with printer.in_parens():
            types = [r and r.type for r in self.formal_results()]
            printer.print_list(types, lambda t: _print_or_blank(printer, printer.print_attribute, t))

    @classmethod
    def parse_rest(cls, parser: Parser, properties: dict[str, Attribute]) -> Self:
        """Parses what `print_rest` prints."""

        at = parser.pos
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _parse_operand(parser))
        regions = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_region) or []
        more, attributes = _parse_attributes(parser, cls)
        values, types = _parse_signature(parser, operands, at)
        return cls.build_at(properties | more, values, types, attributes, regions)


def describe(op: Operation) -> str:
    """`onnx.Conv 'encoder/conv_3'`: the op and, where the module has it, the name of its node.

    `onnx.Reshape of Tile 'repeat'` where the node is of another operator, which this op is a part of.
    """
    info = info_of(op)
    if info is None:
        return op.name
    other = isinstance(op, OnnxOp) and info.op_type and info.op_type != op.SCHEMA.op_type
    made = f"{op.name} of {info.op_type}" if other else op.name
    return f"{made} {info.name!r}" if info.name else made


# Text


def _print_or_blank(printer: Printer, show: Any, value: object) -> None:
    if value is None:
        printer.print_string("_")
    else:
        show(value)


def _print_attributes(printer: Printer, op: Operation, hidden: frozenset[str]) -> None:
    properties = {key: value for key, value in op.properties.items() if key not in hidden}
    printer.print_op_attributes({key: shown(value) for key, value in (properties | op.attributes).items()})


def _parse_attributes(parser: Parser, cls: type[IRDLOperation]) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    """Parses an op's dictionary: its properties, and its discardable attributes."""
    found = {key: read(value) for key, value in parser.parse_optional_attr_dict().items()}
    named = cls.get_irdl_definition().properties
    return {k: v for k, v in found.items() if k in named}, {k: v for k, v in found.items() if k not in named}


def _parse_operand(parser: Parser) -> UnresolvedOperand | None:
    if parser.parse_optional_keyword("_") is not None:
        return None
    return parser.parse_unresolved_operand()


def _parse_region(parser: Parser) -> Region | None:
    if parser.parse_optional_keyword("_") is not None:
        return None
    return parser.parse_region()


def _parse_type(parser: Parser) -> Attribute | None:
    if parser.parse_optional_keyword("_") is not None:
        return None
    return parser.parse_type()


def _parse_signature(
    parser: Parser, operands: Sequence[UnresolvedOperand | None], at: Position
) -> tuple[list[SSAValue | None], list[Attribute | None]]:
    """Parses `: (types) -> types`: the operands and the result types by formal position, None for absent ones."""
    parser.parse_punctuation(":")
    operand_types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    parser.parse_punctuation("->")
    types: list[Attribute | None]
    if parser.parse_optional_punctuation("(") is None:
        types = [parser.parse_type()]
    elif parser.parse_optional_punctuation(")") is not None:
        types = []
    else:
        types = [_parse_type(parser)]
        while parser.parse_optional_punctuation(",") is not None:
            types.append(_parse_type(parser))
        parser.parse_punctuation(")")
    resolved = iter(parser.resolve_operands([o for o in operands if o is not None], operand_types, at))
    return [None if o is None else next(resolved) for o in operands], types


def attr(op: Operation, name: str) -> Any:
    """An attribute as a plain Python value, or the schema's default where it is absent, or None.

    int, float, str (bytes that are no UTF-8 as surrogates), list, ndarray for a dense tensor.  What has no plain form
    (a weight's handle, a reference to a function's attribute, a type) is given as the attribute.  Raises KeyError where
    the op's schema has no such attribute, or, for an operator without a schema, the node.
    """
    value = op.properties.get(name)
    if value is not None:
        return plain(value)
    if isinstance(op, OnnxOp):
        return op.default(name)
    found = op.properties.get("attributes")  # of an operator without a schema
    if isinstance(found, DictionaryAttr):
        return plain(found.data[name])
    raise KeyError(name)


# Nodes and names


def origin_of(op: Operation) -> tuple[int, ...]:
    """The ids of the file's nodes that the op comes from."""
    origin = op.attributes.get("origin")
    return tuple(cast("DenseArrayBase[Any]", origin).get_values()) if isinstance(origin, DenseArrayBase) else ()


def origin_union(ops: Iterable[Operation]) -> DenseArrayBase[Any]:
    """The union of the ops' origins, in order, for what a rewrite makes of them."""
    return ints_attr(tuple(sorted({i for op in ops for i in origin_of(op)})))


def node_table(op: Operation) -> tuple[NodeInfo, ...]:
    """The module's table of the file's nodes, by id; empty where there is none."""
    root: Operation = op
    while (parent := root.parent_op()) is not None:
        root = parent
    table = root.attributes.get("onnx.nodes") if isinstance(root, ModuleOp) else None
    return table.data if isinstance(table, NodeTableAttr) else ()


def info_of(op: Operation) -> NodeInfo | None:
    """The node that the op is, or else the first that it comes from."""
    node = op.attributes.get("onnx.node")
    ids = (node.value.data,) if isinstance(node, IntegerAttr) else origin_of(op)
    table = node_table(op) if ids else ()
    return table[ids[0]] if ids and 0 <= ids[0] < len(table) else None


EMPTY_ROWS = "onnx.empty_rows"
"""On an Attention that was written as products and a Softmax, `nan`: what a row is that may attend to no key.

Else it is 0, as the operator's text has it.
"""

SHARED_KEY = "onnx.shared_key"
"""On an Attention whose mask, where it has one key, says the same of all keys: it broadcasts.

Else a mask of fewer keys than there are hides the others, as the operator's text has it since version 24.
"""

REASON = "onnx.reason"
"""On an operation made of another one: what to say in place of its own words where sizes do not fit it."""

PROBLEM = "onnx.problem"
"""On an operation made of another one: what to say in place of its own words where an index of it is out of range.

The text may have a {0}, the index.
"""

LIMITED = "onnx.limited_broadcast"
"""On an operation made of one of an opset with less broadcasting, until its operands' sizes are stated.

`none` says that all operands have one shape, `first` that they broadcast to that of the first.
"""


def value_name(value: SSAValue) -> str | None:
    """The name that the file gives a value (a node's output, an initializer, a graph's input); None if it has none."""
    if isinstance(value, OpResult):
        op = value.op
        names = op.attributes.get("onnx.names")
        if not isinstance(names, ArrayAttr):
            return None
        listed = [text_of(n) for n in cast("ArrayAttr[Attribute]", names)]
        found = op.formal_results() if isinstance(op, OnnxOp | PositionedOp) else list(op.results)
        at = next((i for i, r in enumerate(found) if r is value), -1)
        return listed[at] or None if 0 <= at < len(listed) else None
    assert isinstance(value, BlockArgument)
    owner, region = value.block.parent_op(), value.block.parent_region()
    names = owner.attributes.get("onnx.inputs") if owner is not None else None
    if owner is None or region is None or not isinstance(names, ArrayAttr):
        return None
    entries = cast("ArrayAttr[Attribute]", names)
    if isinstance(owner, OnnxOp | PositionedOp):  # one list for each body
        entries = cast("ArrayAttr[Attribute]", entries.data[owner.get_region_index(region)])
    return text_of(entries.data[value.index]) or None if value.index < len(entries) else None


def set_value_name(value: SSAValue, name: str) -> None:
    """Gives a result the name of a value of the file."""
    assert isinstance(value, OpResult)
    op = value.op
    listed = op.formal_results() if isinstance(op, OnnxOp | PositionedOp) else list(op.results)
    found = op.attributes.get("onnx.names")
    names: list[Attribute] = list(found) if isinstance(found, ArrayAttr) else []
    names += [string_attr("")] * (len(listed) - len(names))
    names[next(i for i, r in enumerate(listed) if r is value)] = string_attr(name)
    op.attributes["onnx.names"] = ArrayAttr(names)


OnnxOpT = TypeVar("OnnxOpT", bound=OnnxOp)


def onnx_op(cls: type[OnnxOpT]) -> type[OnnxOpT]:
    """`irdl_op_definition` with messages that name the node, and checks from the schema."""
    defined = irdl_op_definition(cls)
    defined.verify_ = cls.check
    return defined
