"""Element types as the tensor level computes with them: kind, width, and the signless type that the IR holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    ComplexType,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue

from ...dialects.onnx import types


class NotLowered(NotImplementedError):
    """The op, or this form of it, has no tensor-level lowering: it is to be hosted."""


@dataclass(frozen=True)
class SmallFloat:
    """A float of 8 bits or less: its fields, and the codes (without the sign) of what is no ordinary number.

    Without a mantissa it has no sign either: powers of two.
    """

    exponent: int
    mantissa: int
    bias: int
    greatest: int
    infinity: int | None = None
    nan: int | None = None

    @property
    def sign(self) -> int:
        return 1 << self.exponent + self.mantissa


@dataclass(frozen=True)
class Element:
    """One element type. `kind` is f (float), i (signed), u (unsigned), b (bool) or c (complex, which is only moved);
    `ir` is what tensors hold.

    Signedness is kept here only: below the graph level the choice of op says it.  `saturate` and `rounding` say how a
    small float is made of a number that it has not.
    """

    kind: str
    bits: int
    ir: Attribute
    small: SmallFloat | None = None
    saturate: bool = True
    rounding: str = "up"

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def compute(self) -> Element:
        """The type that arithmetic is done in: f32 for narrower floats, bytes for narrower integers, else itself."""
        if self.kind == "f":
            return F32 if self.bits < 32 else self
        return self if self.bits >= 8 or self.kind == "b" else I8 if self.kind == "i" else U8

    @property
    def is_packed(self) -> bool:
        """Whether its byte in memory is no number that a CPU computes with."""
        return self.small is not None or (self.bits < 8 and self.kind != "b")

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
C64, C128 = Element("c", 64, I64.ir), Element("c", 128, IntegerType(128))
BITS = {C64: np.dtype(np.int64), C128: np.dtype("V16")}
"""How arrays of complex numbers are held, as what is only moved."""

U8, U16, U32, U64 = (Element("u", bits, IntegerType(bits)) for bits in (8, 16, 32, 64))

I2, I4 = (Element("i", bits, I8.ir) for bits in (2, 4))
U2, U4 = (Element("u", bits, I8.ir) for bits in (2, 4))


def _small(bits: int, small: SmallFloat) -> Element:
    return Element("f", bits, I8.ir, small)


_FLOATS: dict[type[Attribute], Element] = {
    Float16Type: F16,
    BFloat16Type: BF16,
    Float32Type: F32,
    Float64Type: F64,
    types.Float8E4M3FNType: _small(8, SmallFloat(4, 3, 7, 0x7E, nan=0x7F)),
    types.Float8E4M3FNUZType: _small(8, SmallFloat(4, 3, 8, 0x7F, nan=0x80)),
    types.Float8E5M2Type: _small(8, SmallFloat(5, 2, 15, 0x7B, infinity=0x7C, nan=0x7E)),
    types.Float8E5M2FNUZType: _small(8, SmallFloat(5, 2, 16, 0x7F, nan=0x80)),
    types.Float8E8M0Type: _small(8, SmallFloat(8, 0, 127, 0xFE, nan=0xFF)),
    types.Float6E2M3Type: _small(6, SmallFloat(2, 3, 1, 0x1F)),
    types.Float6E3M2Type: _small(6, SmallFloat(3, 2, 3, 0x1F)),
    types.Float4E2M1Type: _small(4, SmallFloat(2, 1, 1, 0x7)),
}
_INTEGERS = {(e.kind, e.bits): e for e in (I2, I4, I8, I16, I32, I64, U2, U4, U8, U16, U32, U64)}


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
    elif isinstance(type_, ComplexType):
        return C64 if isinstance(type_.element_type, Float32Type) else C128
    raise NotLowered(f"kernels do not compute with elements of type {type_}")


def element_of_value(value: SSAValue) -> Element:
    """The element of a tensor value."""
    assert isinstance(value.type, TensorType)
    return element_of(value.type.element_type)
