"""A template that is an ONNX operator under its own name: operands by formal position, attributes as in the schema."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, DenseIntOrFPElementsAttr
from xdsl.ir import SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim
from ...dialects.onnx import plain as plain_value
from ..template import TemplateContext
from ..tensor.element_kinds import Element, element_of
from .emit import Emitter
from .operands import integers


class Operator:
    """Reads one op.  The tensor level lists in `operands` and `results` which of the formal ones are there."""

    def __init__(self, context: TemplateContext, op: kernel.TemplateOp) -> None:
        self.context, self.op = context, op
        self.e = Emitter(context.builder)
        self._operands = dict(zip(integers(op, "operands"), op.inputs, strict=True))
        self._results = dict(zip(integers(op, "results"), op.results_, strict=True))
        kinds = op.config.data["operand_types"], op.config.data["result_types"]
        assert isinstance(kinds[0], ArrayAttr) and isinstance(kinds[1], ArrayAttr)
        self._operand_kinds = {i: element_of(k) for i, k in zip(self._operands, kinds[0].data)}
        self._result_kinds = {i: element_of(k) for i, k in zip(self._results, kinds[1].data)}

    def has(self, index: int) -> bool:
        return index in self._operands

    def operand(self, index: int) -> SSAValue:
        """An operand that is there."""
        return self._operands[index]

    def has_result(self, index: int) -> bool:
        return index in self._results

    def result(self, index: int) -> SSAValue:
        return self._results[index]

    def kind(self, index: int) -> Element:
        """The element type of an operand, with its signedness."""
        return self._operand_kinds[index]

    def result_kind(self, index: int) -> Element:
        return self._result_kinds[index]

    def dims(self, index: int) -> tuple[Dim, ...]:
        return self.context.dims(self._operands[index])

    def result_dims(self, index: int) -> tuple[Dim, ...]:
        return self.context.dims(self._results[index])

    def buffer(self, index: int) -> SSAValue:
        return self.context.buffer(self._operands[index])

    def result_buffer(self, index: int) -> SSAValue:
        return self.context.buffer(self._results[index])

    def repeated(self, index: int) -> SSAValue | None:
        """The element of an operand that has the same everywhere; None where it is in memory."""
        constant = self.context.repeated(self._operands[index])
        return None if constant is None else self.context.builder.hoisted(arith.ConstantOp(constant)).result

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as a plain Python value, or the schema's default, which the caller knows."""
        value = self.op.config.data.get(name)
        return default if value is None else plain_value(value)

    def problem(self, text: str) -> str:
        """The message of a check that fails for this op."""
        return kernel.about(self.attr("place", 0), text)

    def constant(self, index: int) -> list[Any] | None:
        """The elements of an operand that is a constant of the kernel, row-major; None where it is computed."""
        return constant_elements(self._operands[index])


def constant_elements(operand: SSAValue) -> list[Any] | None:
    """The elements of a constant of the kernel, row-major; None where the operand is computed."""
    owner = operand.owner
    if not isinstance(owner, arith.ConstantOp) or not isinstance(owner.value, DenseIntOrFPElementsAttr):
        return None
    return list(plain_value(owner.value).reshape(-1))


def formal_operand(op: kernel.TemplateOp, formal: int) -> int | None:
    """The place among the op's inputs of a formal operand; None where it is absent."""
    present = integers(op, "operands")
    return present.index(formal) if formal in present else None


def known_number(op: kernel.TemplateOp, formal: int) -> float | None:
    """A formal operand whose elements are all one known number; 0 where it is absent, None where it is not known."""
    place = formal_operand(op, formal)
    if place is None:
        return 0
    values = constant_elements(op.inputs[place])
    if not values or any(v != values[0] for v in values):
        return None
    kind = formal_kind(op, formal)
    # types have no sign at this level, so attributes hold the numbers of signed ones
    return float(int(values[0]) % (1 << kind.bits) if kind.kind == "u" else values[0])


def formal_kind(op: kernel.TemplateOp, formal: int) -> Element:
    """The element type of a formal operand, with its signedness."""
    place, kinds = formal_operand(op, formal), op.config.data["operand_types"]
    assert place is not None and isinstance(kinds, ArrayAttr)
    return element_of(kinds.data[place])
