"""What a model is, without compiling it: inputs, outputs, operators, opsets; with dims, its symbols and guards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from ..dialects import dims, onnx
from ..dialects.dims import Dim, dims_of
from ..dialects.dims.division import solved_for
from ..semantics.conditions import Condition, broadcast_pair
from .explain import main_of

CONTRADICTED = "dims.diagnostics"
"""What inference notes on the module: a line for each declared type that is not so."""

NO_OPERATORS = (FuncOp, ReturnOp, onnx.InitializerOp, onnx.YieldOp, dims.AssumeOp, dims.BindOp, dims.TensorOp)


def inspect_module(module: ModuleOp, *, imported: ModuleOp | None = None, show_dims: bool = False) -> dict[str, Any]:
    """The report on an inferred module; operators are counted on the module as imported, where it is given."""
    main = main_of(module)
    counted = main_of(imported) if imported is not None else main
    report: dict[str, Any] = {
        "opsets": {
            str(onnx.plain(pair.data[0])) or "ai.onnx": onnx.plain(pair.data[1])
            for pair in cast(Iterable[Any], module.attributes.get("onnx.opsets", ()))
        },
        "inputs": [describe(a) for a in main.body.block.args],
        "outputs": [describe(v) for v in cast(Operation, main.body.block.last_op).operands],
        "operators": dict(Counter(operator_of_file(op) for op in counted.walk() if not isinstance(op, NO_OPERATORS))),
        "initializers": sum(isinstance(op, onnx.InitializerOp) for op in counted.walk()),
    }
    names = main.attributes.get("onnx.outputs")
    for entry, name in zip(report["outputs"], cast(Iterable[Any], names or ())):
        entry["name"] = str(onnx.plain(name))
    if (found := module.attributes.get(CONTRADICTED)) is not None:
        report["contradicted"] = [str(onnx.plain(line)) for line in cast(Iterable[Any], found)]
    if show_dims:
        report["symbols"] = symbols(main)
        guards = [op for op in main.walk() if isinstance(op, dims.AssumeOp)]
        report["equalities"] = [op.condition.data for op in guards if is_equality(op.condition.data)]
        report["guards"] = [
            {"condition": condition_text(op.condition.data), "why": op.why.data if op.why else ""} for op in guards
        ] + input_guards(main)
        report["values"] = {
            name: str(r.type)
            for op in main.walk()
            for r in op.results
            if not isinstance(op, onnx.InitializerOp) and (name := onnx.value_name(r))
        }
    return report


def operator_of_file(op: Operation) -> str:
    """An operator as the file has it: one of an older form by its own name."""
    if isinstance(op, onnx.VersionedOp):
        return onnx.text_of(op.op_type)
    return onnx.operator_name(op)


def is_equality(condition: str) -> bool:
    """Whether a guard makes two sizes one; a remainder of 0 and sizes that broadcast do not."""
    if broadcast_pair(condition) is not None:
        return False
    parsed = Condition.parse(condition)
    return parsed.op == "==" and "%" not in condition


def condition_text(condition: str) -> str:
    """A guard as people read it."""
    pair = broadcast_pair(condition)
    return condition if pair is None else f"{pair[0]} == {pair[1]}, or one of them is 1"


def input_guards(main: FuncOp) -> list[dict[str, str]]:
    """What the inputs' own dims ask for, where they are more than a symbol: `4*C` is a multiple of 4."""
    axes = [
        (f"axis {axis} of input {onnx.value_name(argument)!r}", d)
        for argument in main.body.block.args
        if isinstance(argument.type, TensorType)
        for axis, d in enumerate(dims_of(argument))
    ]
    bound = {name for _, d in axes for name in d.symbols if d == Dim.symbol(name)}
    guards: list[dict[str, str]] = []
    for place, d in axes:
        if not d.is_const and str(d) not in bound:
            guards.append({"condition": f"{place} is {d}", "why": form_of(d, sorted(d.symbols - bound))})
    return guards


def form_of(d: Dim, unbound: Sequence[str]) -> str:
    """What a dim says of its size alone, by a symbol that stands alone nowhere."""
    if (found := solved_for(d, unbound)) is None or not found[2].is_const:
        return ""
    _, factor, others = found
    if factor == 1:
        return f"at least {others}"
    rest = others.value % factor
    return f"a multiple of {factor}" if rest == 0 else f"{rest} more than a multiple of {factor}"


def describe(value: SSAValue) -> dict[str, Any]:
    """Name, element type and dims of a value."""
    if not isinstance(value.type, TensorType):
        return {"name": onnx.value_name(value) or "", "type": str(value.type)}
    return {
        "name": onnx.value_name(value) or "",
        "type": str(value.type.element_type),
        "dims": [d.value if d.is_const else str(d) for d in dims_of(value)],
    }


def symbols(main: FuncOp) -> dict[str, str]:
    """Each symbol of `main` and where it gets its value."""
    found: dict[str, str] = {}
    for argument in main.body.block.args:
        if isinstance(argument.type, TensorType):
            for axis, d in enumerate(dims_of(argument)):
                for name in sorted(d.symbols):
                    found.setdefault(name, f"axis {axis} of input {onnx.value_name(argument)!r}")
    for op in main.walk():
        if isinstance(op, dims.BindOp):
            for at, name in enumerate(op.symbols):
                found.setdefault(name.data, f"element {at} of {onnx.value_name(op.source) or 'a computed tensor'!r}")
        binds = op.attributes.get("dims.binds")
        for name in cast(Iterable[Any], binds or ()):
            found.setdefault(str(onnx.plain(name)), f"a size that only {onnx.describe(op)} knows")
    return found


def render_inspection(report: Mapping[str, Any]) -> str:
    """The report as text for people."""
    lines = ["opsets: " + ", ".join(f"{d} {v}" for d, v in report["opsets"].items())]
    for kind in ("inputs", "outputs"):
        lines.append(f"{kind}:")
        lines.extend(f"  {e['name']}: {e['type']}{e.get('dims', '')}" for e in report[kind])
    count = sum(report["operators"].values())
    lines.append(f"{count} nodes, {report['initializers']} initializers")
    ordered = sorted(report["operators"].items(), key=lambda kv: (-kv[1], kv[0]))
    lines.append("  " + ", ".join(f"{name} {number}" for name, number in ordered))
    if "contradicted" in report:
        lines.append("the file declares otherwise, which is ignored:")
        lines.extend(f"  {line}" for line in report["contradicted"])
    if "symbols" in report:
        lines.append("symbols:" if report["symbols"] else "symbols: none")
        lines.extend(f"  {name}: {where}" for name, where in report["symbols"].items())
        if report["equalities"]:
            lines.append("equalities:")
            lines.extend(f"  {text}" for text in report["equalities"])
        lines.append("guards:" if report["guards"] else "guards: none")
        lines.extend(f"  {g['condition']}  {g['why']}" for g in report["guards"])
    return "\n".join(lines)
