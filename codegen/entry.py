"""The scheduled `main` to the native entry, `int32 sx_entry(ctx*, const int64* args)`.

`args` has, in this order: a pointer for each input; the size of every axis of every input; a pointer for each output
(0: the entry asks for one); room for the size of every axis of every output, which the entry writes.  An overridable
initializer is an input behind the others.  A string tensor, a sequence and the like are numbers where tensors are
pointers: the runtime keeps the objects.

The entry binds the model's symbols, checks what the program relies on, reserves the arena, and runs the ops of `main`
in their order: a kernel call stores its arguments and calls the kernel's symbol.  What each op needs to know of memory
stands on it as attributes (`kernel.outputs`, `kernel.carried`, `kernel.scratch` or `kernel.scratch_bytes`, and
`kernel.arena` on the function; see `lowering/schedule.py`).  Control flow: `entry_control.py`, `entry_loops.py`.

Zero is success. Else the error record says what it was, and no output counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import func
from xdsl.ir import Operation

from ..dialects import dims, kernel, onnx
from ..dialects.target import Target
from .entry_builder import EntryBuilder, Handler
from .entry_control import lower_if
from .entry_loops import lower_loop, lower_scan
from .entry_ops import assume, bind, call_host, call_kernel, constant, fill, finish, tensor_of_dims, view
from .entry_values import (
    Entry,
    EntryError,
    KernelInfo,
    host_value,
    overridable_inputs,
    tensor_dims,
)

HANDLERS: dict[type[Operation], Handler] = {
    kernel.CallOp: call_kernel,
    kernel.ViewOp: view,
    kernel.FillOp: fill,
    onnx.InitializerOp: constant,
    onnx.ConstantOp: constant,
    onnx.IfOp: lower_if,
    onnx.LoopOp: lower_loop,
    onnx.ScanOp: lower_scan,
    dims.BindOp: bind,
    dims.AssumeOp: assume,
    dims.TensorOp: tensor_of_dims,
    func.ReturnOp: finish,
}
"""All other ops of `main` are called back."""


def main_to_llvm(main: func.FuncOp, kernels: Mapping[str, KernelInfo], target: Target, timed: bool = False) -> Entry:
    """Lowers the scheduled `main`; `kernels` has every callee by its name in the module.

    A `timed` entry can note when each call began and ended; that costs some ten cycles a call.

    Raises EntryError for ops and attributes that it does not know.
    """
    return EntryBuilder(main, kernels, target, HANDLERS, call_host, timed).build()


def entry_needs(kernels: Mapping[str, KernelInfo]) -> frozenset[str]:
    """The symbols that the entry's object may need besides what every object may."""
    return frozenset(info.symbol for info in kernels.values())


__all__ = [
    "HANDLERS",
    "Entry",
    "EntryError",
    "KernelInfo",
    "entry_needs",
    "host_value",
    "main_to_llvm",
    "overridable_inputs",
    "tensor_dims",
]
