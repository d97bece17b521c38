"""Fourier transforms, window functions and the mel filter bank.

Transforms run in float32 for float32 and narrower signals (numpy keeps the precision), else in float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .casting import convert
from .dtypes import Array, axis_of, double, dtype_of, integer_of, is_float, narrow, single
from .mathematics import Function


def _number(x: Array) -> int:
    return integer_of(x)


def _complex(x: Array) -> Array:
    """[..., 1] or [..., 2] as complex [...] of the signal's precision."""
    wide = single(x)
    imaginary = wide[..., 1] if x.shape[-1] == 2 else np.zeros_like(wide[..., 0])
    return wide[..., 0] + np.array(1j, np.complex64) * imaginary


def _pairs(x: Array, dtype: np.dtype) -> Array:
    return narrow(np.stack([np.real(x), np.imag(x)], axis=-1), dtype)


def dft(
    x: Array, dft_length: Array | None = None, axis: Array | None = None, /, *, inverse: int = 0, onesided: int = 0
) -> Array:
    along = axis_of(-2 if axis is None else _number(axis), x.ndim)
    if along == x.ndim - 1:
        raise ValueError("DFT over the axis of real and imaginary parts")
    values = _complex(x)
    if onesided and inverse:
        length = 2 * (x.shape[along] - 1) if dft_length is None else _number(dft_length)
        return narrow(np.fft.irfft(values, n=length, axis=along)[..., None], x.dtype)
    length = x.shape[along] if dft_length is None else _number(dft_length)
    transform = np.fft.ifft if inverse else np.fft.fft
    result = transform(values, n=length, axis=along)
    if onesided:
        result = np.take(result, np.arange(length // 2 + 1), axis=along)
    return _pairs(result, x.dtype)


def stft(
    signal: Array,
    frame_step: Array,
    window: Array | None = None,
    frame_length: Array | None = None,
    /,
    *,
    onesided: int = 1,
) -> Array:
    """[B, L, 1 or 2] -> [B, frames, bins, 2]."""
    total, step = signal.shape[1], _number(frame_step)
    if frame_length is not None:
        length = _number(frame_length)
    else:
        length = total if window is None else window.shape[0]
    weights = np.ones(length, np.float32) if window is None else single(window)
    if len(weights) != length:
        raise ValueError(f"a window of {len(weights)} for frames of {length}")
    frames = max((total - length) // step + 1, 0)
    index = np.arange(frames)[:, None] * step + np.arange(length)
    spectrum = np.fft.fft(_complex(signal)[:, index] * weights, axis=-1)
    return _pairs(spectrum[..., : length // 2 + 1] if onesided else spectrum, signal.dtype)


def _cosine_window(coefficients: Sequence[float]) -> Function:
    """sum of coefficients[k] * cos(2 pi k n / N), N one less than the size for a symmetric window."""

    def apply(size: Array, /, *, output_datatype: int = 1, periodic: int = 1) -> Array:
        count = _number(size)
        with np.errstate(invalid="ignore"):  # a symmetric window of one place
            angle = 2 * np.pi * np.arange(count) / np.float64(count if periodic else count - 1)
        values = sum((c * np.cos(k * angle) for k, c in enumerate(coefficients)), np.zeros(count))
        dtype = dtype_of(output_datatype)
        return convert(values if is_float(dtype) else values.astype(np.float32), dtype)

    return apply


def mel_weight_matrix(
    num_mel_bins: Array,
    dft_length: Array,
    sample_rate: Array,
    lower_edge_hertz: Array,
    upper_edge_hertz: Array,
    /,
    *,
    output_datatype: int = 1,
) -> Array:
    """Triangles [dft_length // 2 + 1, num_mel_bins] between spectrum bins equally spaced on the mel scale."""
    bins, length, rate = _number(num_mel_bins), _number(dft_length), _number(sample_rate)
    low, high = (2595 * np.log10(1 + double(e).reshape(()) / 700) for e in (lower_edge_hertz, upper_edge_hertz))
    mel = low + np.arange(bins + 2) * ((high - low) / (bins + 2))
    edges = np.floor((length + 1) * (700 * (10 ** (mel / 2595) - 1)) / rate).astype(np.int64)
    result = np.zeros((length // 2 + 1, bins))
    place = np.arange(length // 2 + 1)
    for i in range(bins):
        first, peak, last = edges[i : i + 3]
        if peak == first:
            result[peak, i] = 1.0
        else:
            rising = (place >= first) & (place <= peak)
            result[rising, i] = (place[rising] - first) / (peak - first)
        if last > peak:
            falling = (place >= peak) & (place < last)
            result[falling, i] = (last - place[falling]) / (last - peak)
    return convert(result, dtype_of(output_datatype))


SIGNAL: dict[str, Function] = {
    "BlackmanWindow": _cosine_window((0.42, -0.5, 0.08)),
    "DFT": dft,
    "HammingWindow": _cosine_window((25 / 46, -21 / 46)),
    "HannWindow": _cosine_window((0.5, -0.5)),
    "MelWeightMatrix": mel_weight_matrix,
    "STFT": stft,
}
