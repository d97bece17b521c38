"""Which nodes of old opsets would have to spread an operand over another, which they do only where told so."""

from __future__ import annotations

from collections.abc import Collection, Sequence

SINCE = {
    "Add": 7, "Sub": 7, "Mul": 7, "Div": 7, "Pow": 7, "And": 7, "Or": 7, "Xor": 7, "Less": 7, "Greater": 7, "Equal": 7,
    "Gemm": 7, "Max": 8, "Min": 8, "Mean": 8, "Sum": 8,
}  # fmt: skip
"""The versions before which operands have one shape, unless an attribute `broadcast` says otherwise."""


def spreads(op: str, version: int, shapes: Sequence[tuple[int, ...]], attributes: Collection[str]) -> bool:
    """Whether a node without leave spreads an operand: to the shape of another, of a Gemm's last to its result."""
    if version >= SINCE.get(op, 0) or "broadcast" in attributes:
        return False
    if op == "Gemm":
        turned = "transA" in attributes or "transB" in attributes
        return turned or shapes[2:] != [(shapes[0][0], shapes[1][1])]
    return len(set(shapes)) > 1
