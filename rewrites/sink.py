"""Each reader of a cheap movement gets a copy of its own, so that it can be computed where it is read."""

from __future__ import annotations

from xdsl.ir import Block, Operation

from ..dialects import onnx
from ..dialects.dims import dims_of
from ..semantics.kinds import Kind, is_view, kind_of
from .pass_views import is_swap

INDEX_MAPS: frozenset[type[Operation]] = frozenset((
    onnx.TransposeOp, onnx.SliceOp, onnx.ExpandOp, onnx.SplitOp,
))  # fmt: skip
"""Movement operators whose reads are strided: a reduction may read through them."""

COPIED: frozenset[type[Operation]] = INDEX_MAPS | {onnx.PadOp, onnx.GatherOp}
"""Movement operators that contractions make anew rather than have made for all of them."""

CONTRACTIONS: frozenset[type[Operation]] = frozenset(
    (onnx.MatMulOp, onnx.GemmOp, onnx.ConvOp, onnx.ConvTransposeOp, onnx.MatMulIntegerOp, onnx.ConvIntegerOp)
)
MOST_CONTRACTIONS = 4
LEAST_CHANNELS = 8
"""What a contraction does with each element of its operand, so that making the element again is little beside it."""

LOOPS = (Kind.POINTWISE, Kind.MOVEMENT, Kind.REDUCTION)


def sink_index_maps(block: Block) -> None:
    """Copies index maps for each of their readers, where all of them run as loops or are contractions."""
    for op in reversed(list(block.ops)):
        if len(op.results) != 1 or not (shows_copied(op, block) if is_view(op) else type(op) in COPIED):
            continue
        uses = list(op.results[0].uses)
        readers = {u.operation for u in uses}
        if len(readers) < 2 or any(r.parent is not block for r in readers) or not may_copy(op):
            continue
        places = {at: number for number, at in enumerate(block.ops)}
        for reader in sorted(readers, key=places.__getitem__)[1:]:
            copy = op.clone()
            block.insert_op_before(copy, reader)
            for use in uses:
                if use.operation is reader:
                    reader.operands[use.index] = copy.results[0]


def shows_copied(view: Operation, block: Block) -> bool:
    """Whether a view shows, maybe through others, what its readers would rather make themselves."""
    owner = view.operands[0].owner
    while isinstance(owner, Operation) and owner.parent is block and is_view(owner):
        owner = owner.operands[0].owner
    return isinstance(owner, Operation) and owner.parent is block and type(owner) in COPIED


def may_copy(op: Operation) -> bool:
    """Loops read through an index map at no cost; contractions, if they are few, make their operand in scratch."""
    readers = readers_behind_views(op)
    if all(kind_of(r) in LOOPS for r in readers):
        return type(op) in INDEX_MAPS
    if len(readers) > MOST_CONTRACTIONS:
        return False
    if isinstance(op, onnx.ExpandOp):  # it reads little
        return all(kind_of(r) in (*LOOPS, Kind.TEMPLATE) for r in readers)
    if not all(is_wide_contraction(r) for r in readers):
        return False
    if isinstance(op, onnx.TransposeOp):  # a real one is dear
        return is_swap(op) and all(isinstance(r, (onnx.MatMulOp, onnx.GemmOp)) for r in readers)
    return True


def readers_behind_views(op: Operation) -> set[Operation]:
    """The ops that read an op's results, directly or through views, and are none."""
    found: set[Operation] = set()
    for use in (u for r in op.results for u in r.uses):
        found |= readers_behind_views(use.operation) if is_view(use.operation) else {use.operation}
    return found


def is_wide_contraction(op: Operation) -> bool:
    """Whether an operator multiplies each element of an operand several times."""
    if type(op) not in CONTRACTIONS:
        return False
    shape = dims_of(op.results[0])
    axis = 1 if isinstance(op, (onnx.ConvOp, onnx.ConvTransposeOp, onnx.ConvIntegerOp)) else -1
    return not shape[axis].is_const or shape[axis].value >= LEAST_CHANNELS
