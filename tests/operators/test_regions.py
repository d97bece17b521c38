"""Pools over regions whose number of samples depends on the regions, and branches whose ranks differ, in loops."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import sardonyx as sx

from .cases import check, model_of


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_as_many_samples_as_elements(kind: type[np.generic], coordinates: str, mode: str) -> None:
    """Regions inside, outside and across the edges of the image, of no size and of a negative one."""
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 3, 9, 11)).astype(kind)
    corner = random.uniform(-3, 12, (8, 2))
    regions = np.concatenate([corner, corner + random.uniform(0, 9, (8, 2))], 1).astype(kind)
    regions[5] = [2, 3, 2, 3]
    regions[6] = [5, 6, 3, 2]
    regions[7] = [-20, -20, -15, -15]
    operands = [x, regions, random.integers(0, 2, 8)]
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, "output_height": 3, "output_width": 2,
                  "spatial_scale": 0.75}  # fmt: skip
    [wanted] = check("RoiAlign", operands, attributes, tolerance=16, levels=("graph", "kernels", "tensor"))
    if kind != np.float16:
        model = model_of("RoiAlign", operands, attributes, [wanted], opset=16)
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        [theirs] = session.run(None, {f"x{at}": o for at, o in enumerate(operands)})
        np.testing.assert_allclose(theirs, wanted, rtol=1e-5, atol=1e-5)


BRANCHES = """v = If (even) <then_branch = p () => (float{first} o) {{ {then} }},
                                      else_branch = q () => (float[2] r) {{ ax = Constant <value_ints = [1]> ()
                                                                           r = ReduceSum <keepdims = 0> (x, ax) }}>"""
"""Branches whose results have other ranks."""

RANKS = [
    ("[2, 3]", "o = Identity (x)", "t = ReduceSum <keepdims = 0> (v)", lambda x, i: x.sum()),
    ("", "o = ReduceSum <keepdims = 0> (x)", "t = Relu (v)", lambda x, i: x.sum(1) if i % 2 else x.sum()),
    (
        "[2, 3]",
        "o = Identity (x)",
        "f = Cast <to = 1> (i) w = Mul (v, f) t = ReduceSum <keepdims = 0> (w)",
        lambda x, i: x.sum() * i,
    ),
]


@pytest.mark.parametrize("at", range(len(RANKS)))
def test_branches_of_other_ranks_in_a_loop(at: int) -> None:
    """What follows of them moves into the branches: each iteration may take another."""
    first, then, follows, value = RANKS[at]
    text = f"""<ir_version: 10, opset_import: ["" : 22]> g (float[2, 3] x, float[2] z, int64 n) => (float[2] y) {{
        yes = Constant <value = bool {{1}}> ()
        y = Loop (n, yes, z) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] s) {{
            d = Identity (c)
            two = Constant <value_int = 2> ()
            zero = Constant <value_int = 0> ()
            rest = Mod (i, two)
            even = Equal (rest, zero)
            {BRANCHES.format(first=first, then=then)}
            {follows}
            s = Add (a, t)
        }}>
    }}"""
    model = onnx.parser.parse_model(text)
    program, graph = sx.compile(model), sx.lower(model, to="graph")
    assert program.explain().to_dict()["hosted"] == []
    x, z = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros(2, np.float32)
    for n in (0, 1, 4):
        want = sum((value(x, i) for i in range(n)), z)
        np.testing.assert_array_equal(program(x, z, np.array(n))["y"], want)
        np.testing.assert_array_equal(sx.run(graph, {"x": x, "z": z, "n": np.array(n)})["y"], want)
