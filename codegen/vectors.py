"""Vectors: broadcasts, shuffles, single lanes, reductions, dot products of bytes and of bf16."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, nan

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerType, VectorType
from xdsl.ir import Operation, SSAValue

from ..dialects import llvmx, vectorx
from .arith import extremum_of_numbers
from .build import FunctionBuilder
from .dot import dot, halves
from .lanes import Lanes
from .llvm_types import I1, I64, element_of, is_float
from .math_gates import gelu, logistic
from .mathematics import Mathematics
from .memory import lane_mask
from .scope import Scope, TranslateError, Translation, operands


def lanes_of(value: SSAValue) -> int:
    """The number of lanes of a vector value."""
    lanes = llvmx.lanes_of(value.type)
    if lanes is None:
        raise TranslateError(f"{value.type} is no vector")
    return lanes


def _broadcast(scope: Scope, op: Operation) -> None:
    (value,) = operands(scope, op)
    type_ = scope.type(op.results[0].type)
    lanes = llvmx.lanes_of(type_)
    have = llvmx.lanes_of(value.type)
    assert lanes is not None
    if have == 1:
        value = scope.f.extract(value, 0)
    elif have is not None and have != lanes:
        raise TranslateError(f"{op.name} of {value.type} to {type_}")
    scope.values[op.results[0]] = value if value.type == type_ else scope.f.splat(value, lanes)


def _fma(scope: Scope, op: Operation) -> None:
    a, b, c = operands(scope, op)
    scope.values[op.results[0]] = scope.f.fma(a, b, c)


def _select(scope: Scope, op: Operation) -> None:
    condition, a, b = operands(scope, op)
    scope.values[op.results[0]] = scope.f.select(condition, a, b)


_MIRRORED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle"}


def _compare(scope: Scope, op: Operation) -> None:
    assert isinstance(op, vectorx.CompareOp)
    if (mask := _mask_of_numbers(scope, op)) is not None:
        scope.values[op.result] = mask
        return
    a, b = operands(scope, op)
    f, predicate = scope.f, op.predicate.data
    if predicate in ("true", "false"):
        scope.values[op.result] = f.const(predicate == "true", scope.type(op.result.type))
    else:
        scope.values[op.result] = (f.fcmp if is_float(a.type) else f.icmp)(predicate, a, b)


def _mask_of_numbers(scope: Scope, op: vectorx.CompareOp) -> SSAValue | None:
    """The comparison of x + lane with y, for indices, from y - x: a register of narrow numbers in place of several of
    64 bits.  None for other comparisons."""
    predicate, left, right = op.predicate.data, op.lhs, op.rhs
    if predicate not in _MIRRORED:
        return None
    x, y = _first_of_numbers(left), _same_in_all(right)
    if x is None or y is None:
        x, y, predicate = _first_of_numbers(right), _same_in_all(left), _MIRRORED[predicate]
        if x is None or y is None:
            return None
    lanes = llvmx.lanes_of(scope.type(op.result.type))
    assert lanes is not None
    f, one = scope.f, scope.f.const(1, I64)
    # numbers from data may be anything: a difference that does not fit is as large as can be
    count = f.intrinsic("llvm.ssub.sat", (scope.values[y], scope.values[x]), I64)
    if predicate in ("sle", "sgt"):
        count = f.intrinsic("llvm.sadd.sat", (count, one), I64)
    mask = lane_mask(f, count, lanes, scope.module.target.vector_bytes)
    return mask if predicate in ("slt", "sle") else f.not_(mask)


def _first_of_numbers(value: SSAValue) -> SSAValue | None:
    """x of a vector of x + lane, of indices."""
    if not isinstance(value.owner, arith.AddiOp):
        return None
    a, b = value.owner.operands
    if isinstance(a.owner, vectorx.StepOp):
        a, b = b, a
    return _same_in_all(a) if isinstance(b.owner, vectorx.StepOp) else None


def _same_in_all(value: SSAValue) -> SSAValue | None:
    """What a vector of indices has in all lanes."""
    found = value.owner.operands[0] if isinstance(value.owner, vector.BroadcastOp) else None
    return found if found is not None and isinstance(found.type, IndexType) else None


def _shuffle(scope: Scope, op: Operation) -> None:
    assert isinstance(op, vector.ShuffleOp)
    a, b = operands(scope, op)
    mask = list(op.mask.iter_values())
    f = scope.f
    have, other = lanes_of(a), lanes_of(b)
    if have != other:  # LLVM wants two vectors of one type: the shorter gets open lanes behind
        wide = max(have, other)
        mask = [lane if lane < have else lane + wide - have for lane in mask]
        a, b = (f.shuffle(v, v, [*range(lanes_of(v)), *[-1] * (wide - lanes_of(v))]) for v in (a, b))
    scope.values[op.result] = f.shuffle(a, b, mask)


def _position(scope: Scope, static: DenseArrayBase[IntegerType], dynamic: list[SSAValue]) -> int | SSAValue:
    if len(static) != 1:
        raise TranslateError("a vector position of more than one dimension")
    return scope.values[dynamic[0]] if dynamic else int(next(iter(static.iter_values())))


def _extract(scope: Scope, op: Operation) -> None:
    assert isinstance(op, vector.ExtractOp)
    lane = _position(scope, op.static_position, list(op.dynamic_position))
    scope.values[op.result] = scope.f.extract(scope.values[op.vector], lane)


def _insert(scope: Scope, op: Operation) -> None:
    assert isinstance(op, vector.InsertOp)
    lane = _position(scope, op.static_position, list(op.dynamic_position))
    scope.values[op.result] = scope.f.insert_lane(scope.values[op.dest], scope.values[op.source], lane)


def _extract_dynamic(scope: Scope, op: Operation) -> None:
    value, lane = operands(scope, op)
    scope.values[op.results[0]] = scope.f.extract(value, lane)


def _step(scope: Scope, op: Operation) -> None:
    type_ = scope.type(op.results[0].type)
    lanes = llvmx.lanes_of(type_)
    assert lanes is not None and isinstance(type_, VectorType)
    scope.values[op.results[0]] = scope.f.const_lanes(range(lanes), type_)


def _named(name: str) -> Callable[[FunctionBuilder, SSAValue, SSAValue], SSAValue]:
    def combine(f: FunctionBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        return f.intrinsic(name, (a, b), a.type)

    return combine


def _add(f: FunctionBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
    return f.fadd(a, b) if is_float(a.type) else f.add(a, b)


def _mul(f: FunctionBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
    return f.fmul(a, b) if is_float(a.type) else f.mul(a, b)


COMBINE: Mapping[str, Callable[[FunctionBuilder, SSAValue, SSAValue], SSAValue]] = {
    "add": _add,
    "mul": _mul,
    "and": FunctionBuilder.and_,
    "or": FunctionBuilder.or_,
    "xor": FunctionBuilder.xor,
    "minsi": _named("llvm.smin"),
    "maxsi": _named("llvm.smax"),
    "minui": _named("llvm.umin"),
    "maxui": _named("llvm.umax"),
}


def reduce_lanes(f: FunctionBuilder, kind: str, value: SSAValue) -> SSAValue:
    """Combines lane i with lane i + n/2 until one is left; the number of lanes must be a power of two."""
    if kind in OF_NUMBERS:
        return _reduce_numbers(f, *OF_NUMBERS[kind], value)
    if kind in EXTREMA:
        return _reduce_extremum(f, EXTREMA[kind], value)
    if kind in OF_TRUTHS and element_of(value.type) == I1:
        mask = f.cast("bitcast", value, IntegerType(lanes_of(value)))
        predicate, bits = OF_TRUTHS[kind]
        return f.icmp(predicate, mask, f.const(bits, mask.type))
    return _combine_halves(f, COMBINE[kind], value)


EXTREMA: Mapping[str, str] = {"minimumf": "olt", "maximumf": "ogt"}
OF_TRUTHS: Mapping[str, tuple[str, int]] = {"or": ("ne", 0), "and": ("eq", -1)}
"""Which comparison of all lanes of truth values, as bits of one number, tells what becomes of them."""
OF_NUMBERS: Mapping[str, tuple[str, float]] = {"minnumf": ("olt", inf), "maxnumf": ("ogt", -inf)}


def _reduce_numbers(f: FunctionBuilder, predicate: str, none: float, value: SSAValue) -> SSAValue:
    """The extremum of the lanes that are numbers, `none` where there are no such."""
    numbers = f.select(f.fcmp("ord", value, value), value, f.const(none, value.type))
    return _combine_halves(f, extremum_of_numbers(predicate), numbers)


def _reduce_extremum(f: FunctionBuilder, predicate: str, value: SSAValue) -> SSAValue:
    """The extremum of all lanes; NaN is looked for once, beside the tree, not in each of its steps."""
    best = _combine_halves(f, extremum_of_numbers(predicate), value)
    unordered = f.fcmp("uno", value, value)
    mask = f.cast("bitcast", unordered, IntegerType(lanes_of(value)))
    none = f.icmp("eq", mask, f.const(0, mask.type))
    return f.select(none, best, f.const(nan, best.type))


def _combine_halves(
    f: FunctionBuilder, combine: Callable[[FunctionBuilder, SSAValue, SSAValue], SSAValue], value: SSAValue
) -> SSAValue:
    lanes = lanes_of(value)
    while lanes > 1:
        half = lanes // 2
        if lanes % 2:
            raise TranslateError(f"a reduction of {value.type}")
        low, high = f.shuffle(value, value, range(half)), f.shuffle(value, value, range(half, lanes))
        value, lanes = combine(f, low, high), half
    return f.extract(value, 0)


def _reduce(scope: Scope, op: Operation) -> None:
    assert isinstance(op, vectorx.ReduceOp)
    scope.values[op.result] = reduce_lanes(scope.f, op.kind.data, scope.values[op.input])


def _dot(scope: Scope, op: Operation) -> None:
    assert isinstance(op, vectorx.DotOp)
    acc, lhs, rhs = operands(scope, op)
    scope.values[op.result] = dot(scope.f, scope.module.target, op.kind.data, acc, lhs, rhs)


def _halves(scope: Scope, op: Operation) -> None:
    low, high = operands(scope, op)
    scope.values[op.results[0]] = halves(scope.f, scope.module.target, low, high)


def _logistic(scope: Scope, op: Operation) -> None:
    assert isinstance(op, vectorx.LogisticOp)
    values = [Lanes(scope.f, value) for value in operands(scope, op)]
    scope.values[op.result] = logistic(Mathematics(scope.module), *values).value


def _gelu(scope: Scope, op: Operation) -> None:
    (x,) = operands(scope, op)
    scope.values[op.results[0]] = gelu(Mathematics(scope.module), Lanes(scope.f, x)).value


VECTORS: Mapping[type[Operation], Translation] = {
    vector.BroadcastOp: _broadcast,
    vector.FMAOp: _fma,
    vector.ShuffleOp: _shuffle,
    vector.ExtractOp: _extract,
    vector.InsertOp: _insert,
    vectorx.SelectOp: _select,
    vectorx.CompareOp: _compare,
    vectorx.StepOp: _step,
    vectorx.ExtractOp: _extract_dynamic,
    vectorx.ReduceOp: _reduce,
    vectorx.DotOp: _dot,
    vectorx.HalvesOp: _halves,
    vectorx.LogisticOp: _logistic,
    vectorx.GeluOp: _gelu,
}
