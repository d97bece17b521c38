"""`sardonyx simplify`: a model made smaller by the rewrite rules, and checked against what it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import onnx as onnx_package
from onnx import GraphProto, ModelProto
from xdsl.dialects.builtin import TensorType

from .dialects import onnx
from .dialects.dims import dims_of
from .dialects.onnx.model import INPUTS, main_of, names_of
from .frontend.exporter import export_model
from .frontend.importer import import_model
from .program import Model, TensorInfo
from .rewrites.driver import Firing
from .rewrites.infer import infer_shapes
from .rewrites.simplify import simplify
from .rewrites.upgrade import upgrade_opset
from .runtime.errors import InputError
from .semantics.interpreter import run_graph
from .tools.compare import compare_outputs
from .tools.feeds import make_feeds

SIZES = (1, 2, 3, 7)
"""What all symbols are set to, in turn, when a result is checked."""


def simplified(
    model: Model,
    output: Path,
    *,
    exact: bool = False,
    validate: bool = False,
    sizes: Sequence[str] = (),
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> dict[str, Any]:
    """Writes the model simplified to `output`: the same inputs, outputs and opset, fewer nodes.

    Gives the numbers of nodes `before` and `after`, how often each of the `rules` fired, and with `validate` under
    `validation` what `validated` gives.
    """
    proto, log, before = simplify_model(model, exact=exact)
    onnx_package.save(proto, output)
    report: dict[str, Any] = {
        "output": str(output),
        "before": before,
        "after": count_nodes(proto.graph),
        "rules": dict(Counter(firing.pattern for firing in log).most_common()),
    }
    if validate:
        report["validation"] = validated(model, output, sizes=sizes, rtol=rtol, atol=atol)
    return report


def simplify_model(model: Model, *, exact: bool = False) -> tuple[ModelProto, list[Firing], int]:
    """The simplified model, what fired, and how many nodes there were."""
    module, weights = import_model(model)
    before = count_nodes(export_model(module, weights).graph)
    upgrade_opset(module, weights)
    infer_shapes(module, weights, compile_mode=True)  # what is known of shapes and conditions becomes constants
    log = simplify(module, weights, exact=exact)
    result = export_model(module, weights)
    if count_nodes(result.graph) > before:  # sizes that are written out cost more than the rules saved
        return export_model(*import_model(model)), [], before
    return result, log, before


def count_nodes(graph: GraphProto) -> int:
    """The nodes of a graph and of the bodies in it."""
    attributes = [a for node in graph.node for a in node.attribute]
    bodies = [g for a in attributes for g in (*([a.g] if a.HasField("g") else ()), *a.graphs)]
    return len(graph.node) + sum(map(count_nodes, bodies))


def validated(model: Model, other: Model, *, sizes: Sequence[str] = (), rtol: float, atol: float) -> dict[str, Any]:
    """Runs both models on random inputs at several sizes, by onnxruntime where it is installed, else by the reference.

    `sizes` fixes symbols (`T=512`).  Gives `equal`, who ran them (`by`), and for each size what was compared.  A size
    that the first model refuses is left out; raises InputError where it refuses all.
    """
    runner, by = (by_onnxruntime, "onnxruntime") if find_spec("onnxruntime") else (by_reference, "reference")
    specs = input_specs(model)
    rows: dict[str, Any] = {}
    refused = ""
    for size in SIZES:
        names = sorted({d for spec in specs for d in spec.shape if isinstance(d, str) and d.isidentifier()})
        feeds = make_feeds(specs, (), [*(f"{name}={size}" for name in names), *sizes])
        try:
            want = runner(model, feeds)
        except Exception as e:  # onnxruntime has no common class of errors
            refused = str(e)
            continue
        rows[str(size)] = compare_outputs(runner(other, feeds), want, rtol=rtol, atol=atol)
        if not names:
            break
    if not rows:
        raise InputError(f"the model runs at none of the sizes {', '.join(map(str, SIZES))}: {refused}")
    return {"equal": all(row["equal"] for row in rows.values()), "by": by, "sizes": rows}


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
        specs.append(TensorInfo(name, onnx.numpy_dtype(argument.type.element_type), dims))
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
    lines = [f"{rule}: {count}" for rule, count in report["rules"].items()]
    lines.append(f"{report['before']} nodes -> {report['after']}")
    if (validation := report.get("validation")) is not None:
        verdict = "equal" if validation["equal"] else "DIFFERS"
        lines.append(f"{verdict} by {validation['by']} with all symbols at {', '.join(validation['sizes'])}")
    return "\n".join(lines)
