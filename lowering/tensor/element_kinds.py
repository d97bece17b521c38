"""Element types as the tensor level computes with them: kind, width, and the signless type that the IR holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue


class NotLowered(NotImplementedError):
    """The op, or this form of it, has no tensor-level lowering: it is to be hosted."""


@dataclass(frozen=True)
class Element:
    """One element type. `kind` is f (float), i (signed), u (unsigned) or b (bool); `ir` is what tensors hold.

    Signedness is kept here only: below the graph level the choice of op says it.
    """

    kind: str
    bits: int
    ir: Attribute

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def compute(self) -> Element:
        """The type that arithmetic is done in: f32 for narrower floats, else the type itself."""
        return F32 if self.kind == "f" and self.bits < 32 else self

    @property
    def lowest(self) -> float | int:
        """The value below all others: minus infinity for floats."""
        if self.is_float:
            return float("-inf")
        return -(1 << self.bits - 1) if self.kind == "i" else 0

    @property
    def highest(self) -> float | int:
        """The value above all others: infinity for floats."""
        if self.is_float:
            return float("inf")
        return (1 << (self.bits - 1 if self.kind == "i" else self.bits)) - 1

    def __str__(self) -> str:
        return "bool" if self.kind == "b" else f"{self.kind}{self.bits}"


F16 = Element("f", 16, Float16Type())
BF16 = Element("f", 16, BFloat16Type())
F32 = Element("f", 32, Float32Type())
F64 = Element("f", 64, Float64Type())
BOOL = Element("b", 1, IntegerType(1))
I8, I16, I32, I64 = (Element("i", bits, IntegerType(bits)) for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (Element("u", bits, IntegerType(bits)) for bits in (8, 16, 32, 64))

_FLOATS: dict[type[Attribute], Element] = {
    Float16Type: F16,
    BFloat16Type: BF16,
    Float32Type: F32,
    Float64Type: F64,
}
_INTEGERS = {(e.kind, e.bits): e for e in (I8, I16, I32, I64, U8, U16, U32, U64)}


@cache
def element_of(type_: Attribute) -> Element:
    """The element for an element type of the graph level.  Raises NotLowered for one that kernels lack."""
    if isinstance(type_, IntegerType):
        if type_.width.data == 1:
            return BOOL
        kind = "u" if type_.signedness.data is Signedness.UNSIGNED else "i"
        if (found := _INTEGERS.get((kind, type_.width.data))) is not None:
            return found
    elif (found := _FLOATS.get(type(type_))) is not None:
        return found
    raise NotLowered(f"kernels do not compute with elements of type {type_}")


def element_of_value(value: SSAValue) -> Element:
    """The element of a tensor value."""
    assert isinstance(value.type, TensorType)
    return element_of(value.type.element_type)
