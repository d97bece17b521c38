"""Ranges of symbols that torch's exporter writes are facts, and guards."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto

import sardonyx as sx


def model(ranges: str) -> ModelProto:
    text = "(float[s0, 3] x) => (float[n, m] y) <int64[1] b = {0}, int64[1] e = {64}> { y = Slice(x, b, e, b) }"
    made = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> g {text}')
    made.graph.output[0].type.tensor_type.ClearField("shape")
    made.graph.metadata_props.add(key="pkg.torch.export.ExportedProgram.range_constraints", value=ranges)
    return made


def test_ranges_are_guarded() -> None:
    program = sx.compile(model("{s0: VR[4, 64], other: VR[2, 8]}"))
    assert program(np.zeros((5, 3), np.float32))["y"].shape == (5, 3)
    for rows in (3, 65):
        with pytest.raises(sx.InputError, match="declared by the file"):
            program(np.zeros((rows, 3), np.float32))


@pytest.mark.parametrize("ranges", ["{s0: VR[2, int_oo]}", "{s0: VR[0, int_oo]}", "anything"])
def test_sizes_that_tracing_leaves_out_are_let_in(ranges: str) -> None:
    program = sx.compile(model(ranges))
    for rows in (0, 1, 70):
        assert program(np.zeros((rows, 3), np.float32))["y"].shape == (min(rows, 64), 3)
