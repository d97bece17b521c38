"""Sizes that an operator would find from numbers given at run time are computed before it, so that it need not.

Range(start, limit, delta) binds u0   ->   n = Max(Ceil((limit - start) / delta), 0); dims.bind n ["u0"]; Range
    of floats, in f64
    of integers, n = (|limit - start| - 1) // |delta| + 1, or 0, in uint64
OneHot(indices, depth, values) binds u0   ->   dims.bind depth ["u0"]; OneHot
Reshape(x, shape) binds u0, u1   ->   the sizes that the shape's entries stand for are bound; Reshape
DFT(x, length, axis) binds u0, u1   ->   the sizes for that axis are bound; DFT
Resize(x, _, scales) binds u0, u1   ->   Floor(sizes * scales) is bound; Resize
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    StringAttr,
    TensorType,
    f32,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import dims, onnx
from ..dialects.dims import Dim, ShapeAttr, as_dim, dims_of, tensor_type
from ..dialects.dims.interval import SIZE_LIMIT
from ..semantics.conditions import equality
from ..semantics.facts import Facts
from ..semantics.shapes import Context, Names, RankUnknown, Scope, ShapeError, rule_of
from ..semantics.weights import WeightStore
from .axes_from_data import named, own_name
from .constants import make_constant
from .driver import Firing, origins_of
from .found_sizes import MOST, bound_by_execution
from .simplify.redundancy import functions_of

U64 = IntegerType(64, Signedness.UNSIGNED)


def compute_sizes(module: ModuleOp, weights: WeightStore) -> list[Firing]:
    """Binds the sizes in front of the operators that are listed in `RULES`."""
    fired: list[Firing] = []
    for function in functions_of(module):
        for op in list(function.walk()):
            rule, symbols = RULES.get(type(op), told), bound_by_execution(op)
            if not isinstance(op, onnx.OnnxOp) or not symbols:
                continue
            sizes = rule(op, symbols, weights)
            if sizes is None:
                continue
            bind = dims.BindOp(sizes, symbols, *(least_and_most(len(symbols))))
            if names := names_of_sources(op):
                bind.attributes[dims.TOLD_BY] = ArrayAttr(map(StringAttr, names))
            insert(op, bind)
            if isinstance(op, onnx.ReshapeOp):
                condition = equality(elements(op.operands[0]), elements(op.results[0]))
                insert(op, dims.AssumeOp(condition, "Reshape keeps the number of elements"))
            del op.attributes["dims.binds"]
            fired.append(Firing("ComputeSize", op.name, origins_of(op)))
    return fired


def least_and_most(count: int) -> tuple[ShapeAttr, ShapeAttr]:
    """The ranges of sizes."""
    return ShapeAttr((as_dim(0),) * count), ShapeAttr((as_dim(SIZE_LIMIT - 1),) * count)


def names_of_sources(op: onnx.OnnxOp) -> list[str]:
    """The names of the data that an operator's sizes come from, for messages; constants tell people nothing."""
    given = [op.operand_at(index) for index in SOURCES.get(type(op), ())]
    data = [v for v in given if v is not None and not isinstance(v.owner, onnx.InitializerOp | onnx.ConstantOp)]
    return list(dict.fromkeys(name for v in data if (name := own_name(v))))


def elements(tensor: SSAValue) -> Dim:
    """The number of a tensor's elements."""
    total = as_dim(1)
    for size in dims_of(tensor):
        total = total * size
    return total


def insert(op: onnx.OnnxOp, new: Operation) -> Operation:
    """Puts a new op in front of another, whose origin it takes."""
    block = op.parent
    assert block is not None
    if "origin" in op.attributes:
        new.attributes["origin"] = op.attributes["origin"]
    block.insert_op_before(new, op)
    return new


def value(op: onnx.OnnxOp, index: int) -> SSAValue:
    found = op.operand_at(index)
    assert found is not None
    return found


def told(op: onnx.OnnxOp, symbols: Sequence[str], weights: WeightStore) -> SSAValue | None:
    """Sizes that are symbols of their own only because the product of all would be too long: their expressions.

    None where only the execution tells them.
    """
    rule = rule_of(op, {})
    if rule is None or type(op) in MOST:
        return None
    known = {s for v in op.operands if isinstance(v.type, TensorType) for d in dims_of(v) for s in d.symbols}
    known |= {
        s for v in op.operands if isinstance(v.owner, dims.TensorOp) for d in v.owner.exprs.data for s in d.symbols
    }
    names = Names(
        taken={s for v in op.results if isinstance(v.type, TensorType) for d in dims_of(v) for s in d.symbols}
    )
    names.taken |= known
    try:
        types = rule(Context(op, Scope(names, Facts(), weights)))
    except (ShapeError, RankUnknown):
        return None
    found: dict[str, Dim] = {}
    for result, type_ in zip(op.formal_results(), types):
        if result is not None and isinstance(result.type, TensorType) and isinstance(type_, TensorType):
            found |= dict(zip(map(str, dims_of(result)), dims_of(type_)))
    exprs = [found.get(symbol) for symbol in symbols]
    listed = [d for d in exprs if d is not None and d.symbols <= known]
    if len(listed) < len(symbols):
        return None
    return insert(op, dims.TensorOp(listed, tensor_type(i64, [len(listed)]))).results[0]


def depth(op: onnx.OnnxOp, symbols: Sequence[str], weights: WeightStore) -> SSAValue:
    """OneHot's number of classes, of any type."""
    return value(op, 1)


def length(op: onnx.OnnxOp, symbols: Sequence[str], weights: WeightStore) -> SSAValue:
    """The number of a Range's elements; of floats computed in f64, so that no rounding in their own type moves it."""
    start, limit, delta = (as_double(op, value(op, i)) for i in range(3))
    type_ = start.type
    assert isinstance(type_, TensorType)
    if isinstance(type_.element_type, IntegerType):
        return length_of_integers(op, start, limit, delta, weights)
    dtype = onnx.numpy_dtype(type_.element_type)
    shape = dims_of(start)
    one, flags, whole = [1] * len(shape), tensor_type(i1, shape), tensor_type(i64, shape)
    zero = insert(op, make_constant(np.zeros(one, dtype), tensor_type(type_.element_type, one), weights)).results[0]
    names = [named(value(op, i), formal) for i, formal in enumerate(("start", "limit", "delta"))]
    none = refused(op, apply(op, onnx.EqualOp, [delta, zero], flags), f"Range: {names[2]} is 0, and {NOT_0}", weights)
    for x, name in zip((start, limit, delta), names, strict=True):
        lacks = refused(op, apply(op, onnx.IsNaNOp, [x], flags), f"Range: {name} is NaN", weights)
        none = apply(op, onnx.AddOp, [none, lacks], whole)
    zero = apply(op, onnx.CastOp, [none], type_, {"to": onnx.ELEMENT_CODES[type_.element_type]})
    result = apply(op, onnx.SubOp, [limit, start], type_)
    for cls, operands in ((onnx.DivOp, [delta]), (onnx.CeilOp, []), (onnx.MaxOp, [zero])):
        result = apply(op, cls, [result, *operands], type_)
    lacking = apply(op, onnx.IsNaNOp, [result], flags)
    without = insert(op, make_constant(np.full(one, np.inf, dtype), type_, weights)).results[0]
    return apply(op, onnx.WhereOp, [lacking, without, result], type_)


def refused(op: onnx.OnnxOp, wrong: SSAValue, problem: str, weights: WeightStore) -> SSAValue:
    """0, an int64 of the flag's shape; where the flag is set, an error: an index outside of a table."""
    assert isinstance(wrong.type, TensorType)
    whole = tensor_type(i64, dims_of(wrong))
    table = insert(op, make_constant(np.zeros(1, np.int64), tensor_type(i64, [1]), weights)).results[0]
    index = apply(op, onnx.CastOp, [wrong], whole, {"to": onnx.ELEMENT_CODES[i64]})
    zero = apply(op, onnx.GatherOp, [table, index], whole)
    assert isinstance(zero.owner, Operation)
    zero.owner.attributes[onnx.PROBLEM] = StringAttr(problem)
    return zero


NOT_0 = "the delta must not be 0"


def length_of_integers(
    op: onnx.OnnxOp, start: SSAValue, limit: SSAValue, delta: SSAValue, weights: WeightStore
) -> SSAValue:
    """(|limit - start| - 1) // |delta| + 1 where delta leads from start to limit, else 0.

    In uint64, which every difference of two int64 fits into; the result is an int64, its largest for more.  A delta of
    0 is an error.
    """
    shape = dims_of(start)
    wide, flags = tensor_type(i64, shape), tensor_type(i1, shape)
    unsigned = tensor_type(U64, shape)

    def number(n: int, type_: TensorType[Attribute] = wide) -> SSAValue:
        content = np.full([1] * len(shape), n, onnx.numpy_dtype(type_.element_type))
        return insert(op, make_constant(content, type_, weights)).results[0]

    def cast(x: SSAValue, type_: TensorType[Attribute]) -> SSAValue:
        if x.type == type_:
            return x
        return apply(op, onnx.CastOp, [x], type_, {"to": onnx.ELEMENT_CODES[type_.element_type]})

    def choose(condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return apply(op, onnx.WhereOp, [condition, a, b], wide)

    name = named(value(op, 2), "delta")
    start, limit, delta = (cast(x, wide) for x in (start, limit, delta))
    is_zero = apply(op, onnx.EqualOp, [delta, number(0)], flags)
    zero = refused(op, is_zero, f"Range: {name} is 0, and {NOT_0}", weights)
    forward = apply(op, onnx.LessOp, [zero, delta], flags)
    low, high = choose(forward, start, limit), choose(forward, limit, start)
    step = choose(forward, delta, apply(op, onnx.NegOp, [delta], wide))
    span = apply(op, onnx.SubOp, [cast(high, unsigned), cast(low, unsigned)], unsigned)
    before_last = apply(op, onnx.SubOp, [span, number(1, unsigned)], unsigned)
    steps = apply(op, onnx.DivOp, [before_last, cast(step, unsigned)], unsigned)
    most = apply(op, onnx.MinOp, [steps, number(2**63 - 2, unsigned)], unsigned)
    count = apply(op, onnx.AddOp, [cast(most, wide), number(1)], wide)
    return choose(apply(op, onnx.LessOp, [low, high], flags), count, number(0))


def apply(
    op: onnx.OnnxOp,
    cls: type[onnx.OnnxOp],
    operands: list[SSAValue],
    type_: Attribute,
    attributes: Mapping[str, object] = {},
) -> SSAValue:
    return insert(op, cls.make(operands, attributes, [type_])).results[0]


def as_double(op: onnx.OnnxOp, number: SSAValue) -> SSAValue:
    """A float as f64."""
    type_ = number.type
    assert isinstance(type_, TensorType)
    if type_.element_type == f64 or isinstance(type_.element_type, IntegerType):
        return number
    wide = tensor_type(f64, dims_of(number))
    return insert(op, onnx.CastOp.make([number], {"to": onnx.ELEMENT_CODES[f64]}, [wide])).results[0]


def entries(op: onnx.OnnxOp, symbols: Sequence[str], weights: WeightStore) -> SSAValue:
    """The sizes that a Reshape's entries stand for, of the axes that have these symbols: 0 copies, -1 is the rest."""
    given, source, target = value(op, 1), op.operands[0], dims_of(op.results[0])
    vector, flags = tensor_type(i64, [len(target)]), tensor_type(i1, [len(target)])
    one = tensor_type(i64, [1])
    to_int64 = {"to": onnx.ELEMENT_CODES[i64]}

    def number(n: int) -> SSAValue:
        return insert(op, make_constant(np.array([n], np.int64), one, weights)).results[0]

    def is_equal(x: SSAValue, n: int) -> SSAValue:
        return apply(op, onnx.EqualOp, [x, number(n)], flags)

    if not onnx.attr(op, "allowzero"):
        sizes = [*dims_of(source), *[as_dim(0)] * len(target)][: len(target)]
        own = insert(op, dims.TensorOp(sizes, vector)).results[0]
        given = apply(op, onnx.WhereOp, [is_equal(given, 0), own, given], vector)
    missing = is_equal(given, -1)
    known = apply(op, onnx.WhereOp, [missing, number(1), given], vector)
    product = apply(op, onnx.ReduceProdOp, [known], one)
    count = apply(op, onnx.ReduceSumOp, [apply(op, onnx.CastOp, [missing], vector, to_int64)], one)
    rules = [(onnx.LessOp, [number(1), count], "more than one -1")]
    if onnx.attr(op, "allowzero"):
        rules.append((onnx.LessOp, [product, count], "a -1 beside a size of 0"))
    product = apply(op, onnx.MaxOp, [product, number(1)], one)
    for cls, operands, wrong in rules:
        problem = f"Reshape: {named(value(op, 1), 'shape')} has {wrong}"
        zero = refused(op, apply(op, cls, operands, tensor_type(i1, [1])), problem, weights)
        product = apply(op, onnx.AddOp, [product, zero], one)
    total = insert(op, dims.TensorOp([elements(source)], one)).results[0]
    rest = apply(op, onnx.DivOp, [total, product], one)
    every = apply(op, onnx.WhereOp, [missing, rest, known], vector)
    axes = np.array([[str(d) for d in target].index(s) for s in symbols], np.int64)
    picked = tensor_type(i64, [len(axes)])
    return apply(op, onnx.GatherOp, [every, insert(op, make_constant(axes, picked, weights)).results[0]], picked)


def resized(op: onnx.OnnxOp, symbols: Sequence[str], weights: WeightStore) -> SSAValue:
    """Floor(size * scale) of the resized axes, in f32; sizes as they are, but under a policy the scale is common."""
    target, source = dims_of(op.results[0]), dims_of(op.operands[0])
    axes = [a % len(source) for a in onnx.attr(op, "axes") or range(len(source))]
    places = [axes.index([str(d) for d in target].index(s)) for s in symbols]
    scales, wanted, roi = op.operand_at(2), op.operand_at(3), op.operand_at(1)
    by_scales = scales is not None and dims_of(scales)[0] is not as_dim(0)
    policy = onnx.attr(op, "keep_aspect_ratio_policy") or "stretch"
    if wanted is not None and not by_scales and policy == "stretch":
        return picked_places(op, wanted, places, weights)
    vector = tensor_type(f32, [len(axes)])
    extents = insert(op, dims.TensorOp([source[a] for a in axes], tensor_type(i64, [len(axes)]))).results[0]
    sizes = as_f32(op, extents, vector)
    if by_scales:
        assert scales is not None
        zeros = as_f32(op, positive(op, scales, weights), vector)
        if onnx.attr(op, "coordinate_transformation_mode") == "tf_crop_and_resize" and roi is not None:
            sizes = apply(op, onnx.MulOp, [sizes, extent_of_region(op, roi, vector, weights)], vector)
        lengths = apply(op, onnx.MulOp, [sizes, as_f32(op, scales, vector)], vector)
        lengths = apply(op, onnx.AddOp, [lengths, zeros], vector)
    else:
        assert wanted is not None
        ratios = apply(op, onnx.DivOp, [as_f32(op, wanted, vector), sizes], vector)
        least = onnx.ReduceMinOp if policy == "not_larger" else onnx.ReduceMaxOp
        common = apply(op, least, [ratios], tensor_type(f32, [1]))
        half = insert(op, make_constant(np.array([0.5], np.float32), tensor_type(f32, [1]), weights)).results[0]
        lengths = apply(op, onnx.AddOp, [apply(op, onnx.MulOp, [sizes, common], vector), half], vector)
    whole = apply(op, onnx.FloorOp, [lengths], vector)
    return picked_places(op, whole, places, weights)


def positive(op: onnx.OnnxOp, scales: SSAValue, weights: WeightStore) -> SSAValue:
    """An int64 of 0 for each scale; one that is not above 0 is an error."""
    type_ = scales.type
    assert isinstance(type_, TensorType)
    flags = tensor_type(i1, dims_of(scales))
    none = np.zeros(1, onnx.numpy_dtype(type_.element_type))
    zero = insert(op, make_constant(none, tensor_type(type_.element_type, [1]), weights)).results[0]
    above = apply(op, onnx.LessOp, [zero, scales], flags)
    problem = f"Resize: {named(scales, 'scales')} has a scale that is not above 0"
    return refused(op, apply(op, onnx.NotOp, [above], flags), problem, weights)


def picked_places(op: onnx.OnnxOp, vector: SSAValue, places: list[int], weights: WeightStore) -> SSAValue:
    type_ = vector.type
    assert isinstance(type_, TensorType)
    picked = make_constant(np.array(places, np.int64), tensor_type(i64, [len(places)]), weights)
    result = tensor_type(type_.element_type, [len(places)])
    return apply(op, onnx.GatherOp, [vector, insert(op, picked).results[0]], result)


def as_f32(op: onnx.OnnxOp, x: SSAValue, type_: TensorType[Attribute]) -> SSAValue:
    if x.type == type_:
        return x
    return insert(op, onnx.CastOp.make([x], {"to": onnx.ELEMENT_CODES[f32]}, [type_])).results[0]


def extent_of_region(op: onnx.OnnxOp, roi: SSAValue, vector: TensorType[Attribute], weights: WeightStore) -> SSAValue:
    """The ends of a region of interest less its starts."""
    count = vector.get_shape()[0]
    bounds = as_f32(op, roi, tensor_type(f32, [2 * count]))

    def part(first: int) -> SSAValue:
        places = make_constant(np.arange(first, first + count), tensor_type(i64, [count]), weights)
        return apply(op, onnx.GatherOp, [bounds, insert(op, places).results[0]], vector)

    return apply(op, onnx.SubOp, [part(count), part(0)], vector)


def transformed(op: onnx.OnnxOp, symbols: Sequence[str], weights: WeightStore) -> SSAValue:
    """The sizes of a DFT whose axis is data: on the axis as many as are asked for or there, else the signal's."""
    source, target = dims_of(op.operands[0]), dims_of(op.results[0])
    rank = len(source)
    vector, flags, one = tensor_type(i64, [rank]), tensor_type(i1, [rank]), tensor_type(i64, [1])

    def number(n: int) -> SSAValue:
        return insert(op, make_constant(np.array([n], np.int64), one, weights)).results[0]

    def whole(x: SSAValue) -> SSAValue:
        wide = insert(op, onnx.CastOp.make([x], {"to": onnx.ELEMENT_CODES[i64]}, [tensor_type(i64, dims_of(x))]))
        shape = insert(op, dims.TensorOp([as_dim(1)], one)).results[0]
        return apply(op, onnx.ReshapeOp, [wide.results[0], shape], one)

    places = insert(op, make_constant(np.arange(rank), vector, weights)).results[0]
    axis = apply(op, onnx.GatherOp, [places, whole(value(op, 2))], one)
    assert isinstance(axis.owner, Operation)
    problem = f"DFT: 'axis' has the axis {{0}}; the rank is {rank}, so -{rank} <= axis < {rank}"
    axis.owner.attributes[onnx.PROBLEM] = StringAttr(problem)
    on_axis = apply(op, onnx.EqualOp, [places, axis], flags)
    sizes = insert(op, dims.TensorOp(list(source), vector)).results[0]
    onesided, inverse = onnx.attr(op, "onesided"), onnx.attr(op, "inverse")
    if (length := op.operand_at(1)) is not None:
        count, type_ = whole(length), one
    else:
        count, type_ = sizes, vector
        if onesided and inverse:
            count = apply(op, onnx.MulOp, [apply(op, onnx.SubOp, [count, number(1)], vector), number(2)], vector)
    if onesided and not inverse:
        count = apply(op, onnx.AddOp, [apply(op, onnx.DivOp, [count, number(2)], type_), number(1)], type_)
    every = apply(op, onnx.WhereOp, [on_axis, count, sizes], vector)
    axes = np.array([[str(d) for d in target].index(s) for s in symbols], np.int64)
    picked = tensor_type(i64, [len(axes)])
    return apply(op, onnx.GatherOp, [every, insert(op, make_constant(axes, picked, weights)).results[0]], picked)


RULES: dict[type[Operation], Callable[[onnx.OnnxOp, Sequence[str], WeightStore], SSAValue | None]] = {
    onnx.DFTOp: transformed,
    onnx.OneHotOp: depth,
    onnx.RangeOp: length,
    onnx.ReshapeOp: entries,
    onnx.ResizeOp: resized,
}
"""The tensor that has the sizes for these symbols, by operator; for others see `told`."""

SOURCES: dict[type[Operation], tuple[int, ...]] = {
    onnx.DFTOp: (1, 2),
    onnx.OneHotOp: (1,),
    onnx.RangeOp: (0, 1, 2),
    onnx.ReshapeOp: (1,),
    onnx.ResizeOp: (1, 2, 3),
}
"""The operands whose elements those sizes come from."""
