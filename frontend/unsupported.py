"""All operators of a model that we do not have, in one report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ..dialects import onnx
from ..dialects.onnx.base import info_of
from ..dialects.onnx.model import is_local_function, opsets_of
from ..dialects.onnx.nodes import NodeInfo


@dataclass
class Unsupported:
    """An operator that we do not have, why, and the nodes that have it."""

    domain: str
    op_type: str
    reason: str
    nodes: list[NodeInfo] = field(default_factory=list[NodeInfo])

    def __str__(self) -> str:
        title = f"{self.domain}::{self.op_type}" if self.domain else self.op_type
        shown = ", ".join(str(node) for node in self.nodes[:3])
        more = f" and {len(self.nodes) - 3} more" if len(self.nodes) > 3 else ""
        return f"{title}: {self.reason}; {shown}{more}"


def nobody(domain: str, op_type: str) -> bool:
    """Knows no operator."""
    return False


def unsupported(module: ModuleOp, known: Callable[[str, str], bool] = nobody) -> list[Unsupported]:
    """The operators of `onnx.Custom` nodes, in order of their first node; a function's only where instantiated.

    `known(domain, op_type)` tells those that are there in spite of that.
    """
    versions = opsets_of(module)
    found: dict[tuple[str, str], Unsupported] = {}
    for func in module.ops:
        if isinstance(func, FuncOp) and is_local_function(func):
            continue
        for op in func.walk():
            if isinstance(op, onnx.CustomOp):
                domain, op_type = onnx.text_of(op.domain), onnx.text_of(op.op_type)
                if known(domain, op_type):
                    continue
                entry = found.get((domain, op_type))
                if entry is None:
                    entry = found[domain, op_type] = Unsupported(domain, op_type, _reason(domain, op_type, versions))
                entry.nodes.append(info_of(op) or NodeInfo("", op_type))
    return list(found.values())


def _reason(domain: str, op_type: str, versions: dict[str, int]) -> str:
    known = onnx.OP_BY_NAME.get((domain, op_type))
    if known is not None:
        version = versions.get(domain)
        if version is None:
            return f"the model imports no opset of {domain or 'ai.onnx'}"
        return f"it is new in opset {known.SCHEMA.first}, and the model imports {version}"
    if domain in ("", "ai.onnx.ml"):
        return f"no opset of {domain or 'ai.onnx'} has it"
    return f"the domain {domain} is not known, and the model has no function for it"
