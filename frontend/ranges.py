"""Ranges of symbols that torch's exporter leaves in a graph's metadata: `{s0: VR[2, 1024], s1: VR[0, int_oo]}`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from onnx import GraphProto
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from ..dialects.dims import dims_of

KEY = "pkg.torch.export.ExportedProgram.range_constraints"
_RANGE = re.compile(r"(?P<name>\w+): VR\[(?P<low>\d+), (?P<high>\w+)\]")
_TRACED = 2
"""Tracing takes every size for at least 2: as a least size this says nothing of the graph, which holds below it too."""


def declared_ranges(graph: GraphProto, types: Sequence[Attribute]) -> list[str]:
    """The conditions that the graph's metadata state on symbols of these types; other text is no statement."""
    symbols = {name for t in types if isinstance(t, TensorType) for d in dims_of(t) for name in d.symbols}
    found: list[str] = []
    for entry in graph.metadata_props:
        for match in _RANGE.finditer(entry.value) if entry.key == KEY else ():
            name, low, high = match["name"], int(match["low"]), match["high"]
            if name not in symbols:
                continue
            if low > _TRACED:
                found.append(f"{low} <= {name}")
            if high.isdecimal():
                found.append(f"{name} <= {high}")
    return found
