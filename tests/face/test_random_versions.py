"""Random models with versions, and with assumptions that hold and that do not: the same bits, or an error in words."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from sardonyx.semantics.conditions import Condition

import sardonyx as sx

sys.path.insert(0, str(Path(__file__).parent))

import random_versions

OTHERS = ("B == 1", "T == U", "C == B", "V == 1", "T%16 == 0", "U <= 4", "2*B <= T")
"""Conditions to assume where nothing is missing."""


def outcome(program: sx.Program, feed: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]] | sx.InputError:
    try:
        return program(feed)
    except sx.InputError as error:
        return error


def check(seed: int) -> None:
    model = random_versions.random_model(seed)
    fused, apart = (sx.compile(model, cache=False, threads=1, fuse=fuse) for fuse in (True, False))
    missing = [pair["missing"] for pair in fused.explain().to_dict()["pairs"] if "missing" in pair]
    condition = random.Random(seed).choice(missing or OTHERS)
    assuming = sx.compile(model, cache=False, threads=1, assume=[condition])
    for sizes in random_versions.BORDERS:
        feed = random_versions.feeds(seed, sizes)
        want, found = outcome(apart, feed), outcome(fused, feed)
        same(want, found, sizes)
        failing = [part for part in map(Condition.parse, condition.split(" and ")) if not holds(part, sizes)]
        found = outcome(assuming, feed)
        if not failing:
            same(want, found, sizes)
        else:
            assert isinstance(found, sx.InputError), (condition, sizes)
            if not isinstance(want, sx.InputError):
                told(str(found), failing[0], sizes)


def holds(condition: Condition, sizes: dict[str, int]) -> bool:
    try:
        return condition.holds(sizes)
    except sx.Error:  # sizes that do not broadcast
        return False
    except ValueError:
        return False


def same(want: Any, found: Any, sizes: dict[str, int]) -> None:
    """Both refuse the sizes, or give the same bits."""
    assert isinstance(want, sx.InputError) == isinstance(found, sx.InputError), (sizes, want, found)
    if isinstance(want, sx.InputError):
        return
    for name, value in want.items():
        assert found[name].shape == value.shape and found[name].tobytes() == value.tobytes(), (sizes, name)


def told(message: str, condition: Condition, sizes: dict[str, int]) -> None:
    """The message has the condition, its symbols' inputs and axes, and the sizes."""
    assert ("does not hold" in message or "is no multiple of" in message) and "axis" in message
    for symbol in condition.left.symbols | condition.right.symbols:
        assert f"{symbol} is the size of" in message or f"{symbol} = {sizes[symbol]}" in message, message


@pytest.mark.parametrize("seed", range(6))
def test_versions_and_assumptions(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 60))
def test_many_versions_and_assumptions(seed: int) -> None:
    check(seed)


BRANCH = """<ir_version: 10, opset_import: ["" : 21]> g (float[S] a, float[T] b, bool c) => (float[n] y) {
  y = If (c) <then_branch = t () => (float[k] z) { s = Add (a, b) z = ReduceSum <keepdims = 1> (s) },
    else_branch = e () => (float[l] w) { w = ReduceSum <keepdims = 1> (a) }> }"""


def test_a_guard_of_a_branch_that_is_not_taken_fails_no_call() -> None:
    """An assumption of the caller is of the whole call; what a branch demands is of that branch."""
    model = onnx.parser.parse_model(BRANCH)
    a, b = np.ones(3, np.float32), np.ones(2, np.float32)
    program, assuming = sx.compile(model, cache=False), sx.compile(model, cache=False, assume="S == T")
    assert program(a, b, np.array(False))["y"].tolist() == [3]
    with pytest.raises(sx.InputError, match=r"S = 3.*T = 2|T = 2.*S = 3"):
        program(a, b, np.array(True))
    for taken in (True, False):
        with pytest.raises(sx.InputError, match="S == T does not hold: 3 and 2"):
            assuming(a, b, np.array(taken))
        assert assuming(a, a, np.array(taken))["y"].tolist() == [6 if taken else 3]
