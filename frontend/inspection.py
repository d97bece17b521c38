"""Questions about the IR that writing a model asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import onnx
from ..dialects.onnx import model as names
from ..dialects.onnx.attributes import plain, text_of
from ..dialects.onnx.groups import part_of


def names_in(module: ModuleOp) -> set[str]:
    """All names that values of the module have or want."""
    found: set[str] = set()
    for op in module.walk():
        if isinstance(op, onnx.InitializerOp):
            found.add(text_of(op.sym))
        for key in ("onnx.names", names.INPUTS, names.OUTPUTS):
            found |= _texts(op.attributes.get(key))
    return found


def _texts(attribute: Attribute | None) -> set[str]:
    if not isinstance(attribute, ArrayAttr):
        return set()
    found: set[str] = set()
    for entry in cast("ArrayAttr[Attribute]", attribute):
        found |= _texts(entry) if isinstance(entry, ArrayAttr) else {text_of(entry)}
    return found


def onnx_node(op: Operation | None) -> int | None:
    """The node of the file that the op is, if it is one."""
    found = op.attributes.get("onnx.node") if op is not None else None
    return plain(found) if found is not None else None


def is_untouched(op: Operation, before: Operation) -> bool:
    """Whether the op is what the file's node gives: by its class, attributes and arity, whatever its operands are."""
    return (
        type(op) is type(before)
        and op.properties == before.properties
        and len(op.operands) == len(before.operands)
        and len(op.results) == len(before.results)
        and len(op.regions) == len(before.regions)
    )


def formal(op: Operation) -> tuple[Sequence[SSAValue | None], Sequence[SSAValue | None]]:
    if isinstance(op, onnx.OnnxOp | onnx.PositionedOp):
        return op.formal_operands(), op.formal_results()
    return list(op.operands), list(op.results)


def node_id(op: Operation, otherwise: int) -> int:
    found = onnx_node(op)
    found = part_of(op) if found is None else found
    return otherwise if found is None else found


def graph_names(op: Operation) -> list[str]:
    """The names of the graph attributes that an op's regions are, in order; empty where it has lists of graphs."""
    if isinstance(op, onnx.OnnxOp):
        graphs = [k for k, spec in op.SCHEMA.attributes.items() if spec.kind == "GRAPH"]
        return [k for k, region in zip(graphs, op.formal_regions()) if region is not None]
    found = op.properties.get("graphs")
    listed = [text_of(entry) for entry in found] if isinstance(found, ArrayAttr) else []
    return [] if any(name.endswith("[]") for name in listed) else listed


def body_inputs(op: Operation, index: int) -> list[str]:
    found = op.attributes.get(names.INPUTS)
    if not isinstance(found, ArrayAttr) or index >= len(found):
        return []
    entry = found.data[index]
    return [text_of(name) for name in entry] if isinstance(entry, ArrayAttr) else []


def block_of(value: SSAValue) -> Block | None:
    owner = value.owner
    return owner if isinstance(owner, Block) else owner.parent


def constant_named(block: Block, name: str) -> onnx.InitializerOp | None:
    for op in block.ops:
        if isinstance(op, onnx.InitializerOp) and text_of(op.sym) == name:
            return op
    return None


def is_within(op: Operation, ops: set[int]) -> bool:
    """Whether the op is one of those, or in a body of one."""
    current: Operation | None = op
    while current is not None:
        if id(current) in ops:
            return True
        current = current.parent_op()
    return False


def reads(block: Block, value: SSAValue) -> bool:
    return any(use.operation is op for use in value.uses for op in block.walk())


def is_main(block: Block) -> bool:
    return isinstance(block.parent_op(), FuncOp)


def functions_of(op: Operation) -> Iterator[FuncOp]:
    root: Operation = op
    while (parent := root.parent_op()) is not None:
        root = parent
    assert isinstance(root, ModuleOp)
    return (f for f in root.ops if isinstance(f, FuncOp))
