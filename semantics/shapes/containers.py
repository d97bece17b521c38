"""Shape rules of sequences, optionals and strings.

An element type inside a sequence or optional has the size `_` where elements differ or only data decides it: such a
size becomes a fresh symbol when an element is taken out.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, TensorType, UnrankedTensorType, i64
from xdsl.ir import Attribute

from ...dialects import dims as dims_dialect
from ...dialects import onnx
from ...dialects.dims import Dim
from ...dialects.dims.expression import as_dim
from ...dialects.onnx.types import STRING, OptionalType, SequenceType, UnknownType
from .context import Context, Rules, ShapeError, Types
from .elementwise import element_of_code

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


def sequence_construct(c: Context) -> Types:
    element: Attribute = c.type_of(0)
    for i in range(1, len(c.operands)):
        element = merged(element, c.type_of(i))
    return [SequenceType(element)]


def sequence_empty(c: Context) -> Types:
    code = c.attr("dtype")
    return [SequenceType(UnrankedTensorType(element_of_code(1 if code is None else code)))]


def sequence_insert(c: Context) -> Types:
    element = _element(c, 0)
    owner = c.need(0).owner
    if isinstance(owner, onnx.SequenceEmptyOp):  # nothing was in it
        return [SequenceType(c.type_of(1))]
    return [SequenceType(merged(element, c.type_of(1)))]


def same_sequence(c: Context) -> Types:
    return [c.type_of(0)]


def sequence_at(c: Context) -> Types:
    return [taken(c, _element(c, 0))]


def sequence_length(c: Context) -> Types:
    return [c.tensor(i64, ())]


def split_to_sequence(c: Context) -> Types:
    x = list(c.dims(0))
    axis = c.axis(c.attr("axis"), len(x))
    if not c.has(1):
        if c.attr("keepdims"):
            x[axis] = as_dim(1)
        else:
            del x[axis]
        return [SequenceType(c.like(0, x))]
    sizes = c.ints(1)
    equal = sizes is not None and len(set(sizes)) == 1
    if equal and sizes is not None and c.rank(1) == 0:  # equal parts, where the size divides
        equal = (
            bool(c.scope.facts.prove_divides(sizes[0], x[axis])) if not sizes[0].is_const or sizes[0].value else False
        )
    x[axis] = sizes[0] if equal and sizes is not None else ANY
    return [SequenceType(c.like(0, x))]


def concat_from_sequence(c: Context) -> Types:
    element = _element(c, 0)
    if not isinstance(element, TensorType):
        return [element]
    dims = container_dims(element)
    new = bool(c.attr("new_axis"))
    rank = len(dims) + new
    axis = c.axis(c.attr("axis"), rank)
    out: list[Dim] = []
    rest = iter(dims)
    for a in range(rank):
        d = ANY if new and a == axis else next(rest)
        out.append(c.fresh(0, a) if a == axis or d is ANY else d)
    return [dims_dialect.tensor_type(element.element_type, out)]


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
    onnx.SequenceEraseOp: same_sequence,
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
