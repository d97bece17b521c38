"""Which branch of an If runs, and which tensor SequenceAt takes, where these have other ranks.

Inputs tell it, or a program that is asked first: it gives the If's condition, or the position, and nothing else.  Each
answer has a program without the If, or with the position as a constant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.traits import Pure

from .dialects import onnx
from .dialects.onnx.attributes import strings_attr
from .dialects.onnx.model import OUTPUTS, main_of
from .rewrites.driver import apply_patterns
from .rewrites.infer.materialize import told_by
from .rewrites.infer.walk import RANK_FROM_DATA
from .rewrites.simplify.control_flow import InlineKnownIf
from .rewrites.simplify.redundancy import eliminate_dead_code
from .runtime.manifest import Place, Question

_TAKEN = "branch of If"
_ASKED = "condition of If"
_ANSWER = re.compile(rf"(?P<what>{_TAKEN}|{_ASKED}) (?P<number>\d+)( == (?P<value>[01]))?")
_PLACE = "position of SequenceAt"
_PLACED = re.compile(rf"(?P<asked>value of )?{_PLACE} (?P<number>\d+)( == (?P<value>-?\d+))?")


def branches_of(main: FuncOp) -> list[onnx.IfOp]:
    """The Ifs of `main` itself, which answers name by their number."""
    return [op for op in main.body.block.ops if isinstance(op, onnx.IfOp)]


def picks_of(main: FuncOp) -> list[onnx.SequenceAtOp]:
    """What takes a tensor of a sequence in `main` itself, which answers name by their number."""
    return [op for op in main.body.block.ops if isinstance(op, onnx.SequenceAtOp)]


def fix_position(module: ModuleOp, answer: str) -> bool:
    """Takes an answer into a module that is not inferred yet; False for one that says nothing of a position.

    `position of SequenceAt 2 == 1` makes it a constant, `value of position of SequenceAt 2` all that the module gives.
    """
    match = _PLACED.fullmatch(answer)
    if match is None:
        return False
    main = main_of(module)
    op = picks_of(main)[int(match["number"])]
    if match["asked"]:
        _give_only(module, main, op.operands[1])
        return True
    value = onnx.tensor_attr(np.array(int(match["value"])))
    constant = onnx.ConstantOp.make([], {"value": value}, [value.type], like=op)
    main.body.block.insert_op_before(constant, op)
    op.operands[1] = constant.results[0]
    return True


def position_question(main: FuncOp, picks: Sequence[onnx.SequenceAtOp]) -> Question | None:
    """The question for the first SequenceAt whose position tells a rank; None where there is none that can be asked."""
    for number, op in enumerate(picks):
        if op.parent is not main.body.block or not told_by(op):
            continue
        position, answer = op.operands[1], f"{_PLACE} {number}"
        assumptions = [f"{answer} == {{}}"]
        if isinstance(position, BlockArgument):
            place: Place = {"input": position.index, "kind": "element", "at": 0}
            return {"expression": "position", "places": {"position": place}, "assumptions": assumptions}
        if is_settled(position):
            return {"expression": "0", "places": {}, "assumptions": assumptions, "asks": f"value of {answer}"}
    return None


def fix_branch(module: ModuleOp, answer: str) -> bool:
    """Takes an answer into a module that is not inferred yet; False for one that says nothing of a branch.

    `branch of If 2 == 1` puts the branch in the place of the If, `condition of If 2` makes its condition all that the
    module gives.  The Ifs are counted anew after each answer.
    """
    match = _ANSWER.fullmatch(answer)
    if match is None:
        return False
    main = main_of(module)
    op = branches_of(main)[int(match["number"])]
    condition = op.operands[0]
    if match["what"] == _ASKED:
        _give_only(module, main, condition)
        return True
    value = onnx.tensor_attr(np.array(match["value"] == "1"))
    constant = onnx.ConstantOp.make([], {"value": value}, [value.type], like=op)
    main.body.block.insert_op_before(constant, op)
    op.operands[0] = constant.results[0]
    apply_patterns(module, [InlineKnownIf()])
    return True


def _give_only(module: ModuleOp, main: FuncOp, value: SSAValue) -> None:
    last = main.body.block.last_op
    assert isinstance(last, ReturnOp)
    last.operands = [value]
    main.attributes[OUTPUTS] = strings_attr(["condition"])
    eliminate_dead_code(module)


def branch_question(main: FuncOp, branches: Sequence[onnx.IfOp]) -> Question | None:
    """The question for the first If whose branches give other ranks; None where there is none that can be asked."""
    for number, op in enumerate(branches):
        if op.parent is not main.body.block or not any(RANK_FROM_DATA in inner.attributes for inner in op.walk()):
            continue
        condition = op.operands[0]
        assumptions = [f"{_TAKEN} {number} == {value}" for value in (0, 1)]
        if isinstance(condition, BlockArgument):
            place: Place = {"input": condition.index, "kind": "element", "at": 0}
            return {"expression": "taken", "places": {"taken": place}, "assumptions": assumptions}
        if is_settled(condition):
            asks = f"{_ASKED} {number}"
            return {"expression": "0", "places": {}, "assumptions": assumptions, "asks": asks}
        return None
    return None


def is_settled(value: SSAValue) -> bool:
    """Whether a value is the same however often it is computed: nothing before it draws numbers or is the user's."""
    seen: set[Operation] = set()
    stack = [value]
    while stack:
        owner = stack.pop().owner
        if not isinstance(owner, Operation) or owner in seen:
            continue
        seen.add(owner)
        for op in owner.walk():
            if not op.regions and isinstance(op, onnx.OnnxOp | onnx.CustomOp) and not op.has_trait(Pure):
                return False
            stack += op.operands
    return True


__all__ = ["branch_question", "branches_of", "fix_branch", "fix_position", "picks_of", "position_question"]
