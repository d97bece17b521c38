"""Operators of com.microsoft that models in the wild use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .dtypes import Array, double, narrow
from .mathematics import Function
from .quantization import dynamic_parameters, quantize_linear
from .recurrent import LstmCell, Map, lstm_functions, peepholes_of, run_lstm


def quantized_product(weights: Array, scale: Array, zero_point: Array) -> Map:
    """x -> x @ weights, with x quantized to bytes as a whole at each call; scale and zero point by column or one."""
    centred = double(weights) - double(zero_point).reshape(1, -1)

    def apply(x: Array) -> Array:
        single = x.astype(np.float32)
        x_scale, x_zero_point = dynamic_parameters(single)
        if x_scale == 0:
            return np.zeros((*x.shape[:-1], weights.shape[1]))
        quantized = double(quantize_linear(single, x_scale, x_zero_point)) - double(x_zero_point)
        return (quantized @ centred) * (double(x_scale) * double(scale).reshape(1, -1))

    return apply


def dynamic_quantize_lstm(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None,
    sequence_lens: Array | None,
    initial_h: Array | None,
    initial_c: Array | None,
    p: Array | None,
    w_scale: Array,
    w_zero_point: Array,
    r_scale: Array,
    r_zero_point: Array,
    /,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
) -> tuple[Array, ...]:
    """An LSTM with weights W [D, input, 4 H] and R [D, H, 4 H] of bytes; inputs and states are quantized as they come.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
    """
    del hidden_size
    directions, hidden = w.shape[0], r.shape[1]
    functions = lstm_functions(directions, activations, activation_alpha, activation_beta, clip)
    projected: list[Array] = []
    cells: list[LstmCell] = []
    for d in range(directions):
        from_input = quantized_product(w[d], w_scale[d], w_zero_point[d])(x)
        if b is not None:
            bias = double(b)[d]
            from_input = from_input + bias[: 4 * hidden] + bias[4 * hidden :]
        projected.append(from_input)
        recurrence = quantized_product(r[d], r_scale[d], r_zero_point[d])
        cells.append(LstmCell(recurrence, peepholes_of(p, d, hidden), functions[d], bool(input_forget)))
    results = run_lstm(projected, cells, direction, sequence_lens, initial_h, initial_c)
    return tuple(narrow(y, x.dtype) for y in results)


def inverse(x: Array, /) -> Array:
    """The inverses of matrices [..., n, n], which must have one; a singular one raises ValueError."""
    try:
        return narrow(np.linalg.inv(double(x)), x.dtype)
    except np.linalg.LinAlgError as e:
        raise ValueError(f"a matrix has no inverse: {e}") from e


MICROSOFT: dict[str, Function] = {"DynamicQuantizeLSTM": dynamic_quantize_lstm, "Inverse": inverse}
