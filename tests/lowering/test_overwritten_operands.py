"""Data of ScatterND and ScatterElements that a kernel makes itself lies where the result is to be."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import sardonyx as sx

HEAD = '<ir_version: 10, opset_import: ["" : 18]> g (float[N] x, int64[K] at, float[K] u) => (float[N] y)'
SETTINGS = "<int64[1] one = {1}, int64 zero = {0}, int64 step = {1}, int64 axis = {0}>"
DATA = {
    "zeros": "size = Shape (x) data = ConstantOfShape (size)",
    "ones": "size = Shape (x) data = ConstantOfShape <value = float[1] {1.5}> (size)",
    "range": "size = Shape (x) n = Squeeze (size) r = Range (zero, n, step) data = Cast <to = 1> (r)",
}
SCATTER = {
    "elements": "s = ScatterElements <axis = 0{how}> (data, at, u)",
    "nd": "i = Unsqueeze (at, one) s = ScatterND <{how}> (data, i, u)",
}


def model(data: str, scatter: str, how: str) -> onnx.ModelProto:
    how = how and f'reduction = "{how}"'
    if scatter == "elements":
        how = how and f", {how}"
    nodes = f"{DATA[data]} {SCATTER[scatter].format(how=how)} y = Exp (s)".replace("ScatterND <>", "ScatterND")
    return onnx.parser.parse_model(f"{HEAD} {SETTINGS} {{ {nodes} }}")


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("scatter", SCATTER)
@pytest.mark.parametrize("how", ["", "add", "mul", "max"])
def test_the_data_is_made_in_place(data: str, scatter: str, how: str) -> None:
    made = model(data, scatter, how)
    program = sx.compile(made, threads=2)
    rng = np.random.default_rng(0)
    for size, count in ((1, 1), (16, 5), (1000, 3000), (70000, 10)):
        at = rng.integers(-size, size, count)
        at = np.unique(at % size) if not how else at
        feeds = {
            "x": np.zeros(size, np.float32),
            "at": at,
            "u": rng.integers(-2, 3, len(at)).astype(np.float32),
        }
        expected = sx.run(sx.lower(made, to="graph"), feeds)["y"]
        np.testing.assert_allclose(program(feeds)["y"], expected, rtol=1e-5)
        assert program.memory_analysis(N=size, K=len(at)).peak <= 4 * size + 64
