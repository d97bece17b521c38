"""One node as a model: compiled for known and for symbolic sizes, and what other implementations make of it."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from .values import BF16, Array, is_float

OPSET = 25
LOOSE = 2.0**30
"""For f64 where references compute in f32, on the standard's word or without it."""


@dataclass(frozen=True)
class Case:
    """A node, its operands (None where one is left out), and how exactly its floats are determined."""

    op: str
    operands: tuple[Array | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    results: int = 1
    constants: Collection[int] = ()
    """The operands that are initializers."""
    domain: str = ""
    opset: int = OPSET
    tolerance: float = 4.0
    """In units of the last place, also of the largest finite element where `scaled`."""
    scaled: bool = False
    signs: bool = True
    """Whether the sign of a zero is determined; never for bfloat16, where references differ among themselves."""

    def __str__(self) -> str:
        operands = ", ".join("-" if a is None else f"{a.dtype}{list(a.shape)}" for a in self.operands)
        return (
            f"{self.domain}{'.' if self.domain else ''}{self.op}@{self.opset}({operands}) {dict(self.attributes) or ''}"
        )

    def feeds(self) -> dict[str, Array]:
        return {f"x{at}": a for at, a in enumerate(self.operands) if a is not None and at not in self.constants}

    def outputs(self) -> list[str]:
        return [f"y{at}" for at in range(self.results)]

    def model(self, dynamic: bool = False) -> onnx.ModelProto:
        inputs: list[onnx.ValueInfoProto] = []
        initializers: list[onnx.TensorProto] = []
        for at, array in enumerate(self.operands):
            if array is None:
                continue
            if at in self.constants:
                initializers.append(numpy_helper.from_array(array, f"x{at}"))
                continue
            # how many integers a list has may decide a rank
            symbolic = dynamic and not (array.ndim == 1 and array.dtype.kind == "i")
            shape = [f"s{at}_{axis}" for axis in range(array.ndim)] if symbolic else array.shape
            inputs.append(helper.make_tensor_value_info(f"x{at}", element_code(array), shape))
        names = ["" if a is None else f"x{at}" for at, a in enumerate(self.operands)]
        outputs = self.outputs()
        node = helper.make_node(self.op, names, outputs, name="node", domain=self.domain, **self.attributes)
        infos = [helper.make_empty_tensor_value_info(name) for name in outputs]
        imports = [helper.make_opsetid("", self.opset if not self.domain else OPSET)]
        if self.domain:
            imports.append(helper.make_opsetid(self.domain, self.opset))
        graph = helper.make_graph([node], "g", inputs, infos, initializers)
        return helper.make_model(graph, opset_imports=imports, ir_version=10 if self.opset < 25 else 11)


def element_code(array: Array) -> int:
    if array.dtype.kind in "OUS":
        return onnx.TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def by_reference(case: Case) -> list[Array] | Exception:
    """The results of ONNX's reference evaluator, or why it has none."""
    from onnx.reference import ReferenceEvaluator

    model, feeds = case.model(), case.feeds()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return [np.asarray(v) for v in ReferenceEvaluator(model).run(None, feeds)]
        except Exception as error:  # numpy code without checks of its own: it fails in any way
            return error


def by_onnxruntime(case: Case) -> list[Array] | Exception:
    """The results of onnxruntime without optimizations, or why it has none."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    model, feeds = case.model().SerializeToString(), case.feeds()
    try:
        return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feeds)
    except Exception as error:  # onnxruntime has no common class of errors
        return error


def difference(case: Case, got: Sequence[Array], want: Sequence[Array]) -> str | None:
    """What is different; None where nothing is."""
    for name, g, w in zip(case.outputs(), got, want):
        g, w = np.asarray(g), np.asarray(w)
        if g.shape != w.shape:
            return f"{name}: shape {list(g.shape)} for {list(w.shape)}"
        if w.dtype.kind in "OUS":
            if g.tolist() != w.tolist():
                return f"{name}: other strings"
            continue
        if g.dtype != w.dtype:
            return f"{name}: {g.dtype} for {w.dtype}"
        wrong = ~alike(g, w, case)
        if wrong.any():
            at = np.flatnonzero(wrong.reshape(-1))[:4]
            shown = [f"{g.reshape(-1)[i]!s} for {w.reshape(-1)[i]!s} at {i}" for i in at]
            return f"{name}: {int(wrong.sum())} of {w.size} differ: " + "; ".join(shown)
    return None


def alike(got: Array, want: Array, case: Case) -> Array:
    """Where elements agree: the same integer, NaN, zero of the same sign, or a float that is near enough."""
    if not is_float(want.dtype) and want.dtype.kind != "c":
        return got == want
    eps = float(ml_dtypes.finfo(want.dtype).eps) if want.dtype.kind != "c" else float(np.finfo(want.dtype).eps)
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    a, b = got.astype(wide), want.astype(wide)
    tiny = float(ml_dtypes.finfo(want.dtype).smallest_subnormal) if want.dtype.kind != "c" else 0.0
    largest = float(np.abs(b[np.isfinite(b)]).max(initial=0)) if case.scaled else 0.0
    with np.errstate(all="ignore"):
        absolute = case.tolerance * max(eps * largest, tiny)
        near = np.isclose(a, b, rtol=case.tolerance * eps, atol=absolute, equal_nan=True)
        if case.tolerance and wide == np.float64:  # one rounding away from infinity
            edge = float(ml_dtypes.finfo(want.dtype).max) * (1 - case.tolerance * eps)
            near |= (np.abs(a) >= edge) & (np.abs(b) >= edge) & (np.sign(a) == np.sign(b))
    if wide == np.complex128 or case.scaled or not case.signs or want.dtype == BF16:
        return near
    return near & ((a != 0) | (b != 0) | (np.signbit(a) == np.signbit(b)))
