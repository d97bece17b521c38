"""Reading ONNX models: each node as the file has it, weights left in the file, and errors that say what is wrong where.

Initializers that the file also lists as inputs are constants here, `overridable` where the file may mean it (IR version
4 and later; before, every initializer had to be listed).  Who wants to feed one names it in `overrides`, and then it is
an ordinary argument.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    ValueInfoProto,
    defs,
)
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, SymbolRefAttr, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from ..dialects import onnx
from ..dialects.onnx import model as names
from ..dialects.onnx.attributes import float_attr, floats_attr, int_attr, ints_attr, key_of, string_attr, strings_attr
from ..dialects.onnx.declared import DECLARED, Declared, DeclaredAttr
from ..dialects.onnx.nodes import NodeInfo, NodeTableAttr
from ..dialects.onnx.schema import Arity, Schema, add_segments
from ..dialects.onnx.types import UNKNOWN, RefAttr
from ..runtime.errors import ModelError, UnsupportedError
from ..semantics.weights import File, WeightStore, map_file
from .source_lines import scope_and_line
from .tensors import Tensors
from .types import InputTypes, declared, loose_type
from .wire import Skeleton

LONG = 256  # entries; a longer attribute of numbers or strings is a weight


def import_model(
    source: str | Path | bytes | ModelProto, *, folder: Path | None = None, overrides: Collection[str] = ()
) -> tuple[ModuleOp, WeightStore]:
    """The model as a module with `@main` and one function for each local function, and its weights.

    A path is mapped, and external data beside it; for bytes and a ModelProto, `folder` says where external data is.
    `overrides` names initializers that are to be arguments.  Raises ModelError where the model is wrong,
    UnsupportedError where its opset is newer than ours; unknown operators become `onnx.Custom` (see `unsupported`).
    """
    reader = Reader(open_source(source), folder=_folder_of(source, folder), overrides=overrides)
    return reader.module, reader.weights


def _folder_of(source: object, folder: Path | None) -> Path | None:
    return Path(source).absolute().parent if folder is None and isinstance(source, str | Path) else folder


def open_source(source: str | Path | bytes | ModelProto) -> File:
    """The model's bytes."""
    if isinstance(source, str | Path):
        return map_file(Path(source).absolute())  # a later change of directory must not matter
    return File(source if isinstance(source, bytes) else source.SerializeToString(deterministic=True))


class Scope:
    """The values that names stand for, in a graph and those around it."""

    def __init__(self, outer: Scope | None = None) -> None:
        self._outer = outer
        self._values: dict[str, SSAValue] = {}

    def find(self, name: str) -> SSAValue | None:
        """The value of a name, the innermost; None where there is none."""
        scope: Scope | None = self
        while scope is not None:
            value = scope._values.get(name)
            if value is not None:
                return value
            scope = scope._outer
        return None

    def define(self, name: str, value: SSAValue) -> None:
        """Gives a value its name. Raises ModelError where this graph has the name already."""
        if name in self._values:
            raise ModelError(f"the name '{name}' is given to two values of one graph")
        self._values[name] = value
        value.name_hint = hint_of(name)

    def is_argument(self, name: str) -> bool:
        """Whether the name is an input of this graph, so that an initializer of that name is only a default."""
        return isinstance(self._values.get(name), BlockArgument)

    def own_names(self) -> Collection[str]:
        """The names that this graph has given so far."""
        return self._values.keys()

    def all_names(self) -> list[str]:
        """All names that can be seen."""
        return [*self._values, *(self._outer.all_names() if self._outer is not None else ())]


class _NotYet(Exception):
    """A node reads a name that no value has so far; perhaps a later node defines it."""

    def __init__(self, name: str, where: str) -> None:
        super().__init__(name)
        self.name = name
        self.where = where


class _Resolved(NamedTuple):
    """A node's operator: the schema of its version, our class, and whether the node reads the same in the newest."""

    schema: defs.OpSchema
    op: type[onnx.OnnxOp]
    fits: bool


@dataclass
class Reader:
    """Reads one model. Afterwards `module` and `weights` are the result, and the rest tells what came from where."""

    file: File
    folder: Path | None = None
    overrides: Collection[str] = ()
    weights: WeightStore = field(default_factory=WeightStore)
    nodes: dict[int, NodeProto] = field(default_factory=dict[int, NodeProto])
    ops: dict[int, Operation] = field(default_factory=dict[int, Operation])
    graphs: dict[Block, GraphProto] = field(default_factory=dict[Block, GraphProto])
    functions: dict[str, FunctionProto] = field(default_factory=dict[str, FunctionProto])
    unsorted: set[Block] = field(default_factory=set[Block])

    def __post_init__(self) -> None:
        self.skeleton = Skeleton(self.file.buffer)
        self.proto = parse(self.skeleton.data)
        self.weights.source, self.weights.folder = self.file, self.folder
        self._tensors = Tensors(self.skeleton, self.file, self.weights, self.folder)
        self._infos: dict[int, NodeInfo] = {}
        self._next_id = 0
        self._functions = {_identity(f): _symbol(f, i) for i, f in enumerate(self.proto.functions)}
        if len(self._functions) < len(self.proto.functions):
            raise ModelError("two local functions have the same domain, name and overload")
        try:
            self.module = self._module()
        except _NotYet as missing:
            raise ModelError(f"{missing.where} reads '{missing.name}', which nothing defines") from None
        except (TypeError, AttributeError, UnicodeDecodeError):
            refuse_bad_text(self.proto)  # protobuf gives a string that is no UTF-8 as bytes
            raise

    # The module

    def _module(self) -> ModuleOp:
        proto = self.proto
        if not proto.HasField("graph"):
            raise ModelError("the file has no graph")
        opsets = self._opsets(proto.opset_import, proto.ir_version)
        body: list[Operation] = [self._main(proto.graph, opsets)]
        body += [self._function(f) for f in proto.functions]
        table = tuple(self._infos[i] for i in range(len(self._infos)))
        return ModuleOp(body, attributes={**header_of(proto), "onnx.nodes": NodeTableAttr(table)})

    def _opsets(self, imports: Iterable[Any], ir_version: int) -> dict[str, int]:
        versions = {names.normal_domain(entry.domain): entry.version for entry in imports}
        if not versions and ir_version < 3:
            versions[""] = 1  # IR versions 1 and 2 had no imports
        for domain, version in versions.items():
            newest = _newest_versions().get(domain)
            if newest is not None and version > newest:
                title = domain or "ai.onnx"
                raise UnsupportedError(f"the model is of opset {version} of {title}; this version knows {newest}")
        return versions

    def _main(self, graph: GraphProto, opsets: Mapping[str, int]) -> FuncOp:
        defaults = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
        arguments = [i for i in graph.input if i.name not in defaults or i.name in self.overrides]
        types = InputTypes(arguments)
        block = Block(arg_types=[types.type_of(info) for info in arguments])
        scope = Scope()
        for argument, info in zip(block.args, arguments):
            scope.define(_needed(info.name, "an input of the graph"), argument)
        listed = {i.name for i in graph.input} if self.proto.ir_version >= 4 else set[str]()
        outputs = self._graph(graph, block, scope, opsets, overridable=listed)
        block.add_op(ReturnOp(*outputs))
        func = FuncOp(names.MAIN, (list(block.arg_types), [v.type for v in outputs]), Region(block))
        func.attributes[names.INPUTS] = strings_attr(i.name for i in arguments)
        func.attributes[names.OUTPUTS] = strings_attr(o.name for o in graph.output)
        if graph.name:
            func.attributes["onnx.name"] = string_attr(graph.name)
        _attach_declared(func, _declared([*graph.input, *graph.output, *graph.value_info], defaults))
        return func

    def _function(self, proto: FunctionProto) -> FuncOp:
        block = Block(arg_types=[UNKNOWN] * len(proto.input))
        scope = Scope()
        for argument, name in zip(block.args, proto.input):
            scope.define(_needed(name, f"an input of function '{proto.name}'"), argument)
        opsets = self._opsets(proto.opset_import, self.proto.ir_version)
        try:
            self._nodes(proto.node, block, scope, opsets)
            outputs = [self._output(scope, name) for name in proto.output]
        except _NotYet as missing:
            raise ModelError(f"function '{proto.name}': {missing.where} reads '{missing.name}', undefined") from None
        block.add_op(ReturnOp(*outputs))
        types = ([UNKNOWN] * len(proto.input), [v.type for v in outputs])
        func = FuncOp(self._functions[_identity(proto)], types, Region(block), StringAttr("private"))
        self.functions[self._functions[_identity(proto)]] = proto
        func.attributes[names.FUNCTION] = DictionaryAttr(
            {
                "domain": string_attr(proto.domain),
                "name": string_attr(proto.name),
                "overload": string_attr(proto.overload),
            }
        )
        func.attributes[names.INPUTS] = strings_attr(proto.input)
        func.attributes[names.OUTPUTS] = strings_attr(proto.output)
        func.attributes[names.OPSETS] = names.opsets_attr([(o.domain, o.version) for o in proto.opset_import])
        parameters: dict[str, Attribute] = {key_of(name): UnitAttr() for name in proto.attribute}
        parameters |= {key_of(a.name): self._value(a, Scope(), opsets, [])[0] for a in proto.attribute_proto}
        func.attributes[names.PARAMETERS] = DictionaryAttr(parameters)
        _attach_declared(func, _declared(proto.value_info))
        return func

    # Graphs

    def _graph(
        self,
        graph: GraphProto,
        block: Block,
        scope: Scope,
        opsets: Mapping[str, int],
        overridable: Collection[str] = (),
    ) -> list[SSAValue]:
        """Reads a graph's initializers and nodes into the block; gives its outputs."""
        for tensor in graph.initializer:
            if not scope.is_argument(tensor.name):
                value, type_ = self._tensors.attribute(tensor), self._tensors.type_of(tensor)
                op = onnx.InitializerOp.make(tensor.name, value, type_, tensor.name in overridable)
                self._define_initializer(op, tensor.name, block, scope)
        for sparse in graph.sparse_initializer:
            if not scope.is_argument(sparse.values.name):
                value, sparse_type = self._tensors.sparse_attribute(sparse)
                op = onnx.InitializerOp.make(sparse.values.name, value, sparse_type.dense, False)
                self._define_initializer(op, sparse.values.name, block, scope)
        self._nodes(graph.node, block, scope, opsets)
        self.graphs[block] = graph
        return [self._output(scope, info.name) for info in graph.output]

    def _define_initializer(self, op: onnx.InitializerOp, name: str, block: Block, scope: Scope) -> None:
        block.add_op(op)
        scope.define(_needed(name, "an initializer"), op.result)

    def _output(self, scope: Scope, name: str) -> SSAValue:
        value = scope.find(name)
        if value is None:
            raise _NotYet(name, "the graph's output list")
        return value

    def _nodes(self, protos: Sequence[NodeProto], block: Block, scope: Scope, opsets: Mapping[str, int]) -> None:
        order = execution_order(protos, scope.own_names())
        if order is None:
            for proto in protos:
                self._node(proto, block, scope, opsets)
            return
        self.unsorted.add(block)
        first = self._next_id  # ids follow the file, whatever the order of execution
        starts = [first]
        for proto in protos:
            starts.append(starts[-1] + _count(proto))
        for index in order:
            self._next_id = starts[index]
            self._node(protos[index], block, scope, opsets)
        self._next_id = starts[-1]

    # Nodes

    def _node(self, proto: NodeProto, block: Block, scope: Scope, opsets: Mapping[str, int]) -> None:
        node = self._next_id
        self._next_id += 1
        domain, op_type = names.normal_domain(proto.domain), proto.op_type
        "".join((proto.name, domain, op_type))  # a TypeError where one is no text
        self._infos[node] = NodeInfo(proto.name, op_type, *scope_and_line(proto))
        operands = [self._operand(name, scope, proto) for name in proto.input]
        try:
            symbol = self._functions.get((domain, op_type, proto.overload))
            if symbol is None and domain != proto.domain:
                symbol = self._functions.get((proto.domain, op_type, proto.overload))
            if symbol is not None:
                op = self._call(proto, symbol, operands, scope, opsets)
            else:
                resolved = _resolve(domain, op_type, opsets.get(domain))
                if resolved is None:
                    op = self._custom(proto, domain, operands, scope, opsets)
                elif resolved.fits:
                    op = self._standard(proto, resolved, operands, scope, opsets)
                else:
                    op = self._versioned(proto, domain, resolved, operands, scope, opsets)
        except ModelError as error:
            raise ModelError(f"{_title(proto)}: {error}") from None
        op.attributes["origin"] = ints_attr((node,))
        op.attributes["onnx.node"] = int_attr(node)
        op.attributes["onnx.names"] = strings_attr(proto.output)
        block.add_op(op)
        for name, result in zip(proto.output, op.formal_results()):
            if name and result is not None:
                scope.define(name, result)
        self.nodes[node], self.ops[node] = proto, op

    def _operand(self, name: str, scope: Scope, proto: NodeProto) -> SSAValue | None:
        if not name:
            return None
        value = scope.find(name)
        if value is None:
            close = get_close_matches(name, scope.all_names(), 1, 0.8)
            hint = f" (there is '{close[0]}')" if close else ""
            raise _NotYet(name + hint, _title(proto))
        return value

    def _standard(
        self,
        proto: NodeProto,
        resolved: _Resolved,
        operands: list[SSAValue | None],
        scope: Scope,
        opsets: Mapping[str, int],
    ) -> onnx.OnnxOp:
        cls, schema = resolved.op, resolved.op.SCHEMA
        _check_operands(operands, schema)
        properties, regions, bodies = self._attributes(proto, resolved.schema, scope, opsets)
        types = _result_types(proto.output, schema)
        if cls is onnx.ConstantOp:
            types = [self._constant_type(proto)]
        found = [regions.get(name) for name, spec in schema.attributes.items() if spec.kind == "GRAPH"]
        add_segments(properties, schema, operands, types, found)
        op = cls.create(
            operands=[v for v in operands if v is not None],
            result_types=[t for t in types if t is not None],
            properties=properties,
            regions=[r for r in found if r is not None],
        )
        if bodies:
            _attach_bodies(op, [bodies[name] for name in schema.attributes if name in bodies])
        return op

    def _constant_type(self, proto: NodeProto) -> Attribute:
        for attribute in proto.attribute:
            if attribute.name == "value" and attribute.HasField("t"):
                return self._tensors.type_of(attribute.t)
        return UNKNOWN

    def _versioned(
        self,
        proto: NodeProto,
        domain: str,
        resolved: _Resolved,
        operands: list[SSAValue | None],
        scope: Scope,
        opsets: Mapping[str, int],
    ) -> onnx.VersionedOp:
        schema = resolved.schema
        if not schema.min_input <= len(operands) <= schema.max_input:
            raise ModelError(f"has {len(operands)} inputs, not {_between(schema.min_input, schema.max_input)}")
        if not schema.min_output <= len(proto.output) <= schema.max_output:
            raise ModelError(f"has {len(proto.output)} outputs, not {_between(schema.min_output, schema.max_output)}")
        attributes, regions, bodies = self._attributes(proto, schema, scope, opsets)
        properties: dict[str, Attribute] = {
            "domain": string_attr(domain),
            "op_type": string_attr(proto.op_type),
            "since_version": int_attr(schema.since_version),
            "attributes": DictionaryAttr(attributes),
        }
        if regions:
            properties["graphs"] = strings_attr(regions)
        types = [UNKNOWN if name else None for name in proto.output]
        op = onnx.VersionedOp.build_at(properties, operands, types, regions=list(regions.values()))
        if bodies:
            _attach_bodies(op, list(bodies.values()))
        return op

    def _custom(
        self, proto: NodeProto, domain: str, operands: list[SSAValue | None], scope: Scope, opsets: Mapping[str, int]
    ) -> onnx.CustomOp:
        values: dict[str, Attribute] = {}
        regions: list[tuple[str, Region]] = []
        bodies: list[_Body] = []
        for attribute in proto.attribute:
            value, inner = self._value(attribute, scope, opsets, bodies)
            _put(values, key_of(attribute.name), value)
            regions += inner
        properties: dict[str, Attribute] = {
            "domain": string_attr(domain),
            "op_type": string_attr(proto.op_type),
            "attributes": DictionaryAttr({k: v for k, v in values.items() if not isinstance(v, UnitAttr)}),
        }
        if regions:
            properties["graphs"] = strings_attr(name for name, _ in regions)
        types = [UNKNOWN if name else None for name in proto.output]
        op = onnx.CustomOp.build_at(properties, operands, types, regions=[r for _, r in regions])
        if bodies:
            _attach_bodies(op, bodies)
        return op

    def _call(
        self,
        proto: NodeProto,
        symbol: str,
        operands: list[SSAValue | None],
        scope: Scope,
        opsets: Mapping[str, int],
    ) -> onnx.CallOp:
        values: dict[str, Attribute] = {}
        for attribute in proto.attribute:
            value, inner = self._value(attribute, scope, opsets, [])
            if inner:
                raise UnsupportedError(f"{_title(proto)} passes a graph to a local function")
            _put(values, key_of(attribute.name), value)
        properties: dict[str, Attribute] = {
            "callee": SymbolRefAttr(symbol),
            "attributes": DictionaryAttr(values),
        }
        types = [UNKNOWN if name else None for name in proto.output]
        return onnx.CallOp.build_at(properties, operands, types)

    # Attributes

    def _attributes(
        self, proto: NodeProto, schema: defs.OpSchema, scope: Scope, opsets: Mapping[str, int]
    ) -> tuple[dict[str, Attribute], dict[str, Region], dict[str, _Body]]:
        """A node's attributes by name, its graphs apart. Raises ModelError where they are not the operator's."""
        values: dict[str, Attribute] = {}
        regions: dict[str, Region] = {}
        bodies: dict[str, _Body] = {}
        specs = _specs(schema)
        for attribute in proto.attribute:
            name, kind = attribute.name, _kind(attribute)
            expected = specs.get(name)
            if expected is None:
                raise ModelError(f"has no attribute '{name}' in opset {schema.since_version}")
            if kind != expected.kind:
                raise ModelError(f"its attribute '{name}' is {kind}, not {expected.kind}")
            if kind == "GRAPH" and not attribute.ref_attr_name:
                if name in regions:
                    raise ModelError(f"has the attribute '{name}' twice")
                regions[name], bodies[name] = self._region(attribute.g, scope, opsets)
                continue
            _put(values, name, self._value(attribute, scope, opsets, [])[0])
        for name, spec in specs.items():
            if spec.required and name not in values and name not in regions:
                raise ModelError(f"lacks the attribute '{name}'")
        return values, regions, bodies

    def _value(
        self, proto: AttributeProto, scope: Scope, opsets: Mapping[str, int], bodies: list[_Body]
    ) -> tuple[Attribute, list[tuple[str, Region]]]:
        """An attribute's value, and the graphs in it (whose value is nothing)."""
        kind = _kind(proto)
        if proto.ref_attr_name:
            return RefAttr(string_attr(proto.ref_attr_name), StringAttr(kind)), []
        convert = _CONVERT.get(kind)
        if convert is not None:
            return convert(proto), []
        match kind:
            case "INTS" | "FLOATS":
                return self._numbers(proto, kind), []
            case "STRINGS":
                return self._texts(proto), []
            case "TENSOR":
                return self._tensors.attribute(proto.t), []
            case "TENSORS":
                return ArrayAttr([self._tensors.attribute(t) for t in proto.tensors]), []
            case "SPARSE_TENSOR":
                return self._tensors.sparse_attribute(proto.sparse_tensor)[0], []
            case "SPARSE_TENSORS":
                return ArrayAttr([self._tensors.sparse_attribute(t)[0] for t in proto.sparse_tensors]), []
            case "GRAPH" | "GRAPHS":
                graphs = [proto.g] if kind == "GRAPH" else list(proto.graphs)
                suffix = "" if kind == "GRAPH" else "[]"
                inner: list[tuple[str, Region]] = []
                for graph in graphs:
                    region, body = self._region(graph, scope, opsets)
                    inner.append((proto.name + suffix, region))
                    bodies.append(body)
                return UnitAttr(), inner
            case _:
                raise ModelError(f"its attribute '{proto.name}' has no type that exists")

    def _numbers(self, proto: AttributeProto, kind: str) -> Attribute:
        if kind == "INTS":
            ints = proto.ints
            return ints_attr(tuple(ints)) if len(ints) <= LONG else self.weights.add(_frozen(ints, np.int64))
        floats = proto.floats
        return floats_attr(floats) if len(floats) <= LONG else self.weights.add(_frozen(floats, np.float32))

    def _texts(self, proto: AttributeProto) -> Attribute:
        if len(proto.strings) <= LONG:
            return strings_attr(proto.strings)
        return self.weights.add(_frozen([s.decode("utf-8", "surrogateescape") for s in proto.strings], object))

    def _region(self, graph: GraphProto, scope: Scope, opsets: Mapping[str, int]) -> tuple[Region, _Body]:
        block = Block(arg_types=[UNKNOWN] * len(graph.input))
        inner = Scope(scope)
        for argument, info in zip(block.args, graph.input):
            inner.define(_needed(info.name, "an input of a body"), argument)
        block.add_op(onnx.YieldOp.make(self._graph(graph, block, inner, opsets)))
        listed = _declared([*graph.input, *graph.output, *graph.value_info])
        return Region(block), _Body([i.name for i in graph.input], listed)


@dataclass(frozen=True)
class _Body:
    inputs: list[str]
    declared: dict[str, Declared]


def _attach_bodies(op: Operation, bodies: Sequence[_Body]) -> None:
    if any(body.inputs for body in bodies):
        op.attributes[names.INPUTS] = ArrayAttr([strings_attr(body.inputs) for body in bodies])
    merged: dict[str, Declared] = {}
    clashing: set[str] = set()
    for body in bodies:
        for name, found in body.declared.items():
            if merged.setdefault(name, found) != found:
                clashing.add(name)
    _attach_declared(op, {name: found for name, found in merged.items() if name not in clashing})


def _attach_declared(op: Operation, found: Mapping[str, Declared]) -> None:
    if found:
        op.attributes[DECLARED] = DeclaredAttr(tuple(found.items()))


def _declared(infos: Iterable[ValueInfoProto], constants: Collection[str] = ()) -> dict[str, Declared]:
    found: dict[str, Declared] = {}
    for info in infos:
        entry = declared(info.type) if info.name not in constants else None
        if entry is not None:
            found.setdefault(info.name, entry)
    return found


# Operators


@lru_cache(maxsize=4096)
def _resolve(domain: str, op_type: str, version: int | None) -> _Resolved | None:
    """The operator of that name in that opset; None where there is none."""
    op = onnx.OP_BY_NAME.get((domain, op_type))
    if op is None or version is None:
        return None
    try:
        schema = defs.get_schema(op_type, version, domain)
    except defs.SchemaError:
        return None
    if schema.deprecated and defs.has(op_type, schema.since_version - 1, domain):
        schema = defs.get_schema(op_type, schema.since_version - 1, domain)  # what it was when it was one
    return _Resolved(schema, op, schema.since_version >= op.SCHEMA.compatible)


@lru_cache(maxsize=1)
def _newest_versions() -> dict[str, int]:
    newest: dict[str, int] = {}
    for op in onnx.OPS:
        newest.setdefault(op.SCHEMA.domain, 0)
    known = {"": defs.onnx_opset_version(), "ai.onnx.ml": defs.onnx_ml_opset_version()}
    return {domain: known[domain] for domain in newest if domain in known}


class _Spec(NamedTuple):
    kind: str
    required: bool


@lru_cache(maxsize=4096)
def _specs_of(domain: str, op_type: str, version: int) -> dict[str, _Spec]:
    schema = defs.get_schema(op_type, version, domain)
    return {name: _Spec(str(a.type).rpartition(".")[2], a.required) for name, a in schema.attributes.items()}


def _specs(schema: defs.OpSchema) -> dict[str, _Spec]:
    return _specs_of(schema.domain, schema.name, schema.since_version)


def _check_operands(operands: list[SSAValue | None], schema: Schema) -> None:
    formals = schema.inputs
    for index, formal in enumerate(formals):
        if formal.arity is Arity.SINGLE and (index >= len(operands) or operands[index] is None):
            raise ModelError(f"lacks its input {index} ('{formal.name}')")
    variadic = bool(formals) and formals[-1].arity is Arity.VARIADIC
    fixed = len(formals) - variadic
    rest = operands[fixed:]
    if variadic and None in rest:
        raise ModelError(f"its input {fixed + rest.index(None)} has no name")
    if not variadic and any(v is not None for v in rest):
        raise ModelError(f"has {len(operands)} inputs, not {_between(schema.min_inputs, fixed)}")
    if len(operands) < schema.min_inputs:
        raise ModelError(f"has {len(operands)} inputs, and needs {schema.min_inputs}")


def _result_types(listed: Sequence[str], schema: Schema) -> list[Attribute | None]:
    formals = schema.outputs
    variadic = bool(formals) and formals[-1].arity is Arity.VARIADIC
    if len(listed) > len(formals) and not variadic and any(listed[len(formals) :]):
        raise ModelError(f"has {len(listed)} outputs, not {_between(schema.min_outputs, len(formals))}")
    if len(listed) < schema.min_outputs:
        raise ModelError(f"has {len(listed)} outputs, and needs {schema.min_outputs}")
    types: list[Attribute | None] = []
    for index, name in enumerate(listed if variadic else listed[: len(formals)]):
        needed = index >= len(formals) or formals[index].arity is not Arity.OPTIONAL
        types.append(UNKNOWN if name or needed else None)
    return types


def _between(least: int, most: int) -> str:
    if most > 1 << 20:
        return f"at least {least}"
    return str(least) if least == most else f"{least} to {most}"


# Attributes' values

_CONVERT: dict[str, Any] = {
    "INT": lambda proto: int_attr(proto.i),
    "FLOAT": lambda proto: float_attr(proto.f),
    "STRING": lambda proto: string_attr(proto.s),
    "TYPE_PROTO": lambda proto: loose_type(proto.tp, proto.name),
    "TYPE_PROTOS": lambda proto: ArrayAttr([loose_type(tp, proto.name) for tp in proto.type_protos]),
}

_KINDS: dict[int, str] = {number: name for name, number in AttributeProto.AttributeType.items()}
_FIELDS = {
    "f": "FLOAT",
    "i": "INT",
    "s": "STRING",
    "t": "TENSOR",
    "g": "GRAPH",
    "tp": "TYPE_PROTO",
    "sparse_tensor": "SPARSE_TENSOR",
    "floats": "FLOATS",
    "ints": "INTS",
    "strings": "STRINGS",
    "tensors": "TENSORS",
    "graphs": "GRAPHS",
    "type_protos": "TYPE_PROTOS",
    "sparse_tensors": "SPARSE_TENSORS",
}


def _kind(proto: AttributeProto) -> str:
    """AttributeProto's kind; old files do not say it, so the field that is there does."""
    if proto.type:
        return _KINDS.get(proto.type, "UNDEFINED")
    for descriptor, _ in proto.ListFields():
        if descriptor.name in _FIELDS:
            return _FIELDS[descriptor.name]
    return "INTS"  # what an empty list looks like


def _put(values: dict[str, Attribute], name: str, value: Attribute) -> None:
    if name in values:
        raise ModelError(f"has the attribute '{name}' twice")
    values[name] = value


def _frozen(values: Iterable[Any], dtype: Any) -> np.ndarray[Any, Any]:
    array = np.array(values, dtype)
    array.flags.writeable = False
    return array


# Names


@lru_cache(maxsize=65536)
def hint_of(name: str) -> str | None:
    """A value's name as xDSL admits it after `%`, and prints it so that it parses back.

    xDSL takes `_7` at the end for its own suffix, drops it, and may then give two values one name.
    """
    text = re.sub(r"_(?=\d+$)", ".", re.sub(r"[^A-Za-z0-9_$.-]", "_", name))
    return f"v{text}" if text[:1].isdigit() or text[:1] in "-." else text or None


def _needed(name: str, what: str) -> str:
    if not name:
        raise ModelError(f"{what} has no name")
    return name


def _title(proto: NodeProto) -> str:
    return f"node '{proto.name}' ({proto.op_type})" if proto.name else _title_by_output(proto)


def _title_by_output(proto: NodeProto) -> str:
    output = next((name for name in proto.output if name), "")
    return f"the node {proto.op_type} that makes '{output}'" if output else f"a node {proto.op_type}"


def _identity(proto: FunctionProto) -> tuple[str, str, str]:
    return proto.domain, proto.name, proto.overload


def _symbol(proto: FunctionProto, index: int) -> str:
    text = re.sub(r"[^A-Za-z0-9_.$]", "_", f"{proto.domain}.{proto.name}.{proto.overload}".strip("."))
    return f"f{index}.{text}"


def header_of(proto: ModelProto) -> dict[str, Attribute]:
    """The module attributes for what a model says of itself."""
    header: dict[str, Attribute] = {
        names.IR_VERSION: int_attr(proto.ir_version),
        names.OPSETS: names.opsets_attr([(o.domain, o.version) for o in proto.opset_import]),
    }
    for key in ("producer_name", "producer_version", "domain", "doc_string"):
        if getattr(proto, key):
            header[f"onnx.{key}"] = string_attr(getattr(proto, key))
    if proto.model_version:
        header["onnx.model_version"] = int_attr(proto.model_version)
    if proto.metadata_props:
        rows = [ArrayAttr([string_attr(entry.key), string_attr(entry.value)]) for entry in proto.metadata_props]
        header["onnx.metadata"] = ArrayAttr(rows)
    return header


def parse(data: bytes) -> ModelProto:
    """The proto of a model's bytes. Raises ModelError where they are none."""
    if not data:
        raise ModelError("the file is empty")
    try:
        return ModelProto.FromString(data)
    except DecodeError as error:
        raise ModelError(f"the file is no ONNX model, or damaged: {error}") from None


def refuse_bad_text(message: Message, where: str = "the model") -> None:
    """Raises ModelError where a text in the message is no UTF-8."""
    for descriptor, value in message.ListFields():
        for entry in value if descriptor.is_repeated else (value,):
            if isinstance(entry, Message):
                refuse_bad_text(entry, f"{where}.{descriptor.name}")
            elif descriptor.type == FieldDescriptor.TYPE_STRING and isinstance(entry, bytes):
                raise ModelError(f"the file is damaged: a text in {where}.{descriptor.name} is no UTF-8: {entry[:40]}")


# Order


def execution_order(protos: Sequence[NodeProto], known: Collection[str] = ()) -> list[int] | None:
    """The order to run nodes in, as close as can be to the file's; None where that is the file's.

    The standard wants nodes sorted; some files are not.  `known` are names that no node has to make.  Raises ModelError
    where nodes wait for each other.
    """
    maker: dict[str, int] = dict.fromkeys(known, -1)
    for index, proto in enumerate(protos):
        for name in proto.output:
            maker.setdefault(name, index)
    maker[""] = -1
    waits = [{maker[name] for name in names_read(proto) if maker.get(name, -1) >= 0} for proto in protos]
    if all(not found or max(found) < index for index, found in enumerate(waits)):
        return None
    order: list[int] = []
    done: set[int] = set()
    users: dict[int, list[int]] = {}
    for index, found in enumerate(waits):
        for before in found:
            users.setdefault(before, []).append(index)
    missing = [len(found) for found in waits]
    ready = [index for index, count in enumerate(missing) if not count]
    while ready:
        index = heappop(ready)
        order.append(index)
        done.add(index)
        for user in users.get(index, ()):
            missing[user] -= 1
            if not missing[user]:
                heappush(ready, user)
    if len(order) < len(protos):
        left = [_title(proto) for index, proto in enumerate(protos) if index not in done]
        raise ModelError(f"nodes wait for each other: {', '.join(left[:3])}{', ...' if len(left) > 3 else ''}")
    return order


def names_read(proto: NodeProto) -> Iterable[str]:
    """The names that a node reads, those that its bodies take from around it included."""
    found = list(proto.input)
    for attribute in proto.attribute:
        if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS, AttributeProto.UNDEFINED):
            for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                found += _captures(graph)
    return found


def _captures(graph: GraphProto) -> set[str]:
    inside = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    inside |= {name for node in graph.node for name in node.output}
    read = {name for node in graph.node for name in names_read(node)} | {o.name for o in graph.output}
    return read - inside


def _count(proto: NodeProto) -> int:
    """The node and all nodes of its bodies."""
    inner = (a for a in proto.attribute if a.HasField("g") or a.graphs)
    graphs = (g for a in inner for g in (*((a.g,) if a.HasField("g") else ()), *a.graphs))
    return 1 + sum(_count(node) for graph in graphs for node in graph.node)
