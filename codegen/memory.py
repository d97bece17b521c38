"""Loads and stores: flat memrefs are pointers, and each access is a `getelementptr inbounds` and a load or store.

Booleans are i1 in values and bytes in memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import IntegerAttr, IntegerType, MemRefType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from ..dialects import llvmx, vectorx
from .build import FunctionBuilder
from .llvm_types import I1, I8, I32, I64, bits_of, element_of, like
from .llvm_types import vector as vector_type
from .scope import Scope, TranslateError, Translation, memory_type, operands

LINE_BYTES = 64


def _element(base: SSAValue) -> Attribute:
    """How the elements behind a memref lie in memory."""
    if not isa(base.type, MemRefType):
        raise TranslateError(f"{base.type} is no memref")
    if len(base.type.shape) != 1:
        raise TranslateError(f"{base.type}: memrefs are flat at this level")
    return memory_type(base.type.element_type)


def from_memory(f: FunctionBuilder, value: SSAValue, type_: Attribute) -> SSAValue:
    """A loaded value as the value of `type_`: bytes become booleans."""
    if element_of(type_) != I1:
        return value
    return f.icmp("ne", value, f.const(0, value.type))


def to_memory(f: FunctionBuilder, value: SSAValue) -> SSAValue:
    """A value as it lies in memory: booleans become bytes."""
    return f.cast("zext", value, like(value.type, I8)) if element_of(value.type) == I1 else value


def _bytes(element: Attribute) -> int:
    """The alignment of an element in memory: arrays of what is wider than a word start at any word."""
    return min(bits_of(element) // 8, 8)


def _load(scope: Scope, op: Operation) -> None:
    """memref.load and vector.load."""
    element = _element(op.operands[0])
    base, index = operands(scope, op)
    result = op.results[0]
    type_ = scope.type(result.type)
    f = scope.f
    loaded = f.load(f.gep(base, index, element), like(type_, element), _bytes(element))
    scope.values[result] = from_memory(f, loaded, type_)


def _store(scope: Scope, op: Operation) -> None:
    """memref.store and vector.store. A nontemporal one is of whole vectors, to multiples of their size or of a line."""
    element = _element(op.operands[1])
    value, base, index = operands(scope, op)
    f = scope.f
    value, address = to_memory(f, value), f.gep(base, index, element)
    nontemporal = op.properties.get("nontemporal")
    if isinstance(nontemporal, IntegerAttr) and nontemporal.value.data:
        scope.nontemporal = True
        f.nontemporal_store(value, address, min(LINE_BYTES, bits_of(value.type) // 8))
    else:
        f.store(value, address, _bytes(element))


def _address(scope: Scope, op: Operation) -> None:
    """memref.extract_aligned_pointer_as_index."""
    scope.values[op.results[0]] = scope.f.cast("ptrtoint", scope.values[op.operands[0]], I64)


def _masked_load(scope: Scope, op: Operation) -> None:
    element = _element(op.operands[0])
    base, index, mask, passthru = operands(scope, op)
    type_ = scope.type(op.results[0].type)
    f = scope.f
    loaded = f.masked_load(f.gep(base, index, element), mask, to_memory(f, passthru), _bytes(element))
    scope.values[op.results[0]] = from_memory(f, loaded, type_)


def _masked_store(scope: Scope, op: Operation) -> None:
    element = _element(op.operands[0])
    base, index, mask, value = operands(scope, op)
    f = scope.f
    f.masked_store(to_memory(f, value), f.gep(base, index, element), mask, _bytes(element))


def _gather(scope: Scope, op: Operation) -> None:
    assert isinstance(op, vectorx.GatherOp)
    f, values = scope.f, scope.values
    element = _element(op.base)
    type_ = scope.type(op.result.type)
    loaded_type = like(type_, element)
    mask = f.const(1, like(type_, I1)) if op.mask is None else values[op.mask]
    passthru = f.poison(loaded_type) if op.passthru is None else to_memory(f, values[op.passthru])
    loaded = f.gather(values[op.base], values[op.offsets], mask, passthru, _bytes(element))
    values[op.result] = from_memory(f, loaded, type_)


def _scatter(scope: Scope, op: Operation) -> None:
    assert isinstance(op, vectorx.ScatterOp)
    f, values = scope.f, scope.values
    element = _element(op.base)
    value = to_memory(f, values[op.value])
    mask = f.const(1, like(value.type, I1)) if op.mask is None else values[op.mask]
    f.scatter(value, values[op.base], values[op.offsets], mask, _bytes(element))


def _prefetch(scope: Scope, op: Operation) -> None:
    assert isinstance(op, vectorx.PrefetchOp)
    f, values = scope.f, scope.values
    address = f.gep(values[op.base], values[op.index], _element(op.base))
    write, data = f.const(op.write is not None, I32), f.const(1, I32)
    f.call_intrinsic("llvm.prefetch.p0", (address, write, f.const(op.locality.value.data, I32), data))


def _alloca(scope: Scope, op: Operation) -> None:
    """Stack memory of a size known now, aligned to a vector."""
    assert isinstance(op, memref.AllocaOp)
    type_ = op.memref.type
    assert isa(type_, MemRefType)
    size = type_.element_count() if type_.has_static_shape() else -1
    if size < 0 or op.dynamic_sizes:
        raise TranslateError(f"{op.name} of a size that is not known: use kernel.scratch")
    scope.values[op.memref] = scope.f.alloca(memory_type(type_.element_type), size, 64)


def _view(scope: Scope, op: Operation) -> None:
    """The same memory from a byte on, as other elements."""
    assert isinstance(op, memref.ViewOp)
    f, values = scope.f, scope.values
    values[op.results[0]] = f.gep(values[op.source], values[op.byte_shift], I8)


def _create_mask(scope: Scope, op: Operation) -> None:
    """Lane i is set where i is below the size: compares lane numbers, as wide as fits one vector register."""
    (size,) = operands(scope, op)
    type_ = scope.type(op.results[0].type)
    lanes = llvmx.lanes_of(type_)
    if lanes is None:
        raise TranslateError(f"{op.name} of {type_}")
    scope.values[op.results[0]] = lane_mask(scope.f, size, lanes, scope.module.target.vector_bytes)


def lane_mask(f: FunctionBuilder, size: SSAValue, lanes: int, vector_bytes: int) -> SSAValue:
    """The mask of the first `size` of `lanes` lanes; any i64 will do for the size."""
    clamped = f.intrinsic("llvm.smax", (size, f.const(0, size.type)), size.type)
    clamped = f.intrinsic("llvm.smin", (clamped, f.const(lanes, size.type)), size.type)
    if vector_bytes == 64 and 8 <= lanes <= 32:
        # such a processor has masks of bits: a shift is less work than vectors that are compared
        bits = f.not_(f.shl(f.const(-1, I64), clamped))
        return f.bitcast(f.cast("trunc", bits, IntegerType(lanes)), vector_type(lanes, I1))
    width = min(64, max(8, vector_bytes * 8 // lanes))
    if lanes >= 1 << (width - 1):
        width *= 2
    width = min(64, max(width, 8))
    number = IntegerType(width)
    narrow = clamped if width == 64 else f.cast("trunc", clamped, number)
    step = f.const_lanes(range(lanes), vector_type(lanes, number))
    return f.icmp("slt", step, f.splat(narrow, lanes))


MEMORY: Mapping[type[Operation], Translation] = {
    memref.LoadOp: _load,
    memref.StoreOp: _store,
    memref.AllocaOp: _alloca,
    memref.ViewOp: _view,
    vector.LoadOp: _load,
    vector.StoreOp: _store,
    vector.MaskedLoadOp: _masked_load,
    vector.MaskedStoreOp: _masked_store,
    memref.ExtractAlignedPointerAsIndexOp: _address,
    vector.CreateMaskOp: _create_mask,
    vectorx.GatherOp: _gather,
    vectorx.ScatterOp: _scatter,
    vectorx.PrefetchOp: _prefetch,
}
