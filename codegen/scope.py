"""What the translators share: the LLVM function being filled, and where the values of the kernel have gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects.dims import Dim
from ..dialects.target import Target
from .build import FunctionBuilder
from .dims import DimBuilder
from .llvm_types import BF16, I8, I16, I32, I64, PTR, vector

INDEX = IndexType()


class TranslateError(NotImplementedError):
    """An operation or type that has no translation to the llvm dialect: a bug of whoever emitted it."""


def translate_type(type_: Attribute) -> Attribute:
    """index is i64, bf16 its bits, a memref is a pointer, other scalars and vectors of them are themselves."""
    if isinstance(type_, IndexType):
        return I64
    if type_ == BF16:
        return I16
    if isinstance(type_, MemRefType):
        return PTR
    if isinstance(type_, VectorType):
        if len(type_.shape) != 1:
            raise TranslateError(f"no translation of {type_}: only vectors of one dimension")
        return vector(type_.get_shape()[0], translate_type(type_.element_type))
    return type_


def memory_type(element: Attribute) -> Attribute:
    """How an element lies in memory: i1 takes a byte, all else is as in a register."""
    element = translate_type(element)
    return I8 if isinstance(element, IntegerType) and element.width.data == 1 else element


Translation = Callable[["Scope", Operation], None]


@dataclass
class ModuleState:
    """One LLVM module in the making. `symbol` is the kernel's; all other functions are named after it."""

    symbol: str
    target: Target
    table: Mapping[type[Operation], Translation]
    functions: list[Operation] = field(default_factory=list[Operation])
    sites: dict[Operation, int] = field(default_factory=dict[Operation, int])
    aliased: frozenset[SSAValue] = frozenset()
    known: set[str] = field(default_factory=set[str])
    _names: int = 0

    def name(self, what: str) -> str:
        """A fresh symbol for a further function."""
        self._names += 1
        return f"{self.symbol}.{what}{self._names}"


@dataclass
class Scope:
    """One LLVM function in the making.

    `values` maps the kernel's values to those of the function; `arguments` are the kernel's own.  `f.entry` holds what
    is computed once (constants, stack memory, dimensions); the body starts in a block of its own.  `leave` is the block
    that returns an error.
    """

    f: FunctionBuilder
    module: ModuleState
    context: SSAValue
    dims: Mapping[str, SSAValue]
    scratch: SSAValue
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    arguments: Sequence[SSAValue] = ()
    leave: Block | None = None
    nontemporal: bool = False
    """Whether there are stores that other threads only see behind a fence."""

    def __post_init__(self) -> None:
        self._dim_builder = DimBuilder(self.f, self.dims)
        self.f.at(self.f.new_block())
        self._start = self.f.block
        self._types: dict[Attribute, Attribute] = {}

    def type(self, type_: Attribute) -> Attribute:
        """The translated type."""
        found = self._types.get(type_)
        if found is None:
            found = self._types[type_] = translate_type(type_)
        return found

    def once(self, build: Callable[[], SSAValue]) -> SSAValue:
        """Builds something in the entry block, so that it is there everywhere and outside all loops."""
        f = self.f
        block, f.block = f.block, f.entry
        value = build()
        f.block = block
        return value

    def dim(self, expression: Dim) -> SSAValue:
        """The value of a dimension expression."""
        unknown = sorted(expression.symbols - self.dims.keys())
        if unknown:
            raise TranslateError(f"the expression {expression} is not in the kernel's symbols: {', '.join(unknown)}")
        return self.once(lambda: self._dim_builder.value(expression))

    def error_block(self) -> Block:
        """The block that returns its argument, an error code."""
        if self.leave is None:
            self.leave = self.f.new_block(I32)
        return self.leave

    def finish(self) -> None:
        """Ends the function: the current block returns 0."""
        f = self.f
        f.attributes = {}
        if self.nontemporal:
            f.fence("seq_cst")
        f.ret(f.const(0, I32))
        if self.leave is not None:
            (code,) = f.at(self.leave)
            f.ret(code)
        f.block = f.entry
        f.br(self._start)


def operands(scope: Scope, op: Operation) -> list[SSAValue]:
    """The translated operands."""
    values = scope.values
    return [values[operand] for operand in op.operands]


def translate_block(scope: Scope, block: Block) -> Sequence[SSAValue]:
    """Translates all but the terminator; gives the terminator's operands."""
    f, table = scope.f, scope.module.table
    last = block.last_op
    if last is None:
        return ()
    for op in block.ops:
        if op is last:
            break
        translation = table.get(type(op))
        if translation is None:
            raise TranslateError(f"{op.name} has no translation to the llvm dialect")
        origin = op.attributes.get("origin")
        if origin is not None:
            f.attributes = {"origin": origin}
        translation(scope, op)
    return [scope.values[operand] for operand in last.operands]
