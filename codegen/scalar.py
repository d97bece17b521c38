"""Scalar code over 64-bit numbers and bytes: what the entry and the thread pool are written with."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import llvm
from xdsl.ir import Attribute, Block, SSAValue

from ..dialects import llvmx
from .build import FunctionBuilder
from .llvm_types import F64, I8, I32, I64, PTR

WORD = 8
SMALL = 1 << 31
"""Constant offsets in a getelementptr are 32 bits."""


class ScalarBuilder(FunctionBuilder):
    """A function builder with sums that fold constants, and byte offsets."""

    def int(self, value: int) -> SSAValue:
        """An i64 constant."""
        return self.const(value, I64)

    def int32(self, value: int) -> SSAValue:
        """An i32 constant."""
        return self.const(value, I32)

    @staticmethod
    def known(value: SSAValue) -> int | None:
        """The number, where the value is an integer constant."""
        owner = value.owner
        if isinstance(owner, llvm.ConstantOp):
            number = getattr(owner.value, "value", None)
            return getattr(number, "data", None)
        return None

    def plus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The sum of two i64."""
        x, y = self.known(a), self.known(b)
        if x is not None and y is not None:
            return self.int(x + y)
        return b if x == 0 else a if y == 0 else self.add(a, b)

    def times(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The product of two i64."""
        x, y = self.known(a), self.known(b)
        if x is not None and y is not None:
            return self.int(x * y)
        if x == 0 or y == 0:
            return self.int(0)
        return b if x == 1 else a if y == 1 else self.mul(a, b)

    def smin(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return a if a is b else self.intrinsic("llvm.smin", (a, b), a.type)

    def smax(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return a if a is b else self.intrinsic("llvm.smax", (a, b), a.type)

    def as_double(self, value: SSAValue) -> SSAValue:
        return self.cast("sitofp", value, F64)

    def at_byte(self, pointer: SSAValue, byte_offset: int | SSAValue) -> SSAValue:
        """The pointer some bytes on."""
        if isinstance(byte_offset, SSAValue):
            known = self.known(byte_offset)
            if known is None:
                return self.gep(pointer, byte_offset, I8)
            byte_offset = known
        if byte_offset == 0:
            return pointer
        if -SMALL <= byte_offset < SMALL:
            return self.offset(pointer, byte_offset, I8)
        return self.gep(pointer, self.int(byte_offset), I8)

    def load_at(self, pointer: SSAValue, byte_offset: int | SSAValue, type_: Attribute = I64) -> SSAValue:
        """Loads an int64, int32 or pointer that many bytes behind the pointer."""
        return self.load(self.at_byte(pointer, byte_offset), type_, 4 if type_ == I32 else WORD)

    def store_at(self, value: SSAValue, pointer: SSAValue, byte_offset: int | SSAValue) -> None:
        self.store(value, self.at_byte(pointer, byte_offset), 4 if value.type == I32 else WORD)

    def words(self, count: int) -> SSAValue:
        """Stack memory for int64 words, 16-byte aligned; the whole function's."""
        return self.alloca(I64, max(count, 1), 16)

    def as_int(self, pointer: SSAValue) -> SSAValue:
        """A pointer as a number: for system calls and comparisons, never to make a pointer of again."""
        return self.insert(llvm.PtrToIntOp, (pointer,), I64)

    def cycles(self) -> SSAValue:
        """The time stamp counter."""
        return self.raw_intrinsic("llvm.readcyclecounter", (), I64)

    def value_of(self, callee: str, args: Sequence[SSAValue], result: Attribute) -> SSAValue:
        """The result of a direct call."""
        found = self.call(callee, args, result)
        assert found is not None
        return found

    def value_of_pointer(self, callee: SSAValue, args: Sequence[SSAValue], result: Attribute) -> SSAValue:
        """The result of a call through a pointer."""
        found = self.call_indirect(callee, args, result)
        assert found is not None
        return found

    def branch(self, condition: SSAValue, then: Block, otherwise: Block) -> None:
        """Jumps to one of two blocks without arguments."""
        self.cond_br(condition, then, (), otherwise, ())

    def switch(self, value: SSAValue, default: Block, cases: Sequence[tuple[int, Block]]) -> None:
        self.block.add_op(llvmx.SwitchOp(value, default, cases))

    def is_null(self, pointer: SSAValue) -> SSAValue:
        return self.icmp("eq", self.as_int(pointer), self.int(0))


__all__ = ["F64", "I8", "I32", "I64", "PTR", "WORD", "ScalarBuilder"]
