"""Transforms of any length and along any axis, and the mel filter bank."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from .cases import check

RNG = np.random.default_rng(0)
BF16 = ml_dtypes.bfloat16
LENGTHS = (1, 2, 3, 5, 8, 12, 16, 49, 67, 134, 200)


def floats(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def ints(*values: int) -> np.ndarray:
    return np.array(values[0] if len(values) == 1 else values, np.int64)


@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(length: int) -> None:
    for inverse in (0, 1):
        check("DFT", [floats(3, length, 2)], {"inverse": inverse}, tolerance=40, forms=(False,))
    check("DFT", [floats(2, length, 1)], {"onesided": 1}, tolerance=40, forms=(False,))


def test_any_length_in_one_program() -> None:
    import sardonyx as sx

    from .cases import compare, model_of

    x = floats(2, 4, 2)
    program = sx.compile(model_of("DFT", [x], {}, [x], dynamic=True))
    for lines, length in [(1, 1), (5, 400), (17, 134), (40, 8), (3, 1009), (1, 1024), (2, 61 * 4)]:
        x = floats(lines, length, 2)
        want = np.fft.fft(x[..., 0].astype(np.float64) + 1j * x[..., 1], axis=1)
        compare(program(x)["y0"], np.stack([want.real, want.imag], -1).astype(np.float32), 40)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BF16])
def test_types_axes_and_real_signals(dtype: type) -> None:
    x = floats(2, 6, 5, 1, dtype=dtype)
    for axis in (0, 1, -2, -3):
        check("DFT", [x, None, ints(axis)], {"onesided": 1}, tolerance=40)
    check("DFT", [floats(2, 6, 5, 2, dtype=dtype), ints(9), ints(1)], {"inverse": 1}, constants=[1, 2], tolerance=40)


def test_lengths_that_cut_or_fill_up() -> None:
    x = floats(3, 10, 2)
    for length in (7, 16, 97):
        check("DFT", [x, ints(length), ints(1)], tolerance=40, constants=[2])
        back = {"inverse": 1, "onesided": 1}
        check("DFT", [x, ints(length), ints(1)], back, tolerance=40, constants=[2], forms=(False,))
    check("DFT", [floats(4, 5, 2)], {"inverse": 1, "onesided": 1}, tolerance=40, levels=("graph", "tensor"))
    check("DFT", [floats(4, 5, 1)], {"inverse": 1, "onesided": 1}, tolerance=40)


@pytest.mark.parametrize("onesided", [0, 1])
def test_stft(onesided: int) -> None:
    signal, window = floats(2, 50, 1), np.hanning(12).astype(np.float32)
    attributes = {"onesided": onesided}
    check("STFT", [signal, ints(5), window], attributes, tolerance=40)
    check("STFT", [signal, ints(5), window, ints(12)], attributes, tolerance=40, constants=[1, 3])
    check("STFT", [signal, ints(7), None, ints(16)], attributes, tolerance=40)
    if not onesided:
        check("STFT", [floats(1, 20, 2), ints(3), None, ints(7)], attributes, tolerance=40)
        check("STFT", [floats(1, 9, 1, dtype=np.float64), ints(3)], attributes, tolerance=40)


@pytest.mark.parametrize("code", [1, 10, 11])
def test_mel_weight_matrix(code: int) -> None:
    for bins, length, rate, low, high in [(8, 16, 8192, 0.0, 4096.0), (40, 512, 16000, 20.0, 7600.0), (1, 2, 10, 0, 1)]:
        operands = [ints(bins), ints(length), ints(rate), np.array(low, np.float32), np.array(high, np.float32)]
        check("MelWeightMatrix", operands, {"output_datatype": code}, tolerance=4)
        check("MelWeightMatrix", operands, {"output_datatype": code}, tolerance=4, constants=range(4))
