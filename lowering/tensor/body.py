"""Emits the scalars of lazy tensors into a body: the region of a `linalg.generic`, or the epilogue of a template.

Pointwise nodes are inlined, views map the index, and tensors in memory are read: as an operand of the generic where
the index is plain loop variables, else by `tensor.extract`.  Within a body each (node, index) is computed once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol, TypeAlias

import numpy as np
from xdsl.dialects import arith, scf, tensor
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from ...dialects import kernel
from ...dialects.dims import Dim, ShapeAttr
from ...dialects.dims.expression import ONE, ZERO, Atom, Call
from ...dialects.onnx import ints_attr
from .element_kinds import I64, Element
from .graph import Leaf, Literal, Node, Pointwise, Sizes, View
from .index_space import Index, IndexSpace, calls_of, coefficient_of, product
from .scalars import INDEX, Scalars

Key: TypeAlias = "tuple[Node, Index]"


@cache
def origin_attribute(origin: tuple[int, ...]) -> Attribute | None:
    """The attribute `origin` for these node ids; None where there are none."""
    return ints_attr(origin) if origin else None


class Site(Protocol):
    """What a body asks of the function around it."""

    def dense(self, literal: Literal) -> SSAValue:
        """The tensor value of a constant."""
        ...

    def view(self, value: SSAValue, dims: tuple[Dim, ...]) -> SSAValue:
        """The same elements under other dims."""
        ...


class OperandSink(Protocol):
    """Takes a tensor as an operand of the generic being built; gives the block argument for its element."""

    def __call__(self, value: SSAValue, map_: AffineMap) -> SSAValue: ...


@dataclass
class Body:
    """One body being emitted. `loops` are the names and extents of its loop variables, outermost first."""

    scalars: Scalars
    space: IndexSpace
    loops: Sequence[tuple[str, Dim]]
    loop_value: Callable[[int], SSAValue]
    site: Site
    leaves: Mapping[Node, Leaf]
    operand: OperandSink | None = None
    splits: dict[str, Dim] = field(default_factory=dict[str, Dim])
    """Loops that should be split, by the size of the inner part, for indices to be free of divisions."""
    counts: dict[Node, int] = field(default_factory=dict[Node, int])
    """At how many indices each node was emitted."""
    _scopes: list[dict[object, SSAValue]] = field(default_factory=lambda: [{}])
    _computed: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])

    def __post_init__(self) -> None:
        self._position = {name: k for k, (name, _) in enumerate(self.loops)}

    # Values, each computed once

    def find(self, key: object) -> SSAValue | None:
        for scope in reversed(self._scopes):
            if (found := scope.get(key)) is not None:
                return found
        return None

    def remember(self, key: object, value: SSAValue) -> SSAValue:
        self._scopes[-1][key] = value
        return value

    def preset(self, node: Node, index: Index, value: SSAValue) -> None:
        """Gives the scalar of a node that is not to be emitted (a template's own result)."""
        self._scopes[0][(node, index)] = value

    def resolve(self, node: Node, index: Index) -> Key:
        """The same scalar behind views, as (a node that is no view, its index)."""
        while True:
            if (leaf := self.leaves.get(node)) is not None:
                node = leaf
            if not isinstance(node, View):
                break
            index = node.index_map(self.space, index)
            node = node.source
        if any(size is ONE and at is not ZERO for size, at in zip(node.dims, index)):
            index = tuple(ZERO if size is ONE else at for size, at in zip(node.dims, index))
        return node, index

    def read(self, node: Node, index: Index) -> SSAValue:
        """The scalar of a node at an index, of its element's `ir` type."""
        first = self.resolve(node, index)
        if (found := self.find(first)) is not None:
            return found
        stack = [first]
        while stack:
            key = stack[-1]
            if self.find(key) is not None:
                stack.pop()
                continue
            at = key[0]
            outer = self.scalars.origin
            if isinstance(at, Pointwise):
                operands = [self.resolve(i, x) for i, x in zip(at.inputs, at.operand_indices(key[1]))]
                missing = [o for o in operands if self.find(o) is None]
                if missing:
                    stack.extend(reversed(missing))
                    continue
                self.scalars.origin = origin_attribute(at.origin) or outer
                value = self._apply(at, operands)
            else:
                self.scalars.origin = origin_attribute(at.origin) or outer
                value = at.emit(self, key[1])
            self.scalars.origin = outer
            self.counts[at] = self.counts.get(at, 0) + 1
            self.remember(key, value)
            stack.pop()
        value = self.find(first)
        assert value is not None
        return value

    def wide(self, node: Node, index: Index) -> SSAValue:
        """The scalar in the type that arithmetic is done in."""
        return self.widen(self.read(node, index), node.element)

    def widen(self, value: SSAValue, element: Element) -> SSAValue:
        if element.compute is element:
            return value
        key = ("wide", value)
        return self.find(key) or self.remember(key, self.scalars.widen(value, element))

    def _apply(self, node: Pointwise, operands: Sequence[Key]) -> SSAValue:
        values: list[SSAValue] = []
        for key in operands:
            value = self.find(key)
            assert value is not None
            values.append(self.widen(value, key[0].element))
        return self.scalars.narrow(node.function(self.scalars, *values), node.element)

    # Branches

    def branch(self, condition: SSAValue, then: Callable[[], SSAValue], otherwise: Callable[[], SSAValue]) -> SSAValue:
        """A value by `scf.if`; each side reads memory only where it is taken."""
        regions: list[Region] = []
        type_: Attribute | None = None
        outer = self.scalars.block
        for side in (then, otherwise):
            block = Block()
            self.scalars.block = block
            self._scopes.append({})
            value = side()
            self._scopes.pop()
            self.scalars.append(scf.YieldOp.create(operands=[value]))
            type_ = value.type
            regions.append(Region(block))
        self.scalars.block = outer
        assert type_ is not None
        return self.scalars.emit(scf.IfOp.create(operands=[condition], result_types=[type_], regions=regions))

    def guarded(
        self, conditions: Sequence[SSAValue], then: Callable[[], SSAValue], otherwise: Callable[[], SSAValue]
    ) -> SSAValue:
        """`then` where all conditions hold; without conditions simply `then`."""
        if not conditions:
            return then()
        total = conditions[0]
        for c in conditions[1:]:
            total = self.scalars.both(total, c)
        return self.branch(total, then, otherwise)

    # Indices

    def index(self, expression: Dim) -> SSAValue:
        """An index expression as an `index` value."""
        key = ("index", expression)
        if (found := self.find(key)) is not None:
            return found
        if expression.is_const:
            return self.scalars.constant(expression.value, INDEX)
        if not self.space.varies(expression):
            return self._dim(expression)
        return self.remember(key, self._sum(expression))

    def _dim(self, expression: Dim) -> SSAValue:
        key = (str(expression), INDEX)
        if (found := self.scalars.find_constant(key)) is not None:
            return found
        properties: dict[str, Attribute] = {"expr": ShapeAttr((expression,))}
        return self.scalars.first(key, kernel.DimOp.create(result_types=[INDEX], properties=properties))

    def _sum(self, expression: Dim) -> SSAValue:
        """Terms with the same variables share one multiplication by their factor."""
        factors: dict[tuple[tuple[Atom, int], ...], list[tuple[int, tuple[tuple[Atom, int], ...]]]] = {}
        for coefficient, monomial in expression.terms:
            moving = tuple(f for f in monomial if self._moves(f[0]))
            fixed = tuple(f for f in monomial if not self._moves(f[0]))
            factors.setdefault(moving, []).append((coefficient, fixed))
        total: SSAValue | None = None
        for moving, terms in factors.items():
            term = self._term(moving, Dim.of_terms(terms))
            total = term if total is None else self.scalars.add(total, term, I64)
        assert total is not None
        return total

    def _term(self, moving: tuple[tuple[Atom, int], ...], factor: Dim) -> SSAValue:
        value: SSAValue | None = None
        for atom, power in moving:
            for _ in range(power):
                one = self._atom(atom)
                value = one if value is None else self.scalars.mul(value, one, I64)
        if value is None:
            return self.index(factor)
        return value if factor is ONE else self.scalars.mul(value, self.index(factor), I64)

    def _moves(self, atom: Atom) -> bool:
        return self.space.varies(Dim.of_terms(((1, ((atom, 1),)),)))

    def _atom(self, atom: Atom) -> SSAValue:
        key = ("atom", atom)
        if (found := self.find(key)) is not None:
            return found
        return self.remember(key, self._symbol(atom.name) if atom.args is None else self._call(atom))

    def _symbol(self, name: str) -> SSAValue:
        position = self._position.get(name)
        return self._computed[name] if position is None else self.loop_value(position)

    def _call(self, call: Call) -> SSAValue:
        s = self.scalars
        if call.kind in ("floordiv", "mod"):
            return self._division(call)
        values = [self.index(a) for a in call.args]
        if call.kind == "broadcast":
            raise NotImplementedError(f"an index computed from {call}")
        total = values[0]
        for value in values[1:]:
            total = s.min(total, value, I64) if call.kind == "min" else s.max(total, value, I64)
        return total

    def _division(self, call: Call) -> SSAValue:
        s = self.scalars
        above, below = call.args
        a, b = self.index(above), self._divisor(below)
        quotient = call.kind == "floordiv"
        if self.space.is_negative_free(above):
            if below.is_const and (exact := factor_and_shift(self.space.most(above), below.value)) is not None:
                return self._by_product(call, a, *exact)
            return s.int_binary(arith.DivUIOp if quotient else arith.RemUIOp, a, b)
        # rounding down for a divisor above 0: the remainder gets the divisor's sign
        rest = s.int_binary(arith.RemSIOp, a, b)
        negative = s.compare("lt", rest, s.constant(0, INDEX), I64)
        rest = s.select(negative, s.add(rest, b, I64), rest)
        return s.int_binary(arith.DivSIOp, s.sub(a, rest, I64), b) if quotient else rest

    def _divisor(self, size: Dim) -> SSAValue:
        """A size, or 1 where it is 0, as that of an empty axis may be."""
        value = self.index(size)
        return value if size.is_const else self.scalars.max(value, self.index(ONE), I64)

    def _by_product(self, call: Call, a: SSAValue, factor: int, shift: int) -> SSAValue:
        """The quotient or remainder by a constant without a division, which vectors of indices do not have."""
        s, key = self.scalars, ("quotient", *call.args)
        if (q := self.find(key)) is None:
            product_ = s.mul(a, s.constant(factor, INDEX), I64)
            q = self.remember(key, s.int_binary(arith.ShRUIOp, product_, s.constant(shift, INDEX)))
        return q if call.kind == "floordiv" else s.sub(a, s.mul(q, self.index(call.args[1]), I64), I64)

    def wrapped(self, value: SSAValue, size: Dim) -> SSAValue:
        """An index value of any sign modulo a size, from 0 on."""
        s = self.scalars
        rest = s.int_binary(arith.RemSIOp, value, self._divisor(size))
        negative = s.compare("lt", rest, s.constant(0, INDEX), I64)
        return s.select(negative, s.add(rest, self.index(size), I64), rest)

    def variable(self, value: SSAValue, bound: Dim) -> Dim:
        """An index value of the body, in [0, bound), as a variable of index expressions."""
        name = f"s{len(self._computed)}"
        self._computed[name] = value
        return self.space.add(name, bound)

    def inside(self, expression: Dim, size: Dim) -> list[SSAValue]:
        """The conditions, as i1, that 0 <= expression < size, without those that certainly hold."""
        s = self.scalars
        conditions: list[SSAValue] = []
        if not self.space.is_negative_free(expression):
            conditions.append(s.compare("ge", self.index(expression), s.constant(0, INDEX), I64))
        if not self.space.is_negative_free(size - expression - 1):
            conditions.append(s.compare("lt", self.index(expression), self.index(size), I64))
        return conditions

    def below(self, expression: Dim, bound: Dim) -> SSAValue | bool:
        """Whether expression < bound: known, or the condition as i1."""
        if self.space.is_negative_free(bound - expression - 1):
            return True
        if self.space.is_negative_free(expression - bound):
            return False
        return self.scalars.compare("lt", self.index(expression), self.index(bound), I64)

    def index_of(self, value: SSAValue, element: Element) -> SSAValue:
        """An integer scalar as an index."""
        if element.kind == "u" and element.bits < 64:
            value = self.scalars.convert("extui", value, I64)
        return self.scalars.convert("index_cast", value, INDEX)

    # Memory and constants

    def load(self, value: SSAValue, dims: tuple[Dim, ...], index: Index) -> SSAValue:
        """The element of a tensor in memory."""
        map_ = self._plain(dims, index)
        if map_ is None and (other := self._plain_view(dims, index)) is not None:
            dims, index = other
            value, map_ = self.site.view(value, dims), self._plain(dims, index)
        if map_ is None and (other := self.space.joined(index, dims)) is not None:
            index, dims = other
            value, map_ = self.site.view(value, dims), self._plain(dims, index)
        if map_ is not None and self.operand is not None:
            return self.operand(value, map_)
        for at in index:
            for call in calls_of(at):
                self._ask_for_split(call)
        operands = [value, *map(self.index, index)]
        assert hasattr(value.type, "element_type")
        element: Attribute = value.type.element_type  # pyright: ignore[reportAttributeAccessIssue]
        return self.scalars.emit(tensor.ExtractOp.create(operands=operands, result_types=[element]))

    def _plain(self, dims: tuple[Dim, ...], index: Index) -> AffineMap | None:
        """The indexing map of an access by loop variables only, each once and over its whole extent."""
        results: list[AffineConstantExpr | AffineDimExpr] = []
        seen: set[int] = set()
        for size, at in zip(dims, index):
            if at is ZERO:
                results.append(AffineConstantExpr(0))
                continue
            atom = at.atom
            if atom is None or atom.args is not None or (position := self._position.get(atom.name)) is None:
                return None
            if position in seen or self.loops[position][1] is not size:
                return None
            seen.add(position)
            results.append(AffineDimExpr(position))
        return AffineMap(len(self.loops), 0, tuple(results))

    def _plain_view(self, dims: tuple[Dim, ...], index: Index) -> tuple[tuple[Dim, ...], Index] | None:
        """Other dims of the same elements under which the access is plain, where there are such."""
        offset = self.space.linearize(index, dims)
        if not offset.terms or offset.constant_term or calls_of(offset):
            return None
        strides: dict[Dim, tuple[str, Dim]] = {}
        rest = offset
        for name, extent in self.loops:
            atom = Dim.symbol(name).atom
            assert atom is not None
            stride, rest = coefficient_of(rest, atom)
            if stride is None or (stride is not ZERO and stride in strides):
                return None
            if stride is not ZERO:
                strides[stride] = (name, extent)
        if rest is not ZERO:
            return None
        return _nested(strides, product(dims))

    def _ask_for_split(self, call: Call) -> None:
        if call.kind in ("floordiv", "mod") and not self.space.varies(call.args[1]):
            atom = call.args[0].atom
            if atom is None:
                for inner in calls_of(call.args[0]):
                    self._ask_for_split(inner)
            elif atom.args is not None:
                self._ask_for_split(atom)
            elif (position := self._position.get(atom.name)) is not None:
                extent, inner = self.loops[position][1], call.args[1]
                if extent.divide_exactly(inner) is not None:
                    self.splits.setdefault(atom.name, inner)

    def literal(self, node: Literal, index: Index) -> SSAValue:
        array = node.array
        if not array.size:  # nothing is read
            return self.constant_of(np.zeros(1, array.dtype)[0], node.element)
        if all(at.is_const for at in index):
            return self.constant_of(array[tuple(at.value for at in index)], node.element)
        if array.size == 1 or (array == array.flat[0]).all():
            return self.constant_of(array.flat[0], node.element)
        return self.load(self.site.dense(node), node.dims, index)

    def constant_of(self, value: np.generic, element: Element) -> SSAValue:
        if element.kind == "c":
            return self.scalars.constant(int.from_bytes(value.tobytes(), sys.byteorder, signed=True), element)
        if element.compute is element:
            return self.scalars.constant(value.item(), element)
        return self.scalars.narrow(self.scalars.constant(float(value), element.compute), element)

    def sizes(self, node: Sizes, index: Index) -> SSAValue:
        if not node.exprs:
            return self.scalars.constant(0, node.element)  # of an empty tensor nothing is read
        at = self.space.linearize(index, node.dims)
        if at.is_const:
            return self._size(node.exprs[at.value], node.element)
        s = self.scalars
        position = self.index(at)
        value = self._size(node.exprs[-1], node.element)
        for k, expression in enumerate(node.exprs[:-1]):
            here = s.compare("eq", position, s.constant(k, INDEX), I64)
            value = s.select(here, self._size(expression, node.element), value)
        return value

    def _size(self, expression: Dim, element: Element) -> SSAValue:
        if expression.is_const:
            return self.scalars.constant(expression.value, element)
        return self.scalars.convert("index_cast", self.index(expression), element)


def factor_and_shift(most: int | None, divisor: int) -> tuple[int, int] | None:
    """(m, s) with n // divisor == (n * m) >> s for n in [0, most], in 63 bits; None where that is no gain or not known.

    With m the quotient 2^s / divisor rounded up, by e / divisor too large, n * m / 2^s is less than 1 / divisor above
    n / divisor, and so rounds down to the same, where n * e < 2^s (Granlund and Montgomery 1994).
    """
    if most is None or divisor < 3 or divisor.bit_count() == 1:
        return None
    for shift in range(divisor.bit_length(), 62):
        factor = -(-(1 << shift) // divisor)
        if most * factor >= 1 << 63:
            return None
        if most * (factor * divisor - (1 << shift)) < 1 << shift:
            return factor, shift
    return None


def _nested(strides: Mapping[Dim, tuple[str, Dim]], total: Dim) -> tuple[tuple[Dim, ...], Index] | None:
    """Row-major dims in which the variables with these strides are whole axes; axes between them are at 0."""
    dims: list[Dim] = []
    index: list[Dim] = []
    inner, left = ONE, dict(strides)
    while left:
        if (found := left.pop(inner, None)) is not None:
            name, extent = found
            dims.append(extent)
            index.append(Dim.symbol(name))
            inner = inner * extent
            continue
        gap = next((g for s in left if (g := s.divide_exactly(inner)) is not None and _is_size(g)), None)
        if gap is None or any(s is not inner * gap and s.divide_exactly(inner * gap) is None for s in left):
            return None
        dims.append(gap)
        index.append(ZERO)
        inner = inner * gap
    rest = total.divide_exactly(inner)
    if rest is None:
        return None
    if rest is not ONE:
        dims.append(rest)
        index.append(ZERO)
    return tuple(reversed(dims)), tuple(reversed(index))


def _is_size(dim: Dim) -> bool:
    return all(c > 0 for c, _ in dim.terms)
