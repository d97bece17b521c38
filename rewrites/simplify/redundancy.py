"""Dead code and common subexpressions on the onnx dialect, where every operator but a few is a pure function."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from ...dialects import dims, onnx
from ..driver import Firing, origins_of, set_origins

IMPURE: frozenset[type[Operation]] = frozenset((
    dims.AssumeOp, dims.BindOp, onnx.RandomNormalOp, onnx.RandomUniformOp, onnx.RandomNormalLikeOp,
    onnx.RandomUniformLikeOp, onnx.MultinomialOp, onnx.BernoulliOp, onnx.DropoutOp, onnx.CustomOp, onnx.CallOp,
))  # fmt: skip
"""Not merged with an equal op: guards, draws of random numbers, and what is not known."""


def eliminate_dead_code(module: ModuleOp) -> list[Firing]:
    """Erases ops of function bodies and regions whose results nobody uses; guards and binders of used symbols stay."""
    fired: list[Firing] = []
    for function in functions_of(module):
        for op in reversed(list(function.walk())):
            if op is function or op.has_trait(IsTerminator) or not op.results:
                continue
            if op.parent is None or any(r.uses.get_length() for r in op.results):
                continue
            if "dims.binds" in op.attributes and binds_used(op):
                continue
            fired.append(Firing("EliminateDeadCode", op.name, origins_of(op)))
            op.detach()
            op.erase()
    return fired


def binds_used(op: Operation) -> bool:
    """Whether a symbol that the op binds stands in a type or expression elsewhere."""
    from ..uses import bound_symbols, symbols_of

    bound = set(bound_symbols(op))
    parent = op.parent
    return parent is not None and any(
        bound & symbols_of(inner) for other in parent.ops if other is not op for inner in other.walk()
    )


def functions_of(module: ModuleOp) -> list[FuncOp]:
    """`main`: bodies of local functions are kept as the file has them."""
    return [f for f in module.body.block.ops if isinstance(f, FuncOp) and f.sym_name.data == "main"]


Key = tuple[type[Operation], tuple[SSAValue, ...], tuple[tuple[str, Attribute], ...], tuple[Attribute, ...]]


def eliminate_common_subexpressions(module: ModuleOp) -> list[Firing]:
    """An op equal to one before it in the same or an enclosing block gives way to it.

    Operands are the same, or constants of one value: initializers keep their names, and many may be equal.
    """
    fired: list[Firing] = []
    origins: dict[Operation, set[int]] = {}
    for function in functions_of(module):
        merge_in_block(function.body.block, {}, alike_constants(function), fired, origins)
    for op, ids in origins.items():  # at the end: a constant may stand for thousands
        set_origins(op, {*origins_of(op), *ids})
    return fired


def alike_constants(function: FuncOp) -> dict[SSAValue, SSAValue]:
    """For each constant in `main` the first one of its value and type; a default that a caller may replace is none."""
    first: dict[tuple[Attribute, Attribute], SSAValue] = {}
    alike: dict[SSAValue, SSAValue] = {}
    for op in function.walk():
        if isinstance(op, onnx.InitializerOp) and op.overridable is None:
            alike[op.result] = first.setdefault((op.value, op.result.type), op.result)
        elif isinstance(op, onnx.ConstantOp) and (value := op.properties.get("value")) is not None:
            alike[op.output] = first.setdefault((value, op.output.type), op.output)
    return alike


def merge_in_block(
    block: Block,
    outer: dict[Key, Operation],
    alike: dict[SSAValue, SSAValue],
    fired: list[Firing],
    origins: dict[Operation, set[int]],
) -> None:
    seen = dict(outer)
    for op in list(block.ops):
        for region in op.regions:
            for inner in region.blocks:
                merge_in_block(inner, seen, alike, fired, origins)
        if op.regions or not op.results or type(op) in IMPURE or "dims.binds" in op.attributes:
            continue
        key: Key = (
            type(op),
            tuple(alike.get(operand, operand) for operand in op.operands),
            tuple(sorted(op.properties.items())),
            tuple(r.type for r in op.results),
        )
        first = seen.setdefault(key, op)
        if first is op:
            continue
        origins.setdefault(first, set()).update(origins_of(op))
        for old, new in zip(op.results, first.results, strict=True):
            old.replace_all_uses_with(new)
        fired.append(Firing("MergeEqual", op.name, origins_of(op)))
        op.detach()
        op.erase()
