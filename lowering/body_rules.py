"""How each op of a scalar body is evaluated for several lanes: one function an op, in a table by its class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, StringAttr, i1
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ..dialects import kernel, vectorx
from .places import Lanes, Value
from .ranges import difference_range

if TYPE_CHECKING:
    from .body import BodyEmitter

Env: TypeAlias = dict[SSAValue, Value]
Rule: TypeAlias = Callable[["BodyEmitter", Operation, Mapping[SSAValue, Value]], Sequence[Value]]


def elementwise(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    """The same op on vectors, or on scalars where all operands are uniform."""
    if op.dialect_name() not in ("arith", "math", "vectorx") or op.regions:
        raise ValueError(f"{op.name} is not allowed in a body")
    values = [e.value(o, env) for o in op.operands]
    scalars = [e.scalar(v) for v in values]
    known = [s for s in scalars if s is not None]
    uniform = len(known) == len(values)
    operands = known if uniform else [e.vector(v) for v in values]
    types = [r.type if uniform else e.type_of(r.type) for r in op.results]
    if len(types) == 1:
        return [_tracked(e.builder.pure(type(op), operands, types[0], op.properties))]
    new = type(op).create(operands=operands, result_types=types, properties=op.properties)
    return [_tracked(r) for r in e.builder.hoisted(new).results]


def _tracked(value: SSAValue) -> Value:
    return Lanes(value) if isinstance(value.type, IndexType) else value


def _constant(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    assert isinstance(op, arith.ConstantOp)
    if isinstance(op.value, IntegerAttr) and isinstance(op.value.type, IndexType):
        return [Lanes(op.value.value.data)]
    assert isinstance(op.value, IntegerAttr | FloatAttr)
    return [e.builder.literal(op.value)]


def _dim(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    assert isinstance(op, kernel.DimOp)
    return [Lanes(e.builder.dim(op.expr.data[0]))]


def _index(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    assert isinstance(op, linalg.IndexOp)
    return [e.indices[op.dim.value.data]]


def _index_binary(combine: Callable[[BodyEmitter, Value, Value], Value]) -> Rule:
    """An op on integers that keeps `Lanes` as they are when the integers are indices."""

    def rule(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
        if not isinstance(op.results[0].type, IndexType):
            return elementwise(e, op, env)
        lhs, rhs = (e.value(o, env) for o in op.operands)
        return [combine(e, lhs, rhs)]

    return rule


def _extremum(combine: Callable[[int, int], int]) -> Callable[[BodyEmitter, Value, Value], Value | None]:
    def fold(e: BodyEmitter, a: Value, b: Value) -> Value | None:
        if isinstance(a, Lanes) and isinstance(b, Lanes) and isinstance(a.base, int) and isinstance(b.base, int):
            return Lanes(combine(a.base, b.base)) if a.stride == b.stride == 0 else None
        return None

    return fold


def _folded(fold: Callable[[BodyEmitter, Value, Value], Value | None]) -> Rule:
    """An op on integers that is known for some index operands."""

    def rule(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
        if isinstance(op.results[0].type, IndexType):
            lhs, rhs = (e.value(o, env) for o in op.operands)
            if (value := fold(e, lhs, rhs)) is not None:
                return [value]
        return elementwise(e, op, env)

    return rule


def _quotient(e: BodyEmitter, a: Value, b: Value) -> Value | None:
    return a if b == Lanes(1) else None


def _remainder(e: BodyEmitter, a: Value, b: Value) -> Value | None:
    return Lanes(0) if b == Lanes(1) else None


@cache
def _name(key: str, value: str) -> Mapping[str, Attribute]:
    return {key: StringAttr(value)}


def _compare(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    """Compares of vectors are vectorx's: xDSL's arith has them for scalars only."""
    assert isinstance(op, arith.CmpiOp | arith.CmpfOp)
    values = [e.value(o, env) for o in op.operands]
    if isinstance(op, arith.CmpiOp) and (known := _known_comparison(e, op, values)) is not None:
        return [e.builder.constant(known, i1)]
    if all(e.scalar(v) is not None for v in values):
        return elementwise(e, op, env)
    names = arith.CMPI_COMPARISON_OPERATIONS if isinstance(op, arith.CmpiOp) else arith.CMPF_COMPARISON_OPERATIONS
    lhs, rhs = map(e.vector, values)
    predicate = names[op.predicate.value.data]
    return [e.builder.pure(vectorx.CompareOp, (lhs, rhs), e.type_of(i1), _name("predicate", predicate))]


def _known_comparison(e: BodyEmitter, op: arith.CmpiOp, values: Sequence[Value]) -> bool | None:
    """Whether a signed comparison of indices holds in all lanes or in none, where their ranges tell."""
    lhs, rhs = values
    decide = _ORDERED.get(arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data])
    if decide is None or not (isinstance(lhs, Lanes) and isinstance(rhs, Lanes)):
        return None
    lanes = e.count if isinstance(e.count, int) else e.lanes
    found = difference_range(lhs, rhs, lanes)
    return None if found is None else decide(*found)


_ORDERED: Mapping[str, Callable[[int, int], bool | None]] = {
    "slt": lambda low, high: True if high < 0 else False if low >= 0 else None,
    "sle": lambda low, high: True if high <= 0 else False if low > 0 else None,
    "sgt": lambda low, high: True if low > 0 else False if high <= 0 else None,
    "sge": lambda low, high: True if low >= 0 else False if high < 0 else None,
}
"""What the range of a difference tells of a comparison."""


def _select(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    condition, lhs, rhs = (e.value(o, env) for o in op.operands)
    if lhs == rhs:
        return [lhs]
    return [select(e, condition, lhs, rhs)]


def select(e: BodyEmitter, condition: Value, lhs: Value, rhs: Value) -> Value:
    """Chooses lane by lane."""
    scalar = e.scalar(condition)
    if scalar is None:
        operands = (e.vector(condition), e.vector(lhs), e.vector(rhs))
        return e.builder.pure(vectorx.SelectOp, operands, operands[1].type)
    if isinstance(lhs, Lanes) and isinstance(rhs, Lanes) and lhs.stride == rhs.stride:
        base = e.builder.hoisted(arith.SelectOp(scalar, e.builder.index(lhs.base), e.builder.index(rhs.base))).result
        return Lanes(base, lhs.stride)
    a, b = e.scalar(lhs), e.scalar(rhs)
    if a is None or b is None:
        a, b = e.vector(lhs), e.vector(rhs)
    return _tracked(e.builder.hoisted(arith.SelectOp(scalar, a, b)).result)


_CONVERSIONS: dict[type[Operation], str] = {
    arith.ExtSIOp: "extsi",
    arith.ExtUIOp: "extui",
    arith.TruncIOp: "trunci",
    arith.SIToFPOp: "sitofp",
    arith.UIToFPOp: "uitofp",
    arith.FPToSIOp: "fptosi",
    arith.FPToUIOp: "fptoui",
    arith.ExtFOp: "extf",
    arith.TruncFOp: "truncf",
    arith.BitcastOp: "bitcast",
    arith.IndexCastOp: "index_cast",
}


def _convert(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    """Conversions are vectorx's for scalars too, so that both saturate the same way."""
    kind = op.kind.data if isinstance(op, vectorx.ConvertOp) else _CONVERSIONS[type(op)]
    properties = _name("kind", kind)
    value = e.value(op.operands[0], env)
    scalar, element = e.scalar(value), op.results[0].type
    if scalar is not None:
        return [_tracked(e.builder.pure(vectorx.ConvertOp, (scalar,), element, properties))]
    return [e.builder.pure(vectorx.ConvertOp, (e.vector(value),), e.type_of(element), properties)]


def _extract(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    assert isinstance(op, tensor.ExtractOp)
    return [e.load(e.tensors[op.tensor], [e.value(i, env) for i in op.indices])]


def _check(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    assert isinstance(op, kernel.CheckOp)
    condition = e.value(op.condition, env)
    values = [e.value(v, env) for v in op.values]
    scalar = e.scalar(condition)
    scalars = [s for v in values if (s := e.scalar(v)) is not None]
    if scalar is not None and len(scalars) == len(values) and not e.guarded:
        e.builder.checked(_same_check(op, scalar, scalars))
        return ()
    lanes = e.vector(condition)
    if e.mask is not None:
        true = e.builder.broadcast(e.builder.constant(True, i1), e.lanes)
        lanes = e.builder.hoisted(vectorx.SelectOp(e.mask, lanes, true)).result
    e.builder.insert(_same_check(op, lanes, [e.vector(v) for v in values]))
    return ()


def _same_check(op: kernel.CheckOp, condition: SSAValue, values: Sequence[SSAValue]) -> kernel.CheckOp:
    check = kernel.CheckOp(condition, op.code.data, op.message.data, values)
    check.attributes.update(op.attributes)
    return check


def _if(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    assert isinstance(op, scf.IfOp)
    condition = e.value(op.cond, env)
    scalar = e.scalar(condition)
    if scalar is not None and (known := _known_truth(scalar)) is not None:
        side = op.true_region if known else op.false_region
        return e.run(side.block, dict(env)) if side.blocks else []
    return _masked_if(e, op, e.vector(condition), env) if scalar is None else _uniform_if(e, op, scalar, env)


def _known_truth(condition: SSAValue) -> bool | None:
    owner = condition.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return bool(owner.value.value.data)
    return None


def _masked_if(e: BodyEmitter, op: scf.IfOp, condition: SSAValue, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    """Both sides for all lanes, each under its mask."""
    builder = e.builder
    true = builder.broadcast(builder.constant(True, i1), e.lanes)
    otherwise = builder.hoisted(arith.XOrIOp(condition, true)).result
    sides: list[list[Value]] = []
    for side, taken in ((op.true_region, condition), (op.false_region, otherwise)):
        mask = taken if e.mask is None else builder.hoisted(arith.AndIOp(e.mask, taken)).result
        inner = replace(e, mask=mask, guarded=True, count=None)
        sides.append(inner.run(side.block, dict(env)) if side.blocks else [])
    return [select(e, condition, a, b) for a, b in zip(*sides, strict=True)]


def _uniform_if(e: BodyEmitter, op: scf.IfOp, condition: SSAValue, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    """A branch. Its results are scalars where both sides are uniform."""
    builder = e.builder
    sides = [op.true_region, op.false_region] if op.false_region.blocks else [op.true_region]
    regions = [Region(Block()) for _ in sides]
    draft = builder.insert(scf.IfOp(condition, [], regions[0], regions[1] if len(regions) > 1 else None))
    yielded: list[list[Value]] = []
    for side, region in zip(sides, regions):
        with builder.branch(draft, region):
            yielded.append(e.run(side.block, dict(env)))
    uniform = [all(e.scalar(v) is not None for v in values) for values in zip(*yielded, strict=True)]
    for region, values in zip(regions, yielded):
        with builder.branch(draft, region):
            ends = [e.scalar(v) if u else e.vector(v) for v, u in zip(values, uniform)]
            builder.insert(scf.YieldOp(*(v for v in ends if v is not None)))
    types = [r.type if u else e.type_of(r.type) for r, u in zip(op.results, uniform)]
    if not types:
        return ()
    moved = [draft.detach_region(r) for r in regions]
    final = builder.insert(scf.IfOp(condition, types, moved[0], moved[1]))
    draft.detach()
    draft.erase()
    return [_tracked(r) for r in final.results]


def _for(e: BodyEmitter, op: Operation, env: Mapping[SSAValue, Value]) -> Sequence[Value]:
    """A loop whose bounds are uniform; what it carries is kept for each lane."""
    assert isinstance(op, scf.ForOp)
    bounds = [e.scalar(e.value(v, env)) for v in (op.lb, op.ub, op.step)]
    lower, upper, step = (b for b in bounds if b is not None)
    carried = [e.vector(e.value(v, env)) for v in op.iter_args]
    with e.builder.loop(lower, upper, step, carried) as loop:
        inner = dict(env)
        inner[op.body.block.args[0]] = Lanes(loop.index)
        inner.update(zip(op.body.block.args[1:], map(_tracked, loop.carried)))
        loop.carry([e.vector(v) for v in e.run(op.body.block, inner)])
    return [_tracked(r) for r in loop.results]


RULES: dict[type[Operation], Rule] = {
    arith.ConstantOp: _constant,
    kernel.DimOp: _dim,
    linalg.IndexOp: _index,
    arith.AddiOp: _index_binary(lambda e, a, b: e.add(a, b)),
    arith.SubiOp: _index_binary(lambda e, a, b: e.subtract(a, b)),
    arith.MuliOp: _index_binary(lambda e, a, b: e.multiply(a, b)),
    arith.DivSIOp: _folded(_quotient),
    arith.DivUIOp: _folded(_quotient),
    arith.FloorDivSIOp: _folded(_quotient),
    arith.RemSIOp: _folded(_remainder),
    arith.RemUIOp: _folded(_remainder),
    arith.MinSIOp: _folded(_extremum(min)),
    arith.MaxSIOp: _folded(_extremum(max)),
    arith.CmpiOp: _compare,
    arith.CmpfOp: _compare,
    arith.SelectOp: _select,
    vectorx.SelectOp: _select,
    vectorx.ConvertOp: _convert,
    tensor.ExtractOp: _extract,
    kernel.CheckOp: _check,
    scf.IfOp: _if,
    scf.ForOp: _for,
} | dict.fromkeys(_CONVERSIONS, _convert)
