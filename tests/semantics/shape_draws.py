"""Nodes drawn for shape rules: attributes, symbolic inputs, constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from onnx import TensorProto as T
from onnx import helper


@dataclass
class Case:
    """A node: its attributes, inputs with symbolic sizes, constant inputs, and how inputs are filled."""

    attributes: dict[str, Any]
    inputs: dict[str, Any]
    constants: dict[str, Any] = field(default_factory=dict)
    order: str = ""
    outputs: int = 1
    feeds: dict[str, Callable[..., Any]] = field(default_factory=dict)
    opset: int = 21
    empty: bool = True
    """Whether sizes of 0 are tried."""


class Draw:
    """Draws parts of a case."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def pick(self, *choices: Any) -> Any:
        return self.data.draw(st.sampled_from(choices))

    def integer(self, low: int, high: int) -> int:
        return self.data.draw(st.integers(low, high))

    def shape(self, low: int = 0, high: int = 3) -> list[Any]:
        return self.data.draw(st.lists(st.sampled_from(["A", "B", 1, 3]), min_size=low, max_size=high))

    def axis(self, rank: int) -> int:
        return self.integer(-rank, rank - 1)

    def axes(self, rank: int, low: int = 0) -> list[int]:
        found = self.data.draw(st.lists(st.integers(0, rank - 1), unique=True, min_size=low, max_size=rank))
        return [a - rank if self.pick(True, False) else a for a in found]

    def permutation(self, size: int) -> list[int]:
        return list(self.data.draw(st.permutations(range(size))))

    def some(self, **attributes: Any) -> dict[str, Any]:
        """Some of these attributes."""
        return {name: value for name, value in attributes.items() if self.pick(True, False)}


def f(*shape: Any) -> tuple[int, list[Any]]:
    return T.FLOAT, list(shape)


def i64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


# --- drawing ----------------------------------------------------------------------------------------------------------


def unary(d: Draw) -> Case:
    return Case({}, {"x": f(*d.shape())})


def of_axis(d: Draw, **more: Any) -> Case:
    shape = d.shape(1)
    return Case({"axis": d.axis(len(shape)), **d.some(**more)}, {"x": f(*shape)})


def of_type(*types: int) -> Callable[[Draw], Case]:
    return lambda d: Case({}, {"x": (d.pick(*types), d.shape())})


def binary(*types: int, **attributes: Any) -> Callable[[Draw], Case]:
    def draw(d: Draw) -> Case:
        kind = d.pick(*types)
        made = {name: d.pick(*values) for name, values in attributes.items()}
        return Case(made, {"x": (kind, d.shape()), "y": (kind, d.shape())})

    return draw


def variadic(d: Draw) -> Case:
    return Case({}, {f"x{i}": f(*d.shape()) for i in range(d.integer(1, 3))})


def where(d: Draw) -> Case:
    return Case({}, {"c": (T.BOOL, d.shape()), "x": f(*d.shape()), "y": f(*d.shape())})


def cumulative(d: Draw) -> Case:
    shape = d.shape(1)
    axis = np.array(d.axis(len(shape)), np.int64)
    return Case(d.some(exclusive=1, reverse=1), {"x": f(*shape)}, {"a": axis}, "x a")


def trilu(d: Draw) -> Case:
    return Case(d.some(upper=0), {"x": f(*d.shape(2))}, {"k": np.array(d.integer(-4, 4), np.int64)}, "x k")


def normalization(d: Draw) -> Case:
    shape, axis = ["A", 3, "B"], d.pick(-1, 2, -2, 1)
    scale = shape[axis:]
    return Case({"axis": axis}, {"x": f(*shape), "s": f(*scale), "b": f(*scale)}, outputs=3)


def rms(d: Draw) -> Case:
    case = normalization(d)
    del case.inputs["b"]
    case.outputs = 1
    return case


def batch_normalization(d: Draw) -> Case:
    training = d.pick(0, 1)
    inputs = {"x": f("A", 3, *["B"][: d.integer(0, 1)]), **{n: f(3) for n in "sbmv"}}
    return Case({"training_mode": training}, inputs, outputs=3 if training else 1)


def mean_variance(d: Draw) -> Case:
    return Case({"axes": sorted(a % 4 for a in d.axes(4, 1))}, {"x": f("A", 3, "B", 2)})


def dynamic_quantize(d: Draw) -> Case:
    return Case({}, {"x": f(*d.shape())}, outputs=3)


def non_zero(d: Draw) -> Case:
    return Case({}, {"x": f(*d.shape(1))})


def grouped(d: Draw) -> Case:
    return Case({"num_groups": d.pick(1, 2, 4)}, {"x": f("A", 4, "B", 2), "s": f(4), "b": f(4)})


def instance(d: Draw) -> Case:
    return Case({}, {"x": f("A", "B", *[3, "A"][: d.integer(1, 2)]), "s": f("B"), "b": f("B")})


def lrn(d: Draw) -> Case:
    return Case({"size": d.pick(1, 3)}, {"x": f("A", 3, "B", 2)})


def reverse_sequence(d: Draw) -> Case:
    time = d.pick(0, 1)
    size = "B" if time == 0 else "A"
    case = Case({"time_axis": time, "batch_axis": 1 - time}, {"x": f("A", "B", 2), "l": (T.INT64, [size])}, order="x l")
    case.feeds["l"] = lambda binding: [0 if binding["A"] * binding["B"] == 0 else 1] * binding[size]
    return case


def dropout(d: Draw) -> Case:
    return Case({}, {"x": f(*d.shape())}, outputs=2)


def prelu(d: Draw) -> Case:
    return Case({}, {"x": f("A", 3, "B"), "s": f(*d.pick([], [1], ["B"], [3, 1], [1, 3, "B"]))})


def cast(d: Draw) -> Case:
    return Case({"to": d.pick(T.INT64, T.FLOAT16, T.BOOL, T.DOUBLE)}, {"x": f(*d.shape())})


def cast_like(d: Draw) -> Case:
    return Case({}, {"x": f(*d.shape()), "y": (d.pick(T.INT64, T.BOOL), d.shape())})


def clip(d: Draw) -> Case:
    return Case({}, {"x": f(*d.shape())}, {"l": np.float32(0), "h": np.float32(3)}, d.pick("x", "x l", "x l h"))


def quantize(d: Draw) -> Case:
    axis = d.pick(None, 1, -2)
    scale = np.ones([] if axis is None else [4], np.float32)
    zero = {"z": scale.astype(np.uint8)} if d.pick(True, False) else {}
    return Case(
        {} if axis is None else {"axis": axis}, {"x": f("A", 4, "B")}, {"s": scale, **zero}, "x s z" if zero else "x s"
    )


def quantize_blocks(d: Draw) -> Case:
    size = d.pick(1, 2, 4)
    attributes = {"axis": d.pick(1, -2), "block_size": size}
    return Case(attributes, {"x": f(2, 4, 3)}, {"s": np.ones([2, 4 // size, 3], np.float32)}, "x s")


def dequantize(d: Draw) -> Case:
    case = quantize(d)
    return Case(case.attributes, {"x": (T.UINT8, ["A", 4, "B"])}, case.constants, case.order)


def shape_of(d: Draw) -> Case:
    return Case(d.some(start=d.integer(-4, 4), end=d.integer(-4, 4)), {"x": f(*d.shape())})


def eye_like(d: Draw) -> Case:
    return Case(d.some(k=d.integer(-3, 3), dtype=T.INT64), {"x": f("A", d.pick("A", "B", 3))})


def drawn_like(d: Draw) -> Case:
    return Case(d.some(dtype=T.FLOAT), {"x": f(*d.shape())})


def drawn(d: Draw) -> Case:
    return Case({"shape": [d.integer(0, 3) for _ in range(d.integer(1, 3))]}, {})


def constant_of_shape(d: Draw) -> Case:
    value = helper.make_tensor("v", d.pick(T.FLOAT, T.INT64), [1], [1])
    return Case(d.some(value=value), {}, {"s": i64(*[d.integer(0, 4) for _ in range(d.integer(0, 3))])}, "s")


def multinomial(d: Draw) -> Case:
    return Case({"sample_size": d.integer(1, 4), **d.some(dtype=T.INT64)}, {"x": f("A", 3)})


def window(d: Draw) -> Case:
    return Case(d.some(periodic=0), {}, {"n": np.array(d.integer(1, 9), np.int64)}, "n")


def dft(d: Draw) -> Case:
    inverse, onesided = d.pick((0, 0), (0, 1), (1, 0))
    axis = {"a": np.array(d.pick(1, -2, 2, -3), np.int64)}
    last = 1 if onesided else d.pick(1, 2)
    length = {"n": np.array(d.integer(2, 6), np.int64)} if d.pick(True, False) else {}
    order = "x n a" if length else "x  a"
    return Case({"inverse": inverse, "onesided": onesided}, {"x": f("A", "B", 3, last)}, {**length, **axis}, order)


def stft(d: Draw) -> Case:
    constants = {"h": np.array(d.integer(1, 3), np.int64), "n": np.array(d.integer(1, 4), np.int64)}
    return Case({"onesided": d.pick(0, 1)}, {"x": f("A", "B", 1)}, constants, "x h  n")


def center_crop_pad(d: Draw) -> Case:
    axes = d.axes(3, 1)
    sizes = i64(*[d.integer(0, 5) for _ in axes])
    return Case({"axes": axes}, {"x": f("A", "B", 3)}, {"s": sizes}, "x s")


def compress(d: Draw) -> Case:
    axis = d.pick(None, 0, 1, -1)
    count = "A" if axis == 0 else "B"
    inputs = {"x": f("A", "B"), "c": (T.BOOL, [2 if axis is None else count])}
    return Case({} if axis is None else {"axis": axis}, inputs)


def concat(d: Draw) -> Case:
    shape = d.shape(1)
    axis, parts = d.axis(len(shape)), d.integer(1, 3)
    inputs: dict[str, Any] = {}
    for i in range(parts):
        part = list(shape)
        part[axis] = d.pick("A", "B", 2)
        inputs[f"x{i}"] = f(*part)
    return Case({"axis": axis}, inputs)


def depth_to_space(d: Draw) -> Case:
    return Case({"blocksize": d.pick(1, 2), "mode": d.pick("DCR", "CRD")}, {"x": f(2, d.pick(4, 8), "A", "B")})


def space_to_depth(d: Draw) -> Case:
    return Case({"blocksize": d.pick(1, 2, 3)}, {"x": f(2, 3, "A", "B")})


def expand(d: Draw) -> Case:
    sizes = i64(*[d.pick(1, 1, 3, 0, 7) for _ in range(d.integer(0, 4))])
    return Case({}, {"x": f(*d.pick([], ["A"], [1, "B"], ["A", 1, "B"]))}, {"s": sizes}, "x s")


def flatten(d: Draw) -> Case:
    shape = d.shape()
    return Case({"axis": d.integer(-len(shape), len(shape))}, {"x": f(*shape)})


def gather(d: Draw) -> Case:
    shape = d.shape(1)
    case = Case({"axis": d.axis(len(shape))}, {"x": f(*shape), "i": (T.INT64, d.shape())})
    case.feeds["i"] = zeros_of(case, "i")
    return case


def zeros_of(case: Case, name: str) -> Callable[..., Any]:
    shape = case.inputs[name][1]
    return lambda binding: np.zeros([binding.get(s, s) for s in shape])


def gather_elements(d: Draw) -> Case:
    shape = d.shape(1)
    axis = d.axis(len(shape))
    indices = list(shape)
    indices[axis] = d.pick("A", "B", 2)
    case = Case({"axis": axis}, {"x": f(*shape), "i": (T.INT64, indices)})
    case.feeds["i"] = zeros_of(case, "i")
    return case


def gather_nd(d: Draw) -> Case:
    batch = d.pick(0, 1)
    case = Case({"batch_dims": batch}, {"x": f("A", 3, 2), "i": (T.INT64, ["A", "B", d.integer(1, 3 - batch)])})
    case.feeds["i"] = zeros_of(case, "i")
    return case


def scatter_elements(d: Draw) -> Case:
    shape = d.shape(1)
    case = Case({"axis": d.axis(len(shape))}, {"x": f(*shape), "i": (T.INT64, shape), "u": f(*shape)})
    case.feeds["i"] = zeros_of(case, "i")
    return case


def scatter_nd(d: Draw) -> Case:
    depth = d.pick(1, 2)
    inputs = {"x": f("A", 3, "B"), "i": (T.INT64, [2, depth]), "u": f(2, *["A", 3, "B"][depth:])}
    case = Case(d.some(reduction="add"), inputs)
    case.feeds["i"] = zeros_of(case, "i")
    return case


def one_hot(d: Draw) -> Case:
    shape = d.shape(1)
    attributes = {"axis": d.integer(-len(shape) - 1, len(shape))}
    constants = {"n": np.array(d.pick(1, 5), np.int64), "v": np.array([0, 1], np.float32)}
    return Case(attributes, {"x": (T.INT64, shape)}, constants, "x n v")


def pad(d: Draw) -> Case:
    axes = d.axes(2, 1)
    mode = d.pick("constant", "edge", "reflect", "wrap")
    pads = i64(*[d.integer(-2, 3) if mode == "constant" else d.integer(0, 2) for _ in range(2 * len(axes))])
    return Case({"mode": mode}, {"x": f("A", "B")}, {"p": pads, "a": i64(*axes)}, "x p  a")


def split(d: Draw) -> Case:
    axis = d.pick(0, 1, -1)
    if d.pick(True, False):
        parts = d.integer(1, 4)
        return Case({"axis": axis, "num_outputs": parts}, {"x": f("A", "B")}, outputs=parts)
    sizes = [d.integer(0, 3) for _ in range(d.integer(1, 3))]
    return Case({"axis": axis}, {"x": f("A", "B")}, {"s": i64(*sizes)}, "x s", outputs=len(sizes))


def squeeze(d: Draw) -> Case:
    if d.pick(True, False):
        return Case({}, {"x": f(*d.pick([1, 3, 1], [2], [1, 1]))})
    return Case({}, {"x": f(1, "A", 1, "B")}, {"a": i64(*d.pick([0], [-2], [0, 2], [2, -4], [1], [-1, 0]))}, "x a")


def unsqueeze(d: Draw) -> Case:
    shape, count = d.shape(), d.integer(1, 2)
    return Case({}, {"x": f(*shape)}, {"a": i64(*d.axes(len(shape) + count, count)[:count])}, "x a")


def tile(d: Draw) -> Case:
    shape = d.shape(1)
    return Case({}, {"x": f(*shape)}, {"r": i64(*[d.integer(0, 3) for _ in shape])}, "x r")


def transpose(d: Draw) -> Case:
    shape = d.shape()
    perm = d.permutation(len(shape))
    return Case(d.some(perm=perm) if shape else {}, {"x": f(*shape)})


def slice_axes(d: Draw) -> Case:
    axes = d.axes(2, 1)
    parts = [[d.pick(-5, -1, 0, 1, 2, 2**63 - 1) for _ in axes] for _ in range(2)]
    steps = [d.pick(1, 2, 3) for _ in axes]
    constants = {"s": i64(*parts[0]), "e": i64(*parts[1]), "a": i64(*axes), "k": i64(*steps)}
    return Case({}, {"x": f("A", "B")}, constants, "x s e a k")


def reduction(d: Draw) -> Case:
    shape = d.shape(1)
    attributes = {"keepdims": d.pick(0, 1), **d.some(noop_with_empty_axes=1)}
    if d.pick(True, False, False):
        return Case(attributes, {"x": f(*shape)})
    return Case(attributes, {"x": f(*shape)}, {"a": i64(*d.axes(len(shape)))}, "x a")


def arg_reduction(d: Draw) -> Case:
    return of_axis(d, keepdims=0, select_last_index=1)


def top_k(d: Draw) -> Case:
    attributes = {"axis": d.pick(0, 2, -1, -3), **d.some(largest=0, sorted=0)}
    return Case(attributes, {"x": f("A", 3, "B")}, {"k": i64(d.integer(0, 3))}, "x k", outputs=2)


def unique(d: Draw) -> Case:
    return Case(d.some(axis=d.pick(0, 1, -1), sorted=0), {"x": f("A", "B")}, outputs=4)


def suppression(d: Draw) -> Case:
    return Case(d.some(center_point_box=1), {"b": f("A", "B", 4), "s": f("A", 2, "B")}, {"k": i64(2)}, "b s k")


def spatial(d: Draw, *, dilated: bool = True) -> tuple[int, dict[str, Any]]:
    """The number of spatial axes, and attributes of a window over them."""
    rank = d.pick(1, 2)
    kernel, strides = ([d.integer(1, 3) for _ in range(rank)] for _ in range(2))
    attributes = {"kernel_shape": kernel, "strides": strides}
    if dilated:
        attributes |= d.some(dilations=[d.integer(1, 2) for _ in range(rank)])
    mode = d.pick("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    if mode == "NOTSET":
        limit = min(attributes["kernel_shape"])
        return rank, attributes | d.some(pads=[d.integer(0, limit - 1) for _ in range(2 * rank)])
    attributes.pop("dilations", None)
    return rank, attributes | {"auto_pad": mode}


def conv(d: Draw) -> Case:
    rank, attributes = spatial(d)
    group = d.pick(1, 2)
    weight = f(4, 2 // group, *attributes["kernel_shape"])
    return Case({**attributes, "group": group}, {"x": f(2, 2, *["A", "B"][:rank]), "w": weight})


def conv_integer(d: Draw) -> Case:
    case = conv(d)
    return Case(case.attributes, {name: (T.UINT8, shape) for name, (_, shape) in case.inputs.items()})


def conv_by_sizes(d: Draw) -> Case:
    """The kernel's size is a symbol."""
    return Case(d.some(strides=[2], dilations=[2], pads=[1, 1]), {"x": f(1, 2, "A"), "w": f(3, 2, "B")}, empty=False)


def conv_transpose(d: Draw) -> Case:
    rank, attributes = spatial(d)
    strides = attributes["strides"]
    if "auto_pad" in attributes:  # else pads would be negative, of which the standard says nothing
        attributes["kernel_shape"] = [max(pair) for pair in zip(attributes["kernel_shape"], strides)]
    extra = d.some(output_padding=[d.integer(0, s - 1) for s in strides]) if "auto_pad" not in attributes else {}
    weight = f(2, 3, *attributes["kernel_shape"])
    if "auto_pad" not in attributes and "pads" not in attributes:
        extra |= d.some(output_shape=[d.integer(4, 9) for _ in range(rank)])
    extra["group"] = d.pick(1, 2)
    return Case({**attributes, **extra}, {"x": f(2, 2, *["A", "B"][:rank]), "w": weight})


def pool(counts: bool) -> Callable[[Draw], Case]:
    def draw(d: Draw) -> Case:
        rank, attributes = spatial(d)
        if "auto_pad" not in attributes:
            attributes |= d.some(ceil_mode=1)
        if counts:
            attributes |= d.some(count_include_pad=1)
        return Case(attributes, {"x": f(2, 3, *["A", "B"][:rank])}, outputs=1 if counts else d.pick(1, 2))

    return draw


def power_pool(d: Draw) -> Case:
    case = pool(False)(d)
    case.outputs = 1
    return case


def resize(d: Draw) -> Case:
    axes = d.axes(2, 1)
    attributes = {"mode": d.pick("nearest", "linear"), "axes": axes}
    if d.pick(True, False):
        scales = np.array([d.pick(0.5, 2.0, 1.0, 1.5, 0.7) for _ in axes], np.float32)
        return Case(attributes, {"x": f("A", "B")}, {"s": scales}, "x  s")
    attributes |= d.some(keep_aspect_ratio_policy=d.pick("stretch", "not_larger", "not_smaller"))
    return Case(attributes, {"x": f("A", "B")}, {"n": i64(*[d.integer(1, 5) for _ in axes])}, "x   n", empty=False)


def roi_align(d: Draw) -> Case:
    attributes = {"output_height": d.integer(1, 3), "output_width": d.integer(1, 3)}
    case = Case(attributes, {"x": f(1, "A", 4, 4), "r": f("B", 4), "i": (T.INT64, ["B"])})
    case.feeds["i"] = zeros_of(case, "i")
    return case


def grid_sample(d: Draw) -> Case:
    return Case(d.some(align_corners=1), {"x": f("A", 2, 3, "B"), "g": f("A", "B", 3, 2)})


def affine_grid(d: Draw) -> Case:
    sizes = d.pick([2, 3, 4, 5], [2, 3, 4, 5, 6])
    axes = len(sizes) - 2
    return Case(d.some(align_corners=1), {"t": f(2, axes, axes + 1)}, {"s": i64(*sizes)}, "t s")


def col2im(d: Draw) -> Case:
    block = [d.integer(1, 2), d.integer(1, 2)]
    attributes = d.some(strides=[2, 1], dilations=[1, 2], pads=[1, 0, 0, 1])
    strides, dilations = attributes.get("strides", [1, 1]), attributes.get("dilations", [1, 1])
    pads = attributes.get("pads", [0, 0, 0, 0])
    reach = [(n - 1) * e + 1 for n, e in zip(block, dilations)]
    steps = [(n + pads[k] + pads[k + 2] - reach[k]) // strides[k] + 1 for k, n in enumerate((4, 5))]
    constants = {"i": i64(4, 5), "b": i64(*block)}
    return Case(attributes, {"x": f("A", 4, steps[0] * steps[1])}, constants, "x i b")


def global_pool(d: Draw) -> Case:
    return Case({}, {"x": f("A", 2, *["B", 3][: d.integer(1, 2)])})


def matmul(d: Draw) -> Case:
    left, right = d.pick([], ["A"], [1], [3, "A"]), d.pick([], ["A"], [1], [3, 1])
    x = [*left, "B", 4] if d.pick(True, True, False) else [4]
    y = [*right, 4, "A"] if d.pick(True, True, False) else [4]
    return Case({}, {"x": f(*x), "y": f(*y)})


def matmul_integer(d: Draw) -> Case:
    case = matmul(d)
    return Case({}, {name: (T.UINT8, shape) for name, (_, shape) in case.inputs.items()})


def gemm(d: Draw) -> Case:
    a, b = d.pick(0, 1), d.pick(0, 1)
    inputs = {"x": f(*["A", 3][:: -1 if a else 1]), "y": f(*[3, "B"][:: -1 if b else 1])}
    if d.pick(True, False):
        inputs["c"] = f(*d.pick([], [1], ["B"], [1, "B"], ["A", 1]))
    return Case({"transA": a, "transB": b}, inputs)


def einsum(d: Draw) -> Case:
    equation, *shapes = d.pick(
        ("ij,jk->ik", ["A", 3], [3, "B"]),
        ("bij,bjk", ["A", 2, 3], ["A", 3, "B"]),
        ("...i,ij->...j", ["A", "B", 3], [3, 2]),
        ("ii->i", ["A", "A"]),
        ("ij->", ["A", "B"]),
        ("i,j->ji", ["A"], ["B"]),
        ("...ij->...ji", [1, "A", "B"]),
        ("a...,...b->a...b", ["A", 3], [3, "B"]),
    )
    return Case({"equation": equation}, {f"x{i}": f(*shape) for i, shape in enumerate(shapes)})


def det(d: Draw) -> Case:
    return Case({}, {"x": f(*d.pick([], ["A"], ["A", "B"]), 3, 3)})


def attention(d: Draw) -> Case:
    heads, shared = d.pick((2, 2), (4, 2), (3, 1))
    if d.pick(True, False):
        inputs = {"q": f("A", heads, 3, 4), "k": f("A", shared, "B", 4), "v": f("A", shared, "B", 5)}
        attributes = d.some(scale=0.5, is_causal=1, softcap=2.0, softmax_precision=T.FLOAT)
        if d.pick(True, False):
            attributes |= d.some(left_window_size=d.integer(-1, 3), right_window_size=d.integer(-1, 3))
            return Case(attributes, inputs, opset=25)
        return Case({**attributes, "qk_matmul_output_mode": d.pick(0, 1, 2, 3)}, inputs, outputs=4, opset=23)
    if d.pick(True, False):
        return Case({}, {"q": f(2, "A", 3, 4), "k": f(2, "B", 2, 4), "v": f(2, "B", 2, 5)}, opset=23)
    inputs = {"q": f("A", 3, 4 * heads), "k": f("A", "B", 4 * shared), "v": f("A", "B", 5 * shared)}
    return Case({"q_num_heads": heads, "kv_num_heads": shared}, inputs, opset=23)


def recurrent(gates: int) -> Callable[[Draw], Case]:
    def draw(d: Draw) -> Case:
        layout, direction = d.pick(0, 1), d.pick("forward", "reverse", "bidirectional")
        count = 2 if direction == "bidirectional" else 1
        x = ["B", "A", 3] if layout else ["A", "B", 3]
        inputs = {"x": f(*x), "w": f(count, gates * 2, 3), "r": f(count, gates * 2, 2)}
        attributes = {"hidden_size": 2, "direction": direction, "layout": layout}
        return Case(attributes, inputs, outputs=3 if gates == 4 else 2)

    return draw


def loss(outputs: int) -> Callable[[Draw], Case]:
    def draw(d: Draw) -> Case:
        places = ["B"][: d.integer(0, 1)]
        inputs: dict[str, Any] = {"x": f("A", 3, *places), "t": (T.INT64, ["A", *places])}
        if d.pick(True, False):
            inputs["w"] = f(3)
        reduction = d.pick("none", "sum", "mean")
        return Case({"reduction": reduction}, inputs, outputs=outputs, empty=reduction == "none")

    return draw


# --- attributes on which no size rests --------------------------------------------------------------------------------

Choices = dict[str, tuple[Any, ...]]


def _each(names: tuple[str, ...], choices: Choices) -> dict[str, Choices]:
    return dict.fromkeys(names, choices)


_CELL: Choices = {"clip": (1.0,)}
_DRAWN_BY: Choices = {"seed": (1.0,)}
MORE: dict[str, Choices] = {
    **_each(("Celu", "Elu", "LeakyRelu", "Swish", "ThresholdedRelu"), {"alpha": (0.5, 2.0)}),
    **_each(("GlobalLpPool", "LpPool", "LpNormalization"), {"p": (1, 2)}),
    "InstanceNormalization": {"epsilon": (1e-3,)},
    **_each(("GroupNormalization", "LayerNormalization", "RMSNormalization"), {"epsilon": (1e-3,), "stash_type": (1,)}),
    **_each(("BlackmanWindow", "HammingWindow", "HannWindow"), {"output_datatype": (T.FLOAT, T.DOUBLE)}),
    **_each(("Bernoulli", "Multinomial"), _DRAWN_BY),
    **_each(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), {"ignore_index": (1, -1)}),
    "RandomNormal": {"dtype": (T.FLOAT, T.DOUBLE), "mean": (1.0,), "scale": (2.0,), **_DRAWN_BY},
    "RandomNormalLike": {"mean": (1.0,), "scale": (2.0,), **_DRAWN_BY},
    "RandomUniform": {"dtype": (T.FLOAT, T.DOUBLE), "low": (-1.0,), "high": (2.0,), **_DRAWN_BY},
    "RandomUniformLike": {"low": (-1.0,), "high": (2.0,), **_DRAWN_BY},
    "BatchNormalization": {"epsilon": (1e-3,), "momentum": (0.5,)},
    "Dropout": {"seed": (1,)},
    "Gelu": {"approximate": ("none", "tanh")},
    "Gemm": {"alpha": (0.5,), "beta": (2.0,)},
    "GridSample": {"mode": ("linear", "nearest"), "padding_mode": ("zeros", "border", "reflection")},
    "HardSigmoid": {"alpha": (0.5,), "beta": (0.25,)},
    "IsInf": {"detect_negative": (0, 1), "detect_positive": (0, 1)},
    "LRN": {"alpha": (0.5,), "beta": (0.5,), "bias": (2.0,)},
    "MaxPool": {"storage_order": (0,)},
    "Resize": {"coordinate_transformation_mode": ("half_pixel", "asymmetric", "align_corners")},
    "RoiAlign": {
        "mode": ("avg", "max"),
        "coordinate_transformation_mode": ("half_pixel", "output_half_pixel"),
        "sampling_ratio": (2,),
        "spatial_scale": (0.5,),
    },
    "ScatterElements": {"reduction": ("none", "add", "mul", "max", "min")},
    "Selu": {"alpha": (0.5,), "gamma": (2.0,)},
    "Shrink": {"bias": (0.5,), "lambd": (0.25,)},
    "GRU": {**_CELL, "linear_before_reset": (0, 1)},
    "LSTM": {**_CELL, "input_forget": (0, 1)},
    "RNN": _CELL,
}

UNDRAWN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("GRU", "LSTM", "RNN"), ("activations", "activation_alpha", "activation_beta")),
    **dict.fromkeys(("Cast", "CastLike"), ("round_mode", "saturate")),
    "DequantizeLinear": ("block_size", "output_dtype"),
    "QuantizeLinear": ("output_dtype", "precision", "saturate"),
    "Resize": ("antialias", "cubic_coeff_a", "exclude_outside", "extrapolation_value", "nearest_mode"),
    "SpaceToDepth": ("mode",),
}
"""Attributes that only some element types or modes allow, on which no size rests."""


def with_more(op_type: str, case: Case, d: Draw) -> Case:
    """The case with some of the attributes on which no size rests."""
    for name, values in MORE.get(op_type, {}).items():
        case.attributes |= d.some(**{name: d.pick(*values)})
    return case
