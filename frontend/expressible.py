"""What a model's opset can express of an op, and the error for what it cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from onnx import defs
from xdsl.ir import Attribute, Operation

from ..dialects import onnx
from ..dialects.onnx.attributes import text_of
from ..dialects.onnx.base import describe, origin_of
from ..dialects.onnx.types import type_string
from ..runtime.errors import UnsupportedError


class Inexpressible(UnsupportedError):
    """An op that a rewrite made cannot be written at the model's opset: the `pattern`, the op, and its node ids."""

    def __init__(self, problem: UnsupportedError, op: Operation) -> None:
        super().__init__(str(problem))
        made_by = op.attributes.get("pattern")
        self.pattern = text_of(made_by) if made_by is not None else None
        self.op = op.name
        self.origins = origin_of(op)


def trimmed(listed: Sequence[str]) -> list[str]:
    """Without the values at the end that are left out."""
    found = list(listed)
    while found and not found[-1]:
        found.pop()
    return found


@lru_cache(maxsize=4096)
def schema_then(domain: str, op_type: str, version: int) -> defs.OpSchema | None:
    """An operator's schema as of a version of its domain; None where it had none yet."""
    return defs.get_schema(op_type, version, domain) if defs.has(op_type, version, domain) else None


def check_expressible(
    op: onnx.OnnxOp, then: defs.OpSchema, inputs: list[str], outputs: list[str], attributes: Mapping[str, Attribute]
) -> None:
    """Raises UnsupportedError where the op uses what its operator did not have then."""
    problem = None
    unknown = [name for name in attributes if name not in then.attributes]
    if unknown:
        problem = f"it had no attribute '{unknown[0]}'"
    elif len(trimmed(inputs)) > then.max_input:
        problem = f"it had {then.max_input} inputs"
    elif len(trimmed(inputs)) < then.min_input:
        problem = f"it had at least {then.min_input} inputs"
    elif len(trimmed(outputs)) > then.max_output:
        problem = f"it had {then.max_output} outputs"
    else:
        problem = _type_problem(op, then)
    if problem:
        raise UnsupportedError(f"{describe(op)} cannot be written as of version {then.since_version}: {problem}")


def _type_problem(op: onnx.OnnxOp, then: defs.OpSchema) -> str | None:
    """The first operand or result of a type that its operator did not take."""
    for formals, values in ((then.inputs, op.formal_operands()), (then.outputs, op.formal_results())):
        for at, value in enumerate(values):
            if value is None or not formals or (text := type_string(value.type)) is None:
                continue
            allowed = formals[min(at, len(formals) - 1)].types
            if text not in allowed:
                return f"it took no {text.removeprefix('tensor(').removesuffix(')')}"
    return None
