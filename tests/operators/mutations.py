"""Models that say something wrong, or at least odd: each example of an operator with one thing about it changed."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorShapeProto, defs, helper, numpy_helper
from standard_cases import cases, data_of

ELEMENTS = (1, 2, 3, 6, 7, 8, 9, 10, 11, 14, 16, 17, 22, 23)
EXAMPLES = 6
"""As many examples of one operator differ in which attributes and operands they have."""

Edit = Callable[[NodeProto, GraphProto], object]


@cache
def examples() -> dict[str, ModelProto]:
    """Of the standard's tests those of one node; of those that are alike the smallest."""
    found: dict[tuple[str, str], dict[object, tuple[str, ModelProto]]] = defaultdict(dict)
    for name, case in sorted(cases().items()):
        if case.kind != "node":
            continue
        model = data_of(case)[0]
        if len(model.graph.node) != 1:
            continue
        node = model.graph.node[0]
        form = (
            tuple(sorted(a.name for a in node.attribute)),
            tuple(map(bool, node.input)),
            tuple(map(bool, node.output)),
        )
        kept = found[node.domain, node.op_type]
        if form not in kept or model.ByteSize() < kept[form][1].ByteSize():
            kept[form] = (name, model)
    return {name: model for kept in found.values() for name, model in [*kept.values()][:EXAMPLES]}


def mutations(model: ModelProto) -> Iterator[tuple[str, ModelProto]]:
    """The model with one attribute, element type, rank, size or operand changed, and what that is."""
    node = model.graph.node[0]
    version = next(o.version for o in model.opset_import if o.domain == node.domain)
    schema = defs.get_schema(node.op_type, version, node.domain)
    for spec in schema.attributes.values():
        given = next((a for a in node.attribute if a.name == spec.name), None)
        for value in attribute_values(spec, given):
            yield f"{spec.name} = {shown(value)}", edited(model, with_attribute(spec.name, value))
    for index, info in enumerate(model.graph.input):
        if info.type.HasField("tensor_type"):
            for label, edit in input_edits(index, info.type.tensor_type):
                yield f"input {index} {label}", edited(model, edit)
    for index, name in enumerate(node.input):
        if name:
            yield f"input {index} is absent", edited(model, lambda n, _, i=index: n.input.__setitem__(i, ""))


def edited(model: ModelProto, edit: Edit) -> ModelProto:
    """A copy that has been edited, and declares nothing of its outputs that may be wrong now."""
    made = copy.deepcopy(model)
    edit(made.graph.node[0], made.graph)
    for output in made.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    return made


def shown(value: object) -> str:
    if isinstance(value, AttributeProto):
        return "[]"
    return str(value)[:40].replace("\n", " ")


def with_attribute(name: str, value: object) -> Edit:
    """Sets an attribute, or with None takes it away."""

    def edit(node: NodeProto, graph: GraphProto) -> None:
        for old in [a for a in node.attribute if a.name == name]:
            node.attribute.remove(old)
        if value is not None:
            node.attribute.append(value if isinstance(value, AttributeProto) else helper.make_attribute(name, value))

    return edit


def attribute_values(spec: defs.OpSchema.Attribute, given: AttributeProto | None) -> Iterator[object]:
    """Values of the attribute's kind, most of them wrong."""
    kind, name = str(spec.type).rpartition(".")[2], spec.name
    now: Any = None if given is None else helper.get_attribute_value(given)
    if spec.required or given is not None:
        yield None
    match kind:
        case "INT":
            yield from (-100, 100, -1, 0, 1, 2, 7, 2**40, -(2**63))
        case "FLOAT":
            yield from (float("nan"), -1.0, 0.0, 1e30)
        case "STRING":
            yield from ("bogus", "", b"\xff\xfe")
            if now is not None:
                yield now.swapcase()
        case "INTS":
            values = list(now) if now is not None else [1, 1]
            yield AttributeProto(name=name, type=AttributeProto.INTS)
            yield from ([*values, 1], values[:-1] or [5], [0] * len(values), [-1] * len(values), values[::-1])
            yield from ([2**40] * len(values), [100] * len(values), [1], [1] * 5)
        case "FLOATS":
            values = list(now) if now is not None else [1.0, 1.0]
            yield AttributeProto(name=name, type=AttributeProto.FLOATS)
            yield from ([*values, 1.0], [float("nan")] * len(values))
        case "STRINGS":
            values = list(now) if now is not None else [b"x", b"y"]
            yield AttributeProto(name=name, type=AttributeProto.STRINGS)
            yield from ([*values, b"bogus"], [b"bogus"] * len(values))
        case "TENSOR":
            arrays = (np.zeros(0, np.float32), np.ones((2, 2), np.int64), np.array(["a"], object), np.array(1.5))
            yield from map(numpy_helper.from_array, arrays)
        case _:
            return


def input_edits(index: int, type_: onnx.TypeProto.Tensor) -> Iterator[tuple[str, Edit]]:
    """Other element types, ranks and sizes of an input."""

    def tensor(graph: GraphProto) -> onnx.TypeProto.Tensor:
        return graph.input[index].type.tensor_type

    for element in ELEMENTS:
        if element != type_.elem_type:
            yield f"of type {element}", lambda _, g, e=element: setattr(tensor(g), "elem_type", e)
    if not type_.HasField("shape"):
        return
    rank = len(type_.shape.dim)
    yield "without a rank", lambda _, g: tensor(g).ClearField("shape")
    yield "with one axis more", lambda _, g: tensor(g).shape.dim.add(dim_value=2)
    yield "with one axis more, of any size", lambda _, g: tensor(g).shape.dim.add(dim_param="Q")
    if rank:
        yield "with one axis less", lambda _, g: tensor(g).shape.dim.__delitem__(-1)
        yield "as a scalar", lambda _, g: tensor(g).shape.dim.__delitem__(slice(None))
        yield "of any sizes", lambda _, g: set_sizes(tensor(g).shape, [f"s{index}_{a}" for a in range(rank)])
        yield "of no elements", lambda _, g: set_sizes(tensor(g).shape, [0] * rank)
        yield "of one element", lambda _, g: set_sizes(tensor(g).shape, [1] * rank)


def set_sizes(shape: TensorShapeProto, sizes: list[Any]) -> None:
    for dim, size in zip(shape.dim, sizes, strict=True):
        if isinstance(size, str):
            dim.dim_param = size
        else:
            dim.dim_value = size
