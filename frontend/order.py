"""The order of a graph's nodes, and what messages call them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush

from onnx import AttributeProto, GraphProto, NodeProto

from ..runtime.errors import ModelError


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
        left = [title(proto) for index, proto in enumerate(protos) if index not in done]
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


def count_nodes(proto: NodeProto) -> int:
    """The node and all nodes of its bodies."""
    inner = (a for a in proto.attribute if a.HasField("g") or a.graphs)
    graphs = (g for a in inner for g in (*((a.g,) if a.HasField("g") else ()), *a.graphs))
    return 1 + sum(count_nodes(node) for graph in graphs for node in graph.node)


def title(proto: NodeProto) -> str:
    return f"node '{proto.name}' ({proto.op_type})" if proto.name else _title_by_output(proto)


def _title_by_output(proto: NodeProto) -> str:
    output = next((name for name in proto.output if name), "")
    return f"the node {proto.op_type} that makes '{output}'" if output else f"a node {proto.op_type}"
