"""Operands that lie where a template's result is to be: it would copy them there, and then changes elements of that."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from xdsl.ir import SSAValue

from ...dialects import kernel
from .generics import Shapes
from .nests import Nest
from .unmade import read_by

OVERWRITING: Mapping[str, int] = {"scatterelements": 0, "scatternd": 0}
"""The operand that a template copies to its first result, unless it is there."""


def overwritten_operands(
    steps: Sequence[Nest | kernel.TemplateOp], kept: Container[SSAValue], shapes: Shapes
) -> dict[SSAValue, SSAValue]:
    """For each tensor that a nest makes for such a template alone: the result in whose place it is made.

    `kept` are the tensors that have a place in any case.
    """
    made = {r for step in steps if isinstance(step, Nest) for g in step.generics for r in g.results}
    read = [shapes.root(t) for step in steps for t in read_by(step)]
    found: dict[SSAValue, SSAValue] = {}
    for step in steps:
        if isinstance(step, kernel.TemplateOp) and step.template.data in OVERWRITING:
            operand, result = step.inputs[OVERWRITING[step.template.data]], step.results_[0]
            root = shapes.root(operand)
            if root in made and root not in kept and read.count(root) == 1 and root.type == result.type:
                found[root] = result
    return found
