"""Whether the bodies of control flow take and give as many values as their node feeds and keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from onnx import GraphProto, NodeProto, ValueInfoProto

from ..runtime.errors import ModelError


class Fit(NamedTuple):
    """How many values a body takes and gives, and what they are."""

    inputs: int
    outputs: int
    taken: str
    given: str


def fed_inputs(graph: GraphProto, ir_version: int) -> list[ValueInfoProto]:
    """The inputs of a body that its node feeds: before IR version 4 every initializer had to be listed among them."""
    if ir_version >= 4:
        return list(graph.input)
    given = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    return [info for info in graph.input if info.name not in given]


def check_bodies(proto: NodeProto, domain: str, since: int, ir_version: int) -> None:
    """Raises ModelError for a body with more or fewer inputs or outputs than the node, of version `since`, has."""
    fit_of = _FITS.get((domain, proto.op_type))
    if fit_of is None:
        return
    fit = fit_of(proto, since)
    for attribute in proto.attribute:
        if not attribute.HasField("g"):
            continue
        graph = attribute.g
        what = f"its '{attribute.name}'" + (f", the graph '{graph.name}'," if graph.name else "")
        for found, wanted, side, meaning in (
            (len(fed_inputs(graph, ir_version)), fit.inputs, "input", fit.taken),
            (len(graph.output), fit.outputs, "output", fit.given),
        ):
            if found != wanted:
                raise ModelError(f"{what} has {_counted(found, side)}, not {wanted}{meaning and f': {meaning}'}")


def _branch(proto: NodeProto, since: int) -> Fit:
    return Fit(0, len(proto.output), "", "one for each output of the node")


def _loop(proto: NodeProto, since: int) -> Fit:
    states = max(len(proto.input) - 2, 0)
    _need_outputs(proto, states)
    taken = f"the iteration's number, the condition, and {_counted(states, 'state')}"
    return Fit(2 + states, 1 + len(proto.output), taken, "the condition, and one for each output of the node")


def _scan(proto: NodeProto, since: int) -> Fit:
    count = next((a.i for a in proto.attribute if a.name == "num_scan_inputs"), 0)
    fed = len(proto.input) - (since < 9)  # its first version began with the lengths of sequences
    states = fed - count
    if states < 0:
        raise ModelError(f"has {_counted(len(proto.input), 'input')}, and its attribute 'num_scan_inputs' is {count}")
    _need_outputs(proto, states)
    taken = f"{_counted(states, 'state')}, and a slice of each of {_counted(count, 'scanned input')}"
    return Fit(fed, len(proto.output), taken, "one for each output of the node")


def _need_outputs(proto: NodeProto, states: int) -> None:
    if len(proto.output) < states:
        raise ModelError(f"has {_counted(len(proto.output), 'output')}, and {_counted(states, 'state')}")


def _each(proto: NodeProto, since: int) -> Fit:
    outputs = "one for each output of the node"
    return Fit(len(proto.input), len(proto.output), "one for each input of the node", outputs)


def _change(proto: NodeProto, since: int) -> Fit:
    return Fit(1, 1, "", "")


_FITS: Mapping[tuple[str, str], Callable[[NodeProto, int], Fit]] = {
    ("", "If"): _branch,
    ("", "Loop"): _loop,
    ("", "Scan"): _scan,
    ("", "SequenceMap"): _each,
    ("ai.onnx.preview", "FlexAttention"): _change,
}


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
