"""Dot products: of bytes, acc[lane] + sum of 4 products in each 32-bit lane, exact in i32; of bf16, of 2 in f32.

With VNNI the hardware has u8 x s8 (`vpdpbusd`).  The other kinds come from it by turning over the top bit of a byte,
which adds or takes 128 (modulo 256 it is the same), and paying for that with a second product:

* s8 x s8:  sum a*b = sum (a + 128)*b - sum 128*b
* u8 x u8:  sum a*b = sum a*(b - 128) + 128 * sum a*1

Without VNNI, even and odd bytes are widened to 16 bits and multiplied by `pmaddwd`, which is exact (`pmaddubsw`
would saturate).

Products of bf16 are exact in f32.  `vdpbf16ps` adds the odd one to the accumulator, then the even one, and rounds each
time; denormals count as 0, as factors and as sums.  Its companion `vcvtne2ps2bf16` rounds two vectors of f32.
"""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from ..dialects import llvmx
from ..dialects.target import Target
from .build import FunctionBuilder
from .convert import f32_to_bf16
from .llvm_types import BF16, F32, I16, I32, vector

MADD = {
    512: "llvm.x86.avx512.pmaddw.d.512",
    256: "llvm.x86.avx2.pmadd.wd",
    128: "llvm.x86.sse2.pmadd.wd",
}


def dot(f: FunctionBuilder, target: Target, kind: str, acc: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    """acc + dot of 4-byte groups; kind "u8s8", "s8s8" or "u8u8" tells which of a and b are signed."""
    lanes = llvmx.lanes_of(acc.type)
    assert lanes is not None
    if kind == "bf16":
        return _dot_bf16(f, target, acc, a, b, lanes)
    if lanes < 4:
        return _few(f, kind, acc, a, b, lanes)
    if 32 * lanes not in MADD:
        widest = target.vector_bytes // 4
        return _halves(f, target, kind, acc, a, b, lanes, min(widest, lanes // 2))
    if lanes * 4 > target.vector_bytes:
        return _halves(f, target, kind, acc, a, b, lanes, lanes // 2)
    if target.has("avx512vnni") and (lanes == 16 or target.has("avx512vl")):
        return _vnni(f, kind, acc, a, b, f"llvm.x86.avx512.vpdpbusd.{32 * lanes}")
    return _madd(f, kind, acc, a, b, lanes)


def _halves(
    f: FunctionBuilder, target: Target, kind: str, acc: SSAValue, a: SSAValue, b: SSAValue, lanes: int, part: int
) -> SSAValue:
    """Parts of as many lanes as a register holds, one after the other, joined again."""
    if part < 4 or lanes % part:
        raise NotImplementedError(f"dot of {lanes} lanes")
    parts = [
        dot(
            f,
            target,
            kind,
            f.shuffle(acc, acc, range(at, at + part)),
            f.shuffle(a, a, range(4 * at, 4 * (at + part))),
            f.shuffle(b, b, range(4 * at, 4 * (at + part))),
        )
        for at in range(0, lanes, part)
    ]
    while len(parts) > 1:
        width = 2 * (llvmx.lanes_of(parts[0].type) or 0)
        parts = [f.shuffle(x, y, range(width)) for x, y in zip(parts[::2], parts[1::2])]
    return parts[0]


def _few(f: FunctionBuilder, kind: str, acc: SSAValue, a: SSAValue, b: SSAValue, lanes: int) -> SSAValue:
    """Fewer lanes than any instruction has: the bytes are widened and their products added up."""
    wide = vector(4 * lanes, I32)
    factors = [f.cast("sext" if sign == "s" else "zext", value, wide) for sign, value in ((kind[0], a), (kind[2], b))]
    products = f.mul(*factors)
    for part in range(4):
        acc = f.add(acc, f.shuffle(products, products, range(part, 4 * lanes, 4)))
    return acc


def _vnni(f: FunctionBuilder, kind: str, acc: SSAValue, a: SSAValue, b: SSAValue, name: str) -> SSAValue:
    flip, zero = f.const(0x80, a.type), f.const(0, acc.type)
    if kind == "u8s8":
        return f.raw_intrinsic(name, (acc, a, b), acc.type)
    if kind == "s8s8":
        excess = f.raw_intrinsic(name, (zero, flip, b), acc.type)
        return f.raw_intrinsic(name, (f.sub(acc, excess), f.xor(a, flip), b), acc.type)
    total = f.raw_intrinsic(name, (zero, a, f.const(1, b.type)), acc.type)
    acc = f.add(acc, f.shl(total, f.const(7, acc.type)))
    return f.raw_intrinsic(name, (acc, a, f.xor(b, flip)), acc.type)


def _madd(f: FunctionBuilder, kind: str, acc: SSAValue, a: SSAValue, b: SSAValue, lanes: int) -> SSAValue:
    words = vector(2 * lanes, I16)
    name = MADD[32 * lanes]
    even_a, odd_a = _words(f, a, signed=kind[0] == "s", words=words)
    even_b, odd_b = _words(f, b, signed=kind[2] == "s", words=words)
    even = f.raw_intrinsic(name, (even_a, even_b), vector(lanes, I32))
    odd = f.raw_intrinsic(name, (odd_a, odd_b), vector(lanes, I32))
    return f.add(acc, f.add(even, odd))


def _words(f: FunctionBuilder, value: SSAValue, *, signed: bool, words: VectorType) -> tuple[SSAValue, SSAValue]:
    """The even and the odd bytes, each widened to 16 bits in place."""
    pairs = f.bitcast(value, words)
    eight = f.const(8, words)
    if signed:
        return f.ashr(f.shl(pairs, eight), eight), f.ashr(pairs, eight)
    return f.and_(pairs, f.const(0xFF, words)), f.lshr(pairs, eight)


def _has_bf16(target: Target, lanes: int) -> bool:
    """Whether there is an instruction for so many lanes of f32."""
    return target.has("avx512bf16") and (lanes == 16 or (lanes in (4, 8) and target.has("avx512vl")))


def _dot_bf16(f: FunctionBuilder, target: Target, acc: SSAValue, a: SSAValue, b: SSAValue, lanes: int) -> SSAValue:
    """a and b are the bits of bf16, two to each lane."""
    if _has_bf16(target, lanes):
        halves = vector(2 * lanes, BF16)
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
        return f.raw_intrinsic(name, (acc, f.bitcast(a, halves), f.bitcast(b, halves)), acc.type)
    words = vector(lanes, I32)
    pairs = f.bitcast(a, words), f.bitcast(b, words)
    upper = f.const(-0x10000, words)
    odd = [f.and_(p, upper) for p in pairs]
    even = [f.shl(p, f.const(16, words)) for p in pairs]
    total = _flushed(f, acc)
    for x, y in (odd, even):
        factors = [_flushed(f, f.bitcast(p, acc.type)) for p in (x, y)]
        total = _flushed(f, f.fma(factors[0], factors[1], total))
    return total


def halves(f: FunctionBuilder, target: Target, low: SSAValue, high: SSAValue) -> SSAValue:
    """The lanes of two vectors of f32 as the bits of bf16: to nearest even, denormals as 0."""
    lanes = llvmx.lanes_of(low.type)
    assert lanes is not None
    if _has_bf16(target, lanes):
        name = f"llvm.x86.avx512bf16.cvtne2ps2bf16.{32 * lanes}"
        return f.bitcast(f.raw_intrinsic(name, (high, low), vector(2 * lanes, BF16)), vector(2 * lanes, I16))
    first, second = (f32_to_bf16(f, _flushed(f, part)) for part in (low, high))
    return f.shuffle(first, second, range(2 * lanes))


def _flushed(f: FunctionBuilder, value: SSAValue) -> SSAValue:
    """Denormals of f32 as zeros of their sign."""
    words = vector(llvmx.lanes_of(value.type) or 1, I32)
    bits = f.bitcast(value, words)
    none = f.icmp("eq", f.and_(bits, f.const(0x7F800000, words)), f.const(0, words))
    sign = f.and_(bits, f.const(-0x80000000, words))
    return f.bitcast(f.select(none, sign, bits), vector(llvmx.lanes_of(value.type) or 1, F32))
