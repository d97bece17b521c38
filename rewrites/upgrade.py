"""`sx-upgrade-opset`: every node becomes one of the newest opset, or several; the first pass of all.

Local functions are instantiated first, where they are called, since their nodes have opsets of their own.  What a node
became is a group (see `dialects/onnx/groups.py`), so export writes the node as it came while no rewrite touches it.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import onnx
from ..dialects.onnx.attributes import text_of
from ..dialects.onnx.base import origin_of, set_value_name
from ..dialects.onnx.groups import PART, mark_group, part_of
from ..dialects.onnx.model import is_local_function
from ..runtime.errors import UnsupportedError
from ..semantics.weights import WeightStore
from .inline_functions import inline_functions
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
    _hand_over(op, build, results)


def _hand_over(op: onnx.VersionedOp, build: Upgrade, results: list[SSAValue | None]) -> None:
    """Puts the new ops in the old one's place: uses, names, origin, and the mark that they are that node."""
    old = op.formal_results()
    results = [new if before is not None else None for before, new in zip(old, results)]
    outer = part_of(op)  # inside an instance of a function, the call is the node
    if outer is not None:
        for made in build.made:
            made.attributes[PART] = op.attributes[PART]
    else:
        node = origin_of(op)[0] if origin_of(op) else -1
        mark_group(node, build.made, op.formal_operands(), results)
    names = _names(op)
    for index, (before, new) in enumerate(zip(old, results)):
        if before is None:
            continue
        assert new is not None, f"a rule of {text_of(op.op_type)} forgot result {index}"
        if index < len(names) and new.owner in build.made and isinstance(new.owner, Operation):
            set_value_name(new, names[index])
        if before.name_hint:
            new.name_hint = before.name_hint
        before.replace_all_uses_with(new)
    op.detach()
    op.erase()


def _names(op: Operation) -> list[str]:
    found = op.attributes.get("onnx.names")
    return [text_of(entry) for entry in found] if isinstance(found, ArrayAttr) else []
