"""Shape rules of operators that make tensors from sizes: constants, ranges, random numbers, windows, spectra."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, UnrankedTensorType, i32, i64
from xdsl.ir import Attribute

from ...dialects import dims as dims_dialect
from ...dialects import onnx
from ...dialects.dims.expression import ONE, Dim, as_dim, dim_max
from ...dialects.dims.interval import SIZE_LIMIT, is_signed
from ...dialects.onnx.types import STRING, SparseAttr, WeightAttr, element_of_dtype
from .context import Context, ResultElements, Rules, ShapeError, Types
from .elements import Element, Ratio, row_major
from .elementwise import FLOAT, element_of_code
from .limits import holds_limits


def attribute_type(c: Context, value: Attribute) -> Attribute | None:
    """The tensor type of a constant attribute; None where it does not tell."""
    match value:
        case DenseIntOrFPElementsAttr():
            return c.tensor(value.type.element_type, value.type.get_shape())
        case WeightAttr() if c.scope.weights is not None:
            array = c.scope.weights.get(value)
            return c.tensor(element_of_dtype(array.dtype), array.shape)
        case SparseAttr():
            inner = attribute_type(c, value.values)
            if inner is None:
                return None
            return c.tensor(inner.element_type, onnx.plain(value.dims))  # type: ignore[attr-defined]
        case _:
            return None


def constant(c: Context) -> Types:
    op = c.op
    for name in ("value", "sparse_value"):
        if name in op.properties:
            found = attribute_type(c, op.properties[name])
            return [c.results[0].type if found is None and c.results[0] is not None else found]
    for name, element in (("value_int", i64), ("value_float", FLOAT), ("value_string", STRING)):
        if name in op.properties:
            return [c.tensor(element, ())]
    for name, element in (("value_ints", i64), ("value_floats", FLOAT), ("value_strings", STRING)):
        if name in op.properties:
            return [attribute_type(c, op.properties[name]) or c.tensor(element, [list_length(c, name)])]
    raise ShapeError("Constant without a value")


def list_length(c: Context, name: str) -> int:
    """How many entries a list attribute has; 0 where it is absent."""
    value = c.attr(name)
    if value is None:
        return 0
    if isinstance(value, WeightAttr):
        if c.scope.weights is None:
            raise ShapeError(f"the values of {name} are not at hand")
        return int(c.scope.weights.get(value).size)
    return value.size if isinstance(value, np.ndarray) else len(value)


def initializer(c: Context) -> Types:
    found = attribute_type(c, c.op.properties["value"])
    return [c.op.results[0].type if found is None else found]


def dims_tensor(c: Context) -> Types:
    return [c.op.results[0].type]


def constant_of_shape(c: Context) -> Types:
    return [sized_by(c, 0, _filled_with(c))]


def _filled_with(c: Context) -> Attribute:
    """The element type of the value that a tensor is filled with."""
    value = c.op.properties.get("value")
    type_ = None if value is None else attribute_type(c, value)
    return FLOAT if type_ is None else type_.element_type  # type: ignore[attr-defined]


def sized_by(c: Context, index: int, element: Attribute) -> Attribute:
    """A tensor whose dims are an operand's elements."""
    shape = c.ints(index)
    if shape is None:
        length = c.lengths(index)
        if length is None or len(length) != 1:
            c.rank_by_length(index)
            return UnrankedTensorType(element)
        return c.tensor(element, [c.fresh(0, a) for a in range(length[0])])
    for d in shape:
        c.at_most(0, d, "a size")
    return c.tensor(element, shape)


def shape(c: Context) -> Types:
    if isinstance(c.type_of(0), UnrankedTensorType):
        return [c.tensor(i64, [c.fresh(0, 0)])]
    rank = c.rank(0)
    start, end = shape_bounds(c, rank)
    return [c.tensor(i64, [max(end - start, 0)])]


def shape_bounds(c: Context, rank: int) -> tuple[int, int]:
    """The axes that Shape gives, [start, end), brought into range."""
    start, end = c.attr("start") or 0, c.attr("end")
    end = rank if end is None else end
    start, end = (min(max(v + rank if v < 0 else v, 0), rank) for v in (start, end))
    return start, end


def size(c: Context) -> Types:
    return [c.tensor(i64, ())]


def range_(c: Context) -> Types:
    return [c.tensor(c.element(0), [range_length(c) or c.fresh(0, 0)])]


def range_length(c: Context) -> Dim | None:
    """ceil((limit - start) / delta), at least 0; None where it cannot be told."""
    if isinstance(c.element(0), type(i64)):
        values = [c.ints(i) for i in range(3)]
        if any(v is None or len(v) != 1 for v in values):
            return None
        start, limit, delta = (v[0] for v in values if v is not None)
        if delta is as_dim(0):
            raise ShapeError("a Range with a delta of 0")
        span = limit - start
        if delta.is_const and span.is_const:
            return as_dim(max(-(-span.value // delta.value), 0))
        is_large = delta.is_const and abs(delta.value) >= SIZE_LIMIT
        if any(map(is_signed, delta.symbols)) or is_large or not _fits(span):
            return None  # so that it is computed in full, without an expression that could leave int64
        if not delta.is_const:
            c.require(f"1 <= ({delta})*({delta})", "the delta of Range is not 0")
        return _ceil_quotient(span, delta)
    elements = [c.elements(i) for i in range(3)]
    if any(e is None or e.size != 1 for e in elements):
        return None
    return _float_range(c, [row_major(e)[0] for e in elements if e is not None])


def _fits(span: Dim) -> bool:
    """Whether a difference of elements of tensors is an int64 whatever they are: it is one of them, or has none."""
    return not any(map(is_signed, span.symbols)) or span.atom is not None


def _ceil_quotient(span: Dim, delta: Dim) -> Dim:
    if delta.is_const and delta.value > 0:
        return dim_max((span + (delta.value - 1)) // delta, 0)
    if delta.is_const:
        return dim_max((-span + (-delta.value - 1)) // -delta, 0)
    return dim_max(-((-span) // delta), 0)


def _float_range(c: Context, values: list[Element]) -> Dim | None:
    if not all(isinstance(v, Ratio) for v in values):
        return None
    start, limit, delta = (v for v in values if isinstance(v, Ratio))
    if all(v.constant is not None for v in (start, limit, delta)):
        # as doubles, which is how runtimes count
        a, b, d = (float(v.constant or 0) for v in (start, limit, delta))
        if d == 0:
            raise ShapeError("a Range with a delta of 0")
        from math import ceil

        return as_dim(max(ceil((b - a) / d), 0))
    if not (start.exact and limit.exact and delta.exact and delta.constant):
        return None
    if not holds_limits(c, (*start.limits, *limit.limits)):
        return None
    common = start.denominator * limit.denominator * delta.denominator
    span = limit.numerator * (common // limit.denominator) - start.numerator * (common // start.denominator)
    return _ceil_quotient(span, delta.numerator * (common // delta.denominator))


def eye_like(c: Context) -> Types:
    return [c.tensor(_dtype(c), c.dims_of_rank(0, 2))]


def like_dtype(c: Context) -> Types:
    """The first operand's dims, with the attribute's element type where it has one."""
    return [c.tensor(_dtype(c), c.dims(0))]


def _dtype(c: Context) -> Attribute:
    """The attribute's element type, or that of the first operand."""
    code = c.attr("dtype")
    return element_of_code(code) if code else c.element(0)


def random(c: Context) -> Types:
    return [c.tensor(element_of_code(c.attr("dtype")), c.attr("shape"))]


def multinomial(c: Context) -> Types:
    rows, classes = c.dims_of_rank(0, 2)
    c.reads([classes], [rows, as_dim(c.attr("sample_size"))], "Multinomial of no classes")
    return [c.tensor(_drawn(c), [rows, c.attr("sample_size")])]


def _drawn(c: Context) -> Attribute:
    """The element type of Multinomial's classes."""
    code = c.attr("dtype")
    return i32 if code is None else element_of_code(code)


def _output(c: Context) -> list[Attribute]:
    return [element_of_code(c.attr("output_datatype"))]


def window(c: Context) -> Types:
    length = c.ints(0)
    [element] = _output(c)
    if length is not None:
        c.at_most(0, length[0], "the length of a window")
    return [c.tensor(element, [c.fresh(0, 0) if length is None else length[0]])]


def mel_weight_matrix(c: Context) -> Types:
    bins, length = c.ints(0), c.ints(1)
    [element] = _output(c)
    if bins is None or length is None:
        return [c.tensor(element, [c.fresh(0, 0), c.fresh(0, 1)])]
    c.at_most(0, bins[0], "the number of bins of MelWeightMatrix")
    c.at_most(0, length[0], "the length of MelWeightMatrix")
    return [c.tensor(element, [length[0] // 2 + 1, bins[0]])]


def dft(c: Context) -> Types:
    """Operands: signal [..., 1 or 2], length, axis."""
    x = list(c.dims(0))
    onesided, inverse = c.attr("onesided"), c.attr("inverse")
    axis = c.known_int(2) if c.has(2) else -2
    if axis is None:
        return [c.like(0, [*(c.fresh(0, a) for a in range(len(x) - 1)), ONE if onesided and inverse else 2])]
    axis = c.axis(axis, len(x))
    length = c.ints(1)
    if c.has(1) and length is None:
        count = c.fresh(0, axis)
    elif length is not None:
        count = length[0]
        c.at_most(0, count, "the length of DFT")
    else:
        count = (x[axis] - 1) * 2 if onesided and inverse else x[axis]
    x[axis] = count // 2 + 1 if onesided and not inverse else count
    x[-1] = ONE if onesided and inverse else as_dim(2)
    return [c.like(0, x)]


def stft(c: Context) -> Types:
    """Operands: signal [batch, length, 1 or 2], step, window, frame length."""
    batch, length, _ = c.dims_of_rank(0, 3)
    step, frame = c.ints(1), c.ints(3)
    if frame is not None:
        size = frame[0]
        c.at_most(1, size, "the length of the frames of STFT")
        if c.has(2):
            size = c.equal(size, c.dims_of_rank(2, 1)[0], "the window's length is the frame's")
    elif c.has(3):
        size = None
    else:
        size = c.dims_of_rank(2, 1)[0] if c.has(2) else length
    bins = c.fresh(0, 2) if size is None else size // 2 + 1 if c.attr("onesided") else size
    if size is None or step is None:
        return [c.like(0, [batch, c.fresh(0, 1), bins, 2])]
    c.at_most(size, length, "a frame fits into the signal")
    if not step[0].is_const:
        c.at_most(1, step[0], "the step of frames")
    return [c.like(0, [batch, (length - size) // step[0] + 1, bins, 2])]


RULES: Rules = {
    onnx.ConstantOp: constant,
    onnx.InitializerOp: initializer,
    dims_dialect.TensorOp: dims_tensor,
    onnx.ConstantOfShapeOp: constant_of_shape,
    onnx.ShapeOp: shape,
    onnx.SizeOp: size,
    onnx.RangeOp: range_,
    onnx.EyeLikeOp: eye_like,
    onnx.BernoulliOp: like_dtype,
    onnx.RandomNormalLikeOp: like_dtype,
    onnx.RandomUniformLikeOp: like_dtype,
    onnx.RandomNormalOp: random,
    onnx.RandomUniformOp: random,
    onnx.MultinomialOp: multinomial,
    onnx.HannWindowOp: window,
    onnx.HammingWindowOp: window,
    onnx.BlackmanWindowOp: window,
    onnx.MelWeightMatrixOp: mel_weight_matrix,
    onnx.DFTOp: dft,
    onnx.STFTOp: stft,
}

ELEMENTS: ResultElements = {
    onnx.ConstantOfShapeOp: lambda c: [_filled_with(c)],
    onnx.EyeLikeOp: lambda c: [_dtype(c)],
    onnx.BernoulliOp: lambda c: [_dtype(c)],
    onnx.RandomNormalLikeOp: lambda c: [_dtype(c)],
    onnx.RandomUniformLikeOp: lambda c: [_dtype(c)],
    onnx.MultinomialOp: lambda c: [_drawn(c)],
    **dict.fromkeys((onnx.HannWindowOp, onnx.HammingWindowOp, onnx.BlackmanWindowOp, onnx.MelWeightMatrixOp), _output),
}
