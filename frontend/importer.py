"""Reading ONNX models: each node as the file has it, weights left in the file, and errors that say what is wrong where.

Initializers that the file also lists as inputs are constants here, `overridable` where the file may mean it (IR version
4 and later; before, every initializer had to be listed).  Who wants to feed one names it in `overrides`, and then it is
an ordinary argument.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from onnx import (
    IR_VERSION,
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
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ..dialects import onnx
from ..dialects.onnx import model as names
from ..dialects.onnx.attributes import float_attr, floats_attr, int_attr, ints_attr, key_of, string_attr, strings_attr
from ..dialects.onnx.declared import DECLARED, Declared, DeclaredAttr
from ..dialects.onnx.nodes import NodeInfo, NodeTableAttr
from ..dialects.onnx.schema import add_segments
from ..dialects.onnx.types import UNKNOWN, RefAttr
from ..runtime.errors import InputError, ModelError, UnsupportedError
from ..semantics.weights import File, WeightStore, map_file
from .bodies import check_bodies, fed_inputs
from .calls import Parameters, require_imports
from .damage import parse, refuse_bad_text
from .header import header_of
from .operators import Resolved, between, check_operands, newest_versions, resolve, result_types, specs_of
from .order import count_nodes, execution_order, title
from .ranges import declared_ranges
from .scope import NotYet, Scope, needed
from .source_lines import scope_and_line
from .tensors import Tensors
from .types import InputTypes, check_defaults, declared, loose_type
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
    """The model's bytes. Raises InputError for what is no model."""
    if isinstance(source, str | Path):
        return map_file(Path(source).absolute())  # a later change of directory must not matter
    if not hasattr(source, "SerializeToString") and not isinstance(source, bytes):
        raise InputError(f"a model is a path, bytes, or a ModelProto, not {type(source).__name__}")
    return File(source if isinstance(source, bytes) else source.SerializeToString(deterministic=True))


@contextmanager
def naming(file: File) -> Generator[None]:
    """Errors of what is done inside begin with the file's path, where it has one."""
    try:
        yield
    except ModelError as error:
        raise (ModelError(f"{file.path}: {error}") if file.path is not None else error) from None


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
        with naming(self.file):
            self.skeleton = Skeleton(self.file.buffer)
            self.proto = parse(self.skeleton.data)
            if not self.proto.HasField("graph"):
                raise ModelError("the file has no graph")
        self.weights.source, self.weights.folder, self.weights.home = self.file, self.folder, self.folder
        self._tensors = Tensors(self.skeleton, self.file, self.weights, self.folder)
        self._infos: dict[int, NodeInfo] = {}
        self._next_id = 0
        self._parameters = {_symbol(f, i): Parameters(f) for i, f in enumerate(self.proto.functions)}
        self._functions = {_identity(f): _symbol(f, i) for i, f in enumerate(self.proto.functions)}
        if len(self._functions) < len(self.proto.functions):
            raise ModelError("two local functions have the same domain, name and overload")
        try:
            self.module = self._module()
        except NotYet as missing:
            raise ModelError(f"{missing.where} reads '{missing.name}', which nothing defines{missing.hint}") from None
        except (TypeError, AttributeError, UnicodeDecodeError):
            with naming(self.file):
                refuse_bad_text(self.proto)  # protobuf gives a string that is no UTF-8 as bytes
            raise

    # The module

    def _module(self) -> ModuleOp:
        proto = self.proto
        if proto.ir_version > IR_VERSION:
            raise UnsupportedError(f"the model is of IR version {proto.ir_version}; this version knows {IR_VERSION}")
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
            newest = newest_versions().get(domain)
            title = domain or "ai.onnx"
            if newest is not None and version < 1:
                raise ModelError(f"the model is of opset {version} of {title}; the first is 1")
            if newest is not None and version > newest:
                raise UnsupportedError(f"the model is of opset {version} of {title}; this version knows {newest}")
        return versions

    def _main(self, graph: GraphProto, opsets: Mapping[str, int]) -> FuncOp:
        defaults = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
        arguments = [i for i in graph.input if i.name not in defaults or i.name in self.overrides]
        check_defaults(graph)
        types = InputTypes(arguments)
        block = Block(arg_types=[types.type_of(info) for info in arguments])
        scope = Scope()
        for argument, info in zip(block.args, arguments):
            scope.define(needed(info.name, "an input of the graph"), argument)
        listed = {i.name for i in graph.input} if self.proto.ir_version >= 4 else set[str]()
        outputs = self._graph(graph, block, scope, opsets, overridable=listed)
        block.add_op(ReturnOp(*outputs))
        func = FuncOp(names.MAIN, (list(block.arg_types), [v.type for v in outputs]), Region(block))
        func.attributes[names.INPUTS] = strings_attr(i.name for i in arguments)
        func.attributes[names.OUTPUTS] = strings_attr(o.name for o in graph.output)
        if graph.name:
            func.attributes["onnx.name"] = string_attr(graph.name)
        if ranges := declared_ranges(graph, block.arg_types):
            func.attributes[names.RANGES] = strings_attr(ranges)
        _attach_declared(func, _declared([*graph.input, *graph.output, *graph.value_info], defaults))
        return func

    def _function(self, proto: FunctionProto) -> FuncOp:
        block = Block(arg_types=[UNKNOWN] * len(proto.input))
        scope = Scope()
        for argument, name in zip(block.args, proto.input):
            scope.define(needed(name, f"an input of function '{proto.name}'"), argument)
        opsets = self._opsets(proto.opset_import, self.proto.ir_version)
        require_imports(proto, opsets, {(names.normal_domain(d), name) for d, name, _ in self._functions})
        try:
            self._nodes(proto.node, block, scope, opsets)
            outputs = [self._output(scope, name) for name in proto.output]
        except NotYet as missing:
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
        scope.define(needed(name, "an initializer"), op.result)

    def _output(self, scope: Scope, name: str) -> SSAValue:
        value = scope.find(name)
        if value is None:
            raise NotYet(name, "the graph's output list")
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
            starts.append(starts[-1] + count_nodes(proto))
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
                resolved = resolve(domain, op_type, opsets.get(domain))
                if resolved is not None:
                    check_bodies(proto, domain, resolved.schema.since_version, self.proto.ir_version)
                if resolved is None:
                    op = self._custom(proto, domain, operands, scope, opsets)
                elif resolved.fits:
                    op = self._standard(proto, resolved, operands, scope, opsets)
                else:
                    op = self._versioned(proto, domain, resolved, operands, scope, opsets)
        except ModelError as error:
            raise ModelError(f"{title(proto)}: {error}") from None
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
            raise NotYet(name, title(proto), hint)
        return value

    def _standard(
        self,
        proto: NodeProto,
        resolved: Resolved,
        operands: list[SSAValue | None],
        scope: Scope,
        opsets: Mapping[str, int],
    ) -> onnx.OnnxOp:
        cls, schema = resolved.op, resolved.op.SCHEMA
        check_operands(operands, schema)
        properties, regions, bodies = self._attributes(proto, resolved.schema, scope, opsets)
        types = result_types(proto.output, schema)
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
        resolved: Resolved,
        operands: list[SSAValue | None],
        scope: Scope,
        opsets: Mapping[str, int],
    ) -> onnx.VersionedOp:
        schema = resolved.schema
        if not schema.min_input <= len(operands) <= schema.max_input:
            raise ModelError(f"has {len(operands)} inputs, not {between(schema.min_input, schema.max_input)}")
        if not schema.min_output <= len(proto.output) <= schema.max_output:
            raise ModelError(f"has {len(proto.output)} outputs, not {between(schema.min_output, schema.max_output)}")
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
        self._parameters[symbol].check(proto)
        for attribute in proto.attribute:
            value, inner = self._value(attribute, scope, opsets, [])
            if inner:
                raise UnsupportedError(f"{title(proto)} passes a graph to a local function")
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
        specs = specs_of(schema)
        for attribute in proto.attribute:
            name, kind = attribute.name, _kind(attribute)
            expected = specs.get(name)
            if expected is None:
                raise ModelError(f"{schema.name}-{schema.since_version} has no attribute '{name}'")
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
        fed = fed_inputs(graph, self.proto.ir_version)
        block = Block(arg_types=[UNKNOWN] * len(fed))
        inner = Scope(scope)
        for argument, info in zip(block.args, fed):
            inner.define(needed(info.name, "an input of a body"), argument)
        block.add_op(onnx.YieldOp.make(self._graph(graph, block, inner, opsets)))
        listed = _declared([*graph.input, *graph.output, *graph.value_info])
        return Region(block), _Body([i.name for i in fed], listed)


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


def _identity(proto: FunctionProto) -> tuple[str, str, str]:
    return proto.domain, proto.name, proto.overload


def _symbol(proto: FunctionProto, index: int) -> str:
    text = re.sub(r"[^A-Za-z0-9_.$]", "_", f"{proto.domain}.{proto.name}.{proto.overload}".strip("."))
    return f"f{index}.{text}"
