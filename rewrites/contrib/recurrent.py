"""Recurrences with quantized weights: ONNX's `Scan` over the steps, with the input's part of the gates in front."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import Region, SSAValue

from ...dialects import onnx
from ..node_builder import Results
from .activations import activated
from .expansion import Body, Expansion, Rule
from .quantized import dynamically_quantized

X, W, R, BIAS, LENGTHS, INITIAL_H, INITIAL_C, PEEPHOLES, W_SCALE, W_ZERO, R_SCALE, R_ZERO = range(12)
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Whether each direction runs backwards."""
PARAMETERS: Mapping[str, tuple[str, Sequence[float | None], Sequence[bool]]] = {
    "affine": ("Affine", (1.0, 0.0), (True, True)),
    "elu": ("Elu", (1.0,), (True, False)),
    "hardsigmoid": ("HardSigmoid", (0.2, 0.5), (True, True)),
    "leakyrelu": ("LeakyRelu", (0.01,), (True, False)),
    "relu": ("Relu", (), (False, False)),
    "scaledtanh": ("ScaledTanh", (1.0, 1.0), (True, True)),
    "sigmoid": ("Sigmoid", (), (False, False)),
    "softplus": ("Softplus", (), (False, False)),
    "softsign": ("Softsign", (), (False, False)),
    "tanh": ("Tanh", (), (False, False)),
    "thresholdedrelu": ("ThresholdedRelu", (1.0,), (True, False)),
}
"""By name in small letters: the activation, its parameters, and whether the node's alphas and betas go to it."""

Function = Callable[[Expansion, SSAValue], SSAValue]


@dataclass(frozen=True)
class Weights:
    """One direction's weights [rows, 4 * hidden] of bytes, with a scale and zero point for all or for each column."""

    values: SSAValue
    scale: SSAValue
    zero: SSAValue

    def product(self, b: Expansion, x: SSAValue) -> SSAValue:
        """x by the weights, with x quantized as a whole."""
        return self.of_quantized(b, dynamically_quantized(b, x))

    def of_quantized(self, b: Expansion, x: tuple[SSAValue, SSAValue, SSAValue]) -> SSAValue:
        """The same of bytes, their scale and zero point."""
        values, scale, zero = x
        total = b.value(onnx.MatMulIntegerOp, values, self.values, zero, self.zero)
        return b.mul(b.cast(total, f32), b.mul(scale, self.scale))


def dynamic_quantize_lstm(b: Expansion) -> Results:
    """Y [steps, directions, batch, hidden], and the last states [directions, batch, hidden]."""
    b.known("activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "input_forget")
    backwards = DIRECTIONS.get(b.attr("direction", "forward"))
    if backwards is None:
        raise b.unsupported(f"its direction '{b.attr('direction')}' is not supported")
    functions = functions_of(b, len(backwards))
    quantized = dynamically_quantized(b, _read_by_rows(b))
    found = [Direction(b, d, back, functions[3 * d : 3 * d + 3]).run(quantized) for d, back in enumerate(backwards)]
    y = [b.unsqueezed(ys, 1) for _, _, ys in found]
    states = [[b.unsqueezed(each[k], 0) for each in found] for k in range(2)]
    return [values[0] if len(values) == 1 else b.concat(values, axis) for values, axis in
            ((y, 1), (states[0], 0), (states[1], 0))]  # fmt: skip


def _read_by_rows(b: Expansion) -> SSAValue:
    """X, with 0 for the steps behind the longest row: they have no part in the range by which it is quantized."""
    if b.at(LENGTHS) is None:
        return b.x(X)
    longest = b.value(onnx.ReduceMaxOp, b.cast(b.x(LENGTHS), i64), attributes={"keepdims": 0})
    read = b.value(onnx.LessOp, b.unsqueezed(_steps(b), 1, 2), longest)
    return b.value(onnx.WhereOp, read, b.x(X), b.number(0, b.x(X)))


def _steps(b: Expansion) -> SSAValue:
    """0, 1, ... for the steps of X."""
    return b.value(onnx.RangeOp, b.ints(0), b.scalar(b.size_of(b.x(X), 0)), b.ints(1))


def functions_of(b: Expansion, directions: int) -> list[Function]:
    """Three activations for each direction: of the gates, of the cell's input and of the cell."""
    names = b.attr("activations") or ["Sigmoid", "Tanh", "Tanh"] * directions
    alphas, betas = iter(b.attr("activation_alpha", [])), iter(b.attr("activation_beta", []))
    clip = b.attr("clip")
    return [function_of(b, name, (alphas, betas), clip) for name in names]


def function_of(
    b: Expansion, name: str, given: tuple[Iterator[float], Iterator[float]], clip: float | None
) -> Function:
    """The activation of that name, clipped in front; it takes its parameters from those that are left."""
    entry = PARAMETERS.get(name.lower())
    if entry is None:
        raise b.unsupported(f"its activation '{name}' is not supported")
    title, defaults, takes = entry
    parameters = [next(left, default) for left, default, taken in zip(given, [*defaults, None], takes) if taken]

    def function(inner: Expansion, x: SSAValue) -> SSAValue:
        if clip:
            x = inner.value(onnx.ClipOp, x, inner.number(-clip, x), inner.number(clip, x))
        return activated(inner, x, title, parameters)

    return function


class Direction:
    """One direction of a node."""

    def __init__(self, b: Expansion, number: int, backwards: bool, functions: Sequence[Function]) -> None:
        self.b, self.number, self.backwards, self.functions = b, number, backwards, functions
        self.input = Weights(*(self.own(k) for k in (W, W_SCALE, W_ZERO)))
        self.recurrence = Weights(*(self.own(k) for k in (R, R_SCALE, R_ZERO)))

    def own(self, index: int) -> SSAValue:
        """This direction's part of an input."""
        array = self.b.array(self.b.x(index))
        if array is not None:
            return self.b.large_constant(np.asarray(array[self.number]))
        return self.b.value(onnx.GatherOp, self.b.x(index), self.b.ints(self.number))

    def run(self, quantized: tuple[SSAValue, SSAValue, SSAValue]) -> Sequence[SSAValue]:
        """The last states, and those of all steps [steps, batch, hidden].

        A row that has ended has no part in the range by which the states of a step are quantized, but for the step
        right behind its last; a row that is read backwards starts with its own last element at the first step.
        """
        b = self.b
        projected = self.input.of_quantized(b, quantized)
        if b.at(BIAS) is not None:
            both = b.split(self.own(BIAS), 0, 2)
            projected = b.add(projected, b.add(*both))
        peepholes = None if b.at(PEEPHOLES) is None else b.split(self.own(PEEPHOLES), 0, 3)
        states = [self.state(INITIAL_H), self.state(INITIAL_C)]
        if b.at(LENGTHS) is None:
            body = Body(b, 3)
            h, c, from_input = body.arguments
            new = self.cell(body, from_input, h, c, peepholes)
            directions = [int(self.backwards)]
            return self.scan([*states, projected], directions, body.finish([*new, new[0]]))
        lengths = b.cast(b.x(LENGTHS), i64)
        column = b.unsqueezed(lengths, 1)
        body = Body(b, 4)
        h, c, from_input, step = body.arguments
        zero = body.constant(np.array(0, np.float32))
        counted = body.value(onnx.WhereOp, body.value(onnx.LessOrEqualOp, step, column), h, zero)
        alive = body.value(onnx.LessOp, step, column)
        made = self.cell(body, from_input, counted, c, peepholes)
        new = [body.value(onnx.WhereOp, alive, value, old) for value, old in zip(made, (h, c))]
        region = body.finish([*new, body.value(onnx.WhereOp, alive, made[0], zero)])
        last_h, last_c, ys = self.scan([*states, self.turned(projected, lengths), _steps(b)], [0, 0], region)
        return [last_h, last_c, self.turned(ys, lengths)]

    def scan(self, operands: Sequence[SSAValue], directions: Sequence[int], region: Region) -> Sequence[SSAValue]:
        """A Scan of two states, and what it stacks in the order of its first sequence."""
        attributes = {
            "num_scan_inputs": len(directions),
            "scan_input_directions": list(directions),
            "scan_output_directions": [directions[0]],
        }
        found = self.b.several(onnx.ScanOp, operands, [True] * 3, attributes, [region])
        return [v for v in found if v is not None]

    def turned(self, rows: SSAValue, lengths: SSAValue) -> SSAValue:
        """[steps, batch, ...] with each row's own steps in the order that they are read in."""
        if not self.backwards:
            return rows
        at_least_one = self.b.value(onnx.MaxOp, lengths, self.b.ints([1]))
        return self.b.value(onnx.ReverseSequenceOp, rows, at_least_one, attributes={"time_axis": 0, "batch_axis": 1})

    def state(self, index: int) -> SSAValue:
        """A state [batch, hidden] to start from."""
        b = self.b
        if b.at(index) is not None:
            return self.own(index)
        sizes = b.concat([b.size_of(b.x(X), 1), b.size_of(b.x(R), 1)], 0)
        return b.value(onnx.ConstantOfShapeOp, sizes)

    def cell(
        self, b: Body, from_input: SSAValue, h: SSAValue, c: SSAValue, peepholes: Sequence[SSAValue] | None
    ) -> list[SSAValue]:
        """The next hidden state and cell; the gates are ordered input, output, forget, cell."""
        f, g, final = self.functions
        gates = b.add(from_input, self.recurrence.product(b, h))
        entering, leaving, forgetting, candidate = b.split(gates, 1, 4)

        def gate(x: SSAValue, peephole: int, cell: SSAValue) -> SSAValue:
            return f(b, x if peepholes is None else b.add(x, b.mul(peepholes[peephole], cell)))

        enter = gate(entering, 0, c)
        if b.attr("input_forget", 0):
            forget = b.sub(b.constant(np.array(1, np.float32)), enter)
        else:
            forget = gate(forgetting, 2, c)
        cell = b.add(b.mul(forget, c), b.mul(enter, g(b, candidate)))
        return [b.mul(gate(leaving, 1, cell), final(b, cell)), cell]


RECURRENT: Mapping[str, Rule] = {"DynamicQuantizeLSTM": dynamic_quantize_lstm}
