"""The llvm and llvmx dialects: text that parses back, LLVM IR that LLVM takes, refusals; and objects."""

from __future__ import annotations

import ctypes

import llvmlite.binding as llvm
import pytest
from harness import parse
from sardonyx.codegen.build import FunctionBuilder, declare, module_of
from sardonyx.codegen.literals import EmitError, float_text
from sardonyx.codegen.llvm_text import emit
from sardonyx.codegen.llvm_types import F32, I32, I64, PTR
from sardonyx.codegen.objects import ObjectError, assembly, compile_object
from sardonyx.dialects.target import AVX2, AVX512

EVERYTHING = """
llvm.func @outside(i64) -> i64
llvm.mlir.global internal constant @table(dense<[1, 2, 3]> : tensor<3xi32>) : !llvm.array<3 x i32>
llvm.func @f(%p: !llvm.ptr {llvm.noalias, llvm.align = 64 : i64}, %n: i64) -> i64
  attributes {llvmx.attrs = ["nounwind"]} {
  %one = llvm.mlir.constant(1) : i64
  %x = llvm.mlir.constant(1.5 : f32) : f32
  %v = llvmx.splat %x : f32 to vector<8xf32>
  %w = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
  %m = llvmx.fcmp "olt" %w, %v : vector<8xf32> to vector<8xi1>
  %s = llvmx.select %m, %w, %v : vector<8xi1>, vector<8xf32>
  %i = llvmx.cast "fptosi" %s : vector<8xf32> to vector<8xi64>
  %e = llvmx.extractelement %s[%one : i64] : vector<8xf32> to f32
  %u = llvmx.poison : vector<8xf32>
  %l = llvmx.masked_load %p, %m, %u align 4 : i64 : !llvm.ptr, vector<8xi1>, vector<8xf32> to vector<8xf32>
  llvmx.masked_store %l, %p, %m align 4 : i64 : vector<8xf32>, !llvm.ptr, vector<8xi1>
  %g = llvmx.gather %p[%i], %m, %u align 4 : i64
    : !llvm.ptr, vector<8xi64>, vector<8xi1>, vector<8xf32> to vector<8xf32>
  llvmx.scatter %g, %p[%i], %m align 4 : i64 : vector<8xf32>, !llvm.ptr, vector<8xi64>, vector<8xi1>
  llvmx.nontemporal_store %g, %p align 32 : i64 : vector<8xf32>, !llvm.ptr
  %f = llvmx.intrinsic "llvm.fma.v8f32" (%g, %v, %s) : (vector<8xf32>, vector<8xf32>, vector<8xf32>) -> vector<8xf32>
  %zero = llvm.mlir.constant(0.0 : f32) : f32
  %r = llvmx.intrinsic "llvm.vector.reduce.fadd.v8f32" (%zero, %f) fastmath ["reassoc"]
    : (f32, vector<8xf32>) -> f32
  %t = llvm.fadd %r, %e {fastmathFlags = #llvm.fastmath<contract>} : f32
  llvm.store %t, %p {alignment = 4 : i64} : f32, !llvm.ptr
  %a = llvmx.atomic_load "acquire" %p : !llvm.ptr to i64
  llvmx.atomic_store "release" %a, %p : i64, !llvm.ptr
  %b = llvmx.atomic_rmw "add" "acq_rel" %p, %a : !llvm.ptr, i64
  %old, %done = llvmx.cmpxchg "seq_cst" "monotonic" %p, %a, %b : !llvm.ptr, i64, i1
  llvmx.fence "seq_cst"
  %q = llvm.mlir.addressof @outside : !llvm.ptr
  %c = llvmx.call_indirect %q(%old) : !llvm.ptr, (i64) -> i64
  %d = llvm.call @outside(%c) : (i64) -> i64
  llvm.cond_br %done, ^again(%d : i64), ^again(%n : i64)
^again(%k: i64):
  %frozen = llvmx.freeze %k : i64
  %small = llvm.trunc %frozen : i64 to i32
  llvmx.switch %small : i32 [1, 5], ^other, ^first, ^second
^first:
  llvm.return %one : i64
^second:
  llvm.br ^again(%one : i64)
^other:
  llvm.return %k : i64
}
"""


def link(module_text: str, symbol: str) -> tuple[object, int]:
    """An object of a module's LLVM text in this process: (what keeps it, its address)."""
    image = compile_object(module_text, AVX2)
    jit = llvm.create_lljit_compiler()
    library = (
        llvm.JITLibraryBuilder().add_object_img(image).add_current_process().export_symbol(symbol).link(jit, symbol)
    )
    return (jit, library), library[symbol]


def test_every_operation_prints_parses_and_is_llvm() -> None:
    module = parse(EVERYTHING)
    assert parse(str(module)).is_structurally_equivalent(module)
    text = emit(module)
    parsed = llvm.parse_assembly(text)
    parsed.verify()
    for expected in (
        "load atomic i64, ptr %v0 acquire, align 8",
        "store atomic",
        "atomicrmw add ptr",
        "cmpxchg ptr",
        "fence seq_cst",
        "switch i32",
        "ptr noalias align 64 %v0",
        "call reassoc float @llvm.vector.reduce.fadd.v8f32",
        "fadd contract float",
        "!nontemporal !0",
        "freeze i64",
    ):
        assert expected in text, expected


def test_double_edges_get_a_block_of_their_own() -> None:
    """A conditional jump whose two ways lead to one block with different values chooses between them."""
    f = FunctionBuilder("choose", [I64, I64, I64], I64, linkage="external")
    c, a, b = f.args
    target = f.new_block(I64)
    f.cond_br(f.icmp("sgt", c, f.const(0, I64)), target, (a,), target, (b,))
    (value,) = f.at(target)
    f.ret(value)
    keep, address = link(emit(module_of([f.func], AVX2)), "choose")
    choose = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(address)
    assert (choose(1, 10, 20), choose(-1, 10, 20)) == (10, 20)
    assert keep


def test_how_often_a_branch_is_taken() -> None:
    """Weights print, parse back, and reach LLVM."""
    f = FunctionBuilder("count", [I64], I64, linkage="external")
    body, after = f.new_block(I64), f.new_block()
    f.br(body, (f.const(0, I64),))
    (i,) = f.at(body)
    following = f.add(i, f.const(1, I64))
    f.cond_br(f.icmp("slt", following, f.args[0]), body, (following,), after, (), (1000, 1))
    f.at(after)
    f.ret(following)
    module = module_of([f.func], AVX2)
    assert parse(str(module)).is_structurally_equivalent(module)
    text = emit(module)
    llvm.parse_assembly(text).verify()
    assert "!prof !0" in text and '!0 = !{!"branch_weights", i32 1000, i32 1}' in text


def test_blocks_may_be_in_any_order() -> None:
    """Values are named before the block that defines them is printed, and unreachable blocks are left out."""
    f = FunctionBuilder("late", [I64], I64, linkage="external")
    last, first, dead = f.new_block(), f.new_block(), f.new_block()
    f.br(first)
    f.at(dead)
    f.br(last)
    f.at(first)
    value = f.add(f.args[0], f.const(2, I64))
    f.br(last)
    f.at(last)
    f.ret(f.mul(value, value))
    keep, address = link(emit(module_of([f.func], AVX2)), "late")
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(3) == 25
    assert keep


def test_atomics_run() -> None:
    f = FunctionBuilder("bump", [PTR, I64], I64, linkage="external")
    pointer, amount = f.args
    before = f.atomic_rmw("add", pointer, amount, "seq_cst")
    now, _ = f.cmpxchg(pointer, f.add(before, amount), f.const(-1, I64), "acq_rel", "acquire")
    f.fence("acquire")
    f.ret(f.add(now, f.atomic_load(pointer, I64, "acquire")))
    keep, address = link(emit(module_of([f.func], AVX2)), "bump")
    cell = ctypes.c_int64(5)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(address)(ctypes.addressof(cell), 3) == 7
    assert cell.value == -1
    assert keep


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0x3FB99999A0000000"),  # the double of the nearest f32
        (float("inf"), "0x7FF0000000000000"),
        (1e300, "0x7FF0000000000000"),
        (-0.0, "0x8000000000000000"),
        (2.0**-149, "0x36A0000000000000"),
    ],
)
def test_float_constants_are_bits(value: float, text: str) -> None:
    assert float_text(value, F32) == text


@pytest.mark.parametrize(
    "text",
    [
        'llvm.func @"a b"() { llvm.return }',
        'llvm.func @f() attributes {llvmx.attrs = ["whatever"]} { llvm.return }',
        "llvm.func @f() attributes {passthrough = []} { llvm.return }",
        "llvm.func @f(%p: !llvm.ptr {llvm.something}) { llvm.return }",
        "llvm.func fastcc @f() { llvm.return }",
        "llvm.func weak @f() { llvm.return }",
        "llvm.func @f(%p: !llvm.ptr) { %v = llvm.load %p atomic acquire : !llvm.ptr -> i32\n llvm.return }",
        'llvm.func @f(%p: !llvm.ptr) { %v = llvm.load %p {spice = "hot"} : !llvm.ptr -> i32\n llvm.return }',
        "llvm.func @f() { %v = llvm.intr.stacksave : !llvm.ptr\n llvm.return }",
        "llvm.func @f() { %v = llvmx.poison : tensor<4xf32>\n"
        ' %w = llvmx.cast "bitcast" %v : tensor<4xf32> to i32\n llvm.return }',
        "llvm.func @f() { llvm.br ^a\n ^a:\n llvm.br ^b\n ^b:\n %x = arith.constant 1 : i32\n llvm.return }",
        "func.func @f() { func.return }",
        'llvm.func @f(%p: !llvm.ptr) { "llvm.call"(%p) <{operandSegmentSizes = array<i32: 1, 0>}>'
        " : (!llvm.ptr) -> ()\n llvm.return }",
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(EmitError):
        emit(parse_unverified(text))


def parse_unverified(text: str) -> object:
    from harness import context
    from xdsl.parser import Parser

    return Parser(context(), text).parse_module()


def test_a_symbol_cannot_smuggle_text() -> None:
    f = FunctionBuilder('f" { ret void } define void @g(', [], I32)
    f.ret(f.const(0, I32))
    with pytest.raises(EmitError, match="plain symbol"):
        emit(module_of([f.func], AVX2))


def test_unknown_symbols_are_refused() -> None:
    f = FunctionBuilder("f", [], I32, linkage="external")
    f.ret(f.call("system", [], I32))
    text = emit(module_of([declare("system", [], I32), f.func], AVX2))
    with pytest.raises(ObjectError, match="system"):
        compile_object(text, AVX2)
    assert compile_object(text, AVX2, also={"system"})


def test_an_intrinsic_that_does_not_exist_is_refused() -> None:
    f = FunctionBuilder("f", [F32], F32, linkage="external")
    f.ret(f.intrinsic("llvm.no.such.thing", [f.args[0]], F32))
    with pytest.raises(ObjectError, match=r"llvm\.no\.such\.thing"):
        compile_object(emit(module_of([f.func], AVX2)), AVX2)


def test_text_that_llvm_refuses() -> None:
    with pytest.raises(ObjectError, match="LLVM refuses"):
        compile_object("define i32 @f() { ret i64 0 }", AVX2)


def test_objects_depend_on_text_and_target_only() -> None:
    f = FunctionBuilder("f", [F32, F32], F32, linkage="external")
    f.ret(f.fma(f.args[0], f.args[1], f.args[0]))
    text = emit(module_of([f.func], AVX512))
    assert compile_object(text, AVX512) == compile_object(text, AVX512)
    assert "vfmadd" in assembly(text, AVX512)
