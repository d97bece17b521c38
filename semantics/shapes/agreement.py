"""Sizes on which the operands of an operator agree: one table, from which conditions are stated before any shape rule.

An entry lists an operand's sizes: a name stands for one size wherever it occurs, an expression of names and numbers for
its value, `_` for any size, `...` for any further axes, `*S` for a list of sizes that is the same wherever it occurs.
A rank that does not fit is an error; sizes that may not fit become guards.  Relations that attributes take part in are
in the shape rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from ...dialects import onnx
from ...dialects.dims import Dim, dims_of, parse_dim
from .context import Context, ShapeError

_NORMAL = {0: "N, C, ...", 1: "C", 2: "C"}
_LOSS = {0: "N, C, *S", 1: "N, *S", 2: "C"}

AGREEMENT: Mapping[type[Operation], Mapping[int, str]] = {
    onnx.AffineGridOp: {0: "_, A, A+1"},
    onnx.BatchNormalizationOp: {0: "N, ..."},
    onnx.CausalConvWithStateOp: {0: "B, C, _", 1: "C, 1, K", 2: "C", 3: "B, C, K-1"},
    onnx.ConvOp: {1: "M, ...", 2: "M"},
    onnx.DeformConvOp: {0: "N, ...", 1: "M, ...", 2: "N, _, *O", 3: "M", 4: "N, _, *O"},
    onnx.GroupNormalizationOp: _NORMAL,
    onnx.InstanceNormalizationOp: _NORMAL,
    onnx.LpNormalizationOp: {0: "_, ..."},
    onnx.LRNOp: {0: "N, C, ..."},
    onnx.LSTMOp: {1: "D, 4*H, I", 2: "D, 4*H, H", 3: "D, 8*H", 5: "_, _, H", 6: "_, _, H", 7: "D, 3*H"},
    onnx.GRUOp: {1: "D, 3*H, I", 2: "D, 3*H, H", 3: "D, 6*H", 5: "_, _, H"},
    onnx.RNNOp: {1: "D, H, I", 2: "D, H, H", 3: "D, 2*H", 5: "_, _, H"},
    onnx.MaxRoiPoolOp: {0: "_, _, _, _", 1: "_, 5"},
    onnx.MaxUnpoolOp: {0: "*S", 1: "*S"},
    onnx.NegativeLogLikelihoodLossOp: _LOSS,
    onnx.NonMaxSuppressionOp: {0: "B, S, 4", 1: "B, _, S"},
    onnx.OneHotOp: {2: "2"},
    onnx.PreviewFlexAttentionOp: {0: "B, _, _, E", 1: "B, K, S, E", 2: "B, K, S, _"},
    onnx.QLinearConvOp: {3: "M, ...", 8: "M"},
    onnx.RMSNormalizationOp: {0: "_, ..."},
    onnx.RoiAlignOp: {1: "R, 4", 2: "R"},
    onnx.SliceOp: {1: "K", 2: "K", 3: "K", 4: "K"},
    onnx.SoftmaxCrossEntropyLossOp: _LOSS,
    onnx.TensorScatterOp: {0: "B, ...", 2: "B"},
}


def require_agreement(c: Context) -> None:
    """States that the operands' sizes fit each other. Raises ShapeError where they cannot."""
    listed = AGREEMENT.get(type(c.op))
    if listed is None:
        return
    found = [(index, dims_of(value), *_terms(text)) for index, text in listed.items() if (value := _ranked(c, index))]
    bound: dict[str, Dim] = {}
    for _, sizes, terms, _ in found:
        for size, term in zip(sizes, terms):
            if isinstance(term, str):
                bound.setdefault(term, size)
    lists: dict[str, tuple[Dim, ...]] = {}
    for index, sizes, terms, rest in found:
        what = f"input {index}"
        if len(sizes) < len(terms) or (rest is None and len(sizes) > len(terms)):
            least = "at least " if rest is not None else ""
            named = _named(c.op, index)
            raise ShapeError(f"{what}{named} has rank {len(sizes)}, and must have {least}{len(terms)}")
        for axis, (size, term) in enumerate(zip(sizes, terms)):
            wanted = _wanted(term, bound)
            if wanted is not None and wanted is not size:
                c.equal(size, wanted, f"axis {axis} of {what}{_named(c.op, index)}")
        if rest and lists.setdefault(rest, sizes[len(terms) :]) != sizes[len(terms) :]:
            _require_equal(c, sizes[len(terms) :], lists[rest], len(terms), what)


def _ranked(c: Context, index: int) -> SSAValue | None:
    value = c.operand(index)
    return value if value is not None and isinstance(value.type, TensorType) else None


def _require_equal(c: Context, found: Sequence[Dim], wanted: Sequence[Dim], first: int, what: str) -> None:
    if len(found) != len(wanted):
        raise ShapeError(f"{what} has rank {first + len(found)}, and must have {first + len(wanted)}")
    for axis, (size, other) in enumerate(zip(found, wanted), first):
        c.equal(size, other, f"axis {axis} of {what}")


def _wanted(term: str | Dim | None, bound: Mapping[str, Dim]) -> Dim | None:
    """The size that a term stands for; None where any will do."""
    if term is None or isinstance(term, str):
        return None if term is None else bound[term]
    return term.subs(bound) if term.symbols <= bound.keys() else None


@cache
def _terms(text: str) -> tuple[tuple[str | Dim | None, ...], str | None]:
    """The names and expressions of an entry, None for any size, and what further axes are: their name, or nothing."""
    parts = [part.strip() for part in text.split(",")]
    rest = None
    if parts[-1] == "..." or parts[-1].startswith("*"):
        rest = parts.pop().removeprefix("...").removeprefix("*")
    terms = (None if part == "_" else part if part.isalpha() else parse_dim(part) for part in parts)
    return tuple(terms), rest


def _named(op: Operation, index: int) -> str:
    return f" ('{op.SCHEMA.inputs[index].name}')" if isinstance(op, onnx.OnnxOp) else ""
