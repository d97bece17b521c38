"""What a shape rule sees of the operation it is asked about, and how it states what must hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import StringAttr, TensorType, UnrankedTensorType
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import dims as dims_dialect
from ...dialects import onnx
from ...dialects.dims import Dim, as_dim, dims_of
from ...dialects.dims.expression import ONE, ZERO, dim_broadcast, dim_min, never_one
from ...dialects.dims.interval import is_signed
from ...dialects.dims.text import brief
from ..conditions import at_most, brief_condition, equality
from ..custom import CustomOperator, Operators
from ..facts import Facts, broadcast_condition
from ..known import constant_value
from ..weights import WeightStore
from .elements import MAX_ELEMENTS, Elements, Truth, as_integers, elements_of_array, integer_range, is_integer

Types: TypeAlias = "Sequence[Attribute | None]"
ResultElements: TypeAlias = "Mapping[type[Operation], Callable[[Context], Sequence[Attribute]]]"
Rules: TypeAlias = "Mapping[type[Operation], Callable[[Context], Types]]"

MAX_BOUND = 16
"""An integer tensor with at most so many unknown elements can have a symbol for each."""


class ShapeError(Exception):
    """The model is wrong: no sizes and values can make this operation valid."""


class RankUnknown(Exception):
    """A rule needs the dims of a value whose rank only data decides."""


@dataclass(frozen=True)
class Guard:
    """A condition on dims that ONNX demands and that was not proved, and the reason for it.

    Where it does not hold, `otherwise`, an expression, may be 0: then there is another program for that.
    """

    condition: str
    why: str
    otherwise: str = ""


@dataclass
class Names:
    """The names of symbols that inference made, by what they stand for; asked twice, it answers the same.

    `owners` gives the value that a symbol's binding comes with: whose size it is (`axes` has the axis), or one of whose
    elements; `bound_owners` has only the latter.
    """

    taken: set[str] = field(default_factory=set[str])
    sizes: dict[tuple[SSAValue, int], Dim] = field(default_factory=dict[tuple[SSAValue, int], Dim])
    bound: dict[SSAValue, list[Dim]] = field(default_factory=dict[SSAValue, list[Dim]])
    owners: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    axes: dict[str, int] = field(default_factory=dict[str, int])
    bound_owners: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    _next: dict[str, int] = field(default_factory=dict[str, int])

    def new(self, prefix: str) -> Dim:
        number = self._next.get(prefix, 0)
        while f"{prefix}{number}" in self.taken:
            number += 1
        self._next[prefix] = number + 1
        name = f"{prefix}{number}"
        self.taken.add(name)
        return Dim.symbol(name)

    def size(self, value: SSAValue, axis: int) -> Dim:
        """The size of a value's axis that only data decides: `u0`, `u1`, ..."""
        found = self.sizes.get((value, axis))
        if found is None:
            found = self.new("u")
            self.keep_size(value, axis, found)
        return found

    def keep_size(self, value: SSAValue, axis: int, symbol: Dim) -> None:
        """Lets a symbol stand for the size of a value's axis."""
        self.sizes[value, axis] = symbol
        self.owners[str(symbol)] = value
        self.axes[str(symbol)] = axis

    def settled(self, symbols: Iterable[str]) -> dict[str, Dim]:
        """Of symbols that an earlier run made those whose axis has another size by now, with it."""
        found: dict[str, Dim] = {}
        for name in symbols:
            axis = self.axes.get(name)
            type_ = None if axis is None else self.owners[name].type
            if isinstance(type_, TensorType) and axis is not None and str(size := dims_of(type_)[axis]) != name:
                found[name] = size
        return found

    def current(self, dim: Dim) -> Dim:
        """An expression of an earlier run, with symbols that no axis has any more replaced."""
        return dim.subs(self.settled(dim.symbols))

    def elements(self, value: SSAValue, count: int) -> list[Dim]:
        """Symbols for the elements of an integer tensor that only data decides: `v0`, `v1`, ..."""
        found = self.bound.get(value)
        if found is None or len(found) != count:
            found = [self.new("v") for _ in range(count)]
            self.keep_elements(value, found)
        return found

    def keep_elements(self, value: SSAValue, symbols: list[Dim]) -> None:
        """Lets symbols stand for the elements of a value."""
        self.bound[value] = symbols
        for symbol in symbols:
            self.owners[str(symbol)] = self.bound_owners[str(symbol)] = value


@dataclass(frozen=True)
class Item:
    """What is known of one item of a sequence whose items are known one by one."""

    type: Attribute
    elements: Elements | None = None


@dataclass
class Scope:
    """State of inference where an operation stands: what is known of values and dims there."""

    names: Names
    facts: Facts
    weights: WeightStore | None = None
    operators: Operators = field(default_factory=dict[tuple[str, str], CustomOperator])
    values: dict[SSAValue, Elements] = field(default_factory=dict[SSAValue, Elements])
    sequences: dict[SSAValue, tuple[Item, ...]] = field(default_factory=dict[SSAValue, "tuple[Item, ...]"])
    lengths: dict[SSAValue, Dim] = field(default_factory=dict[SSAValue, Dim])
    """Of sequences, whether or not their items are known one by one."""

    def inner(self) -> Scope:
        """The scope of a region: what becomes known inside does not hold outside."""
        tables = self.values, self.sequences, self.lengths
        return Scope(self.names, self.facts.copy(), self.weights, self.operators, *tables)

    def forget(self, value: SSAValue) -> None:
        """Drops what is known of a value besides its type."""
        self.values.pop(value, None)
        self.sequences.pop(value, None)
        self.lengths.pop(value, None)


class Context:
    """One operation under inference. Operands and results go by formal position."""

    ANSWERS = (ShapeError, RankUnknown)
    """What a rule may raise."""

    def __init__(self, op: Operation, scope: Scope) -> None:
        self.op = op
        self.scope = scope
        formal = op if isinstance(op, onnx.OnnxOp | onnx.PositionedOp) else None
        self.operands: list[SSAValue | None] = list(op.operands) if formal is None else formal.formal_operands()
        self.results: list[SSAValue | None] = list(op.results) if formal is None else list(formal.formal_results())
        self.guards: list[Guard] = []
        self.binds: list[str] = []  # sizes that only the operation's own execution knows
        self.decisions: list[Truth] = []  # what would tell which branch runs, where the branches give other ranks
        self.rank_conditions: list[str] = []  # what on sizes would tell a result's rank: conditions, and expressions
        self.shape_operands: dict[int, tuple[Dim, ...]] = {}  # integer operands whose values the result dims rest on

    # --- operands -------------------------------------------------------------------------------------------------

    def has(self, index: int) -> bool:
        return self.operand(index) is not None

    def operand(self, index: int) -> SSAValue | None:
        return self.operands[index] if index < len(self.operands) else None

    def need(self, index: int) -> SSAValue:
        value = self.operand(index)
        if value is None:
            raise ShapeError(f"input {index} is missing")
        return value

    def type_of(self, index: int) -> Attribute:
        return self.need(index).type

    def element(self, index: int) -> Attribute:
        """The element type of a tensor operand. Raises RankUnknown where even that is not known."""
        type_ = self.type_of(index)
        if isinstance(type_, TensorType | UnrankedTensorType):
            return type_.element_type
        raise RankUnknown

    def dims(self, index: int) -> tuple[Dim, ...]:
        """The dims of an operand. Raises RankUnknown."""
        type_ = self.type_of(index)
        if not isinstance(type_, TensorType):
            raise RankUnknown
        return dims_of(type_)

    def rank(self, index: int) -> int:
        return len(self.dims(index))

    def lengths(self, index: int) -> tuple[int, ...] | None:
        """The sizes of an operand where all are numbers, if only by what is assumed of them."""
        dims = [self.scope.facts.known(d) for d in self.dims(index)]
        return tuple(d.value for d in dims) if all(d.is_const for d in dims) else None

    def dims_of_rank(self, index: int, *ranks: int) -> tuple[Dim, ...]:
        """The dims of an operand that must have one of these ranks."""
        dims = self.dims(index)
        if len(dims) not in ranks:
            raise ShapeError(f"input {index} has rank {len(dims)}, and must have {' or '.join(map(str, ranks))}")
        return dims

    def attr(self, name: str) -> Any:
        return onnx.attr(self.op, name)

    def axis(self, value: int, rank: int) -> int:
        """An axis counted from the end where negative. Raises ShapeError where out of range."""
        if not -rank <= value < max(rank, 1):
            raise ShapeError(f"axis {value} is out of range for rank {rank}")
        return value + rank if value < 0 else value

    # --- values ---------------------------------------------------------------------------------------------------

    def constant(self, index: int) -> np.ndarray[Any, Any] | None:
        """The value of a constant operand."""
        value = self.operand(index)
        return None if value is None else constant_value(value, self.scope.weights)

    def elements(self, index: int) -> Elements | None:
        """What is known of the elements of a small operand; None where nothing can be."""
        value = self.operand(index)
        return None if value is None else elements_of(value, self.scope)

    def ints(self, index: int) -> tuple[Dim, ...] | None:
        """The elements of an integer operand that the result's dims rest on, row-major.

        Unknown ones get a symbol each.  None where their number is unknown or large.
        """
        elements = self.elements(index)
        if elements is None:
            return None
        found = as_integers(elements)
        if found is None:
            return None
        self.shape_operands[index] = tuple(found)
        return tuple(found)

    def known_int(self, index: int) -> int | None:
        """The value of an integer operand with one element, where it is a number."""
        found = self.ints(index)
        return found[0].value if found is not None and len(found) == 1 and found[0].is_const else None

    def known_ints(self, index: int) -> list[int] | None:
        """The elements of an integer operand, where all are numbers."""
        found = self.ints(index)
        if found is None or not all(d.is_const for d in found):
            return None
        return [d.value for d in found]

    # --- results --------------------------------------------------------------------------------------------------

    def tensor(self, element: Attribute, dims: Iterable[Dim | int]) -> Attribute:
        return dims_dialect.tensor_type(element, [as_dim(d) for d in dims])

    def open_rank(self, index: int, told_by: int | None = None) -> Attribute:
        """A tensor of an operand's element type whose rank is not known; the length of a vector operand may tell it."""
        self.rank_by_length(told_by)
        return UnrankedTensorType(self.element(index))

    def rank_by_length(self, index: int | None) -> None:
        """Notes that the length of a vector operand tells a result's rank."""
        if index is not None and self.has(index) and len(dims := self.dims(index)) == 1 and not dims[0].is_const:
            self.rank_conditions.append(str(dims[0]))

    def like(self, index: int, dims: Iterable[Dim | int] | None = None) -> Attribute:
        """A tensor with an operand's element type, and its dims unless others are given."""
        return self.type_of(index) if dims is None else self.tensor(self.element(index), dims)

    def fresh(self, result: int, axis: int) -> Dim:
        """A size that only the operation's execution decides."""
        value = self.results[result] if result < len(self.results) else None
        if value is None:
            return Dim.symbol("u")  # no such result: its type is dropped
        dim = self.scope.names.size(value, axis)
        if str(dim) not in self.binds:
            self.binds.append(str(dim))
        return dim

    # --- what must hold -------------------------------------------------------------------------------------------

    def require(self, condition: str, why: str, otherwise: str = "") -> None:
        """States a condition; see `Guard`. Raises ShapeError where it can never hold."""
        told = self.op.attributes.get(onnx.REASON)
        why = told.data if isinstance(told, StringAttr) else why
        proof = self.scope.facts.prove(condition)
        if proof.answer is False:
            raise ShapeError(f"{why}: {brief_condition(condition)} cannot hold")
        if proof.answer is None:
            self.guards.append(Guard(condition, why, otherwise))

    def equal(self, a: Dim, b: Dim, why: str) -> Dim:
        """States that two sizes agree, and gives the one to write: a number before an expression."""
        if a is b:
            return a
        self.require(equality(a, b), why)
        return b if b.is_const else a

    def at_most(self, a: Dim | int, b: Dim | int, why: str) -> None:
        self.require(at_most(as_dim(a), as_dim(b)), why)

    def reads(self, sizes: Iterable[Dim], results: Iterable[Dim], why: str) -> None:
        """States that there are elements along these axes, unless none are read or written: `results` are empty."""
        least = dim_min(self.count(results), 1)
        for size in sizes:
            self.at_most(least, size, why)

    def divides(self, k: Dim | int, d: Dim, why: str) -> None:
        """States that d is a multiple of k, which is not 0."""
        rest = d % k
        if rest is ZERO:
            return
        if isinstance(k, Dim) and not k.is_const:
            self.at_most(1, k, why)
        if rest.is_const:
            raise ShapeError(f"{why}: {brief(d)} is no multiple of {k}")
        if len(rest.terms) == 1:  # a remainder times a number is 0 where the remainder is
            rest = Dim.of_terms([(1, rest.terms[0][1])])
        self.require(f"{rest} == 0", why)

    def broadcast_dim(self, a: Dim, b: Dim) -> Dim:
        """The size that two sizes broadcast to; states that they do."""
        if a is b or b is ONE:
            return a
        if a is ONE:
            return b
        facts = self.scope.facts
        if a.is_const and b.is_const:
            raise ShapeError(f"sizes {brief(a)} and {brief(b)} do not broadcast")
        if never_one(a) and never_one(b):
            return self.equal(a, b, "broadcasting")
        proof = facts.prove_broadcast(a, b)
        if proof.answer is False:
            raise ShapeError(f"sizes {brief(a)} and {brief(b)} do not broadcast")
        if proof.answer is None:
            self.guards.append(Guard(broadcast_condition(a, b), f"sizes {brief(a)} and {brief(b)} broadcast"))
        elif facts.prove_eq(a, b):
            return a
        return dim_broadcast(a, b)

    def broadcast(self, *shapes: Sequence[Dim]) -> tuple[Dim, ...]:
        """The dims that these broadcast to, right-aligned."""
        rank = max(map(len, shapes), default=0)
        out = [ONE] * rank
        for shape in shapes:
            for axis, dim in enumerate(shape, rank - len(shape)):
                out[axis] = self.broadcast_dim(out[axis], dim)
        return tuple(out)

    def count(self, dims: Iterable[Dim]) -> Dim:
        """The number of elements."""
        total = ONE
        for d in dims:
            total = total * d
        return total


def elements_of(value: SSAValue, scope: Scope) -> Elements | None:
    """What is known of a value's elements; an integer tensor of few elements always has a symbol for each."""
    found = scope.values.get(value)
    if found is not None:
        return found
    found = _elements_by_owner(value, scope)
    if found is not None:
        scope.values[value] = found
    return found


def _elements_by_owner(value: SSAValue, scope: Scope) -> Elements | None:
    owner = value.owner
    shape = static_shape(value)
    if isinstance(owner, dims_dialect.TensorOp) and shape is not None:
        out = np.empty(len(owner.exprs.data), object)
        out[:] = [scope.names.current(d) for d in owner.exprs.data]
        return out.reshape(shape)
    if shape is not None and prod(shape) > MAX_ELEMENTS:
        return None
    array = constant_value(value, scope.weights)
    if array is not None:
        return elements_of_array(array)
    return symbols_for(value, scope)


def symbols_for(value: SSAValue, scope: Scope) -> Elements | None:
    """A new symbol for each element of a small tensor of i32 or i64."""
    shape = static_shape(value)
    if shape is None or not isinstance(value.type, TensorType):
        return None
    element = value.type.element_type
    count = prod(shape)
    if not is_integer(element) or integer_range(element)[1] < 2**31 - 1 or count > MAX_BOUND:
        return None
    out = np.empty(count, object)
    out[:] = scope.names.elements(value, count)
    return out.reshape(shape)


def static_shape(value: SSAValue) -> tuple[int, ...] | None:
    """The sizes of a tensor value where all are numbers."""
    if not isinstance(value.type, TensorType):
        return None
    dims = dims_of(value.type)
    return tuple(d.value for d in dims) if all(d.is_const for d in dims) else None


def has_data_symbol(dim: Dim) -> bool:
    """Whether an expression rests on an element of a tensor (not only on sizes)."""
    return any(is_signed(name) for name in dim.symbols)


def attribute_ints(context: Context, name: str, default: Sequence[int]) -> list[int]:
    value = context.attr(name)
    return list(default) if value is None else [int(v) for v in value]
