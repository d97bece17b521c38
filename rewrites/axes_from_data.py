"""Operators whose axes are data, written with operators whose axes are attributes or constants.

The rank is known, so a flag for each axis says whether it is meant, and sizes follow from the flags:

Slice(x, s, e, axes, steps)  ->  Gather(x, s' + step * Range(n)) along each axis
Slice(x, s, e)               ->  Slice(x, s, e within the longest axis)
Pad(x, p, v, axes)           ->  Pad(x, p for all axes, v)
Unsqueeze, Squeeze(x, axes)  ->  Reshape(x, sizes)
Reduce*(x, axes)             ->  Reduce*(Reshape(x, [kept 0, reduced 0, kept 1, ...]), [1, 3, ...])
Reduce*(scalar, axes)        ->  Reduce*(scalar, [])
Tile(x, repeats)             ->  Tile(x, Reshape(repeats, [rank])), and others that have a number for each axis

In Reduce, one of each pair is 1, so that the elements stay where they are.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType, UnitAttr, i1, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ..dialects import dims, onnx
from ..dialects.dims import as_dim, dims_of
from ..dialects.dims.expression import ZERO
from ..dialects.dims.interval import SIZE_LIMIT, is_signed
from ..dialects.onnx.types import ELEMENT_CODES, UNKNOWN
from ..semantics.known import known_dims
from ..semantics.shapes.values import OPAQUE
from .driver import Firing, Pattern, PatternRewriter, apply_patterns, origins_of, set_origins
from .found_sizes import bound_by_execution

BOOL, INT64 = ELEMENT_CODES[i1], ELEMENT_CODES[i64]


def rewrite_axes_from_data(module: ModuleOp) -> list[Firing]:
    """Rewrites them; what is made has no types yet, so inference is to run again where anything fired."""
    slices = (SpreadSlice(), ClampSlice())
    others = (SpreadPad(), SpreadUnsqueeze(), SpreadSqueeze(), SpreadReduce(), CountSizes())
    return apply_patterns(module, [*slices, *others])


@dataclass
class Branch:
    """A branch of an If in the making."""

    block: Block
    result: SSAValue | None = None


class Build:
    """Small computations on integers in front of the rewritten op."""

    def __init__(self, rewriter: PatternRewriter) -> None:
        self.rewriter = rewriter
        self.inside: Branch | None = None
        """Where ops go instead of in front of the rewritten one."""

    def insert(self, op: Operation) -> SSAValue:
        """Puts an op where ops go; its one result."""
        if self.inside is None:
            return self.rewriter.insert(op).results[0]
        self.inside.block.add_op(op)
        return op.results[0]

    def op(self, cls: type[onnx.OnnxOp], *operands: SSAValue | None, attributes: Mapping[str, object] = {}) -> SSAValue:
        """The one result of a new op."""
        return self.insert(cls.make(list(operands), attributes, [UNKNOWN], like=self.rewriter.root))

    @contextmanager
    def branch(self) -> Generator[Branch]:
        """Ops go into a branch, which is given its result inside."""
        self.inside = made = Branch(Block())
        yield made
        assert made.result is not None
        made.block.add_op(onnx.YieldOp.make([made.result]))
        self.inside = None

    def choose(self, condition: SSAValue, then: Branch, otherwise: Branch) -> SSAValue:
        """The result of one of two branches."""
        regions = [Region(otherwise.block), Region(then.block)]
        made = onnx.IfOp.create(operands=[condition], result_types=[UNKNOWN], regions=regions)
        made.attributes["onnx.names"] = ArrayAttr([StringAttr("")])
        set_origins(made, set(origins_of(self.rewriter.root)))
        return self.insert(made)

    def ints(self, values: object) -> SSAValue:
        """A constant of int64 of any shape."""
        tensor = onnx.tensor_attr(np.array(values, np.int64))
        return self.insert(onnx.ConstantOp.make([], {"value": tensor}, [tensor.type]))

    def float32(self, value: float) -> SSAValue:
        """A scalar constant."""
        tensor = onnx.tensor_attr(np.array(value, np.float32))
        return self.insert(onnx.ConstantOp.make([], {"value": tensor}, [tensor.type]))

    def opaque(self, value: SSAValue) -> SSAValue:
        """The value itself, of which inference keeps no expressions: they would be long and prove nothing."""
        assert isinstance(value.owner, Operation)
        value.owner.attributes[OPAQUE] = UnitAttr()
        return value

    def as_int64(self, value: SSAValue) -> SSAValue:
        return self.op(onnx.CastOp, value, attributes={"to": INT64})

    def shape(self, value: SSAValue) -> SSAValue:
        return self.op(onnx.ShapeOp, value)

    def at(self, vector: SSAValue, index: int) -> SSAValue:
        """An element, as a scalar."""
        return self.op(onnx.GatherOp, vector, self.ints(index))

    def where(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.op(onnx.WhereOp, condition, a, b)

    def less(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.op(onnx.LessOp, a, b)

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.op(onnx.AddOp, a, b)

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.op(onnx.SubOp, a, b)

    def sum(self, x: SSAValue, axis: int) -> SSAValue:
        return self.op(onnx.ReduceSumOp, x, self.ints([axis]), attributes={"keepdims": 0})

    def because(self, reason: str, value: SSAValue) -> SSAValue:
        """The value; where sizes do not fit what makes it, that is what is said."""
        assert isinstance(value.owner, Operation)
        value.owner.attributes[onnx.REASON] = StringAttr(f"{self.rewriter.root.name.removeprefix('onnx.')}: {reason}")
        return value

    def reshape(self, x: SSAValue, sizes: SSAValue) -> SSAValue:
        """To sizes that are meant as they are, 0 included."""
        return self.op(onnx.ReshapeOp, x, sizes, attributes={"allowzero": 1})

    def entry(self, table: SSAValue, index: SSAValue, problem: str) -> SSAValue:
        """The entries of a table; an index that it does not have is an error with this text."""
        found = self.op(onnx.GatherOp, table, index)
        assert isinstance(found.owner, Operation)
        found.owner.attributes[onnx.PROBLEM] = StringAttr(f"{self.rewriter.root.name.removeprefix('onnx.')}: {problem}")
        return found

    def numbered(self, axes: SSAValue, rank: int) -> SSAValue:
        """Axes counted from the front, as a vector of int64; one that is out of range is an error."""
        flat = self.op(onnx.ReshapeOp, self.as_int64(axes), self.ints([-1]))
        problem = f"{named(axes, 'axes')} has the axis {{0}}; the rank is {rank}, so -{rank} <= axis < {rank}"
        return self.entry(self.ints(range(rank)), flat, problem)


class Chosen:
    """Which axes of `rank` are meant by a vector of numbers."""

    def __init__(self, b: Build, axes: SSAValue, rank: int, name: str | None = None) -> None:
        self.b, self.rank = b, rank
        self.name = name or named(axes, "axes")
        self.axes = b.numbered(axes, rank)
        self.matches = b.op(onnx.EqualOp, b.ints([[k] for k in range(rank)]), self.axes)
        """[rank, len(axes)]: whether an axis is that of an entry"""
        ones = b.as_int64(self.matches)
        self.counts = b.opaque(b.sum(ones, 1))
        """[rank]: how often an axis is meant"""

    @property
    def flags(self) -> SSAValue:
        return self.b.op(onnx.CastOp, self.counts, attributes={"to": BOOL})

    def once(self) -> Chosen:
        """Itself, where an axis that is meant twice is an error."""
        b = self.b
        self.counts = b.opaque(b.entry(b.ints([0, 1]), self.counts, f"{self.name} has an axis twice"))
        return self

    def spread(self, entries: SSAValue, default: SSAValue) -> SSAValue:
        """[rank]: each axis' entry, or the default where it has none."""
        b = self.b
        own = b.sum(b.where(self.matches, entries, b.ints(0)), 1)
        return b.opaque(b.where(self.flags, own, default))


def named(value: SSAValue, formal: str) -> str:
    """A value's name for people, or that of the value that its elements are bound from, or the operand's."""
    return f"'{own_name(value) or formal}'"


def own_name(value: SSAValue) -> str | None:
    """A value's name, or that of the value that its elements are bound from."""
    name = onnx.value_name(value)
    if name is None and isinstance(made := value.owner, dims.TensorOp) and made.parent is not None:
        symbols = {s for d in made.exprs.data for s in d.symbols}
        sources = [o.source for o in made.parent.ops if isinstance(o, dims.BindOp) and symbols & bound_by(o)]
        name = onnx.value_name(sources[0]) if sources else None
    return name


def bound_by(op: dims.BindOp) -> set[str]:
    return {s.data for s in op.symbols}


def rank_of(value: SSAValue | None) -> int | None:
    """The rank, where it is known."""
    return value.type.get_num_dims() if value is not None and isinstance(value.type, TensorType) else None


def are_numbers(value: SSAValue | None) -> bool:
    """Whether an operand is absent, empty, or all its elements are known numbers."""
    if value is None or (isinstance(value.type, TensorType) and ZERO in dims_of(value)):
        return True
    known = known_dims(value)
    return known is not None and all(d.is_const for d in known)


class SpreadSlice(Pattern):
    """Slice(x, s, e, axes, steps)  ->  Gather(x, s' + step * Range(n)) along each axis, where axes or steps are data"""

    root = onnx.SliceOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, onnx.SliceOp)
        x, starts, ends, axes, steps = (op.operand_at(i) for i in range(5))
        rank = rank_of(x)
        if not bound_by_execution(op) or rank is None:
            return
        assert x is not None and starts is not None and ends is not None
        b = Build(rewriter)
        starts, ends = b.as_int64(starts), b.as_int64(ends)
        numbers = known_dims(axes) if axes is not None and are_numbers(axes) else None
        if axes is None:
            listed: list[int] | None = list(range(rank))
        else:
            listed = None if numbers is None else [n.value % rank for n in numbers]
        entry_axes = b.ints(listed) if listed is not None else b.numbered(axes, rank) if axes is not None else None
        assert entry_axes is not None
        if axes is None:  # as many as there are entries
            entry_axes = b.op(onnx.SliceOp, entry_axes, b.ints([0]), b.shape(starts))
            listed = None
        first, step, count = self.entries(b, b.op(onnx.GatherOp, b.shape(x), entry_axes), starts, ends, steps)
        if listed is None:
            chosen = Chosen(b, entry_axes, rank, None if axes is None else named(axes, "axes")).once()
            first, step = chosen.spread(first, b.ints(0)), chosen.spread(step, b.ints(1))
            count = chosen.spread(count, b.shape(x))
            listed = list(range(rank))
        y = x
        for at, axis in enumerate(listed):
            places = b.op(onnx.RangeOp, b.ints(0), b.at(count, at), b.ints(1))
            places = b.add(b.op(onnx.MulOp, places, b.at(step, at)), b.at(first, at))
            y = b.op(onnx.GatherOp, y, places, attributes={"axis": axis})
        rewriter.replace(op, [y])

    def entries(
        self, b: Build, sizes: SSAValue, starts: SSAValue, ends: SSAValue, steps: SSAValue | None
    ) -> tuple[SSAValue, SSAValue, SSAValue]:
        """For each entry: where it begins, its step, and how many elements it takes of its axis."""
        zero, one = b.ints(0), b.ints(1)
        step = b.op(onnx.ExpandOp, one, b.shape(starts)) if steps is None else self.nonzero(b, steps)
        forward = b.less(zero, step)
        last = b.sub(sizes, one)
        reason = f"{named(b.rewriter.root.operands[1], 'starts')} has at most one element for each axis"
        least, most = b.where(forward, zero, b.ints(-1)), b.because(reason, b.where(forward, sizes, last))

        def clamped(position: SSAValue, least: SSAValue) -> SSAValue:
            counted = b.where(b.less(position, zero), b.add(position, sizes), position)
            return b.op(onnx.MinOp, b.op(onnx.MaxOp, counted, least), most)  # in this order: of nothing, most is -1

        first, end = clamped(starts, zero), clamped(ends, least)
        distance = b.where(forward, b.sub(end, first), b.sub(first, end))
        whole = b.op(onnx.DivOp, b.sub(distance, one), b.op(onnx.AbsOp, step))
        return b.opaque(first), b.opaque(step), b.opaque(b.where(b.less(zero, distance), b.add(whole, one), zero))

    def nonzero(self, b: Build, steps: SSAValue) -> SSAValue:
        """The steps; one of 0 is an error: it is an index outside of a table of one element."""
        problem = f"{named(steps, 'steps')} has a step of 0, and a step must not be 0"
        steps = b.as_int64(steps)
        is_zero = b.as_int64(b.op(onnx.EqualOp, steps, b.ints(0)))
        return b.op(onnx.MulOp, steps, b.entry(b.ints([1]), is_zero, problem))


class ClampSlice(Pattern):
    """Slice(x, s, e)  ->  Slice(x, Min(Max(s, -2^31), 2^31), likewise e), of starts and ends that are data

    No axis is longer, so the elements taken are the same, and no sum with a size can leave int64.
    """

    root = onnx.SliceOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, onnx.SliceOp)
        if bound_by_execution(op):
            return
        operands = op.formal_operands()
        wide = [k for k in (1, 2) if (given := operands[k]) is not None and may_be_anything(given)]
        if not wide:
            return
        b = Build(rewriter)
        for k in wide:
            given = operands[k]
            assert given is not None
            least = b.op(onnx.MaxOp, given, b.ints(-SIZE_LIMIT))
            operands[k] = b.opaque(b.op(onnx.MinOp, least, b.ints(SIZE_LIMIT)))
        rewriter.replace(op, [b.op(onnx.SliceOp, *operands)])


def may_be_anything(value: SSAValue) -> bool:
    """Whether an element of a vector of int64 rests on data that nothing bounds."""
    if isinstance(value.owner, Operation) and OPAQUE in value.owner.attributes:
        return False
    elements = known_dims(value) or ()
    return element_type(value) == i64 and any(is_signed(name) for d in elements for name in d.symbols)


def element_type(value: SSAValue) -> Attribute | None:
    return value.type.element_type if isinstance(value.type, TensorType) else None


class SpreadPad(Pattern):
    """Pad(x, p, v, axes)  ->  Pad(x, p for all axes, v), where the axes are data"""

    root = onnx.PadOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, onnx.PadOp)
        x, pads, value, axes = (op.operand_at(i) for i in range(4))
        rank = rank_of(x)
        if not bound_by_execution(op) or rank is None:
            return
        assert x is not None and pads is not None
        b = Build(rewriter)
        if axes is None:  # two for each axis: how many they are says it
            spread = b.op(onnx.ReshapeOp, b.as_int64(pads), b.ints([2 * rank]))
        else:
            chosen = Chosen(b, axes, rank).once()
            reason = f"{named(pads, 'pads')} has two elements for each of {named(axes, 'axes')}"
            entries = b.because(reason, b.op(onnx.ReshapeOp, b.as_int64(pads), b.ints([2, 1, -1])))
            own = b.sum(b.because(reason, b.where(chosen.matches, entries, b.ints(0))), 2)
            spread = b.op(onnx.MulOp, own, chosen.counts)
            spread = b.opaque(b.op(onnx.ReshapeOp, spread, b.ints([2 * rank])))
        mode = {"mode": onnx.attr(op, "mode")}
        rewriter.replace(op, [b.op(onnx.PadOp, x, spread, value, attributes=mode)])


class SpreadUnsqueeze(Pattern):
    """Unsqueeze(x, axes)  ->  Reshape(x, sizes), where several axes are data"""

    root = onnx.UnsqueezeOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        x, axes, rank = op.operands[0], op.operands[1], rank_of(op.results[0])
        if not bound_by_execution(op) or rank is None:
            return
        b = Build(rewriter)
        new = Chosen(b, axes, rank).once()
        one = b.ints(1)
        before = b.sum(b.op(onnx.MulOp, b.ints(np.tri(rank, k=-1)), b.sub(one, new.counts)), 1)
        own = b.op(onnx.ConcatOp, b.shape(x), b.ints([1]), attributes={"axis": 0})
        source = b.op(onnx.MinOp, before, b.ints(rank_of(x) or 0))
        sizes = b.opaque(b.where(new.flags, one, b.op(onnx.GatherOp, own, source)))
        rewriter.replace(op, [b.reshape(x, sizes)])


class SpreadSqueeze(Pattern):
    """Squeeze(x, axes)  ->  Reshape(x, sizes), where several axes are data"""

    root = onnx.SqueezeOp

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, onnx.OnnxOp)
        rank, axes = rank_of(op.operands[0]), op.operand_at(1)
        b = Build(rewriter)
        if rank and rank > 1 and axes is not None and are_as_many(axes, rank):
            one = only_if_all(b, b.reshape(op.operands[0], b.ints([1])), axes, rank)
            rewriter.replace(op, [b.reshape(one, b.ints([]))])
            return
        if not bound_by_execution(op) or rank is None:
            return
        gone = Chosen(b, op.operands[1], rank).once()
        sizes = kept_sizes(b, b.shape(op.operands[0]), gone, rank, rank_of(op.results[0]) or 0)
        rewriter.replace(op, [b.reshape(op.operands[0], sizes)])


def kept_sizes(b: Build, sizes: SSAValue, gone: Chosen, rank: int, left: int) -> SSAValue:
    """[left]: the sizes of those of `rank` axes that stay, in order."""
    one, zero = b.ints(1), b.ints(0)
    stays = b.sub(one, gone.counts)
    place = b.opaque(b.sum(b.op(onnx.MulOp, b.ints(np.tri(rank, k=-1)), stays), 1))
    place = b.opaque(b.where(gone.flags, b.ints(-1), place))
    here = b.op(onnx.EqualOp, b.ints(np.arange(left).reshape(left, 1)), place)
    return b.opaque(b.sum(b.opaque(b.where(here, sizes, zero)), 1))


def are_as_many(axes: SSAValue, rank: int) -> bool:
    """Whether axes are data, and as many as there are."""
    return not are_numbers(axes) and dims_of(axes) == (as_dim(rank),)


def only_if_all(b: Build, one: SSAValue, axes: SSAValue, rank: int) -> SSAValue:
    """A vector of one element, where as many axes as there are are all; one that is meant twice is an error."""
    least = b.op(onnx.ReduceMinOp, Chosen(b, axes, rank).counts, attributes={"keepdims": 1})
    return b.entry(one, b.sub(b.ints(1), least), f"{named(axes, 'axes')} has an axis twice")


class SpreadReduce(Pattern):
    """Reduce(x, axes)  ->  Reduce(Reshape(x, [kept 0, reduced 0, ...]), [1, 3, ...]), where the axes are data"""

    root = (
        onnx.ReduceL1Op, onnx.ReduceL2Op, onnx.ReduceLogSumOp, onnx.ReduceLogSumExpOp, onnx.ReduceMaxOp,
        onnx.ReduceMeanOp, onnx.ReduceMinOp, onnx.ReduceProdOp, onnx.ReduceSumOp, onnx.ReduceSumSquareOp,
    )  # fmt: skip

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, onnx.OnnxOp)
        x, axes = op.operand_at(0), op.operand_at(1)
        rank, left = rank_of(x), rank_of(op.results[0])
        if rank and x is not None and axes is not None and are_as_many(axes, rank):
            rewriter.replace(op, [self.over_all(Build(rewriter), op, x, axes, rank)])
            return
        if rank == 0 and x is not None and not are_numbers(axes):  # which are none, as inference states
            b = Build(rewriter)
            rewriter.replace(op, [b.op(type(op), x, b.ints([]), attributes=op.properties)])
            return
        if not bound_by_execution(op) or rank is None or left is None:
            return
        assert x is not None and axes is not None
        b = Build(rewriter)
        one, sizes = b.ints(1), b.shape(x)
        gone = Chosen(b, axes, rank)
        if not onnx.attr(op, "keepdims"):  # their number tells the result's rank
            gone.once()
        if not onnx.attr(op, "noop_with_empty_axes"):  # none are all
            is_empty = b.as_int64(b.op(onnx.EqualOp, b.op(onnx.SizeOp, axes), b.ints(0)))
            gone.counts = b.op(onnx.MaxOp, gone.counts, is_empty)
        kept, reduced = (b.opaque(b.where(gone.flags, *v)) for v in ((one, sizes), (sizes, one)))
        columns = [b.op(onnx.UnsqueezeOp, v, b.ints([1])) for v in (kept, reduced)]
        pairs = b.op(onnx.ReshapeOp, b.op(onnx.ConcatOp, *columns, attributes={"axis": 1}), b.ints([2 * rank]))
        y = self.by_last_axis(b, op, x, pairs, gone)
        if not onnx.attr(op, "keepdims"):
            y = b.reshape(y, kept_sizes(b, sizes, gone, rank, left))
        rewriter.replace(op, [y])

    def by_last_axis(self, b: Build, op: onnx.OnnxOp, x: SSAValue, pairs: SSAValue, gone: Chosen) -> SSAValue:
        """The reduction of every other one of the paired axes; of those before the last one where that is kept.

        Over the last axis elements lie along vectors, which would all be empty but for one.
        """
        last, axes = gone.rank - 1, range(1, 2 * gone.rank, 2)
        apart = b.reshape(x, b.opaque(pairs))
        if not last:
            return b.op(type(op), apart, b.ints(axes), attributes={"keepdims": 0})
        before = b.op(onnx.GatherOp, pairs, b.ints(range(2 * last)))
        whole = b.op(onnx.GatherOp, b.shape(x), b.ints([last]))
        rows = b.reshape(x, b.opaque(b.op(onnx.ConcatOp, before, whole, attributes={"axis": 0})))
        with b.branch() as reduced:
            reduced.result = b.op(type(op), apart, b.ints(axes), attributes={"keepdims": 0})
        with b.branch() as kept:
            kept.result = b.op(type(op), rows, b.ints(axes[:-1]), attributes={"keepdims": 0})
        return b.choose(b.at(gone.flags, last), reduced, kept)

    def over_all(self, b: Build, op: onnx.OnnxOp, x: SSAValue, axes: SSAValue, rank: int) -> SSAValue:
        """The reduction over all axes."""
        y = b.reshape(b.op(type(op), x, attributes={"keepdims": 0}), b.ints([1]))
        return b.reshape(only_if_all(b, y, axes, rank), b.ints([1] * rank if onnx.attr(op, "keepdims") else []))


class CountSizes(Pattern):
    """Tile(x, repeats)  ->  Tile(x, Reshape(repeats, [rank])), and so on, where it is data how many numbers there are

    There is one for each axis of x, of CenterCropPad's axes, or each result of Split; or it is an error.
    """

    root = (onnx.CenterCropPadOp, onnx.MaxUnpoolOp, onnx.SplitOp, onnx.TileOp, onnx.TopKOp)

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, onnx.OnnxOp)
        place = 2 if isinstance(op, onnx.MaxUnpoolOp) else 1
        numbers, count = op.operand_at(place), self.count(op)
        if not bound_by_execution(op) or numbers is None or count is None or dims_of(numbers)[0].is_const:
            return
        b, operands = Build(rewriter), op.formal_operands()
        formal = op.SCHEMA.inputs[place].name
        reason = f"{named(numbers, formal)} has {count} element{'s' * (count != 1)}{self.each(op)}"
        operands[place] = b.because(reason, b.op(onnx.ReshapeOp, numbers, b.ints([count])))
        types = [None if r is None else UNKNOWN for r in op.formal_results()]
        made = rewriter.insert(type(op).make(operands, op.properties, types))
        rewriter.replace(op, list(made.results))

    def each(self, op: onnx.OnnxOp) -> str:
        """What there is one number for."""
        if isinstance(op, onnx.TopKOp):
            return ""
        return ", one for each result" if isinstance(op, onnx.SplitOp) else ", one for each axis"

    def count(self, op: onnx.OnnxOp) -> int | None:
        """How many numbers there must be."""
        if isinstance(op, onnx.SplitOp):
            return len(op.results)
        if isinstance(op, onnx.TopKOp):
            return 1
        axes = onnx.attr(op, "axes") if isinstance(op, onnx.CenterCropPadOp) else None
        return rank_of(op.operand_at(0)) if axes is None else len(axes)


__all__ = ["rewrite_axes_from_data"]
