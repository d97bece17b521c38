"""kernel.entropy: the key of an unseeded draw of random numbers."""

from __future__ import annotations

from xdsl.ir import Operation

from ..dialects import kernel
from ..runtime.abi import Slot
from .llvm_types import I64
from .scope import Scope

STEP = 0x9E3779B97F4A7C15 - (1 << 64)
"""An odd number without pattern, as int64: the sequence takes every value before it repeats."""


def entropy(scope: Scope, op: Operation) -> None:
    """The context's number, moved on, and the time: after a fork two contexts have the same number."""
    assert isinstance(op, kernel.EntropyOp)
    f = scope.f
    number = f.load_slot(scope.context, Slot.ENTROPY)
    f.store_slot(f.add(number, f.const(STEP, I64)), scope.context, Slot.ENTROPY)
    scope.values[op.result] = f.xor(number, f.raw_intrinsic("llvm.readcyclecounter", (), I64))
