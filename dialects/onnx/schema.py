"""What generated classes are declared with: schemas, kinds of attributes, formal positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, TypeVar, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    i32,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import AnyAttr, AnyOf, AttrConstraint, BaseAttr, traits_def
from xdsl.traits import Pure, RecursivelySpeculatable, RecursiveMemoryEffect

from .types import RefAttr, SparseAttr, TextAttr, WeightAttr

OPERAND_SEGMENTS = "operandSegmentSizes"
RESULT_SEGMENTS = "resultSegmentSizes"
REGION_SEGMENTS = "regionSegmentSizes"
SEGMENTS = frozenset((OPERAND_SEGMENTS, RESULT_SEGMENTS, REGION_SEGMENTS))


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


@dataclass(frozen=True, slots=True, eq=False)
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
    first: int  # the version in which the operator is new


PURE = traits_def(Pure())
RECURSIVE = traits_def(RecursivelySpeculatable(), RecursiveMemoryEffect())


# Formal positions


def segment_sizes(attribute: Attribute | None) -> tuple[int, ...] | None:
    """The sizes in a segments property; None without one."""
    return None if attribute is None else _segment_sizes(cast("DenseArrayBase[Any]", attribute))


@lru_cache(maxsize=4096)
def _segment_sizes(attribute: DenseArrayBase[Any]) -> tuple[int, ...]:
    return tuple(attribute.get_values())


ValueT = TypeVar("ValueT", bound=SSAValue)


def value_at(
    values: Sequence[ValueT], formals: tuple[Formal, ...], segments: Attribute | None, index: int
) -> ValueT | None:
    """The value at a formal position, given what is present and its segments."""
    sizes = segment_sizes(segments)
    if sizes is None:
        return values[index] if index < len(values) else None
    if index < len(sizes):
        if formals[index].arity is not Arity.VARIADIC and not sizes[index]:
            return None
        index = sum(sizes[:index])
    else:  # inside the variadic, which is the last
        index += sum(sizes[:-1]) - len(sizes) + 1
    return values[index] if index < len(values) else None


def values_by_position(
    values: Sequence[ValueT], formals: tuple[Formal, ...], segments: Attribute | None
) -> list[ValueT | None]:
    """All values by formal position, None for an absent one, without absent ones at the end."""
    sizes = segment_sizes(segments)
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


def padded(values: list[ValueT | None], formals: tuple[Formal, ...]) -> list[ValueT | None]:
    """The values with None for each absent one at the end."""
    fixed = sum(f.arity is not Arity.VARIADIC for f in formals)
    return values + [None] * (fixed - len(values))


@lru_cache(maxsize=4096)
def _positions(attribute: Attribute) -> tuple[int, ...]:
    return tuple(cast("DenseArrayBase[Any]", attribute).get_values())


def value_listed(values: Sequence[ValueT], positions: Attribute | None, index: int) -> ValueT | None:
    """The value at a formal position, where a property lists the positions of what is present."""
    if positions is not None:
        listed = _positions(positions)
        if index not in listed:
            return None
        index = listed.index(index)
    return values[index] if index < len(values) else None


def values_listed(values: Sequence[ValueT], positions: Attribute | None) -> list[ValueT | None]:
    """All values by formal position, where a property lists the positions of what is present."""
    if positions is None:
        return list(values)
    listed = _positions(positions)
    found: list[ValueT | None] = [None] * (listed[-1] + 1 if listed else 0)
    for at, value in zip(listed, values):
        found[at] = value
    return found


def add_segments(
    properties: dict[str, Attribute],
    schema: Schema,
    operands: Sequence[object | None],
    types: Sequence[object | None],
    regions: Sequence[object | None] = (),
) -> None:
    """Sets the segment sizes that a class with more than one optional or variadic parameter needs."""
    if needs_segments(schema.inputs):
        properties[OPERAND_SEGMENTS] = _segments_of(schema.inputs, tuple(v is not None for v in operands))
    if needs_segments(schema.outputs):
        properties[RESULT_SEGMENTS] = _segments_of(schema.outputs, tuple(t is not None for t in types))
    graphs = [spec for spec in schema.attributes.values() if spec.kind == "GRAPH"]
    if sum(not spec.required for spec in graphs) > 1:
        sizes = [int(at < len(regions) and regions[at] is not None) for at in range(len(graphs))]
        properties[REGION_SEGMENTS] = DenseArrayBase.from_list(i32, sizes)


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
