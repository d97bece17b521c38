"""LSTM, GRU and RNN against the reference functions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from sardonyx.dialects import kernel
from sardonyx.dialects.target import AVX2, AVX512, Target
from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, Float32Type, IntegerAttr
from xdsl.ir import SSAValue

from .kernel_cases import Tensor, loops_kernel, targets
from .operator_cases import array, attribute, build, compare, reference, run

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def operands(
    name: str, steps: int, batch: int, depth: int, hidden: int, directions: int = 1, layout: int = 0,
    dtype: object = np.float32, **absent: bool,
) -> list[np.ndarray | None]:  # fmt: skip
    rng = np.random.default_rng(steps + hidden)
    g = GATES[name]

    def random(*shape: int, scale: float = 0.4) -> np.ndarray:
        return (rng.standard_normal(shape) * scale).astype(dtype)

    state = (batch, directions, hidden) if layout else (directions, batch, hidden)
    all_: list[np.ndarray | None] = [
        random(*((batch, steps, depth) if layout else (steps, batch, depth)), scale=1.0),
        random(directions, g * hidden, depth),
        random(directions, g * hidden, hidden),
        random(directions, 2 * g * hidden),
        rng.integers(0, steps + 1, batch).astype(np.int32),
        random(*state),
    ]
    if name == "LSTM":
        all_ += [random(*state), random(directions, 3 * hidden)]
    names = ["X", "W", "R", "B", "lengths", "h", "c", "p"]
    return [None if absent.get(n) else a for n, a in zip(names, all_)]


def results(name: str) -> tuple[int, ...]:
    return (0, 1, 2) if name == "LSTM" else (0, 1)


@pytest.mark.parametrize("target", targets(), ids=lambda t: t.cpu)
@pytest.mark.parametrize("name", GATES)
def test_everything_at_once(name: str, target: Target) -> None:
    layout = int(target is not AVX2)
    given = operands(name, 5, 7, 6, 37, 2, layout)
    attributes: dict[str, Any] = {"direction": "bidirectional", "hidden_size": 37, "layout": layout, "clip": 0.7}
    run(name, attributes, given, results(name), target, 3, 40.0)


@pytest.mark.parametrize("name", GATES)
def test_the_least(name: str) -> None:
    absent = dict.fromkeys(("B", "lengths", "h", "c", "p"), True)
    run(name, {"hidden_size": 5}, operands(name, 4, 1, 3, 5, **absent), results(name), tolerance=40.0)
    run(name, {"hidden_size": 16, "direction": "reverse"}, operands(name, 3, 20, 3, 16, **absent), (1,), tolerance=40.0)


@pytest.mark.parametrize(("name", "dtype"), [("LSTM", "f2"), ("GRU", "f8"), ("RNN", "f2")])
def test_other_types(name: str, dtype: str) -> None:
    run(name, {"hidden_size": 9}, operands(name, 3, 2, 4, 9, dtype=np.dtype(dtype)), results(name), tolerance=40.0)


def test_gru_with_the_reset_gate_behind() -> None:
    for absent in ({}, {"B": True}):
        given = operands("GRU", 4, 3, 5, 20, 2, **absent)
        run("GRU", {"direction": "bidirectional", "linear_before_reset": 1}, given, (0, 1), tolerance=40.0)


def test_lstm_coupled_gates_and_one_result() -> None:
    run("LSTM", {"input_forget": 1}, operands("LSTM", 4, 3, 5, 20), (0,), tolerance=40.0)
    run("LSTM", {}, operands("LSTM", 4, 3, 5, 20), (2,), tolerance=40.0)


@pytest.mark.parametrize(
    ("names", "alpha", "beta"),
    [
        (["Affine", "Relu"], [0.5], [0.25]),
        (["HardSigmoid", "ScaledTanh"], [0.3, 1.2], [0.4, 0.9]),
        (["LeakyRelu", "Elu"], [0.1, 0.8], []),
        (["Softplus", "Softsign"], [], []),
        (["ThresholdedRelu", "tanh"], [0.5], []),
    ],
)
def test_activations(names: list[str], alpha: list[float], beta: list[float]) -> None:
    attributes: dict[str, Any] = {"activations": names, "direction": "bidirectional"}
    if alpha:
        attributes["activation_alpha"] = alpha
    if beta:
        attributes["activation_beta"] = beta
    run("RNN", attributes, operands("RNN", 3, 2, 4, 18, 2), (0, 1), tolerance=60.0)


@pytest.mark.parametrize("name", GATES)
def test_symbolic_sizes(name: str) -> None:
    g, f4 = GATES[name], np.float32
    specs: list[Tensor | None] = [
        Tensor.of(f4, "d0", "d1", 6), Tensor.of(f4, 1, g * 10, 6), Tensor.of(f4, 1, g * 10, 10),
        Tensor.of(f4, 1, 2 * g * 10), Tensor.of(np.int32, "d1"), Tensor.of(f4, 1, "d1", 10),
    ]  # fmt: skip
    wanted: list[Tensor | None] = [Tensor.of(f4, "d0", 1, "d1", 10), Tensor.of(f4, 1, "d1", 10)]
    built = build(name, {}, specs, wanted, 2)
    for steps, batch in ((0, 2), (1, 1), (6, 9), (2, 0)):
        given = operands(name, steps, batch, 6, 10)[:6]
        found = [np.empty((steps, 1, batch, 10), f4), np.empty((1, batch, 10), f4)]
        built.run([steps, batch], *(a for a in given if a is not None), *found)
        for got, expected in zip(found, reference(name, {}, given, 2)):
            compare(got, expected, 40.0)


@pytest.mark.parametrize("name", GATES)
def test_a_sample_has_the_same_bits_in_every_batch(name: str) -> None:
    given = operands(name, 6, 9, 5, 40)
    y = run(name, {}, given, (0,), tolerance=40.0)[0]
    np.testing.assert_array_equal(run(name, {}, given, (0,), None, 3, 40.0)[0], y)
    alone = [a[:, 2:3].copy() if a is not None and i in (0, 5, 6) else a for i, a in enumerate(given)]
    assert given[4] is not None
    alone[4] = given[4][2:3].copy()
    np.testing.assert_array_equal(run(name, {}, alone, (0,), tolerance=40.0)[0], y[:, :, 2:3])


def contracting(given: list[np.ndarray | None]) -> list[np.ndarray | None]:
    """With small recurrence weights, so that many steps do not blow up what rounding leaves."""
    return [a * a.dtype.type(0.2) if i == 2 and a is not None else a for i, a in enumerate(given)]


@pytest.mark.parametrize("batch", [1, 9])
@pytest.mark.parametrize("name", GATES)
def test_directions_that_run_at_once_have_the_same_bits(name: str, batch: int) -> None:
    given = contracting(operands(name, 90, batch, 5, 40, 2))
    attributes: dict[str, Any] = {"direction": "bidirectional", "hidden_size": 40}
    one, several = (run(name, attributes, given, results(name), None, n, 100.0) for n in (1, 3))
    for a, b in zip(one, several):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("hidden", "batch", "together"), [(40, 1, True), (40, "d0", True), (1024, 1, False)])
def test_directions_run_at_once_where_a_step_is_too_little_for_several_threads(
    hidden: int, batch: int | str, together: bool
) -> None:
    f4 = np.float32
    specs: list[Tensor | None] = [
        Tensor.of(f4, 50, batch, 6), Tensor.of(f4, 2, 4 * hidden, 6), Tensor.of(f4, 2, 4 * hidden, hidden),
    ]  # fmt: skip
    attributes: dict[str, Any] = {"direction": "bidirectional", "hidden_size": hidden}
    config = {k: attribute(v) for k, v in attributes.items()} | {
        "operands": array([0, 1, 2]),
        "results": array([0]),
        "operand_types": ArrayAttr([Float32Type()] * 3),
        "result_types": ArrayAttr([Float32Type()]),
    }
    wanted = [Tensor.of(f4, 50, 2, batch, hidden)]
    present = [t for t in specs if t is not None]
    loops = loops_kernel("lstm", config, present, wanted, int(batch == "d0"), AVX512)
    extents = [known(op.extent) for op in loops.walk() if isinstance(op, kernel.ParallelOp)]
    assert (2 in extents) == together


def known(value: SSAValue) -> int | None:
    """The number of a constant."""
    owner = value.owner
    constant = isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr)
    return owner.value.value.data if constant else None


@pytest.mark.parametrize("name", GATES)
def test_two_directions_of_symbolic_sizes(name: str) -> None:
    g, f4 = GATES[name], np.float32
    specs: list[Tensor | None] = [
        Tensor.of(f4, "d0", "d1", 6), Tensor.of(f4, 2, g * 40, 6), Tensor.of(f4, 2, g * 40, 40),
        Tensor.of(f4, 2, 2 * g * 40), Tensor.of(np.int32, "d1"), Tensor.of(f4, 2, "d1", 40),
    ]  # fmt: skip
    wanted: list[Tensor | None] = [Tensor.of(f4, "d0", 2, "d1", 40), Tensor.of(f4, 2, "d1", 40)]
    built = build(name, {"direction": "bidirectional"}, specs, wanted, 2)
    for steps, batch in ((0, 2), (90, 1), (90, 9), (2, 0)):
        given = contracting(operands(name, steps, batch, 6, 40, 2))[:6]
        found = [[np.empty((steps, 2, batch, 40), f4), np.empty((2, batch, 40), f4)] for _ in range(2)]
        for built.threads, arrays in zip((1, 3), found):
            built.run([steps, batch], *(a for a in given if a is not None), *arrays)
        for one, several, expected in zip(*found, reference(name, {"direction": "bidirectional"}, given, 2)):
            np.testing.assert_array_equal(one, several)
            compare(one, expected, 100.0)


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_sums_stay_in_registers(name: str) -> None:
    """The formula's constants do not take the registers of the products' sums."""
    absent = dict.fromkeys(("lengths", "h", "c", "p"), True)
    specs = [None if a is None else Tensor.of(a.dtype, *a.shape) for a in operands(name, 3, 12, 16, 64, **absent)]
    built = build(name, {"hidden_size": 64}, specs, [Tensor.of(np.float32, 3, 1, 12, 64)], target=AVX512)
    loops = re.split(r"^\.L\w+:", built.assembly, flags=re.MULTILINE)
    bodies = [loop.split("\tj")[0] for loop in loops]
    products = [b for b in bodies if b.count("vfmadd231ps") >= 16 and len(re.findall(r"vbroadcastss.*\(%r", b)) >= 8]
    assert products
    for body in products:
        assert not [line for line in body.splitlines() if "(%rsp)" in line and "zmm" in line]
