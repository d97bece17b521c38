"""Sizes as files write them: names, expressions of the grammar, and those that torch and sympy print."""

from __future__ import annotations

import ast

from ..dialects.dims.expression import Dim, DimError, parse_dim
from ..dialects.dims.reserved import is_reserved

_MAX_POWER = 8


def dim_of_text(text: str) -> Dim | None:
    """A `dim_param` that is a name or an expression; None for other text (`?`, `p2o.Dim.0`).

    Beside the grammar of `parse_dim`, it reads `Max`, `Min`, `FloorDiv`, `Mod`, `**`, and quotients rounded by `floor`,
    `ceil`, `ceiling` or `CeilToInt`, as torch and sympy print sizes.  A name that the compiler has for itself is other
    text.
    """
    if not text.isascii():
        return None  # a symbol stands in the IR's text, and in expressions that Python reads
    try:
        dim = parse_dim(text)
    except DimError:
        dim = _of_printed(text)
    if dim is None or (dim.is_const and dim.value < 0) or any(map(is_reserved, dim.symbols)):
        return None
    return dim


def is_name(text: str) -> bool:
    """Whether a text that is no expression names a size: not `?`, `-1` or `None`, which several sizes may have."""
    return any(character.isalpha() for character in text) and text.strip() != "None"


def _of_printed(text: str) -> Dim | None:
    try:
        return parse_dim(ast.unparse(_Printed().visit(ast.parse(text.strip(), mode="eval"))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _Printed(ast.NodeTransformer):
    """Calls that torch and sympy print, as operators of the grammar."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="Max" | "Min" as name), args=args, keywords=[]):
                return ast.Call(ast.Name(name.lower()), args, [])
            case ast.Call(func=ast.Name(id="FloorDiv"), args=[a, b], keywords=[]):
                return ast.BinOp(a, ast.FloorDiv(), b)
            case ast.Call(func=ast.Name(id="Mod" | "PythonMod"), args=[a, b], keywords=[]):
                return ast.BinOp(a, ast.Mod(), b)
            case ast.Call(func=ast.Name(id="IntTrueDiv"), args=[a, b], keywords=[]):
                return ast.BinOp(a, ast.Div(), b)
            case ast.Call(func=ast.Name(id="floor" | "FloorToInt"), args=[ast.BinOp(a, ast.Div(), b)], keywords=[]):
                return ast.BinOp(a, ast.FloorDiv(), b)
            case ast.Call(
                func=ast.Name(id="ceil" | "ceiling" | "CeilToInt"), args=[ast.BinOp(a, ast.Div(), b)], keywords=[]
            ):
                return ast.UnaryOp(ast.USub(), ast.BinOp(ast.UnaryOp(ast.USub(), a), ast.FloorDiv(), b))
            case _:
                return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.BinOp(left=base, op=ast.Pow(), right=ast.Constant(value=int(power))) if 1 <= power <= _MAX_POWER:
                product = base
                for _ in range(power - 1):
                    product = ast.BinOp(product, ast.Mult(), base)
                return product
            case _:
                return node
