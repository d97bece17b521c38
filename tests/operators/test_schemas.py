"""Every operator at every version, in every element type that its schema allows, on a small node each.

What is compiled agrees with the reference functions, and with onnxruntime or ONNX's reference evaluator where one of
them runs the node.  A sample is taken, by hashes: all of them would take ten minutes.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from result_difference import difference, near

import sardonyx as sx

from .schema_versions import Typed, every, versions

SHARDS = 20
SHARE = int(os.environ.get("SARDONYX_SCHEMA_SHARE", "12"))
"""One of so many nodes is taken."""

CHANCE = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
"""Each implementation has numbers of its own."""

PEERS_DIFFER = {
    "Cast": "a float that an integer type does not have is cast to anything",
    "CastLike": "as Cast",
    "CenterCropPad": "texts are filled up with '', not with 0",
    "DequantizeLinear": "the evaluator leaves a zero point of float4 out",
    "Dropout": "masks of versions before 12 are 0 in onnxruntime, and versions 1 and 6 train",
    "Gemm": "of integers, scaled terms are cut off before they are added",
    "GridSample": "of integers, the evaluator rounds each step",
    "Hardmax": "the evaluator reads old versions as the newest",
    "LogSoftmax": "as Hardmax",
    "Loop": "the evaluator concatenates what is stacked up",
    "Optional": "the evaluator gives a list",
    "QLinearMatMul": "scales are multiplied in another order, and ties fall to either side",
    "Resize": "of integers, results are cut off, as in onnxruntime; the evaluator rounds them",
    "Softmax": "as Hardmax",
    "TfIdfVectorizer": "texts by a pool of integers",
    "Trilu": "as CenterCropPad",
}
"""Where another implementation is no judge, and why."""

NO_SUCH_NUMBER = {(op, element) for op in ("ReduceLogSum", "ReduceLogSumExp") for element in ("uint32", "uint64")}
"""Where it is none either: the logarithm of an empty sum, minus infinity, is cast to what has none."""

HOSTED = ("Sequence", "Optional", "String", "Regex", "Concat", "SplitToSequence", "ImageDecoder", "Map", "Vectorizer")
"""Parts of the names of operators that handle more than tensors of numbers."""

NOT_COMPUTED = {
    ("Col2Im", "string"): "texts have no sum",
    ("Imputer", "int32"): "the value that is put in is an attribute of its own",
    ("Imputer", "int64"): "as int32",
}


@cache
def chosen(shard: int) -> list[Typed]:
    """Of the nodes of a shard those that the hash takes and the standard's own inference finds no fault with."""
    found: list[Typed] = []
    for typed in every():
        number = int(hashlib.sha256(str(typed).encode()).hexdigest()[:8], 16)
        if number % SHARE == 0 and number // SHARE % SHARDS == shard and typed.is_valid():
            found.append(typed)
    return found


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_type_of_every_version(shard: int) -> None:
    assert {str(typed): text for typed in chosen(shard) if (text := disagreement(typed))} == {}


def test_every_operator_has_a_node() -> None:
    assert {typed.node.op for typed in every()} == {name for _, name in versions()} - {"Gradient"}


def disagreement(typed: Typed) -> str | None:
    """What is wrong with a node's results; None where nothing is."""
    node, model, feeds = typed.node, typed.model(), typed.feeds()
    if (node.op, typed.element) in NOT_COMPUTED:
        return None
    try:
        program = sx.compile(model)
        got = program.run(None, feeds)
    except sx.Error as error:
        return str(error)
    texts = typed.element == "string" or any(part in node.op for part in HOSTED)
    if not texts and (hosted := program.explain().to_dict()["hosted"]) and not any(map(has_texts, (feeds, got))):
        return f"hosted: {hosted}"
    if (text := wrong_types(model, got)) or node.op in CHANCE or (node.op == "Dropout" and typed.version < 7):
        return text
    others = [own] if (own := by_levels(model, feeds)) is not None else []
    judges = node.op not in PEERS_DIFFER and (node.op, typed.element) not in NO_SUCH_NUMBER
    others += by_others(model, feeds) if judges else []
    differences = [difference(got, other, alike, other_types=True) for other in others]
    if own is not None and differences[0]:
        return f"the reference functions: {differences[0]}"
    peers = differences[own is not None :]
    return f"another implementation: {peers[0]}" if peers and all(peers) else None


def by_levels(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any] | None:
    """The results of the reference functions; None where a call has to tell a rank."""
    try:
        module = sx.lower(model, to="graph")
    except sx.UnsupportedError:
        return None
    found = sx.run(module, feeds)
    return [found[output.name] for output in model.graph.output]


def has_texts(values: Any) -> bool:
    items = values.values() if isinstance(values, dict) else values
    return any(isinstance(v, list | dict | str) or getattr(v, "dtype", np.dtype("f4")).kind in "OUS" for v in items)


def wrong_types(model: onnx.ModelProto, got: list[Any]) -> str | None:
    """Element types that the standard's inference says otherwise."""
    inferred = onnx.shape_inference.infer_shapes(model)
    for value, info in zip(got, inferred.graph.output):
        code = info.type.tensor_type.elem_type
        if code in (0, TensorProto.STRING) or not isinstance(value, np.ndarray):
            continue
        if value.dtype != helper.tensor_dtype_to_np_dtype(code):
            return f"{info.name} is {value.dtype}, not {helper.tensor_dtype_to_np_dtype(code)}"
    return None


def by_others(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[list[Any]]:
    """The results of those of onnxruntime and ONNX's evaluator that run the model."""
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL

    def onnxruntime() -> list[Any]:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)

    found: list[list[Any]] = []
    for run in (onnxruntime, lambda: ReferenceEvaluator(model).run(None, feeds)):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                found.append(run())
            except Exception:  # what a peer cannot run, it refuses in ways without a common class
                continue
    return found


def alike(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> Any:
    """Where elements differ by no more than rounding."""
    if want.dtype.kind in "biu" or "int" in want.dtype.name:
        return got == want
    real = want.real.dtype if want.dtype.kind == "c" else want.dtype
    eps = 0.0 if want.dtype.itemsize == 1 else max(float(ml_dtypes.finfo(real).eps), 1e-6)
    wide = want.astype(np.complex128 if want.dtype.kind == "c" else np.float64)
    largest = float(np.abs(wide[np.isfinite(wide)]).max(initial=1.0))
    return near(got, want, 8 * eps, 8 * eps * largest)
