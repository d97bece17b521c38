"""Groups of operators that run as one kernel, and what operators can be in them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from ..dialects import onnx
from ..dialects.dims import Dim, dims_of
from ..semantics.custom import has_epilogue as has_epilogue_of_its_own
from ..semantics.kinds import Kind, is_view, kind_of, reduced_axes


@dataclass(eq=False)
class Group:
    """Operators that run as one kernel, in block order."""

    ops: list[Operation]
    anchor: Operation | None = None
    """The template op, if this is a template group."""
    rows: tuple[Dim, ...] | None = None
    """The leading dims that a rows group iterates over; None where there is no reduction over trailing axes."""
    closed: bool = False
    """A reduction over other than trailing axes: only operators on its result's dims may follow."""


MOVED_ONCE: frozenset[type[Operation]] = frozenset((
    onnx.ConcatOp, onnx.SliceOp, onnx.SplitOp, onnx.TransposeOp, onnx.DepthToSpaceOp, onnx.SpaceToDepthOp,
))  # fmt: skip
"""Movement operators that read each element of their operands at most once, though they may have other sizes."""

LOOPS = (Kind.POINTWISE, Kind.MOVEMENT, Kind.SOURCE)
"""Kinds whose elements are each a formula of few others."""


def reads_rows(op: Operation) -> bool:
    """Whether neighbours along the last axis of an op's result are made of neighbours: as cheap to read as memory."""
    rank = len(dims_of(op.results[0]))
    if isinstance(op, onnx.ConcatOp):
        return onnx.attr(op, "axis") % rank != rank - 1
    if isinstance(op, onnx.GatherOp):
        source = len(dims_of(op.operands[0]))
        return onnx.attr(op, "axis") % source != source - 1
    if isinstance(op, onnx.TransposeOp):
        perm = onnx.attr(op, "perm")
        return perm is not None and perm[-1] == rank - 1
    return kind_of(op) is Kind.POINTWISE or is_view(op)


WITH_EPILOGUE: frozenset[type[Operation]] = frozenset(
    (onnx.MatMulOp, onnx.GemmOp, onnx.ConvOp, onnx.ConvTransposeOp, onnx.MatMulIntegerOp, onnx.ConvIntegerOp)
)


def has_epilogue(op: Operation) -> bool:
    """Whether the op's template takes pointwise operators into its store."""
    return type(op) in WITH_EPILOGUE or (isinstance(op, onnx.CustomOp) and has_epilogue_of_its_own(op))


def start_group(op: Operation) -> Group:
    """The group of one op."""
    kind = kind_of(op)
    if kind is Kind.TEMPLATE:
        return Group([op], anchor=op)
    if kind is Kind.REDUCTION:
        axes = reduced_axes(op)
        source = dims_of(op.operands[0])
        if axes is not None and axes and axes == tuple(range(axes[0], len(source))):
            return Group([op], rows=source[: axes[0]])
        return Group([op], closed=True)
    return Group([op])


def space_of(op: Operation, *, reads: bool = False) -> tuple[Dim, ...]:
    """The dims that an op iterates over: its result's, or its operand's for a reduction when `reads`."""
    if reads and kind_of(op) is Kind.REDUCTION:
        return dims_of(op.operands[0])
    return dims_of(op.results[0])


def space(group: Group) -> tuple[Dim, ...]:
    """The dims that a group iterates over: its last op's result."""
    return space_of(group.ops[-1])
