"""Writing one graph: its initializers, its nodes, the names of its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper
from xdsl.dialects.builtin import ArrayAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue

from ..dialects import dims, onnx
from ..dialects.onnx import model as names
from ..dialects.onnx.attributes import name_of_key, text_of
from ..dialects.onnx.base import describe, value_name
from ..dialects.onnx.groups import WHOLE, Group, group_at
from ..dialects.onnx.schema import SEGMENTS, AttributeSpec
from ..runtime.errors import ModelError, UnsupportedError
from ..semantics.known import constant_value
from .dim_nodes import DimWriter, Symbols
from .downgrade import Downgrade, rule_of
from .expressible import Inexpressible, check_expressible, schema_then, trimmed
from .initializers import write_initializers
from .inspection import (
    block_of,
    body_inputs,
    constant_named,
    formal,
    functions_of,
    graph_names,
    is_main,
    is_untouched,
    is_within,
    node_id,
    onnx_node,
    reads,
)
from .order import names_read
from .output import Output
from .protos import add_attribute, add_info, all_names, array_proto, copy_head, copy_notes

Array = np.ndarray[Any, Any]


@dataclass
class _Written:
    """A node, at the place of which of the file's nodes; one that a rewrite made goes where nothing reads it.

    `problem` is why it cannot be written, which matters only where something does read it.
    """

    at: int
    node: NodeProto
    made: bool = False
    problem: UnsupportedError | None = None


_ConstantKey: TypeAlias = tuple[str, tuple[int, ...], bytes | tuple[Any, ...]]


@dataclass
class GraphWriter:
    """One graph being written: `block` into a GraphProto. `came` is the file's graph and the block it gives now."""

    output: Output
    block: Block
    versions: Mapping[str, int]
    came: tuple[GraphProto, Block] | None
    outer: GraphWriter | None = None
    symbols: Symbols = field(default_factory=Symbols)
    _names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    _owners: dict[str, SSAValue | None] = field(default_factory=dict[str, SSAValue | None])
    _nodes: list[_Written] = field(default_factory=list["_Written"])
    _copies: list[tuple[SSAValue, str]] = field(default_factory=list[tuple[SSAValue, str]])
    _fixed: list[TensorProto] = field(default_factory=list[TensorProto])
    _made_for_sizes: dict[str, int] = field(default_factory=dict[str, int])
    _constants: dict[_ConstantKey, str] = field(default_factory=dict["_ConstantKey", str])
    _made_constants: set[str] = field(default_factory=set[str])
    _at: int = -1

    # Names

    def name(self, value: SSAValue) -> str:
        """The name of a value that has been written, here or around."""
        writer: GraphWriter | None = self
        while writer is not None:
            found = writer._names.get(value)
            if found is not None:
                return found
            writer = writer.outer
        raise ModelError(f"a value is used before it is made: {value}")

    def name_arguments(self, listed: Sequence[str]) -> None:
        """Names the block's arguments."""
        for index, argument in enumerate(self.block.args):
            self._take(argument, listed[index] if index < len(listed) else "")
            self.symbols.bind_type(self._names[argument], argument.type)

    def reserve_outputs(self, values: Sequence[SSAValue], outputs: Sequence[str]) -> None:
        """Sees that the graph's outputs get these names: by the op that makes them, or else by a copy at the end."""
        for value, name in zip(values, outputs):
            made_here = isinstance(value, OpResult) and value.owner.parent is self.block
            free = self._owners.get(name) is None and value not in self._names
            if self._names.get(value) == name:
                continue
            if made_here and free and not isinstance(value.owner, onnx.InitializerOp | dims.TensorOp):
                self._names[value], self._owners[name] = name, value
            elif isinstance(value.owner, onnx.InitializerOp) and text_of(value.owner.sym) == name:
                self._owners[name] = value
            else:
                self._owners.setdefault(name, None)
                self._copies.append((value, name))

    def _take(self, value: SSAValue, wanted: str) -> str:
        """Names a value as wanted, or, where that would be another value's name, in a new way."""
        if value in self._names:
            return self._names[value]
        name = wanted if wanted and self._is_free(wanted, value) else self.fresh(wanted or value.name_hint or "v")
        self._names[value], self._owners[name] = name, value
        return name

    def _is_free(self, name: str, value: SSAValue) -> bool:
        if name in self._owners:
            return self._owners[name] is value
        writer = self.outer
        while writer is not None:
            owner = writer._owners.get(name)
            if owner is not None:
                return not reads(self.block, owner)  # it may be hidden where nothing reads it
            writer = writer.outer
        return True

    def fresh(self, stem: str = "v") -> str:
        """A name that no value of the module has."""
        reserved = self.output.reserved
        number = 0
        while (name := f"{stem}_{number}") in reserved:
            number += 1
        reserved.add(name)
        return name

    # Ops

    def write(self, graph: GraphProto, outputs: Sequence[tuple[SSAValue, str]]) -> None:
        """Writes the initializers and nodes, and the copies that outputs need.

        `outputs` are the graph's outputs, each with its name, or "" where it goes by its value's.
        """
        ops = [op for op in self.block.ops if isinstance(op, onnx.InitializerOp)]
        for op in ops:
            self._take(op.result, text_of(op.sym))
        by_name = {self._names[op.result]: op for op in ops}
        write_initializers(graph, self.output, self.block, self.came, by_name)
        groups = self._groups()
        members = {id(op) for group in groups.values() for op in group.members}
        for op in self.block.ops:
            self._at = node_id(op, self._at)
            group = groups.get(id(op))
            if group is not None:
                self._write_group(group)
            elif id(op) not in members and not isinstance(op, onnx.InitializerOp | ReturnOp | onnx.YieldOp):
                self._write_op(op)
        for value, name in self._copies:
            self._new_node("Identity", "", [self.name(value)], [name], {})
        read = {name or self.name(value) for value, name in outputs}
        written = self._without_dead(read)
        graph.initializer.extend(tensor for tensor in self._fixed if tensor.name in read)
        source = self.output.source
        if self.came is not None and source is not None and self.came[1] in source.unsorted:
            written.sort(key=lambda entry: entry.at)
        graph.node.extend(entry.node for entry in written)

    def _without_dead(self, read: set[str]) -> list[_Written]:
        """The nodes without those that rewrites made and nothing reads, such as what a rule made an attribute of."""
        kept: list[_Written] = []
        for entry in reversed(self._nodes):
            if entry.made and read.isdisjoint(entry.node.output):
                continue
            if entry.problem is not None:
                raise entry.problem
            read.update(names_read(entry.node))
            kept.append(entry)
        return kept[::-1]

    def _write_op(self, op: Operation) -> None:
        source, came = self.output.source, onnx_node(op)
        before = source.ops.get(came) if source is not None and came is not None else None
        if source is not None and came is not None and before is not None and is_untouched(op, before):
            self._write_untouched(op, before, source.nodes[came])
            return
        match op:
            case onnx.OnnxOp():
                self._write_standard(op)
            case onnx.CustomOp() | onnx.VersionedOp():
                self._write_by_name(op)
            case onnx.CallOp():
                self._write_call(op)
            case dims.TensorOp():
                self._write_dims(op)
            case dims.BindOp():
                self.symbols.bind_elements(self.name(op.source), op.source.type, [s.data for s in op.symbols])
            case dims.AssumeOp():
                pass
            case _:
                raise UnsupportedError(f"{describe(op)} is of no graph level, so no model can be written")

    def _write_untouched(self, op: Operation, before: Operation, came: NodeProto) -> None:
        """The file's node, under the names that its values have now."""
        if isinstance(op, onnx.ConstantOp) and (array := constant_value(op.output)) is not None:
            key = _key_of(array)
            known = self._constants.get(key)
            if known is not None and known in self._made_constants and op.output not in self._names:
                self._names[op.output] = known
                self._place_first(known)
                return
            self._constants.setdefault(key, self._take(op.output, value_name(op.output) or ""))
        node = NodeProto()
        node.CopyFrom(came)
        self._write_names(node, op)
        if op.regions:
            self._write_bodies(op, before, node)
        for attribute in node.attribute:
            self._restore_attribute(attribute)
        self._nodes.append(_Written(self._at, node))

    def _write_names(self, node: NodeProto, op: Operation) -> None:
        operands, results = formal(op)
        inputs = self._padded([self.name(v) if v is not None else "" for v in operands], node.input)
        if list(node.input) != inputs:
            del node.input[:]
            node.input.extend(inputs)
        listed = list(node.output)
        outputs = self._padded([self._result_name(op, i, r, listed) for i, r in enumerate(results)], node.output)
        if listed != outputs:
            del node.output[:]
            node.output.extend(outputs)

    def _padded(self, found: list[str], came: Sequence[str]) -> list[str]:
        """With the empty names that the file has at the end."""
        return found + [""] * (len(came) - len(found) if not any(came[len(found) :]) else 0)

    def _result_name(self, op: Operation, index: int, result: SSAValue | None, listed: Sequence[str]) -> str:
        if result is None:
            return ""
        wanted = value_name(result) or ""
        if not wanted and index < len(listed) and not listed[index] and result.first_use is None:
            return ""  # an output that the file leaves without a name
        name = self._take(result, wanted)
        self.symbols.bind_type(name, result.type)
        return name

    def _write_group(self, group: Group) -> None:
        """The node that the group was made from."""
        source = self.output.source
        assert source is not None
        node = NodeProto()
        node.CopyFrom(source.nodes[group.node])
        inputs = [self.name(v) if v is not None else "" for v in group.inputs]
        for at in group.unread:
            value = self._unread(group, at)
            assert value is not None
            inputs[at] = self.name(value)
        listed = list(node.output)
        made = {id(r) for op in group.members for r in op.results}
        outputs: list[str] = []
        for index, result in enumerate(group.results):
            if result is None or id(result) not in made:
                outputs.append(listed[index])  # absent, or the node's input under another name that nothing reads
                continue
            outputs.append(self._result_name(group.members[-1], index, result, listed))
        inputs, outputs = self._padded(inputs, node.input), self._padded(outputs, listed)
        del node.input[:], node.output[:]
        node.input.extend(inputs)
        node.output.extend(outputs)
        for attribute in node.attribute:
            self._restore_attribute(attribute)
        self._nodes.append(_Written(group.node, node))

    def _groups(self) -> dict[int, Group]:
        """The groups of this block that can be written as the nodes they were made from, by their last op."""
        found: dict[int, Group] = {}
        source = self.output.source
        if source is None:
            return found
        for op in self.block.ops:
            if WHOLE in op.attributes:
                group = group_at(op)
                if group is not None and group.node in source.nodes and self._is_whole(group):
                    found[id(op)] = group
        return found

    def _is_whole(self, group: Group) -> bool:
        """Whether nothing outside reads what is inside the group, and what it does not read is still there."""
        inside = {id(op) for op in group.members}
        results = {id(r) for r in group.results if r is not None}
        for op in group.members:
            for result in op.results:
                if id(result) not in results and any(not is_within(use.operation, inside) for use in result.uses):
                    return False
        return all(self._unread(group, at) is not None for at in group.unread)

    def _unread(self, group: Group, index: int) -> SSAValue | None:
        """The value, as it is now, that the group's node reads in the file; None where it is gone or has changed."""
        source = self.output.source
        assert source is not None
        before = cast("onnx.VersionedOp | onnx.CallOp", source.ops[group.node]).operand_at(index)
        assert before is not None
        return self._now(before)

    def _now(self, before: SSAValue) -> SSAValue | None:
        """The value, here or around, that is what the file's value was; None where there is none."""
        writer: GraphWriter | None = self
        while writer is not None:
            found = writer.value_for(before)
            if found is not None:
                return found
            writer = writer.outer
        return None

    def value_for(self, before: SSAValue) -> SSAValue | None:
        """The value of this block that is what the file's value was; None where there is none."""
        if self.came is None or block_of(before) is not self.came[1]:
            return None
        if isinstance(before, BlockArgument):
            return self.block.args[before.index] if before.index < len(self.block.args) else None
        assert isinstance(before, OpResult)
        op = before.op
        if isinstance(op, onnx.InitializerOp):
            now = constant_named(self.block, text_of(op.sym))
        else:
            now = self._by_node.get(onnx_node(op))
        if now is None or not is_untouched(now, op):
            return None
        return now.results[before.index]

    @cached_property
    def _by_node(self) -> dict[int | None, Operation]:
        return {onnx_node(op): op for op in self.block.ops}

    def _write_standard(self, op: onnx.OnnxOp) -> None:
        """An op that the file does not have: at the model's opset, by a rule where its form was another then."""
        if isinstance(op, onnx.ConstantOp) and op.output not in self._names:
            array = constant_value(op.output)
            if array is not None and (known := self._constants.get(_key_of(array))) is not None:
                self._names[op.output] = known
                self._place_first(known)
                return
            if array is not None:
                self._constants[_key_of(array)] = self._take(op.output, value_name(op.output) or "")
        schema = op.SCHEMA
        version = self.output.version(schema.domain, self.versions)
        inputs = [self.name(v) if v is not None else "" for v in op.formal_operands()]
        outputs = [self._result_name(op, i, r, ()) for i, r in enumerate(op.formal_results())]
        attributes = {k: v for k, v in op.properties.items() if k not in SEGMENTS}
        then = schema_then(schema.domain, schema.op_type, version)
        try:
            if (rule := rule_of(op, then, inputs, attributes)) is not None:
                rule(self._downgrade(op, version, inputs, outputs, attributes))
            elif isinstance(op, onnx.ConstantOp) and self._is_fixed(array := self._constant_of(op.output)):
                assert array is not None
                self._fixed.append(array_proto(array, outputs[0]))
            else:
                assert then is not None
                check_expressible(op, then, inputs, outputs, attributes)
                self._new_node(schema.op_type, schema.domain, inputs, outputs, attributes, op)
        except UnsupportedError as problem:
            unwritten = NodeProto(output=outputs)
            self._nodes.append(_Written(self._at, unwritten, made=True, problem=Inexpressible(problem, op)))

    def _downgrade(
        self, op: onnx.OnnxOp, version: int, inputs: list[str], outputs: list[str], attributes: dict[str, Attribute]
    ) -> Downgrade:
        def write(op_type: str, reads: Sequence[str], makes: Sequence[str], given: Mapping[str, Attribute]) -> None:
            self._new_node(op_type, op.SCHEMA.domain, reads, makes, given, op)

        return Downgrade(
            op,
            version,
            inputs,
            outputs,
            attributes,
            write,
            self.fresh,
            self._new_constant,
            self._constant_of,
        )

    def _constant_of(self, value: SSAValue) -> Array | None:
        """The value of a constant, also where it only has another element type."""
        owner = value.owner
        if isinstance(owner, onnx.CastLikeOp):
            value = owner.input
        return constant_value(value, self.output.weights)

    def _new_node(
        self,
        op_type: str,
        domain: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, Attribute],
        op: Operation | None = None,
    ) -> NodeProto:
        node = NodeProto(op_type=op_type, input=trimmed(inputs), output=trimmed(outputs))
        if domain:
            node.domain = domain
        came = onnx_node(op) if op is not None else None
        if came is not None and self.output.source is not None and came in self.output.source.nodes:
            copy_notes(self.output.source.nodes[came], node)
        specs = op.SCHEMA.attributes if isinstance(op, onnx.OnnxOp) else {}
        for key, value in attributes.items():
            add_attribute(node, name_of_key(key), value, _kind(specs.get(key)), self.output.weights)
        if isinstance(op, onnx.OnnxOp) and op.regions:
            graphs = [k for k, spec in specs.items() if spec.kind == "GRAPH"]
            present = [k for k, region in zip(graphs, op.formal_regions()) if region is not None]
            self._new_bodies(op, present, node)
        self._nodes.append(_Written(self._at, node, made=True))
        return node

    def _is_fixed(self, array: Array | None) -> bool:
        """Whether a constant is an initializer: before opset 9 nodes made floats only; bodies have nothing else."""
        older = self.output.version("", self.versions) < 9 and is_main(self.block)
        return older and array is not None and array.dtype.kind != "f"

    def _new_constant(self, array: Array) -> str:
        """The name of a constant of that value: of one that the block has already, or of a new one."""
        key = _key_of(array)
        if (known := self._constants.get(key)) is not None:
            return known
        name = self._constants[key] = self.fresh("constant")
        self._made_constants.add(name)  # an equal constant of the file that comes later goes by this name
        if self._is_fixed(array):
            self._fixed.append(array_proto(array, name))
            return name
        node = NodeProto(op_type="Constant", output=[name])
        node.attribute.add(name="value", type=AttributeProto.TENSOR).t.CopyFrom(array_proto(array))
        self._nodes.append(_Written(self._at, node, made=True))
        return name

    def _place_first(self, constant: str) -> None:
        """Puts a constant that other nodes read, too, before the nodes of sizes among which it was made.

        So it stands where it stays when these sizes are computed anew: the same model gives the same file.
        """
        start = self._made_for_sizes.pop(constant, None)
        if start is not None:
            at = next(i for i in range(start, len(self._nodes)) if constant in self._nodes[i].node.output)
            self._nodes.insert(start, self._nodes.pop(at))

    def _write_by_name(self, op: onnx.CustomOp | onnx.VersionedOp) -> None:
        operands, results = op.formal_operands(), op.formal_results()
        domain, op_type = text_of(op.domain), text_of(op.op_type)
        if isinstance(op, onnx.VersionedOp):
            then = schema_then(domain, op_type, self.output.version(domain, self.versions))
            if then is None or then.since_version != op.since_version.value.data:
                raise UnsupportedError(f"{describe(op)}: {op_type}-{op.since_version.value.data} is not of this opset")
        inputs = [self.name(v) if v is not None else "" for v in operands]
        outputs = [self._result_name(op, i, r, ()) for i, r in enumerate(results)]
        node = self._new_node(op_type, domain, inputs, outputs, op.attributes_.data, op)
        if op.regions:
            listed = [text_of(entry) for entry in cast("ArrayAttr[Attribute]", op.graphs)]
            self._new_bodies(op, listed, node)

    def _write_call(self, op: onnx.CallOp) -> None:
        func = next(
            (f for f in functions_of(op) if f.sym_name.data == op.callee.string_value()),
            None,
        )
        if func is None:
            raise ModelError(f"{describe(op)} calls a function that is not there")
        domain, name, overload = names.identity_of(func)
        inputs = [self.name(v) if v is not None else "" for v in op.formal_operands()]
        outputs = [self._result_name(op, i, r, ()) for i, r in enumerate(op.formal_results())]
        node = self._new_node(name, domain, inputs, outputs, op.attributes_.data, op)
        if overload:
            node.overload = overload

    def _write_dims(self, op: dims.TensorOp) -> None:
        exprs = op.exprs.data
        type_ = op.result.type
        if all(dim.is_const for dim in exprs):
            element: Attribute = type_.element_type
            array = np.array([d.value for d in exprs], onnx.numpy_dtype(element)).reshape(type_.get_shape())
            self._names[op.result] = self._new_constant(array)
            return
        opset = self.output.version("", self.versions)
        writer = DimWriter(self.symbols, self._dim_node, self._new_constant, opset)
        start = len(self._nodes)
        self._names[op.result] = writer.tensor(exprs, type_)
        made = (entry.node for entry in self._nodes[start:])
        self._made_for_sizes |= {node.output[0]: start for node in made if node.op_type == "Constant"}

    def _dim_node(self, op_type: str, inputs: Sequence[str], attributes: Mapping[str, Attribute]) -> str:
        key = op_type, tuple(inputs), tuple(sorted(attributes.items()))
        if (known := self.symbols.find(key)) is not None:
            return known
        name = self.symbols.note(key, self.fresh("dim"))
        self._new_node(op_type, "", inputs, [name], attributes)
        return name

    # Bodies

    def _write_bodies(self, op: Operation, before: Operation, node: NodeProto) -> None:
        """The bodies of an untouched node, each into the graph that the file has for it."""
        graphs = [a.g if a.HasField("g") else None for a in node.attribute]
        listed = [g for g in graphs if g is not None] + [g for a in node.attribute for g in a.graphs]
        source = self.output.source
        assert source is not None
        by_name = {a.name: a for a in node.attribute}
        targets = [by_name[k].g for k in graph_names(op)] if graph_names(op) else listed
        for index, region in enumerate(op.regions):
            came = before.regions[index].block
            target = targets[index]
            head = GraphProto()
            copy_head(source.graphs[came], head)
            target.CopyFrom(head)
            self._write_body(op, index, region.block, (source.graphs[came], came), target)

    def _new_bodies(self, op: Operation, listed: Sequence[str], node: NodeProto) -> None:
        for index, name in enumerate(listed):
            many = name.endswith("[]")
            stem = name.removesuffix("[]")
            attribute = next((a for a in node.attribute if a.name == stem), None)
            if attribute is None:
                kind = AttributeProto.GRAPHS if many else AttributeProto.GRAPH
                attribute = node.attribute.add(name=stem, type=kind)
            target = attribute.graphs.add() if many else attribute.g
            target.name = f"{stem}_body"
            self._write_body(op, index, op.regions[index].block, None, target)

    def _write_body(
        self, op: Operation, index: int, block: Block, came: tuple[GraphProto, Block] | None, graph: GraphProto
    ) -> None:
        ordered = came is None or self.output.source is None or came[1] not in self.output.source.unsorted
        inner = GraphWriter(self.output, block, self.versions, came, self, Symbols(self.symbols, reuse=ordered))
        inner.name_arguments(body_inputs(op, index))
        last = block.last_op
        if not isinstance(last, onnx.YieldOp):
            raise ModelError(f"a body of {describe(op)} does not end in onnx.Yield")
        listed = came[0].output if came is not None else ()
        outputs = inner.body_outputs(list(last.operands), [info.name for info in listed])
        inner.write(graph, list(zip(last.operands, outputs)))
        inner.write_inputs(graph)
        for at, value in enumerate(last.operands):
            name = outputs[at] or inner.name(value)
            add_info(graph.output, name, value.type, listed[at] if at < len(listed) else None)
        inner.keep_declared(graph)

    def write_inputs(self, graph: GraphProto) -> None:
        """The graph's inputs, in the file's order, with the initializers that the file lists among them."""
        came = self.came[0] if self.came is not None else None
        arguments = {self.name(a): a for a in self.block.args}
        constants = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
        listed = {info.name: info for info in came.input} if came is not None else {}
        order = [name for name in listed if name in arguments or name in constants]
        if [name for name in order if name in arguments] != list(arguments):
            order = [*arguments, *(name for name in order if name not in arguments)]
        for name in order:
            argument = arguments.get(name)
            add_info(graph.input, name, argument.type if argument is not None else onnx.UNKNOWN, listed.get(name))
        if self.output.ir_version < 4:  # all initializers are inputs
            as_came = {tensor.name for tensor in came.initializer} if came is not None else set[str]()
            new = [t for t in graph.initializer if t.name not in order and t.name not in as_came]
            graph.input.extend(helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in new)

    def body_outputs(self, values: Sequence[SSAValue], listed: Sequence[str]) -> list[str]:
        """A name for each output that needs a copy, "" for the others, which go by their own.

        An output has to be made in the body; what the file has is kept all the same.  Of what is given twice, the file
        may list the name already.
        """
        last = self.came[1].last_op if self.came is not None else None
        given = list(last.operands) if last is not None else []
        outputs: list[str] = []
        seen: set[SSAValue] = set()
        for at, value in enumerate(values):
            as_came = at < len(given) and self._now(given[at]) is value
            made_here = isinstance(value, OpResult) and value.owner.parent is self.block
            if value in seen:
                is_listed = made_here and at < len(listed) and value_name(value) == listed[at]
                stays = is_listed or (as_came and given[at] in given[:at])
            else:
                stays = as_came or (made_here and not isinstance(value.owner, dims.TensorOp))
            name = listed[at] if at < len(listed) else ""
            outputs.append("" if stays else name if self._is_unused(name) else self.fresh("output"))
            if not stays:
                self._copies.append((value, outputs[-1]))
                self._owners[outputs[-1]] = None
            seen.add(value)
        return outputs

    def _is_unused(self, name: str) -> bool:
        """Whether no value that this block has or may read goes by that name."""
        writer: GraphWriter | None = self
        while writer is not None:
            if name in writer._owners:
                return False
            writer = writer.outer
        return bool(name) and all(value_name(r) != name for op in self.block.ops for r in op.results)

    # What the file has

    def _restore_attribute(self, attribute: AttributeProto) -> None:
        if attribute.HasField("t"):
            self.output.restore(attribute.t)
        for tensor in attribute.tensors:
            self.output.restore(tensor)
        if attribute.HasField("sparse_tensor"):
            self.output.restore_all(attribute.sparse_tensor)
        for sparse in attribute.sparse_tensors:
            self.output.restore_all(sparse)

    def keep_declared(self, graph: GraphProto) -> None:
        """Keeps the file's declarations of values that are still there."""
        if self.came is None:
            return
        source = self.came[0]
        before = all_names(source)
        now = all_names(graph)
        kept = [info for info in source.value_info if info.name in now or info.name not in before]
        graph.value_info.extend(kept)


def _key_of(array: Array) -> _ConstantKey:
    """What equal constants have in common."""
    data = tuple(array.ravel()) if array.dtype == object else array.tobytes()
    return array.dtype.name, array.shape, data


def _kind(spec: AttributeSpec | None) -> str:
    return spec.kind if spec is not None else ""
