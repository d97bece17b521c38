"""LLVM IR's spelling of types, constants and symbols."""

from __future__ import annotations

import re
import struct

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    VectorType,
)
from xdsl.ir import Attribute

SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


class EmitError(NotImplementedError):
    """The emitter met something that it does not know how to print: a bug of whoever made the module."""


def symbol_text(symbol: SymbolRefAttr | StringAttr) -> str:
    """A symbol that is safe to print; raises `EmitError` on others."""
    name = symbol.root_reference.data if isinstance(symbol, SymbolRefAttr) else symbol.data
    if not SYMBOL.fullmatch(name):
        raise EmitError(f"not a plain symbol: {name!r}")
    return name


def type_text(type_: Attribute) -> str:
    """LLVM's spelling of a type."""
    if isinstance(type_, VectorType):
        if len(type_.shape) != 1 or any(scalable for scalable in type_.scalable_dims):
            raise EmitError(f"no LLVM type for {type_}")
        return f"<{type_.get_shape()[0]} x {type_text(type_.element_type)}>"
    if isinstance(type_, IntegerType):
        return f"i{type_.width.data}"
    if isinstance(type_, llvm.LLVMArrayType):
        return f"[{type_.size.data} x {type_text(type_.type)}]"
    if isinstance(type_, llvm.LLVMStructType):
        return "{ " + ", ".join(type_text(t) for t in type_.types) + " }"
    text = SCALAR_TYPES.get(type(type_))
    if text is None:
        raise EmitError(f"no LLVM type for {type_}")
    return text


SCALAR_TYPES: dict[type[Attribute], str] = {
    Float16Type: "half",
    BFloat16Type: "bfloat",
    Float32Type: "float",
    Float64Type: "double",
    llvm.LLVMPointerType: "ptr",
    llvm.LLVMVoidType: "void",
}


def float_text(value: float, type_: Attribute) -> str:
    """A constant by its bits: LLVM rounds no decimal text, and takes f32 as the hex of the double of the same value."""
    if isinstance(type_, Float64Type):
        return f"0x{_double_bits(value):016X}"
    if isinstance(type_, Float32Type):
        return f"0x{_double_bits(_to_f32(value)):016X}"
    if isinstance(type_, Float16Type):
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if isinstance(type_, BFloat16Type):
        return f"0xR{bf16_bits(value):04X}"
    raise EmitError(f"no float constant of {type_}")


def bf16_bits(value: float) -> int:
    """The 16 bits of a bf16 number. Raises EmitError for any other."""
    bits = struct.unpack("<I", struct.pack("<f", _to_f32(value)))[0]
    if bits & 0xFFFF:
        raise EmitError(f"{value} is no bf16")
    return bits >> 16


def _double_bits(value: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def _to_f32(value: float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def scalar_text(value: int | float, type_: Attribute) -> str:
    """One element of a constant."""
    if isinstance(type_, IntegerType):
        if type_.width.data == 1:
            return "true" if value else "false"
        return str(int(value))
    return float_text(float(value), type_)


def constant_text(value: Attribute, type_: Attribute) -> str:
    """The literal of a `llvm.mlir.constant`."""
    if isinstance(value, IntegerAttr):
        return scalar_text(value.value.data, type_)
    if isinstance(value, FloatAttr):
        return scalar_text(value.value.data, type_)
    if isinstance(value, DenseIntOrFPElementsAttr):
        return _dense_text(value, type_)
    raise EmitError(f"no literal for {value}")


def _dense_text(value: DenseIntOrFPElementsAttr, type_: Attribute) -> str:
    if isinstance(type_, VectorType):
        element, opening, closing = type_.element_type, "<", ">"
    elif isinstance(type_, llvm.LLVMArrayType):
        element, opening, closing = type_.type, "[", "]"
    else:
        raise EmitError(f"no literal of {type_}")
    kind = type_text(element)
    values = value.get_values()
    if isinstance(type_, VectorType) and value.is_splat():
        return f"splat ({kind} {scalar_text(_real(values[0]), element)})"
    return opening + ", ".join(f"{kind} {scalar_text(_real(v), element)}" for v in values) + closing


def _real(value: object) -> int | float:
    if isinstance(value, int | float):
        return value
    raise EmitError(f"no literal for {value}")
