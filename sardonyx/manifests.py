"""What the runtime is told of a program: its manifest, and the functions of what it calls back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, UnrankedTensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from .codegen.entry import Entry, host_value, overridable_inputs, tensor_dims
from .dialects import kernel, onnx
from .options import Options
from .pipeline import State
from .questions import otherwise_of
from .runtime import abi
from .runtime.errors import CompilerBug, InputError, OpenRankError
from .runtime.hosting import HostFunction
from .runtime.manifest import FORMAT, Held, Manifest, TensorSpec
from .semantics.custom import Operators
from .semantics.evaluate import operator_and_attributes, reference_of, result_places
from .semantics.reference import Value
from .semantics.shapes.containers import container_dims
from .semantics.weights import WeightStore
from .tools.costs import costs_of
from .tools.explain import explain, main_of, node_names


def manifest_of(state: State, main: FuncOp, entry: Entry) -> Manifest:
    """The description that travels with the objects."""
    nodes = [str(info) for info in onnx.node_table(main)]
    ret = main.body.block.last_op
    assert isinstance(ret, ReturnOp)
    inputs: list[TensorSpec] = [spec_of(a, f"input_{i}") for i, a in enumerate(main.body.block.args)]
    for op in overridable_inputs(main):
        spec = spec_of(op.result, onnx.text_of(op.sym))
        spec["default"] = entry.weights.index(op.value)
        inputs.append(spec)
    names = output_names(main)
    outputs = [spec_of(v, name) for v, name in zip(ret.operands, names, strict=True)]
    for spec, name in zip(outputs, names, strict=True):
        spec["name"] = name
    manifest: Manifest = {
        "format": FORMAT,
        "abi": abi.VERSION,
        "inputs": inputs,
        "outputs": outputs,
        "checks": {str(site): check for site, check in enumerate(entry.checks)},
        "nodes": nodes,
        "hosts": list(entry.hosts),
        "explain": {
            **explain(state.module),
            "options": explain_options(state.options),
            **({"contradicted": state.contradicted} if state.contradicted else {}),
            **steps_of(state.module, entry),
        },
    }
    if otherwise := otherwise_of(main):
        manifest["otherwise"] = otherwise
    return manifest


def explain_options(options: Options) -> dict[str, Any]:
    """The options that decide what a program computes, for the report."""
    return {name: getattr(options, name) for name in ("precision", "exact", "fast_math", "fuse")}


def steps_of(module: ModuleOp, entry: Entry) -> dict[str, Any]:
    """Of a timed entry its steps: what each calls, the nodes that it is for, and of a kernel its costs."""
    steps: list[dict[str, Any]] = []
    for op in entry.steps:
        nodes = node_names(module, op.attributes.get("origin"))
        if isinstance(op, kernel.CallOp):
            steps.append({"name": op.callee.string_value(), "nodes": nodes} | costs_of(module, op))
        else:
            steps.append({"name": f"{onnx.operator_name(op)} (hosted)", "nodes": nodes})
    return {"steps": steps} if steps else {}


def open_manifest(state: State, error: OpenRankError, overridable: list[str]) -> Manifest:
    """The description of a program without code, whose ranks the inputs of a call decide."""
    main = main_of(state.module)
    ret = main.body.block.last_op
    assert isinstance(ret, ReturnOp)
    outputs = [spec_of(v, name) for v, name in zip(ret.operands, output_names(main), strict=True)]
    nothing = ModuleOp([FuncOp("main", ((), ()), Region(Block([ReturnOp()])))])
    return {
        "format": FORMAT,
        "abi": abi.VERSION,
        "inputs": [spec_of(a, f"input_{i}") for i, a in enumerate(main.body.block.args)],
        "outputs": [{**spec, "name": name} for spec, name in zip(outputs, output_names(main))],
        "checks": {},
        "nodes": [],
        "hosts": [],
        "explain": explain(nothing) | {"overridable": overridable, "open_rank": str(error)},
        "question": error.question,
    }


def spec_of(value: SSAValue, fallback: str) -> TensorSpec:
    """A value as the manifest has it."""
    if isinstance(value.type, UnrankedTensorType):
        dtype = onnx.numpy_dtype(value.type.element_type).name
        return {"name": onnx.value_name(value) or fallback, "dtype": dtype, "dims": ["..."]}
    described = host_value(value.type)
    spec: TensorSpec = {
        "name": onnx.value_name(value) or fallback,
        "dtype": described["dtype"],
        "dims": [d.value if d.is_const else str(d) for d in tensor_dims(value.type)],
    }
    if described["dtype"] == "object" and (held := held_by(value.type)) is not None:
        spec["holds"] = held
    return spec


def held_by(type_: Attribute) -> Held | None:
    """What a container's type says of it; None for a type that says nothing."""
    if isinstance(type_, onnx.SequenceType | onnx.OptionalType):
        inner = held_by(type_.element)
        kind = "sequence" if isinstance(type_, onnx.SequenceType) else "optional"
        return None if inner is None else {"kind": kind, "element": inner}
    if isinstance(type_, onnx.MapType):
        return {"kind": "map", "dtype": "string" if type_.key == onnx.STRING else "int64"}
    if not isinstance(type_, TensorType | UnrankedTensorType):
        return None
    dtype = "string" if type_.element_type == onnx.STRING else onnx.numpy_dtype(type_.element_type).name
    if isinstance(type_, UnrankedTensorType):
        return {"kind": "tensor", "dtype": dtype}
    return {"kind": "tensor", "dtype": dtype, "dims": [d.value if d.is_const else -1 for d in container_dims(type_)]}


def output_names(main: FuncOp) -> list[str]:
    """The names of the model's outputs."""
    names: Any = main.attributes.get("onnx.outputs")
    if names is None:
        raise CompilerBug("bug: main has no output names")
    return [str(onnx.plain(n)) for n in names]


def host_functions(entry: Entry, weights: WeightStore, operators: Operators) -> list[HostFunction]:
    """The reference functions of the hosted operators.

    What a later process needs to find the function again goes into the manifest's entry.
    """
    found: list[HostFunction] = []
    for host, op in zip(entry.hosts, entry.hosted, strict=True):
        function = reference_of(op, weights, operators)
        assert function is not None, op.name
        domain, name, attributes = operator_and_attributes(op, weights)
        if (domain, name) in operators:
            function = with_types_checked(function, op)
            host["given"] = True
        elif is_json(attributes):
            places = result_places(op)
            host["payload"] = {"domain": domain, "operator": name, "attributes": attributes, "results": places}
        single = len(op.results) == 1
        found.append((lambda *v, f=function: f(*v)[0]) if single else function)
    return found


def with_types_checked(function: Callable[..., tuple[Value, ...]], op: Operation) -> Callable[..., tuple[Value, ...]]:
    """A user's function that raises InputError where it gives something else than its result types say."""
    expected = [(onnx.numpy_dtype(r.type.element_type), r.type.get_num_dims()) for r in op.results
                if isinstance(r.type, TensorType)]  # fmt: skip

    def run(*operands: Value) -> tuple[Value, ...]:
        results = function(*operands)
        for value, (dtype, rank) in zip(results, expected):
            if not isinstance(value, np.ndarray) or value.dtype != dtype or value.ndim != rank:
                given = f"{value.dtype} of rank {value.ndim}" if isinstance(value, np.ndarray) else type(value).__name__
                raise InputError(f"operator {onnx.operator_name(op)} gave {given}, expected {dtype} of rank {rank}")
        return results

    return run


def is_json(value: Any) -> bool:
    """Whether a value survives a manifest: numbers, text, and lists and dicts of them."""
    if isinstance(value, dict):
        return all(isinstance(k, str) and is_json(v) for k, v in value.items())
    if isinstance(value, list):
        return all(map(is_json, value))
    return isinstance(value, (str, int, float, bool))
