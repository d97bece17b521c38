"""The hand-over to the runtime: what the loaded program needs to know of a module, as the manifest says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, TensorType
from xdsl.ir import Attribute, SSAValue

from ..dialects.onnx import STRING, numpy_dtype, text_of
from ..runtime import abi
from ..runtime.manifest import FORMAT, Manifest, TensorSpec
from .entry_builder import Entry, name_of, overridable_inputs, tensor_dims


def manifest_of(
    main: func.FuncOp,
    entry: Entry,
    *,
    nodes: Sequence[str] = (),
    explain: Any = None,
    payloads: Sequence[Any] | None = None,
) -> Manifest:
    """The manifest of a scheduled `main` and its entry.

    `nodes` names the file's nodes by id, for errors; `payloads` says for each host what its function is.
    """
    ret = main.body.block.last_op
    assert isinstance(ret, func.ReturnOp)
    extra = overridable_inputs(main)
    inputs = [spec_of(value, name_of(value, f"input_{i}")) for i, value in enumerate(main.body.block.args)]
    for op in extra:
        spec = spec_of(op.result, text_of(op.sym))
        spec["default"] = entry.weights.index(op.value)
        inputs.append(spec)
    outputs = [spec_of(value, name) for value, name in zip(ret.operands, output_names(main, ret), strict=True)]
    hosts = [host.copy() for host in entry.hosts]
    for host, payload in zip(hosts, payloads or (), strict=payloads is not None):
        host["payload"] = payload
    return {
        "format": FORMAT,
        "abi": abi.VERSION,
        "inputs": inputs,
        "outputs": outputs,
        "checks": {str(site): check for site, check in enumerate(entry.checks)},
        "nodes": list(nodes),
        "hosts": hosts,
        "explain": explain,
    }


def output_names(main: func.FuncOp, ret: func.ReturnOp) -> list[str]:
    """The names of the outputs: the function's own list, else those of the values."""
    listed = main.attributes.get("onnx.outputs")
    if isinstance(listed, ArrayAttr) and len(listed) == len(ret.operands):
        return [text_of(name) for name in listed]
    return [name_of(value, f"output_{i}") for i, value in enumerate(ret.operands)]


def spec_of(value: SSAValue, name: str) -> TensorSpec:
    """An input or output as the manifest describes it."""
    return {"name": name, "dtype": dtype_name(value.type), "dims": dims_list(value.type)}


def dtype_name(type_: Attribute) -> str:
    """numpy's or ml_dtypes' name of the elements; `string`, or `object` for sequences and the like."""
    if not isinstance(type_, TensorType):
        return "object"
    return "string" if type_.element_type == STRING else numpy_dtype(type_.element_type).name


def dims_list(type_: Attribute) -> list[int | str]:
    """Numbers and expressions."""
    return [dim.value if dim.is_const else str(dim) for dim in tensor_dims(type_)]
