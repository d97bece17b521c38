"""Whether local functions, and the nodes that call them, keep to what the functions declare."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto

from ..dialects import onnx
from ..dialects.onnx import model as names
from ..runtime.errors import ModelError
from .order import title


class Parameters:
    """The attributes of a local function, and of which type each is as far as the function tells."""

    def __init__(self, function: FunctionProto) -> None:
        self._name = function.name
        self._types: dict[str, int] = dict.fromkeys(function.attribute, AttributeProto.UNDEFINED)
        self._types |= {default.name: default.type for default in function.attribute_proto}
        for node in _all_nodes(function.node):
            for attribute in node.attribute:
                if attribute.ref_attr_name in self._types and attribute.type:
                    self._types[attribute.ref_attr_name] = self._types[attribute.ref_attr_name] or attribute.type

    def check(self, call: NodeProto) -> None:
        """Raises ModelError for an attribute of a call that the function does not have, or has of another type."""
        for attribute in call.attribute:
            wanted = self._types.get(attribute.name)
            if wanted is None:
                raise ModelError(f"the function '{self._name}' has no attribute '{attribute.name}'")
            if wanted and attribute.type and attribute.type != wanted:
                found, meant = (AttributeProto.AttributeType.Name(t) for t in (attribute.type, wanted))
                raise ModelError(f"its attribute '{attribute.name}' is {found}, and the function takes {meant}")


def require_imports(function: FunctionProto, opsets: Mapping[str, int], local: Collection[tuple[str, str]]) -> None:
    """Raises ModelError for a standard operator in a function that imports no opset of the operator's domain."""
    for node in _all_nodes(function.node):
        domain = names.normal_domain(node.domain)
        if domain in opsets or (domain, node.op_type) not in onnx.OP_BY_NAME or (domain, node.op_type) in local:
            continue
        lacks = f"is of {domain or 'ai.onnx'}, and the function imports no opset of it"
        raise ModelError(f"function '{function.name}': {title(node)} {lacks}")


def _all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            graphs: list[GraphProto] = [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]
            for graph in graphs:
                yield from _all_nodes(graph.node)
