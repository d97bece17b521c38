"""Runs a model in two ways and says what differs, and the first node at which it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from .dialects import onnx
from .dialects.onnx.nodes import NodeInfo
from .program import Model, Program, check_model
from .rewrites.driver import Pattern
from .runtime.errors import UsageError
from .runtime.usage import checked
from .semantics.custom import CustomOperator
from .sides import Feeds, ModelSide, Side, side_of
from .tools.compare import FirstDifference, compare_outputs, described


@checked
def compare(
    left: Model | Program | ModuleOp,
    inputs: Mapping[str, Any],
    *,
    side: str = "native",
    against: str | Path | ModuleOp = "model",
    trace: bool | None = None,
    rtol: float = 1e-3,
    atol: float = 1e-5,
    threads: int | None = None,
    assume: str | Sequence[str] = (),
    exact: bool = False,
    patterns: Sequence[Pattern] = (),
    ops: Sequence[CustomOperator] = (),
) -> dict[str, Any]:
    """The differences of a model's outputs, run in two ways, and the first value that the two make differently.

    `left` is a model, run as `side` says; or a program; or a module as `lower` gives it, edited or not, run as `run`
    does it.  `against` is the other way (`model`: the file's own nodes by the reference functions; `graph`, `kernels`,
    `tensor`; `native`, `unfused`, `plain`; `onnxruntime`), or a module, or the path of another model, whose own nodes
    are run.  The user's `patterns` are on the left only.
    `trace` looks at every value whose name both sides have; None does so where an output differs.

    Gives `equal`, for each of `outputs` its largest differences, and where an inner value differs, `first`: its name,
    node, kernel, surrounding control flow, and differences; `search` says how many values were looked at.  Where the
    kernel is of several operators, `unfused` has the same with a kernel for each.  Raises InputError for inputs that do
    not fit, UnsupportedError for a way that there is not, UsageError for a module compared with a way to run a model.
    """
    if not isinstance(left, Program | ModuleOp):
        check_model(left)
    model = model_of(left)
    if model is None and isinstance(against, str):
        raise UsageError(f"a module cannot be compared with {against!r}, which is a way to run a model: give a module")
    if isinstance(left, Program) and left.origin is not None:
        patterns, ops = left.origin.patterns, left.origin.ops
    options: dict[str, Any] = {"threads": threads, "ops": ops, "assume": assume, "exact": exact}
    ours = side_of(left, side, **options, patterns=patterns)
    if isinstance(against, str):
        theirs = side_of(model or "", against, **options)
    else:
        theirs = side_of(against, "model", **options)
        model = against if isinstance(against, Path) and model is None else model
    report = compare_outputs(ours.outputs(inputs), theirs.outputs(inputs), rtol=rtol, atol=atol)
    if trace is False or (trace is None and report["equal"]):
        return report
    makers = {} if model is None else makers_of(model, ops)
    first, search = first_difference(ours, theirs, inputs, makers, rtol, atol)
    if first is not None:
        report["first"] = first
        alike = not isinstance(left, ModuleOp) and side == "native"
        if alike and model is not None and len(first.get("operators", ())) > 1:
            alone = side_of(model, "unfused", **options, patterns=patterns)
            report["unfused"] = first_difference(alone, theirs, inputs, makers, rtol, atol)[0]
    report["search"] = {**search, "note": note_of(report, search)}
    return report


def model_of(left: Model | Program | ModuleOp) -> Model | None:
    """The model that something was made from, if it says so."""
    if isinstance(left, Program):
        return None if left.origin is None else left.origin.model
    return None if isinstance(left, ModuleOp) else left


def first_difference(
    ours: Side, theirs: Side, feeds: Feeds, makers: Mapping[str, NodeInfo], rtol: float, atol: float
) -> tuple[dict[str, Any] | None, dict[str, int]]:
    """The first value that differs, described, and how many were looked at."""
    finder = FirstDifference(rtol, atol)
    ours.observe(feeds, finder.record)
    theirs.observe(feeds, finder.check, finder.recorded.keys())
    search = {"compared": finder.compared, "differing": len(finder.differing), "skipped": finder.skipped}
    found = finder.first()
    if found is None:
        return None, search
    time, value, row = found
    return described(time, value, row, makers.get(value.name)), search


def makers_of(model: Model, ops: Sequence[CustomOperator]) -> dict[str, NodeInfo]:
    """Which node makes each value, by the file."""
    found: dict[str, NodeInfo] = {}
    for op in ModelSide(model, ops).state.module.walk():
        info = onnx.info_of(op)
        for result in op.results:
            name = onnx.value_name(result)
            if info is not None and name:
                found.setdefault(name, info)
    return found


def note_of(report: Mapping[str, Any], search: Mapping[str, int]) -> str:
    """What was looked at, and what it means that nothing was found."""
    looked = f"{search['compared']} values inside of the model were compared"
    if search["skipped"]:
        looked += f", {search['skipped']} have another type or shape on the two sides"
    if report["equal"] or "first" in report:
        return looked
    return (
        f"{looked}, and none differs: kernel by kernel both sides agree. What is left is what the whole program does"
        " besides (memory that values share), or the last operators, whose values have no name on both sides"
    )


__all__ = ["compare"]
