"""Objects to addresses: what they may need, that equal ones are linked once, and damage."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable

import pytest
from sardonyx.codegen.objects import ALLOWED_SYMBOLS
from sardonyx.codegen.pool import POOL_NEEDS
from sardonyx.runtime.abi import PARALLEL_FOR_SYMBOL, REQUEST_SYMBOLS
from sardonyx.runtime.elf import MalformedObjectError, symbols
from sardonyx.runtime.errors import CompilerBug
from sardonyx.runtime.linker import Linker, external_symbols

Compiled = Callable[[str], bytes]
CALL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)

TWICE = "define i32 @twice(i32 %x) {\n %r = add i32 %x, %x\n ret i32 %r\n}"
FOUR = """
declare i32 @twice(i32)
define i32 @four(i32 %x) {
 %t = call i32 @twice(i32 %x)
 %r = call i32 @twice(i32 %t)
 ret i32 %r
}"""


def test_symbols_of_an_object(compiled: Compiled) -> None:
    table = symbols(compiled(FOUR))
    assert table.defined == ("four",)
    assert table.undefined == ("twice",)


@pytest.mark.parametrize("length", [0, 3, 10, 63, 64, 200])
def test_a_damaged_object_is_malformed(compiled: Compiled, length: int) -> None:
    with pytest.raises(MalformedObjectError):
        symbols(compiled(FOUR)[:length])
    with pytest.raises(MalformedObjectError):
        symbols(b"\x7fELF" + bytes(100))


def test_libraries_use_each_other(compiled: Compiled) -> None:
    linker = Linker()
    twice = linker.link(compiled(TWICE))
    four = linker.link(compiled(FOUR), [twice])
    assert CALL(four.addresses["four"])(5) == 20
    with pytest.raises(CompilerBug, match="needs symbols that nothing provides: twice"):
        linker.link(compiled(FOUR))
    del twice
    gc.collect()
    assert CALL(four.addresses["four"])(6) == 24


def test_equal_objects_are_linked_once_and_go_with_their_users(compiled: Compiled) -> None:
    linker = Linker()
    first, second = linker.link(compiled(TWICE)), linker.link(bytes(compiled(TWICE)))
    assert first is second
    other = linker.link(compiled(TWICE.replace("add", "mul")))
    assert other is not first
    assert CALL(other.addresses["twice"])(5) == 25
    del first, second
    gc.collect()
    again = linker.link(compiled(TWICE))
    assert CALL(again.addresses["twice"])(5) == 10


TABLE = """
@numbers = constant [2 x i32] [i32 30, i32 12]
@functions = constant [2 x ptr] [ptr @more, ptr @less]
@shared = global i32 7
define i32 @more(i32 %x) {
 %r = add i32 %x, 1
 ret i32 %r
}
define i32 @less(i32 %x) {
 %r = sub i32 %x, 1
 ret i32 %r
}
define i32 @through(i32 %x) {
 %at = getelementptr [2 x ptr], ptr @functions, i32 0, i32 %x
 %f = load ptr, ptr %at
 %n = getelementptr [2 x i32], ptr @numbers, i32 0, i32 %x
 %v = load i32, ptr %n
 %r = call i32 %f(i32 %v)
 %s = load i32, ptr @shared
 %t = add i32 %r, %s
 store i32 %t, ptr @shared
 ret i32 %t
}"""


def test_tables_of_addresses_and_what_is_written_to(compiled: Compiled) -> None:
    """Absolute addresses, addresses in memory, constants and variables; copies that were linked twice are two."""
    library = Linker().link(compiled(TABLE))
    through = CALL(library.addresses["through"])
    assert [through(0), through(1)] == [38, 49]
    other = Linker().link(compiled(TABLE))
    assert CALL(other.addresses["through"])(0) == 38


def test_every_symbol_that_the_compiler_allows_is_provided(pool_object: bytes) -> None:
    provided = external_symbols()
    assert {*ALLOWED_SYMBOLS, *POOL_NEEDS} - {"", "_GLOBAL_OFFSET_TABLE_"} <= provided.keys()
    assert all(provided.values())
    assert {PARALLEL_FOR_SYMBOL, *REQUEST_SYMBOLS.values()} <= set(symbols(pool_object).defined)


def test_the_c_library_is_not_open_to_all(compiled: Compiled) -> None:
    text = "declare i32 @system(ptr)\ndefine i32 @f(ptr %x) {\n %r = call i32 @system(ptr %x)\n ret i32 %r\n}"
    with pytest.raises(CompilerBug, match="needs symbols that nothing provides: system"):
        Linker().link(compiled(text))


def test_mathematics_comes_from_the_c_library(compiled: Compiled) -> None:
    text = "declare double @pow(double, double)\n@p = global ptr @pow\ndefine ptr @f() {\n ret ptr @p\n}"
    library = Linker().link(compiled(text))
    assert library.addresses["p"] != 0
    pow_ = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)
    assert pow_(ctypes.c_int64.from_address(library.addresses["p"]).value)(2.0, 10.0) == 1024.0
