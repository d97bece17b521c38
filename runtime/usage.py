"""What the arguments of the public functions may be: one table, by the argument's name, and the error for another.

A function says `@checked` and has its arguments looked up here.  What a value means, beyond its kind, is the
function's own affair: a fact of `assume` is parsed where it is taken, and the error is of the same class.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from .errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True)
class Kind:
    """What a value may be, and that in words."""

    accepts: Callable[[Any], bool]
    what: str

    def check(self, name: str, value: object) -> None:
        """Raises UsageError for a value of another kind."""
        if not self.accepts(value):
            raise UsageError(f"{name}={shown(value)}: {self.what}")


def shown(value: object) -> str:
    """A value in an error: in full where that is short, else its beginning."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def whole(least: int) -> Callable[[Any], bool]:
    """Accepts whole numbers from `least` up; True is none."""
    return lambda value: not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least


def or_none(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or accepts(value)


def of(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def is_amount(value: Any) -> bool:
    """A number from 0 up; NaN is none."""
    return not isinstance(value, bool) and isinstance(value, Real) and float(value) >= 0


def is_list(value: Any) -> bool:
    """Something that has several values; text and bytes are one."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


def is_list_of(kind: type) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, Collection) and not isinstance(value, str) and all(isinstance(v, kind) for v in value)
    )


FLAG = Kind(of(bool), "True or False")
THREADS = Kind(or_none(whole(1)), "a number of threads, at least 1 (the caller's), or None for one on each core")
TOLERANCE = Kind(is_amount, "a number from 0 up")
SECONDS = Kind(is_amount, "a number of seconds from 0 up")
FUNCTION = Kind(callable, "a function")
SIZE = Kind(whole(0), "a size, a whole number from 0 up")
SYMBOL_SIZES = Kind(is_list_of(str), "a list of sizes such as 'N=8'")
NAMED_VALUES = Kind(of(Mapping), "a mapping from names to arrays")

KINDS: dict[str, Kind] = {
    "against": Kind(lambda v: True, ""),  # whatever a comparison has two sides of: `side_of` says
    "assume": Kind(lambda v: isinstance(v, str) or is_list(v), "a condition such as 'S == T', or a list of them"),
    "atol": TOLERANCE,
    "bindings": Kind(whole(1), "a number of bindings, at least 1"),
    "body": FUNCTION,
    "budget": SECONDS,
    "cache": FLAG,
    "device": Kind(of(str), "the name of a device, which is 'CPU'"),
    "dims": Kind(or_none(of(Mapping)), "a mapping {symbol: (least, greatest)}"),
    "exact": FLAG,
    "fast_math": FLAG,
    "feeds": NAMED_VALUES,
    "fires": FLAG,
    "fuse": FLAG,
    "inputs": NAMED_VALUES,
    "ir": Kind(of(str), "the text of a module"),
    "keep": FLAG,
    "keep_defaults": FLAG,
    "level": Kind(of(str), "the name of a level"),
    "names": Kind(or_none(is_list_of(str)), "a list of names of outputs, or None for all"),
    "ops": Kind(is_list, "a list of operators of sx.op or sx.pointwise"),
    "output": Kind(of(str, Path), "the path of a file"),
    "outputs": Kind(or_none(of(Mapping)), "a mapping from names of outputs to arrays"),
    "path": Kind(of(str, Path), "the path of a file"),
    "patterns": Kind(is_list, "a list of rewrite patterns"),
    "plain": FLAG,
    "precision": Kind(of(str), "the name of a mode such as 'f32'"),
    "progress": Kind(or_none(callable), "a function of (phase, done, total), or None"),
    "ranges": Kind(or_none(of(Mapping)), "a mapping {symbol: (least, greatest)}"),
    "reference": FUNCTION,
    "rtol": TOLERANCE,
    "schedule": Kind(or_none(of(str, Path, Mapping)), "a mapping from kernels to parts, or the path of a file"),
    "seconds": SECONDS,
    "seed": Kind(whole(0), "a whole number from 0 up"),
    "shape": Kind(or_none(callable), "a function from a context to types, or None"),
    "side": Kind(of(str), "the name of a side such as 'native'"),
    "since": Kind(whole(1), "the number of an opset, at least 1"),
    "sizes": SYMBOL_SIZES,
    "target": Kind(
        or_none(lambda v: hasattr(v, "cpu") and hasattr(v, "features")),
        "a sardonyx.dialects.target.Target is needed, or None for this machine",
    ),
    "threads": THREADS,
    "timed": FLAG,
    "to": Kind(of(str), "the name of a level"),
    "trace": Kind(or_none(of(bool)), "True, False, or None to look where an output differs"),
    "tuned": FLAG,
    "validate": FLAG,
    "workers": Kind(or_none(lambda v: hasattr(v, "submit")), "an executor of sardonyx.workers, or None for here"),
}
"""By the name of an argument, what it may be.  An argument that is not here is checked where it is used: a model."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function with its arguments checked; it raises UsageError for what they may not be."""
    names = tuple(signature(function).parameters)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in (*zip(names, args), *kwargs.items()):
            if name in KINDS:
                KINDS[name].check(name, value)
        return function(*args, **kwargs)

    return call


def listed(option: str, given: Iterable[T], kind: type[T] | None = None, what: str = "") -> tuple[T, ...]:
    """The values of an option that takes several, each a `kind`. Raises UsageError for what is none."""
    KINDS[option].check(option, given)
    values = tuple(given)
    for value in values:
        if kind is not None and not isinstance(value, kind):
            raise UsageError(f"{option} has {shown(value)}, which is not {what}")
    return values


def ranges(option: str, given: Mapping[str, tuple[int, int]]) -> tuple[tuple[str, int, int], ...]:
    """Ranges of symbols, in order. Raises UsageError for what is none."""
    for name, value in given.items():
        if not isinstance(name, str) or not is_range(value):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(
                f"{option} has {shown(value)} for {name!r}; a symbol has (least, greatest), whole numbers from 0 up"
            )
    return tuple((name, int(low), int(high)) for name, (low, high) in sorted(given.items()))


def is_range(value: Any) -> bool:
    """Two sizes, the greater one last."""
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:  # pyright: ignore[reportUnknownArgumentType]
        return False
    return all(map(whole(0), value)) and value[0] <= value[1]
