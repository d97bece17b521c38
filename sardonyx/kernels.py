"""One fused kernel of a program as a callable of its own, and its text at each level."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from .build import name_of
from .compiler import emitted, lower, lower_with
from .dialects import kernel, onnx
from .dialects.dims import Dim, dims_of
from .pipeline import LEVEL
from .runtime.errors import InputError, UsageError
from .runtime.usage import checked

if TYPE_CHECKING:
    from .program import Origin, Program


@dataclass(frozen=True)
class KernelCallable:
    """A kernel by itself: call it with arrays in the order of its inputs; gives one result as it is, more as a tuple.

    `ir(level)` is its text at `kernels`, `tensor`, `loops` or `llvm`, `asm` its machine code as text.
    """

    name: str
    origin: Origin
    schedule: Mapping[str, Mapping[str, int | str]]
    """What was chosen for it in its program."""

    def __call__(self, *arrays: Any) -> Any:
        """Runs the kernel alone. Raises InputError for arrays that do not fit it."""
        from .compiler import run

        module = self.module()
        results = list(run(lower(module, to="loops"), {f"in{i}": np.asarray(a) for i, a in enumerate(arrays)}).values())
        return results[0] if len(results) == 1 else tuple(results)

    @checked
    def ir(self, level: str) -> str:
        """The kernel's text at a level."""
        return self._emitted(level)

    @property
    def asm(self) -> str:
        """The kernel's machine code as assembly text."""
        return self._emitted("asm")

    def _emitted(self, level: str) -> str:
        origin = self.origin
        options = replace(origin.options, schedule=json.dumps({self.name: self.schedule}))
        return emitted(
            origin.model, level, options, kernel=self.name,
            target=origin.target, patterns=origin.patterns, ops=origin.ops,
        )[0]  # fmt: skip

    def module(self) -> ModuleOp:
        """A module at the kernels level whose `main` calls this kernel and nothing else."""
        origin = self.origin
        # weights are inputs here, so that choices made for constants may not fit
        whole = lower_with(
            origin.model, replace(origin.options, schedule=""), to="kernels",
            target=origin.target, patterns=origin.patterns, ops=origin.ops,
        )  # fmt: skip
        function = next(f for f in whole.body.block.ops if isinstance(f, FuncOp) and name_of(f) == self.name)
        function.detach()
        return ModuleOp([main_for(function), function], {LEVEL: StringAttr("kernels")})


def main_for(function: FuncOp) -> FuncOp:
    """A `main` that binds a kernel's symbols to its inputs' sizes and calls it. Raises InputError where they do not."""
    tensors = [a.type for a in function.body.block.args if isinstance(a.type, TensorType)]
    count = len(function.body.block.args) - len(tensors)
    bound = {str(d) for t in tensors for d in dims_of(t)}
    free = [f"d{i}" for i in range(count) if f"d{i}" not in bound]
    if free:
        raise InputError(f"the kernel's sizes {', '.join(free)} are not those of an input: it cannot run alone")
    block = Block(arg_types=tensors)
    call = kernel.CallOp(
        name_of(function), [Dim.symbol(f"d{i}") for i in range(count)], block.args, function.function_type.outputs.data
    )
    block.add_ops([call, ReturnOp(*call.outputs)])
    main = FuncOp("main", FunctionType.from_lists(tensors, function.function_type.outputs.data), Region(block))
    main.attributes["onnx.inputs"] = onnx.strings_attr([f"in{i}" for i in range(len(tensors))])
    main.attributes["onnx.outputs"] = onnx.strings_attr([f"out{i}" for i in range(len(call.outputs))])
    return main


class UnknownKernel(UsageError, KeyError):
    """A name that no kernel has: a KeyError too, as a mapping's users expect."""

    __str__ = Exception.__str__  # KeyError's would quote the text


class Kernels(Mapping[str, KernelCallable]):
    """A program's kernels by name."""

    def __init__(self, program: Program) -> None:
        self._functions = program.explain().to_dict()["functions"]
        assert program.origin is not None
        self._origin = program.origin

    def __getitem__(self, name: str) -> KernelCallable:
        if not isinstance(name, str) or name not in self._functions:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UnknownKernel(f"no kernel {name!r}; there are {', '.join(self._functions)}")
        return KernelCallable(name, self._origin, self._functions[name]["schedule"])

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)


def kernels_of(program: Program) -> Kernels:
    """The kernels of a program that was compiled here or loaded from the cache."""
    return Kernels(program)
