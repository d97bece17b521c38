"""`sx.infer_shapes`: the model with the sizes of all its values, as numbers and expressions in its own symbols."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import onnx as onnx_package
from onnx import ModelProto, TypeProto, ValueInfoProto
from xdsl.dialects.builtin import ModuleOp, TensorType, UnrankedTensorType
from xdsl.ir import Attribute, Block, SSAValue

from .collection import without_collection
from .dialects import dims, onnx
from .dialects.dims import Dim
from .dialects.onnx.model import INPUTS, declared_ranges, fix_defaults, main_of, names_of
from .dialects.onnx.types import ELEMENT_CODES, OptionalType, SequenceType
from .frontend.importer import import_model
from .frontend.size_texts import dim_of_text, is_name
from .rewrites.infer import infer_shapes as infer_module
from .rewrites.upgrade import upgrade_opset
from .semantics.facts import Facts
from .semantics.shapes.containers import ANY, container_dims


@without_collection()
def infer_shapes(model: ModelProto | str | Path | bytes, *, keep_defaults: bool = False) -> ModelProto:
    """A copy of the model in which every value of the main graph has its type in `output` or `value_info`.

    Sizes are numbers, or `dim_param` expressions over the inputs' symbols with `+ - * // %`, `min()`, `max()` and
    `broadcast()`; a size that data decides is a new name.  The types that the file declared are replaced.
    An initializer that the file also lists as an input has its default value, unless `keep_defaults` says that a caller
    may still give another one: then sizes that rest on it are new names.
    Raises ModelError where the model is wrong, UnsupportedError for operators without a rule and a declared type.
    """
    module, weights = import_model(model)
    if not keep_defaults:
        fix_defaults(module)
    upgrade_opset(module, weights)
    infer_module(module, weights, facts=Facts(assumptions=declared_ranges(main_of(module))))
    if isinstance(model, str | Path):
        copy = onnx_package.load_model(model, load_external_data=False)
    else:
        copy = ModelProto.FromString(model if isinstance(model, bytes) else model.SerializeToString())
    _write(copy, module)
    return copy


def _write(model: ModelProto, module: ModuleOp) -> None:
    """Writes the types of the main graph's values into the model."""
    main = main_of(module)
    types = dict(_named_types(main.body.block))
    graph = model.graph
    texts = Texts(graph.input, dict(zip(names_of(main, INPUTS), main.body.block.args)))
    last = main.body.block.last_op
    assert last is not None
    for info, value in zip(graph.output, last.operands):
        _set_type(info, value.type, texts)
        types.pop(info.name, None)
    for info in graph.input:
        types.pop(info.name, None)
    for tensor in graph.initializer:
        types.pop(tensor.name, None)
    del graph.value_info[:]
    for name, type_ in types.items():
        info = ValueInfoProto(name=name)
        if _set_type(info, type_, texts):
            graph.value_info.append(info)


def _named_types(block: Block) -> Iterator[tuple[str, Attribute]]:
    for op in block.ops:
        results: list[SSAValue] = list(op.results)
        for value in results:
            name = onnx.value_name(value)
            if name:
                yield name, value.type


class Texts:
    """What the file calls sizes of its inputs, where that is not how expressions are written."""

    def __init__(self, inputs: Iterable[ValueInfoProto], arguments: Mapping[str, SSAValue]) -> None:
        self._texts: dict[Dim, str] = {}
        self._expressions: dict[str, Dim] = {}
        for info in inputs:
            type_ = arguments[info.name].type if info.name in arguments else None
            if not isinstance(type_, TensorType) or not info.type.HasField("tensor_type"):
                continue
            for size, written in zip(dims.dims_of(type_), info.type.tensor_type.shape.dim, strict=True):
                if not size.is_const and is_name(written.dim_param):
                    self._keep(size, written.dim_param)

    def _keep(self, size: Dim, text: str) -> None:
        if str(size) == text:
            return
        self._texts.setdefault(size, text)
        meant = dim_of_text(text)
        if meant is not None and meant is not size:  # the symbol stands for the expression
            self._expressions[str(size)] = meant

    def of(self, size: Dim) -> str:
        """The text of a size."""
        return self._texts.get(size) or str(size.subs(self._expressions))


def _set_type(info: ValueInfoProto, type_: Attribute, texts: Texts) -> bool:
    """Writes a type; False where there is none to write, and the declared one stays."""
    proto = type_proto(type_, texts)
    if proto is None:
        return False
    info.type.CopyFrom(proto)
    return True


def type_proto(type_: Attribute, texts: Texts) -> TypeProto | None:
    """A type as ONNX writes it; None for what is not known."""
    proto = TypeProto()
    match type_:
        case TensorType() | UnrankedTensorType():
            proto.tensor_type.elem_type = ELEMENT_CODES[type_.element_type]
            if isinstance(type_, TensorType):
                proto.tensor_type.shape.SetInParent()
                for d in container_dims(type_):
                    dim = proto.tensor_type.shape.dim.add()
                    if d.is_const:
                        dim.dim_value = d.value
                    elif d is not ANY:
                        dim.dim_param = texts.of(d)
        case SequenceType():
            inner = type_proto(type_.element, texts)
            if inner is None:
                return None
            proto.sequence_type.elem_type.CopyFrom(inner)
        case OptionalType():
            inner = type_proto(type_.element, texts)
            if inner is None:
                return None
            proto.optional_type.elem_type.CopyFrom(inner)
        case _:
            return None
    return proto
