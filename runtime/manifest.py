"""What a compiled program is, besides its objects and weights: plain JSON, so that it loads without the compiler."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any, NotRequired, TypedDict, cast

FORMAT = 2
"""Of this description. Another number is another product version's: compiled again, never guessed at."""

OBJECT_TYPES = ("string", "object")
"""Element types whose values are Python objects: native code only hands their numbers on."""

ABSENT = "none"
"""The element type of an operand that a host operator is called without."""

Sizes = Sequence[int]
Shape = tuple[int, ...]


class Held(TypedDict):
    """What a container, or one of its tensors, is declared to be.

    `kind` is `tensor`, `sequence`, `optional` or `map`; `dtype` the element type of a tensor, or of a map's keys;
    `dims` a tensor's sizes, -1 where one is open, and absent where the rank is.
    """

    kind: str
    dtype: NotRequired[str]
    dims: NotRequired[list[int]]
    element: NotRequired[Held]


class TensorSpec(TypedDict):
    """An input or output. `dims` has a number or an expression for each axis; it is empty for `object`."""

    name: str
    dtype: str
    """numpy's or ml_dtypes' name of the element type, or one of OBJECT_TYPES."""
    dims: list[int | str]
    holds: NotRequired[Held]
    """What an `object` is."""
    default: NotRequired[int]
    """The weight that an input is where the caller gives none."""


class Check(TypedDict):
    """A site that can fail. `message` has {0}, {1}, ... where the record's values go."""

    code: str
    message: str
    kernel: NotRequired[str]
    node: NotRequired[int]
    """The node that it is about, where that is not the one in the record: a kernel runs several."""


class HostValue(TypedDict):
    """An operand or result of a host operator; Python objects come by number.

    Their `rank` is -1: no sizes follow. Texts that are a result say their sizes.
    """

    dtype: str
    rank: int


class Host(TypedDict):
    """An operator that is called back: what it is, and the layout of its argument words.

    The words are, for each input, its pointer and its dims; then for each output its pointer (0: the host allocates)
    and its dims, which the host sets where it allocates and must agree with where not.
    """

    name: str
    node: int
    inputs: list[HostValue]
    outputs: list[HostValue]
    payload: NotRequired[Any]
    """What the one who supplies the function needs to find it again (operator, attributes)."""
    given: NotRequired[bool]
    """Whether the function is the user's, and so what it gives otherwise than announced."""


class Question(TypedDict):
    """What a call must tell before there is code for it, since a rank rests on it: the value of an expression.

    `places` says for each symbol which input it comes from, and which axis' size (`axis`) or element it is, or that it
    is the `rank`.  Of a
    yes-or-no question, 0 is no; `assumptions` are then those of no and of yes.  Else there is one, with `{}` for the
    value.
    """

    expression: str
    places: dict[str, Place]
    assumptions: list[str]
    asks: NotRequired[str]
    """What the program that gives the answer is compiled under, where no inputs tell it themselves."""


class Place(TypedDict):
    """Where a symbol's value is in the inputs."""

    input: int
    kind: str
    at: int


class Manifest(TypedDict):
    """A program. Keys of `checks` are site numbers as text; node ids are indices into `nodes`."""

    format: int
    abi: int
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    checks: dict[str, Check]
    nodes: list[str]
    hosts: list[Host]
    explain: Any
    question: NotRequired[Question]
    """Without code: each call first answers it, and goes to the program for that answer."""
    otherwise: NotRequired[list[Question]]
    """Expressions of which one may be 0 where a guard fails: such calls have a program of their own."""


class ExpressionError(ValueError):
    """Text that is no size expression."""


_NAME = re.compile(r"[^\W\d]\w*")
_CALLS = ("min", "max", "broadcast")
_ALLOWED = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub,
    ast.Call, ast.Name, ast.Load, ast.Constant, ast.Tuple, ast.Subscript,
)  # fmt: skip


def _broadcast(*sizes: int) -> int:
    return next((size for size in sizes if size != 1), 1)


def symbols_of(text: str) -> list[str]:
    """The names in an expression, in order of appearance."""
    return [name for name in dict.fromkeys(_NAME.findall(text)) if name not in _CALLS]


def input_symbols(inputs: Sequence[TensorSpec]) -> dict[str, int]:
    """Where each symbol is bound: its place among all axes of all inputs, where it first stands alone."""
    places: dict[str, int] = {}
    at = 0
    for spec in inputs:
        for dim in spec["dims"]:
            if isinstance(dim, str) and _NAME.fullmatch(dim) and dim not in _CALLS:
                places.setdefault(dim, at)
            at += 1
    return places


def shape_function(manifest: Manifest) -> Callable[[Sizes], list[Shape | None]]:
    """The outputs' shapes from the sizes of all axes of all inputs; None for one that only the run tells.

    The function raises ZeroDivisionError where a shape has no value; sizes may come out negative where a guard of the
    program will refuse the inputs. Raises ExpressionError for a manifest with anything but size expressions.
    """
    places = input_symbols(manifest["inputs"])
    texts: list[str] = []
    for spec in manifest["outputs"]:
        names = {name for dim in spec["dims"] if isinstance(dim, str) for name in symbols_of(dim)}
        if spec["dtype"] in OBJECT_TYPES or not names <= places.keys():
            texts.append("None")
        else:
            texts.append("(" + "".join(f"{_translated(dim, places)}, " for dim in spec["dims"]) + ")")
    return _compiled(f"[{', '.join(texts)}]")


def value_function(text: str, names: Sequence[str]) -> Callable[[Sizes], int]:
    """The value of an expression over these symbols from their values, in that order. Raises ExpressionError."""
    places = {name: at for at, name in enumerate(names)}
    function = _compiled(f"[{_translated(text, places)}]")
    return lambda values: cast("list[int]", function(values))[0]


def _translated(dim: int | str, places: dict[str, int]) -> str:
    """The expression over `sizes`; names that are Python's own words are none here."""
    if isinstance(dim, int):
        return str(dim)
    return _NAME.sub(lambda m: m[0] if m[0] in _CALLS else f"sizes[{places[m[0]]}]", dim)


def _compiled(text: str) -> Callable[[Sizes], list[Shape | None]]:
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise ExpressionError(f"no size expression: {text}") from error
    for node in ast.walk(tree):
        allowed = isinstance(node, _ALLOWED) or node is tree.body
        if isinstance(node, ast.Constant):
            allowed = node.value is None or type(node.value) is int
        if not allowed or (isinstance(node, ast.Name) and node.id not in (*_CALLS, "sizes")):
            raise ExpressionError(f"no size expression: {text}")
    scope = {"min": min, "max": max, "broadcast": _broadcast, "__builtins__": {}}
    function = eval(f"lambda sizes: {text}", scope)  # the tree has names of this scope, numbers and arithmetic only
    return cast("Callable[[Sizes], list[Shape | None]]", function)
