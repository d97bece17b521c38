"""Nodes of com.microsoft, in the forms that exporters and quantizers write them, with inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper

Array = np.ndarray
RANDOM = np.random.default_rng(5)
MICROSOFT = "com.microsoft"


def f(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def h(*shape: int) -> Array:
    return f(*shape).astype(np.float16)


def u8(*shape: int) -> Array:
    return RANDOM.integers(0, 256, shape).astype(np.uint8)


def s8(*shape: int) -> Array:
    return RANDOM.integers(-128, 128, shape).astype(np.int8)


def i32(*values: Any) -> Array:
    return np.array(values if len(values) != 1 else values[0], np.int32)


def one(value: float, dtype: Any = np.float32) -> Array:
    return np.array(value, dtype)


@dataclass(frozen=True)
class Case:
    """One node.  `inputs` by position, None for an absent one; those at `constant` are initializers.

    `kept` picks what has a meaning of an output; `bound` is the absolute and relative difference that is allowed.
    """

    op: str
    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outputs: Sequence[str] = ("y",)
    constant: frozenset[int] = frozenset()
    bound: float = 1e-5
    kept: Callable[[Array], Array] | None = None
    domain: str = MICROSOFT
    symbolic: bool = False

    def __str__(self) -> str:
        forms = "-".join(f"{k}{v}" for k, v in self.attributes.items() if isinstance(v, int | str))
        return "-".join(filter(None, (self.op, forms, f"{len(self.inputs)}", "symbolic" if self.symbolic else "")))

    def names(self) -> list[str]:
        return ["" if v is None else f"x{k}" for k, v in enumerate(self.inputs)]

    def model(self, opset: int = 21) -> ModelProto:
        """With sizes as they are, or each a symbol of its own."""
        infos, constants = [], []
        for k, (name, value) in enumerate(zip(self.names(), self.inputs)):
            if value is None:
                continue
            if k in self.constant:
                constants.append(numpy_helper.from_array(value, name))
                continue
            sizes = [f"{name}_{axis}" if self.symbolic else n for axis, n in enumerate(value.shape)]
            infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), sizes))
        node = helper.make_node(self.op, self.names(), self.outputs, "node", domain=self.domain, **self.attributes)
        results = [helper.make_empty_tensor_value_info(o) for o in self.outputs if o]
        graph = helper.make_graph([node], "g", infos, results, constants)
        imports = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def feeds(self) -> dict[str, Array]:
        named = zip(self.names(), self.inputs)
        return {n: v for k, (n, v) in enumerate(named) if v is not None and k not in self.constant}


def pointwise() -> Iterator[Case]:
    yield Case("Gelu", [f(3, 4)])
    yield Case("FastGelu", [f(3, 4), f(4)])
    yield Case("BiasGelu", [f(2, 3, 4), f(4)])
    yield Case("QuickGelu", [f(3, 4)], {"alpha": 1.3})
    yield Case("ScaledSiLU", [f(2, 3)], {"alpha": 1.5})
    yield Case("GatedAdd", [f(2, 3, 4), f(2, 3, 4), f(2, 3, 1)])


def normalizations() -> Iterator[Case]:
    small = {"epsilon": 1e-5}
    yield Case("SkipLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8), f(8), f(8)], small, ("y", "", "", "t"))
    yield Case("SkipLayerNormalization", [f(2, 3, 8), f(1, 3, 8), f(8)])
    yield Case("SkipLayerNormalization", [f(2, 3, 8), f(3, 8), f(8), f(8)])
    yield Case("SkipLayerNormalization", [h(2, 3, 8), h(2, 3, 8), h(8), h(8)], small, ("y", "", "", "t"), bound=2e-2)
    yield Case("SkipSimplifiedLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8)], small, ("y", "", "", "t"))
    yield Case("SkipSimplifiedLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8), f(8)], small)
    yield Case("SimplifiedLayerNormalization", [f(2, 3, 8), f(8)], small, ("y", "d"), domain="")
    ids, kinds = i32(RANDOM.integers(0, 10, (2, 5))), i32(RANDOM.integers(0, 2, (2, 5)))
    mask = i32(np.arange(5) < np.array([[3], [5]]))
    tables = [f(10, 8), f(7, 8), f(2, 8), f(8), f(8)]
    yield Case("EmbedLayerNormalization", [ids, kinds, *tables, mask], small, ("y", "m"))
    positions = i32(ids[:, ::-1] % 7)
    single = [tables[0], tables[1], None, *tables[3:]]
    yield Case("EmbedLayerNormalization", [ids, None, *single, None, positions], small, ("y", "m", "t"))
    bytes_ = [u8(10, 8), u8(7, 8), u8(2, 8), u8(8), u8(8)]
    scales, zeros = [one(0.02)] * 5, [one(120, np.uint8)] * 5
    yield Case("QEmbedLayerNormalization", [ids, kinds, *bytes_, mask, *scales, *zeros], small, ("y", "m"), bound=1e-4)
    yield Case("GatedRMSNorm", [f(2, 3, 8), f(4), f(2, 3, 8)], {**small, "activation": "silu"})


def products() -> Iterator[Case]:
    yield Case("FusedMatMul", [f(2, 4, 5), f(2, 6, 4)], {"transA": 1, "transB": 1, "alpha": 0.5})
    yield Case("FusedMatMul", [f(2, 3, 5, 4), f(4, 6)], {"alpha": 2.0}, constant=frozenset({1}))
    yield Case("FusedMatMul", [f(4, 2, 3, 5), f(2, 3, 4, 6)], {"transBatchA": 1, "transA": 1})
    yield Case("FusedMatMul", [f(2, 3, 5, 4), f(4, 2, 3, 6)], {"transBatchB": 1})
    yield Case("TransposeMatMul", [f(4, 5), f(6, 4)], {"transA": 1, "transB": 1})
    image, weights = [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4)], {"pads": [1, 1, 1, 1]}
    yield Case("FusedConv", [*image, f(1, 4, 6, 6)], {**weights, "activation": "Relu"}, bound=1e-4)
    clip = {"activation": "Clip", "activation_params": [-0.5, 0.5]}
    yield Case("FusedConv", image, {**weights, **clip}, bound=1e-4)
    for name, alpha in (("Tanh", None), ("LeakyRelu", 0.2)):
        activation = {"activation": name} | ({} if alpha is None else {"activation_alpha": alpha})
        yield Case("FusedGemm", [f(4, 3), f(5, 3), f(5)], {"transB": 1, "alpha": 0.7, "beta": 0.3, **activation})
    yield Case("Inverse", [f(2, 3, 3)], bound=1e-4)
    yield Case("CDist", [f(4, 3), f(5, 3)], {"metric": "euclidean"}, bound=1e-4)


def movement() -> Iterator[Case]:
    yield Case("ExpandDims", [f(4, 3), one(-1, np.int32)], constant=frozenset({1}))
    yield Case("Range", [one([1]), one([7]), one([1.5])], constant=frozenset({0, 1, 2}))
    yield Case("Trilu", [f(4, 5), one(1, np.int64)], {"upper": 0})
    yield Case("GatherND", [f(4, 5), i32([[1, 2], [3, 0]])], constant=frozenset({1}))
    yield Case("Pad", [f(4, 5), one([[1, 0, 2, -1]], np.int64), one([2.5])], constant=frozenset({1}))
    yield Case("Unique", [one([2, 1, 1, 3, 4, 3])], outputs=("y", "i", "c"))
    yield Case("UnfoldTensor", [f(2, 7, 3)], {"dim": 1, "size": 3, "step": 2})
    yield Case("NhwcMaxPool", [u8(1, 6, 6, 3)], {"kernel_shape": [2, 2], "strides": [2, 2]})
    yield Case("GridSample", [f(1, 3, 6, 6), f(1, 4, 4, 2)], {"mode": "bicubic", "align_corners": 1}, bound=1e-4)


def quantized() -> Iterator[Case]:
    for make in (u8, s8):
        yield from _quantized(make, make(1).dtype)
    for b, zero in ((u8, np.array([1, 2, 3, 4, 5], np.uint8)), (s8, np.array([1, 2, 3, -4, 5], np.int8))):
        yield Case("DynamicQuantizeMatMul", [f(2, 3, 4), b(4, 5), np.abs(f(5)), zero, f(5)], bound=1e-3)
        yield Case("DynamicQuantizeMatMul", [f(3, 4), b(4, 5), one(0.1)], constant=frozenset({1}), bound=1e-3)
        product = [u8(2, 3, 4), b(4, 5), one(0.1), f(5), one(3, np.uint8), zero, f(5)]
        yield Case("MatMulIntegerToFloat", product, bound=1e-3)
        c = i32(RANDOM.integers(-500, 500, 5))
        gemm = [u8(3, 4), one(0.1), one(3, np.uint8), b(5, 4), one(0.02), zero[:1].reshape(()), c]
        yield Case("QGemm", gemm, {"transB": 1, "alpha": 0.5}, bound=1e-3)
        yield Case("QGemm", [*gemm, one(0.5), one(3, np.uint8)], {"transB": 1}, bound=1)
    sixteen = [RANDOM.integers(-3000, 3000, s).astype(np.int16) for s in ((3, 4), (4, 5))]
    yield Case("MatMulInteger16", sixteen)
    for dtype in (np.uint8, np.int16):
        yield Case("QuantizeLinear", [f(3, 4) * 50, one(0.1), one(3, dtype)])
        scales, zeros = np.abs(f(4)) + one(0.1), one([1, 2, 3, 4], dtype)
        yield Case("QuantizeLinear", [f(3, 4) * 50, scales, zeros], {"axis": 1})
        yield Case("DequantizeLinear", [RANDOM.integers(0, 100, (3, 4)).astype(dtype), one(0.1), one(3, dtype)])


def _quantized(make: Callable[..., Array], dtype: Any) -> Iterator[Case]:
    def z(value: int) -> Array:
        return one(value, dtype)

    for op in ("QLinearAdd", "QLinearMul"):
        yield Case(op, [make(3, 4), one(0.1), z(3), make(4), one(0.2), z(5), one(0.3), z(7)], bound=1)
    x = [make(3, 4, 5), one(0.02), z(3)]
    yield Case("QLinearSigmoid", [*x, one(0.004), z(0)], bound=1)
    yield Case("QLinearLeakyRelu", [*x, one(0.03), z(0)], {"alpha": 0.2}, bound=1)
    yield Case("QLinearSoftmax", [*x, one(1 / 256), z(0)], {"axis": -1, "opset": 13}, bound=1)
    yield Case("QLinearSoftmax", [*x, one(1 / 256), z(0)], {"axis": 1, "opset": 11}, bound=1)
    parts = [make(3, 4), one(0.1), z(3), make(3, 2), one(0.2), z(5)]
    yield Case("QLinearConcat", [one(0.1), z(4), *parts], {"axis": 1}, bound=1)
    parts[3] = make(4)
    yield Case("QLinearWhere", [RANDOM.random((3, 4)) > 0.5, *parts, one(0.1), z(4)], bound=1)
    for last in (0, 1):
        image = [make(1, 6, 6, 3) if last else make(1, 3, 6, 6), one(0.1), z(3)]
        to, layout = [one(0.05), z(4)], {"channels_last": last}
        window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
        for inside in (0, 1):
            counted = {**window, **layout, "count_include_pad": inside}
            yield Case("QLinearAveragePool", [*image, *to], counted, bound=1)
        yield Case("QLinearAveragePool", [*image, *to], {**window, **layout, "ceil_mode": 1}, bound=1)
        yield Case("QLinearGlobalAveragePool", [*image, *to], layout, bound=1)
        weights = [RANDOM.integers(-100, 100, (4, 3, 3, 3)).astype(np.int8), one(0.02), one(0, np.int8)]
        conv = [*image, *weights, one(0.5), z(4), i32(1, 2, 3, 4)]
        yield Case("QLinearConv", conv, {"pads": [1, 1, 1, 1], **layout}, constant=frozenset({3}), bound=1)


B, S, N, SIZE, PAST = 2, 4, 3, 8, 3
HIDDEN = N * SIZE


def attention() -> Iterator[Case]:
    base, heads = [f(B, S, 10), f(10, 3 * HIDDEN), f(3 * HIDDEN)], {"num_heads": N}
    weights = frozenset({1, 2})
    masks = (
        i32(np.arange(S) < np.array([[3], [4]])),
        i32(3, 4),
        i32(4, 3, 1, 0),
        i32(RANDOM.integers(0, 2, (B, S, S))),
    )
    for mask in masks:
        yield Case("Attention", [*base, mask], heads, constant=weights, bound=1e-4)
    causal = {**heads, "unidirectional": 1}
    past = f(2, B, N, PAST, SIZE)
    padding = i32(np.arange(S + PAST) < np.array([[5], [7]]))
    yield Case("Attention", [*base, padding, past], {**causal, "scale": 0.3}, ("y", "p"), bound=1e-4)
    yield Case("Attention", [*base, None, None, f(B, N, S, S)], causal, ("y", "p"), bound=1e-4)
    sizes = {"qkv_hidden_sizes": [24, 24, 12]}
    yield Case("Attention", [f(B, S, 10), f(10, 60), f(60)], {**heads, **sizes}, bound=1e-4)
    bytes_ = [u8(B, S, 10), s8(10, 3 * HIDDEN), f(3 * HIDDEN), one(0.02), one(0.02)]
    zeros = [one(120, np.uint8), one(0, np.int8)]
    yield Case("QAttention", [*bytes_, masks[0], *zeros], heads, constant=frozenset({1, 2}), bound=1e-3)
    yield Case("QAttention", [*bytes_, None, *zeros, past], causal, ("y", "p"), bound=1e-3)
    q, k, v = f(B, S, HIDDEN), f(B, S + 1, HIDDEN), f(B, S + 1, 12)
    yield Case("MultiHeadAttention", [q, k, v], heads, bound=1e-4)
    keys = i32(np.arange(S + 1) < np.array([[3], [4]]))
    more = [f(3 * HIDDEN), keys, f(1, N, S, S + 1)]
    yield Case("MultiHeadAttention", [q, k, k, *more], heads, ("y", "k", "v"), bound=1e-4)
    for queries in (1, 3):  # the last query sees all keys
        crossed = [f(B, queries, N * SIZE), f(B, 5, N * SIZE), f(B, 5, N * SIZE)]
        yield Case("MultiHeadAttention", crossed, {**heads, "unidirectional": 1}, bound=1e-4)
    yield Case("MultiHeadAttention", [q, f(B, N, 5, SIZE), f(B, N, 5, SIZE)], heads, bound=1e-4)
    caches = [None, None, None, f(B, N, PAST, SIZE), f(B, N, PAST, SIZE)]
    yield Case("MultiHeadAttention", [q, q, q, *caches], causal, ("y", "k", "v"), bound=1e-4)
    angles = [f(9, 4), f(9, 4)]
    places = RANDOM.integers(0, 9, (B, S)).astype(np.int64)
    for interleaved in (0, 1):
        turn = {"interleaved": interleaved}
        yield Case("RotaryEmbedding", [f(B, N, S, SIZE), one([2], np.int64), *angles], turn)
        wide = {**turn, "rotary_embedding_dim": 8, "num_heads": N}
        yield Case("RotaryEmbedding", [f(B, S, N * 16), places, *angles], wide)


def grouped() -> Iterator[Case]:
    def case(
        queries: int, past: int, lengths: Sequence[int], total: int, *, turn: bool = False, packed: bool = False,
        bias: bool = False, sink: bool = False, **attributes: Any,
    ) -> Case:  # fmt: skip
        batch = len(lengths)
        qkv = [f(batch, queries, 128), None, None] if packed else [f(batch, queries, n) for n in (64, 32, 32)]
        inputs: list[Array | None] = [*qkv, f(batch, 2, past, 16), f(batch, 2, past, 16), i32(lengths) - 1, i32(total)]
        inputs += [f(32, 8), f(32, 8)] if turn else [None, None]
        inputs += [None, f(batch, 4, queries, total) if bias else None, f(4) if sink else None]
        while inputs[-1] is None:
            inputs.pop()
        first = queries == total

        def kept(y: Array) -> Array:  # rows of queries behind a sample's end, and of keys, mean nothing
            rows = [n if first else queries for n in lengths]
            parts = [y[b, :n] if y.ndim == 3 else y[b, :, :m] for b, (n, m) in enumerate(zip(rows, lengths))]
            return np.concatenate([part.reshape(-1) for part in parts])

        known = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": int(turn), **attributes}
        return Case("GroupQueryAttention", inputs, known, ("y", "k", "v"), bound=1e-4, kept=kept)

    yield case(4, 0, [4, 3], 4, turn=True)
    yield case(4, 8, [4, 3], 4, turn=True)
    yield case(1, 5, [6, 4], 6, turn=True, rotary_interleaved=1)
    yield case(3, 4, [7], 7, turn=True, packed=True)
    yield case(6, 0, [6], 6, local_window_size=2)
    yield case(1, 5, [6, 4], 6, softcap=5.0, scale=0.3)
    yield case(4, 0, [4, 4], 4, smooth_softmax=1)
    yield case(1, 5, [6, 4], 6, bias=True, sink=True)
    yield case(4, 0, [4, 4], 4, causal=0)


def packed() -> Iterator[Case]:
    for bits in (2, 4, 8):
        depth, columns, block = 40, 7, 32
        blocks = 2
        b, scales = u8(columns, blocks, block * bits // 8), np.abs(f(columns, blocks)) * one(0.05)
        zeros = u8(columns, -(-blocks * bits // 8))
        known = {"K": depth, "N": columns, "bits": bits, "block_size": block}
        constant = frozenset({1, 2, 3, 5})
        yield Case("MatMulNBits", [f(2, 3, depth), b, scales, zeros], known, constant=constant, bound=1e-3)
        rest = [None, None, f(columns)]
        yield Case("MatMulNBits", [f(2, 3, depth), b, scales, *rest], known, constant=constant, bound=1e-3)
        if bits > 2:
            data, scales = u8(10, 32 * bits // 8), np.abs(f(10, 2))
            rows = RANDOM.integers(0, 10, (2, 3)).astype(np.int64)
            known = {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}
            zeros = u8(10, 2 * bits // 8)
            yield Case("GatherBlockQuantized", [data, rows, scales], known, constant=frozenset({0, 2}))
            yield Case("GatherBlockQuantized", [data, rows, scales, zeros], known, constant=frozenset({0, 2, 3}))


def recurrent() -> Iterator[Case]:
    def case(
        directions: int, *, signed: bool = False, lengths: Sequence[int] = (), states: bool = False,
        peepholes: bool = False, **attributes: Any,
    ) -> Case:  # fmt: skip
        steps, batch, size, hidden = 4, 2, 6, 8
        make, zero = (s8, one([0] * directions, np.int8)) if signed else (u8, one([125] * directions, np.uint8))
        scale = one(0.004) * np.ones((directions, 4 * hidden) if signed else directions, np.float32)
        zeros = np.zeros(scale.shape, np.int8) if signed else zero
        inputs = [
            f(steps, batch, size), make(directions, size, 4 * hidden), make(directions, hidden, 4 * hidden),
            f(directions, 8 * hidden), i32(*lengths) if lengths else None,
            *([f(directions, batch, hidden)] * 2 if states else [None, None]),
            f(directions, 3 * hidden) if peepholes else None, scale, zeros, scale, zeros,
        ]  # fmt: skip
        constant = frozenset({1, 2, 8, 9, 10, 11})
        known = {"hidden_size": hidden, **attributes}
        return Case("DynamicQuantizeLSTM", inputs, known, ("y", "h", "c"), constant=constant, bound=1e-4)

    yield case(1)
    yield case(1, direction="reverse", lengths=(4, 1))
    yield case(2, direction="bidirectional", signed=True, states=True)
    yield case(1, peepholes=True, states=True)
    yield case(1, input_forget=1, activations=["Sigmoid", "Relu", "Tanh"])
    yield case(2, direction="bidirectional", lengths=(1, 4), states=True, peepholes=True, input_forget=1)
    yield case(1, direction="reverse", lengths=(2, 4), states=True, signed=True, peepholes=True)
    yield case(1, clip=3.0, peepholes=True)
    yield case(1, direction="reverse", clip=2.5, lengths=(3, 1))
    names = ["HardSigmoid", "ScaledTanh", "Elu", "Sigmoid", "Affine", "LeakyRelu"]
    given = {"activation_alpha": [0.3, 0.9, 0.5, 0.8, 0.2], "activation_beta": [0.4, 0.7, 0.1]}
    yield case(2, direction="bidirectional", activations=names, states=True, **given)
    names = ["Sigmoid", "Softsign", "ThresholdedRelu"]
    yield case(1, activations=names, activation_alpha=[0.2], lengths=(2, 3))


def experts() -> Iterator[Case]:
    rows, count, size, inner = 7, 5, 32, 16
    for name in ("relu", "gelu", "silu", "identity"):
        known = {"k": 2, "activation_type": name, "normalize_routing_weights": int(name != "gelu")}
        weights = [f(count, inner, size) * 0.3, f(count, inner), f(count, size, inner) * 0.3, f(count, size)]
        yield Case("MoE", [f(rows, size), f(rows, count), *weights], known, constant=frozenset({2, 3, 4, 5}))
    turns = {"k": 3, "activation_type": "swiglu", "swiglu_fusion": 1}
    limits = {"activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 2.0}
    weights = [f(count, 2 * inner, size) * 0.3, None, f(count, size, inner) * 0.3]
    yield Case("MoE", [f(2, 3, size), f(6, count), *weights], {**turns, **limits})
    for bits, block in ((2, 0), (4, 0), (4, 16), (8, 0)):
        for given in (False, True):
            shapes = [(count, 2 * inner, size), (count, size, inner)]
            layers: list[Array | None] = []
            zeros: list[Array | None] = []
            for number, (_, columns, depth) in enumerate(shapes):
                scales = (count, columns, depth // block) if block else (count, columns)
                layers += [
                    u8(count, columns, depth * bits // 8),
                    RANDOM.uniform(0.001, 0.02, scales).astype(np.float32),
                ]
                layers.append(f(*shapes[number][:2]))
                packed = -(-(depth // block) * bits // 8) if block else columns * bits // 8
                zeros.append(u8(count, columns, packed) if block else u8(count, packed))
            known = {**turns, "expert_weight_bits": bits, "normalize_routing_weights": 1}
            known |= {"block_size": block} if block else {}
            inputs = [f(rows, size), f(rows, count), *layers]
            if given:
                inputs += [None, None, None, *zeros, None, np.abs(f(rows, count))]
            constant = frozenset({2, 3, 4, 5, 6, 7, 11, 12})
            yield Case("QMoE", inputs, known, constant=constant, bound=1e-4)


def decoding() -> Iterator[Case]:
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    rows = [f(2, 5, 16), f(2, 5, 8), f(2, 5, 12)]
    yield Case("LinearAttention", [*rows, None, -np.abs(f(2, 5, 2)), np.abs(f(2, 5, 2))], heads, ("y", "s"))
    yield Case("LinearAttention", [*rows, f(2, 2, 4, 6)], {**heads, "update_rule": "linear", "scale": 0.3}, ("y", "s"))
    yield Case("LinearAttentionGate", [f(2, 5, 3), f(3), f(3), f(2, 5, 3)], {}, ("d", "r"))
    yield Case("LinearAttentionGate", [f(2, 5, 3), f(3), f(3)])
    yield Case("CausalConvWithState", [f(2, 4, 6), f(4, 1, 3), f(4)], {"activation": "silu"}, ("y", "s"))
    yield Case(
        "CausalConvWithState", [f(2, 4, 1), f(4, 1, 3), None, f(2, 4, 4)], {"dilation": 2}, ("y", "s"), frozenset({1})
    )
    turned = [f(2, 6, 2, 2), f(4, 1, 3), f(4), f(2, 2, 2, 2)]
    yield Case("CausalConvWithState", turned, {"channels_last": 1}, ("y", "s"))
    for kind in (0, 1):
        packed, known = [f(3, 32), u8(16 * 32 // 2), np.abs(f(16 * 32 // 16))], {"K": 32, "N": 16, "block_size": 16}
        yield Case("MatMulBnb4", packed, {**known, "quant_type": kind}, constant=frozenset({1, 2}))
    step = [f(2, 1, 8) for _ in range(3)]
    buffers = [f(2, 2, 6, 4), f(2, 2, 6, 4), i32([3])]
    shared = {"num_heads": 2, "past_present_share_buffer": 1}
    given = ("y", "k", "v")
    yield Case("DecoderMaskedMultiHeadAttention", [*step, None, None, *buffers], shared, given)
    mask = i32([[0, 1, 1, 1], [1, 1, 1, 1]])
    biased = [*step, mask, None, *buffers, None, None, f(24)]
    yield Case("DecoderMaskedMultiHeadAttention", biased, shared, given)
    yield Case("DecoderMaskedMultiHeadAttention", [f(2, 1, 8), f(2, 2, 6, 4), f(2, 2, 6, 4)], {"num_heads": 2})
    regions = np.array([[0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], [-0.2, 0.1, 1.2, 0.5], [0.9, 0.8, 0.2, 0.1]], np.float32)
    for mode in ("bilinear", "nearest"):
        for size in (i32([4, 5]), i32([1, 3])):
            crops = [f(2, 3, 8, 9), regions, i32([0, 1, 1, 0]), size]
            yield Case("CropAndResize", crops, {"mode": mode, "extrapolation_value": 2.0})


def cases() -> list[Case]:
    """All of them."""
    families = (
        pointwise, normalizations, products, movement, quantized, attention, grouped, packed, recurrent, experts,
        decoding,
    )  # fmt: skip
    return [case for family in families for case in family()]
