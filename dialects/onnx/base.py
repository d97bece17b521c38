"""What all onnx operations share: building by formal position, printing, parsing, verification, attribute defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    f32,
    i32,
    i64,
)
from xdsl.dialects.builtin import (
    BytesAttr as BuiltinBytesAttr,
)
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.irdl import AnyAttr, AnyOf, AttrConstraint, BaseAttr, IRDLOperation, irdl_op_definition, traits_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure, RecursivelySpeculatable, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.lexer import Position

from .nodes import NodeInfo, NodeTableAttr
from .types import UNKNOWN, RefAttr, SparseAttr, TextAttr, WeightAttr, numpy_dtype, type_string

if TYPE_CHECKING:
    import numpy as np

OPERAND_SEGMENTS = "operandSegmentSizes"
RESULT_SEGMENTS = "resultSegmentSizes"
REGION_SEGMENTS = "regionSegmentSizes"
_SEGMENTS = frozenset((OPERAND_SEGMENTS, RESULT_SEGMENTS, REGION_SEGMENTS))


def _kind(*bases: type[Attribute]) -> Any:
    """The constraint of one of AttributeProto's kinds; inside a local function a reference may stand for the value."""
    return AnyOf(tuple(BaseAttr(b) for b in (*bases, RefAttr)))


# What generated classes declare their properties with; long lists and tensors may be weights.
INT: AttrConstraint[IntegerAttr[Any]] = _kind(IntegerAttr)
INTS: AttrConstraint[DenseArrayBase[Any] | WeightAttr] = _kind(DenseArrayBase, WeightAttr)
FLOAT: AttrConstraint[FloatAttr[Any]] = _kind(FloatAttr)
FLOATS: AttrConstraint[DenseArrayBase[Any] | WeightAttr] = _kind(DenseArrayBase, WeightAttr)
STRING: AttrConstraint[StringAttr] = _kind(StringAttr, TextAttr)
STRINGS: AttrConstraint[ArrayAttr[StringAttr] | WeightAttr] = _kind(ArrayAttr, WeightAttr)
TENSOR: AttrConstraint[DenseIntOrFPElementsAttr[Any] | WeightAttr] = _kind(DenseIntOrFPElementsAttr, WeightAttr)
SPARSE_TENSOR: AttrConstraint[SparseAttr] = _kind(SparseAttr)
TYPE_PROTO: AttrConstraint[Attribute] = AnyAttr()


class Arity(IntEnum):
    """How often a formal parameter occurs."""

    SINGLE = 0
    OPTIONAL = 1
    VARIADIC = 2


class Formal(NamedTuple):
    """A formal parameter: `type` is a type variable of the schema or a type string, `tensor(int64)`."""

    name: str
    type: str
    arity: Arity = Arity.SINGLE
    homogeneous: bool = True  # a variadic's values have all the same type


class AttributeSpec(NamedTuple):
    """An attribute of the schema: `kind` is AttributeProto's ("INT", "FLOATS", "GRAPH", ...)."""

    kind: str
    required: bool = False
    default: object = None


@dataclass(frozen=True, slots=True)
class Schema:
    """An operator as onnx.defs has it, at its newest version.

    `since` is the version that made it so; `compatible` the first version whose nodes read the same as the newest's
    (older ones are imported as `onnx.Versioned`).  `constraints` maps a type variable to the allowed type strings in a
    short form, `tensor: int32 int64; seq(tensor): float`.  `min_inputs` and `min_outputs` count the leading ones that
    must be there.
    """

    op_type: str
    domain: str
    since: int
    compatible: int
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    attributes: dict[str, AttributeSpec]
    constraints: dict[str, str]
    min_inputs: int
    min_outputs: int


PURE = traits_def(Pure())
RECURSIVE = traits_def(RecursivelySpeculatable(), RecursiveMemoryEffect())


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
        add_segments(properties, cls, operands, types, regions)
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
        return _at(self._operands, self.SCHEMA.inputs, self.properties.get(OPERAND_SEGMENTS), index)

    def result_at(self, index: int) -> OpResult | None:
        """The result at a formal position; None where it is absent."""
        return _at(self.results, self.SCHEMA.outputs, self.properties.get(RESULT_SEGMENTS), index)

    def formal_operands(self) -> list[SSAValue | None]:
        """All operands by formal position, None for an absent one, without absent ones at the end."""
        return _by_position(self._operands, self.SCHEMA.inputs, self.properties.get(OPERAND_SEGMENTS))

    def formal_results(self) -> list[OpResult | None]:
        """All results by formal position, None for an absent one, without absent ones at the end."""
        return _by_position(self.results, self.SCHEMA.outputs, self.properties.get(RESULT_SEGMENTS))

    def formal_regions(self) -> list[Region | None]:
        """The regions in the order of the schema's graph attributes, None for an absent one."""
        sizes = _segments(self.properties.get(REGION_SEGMENTS))
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
        operands = _padded(self.formal_operands(), self.SCHEMA.inputs)
        with printer.in_parens():
            printer.print_list(operands, lambda v: _print_or_blank(printer, printer.print_operand, v))
        if self.regions:
            printer.print_string(" (")
            printer.print_list(self.formal_regions(), lambda r: _print_or_blank(printer, printer.print_region, r))
            printer.print_string(")")
        shown = {k: v for k, v in self.properties.items() if k not in _SEGMENTS}
        printer.print_op_attributes(shown | self.attributes)
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
        shown = parser.parse_optional_attr_dict()
        values, types = parse_signature(parser, operands, at)
        named = cls.get_irdl_definition().properties
        properties = {k: v for k, v in shown.items() if k in named}
        add_segments(properties, cls, values, types, regions)
        return cls.create(
            operands=[v for v in values if v is not None],
            result_types=[t for t in types if t is not None],
            properties=properties,
            attributes={k: v for k, v in shown.items() if k not in named},
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
        bound: dict[str, str] = {}
        for role, formals, values in (
            ("input", schema.inputs, self.formal_operands()),
            ("output", schema.outputs, self.formal_results()),
        ):
            for index, value in enumerate(values):
                if value is not None:
                    formal = formals[min(index, len(formals) - 1)]
                    _check_type(self, role, formal, index, value.type, bound)


class PositionedOp(IRDLOperation):
    """An operation without a schema: which formal positions its operands and results have is in properties.

    `inputs` and `outputs` list the positions of what is present; without them there is no gap.
    """

    name = "onnx.Positioned"  # no operation: subclasses have their own

    def operand_at(self, index: int) -> SSAValue | None:
        """The operand at a formal position; None where it is absent."""
        return _at_position(self._operands, self.properties.get("inputs"), index)

    def result_at(self, index: int) -> OpResult | None:
        """The result at a formal position; None where it is absent."""
        return _at_position(self.results, self.properties.get("outputs"), index)

    def formal_operands(self) -> list[SSAValue | None]:
        """All operands by formal position, None for an absent one, without absent ones at the end."""
        return _by_positions(self._operands, self.properties.get("inputs"))

    def formal_results(self) -> list[OpResult | None]:
        """All results by formal position, None for an absent one, without absent ones at the end."""
        return _by_positions(self.results, self.properties.get("outputs"))

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
        shown = {k: v for k, v in self.properties.items() if k not in hidden and k not in ("inputs", "outputs")}
        printer.print_op_attributes(shown | self.attributes)
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
        shown = parser.parse_optional_attr_dict()
        named = cls.get_irdl_definition().properties
        values, types = parse_signature(parser, operands, at)
        properties |= {k: v for k, v in shown.items() if k in named}
        rest = {k: v for k, v in shown.items() if k not in named}
        return cls.build_at(properties, values, types, rest, regions)


def _check_type(op: OnnxOp, role: str, formal: Formal, index: int, type_: Attribute, bound: dict[str, str]) -> None:
    text = type_string(type_)
    if text is None:
        return  # not inferred yet
    constraint = op.SCHEMA.constraints.get(formal.type)
    allowed = _split(constraint if constraint is not None else formal.type)
    if text not in allowed:
        raise VerifyException(
            f"{describe(op)}: {role} {index} ('{formal.name}') is {text}; allowed: {', '.join(sorted(allowed))}"
        )
    if constraint is not None and formal.homogeneous and bound.setdefault(formal.type, text) != text:
        raise VerifyException(
            f"{describe(op)}: {role} {index} ('{formal.name}') is {text}, but another value of type {formal.type} is "
            f"{bound[formal.type]}"
        )


@cache
def _split(types: str) -> frozenset[str]:
    """The type strings that a constraint stands for; see `compact_types` in generate.py."""
    found: list[str] = []
    for part in types.split("; "):
        wrap, colon, elements = part.partition(": ")
        if not colon:
            found.append(part)
            continue
        closing = ")" * (wrap.count("(") + 1)
        found += [f"{wrap.rstrip(')')}({element}{closing}" for element in elements.split()]
    return frozenset(found)


def describe(op: Operation) -> str:
    """`onnx.Conv 'encoder/conv_3'`: the op and, where the module has it, the name of its node."""
    info = info_of(op)
    return f"{op.name} {info.name!r}" if info is not None and info.name else op.name


# Formal positions


def _segments(attribute: Attribute | None) -> tuple[int, ...] | None:
    return None if attribute is None else _segment_sizes(cast("DenseArrayBase[Any]", attribute))


@lru_cache(maxsize=4096)
def _segment_sizes(attribute: DenseArrayBase[Any]) -> tuple[int, ...]:
    return tuple(attribute.get_values())


ValueT = TypeVar("ValueT", bound=SSAValue)


def _at(values: Sequence[ValueT], formals: tuple[Formal, ...], segments: Attribute | None, index: int) -> ValueT | None:
    sizes = _segments(segments)
    if sizes is None:
        return values[index] if index < len(values) else None
    if index < len(sizes):
        if formals[index].arity is not Arity.VARIADIC and not sizes[index]:
            return None
        index = sum(sizes[:index])
    else:  # inside the variadic, which is the last
        index += sum(sizes[:-1]) - len(sizes) + 1
    return values[index] if index < len(values) else None


def _by_position(
    values: Sequence[ValueT], formals: tuple[Formal, ...], segments: Attribute | None
) -> list[ValueT | None]:
    sizes = _segments(segments)
    if sizes is None:
        return list(values)
    rest = iter(values)
    found: list[ValueT | None] = []
    for formal, size in zip(formals, sizes):
        if formal.arity is Arity.VARIADIC:
            found.extend(islice(rest, size))
        else:
            found.append(next(rest, None) if size else None)
    while found and found[-1] is None:
        found.pop()
    return found


def _padded(values: list[ValueT | None], formals: tuple[Formal, ...]) -> list[ValueT | None]:
    fixed = sum(f.arity is not Arity.VARIADIC for f in formals)
    return values + [None] * (fixed - len(values))


@lru_cache(maxsize=4096)
def _positions(attribute: Attribute) -> tuple[int, ...]:
    return tuple(cast("DenseArrayBase[Any]", attribute).get_values())


def _at_position(values: Sequence[ValueT], positions: Attribute | None, index: int) -> ValueT | None:
    if positions is not None:
        listed = _positions(positions)
        if index not in listed:
            return None
        index = listed.index(index)
    return values[index] if index < len(values) else None


def _by_positions(values: Sequence[ValueT], positions: Attribute | None) -> list[ValueT | None]:
    if positions is None:
        return list(values)
    listed = _positions(positions)
    found: list[ValueT | None] = [None] * (listed[-1] + 1 if listed else 0)
    for at, value in zip(listed, values):
        found[at] = value
    return found


def add_segments(
    properties: dict[str, Attribute],
    cls: type[OnnxOp],
    operands: Sequence[object | None],
    types: Sequence[object | None],
    regions: Sequence[object | None] = (),
) -> None:
    """Sets the segment sizes that a class with more than one optional or variadic parameter needs."""
    schema = cls.SCHEMA
    if needs_segments(schema.inputs):
        properties[OPERAND_SEGMENTS] = _segments_of(schema.inputs, tuple(v is not None for v in operands))
    if needs_segments(schema.outputs):
        properties[RESULT_SEGMENTS] = _segments_of(schema.outputs, tuple(t is not None for t in types))
    if sum(a.kind == "GRAPH" and not a.required for a in schema.attributes.values()) > 1:
        properties[REGION_SEGMENTS] = DenseArrayBase.from_list(i32, [int(r is not None) for r in regions])


def needs_segments(formals: Sequence[Formal]) -> bool:
    """Whether the counts alone do not tell which parameters are present."""
    return sum(f.arity is not Arity.SINGLE for f in formals) > 1


@lru_cache(maxsize=4096)
def _segments_of(formals: tuple[Formal, ...], present: tuple[bool, ...]) -> DenseArrayBase[Any]:
    sizes: list[int] = []
    for index, formal in enumerate(formals):
        if formal.arity is Arity.VARIADIC:
            sizes.append(sum(present[index:]))
        else:
            sizes.append(int(index < len(present) and present[index]))
    return DenseArrayBase.from_list(i32, sizes)


# Text


def _print_or_blank(printer: Printer, show: Any, value: object) -> None:
    if value is None:
        printer.print_string("_")
    else:
        show(value)


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


def parse_signature(
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


# Attributes as plain Python values


@lru_cache(maxsize=4096)
def int_attr(value: int) -> IntegerAttr[Any]:
    """An INT attribute (i64)."""
    return IntegerAttr(value, i64)


@lru_cache(maxsize=4096)
def ints_attr(values: tuple[int, ...]) -> DenseArrayBase[Any]:
    """An INTS attribute, `array<i64: 1, 2>`."""
    return DenseArrayBase.from_list(i64, values)


def float_attr(value: float) -> FloatAttr[Any]:
    """A FLOAT attribute (f32)."""
    return FloatAttr(value, f32)


def floats_attr(values: Iterable[float]) -> DenseArrayBase[Any]:
    """A FLOATS attribute, `array<f32: 1.0, 2.0>`."""
    return DenseArrayBase.from_list(f32, tuple(values))


def string_attr(value: str | bytes) -> StringAttr | TextAttr:
    """A STRING attribute, or a name; what is not ASCII is a TextAttr."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    return StringAttr(value) if value.isascii() else TextAttr(value)


def text_of(attribute: Attribute) -> str:
    """The text of what `string_attr` made."""
    assert isinstance(attribute, StringAttr | TextAttr)
    return attribute.data


def strings_attr(values: Iterable[str | bytes]) -> ArrayAttr[Attribute]:
    """A STRINGS attribute."""
    return ArrayAttr([string_attr(v) for v in values])


def tensor_attr(array: np.ndarray[Any, Any]) -> DenseIntOrFPElementsAttr[Any]:
    """A small TENSOR attribute. Raises TypeError for element types that only a weight can hold."""
    from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType

    from .types import element_of_dtype

    element = element_of_dtype(array.dtype)
    narrow = isinstance(element, IntegerType) and element.width.data < 8 and array.dtype != bool
    if narrow or not isinstance(element, IntegerType | AnyFloat):
        raise TypeError(f"a dense attribute cannot hold {array.dtype}; use a weight")
    return dense_attr(TensorType(element, array.shape), array.tobytes())


def dense_attr(type_: Attribute, data: bytes) -> DenseIntOrFPElementsAttr[Any]:
    """The dense attribute of that tensor type with those bytes (row-major, little-endian, one byte a bool)."""
    return DenseIntOrFPElementsAttr(cast("Any", type_), BuiltinBytesAttr(data))


def to_attribute(kind: str, value: object) -> Attribute:
    """The attribute for a plain value of AttributeProto's kind; an attribute stays as it is."""
    if isinstance(value, Attribute):
        return value
    return _TO_ATTRIBUTE[kind](value)


_TO_ATTRIBUTE: dict[str, Any] = {
    "INT": lambda v: int_attr(int(v)),
    "INTS": lambda v: ints_attr(tuple(map(int, v))),
    "FLOAT": lambda v: float_attr(float(v)),
    "FLOATS": floats_attr,
    "STRING": string_attr,
    "STRINGS": strings_attr,
    "TENSOR": tensor_attr,
}


def attr(op: Operation, name: str) -> Any:
    """An attribute as a plain Python value, or the schema's default where it is absent, or None.

    int, float, str (bytes that are no UTF-8 as surrogates), list, ndarray for a dense tensor.  What has no plain form
    (a weight's handle, a reference to a function's attribute, a type) is given as the attribute.  Raises KeyError where
    the op's schema has no such attribute.
    """
    value = op.properties.get(name)
    if value is not None:
        return plain(value)
    if isinstance(op, OnnxOp):
        return op.default(name)
    raise KeyError(name)


def plain(value: Attribute) -> Any:
    """The plain Python value of an attribute, as `attr` gives it."""
    match value:
        case IntegerAttr():
            return value.value.data
        case FloatAttr():
            return value.value.data
        case StringAttr() | TextAttr():
            return value.data
        case DenseArrayBase():
            return list(cast("DenseArrayBase[Any]", value).get_values())
        case ArrayAttr():
            return [plain(v) for v in value]
        case DenseIntOrFPElementsAttr():
            return dense_array(value)
        case _:
            return value


def dense_array(value: DenseIntOrFPElementsAttr[Any]) -> np.ndarray[Any, Any]:
    """The values of a dense attribute, read-only, with the shape of its type."""
    import numpy as np

    type_ = value.type
    shape = tuple(type_.get_shape())
    data = value.data.data
    flat = np.frombuffer(data, numpy_dtype(type_.element_type))
    return flat.reshape(shape) if flat.size == _product(shape) else np.broadcast_to(flat, shape)  # a splat has one


def _product(sizes: Iterable[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


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


OnnxOpT = TypeVar("OnnxOpT", bound=OnnxOp)


def onnx_op(cls: type[OnnxOpT]) -> type[OnnxOpT]:
    """`irdl_op_definition` with messages that name the node, and checks from the schema."""
    defined = irdl_op_definition(cls)
    defined.verify_ = cls.check
    return defined
