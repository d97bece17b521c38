"""The pipeline's steps as xDSL passes of their own, where the step's folder has none: for `xdsl-opt -p sx-...`.

A pass works on IR alone: weights are found by the module's own table, the target by its attribute, else it is this
machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from .compiler import host_target
from .dialects.target import Target, TargetAttr
from .lowering.loops import lower_to_loops
from .lowering.tensor import lower_to_tensor
from .pipeline import replace_function
from .rewrites.simplify import simplify
from .semantics.weights import WeightStore


@dataclass(frozen=True)
class Simplify(ModulePass):
    """Runs the rewrite rules on the graph level to a fixpoint; `exact` leaves out those that change rounding.

    Weights that rules compute are written into the system's temporary folder, and the module's table names the file.
    """

    name: ClassVar[str] = "sx-simplify"
    exact: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = WeightStore.from_module(op, Path())
        simplify(op, weights, exact=self.exact)
        weights.attach(op)


@dataclass(frozen=True)
class LowerToTensor(ModulePass):
    """Takes every kernel from the kernels level to the tensor level."""

    name: ClassVar[str] = "sx-lower-to-tensor"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in kernels_of(op):
            replace_function(kernel, lower_to_tensor(kernel))


@dataclass(frozen=True)
class LowerToLoops(ModulePass):
    """Takes every kernel from the tensor level to the loops level, for the module's target."""

    name: ClassVar[str] = "sx-lower-to-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op)
        for kernel in kernels_of(op):
            replace_function(kernel, lower_to_loops(kernel, target))


def kernels_of(module: ModuleOp) -> list[FuncOp]:
    """The kernel functions; in a module that is one reproducer, the private functions."""
    functions = [f for f in module.body.block.ops if isinstance(f, FuncOp)]
    return [f for f in functions if "kernel.key" in f.attributes or f.sym_visibility is not None]


def target_of(module: ModuleOp) -> Target:
    """The target that the module names, or this machine."""
    named = module.attributes.get("sx.target")
    return named.data if isinstance(named, TargetAttr) else host_target()
