"""The conv_transpose template against float64."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import prod

import numpy as np
import pytest
from sardonyx.dialects.target import AVX2, Target
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute

from .kernel_cases import Tensor, compiled, host_target
from .test_kernels_conv import array


@dataclass(frozen=True)
class Case:
    x: tuple[int, ...]
    w: tuple[int, ...]
    pads: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...] = ()
    output_padding: tuple[int, ...] = ()
    group: int = 1

    @property
    def rank(self) -> int:
        return len(self.x) - 2

    @property
    def all_dilations(self) -> tuple[int, ...]:
        return self.dilations or (1,) * self.rank

    @property
    def result(self) -> tuple[int, ...]:
        r = self.rank
        extra = self.output_padding or (0,) * r
        spatial = [
            (self.x[2 + i] - 1) * self.strides[i] + extra[i] + (self.w[2 + i] - 1) * self.all_dilations[i] + 1
            - self.pads[i] - self.pads[r + i]
            for i in range(r)
        ]  # fmt: skip
        return (self.x[0], self.w[1] * self.group, *spatial)

    def config(self) -> dict[str, Attribute]:
        return {
            "pads": array(self.pads),
            "strides": array(self.strides),
            "dilations": array(self.all_dilations),
            "group": IntegerAttr(self.group, 64),
        }


def reference(x: np.ndarray, w: np.ndarray, case: Case) -> np.ndarray:
    """In float64: every input element is added to the output elements that it reaches."""
    r, g = case.rank, case.group
    n, channels = x.shape[:2]
    full = [(case.x[2 + i] - 1) * case.strides[i] + (case.w[2 + i] - 1) * case.all_dilations[i] + 1 for i in range(r)]
    padded = [max(f, case.pads[i] + case.result[2 + i]) for i, f in enumerate(full)]
    y = np.zeros((n, g, case.w[1], *padded))
    a = x.astype(np.float64).reshape(n, g, channels // g, prod(case.x[2:]))
    b = w.astype(np.float64).reshape(g, channels // g, case.w[1], *case.w[2:])
    for tap in itertools.product(*map(range, case.w[2:])):
        part = np.einsum("ngcp,gcm->ngmp", a, b[(slice(None),) * 3 + tap]).reshape(n, g, case.w[1], *case.x[2:])
        index = tuple(
            slice(k * d, k * d + (size - 1) * s + 1, s)
            for k, d, s, size in zip(tap, case.all_dilations, case.strides, case.x[2:])
        )
        if prod(case.x[2:]):
            y[(slice(None),) * 3 + index] += part
    cut = tuple(slice(case.pads[i], case.pads[i] + case.result[2 + i]) for i in range(r))
    return y[(slice(None),) * 3 + cut].reshape(case.result)


CASES = {
    "2x2 stride 2": Case((1, 5, 6, 7), (5, 9, 2, 2), (0,) * 4, (2, 2)),
    "3x3 stride 1": Case((2, 3, 6, 7), (3, 4, 3, 3), (1,) * 4, (1, 1)),
    "3x3 stride 2": Case((1, 3, 6, 20), (3, 4, 3, 3), (1,) * 4, (2, 2), (), (1, 1)),
    "4x4 stride 2": Case((1, 40, 5, 5), (40, 33, 4, 4), (1,) * 4, (2, 2)),
    "stride beyond the window": Case((1, 2, 4, 5), (2, 3, 1, 2), (0,) * 4, (3, 3)),
    "dilated": Case((1, 2, 5, 6), (2, 3, 3, 2), (1, 0, 2, 1), (2, 3), (2, 3)),
    "groups": Case((2, 6, 5, 5), (6, 2, 3, 3), (1,) * 4, (2, 2), (), (), 3),
    "depthwise": Case((2, 5, 5, 18), (5, 1, 4, 4), (1,) * 4, (2, 2), (), (), 5),
    "1d": Case((1, 4, 30), (4, 6, 5), (2, 1), (3,), (), (2,)),
    "3d": Case((1, 2, 3, 4, 5), (2, 3, 3, 3, 3), (1,) * 6, (2, 2, 2), (), (1, 1, 1)),
    "big pads": Case((1, 2, 6, 6), (2, 3, 3, 3), (4, 3, 4, 5), (2, 2)),
    "1x1": Case((2, 8, 4, 5), (8, 9, 1, 1), (0,) * 4, (1, 1)),
}


def check(case: Case, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> None:
    size = reference(np.abs(x), np.abs(w), case)
    bound = (np.finfo(np.float32).eps * (4 + prod(case.w) ** 0.5)) * size + (
        1e-3 if y.dtype == np.float16 else 0
    ) * size
    assert np.all(np.abs(y - reference(x, w, case)) <= bound)


def data(case: Case, dtype: object = np.float32) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(prod(case.x))
    return rng.standard_normal(case.x).astype(dtype), rng.standard_normal(case.w).astype(dtype)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_windows(case: Case) -> None:
    runs(case, host_target())


@pytest.mark.parametrize("name", ["2x2 stride 2", "dilated", "depthwise"])
def test_windows_with_narrow_vectors(name: str) -> None:
    runs(CASES[name], AVX2)


def runs(case: Case, target: Target) -> None:
    """Checks the result, and that ranges of work do not matter."""
    x, w = data(case)
    inputs = [Tensor.of(np.float32, *case.x), Tensor.of(np.float32, *case.w)]
    built = compiled("conv_transpose", case.config(), inputs, [Tensor.of(np.float32, *case.result)], 0, target)
    y = np.full(case.result, np.nan, np.float32)
    built.run([], x, w, y)
    check(case, x, w, y)
    threaded = compiled("conv_transpose", case.config(), inputs, [Tensor.of(np.float32, *case.result)], 0, target, 3)
    again = np.empty_like(y)
    threaded.run([], x, w, again)
    np.testing.assert_array_equal(again, y)


def test_symbolic_sizes() -> None:
    inputs = [Tensor.of(np.float16, "d0", 3, "d1", "d2"), Tensor.of(np.float16, 3, 4, 3, 3)]
    result = Tensor.of(np.float16, "d0", 4, "2*d1", "2*d2")
    config = {"pads": array([1] * 4), "strides": array([2, 2])}
    built = compiled("conv_transpose", config, inputs, [result], 3)
    for n, h, width in ((1, 1, 1), (2, 3, 20), (0, 2, 2)):
        case = Case((n, 3, h, width), (3, 4, 3, 3), (1,) * 4, (2, 2), (), (1, 1))
        x, w = data(case, np.float16)
        y = np.empty(case.result, np.float16)
        built.run([n, h, width], x, w, y)
        check(case, x, w, y)
