"""What the parts of the entry's lowering tell each other: errors, kernels, places of values, and how to read `main`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    ComplexType,
    DenseArrayBase,
    FixedBitwidthType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import dims, onnx
from ..dialects.dims import Dim, ShapeAttr, dims_of
from ..dialects.onnx import STRING, element_bits, numpy_dtype
from ..runtime.manifest import ABSENT, Check, Host, HostValue


class EntryError(NotImplementedError):
    """`main` holds what the entry cannot lower: a bug of whoever made it."""


@dataclass(frozen=True)
class KernelInfo:
    """A kernel as its callers need it: its C symbol, and its checks (code, message) by their own site numbers."""

    symbol: str
    checks: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Entry:
    """The entry's module (llvm dialect), and the tables that its numbers index.

    `checks` by site; `hosts` by number, with the ops that they are in `hosted`; `weights` the values (attributes of
    the constants) that the weights table must hold, in its order.
    """

    module: ModuleOp
    checks: tuple[Check, ...]
    hosts: tuple[Host, ...]
    hosted: tuple[Operation, ...]
    weights: tuple[Attribute, ...]
    steps: tuple[Operation, ...]
    """Of a timed entry, the calls that notes of times number."""


@dataclass(frozen=True)
class Place:
    """Where a value is. `pointer` is an i64 number for an object.

    `lasting` memory keeps its content until the call ends; what is not lasting may be another value's after the region
    that the value belongs to. `home` tells equal places apart from others before anything runs.
    """

    pointer: SSAValue
    lasting: bool
    home: object = None


def is_object(type_: Attribute) -> bool:
    """Whether values of the type are Python objects to native code: string tensors, sequences, optionals, maps."""
    return not isinstance(type_, TensorType) or type_.element_type == STRING


def element_bytes(element: Attribute) -> int:
    """The size in memory of one element: bool and what is below a byte take one byte."""
    if isinstance(element, ComplexType):
        return 2 * element_bytes(element.element_type)
    if isinstance(element, FixedBitwidthType):
        return max(1, element.bitwidth // 8)
    return max(1, element_bits(element) // 8)


def tensor_dims(type_: Attribute) -> tuple[Dim, ...]:
    """The sizes of a tensor; none for an object."""
    return () if not isinstance(type_, TensorType) else dims_of(type_)


def byte_size(type_: Attribute) -> Dim:
    """The bytes of a tensor."""
    assert isinstance(type_, TensorType)
    total = dims.as_dim(element_bytes(type_.element_type))
    for dim in dims_of(type_):
        total = total * dim
    return total


def host_result(type_: Attribute) -> HostValue:
    """How the manifest describes a result of a host operator; of texts, too, it has to say the sizes."""
    return {"dtype": host_value(type_)["dtype"], "rank": len(dims_of(type_)) if isinstance(type_, TensorType) else -1}


def host_value(type_: Attribute | None) -> HostValue:
    """How the manifest describes an operand of a host operator; None for an absent one."""
    if type_ is None:
        return {"dtype": ABSENT, "rank": -1}
    if not isinstance(type_, TensorType):
        return {"dtype": "object", "rank": -1}
    if type_.element_type == STRING:
        return {"dtype": "string", "rank": -1}
    return {"dtype": numpy_dtype(type_.element_type).name, "rank": len(dims_of(type_))}


def overridable_inputs(main: func.FuncOp) -> list[onnx.InitializerOp]:
    """The initializers that a caller may replace, in their order: inputs behind the function's own."""
    return [op for op in main.body.block.ops if isinstance(op, onnx.InitializerOp) and op.overridable is not None]


def homes_of(op: Operation, name: str, count: int) -> list[Dim | str]:
    """The scheduler's homes of an op's results or carried values."""
    found = op.attributes.get(name)
    if not isinstance(found, ArrayAttr) or len(found) != count:
        raise EntryError(f"{op.name} has no {name} for {count} values")
    homes: list[Dim | str] = []
    for entry in found:
        if isinstance(entry, ShapeAttr):
            homes.append(entry.data[0])
        elif isinstance(entry, StringAttr):
            homes.append(entry.data)
        else:
            raise EntryError(f"{op.name}: {name} has {entry}")
    return homes


def node_of(op: Operation) -> int:
    """The id of the file's node that an op stands for, -1 for none."""
    node = op.attributes.get("onnx.node")
    if isinstance(node, IntegerAttr):
        return node.value.data
    origin = op.attributes.get("origin")
    if isinstance(origin, DenseArrayBase) and len(origin):
        return min(int(i) for i in origin.get_values())
    return -1


def name_of(value: SSAValue, fallback: str) -> str:
    """The model's name of a value."""
    return onnx.value_name(value) or fallback


def escaped(text: str) -> str:
    """Text of the model in a message: its braces are no places for values."""
    return text.replace("{", "(").replace("}", ")")
