"""Expressions read from Python text."""

from __future__ import annotations

import ast
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from . import extremes
from .expression import Dim, DimError, constant, dim_sum

_BINARY: dict[type[ast.operator], Callable[[Dim, Dim], Dim]] = {
    ast.Mult: Dim.__mul__,
    ast.FloorDiv: Dim.__floordiv__,
    ast.Mod: Dim.__mod__,
}
_FUNCTIONS: dict[str, Callable[..., Dim]] = {
    "min": extremes.dim_min,
    "max": extremes.dim_max,
    "broadcast": extremes.dim_broadcast,
}


@lru_cache(maxsize=1 << 14)
def parse_dim(text: str) -> Dim:
    """Reads an expression over names, integers, `+ - * // %`, `min()`, `max()` and `broadcast()`.

    Raises DimError for any other text.
    """
    try:
        if not unicodedata.is_normalized("NFKC", text):  # two names that Python takes for one would be one symbol
            raise DimError("not normalized")
        return _parse(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError) as error:
        raise DimError(f"not a dimension expression: {text[:100]!r}") from error


def _parse(node: ast.expr) -> Dim:
    match node:
        case ast.Name(id=name):
            return Dim.symbol(name)
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return constant(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_parse(operand)
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            return dim_sum(_summands(node))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_parse(left), _parse(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS and args:
            return _FUNCTIONS[name](*map(_parse, args))
        case _:
            raise DimError("outside the grammar")


def _summands(node: ast.expr) -> list[Dim]:
    """What a chain of sums and differences adds up, from the left."""
    found: list[Dim] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        right = _parse(node.right)
        found.append(right if isinstance(node.op, ast.Add) else -right)
        node = node.left
    return [_parse(node), *reversed(found)]
