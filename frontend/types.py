"""TypeProto as types of the IR, and what a file declares of its values as text that inference can compare with."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from onnx import GraphProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, UnrankedTensorType
from xdsl.ir import Attribute

from ..dialects.dims import Dim, ShapeAttr, as_dim, tensor_type
from ..dialects.dims.expression import is_symbol_name
from ..dialects.dims.reserved import is_reserved
from ..dialects.onnx.declared import Declared, Size
from ..dialects.onnx.types import (
    ELEMENT_CODES,
    ELEMENT_NAMES,
    ELEMENT_TYPES,
    UNKNOWN,
    MapType,
    OptionalType,
    SequenceType,
    SparseType,
)
from ..runtime.errors import ModelError
from .size_texts import dim_of_text, is_name

UNKNOWN_SIZE = -1
"""What some exporters write for a size that is not known; any lower number is wrong."""


def check_defaults(graph: GraphProto) -> None:
    """Raises ModelError where an initializer is also an input, of another element type or other sizes."""
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for info in graph.input:
        tensor, type_ = tensors.get(info.name), info.type.tensor_type
        if tensor is None or not info.type.HasField("tensor_type"):
            continue
        if type_.elem_type not in (TensorProto.UNDEFINED, tensor.data_type):
            kinds = [ELEMENT_NAMES[_element(code, info.name)] for code in (type_.elem_type, tensor.data_type)]
            raise ModelError(f"'{info.name}' is {kinds[0]} as an input, and {kinds[1]} as an initializer")
        sizes = [_size(dim) for dim in type_.shape.dim]
        fits = len(sizes) == len(tensor.dims) and all(
            not isinstance(size, int) or size < 0 or size == given for size, given in zip(sizes, tensor.dims)
        )
        if type_.HasField("shape") and not fits:
            listed = ", ".join("?" if size is None else str(size) for size in sizes)
            raise ModelError(
                f"'{info.name}' has the sizes [{listed}] as an input, and {list(tensor.dims)} as an initializer"
            )


class InputTypes:
    """The types of a graph's inputs.

    A size that the file does not name is a fresh symbol, of that axis alone.  Text that is no expression is a name, and
    so is an expression of which the other sizes do not tell the symbols: each has one symbol wherever it stands, and a
    text's is close to it (`batch size` is `batch_size`).
    """

    def __init__(self, inputs: Iterable[ValueInfoProto]) -> None:
        found = [dim for info in inputs for dim in _named(info.type)]
        self._taken = {name for dim in found for name in dim.symbols}
        self._told = told_symbols(found)
        self._names: dict[str | Dim, Dim] = {}

    def type_of(self, info: ValueInfoProto) -> Attribute:
        """The type of one input. Raises ModelError for an element type that does not exist."""
        return self._type(info.type, info.name)

    def _type(self, proto: TypeProto, name: str) -> Attribute:
        match proto.WhichOneof("value"):
            case "tensor_type":
                return self._tensor(proto.tensor_type, name)
            case "sparse_tensor_type":
                return SparseType(self._tensor(proto.sparse_tensor_type, name))
            case "sequence_type":
                return SequenceType(loose_type(proto.sequence_type.elem_type, name))
            case "optional_type":
                return OptionalType(self._type(proto.optional_type.elem_type, name))
            case "map_type":
                key = _element(proto.map_type.key_type, name)
                return MapType(key, loose_type(proto.map_type.value_type, name))
            case _:
                return UNKNOWN

    def _tensor(self, proto: TypeProto.Tensor | TypeProto.SparseTensor, name: str) -> Attribute:
        if proto.elem_type == TensorProto.UNDEFINED:
            return UNKNOWN
        element = _element(proto.elem_type, name)
        if not proto.HasField("shape"):
            return UnrankedTensorType(element)
        return tensor_type(element, [self._dim(d, name, axis) for axis, d in enumerate(proto.shape.dim)])

    def _dim(self, proto: TensorShapeProto.Dimension, name: str, axis: int) -> Dim:
        size = _size(proto)
        if isinstance(size, int) and size < UNKNOWN_SIZE:
            raise ModelError(f"input '{name}' has the size {size} on axis {axis}")
        dim = as_dim(size) if isinstance(size, int) and size >= 0 else None
        if isinstance(size, str):
            dim = dim_of_text(size)
            known = size if dim is None else dim
            if (dim is None and is_name(size)) or (dim is not None and not dim.symbols <= self._told):
                if known not in self._names:
                    self._names[known] = self._fresh(f"{name}_{axis}" if dim is not None else size)
                return self._names[known]
        return dim if dim is not None else self._fresh(f"{name}_{axis}")

    def _fresh(self, text: str) -> Dim:
        symbol = re.sub(r"\W", "_", text, flags=re.ASCII)
        if not symbol[0].isalpha():
            symbol = f"s{symbol}"
        while symbol in self._taken or not is_symbol_name(symbol) or is_reserved(symbol):
            symbol += "_"
        self._taken.add(symbol)
        return Dim.symbol(symbol)


def told_symbols(dims: Iterable[Dim]) -> set[str]:
    """The symbols that sizes tell: one alone, or one that is left in a size that is linear in it."""
    told: set[str] = set()
    waiting = list(dims)
    while True:
        found = {symbol for d in waiting if (symbol := told_by(d, d.symbols - told)) is not None}
        if not found:
            return told
        told |= found
        waiting = [d for d in waiting if not d.symbols <= told]


def told_by(dim: Dim, unknown: Collection[str]) -> str | None:
    """The one unknown symbol that a size tells: the size is that symbol times a positive number, plus what is known."""
    if len(unknown) != 1:
        return None
    (symbol,) = unknown
    factor = (dim - dim.subs({symbol: 0})).divide_exactly(Dim.symbol(symbol))
    return symbol if factor is not None and factor.is_const and factor.value > 0 else None


def _named(proto: TypeProto) -> Iterator[Dim]:
    match proto.WhichOneof("value"):
        case "tensor_type":
            shape = proto.tensor_type.shape
        case "sparse_tensor_type":
            shape = proto.sparse_tensor_type.shape
        case "optional_type":
            yield from _named(proto.optional_type.elem_type)
            return
        case _:
            return
    for dim in shape.dim:
        found = dim_of_text(dim.dim_param) if dim.dim_param else None
        if found is not None:
            yield found


def loose_type(proto: TypeProto, name: str) -> Attribute:
    """The type of a sequence's elements: of a tensor only element type and rank, since sizes may differ."""
    match proto.WhichOneof("value"):
        case "tensor_type":
            tensor = proto.tensor_type
            element = _element(tensor.elem_type, name)
            if not tensor.HasField("shape"):
                return UnrankedTensorType(element)
            return TensorType(element, [DYNAMIC_INDEX] * len(tensor.shape.dim))
        case "sequence_type":
            return SequenceType(loose_type(proto.sequence_type.elem_type, name))
        case "optional_type":
            return OptionalType(loose_type(proto.optional_type.elem_type, name))
        case "map_type":
            return MapType(_element(proto.map_type.key_type, name), loose_type(proto.map_type.value_type, name))
        case _:
            return UNKNOWN


def _element(code: int, name: str) -> Attribute:
    element = ELEMENT_TYPES.get(code)
    if element is None:
        raise ModelError(f"value '{name}' has the element type {code}, which does not exist")
    return element


def _size(proto: TensorShapeProto.Dimension) -> Size:
    match proto.WhichOneof("value"):
        case "dim_value":
            return proto.dim_value
        case "dim_param":
            return proto.dim_param or None
        case _:
            return None


def declared(proto: TypeProto) -> Declared | None:
    """What the file says of a value's type; None where it says nothing that can be compared."""
    match proto.WhichOneof("value"):
        case "tensor_type" if proto.tensor_type.elem_type in ELEMENT_TYPES:
            tensor = proto.tensor_type
            sizes = tuple(map(_size, tensor.shape.dim)) if tensor.HasField("shape") else None
            return Declared(f"tensor({ELEMENT_NAMES[ELEMENT_TYPES[tensor.elem_type]]})", sizes)
        case "sequence_type":
            inner = declared(proto.sequence_type.elem_type)
            return inner and Declared(f"seq({inner.type})", None)
        case "optional_type":
            inner = declared(proto.optional_type.elem_type)
            return inner and Declared(f"optional({inner.type})", None)
        case _:
            return None


def type_proto_of(type_: Attribute) -> TypeProto:
    """The TypeProto of a type of the IR, symbolic dims as text; an empty one where it is not known."""
    proto = TypeProto()
    match type_:
        case TensorType() | UnrankedTensorType():
            _fill_tensor(proto.tensor_type, type_)
        case SparseType():
            _fill_tensor(proto.sparse_tensor_type, type_.dense)
        case SequenceType():
            proto.sequence_type.elem_type.CopyFrom(type_proto_of(type_.element))
        case OptionalType():
            proto.optional_type.elem_type.CopyFrom(type_proto_of(type_.element))
        case MapType():
            proto.map_type.key_type = ELEMENT_CODES[type_.key]
            proto.map_type.value_type.CopyFrom(type_proto_of(type_.element))
        case _:
            pass
    return proto


def _fill_tensor(proto: TypeProto.Tensor | TypeProto.SparseTensor, type_: Attribute) -> None:
    assert isinstance(type_, TensorType | UnrankedTensorType)
    element: Attribute = type_.element_type
    proto.elem_type = ELEMENT_CODES[element]
    if isinstance(type_, UnrankedTensorType):
        return
    proto.shape.SetInParent()
    encoding = type_.encoding
    dims = encoding.data if isinstance(encoding, ShapeAttr) else map(_known, type_.get_shape())
    for dim in dims:
        entry = proto.shape.dim.add()
        if dim is not None and dim.is_const:
            entry.dim_value = dim.value
        elif dim is not None:
            entry.dim_param = str(dim)


def _known(size: int) -> Dim | None:
    return None if size == DYNAMIC_INDEX else as_dim(size)
