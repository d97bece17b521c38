"""Complex numbers in operators that compute with them linearly: on the real parts, and on the imaginary ones."""

from __future__ import annotations

from functools import partial
from typing import Any

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from .element_kinds import C64, F32, F64, I32, I64, Element
from .graph import Node, pointwise
from .operators import Operands, Rule
from .scalars import Scalars


def by_parts(rule: Rule) -> Rule:
    """The rule, also for a first operand of complex numbers: it is applied to each part of them."""

    def apply(o: Operands) -> list[Node | None]:
        x = o[0]
        if x.element.kind != "c":
            return list(rule(o))
        [real], [imaginary] = (rule(Part(o, x, imaginary)) for imaginary in (False, True))
        assert real is not None and imaginary is not None
        return [pointwise(partial(_joined, element=x.element), (real, imaginary), real.dims, x.element, 3)]

    return apply


class Part(Operands):
    """An op as if its first operand and its result were the real or the imaginary parts."""

    def __init__(self, o: Operands, x: Node, imaginary: bool) -> None:
        super().__init__(o.op, o.node_of, o.place)
        self._part = F32 if x.element is C64 else F64
        self._imaginary = imaginary
        function = partial(_part, element=x.element, imaginary=imaginary)
        self._x = pointwise(function, (x,), x.dims, self._part, 2)

    def __getitem__(self, index: int) -> Node:
        return self._x if index == 0 else super().__getitem__(index)

    def element(self, index: int = 0) -> Element:
        return self._part

    def attr(self, name: str) -> Any:
        """A number outside of the tensor is real."""
        return 0.0 if self._imaginary and name == "extrapolation_value" else super().attr(name)


def whole_of(element: Element) -> Element:
    """The integer as wide as one part."""
    return I32 if element is C64 else I64


def _part(s: Scalars, v: SSAValue, *, element: Element, imaginary: bool) -> SSAValue:
    whole = whole_of(element)
    if imaginary:
        v = s.int_binary(arith.ShRUIOp, v, s.constant(whole.bits, element))
    return s.convert("bitcast", s.convert("trunci", v, whole), F32 if element is C64 else F64)


def _joined(s: Scalars, real: SSAValue, imaginary: SSAValue, *, element: Element) -> SSAValue:
    whole = whole_of(element)
    low, high = (s.convert("extui", s.convert("bitcast", v, whole), element) for v in (real, imaginary))
    return s.either(low, s.int_binary(arith.ShLIOp, high, s.constant(whole.bits, element)))
