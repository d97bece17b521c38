"""Writing a graph's initializers: those of the file as they came, where they still are, and new ones behind them."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import GraphProto, TensorProto
from xdsl.ir import Block

from ..dialects import onnx
from ..dialects.onnx.attributes import text_of
from ..dialects.onnx.types import SparseAttr
from .inspection import constant_named, is_main
from .output import Output
from .protos import sparse_proto, tensor_proto


def write_initializers(
    graph: GraphProto,
    output: Output,
    block: Block,
    came: tuple[GraphProto, Block] | None,
    by_name: Mapping[str, onnx.InitializerOp],
) -> None:
    """Writes a block's initializers, by their names; `came` is the file's graph and the block it gives now."""
    left = dict(by_name)
    if came is not None:
        source, given = came
        before = {text_of(op.sym): op for op in given.ops if isinstance(op, onnx.InitializerOp)}
        fed = {info.name for info in source.input} if is_main(block) else set[str]()
        for tensor in source.initializer:
            op = left.pop(tensor.name, None)
            if keeps(output, tensor.name, op, before, fed):
                target = graph.initializer.add()
                target.CopyFrom(tensor)
                restore(target, output, block)
            elif op is not None:
                add(graph, output, tensor.name, op)
        for sparse in source.sparse_initializer:
            op = left.pop(sparse.values.name, None)
            if keeps(output, sparse.values.name, op, before, fed):
                copy = graph.sparse_initializer.add()
                copy.CopyFrom(sparse)
                output.restore_all(copy)
            elif op is not None:
                add(graph, output, sparse.values.name, op)
    for name, op in left.items():
        add(graph, output, name, op)


def add(graph: GraphProto, output: Output, name: str, op: onnx.InitializerOp) -> None:
    """Writes a new initializer."""
    value = op.value
    if isinstance(value, SparseAttr):
        graph.sparse_initializer.append(sparse_proto(value, output.weights, name))
    else:
        graph.initializer.append(tensor_proto(value, output.weights, name))


def keeps(
    output: Output,
    name: str,
    op: onnx.InitializerOp | None,
    before: Mapping[str, onnx.InitializerOp],
    fed: set[str],
) -> bool:
    """Whether the file's initializer stands as it came. `op` is the one of that name now."""
    came = before.get(name)
    if came is None:
        return True  # one that the reader leaves out: an input of the same name hides it
    if op is None:  # nothing reads it any more, but a caller may still feed it
        assert output.source is not None
        return name in fed and output.source.proto.ir_version >= 4
    return op.properties == came.properties


def restore(tensor: TensorProto, output: Output, block: Block) -> None:
    """Gives a copy of the file's tensor what was taken out when the file was read."""
    output.restore(tensor)
    if output.embed_external and tensor.data_location == TensorProto.EXTERNAL:
        op = constant_named(block, tensor.name)
        if op is not None:
            tensor.CopyFrom(tensor_proto(op.value, output.weights, tensor.name))
