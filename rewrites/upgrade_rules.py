"""How nodes of older opsets read in the newest: one rule for each operator that has changed, in one table.

A rule takes the node apart and gives its results, by formal position.  What it needs to know of a rank or an element
type it computes in the graph (`Shape`, `CastLike`): nothing is inferred yet, and inference makes constants of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ..dialects import onnx
from ..dialects.onnx.base import describe
from ..dialects.onnx.types import ELEMENT_NAMES, STRING, UNKNOWN
from ..runtime.errors import UnsupportedError
from ..semantics.weights import WeightStore
from .node_builder import NodeBuilder, Results


class Upgrade(NodeBuilder):
    """One node being upgraded."""

    op: onnx.VersionedOp

    def __init__(self, op: onnx.VersionedOp, weights: WeightStore | None = None) -> None:
        super().__init__(op, weights)
        self.since: int = op.since_version.value.data

    def attributes(self, *dropped: str) -> dict[str, Attribute]:
        """The node's attributes without those named."""
        return {key: value for key, value in self.op.attributes_.data.items() if key not in dropped}

    def outputs_listed(self) -> int:
        """How many outputs the node lists, those without a name included."""
        names = self.op.attributes.get("onnx.names")
        return len(names) if isinstance(names, ArrayAttr) else len(self.op.formal_results())

    def rank(self, value: SSAValue) -> SSAValue:
        """The rank of a tensor, a scalar of int64."""
        return self.value(onnx.SizeOp, self.shape(value))

    def same(
        self, cls: type[onnx.OnnxOp], operands: Sequence[SSAValue | None], attributes: Mapping[str, object]
    ) -> Results:
        """The node as one op of the class, with the results that it has."""
        present = [r is not None for r in self.op.formal_results()]
        least = cls.SCHEMA.min_outputs
        types = [UNKNOWN if there else None for there in present + [True] * (least - len(present))]
        return list(self.make(cls, operands, attributes, types).formal_results())

    def unsupported(self, reason: str) -> UnsupportedError:
        """The error that says why there is no equivalent."""
        name = f"{onnx.text_of(self.op.op_type)}-{self.since}"
        return UnsupportedError(f"{describe(self.op)} is {name}, which cannot be upgraded: {reason}")


Rule = Callable[[Upgrade], Results]


def rank_of(value: SSAValue) -> int | None:
    """The rank of a value whose type is known already: an input of the graph or a constant."""
    return len(value.type.get_shape()) if isinstance(value.type, TensorType) else None


def _in_shape_of(b: Upgrade, value: SSAValue, x: SSAValue) -> SSAValue:
    """The elements of `value` in the shape of `x`, sizes of 0 included."""
    return b.value(onnx.ReshapeOp, value, b.shape(x), attributes={"allowzero": 1})


# What only lost attributes


def without(cls: type[onnx.OnnxOp], *dropped: str, **defaults: object) -> Rule:
    """The same node without attributes that mean nothing any more; `defaults` are those of the older version."""

    def rule(b: Upgrade) -> Results:
        return b.same(cls, b.inputs(), {**defaults, **b.attributes(*dropped)})

    return rule


# Attributes that became inputs


def axes_as_input(cls: type[onnx.OnnxOp]) -> Rule:
    """Squeeze(x) {axes}  ->  Squeeze(x, axes), and so for Unsqueeze and the reductions."""

    def rule(b: Upgrade) -> Results:
        axes = b.attr("axes")
        return b.same(cls, [b.x(), b.ints(axes) if axes else None], b.attributes("axes"))

    return rule


def attention(b: Upgrade) -> Results:
    """Attention-23, whose mask of one key says the same of all keys."""
    results = b.same(onnx.AttentionOp, b.inputs(), b.attributes())
    made = results[0].owner if results[0] is not None else None
    if isinstance(made, onnx.AttentionOp) and b.op.operand_at(3) is not None:
        made.attributes[onnx.SHARED_KEY] = UnitAttr()
    return results


def clip(b: Upgrade) -> Results:
    """Clip(x) {min, max}  ->  Clip(x, min, max).  Clip-6 without a bound has that of f32, also for an infinity."""
    limit = float(np.finfo(np.float32).max)
    low, high = (b.attr("min"), b.attr("max")) if b.since < 6 else (b.attr("min", -limit), b.attr("max", limit))
    bounds = [None if bound is None else b.like(bound, b.x()) for bound in (low, high)]
    return b.same(onnx.ClipOp, [b.x(), *bounds], {})


def dft(b: Upgrade) -> Results:
    """DFT(x, length) {axis = 1}  ->  DFT(x, length, axis)."""
    return b.same(onnx.DFTOp, [b.x(), b.op.operand_at(1), b.ints(b.attr("axis", 1))], b.attributes("axis"))


def dropout(b: Upgrade) -> Results:
    """Dropout(x) {ratio, is_test}  ->  Dropout(x), or Dropout(x, ratio, true) for versions that could train."""
    training = b.since < 7 and not b.attr("is_test", 0)
    extra: list[SSAValue] = []
    if training:
        extra = [b.constant(np.array(b.attr("ratio", 0.5), np.float32)), b.constant(np.array(True))]
    results = b.same(onnx.DropoutOp, [b.x(), *extra], {})
    if b.since < 10 and len(results) > 1 and results[1] is not None:  # the mask had the type of the data
        results[1] = b.value(onnx.CastLikeOp, results[1], b.x())
    return results


def pad(b: Upgrade) -> Results:
    """Pad(x) {pads, value}  ->  Pad(x, pads, value)."""
    pads = b.ints(b.attr("paddings" if b.since < 2 else "pads"))
    value = b.attr("value", 0.0)
    fill = b.like(value, b.x()) if value else None
    return b.same(onnx.PadOp, [b.x(), pads, fill], b.attributes("pads", "paddings", "value"))


def reshape(b: Upgrade) -> Results:
    """Reshape(x) {shape}  ->  Reshape(x, shape)."""
    return b.same(onnx.ReshapeOp, [b.x(), b.ints(b.attr("shape", []))], {})


def slice_(b: Upgrade) -> Results:
    """Slice(x) {starts, ends, axes}  ->  Slice(x, starts, ends, axes)."""
    starts = b.attr("starts")
    axes = b.attr("axes", list(range(len(starts))))
    return b.same(onnx.SliceOp, [b.x(), b.ints(starts), b.ints(b.attr("ends")), b.ints(axes)], {})


def split(b: Upgrade) -> Results:
    """Split(x) {split}  ->  Split(x, split), or Split(x) {num_outputs}."""
    sizes, parts = b.attr("split"), b.op.operand_at(1)
    if parts is not None and b.since < 2:  # it had the type of the data
        parts = b.value(onnx.CastOp, parts, attributes={"to": 7})
    if parts is None and sizes:
        parts = b.ints(sizes)
    attributes = b.attributes("split")
    count = b.outputs_listed()
    if parts is None:
        attributes["num_outputs"] = onnx.int_attr(count)
    return list(b.make(onnx.SplitOp, [b.x(), parts], attributes, [UNKNOWN] * count).results)


def top_k(b: Upgrade) -> Results:
    """TopK(x) {k}  ->  TopK(x, k)."""
    return b.same(onnx.TopKOp, [b.x(), b.ints([b.attr("k")])], b.attributes("k"))


# Broadcasting before opset 7


def elementwise(cls: type[onnx.OnnxOp]) -> Rule:
    """Add(a, b) {axis, broadcast}  ->  Add(a, Reshape(b, its sizes and ones)).

    The sizes of `b` stand at `axis` of `a`; without `axis` they are the last ones, as in numpy.  Without `broadcast`
    they are those of `a`.
    """

    def rule(b: Upgrade) -> Results:
        left, right = b.x(0), b.x(1)
        if b.since >= 7:
            return [b.value(cls, left, right)]
        broadcast = b.attr("broadcast", 0)
        axis = b.attr("axis") if broadcast else None
        if axis is not None:
            right = _aligned(b, left, right, axis)
        return _limited([b.value(cls, left, right)], "first" if broadcast else "none")

    return rule


def variadic(cls: type[onnx.OnnxOp]) -> Rule:
    """Sum(a, b, ...)  ->  the same, of operands of one shape before opset 8."""

    def rule(b: Upgrade) -> Results:
        results = b.same(cls, b.inputs(), b.attributes("consumed_inputs"))
        return _limited(results, "none") if b.since < 8 else results

    return rule


def gemm(b: Upgrade) -> Results:
    """Gemm(a, b, c) {broadcast}  ->  Gemm(a, b, c); without `broadcast`, c has the shape of the result."""
    results = b.same(onnx.GemmOp, b.inputs(), b.attributes("broadcast"))
    return _limited(results, "none") if b.since < 7 and not b.attr("broadcast", 0) else results


def _limited(results: Results, limit: str) -> Results:
    """The results, whose op is marked to broadcast no further."""
    made = results[0]
    assert made is not None and isinstance(made.owner, Operation)
    made.owner.attributes[onnx.LIMITED] = StringAttr(limit)
    return results


def _aligned(b: Upgrade, left: SSAValue, right: SSAValue, axis: int) -> SSAValue:
    """`right` with as many sizes of 1 at its end as make its first size stand at `axis` of `left`."""
    ranks = rank_of(left), rank_of(right)
    if ranks[0] is not None and ranks[1] is not None:
        missing = ranks[0] - axis % max(ranks[0], 1) - ranks[1]
        if missing <= 0:
            return right
        return b.value(onnx.UnsqueezeOp, right, b.ints([*range(ranks[1], ranks[1] + missing)]))
    if axis < 0:
        raise b.unsupported("its axis counts from the end of a rank that is not known")
    room = b.value(onnx.SubOp, b.rank(left), b.value(onnx.AddOp, b.rank(right), b.ints(axis)))
    count = b.value(onnx.ReshapeOp, room, b.ints([1]))
    ones = b.value(onnx.ConstantOfShapeOp, count, attributes={"value": np.array([1], np.int64)})
    sizes = b.value(onnx.ConcatOp, b.shape(right), ones, attributes={"axis": 0})
    return b.value(onnx.ReshapeOp, right, sizes)


def prelu(b: Upgrade) -> Results:
    """PRelu(x, slope), a slope for each channel  ->  the same on x as (N, C, rest), and back."""
    x, slope = b.x(0), b.x(1)
    rank = rank_of(x)
    if rank is not None and rank >= 1:
        tail = b.ints([-1] + [1] * max(rank - 2, 0))
        return [b.value(onnx.PReluOp, x, b.value(onnx.ReshapeOp, slope, tail))]
    flat = b.value(onnx.ReshapeOp, x, b.ints([0, 0, -1]))
    result = b.value(onnx.PReluOp, flat, b.value(onnx.ReshapeOp, slope, b.ints([-1, 1])))
    return [_in_shape_of(b, result, x)]


# Axes that meant something else


def flattened(cls: type[onnx.OnnxOp]) -> Rule:
    """Softmax(x) {axis}, over all axes from there on  ->  Reshape(Softmax(Flatten(x)), sizes of x)."""

    def rule(b: Upgrade) -> Results:
        axis, x = b.attr("axis", 1), b.x()
        if axis == -1 or axis + 1 == rank_of(x):
            return [b.value(cls, x, attributes={"axis": -1})]
        flat = b.value(onnx.FlattenOp, x, attributes={"axis": axis})
        return [_in_shape_of(b, b.value(cls, flat, attributes={"axis": -1}), x)]

    return rule


def concat(b: Upgrade) -> Results:
    """Concat without an axis  ->  Concat {axis = 1}."""
    return b.same(onnx.ConcatOp, b.inputs(), {"axis": b.attr("axis", 1)})


def tile(b: Upgrade) -> Results:
    """Tile(x, tiles, axis)  ->  Tile(x, repeats), which are 1 but at the axis."""
    x = b.x(0)
    tiles, axis = (b.value(onnx.CastOp, b.x(i), attributes={"to": 7}) for i in (1, 2))
    one = b.ints([1])
    values = b.value(onnx.ConcatOp, one, b.value(onnx.ReshapeOp, tiles, one), attributes={"axis": 0})
    index = b.value(onnx.ReshapeOp, axis, b.ints([]))
    return [b.value(onnx.TileOp, x, b.value(onnx.OneHotOp, index, b.rank(x), values))]


# Values that were spelled otherwise


def cast(b: Upgrade) -> Results:
    """Cast {to = "FLOAT"}  ->  Cast {to = 1}."""
    text = b.attr("to")
    numbers = {"FLOAT": 1, "INT32": 6, "INT64": 7, "STRING": 8, "BOOL": 9, "FLOAT16": 10, "DOUBLE": 11}
    more = {name.upper(): onnx.ELEMENT_CODES[type_] for type_, name in ELEMENT_NAMES.items()}
    number = numbers.get(str(text).upper(), more.get(str(text).upper()))
    if number is None:
        raise b.unsupported(f"there is no element type '{text}'")
    return [b.value(onnx.CastOp, b.x(), attributes={"to": number})]


def grid_sample(b: Upgrade) -> Results:
    """GridSample {mode = "bilinear"}  ->  GridSample {mode = "linear"}."""
    mode = b.attr("mode", "bilinear")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return b.same(onnx.GridSampleOp, b.inputs(), {**b.attributes("mode"), "mode": mode})


def whole_p(cls: type[onnx.OnnxOp]) -> Rule:
    """LpPool {p = 2.0}  ->  LpPool {p = 2}."""

    def rule(b: Upgrade) -> Results:
        p = b.attr("p", 2.0)
        if p != int(p):
            raise b.unsupported(f"its p is {p}, and only whole numbers are left")
        return b.same(cls, [b.x()], {**b.attributes("p"), "p": int(p)})

    return rule


def roi_align(b: Upgrade) -> Results:
    """RoiAlign  ->  RoiAlign {coordinate_transformation_mode = "output_half_pixel"}, which shifts nothing."""
    mode = {"coordinate_transformation_mode": "output_half_pixel"}
    return b.same(onnx.RoiAlignOp, b.inputs(), {**b.attributes(), **mode})


def upsample(b: Upgrade) -> Results:
    """Upsample(x, scales)  ->  Resize(x, _, scales) with asymmetric coordinates, rounded down; also Resize-10."""
    if b.since < 7:
        scales = b.constant(np.array([1, 1, b.attr("height_scale"), b.attr("width_scale")], np.float32))
    elif b.since < 9:
        scales = b.constant(np.array(b.attr("scales"), np.float32))
    else:
        scales = b.x(1)
    mode = b.attr("mode", "nearest")
    mode = "linear" if mode == "bilinear" else mode
    fixed = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return [b.value(onnx.ResizeOp, b.x(), None, scales, attributes={"mode": mode, **fixed})]


def resize(b: Upgrade) -> Results:
    """Resize-11 without the empty tensors that stood for absent inputs.

    Its mode 'tf_half_pixel_for_nn', (i + 1/2) / scale, is one of the compiler's own where no other gives the same.
    """
    if b.since < 11:
        return upsample(b)
    x, roi, scales, sizes = (b.op.operand_at(i) for i in range(4))
    attributes: dict[str, object] = dict(b.attributes())
    mode = b.attr("coordinate_transformation_mode", "half_pixel")
    if mode == "tf_half_pixel_for_nn":  # floor((i + 1/2) / scale) is what half_pixel rounds up from a half
        if b.attr("mode", "nearest") == "nearest" and b.attr("nearest_mode", "round_prefer_floor") == "floor":
            attributes |= {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
        else:
            attributes["coordinate_transformation_mode"] = "tf_half_pixel"
    region = roi if mode == "tf_crop_and_resize" else None
    return [b.value(onnx.ResizeOp, x, region, scales, sizes, attributes=attributes)]


# Normalizations


def batch_normalization(b: Upgrade) -> Results:
    """BatchNormalization of before opset 14: `spatial`, `is_test`, and the number of outputs told how to compute."""
    results = b.op.formal_results()
    training = any(r is not None for r in results[1:]) and not b.attr("is_test", 0)
    attributes: dict[str, object] = dict(b.attributes("consumed_inputs", "is_test", "spatial"))
    if not b.attr("spatial", 1):
        if training:
            raise b.unsupported("it trains with 'spatial = 0'")
        return [_normalized_by_element(b), *([None] * (len(results) - 1))]
    if not training:
        if any(b.used(i) for i in range(1, len(results))):
            raise b.unsupported("it is in test mode, and its statistics are read")
        made = b.value(onnx.BatchNormalizationOp, *b.inputs(), attributes=attributes)
        return [made, *(b.x(3) if r is not None else None for r in results[1:])]
    if any(b.used(i) for i in range(3, len(results))):
        raise b.unsupported("its saved statistics are read, which are left to the implementation")
    attributes["training_mode"] = 1
    made = b.make(onnx.BatchNormalizationOp, b.inputs(), attributes, [UNKNOWN] * 3)
    return [*made.results, *(made.results[1] for _ in results[3:])]


def _normalized_by_element(b: Upgrade) -> SSAValue:
    """scale * (x - mean) / sqrt(var + epsilon) + bias, each of them for every element but of the batch."""
    x, scale, bias, mean, var = (b.x(i) for i in range(5))
    deviation = b.value(onnx.SqrtOp, b.value(onnx.AddOp, var, b.like(b.attr("epsilon", 1e-5), var)))
    normal = b.value(onnx.DivOp, b.value(onnx.SubOp, x, mean), deviation)
    return b.value(onnx.AddOp, b.value(onnx.MulOp, scale, normal), bias)


def group_normalization(b: Upgrade) -> Results:
    """GroupNormalization, scale and bias by group  ->  InstanceNormalization of x as (N, groups, C / groups, ...)."""
    x, scale, bias = b.x(0), b.x(1), b.x(2)
    batch, channels, spatial = (
        b.make(onnx.ShapeOp, [x], {"start": k, "end": k + 1 if k < 2 else None}).results[0] for k in range(3)
    )
    groups = b.ints([b.attr("num_groups")])
    sizes = [batch, groups, b.value(onnx.DivOp, channels, groups), spatial]
    flat = b.value(onnx.ReshapeOp, x, b.make(onnx.ConcatOp, sizes, {"axis": 0}).results[0], attributes={"allowzero": 1})
    epsilon = {"epsilon": b.attr("epsilon", 1e-5)}
    normal = b.value(onnx.InstanceNormalizationOp, flat, scale, bias, attributes=epsilon)
    return [_in_shape_of(b, normal, x)]


# The rest


def scan(b: Upgrade) -> Results:
    """Scan-8, over a batch of sequences  ->  Scan over the batch of Scan over the sequence.

    Sequences with lengths of their own go through all steps, of which those behind the length keep the states and give
    zeros; one that is read backwards is turned in front.
    """
    operands = [v for v in b.inputs()[1:] if v is not None]
    count, directions = b.attr("num_scan_inputs"), b.attr("directions")
    body = b.op.regions[0]
    b.op.detach_region(body)
    results = len(body.block.last_op.operands) if body.block.last_op is not None else 0
    lengths = [] if b.op.operand_at(0) is None else [_checked_lengths(b, operands[-count])]
    block = Block(arg_types=[UNKNOWN] * (len(lengths) + len(operands)))
    given = list(block.args)[len(lengths) :]
    names = b.op.attributes.get("onnx.inputs")
    if lengths:
        given, names = _of_one_length(UpgradeInside(b, block), body.block, given, count, directions), None
        count, directions = count + 1, None
    inner = onnx.ScanOp.make(
        given,
        {"num_scan_inputs": count, "scan_input_directions": directions},
        [UNKNOWN] * results,
        like=b.op,
        regions=[body],
    )
    if names is not None:
        inner.attributes["onnx.inputs"] = names
    block.add_ops([inner, onnx.YieldOp.make(inner.results)])
    sequences = [*lengths, *operands]
    outer = b.make(onnx.ScanOp, sequences, {"num_scan_inputs": len(sequences)}, [UNKNOWN] * results, [Region(block)])
    return list(outer.results)


class UpgradeInside(Upgrade):
    """What is built in a block, at its end or in front of the values that it gives."""

    def __init__(self, outer: Upgrade, block: Block) -> None:
        super().__init__(outer.op, outer._weights)
        self.block = block

    def insert(self, made: Operation) -> None:
        if "origin" in self.op.attributes:
            made.attributes.setdefault("origin", self.op.attributes["origin"])
        if isinstance(self.block.last_op, onnx.YieldOp):
            self.block.insert_op_before(made, self.block.last_op)
        else:
            self.block.add_op(made)


def _checked_lengths(b: Upgrade, sequences: SSAValue) -> SSAValue:
    """Scan-8's lengths, from 0 to that of the axis; others are an error."""
    lengths = b.x(0)
    most = b.make(onnx.ShapeOp, [sequences], {"start": 1, "end": 2}).results[0]
    past = b.value(onnx.AddOp, b.value(onnx.ReshapeOp, most, b.ints([])), b.ints(1))
    allowed = b.value(onnx.RangeOp, b.ints(0), past, b.ints(1))
    index = b.value(onnx.WhereOp, b.value(onnx.LessOp, lengths, b.ints(0)), past, lengths)
    checked = b.make(onnx.GatherOp, [allowed, index])
    checked.attributes[onnx.PROBLEM] = StringAttr("Scan: 'sequence_lens' has a length that the sequences do not have")
    return checked.results[0]


def _of_one_length(
    b: UpgradeInside, body: Block, given: Sequence[SSAValue], count: int, directions: Sequence[int] | None
) -> list[SSAValue]:
    """What a Scan over one sequence is given, with the numbers of its steps at the end, where the body heeds them."""
    length, first = b.block.args[0], len(given) - count
    size = b.make(onnx.ShapeOp, [given[first]], {"start": 0, "end": 1}).results[0]
    steps = b.value(onnx.RangeOp, b.ints(0), b.value(onnx.ReshapeOp, size, b.ints([])), b.ints(1))
    last = b.value(onnx.SubOp, length, b.ints(1))
    turned = b.value(onnx.MaxOp, b.value(onnx.SubOp, last, steps), b.ints(0))
    sequences = [
        b.value(onnx.GatherOp, x, turned) if backwards else x
        for x, backwards in zip(given[first:], directions or [0] * count, strict=True)
    ]
    inside, end = UpgradeInside(b, body), body.last_op
    assert isinstance(end, onnx.YieldOp)
    alive = inside.value(onnx.LessOp, body.insert_arg(UNKNOWN, len(body.args)), length)
    old = [*body.args[:first], *(inside.like(0, v) for v in end.operands[first:])]
    end.operands = [inside.value(onnx.WhereOp, alive, new, before) for new, before in zip(end.operands, old)]
    return [*given[:first], *sequences, steps]


def scatter(b: Upgrade) -> Results:
    """Scatter  ->  ScatterElements."""
    return b.same(onnx.ScatterElementsOp, b.inputs(), b.attributes())


def gru(b: Upgrade) -> Results:
    """GRU-1 names its default direction "foward", and may leave Y out."""
    direction = b.attr("direction", "forward").replace("foward", "forward")
    return b.same(onnx.GRUOp, b.inputs(), {**b.attributes("output_sequence"), "direction": direction})


def label_encoder(b: Upgrade) -> Results:
    """LabelEncoder-1: from a string to its place in the list, or from the place to the string."""
    x, classes = b.x(), b.attr("classes_strings", [])
    element = x.type.element_type if isinstance(x.type, TensorType) else None
    if element is None:
        raise b.unsupported("whether it reads strings or numbers is not declared")
    if element == STRING:
        attributes = {
            "keys_strings": classes,
            "values_int64s": list(range(len(classes))),
            "default_int64": b.attr("default_int64", -1),
        }
    else:
        attributes = {
            "keys_int64s": list(range(len(classes))),
            "values_strings": classes,
            "default_string": b.attr("default_string", "_Unused"),
        }
    return [b.value(onnx.MlLabelEncoderOp, x, attributes=attributes)]


_REDUCTIONS: dict[str, type[onnx.OnnxOp]] = {
    "ReduceL1": onnx.ReduceL1Op,
    "ReduceL2": onnx.ReduceL2Op,
    "ReduceLogSum": onnx.ReduceLogSumOp,
    "ReduceLogSumExp": onnx.ReduceLogSumExpOp,
    "ReduceMax": onnx.ReduceMaxOp,
    "ReduceMean": onnx.ReduceMeanOp,
    "ReduceMin": onnx.ReduceMinOp,
    "ReduceProd": onnx.ReduceProdOp,
    "ReduceSum": onnx.ReduceSumOp,
    "ReduceSumSquare": onnx.ReduceSumSquareOp,
    "Squeeze": onnx.SqueezeOp,
    "Unsqueeze": onnx.UnsqueezeOp,
}
_ELEMENTWISE: dict[str, type[onnx.OnnxOp]] = {
    "Add": onnx.AddOp,
    "And": onnx.AndOp,
    "Div": onnx.DivOp,
    "Equal": onnx.EqualOp,
    "Greater": onnx.GreaterOp,
    "Less": onnx.LessOp,
    "Mul": onnx.MulOp,
    "Or": onnx.OrOp,
    "Pow": onnx.PowOp,
    "Sub": onnx.SubOp,
    "Xor": onnx.XorOp,
}
_VARIADIC: dict[str, type[onnx.OnnxOp]] = {
    "Max": onnx.MaxOp,
    "Mean": onnx.MeanOp,
    "Min": onnx.MinOp,
    "Sum": onnx.SumOp,
}
# opset 1 could compute in place, on the inputs that `consumed_inputs` named
_CONSUMING: dict[str, type[onnx.OnnxOp]] = {
    "Abs": onnx.AbsOp,
    "Ceil": onnx.CeilOp,
    "Elu": onnx.EluOp,
    "Exp": onnx.ExpOp,
    "Floor": onnx.FloorOp,
    "HardSigmoid": onnx.HardSigmoidOp,
    "InstanceNormalization": onnx.InstanceNormalizationOp,
    "LeakyRelu": onnx.LeakyReluOp,
    "Log": onnx.LogOp,
    "Neg": onnx.NegOp,
    "Reciprocal": onnx.ReciprocalOp,
    "Relu": onnx.ReluOp,
    "Sigmoid": onnx.SigmoidOp,
    "Sqrt": onnx.SqrtOp,
    "Tanh": onnx.TanhOp,
}

RULES: dict[tuple[str, str], Rule] = {
    **{("", name): axes_as_input(cls) for name, cls in _REDUCTIONS.items()},
    **{("", name): elementwise(cls) for name, cls in _ELEMENTWISE.items()},
    **{("", name): variadic(cls) for name, cls in _VARIADIC.items()},
    **{("", name): without(cls, "consumed_inputs") for name, cls in _CONSUMING.items()},
    ("", "Attention"): attention,
    ("", "BatchNormalization"): batch_normalization,
    ("", "Cast"): cast,
    ("", "Clip"): clip,
    ("", "Concat"): concat,
    ("", "DFT"): dft,
    ("", "Dropout"): dropout,
    ("", "GRU"): gru,
    ("", "Gemm"): gemm,
    ("", "GlobalLpPool"): whole_p(onnx.GlobalLpPoolOp),
    ("", "GridSample"): grid_sample,
    ("", "GroupNormalization"): group_normalization,
    ("", "Hardmax"): flattened(onnx.HardmaxOp),
    ("", "LSTM"): without(onnx.LSTMOp, "output_sequence"),
    ("", "LogSoftmax"): flattened(onnx.LogSoftmaxOp),
    ("", "LpPool"): whole_p(onnx.LpPoolOp),
    ("", "PRelu"): prelu,
    ("", "Pad"): pad,
    ("", "RNN"): without(onnx.RNNOp, "output_sequence"),
    ("", "Reshape"): reshape,
    ("", "Resize"): resize,
    ("", "RoiAlign"): roi_align,
    ("", "Scan"): scan,
    ("", "Scatter"): scatter,
    ("", "Selu"): without(onnx.SeluOp, "consumed_inputs", alpha=1.6732, gamma=1.0507),
    ("", "Slice"): slice_,
    ("", "Softmax"): flattened(onnx.SoftmaxOp),
    ("", "Split"): split,
    ("", "Tile"): tile,
    ("", "TopK"): top_k,
    ("", "Upsample"): upsample,
    ("ai.onnx.ml", "LabelEncoder"): label_encoder,
}
