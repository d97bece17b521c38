"""Shape rules of operators that move elements: reshape, slice, gather, pad, concat, split, scatter and their kin."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import UnrankedTensorType
from xdsl.ir import Attribute

from ...dialects import onnx
from ...dialects.dims.expression import ONE, ZERO, Dim, as_dim, common_factor, dim_max, dim_min, dim_sum
from ..chosen_axes import is_chosen, with_one, without_one
from ..conditions import at_most
from .context import Context, Rules, ShapeError, Types, attribute_ints, static_shape
from .elements import as_integers


def identity_dims(c: Context) -> Types:
    """The dims of the first operand: updates go into a copy of it."""
    return [c.type_of(0)]


# --- reshape ----------------------------------------------------------------------------------------------------------


def reshape(c: Context) -> Types:
    x = c.dims(0)
    shape = c.ints(1)
    if shape is None:
        return [_reshape_unknown(c)]
    return [c.like(0, reshaped(c, x, shape, bool(c.attr("allowzero"))))]


def _reshape_unknown(c: Context) -> Attribute:
    """The shape operand's length is known more often than its elements."""
    length = c.lengths(1)
    if length is None or len(length) != 1:
        return c.open_rank(0, 1)
    return c.like(0, [c.fresh(0, axis) for axis in range(length[0])])


def reshaped(c: Context, x: Sequence[Dim], shape: Sequence[Dim], allow_zero: bool) -> list[Dim]:
    """The dims that Reshape gives.

    An entry of 0 copies the operand's size, one of -1 is what is left.  A size that is 0 at run time where the
    operand's is not would be copied too: a guard excludes that, and calls with such a size have a program of their own.
    """
    entries = list(shape)
    if not allow_zero:
        entries = [d if d.is_const or c.scope.facts.known(d) is not ZERO else ZERO for d in entries]
    if all(d.is_const or not _is_data(c, d) for d in entries):
        return _reshape_sizes(c, x, entries, allow_zero)
    return _reshape_data(c, x, entries, allow_zero)


def _is_data(c: Context, d: Dim) -> bool:
    """Whether an entry may be negative: it rests on elements of a tensor and is not known to be a size."""
    return c.scope.facts.prove_le(1, d).answer is not True and c.scope.facts.prove_le(0, d).answer is not True


def _reshape_sizes(c: Context, x: Sequence[Dim], entries: list[Dim], allow_zero: bool) -> list[Dim]:
    out: list[Dim] = []
    inferred = -1
    copied: set[int] = set()
    for at, d in enumerate(entries):
        if d.is_const and d.value == -1:
            if inferred >= 0:
                raise ShapeError("more than one -1 in a shape")
            inferred = at
            out.append(ONE)
        elif d.is_const and d.value < 0:
            raise ShapeError(f"a size of {d} in a shape")
        elif d is ZERO and not allow_zero:
            if at >= len(x):
                raise ShapeError(f"0 at position {at} of a shape copies a size of an operand of rank {len(x)}")
            out.append(x[at])
            copied.add(at)
        else:
            if not allow_zero:
                _forbid_zero_copy(c, x, at, d)
            out.append(d)
    total, known = c.count(x), c.count(out)
    if inferred >= 0:
        if known is ZERO:  # what is copied is on both sides
            total, known = (c.count([d for at, d in enumerate(dims) if at not in copied]) for dims in (x, out))
        out[inferred] = quotient(c, total, known)
    elif known is not total:
        c.equal(total, known, "Reshape keeps the number of elements")
    return out


def _forbid_zero_copy(c: Context, x: Sequence[Dim], at: int, d: Dim) -> None:
    """Where a size of 0 would be read as "copy", and copy something else than 0."""
    if d.is_const:
        return
    least = ONE
    if at < len(x):
        size = x[at]
        if size is d or size.divide_exactly(d) is not None or c.scope.facts.prove_eq(size, d):
            return
        least = dim_min(size, 1)
    c.require(at_most(least, d), "0 in the shape of Reshape would copy a size", otherwise=str(d))


def quotient(c: Context, total: Dim, known: Dim) -> Dim:
    """total / known, exactly; states that it divides where that is not plain."""
    exact = total.divide_exactly(known)
    if exact is not None:
        return exact
    if known is ZERO:
        raise ShapeError("a size cannot be inferred beside one of 0")
    common = common_factor(total, known)
    total, known = total.divide_exactly(common) or total, known.divide_exactly(common) or known
    c.divides(known, total, "Reshape keeps the number of elements")
    exact = c.scope.facts.known(total).divide_exactly(c.scope.facts.known(known))
    return exact if exact is not None and exact.is_const else total // known


def _reshape_data(c: Context, x: Sequence[Dim], entries: list[Dim], allow_zero: bool) -> list[Dim]:
    """With entries that are data: each may be a size, 0 (copy) or -1 (infer), which arithmetic tells apart.

    With several of them and several symbols the expressions would be long: the sizes are the operation's to find.
    """
    given = sum(_is_data(c, d) for d in entries if not d.is_const)
    if given >= MANY_ENTRIES or given * (1 + len(c.count(x).symbols)) > LONG_RESHAPE:
        return [_reshape_entry(c, x, at, d, allow_zero) for at, d in enumerate(entries)]
    sizes: list[Dim] = []
    missing: list[Dim] = []  # 1 where the entry is -1, else 0
    infers = any(d.is_const and d.value == -1 for d in entries)
    for at, d in enumerate(entries):
        if not (d.is_const or _is_data(c, d)):
            if not allow_zero:
                _forbid_zero_copy(c, x, at, d)
            sizes.append(d)
            missing.append(ZERO)
            continue
        if infers and not d.is_const:
            c.at_most(0, d, "at most one -1 in a shape")
        else:
            c.at_most(-1, d, "a size in the shape of Reshape")
        negative, size = ZERO if infers and not d.is_const else -dim_min(d, 0), dim_max(d, 0)
        if not allow_zero and at < len(x) and not c.scope.facts.prove_le(1, d):
            apart = size if negative is ZERO else dim_max(d, -d)  # how far the entry is from 0
            size = size + x[at] * (1 - dim_min(apart, 1))
        sizes.append(size)
        missing.append(negative)
    total = c.count(x)
    known = c.count([s + m for s, m in zip(sizes, missing)])
    count = sum(missing, ZERO)
    if not (count.is_const and count.value == 0):
        c.at_most(count, 1, "at most one -1 in a shape")
        if allow_zero:
            c.at_most(count, known, "a size cannot be inferred beside one of 0")
        out = [s + m * _rest(total, known, d) for s, m, d in zip(sizes, missing, entries)]
    else:
        out = sizes
    c.equal(total, c.count(out), "Reshape keeps the number of elements")
    return out


def _rest(total: Dim, known: Dim, entry: Dim) -> Dim:
    """What is left for an entry where it is -1; `known` is the number of elements of all others."""
    symbol = entry.atom
    if symbol is not None and symbol.args is None:  # then everything else is what it is with -1 for it
        total, known = (d.subs({symbol.name: -1}) for d in (total, known))
    return total // dim_max(known, 1)


LONG_RESHAPE, MANY_ENTRIES = 5, 4
"""Entries that are data, times one more than there are symbols, and such entries: with more of the first and as many of
the second the expressions have many terms."""


def _reshape_entry(c: Context, x: Sequence[Dim], at: int, d: Dim, allow_zero: bool) -> Dim:
    """The size that one entry stands for: itself, the operand's, or one that the operation finds."""
    if d is ZERO and not allow_zero and at < len(x):
        return x[at]
    if (d.is_const and d.value < 0) or (not d.is_const and _is_data(c, d)):
        return c.fresh(0, at)
    if not allow_zero:
        _forbid_zero_copy(c, x, at, d)
    return d


def flatten(c: Context) -> Types:
    x = c.dims(0)
    axis = c.attr("axis")
    if not -len(x) <= axis <= len(x):
        raise ShapeError(f"axis {axis} is out of range for rank {len(x)}")
    axis = axis + len(x) if axis < 0 else axis
    return [c.like(0, [c.count(x[:axis]), c.count(x[axis:])])]


def squeeze(c: Context) -> Types:
    x = c.dims(0)
    if not c.has(1):
        open_ = [d for d in x if c.scope.facts.prove_eq(d, 1).answer is None]
        if open_:
            c.rank_conditions += [f"{d} == 1" for d in dict.fromkeys(open_)]
            return [UnrankedTensorType(c.element(0))]
        return [c.like(0, [d for d in x if c.scope.facts.prove_eq(d, 1).answer is False])]
    axes = c.known_ints(1)
    if axes is None and (chosen := chosen_axis(c, len(x))) is not None:
        for a, d in enumerate(x):
            if d is not ONE:
                c.require(f"{(d - 1) * is_chosen([chosen], a, len(x))} == 0", "the axis of Squeeze has size 1")
        return [c.like(0, without_one(x, chosen))]
    if axes is None and x and c.dims(1) == (as_dim(len(x)),):
        axes = list(range(len(x)))  # as many as there are
    if axes is None:
        return [_of_rank(c, lambda count: len(x) - count)]
    gone = {c.axis(a, len(x)) for a in axes}
    if len(gone) < len(axes):
        raise ShapeError("an axis is given twice")
    for a in sorted(gone):
        c.equal(x[a], ONE, f"axis {a} of Squeeze")
    return [c.like(0, [d for a, d in enumerate(x) if a not in gone])]


def chosen_axis(c: Context, rank: int) -> Dim | None:
    """The one axis in operand 1 whose number is data, guarded to be in range; None where there may be several."""
    if static_shape(c.need(1)) not in ((1,), ()) or (axes := c.ints(1)) is None:
        return None
    if not rank:
        raise ShapeError(f"{c.op.name} of a scalar along an axis")
    c.at_most(-rank, axes[0], f"the axis of {c.op.name}")
    c.at_most(axes[0], rank - 1, f"the axis of {c.op.name}")
    return axes[0]


def _of_rank(c: Context, rank: Callable[[int], int]) -> Attribute:
    """The type where the axes in operand 1 are data, but perhaps not how many they are."""
    count = c.lengths(1)
    if count is None:
        return c.open_rank(0, 1)
    return c.like(0, [c.fresh(0, a) for a in range(rank(count[0] if count else 1))])


def unsqueeze(c: Context) -> Types:
    x = c.dims(0)
    axes = c.known_ints(1)
    if axes is None and (chosen := chosen_axis(c, len(x) + 1)) is not None:
        return [c.like(0, with_one(x, chosen))]
    if axes is None:
        return [_of_rank(c, lambda count: len(x) + count)]
    rank = len(x) + len(axes)
    new = {c.axis(a, rank) for a in axes}
    if len(new) != len(axes):
        raise ShapeError("an axis is given twice")
    rest = iter(x)
    return [c.like(0, [ONE if a in new else next(rest) for a in range(rank)])]


def transpose(c: Context) -> Types:
    x = c.dims(0)
    perm = attribute_ints(c, "perm", range(len(x) - 1, -1, -1))
    if sorted(perm) != list(range(len(x))):
        raise ShapeError(f"perm {perm} is no permutation of {len(x)} axes")
    return [c.like(0, [x[p] for p in perm])]


def depth_to_space(c: Context) -> Types:
    n, channels, h, w = c.dims_of_rank(0, 4)
    b = c.attr("blocksize")
    return [c.like(0, [n, _exact_quotient(c, channels, b * b), h * b, w * b])]


def space_to_depth(c: Context) -> Types:
    n, channels, h, w = c.dims_of_rank(0, 4)
    b = c.attr("blocksize")
    return [c.like(0, [n, channels * (b * b), _exact_quotient(c, h, b), _exact_quotient(c, w, b)])]


def _exact_quotient(c: Context, d: Dim, k: int) -> Dim:
    if k <= 0:
        raise ShapeError(f"a block size of {k}")
    c.divides(k, d, "the block size divides")
    return d // k


# --- concat and split -------------------------------------------------------------------------------------------------


def concat(c: Context) -> Types:
    shapes = [c.dims_of_rank(i, c.rank(0)) for i in range(len(c.operands))]
    return [c.like(0, concatenated(c, shapes, c.attr("axis")))]


def concatenated(c: Context, shapes: Sequence[Sequence[Dim]], axis: int) -> list[Dim]:
    rank = len(shapes[0])
    if rank == 0:
        raise ShapeError("scalars cannot be concatenated")
    axis = c.axis(axis, rank)
    out = list(shapes[0])
    for shape in shapes[1:]:
        for a, d in enumerate(shape):
            if a != axis:
                out[a] = c.equal(out[a], d, f"axis {a} of Concat")
    out[axis] = dim_sum([shape[axis] for shape in shapes])
    return out


def split(c: Context) -> Types:
    x = c.dims(0)
    axis = c.axis(c.attr("axis"), len(x))
    count = len(c.results)
    if c.has(1):
        sizes = c.ints(1)
        if sizes is None:
            c.equal(c.dims_of_rank(1, 1)[0], as_dim(count), "Split has a size for each output")
            return [c.like(0, [c.fresh(i, a) if a == axis else d for a, d in enumerate(x)]) for i in range(count)]
        if len(sizes) != count:
            raise ShapeError(f"Split has {count} outputs and {len(sizes)} sizes")
        for s in sizes:
            c.at_most(0, s, "a size of Split")
        c.equal(x[axis], dim_sum(sizes), "the sizes of Split add up")
    else:
        parts = c.attr("num_outputs")
        if parts is not None and parts != count:
            raise ShapeError(f"its attribute 'num_outputs' is {parts}, and it has {count} outputs")
        sizes = split_sizes(c, x[axis], count if parts is None else parts)
    return [c.like(0, [s if a == axis else d for a, d in enumerate(x)]) for s in sizes[:count]]


def split_sizes(c: Context, size: Dim, parts: int) -> list[Dim]:
    """Equal parts, rounded up, but the last, which is smaller where they do not divide.

    onnxruntime refuses sizes where a part would be empty before the last, and so does the guard.
    """
    if parts <= 0:
        raise ShapeError(f"Split into {parts} parts")
    part = (size + (parts - 1)) // parts
    last = size - part * (parts - 1)
    if size.is_const:
        if last.value < 0:
            raise ShapeError(f"{size} elements cannot be split into {parts} parts of {part}")
    else:
        c.at_most(part * (parts - 1), size, "Split leaves a last part")
    return [part] * (parts - 1) + [last]


# --- slice and pad ----------------------------------------------------------------------------------------------------


def slice_(c: Context) -> Types:
    x = c.dims(0)
    starts, ends = c.ints(1), c.ints(2)
    steps = c.ints(4) if c.has(4) else None
    axes = c.known_ints(3) if c.has(3) else None
    if starts is None or ends is None or (c.has(3) and axes is None) or (c.has(4) and steps is None):
        return [c.like(0, [c.fresh(0, a) for a in range(len(x))])]
    axes = list(range(len(starts))) if axes is None else axes
    steps = tuple(ONE for _ in starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ShapeError("starts, ends, axes and steps of Slice differ in length")
    out = list(x)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        axis = c.axis(axis, len(x))
        length = slice_length(c, x[axis], start, end, step)
        out[axis] = c.fresh(0, axis) if length is None else length
    return [c.like(0, out)]


LONGEST_STEP = 1 << 40

BEYOND_ALL = 1 << 62
"""No axis is that long: a position from there on is its end, also where a product of sizes could be more, and one that
is as far before the end is before the front."""


def slice_length(c: Context, size: Dim, start: Dim, end: Dim, step: Dim) -> Dim | None:
    """How many elements `[start:end:step]` takes of an axis; None for a step whose sign is not known."""
    facts = c.scope.facts
    if step is ZERO:
        raise ShapeError("a step of 0 in Slice")
    forward = facts.prove_le(0, step)
    if not forward and not facts.prove_le(step, 0):
        return None
    stride = step if forward else -step
    if stride.is_const:  # one that is longer than any axis takes one element; a sum with it has to fit
        stride = as_dim(min(stride.value, LONGEST_STEP))
    else:
        c.at_most(1, stride, "a step of Slice is not 0")
    low, high = (start, end) if forward else (end, start)
    low, high = (_from_the_front(c, position, size, 0 if forward else -1) for position in (low, high))
    if forward:
        # a start past the end gives nothing, as does an end before the start: they need not be brought into range
        return dim_max(dim_min(high, size) - dim_max(low, 0) + (stride - 1), 0) // stride
    high = dim_min(dim_max(high, 0), size - 1)
    return dim_max(high - dim_max(low, -1) + (stride - 1), 0) // stride


def _from_the_front(c: Context, position: Dim, size: Dim, first: int) -> Dim:
    """A position as ONNX reads it: counted from the end where negative.  All that is at most `first` is alike."""
    facts = c.scope.facts
    if position.is_const and abs(position.value) >= BEYOND_ALL:
        return size if position.value > 0 else as_dim(first)
    if facts.prove_le(0, position):
        return position
    for times in (1, 2):  # counted from the end, it would still be before the front: n - 1 where n is 0
        if facts.prove_le(position + size - first, (position + 1) * times):
            return position
    negative = ONE if facts.prove_le(position, -1) else dim_min(dim_max(-position, 0), 1)
    return position + size * negative


def pad(c: Context) -> Types:
    x = c.dims(0)
    _require_pads(c)
    pads = c.ints(1)
    axes = c.known_ints(3) if c.has(3) else list(range(len(x)))
    if pads is None or axes is None:
        return [c.like(0, [c.fresh(0, a) for a in range(len(x))])]
    out = list(x)
    for at, axis in enumerate(axes):
        axis = c.axis(axis, len(x))
        before, after = pads[at], pads[at + len(axes)]
        out[axis] = out[axis] + before + after
        if out[axis] is not x[axis]:
            c.at_most(0, out[axis], "Pad leaves a size")
        if c.attr("mode") != "constant":
            _require_source(c, x[axis], before, after, f"axis {axis} of 'data' has elements to pad with")
    return [c.like(0, out)]


def _require_pads(c: Context) -> None:
    """States that there are two pads for each axis, where it is known how many there are."""
    if isinstance(c.type_of(1), UnrankedTensorType) or (c.has(3) and isinstance(c.type_of(3), UnrankedTensorType)):
        return
    pads, axes = c.count(c.dims(1)), c.count(c.dims(3)) if c.has(3) else as_dim(c.rank(0))
    if pads.is_const and axes.is_const and pads is not axes * 2:
        raise ShapeError(f"Pad has {pads} pads for {axes} axes")
    c.equal(pads, axes * 2, "Pad has two pads for each of its axes")


def _require_source(c: Context, size: Dim, before: Dim, after: Dim, why: str) -> None:
    """States that something is left after negative pads where positive ones repeat it."""
    added = dim_max(before, ZERO) + dim_max(after, ZERO)
    kept = size - dim_max(-before, ZERO) - dim_max(-after, ZERO)
    if added.is_const:
        if added is not ZERO:
            c.at_most(1, kept, why)
    else:
        c.at_most(added, added * kept, why)


def center_crop_pad(c: Context) -> Types:
    x = c.dims(0)
    shape = c.ints(1)
    axes = attribute_ints(c, "axes", range(len(x)))
    if axes and not x:
        raise ShapeError(f"its attribute 'axes' is {axes}, and a scalar has no axes")
    if shape is None:
        _none_for_a_scalar(c, 1, "size")
        return [c.like(0, [c.fresh(0, a) for a in range(len(x))])]
    if len(shape) != len(axes):
        raise ShapeError(f"CenterCropPad has {len(shape)} sizes for {len(axes)} axes")
    out = list(x)
    for axis, size in zip(axes, shape):
        c.at_most(0, size, "a size of CenterCropPad")
        out[c.axis(axis, len(x))] = size
    return [c.like(0, out)]


# --- expand, tile -----------------------------------------------------------------------------------------------------


def expand(c: Context) -> Types:
    shape = c.ints(1)
    if shape is None:
        return [_expand_unknown(c)]
    for d in shape:
        c.at_most(0, d, "a size in the shape of Expand")
    return [c.like(0, c.broadcast(c.dims(0), shape))]


def _expand_unknown(c: Context) -> Attribute:
    """The shape operand's length is known more often than its elements."""
    length = c.lengths(1)
    if length is None or len(length) != 1:
        return c.open_rank(0, 1)
    return c.like(0, [c.fresh(0, axis) for axis in range(max(length[0], c.rank(0)))])


def tile(c: Context) -> Types:
    x = c.dims(0)
    repeats = c.ints(1)
    if repeats is None:
        _none_for_a_scalar(c, 1, "repeat")
        return [c.like(0, [c.fresh(0, a) for a in range(len(x))])]
    if len(repeats) != len(x):
        raise ShapeError(f"Tile has {len(repeats)} repeats for rank {len(x)}")
    for r in repeats:
        c.at_most(0, r, "a repeat of Tile")
    return [c.like(0, [d * r for d, r in zip(x, repeats)])]


def _none_for_a_scalar(c: Context, index: int, what: str) -> None:
    """States that an operand with a number for each axis is empty where the first has none."""
    if not c.rank(0):
        c.equal(c.count(c.dims(index)), ZERO, f"{c.op.name.removeprefix('onnx.')} of a scalar has no {what}")


# --- gather and scatter -----------------------------------------------------------------------------------------------


def gather(c: Context) -> Types:
    x = c.dims(0)
    if not x:
        raise ShapeError("Gather from a scalar")
    axis = c.axis(c.attr("axis"), len(x))
    return [c.like(0, [*x[:axis], *c.dims(1), *x[axis + 1 :]])]


def gather_elements(c: Context) -> Types:
    x, indices = c.dims(0), c.dims(1)
    if len(indices) != len(x):
        raise ShapeError(f"indices of rank {len(indices)} for data of rank {len(x)}")
    axis = c.axis(c.attr("axis"), len(x))
    for a, (i, d) in enumerate(zip(indices, x)):
        if a != axis:
            c.at_most(i, d, f"axis {a} of the indices of GatherElements")
    return [c.like(0, indices)]


def gather_nd(c: Context) -> Types:
    x, indices = c.dims(0), c.dims(1)
    batch = c.attr("batch_dims")
    if not indices or batch >= min(len(x), len(indices)):
        raise ShapeError(f"GatherND of ranks {len(x)} and {len(indices)} with {batch} batch dims")
    if not indices[-1].is_const:
        c.rank_conditions.append(str(indices[-1]))
        return [c.open_rank(0)]
    depth = indices[-1].value
    if batch + depth > len(x):
        raise ShapeError(f"indices of {depth} entries for rank {len(x)} with {batch} batch dims")
    lead = [c.equal(a, b, "the batch dims of GatherND") for a, b in zip(x[:batch], indices[:batch])]
    return [c.like(0, [*lead, *indices[batch:-1], *x[batch + depth :]])]


def scatter_elements(c: Context) -> Types:
    x = c.dims(0)
    indices, updates = c.dims_of_rank(1, len(x)), c.dims_of_rank(2, len(x))
    axis = c.axis(c.attr("axis"), len(x))
    for a, (i, u, d) in enumerate(zip(indices, updates, x)):
        c.equal(u, i, f"axis {a} of the updates of ScatterElements")
        if a != axis:
            c.at_most(i, d, f"axis {a} of the indices of ScatterElements")
    c.reads([x[axis]], indices, "ScatterElements into an axis of size 0")
    return [c.type_of(0)]


def scatter_nd(c: Context) -> Types:
    x, indices, updates = c.dims(0), c.dims(1), c.dims(2)
    if not indices:
        raise ShapeError("ScatterND with indices of rank 0")
    if indices[-1].is_const:
        depth = indices[-1].value
    else:
        depth = len(indices) - 1 + len(x) - len(updates)  # the ranks tell how long an index is
        c.equal(indices[-1], as_dim(depth), "the length of an index of ScatterND")
    if not 0 <= depth <= len(x):
        raise ShapeError(f"ScatterND with indices of {depth} numbers for data of rank {len(x)}")
    expected = [*indices[:-1], *x[depth:]]
    if len(expected) != len(updates):
        raise ShapeError(f"updates of rank {len(updates)} where ScatterND needs {len(expected)}")
    for a, (d, u) in enumerate(zip(expected, updates)):
        c.equal(u, d, f"axis {a} of the updates of ScatterND")
    c.reads(x[:depth], indices[:-1], "ScatterND into an axis of size 0")
    return [c.type_of(0)]


def tensor_scatter(c: Context) -> Types:
    x = c.dims(0)
    update = c.dims_of_rank(1, len(x))
    axis = c.axis(c.attr("axis"), len(x))
    for a, (u, d) in enumerate(zip(update, x)):
        if a == axis:
            c.at_most(u, d, "the update fits into the cache")
        else:
            c.equal(u, d, f"axis {a} of the update of TensorScatter")
    return [c.type_of(0)]


def compress(c: Context) -> Types:
    """Conditions may be fewer than there are elements; past the end none may be true."""
    axis = c.attr("axis")
    x = [c.count(c.dims(0))] if axis is None else list(c.dims(0))
    axis = 0 if axis is None else c.axis(axis, len(x))
    taken = compressed_positions(c, x[axis])
    x[axis] = c.fresh(0, axis) if taken is None else as_dim(len(taken))
    return [c.like(0, x)]


def compressed_positions(c: Context, size: Dim) -> list[int] | None:
    """The positions that Compress takes of an axis of this size, where the conditions are known."""
    numbers = None if (elements := c.elements(1)) is None else as_integers(elements)
    if numbers is None or not all(n.is_const for n in numbers):
        return None
    taken = [at for at, n in enumerate(numbers) if n.value]
    if size.is_const and taken and taken[-1] >= size.value:
        raise ShapeError(f"Compress: the condition is true at {taken[-1]}, of {size} elements")
    return taken if not taken or c.scope.facts.prove_le(taken[-1] + 1, size) else None


def one_hot(c: Context) -> Types:
    """The depth is one integer; the new axis is counted in the result's rank."""
    indices = c.dims(0)
    depth = c.ints(1)
    rank = len(indices) + 1
    axis = c.axis(c.attr("axis"), rank)
    size = c.fresh(0, axis) if depth is None else depth[0]
    if depth is not None:
        c.at_most(0, size, "the depth of OneHot")
    return [c.like(2, [*indices[:axis], size, *indices[axis:]])]


RULES: Rules = {
    onnx.ReshapeOp: reshape,
    onnx.FlattenOp: flatten,
    onnx.SqueezeOp: squeeze,
    onnx.UnsqueezeOp: unsqueeze,
    onnx.TransposeOp: transpose,
    onnx.DepthToSpaceOp: depth_to_space,
    onnx.SpaceToDepthOp: space_to_depth,
    onnx.ConcatOp: concat,
    onnx.SplitOp: split,
    onnx.SliceOp: slice_,
    onnx.PadOp: pad,
    onnx.CenterCropPadOp: center_crop_pad,
    onnx.ExpandOp: expand,
    onnx.TileOp: tile,
    onnx.GatherOp: gather,
    onnx.GatherElementsOp: gather_elements,
    onnx.GatherNDOp: gather_nd,
    onnx.ScatterOp: identity_dims,
    onnx.ScatterElementsOp: scatter_elements,
    onnx.ScatterNDOp: scatter_nd,
    onnx.TensorScatterOp: tensor_scatter,
    onnx.CompressOp: compress,
    onnx.OneHotOp: one_hot,
}
