"""Users' operators: `sx.op` for one that runs in numpy, `sx.pointwise` for one that is fused into native kernels.

What they give is passed to `sx.compile(model, ops=[...])`, `sx.lower` and `sx.run`; nothing is registered globally.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .runtime.errors import UsageError
from .runtime.usage import FUNCTION, checked, listed
from .semantics.custom import CustomOperator, Operators

if TYPE_CHECKING:
    from .semantics.shapes.context import Context, Types


@checked
def op(
    name: str, *, since: int = 1, shape: Callable[[Context], Types] | None = None
) -> Callable[[Callable[..., Any]], CustomOperator]:
    """Makes a numpy function the operator `"domain::Name"`: arrays by position, the node's attributes by keyword.

    The function runs in the middle of native code, on views of its operands, which it must not write to or keep.  Its
    result has the type of its first operand, or the types that `shape(context)` gives (as `semantics/shapes` does).
    `since` is the first opset of its domain that has it.
    """
    domain, title = split(name)

    def made(reference: Callable[..., Any]) -> CustomOperator:
        FUNCTION.check(f"the reference of {name}", reference)
        return CustomOperator(domain, title, reference, since, shape)

    return made


@checked
def pointwise(
    name: str,
    *,
    reference: Callable[..., Any],
    body: Callable[..., Any],
    since: int = 1,
    shape: Callable[[Context], Types] | None = None,
) -> CustomOperator:
    """The operator `"domain::Name"` that computes each element from those at the same place, with broadcasting.

    `body(s, x, ..., t)` builds one element from the operands' in the type `t` that arithmetic is done in: f32 or f64
    for floats, integers as they are.  `s` has the operations (`lowering/tensor/scalars.py`).  Both functions take the
    node's attributes by keyword.  The operator is fused like those of ONNX, and `reference` is what it is tested by.
    """
    domain, title = split(name)
    return CustomOperator(domain, title, reference, since, shape, body)


def split(name: str) -> tuple[str, str]:
    """Domain and name of `"com.example::Foo"`. Raises UsageError for another form, and for ONNX's own domains."""
    domain, found, title = str(name).partition("::")
    if not found or not domain or not title:
        raise UsageError(f"{name!r} is no operator name such as 'com.example::Foo'")
    if domain in ("ai.onnx", "ai.onnx.ml"):
        raise UsageError(f"{name!r}: operators of {domain} are not replaced")
    return domain, title


def operator_table(ops: Iterable[CustomOperator]) -> Operators:
    """The operators by domain and name. Raises UsageError for what is none, and where two are the same."""
    table: dict[tuple[str, str], CustomOperator] = {}
    for each in listed("ops", ops, CustomOperator, "an operator of sx.op or sx.pointwise"):
        if table.setdefault((each.domain, each.name), each) is not each:
            raise UsageError(f"operator {each.title} is given twice")
    return table
