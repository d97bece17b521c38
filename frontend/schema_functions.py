"""Operators that are compiled as what the standard defines them to be: the function in their schema.

They have bodies that no callback can run.  Only compilation replaces them: a model that is rewritten or inspected keeps
them.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import onnx
from onnx import GraphProto, ModelProto, helper
from onnx.inliner import inline_selected_functions
from xdsl.dialects.builtin import ModuleOp

from ..dialects.onnx import CustomOp, OnnxOp, text_of
from ..semantics.weights import WeightStore
from .importer import import_model

COMPOSED = (("ai.onnx.preview", "FlexAttention"),)
"""Domain and name of each."""


def import_composed(
    source: str | Path | bytes | ModelProto, *, overrides: Collection[str] = ()
) -> tuple[ModuleOp, WeightStore]:
    """`import_model`, with the operators of `COMPOSED` replaced by the nodes that their schema's function has."""
    module, weights = import_model(source, overrides=overrides)
    if not any(is_composed(op) for op in module.walk()):
        return module, weights
    return import_model(replaced(load(source)), folder=weights.folder, overrides=overrides)


def is_composed(op: object) -> bool:
    """Whether an op is one of them."""
    if isinstance(op, OnnxOp):
        return (op.SCHEMA.domain, op.SCHEMA.op_type) in COMPOSED
    return isinstance(op, CustomOp) and (text_of(op.domain), text_of(op.op_type)) in COMPOSED


def load(source: str | Path | bytes | ModelProto) -> ModelProto:
    """The model as a proto; external data stays where it is."""
    if isinstance(source, ModelProto):
        return source
    data = source if isinstance(source, bytes) else Path(source).read_bytes()
    return onnx.load_model_from_string(data)


def replaced(model: ModelProto) -> ModelProto:
    """The model with these operators replaced."""
    copy = ModelProto.FromString(model.SerializeToString())
    # the inliner asks for the type of every operand, and an absent one has the empty name
    copy.graph.value_info.append(helper.make_tensor_value_info("", onnx.TensorProto.FLOAT, []))
    done = inline_selected_functions(copy, list(COMPOSED), inline_schema_functions=True)
    for info in [i for i in done.graph.value_info if not i.name]:
        done.graph.value_info.remove(info)
    name_parts(model.graph, done.graph)
    return done


def name_parts(graph: GraphProto, done: GraphProto) -> None:
    """Gives the nodes that a node was replaced by its name; the last of them makes its output."""
    nodes = iter(done.node)
    for node in graph.node:
        part = next(nodes)
        if (node.domain, node.op_type) in COMPOSED:
            part.name = node.name
            while node.output[0] not in part.output:
                part = next(nodes)
                part.name = node.name
            continue
        for attribute, after in zip(node.attribute, part.attribute):
            if attribute.HasField("g"):
                name_parts(attribute.g, after.g)
