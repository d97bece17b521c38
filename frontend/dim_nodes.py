"""Expressions in symbols as nodes: what inference knows of a shape, written so that other runtimes compute it.

A shape that a value has is read from the value; an expression that is some value's size is never computed.  Nodes that
are there already, here or around a body, serve again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from ..dialects import dims
from ..dialects.dims import Dim
from ..dialects.dims.cases import case_of
from ..dialects.dims.expression import Atom, Call, Monomial
from ..dialects.dims.interval import is_at_least
from ..dialects.onnx.attributes import int_attr
from ..dialects.onnx.types import ELEMENT_CODES
from ..runtime.errors import UnsupportedError

Write = Callable[[str, Sequence[str], Mapping[str, Attribute]], str]
Numbers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Constant = Callable[[Numbers], str]

SHAPE_HAS_ENDS = 15
"""The opset from which on Shape gives a part of a shape."""

INT64, BOOL = 7, 9
"""TensorProto's numbers of the element types of sizes and conditions."""

NEG_OF_INTEGERS = 6
"""The opset from which on Neg takes integers."""

EXTREMES_OF_INTEGERS = 12
"""The opset from which on Min and Max take integers."""

CHOICES = 9
"""The opset from which on there is Where."""


@dataclass(frozen=True)
class Bound:
    """An integer tensor whose elements are values of symbols: its name, its sizes, its element type's number."""

    name: str
    shape: tuple[int, ...]
    code: int
    symbols: tuple[str, ...]


class Symbols:
    """Where sizes are: as a size of a tensor, or as an element of an integer tensor; and what nodes there are for them.

    `reuse` is False where nodes are put into another order afterwards.
    """

    def __init__(self, outer: Symbols | None = None, *, reuse: bool = True) -> None:
        self._outer = outer
        self._reuse = reuse
        self._sizes: dict[Dim, tuple[str, int]] = {}
        self._elements: dict[str, tuple[Bound, int]] = {}
        self._shapes: dict[tuple[Dim, ...], str] = {}
        self._places: dict[Dim, list[tuple[tuple[Dim, ...], int]]] = {}
        self._ranks: dict[str, int] = {}
        self._known: dict[object, str] = {}

    def bind_type(self, name: str, type_: Attribute) -> None:
        """Notes the sizes of the value of that name."""
        encoding = type_.encoding if isinstance(type_, TensorType) else None
        if isinstance(encoding, dims.ShapeAttr) and encoding.data not in self._shapes:
            self._shapes[encoding.data] = name
            self._ranks.setdefault(name, len(encoding.data))
            for axis, dim in enumerate(encoding.data):
                if not dim.is_const:
                    self._sizes.setdefault(dim, (name, axis))
                    self._places.setdefault(dim, []).append((encoding.data, axis))

    def bind_elements(self, name: str, type_: Attribute, symbols: Sequence[str]) -> None:
        """Notes that the value of that name and type holds the symbols' values."""
        assert isinstance(type_, TensorType)
        bound = Bound(name, tuple(type_.get_shape()), ELEMENT_CODES[type_.element_type], tuple(symbols))
        for index, symbol in enumerate(symbols):
            self._elements.setdefault(symbol, (bound, index))

    def size(self, dim: Dim) -> tuple[str, int] | None:
        """The name of a value that has this size, and the axis."""
        found = self._sizes.get(dim)
        return found if found is not None or self._outer is None else self._outer.size(dim)

    def element(self, symbol: str) -> tuple[Bound, int] | None:
        """The integer tensor that has the symbol's value, and the index."""
        found = self._elements.get(symbol)
        return found if found is not None or self._outer is None else self._outer.element(symbol)

    def has(self, symbol: Dim) -> bool:
        """Whether a value has the symbol as a size or as an element."""
        return self.size(symbol) is not None or self.element(str(symbol)) is not None

    def sizes(self) -> Iterator[Dim]:
        """The sizes that values have, but numbers."""
        if self._outer is not None:
            yield from self._outer.sizes()
        yield from self._sizes

    def places(self, dim: Dim) -> Iterator[tuple[str, tuple[Dim, ...], int]]:
        """Where a size that is no number is: the name of a value, its shape, the axis."""
        for shape, axis in self._places.get(dim, ()):
            yield self._shapes[shape], shape, axis
        if self._outer is not None:
            yield from self._outer.places(dim)

    def rank(self, name: str) -> int:
        """How many axes a value has."""
        found = self._ranks.get(name)
        if found is None:
            assert self._outer is not None, f"'{name}' has no known sizes"
            return self._outer.rank(name)
        return found

    def find(self, key: object) -> str | None:
        """The name of a node's result, where it is there already."""
        scope: Symbols | None = self
        while scope is not None and self._reuse:
            if (found := scope._known.get(key)) is not None:
                return found
            scope = scope._outer
        return None

    def known(self, key: object, make: Callable[[], str]) -> str:
        """The name of a node's result, made where it is not there yet."""
        found = self.find(key)
        return found if found is not None else self.note(key, make())

    def note(self, key: object, name: str) -> str:
        """Notes the name of a node's result, and gives it."""
        self._known[key] = name
        return name


def vector_key(exprs: Sequence[Dim]) -> object:
    """What a vector of sizes is known by."""
    return tuple(exprs), (len(exprs),), INT64


def wrapped(value: int) -> int:
    """A number as products of 64 bits, which wrap, see it."""
    return (value + 2**63) % 2**64 - 2**63


class DimWriter:
    """Writes expressions as nodes on int64 tensors of one element, at an opset."""

    def __init__(self, symbols: Symbols, write: Write, constant: Constant, opset: int) -> None:
        self._symbols = symbols
        self._write = write
        self._constant = constant
        self._opset = opset

    def tensor(self, exprs: Sequence[Dim], type_: Attribute) -> str:
        """The name of a tensor of that type with those elements."""
        assert isinstance(type_, TensorType)
        shape = tuple(type_.get_shape())
        code = ELEMENT_CODES[type_.element_type]
        return self._symbols.known((tuple(exprs), shape, code), lambda: self._tensor(exprs, shape, code))

    def _tensor(self, exprs: Sequence[Dim], shape: tuple[int, ...], code: int) -> str:
        bound = self._whole(exprs, shape)
        if bound is not None:
            return bound.name if bound.code == code else self._write("Cast", [bound.name], {"to": int_attr(code)})
        size = self._symbols.size(exprs[0]) if not shape else None
        if size is not None:  # one number, which no Reshape need make of a vector
            whole = self._write("Gather", [self._shape(size[0]), self._index(size[1])], {"axis": int_attr(0)})
        else:
            whole = self._picked(exprs) or self._joined(exprs)
            if len(shape) != 1:
                whole = self._write("Reshape", [whole, self._constant(np.array(shape, np.int64))], {})
        return whole if code == INT64 else self._write("Cast", [whole], {"to": int_attr(code)})

    def _joined(self, exprs: Sequence[Dim]) -> str:
        """A vector of its parts."""
        parts = list(self._parts(exprs))  # numbers last, as they stand where they are read
        names = [part if isinstance(part, str) else self._constant(part) for part in parts]
        return names[0] if len(names) == 1 else self._write("Concat", names, {"axis": int_attr(0)})

    def _picked(self, exprs: Sequence[Dim]) -> str | None:
        """A vector of some sizes of one value, in any order; None where it is as well joined of parts."""
        symbolic = next((d for d in exprs if not d.is_const), None)
        if symbolic is None or ((stretch := self._stretch(exprs, 0)) is not None and stretch[2] == len(exprs)):
            return None
        missing = {d for d in exprs if not d.is_const and self._symbols.find(d) is None}
        for name, shape, _ in self._symbols.places(symbolic):
            nodes = 1 if self._symbols.find(("shape", name)) is not None else 2
            if nodes <= len(missing) and all(d in shape for d in exprs):
                picked = self._constant(np.array([shape.index(d) for d in exprs], np.int64))
                return self._write("Gather", [self._shape(name), picked], {"axis": int_attr(0)})
        return None

    def _element(self, dim: Dim) -> tuple[Bound, int] | None:
        """The element of a tensor that an expression is; None for other expressions, and for the size of a value."""
        atom = dim.atom
        if atom is None or isinstance(atom, Call) or self._symbols.size(dim) is not None:
            return None
        return self._symbols.element(atom.name)

    def _run(self, exprs: Sequence[Dim], at: int) -> tuple[Bound, int, int] | None:
        """The elements that follow one another in some tensor from `at` on: that tensor, the first, how many."""
        found = self._element(exprs[at])
        if found is None:
            return None
        bound, first = found
        length = 1
        while at + length < len(exprs) and self._element(exprs[at + length]) == (bound, first + length):
            length += 1
        return bound, first, length

    def _whole(self, exprs: Sequence[Dim], shape: tuple[int, ...]) -> Bound | None:
        """The tensor of that shape that has these elements and no others."""
        run = self._run(exprs, 0) if exprs else None
        if run is None:
            return None
        bound, first, length = run
        return bound if bound.shape == shape and (first, length) == (0, len(exprs)) == (0, len(bound.symbols)) else None

    def _parts(self, exprs: Sequence[Dim]) -> Iterator[str | Numbers]:
        """Vectors that are the expressions, one after another: as long stretches of shapes as there are; numbers."""
        at = 0
        while at < len(exprs):
            run = self._run(exprs, at)
            if run is not None:
                yield self._elements(*run)
                at += run[2]
                continue
            there = self._vector_there(exprs, at)
            if there is not None:
                yield there[0]
                at += there[1]
                continue
            end = at + 1
            if exprs[at].is_const:
                while end < len(exprs) and exprs[end].is_const and self._stretch(exprs, end) is None:
                    end += 1
                stretch = self._stretch(exprs, at)
                if stretch is None:
                    yield np.array([d.value for d in exprs[at:end]], np.int64)
                    at = end
                    continue
            else:
                stretch = self._stretch(exprs, at)
            if stretch is None or self._is_dearer(exprs, at, stretch[2]):
                yield self.of(exprs[at])
                at += 1
            else:
                name, first, length = stretch
                make = partial(self._sizes, name, first, first + length)
                yield self._symbols.known(vector_key(exprs[at : at + length]), make)
                at += length

    def _vector_there(self, exprs: Sequence[Dim], at: int) -> tuple[str, int] | None:
        """The longest vector that is there already and has the expressions from `at` on, and its length."""
        for end in range(len(exprs), at + 1, -1):
            if (found := self._symbols.find(vector_key(exprs[at:end]))) is not None:
                return found, end - at
        return None

    def _is_dearer(self, exprs: Sequence[Dim], at: int, length: int) -> bool:
        """Whether sizes as a stretch are a node more: each has one already, and a Concat is there anyway."""
        alone = 1 < length == len(exprs)
        return not alone and all(d.is_const or self._symbols.find(d) is not None for d in exprs[at : at + length])

    def _stretch(self, exprs: Sequence[Dim], at: int) -> tuple[str, int, int] | None:
        """The value whose shape has most of the expressions from `at` on: its name, the first axis, and how many.

        At least two, or the whole shape; none without symbols.
        """
        symbolic = next((n for n in range(at, len(exprs)) if not exprs[n].is_const), None)
        if symbolic is None:
            return None
        best: tuple[str, int, int] | None = None
        for name, shape, axis in self._symbols.places(exprs[symbolic]):
            first = axis - (symbolic - at)
            if first < 0:
                continue
            length = 0
            while (
                at + length < len(exprs) and first + length < len(shape) and exprs[at + length] is shape[first + length]
            ):
                length += 1
            while length and exprs[at + length - 1].is_const and length < len(shape):
                length -= 1  # numbers at the end cost nothing
            if (length < 2 and length < len(shape)) or length <= symbolic - at:
                continue
            whole = length == len(shape)
            if best is None or (length, whole) > (best[2], best[1] == 0):
                best = name, first, length
        return best

    def _sizes(self, name: str, first: int, end: int) -> str:
        """The sizes of a value from one axis to another."""
        if (first, end) == (0, self._symbols.rank(name)):
            return self._shape(name)
        if self._opset >= SHAPE_HAS_ENDS:
            ends = {"start": int_attr(first), "end": int_attr(end)}
            return self._symbols.known(("sizes", name, first, end), lambda: self._write("Shape", [name], ends))
        picked = self._constant(np.arange(first, end, dtype=np.int64))
        return self._symbols.known(
            ("sizes", name, first, end),
            lambda: self._write("Gather", [self._shape(name), picked], {"axis": int_attr(0)}),
        )

    def _shape(self, name: str) -> str:
        return self._symbols.known(("shape", name), lambda: self._write("Shape", [name], {}))

    def of(self, dim: Dim) -> str:
        """The name of a tensor of one element with the value.

        A level of an expression takes few frames: expressions may be a hundred deep.
        """
        found = self._symbols.find(dim)
        return found if found is not None else self._symbols.note(dim, self._sum(dim))

    def _sum(self, dim: Dim) -> str:
        if dim.is_const:
            return self._number(dim.value)
        size = self._symbols.size(dim)
        if size is not None:
            return self._sizes(size[0], size[1], size[1] + 1)
        case = case_of(dim)
        if case is not None and self._opset >= CHOICES:
            holds = self._symbols.known(("holds", case.indicator), partial(self._holds, case.indicator))
            return self._write("Where", [holds, self.of(case.holds), self.of(case.fails)], {})
        terms = list(dim.terms)
        total: str | None = None
        without_number = dim - dim.constant_term
        if without_number is not dim and self._symbols.size(without_number) is not None:
            total, terms = self.of(without_number), terms[-1:]
        terms.sort(key=lambda term: term[0] < 0)  # what is added, then what is subtracted
        for coefficient, powers in terms:
            if total is None:
                total = self._term(coefficient, powers)
            elif coefficient > 0:
                total = self._write("Add", [total, self._term(coefficient, powers)], {})
            else:
                total = self._write("Sub", [total, self._term(-coefficient, powers)], {})
        assert total is not None
        return total

    def _holds(self, indicator: Atom) -> str:
        return self._write("Cast", [self._atom(indicator)], {"to": int_attr(BOOL)})

    def _term(self, coefficient: int, powers: Monomial) -> str:
        """A product of atoms and a number."""
        key = Dim.of_terms(((coefficient, powers),))
        found = self._symbols.find(key)
        if found is not None:
            return found
        if not powers:
            return self._symbols.note(key, self._number(wrapped(coefficient)))
        size = self._symbols.size(key)
        if size is not None:
            return self._sizes(size[0], size[1], size[1] + 1)
        if coefficient != 1:
            rest = self._term(1, powers)
            if coefficient == -1 and self._opset >= NEG_OF_INTEGERS:
                return self._symbols.note(key, self._write("Neg", [rest], {}))
            return self._symbols.note(key, self._write("Mul", [rest, self._number(wrapped(coefficient))], {}))
        product, *others = [self._atom(atom) for atom, power in powers for _ in range(power)]
        for factor in others:
            product = self._write("Mul", [product, factor], {})
        return self._symbols.note(key, product)

    def _number(self, value: int) -> str:
        return self._constant(np.array([value], np.int64))

    def _index(self, value: int) -> str:
        return self._constant(np.array(value, np.int64))

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Call):
            whole = Dim.of_terms(((1, ((atom, 1),)),))
            found = self._symbols.find(whole)
            if found is not None:
                return found
            size = self._symbols.size(whole)
            made = self._sizes(size[0], size[1], size[1] + 1) if size is not None else self._call(atom)
            return self._symbols.note(whole, made)
        symbol = Dim.symbol(atom.name)
        if self._symbols.size(symbol) is not None:
            return self.of(symbol)
        place = self._symbols.element(atom.name)
        if place is None:
            return self._symbols.note(symbol, self._solved(symbol))
        return self._elements(*place, 1)

    def _solved(self, symbol: Dim) -> str:
        """A symbol that no value has as its size, of a size that is some number of times it and what is known."""
        for size in self._symbols.sizes():
            rest = size.subs({str(symbol): 0})
            factor = (size - rest).divide_exactly(symbol) if size is not rest else None
            if factor is None or not factor.is_const or factor.value == 0:
                continue
            if all(self._symbols.has(Dim.symbol(name)) for name in rest.symbols):
                found = self.of(size)
                if not (rest.is_const and rest.value == 0):
                    found = self._write("Sub", [found, self.of(rest)], {})
                if factor.value != 1:
                    found = self._write("Div", [found, self._number(factor.value)], {})
                return found
        raise UnsupportedError(f"the size {symbol} is in a shape, and no value here has it")

    def _elements(self, bound: Bound, first: int, length: int) -> str:
        """A vector of elements of a tensor that follow one another."""
        flat = bound.name
        if len(bound.shape) != 1:
            flat = self._symbols.known(
                ("flat", flat), lambda: self._write("Reshape", [bound.name, self._number(-1)], {})
            )
        if bound.code != INT64:
            narrow, to = flat, {"to": int_attr(INT64)}
            flat = self._symbols.known(("wide", bound.name), lambda: self._write("Cast", [narrow], to))
        if length == len(bound.symbols):
            return flat
        picked = np.arange(first, first + length, dtype=np.int64)
        return self._symbols.known(
            ("elements", bound.name, first, length),
            lambda: self._write("Gather", [flat, self._constant(picked)], {"axis": int_attr(0)}),
        )

    def _require(self, op_type: str, opset: int) -> None:
        if self._opset < opset:
            raise UnsupportedError(f"a size is an expression that needs {op_type}, which is new in opset {opset}")

    def _call(self, call: Call) -> str:
        if call.kind in ("min", "max", "broadcast"):
            self._require("Where", 9)
        args = [self.of(arg) for arg in call.args]
        match call.kind:
            case "min" | "max" if self._opset >= EXTREMES_OF_INTEGERS:
                return self._write(call.kind.capitalize(), args, {})
            case "min" | "max":
                result = args[0]
                for other in args[1:]:
                    is_less = self._write("Less", [result, other], {})
                    chosen = [result, other] if call.kind == "min" else [other, result]
                    result = self._write("Where", [is_less, *chosen], {})
                return result
            case "mod":
                self._require("Mod", 10)
                return self._write("Mod", args, {})
            case "floordiv":
                if all(is_at_least(arg, 0) for arg in call.args):
                    return self._write("Div", args, {})
                self._require("Mod", 10)
                rest = self._write("Mod", args, {})  # Div rounds to zero, Mod has the divisor's sign
                return self._write("Div", [self._write("Sub", [args[0], rest], {}), args[1]], {})
            case "broadcast":
                result = args[0]
                for other in args[1:]:
                    is_one = self._write("Equal", [result, self._number(1)], {})
                    result = self._write("Where", [is_one, other, result], {})
                return result
