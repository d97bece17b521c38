"""`sx-upgrade-opset`: every node becomes one of the newest opset, or several; the first pass of all.

Local functions are instantiated first, where they are called, since their nodes have opsets of their own.  What a node
became is a group (see `dialects/onnx/groups.py`), so export writes the node as it came while no rewrite touches it.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from ..dialects import onnx
from ..dialects.onnx.attributes import text_of
from ..dialects.onnx.model import is_local_function
from ..runtime.errors import UnsupportedError
from ..semantics.weights import WeightStore
from .inline_functions import inline_functions
from .node_builder import hand_over
from .upgrade_rules import RULES, Upgrade


class UpgradeOpset(ModulePass):
    """Replaces each `onnx.Versioned` by operations of the newest opset, and each call by its function's body."""

    name = "sx-upgrade-opset"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        upgrade_opset(op)


def upgrade_opset(module: ModuleOp, weights: WeightStore | None = None) -> None:
    """Upgrades all nodes of the module but those of local functions, which stay as the file has them.

    Raises ModelError for recursive functions, UnsupportedError naming all nodes that have no equivalent.
    """
    calls = inline_functions(module)
    old = [
        op
        for func in module.ops
        if not (isinstance(func, FuncOp) and is_local_function(func))
        for op in func.walk()
        if isinstance(op, onnx.VersionedOp)
    ]
    problems: list[str] = []
    for op in old:
        try:
            _upgrade(op, weights)
        except UnsupportedError as problem:
            problems.append(str(problem))
    if problems:
        raise UnsupportedError("\n".join(problems))
    for call in calls:
        call.mark()


def _upgrade(op: onnx.VersionedOp, weights: WeightStore | None) -> None:
    rule = RULES.get((text_of(op.domain), text_of(op.op_type)))
    build = Upgrade(op, weights)
    if rule is None:
        raise build.unsupported("no rule upgrades it")
    results = rule(build)
    hand_over(build, results)
