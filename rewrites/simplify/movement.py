"""Operators that only move elements, and undo one another: transposes, slices, splits, concatenations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from xdsl.ir import Operation, SSAValue

from ...dialects import dims, onnx
from ...dialects.dims import Dim, as_dim, dim_max, dims_of, tensor_type
from ...semantics.facts import Facts
from ...semantics.kinds import is_view
from ...semantics.known import known_dims
from ..constants import attributes_of
from ..driver import PatternRewriter
from .rule import BROADCASTING, Rule, axes_constant, element_of, is_ranked, only_producer, producer, scalar_of
from .views import END, VIEW_OPS, viewed

MANY = (1 << 31) - 1
"""No axis is longer: exporters write this, or `END`, for the end."""

# --- transposes -------------------------------------------------------------------------------------------------------


def permutation(op: Operation) -> list[int]:
    """The perm attribute, or its default: all axes reversed."""
    perm = onnx.attr(op, "perm")
    return list(perm) if perm is not None else list(reversed(range(len(dims_of(op.operands[0])))))


class MergeTransposes(Rule):
    """Transpose(Transpose(x, p), q)  ->  Transpose(x, p[q]), or x where that keeps the order"""

    root = onnx.TransposeOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        perm = permutation(op)
        inner = producer(op.operands[0], onnx.TransposeOp)
        if perm == list(range(len(perm))):
            rewriter.replace(op, [op.operands[0]])
        elif inner is not None:
            first = permutation(inner)
            both = [first[p] for p in perm]
            rewriter.replace(op, onnx.TransposeOp.make([inner.operands[0]], {"perm": both}, [op.results[0].type]))


UNARY: tuple[type[onnx.OnnxOp], ...] = (
    onnx.AbsOp, onnx.CastOp, onnx.CeilOp, onnx.CosOp, onnx.EluOp, onnx.ErfOp, onnx.ExpOp, onnx.FloorOp, onnx.GeluOp,
    onnx.HardSigmoidOp, onnx.HardSwishOp, onnx.IsNaNOp, onnx.LeakyReluOp, onnx.LogOp, onnx.MishOp, onnx.NegOp,
    onnx.NotOp, onnx.ReciprocalOp, onnx.ReluOp, onnx.RoundOp, onnx.SeluOp, onnx.SigmoidOp, onnx.SignOp, onnx.SinOp,
    onnx.SoftplusOp, onnx.SoftsignOp, onnx.SqrtOp, onnx.SwishOp, onnx.TanhOp,
)  # fmt: skip
"""Pointwise operators of one operand."""

MAX_CHAIN = 8


class SinkTranspose(Rule):
    """Transpose(Relu(Transpose(x, p)), q)  ->  Transpose(Relu(x), p[q]), and so for other pointwise operators

    Declines when something else reads what stands between the two.
    """

    root = onnx.TransposeOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        chain: list[onnx.OnnxOp] = []
        value = op.operands[0]
        while (inner := only_producer(value, *UNARY, *BROADCASTING)) is not None and len(chain) < MAX_CHAIN:
            chain.append(inner)
            through = varying(inner)
            if through is None:
                return
            value = inner.operands[through]
        first = only_producer(value, onnx.TransposeOp)
        if first is None or not chain:
            return
        source = first.operands[0]
        for inner in reversed(chain):
            at = varying(inner)
            operands = [source if i == at else o for i, o in enumerate(inner.formal_operands())]
            type_ = tensor_type(element_of(inner.results[0]), dims_of(source))
            source = rewriter.insert(type(inner).make(operands, attributes_of(inner), [type_])).results[0]
        outer, perm = permutation(op), permutation(first)
        both = [perm[p] for p in outer]
        rewriter.replace(op, onnx.TransposeOp.make([source], {"perm": both}, [op.results[0].type]))
        for inner in (*chain, first):
            rewriter.erase(inner)


def varying(op: Operation) -> int | None:
    """Which operand is no scalar, if all others are constants of one element."""
    others = [i for i, o in enumerate(op.operands) if not is_single(o)]
    if len(others) != 1 or len(dims_of(op.operands[others[0]])) != len(dims_of(op.results[0])):
        return None
    return others[0]


def is_single(value: SSAValue) -> bool:
    return scalar_of(value) is not None and all(d.is_const and d.value == 1 for d in dims_of(value))


@dataclass(frozen=True)
class SinkView(Rule):
    """Reshape(Softmax(Reshape(x)))  ->  Softmax(x), where the outer Reshape gives x's own shape

    Of pointwise operators with scalars, and of Softmax along a last axis that both reshapes leave alone; any views for
    reshapes.  Declines when something else reads what stands between the two.
    """

    root = VIEW_OPS

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not is_view(op):
            return
        chain: list[onnx.OnnxOp] = []
        value = op.operands[0]
        while (inner := only_producer(value, *UNARY, *BROADCASTING, *LAST_AXIS)) is not None and len(chain) < MAX_CHAIN:
            through = 0 if isinstance(inner, LAST_AXIS) else varying(inner)
            if through is None:
                return
            chain.append(inner)
            value = inner.operands[through]
        first = only_producer(value, *VIEW_OPS)
        if first is None or not chain or not is_view(first):
            return
        source = first.operands[0]
        shape, between = dims_of(source), dims_of(value)
        if dims_of(op.results[0]) != shape:
            return
        rows = [inner for inner in chain if isinstance(inner, LAST_AXIS)]
        if any(not shape or not between or shape[-1] is not between[-1] or not along_last(inner) for inner in rows):
            return
        for inner in reversed(chain):
            at = 0 if isinstance(inner, LAST_AXIS) else varying(inner)
            operands = [source if i == at else o for i, o in enumerate(inner.formal_operands())]
            attributes = {**attributes_of(inner), **({"axis": onnx.int_attr(-1)} if inner in rows else {})}
            type_ = tensor_type(element_of(inner.results[0]), shape)
            source = rewriter.insert(type(inner).make(operands, attributes, [type_])).results[0]
        rewriter.replace(op, [source])
        for inner in (*chain, first):
            rewriter.erase(inner)


LAST_AXIS = (onnx.SoftmaxOp, onnx.LogSoftmaxOp)


def along_last(op: Operation) -> bool:
    return onnx.attr(op, "axis") % len(dims_of(op.results[0])) == len(dims_of(op.results[0])) - 1


@dataclass(frozen=True)
class SplitBeforeTranspose(Rule):
    """Reshape(Transpose(Reshape(x)))  ->  Transpose(Reshape(x)), where the outer Reshape only splits axes

    Or only drops those of size 1.  Declines when something else reads what stands between, and, in a model for a file
    (`for_file`), where the new shape would have to be computed.
    """

    facts: Facts
    for_file: bool

    root = VIEW_OPS

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        turned = only_producer(op.operands[0], onnx.TransposeOp) if is_view(op) else None
        first = only_producer(turned.operands[0], *VIEW_OPS) if turned is not None and not is_view(turned) else None
        if turned is None or first is None or not is_view(first):
            return
        groups = split_axes(dims_of(op.operands[0]), dims_of(op.results[0]))
        if groups is None:
            return
        perm, source = permutation(turned), first.operands[0]
        by_axis = dict(zip(perm, groups, strict=True))
        starts = {axis: sum(len(by_axis[a]) for a in range(axis)) for axis in perm}
        order = [starts[axis] + i for axis in perm for i in range(len(by_axis[axis]))]
        apart = tensor_type(element_of(source), [d for axis in range(len(perm)) for d in by_axis[axis]])
        value = source
        if apart != source.type:
            view = viewed(source, apart, self.facts, rewriter, computed=not self.for_file)
            if view is None:
                return
            value = rewriter.insert(view).results[0]
        rewriter.replace(op, onnx.TransposeOp.make([value], {"perm": order}, [op.results[0].type]))


def split_axes(before: Sequence[Dim], after: Sequence[Dim]) -> list[list[Dim]] | None:
    """The sizes that each axis is split into; None where axes are joined.  One of size 1 may be split into none."""
    groups: list[list[Dim]] = []
    at, one = 0, as_dim(1)
    for size in before:
        group: list[Dim] = []
        total = one
        while total is not size or (size is one and not group and at < len(after) and after[at] is one):
            if at == len(after):
                return None
            group.append(after[at])
            total, at = total * after[at], at + 1
        groups.append(group)
    return groups if at == len(after) else None


class JoinTransposes(Rule):
    """Add(Transpose(x, p), Transpose(y, p))  ->  Transpose(Add(x, y), p), and so for other pointwise operators

    Declines when something else reads a transposed operand.
    """

    root = BROADCASTING

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if len(op.operands) < 2:
            return
        inner = [only_producer(o, onnx.TransposeOp) for o in op.operands]
        made = [t for t in inner if t is not None]
        if len(made) < len(inner) or len({tuple(permutation(t)) for t in made}) != 1:
            return
        perm = permutation(made[0])
        result = dims_of(op.results[0])
        shape: list[Dim] = [as_dim(0)] * len(perm)
        for axis, source in enumerate(perm):
            shape[source] = result[axis]
        type_ = tensor_type(element_of(op.results[0]), shape)
        operands = [t.operands[0] for t in made]
        pointwise = rewriter.insert(type(op).make(operands, attributes_of(cast(onnx.OnnxOp, op)), [type_]))  # pyright: ignore
        rewriter.replace(op, onnx.TransposeOp.make([pointwise.results[0]], {"perm": perm}, [op.results[0].type]))
        for t in made:
            rewriter.erase(t)


class GatherBeforeTranspose(Rule):
    """Gather(Transpose(x, p), i, axis)  ->  Gather(x, i, p[axis]), where i is one index and the rest keeps its order

    A step of a sequence is read where it is, and nothing is transposed for it: with a batch that is not known to be one
    as with one of one.  Declines where something other than such a Gather reads what is transposed, and where the axis
    is x's last, whose elements the transpose alone has far apart.
    """

    root = onnx.GatherOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        turned = producer(op.operands[0], onnx.TransposeOp)
        if turned is None:
            return
        perm, result = permutation(turned), turned.results[0]
        axis = onnx.attr(op, "axis") % len(perm)
        if any(not takes_one(use.operation, result, axis) for use in result.uses):
            return
        rest = perm[:axis] + perm[axis + 1 :]
        if rest != sorted(rest) or perm[axis] == len(perm) - 1:
            return
        operands = [turned.operands[0], op.operands[1]]
        rewriter.replace(op, onnx.GatherOp.make(operands, {"axis": perm[axis]}, [op.results[0].type]))


def takes_one(op: Operation, value: SSAValue, axis: int) -> bool:
    """Whether an op is a Gather of one index along this axis of the value."""
    if not isinstance(op, onnx.GatherOp) or op.operands[0] is not value or not is_ranked(op):
        return False
    return not dims_of(op.operands[1]) and onnx.attr(op, "axis") % len(dims_of(value)) == axis


# --- slices -----------------------------------------------------------------------------------------------------------


class Cut(NamedTuple):
    """What a Slice takes of one axis: `length` elements from `start` on, each `step` after the one before.

    `first` and `last` are the bounds as the op has them.
    """

    first: Dim
    last: Dim
    step: int
    start: Dim
    length: Dim


def cuts_of(op: onnx.SliceOp) -> dict[int, Cut] | None:
    """The cuts by axis; None where a bound, an axis or a step is not known or the step is negative."""
    shape, result = dims_of(op.operands[0]), dims_of(op.results[0])
    starts, ends = known_dims(op.operands[1]), known_dims(op.operands[2])
    axes = given(op.operand_at(3), range(len(starts or ())))
    steps = given(op.operand_at(4), [1] * len(starts or ()))
    if starts is None or ends is None or axes is None or steps is None:
        return None
    found: dict[int, Cut] = {}
    for first, last, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = axis % max(len(shape), 1)
        if step < 1 or at in found:
            return None
        size, length = shape[at], result[at]
        begin = dim_max(size + first, 0) if first.is_const and first.value < 0 else first
        if last.is_const and last.value >= MANY and step == 1:
            begin = size - length  # whatever the bounds were clamped to
        found[at] = Cut(first, last, step, begin, length)
    return found


def given(value: SSAValue | None, otherwise: Sequence[int]) -> list[int] | None:
    """The integers of an optional operand."""
    if value is None:
        return list(otherwise)
    known = known_dims(value)
    return [k.value for k in known] if known is not None and all(k.is_const for k in known) else None


class MergeSlices(Rule):
    """Slice(Slice(x))  ->  Slice(x)

    Along different axes always.  Along one axis with numbers of which none counts from the end, and steps of 1.
    Declines when something reads the inner slice that does not merge with it.
    """

    root = onnx.SliceOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        inner = producer(op.operands[0], onnx.SliceOp)
        if inner is None:
            return
        first, merged = cuts_of(inner), merged_cuts(inner, op)
        if first is None or merged is None:
            return
        readers = [use.operation for use in inner.results[0].uses if use.operation is not op]
        if any(merged_cuts(inner, reader) is None for reader in readers):
            return
        rewriter.replace(op, sliced(inner.operands[0], merged, op.results[0], rewriter))


def merged_cuts(inner: onnx.SliceOp, outer: Operation) -> dict[int, Cut] | None:
    """The cuts of a Slice of a Slice; None where they are not those of one Slice."""
    if not isinstance(outer, onnx.SliceOp) or outer.operands[0] is not inner.results[0]:
        return None
    first, second = cuts_of(inner), cuts_of(outer)
    if first is None or second is None:
        return None
    merged = dict(first)
    for axis, cut in second.items():
        both = merged_cut(merged[axis], cut) if axis in merged else cut
        if both is None:
            return None
        merged[axis] = both
    return merged


def merged_cut(inner: Cut, outer: Cut) -> Cut | None:
    """The cut of a cut; None where numbers alone do not tell."""
    bounds = (inner.first, inner.last, outer.first, outer.last)
    # An inner start beyond the size leaves nothing, and so does the merged one, which lies no nearer.
    if inner.step != 1 or outer.step != 1 or not all(b.is_const for b in bounds):
        return None
    a, b, c, d = (bound.value for bound in bounds)
    if a >= 0 and c >= 0 and b >= 0 and d >= 0:
        return Cut(as_dim(a + c), as_dim(min(b, a + d if d < END - a else END)), 1, outer.start, outer.length)
    if a >= 0 and c >= 0 and ((b >= MANY and d < 0) or (b < 0 and d >= MANY)):
        return Cut(as_dim(a + c), as_dim(min(b, d)), 1, outer.start, outer.length)
    return None


def sliced(source: SSAValue, cuts: dict[int, Cut], like: SSAValue, rewriter: PatternRewriter) -> onnx.SliceOp:
    """The Slice with these cuts."""
    axes = sorted(cuts)
    first = entries([cuts[a].first for a in axes], rewriter)
    last = entries([cuts[a].last for a in axes], rewriter)
    steps = [cuts[a].step for a in axes]
    step = axes_constant(steps, rewriter) if any(s != 1 for s in steps) else None
    return onnx.SliceOp.make([source, first, last, axes_constant(axes, rewriter), step], {}, [like.type])


def entries(values: Sequence[Dim], rewriter: PatternRewriter) -> SSAValue:
    """A vector of int64, a constant where all its elements are numbers."""
    if all(v.is_const for v in values):
        return axes_constant([v.value for v in values], rewriter)
    type_ = dims.tensor_type(onnx.ELEMENT_TYPES[7], [len(values)])
    return rewriter.insert(dims.TensorOp(list(values), type_)).results[0]


# --- parts put together again -----------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A stretch of a tensor along an axis."""

    source: SSAValue
    start: Dim
    length: Dim


@dataclass(frozen=True)
class RejoinParts(Rule):
    """Concat(x[:n], x[n:])  ->  x, also where the parts are of a Split; Concat(x[a:b], x[b:c])  ->  x[a:c]

    The prover is asked whether each part begins where the one before it ends.  What is not the whole of x is joined
    only where nothing else reads the parts: it would be one slice more.
    """

    facts: Facts

    root = onnx.ConcatOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        axis = onnx.attr(op, "axis") % len(dims_of(op.results[0]))
        parts = [part_of(o, axis) for o in op.operands]
        kept: list[SSAValue] = []
        at = 0
        while at < len(parts):
            end = at + 1
            first = parts[at]
            while first is not None and end < len(parts) and self.follows(parts[end - 1], parts[end]):
                end += 1
            joined = None
            if first is not None and end > at + 1:
                lengths = [p.length for p in parts[at:end] if p is not None]
                alone = all(only_producer(o, onnx.SliceOp) is not None for o in op.operands[at:end])
                joined = self.joined(first, lengths, axis, alone, rewriter)
            kept.extend([joined] if joined is not None else op.operands[at:end])
            at = end
        if len(kept) == len(op.operands):
            return
        if len(kept) == 1 and kept[0].type == op.results[0].type:
            rewriter.replace(op, [kept[0]])
        else:
            rewriter.replace(op, onnx.ConcatOp.make(kept, {"axis": axis}, [op.results[0].type]))

    def follows(self, one: Part | None, other: Part | None) -> bool:
        if one is None or other is None or one.source is not other.source:
            return False
        return self.facts.prove_eq(one.start + one.length, other.start).answer is True

    def joined(
        self, first: Part, lengths: Sequence[Dim], axis: int, alone: bool, rewriter: PatternRewriter
    ) -> SSAValue | None:
        """The whole tensor, or, where nothing else reads the parts (`alone`), a slice of it by numbers."""
        total = as_dim(0)
        for length in lengths:
            total = total + length
        shape = list(dims_of(first.source))
        whole = self.facts.prove_eq(total, shape[axis]).answer is True
        if whole and self.facts.prove_eq(first.start, 0).answer is True:
            return first.source
        if not alone or not first.start.is_const or not (whole or total.is_const):
            return None
        end = as_dim(END) if whole else first.start + total
        shape[axis] = total
        made = onnx.SliceOp.make(
            [first.source, *(axes_constant([v.value], rewriter) for v in (first.start, end, as_dim(axis)))],
            {},
            [tensor_type(element_of(first.source), shape)],
        )
        return rewriter.insert(made).results[0]


def part_of(value: SSAValue, axis: int) -> Part | None:
    """Which stretch of which tensor a Slice or a Split gives along an axis; None where it is none."""
    cut = producer(value, onnx.SliceOp)
    if cut is not None:
        cuts = cuts_of(cut)
        if cuts is None or set(cuts) != {axis} or cuts[axis].step != 1:
            return None
        start = cuts[axis].start
        return Part(cut.operands[0], start, cuts[axis].length)
    split = producer(value, onnx.SplitOp)
    if split is None or onnx.attr(split, "axis") % len(dims_of(value)) != axis:
        return None
    start = as_dim(0)
    for result in split.results:
        length = dims_of(result)[axis]
        if result is value:
            return Part(split.operands[0], start, length)
        start = start + length
    return None


class FlattenConcats(Rule):
    """Concat(Concat(x, y), z)  ->  Concat(x, y, z), along one axis

    Declines when something else reads the inner one.
    """

    root = onnx.ConcatOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        axis = onnx.attr(op, "axis") % len(dims_of(op.results[0]))
        operands: list[SSAValue] = []
        for operand in op.operands:
            inner = only_producer(operand, onnx.ConcatOp)
            same = inner is not None and onnx.attr(inner, "axis") % len(dims_of(operand)) == axis
            operands.extend(inner.operands if inner is not None and same else [operand])
        if len(operands) > len(op.operands):
            rewriter.replace(op, onnx.ConcatOp.make(operands, {"axis": axis}, [op.results[0].type]))


class JoinSlices(Rule):
    """x[:n], x[n:m], x[m:]  ->  Split(x, [n, m - n, ...])

    Declines where the sizes of the parts are no numbers, where a part is missing or two overlap, and where a part is
    only sliced again: that is one slice.
    """

    root = onnx.SliceOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        cuts = cuts_of(cast(onnx.SliceOp, op))
        if cuts is None or len(cuts) != 1:
            return
        (axis, cut), source = next(iter(cuts.items())), op.operands[0]
        size = dims_of(source)[axis]
        if not size.is_const or cut.start is not as_dim(0):
            return  # of the parts of one tensor, the one at its start is looked at
        parts = parts_of(source, axis, op)
        starts = sorted(parts)
        ends = [start + parts[start][1] for start in starts]
        if len(starts) < 2 or [*starts, size.value] != [0, *ends]:
            return
        slices = [parts[start][0] for start in starts]
        if any(is_sliced_again(part) for part in slices):
            return
        block = op.parent
        assert block is not None
        among = set(slices)
        first = next(part for part in block.ops if part in among)
        types = [part.results[0].type for part in slices]
        sizes = axes_constant([parts[start][1] for start in starts], rewriter, before=first)
        split = rewriter.insert(onnx.SplitOp.make([source, sizes], {"axis": axis}, types), before=first)
        for part, result in zip(slices, split.results, strict=True):
            rewriter.replace(part, [result])


def is_sliced_again(part: Operation) -> bool:
    """Whether all that read a Slice are slices that merge with it."""
    readers = [use.operation for use in part.results[0].uses]
    return isinstance(part, onnx.SliceOp) and all(merged_cuts(part, reader) is not None for reader in readers)


def parts_of(source: SSAValue, axis: int, like: Operation) -> dict[int, tuple[Operation, int]]:
    """The slices of a tensor along an axis in the block of `like`, with their lengths, by where they start.

    None of them where two start at one place.
    """
    found: dict[int, tuple[Operation, int]] = {}
    for use in source.uses:
        reader = use.operation
        part = part_of(reader.results[0], axis) if isinstance(reader, onnx.SliceOp) else None
        if part is None or part.source is not source or reader.parent is not like.parent:
            continue
        if part.start.is_const and part.length.is_const and part.length.value:
            if part.start.value in found:
                return {}
            found[part.start.value] = (reader, part.length.value)
    return found
