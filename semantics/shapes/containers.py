"""Shape rules of sequences, optionals and strings.

An element type inside a sequence or optional has the size `_` where elements differ or only data decides it: such a
size becomes a fresh symbol when an element is taken out.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, TensorType, UnrankedTensorType, i64
from xdsl.ir import Attribute, SSAValue

from ...dialects import dims as dims_dialect
from ...dialects import onnx
from ...dialects.dims import Dim, dims_of
from ...dialects.dims.expression import as_dim
from ...dialects.onnx.types import STRING, OptionalType, SequenceType, UnknownType
from .context import Context, Item, Rules, ShapeError, Types
from .creation import list_length
from .elements import as_integers
from .elementwise import element_of_code
from .movement import concatenated

ANY = Dim.symbol("_")
"""The size inside a container that differs from element to element."""


def merged(a: Attribute, b: Attribute) -> Attribute:
    """The type of an element that is of one of two types. Raises ShapeError where the element types differ."""
    if a == b or isinstance(b, UnknownType):
        return a
    if isinstance(a, UnknownType):
        return b
    if isinstance(a, SequenceType) and isinstance(b, SequenceType):
        return SequenceType(merged(a.element, b.element))
    if isinstance(a, OptionalType) and isinstance(b, OptionalType):
        return OptionalType(merged(a.element, b.element))
    if isinstance(a, OptionalType):
        return OptionalType(merged(a.element, b))
    if isinstance(b, OptionalType):
        return OptionalType(merged(a, b.element))
    if not isinstance(a, TensorType | UnrankedTensorType) or not isinstance(b, TensorType | UnrankedTensorType):
        raise ShapeError(f"one container with elements of types {a} and {b}")
    if a.element_type != b.element_type:
        raise ShapeError(f"one container with elements of types {a} and {b}")
    if not isinstance(a, TensorType) or not isinstance(b, TensorType) or len(a.get_shape()) != len(b.get_shape()):
        return UnrankedTensorType(a.element_type)
    dims = [x if x is y else ANY for x, y in zip(container_dims(a), container_dims(b))]
    return dims_dialect.tensor_type(a.element_type, dims)


def container_dims(type_: TensorType[Attribute]) -> tuple[Dim, ...]:
    """The dims of a tensor type inside a container, where a size may be left open."""
    encoding: Attribute = type_.encoding
    if isinstance(encoding, dims_dialect.ShapeAttr):
        return encoding.data
    return tuple(as_dim(s) if s >= 0 else ANY for s in type_.get_shape())


def taken(c: Context, type_: Attribute, result: int = 0) -> Attribute:
    """The type of an element taken out of a container."""
    if not isinstance(type_, TensorType):
        return type_
    dims = [c.fresh(result, a) if d is ANY else d for a, d in enumerate(container_dims(type_))]
    return dims_dialect.tensor_type(type_.element_type, dims)


def _element(c: Context, index: int) -> Attribute:
    type_ = c.type_of(index)
    if not isinstance(type_, SequenceType):
        raise ShapeError(f"input {index} is {type_}, not a sequence")
    return type_.element


def keep_items(c: Context, items: Sequence[Item] | None, length: Dim | int | None = None) -> None:
    """Remembers the items of the sequence that an operation gives, where all are known, or else how many they are."""
    result = c.results[0]
    assert result is not None
    c.scope.forget(result)
    if items is not None and len(items) <= MAX_ITEMS:
        c.scope.sequences[result] = tuple(items)
    length = len(items) if items is not None else length
    if length is not None:
        c.scope.lengths[result] = as_dim(length)


def length_of(c: Context, index: int = 0, more: int = 0) -> Dim | None:
    """How many items a sequence has, and `more`; None where that is not known."""
    value = c.need(index)
    while isinstance(value.owner, onnx.IdentityOp):
        value = value.owner.operands[0]
    found = c.scope.lengths.get(value)
    return None if found is None else found + more


def items_of(c: Context, index: int = 0) -> list[Item] | None:
    found = c.scope.sequences.get(c.need(index))
    return None if found is None else list(found)


def item_of(c: Context, index: int) -> Item:
    return Item(c.type_of(index), c.elements(index))


def position_of(c: Context, index: int, count: int, default: int) -> int | None:
    """A position in a sequence, counted from the end where negative; None where it is not known."""
    if not c.has(index):
        return default
    elements = c.elements(index)
    numbers = None if elements is None else as_integers(elements)
    if not numbers or not (number := c.scope.facts.known(numbers[0])).is_const:
        return None
    found = number.value
    found = found + count if found < 0 else found
    if not 0 <= found <= default:
        raise ShapeError(f"position {found} in a sequence of {count}")
    return found


def known_item(c: Context) -> Item | None:
    """The item that SequenceAt takes, where the sequence and the position are known."""
    items = items_of(c)
    at = None if items is None else position_of(c, 1, len(items), len(items) - 1)
    return None if items is None or at is None else items[at]


def sequence_construct(c: Context) -> Types:
    element: Attribute = c.type_of(0)
    for i in range(1, len(c.operands)):
        element = merged(element, c.type_of(i))
    keep_items(c, [item_of(c, i) for i in range(len(c.operands))])
    return [SequenceType(element)]


def sequence_empty(c: Context) -> Types:
    code = c.attr("dtype")
    keep_items(c, [])
    return [SequenceType(UnrankedTensorType(element_of_code(1 if code is None else code)))]


def sequence_insert(c: Context) -> Types:
    element = _element(c, 0)
    items = items_of(c)
    at = None if items is None else position_of(c, 2, len(items), len(items))
    known = None if items is None or at is None else [*items[:at], item_of(c, 1), *items[at:]]
    keep_items(c, known, length_of(c, more=1))
    if items == []:  # nothing was in it
        return [SequenceType(c.type_of(1))]
    return [SequenceType(merged(element, c.type_of(1)))]


def sequence_erase(c: Context) -> Types:
    items = items_of(c)
    at = None if items is None else position_of(c, 1, len(items), len(items) - 1)
    known = None if items is None or at is None else [*items[:at], *items[at + 1 :]]
    keep_items(c, known, length_of(c, more=-1))
    return [c.type_of(0)]


def sequence_at(c: Context) -> Types:
    item = known_item(c)
    element = _element(c, 0)
    if item is None and isinstance(element, UnrankedTensorType) and items_of(c):
        position = c.elements(1)
        numbers = None if position is None else as_integers(position)
        c.rank_conditions += map(str, numbers or ())  # the position tells which item it is
    return [taken(c, element if item is None else item.type)]


def sequence_length(c: Context) -> Types:
    return [c.tensor(i64, ())]


def split_to_sequence(c: Context) -> Types:
    """Parts of one size where `split` is a scalar, the last perhaps smaller; of size 1 where there is none."""
    if isinstance(whole := c.type_of(0), UnrankedTensorType):
        keep_items(c, None)
        return [SequenceType(whole)]
    x = list(c.dims(0))
    if not x:
        raise ShapeError("a scalar has no axis to split")
    axis = c.axis(c.attr("axis"), len(x))
    size = x[axis]
    if c.has(1) and (lengths := c.ints(1)) is not None:
        _require_parts(c, size, lengths)
    if not c.has(1) and not c.attr("keepdims"):
        part = c.like(0, [*x[:axis], *x[axis + 1 :]])
        keep_items(c, [Item(part)] * size.value if size.is_const and size.value <= MAX_ITEMS else None, size)
        return [SequenceType(part)]
    sizes = _split_sizes(c, size)
    items = None if sizes is None else [Item(c.like(0, [*x[:axis], s, *x[axis + 1 :]])) for s in sizes]
    keep_items(c, items, _count_parts(c, size))
    same = sizes is not None and len(set(sizes)) == 1
    x[axis] = sizes[0] if same and sizes is not None else _part_size(c, size) or ANY
    return [SequenceType(c.like(0, x))]


def _require_parts(c: Context, size: Dim, lengths: Sequence[Dim]) -> None:
    """States that there can be parts of these lengths, or of a common one."""
    for length in lengths:
        c.at_most(0 if c.rank(1) else 1, length, "the length of a part of SplitToSequence")
    if c.rank(1):
        c.equal(size, sum(lengths, as_dim(0)), "the lengths of the parts of SplitToSequence add up")


def _count_parts(c: Context, size: Dim) -> Dim | None:
    """How many parts there are."""
    if not c.has(1):
        return size
    if c.rank(1):
        return c.dims(1)[0]
    part = c.known_int(1)
    return None if part is None or part < 1 else (size + (part - 1)) // part


def _part_size(c: Context, size: Dim) -> Dim | None:
    """The size that all parts have, where their number need not be known."""
    if not c.has(1):
        return as_dim(1)
    part = c.ints(1)
    if c.rank(1) or part is None or (part[0].is_const and not part[0].value):
        return None
    return part[0] if c.scope.facts.prove_divides(part[0], size) else None


def _split_sizes(c: Context, size: Dim) -> list[Dim] | None:
    """The sizes of the parts; None where their number is not known, or large."""
    given = c.ints(1) if c.has(1) else (as_dim(1),)
    if given is None:
        return None
    if c.has(1) and c.rank(1):
        return list(given)
    part = given[0]
    if not size.is_const or not part.is_const or part.value < 1 or size.value > MAX_ITEMS * part.value:
        return None
    whole, rest = divmod(size.value, part.value)
    return [part] * whole + ([as_dim(rest)] if rest else [])


MAX_ITEMS = 64
"""Sequences of more items are not followed one by one."""


def _split_of(c: Context) -> SSAValue | None:
    """The tensor of which SplitToSequence made the items along the axis that they are concatenated along."""
    split = c.need(0).owner
    if not isinstance(split, onnx.SplitToSequenceOp) or not isinstance(split.operands[0].type, TensorType):
        return None
    rank = len(dims_of(split.operands[0].type))
    axes = [c.axis(onnx.attr(op, "axis"), rank) for op in (split, c.op)]
    kept = len(split.operands) > 1 or onnx.attr(split, "keepdims")
    return split.operands[0] if kept and axes[0] == axes[1] else None


def concat_from_sequence(c: Context) -> Types:
    element = _element(c, 0)
    items = items_of(c)
    new = bool(c.attr("new_axis"))
    shapes = [container_dims(i.type) for i in items or () if isinstance(i.type, TensorType)]
    if items and len(shapes) == len(items):
        rank = len(shapes[0]) + new
        if any(len(s) != len(shapes[0]) for s in shapes):
            raise ShapeError("items of different rank")
        if new:
            axis = c.axis(c.attr("axis"), rank)
            shapes = [(*s[:axis], as_dim(1), *s[axis:]) for s in shapes]
        return [dims_dialect.tensor_type(_item_element(items[0].type), concatenated(c, shapes, c.attr("axis")))]
    if not isinstance(element, TensorType):
        return [element]
    whole = _split_of(c)
    if whole is not None and not new:
        return [whole.type]
    out = list(container_dims(element))
    axis = c.axis(c.attr("axis"), len(out) + new)
    length = length_of(c)
    if new:
        out.insert(axis, ANY if length is None else length)
    else:
        out[axis] = ANY if length is None or out[axis] is ANY else length * out[axis]
    out = [c.fresh(0, a) if d is ANY else d for a, d in enumerate(out)]
    return [dims_dialect.tensor_type(element.element_type, out)]


def _item_element(type_: Attribute) -> Attribute:
    assert isinstance(type_, TensorType)
    return type_.element_type


def optional(c: Context) -> Types:
    if c.has(0):
        return [OptionalType(c.type_of(0))]
    declared = c.op.properties.get("type")
    if declared is None:
        raise ShapeError("Optional with neither a value nor a type")
    return [OptionalType(undetermined(declared))]


def undetermined(type_: Attribute) -> Attribute:
    """A declared type, of which only the element type and the rank are believed."""
    match type_:
        case SequenceType():
            return SequenceType(undetermined(type_.element))
        case OptionalType():
            return OptionalType(undetermined(type_.element))
        case TensorType():
            return dims_dialect.tensor_type(type_.element_type, [ANY] * len(type_.get_shape()))
        case _:
            return type_


def optional_get_element(c: Context) -> Types:
    type_ = c.type_of(0)
    return [taken(c, type_.element) if isinstance(type_, OptionalType) else type_]


def optional_has_element(c: Context) -> Types:
    return [c.tensor(IntegerType(1), ())]


# --- strings and images -----------------------------------------------------------------------------------------------


def string_concat(c: Context) -> Types:
    return [c.tensor(STRING, c.broadcast(c.dims(0), c.dims(1)))]


def string_split(c: Context) -> Types:
    x = c.dims(0)
    return [c.tensor(STRING, [*x, c.fresh(0, len(x))]), c.tensor(i64, x)]


def string_normalizer(c: Context) -> Types:
    """Stop words are dropped, so the last size depends on data unless there are none."""
    x = c.dims_of_rank(0, 1, 2)
    if not c.attr("stopwords"):
        return [c.type_of(0)]
    return [c.tensor(STRING, [*x[:-1], c.fresh(0, len(x) - 1)])]


def regex_full_match(c: Context) -> Types:
    return [c.tensor(IntegerType(1), c.dims(0))]


def tf_idf_vectorizer(c: Context) -> Types:
    x = c.dims_of_rank(0, 1, 2)
    indexes: Sequence[int] = _list(c, "ngram_indexes")
    starts = list(_list(c, "ngram_counts"))
    shortest, longest = c.attr("min_gram_length"), c.attr("max_gram_length")
    pool = list_length(c, "pool_int64s") or list_length(c, "pool_strings")
    ends = [*starts[1:], pool]
    if not shortest <= longest <= len(starts):
        raise ShapeError(f"n-grams of {shortest} to {longest} items, and ngram_counts of {len(starts)} numbers")
    if starts != sorted(starts) or ends[-1] < starts[-1]:
        raise ShapeError(f"ngram_counts are {starts}, not places in a pool of {pool} in ascending order")
    grams = sum(-(-(end - start) // length) for length, (start, end) in enumerate(zip(starts, ends), 1))
    weights = list_length(c, "weights")
    if len(indexes) < grams or weights not in (0, len(indexes)):
        raise ShapeError(f"{grams} n-grams, {len(indexes)} indexes and {weights} weights")
    return [c.tensor(element_of_code(1), [*x[:-1], max(indexes, default=-1) + 1])]


def _list(c: Context, name: str) -> Sequence[int]:
    value = c.attr(name)
    if isinstance(value, onnx.WeightAttr):
        assert c.scope.weights is not None
        return [int(v) for v in c.scope.weights.get(value)]
    return value or []


def image_decoder(c: Context) -> Types:
    channels = 1 if c.attr("pixel_format") == "Grayscale" else 3
    return [c.tensor(element_of_code(2), [c.fresh(0, 0), c.fresh(0, 1), channels])]


RULES: Rules = {
    onnx.SequenceConstructOp: sequence_construct,
    onnx.SequenceEmptyOp: sequence_empty,
    onnx.SequenceInsertOp: sequence_insert,
    onnx.SequenceEraseOp: sequence_erase,
    onnx.SequenceAtOp: sequence_at,
    onnx.SequenceLengthOp: sequence_length,
    onnx.SplitToSequenceOp: split_to_sequence,
    onnx.ConcatFromSequenceOp: concat_from_sequence,
    onnx.OptionalOp: optional,
    onnx.OptionalGetElementOp: optional_get_element,
    onnx.OptionalHasElementOp: optional_has_element,
    onnx.StringConcatOp: string_concat,
    onnx.StringSplitOp: string_split,
    onnx.StringNormalizerOp: string_normalizer,
    onnx.RegexFullMatchOp: regex_full_match,
    onnx.TfIdfVectorizerOp: tf_idf_vectorizer,
    onnx.ImageDecoderOp: image_decoder,
}
