"""`sx-infer-shapes`: the type of every value, from the inputs down; what ONNX demands of sizes becomes guards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region, SSAValue
from xdsl.passes import ModulePass

from ...dialects import onnx
from ...dialects.dims import Dim, dims_of
from ...dialects.onnx.model import MAIN, is_local_function
from ...runtime.errors import ModelError, UnsupportedError
from ...semantics.custom import NO_OPERATORS, Operators
from ...semantics.facts import Facts
from ...semantics.weights import WeightStore
from .declared import check_under, differences, wrong_type_of_node
from .materialize import materialize
from .settle import settle_symbols
from .walk import Inference

DIAGNOSTICS = "dims.diagnostics"
"""The module's attribute with one line for each declared type that inference contradicts."""


@dataclass(frozen=True)
class InferShapes(ModulePass):
    """Sets the type of every value; with `compile_mode` also states guards and binds sizes that data decides."""

    name: ClassVar[str] = "sx-infer-shapes"
    compile_mode: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        infer_shapes(op, compile_mode=self.compile_mode)


def infer_shapes(
    module: ModuleOp,
    weights: WeightStore | None = None,
    *,
    compile_mode: bool = False,
    facts: Facts | None = None,
    operators: Operators = NO_OPERATORS,
    expand: bool = False,
    guarded: bool = True,
    declared: bool = False,
    dead: set[Region] | None = None,
) -> list[str]:
    """Sets the type of every value of `main`; gives a line for each declared type that is not so.

    `operators` are the users' own.  With `expand`, nodes of other domains that stand for several of ONNX's operators
    are replaced by those (see `rewrites/contrib`); else they only have the types that those give.

    In compile mode, integer tensors that are known become `dims.tensor` or `onnx.Constant`, sizes that data decides are
    bound by `dims.bind`, and what ONNX demands and the prover does not know becomes `dims.assume`, first in its block
    where its symbols are known there.  What is stated in `main` is added to `facts`.  Where nobody will check guards
    (`guarded` is False), as in a model file, a branch that no sizes make valid stays as it is.

    `dead` is given the bodies that can never run, whose values have no types to rely on.

    With `declared`, a declared element type, or kind of value, that is not so is an error too.

    Raises ModelError where no sizes make an operation valid, UnsupportedError naming all operators without a rule.
    """
    facts = facts if facts is not None else Facts()
    functions = [f for f in module.body.block.ops if isinstance(f, FuncOp) and _is_graph(f)]
    inference = _inferred(module, functions, weights, facts, operators, expand)
    if compile_mode and materialize(inference, functions, guarded=guarded):
        # once more, now that all that the guards promise is known: sizes that they make equal are written alike
        inference = _inferred(module, functions, weights, facts, operators, expand, checks=False)
        materialize(inference, functions, guarded=guarded)
    for function in functions:
        _limits_stated(function)
    unreached = inference.dead_regions()
    if dead is not None:
        dead |= unreached
    if declared and (wrong := [line for f in functions for line in differences(f, unreached, wrong_type_of_node)]):
        raise ModelError("\n".join(wrong))
    symbols = {s for f in functions for a in f.body.block.args for d in _sizes_of(a) for s in d.symbols}
    check = check_under(facts, symbols)
    lines = [line for f in functions for line in differences(f, unreached, check)]
    module.attributes.pop(DIAGNOSTICS, None)
    if lines:
        module.attributes[DIAGNOSTICS] = ArrayAttr([StringAttr(line) for line in lines])
    for function in functions:
        _set_function_type(function)
    return lines


def _inferred(
    module: ModuleOp,
    functions: list[FuncOp],
    weights: WeightStore | None,
    facts: Facts,
    operators: Operators,
    expand: bool,
    *,
    checks: bool = True,
) -> Inference:
    inference = Inference(module, weights, facts, operators, expand, checks)
    for function in functions:
        inference.function(function)
    if inference.unsupported:
        raise UnsupportedError("\n".join(inference.unsupported.values()))
    for function in functions:
        settle_symbols(function, inference.names)
    return inference


def _sizes_of(value: SSAValue) -> tuple[Dim, ...]:
    return dims_of(value) if isinstance(value.type, TensorType) else ()


def _limits_stated(function: FuncOp) -> None:
    """Drops what older opsets demand of operands' sizes, where it is known by now that these are so."""
    for op in function.walk():
        if onnx.LIMITED in op.attributes and all(isinstance(v.type, TensorType) for v in op.operands):
            del op.attributes[onnx.LIMITED]


def _is_graph(function: FuncOp) -> bool:
    """Not a local function, which stays as the file has it, and not a kernel."""
    return not function.is_declaration and not is_local_function(function) and "kernel.key" not in function.attributes


def _set_function_type(function: FuncOp) -> None:
    block = function.body.block
    last = block.last_op
    results = list(last.operand_types) if isinstance(last, ReturnOp) else list(function.function_type.outputs)
    function.function_type = FunctionType.from_lists(list(block.arg_types), results)


__all__ = ["DIAGNOSTICS", "MAIN", "InferShapes", "infer_shapes"]
