"""Which operators move no element: their results are stretches of their operand's memory, so `main` needs no kernel.

A reshape is the whole operand; a slice of the leading axis, a part of a split, one row picked by a constant index are
stretches of it that begin at an offset.  Whether axes in front are 1, and those behind are whole, the prover decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from ..dialects import dims, kernel, onnx
from ..dialects.dims import Dim, as_dim, dims_of
from ..semantics.facts import Facts
from ..semantics.kinds import is_view
from ..semantics.known import constant_value, known_dims

ZERO, ONE = as_dim(0), as_dim(1)
Offsets = tuple[Dim, ...]
"""For each result, the element of the operand that it begins at."""


def offsets_of(op: Operation, facts: Facts) -> Offsets | None:
    """Where each result of an op begins in its first operand, if all of them are stretches of it; else None."""
    if not op.operands or not all(isinstance(v.type, TensorType) for v in (op.operands[0], *op.results)):
        return None
    if is_view(op):
        return (ZERO,)
    rule = STRETCHES.get(type(op))
    return rule(op, facts) if rule is not None else None


def is_stretch(op: Operation, facts: Facts) -> bool:
    """Whether no element of the op's results has to move."""
    return offsets_of(op, facts) is not None


def is_whole(op: Operation, facts: Facts) -> bool:
    """Whether the one result has the operand's elements in the same order and number."""
    if len(op.results) != 1:
        return False
    if is_view(op):
        return True
    if type(op) not in STRETCHES or offsets_of(op, facts) != (ZERO,):
        return False
    return equal(product(dims_of(op.operands[0])), product(dims_of(op.results[0])), facts)


KEPT_IN_KERNEL = 64
"""A constant of at most so many elements is part of the kernels that read it."""


def small_constant(value: SSAValue) -> Operation | None:
    """The op that makes the value, if it is small and known, so that kernels hold it themselves."""
    owner = value.owner
    if isinstance(owner, (dims.TensorOp, kernel.FillOp)):
        return owner
    if isinstance(owner, (onnx.ConstantOp, onnx.InitializerOp)) and "overridable" not in owner.properties:
        array = constant_value(value)
        if array is None or (array.dtype.kind == "c" and array.itemsize > 8):  # no attribute of a kernel is as wide
            return None
        return owner if array.size <= KEPT_IN_KERNEL else None
    return None


def equal(a: Dim, b: Dim, facts: Facts) -> bool:
    """Whether two sizes are proved to be the same."""
    return a is b or facts.prove_eq(a, b).answer is True


def product(sizes: Sequence[Dim]) -> Dim:
    """The number of elements."""
    total = ONE
    for d in sizes:
        total = total * d
    return total


def window_offset(source: Sequence[Dim], taken: Sequence[Dim], starts: Sequence[Dim], facts: Facts) -> Dim | None:
    """Where `taken[k]` elements from `starts[k]` along each axis begin, if they are one stretch of memory.

    They are where some axis has only axes of size 1 in front of it, and whole axes behind it.
    """
    whole = [s is ZERO and equal(a, b, facts) for a, b, s in zip(source, taken, starts, strict=True)]
    cut = next((k for k, w in enumerate(whole) if not w and not equal(taken[k], ONE, facts)), None)
    last_cut = max((k for k, w in enumerate(whole) if not w), default=-1)
    if cut is None:  # single elements along axes: all in front of the last must be 1
        cut = last_cut
    if cut != last_cut or any(not equal(d, ONE, facts) for d in taken[: max(cut, 0)]):
        return None
    offset = ZERO
    for k, start in enumerate(starts):
        if start is not ZERO:
            offset = offset + start * product(source[k + 1 :])
    return offset


def _transpose(op: Operation, facts: Facts) -> Offsets | None:
    """A transpose that keeps the order of all axes but those proved to be 1."""
    shape = dims_of(op.operands[0])
    perm = onnx.attr(op, "perm")
    order = list(perm) if perm is not None else list(reversed(range(len(shape))))
    large = [axis for axis in order if not equal(shape[axis], ONE, facts)]
    return (ZERO,) if large == sorted(large) else None


def _expand(op: Operation, facts: Facts) -> Offsets | None:
    source, result = dims_of(op.operands[0]), dims_of(op.results[0])
    padded = (*[ONE] * (len(result) - len(source)), *source)
    return (ZERO,) if all(equal(a, b, facts) for a, b in zip(padded, result, strict=True)) else None


def _slice(op: Operation, facts: Facts) -> Offsets | None:
    """Steps of 1 from places that are known, and clamped as the standard says."""
    assert isinstance(op, onnx.SliceOp)
    source, result = dims_of(op.operands[0]), dims_of(op.results[0])
    given = op.operand_at(1)
    starts = None if given is None else known_dims(given)
    axes = _known(op.operand_at(3), range(len(starts or ())))
    steps = _known(op.operand_at(4), [1] * len(starts or ()))
    if starts is None or axes is None or steps is None:
        return None
    places = [ZERO] * len(source)
    for start, axis, step in zip(starts, axes, steps, strict=True):
        if not (axis.is_const and step is ONE):
            return None
        k = axis.value % len(source)
        place = _place(start, source[k], facts)
        if place is None:
            if not equal(source[k], result[k], facts):
                return None
            place = ZERO
        places[k] = place
    offset = window_offset(source, result, places, facts)
    return None if offset is None else (offset,)


def _known(value: SSAValue | None, default: Sequence[int]) -> tuple[Dim, ...] | None:
    return tuple(map(as_dim, default)) if value is None else known_dims(value)


def _place(start: Dim, size: Dim, facts: Facts) -> Dim | None:
    """A slice's start as an index that is not negative, where it can be told; beyond the end is beyond the end."""
    if start is ZERO or facts.prove_le(0, start).answer is True:
        return start
    if facts.prove_le(start, -1).answer is True and facts.prove_le(-start, size).answer is True:
        return size + start
    return None


def _gather(op: Operation, facts: Facts) -> Offsets | None:
    """One place along an axis, by an index that is known and inside."""
    index = known_dims(op.operands[1])
    if index is None or len(index) != 1:
        return None
    source = dims_of(op.operands[0])
    axis = onnx.attr(op, "axis") % len(source)
    [at] = index
    if facts.prove_le(0, at).answer is True:
        if facts.prove_le(at + 1, source[axis]).answer is not True:
            return None  # the kernel checks it
    elif facts.prove_le(at, -1).answer is True and facts.prove_le(-at, source[axis]).answer is True:
        at = source[axis] + at
    else:
        return None
    taken = [*source[:axis], ONE, *source[axis + 1 :]]
    starts = [at if k == axis else ZERO for k in range(len(source))]
    offset = window_offset(source, taken, starts, facts)
    return None if offset is None else (offset,)


def _split(op: Operation, facts: Facts) -> Offsets | None:
    """Parts along an axis with nothing but axes of size 1 in front."""
    source = dims_of(op.operands[0])
    axis = onnx.attr(op, "axis") % len(source)
    if not all(equal(d, ONE, facts) for d in source[:axis]):
        return None
    inner = product(source[axis + 1 :])
    offsets: list[Dim] = []
    at = ZERO
    for result in op.results:
        offsets.append(at * inner)
        at = at + dims_of(result)[axis]
    return tuple(offsets)


STRETCHES: dict[type[Operation], Callable[[Operation, Facts], Offsets | None]] = {
    onnx.ExpandOp: _expand,
    onnx.GatherOp: _gather,
    onnx.SliceOp: _slice,
    onnx.SplitOp: _split,
    onnx.TransposeOp: _transpose,
}
"""How to tell, of operators that move elements in general."""


# Views that operators pass over


def mapped_dims(operand: Sequence[Dim], shown: Sequence[Dim], stored: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """The dims of an operand that broadcasts to `shown`, so that reshaped it broadcasts to `stored` in the same way.

    `shown` and `stored` are the dims of a view and of what it views.  The two are cut into the shortest stretches of
    axes with equal products; the operand must be whole, or 1, over each.
    """
    if len(operand) > len(shown):
        return None
    padded = (*[ONE] * (len(shown) - len(operand)), *operand)
    found: list[Dim] = []
    cuts = matched_axes(shown, stored)
    if cuts is None:
        return None
    for a, b in cuts:
        own, whole = padded[a.start : a.stop], shown[a.start : a.stop]
        if all(d is ONE for d in own):
            found += [ONE] * len(stored[b.start : b.stop])
        elif all(x is y for x, y in zip(own, whole, strict=True)):
            found += stored[b.start : b.stop]
        else:
            return None
    return tuple(found)


def matched_axes(left: Sequence[Dim], right: Sequence[Dim]) -> list[tuple[range, range]] | None:
    """Both shapes cut into stretches of axes with the same number of elements, as short as can be; None if they differ.

    Axes of size 1 go to the stretch in front of them.
    """
    one, other = running_products(left), running_products(right)
    if one[-1] is not other[-1] or one[-1] is ZERO:
        return None
    cuts: list[tuple[range, range]] = []
    i = j = 0
    for end in range(1, len(left) + 1):
        if end < len(left) and left[end] is ONE:
            continue
        at = max((k for k in range(j, len(other)) if other[k] is one[end]), default=None)
        if at is not None:
            cuts.append((range(i, end), range(j, at)))
            i, j = end, at
    return cuts or [(range(0), range(len(right)))]


def running_products(sizes: Sequence[Dim]) -> list[Dim]:
    """1, the first size, the product of the first two, ..."""
    found = [ONE]
    for d in sizes:
        found.append(found[-1] * d)
    return found
