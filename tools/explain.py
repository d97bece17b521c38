"""What the compiler decided, read off the IR: kernels, fusions taken and refused, memory, guards, hosted operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation

from ..dialects import dims, kernel, onnx
from ..dialects.dims import ShapeAttr
from ..lowering.choices import schedule_of
from ..lowering.kernels.conv_plan import WINOGRAD
from ..lowering.kernels.precision import PRECISION, TEMPLATES
from ..rewrites.reasons import Reason
from ..rewrites.versions import VERSION

NOT_HOSTED = (
    kernel.CallOp, kernel.ViewOp, kernel.FillOp, onnx.InitializerOp, onnx.ConstantOp, onnx.YieldOp, onnx.IfOp,
    onnx.LoopOp, onnx.ScanOp, dims.TensorOp, dims.BindOp, dims.AssumeOp, ReturnOp, FuncOp,
)  # fmt: skip


def main_of(module: ModuleOp) -> FuncOp:
    """The function that runs the model."""
    return next(f for f in module.body.block.ops if isinstance(f, FuncOp) and f.sym_name.data == "main")


def node_names(module: ModuleOp, origin: Attribute | None) -> list[str]:
    """The file's nodes that an `origin` attribute stands for, by name, operator and source line."""
    if not isinstance(origin, DenseArrayBase):
        return []
    table = onnx.node_table(module)
    return [str(table[int(i)]) for i in origin.get_values() if 0 <= int(i) < len(table)]


def explain(module: ModuleOp) -> dict[str, Any]:
    """The report on a module at the kernels level or below, as plain data.

    `kernels` has one entry for each call in `main` and its regions, in order; `hosted` the names of the operators that
    do not run as native code.
    """
    main = main_of(module)
    calls: list[dict[str, Any]] = []
    hosted: list[str] = []
    for op in listed(main):
        if isinstance(op, kernel.CallOp):
            calls.append(explain_call(module, op))
        elif not isinstance(op, NOT_HOSTED):
            hosted.append(onnx.operator_name(op))
    guards = [op for op in main.walk() if isinstance(op, dims.AssumeOp)]
    report: dict[str, Any] = {
        "kernels": calls,
        "functions": explain_functions(module),
        "refused": list(explain_refusals(module, main)),
        "pairs": explain_pairs(main),
        "versions": list(explain_versions(module, main)),
        "hosted": hosted,
        "guards": [{"condition": str(op.condition.data), "why": str(op.why.data) if op.why else ""} for op in guards],
    }
    arena = main.attributes.get("kernel.arena")
    if isinstance(arena, ShapeAttr):
        report["memory"] = {"arena": str(arena.data[0]), **explain_memory(main)}
    return report


def explain_memory(main: FuncOp) -> dict[str, Any]:
    """The plan of the arena: every buffer with its size and place as expressions, and the steps between which it lives.

    `found` are the values whose memory is taken while the program runs: only data tells their size.
    """
    buffers = main.attributes.get("kernel.memory")
    steps = main.attributes.get("kernel.steps")
    found = [
        onnx.value_name(result) or result.name_hint or op.name
        for op in main.walk()
        for result, home in zip(op.results, cast("ArrayAttr[Any]", op.attributes.get("kernel.outputs", ())))
        if home == StringAttr("dynamic")
    ]
    return {
        "buffers": [plain_entry(b) for b in buffers] if isinstance(buffers, ArrayAttr) else [],
        "steps": [plain_entry(s) for s in steps] if isinstance(steps, ArrayAttr) else [],
        "found": found,
    }


def plain_entry(entry: Attribute) -> dict[str, Any]:
    """A dictionary attribute of texts, numbers and expressions as plain data."""
    found: dict[str, Any] = {}
    for name, value in cast(DictionaryAttr, entry).data.items():
        found[name] = str(value.data[0]) if isinstance(value, ShapeAttr) else onnx.plain(value)
    return found


def explain_call(module: ModuleOp, call: kernel.CallOp) -> dict[str, Any]:
    """One call: its function, the sizes that it passes, its types, and the nodes that it runs."""
    entry: dict[str, Any] = {
        "name": call.callee.string_value(),
        "dims": [str(d) for d in call.dims.data],
        "inputs": [str(v.type) for v in call.inputs],
        "outputs": [str(r.type) for r in call.outputs],
        "nodes": node_names(module, call.attributes.get("origin")),
    }
    names = call.attributes.get("onnx.names")
    if isinstance(names, ArrayAttr):
        entry["values"] = [cast(StringAttr, n).data for n in names]
    return entry


def explain_functions(module: ModuleOp) -> dict[str, Any]:
    """For each kernel function its key and choices, its operators and fusions, and the patterns that made operators."""
    found: dict[str, Any] = {}
    for op in module.body.block.ops:
        if not isinstance(op, FuncOp) or "kernel.key" not in op.attributes:
            continue
        fused = op.attributes.get("kernel.fused")
        ops = op.attributes.get("kernel.ops")
        patterns = op.attributes.get("kernel.patterns")
        found[op.sym_name.data] = {
            "key": cast(StringAttr, op.attributes["kernel.key"]).data,
            "schedule": schedule_of(op),
            "precision": precision_of(op),
            "ops": [cast(StringAttr, o).data for o in ops] if isinstance(ops, ArrayAttr) else [],
            "patterns": [cast(StringAttr, p).data for p in patterns] if isinstance(patterns, ArrayAttr) else [],
            "fused": [
                {key: cast(StringAttr, value).data for key, value in cast(DictionaryAttr, f).data.items()}
                for f in (fused if isinstance(fused, ArrayAttr) else ())
            ],
        }
    return found


def precision_of(function: FuncOp) -> str:
    """What a kernel multiplies: bf16, where that is its mode and not all that has it went by Winograd's algorithm."""
    mode = function.attributes.get(PRECISION)
    parts = [p for name, p in schedule_of(function).items() if name.split(".")[0] in TEMPLATES]
    if not isinstance(mode, StringAttr) or (parts and all(p.get("algorithm") == WINOGRAD for p in parts)):
        return "f32"
    return mode.data


def explain_pairs(main: FuncOp) -> list[dict[str, Any]]:
    """For each two calls of which one reads what the other made: their places in `kernels`, and why they are two.

    `missing`, where it is there, is what `assume=` must be given so that they become one.
    """
    calls = [op for op in listed(main) if isinstance(op, kernel.CallOp)]
    place = {op: at for at, op in enumerate(calls)}
    pairs: list[dict[str, Any]] = []
    for consumer in calls:
        reasons = apart_reasons(consumer)
        for producer in producers_of(consumer):
            entry: dict[str, Any] = {"producer": place[producer], "consumer": place[consumer]}
            if producer.parent is not consumer.parent:
                entry |= plain_reason(Reason.CONTROL)
            else:
                # without a decision of its own: the view is from the border of a third kernel
                entry |= reasons.get(number_of(producer)) or plain_reason(Reason.VIEW)
            pairs.append(entry)
    return pairs


def producers_of(call: kernel.CallOp) -> list[kernel.CallOp]:
    """The calls whose results a call reads, as they are or through views, each once."""
    found: dict[kernel.CallOp, None] = {}
    waiting = list(reversed(call.inputs))
    while waiting:
        value = waiting.pop()
        while isinstance(value.owner, kernel.ViewOp):
            value = value.owner.source
        owner = value.owner
        if isinstance(owner, kernel.CallOp):
            found.setdefault(owner)
        elif isinstance(owner, onnx.IfOp):
            regions = [owner.else_branch] if VERSION in owner.attributes else owner.regions
            ends = [cast(Operation, region.block.last_op) for region in regions]
            waiting.extend(end.operands[owner.results.index(value)] for end in ends)
    return list(found)


def listed(main: FuncOp) -> Iterator[Operation]:
    """All ops of `main`; of what has two versions, only those of the one that holds for all sizes."""
    stack: list[Operation] = [main]
    while stack:
        op = stack.pop()
        yield op
        regions = [op.else_branch] if isinstance(op, onnx.IfOp) and VERSION in op.attributes else op.regions
        stack.extend(inner for region in reversed(regions) for block in reversed(region.blocks)
                     for inner in reversed(list(block.ops)))  # fmt: skip


def explain_versions(module: ModuleOp, main: FuncOp) -> Iterator[dict[str, Any]]:
    """Where a fact is tested as the model runs: the condition, the kernels where it holds, and the others."""
    for op in main.walk():
        condition = op.attributes.get(VERSION)
        if isinstance(op, onnx.IfOp) and isinstance(condition, StringAttr):
            holds, otherwise = (
                [explain_call(module, call) for call in region.walk() if isinstance(call, kernel.CallOp)]
                for region in (op.then_branch, op.else_branch)
            )
            yield {"condition": condition.data, "holds": holds, "otherwise": otherwise}


def plain_reason(reason: Reason) -> dict[str, str]:
    """A reason that no fact would turn."""
    return {"reason": reason.name.lower(), "why": reason.value}


def number_of(call: kernel.CallOp) -> int:
    number = call.attributes["kernel.number"]
    assert isinstance(number, IntegerAttr)
    return number.value.data


def apart_reasons(call: kernel.CallOp) -> dict[int, dict[str, str]]:
    """Why a call is apart from each that it reads, by the number of that."""
    found: dict[int, dict[str, str]] = {}
    apart = call.attributes.get("kernel.apart")
    for entry in apart if isinstance(apart, ArrayAttr) else ():
        data = cast(DictionaryAttr, entry).data
        found[cast("IntegerAttr[Any]", data["from"]).value.data] = reason_row(data)
    return found


def reason_row(data: Mapping[str, Attribute]) -> dict[str, str]:
    """A reason's name and sentence, and the missing fact."""
    reason = cast(StringAttr, data["reason"]).data
    row = {"reason": reason, "why": str(Reason[reason.upper()].value)}
    if "missing" in data:
        row["missing"] = cast(StringAttr, data["missing"]).data
    return row


def explain_refusals(module: ModuleOp, main: FuncOp) -> Iterable[dict[str, Any]]:
    """The pairs of adjacent operators that do not share a kernel, each with its reason."""
    refused = main.attributes.get("kernel.refused")
    for entry in refused if isinstance(refused, ArrayAttr) else ():
        data = cast(DictionaryAttr, entry).data
        yield {
            "producer": node_names(module, data["producer"]),
            "consumer": node_names(module, data["consumer"]),
            **reason_row(data),
        }
