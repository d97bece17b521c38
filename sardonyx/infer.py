"""`sx.infer_shapes`: the model with the sizes of all its values, as numbers and expressions in its own symbols."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import onnx as onnx_package
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto
from xdsl.dialects.builtin import ModuleOp, TensorType, UnrankedTensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from .collection import without_collection
from .dialects import dims, onnx
from .dialects.dims import Dim
from .dialects.onnx.base import origin_of
from .dialects.onnx.model import (
    INPUTS,
    declared_ranges,
    fix_defaults,
    is_local_function,
    main_of,
    names_of,
    opsets_of,
)
from .dialects.onnx.types import ELEMENT_CODES, OptionalType, SequenceType
from .frontend.importer import import_model
from .frontend.inspection import graph_names
from .frontend.size_texts import dim_of_text, is_name
from .rewrites.infer import infer_shapes as infer_module
from .rewrites.upgrade import upgrade_opset
from .semantics.facts import Facts
from .semantics.shapes.containers import ANY, container_dims


@without_collection()
def infer_shapes(model: ModelProto | str | Path | bytes, *, keep_defaults: bool = False) -> ModelProto:
    """A copy of the model in which every value has its type in `output` or `value_info` of its graph or body.

    Sizes are numbers, or `dim_param` expressions over the inputs' symbols with `+ - * // %`, `min()`, `max()` and
    `broadcast()`; a size that data decides is a new name, and so is one that each iteration of a body may change.  An
    input's size keeps its text, but where that is no expression (`batch size`) and others are made of it, it is written
    as they have it (`batch_size`).  The types that the file declared are replaced.  Values of a local function have the
    sizes that all its calls agree on.  An initializer that the file also lists as an input has its default value,
    unless `keep_defaults` says that a caller may still give another one: then sizes that rest on it are new names.
    Raises ModelError where the model is wrong, UnsupportedError for operators without a rule and a declared type.
    """
    module, weights = import_model(model)
    if not keep_defaults:
        fix_defaults(module)
    upgrade_opset(module, weights)
    dead = set[Region]()
    infer_module(module, weights, facts=Facts(assumptions=declared_ranges(main_of(module))), dead=dead)
    if isinstance(model, str | Path):
        copy = onnx_package.load_model(model, load_external_data=False)
    else:
        copy = ModelProto.FromString(model if isinstance(model, bytes) else model.SerializeToString())
    _write(copy, module, dead)
    return copy


FUNCTIONS_DECLARE = 10
"""The IR version from which on local functions tell the types of their values."""

SCAN_WITHOUT_BATCH = 9
"""The opset from which on a Scan's body is of one sequence, and not of one of a batch of them."""


def _write(model: ModelProto, module: ModuleOp, dead: Set[Region]) -> None:
    """Writes the types of the main graph's values, of those of bodies, and of those of local functions.

    What is in a body that can never run stays as it is: sizes there contradict one another.
    """
    main = main_of(module)
    block = main.body.block
    last = block.last_op
    assert last is not None
    batched = (opsets_of(module).get("") or SCAN_WITHOUT_BATCH) < SCAN_WITHOUT_BATCH
    without = dead | {r for op in module.walk() if batched and isinstance(op, onnx.ScanOp) for r in op.regions}
    arguments = dict(zip(names_of(main, INPUTS), block.args))
    texts = Texts(model.graph.input, arguments)
    writer = _Writer(texts, without)
    for again in (False, True):
        del model.graph.value_info[:]
        writer.graph(model.graph, block, last.operands)
        if model.ir_version >= FUNCTIONS_DECLARE:
            writer.functions(model, module)
        if again or not texts.give_way():
            break
    for info in model.graph.input:
        if info.name in arguments:
            texts.name(info, arguments[info.name].type)


@dataclass(frozen=True)
class _Writer:
    """Writes types: sizes in the file's `texts`, and of no body that is in `without`."""

    texts: Texts
    without: Set[Region]

    def graph(self, graph: GraphProto, block: Block, results: Sequence[SSAValue]) -> None:
        """Writes the types of a graph's values and of those of the bodies in it."""
        values = {name: value for op in block.ops for name, value in _names_of(op)}
        for info, value in zip(graph.output, results):
            _set_type(info, value.type, self.texts)
        told = {info.name for info in (*graph.output, *graph.input)} | {tensor.name for tensor in graph.initializer}
        declared = {info.name: info for info in graph.value_info}
        for name in (name for node in graph.node for name in node.output):
            if name in values and name not in told:
                info = declared.get(name) or ValueInfoProto(name=name)
                if _set_type(info, values[name].type, self.texts) and name not in declared:
                    graph.value_info.append(info)
        for node in graph.node:
            found = (values[name].owner for name in node.output if name in values)
            op = next((op for op in found if isinstance(op, Operation) and op.regions), None)
            if op is not None:
                self.bodies(node, op)

    def bodies(self, node: NodeProto, op: Operation) -> None:
        """Writes the types of values in a node's bodies, each in the body itself: a size may be another each time."""
        graphs = {attribute.name: attribute.g for attribute in node.attribute if attribute.HasField("g")}
        for name, region in zip(graph_names(op), op.regions):
            body, block = graphs.get(name), region.block
            if region in self.without or body is None or len(body.input) != len(block.args):
                continue
            for info, argument in zip(body.input, block.args):
                _set_type(info, argument.type, self.texts)
            assert isinstance(block.last_op, onnx.YieldOp)
            self.graph(body, block, block.last_op.operands)

    def functions(self, model: ModelProto, module: ModuleOp) -> None:
        """Writes the types of local functions' values: what all calls agree on, other sizes being left open."""
        types: dict[tuple[int, str], list[Attribute]] = {}  # by the node of the function's body, and the value's name
        made: dict[tuple[int, ...], list[Operation]] = {}
        for op in main_of(module).walk():
            made.setdefault(origin_of(op), []).append(op)
            for name, value in _names_of(op):
                for node in origin_of(op):
                    types.setdefault((node, name.rpartition("/")[2]), []).append(value.type)
        single: dict[int, list[Operation]] = {}  # by the node of the function's body, what calls have made of it
        for origin, ops in made.items():
            if len(origin) > 1 and len(ops) == 1:
                single.setdefault(origin[-1], []).append(ops[0])
        functions = [op for op in module.ops if isinstance(op, FuncOp) and is_local_function(op)]
        for proto, function in zip(model.functions, functions, strict=True):
            del proto.value_info[:]
            for name, argument in zip(proto.input, function.body.block.args, strict=True):
                self._told(proto, name, _common(_types_given(argument, single)))
            for op in function.body.block.ops:
                for name, _ in _names_of(op) if not isinstance(op, onnx.CallOp) else ():
                    found = [t for node in origin_of(op) for t in types.get((node, name.rpartition("/")[2]), [])]
                    self._told(proto, name, _common(found))

    def _told(self, proto: FunctionProto, name: str, type_: Attribute | None) -> None:
        """Writes the type of a function's value, where one is known."""
        info = ValueInfoProto(name=name)
        if type_ is not None and _set_type(info, type_, self.texts):
            proto.value_info.append(info)


def _types_given(argument: SSAValue, single: Mapping[int, Sequence[Operation]]) -> list[Attribute]:
    """The types of what calls give for an argument of a local function: of the operands of one op that reads it."""
    for use in argument.uses:
        reader = use.operation
        found = [op for node in origin_of(reader) for op in single.get(node, ())]
        if found and all(type(op) is type(reader) and len(op.operands) == len(reader.operands) for op in found):
            return [op.operands[use.index].type for op in found]
    return []


def _common(types: Sequence[Attribute]) -> Attribute | None:
    """What several types have in common; None where that is not even a rank."""
    found = types[0] if types else None
    for other in types[1:]:
        if found == other:
            continue
        if not isinstance(found, TensorType) or not isinstance(other, TensorType):
            return None
        a, b = container_dims(found), container_dims(other)
        if found.element_type != other.element_type or len(a) != len(b):
            return None
        found = dims.tensor_type(found.element_type, [x if x is y else ANY for x, y in zip(a, b)])
    return found


def _names_of(op: Operation) -> Iterator[tuple[str, SSAValue]]:
    results: list[SSAValue] = list(op.results)
    for value in results:
        name = onnx.value_name(value)
        if name:
            yield name, value


class Texts:
    """What the file calls sizes of its inputs, where that is not how expressions are written.

    A text that is no expression (`batch size`) stays as it is unless an expression of that size is written, which needs
    a name for it: then it gives way to that name (`batch_size`) wherever it stands, and so the input tells the name.
    """

    def __init__(self, inputs: Iterable[ValueInfoProto], arguments: Mapping[str, SSAValue]) -> None:
        self._texts: dict[Dim, str] = {}
        self._expressions: dict[str, Dim] = {}
        self._needed: set[str] = set()
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
        text = self._texts.get(size)
        if text is None:
            meant = size.subs(self._expressions)
            self._needed |= meant.symbols
            text = str(meant)
        return text

    def give_way(self) -> bool:
        """Lets names that expressions have needed take the place of texts; tells whether there are such."""
        given = [size for size, text in self._texts.items() if str(size) in self._needed and dim_of_text(text) is None]
        for size in given:
            del self._texts[size]
        return bool(given)

    def name(self, info: ValueInfoProto, type_: Attribute) -> None:
        """Names the sizes of an input whose text is no expression, where it gave way or there is none."""
        if not isinstance(type_, TensorType) or not info.type.HasField("tensor_type"):
            return
        for size, written in zip(dims.dims_of(type_), info.type.tensor_type.shape.dim, strict=True):
            if size not in self._texts and str(size) in self._needed and dim_of_text(written.dim_param) is None:
                written.dim_param = str(size)


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
