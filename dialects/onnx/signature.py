"""Whether the types of an operation's values are those that its schema allows.

They are held against the newest form of the operator: what a newer version allows, models of older opsets may have too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

from xdsl.dialects.builtin import TensorType, UnrankedTensorType
from xdsl.ir import Attribute, SSAValue

from .schema import Schema
from .types import type_string

Kinds = tuple[Attribute | None, ...]


def type_problem(
    schema: Schema, operands: Sequence[SSAValue | None], results: Sequence[SSAValue | None] = ()
) -> str | None:
    """What is wrong with the types of operands and results by formal position, as far as they are known."""
    return _type_problem(schema, tuple(map(_kind_of, operands)), tuple(map(_kind_of, results)))


@cache
def has_own_results(schema: Schema) -> bool:
    """Whether some result has a type that no operand has: an attribute may say which."""
    taken = {formal.type for formal in schema.inputs}
    return any(formal.type not in taken for formal in schema.outputs)


def _kind_of(value: SSAValue | None) -> Attribute | None:
    """What the schema says something of: a tensor's element type, or the whole of another type."""
    if value is None:
        return None
    type_ = value.type
    return type_.element_type if isinstance(type_, TensorType | UnrankedTensorType) else type_


@lru_cache(maxsize=4096)
def _type_problem(schema: Schema, operands: Kinds, results: Kinds) -> str | None:
    bound: dict[str, tuple[str, str]] = {}
    for role, formals, kinds in (("input", schema.inputs, operands), ("output", schema.outputs, results)):
        for index, kind in enumerate(kinds):
            text = None if kind is None else type_string(kind) or type_string(UnrankedTensorType(kind))
            if text is None:
                continue  # absent, or not inferred yet
            formal = formals[min(index, len(formals) - 1)]
            what = f"{role} {index} ('{formal.name}')"
            allowed = schema.constraints.get(formal.type, formal.type)
            if text not in expanded(allowed):
                return f"{what} is {_shown(text)}; {schema.op_type}-{schema.since} takes {_listed(allowed)}"
            if formal.homogeneous and formal.type in schema.constraints:
                first, found = bound.setdefault(formal.type, (what, text))
                if found != text:
                    return f"{what} is {_shown(text)}, and {first} is {_shown(found)}; both are to be of one type"
    return None


@cache
def expanded(types: str) -> frozenset[str]:
    """The type strings that a constraint stands for; see `compact_types` in generate.py."""
    found: list[str] = []
    for part in types.split("; "):
        wrap, colon, elements = part.partition(": ")
        if not colon:
            found.append(part)
            continue
        closing = ")" * (wrap.count("(") + 1)
        found += [f"{wrap.rstrip(')')}({element}{closing}" for element in elements.split()]
    return frozenset(found)


def _shown(text: str) -> str:
    return text.removeprefix("tensor(").removesuffix(")") if text.startswith("tensor(") else text


def _listed(types: str) -> str:
    """A constraint for readers, tensors being meant: `float, int32 or int64`."""
    if types.startswith("tensor: ") and ";" not in types:
        *most, last = types.removeprefix("tensor: ").split()
        return f"{', '.join(most)} or {last}" if most else last
    return _shown(types)
