"""The types of LLVM values: short names, and what is asked about them."""

from __future__ import annotations

import struct
from functools import cache

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute

from ..dialects import llvmx

PTR = llvm.LLVMPointerType()
VOID = llvm.LLVMVoidType()
I1, I8, I16, I32, I64 = (IntegerType(width) for width in (1, 8, 16, 32, 64))
F16, BF16, F32, F64 = Float16Type(), BFloat16Type(), Float32Type(), Float64Type()

Constant = int | float


# --- types ---


@cache
def vector(lanes: int, element: Attribute) -> VectorType:
    """The vector type of that many lanes."""
    return VectorType(element, [lanes])


def element_of(type_: Attribute) -> Attribute:
    """A vector's element type; a scalar is its own."""
    return type_.element_type if isinstance(type_, VectorType) else type_


def like(type_: Attribute, element: Attribute) -> Attribute:
    """`element` in as many lanes as `type_` has: a vector type, or the scalar itself."""
    lanes = llvmx.lanes_of(type_)
    return element if lanes is None else vector(lanes, element)


@cache
def bits_of(type_: Attribute) -> int:
    """The size of a scalar type in bits (a pointer has 64)."""
    if isinstance(type_, IntegerType):
        return type_.width.data
    if isinstance(type_, VectorType):
        return bits_of(type_.element_type) * type_.get_shape()[0]
    sizes: dict[type[Attribute], int] = {
        Float16Type: 16,
        BFloat16Type: 16,
        Float32Type: 32,
        Float64Type: 64,
        llvm.LLVMPointerType: 64,
    }
    return sizes[type(type_)]


def is_float(type_: Attribute) -> bool:
    """Whether the elements are floating-point numbers."""
    return isinstance(element_of(type_), Float16Type | BFloat16Type | Float32Type | Float64Type)


@cache
def suffix(type_: Attribute) -> str:
    """How LLVM writes a type into the name of an intrinsic: `v16f32`, `i64`, `bf16`, `p0`."""
    if isinstance(type_, VectorType):
        return f"v{type_.get_shape()[0]}{suffix(type_.element_type)}"
    return "p0" if isinstance(type_, llvm.LLVMPointerType) else str(type_)


def float_of_bits(bits: int) -> float:
    """The f32 with these bits."""
    return struct.unpack("<f", struct.pack("<I", bits))[0]
