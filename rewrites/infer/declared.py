"""What a file declares of its values' types against what inference found."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, Region, SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim, dims_of
from ...dialects.dims.text import brief
from ...dialects.onnx.declared import Declared, declared_types
from ...dialects.onnx.types import type_string
from ...semantics.facts import Facts

Check: TypeAlias = Callable[[str, SSAValue, Declared], str | None]


def differences(op: Operation, dead: Collection[Region], check: Check) -> list[str]:
    """A line for each value in the bodies of an op, but in dead ones, whose declared type a check finds wrong."""
    out: list[str] = []
    declared = declared_types(op)
    for region in op.regions:
        if region in dead:
            continue
        for block in region.blocks:
            for inner in block.ops:
                for value in inner.results:
                    name = onnx.value_name(value) if declared else None
                    if name is not None and name in declared and (line := check(name, value, declared[name])):
                        out.append(line)
                out += differences(inner, dead, check)
    return out


def wrong_type(name: str, value: SSAValue, declared: Declared) -> str | None:
    """What is wrong with a declared kind of value or element type.

    Nothing is where a file names the type of what is in an optional for the optional.
    """
    found = type_string(value.type)
    if found is None or found == declared.type or found == f"optional({declared.type})":
        return None
    return f"'{name}' is declared {declared.type}, and is {found}"


def wrong_type_of_node(name: str, value: SSAValue, declared: Declared) -> str | None:
    """`wrong_type`, and the node that gives the value."""
    wrong = wrong_type(name, value, declared)
    if wrong is None or not isinstance(value.owner, Operation):
        return wrong
    return f"{wrong}\n  --> {onnx.describe(value.owner)}"


def check_under(facts: Facts, symbols: Collection[str]) -> Check:
    """The check of declared types; `symbols` are those of the inputs' sizes, and `facts` what is known of them."""
    return lambda name, value, declared: difference(name, value, declared, facts, symbols)


def difference(name: str, value: SSAValue, declared: Declared, facts: Facts, symbols: Collection[str]) -> str | None:
    """What is wrong with a declared type; None where nothing is, or where it cannot be told.

    A size that is declared by the name of an input's size is wrong where they are not the same for all inputs.
    """
    if (wrong := wrong_type(name, value, declared)) is not None:
        return wrong
    if declared.sizes is None or not isinstance(value.type, TensorType):
        return None
    dims = dims_of(value.type)
    written = f"[{', '.join('?' if s is None else str(s) for s in declared.sizes)}]"
    if len(dims) != len(declared.sizes):
        return f"'{name}' is declared {written}, and has rank {len(dims)}"
    for axis, (size, dim) in enumerate(zip(declared.sizes, dims)):
        if isinstance(size, int) and size >= 0 and dim.is_const and dim.value != size:
            return f"'{name}' is declared {written}, and its axis {axis} is {dim}"
        if isinstance(size, str) and size in symbols and dim.symbols <= set(symbols):
            own = Dim.symbol(size)
            if dim is not own and facts.prove_eq(dim, own).answer is not True:
                return f"'{name}' is declared {written}, and its axis {axis} is {brief(dim)}"
    return None
