"""Pairs of bf16: rounding to them, and their dot products, by instructions and by arithmetic, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from harness import TARGETS, Compiled, host_has
from sardonyx.dialects.target import AVX512, Target

RNG = np.random.default_rng(0)

BF16 = Target("znver4", AVX512.features + ",+avx512bf16", 64, 32, 32 << 10, 1 << 20, 16 << 20)


pytestmark = pytest.mark.parametrize(
    "target", [*TARGETS, *([BF16] if host_has("avx512bf16") else [])], ids=lambda t: t.cpu
)


def rounded_halves(x: np.ndarray) -> np.ndarray:
    """f32 to the bits of bf16: to nearest even, denormals as zeros, NaN quiet."""
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    quiet = bits >> 16 | 0x40
    flushed = np.where(bits & 0x7F800000 == 0, bits >> 16 & 0x8000, rounded)
    return np.where(np.isnan(x), quiet, flushed).astype(np.uint16)


SPECIAL = np.array(
    [0x00000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7F8000, 0x7F800000, 0xFF800000, 0x7FC00001,
     0x7F800001, 0xFFC12345, 0x3F808000, 0x3F818000, 0x3F808001, 0x80000000, 0x00000000], np.uint32
).view(np.float32)  # fmt: skip


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
def test_halves(target: Target, lanes: int) -> None:
    k = Compiled(
        f"""
func.func private @k(%d0: index, %x: memref<?xf32>, %y: memref<?xf32>, %z: memref<?xi16>) {{
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0] : memref<?xf32>, vector<{lanes}xf32>
  %b = vector.load %y[%c0] : memref<?xf32>, vector<{lanes}xf32>
  %h = vectorx.halves %a, %b : vector<{lanes}xf32> to vector<{2 * lanes}xbf16>
  %w = vector.bitcast %h : vector<{2 * lanes}xbf16> to vector<{2 * lanes}xi16>
  vector.store %w, %z[%c0] : memref<?xi16>, vector<{2 * lanes}xi16>
  func.return
}}
""",
        target,
    )
    for start in range(0, 16, lanes):
        x, y = SPECIAL[start : start + lanes], (RNG.standard_normal(lanes) * 100).astype(np.float32)
        z = np.zeros(2 * lanes, np.uint16)
        k(0, np.ascontiguousarray(x), y, z)
        assert np.array_equal(z, rounded_halves(np.concatenate([x, y])))


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
def test_dot_of_halves(target: Target, lanes: int) -> None:
    """The odd product is added first; every addition rounds; denormal factors and sums are zeros."""
    k = Compiled(
        f"""
func.func private @k(%d0: index, %x: memref<?xi32>, %y: memref<?xi32>, %z: memref<?xf32>) {{
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0] : memref<?xi32>, vector<{lanes}xi32>
  %b = vector.load %y[%c0] : memref<?xi32>, vector<{lanes}xi32>
  %ah = vector.bitcast %a : vector<{lanes}xi32> to vector<{2 * lanes}xbf16>
  %bh = vector.bitcast %b : vector<{lanes}xi32> to vector<{2 * lanes}xbf16>
  %c = vector.load %z[%c0] : memref<?xf32>, vector<{lanes}xf32>
  %d = vectorx.dot "bf16" %c, %ah, %bh
    : vector<{lanes}xf32>, vector<{2 * lanes}xbf16>, vector<{2 * lanes}xbf16> to vector<{lanes}xf32>
  vector.store %d, %z[%c0] : memref<?xf32>, vector<{lanes}xf32>
  func.return
}}
""",
        target,
    )
    for scale in (1.0, 2.0**-62, 2.0**-64, 2.0**-127):
        for _ in range(20):
            a, b = ((RNG.standard_normal(2 * lanes) * scale).astype(np.float32) for _ in range(2))
            x, y = rounded_halves(a).view(np.uint32), rounded_halves(b).view(np.uint32)
            c = (RNG.standard_normal(lanes) * scale * scale).astype(np.float32)
            exact = [(h.astype(np.uint32) << 16).view(np.float32).astype(np.float64).reshape(lanes, 2)
                     for h in (rounded_halves(a), rounded_halves(b))]  # fmt: skip
            expected = flushed(c)
            for k_ in (1, 0):
                expected = flushed((expected + exact[0][:, k_] * exact[1][:, k_]).astype(np.float32))
            k(0, x, y, c)
            assert np.array_equal(c.view(np.uint32), expected.view(np.uint32)), scale


def flushed(x: np.ndarray) -> np.ndarray:
    """Denormals as zeros of their sign."""
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x).astype(np.float32)
