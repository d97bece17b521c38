"""Single operations on scalars and vectors against numpy: conversions, arithmetic, lanes, dot products."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from harness import TARGETS, Compiled, host_has
from sardonyx.codegen.scope import TranslateError
from sardonyx.dialects.target import AVX512, Target

pytestmark = pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.cpu)

RNG = np.random.default_rng(0)

NUMPY = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
}
UNSIGNED = {"i8": np.uint8, "i16": np.uint16, "i32": np.uint32, "i64": np.uint64}


def typed(element: str, lanes: int | None) -> str:
    return element if lanes is None else f"vector<{lanes}x{element}>"


def load(name: str, memory: str, index: str, element: str, lanes: int | None) -> str:
    op, type_ = ("memref.load", "") if lanes is None else ("vector.load", f", {typed(element, lanes)}")
    return f"{name} = {op} {memory}[{index}] : memref<?x{element}>{type_}"


def store(name: str, memory: str, index: str, element: str, lanes: int | None) -> str:
    op, type_ = ("memref.store", "") if lanes is None else ("vector.store", f", {typed(element, lanes)}")
    return f"{op} {name}, {memory}[{index}] : memref<?x{element}>{type_}"


def mapping(inputs: list[str], output: str, body: str, lanes: int | None, results: int = 1) -> str:
    """A kernel that maps %a0, %a1, ... to %r (or %r0, %r1, ...), element by element or vector by vector."""
    names = ["r"] if results == 1 else [f"r{i}" for i in range(results)]
    arguments = [f"%x{i}: memref<?x{t}>" for i, t in enumerate(inputs)]
    arguments += [f"%y{name}: memref<?x{output}>" for name in names]
    loads = "\n    ".join(load(f"%a{i}", f"%x{i}", "%i", t, lanes) for i, t in enumerate(inputs))
    stores = "\n    ".join(store(f"%{name}", f"%y{name}", "%i", output, lanes) for name in names)
    return f"""
func.func private @k(%d0: index, {", ".join(arguments)}) {{
  %c0 = arith.constant 0 : index
  %step = arith.constant {lanes or 1} : index
  scf.for %i = %c0 to %d0 step %step {{
    {loads}
    {body}
    {stores}
  }}
  func.return
}}
"""


def run(target: Target, inputs: list[tuple[str, np.ndarray]], output: str, body: str, lanes: int | None) -> np.ndarray:
    """The one result of a mapping."""
    return run_all(target, inputs, output, body, lanes, 1)[0]


def run_all(
    target: Target, inputs: list[tuple[str, np.ndarray]], output: str, body: str, lanes: int | None, count: int
) -> list[np.ndarray]:
    k = Compiled(mapping([t for t, _ in inputs], output, body, lanes, count), target)
    results = [np.zeros(len(inputs[0][1]), NUMPY[output]) for _ in range(count)]
    assert k(len(results[0]), *(np.ascontiguousarray(x) for _, x in inputs), *results).code == 0
    return results


def run_each(
    target: Target, inputs: list[tuple[str, np.ndarray]], output: str, ops: list[str], lanes: int | None
) -> list[np.ndarray]:
    """The results of several operations on the same operands, in one kernel."""
    args = ", ".join(f"%a{i}" for i in range(len(inputs)))
    body = "\n    ".join(f"%r{i} = {op} {args} : {typed(output, lanes)}" for i, op in enumerate(ops))
    return run_all(target, inputs, output, body, lanes, len(ops))


def convert(target: Target, kind: str, source: str, x: np.ndarray, output: str, lanes: int | None) -> np.ndarray:
    body = f'%r = vectorx.convert "{kind}" %a0 : {typed(source, lanes)} to {typed(output, lanes)}'
    return run(target, [(source, x)], output, body, lanes)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    unsigned = f"u{a.dtype.itemsize}"
    nan = np.isnan(a.astype(np.float64))
    return np.array_equal(nan, np.isnan(b.astype(np.float64))) and np.array_equal(
        a.view(unsigned)[~nan], b.view(unsigned)[~nan]
    )


LANES = [None, 8, 16, 32]


def hard_floats() -> np.ndarray:
    """f32 bit patterns: a spread of all, and what lies round every step of bf16 and f16."""
    spread = np.arange(0, 1 << 32, 262147, dtype=np.uint64).astype(np.uint32)
    steps = (RNG.integers(0, 1 << 16, 2048).astype(np.uint32) << 16)[:, None] + np.array(
        [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x1000, 0x0FFF, 0x1001], np.uint32
    )
    special = np.array([0, 1, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x7F7FFFFF, 0x007FFFFF], np.uint32)
    bits = np.concatenate([spread, steps.ravel(), special])
    return np.resize(bits, -(-len(bits) // 32) * 32).view(np.float32)


@pytest.mark.parametrize("lanes", LANES)
def test_bf16(target: Target, lanes: int | None) -> None:
    """Rounding to nearest even with denormals and NaN kept; widening of all 2^16 values is exact."""
    x = hard_floats()
    with np.errstate(all="ignore"):
        expected = x.astype(ml_dtypes.bfloat16)
    narrowed = convert(target, "truncf", "f32", x, "bf16", lanes)
    assert same_bits(narrowed, expected)
    assert np.isnan(narrowed[np.isnan(x)].astype(np.float32)).all()
    everything = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    assert same_bits(convert(target, "extf", "bf16", everything, "f32", lanes), everything.astype(np.float32))


@pytest.mark.parametrize("lanes", LANES)
def test_f16(target: Target, lanes: int | None) -> None:
    x = hard_floats()
    with np.errstate(all="ignore"):
        assert same_bits(convert(target, "truncf", "f32", x, "f16", lanes), x.astype(np.float16))
    everything = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    assert same_bits(convert(target, "extf", "f16", everything, "f32", lanes), everything.astype(np.float32))


def nearest_bf16(value: float) -> float:
    """value rounded once, by exact arithmetic on the neighbours."""
    down = np.array([value], np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    candidates = [
        float((down + np.uint32(k << 16)).view(np.float32)[0]) for k in (-1 & 0xFFFF, 0, 1) if abs(value) > 1e-30
    ]
    best = min(
        candidates, key=lambda c: (abs(Fraction(c) - Fraction(value)), int(np.float32(c).view(np.uint32)) >> 16 & 1)
    )
    return best


@pytest.mark.parametrize("lanes", [None, 8])
def test_f64_to_16_bits_rounds_once(target: Target, lanes: int | None) -> None:
    """A value just above the middle of two bf16 (f16) values, by less than f32 can tell, rounds up."""
    base = RNG.uniform(1, 2, 64).astype(ml_dtypes.bfloat16).astype(np.float64)
    x = np.concatenate([base + 2.0**-8 + s * 2.0**-40 for s in (-1, 0, 1)])
    x = np.concatenate([x, -x, [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 1e-310]])
    got = convert(target, "truncf", "f64", x, "bf16", lanes).astype(np.float64)
    expected = [nearest_bf16(value) for value in x[:-8]]
    assert got[:-8].tolist() == expected
    assert got[-8:-4].tolist() == [0, 0, np.inf, -np.inf] and np.isnan(got[-4])
    assert got[-3:].tolist() == [np.inf, -np.inf, 0]
    y = np.concatenate([base[:32] + 2.0**-11 + s * 2.0**-40 for s in (-1, 0, 1)])
    assert np.array_equal(convert(target, "truncf", "f64", y, "f16", lanes), y.astype(np.float16))


def saturated(x: np.ndarray, low: int, high: int) -> list[int]:
    return [
        0 if np.isnan(v) else min(max(int(v) if np.isfinite(v) else (1 if v > 0 else -1) << 70, low), high) for v in x
    ]


@pytest.mark.parametrize("lanes", [None, 4, 16])
@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_float_to_integer_saturates(target: Target, source: str, width: int, lanes: int | None) -> None:
    edges = [s * 2.0**p + d for p in (7, 8, 15, 16, 31, 32, 63, 64) for s in (-1, 1) for d in (-1.5, -0.5, 0, 0.5, 1)]
    x = np.array([*edges, 0.0, -0.9, 0.9, 1e30, -1e30, np.inf, -np.inf, np.nan] * 2, NUMPY[source])
    x = np.resize(x, -(-len(x) // 16) * 16)
    signed = convert(target, "fptosi", source, x, f"i{width}", lanes)
    assert signed.tolist() == saturated(x, -(1 << (width - 1)), (1 << (width - 1)) - 1)
    unsigned = convert(target, "fptoui", source, x, f"i{width}", lanes).view(UNSIGNED[f"i{width}"])
    assert unsigned.tolist() == saturated(x, 0, (1 << width) - 1)


@pytest.mark.parametrize("lanes", [None, 16])
@pytest.mark.parametrize("source", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("output", ["f32", "f64"])
def test_integer_to_float(target: Target, source: str, output: str, lanes: int | None) -> None:
    info = np.iinfo(NUMPY[source])
    x = RNG.integers(info.min, info.max, 64, dtype=NUMPY[source], endpoint=True)
    assert np.array_equal(convert(target, "sitofp", source, x, output, lanes), x.astype(NUMPY[output]))
    assert np.array_equal(
        convert(target, "uitofp", source, x, output, lanes), x.view(UNSIGNED[source]).astype(NUMPY[output])
    )


@pytest.mark.parametrize("lanes", [None, 16])
def test_booleans(target: Target, lanes: int | None) -> None:
    """Compare, convert and store: a boolean in memory is 0 or 1."""
    x = RNG.standard_normal(64).astype(np.float32)
    type_, mask = typed("f32", lanes), typed("i1", lanes)
    body = f'%r = vectorx.compare "olt" %a0, %a1 : {type_} to {mask}'
    y = RNG.standard_normal(64).astype(np.float32)
    y[::5] = x[::5]
    less = run(target, [("f32", x), ("f32", y)], "i1", body, lanes)
    assert np.array_equal(less.view(np.uint8), (x < y).astype(np.uint8))
    assert np.array_equal(convert(target, "extui", "i1", less, "i64", lanes), less.astype(np.int64))
    assert np.array_equal(convert(target, "uitofp", "i1", less, "f32", lanes), less.astype(np.float32))
    chosen = run(
        target,
        [("i1", less), ("f32", x), ("f32", y)],
        "f32",
        f"%r = vectorx.select %a0, %a1, %a2 : {mask}, {type_}",
        lanes,
    )
    assert np.array_equal(chosen, np.where(less, x, y))


INTEGER_OPS = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "minsi": np.minimum,
    "maxsi": np.maximum,
    "floordivsi": np.floor_divide,
}


@pytest.mark.parametrize("lanes", [None, 16])
@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64"])
def test_integer_arithmetic(target: Target, element: str, lanes: int | None) -> None:
    info = np.iinfo(NUMPY[element])
    x = RNG.integers(info.min, info.max, 64, dtype=NUMPY[element], endpoint=True)
    y = RNG.integers(info.min, info.max, 64, dtype=NUMPY[element], endpoint=True)
    y[y == 0], y[y == -1] = 3, 5
    names = list(INTEGER_OPS) + ["divsi", "remsi", "divui", "remui", "minui", "maxui", "shli", "shrsi", "shrui"]
    names += ["ceildivsi", "ceildivui"]
    unsigned = UNSIGNED[element]
    shift = (y.view(unsigned) % (8 * y.itemsize)).astype(NUMPY[element])
    wide_x, wide_y = [int(v) for v in x], [int(v) for v in y]
    expected = {
        **{name: function(x, y) for name, function in INTEGER_OPS.items()},
        "divsi": np.array([int(Fraction(a, b)) for a, b in zip(wide_x, wide_y)]).astype(NUMPY[element]),
        "remsi": np.fmod(x, y),
        "ceildivsi": np.array([-(-a // b) for a, b in zip(wide_x, wide_y)]).astype(NUMPY[element]),
        "divui": (x.view(unsigned) // y.view(unsigned)).view(NUMPY[element]),
        "ceildivui": np.array(
            [-(-int(a) // int(b)) for a, b in zip(x.view(unsigned), y.view(unsigned))], unsigned
        ).view(NUMPY[element]),
        "remui": (x.view(unsigned) % y.view(unsigned)).view(NUMPY[element]),
        "minui": np.minimum(x.view(unsigned), y.view(unsigned)).view(NUMPY[element]),
        "maxui": np.maximum(x.view(unsigned), y.view(unsigned)).view(NUMPY[element]),
        "shli": x << shift,
        "shrsi": x >> shift,
        "shrui": (x.view(unsigned) >> shift.view(unsigned)).view(NUMPY[element]),
    }
    shifts = [name for name in names if name.startswith("sh")]
    others = [name for name in names if name not in shifts]
    for chosen, second in ((shifts, shift), (others, y)):
        ops = [f"arith.{name}" for name in chosen]
        for name, got in zip(chosen, run_each(target, [(element, x), (element, second)], element, ops, lanes)):
            assert np.array_equal(got, expected[name]), name


@pytest.mark.parametrize("lanes", [None, 16])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_float_arithmetic(target: Target, element: str, lanes: int | None) -> None:
    """maximumf and minimumf propagate NaN, also against a constant; maxnumf and minnumf prefer the number."""
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45])
    a, b = (v.ravel() for v in np.meshgrid(special, special))
    x, y = a.astype(NUMPY[element]), b.astype(NUMPY[element])
    type_ = typed(element, lanes)
    with np.errstate(all="ignore"):
        expected = {"addf": x + y, "subf": x - y, "mulf": x * y, "divf": x / y}
        expected["maxnumf"], expected["minnumf"] = np.fmax(x, y), np.fmin(x, y)
        expected["maximumf"], expected["minimumf"] = np.maximum(x, y), np.minimum(x, y)
    ops = [f"arith.{name}" for name in expected]
    for name, got in zip(expected, run_each(target, [(element, x), (element, y)], element, ops, lanes)):
        assert np.array_equal(got, expected[name], equal_nan=True), name
    for name, values in (("maximumf", np.maximum(x, 0)), ("minimumf", np.minimum(x, 0))):
        constant = "arith.constant 0.0 : " + type_ if lanes is None else f"arith.constant dense<0.0> : {type_}"
        for args in ("%a0, %z", "%z, %a0"):
            body = f"%z = {constant}\n    %r = arith.{name} {args} : {type_}"
            assert np.array_equal(run(target, [(element, x)], element, body, lanes), values, equal_nan=True)


@pytest.mark.parametrize("lanes", [None, 16])
def test_products_and_sums_are_rounded_one_by_one(target: Target, lanes: int | None) -> None:
    """No fma where the text has none, so that fused and separate kernels give the same bits; and one where it has."""
    x, y, z = (RNG.standard_normal(256).astype(np.float32) for _ in range(3))
    type_ = typed("f32", lanes)
    body = f"""%p = arith.mulf %a0, %a1 : {type_}
    %r0 = arith.addf %p, %a2 : {type_}
    %r1 = math.fma %a0, %a1, %a2 : {type_}
    %r2 = arith.subf %a2, %p : {type_}"""
    separate, fused, less = run_all(target, [("f32", x), ("f32", y), ("f32", z)], "f32", body, lanes, 3)
    assert np.array_equal(separate, x * y + z) and np.array_equal(less, z - x * y)
    exact = (x.astype(np.float64) * y + z).astype(np.float32)
    assert np.array_equal(fused, exact) and not np.array_equal(fused, separate)


ROUNDING = {
    "ceil": np.ceil,
    "floor": np.floor,
    "trunc": np.trunc,
    "roundeven": np.rint,
    "absf": np.abs,
    "sqrt": np.sqrt,
}


@pytest.mark.parametrize("lanes", [None, 16])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_rounding(target: Target, element: str, lanes: int | None) -> None:
    x = np.concatenate([np.arange(-4, 4, 0.25), RNG.standard_normal(27) * 1e3, [np.inf, -np.inf, np.nan, -0.0, 1e30]])
    x = x.astype(NUMPY[element])
    ops = [f"math.{name}" for name in ROUNDING]
    for name, got in zip(ROUNDING, run_each(target, [(element, x)], element, ops, lanes)):
        with np.errstate(invalid="ignore"):
            assert same_bits(got, ROUNDING[name](x)), name
    away = np.where(np.abs(x) < 1e20, np.copysign(np.floor(np.abs(x) + 0.5), x), x).astype(NUMPY[element])
    got = run(target, [(element, x)], element, f"%r = math.round %a0 : {typed(element, lanes)}", lanes)
    assert same_bits(got, away)


INTEGER_REDUCTIONS = {
    "add": np.add,
    "mul": np.multiply,
    "minsi": np.minimum,
    "maxsi": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "minui": np.minimum,
    "maxui": np.maximum,
}


def reductions(kinds: dict[str, np.ufunc], element: str, lanes: int) -> str:
    return "\n    ".join(
        f"""%t{i} = vectorx.reduce "{kind}" %a0 : vector<{lanes}x{element}> to {element}
    %r{i} = vector.broadcast %t{i} : {element} to vector<{lanes}x{element}>"""
        for i, kind in enumerate(kinds)
    )


@pytest.mark.parametrize("lanes", [2, 16])
def test_integer_reductions(target: Target, lanes: int) -> None:
    x = RNG.integers(-(1 << 31), 1 << 31, lanes * 4).astype(np.int32)
    results = run_all(target, [("i32", x)], "i32", reductions(INTEGER_REDUCTIONS, "i32", lanes), lanes, 9)
    for (kind, function), got in zip(INTEGER_REDUCTIONS.items(), results):
        rows = x.view(np.uint32) if kind.endswith("ui") else x
        expected = function.reduce(rows.reshape(-1, lanes), axis=1, dtype=rows.dtype).view(np.int32)
        assert np.array_equal(got[::lanes], expected), kind


def tree(x: np.ndarray, combine: np.ufunc) -> np.float32:
    while len(x) > 1:
        half = len(x) // 2
        x = combine(x[:half], x[half:])
    return x[0]


FLOAT_REDUCTIONS = {
    "add": np.add,
    "mul": np.multiply,
    "minimumf": np.minimum,
    "maximumf": np.maximum,
    "minnumf": np.fmin,
    "maxnumf": np.fmax,
}


def test_float_reductions_have_one_order(target: Target) -> None:
    x = RNG.standard_normal(64).astype(np.float32)
    x[40] = np.nan
    results = run_all(target, [("f32", x)], "f32", reductions(FLOAT_REDUCTIONS, "f32", 16), 16, 6)
    for (kind, function), got in zip(FLOAT_REDUCTIONS.items(), results):
        expected = np.array([tree(row, function) for row in x.reshape(4, 16)])
        assert np.array_equal(got[::16], expected, equal_nan=True), kind


def test_lanes(target: Target) -> None:
    """Insert, extract (also at a lane known at run time), shuffle, step, bitcast."""
    body = """%one = vector.extract %a0[3] : f32 from vector<8xf32>
    %b = vector.insert %one, %a0[0] : f32 into vector<8xf32>
    %s = vector.shuffle %b, %a0[0, 15, 2, 13, 4, 11, 6, 9] : vector<8xf32>, vector<8xf32>
    %lane = arith.constant 5 : index
    %at = arith.addi %lane, %c0 : index
    %d = vectorx.extract %s[%at] : vector<8xf32> to f32
    %dv = vector.broadcast %d : f32 to vector<8xf32>
    %step = vectorx.step : vector<8xindex>
    %n = vectorx.convert "index_cast" %step : vector<8xindex> to vector<8xi32>
    %f = vectorx.convert "sitofp" %n : vector<8xi32> to vector<8xf32>
    %t = arith.addf %s, %f : vector<8xf32>
    %u = arith.addf %t, %dv : vector<8xf32>
    %bits = vector.bitcast %u : vector<8xf32> to vector<8xi32>
    %r = vector.bitcast %bits : vector<8xi32> to vector<8xf32>""".replace("%step", "%lanes")
    x = RNG.standard_normal(8).astype(np.float32)
    b = x.copy()
    b[0] = x[3]
    s = np.concatenate([b, x])[[0, 15, 2, 13, 4, 11, 6, 9]]
    got = run(target, [("f32", x)], "f32", body, 8)
    assert np.array_equal(got, (s + np.arange(8, dtype=np.float32)) + s[5])


def test_shuffle_of_unequal_vectors(target: Target) -> None:
    """The mask counts lanes of the first vector first."""
    body = """%low = vector.shuffle %a0, %a0[1, 2] : vector<8xf32>, vector<8xf32>
    %r = vector.shuffle %low, %a0[0, 1, 2, 3, 9, 8, 0, 5] : vector<2xf32>, vector<8xf32>"""
    x = RNG.standard_normal(8).astype(np.float32)
    assert np.array_equal(
        run(target, [("f32", x)], "f32", body, 8), np.concatenate([x[1:3], x])[[0, 1, 2, 3, 9, 8, 0, 5]]
    )


def test_reductions_need_a_power_of_two(target: Target) -> None:
    body = """%t = vectorx.reduce "add" %a0 : vector<6xf32> to f32
    %r = vector.broadcast %t : f32 to vector<6xf32>"""
    with pytest.raises(TranslateError):
        run(target, [("f32", np.zeros(6, np.float32))], "f32", body, 6)


@pytest.mark.parametrize("element", ["f32", "i8", "i1", "f64", "bf16"])
def test_gather_and_scatter(target: Target, element: str) -> None:
    """Masked, with values for the lanes that are off; a later lane wins."""
    k = Compiled(
        f"""
func.func private @k(
  %d0: index, %x: memref<?x{element}>, %i: memref<?xi64>, %y: memref<?x{element}>, %z: memref<?x{element}>
) {{
  %c0 = arith.constant 0 : index
  %none = vector.load %y[%c0] : memref<?x{element}>, vector<8x{element}>
  %raw = vector.load %i[%c0] : memref<?xi64>, vector<8xi64>
  %ix = vectorx.convert "index_cast" %raw : vector<8xi64> to vector<8xindex>
  %m = vector.create_mask %d0 : vector<8xi1>
  %v = "vectorx.gather"(%x, %ix, %m, %none) <{{operandSegmentSizes = array<i32: 1, 1, 1, 1>}}>
    : (memref<?x{element}>, vector<8xindex>, vector<8xi1>, vector<8x{element}>) -> vector<8x{element}>
  vector.store %v, %y[%c0] : memref<?x{element}>, vector<8x{element}>
  "vectorx.scatter"(%v, %z, %ix, %m) : (vector<8x{element}>, memref<?x{element}>, vector<8xindex>, vector<8xi1>) -> ()
  func.return
}}
""",
        target,
    )
    x = (RNG.integers(0, 2, 20) if element == "i1" else RNG.integers(-50, 50, 20)).astype(NUMPY[element])
    indices = np.array([19, 0, 3, 3, 7, 2, 1 << 40, -5])
    y, z = x[8:16].copy(), np.zeros_like(x)
    expected = y.copy()
    expected[:6] = x[indices[:6]]
    k(6, x, indices, y, z)
    assert np.array_equal(y, expected)
    scattered = np.zeros_like(x)
    scattered[indices[:6]] = x[indices[:6]]
    assert np.array_equal(z, scattered)


VNNI = Target("znver4", AVX512.features + ",+avx512vnni", 64, 32, 32 << 10, 1 << 20, 16 << 20)


@pytest.mark.parametrize("kind", ["u8s8", "s8s8", "u8u8"])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32])
def test_dot(target: Target, kind: str, lanes: int) -> None:
    """Exact, also for the extremes where 16-bit sums would saturate; with and without VNNI."""
    check_dot(target, kind, lanes)
    if target is AVX512 and host_has("avx512vnni"):
        check_dot(VNNI, kind, lanes)


def check_dot(target: Target, kind: str, lanes: int) -> None:
    k = Compiled(
        f"""
func.func private @k(%d0: index, %x: memref<?xi8>, %y: memref<?xi8>, %z: memref<?xi32>) {{
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0] : memref<?xi8>, vector<{4 * lanes}xi8>
  %b = vector.load %y[%c0] : memref<?xi8>, vector<{4 * lanes}xi8>
  %c = vector.load %z[%c0] : memref<?xi32>, vector<{lanes}xi32>
  %d = vectorx.dot "{kind}" %c, %a, %b
    : vector<{lanes}xi32>, vector<{4 * lanes}xi8>, vector<{4 * lanes}xi8> to vector<{lanes}xi32>
  vector.store %d, %z[%c0] : memref<?xi32>, vector<{lanes}xi32>
  func.return
}}
""",
        target,
    )
    for x, y in ((RNG.bytes(4 * lanes), RNG.bytes(4 * lanes)), (b"\xff\x80" * 2 * lanes, b"\xff\x80\x80\xff" * lanes)):
        a = np.frombuffer(x, np.uint8 if kind[0] == "u" else np.int8)
        b = np.frombuffer(y, np.uint8 if kind[2] == "u" else np.int8)
        c = RNG.integers(-1000, 1000, lanes).astype(np.int32)
        expected = c + (a.astype(np.int32) * b).reshape(lanes, 4).sum(axis=1)
        k(0, a, b, c)
        assert np.array_equal(c, expected)
