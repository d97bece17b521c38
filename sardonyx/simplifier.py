"""`sardonyx simplify`: a model made smaller by the rewrite rules, and checked against what it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

from onnx import ModelProto, NodeProto
from xdsl.dialects.builtin import ModuleOp, TensorType, UnitAttr

from .collection import without_collection
from .dialects import onnx
from .dialects.dims import TensorOp, dims_of
from .dialects.onnx.model import INPUTS, main_of, names_of, opsets_of
from .dialects.onnx.nodes import NodeInfo
from .folding import compute
from .frontend.exporter import export_model
from .frontend.expressible import Inexpressible
from .frontend.importer import Reader, import_model, open_source
from .frontend.saving import MOST_BYTES, drafted, payload_of
from .program import Model, TensorInfo
from .rewrites.driver import Declined
from .rewrites.infer import infer_shapes
from .rewrites.infer.known import known_of
from .rewrites.simplify import MOST_UNROLLED, Log, simplify
from .rewrites.simplify.control_flow import UnrollLoop
from .rewrites.upgrade import upgrade_opset
from .runtime.errors import InputError, UnsupportedError
from .runtime.usage import checked
from .semantics.interpreter import run_graph
from .semantics.weights import WeightStore
from .tools.compare import compare_outputs
from .tools.feeds import ANY_RANK, make_feeds, size_of, symbols_in

SIZES = (1, 2, 3, 7)
"""What all symbols are set to, in turn, when a result is checked."""

LARGE = (16, 100, 250, 600)
"""What they are set to where a model takes fewer than two of the small sizes, a window over them being longer."""


@dataclass(frozen=True)
class Simplified:
    """A simplified model, what the rules did and declined, and the numbers of nodes."""

    model: ModelProto
    log: Log
    nodes: tuple[NodeInfo, ...]
    before: int
    after: int

    def names(self, origins: Sequence[int]) -> list[str]:
        """The names of the file's nodes with these ids; an operator where a node has no name."""
        listed = (self.nodes[i] for i in origins if 0 <= i < len(self.nodes))
        return [node.name or f"a node of {node.op_type}" for node in listed]


@checked
@without_collection()
def simplified(
    model: Model,
    output: str | Path,
    *,
    exact: bool = False,
    keep_defaults: bool = False,
    validate: bool = False,
    sizes: Sequence[str] = (),
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> dict[str, Any]:
    """Writes the model simplified to `output`: the same inputs, outputs and opset, fewer nodes.

    Gives the numbers of nodes `before` and `after`, how often each of the `rules` fired, the `log` with the nodes of
    each firing, what `declined` and why, the file with the model's `data` where that could not stay where it was, and
    with `validate` under `validation` what `validated` gives.  A model that is not equal is not `written`.
    """
    found = simplify_model(model, exact=exact, keep_defaults=keep_defaults)
    with drafted(found.model, Path(output), folder_of(model)) as draft:
        validation = validated(model, draft.path, sizes=sizes, rtol=rtol, atol=atol) if validate else None
        written = validation is None or validation["equal"]
        if written:
            draft.keep()
    report: dict[str, Any] = {
        "output": str(output),
        "written": written,
        "data": str(draft.data_output) if draft.data_output is not None else None,
        "before": found.before,
        "after": found.after,
        "rules": dict(Counter(firing.pattern for firing in found.log.firings).most_common()),
        "log": [{"rule": f.pattern, "op": f.op, "nodes": found.names(f.origins)} for f in found.log.firings],
        "declined": [
            {"rule": d.pattern, "op": d.op, "nodes": found.names(d.origins), "reason": d.reason}
            for d in found.log.declined
        ],
    }
    if validation is not None:
        report["validation"] = validation
    return report


def folder_of(model: Model) -> Path | None:
    """Where a model's external data is: the folder of its file; None for what is from no file."""
    return Path(model).absolute().parent if isinstance(model, str | Path) else None


@checked
@without_collection()
def simplify_model(model: Model, *, exact: bool = False, keep_defaults: bool = False) -> Simplified:
    """The model with the rules applied, at its own opset; the model itself where that would not have fewer nodes.

    Initializers that the file also lists as inputs are constants like others: hardly any caller gives one, and some
    exporters list every weight so.  `keep_defaults` leaves them alone, so that a caller may still give another value.
    """
    folder = folder_of(model)
    source = Reader(open_source(model), folder)
    before = count_nodes(source.proto)
    found = _simplified_once(source, before, exact, keep_defaults)
    if found is None:
        whole = export_model(source.module, source.weights, source=source)
        return Simplified(whole, Log(), onnx.node_table(source.module), before, before)
    result, log, nodes, after = found.model, found.log, onnx.node_table(source.module), found.count
    for _ in range(MAX_AGAIN):
        if found.is_settled() or payload_of(result) > MOST_BYTES:
            break
        source = Reader(open_source(result), folder)
        found = _simplified_once(source, after, exact, keep_defaults)
        if found is None or found.count >= after:
            break
        log = joined(log, found.log, len(nodes))
        result, nodes, after = found.model, (*nodes, *onnx.node_table(source.module)), found.count
    return Simplified(result, log, nodes, before, after)


MAX_AGAIN = 4
"""Times that a result is simplified once more.

The rules see each value with the type that it had before them.  What they have brought together may have sizes that are
known better: those are inferred anew.
"""

CLEANUP = frozenset({"MergeEqual", "EliminateDeadCode"})
"""What brings nothing together that has another type than before."""


@dataclass(frozen=True)
class Rewritten:
    """A module that the rules have been applied to, the model that it is written as, and what the rules did."""

    module: ModuleOp
    weights: WeightStore
    defaults: Sequence[onnx.InitializerOp]
    materialized: bool
    log: Log
    model: ModelProto
    count: int

    def is_settled(self) -> bool:
        """Whether the rules would do nothing more: inferring the module again, which changes it, finds nothing new."""
        if CLEANUP.issuperset(f.pattern for f in self.log.firings):
            return True
        if not self.log.settled:
            return False
        before = known_of(self.module)
        _infer(self.module, self.weights, self.defaults, self.materialized)
        return known_of(self.module).is_same(before)


def joined(first: Log, then: Log, offset: int) -> Log:
    """What two runs did, the second on nodes that are numbered from `offset` on; what they declined, as of the end."""

    def moved(ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(i + offset for i in ids)

    firings = [replace(f, origins=moved(f.origins)) for f in then.firings]
    declined = {replace(d, origins=moved(d.origins)): None for d in then.declined}
    return Log([*first.firings, *firings], declined, then.settled)


def _simplified_once(source: Reader, before: int, exact: bool, keep_defaults: bool) -> Rewritten | None:
    """The rules' result; None where it has more nodes.

    Sizes that are written out may cost more nodes than the rules save with them: both are tried.
    """
    best: Rewritten | None = None
    for materialize in (True, False):
        try:
            found = _rewritten(source, exact, keep_defaults, materialize, MOST_UNROLLED)
            if any(firing.pattern == UnrollLoop.title() for firing in found.log.firings):  # did that leave fewer nodes?
                others = _rewritten(source, exact, keep_defaults, materialize, 0)
                found = min(found, others, key=lambda found: found.count)
        except UnsupportedError:
            continue
        if found.count <= before and (best is None or found.count < best.count):
            best = found
        if best is not None and ((before > MOST_TRIED_TWICE and best.count < before) or not writes_sizes(found.module)):
            break
    return best


MOST_TRIED_TWICE = 1000
"""The nodes of the longest model that is simplified with sizes written out, and also without where that helped."""


def writes_sizes(module: ModuleOp) -> bool:
    """Whether sizes are written out that are no numbers."""
    return any(isinstance(op, TensorOp) and not all(e.is_const for e in op.exprs.data) for op in main_of(module).walk())


def _rewritten(source: Reader, exact: bool, keep_defaults: bool, materialize: bool, most_unrolled: int) -> Rewritten:
    """Applies the rules, without those whose results the model's opset cannot express: they are found by trying."""
    without: dict[str, Declined] = {}
    while True:
        module, weights = source.module.clone(), source.weights
        opsets = opsets_of(module)
        upgrade_opset(module, weights)
        listed = [] if keep_defaults else [op for op in main_of(module).walk() if isinstance(op, onnx.InitializerOp)]
        defaults = [op for op in listed if op.overridable is not None]
        _infer(module, weights, defaults, materialize)
        log = simplify(
            module,
            weights,
            exact=exact,
            opsets=opsets,
            without=frozenset(without),
            most_unrolled=most_unrolled,
            compute=compute,
        )
        log.declined.update(dict.fromkeys(without.values()))
        for op in defaults:
            op.properties["overridable"] = UnitAttr()
        try:
            model = export_model(module, weights, source=source)
            return Rewritten(module, weights, defaults, materialize, log, model, count_nodes(model))
        except Inexpressible as problem:
            if problem.pattern is None or problem.pattern in without:
                raise
            without[problem.pattern] = Declined(problem.pattern, problem.op, problem.origins, str(problem))


def _infer(module: ModuleOp, weights: WeightStore, defaults: Sequence[onnx.InitializerOp], materialize: bool) -> None:
    """Infers with these initializers as constants; with `materialize`, known shapes and conditions become constants."""
    for op in defaults:
        op.properties.pop("overridable", None)
    infer_shapes(module, weights, compile_mode=materialize, guarded=False)


def count_nodes(model: ModelProto) -> int:
    """The nodes that a runtime has to run: those of the graph, of the bodies in it, and of local functions where they
    are called; `Constant` is no more a node than an initializer is.
    """
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}

    def count(nodes: Iterable[NodeProto]) -> int:
        total = 0
        for node in nodes:
            function = functions.get((node.domain, node.op_type, node.overload))
            if function is not None:
                total += count(function.node)
            elif node.op_type != "Constant" or node.domain:
                total += 1
            for attribute in node.attribute:
                bodies = (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs)
                total += sum(count(body.node) for body in bodies)
        return total

    return count(model.graph.node)


def validated(model: Model, other: Model, *, sizes: Sequence[str] = (), rtol: float, atol: float) -> dict[str, Any]:
    """Runs both models on random inputs at several sizes, by onnxruntime where it is installed, else by the reference.

    All symbols alike, and each another size; `sizes` fixes some (`T=512`).  Gives `equal`, who ran them (`by`), the
    sizes `given`, the other `symbols`, and for each binding of these what was compared, or the `error` with which the
    other model was refused.  One that the first model refuses is left out; raises InputError where it refuses all.
    """
    runner, by = (by_onnxruntime, "onnxruntime") if find_spec("onnxruntime") else (by_reference, "reference")
    specs = input_specs(model)
    symbols = symbols_in(d for spec in specs for d in spec.shape if isinstance(d, str) and d != ANY_RANK)
    names = sorted(symbols - {size.partition("=")[0] for size in sizes})
    rows: dict[str, Any] = {}
    refused = ""
    for large, label, binding in bindings(names):
        if large and len(rows) >= ENOUGH:
            break
        if large and elements_of(specs, binding) > MOST_ELEMENTS:
            continue
        feeds = make_feeds(specs, (), [*(f"{name}={size}" for name, size in binding.items()), *sizes])
        try:
            want = runner(model, feeds)
        except Exception as e:  # onnxruntime has no common class of errors
            refused = str(e)
            continue
        room = HALF_ROOM if any(is_half(value) for value in want.values()) else 0.0
        try:
            got = runner(other, feeds)
        except Exception as e:
            rows[label] = {"equal": False, "error": str(e)}
            break
        rows[label] = compare_outputs(got, want, rtol=max(rtol, room), atol=max(atol, room))
    if not rows:
        tried = ", ".join(map(str, (*SIZES, *LARGE)))
        raise InputError(f"the model runs at none of the sizes {tried}: {refused}")
    equal = all(row["equal"] for row in rows.values())
    return {"equal": equal, "by": by, "symbols": names, "given": list(sizes), "sizes": rows}


ENOUGH = 2
"""Bindings that ran, after which large sizes are not tried."""


MOST_ELEMENTS = 1 << 20
"""Of all inputs, where sizes are large: a model may run long on more."""


def elements_of(specs: Sequence[TensorInfo], binding: Mapping[str, int]) -> int:
    """The number of elements of inputs whose symbols have these sizes."""
    shapes = [[d for d in spec.shape if d != ANY_RANK] for spec in specs]
    return sum(prod(d if isinstance(d, int) else size_of(d, binding) for d in shape) for shape in shapes)


def bindings(names: Sequence[str]) -> Iterator[tuple[bool, str, dict[str, int]]]:
    """Sizes of symbols to run a model at: whether they are large, how they are called, and each symbol's."""
    if not names:
        yield False, str(SIZES[0]), {}
        return
    for large, sizes in ((False, SIZES), (True, LARGE)):
        for size in sizes:
            yield large, str(size), dict.fromkeys(names, size)
        for size in (sizes[1:] if large else sizes[1:2]) if len(names) > 1 else ():
            for order in (names, names[::-1]):
                binding = {name: size + k for k, name in enumerate(order)}
                yield large, ", ".join(f"{name}={binding[name]}" for name in names), binding


HALF_ROOM = 4e-3
"""Tolerance, relative and absolute, where an output is a half: four units in the last place of 11 bits."""


def is_half(value: Any) -> bool:
    return str(getattr(value, "dtype", "")) in ("float16", "bfloat16")


def input_specs(model: Model) -> list[TensorInfo]:
    """The inputs of a model, as a program has them."""
    module, weights = import_model(model)
    upgrade_opset(module, weights)
    infer_shapes(module, weights)
    main = main_of(module)
    specs: list[TensorInfo] = []
    for name, argument in zip(names_of(main, INPUTS), main.body.block.args, strict=True):
        if not isinstance(argument.type, TensorType):
            raise InputError(f"input {name!r} is of type {argument.type}, which has no random value")
        dims = tuple(d.value if d.is_const else str(d) for d in dims_of(argument))
        element = argument.type.element_type
        specs.append(TensorInfo(name, "string" if element == onnx.STRING else onnx.numpy_dtype(element), dims))
    return specs


def by_onnxruntime(model: Model, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs by onnxruntime, without its own rewrites."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    source = str(model) if isinstance(model, str | Path) else model_bytes(model)
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(feeds)), strict=True))


def model_bytes(model: Any) -> bytes:
    """A model as the bytes of a file."""
    return model if isinstance(model, bytes) else model.SerializeToString()


def by_reference(model: Model, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs by the reference functions."""
    module, weights = import_model(model)
    upgrade_opset(module, weights)
    return run_graph(module, weights, feeds)


def render_simplification(report: Mapping[str, Any]) -> str:
    """The report as text for people."""
    lines: list[str] = []
    for rule, count in report["rules"].items():
        names = dict.fromkeys(name for entry in report["log"] if entry["rule"] == rule for name in entry["nodes"])
        lines.append(f"{rule}: {count}" + (f"  ({shortened(list(names))})" if names else ""))
    reasons: dict[tuple[str, str], list[str]] = {}
    for entry in report["declined"]:
        reasons.setdefault((entry["rule"], entry["reason"]), []).extend(entry["nodes"])
    lines += [f"{rule} declined: {why}  ({shortened(names)})" for (rule, why), names in reasons.items()]
    lines.append(f"{report['before']} nodes -> {report['after']}")
    if (validation := report.get("validation")) is not None:
        refused = next((row["error"] for row in validation["sizes"].values() if "error" in row), None)
        verdict = "equal" if validation["equal"] else "DIFFERS" if refused is None else "REFUSED"
        lines.append(f"{verdict} by {validation['by']}{where_validated(validation)}")
        lines += [refused] if refused is not None else []
    if not report["written"]:
        lines.append(f"{report['output']} is not written")
    elif report["data"] is not None:
        lines.append(f"the data beside the model is in {report['data']}")
    return "\n".join(lines)


def where_validated(validation: Mapping[str, Any]) -> str:
    """The sizes at which both models ran: those given, and those of the symbols that are left."""
    given, tried = ", ".join(validation["given"]), "; ".join(validation["sizes"])
    if not validation["symbols"]:
        return f" with {given}" if given else ""
    return f" with {given} and other symbols at {tried}" if given else f" with symbols at {tried}"


SHOWN = 4


def shortened(names: Sequence[str]) -> str:
    """The first few names, and how many there are beyond."""
    return ", ".join(names[:SHOWN]) + (f", and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
