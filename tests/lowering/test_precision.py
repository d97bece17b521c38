"""The precision mode bf16: what templates compute in it, against products of rounded factors in f64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from llvmlite import binding
from sardonyx.lowering.kernels.packing import as_pairs, rounded_to_bf16
from sardonyx.lowering.kernels.precision import PRECISION
from sardonyx.semantics.reference import REFERENCE
from sardonyx.semantics.tensor_templates import as_bf16

import sardonyx as sx
from sardonyx.compiler import lower

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
U = 2.0**-8
"""Half a unit in the last of the 8 bits of a bf16."""

has_mode = pytest.mark.skipif(
    not (binding.get_host_cpu_name().startswith("znver") and binding.get_host_cpu_features().get("avx512bf16")),
    reason="the machine has no fast products of bf16",
)


def model(text: str, **constants: Array) -> onnx.ModelProto:
    graph = onnx.parser.parse_graph(text)
    graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in constants.items())
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 22)], ir_version=10)


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def halves(x: Array) -> Array:
    return as_bf16(x).astype(np.float64)


def check(y: Array, a: Array, b: Array, terms: int) -> None:
    """The product of the rounded factors, but for the order and rounding of f32 sums; and the stated bound."""
    magnitude = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    assert (np.abs(y - halves(a) @ halves(b)) <= terms * 2.0**-24 * magnitude).all()
    assert (np.abs(y - a.astype(np.float64) @ b) <= (2 * U + U * U + terms * 2.0**-24) * magnitude).all()


@has_mode
@pytest.mark.parametrize("depth", [3, 64, 1601])
@pytest.mark.parametrize("rows", [1, 4, 14, 30])
def test_products_by_constants(rows: int, depth: int) -> None:
    x = normal(rows, depth)
    for columns, transposed in ((1, 0), (40, 0), (70, 1)):
        w = normal(columns, depth) if transposed else normal(depth, columns)
        text = f"g (float[M, {depth}] x) => (float[M, {columns}] y) {{ y = Gemm<transB = {transposed}>(x, w) }}"
        for rows_known in (True, False):
            given = text.replace("M", str(rows)) if rows_known else text
            y = sx.compile(model(given, w=w), precision="bf16")(x)["y"]
            check(y, x, w.T if transposed else w, depth)


@has_mode
@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("rows", [1, 4, 29])
def test_products_of_computed_operands(rows: int, trans_a: int, trans_b: int) -> None:
    program = sx.compile(
        model(f"g (float[M, K] x, float[N, L] w) => (float[P, Q] y) {{ y = Gemm<transA = {trans_a}, transB = {trans_b}>"
              "(x, w) }"), precision="bf16")  # fmt: skip
    known = (
        f"g (float[{'K, R' if trans_a else 'R, K'}] x, float[{'N, K' if trans_b else 'K, N'}] w) => (float[R, N] y)"
        f"{{ y = Gemm<transA = {trans_a}, transB = {trans_b}>(x, w) }}"
    )
    for depth, columns in ((33, 40), (900, 17), (2, 1)):
        a, b = normal(rows, depth), normal(depth, columns)
        x, w = a.T.copy() if trans_a else a, b.T.copy() if trans_b else b
        y = program(x, w)["y"]
        check(y, a, b, depth)
        sized = known.replace("R", str(rows)).replace("K", str(depth)).replace("N", str(columns))
        assert sx.compile(model(sized), precision="bf16")(x, w)["y"].tobytes() == y.tobytes()


@has_mode
def test_batches() -> None:
    a, b = normal(3, 2, 5, 65), normal(2, 65, 33)
    y = sx.compile(model("g (float[B, 2, M, K] a, float[2, K, N] b) => (float[B, 2, M, N] y) { y = MatMul(a, b) }"),
                   precision="bf16")(a, b)["y"]  # fmt: skip
    check(y, a, b, 65)


CONVOLUTIONS = [
    # images, channels, sizes, output channels, window, stride, pads, groups, dilation, constant weights
    ((1, 64, 14, 14), 64, 1, 1, 0, 1, 1, True),
    ((2, 65, 9, 9), 33, 1, 1, 0, 1, 1, True),
    ((1, 16, 13, 11), 20, 3, 1, 1, 1, 1, True),
    ((1, 15, 13, 11), 20, 3, 2, 1, 1, 1, True),
    ((1, 3, 32, 32), 16, 7, 2, 3, 1, 1, True),
    ((3, 20, 10, 10), 20, 3, 1, 2, 4, 2, True),
    ((1, 9, 8, 8), 9, 3, 1, 1, 3, 1, True),
    ((1, 16, 8, 8), 8, 1, 2, 0, 1, 1, False),
    ((2, 7, 8, 8), 33, 3, 1, 1, 1, 1, False),
    ((1, 256, 7, 7), 96, 1, 1, 0, 1, 1, True),
    ((1, 512, 7, 7), 64, 3, 1, 1, 1, 1, True),
    ((1, 24, 40), 17, 5, 1, 2, 1, 1, True),
    ((1, 4, 5, 6, 7), 6, 2, 1, 1, 1, 1, True),
]


@has_mode
@pytest.mark.parametrize(("x_shape", "rows", "k", "stride", "pad", "group", "dilation", "constant"), CONVOLUTIONS)
@pytest.mark.parametrize("prologue", [False, True])
def test_convolutions(
    x_shape: tuple[int, ...], rows: int, k: int, stride: int, pad: int, group: int, dilation: int, constant: bool,
    prologue: bool,
) -> None:  # fmt: skip
    axes = len(x_shape) - 2
    x, w = normal(*x_shape), normal(rows, x_shape[1] // group, *[k] * axes)
    attributes = {"strides": [stride] * axes, "pads": [pad] * 2 * axes, "group": group, "dilations": [dilation] * axes}
    node = f"Conv<{', '.join(f'{name} = {value}' for name, value in attributes.items())}>"
    sizes = ", ".join(map(str, x_shape[1:]))
    weight = "" if constant else f", float[{', '.join(map(str, w.shape))}] w"
    head = f"g (float[N, {sizes}] x{weight}) => (float y)"
    body = f"{{ z = Abs(x)  c = {node}(z, w)  y = Relu(c) }}" if prologue else f"{{ y = {node}(x, w) }}"
    m = model(f"{head} {body}", **({"w": w} if constant else {}))
    feeds = (x,) if constant else (x, w)
    y = sx.compile(m, precision="bf16")(*feeds)["y"]
    assert sx.compile(m, precision="bf16", fuse=False, threads=1)(*feeds)["y"].tobytes() == y.tobytes()

    def exact(a: Array, b: Array) -> Array:
        return np.asarray(REFERENCE["", "Conv"]([a.astype(np.float64), b.astype(np.float64)], attributes)[0])

    factor = np.abs(x) if prologue else x
    terms, magnitude = w[0].size, exact(np.abs(x), np.abs(w))
    rounded, true = exact(halves(factor), halves(w)), exact(factor, w)
    if prologue:
        rounded, true = np.maximum(rounded, 0), np.maximum(true, 0)
    assert (np.abs(y - rounded) <= terms * 2.0**-24 * magnitude).all()
    assert (np.abs(y - true) <= (2 * U + U * U + terms * 2.0**-24) * magnitude).all()
    report = sx.compile(m, precision="bf16").explain().to_dict()["functions"]
    assert [f["precision"] for f in report.values() if "onnx.Conv" in f["ops"]] == ["bf16"]


@has_mode
def test_winograd_in_f32_where_it_is_faster() -> None:
    w, x = normal(64, 64, 3, 3), normal(1, 64, 28, 28)
    m = model("g (float[N, 64, 28, 28] x) => (float[N, 64, 28, 28] y) { y = Conv<pads = [1, 1, 1, 1]>(x, w) }", w=w)
    magnitude, true = (
        np.asarray(REFERENCE["", "Conv"]([a.astype(np.float64), b.astype(np.float64)], {"pads": [1, 1, 1, 1]})[0])
        for a, b in ((np.abs(x), np.abs(w)), (x, w))
    )
    for exact, mode, bound in ((False, "f32", 1e-6), (True, "bf16", 2 * U + U * U + 576 * 2.0**-24)):
        program = sx.compile(m, precision="bf16", exact=exact)
        assert [f["precision"] for f in program.explain().to_dict()["functions"].values()] == [mode]
        assert (np.abs(program(x)["y"] - true) <= bound * magnitude).all()


@has_mode
def test_depthwise_convolutions_stay_f32() -> None:
    m = model("g (float[N, 8, 9, 9] x) => (float[N, 8, 7, 7] y) { y = Conv<group = 8>(x, w) }", w=normal(8, 1, 3, 3))
    x = normal(1, 8, 9, 9)
    assert sx.compile(m, precision="bf16")(x)["y"].tobytes() == sx.compile(m)(x)["y"].tobytes()


@has_mode
@pytest.mark.parametrize("level", ["tensor", "loops", "llvm"])
@pytest.mark.parametrize("plain", [False, True])
def test_levels(level: str, plain: bool) -> None:
    """Each level's executor models the mode."""
    x, w = normal(5, 33), normal(33, 20)
    module = lower(model("g (float[M, 33] x) => (float[M, 20] y) { y = MatMul(x, w) }", w=w), to=level, plain=plain,
                   precision="bf16")  # fmt: skip
    check(sx.run(module, {"x": x})["y"], x, w, 33)
    image, weights = normal(1, 5, 6, 6), normal(4, 5, 3, 3)
    module = lower(model("g (float[N, 5, 6, 6] x) => (float[N, 4, 6, 6] y) { y = Conv<pads = [1, 1, 1, 1]>(x, w) }",
                         w=weights), to=level, plain=plain, precision="bf16")  # fmt: skip
    [expected] = REFERENCE["", "Conv"]([halves(image), halves(weights)], {"pads": [1, 1, 1, 1]})
    assert np.abs(sx.run(module, {"x": image})["y"] - expected).max() < 1e-5


@has_mode
def test_bits_do_not_depend_on_threads_fusion_and_neighbours() -> None:
    text = """g (float[M, 300] x) => (float[M, 200] y)
    { a = MatMul(x, w)  c = Add(a, b)  r = Relu(c)  d = MatMul(r, v)  y = Tanh(d) }"""
    m = model(text, w=normal(300, 900), b=normal(900), v=normal(900, 200))
    x = normal(100, 300)
    y = sx.compile(m, precision="bf16", threads=1)(x)["y"]
    assert sx.compile(m, precision="bf16", threads=2)(x)["y"].tobytes() == y.tobytes()
    assert sx.compile(m, precision="bf16", fuse=False)(x)["y"].tobytes() == y.tobytes()
    assert sx.compile(m, precision="bf16", exact=True)(x)["y"].tobytes() == y.tobytes()
    for count in (1, 3, 17):
        assert sx.compile(m, precision="bf16")(x[:count])["y"].tobytes() == y[:count].tobytes()
    assert sx.compile(m)(x)["y"].tobytes() != y.tobytes()


@has_mode
def test_numbers_at_the_edges() -> None:
    """Denormals are zeros, what is above the largest bf16 is infinity, NaN stays NaN; in constants too."""
    tiny, large = np.float32(1e-40), np.float32(3.4e38)
    values = np.array([tiny, large, -large, np.inf, np.nan, 1, 2.0**-126], np.float32)
    x = np.zeros((7, 4), np.float32)
    x[:, 1] = values
    w = np.zeros((4, 2), np.float32)
    w[1] = 1, 2.0**-10
    expected = [[0, 0], [np.inf, np.inf], [-np.inf] * 2, [np.inf] * 2, [np.nan] * 2, [1, 2.0**-10], [2.0**-126, 0]]
    for rows in (7, 1):
        program = sx.compile(
            model(f"g (float[{rows}, 4] x) => (float[{rows}, 2] y) {{ y = MatMul(x, w) }}", w=w), precision="bf16"
        )
        y = np.concatenate([program(part)["y"] for part in np.split(x, 7 // rows)])
        assert np.array_equal(y, np.array(expected, np.float32), equal_nan=True)
    back = sx.compile(model("g (float[2, 4] x) => (float[2, 7] y) { y = MatMul(x, w) }", w=np.ascontiguousarray(x.T)),
                      precision="bf16")(np.ascontiguousarray(w.T))["y"]  # fmt: skip
    assert np.array_equal(back, np.array(expected, np.float32).T, equal_nan=True)


@has_mode
def test_what_is_in_the_mode() -> None:
    """Products of one term and of other types are not; the report says which kernels are."""
    text = """g (float[M, 1] p, float[1, 8] q, float[M, 8] x, double[M, 8] z)
    => (float[M, 8] a, float[M, 8] b, double[M, 8] c) { a = MatMul(p, q)  b = MatMul(x, w)  c = MatMul(z, v) }"""
    m = model(text, w=normal(8, 8), v=RNG.standard_normal((8, 8)))
    report = sx.compile(m, precision="bf16").explain()
    modes = [report.to_dict()["functions"][k["name"]]["precision"] for k in report.to_dict()["kernels"]]
    assert sorted(modes) == ["bf16", "f32", "f32"]
    assert str(report).count("products of bf16, summed in f32") == 1
    position = np.array([[1001.0]], np.float32)
    found = sx.compile(m, precision="bf16")(position, normal(1, 8), normal(1, 8), np.zeros((1, 8)))["a"]
    assert found.shape == (1, 8)


def instructions(m: onnx.ModelProto, options: Mapping[str, Any]) -> str:
    from sardonyx.compiler import emitted
    from sardonyx.options import Options

    return emitted(m, "asm", Options(**options))[0]


@has_mode
def test_only_the_mode_has_its_instructions() -> None:
    m = model("g (float[M, 64] x) => (float[M, 64] y) { y = MatMul(x, w) }", w=normal(64, 64))
    assert "vdpbf16ps" in instructions(m, {"precision": "bf16"})
    text = instructions(m, {})
    assert "bf16" not in text.split("vfmadd", 1)[1] and "vdpbf16" not in text and "vcvtne" not in text


@has_mode
def test_the_mode_is_part_of_the_keys(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program and an object of one mode are never taken for another."""
    monkeypatch.setenv("SARDONYX_CACHE", str(tmp_path))
    m = model("g (float[M, 64] x) => (float[M, 64] y) { y = MatMul(x, w) }", w=normal(64, 64))
    x = normal(3, 64)
    f32, bf16 = (sx.compile(m, precision=mode)(x)["y"] for mode in ("f32", "bf16"))
    assert f32.tobytes() != bf16.tobytes()
    for mode, y in (("bf16", bf16), ("f32", f32)):
        assert sx.compile(m, precision=mode)(x)["y"].tobytes() == y.tobytes()


def test_a_kernel_at_the_tensor_level_says_its_mode() -> None:
    if not has_mode.args[0]:
        module = lower(model("g (float[M, 64] x) => (float[M, 64] y) { y = MatMul(x, w) }", w=normal(64, 64)),
                       to="tensor", precision="bf16")  # fmt: skip
        assert f'{PRECISION} = "bf16"' in str(module) and 'precision = "bf16"' in str(module)


def test_packing_rounds_to_nearest_even() -> None:
    bits = np.concatenate([RNG.integers(0, 1 << 32, 10000, np.uint64), np.arange(0x7F7F0000, 0x7F810000, 7)])
    values = bits.astype(np.uint32).view(np.float32)
    values = np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), values), values)
    with np.errstate(invalid="ignore"):
        expected = values.astype(ml_dtypes.bfloat16)
    found = rounded_to_bf16(values).view(ml_dtypes.bfloat16)
    assert np.array_equal(np.isnan(found), np.isnan(values))
    numbers = ~np.isnan(values)
    assert np.array_equal(found[numbers].view(np.uint16), expected[numbers].view(np.uint16))
    pairs = as_pairs(np.arange(6, dtype=np.float32).reshape(3, 2))
    assert pairs.view(np.uint16).tolist() == [[0, 0x4000, 0x3F80, 0x4040], [0x4080, 0, 0x40A0, 0]]
