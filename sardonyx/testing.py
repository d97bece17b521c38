"""Checks for people who write rewrite patterns: does it fire, does it decline, does it keep the values."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects import builtin, func
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from .dialects import dims, kernel, onnx
from .dialects.dims import dims_of
from .rewrites.driver import Firing, Pattern, apply_patterns
from .runtime.errors import UsageError
from .runtime.usage import checked, shown
from .runtime.usage import ranges as checked_ranges
from .semantics.interpreter import run_graph
from .semantics.weights import WeightStore
from .tools.explain import main_of


@dataclass(frozen=True)
class Report:
    """What a check found: the firings on the IR, and the largest difference over all bindings."""

    firings: tuple[Firing, ...]
    bindings: int
    largest_difference: float

    @property
    def fires(self) -> bool:
        """Whether the pattern changed anything."""
        return bool(self.firings)


def parse(ir: str) -> ModuleOp:
    """A module from IR text at the graph level; a bare function is taken as a module of one."""
    context = Context()
    for dialect in (builtin.Builtin, func.Func, onnx.Onnx, dims.Dims, kernel.Kernel):
        context.load_dialect(dialect)
    try:
        return Parser(context, ir).parse_module()
    except ParseError as e:
        raise UsageError(str(e)) from e


@checked
def check(
    pattern: type[Pattern] | Pattern,
    ir: str,
    *,
    bindings: int = 50,
    fires: bool = True,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    ranges: Mapping[str, tuple[int, int]] | None = None,
    seed: int = 0,
) -> Report:
    """Runs a pattern on IR and compares the function `main` before and after on random sizes and values.

    Symbols are drawn from 0, 1 and small numbers (or from `ranges`), equal and unequal; sizes that the function itself
    refuses before the rewrite are skipped.  Raises AssertionError where the pattern fires though `fires` is False (or
    the other way round), where the result does not verify, where a type of `main` changes, or where a value does.
    """
    rule: object = pattern() if isinstance(pattern, type) else pattern
    if not isinstance(rule, Pattern):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"pattern={shown(pattern)}: a rewrite pattern, or its class")
    drawn = {name: (low, high) for name, low, high in checked_ranges("ranges", ranges or {})}
    before, after = parse(ir), parse(ir)
    before.verify()
    firings = apply_patterns(after, [rule])
    after.verify()
    name = rule.title()
    assert bool(firings) == fires, f"{name} {'fired' if firings else 'did not fire'} on\n{ir}"
    assert main_of(before).function_type == main_of(after).function_type, f"{name} changed the type of main"
    rng = random.Random(seed)
    largest, ran = 0.0, 0
    for _ in range(bindings):
        feeds = random_feeds(before, rng, drawn)
        try:
            want = run_graph(before, WeightStore(), feeds)
        except (ValueError, IndexError, ArithmeticError):
            continue  # sizes that the function does not admit
        got = run_graph(after, WeightStore(), feeds)
        ran += 1
        for key, value in want.items():
            largest = max(largest, difference(name, key, value, got[key], rtol, atol))
    assert ran, f"the function ran at none of {bindings} bindings"
    return Report(tuple(firings), ran, largest)


def random_feeds(module: ModuleOp, rng: random.Random, ranges: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """Random inputs for `main` at one binding of its symbols."""
    main = main_of(module)
    symbols: dict[str, int] = {}
    values = np.random.default_rng(rng.randrange(1 << 30))
    feeds: dict[str, Any] = {}
    for argument, name in zip(main.body.block.args, input_names(module), strict=True):
        assert isinstance(argument.type, TensorType)
        shape: list[int] = []
        for d in dims_of(argument.type):
            for s in sorted(d.symbols):
                low, high = ranges.get(s, (0, 9))
                symbols.setdefault(s, rng.choice([low, min(low + 1, high), rng.randint(low, high)]))
            shape.append(d.evaluate(symbols))
        dtype = onnx.numpy_dtype(argument.type.element_type)
        if dtype.kind == "b":
            feeds[name] = values.integers(0, 2, shape).astype(dtype)
        elif dtype.kind in "iu":
            feeds[name] = values.integers(0, 5, shape).astype(dtype)
        else:
            feeds[name] = values.standard_normal(shape).astype(dtype)
    return feeds


def input_names(module: ModuleOp) -> Sequence[str]:
    """The names of main's inputs; by position where the IR gives none."""
    args = main_of(module).body.block.args
    return [onnx.value_name(a) or f"arg{i}" for i, a in enumerate(args)]


def difference(rule: str, name: str, want: Any, got: Any, rtol: float, atol: float) -> float:
    """The largest absolute difference; raises AssertionError beyond the tolerance."""
    w, g = np.asarray(want), np.asarray(got)
    assert w.shape == g.shape and w.dtype == g.dtype, f"{rule} changes {name}: {w.dtype}{w.shape} -> {g.dtype}{g.shape}"
    if w.size == 0 or w.dtype.kind not in "fiub":
        return 0.0
    a, b = w.astype(np.float64), g.astype(np.float64)
    with np.errstate(invalid="ignore"):
        away = np.asarray(np.abs(a - b))
    away[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0  # infinities and NaNs that agree
    if np.allclose(b, a, rtol=rtol, atol=atol, equal_nan=True):
        return float(away.max())
    # a NaN on one side alone is the largest difference of all
    at = np.unravel_index(int(np.where(np.isnan(away), np.inf, away).argmax()), away.shape)
    where = [int(i) for i in at]
    raise AssertionError(
        f"{rule} changes the value of {name} at {where}: {w[at]} -> {g[at]}, a difference of {away[at]:.3g}"
    )
