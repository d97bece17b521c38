"""Products of dequantized bytes as integer products: where they fire, and that they are closer to the exact sums."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper, parser

import sardonyx as sx
from sardonyx.compiler import host_target

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
X_SCALE, W_SCALES = np.float32(0.02), (np.abs(RNG.standard_normal(24)) * 0.01 + 0.001).astype(np.float32)


def bytes_of(dtype: type, *shape: int) -> Array:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


@dataclass(frozen=True)
class Case:
    """A graph on x (f32) and constants by name; `sums` counts the integer products that there should be."""

    text: str
    x: tuple[int, ...]
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    sums: int = 1

    def model(self) -> onnx.ModelProto:
        graph = parser.parse_graph(self.text)
        common = {"xs": np.array(X_SCALE), "xz": np.array(120, np.uint8), "ys": np.array(0.1, np.float32)}
        common |= {"yz": np.array(7, np.uint8), "wz": np.array(0, np.int8), "ws": np.array(0.01, np.float32)}
        used = {name for node in graph.node for name in node.input}
        for name, value in (common | self.constants).items():
            if name in used:
                graph.initializer.append(numpy_helper.from_array(value, name))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
        model.ir_version = 10
        return model


QUANTIZED = "q = QuantizeLinear(x, xs, xz) a = DequantizeLinear(q, xs, xz)"
W = {"w": bytes_of(np.int8, 40, 24), "ws": W_SCALES, "wz": np.zeros(24, np.int8)}
T = {"w": bytes_of(np.int8, 24, 40), "ws": W_SCALES, "wz": np.zeros(24, np.int8)}
K = {"w": bytes_of(np.int8, 24, 8, 3, 3), "ws": W_SCALES, "wz": np.zeros(24, np.int8)}
BIAS = {"bq": RNG.integers(-1000, 1000, 24).astype(np.int32), "bs": W_SCALES * X_SCALE, "bz": np.zeros(24, np.int32)}
GEMM = f"g (float[5, 40] x) => (float[5, 24] y) {{ {QUANTIZED} b = DequantizeLinear<axis = 0>(w, ws, wz) "
CONV = f"g (float[1, 8, 9, 9] x) => (float[1, 24, 9, 9] y) {{ {QUANTIZED} "

CASES = {
    "by column": Case(
        f"g (float[N, 40] x) => (float[N, 24] y) {{ {QUANTIZED} b = DequantizeLinear(w, ws, wz) y = MatMul(a, b) }}",
        (5, 40), W,
    ),
    "zero points by column": Case(
        f"""g (float[N, 40] x) => (float[N, 24] y)
        {{ {QUANTIZED} b = DequantizeLinear(w, ws, wz) y = MatMul(a, b) }}""",
        (5, 40), {**W, "wz": bytes_of(np.int8, 24)},
    ),
    "one scale": Case(
        f"""g (float[2, 5, 40] x) => (float[2, 5, 24] y)
        {{ {QUANTIZED} b = DequantizeLinear(w, ws, wz) y = MatMul(a, b) }}""",
        (2, 5, 40), {"w": bytes_of(np.uint8, 40, 24), "wz": np.array(99, np.uint8)},
    ),
    "by row": Case(
        f"""g (float[5, 40] x) => (float[5, 24] y)
        {{ {QUANTIZED} b = DequantizeLinear<axis=0>(w, ws) y = MatMul(a, b) }}""",
        (5, 40), {"w": bytes_of(np.int8, 40, 24), "ws": np.full(40, 0.01, np.float32)}, sums=0,
    ),
    "by blocks": Case(
        f"""g (float[5, 40] x) => (float[5, 24] y)
        {{ {QUANTIZED} b = DequantizeLinear<axis=0, block_size=20>(w, ws) y = MatMul(a, b) }}""",
        (5, 40), {"w": bytes_of(np.int8, 40, 24), "ws": np.full((2, 24), 0.01, np.float32)}, sums=0,
    ),
    "16 bits": Case(
        f"g (float[5, 40] x) => (float[5, 24] y) {{ {QUANTIZED} b = DequantizeLinear(w, ws) y = MatMul(a, b) }}",
        (5, 40), {"w": bytes_of(np.int16, 40, 24)}, sums=0,
    ),
    "too long": Case(
        f"g (float[1, 33100] x) => (float[1, 2] y) {{ {QUANTIZED} b = DequantizeLinear(w, ws) y = MatMul(a, b) }}",
        (1, 33100), {"w": bytes_of(np.int8, 33100, 2)}, sums=0,
    ),
    "no bytes": Case(
        "g (float[5, 40] x) => (float[5, 24] y) { b = DequantizeLinear(w, ws, wz) y = MatMul(x, b) }",
        (5, 40), W, sums=0,
    ),
    "two products": Case(
        f"""g (float[6, 6] x) => (float[6, 6] y) {{ {QUANTIZED} m = MatMul(a, a) r = Relu(m)
        p = QuantizeLinear(r, ys, yz) b = DequantizeLinear(p, ys, yz) y = MatMul(b, a) }}""",
        (6, 6), sums=2,
    ),
    "dynamic": Case(
        """g (float[5, 40] x) => (float[5, 24] y)
        { q, s, z = DynamicQuantizeLinear(x) a = DequantizeLinear(q, s, z) b = DequantizeLinear(w, ws, wz)
        y = MatMul(a, b) }""",
        (5, 40), {"w": bytes_of(np.int8, 40, 24)},
    ),
    "gemm": Case(GEMM + "c = DequantizeLinear<axis=0>(bq, bs, bz) y = Gemm<transB=1>(a, b, c) }", (5, 40), T | BIAS),
    "gemm, no bias": Case(GEMM + "y = Gemm<transB=1>(a, b) }", (5, 40), T),
    "gemm, alpha": Case(GEMM + "y = Gemm<transB=1, alpha=2.0>(a, b) }", (5, 40), T, sums=0),
    "conv": Case(
        CONV + """b = DequantizeLinear<axis=0>(w, ws, wz) c = DequantizeLinear<axis=0>(bq, bs, bz)
        m = Conv<pads=[1, 1, 1, 1]>(a, b, c) r = Relu(m) p = QuantizeLinear(r, ys, yz)
        y = DequantizeLinear(p, ys, yz) }""",
        (1, 8, 9, 9), K | BIAS,
    ),
    "conv of groups, one scale, a zero point": Case(
        CONV + "b = DequantizeLinear(w, ws, wz) y = Conv<pads=[1, 1, 1, 1], group=4>(a, b) }",
        (1, 8, 9, 9), {"w": bytes_of(np.uint8, 24, 2, 3, 3), "wz": np.array(130, np.uint8)},
    ),
    "conv by another axis": Case(
        CONV + "b = DequantizeLinear<axis=1>(w, ws) y = Conv<pads=[1, 1, 1, 1]>(a, b) }",
        (1, 8, 9, 9), K | {"ws": np.full(8, 0.01, np.float32)}, sums=0,
    ),
    "conv along one axis": Case(
        f"""g (float[1, 8, 9] x) => (float[1, 24, 7] y)
        {{ {QUANTIZED} b = DequantizeLinear<axis=0>(w, ws, wz) c = DequantizeLinear<axis=0>(bq, bs, bz)
        y = Conv(a, b, c) }}""",
        (1, 8, 9), K | BIAS | {"w": bytes_of(np.int8, 24, 8, 3)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_where_it_fires(name: str) -> None:
    """And what it leaves alone; with `exact` that is everything."""
    case = CASES[name]
    for exact, expected in ((False, case.sums), (True, 0)):
        text = str(sx.lower(case.model(), to="graph", exact=exact))
        assert text.count("onnx.MatMulInteger") + text.count("onnx.ConvInteger") == expected


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.sums])
def test_results_are_close_to_exact_ones_and_to_onnxruntime(name: str) -> None:
    """Within a few roundings of f64, so nearer than f32 products; where they are quantized again, within one step."""
    case = CASES[name]
    model, x = case.model(), (RNG.standard_normal(case.x) * 2).astype(np.float32)
    program = sx.compile(model, cache=False)
    ours = program(x=x)["y"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    theirs = session.run(None, {"x": x})[0]
    f32 = sx.compile(model, cache=False, exact=True)(x=x)["y"]
    step = 0.1 if "QuantizeLinear(r" in case.text else 0
    scale = np.abs(f32).max()
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=step * 1.001 + 1e-6 * scale)
    np.testing.assert_allclose(ours, f32, rtol=0, atol=step * 1.001 + 2e-6 * scale)
    assert sx.compile(model, cache=False, fuse=False)(x=x)["y"].tobytes() == ours.tobytes()


@pytest.mark.parametrize("name", ["one for all", "by channel", "zero points by channel"])
def test_one_channel_to_a_group_is_a_convolution_of_integers_in_floats(name: str) -> None:
    """Its kernel reads bytes, which become floats where they are copied, less the zero point: the padding is 0."""
    constants: dict[str, Array] = {"w": bytes_of(np.int8, 24, 1, 3, 3), "wz": np.array(3, np.int8)}
    if name != "one for all":
        constants |= {"ws": W_SCALES, "wz": np.zeros(24, np.int8)}
    if name == "zero points by channel":
        constants["wz"] = bytes_of(np.int8, 24)
    text = (
        CONV
        + """b = DequantizeLinear<axis=0>(w, ws, wz) m = Conv<pads=[1, 1, 1, 1], group=8>(a, b)
        p = QuantizeLinear(m, ys, yz) y = DequantizeLinear(p, ys, yz) }"""
    )
    case = Case(text, (1, 8, 9, 9), constants)
    model, x = case.model(), (RNG.standard_normal(case.x) * 2).astype(np.float32)
    program = sx.compile(model, cache=False)
    [(consumer, reason)] = [
        (f["consumer"], f["reason"])
        for function in program.explain().to_dict()["functions"].values()
        for f in function["fused"]
        if "Conv" in f["consumer"]
    ]
    assert (consumer, reason) == ("onnx.Conv", "prologue")
    found = program(x=x)["y"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(found, session.run(None, {"x": x})[0], rtol=0, atol=0.1001)
    assert sx.compile(model, cache=False, fuse=False)(x=x)["y"].tobytes() == found.tobytes()


def test_the_bound_against_f64() -> None:
    """The sum is exact; conversion, both scales and their use, and the bias round once each: 5 half units."""
    case = CASES["gemm"]
    x = (RNG.standard_normal(case.x) * 2).astype(np.float32)
    ours = sx.compile(case.model(), cache=False)(x=x)["y"].astype(np.float64)
    quantized = np.clip(np.rint(x / X_SCALE) + 120, 0, 255) - 120.0
    constants = {name: value.astype(np.float64) for name, value in case.constants.items()}
    product = (quantized @ constants["w"].T) * float(X_SCALE) * constants["ws"]
    bias = constants["bq"] * constants["bs"]
    bound = 5 * 2.0**-24 * (np.abs(product) + np.abs(bias))
    assert (np.abs(ours - (product + bias)) <= bound).all()


@pytest.mark.skipif(not host_target().has("avx512vnni"), reason="this CPU has no dot products of bytes")
@pytest.mark.parametrize("name", ["by column", "gemm", "conv", "dynamic"])
def test_the_kernel_has_the_cpus_dot_products_and_what_follows(name: str) -> None:
    program = sx.compile(CASES[name].model(), cache=False)
    [(kernel, function)] = [
        (k, f) for k, f in program.explain().to_dict()["functions"].items() if "Integer" in str(f["ops"])
    ]
    assert "vpdpbusd" in program.kernels[kernel].asm
    expected = {"gemm": {"onnx.Add"}, "conv": {"onnx.Add", "onnx.Relu", "onnx.QuantizeLinear"}}.get(name, set())
    assert {"onnx.Cast", "onnx.Mul", *expected} <= set(function["ops"])


@pytest.mark.skipif(not host_target().has("avx512vnni"), reason="this CPU has no dot products of bytes")
@pytest.mark.parametrize(
    "text",
    [
        "g (uint8[9, 40] a, int8[40, 33] b) => (int32[9, 33] y) { y = MatMulInteger(a, b) }",
        "g (int8[1, 8, 9, 9] x, int8[24, 8, 3, 3] w) => (int32[1, 24, 7, 7] y) { y = ConvInteger(x, w) }",
        """g (uint8[9, 40] a, float s, uint8 z, int8[40, 33] b, float t, int8 v) => (uint8[9, 33] y)
        { y = QLinearMatMul(a, s, z, b, t, v, s, z) }""",
        """g (uint8[1, 8, 9, 9] x, float s, uint8 z, int8[24, 8, 3, 3] w, float t, int8 v) => (uint8[1, 24, 7, 7] y)
        { y = QLinearConv(x, s, z, w, t, v, s, z) }""",
    ],
)
def test_operators_of_integers_have_them_too(text: str) -> None:
    model = helper.make_model(parser.parse_graph(text), opset_imports=[helper.make_opsetid("", 21)])
    [kernel] = sx.compile(model, cache=False).kernels.values()
    assert "vpdpbusd" in kernel.asm


@pytest.mark.parametrize("zero", [0, 127, 128, 255])
@pytest.mark.parametrize(
    "text",
    [
        "g (uint8[9, 40] a, uint8[40, 33] b) => (int32[9, 33] y) { y = MatMulInteger(a, b, z, z) }",
        "g (uint8[1, 8, 9, 9] a, uint8[24, 8, 3, 3] b) => (int32[1, 24, 9, 9] y) "
        "{ y = ConvInteger<pads=[1, 1, 1, 1]>(a, b, z, z) }",
    ],
)
def test_zero_points_that_are_constants(text: str, zero: int) -> None:
    """Unsigned ones of 128 and above too, which look like negative ones where types have no sign."""
    graph = parser.parse_graph(text)
    graph.initializer.append(numpy_helper.from_array(np.array(zero, np.uint8), "z"))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    feeds = {i.name: bytes_of(np.uint8, *(d.dim_value for d in i.type.tensor_type.shape.dim)) for i in graph.input}
    expected = sx.run(sx.lower(model, to="graph"), feeds)["y"]
    np.testing.assert_array_equal(sx.compile(model, cache=False)(feeds)["y"], expected)
