"""Builds scalar arithmetic inside a body: one method per operation, on values of an `Element`.

Ops are made by `create` with interned types and attributes: a body is built once and never rewritten, and construction
is most of what lowering costs.  Floats here are f32 or f64; narrower ones are widened and rounded by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType, StringAttr, i1, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import IRDLOperation

from ...dialects import kernel, vectorx
from . import small_floats
from .element_kinds import BOOL, F32, I32, I64, Element

if TYPE_CHECKING:
    from xdsl.dialects.builtin import Float32Type

INDEX = IndexType()

_NO_FLAGS = {"fastmath": arith.FastMathFlagsAttr("none")}
_NO_OVERFLOW = {"overflowFlags": arith.IntegerOverflowAttr("none")}
_WITH_OVERFLOW = frozenset((arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ShLIOp))

_FLOAT_PREDICATES = {"lt": 4, "le": 5, "gt": 2, "ge": 3, "eq": 1, "ne": 13}  # ordered, `ne` true for NaN
_SIGNED_PREDICATES = {"lt": 2, "le": 3, "gt": 4, "ge": 5, "eq": 0, "ne": 1}
_UNSIGNED_PREDICATES = {"lt": 6, "le": 7, "gt": 8, "ge": 9, "eq": 0, "ne": 1}


@cache
def _predicate(number: int) -> IntegerAttr:
    return IntegerAttr(number, i64)


@cache
def _cmpf_properties(predicate: str) -> dict[str, Attribute]:
    return {"predicate": _predicate(_FLOAT_PREDICATES[predicate]), **_NO_FLAGS}


@cache
def _cmpi_properties(predicate: str, unsigned: bool) -> dict[str, Attribute]:
    table = _UNSIGNED_PREDICATES if unsigned else _SIGNED_PREDICATES
    return {"predicate": _predicate(table[predicate])}


@cache
def _kind(name: str) -> StringAttr:
    return StringAttr(name)


def constant_attribute(value: float, type_: Attribute) -> Attribute:
    """The attribute of a scalar constant of an integer, index or float type; integers wrap."""
    if isinstance(type_, IntegerType):
        return IntegerAttr(int(value), type_, truncate_bits=True)
    if isinstance(type_, IndexType):
        return IntegerAttr(int(value), type_)
    return FloatAttr(float(value), cast("Float32Type", type_))


@cache
def _has_flags(op: type[Operation]) -> bool:
    """Whether an op has fast-math flags, as those of floats do."""
    return issubclass(op, IRDLOperation) and "fastmath" in op.get_irdl_definition().properties


class Scalars:
    """The end of a block, and the constants at its start."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._outer = block
        self.origin: Attribute | None = None
        """The attribute `origin` of what is being built."""
        self._constants: dict[tuple[str, Attribute], SSAValue] = {}
        self._prelude: list[Operation] = []

    def finish(self) -> None:
        """Puts the constants at the start of the block, where nested regions see them too."""
        if self._prelude:
            if (first := self._outer.first_op) is None:
                self._outer.add_ops(self._prelude)
            else:
                self._outer.insert_ops_before(self._prelude, first)
            self._prelude = []

    def emit(self, op: Operation) -> SSAValue:
        """Appends an op of one result."""
        self.append(op)
        return op.results[0]

    def append(self, op: Operation) -> None:
        if self.origin is not None:
            op.attributes["origin"] = self.origin
        self.block.add_op(op)

    def first(self, key: tuple[str, Attribute], op: Operation) -> SSAValue:
        """Puts an op of one result at the start of the outermost block, for reuse under `key`."""
        if self.origin is not None:
            op.attributes["origin"] = self.origin
        self._prelude.append(op)
        self._constants[key] = op.results[0]
        return op.results[0]

    def constant(self, value: float, element: Element | Attribute) -> SSAValue:
        """A constant; of equal ones there is one."""
        type_ = element.ir if isinstance(element, Element) else element
        key = (repr(value), type_)
        if (found := self._constants.get(key)) is not None:
            return found
        attribute = constant_attribute(value, type_)
        return self.first(key, arith.ConstantOp.create(result_types=[type_], properties={"value": attribute}))

    def find_constant(self, key: tuple[str, Attribute]) -> SSAValue | None:
        return self._constants.get(key)

    def unary(self, op: type[Operation], x: SSAValue) -> SSAValue:
        """An op of one operand: of floats, or of integers such as `math.absi`."""
        properties = _NO_FLAGS.copy() if _has_flags(op) else {}
        return self.emit(op.create(operands=[x], result_types=[x.type], properties=properties))

    def float_binary(self, op: type[Operation], a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(op.create(operands=[a, b], result_types=[a.type], properties=_NO_FLAGS.copy()))

    def int_binary(self, op: type[Operation], a: SSAValue, b: SSAValue) -> SSAValue:
        properties = _NO_OVERFLOW.copy() if op in _WITH_OVERFLOW else {}
        return self.emit(op.create(operands=[a, b], result_types=[a.type], properties=properties))

    def add(self, a: SSAValue, b: SSAValue, t: Element) -> SSAValue:
        return self.float_binary(arith.AddfOp, a, b) if t.is_float else self.int_binary(arith.AddiOp, a, b)

    def sub(self, a: SSAValue, b: SSAValue, t: Element) -> SSAValue:
        return self.float_binary(arith.SubfOp, a, b) if t.is_float else self.int_binary(arith.SubiOp, a, b)

    def mul(self, a: SSAValue, b: SSAValue, t: Element) -> SSAValue:
        return self.float_binary(arith.MulfOp, a, b) if t.is_float else self.int_binary(arith.MuliOp, a, b)

    def divf(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.float_binary(arith.DivfOp, a, b)

    def copysign(self, size: SSAValue, sign: SSAValue) -> SSAValue:
        """A number of the size of one and the sign of the other, of zeros too."""
        return self.float_binary(math.CopySignOp, size, sign)

    def logistic(self, *arguments: SSAValue) -> SSAValue:
        """x / (1 + exp(-y)) of f32, for x, y and perhaps what y was rounded by."""
        return self.emit(vectorx.LogisticOp.create(operands=arguments, result_types=[arguments[0].type]))

    def gelu(self, x: SSAValue) -> SSAValue:
        """x times the normal distribution function, of f32."""
        return self.emit(vectorx.GeluOp.create(operands=[x], result_types=[x.type]))

    def fma(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        """a*b + c rounded once: only inside of one operator's own formula."""
        op = math.FmaOp.create(operands=[a, b, c], result_types=[a.type], properties=_NO_FLAGS.copy())
        return self.emit(op)

    def polynomial(self, x: SSAValue, coefficients: Sequence[float], t: Element) -> SSAValue:
        """By Horner's rule, highest power first."""
        total = self.constant(coefficients[0], t)
        for c in coefficients[1:]:
            total = self.fma(total, x, self.constant(c, t))
        return total

    def neg(self, a: SSAValue, t: Element) -> SSAValue:
        return self.unary(arith.NegfOp, a) if t.is_float else self.sub(self.constant(0, t), a, t)

    def abs(self, a: SSAValue, t: Element) -> SSAValue:
        """The magnitude; the least integer of its type stays as it is."""
        if t.is_float:
            return self.unary(math.AbsFOp, a)
        return a if t.kind != "i" else self.int_binary(arith.MaxSIOp, a, self.neg(a, t))

    def max(self, a: SSAValue, b: SSAValue, t: Element) -> SSAValue:
        """The greater; NaN where either is NaN."""
        if t.is_float:
            return self.float_binary(arith.MaximumfOp, a, b)
        if t.kind == "b":
            return self.int_binary(arith.OrIOp, a, b)
        return self.int_binary(arith.MaxSIOp if t.kind == "i" else arith.MaxUIOp, a, b)

    def max_of_numbers(self, a: SSAValue, b: SSAValue, t: Element) -> SSAValue:
        """The greater; the other where one is NaN."""
        return self.float_binary(arith.MaxnumfOp, a, b) if t.is_float else self.max(a, b, t)

    def min(self, a: SSAValue, b: SSAValue, t: Element) -> SSAValue:
        """The lesser; NaN where either is NaN."""
        if t.is_float:
            return self.float_binary(arith.MinimumfOp, a, b)
        if t.kind == "b":
            return self.int_binary(arith.AndIOp, a, b)
        return self.int_binary(arith.MinSIOp if t.kind == "i" else arith.MinUIOp, a, b)

    def clamp(self, x: SSAValue, low: float, high: float, t: Element) -> SSAValue:
        return self.min(self.max(x, self.constant(low, t), t), self.constant(high, t), t)

    def compare(self, predicate: str, a: SSAValue, b: SSAValue, t: Element) -> SSAValue:
        """lt, le, gt, ge, eq (false for NaN) or ne (true for NaN), as i1."""
        if t.is_float:
            properties = _cmpf_properties(predicate)
            return self.emit(arith.CmpfOp.create(operands=[a, b], result_types=[i1], properties=properties.copy()))
        properties = _cmpi_properties(predicate, t.kind != "i")
        return self.emit(arith.CmpiOp.create(operands=[a, b], result_types=[i1], properties=properties.copy()))

    def is_nan(self, a: SSAValue, t: Element) -> SSAValue:
        return self.compare("ne", a, a, t)

    def both(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.int_binary(arith.AndIOp, a, b)

    def either(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.int_binary(arith.OrIOp, a, b)

    def xor(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.int_binary(arith.XOrIOp, a, b)

    def negate(self, a: SSAValue) -> SSAValue:
        """The other truth value."""
        return self.xor(a, self.constant(1, BOOL))

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(arith.SelectOp.create(operands=[condition, a, b], result_types=[a.type]))

    def convert(self, kind: str, a: SSAValue, to: Element | Attribute) -> SSAValue:
        """One of `vectorx.CONVERSIONS`."""
        type_ = to.ir if isinstance(to, Element) else to
        op = vectorx.ConvertOp.create(operands=[a], result_types=[type_], properties={"kind": _kind(kind)})
        return self.emit(op)

    def check(self, condition: SSAValue, code: str, message: str, values: Sequence[SSAValue]) -> None:
        """An error at run time where the condition is false; see `kernel.check`."""
        properties: dict[str, Attribute] = {"code": _kind(code), "message": _kind(message)}
        self.append(kernel.CheckOp.create(operands=[condition, *values], properties=properties))

    # Floats by way of their bits

    def sign_bit(self, a: SSAValue, t: Element) -> SSAValue:
        """Whether the sign bit of an f32 or f64 is set, also for -0.0 and NaN."""
        whole = I32 if t is F32 else I64
        return self.compare("lt", self.convert("bitcast", a, whole), self.constant(0, whole), whole)

    def widen(self, a: SSAValue, t: Element) -> SSAValue:
        """In the type that arithmetic is done in."""
        if t.is_packed:
            return small_floats.widened(self, a, t)
        return self.convert("extf", a, t.compute) if t.compute is not t else a

    def narrow(self, a: SSAValue, t: Element) -> SSAValue:
        """Rounded from the compute type to `t`."""
        if t.is_packed:
            return small_floats.narrowed(self, a, t)
        return self.convert("truncf", a, t) if t.compute is not t else a
