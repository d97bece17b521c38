"""Shape and value rules: from an operation and what is known of its operands to the types of its results.

A shape rule is a function of a `Context`, keyed by the operation's class; it gives the result types by formal position.
Control flow, calls and unknown operators have no rule: the pass that walks the module handles them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.dialects.builtin import TensorType, UnrankedTensorType
from xdsl.ir import Attribute, Operation

from ...dialects import onnx
from ...dialects.dims import dims_of
from ...dialects.onnx.types import ELEMENT_NAMES
from ..custom import NO_OPERATORS, Operators, custom_operator
from . import (
    containers,
    contraction,
    creation,
    custom,
    elementwise,
    ml,
    movement,
    recurrent,
    reduction,
    values,
    windows,
)
from .computed import computed_types
from .context import (
    Context,
    Guard,
    Names,
    RankUnknown,
    ResultElements,
    Scope,
    ShapeError,
    Types,
    elements_of,
    symbols_for,
)

RULES: dict[type[Operation], Callable[[Context], Types]] = {
    **elementwise.RULES,
    **movement.RULES,
    **contraction.RULES,
    **windows.RULES,
    **reduction.RULES,
    **creation.RULES,
    **recurrent.RULES,
    **containers.RULES,
    **ml.RULES,
}

ELEMENTS: ResultElements = {
    **elementwise.ELEMENTS,
    **contraction.ELEMENTS,
    **creation.ELEMENTS,
    **ml.ELEMENTS,
}
"""Element types of results, where neither the schema's type variables nor its attributes of types tell them."""

_ELEMENTS = {name: element for element, name in ELEMENT_NAMES.items()}


def rule_of(op: Operation, operators: Operators = NO_OPERATORS) -> Callable[[Context], Types] | None:
    """The shape rule of an operation, the user's own before ours; None where it has none."""
    if isinstance(op, onnx.CustomOp):
        if (found := custom_operator(op, operators)) is not None:
            return found.result_types
        return custom.RULES.get((onnx.text_of(op.domain), onnx.text_of(op.op_type)))
    return RULES.get(type(op))


def result_types(c: Context) -> list[Attribute | None]:
    """The result types of an operation that has a rule, by formal position.

    Where an operand's rank is not known, neither are the results': they are `tensor<*xT>`.  Raises ShapeError.
    """
    rule = rule_of(c.op, c.scope.operators)
    assert rule is not None
    try:
        types = computed_types(c, list(rule(c)))
    except RankUnknown:
        return [None if r is None else _unranked(c, at) for at, r in enumerate(c.results)]
    return [_with_volume(c, at, type_) for at, type_ in enumerate(types)]


MAX_VOLUME = 2048
"""Terms that the product of a tensor's sizes may have."""


def _with_volume(c: Context, index: int, type_: Attribute | None) -> Attribute | None:
    """A result's type with sizes that an expression can multiply: the execution tells the others."""
    if not isinstance(type_, TensorType) or len(dims := dims_of(type_)) < 2:
        return type_
    if prod(len(d.terms) for d in dims) <= MAX_VOLUME:
        return type_
    sizes, rest = list(dims), 1
    for axis, dim in enumerate(dims):
        rest *= max(1, len(dim.terms))
        if rest > MAX_VOLUME:
            rest //= len(dim.terms)
            sizes[axis] = c.fresh(index, axis)
    return c.tensor(type_.element_type, sizes)


def _unranked(c: Context, index: int) -> Attribute:
    """A result's type where only the element type can be told, by the schema's type variables and dtype attributes."""
    op = c.op
    if not isinstance(op, onnx.OnnxOp):
        return UnrankedTensorType(c.element(0))
    for attribute in ("to", "dtype", "output_dtype", "output_datatype"):
        if attribute in op.properties:
            return UnrankedTensorType(elementwise.element_of_code(c.attr(attribute)))
    if (elements := ELEMENTS.get(type(op))) is not None:
        return UnrankedTensorType(elements(c)[index])
    outputs, inputs = op.SCHEMA.outputs, op.SCHEMA.inputs
    variable = outputs[min(index, len(outputs) - 1)].type
    for at, value in enumerate(c.operands):
        if value is not None and inputs[min(at, len(inputs) - 1)].type == variable:
            type_ = value.type
            if isinstance(type_, TensorType | UnrankedTensorType):
                return UnrankedTensorType(type_.element_type)
            return type_
    allowed = op.SCHEMA.constraints.get(variable, variable)  # "tensor: int64" or "tensor(int64)"
    name = allowed.removeprefix("tensor: ").removeprefix("tensor(").removesuffix(")")
    if name not in _ELEMENTS:
        raise ShapeError("its result's element type is not known without the rank of its operands")
    return UnrankedTensorType(_ELEMENTS[name])


__all__ = [
    "RULES",
    "Context",
    "Guard",
    "Names",
    "RankUnknown",
    "Scope",
    "ShapeError",
    "elements_of",
    "result_types",
    "rule_of",
    "symbols_for",
    "values",
]
