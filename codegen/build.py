"""Builds functions of the llvm and llvmx dialects.

`FunctionBuilder` holds one `llvm.func` and appends operations to its current block; each method returns the result.
It uses `.create`, shared types and shared attributes, since thousands of operations are built for a model.

    f = FunctionBuilder("add_one", [PTR, I64], I32)
    pointer, index = f.args
    address = f.gep(pointer, index, F32)
    f.store(f.fadd(f.load(address, F32, 4), f.const(1.0, F32)), address, 4)
    f.ret(f.const(0, I32))
    module = module_of([f.func], target)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ..dialects import llvmx
from ..dialects.target import Target, TargetAttr
from .llvm_types import I1, I32, I64, PTR, VOID, Constant, bits_of, element_of, like, suffix, vector

# --- shared attributes ---


@cache
def _string(text: str) -> StringAttr:
    return StringAttr(text)


@cache
def _int64(value: int) -> IntegerAttr:
    return IntegerAttr(value, 64)


@cache
def _int32(value: int) -> IntegerAttr:
    return IntegerAttr(value, 32)


@cache
def _symbol(name: str) -> SymbolRefAttr:
    return SymbolRefAttr(name)


@cache
def _linkage(name: str) -> llvm.LinkageAttr:
    return llvm.LinkageAttr(name)


@cache
def _lane_list(lanes: tuple[int, ...]) -> DenseArrayBase:
    return DenseArrayBase.from_list(I32, lanes)


FORMATS: Mapping[type[Attribute], str] = {Float16Type: "e", Float32Type: "f", Float64Type: "d"}
"""How `struct` packs a float type."""

BITCAST: Mapping[str, Attribute] = {"kind": _string("bitcast")}
_NO_FASTMATH = llvm.FastMathAttr(None)
_FLOAT_PROPERTIES: Mapping[str, Attribute] = {"fastmathFlags": _NO_FASTMATH}
_NO_FLAGS: Mapping[str, Attribute] = {"overflowFlags": _int32(0)}
_NSW: Mapping[str, Attribute] = {"overflowFlags": _int32(1)}
_EMPTY: Mapping[str, Attribute] = {}
_NO_BUNDLES = DenseArrayBase.from_list(I32, ())
_CCC = llvm.CallingConventionAttr("ccc")
_NO_TAIL = llvm.TailCallKindAttr(llvm.TailCallKind.NONE)
_UNIT = UnitAttr()
_ICMP = {flag.value: _int64(flag.to_int()) for flag in llvm.ICmpPredicateFlag}

_constants: dict[tuple[object, Attribute], Attribute] = {}


def constant_attribute(value: Constant, type_: Attribute) -> Attribute:
    """The attribute of a scalar, or of an integer vector with that value in all lanes. Integers wrap at their width."""
    element = element_of(type_)
    if isinstance(element, IntegerType):
        width = element.width.data
        wrapped = int(value) & ((1 << width) - 1)
        value = wrapped - (1 << width) if width > 1 and wrapped >> (width - 1) else wrapped
        key: object = value
    else:
        value = float(value)
        key = struct.pack("<d", value)  # keeps -0.0 apart from 0.0 and finds NaN
    found = _constants.get((key, type_))
    if found is None:
        found = _constants[key, type_] = _new_constant(value, type_)
    return found


def dense_attribute(values: Sequence[int], type_: VectorType) -> DenseIntOrFPElementsAttr:
    """The attribute of a vector of integers: one value for each lane, or one for all."""
    from_list = cast(Callable[[Attribute, list[int]], DenseIntOrFPElementsAttr], DenseIntOrFPElementsAttr.from_list)
    return from_list(type_, list(values))


def _new_constant(value: Constant, type_: Attribute) -> Attribute:
    if isinstance(type_, VectorType):
        return dense_attribute([int(value)], type_)
    if isinstance(type_, IntegerType):
        return IntegerAttr(int(value), type_)
    assert isinstance(type_, Float16Type | BFloat16Type | Float32Type | Float64Type)
    return FloatAttr(value, type_)


# --- functions and modules ---


def declare(name: str, args: Sequence[Attribute], result: Attribute = VOID) -> llvm.FuncOp:
    """A function that is defined elsewhere; objects allow only those of `objects.ALLOWED_SYMBOLS`."""
    return _function(name, args, result, "external", Region([]), ("nounwind",), None)


def _function(
    name: str,
    args: Sequence[Attribute],
    result: Attribute,
    linkage: str,
    body: Region,
    attrs: Iterable[str],
    arg_attrs: Sequence[Mapping[str, Attribute]] | None,
) -> llvm.FuncOp:
    other: dict[str, Attribute | None] = {"unnamed_addr": _int64(0)}
    if arg_attrs is not None and any(arg_attrs):
        other["arg_attrs"] = ArrayAttr([DictionaryAttr(dict(attr)) for attr in arg_attrs])
    return llvm.FuncOp(
        name,
        llvm.LLVMFunctionType(list(args), result),
        _linkage(linkage),
        body=body,
        other_props=other,
        extra_attrs={"llvmx.attrs": ArrayAttr([_string(text) for text in attrs])},
    )


def module_of(functions: Iterable[Operation], target: Target | None) -> ModuleOp:
    """A module of functions (and globals) for a target."""
    attributes: dict[str, Attribute] = {} if target is None else {"sx.target": TargetAttr(target)}
    return ModuleOp(list(functions), attributes)


class FunctionBuilder:
    """One `llvm.func` in the making. `block` is where operations go; constants go to the entry block, once each."""

    def __init__(
        self,
        name: str,
        args: Sequence[Attribute],
        result: Attribute = VOID,
        *,
        linkage: str = "internal",
        attrs: Iterable[str] = ("nounwind",),
        arg_attrs: Sequence[Mapping[str, Attribute]] | None = None,
    ) -> None:
        self.entry = Block(arg_types=list(args))
        self.block = self.entry
        self.region = Region(self.entry)
        self.func = _function(name, args, result, linkage, self.region, attrs, arg_attrs)
        self.args: Sequence[SSAValue] = self.entry.args
        self.attributes: Mapping[str, Attribute] = _EMPTY
        """Given to every operation made: the origin of what is being translated."""
        self._constants: dict[tuple[object, ...], SSAValue] = {}
        self._numbers: dict[tuple[object, int], tuple[SSAValue, Attribute]] = {}
        self._last_literal: Operation | None = None

    # blocks

    def new_block(self, *types: Attribute) -> Block:
        """A further block, with arguments of these types; it does not become the current one."""
        block = Block(arg_types=types)
        self.region.add_block(block)
        return block

    def at(self, block: Block) -> Sequence[SSAValue]:
        """Goes on in that block; gives its arguments."""
        self.block = block
        return block.args

    # the one way in

    def insert(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        result: Attribute,
        properties: Mapping[str, Attribute] = _EMPTY,
    ) -> SSAValue:
        """Appends an operation with one result."""
        op = kind.create(operands=operands, result_types=(result,), properties=properties, attributes=self.attributes)
        self.block.add_op(op)
        return op.results[0]

    def do(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        properties: Mapping[str, Attribute] = _EMPTY,
        successors: Sequence[Block] = (),
    ) -> None:
        """Appends an operation without a result."""
        self.block.add_op(
            kind.create(operands=operands, properties=properties, attributes=self.attributes, successors=successors)
        )

    # constants

    def const(self, value: Constant, type_: Attribute) -> SSAValue:
        """A scalar constant, or a vector with that value in all lanes.

        A float vector is a splat of a scalar: xDSL prints infinity and some numbers in a dense attribute as bits, and
        reads these bits as an integer.  So is one of integers beyond 64 bits, which xDSL has no dense attribute of.
        """
        key = (value or str(value), id(type_))  # 0.0 and -0.0 are equal, their texts are not
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = self._new_const(value, type_), type_  # the type stays, and so its id
        return found[0]

    def _new_const(self, value: Constant, type_: Attribute) -> SSAValue:
        element = element_of(type_)
        if element is type_ or (isinstance(element, IntegerType) and element.width.data <= 64):
            return self.literal(constant_attribute(value, type_), type_)
        return self._once(llvmx.SplatOp, (self.const(value, element),), type_)

    def const_lanes(self, values: Sequence[Constant], type_: VectorType) -> SSAValue:
        """A vector constant, lane by lane; of floats, one made of its bits."""
        element = element_of(type_)
        if isinstance(element, IntegerType):
            return self.literal(dense_attribute([int(value) for value in values], type_), type_)
        bits = IntegerType(bits_of(element))
        data = struct.pack(f"<{len(values)}{FORMATS[type(element)]}", *values)
        integers = VectorType(bits, [len(values)])
        pattern = self.literal(DenseIntOrFPElementsAttr(integers, BytesAttr(data)), integers)
        return self._once(llvmx.CastOp, (pattern,), type_, BITCAST)

    def literal(self, attribute: Attribute, type_: Attribute) -> SSAValue:
        """A constant from its attribute."""
        return self._once(llvm.ConstantOp, (), type_, {"value": attribute})

    def _once(
        self,
        kind: type[Operation],
        operands: tuple[SSAValue, ...],
        type_: Attribute,
        properties: Mapping[str, Attribute] = _EMPTY,
    ) -> SSAValue:
        """An operation in the entry block that depends on nothing but constants, made at the first call."""
        key = (kind, operands, type_, *properties.values())
        found = self._constants.get(key)
        if found is None:
            op = kind.create(operands=operands, result_types=(type_,), properties=properties)
            self._insert_literal(op)
            found = self._constants[key] = op.results[0]
        return found

    def poison(self, type_: Attribute) -> SSAValue:
        """A value that nobody looks at."""
        return self._once(llvmx.PoisonOp, (), type_)

    def _insert_literal(self, op: Operation) -> None:
        last, first = self._last_literal, self.entry.first_op
        if last is not None:
            self.entry.insert_op_after(op, last)
        elif first is not None:
            self.entry.insert_op_before(op, first)
        else:
            self.entry.add_op(op)
        self._last_literal = op

    def null(self) -> SSAValue:
        """The null pointer."""
        return self.insert(llvm.ZeroOp, (), PTR)

    def address_of(self, symbol: str) -> SSAValue:
        """The address of a function or global of the module."""
        return self.insert(llvm.AddressOfOp, (), PTR, {"global_name": _symbol(symbol)})

    # integers

    def add(self, a: SSAValue, b: SSAValue, *, nsw: bool = False) -> SSAValue:
        return self.insert(llvm.AddOp, (a, b), a.type, _NSW if nsw else _NO_FLAGS)

    def sub(self, a: SSAValue, b: SSAValue, *, nsw: bool = False) -> SSAValue:
        return self.insert(llvm.SubOp, (a, b), a.type, _NSW if nsw else _NO_FLAGS)

    def mul(self, a: SSAValue, b: SSAValue, *, nsw: bool = False) -> SSAValue:
        return self.insert(llvm.MulOp, (a, b), a.type, _NSW if nsw else _NO_FLAGS)

    def shl(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(llvm.ShlOp, (a, b), a.type, _NO_FLAGS)

    def binary(self, kind: type[Operation], a: SSAValue, b: SSAValue) -> SSAValue:
        """A binary operation that has no flags set: `llvm.SDivOp`, `llvm.AndOp`, ..."""
        return self.insert(kind, (a, b), a.type)

    def and_(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(llvm.AndOp, (a, b), a.type)

    def or_(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(llvm.OrOp, (a, b), a.type)

    def xor(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(llvm.XOrOp, (a, b), a.type)

    def lshr(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(llvm.LShrOp, (a, b), a.type)

    def ashr(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(llvm.AShrOp, (a, b), a.type)

    def not_(self, a: SSAValue) -> SSAValue:
        """All bits turned over."""
        return self.xor(a, self.const(-1, a.type))

    def icmp(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """Compares integers: eq ne slt sle sgt sge ult ule ugt uge."""
        return self.insert(llvm.ICmpOp, (a, b), like(a.type, I1), {"predicate": _ICMP[predicate]})

    # floats

    def fadd(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(llvm.FAddOp, (a, b), a.type, _FLOAT_PROPERTIES)

    def fsub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(llvm.FSubOp, (a, b), a.type, _FLOAT_PROPERTIES)

    def fmul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(llvm.FMulOp, (a, b), a.type, _FLOAT_PROPERTIES)

    def fdiv(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.insert(llvm.FDivOp, (a, b), a.type, _FLOAT_PROPERTIES)

    def fneg(self, a: SSAValue) -> SSAValue:
        return self.insert(llvm.FNegOp, (a,), a.type, _FLOAT_PROPERTIES)

    def fma(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        """a*b + c, rounded once."""
        return self.intrinsic("llvm.fma", (a, b, c), a.type)

    def fcmp(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """Compares floats: oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno."""
        return self.insert(llvmx.FCmpOp, (a, b), like(a.type, I1), {"predicate": _string(predicate)})

    # both

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """`a` where the condition (one i1, or one for each lane) holds, else `b`."""
        return self.insert(llvmx.SelectOp, (condition, a, b), a.type)

    def cast(self, kind: str, value: SSAValue, type_: Attribute) -> SSAValue:
        """LLVM's conversion of that name, see `llvmx.CASTS`."""
        return self.insert(llvmx.CastOp, (value,), type_, {"kind": _string(kind)})

    def bitcast(self, value: SSAValue, type_: Attribute) -> SSAValue:
        return self.insert(llvmx.CastOp, (value,), type_, BITCAST)

    def intrinsic(self, name: str, args: Sequence[SSAValue], type_: Attribute) -> SSAValue:
        """Calls `name`, to which the result's type is added as LLVM mangles it: `llvm.fma` gives `llvm.fma.v16f32`."""
        return self.raw_intrinsic(f"{name}.{suffix(type_)}", args, type_)

    def raw_intrinsic(
        self, name: str, args: Sequence[SSAValue], type_: Attribute, fastmath: Sequence[str] = ()
    ) -> SSAValue:
        """Calls an intrinsic by its full name."""
        properties: dict[str, Attribute] = {"intrinsic": _string(name)}
        if fastmath:
            properties["fastmath"] = ArrayAttr([_string(flag) for flag in fastmath])
        return self.insert(llvmx.IntrinsicOp, args, type_, properties)

    def call_intrinsic(self, name: str, args: Sequence[SSAValue]) -> None:
        """Calls an intrinsic without a result by its full name."""
        self.do(llvmx.IntrinsicOp, args, {"intrinsic": _string(name)})

    def freeze(self, value: SSAValue) -> SSAValue:
        """The value, whose making the code generator does not repeat."""
        return self.insert(llvmx.FreezeOp, (value,), value.type)

    # vectors

    def splat(self, value: SSAValue, lanes: int) -> SSAValue:
        """One scalar in all lanes; of a constant a constant."""
        owner = value.owner
        if isinstance(owner, llvm.ConstantOp) and isinstance(owner.value, IntegerAttr | FloatAttr):
            return self.const(owner.value.value.data, vector(lanes, value.type))
        return self.insert(llvmx.SplatOp, (value,), vector(lanes, value.type))

    def shuffle(self, a: SSAValue, b: SSAValue, lanes: Sequence[int]) -> SSAValue:
        """Picks lanes of `a` and, numbered behind them, of `b`; -1 leaves a lane open."""
        type_ = vector(len(lanes), element_of(a.type))
        return self.insert(llvm.ShuffleVectorOp, (a, b), type_, {"mask": _lane_list(tuple(lanes))})

    def extract(self, value: SSAValue, lane: int | SSAValue) -> SSAValue:
        """One lane of a vector."""
        index = self.const(lane, I64) if isinstance(lane, int) else lane
        return self.insert(llvmx.ExtractElementOp, (value, index), element_of(value.type))

    def insert_lane(self, value: SSAValue, scalar: SSAValue, lane: int | SSAValue) -> SSAValue:
        """The vector with one lane replaced."""
        index = self.const(lane, I64) if isinstance(lane, int) else lane
        return self.insert(llvm.InsertElementOp, (value, scalar, index), value.type)

    # memory

    def gep(self, pointer: SSAValue, index: SSAValue, element: Attribute) -> SSAValue:
        """The address of `pointer[index]`, counted in elements; inbounds."""
        properties: dict[str, Attribute] = {
            "rawConstantIndices": _lane_list((llvm.GEP_USE_SSA_VAL,)),
            "elem_type": element,
            "noWrapFlags": _int32(0),
            "inbounds": _UNIT,
        }
        return self.insert(llvm.GEPOp, (pointer, index), PTR, properties)

    def offset(self, pointer: SSAValue, index: int, element: Attribute) -> SSAValue:
        """The address of `pointer[index]` for a number known now."""
        properties: dict[str, Attribute] = {
            "rawConstantIndices": _lane_list((index,)),
            "elem_type": element,
            "noWrapFlags": _int32(0),
            "inbounds": _UNIT,
        }
        return self.insert(llvm.GEPOp, (pointer,), PTR, properties)

    def load(self, pointer: SSAValue, type_: Attribute, alignment: int) -> SSAValue:
        """Loads a value that lies at a multiple of `alignment` bytes."""
        return self.insert(llvm.LoadOp, (pointer,), type_, {"ordering": _int64(0), "alignment": _int64(alignment)})

    def store(self, value: SSAValue, pointer: SSAValue, alignment: int) -> None:
        """Stores a value to a multiple of `alignment` bytes."""
        self.do(llvm.StoreOp, (value, pointer), {"ordering": _int64(0), "alignment": _int64(alignment)})

    def nontemporal_store(self, value: SSAValue, pointer: SSAValue, alignment: int) -> None:
        """The same round the caches; other threads see it after a `fence`."""
        self.do(llvmx.NontemporalStoreOp, (value, pointer), {"alignment": _int64(alignment)})

    def load_slot(self, pointer: SSAValue, slot: int, type_: Attribute = I64) -> SSAValue:
        """Loads the 8-byte slot of that number: how arguments, frames and the context are laid out."""
        return self.load(self.offset(pointer, slot, I64), type_, 8)

    def store_slot(self, value: SSAValue, pointer: SSAValue, slot: int) -> None:
        """Stores to an 8-byte slot."""
        self.store(value, self.offset(pointer, slot, I64), 8)

    def masked_load(self, pointer: SSAValue, mask: SSAValue, passthru: SSAValue, alignment: int) -> SSAValue:
        """The lanes of the mask from memory, the others from `passthru`."""
        return self.insert(
            llvmx.MaskedLoadOp, (pointer, mask, passthru), passthru.type, {"alignment": _int64(alignment)}
        )

    def masked_store(self, value: SSAValue, pointer: SSAValue, mask: SSAValue, alignment: int) -> None:
        """The lanes of the mask to memory."""
        self.do(llvmx.MaskedStoreOp, (value, pointer, mask), {"alignment": _int64(alignment)})

    def gather(
        self, pointer: SSAValue, offsets: SSAValue, mask: SSAValue, passthru: SSAValue, alignment: int
    ) -> SSAValue:
        """Element `offsets[lane]` behind the pointer for the lanes of the mask, the others from `passthru`."""
        return self.insert(
            llvmx.GatherOp, (pointer, offsets, mask, passthru), passthru.type, {"alignment": _int64(alignment)}
        )

    def scatter(self, value: SSAValue, pointer: SSAValue, offsets: SSAValue, mask: SSAValue, alignment: int) -> None:
        """The lanes of the mask to element `offsets[lane]` behind the pointer, in lane order."""
        self.do(llvmx.ScatterOp, (value, pointer, offsets, mask), {"alignment": _int64(alignment)})

    def alloca(self, element: Attribute, count: int, alignment: int) -> SSAValue:
        """Stack memory for the whole function (made in the entry block)."""
        op = llvm.AllocaOp.create(
            operands=(self.const(count, I64),),
            result_types=(PTR,),
            properties={"elem_type": element, "alignment": _int64(alignment)},
        )
        assert self._last_literal is not None
        self.entry.insert_op_after(op, self._last_literal)
        return op.results[0]

    # control

    def br(self, target: Block, args: Sequence[SSAValue] = ()) -> None:
        self.do(llvm.BrOp, args, successors=(target,))

    def cond_br(
        self,
        condition: SSAValue,
        then: Block,
        then_args: Sequence[SSAValue],
        otherwise: Block,
        otherwise_args: Sequence[SSAValue],
        weights: tuple[int, int] | None = None,
    ) -> None:
        """`weights` says how often it goes one way for how often it goes the other."""
        segments = _lane_list((1, len(then_args), len(otherwise_args)))
        self.do(
            llvm.CondBrOp,
            (condition, *then_args, *otherwise_args),
            {"operandSegmentSizes": segments},
            (then, otherwise),
        )
        last = self.block.last_op
        if weights is not None and last is not None:
            last.attributes = {**last.attributes, llvmx.WEIGHTS: _lane_list(weights)}

    def ret(self, value: SSAValue | None = None) -> None:
        self.do(llvm.ReturnOp, () if value is None else (value,))

    def unreachable(self) -> None:
        self.do(llvm.UnreachableOp, ())

    def call(self, callee: str, args: Sequence[SSAValue], result: Attribute | None = None) -> SSAValue | None:
        """Calls a function of the module (declared or defined); `result` is its type, None for void."""
        properties: dict[str, Attribute] = {
            "callee": _symbol(callee),
            "fastmathFlags": _NO_FASTMATH,
            "CConv": _CCC,
            "TailCallKind": _NO_TAIL,
            "op_bundle_sizes": _NO_BUNDLES,
            "operandSegmentSizes": _lane_list((len(args), 0)),
        }
        if result is None:
            self.do(llvm.CallOp, args, properties)
            return None
        return self.insert(llvm.CallOp, args, result, properties)

    def call_indirect(
        self, callee: SSAValue, args: Sequence[SSAValue], result: Attribute | None = None
    ) -> SSAValue | None:
        """Calls through a pointer; `result` is its type, None for void."""
        if result is None:
            self.do(llvmx.CallIndirectOp, (callee, *args))
            return None
        return self.insert(llvmx.CallIndirectOp, (callee, *args), result)

    # atomics

    def atomic_load(self, pointer: SSAValue, type_: Attribute, ordering: str) -> SSAValue:
        return self.insert(llvmx.AtomicLoadOp, (pointer,), type_, {"ordering": _string(ordering)})

    def atomic_store(self, value: SSAValue, pointer: SSAValue, ordering: str) -> None:
        self.do(llvmx.AtomicStoreOp, (value, pointer), {"ordering": _string(ordering)})

    def atomic_rmw(self, kind: str, pointer: SSAValue, value: SSAValue, ordering: str) -> SSAValue:
        """Changes memory in one step and gives the value from before; kinds see `llvmx.RMW_KINDS`."""
        properties = {"kind": _string(kind), "ordering": _string(ordering)}
        return self.insert(llvmx.AtomicRMWOp, (pointer, value), value.type, properties)

    def cmpxchg(
        self, pointer: SSAValue, expected: SSAValue, desired: SSAValue, success: str, failure: str
    ) -> tuple[SSAValue, SSAValue]:
        """Stores `desired` if the memory holds `expected`; gives the value from before and whether it stored."""
        op = llvmx.CompareExchangeOp.create(
            operands=(pointer, expected, desired),
            result_types=(expected.type, I1),
            properties={"success": _string(success), "failure": _string(failure)},
            attributes=self.attributes,
        )
        self.block.add_op(op)
        return op.results[0], op.results[1]

    def fence(self, ordering: str) -> None:
        self.do(llvmx.FenceOp, (), {"ordering": _string(ordering)})
