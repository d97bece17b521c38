"""Control flow.  A graph attribute is a function from its inputs to the tuple of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, islice

import numpy as np

from .dtypes import Array, Value, axis_of, integer_of, scalar_of
from .mathematics import Function

Graph = Callable[..., tuple[Value, ...]]


def if_(cond: Array, /, *, then_branch: Graph, else_branch: Graph) -> tuple[Value, ...]:
    return (then_branch if scalar_of(cond) else else_branch)()


def loop(
    trip_count: Array | None = None, cond: Array | None = None, /, *initial: Value, body: Graph, outputs: int
) -> tuple[Value, ...]:
    """Final values of the carried variables, and each scan output stacked over the iterations.

    Without `cond` the body's condition is ignored.  A scan output of no iteration has an unknown shape; it is an empty
    float32 vector (the caller, who knows its type, replaces it).
    """
    carried = list(initial)
    scanned: list[list[Array]] = [[] for _ in range(outputs - len(carried))]
    trips = count() if trip_count is None else range(integer_of(trip_count))
    going = np.array(True) if cond is None else cond
    for i in trips:
        if cond is not None and not scalar_of(np.asarray(going)):
            break
        going, *results = body(np.array(i, dtype=np.int64), going, *carried)
        carried = results[: len(carried)]
        for into, value in zip(scanned, results[len(carried) :], strict=True):
            into.append(np.asarray(value))
    return (*carried, *(np.stack(s) if s else np.zeros(0, np.float32) for s in scanned))


def scan(
    *inputs: Value,
    body: Graph,
    num_scan_inputs: int,
    outputs: int,
    scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
) -> tuple[Value, ...]:
    states = list(inputs[: len(inputs) - num_scan_inputs])
    sources = [x for x in inputs[len(states) :] if isinstance(x, np.ndarray)]
    axes = [axis_of(a, x.ndim) for a, x in zip(scan_input_axes or [0] * len(sources), sources, strict=True)]
    backward = scan_input_directions or [0] * len(sources)
    steps = sources[0].shape[axes[0]]
    if any(x.shape[a] != steps for x, a in zip(sources, axes, strict=True)):
        raise ValueError("the inputs of Scan have different lengths")
    scanned: list[list[Array]] = [[] for _ in range(outputs - len(states))]
    for t in range(steps):
        elements = [
            np.asarray(np.take(x, steps - 1 - t if back else t, axis=a))
            for x, a, back in zip(sources, axes, backward, strict=True)
        ]
        results = body(*states, *elements)
        states = list(results[: len(states)])
        for into, value in zip(scanned, islice(results, len(states), None), strict=True):
            into.append(np.asarray(value))
    prepend = scan_output_directions or [0] * len(scanned)
    places = scan_output_axes or [0] * len(scanned)
    collected = [
        np.stack(s[::-1] if back else s, axis=axis_of(a, s[0].ndim + 1)) if s else np.zeros(0, np.float32)
        for s, a, back in zip(scanned, places, prepend, strict=True)
    ]
    return (*states, *collected)


def sequence_map(sequence: list[Value], /, *additional: Value, body: Graph, outputs: int) -> tuple[Value, ...]:
    results: list[list[Value]] = [[] for _ in range(outputs)]
    for i, element in enumerate(sequence):
        rest = [x[i] if isinstance(x, list) else x for x in additional]
        for into, value in zip(results, body(element, *rest), strict=True):
            into.append(value)
    return tuple(results)


CONTROL: dict[str, Function] = {"If": if_, "Loop": loop, "Scan": scan, "SequenceMap": sequence_map}
