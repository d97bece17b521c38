"""Shapes that simplification computes anew: as few nodes as there can be, each once, and right."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

from sardonyx.simplifier import simplify_model

MODELS = {
    "a maximum that two sizes need": (
        """x = Shape<start: int = 0, end: int = 1>(a)
        y = Shape<start: int = 1, end: int = 2>(a)
        m = Max(x, y)
        p = Sub(m, x)
        q = Sub(m, y)
        zero = Constant<value_ints: ints = [0, 0]>()
        pads = Concat<axis: int = 0>(zero, p, q)
        b = Pad(a, pads)""",
        {"Shape": 2, "Max": 1, "Sub": 2, "Concat": 1, "Pad": 1},
    ),
    "sizes in another order": (
        """t = Transpose<perm: ints = [1, 0]>(a)
        s = Shape(t)
        b = Reshape(a, s)""",
        {"Shape": 1, "Gather": 1, "Reshape": 1},
    ),
    "a vector that is there": (
        """s = Shape(a)
        zero = ConstantOfShape(s)
        one = Constant<value_ints: ints = [1]>()
        longer = Concat<axis: int = 0>(s, one)
        c = Reshape(a, longer)
        axes = Constant<value_ints: ints = [2]>()
        d = Squeeze(c, axes)
        b = Add(d, zero)""",
        None,
    ),
    "a size less a number": (
        """c = Concat<axis: int = 0>(a, a)
        s = Shape<start: int = 0, end: int = 1>(c)
        one = Constant<value_ints: ints = [1]>()
        end = Sub(s, one)
        start = Constant<value_ints: ints = [0]>()
        b = Slice(c, start, end, start)""",
        None,
    ),
    "what is only subtracted": (
        """x = Shape<start: int = 0, end: int = 1>(a)
        y = Shape<start: int = 1, end: int = 2>(a)
        s = Add(x, y)
        less = Neg(s)
        b = Cast<to: int = 1>(less)""",
        {"Shape": 2, "Add": 1, "Neg": 1, "Cast": 1},
    ),
}


OPSETS = [
    (name, opset) for name, (body, _) in MODELS.items() for opset in (13, 21) if opset > 14 or "Shape<" not in body
]
"""Shape has ends from opset 15 on."""


@pytest.mark.parametrize(("name", "opset"), OPSETS)
def test_nodes(name: str, opset: int) -> None:
    body, expected = MODELS[name]
    rank = 1 if name == "what is only subtracted" else 2
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g (float[N, M] a) => (float[{", ".join("PQ"[:rank])}] b) {{ {body} }}"""
    model = onnx.parser.parse_model(text)
    written = simplify_model(model).model
    onnx.checker.check_model(written, full_check=True)
    assert simplify_model(written).model.SerializeToString() == written.SerializeToString()
    kinds = Counter(node.op_type for node in written.graph.node if node.op_type != "Constant")
    before = Counter(node.op_type for node in model.graph.node if node.op_type != "Constant")
    assert kinds.total() <= before.total()
    if expected is not None and opset >= 15:
        assert kinds.total() <= sum(expected.values()), kinds
    for shape in ((3, 5), (5, 3), (4, 4), (1, 2)):
        a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        results = [ReferenceEvaluator(m).run(None, {"a": a})[0] for m in (model, written)]
        np.testing.assert_array_equal(results[1], results[0])
