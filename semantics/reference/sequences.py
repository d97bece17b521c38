"""Sequences (lists) and optionals (a value, or None)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .dtypes import Array, Value, axis_of, integer_of, integers
from .mathematics import Function


def _place(position: Array | None, count: int, default: int) -> int:
    """A position in [-count, count) as a list index.  Raises IndexError outside."""
    if position is None:
        return default
    place = integer_of(position)
    if not -count <= place < count:
        raise IndexError(f"position {place} in a sequence of {count}")
    return place % count


def sequence_at(sequence: list[Value], position: Array, /) -> Value:
    return sequence[_place(position, len(sequence), 0)]


def sequence_construct(*inputs: Value) -> list[Value]:
    return list(inputs)


def sequence_empty(*, dtype: int | None = None) -> list[Value]:
    del dtype
    return []


def sequence_erase(sequence: list[Value], position: Array | None = None, /) -> list[Value]:
    place = _place(position, len(sequence), len(sequence) - 1)
    if place < 0:
        raise IndexError("SequenceErase of an empty sequence")
    return sequence[:place] + sequence[place + 1 :]


def sequence_insert(sequence: list[Value], tensor: Value, position: Array | None = None, /) -> list[Value]:
    count = len(sequence)
    place = count if position is None else integer_of(position)
    if not -count <= place <= count:
        raise IndexError(f"position {place} in a sequence of {count}")
    place = place + count if place < 0 else place
    return [*sequence[:place], tensor, *sequence[place:]]


def sequence_length(sequence: list[Value], /) -> Array:
    return np.array(len(sequence), dtype=np.int64)


def concat_from_sequence(sequence: list[Array], /, *, axis: int, new_axis: int = 0) -> Array:
    if not sequence:
        raise ValueError("ConcatFromSequence of an empty sequence")
    if new_axis:
        return np.stack(sequence, axis=axis_of(axis, sequence[0].ndim + 1))
    return np.concatenate(sequence, axis=axis_of(axis, sequence[0].ndim))


def stack_texts(sequence: list[Array], /, *, sizes: Sequence[int]) -> Array:
    """Texts along a new first axis; of none, a tensor with these sizes behind the first, 0 for those below 0."""
    return np.stack(sequence) if sequence else np.zeros([0, *(max(n, 0) for n in sizes)], object)


def split_to_sequence(x: Array, split: Array | None = None, /, *, axis: int = 0, keepdims: int = 1) -> list[Array]:
    """Parts along `axis`: of one element each, of a common size, or of given sizes."""
    along = axis_of(axis, x.ndim)
    extent = x.shape[along]
    if split is None or split.ndim == 0:
        size = 1 if split is None else integer_of(split)
        if size <= 0:
            raise ValueError(f"SplitToSequence into parts of {size}")
        ends = list(range(size, extent, size))
        parts = np.split(x, ends, axis=along) if extent else []
    else:
        if sum(integers(split)) != extent or min(integers(split), default=0) < 0:
            raise ValueError(f"parts of {integers(split)} for an axis of size {extent}")
        parts = np.split(x, np.cumsum(split)[:-1], axis=along)
    if split is None and not keepdims:
        return [p.squeeze(along) for p in parts]
    return list(parts)


def optional(element: Value = None, /, *, type: object = None) -> Value:
    del type
    return element


def optional_get_element(element: Value, /) -> Value:
    if element is None:
        raise ValueError("OptionalGetElement of an empty optional")
    return element


def optional_has_element(element: Value = None, /) -> Array:
    return np.array(element is not None)


SEQUENCES: dict[str, Function] = {
    "ConcatFromSequence": concat_from_sequence,
    "Optional": optional,
    "OptionalGetElement": optional_get_element,
    "OptionalHasElement": optional_has_element,
    "SequenceAt": sequence_at,
    "SequenceConstruct": sequence_construct,
    "SequenceEmpty": sequence_empty,
    "SequenceErase": sequence_erase,
    "SequenceInsert": sequence_insert,
    "SequenceLength": sequence_length,
    "SplitToSequence": split_to_sequence,
}

STACKS: dict[str, Function] = {"StackTexts": stack_texts}
"""Of the compiler's own."""
