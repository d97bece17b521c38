"""Programs for the runtime's tests: the entry and kernels as LLVM text, so that nothing above is needed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import pytest
from sardonyx.codegen.llvm_text import emit
from sardonyx.codegen.objects import compile_object
from sardonyx.codegen.pool import POOL_NEEDS, pool_module
from sardonyx.dialects.target import Target
from sardonyx.runtime import abi
from sardonyx.runtime.host import detect
from sardonyx.runtime.manifest import FORMAT, Manifest


@cache
def compile_text(text: str) -> bytes:
    """An object of LLVM IR text for this machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    host = detect()
    machine = llvm.Target.from_triple(host.triple).create_target_machine(
        cpu=host.cpu, features=host.features, opt=2, reloc="pic", codemodel="small"
    )
    return machine.emit_object(llvm.parse_assembly(text))


@cache
def compile_pool() -> bytes:
    target = Target(**vars(detect()))
    return compile_object(emit(pool_module(target)), target, POOL_NEEDS)


@pytest.fixture(scope="session")
def pool_object() -> bytes:
    return compile_pool()


@pytest.fixture(scope="session")
def compiled() -> Callable[[str], bytes]:
    return compile_text


@pytest.fixture(scope="session")
def make_manifest() -> Callable[..., Manifest]:
    """A manifest from (name, dtype, dims) of inputs and outputs."""

    def make(inputs: list[tuple[str, str, list[int | str]]], outputs: list[tuple[str, str, list[int | str]]]) -> Any:
        return {
            "format": FORMAT,
            "abi": abi.VERSION,
            "inputs": [{"name": n, "dtype": t, "dims": d} for n, t, d in inputs],
            "outputs": [{"name": n, "dtype": t, "dims": d} for n, t, d in outputs],
            "checks": {},
            "nodes": [],
            "hosts": [],
            "explain": None,
        }

    return make


COPY = """
define i32 @sx_entry(ptr %ctx, ptr %args) {
  %x = load ptr, ptr %args
  %p1 = getelementptr i64, ptr %args, i64 1
  %n = load i64, ptr %p1
  %p2 = getelementptr i64, ptr %args, i64 2
  %y = load ptr, ptr %p2
  %size = mul i64 %n, BYTES
  call void @llvm.memcpy.p0.p0.i64(ptr %y, ptr %x, i64 %size, i1 false)
  ret i32 0
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
"""y = x, of one axis with N elements of BYTES bytes"""


@pytest.fixture(scope="session")
def copy_entry() -> Callable[[int], bytes]:
    """The entry of a program that copies its one input to its one output, of elements of so many bytes."""
    return lambda size: compile_text(COPY.replace("BYTES", str(size)))


@pytest.fixture
def words() -> Callable[[int], Any]:
    return lambda count: (ctypes.c_int64 * count)()
