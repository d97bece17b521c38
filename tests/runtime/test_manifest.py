"""Shapes of outputs from sizes of inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sardonyx.runtime.manifest import ExpressionError, Manifest, shape_function


def shapes(make: Callable[..., Manifest], inputs: list[Any], outputs: list[Any], sizes: list[int]) -> Any:
    return shape_function(
        make([(f"i{n}", "float32", dims) for n, dims in enumerate(inputs)],
             [(f"o{n}", "float32", dims) for n, dims in enumerate(outputs)])
    )(sizes)  # fmt: skip


def test_expressions_over_the_inputs_axes(make_manifest: Callable[..., Manifest]) -> None:
    inputs = [["N", 4, "M"], ["2*N", "M", "class"]]
    sizes = [3, 4, 5, 6, 5, 7]
    outputs = [
        ["N", "M", "class"], ["2*N + M"], ["4*((N + 3)//4)"], ["N%2 - 1"], ["max(M, N, 2)", "min(M, N)"],
        ["broadcast(N, M)"], [], [7], ["-N*N*M + M*M*M"],
    ]  # fmt: skip
    expected = [(3, 5, 7), (11,), (4,), (0,), (5, 3), (3,), (), (7,), (80,)]
    assert shapes(make_manifest, inputs, outputs, sizes) == expected
    assert shapes(make_manifest, [["N", "M"]], [["broadcast(N, M)"]], [1, 5]) == [(5,)]
    assert shapes(make_manifest, [["N", "M"]], [["broadcast(N, M)"]], [0, 1]) == [(0,)]


def test_what_only_the_run_tells(make_manifest: Callable[..., Manifest]) -> None:
    assert shapes(make_manifest, [["N"]], [["u0", "N"], ["N"]], [3]) == [None, (3,)]
    # a symbol that stands alone nowhere is bound nowhere
    assert shapes(make_manifest, [["2*K"]], [["K"]], [4]) == [None]


def test_a_quotient_by_zero_raises(make_manifest: Callable[..., Manifest]) -> None:
    with pytest.raises(ZeroDivisionError):
        shapes(make_manifest, [["N", "M"]], [["N//M"]], [3, 0])


@pytest.mark.parametrize(
    "text", ["__import__('os')", "N.real", "(lambda: 1)()", "[N]*9", "N if N else 1", "print(N)", "N N", "'a'", "1.5"]
)
def test_anything_else_is_refused(make_manifest: Callable[..., Manifest], text: str) -> None:
    with pytest.raises(ExpressionError):
        function = shape_function(make_manifest([("x", "float32", ["N"])], [("y", "float32", [text])]))
        assert function([1]) == [None]  # names that no input has: known to the run only, never evaluated
        raise ExpressionError
