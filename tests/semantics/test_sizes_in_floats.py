"""Sizes in floating point: what arithmetic keeps exact is an expression, all else a size of its own, and nothing of it
restricts the sizes that a call may have."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnx.parser
import onnx.reference
import pytest

import sardonyx as sx

STEPS = {
    "c + 0.1": "f = Add (n, c)",
    "c - 0.1": "f = Sub (n, c)",
    "c * 0.1": "f = Mul (n, c)",
    "c / 0.1": "f = Div (n, c)",
    "half of c + 0.1": "h = Mul (n, half) f = Add (h, c)",
    "c times a seventh": "h = Div (n, week) f = Mul (c, h)",
    "a seventh over c": "h = Div (n, week) f = Div (h, c)",
    "product with itself": "h = Mul (n, n) f = Add (h, c)",
}
ROUNDINGS = ("Floor", "Ceil", "Round", "Identity")
CONSTANTS = (0.1, 1e-6, 1 / 3, 0.7, 320.0, 0.375)


def model(step: str, rounding: str, constant: float, element: str) -> onnx.ModelProto:
    """`o` has the size that floats give; `w` is 7 elements where N is above 5, else 3."""
    code = {"float": 1, "double": 11}[element]
    text = f"""<ir_version: 9, opset_import: ["" : 20]> g (int8[N] x) => (float[k] o, float[m] w)
      <{element} c = {{{constant!r}}}, {element} half = {{0.5}}, {element} week = {{7.0}},
       int64[1] five = {{5}}, int64[1] seven = {{7}},
       int64[1] three = {{3}}, int64[1] zero = {{0}}, int64[1] most = {{50000}}> {{
        s = Shape (x)  n = Cast <to = {code}> (s)  {STEPS[step]}  r = {rounding} (f)  i = Cast <to = 7> (r)
        i0 = Max (i, zero)  i1 = Min (i0, most)  o = ConstantOfShape (i1)
        above = Greater (s, five)  j = Where (above, seven, three)  w = ConstantOfShape (j) }}"""
    made = onnx.parser.parse_model(text)
    for output in made.graph.output:
        output.ClearField("type")
    return made


CASES = [
    pytest.param(*case, id=" ".join(map(str, case)))
    for case in itertools.product(STEPS, ROUNDINGS, CONSTANTS, ("float", "double"))
]


@pytest.mark.parametrize(("step", "rounding", "constant", "element"), CASES[::5])
def test_every_size_is_taken(step: str, rounding: str, constant: float, element: str) -> None:
    made = model(step, rounding, constant, element)
    inferred = sx.infer_shapes(made)
    [told] = [o.type.tensor_type.shape.dim[0] for o in inferred.graph.output if o.name == "w"]
    assert not told.HasField("dim_value"), "what N is decides it"
    reference = onnx.reference.ReferenceEvaluator(made)
    program = sx.compile(made)
    for size in (0, 1, 5, 6, 9, 100, 1001, 40_000):
        x = np.zeros(size, np.int8)
        wanted = [value.shape for value in reference.run(None, {"x": x})]
        assert [np.asarray(value).shape for value in program(x=x).values()] == wanted


@pytest.mark.parametrize(
    ("step", "rounding", "constant", "expected"),
    [
        ("c * 0.1", "Floor", 0.375, "min((3*N)//8, 50000)"),
        ("c / 0.1", "Floor", 1024.0, "min(N//1024, 50000)"),
        ("c / 0.1", "Floor", 320.0, "min(N//320, 50000)"),
        ("c * 0.1", "Identity", 320.0, "80*min(4*N, 625)"),
        ("half of c + 0.1", "Floor", 0.5, "min((N + 1)//2, 50000)"),
    ],
)
def test_what_floats_hold_exactly_is_an_expression(step: str, rounding: str, constant: float, expected: str) -> None:
    inferred = sx.infer_shapes(model(step, rounding, constant, "float"))
    [told] = [o.type.tensor_type.shape.dim[0] for o in inferred.graph.output if o.name == "o"]
    assert told.dim_param == expected


@pytest.mark.parametrize(
    ("divisor", "added", "rounding", "expected"),
    [
        (3.0, 0.5, "Floor", "(N + 1)//3"),
        (3.0, 0.5, "Identity", "(N + 1)//3"),
        (7.0, 0.25, "Ceil", "(N + 1)//7 + 1"),
        (12.0, 1.0, "Floor", "N//12 + 1"),
        (48.0, 0.75, "Floor", "(N + 36)//48"),
        (3.0, 0.5, "Round", None),
        (3.0, 0.1, "Floor", None),
        (3.0, -0.5, "Floor", None),
        (30000.0, 0.5, "Floor", None),
    ],
)
def test_a_number_added_to_a_rounded_quotient(
    divisor: float, added: float, rounding: str, expected: str | None
) -> None:
    """The expression, and what floats give for all sizes that the guard takes."""
    text = f"""<ir_version: 9, opset_import: ["" : 20]> g (int8[N] x) => (float[k] o)
      <float d = {{{divisor!r}}}, float c = {{{added!r}}}> {{
        s = Shape (x)  n = Cast <to = 1> (s)  q = Div (n, d)  f = Add (q, c)  r = {rounding} (f)
        i = Cast <to = 7> (r)  o = ConstantOfShape (i) }}"""
    made = onnx.parser.parse_model(text)
    made.graph.output[0].ClearField("type")
    (out,) = sx.infer_shapes(made).graph.output
    found = out.type.tensor_type.shape.dim[0].dim_param
    if expected is None:
        assert "N" not in found
        return
    assert found == expected
    by = added.as_integer_ratio()[1]
    most = int(2**23 / by - added * divisor)
    sizes = np.arange(most + 1)
    floats = sizes.astype(np.float32) / np.float32(divisor) + np.float32(added)
    rounded = {"Floor": np.floor, "Ceil": np.ceil, "Identity": np.trunc}[rounding](floats).astype(np.int64)
    assert np.array_equal(rounded, eval(expected, {}, {"N": sizes}))


SCALED = {
    "Div (n, three) f = Mul (h, c)": "(5*N + 11)//12",
    "Div (n, three) f = Mul (c, h)": "(5*N + 11)//12",
    "Div (n, three) f = Div (h, c)": "(4*N + 14)//15",
    "Div (n, three) f = Mul (h, three)": None,  # 3 times the rounded third of N need not be N
    "Div (n, three) k = Mul (h, c) f = Mul (k, c)": None,
}


@pytest.mark.parametrize("step", SCALED)
def test_a_rounded_quotient_is_scaled(step: str) -> None:
    """As the capacity of experts is made: ceil(tokens / experts * 1.25) in float32."""
    made = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 20]> g (int8[N] x) => (float[k] o)
        <float c = {{1.25}}, float three = {{3.0}}> {{
            s = Shape (x) n = Cast <to = 1> (s) h = {step} r = Ceil (f)
            i = Cast <to = 7> (r) o = ConstantOfShape (i) }}"""
    )
    (size,) = sx.infer_shapes(made).graph.output[0].type.tensor_type.shape.dim
    expected = SCALED[step]
    assert size.dim_param == expected or (expected is None and size.dim_param.startswith("v"))
    program = sx.compile(made)
    for n in (0, 1, 11, 12, 13, 3001, 123457):
        x = np.zeros(n, np.int8)
        assert program(x=x)["o"].shape == sx.run(sx.lower(made, to="graph"), {"x": x})["o"].shape


@pytest.mark.parametrize("divisor", [13, 22, 52, 121, 320])
@pytest.mark.parametrize("factor", [1.125, 0.375, 10.5, 7 / 8])
def test_float32_scales_quotients_as_the_expression_says(divisor: int, factor: float) -> None:
    """Up to half of the integers that float32 has, the product is rounded to what it would be exactly."""
    top, bottom = factor.as_integer_ratio()
    most = 2**23 // top
    sizes = np.unique(np.concatenate([np.arange(min(most, 1 << 17)), np.arange(max(0, most - (1 << 17)), most + 1)]))
    got = np.float32(factor) * (sizes.astype(np.float32) / np.float32(divisor))
    np.testing.assert_array_equal(np.floor(got), sizes * top // (divisor * bottom))
    np.testing.assert_array_equal(np.ceil(got), -(-sizes * top // (divisor * bottom)))
