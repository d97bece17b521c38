"""Runs a scheduled `main` with kernels at the loops level, both as IR text."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from sardonyx.codegen.entry import (
    Entry,
    KernelInfo,
    entry_needs,
    host_value,
    main_to_llvm,
    overridable_inputs,
    tensor_dims,
)
from sardonyx.codegen.kernels import checks_of, kernel_to_llvm
from sardonyx.codegen.llvm_text import emit
from sardonyx.codegen.objects import compile_object
from sardonyx.codegen.pool import POOL_NEEDS, pool_module
from sardonyx.dialects.onnx import Onnx, text_of, value_name
from sardonyx.dialects.target import Target
from sardonyx.runtime import abi
from sardonyx.runtime.host import detect
from sardonyx.runtime.manifest import FORMAT, Manifest, TensorSpec
from sardonyx.runtime.program import LoadedProgram
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import ArrayAttr, Builtin
from xdsl.dialects.func import Func, FuncOp
from xdsl.dialects.memref import MemRef
from xdsl.dialects.scf import Scf
from xdsl.dialects.vector import Vector
from xdsl.ir import SSAValue
from xdsl.parser import Parser

from sardonyx.dialects.dims import Dims  # isort: skip
from sardonyx.dialects.kernel import Kernel  # isort: skip
from sardonyx.dialects.vectorx import VectorX  # isort: skip

TARGET = Target(**vars(detect()))


@cache
def pool_object() -> bytes:
    return compile_object(emit(pool_module(TARGET)), TARGET, POOL_NEEDS)


def parse(text: str) -> list[FuncOp]:
    ctx = Context()
    for dialect in (Builtin, Func, Arith, MemRef, Scf, Vector, Onnx, Dims, Kernel, VectorX):
        ctx.load_dialect(dialect)
    module = Parser(ctx, text).parse_module()
    return [op for op in module.body.block.ops if isinstance(op, FuncOp)]


@cache
def kernel_object(text: str) -> bytes:
    (function,) = parse(text)
    return compile_object(emit(kernel_to_llvm(function, TARGET, f"k_{function.sym_name.data}")), TARGET)


def manifest_of(main: FuncOp, entry: Entry, nodes: Sequence[str]) -> Manifest:
    """What the face makes of a module, as far as these tests need it."""
    ret = main.body.block.last_op
    assert ret is not None
    inputs = [spec_of(value, f"input_{i}") for i, value in enumerate(main.body.block.args)]
    for op in overridable_inputs(main):
        spec = spec_of(op.result, text_of(op.sym))
        spec["default"] = entry.weights.index(op.value)
        inputs.append(spec)
    outputs = [spec_of(value, f"output_{i}") for i, value in enumerate(ret.operands)]
    names = main.attributes.get("onnx.outputs")
    if isinstance(names, ArrayAttr):
        for spec, name in zip(outputs, names, strict=True):
            spec["name"] = text_of(name)
    return {
        "format": FORMAT,
        "abi": abi.VERSION,
        "inputs": inputs,
        "outputs": outputs,
        "checks": {str(site): check for site, check in enumerate(entry.checks)},
        "nodes": list(nodes),
        "hosts": list(entry.hosts),
        "explain": None,
    }


def spec_of(value: SSAValue, name: str) -> TensorSpec:
    return {
        "name": value_name(value) or name,
        "dtype": host_value(value.type)["dtype"],
        "dims": [dim.value if dim.is_const else str(dim) for dim in tensor_dims(value.type)],
    }


def load(
    main: str,
    kernels: Sequence[str] = (),
    weights: dict[str, Any] | None = None,
    hosts: Sequence[Callable[..., object]] = (),
    threads: int = 1,
    nodes: Sequence[str] = (),
) -> LoadedProgram:
    """The program of a `main` and its kernels, each a function as text."""
    (function,) = parse(main)
    infos: dict[str, KernelInfo] = {}
    for text in kernels:
        (kernel,) = parse(text)
        name = kernel.sym_name.data
        infos[name] = KernelInfo(f"k_{name}", tuple((c.code.data, c.message.data) for c in checks_of(kernel)))
    entry = main_to_llvm(function, infos, TARGET)
    entry.module.verify()
    objects = [compile_object(emit(entry.module), TARGET, entry_needs(infos)), pool_object()]
    objects += [kernel_object(text) for text in kernels]
    table = [np.asarray((weights or {})[getattr(w, "data", str(w))]) for w in entry.weights]
    return LoadedProgram(manifest_of(function, entry, nodes), objects, table, hosts, threads=threads)


ADD = """
func.func private @add(%d0: index, %x: memref<?xf32>, %y: memref<?xf32>, %z: memref<?xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  scf.for %i = %zero to %d0 step %one {
    %a = memref.load %x[%i] : memref<?xf32>
    %b = memref.load %y[%i] : memref<?xf32>
    %c = arith.addf %a, %b : f32
    memref.store %c, %z[%i] : memref<?xf32>
  }
  func.return
}"""
"""z[i] = x[i] + y[i] for i below d0"""

NEGATE = """
func.func private @negate(%d0: index, %x: memref<?xf32>, %y: memref<?xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  scf.for %i = %zero to %d0 step %one {
    %a = memref.load %x[%i] : memref<?xf32>
    %b = arith.negf %a : f32
    memref.store %b, %y[%i] : memref<?xf32>
  }
  func.return
}"""

PICK = """
func.func private @pick(%d0: index, %x: memref<?xf32>, %at: memref<?xi64>, %y: memref<?xf32>) {
  %zero = arith.constant 0 : index
  %long = memref.load %at[%zero] : memref<?xi64>
  %i = arith.index_cast %long : i64 to index
  %low = arith.cmpi sge, %i, %zero : index
  %high = arith.cmpi slt, %i, %d0 : index
  %inside = arith.andi %low, %high : i1
  "kernel.check"(%inside, %i, %d0) {code = "index", message = "index {0} is out of range for size {1}"}
    : (i1, index, index) -> ()
  %safe = arith.select %inside, %i, %zero : index
  %a = memref.load %x[%safe] : memref<?xf32>
  memref.store %a, %y[%zero] : memref<?xf32>
  func.return
}"""
"""y[0] = x[at[0]], checked"""

ADD_ONE = """
func.func private @add_one(%x: memref<?xi64>, %y: memref<?xi64>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : i64
  %a = memref.load %x[%zero] : memref<?xi64>
  %b = arith.addi %a, %one : i64
  memref.store %b, %y[%zero] : memref<?xi64>
  func.return
}"""

LESS = """
func.func private @less(%x: memref<?xi64>, %y: memref<?xi64>, %z: memref<?xi1>) {
  %zero = arith.constant 0 : index
  %a = memref.load %x[%zero] : memref<?xi64>
  %b = memref.load %y[%zero] : memref<?xi64>
  %c = arith.cmpi slt, %a, %b : i64
  memref.store %c, %z[%zero] : memref<?xi1>
  func.return
}"""
"""z = x < y, of scalars"""

CONCAT = """
func.func private @concat(%d0: index, %d1: index, %x: memref<?xf32>, %y: memref<?xf32>, %z: memref<?xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  scf.for %i = %zero to %d0 step %one {
    %a = memref.load %x[%i] : memref<?xf32>
    memref.store %a, %z[%i] : memref<?xf32>
  }
  scf.for %i = %zero to %d1 step %one {
    %a = memref.load %y[%i] : memref<?xf32>
    %at = arith.addi %d0, %i : index
    memref.store %a, %z[%at] : memref<?xf32>
  }
  func.return
}"""

SUM = """
func.func private @sum(%d0: index, %x: memref<?xf32>, %y: memref<?xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %init = arith.constant 0.0 : f32
  %total = scf.for %i = %zero to %d0 step %one iter_args(%acc = %init) -> (f32) {
    %a = memref.load %x[%i] : memref<?xf32>
    %n = arith.addf %acc, %a : f32
    scf.yield %n : f32
  }
  memref.store %total, %y[%zero] : memref<?xf32>
  func.return
}"""


def address(array: np.ndarray[Any, Any]) -> int:
    return array.ctypes.data


__all__ = ["ADD", "ADD_ONE", "CONCAT", "LESS", "NEGATE", "PICK", "SUM", "ctypes", "load"]
