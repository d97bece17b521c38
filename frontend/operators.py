"""A node's operator: which schema its version has, our class for it, and whether the node keeps to its signature."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from onnx import defs
from xdsl.ir import Attribute, SSAValue

from ..dialects import onnx
from ..dialects.onnx.schema import Arity, Schema
from ..dialects.onnx.types import UNKNOWN
from ..runtime.errors import ModelError


class Resolved(NamedTuple):
    """A node's operator: the schema of its version, our class, and whether the node reads the same in the newest."""

    schema: defs.OpSchema
    op: type[onnx.OnnxOp]
    fits: bool


@lru_cache(maxsize=4096)
def resolve(domain: str, op_type: str, version: int | None) -> Resolved | None:
    """The operator of that name in that opset; None where there is none."""
    op = onnx.OP_BY_NAME.get((domain, op_type))
    if op is None or version is None:
        return None
    try:
        schema = defs.get_schema(op_type, version, domain)
    except defs.SchemaError:
        return None
    if schema.deprecated and defs.has(op_type, schema.since_version - 1, domain):
        schema = defs.get_schema(op_type, schema.since_version - 1, domain)  # what it was when it was one
    return Resolved(schema, op, schema.since_version >= op.SCHEMA.compatible)


@lru_cache(maxsize=1)
def newest_versions() -> dict[str, int]:
    newest: dict[str, int] = {}
    for op in onnx.OPS:
        newest.setdefault(op.SCHEMA.domain, 0)
    known = {"": defs.onnx_opset_version(), "ai.onnx.ml": defs.onnx_ml_opset_version()}
    return {domain: known[domain] for domain in newest if domain in known}


class Spec(NamedTuple):
    kind: str
    required: bool


@lru_cache(maxsize=4096)
def _specs_at(domain: str, op_type: str, version: int) -> dict[str, Spec]:
    schema = defs.get_schema(op_type, version, domain)
    return {name: Spec(str(a.type).rpartition(".")[2], a.required) for name, a in schema.attributes.items()}


def specs_of(schema: defs.OpSchema) -> dict[str, Spec]:
    return _specs_at(schema.domain, schema.name, schema.since_version)


def check_operands(operands: list[SSAValue | None], schema: Schema) -> None:
    formals = schema.inputs
    for index, formal in enumerate(formals):
        if formal.arity is Arity.SINGLE and (index >= len(operands) or operands[index] is None):
            raise ModelError(f"lacks its input {index} ('{formal.name}')")
    variadic = bool(formals) and formals[-1].arity is Arity.VARIADIC
    fixed = len(formals) - variadic
    rest = operands[fixed:]
    if variadic and None in rest:
        raise ModelError(f"its input {fixed + rest.index(None)} has no name")
    if not variadic and any(v is not None for v in rest):
        raise ModelError(f"has {len(operands)} inputs, not {between(schema.min_inputs, fixed)}")
    if len(operands) < schema.min_inputs:
        raise ModelError(f"has {len(operands)} inputs, and needs {schema.min_inputs}")


def result_types(listed: Sequence[str], schema: Schema) -> list[Attribute | None]:
    formals = schema.outputs
    variadic = bool(formals) and formals[-1].arity is Arity.VARIADIC
    if len(listed) > len(formals) and not variadic and any(listed[len(formals) :]):
        raise ModelError(f"has {len(listed)} outputs, not {between(schema.min_outputs, len(formals))}")
    if len(listed) < schema.min_outputs:
        raise ModelError(f"has {len(listed)} outputs, and needs {schema.min_outputs}")
    types: list[Attribute | None] = []
    for index, name in enumerate(listed if variadic else listed[: len(formals)]):
        needed = index >= len(formals) or formals[index].arity is not Arity.OPTIONAL
        types.append(UNKNOWN if name or needed else None)
    return types


def between(least: int, most: int) -> str:
    if most > 1 << 20:
        return f"at least {least}"
    return str(least) if least == most else f"{least} to {most}"
