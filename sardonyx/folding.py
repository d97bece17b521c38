"""Constants of much work, folded by compiled kernels: what the folding pass is given to compute with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from .dialects import onnx
from .dialects.onnx.attributes import strings_attr
from .dialects.onnx.model import INPUTS, MAIN, OUTPUTS
from .rewrites.simplify.fold import Array
from .semantics.weights import WeightStore


def compute(op: Operation, values: Sequence[Array | None]) -> list[Array] | None:
    """The results of one op, by a program made of it alone; None where a part of it would be hosted.

    `values` are the operands by formal position, None for absent ones.
    """
    from .compiler import build, host_target  # most models are simplified without a compiler
    from .options import Options
    from .pipeline import State, run
    from .runtime.host import default_threads
    from .runtime.program import LoadedProgram

    module = module_of(op)
    state = State(module, WeightStore(), host_target(), Options())
    for _ in run(state, to="kernels"):
        pass
    built = build(state, {}, lambda phase, done, total: None, None)
    if built.host_functions:
        return None
    loaded = LoadedProgram(
        built.manifest, built.objects, [w.array for w in built.weights], [], threads=default_threads()
    )
    present = [v for v in values if v is not None]
    found = loaded({f"x{i}": np.ascontiguousarray(v) for i, v in enumerate(present)})
    return [found[f"y{i}"] for i in range(len(op.results))]


def module_of(op: Operation) -> ModuleOp:
    """A module whose `main` is the op on arguments."""
    block = Block(arg_types=[v.type for v in op.operands])
    mapping: dict[SSAValue, SSAValue] = dict(zip(op.operands, block.args))
    copy = op.clone(mapping)
    copy.attributes.clear()
    copy.attributes["origin"] = onnx.ints_attr((0,))
    block.add_ops([copy, ReturnOp(*copy.results)])
    kind = FunctionType.from_lists([a.type for a in block.args], [r.type for r in copy.results])
    main = FuncOp(MAIN, kind, Region(block))
    main.attributes[INPUTS] = strings_attr(f"x{i}" for i in range(len(block.args)))
    main.attributes[OUTPUTS] = strings_attr(f"y{i}" for i in range(len(copy.results)))
    return ModuleOp([main])
