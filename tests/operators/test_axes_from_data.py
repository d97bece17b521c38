"""Axes, starts, pads and scales that are inputs: native code for known and for symbolic sizes."""

from __future__ import annotations

import itertools

import numpy as np
import onnx.parser
import pytest
from sardonyx.semantics.reference import REFERENCE

import sardonyx as sx

from .cases import check, model_of

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


BIG = 2**63 - 1
SLICES = [
    ((5, 4, 3), (1, 0), (3, 10), (0, 2), (1, 2)),
    ((5, 4, 3), (-1, 3), (-100, 0), (-3, 1), (-2, -1)),
    ((5, 1, 0), (0, 0, 0), (BIG, 1, 1), (0, 1, 2), (3, 1, 1)),
    ((7,), (BIG,), (-BIG - 1,), (0,), (-3,)),
    ((7,), (5,), (5,), (0,), (BIG,)),
    ((4, 6), (4, -7), (BIG, -1), (1, 0), (1, 1)),
    ((0,), (-1,), (-9,), (0,), (-1,)),
    ((0,), (3,), (-BIG - 1,), (0,), (-2,)),
]


@pytest.mark.parametrize(("shape", "starts", "ends", "axes", "steps"), SLICES)
def test_slice(shape: tuple[int, ...], starts: tuple, ends: tuple, axes: tuple, steps: tuple) -> None:
    check("Slice", [floats(*shape), ints(*starts), ints(*ends), ints(*axes), ints(*steps)])


def test_slice_with_known_axes_or_steps() -> None:
    x = floats(5, 4, 3)
    operands = [x, ints(4, 0), ints(0, 3), np.array([0, 2], np.int32), np.array([-1, 2], np.int32)]
    operands[1:3] = [o.astype(np.int32) for o in operands[1:3]]
    check("Slice", operands, constants=[3])
    check("Slice", operands, constants=[4])
    check("Slice", [x, ints(4), ints(0), None, ints(-1)])


def test_a_step_of_zero_and_an_axis_out_of_range_are_errors() -> None:
    x = floats(5, 4)
    operands = [x, ints(0), ints(3), ints(0), ints(1)]
    program = sx.compile(model_of("Slice", operands, {}, [x]))
    for at, wrong in ((4, ints(0)), (3, ints(2)), (3, ints(-3))):
        feeds = {f"x{k}": wrong if k == at else v for k, v in enumerate(operands)}
        with pytest.raises(sx.InputError, match="node"):
            program(feeds)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pad(mode: str) -> None:
    check("Pad", [floats(4, 3, 5), ints(1, -1, 2, 0), None, ints(-1, 0)], {"mode": mode})
    check("Pad", [floats(4, 3), ints(1, 1, 0, 2)], {"mode": mode})


@pytest.mark.parametrize("axes", [(0, 2), (-1, 0), (3, 1), (-1, -2)])
@pytest.mark.parametrize("shape", [(3, 4), (0, 1)])
def test_unsqueeze(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    check("Unsqueeze", [floats(*shape), ints(*axes)])
    there = [a % 4 for a in axes]
    rest = iter(shape)
    wide = tuple(1 if a in there else next(rest) for a in range(4))
    check("Squeeze", [floats(*wide), ints(*axes)])


REDUCTIONS = ("ReduceSum", "ReduceMax", "ReduceMean", "ReduceLogSumExp", "ReduceProd", "ReduceL2")


@pytest.mark.parametrize(("name", "keepdims"), list(itertools.product(REDUCTIONS, (0, 1))))
def test_reduce(name: str, keepdims: int) -> None:
    for shape, axes in (((3, 4, 5), (2, 0)), ((2, 1, 3), (-1, -2)), ((4, 3), (1, 0))):
        check(name, [floats(*shape), ints(*axes)], {"keepdims": keepdims}, tolerance=8)


@pytest.mark.parametrize("noop", [0, 1])
def test_reduce_over_any_number_of_axes(noop: int) -> None:
    x = floats(3, 4)
    operands = [x, ints(0)]
    model = model_of("ReduceSum", operands, {"noop_with_empty_axes": noop}, [x])
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "K"
    program = sx.compile(model)
    assert program.explain().to_dict()["hosted"] == []
    for axes in ((), (1,), (-1, 0)):
        chosen = axes if axes or noop else None
        want = x.sum(axis=chosen, keepdims=True) if chosen != () else x
        np.testing.assert_allclose(program(x0=x, x1=ints(*axes))["y0"], want, rtol=1e-6)


def test_columns_are_reduced_in_order_whether_their_axes_are_known() -> None:
    """Along vectors where the last axis is kept: with the bits that known axes give."""
    x = floats(40, 3, 50)
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[40,3,50] x, int64[A] a) => (float[P,Q,R] y)
        {{ {constant} y = ReduceSum <keepdims=1> (x, {axes}) }}"""
    unknown = sx.compile(onnx.parser.parse_model(text.format(constant="", axes="a")))
    for axes in ((0,), (1,), (0, 1), (1, 0)):
        constant = f"c = Constant <value_ints=[{', '.join(map(str, axes))}]> ()"
        known = sx.compile(onnx.parser.parse_model(text.format(constant=constant, axes="c")))
        given = {"x": x, "a": ints(*axes)}
        np.testing.assert_array_equal(unknown(**given)["y"], known(**given)["y"])


@pytest.mark.parametrize("keepdims", [0, 1])
def test_as_many_axes_as_there_are_must_be_all(keepdims: int) -> None:
    x = floats(2, 3)
    operands, attributes = [x, ints(0, 1)], {"keepdims": keepdims}
    expected = REFERENCE["", "ReduceSum"](list(operands), dict(attributes), 1)
    program = sx.compile(model_of("ReduceSum", operands, attributes, expected, dynamic=True))
    assert program.explain().to_dict()["hosted"] == []
    for axes in ((0, 1), (1, 0), (-1, -2), (0, -1)):
        np.testing.assert_allclose(program(x0=x, x1=ints(*axes))["y0"], expected[0], atol=1e-6)
    for axes in ((0, 0), (1, -1)):
        with pytest.raises(sx.InputError, match="ReduceSum: 'x1' has an axis twice\n  --> node 'node'"):
            program(x0=x, x1=ints(*axes))
    with pytest.raises(sx.InputError, match="'x1' has the axis 5; the rank is 2, so -2 <= axis < 2"):
        program(x0=x, x1=ints(0, 5))


def test_all_axes_squeezed() -> None:
    x = floats(1, 1)
    program = sx.compile(model_of("Squeeze", [x, ints(0, 1)], {}, [x.reshape(())], dynamic=True))
    assert program(x0=x, x1=ints(-1, 0))["y0"] == x[0, 0]
    for axes, problem in ((ints(0, 0), "'x1' has an axis twice"), (ints(0, 5), "'x1' has the axis 5")):
        with pytest.raises(sx.InputError, match=f"Squeeze: {problem}"):
            program(x0=x, x1=axes)
    with pytest.raises(sx.InputError, match="axis 1 of Squeeze"):
        program(x0=floats(1, 3), x1=ints(0, 1))
    wide = floats(1, 3)
    with pytest.raises(sx.Error, match="axis 1 of Squeeze"):
        sx.compile(model_of("Squeeze", [wide, ints(0, 1)], {}, [x.reshape(())]))


def test_some_axes_of_many() -> None:
    check("ReduceSum", [floats(2, 3, 1, 2, 4), ints(3, -4)], {"keepdims": 0}, tolerance=8)


LINEAR = {"mode": "linear"}
CUBIC = {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}
CROP = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}


@pytest.mark.parametrize(
    "attributes",
    [{}, LINEAR, CUBIC, LINEAR | {"antialias": 1}, CUBIC | {"antialias": 1}, LINEAR | CROP, CROP,
     LINEAR | {"coordinate_transformation_mode": "align_corners"},
     {"coordinate_transformation_mode": "half_pixel_symmetric", "nearest_mode": "ceil"}],
    ids=str,
)  # fmt: skip
def test_resize(attributes: dict[str, object]) -> None:
    for scales in ((0.6, 1.5), (2.0, 0.4)):
        roi = np.array([0.1, 0.0, 0.8, 1.2], np.float32) if attributes.keys() >= CROP.keys() else None
        operands = [floats(1, 2, 5, 4), roi, np.array(scales, np.float32)]
        check("Resize", operands, attributes | {"axes": [3, 2]}, tolerance=64)


@pytest.mark.parametrize("attributes", [LINEAR, CUBIC, {"mode": "cubic"}, {}], ids=str)
def test_a_region_shrunk_without_aliasing(attributes: dict[str, object]) -> None:
    roi, scales = np.array([0.1, 0.0, 0.8, 1.2], np.float32), np.array([0.4, 1.5], np.float32)
    for x in (floats(1, 2, 8, 7), RNG.integers(0, 200, (1, 2, 8, 7)).astype(np.uint8)):
        check("Resize", [x, roi, scales], attributes | CROP | {"axes": [3, 2], "antialias": 1}, tolerance=64)


NUMBERS: list[tuple[str, list[np.ndarray], dict[str, object], int, int]] = [
    ("CenterCropPad", [floats(4, 7, 3), ints(6, 5)], {"axes": [0, -2]}, 1, 1),
    ("CenterCropPad", [floats(4, 7), ints(5, 5)], {}, 1, 1),
    ("MaxUnpool", [floats(1, 1, 2, 2), ints(5, 7, 13, 15).reshape(1, 1, 2, 2), ints(1, 1, 5, 5)],
     {"kernel_shape": [2, 2], "strides": [2, 2]}, 2, 1),
    ("Split", [floats(4, 7), ints(2, 0, 5)], {"axis": 1}, 1, 3),
    ("Tile", [floats(4, 7, 3), ints(2, 0, 3)], {}, 1, 1),
    ("TopK", [floats(4, 7), ints(3)], {}, 1, 2),
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(NUMBERS)), ids=lambda at: NUMBERS[at][0])
def test_lists_of_any_length(at: int) -> None:
    """How many numbers there are is data; it must be as many as there are axes, or results."""
    name, operands, attributes, place, results = NUMBERS[at]
    expected = REFERENCE["", name](list(operands), dict(attributes), results)
    model = model_of(name, operands, attributes, expected, dynamic=True)
    model.graph.input[place].type.tensor_type.shape.dim[0].dim_param = "K"
    program = sx.compile(model)
    assert program.explain().to_dict()["hosted"] == []
    feeds = {f"x{k}": v for k, v in enumerate(operands)}
    for k, want in enumerate(expected):
        np.testing.assert_array_equal(program(feeds)[f"y{k}"], want)
    with pytest.raises(sx.InputError, match="'node'"):
        program(feeds | {f"x{place}": np.tile(operands[place], 2)})


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_resize_that_keeps_the_aspect_ratio(policy: str) -> None:
    attributes = {"keep_aspect_ratio_policy": policy, "axes": [2, 3], "mode": "linear"}
    for sizes in ((7, 8), (3, 9)):
        check("Resize", [floats(1, 1, 2, 4), None, None, ints(*sizes)], attributes, tolerance=64)


@pytest.mark.parametrize("name", [*REDUCTIONS, "ReduceSumSquare", "ReduceLogSum", "ReduceL1", "ReduceMin"])
@pytest.mark.parametrize("ranked", [True, False])
def test_a_scalar_has_no_axes(name: str, ranked: bool) -> None:
    """Whether they are reduced or not: what is left to do of the reduction is done."""
    x = np.array(1.5, np.float32)
    for attributes in ({}, {"keepdims": 0}, {"noop_with_empty_axes": 1}):
        expected = REFERENCE["", name]([x, ints()], attributes, 1)
        model = model_of(name, [x, ints()], attributes, expected)
        model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "K"
        if not ranked:
            for given in model.graph.input:
                given.type.tensor_type.ClearField("shape")
        program = sx.compile(model)
        np.testing.assert_allclose(program(x0=x, x1=ints())["y0"], expected[0], rtol=1e-6)
        assert program.explain().to_dict()["hosted"] == []
        with pytest.raises(sx.InputError, match=f"a scalar has no axis to reduce.*{name} 'node'"):
            program(x0=x, x1=ints(0))


def test_a_scalar_has_no_number_for_an_axis() -> None:
    x = np.array(1.5, np.float32)
    for name in ("Tile", "CenterCropPad", "Pad"):
        model = model_of(name, [x, ints()], {}, [x])
        model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "K"
        program = sx.compile(model)
        assert program(x0=x, x1=ints())["y0"] == x
        with pytest.raises(sx.InputError, match=name):
            program(x0=x, x1=ints(2, 2))
    with pytest.raises(sx.ModelError, match=r"its attribute 'axes' is \[0\], and a scalar has no axes"):
        sx.compile(model_of("CenterCropPad", [x, ints(2)], {"axes": [0]}, [x]))
    with pytest.raises(sx.ModelError, match=r"DFT.*input 0 \('input'\) has rank 0, and must have at least 2"):
        sx.compile(model_of("DFT", [x, None, np.array(0)], {}, [x], constants=[2]))
    for name, more in (("ArrayFeatureExtractor", [ints(0)]), ("Normalizer", [])):
        with pytest.raises(sx.ModelError, match=f"{name}.*has rank 0, and must have at least 1"):
            sx.compile(model_of(name, [x, *more], {}, [x], domain="ai.onnx.ml"))
