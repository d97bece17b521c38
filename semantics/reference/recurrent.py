"""RNN, GRU and LSTM with all their attributes.

States are carried in float64 and rounded where they are delivered.  Beyond a sample's sequence length Y is zero and
the states stay as they are; a reverse direction then starts at the sample's own last step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .activations import sigmoid_of, softplus_of
from .dtypes import Array, double, narrow
from .mathematics import Function

Map = Callable[[Array], Array]

# name -> (function of x, alpha, beta; default alpha; default beta); None where a parameter is not used
_ACTIVATIONS: dict[str, tuple[Callable[[Array, float, float], Array], float | None, float | None]] = {
    "affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "elu": (lambda x, a, b: np.where(x >= 0, x, a * np.expm1(x)), 1.0, None),
    "hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0.0, 1.0), 0.2, 0.5),
    "leakyrelu": (lambda x, a, b: np.where(x >= 0, x, a * x), 0.01, None),
    "relu": (lambda x, a, b: np.maximum(x, 0.0), None, None),
    "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), 1.0, 1.0),
    "sigmoid": (lambda x, a, b: sigmoid_of(x), None, None),
    "softplus": (lambda x, a, b: softplus_of(x), None, None),
    "softsign": (lambda x, a, b: x / (1.0 + np.abs(x)), None, None),
    "tanh": (lambda x, a, b: np.tanh(x), None, None),
    "thresholdedrelu": (lambda x, a, b: np.where(x >= a, x, 0.0), 1.0, None),
}


def activation_maps(
    names: Sequence[str], alphas: Sequence[float] | None, betas: Sequence[float] | None, clip: float | None
) -> list[Map]:
    """The named functions, clipped in front; alphas and betas go in order to those that have the parameter."""
    next_alpha, next_beta = iter(alphas or ()), iter(betas or ())

    def bound(name: str) -> Map:
        if name.lower() not in _ACTIVATIONS:
            raise ValueError(f"there is no activation {name!r}")
        function, alpha, beta = _ACTIVATIONS[name.lower()]
        a = 0.0 if alpha is None else next(next_alpha, alpha)
        b = 0.0 if beta is None else next(next_beta, beta)
        return lambda x: function(x if clip is None else np.clip(x, -clip, clip), a, b)

    return [bound(name) for name in names]


@dataclass(frozen=True)
class Pass:
    """One direction's steps over [T, B, ...]: which are taken in what order, and which samples take part."""

    steps: Sequence[int]
    lengths: Array | None

    def alive(self, step: int, new: Array, old: Array) -> Array:
        """The new state where the step is within the sample's length."""
        return new if self.lengths is None else np.where((step < self.lengths)[:, None], new, old)

    def shown(self, step: int, y: Array) -> Array:
        return y if self.lengths is None else np.where((step < self.lengths)[:, None], y, 0.0)


def passes(direction: str, steps: int, sequence_lens: Array | None) -> Iterator[tuple[int, Pass]]:
    """(index of the direction, its pass)."""
    orders = {
        "forward": [range(steps)],
        "reverse": [range(steps - 1, -1, -1)],
        "bidirectional": [range(steps), range(steps - 1, -1, -1)],
    }
    if direction not in orders:
        raise ValueError(f"there is no direction {direction!r}")
    for i, length in enumerate([] if sequence_lens is None else sequence_lens.tolist()):
        if not 0 <= length <= steps:
            raise ValueError(f"'sequence_lens' has at index {i} the length {length}, and must be in [0, {steps}]")
    for i, order in enumerate(orders[direction]):
        yield i, Pass(order, sequence_lens)


def initial_state(state: Array | None, direction: int, batch: int, hidden: int) -> Array:
    return np.zeros((batch, hidden)) if state is None else double(state)[direction]


def _swapped(x: Array | None, layout: int) -> Array | None:
    """Between [batch, first, ...] and [first, batch, ...] where layout is 1."""
    return np.swapaxes(x, 0, 1) if layout and x is not None else x


def _delivered(y: Array, states: Sequence[Array], layout: int, dtype: np.dtype) -> tuple[Array, ...]:
    """Y [T, directions, B, H] and the last states [directions, B, H] in the wanted layout and type."""
    if layout:
        y = y.transpose(2, 0, 1, 3)
        states = [s.transpose(1, 0, 2) for s in states]
    return (narrow(y, dtype), *(narrow(s, dtype) for s in states))


def _biases(b: Array | None, direction: int, gates: int, hidden: int) -> tuple[Array, Array]:
    """The input's and the recurrence's bias, [gates * hidden] each."""
    if b is None:
        return np.zeros(gates * hidden), np.zeros(gates * hidden)
    wide = double(b)[direction]
    return wide[: gates * hidden], wide[gates * hidden :]


def rnn(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    /,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] = ("Tanh", "Tanh"),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
) -> tuple[Array, ...]:
    del hidden_size  # R has it
    data, start = double(np.swapaxes(x, 0, 1) if layout else x), _swapped(initial_h, layout)
    (steps, batch), hidden = data.shape[:2], r.shape[2]
    functions = activation_maps(activations, activation_alpha, activation_beta, clip)
    y, last = np.zeros((steps, w.shape[0], batch, hidden)), np.zeros((w.shape[0], batch, hidden))
    for d, run in passes(direction, steps, sequence_lens):
        input_bias, recurrent_bias = _biases(b, d, 1, hidden)
        from_input = data @ double(w)[d].T + input_bias + recurrent_bias
        recurrence, h = double(r)[d].T, initial_state(start, d, batch, hidden)
        for t in run.steps:
            h = run.alive(t, functions[d](from_input[t] + h @ recurrence), h)
            y[t, d] = run.shown(t, h)
        last[d] = h
    return _delivered(y, [last], layout, x.dtype)


def gru(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    /,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> tuple[Array, ...]:
    del hidden_size
    data, start = double(np.swapaxes(x, 0, 1) if layout else x), _swapped(initial_h, layout)
    (steps, batch), hidden = data.shape[:2], r.shape[2]
    names = activations or ["Sigmoid", "Tanh"] * w.shape[0]
    functions = activation_maps(names, activation_alpha, activation_beta, clip)
    y, last = np.zeros((steps, w.shape[0], batch, hidden)), np.zeros((w.shape[0], batch, hidden))
    for d, run in passes(direction, steps, sequence_lens):
        f, g = functions[2 * d : 2 * d + 2]
        input_bias, recurrent_bias = _biases(b, d, 3, hidden)
        from_input = data @ double(w)[d].T + input_bias
        gates, candidate = double(r)[d][: 2 * hidden].T, double(r)[d][2 * hidden :].T
        gate_bias, candidate_bias = recurrent_bias[: 2 * hidden], recurrent_bias[2 * hidden :]
        h = initial_state(start, d, batch, hidden)
        for t in run.steps:
            zr = f(from_input[t, :, : 2 * hidden] + h @ gates + gate_bias)
            z, reset = zr[:, :hidden], zr[:, hidden:]
            if linear_before_reset:
                inner = reset * (h @ candidate + candidate_bias)
            else:
                inner = (reset * h) @ candidate + candidate_bias
            new = g(from_input[t, :, 2 * hidden :] + inner)
            h = run.alive(t, (1 - z) * new + z * h, h)
            y[t, d] = run.shown(t, h)
        last[d] = h
    return _delivered(y, [last], layout, x.dtype)


@dataclass(frozen=True)
class LstmCell:
    """One direction of an LSTM; gates are ordered i, o, f, c."""

    recurrence: Map
    """h [B, H] -> its part of the gates [B, 4 H]."""
    peepholes: Array
    """[3, H] for i, o and f."""
    functions: Sequence[Map]
    input_forget: bool

    def step(self, from_input: Array, h: Array, c: Array) -> tuple[Array, Array]:
        """The next hidden state and cell from the input's part of the gates."""
        f, g, final = self.functions
        gates = from_input + self.recurrence(h)
        i_part, o_part, f_part, c_part = np.split(gates, 4, axis=1)
        p_input, p_output, p_forget = self.peepholes
        enter = f(i_part + p_input * c)
        forget = 1.0 - enter if self.input_forget else f(f_part + p_forget * c)
        cell = forget * c + enter * g(c_part)
        return f(o_part + p_output * cell) * final(cell), cell


def run_lstm(
    projected: Sequence[Array],
    cells: Sequence[LstmCell],
    direction: str,
    sequence_lens: Array | None,
    initial_h: Array | None,
    initial_c: Array | None,
) -> tuple[Array, Array, Array]:
    """Y [T, D, B, H], Y_h and Y_c [D, B, H] in float64 from the input's part of the gates [T, B, 4 H] by direction."""
    steps, batch = projected[0].shape[:2]
    hidden = projected[0].shape[2] // 4
    y = np.zeros((steps, len(cells), batch, hidden))
    last_h, last_c = np.zeros((len(cells), batch, hidden)), np.zeros((len(cells), batch, hidden))
    for d, run in passes(direction, steps, sequence_lens):
        h, c = initial_state(initial_h, d, batch, hidden), initial_state(initial_c, d, batch, hidden)
        for t in run.steps:
            new_h, new_c = cells[d].step(projected[d][t], h, c)
            h, c = run.alive(t, new_h, h), run.alive(t, new_c, c)
            y[t, d] = run.shown(t, h)
        last_h[d], last_c[d] = h, c
    return y, last_h, last_c


def lstm_functions(
    directions: int,
    activations: Sequence[str] | None,
    activation_alpha: Sequence[float] | None,
    activation_beta: Sequence[float] | None,
    clip: float | None,
) -> list[list[Map]]:
    names = activations or ["Sigmoid", "Tanh", "Tanh"] * directions
    maps = activation_maps(names, activation_alpha, activation_beta, clip)
    return [maps[3 * d : 3 * d + 3] for d in range(directions)]


def peepholes_of(p: Array | None, direction: int, hidden: int) -> Array:
    return np.zeros((3, hidden)) if p is None else double(p)[direction].reshape(3, hidden)


def lstm(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    initial_c: Array | None = None,
    p: Array | None = None,
    /,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
) -> tuple[Array, ...]:
    del hidden_size
    data = double(np.swapaxes(x, 0, 1) if layout else x)
    directions, hidden = w.shape[0], r.shape[2]
    functions = lstm_functions(directions, activations, activation_alpha, activation_beta, clip)
    projected: list[Array] = []
    cells: list[LstmCell] = []
    for d in range(directions):
        projected.append(data @ double(w)[d].T + sum(_biases(b, d, 4, hidden)))
        cells.append(LstmCell(_times(double(r)[d].T), peepholes_of(p, d, hidden), functions[d], bool(input_forget)))
    states = (_swapped(initial_h, layout), _swapped(initial_c, layout))
    y, last_h, last_c = run_lstm(projected, cells, direction, sequence_lens, *states)
    return _delivered(y, [last_h, last_c], layout, x.dtype)


def _times(matrix: Array) -> Map:
    return lambda h: h @ matrix


RECURRENT: dict[str, Function] = {"GRU": gru, "LSTM": lstm, "RNN": rnn}
