"""What the inputs of a call must tell where a rank rests on them: found in an inferred module, asked by the runtime."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import StringAttr, UnrankedTensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument

from .codegen.entry_values import tensor_dims
from .dialects import dims, onnx
from .dialects.dims import Dim, parse_dim
from .dialects.dims.expression import DimError, dim_max, dim_min
from .rewrites.infer.materialize import OTHERWISE, told_by
from .runtime.manifest import Place, Question
from .semantics.conditions import Condition, difference_condition

RANK_OF_INPUT = "rank of input"
"""What the answer of a call begins with that tells an input's rank."""


def question_of(main: FuncOp) -> Question | None:
    """The first question that inputs can answer; None where there is none."""
    for argument in main.body.block.args:
        if has_no_rank(argument.type):
            place: Place = {"input": argument.index, "kind": "rank", "at": 0}
            assumption = f"{RANK_OF_INPUT} {argument.index} == {{}}"
            return {"expression": "rank", "places": {"rank": place}, "assumptions": [assumption]}
    places = input_places(main)
    for op in main.walk():
        for text in told_by(op):
            if (found := _question(text, places)) is not None:
                return found
    return None


def has_no_rank(type_: Attribute) -> bool:
    """Whether a tensor, or the tensors of a sequence, are declared without a rank."""
    return isinstance(type_.element if isinstance(type_, onnx.SequenceType) else type_, UnrankedTensorType)


def input_places(main: FuncOp) -> dict[str, Place]:
    """Where each symbol that an input alone gives its value stands: as an axis' size, or as an element."""
    places: dict[str, Place] = {}
    for index, argument in enumerate(main.body.block.args):
        for axis, d in enumerate(tensor_dims(argument.type)):
            if d.symbols == frozenset((str(d),)):
                places.setdefault(str(d), {"input": index, "kind": "axis", "at": axis})
    for op in main.body.block.ops:
        if isinstance(op, dims.BindOp) and isinstance(op.source, BlockArgument):
            for at, symbol in enumerate(op.symbols):
                places.setdefault(symbol.data, {"input": op.source.index, "kind": "element", "at": at})
    return places


def otherwise_of(main: FuncOp) -> list[Question]:
    """What may be 0 where a guard fails, as far as inputs tell it."""
    places, found = input_places(main), dict[str, Question]()
    for op in main.body.block.ops:
        text = op.attributes.get(OTHERWISE)
        if not isinstance(op, dims.AssumeOp) or not isinstance(text, StringAttr) or text.data in found:
            continue
        symbols = parse_dim(text.data).symbols
        if symbols <= places.keys():
            used = {name: places[name] for name in sorted(symbols)}
            found[text.data] = {
                "expression": text.data,
                "places": used,
                "assumptions": [f"{text.data} == 0"],
            }
    return list(found.values())


def _question(text: str, places: dict[str, Place]) -> Question | None:
    try:
        told = _told_by(text)
    except DimError:
        return None
    expression, assumptions = told
    if not expression.symbols <= places.keys():
        return None
    return {
        "expression": str(expression),
        "places": {name: places[name] for name in sorted(expression.symbols)},
        "assumptions": list(assumptions),
    }


def _told_by(text: str) -> tuple[Dim, Iterable[str]]:
    """The expression to ask for, and the assumptions that its value means."""
    if not any(sign in text for sign in "=<>"):
        return parse_dim(text), [f"{text} == {{}}"]
    condition = Condition.parse(text)
    gap = condition.right - condition.left
    if condition.op == "<=":  # 1 where it holds, else 0
        return dim_min(dim_max(gap + 1, 0), 1), [f"{condition.right + 1} <= {condition.left}", str(condition)]
    holds = 1 - dim_min(dim_max(gap, -gap), 1)
    return holds, [difference_condition(condition.left, condition.right), str(condition)]


__all__ = ["RANK_OF_INPUT", "has_no_rank", "otherwise_of", "question_of"]
