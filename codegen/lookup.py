"""Tables of 16 numbers in registers: each lane takes the entry that the low four bits of its index name."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from ..dialects.target import Target
from .lanes import Lanes
from .llvm_types import F32

ENTRIES = 16


def lookup(target: Target, entries: Sequence[float], index: Lanes) -> Lanes:
    """entries[index % 16] of f32, for a scalar or vector of i32: one permutation of a register, or a few."""
    f, count = index.f, index.count
    if target.plain or not target.has("avx2"):
        return _by_choices(entries, index)
    most = 16 if target.has("avx512f") else 8
    least = most if most == 8 or not target.has("avx512vl") else 8
    if count is None:
        lane = index.of(f.splat(index.value, least))
        return index.of(f.extract(lookup(target, entries, lane).value, 0))
    if count > most:
        parts = [range(start, start + count // 2) for start in (0, count // 2)]
        low, high = (lookup(target, entries, _lanes(index, part)).value for part in parts)
        return index.of(f.shuffle(low, high, range(count)))
    if count < least:
        wide = lookup(target, entries, _lanes(index, [i % count for i in range(least)]))
        return _lanes(wide, range(count))
    if count == 16:
        return _permute("avx512.permvar.sf.512", index, _table(index, entries), index.value)
    low, high = _table(index, entries[:8]), _table(index, entries[8:])
    if target.has("avx512vl"):
        return _permute("avx512.vpermi2var.ps.256", index, low, index.value, high)
    first, second = (_permute("avx2.permps", index, half, index.value) for half in (low, high))
    return (index << 28 < 0).choose(second, first)


def _permute(name: str, index: Lanes, *arguments: SSAValue) -> Lanes:
    return index.of(index.f.raw_intrinsic(f"llvm.x86.{name}", arguments, VectorType(F32, [index.count or 1])))


def _table(index: Lanes, entries: Sequence[float]) -> SSAValue:
    return index.f.const_lanes(entries, VectorType(F32, [len(entries)]))


def _lanes(x: Lanes, lanes: Sequence[int]) -> Lanes:
    return x.of(x.f.shuffle(x.value, x.value, lanes))


def _by_choices(entries: Sequence[float], index: Lanes) -> Lanes:
    """By each bit of the index, half of the entries that are left."""
    left = [index.to("sitofp", F32).const(entry) for entry in entries]
    for bit in range(4):
        odd = (index << 31 - bit) < 0
        left = [odd.choose(b, a) for a, b in zip(left[::2], left[1::2])]
    return left[0]
