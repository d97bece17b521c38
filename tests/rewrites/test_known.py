"""Whether inference says the same once more."""

from __future__ import annotations

import pytest
from onnx import parser
from sardonyx.dialects.dims import parse_dims, tensor_type
from sardonyx.frontend.importer import import_model
from sardonyx.rewrites.infer import infer_shapes
from sardonyx.rewrites.infer.known import Known, known_of
from xdsl.dialects.builtin import f32, i64

DATA = """<ir_version: 9, opset_import: ["" : 18]>
m (float[N, M] x, float[K] w) => (float[P, Q] y, float[R] z)
<int64 two = {2}, int64[1] o = {0}, float[1] one = {1.0}> {
    i = NonZero(x) s = Shape(i) e = ConstantOfShape(s) y = Neg(e)
    n = Size(w) d = Div(n, two) q = Unsqueeze(d, o) z = Expand(one, q)
}"""


@pytest.mark.parametrize("compile_mode", [True, False])
def test_once_more_says_the_same(compile_mode: bool) -> None:
    module, weights = import_model(parser.parse_model(DATA))
    infer_shapes(module, weights, compile_mode=compile_mode)
    before = known_of(module)
    infer_shapes(module, weights, compile_mode=compile_mode)
    assert known_of(module).is_same(before)


@pytest.mark.parametrize(
    ("mine", "its", "same"),
    [
        ("N, 2*unk__0", "N, 2*unk__1", True),
        ("unk__0, unk__0 + 1", "unk__1, unk__1 + 1", True),
        ("unk__0, unk__1", "unk__2, unk__3", True),
        ("unk__0, unk__0 + 1", "unk__1, unk__2 + 1", False),
        ("unk__0, unk__1", "unk__2, unk__2", False),
        ("N, unk__0", "N, N", False),
        ("N, unk__0", "N, 2*N", False),
        ("N, unk__0", "N, 3", False),
        ("unk__0, unk__0", "unk__1, unk__0", False),
        ("unk__0, unk__1", "unk__1, unk__2", False),
    ],
)
def test_only_names_of_symbols_may_differ_that_the_other_has_not(mine: str, its: str, same: bool) -> None:
    pair = (parse_dims(mine), parse_dims(its))
    before, after = (Known([], [tensor_type(f32, d)], []) for d in pair)
    assert after.is_same(before) is same
    before, after = (Known([], [], [d]) for d in pair)
    assert after.is_same(before) is same


def test_types_of_other_elements_or_ranks_are_not_the_same() -> None:
    one = Known([], [tensor_type(f32, ["N"])], [])
    for other in (tensor_type(i64, ["N"]), tensor_type(f32, ["N", 1])):
        assert not one.is_same(Known([], [other], []))
