"""Attributes and sizes of which one must be a multiple of the other: refused when compiling, or when called.

Each case is one node; `{}` in it is a size that does not fit, once as a number and once as the symbol H.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import sardonyx as sx

CASES = {
    "GroupNormalization": (
        "(float[N, {}, 4] x, float[{}] s) => (float[A, B, C] y) "
        "{{ y = GroupNormalization <num_groups = 2> (x, s, s) }}",
        3,
    ),
    "GroupNormalization, fewer channels than groups": (
        "(float[N, {}, 4] x, float[{}] s) => (float[A, B, C] y) "
        "{{ y = GroupNormalization <num_groups = 4> (x, s, s) }}",
        2,
    ),
    "Conv": ("(float[1, 4, 5] x, float[{}, 2, 3] w) => (float[A, B, C] y) {{ y = Conv <group = 2> (x, w) }}", 3),
    "ConvInteger": (
        "(uint8[1, 4, 5] x, uint8[{}, 2, 3] w) => (int32[A, B, C] y) {{ y = ConvInteger <group = 2> (x, w) }}",
        3,
    ),
    "QLinearConv": (
        "(uint8[1, 4, 5] x, uint8[{}, 2, 3] w, float s, uint8 z) => (uint8[A, B, C] y) "
        "{{ y = QLinearConv <group = 2> (x, s, z, w, s, z, s, z) }}",
        3,
    ),
    "ConvTranspose": (
        "(float[1, {}, 5] x, float[{}, 1, 3] w) => (float[A, B, C] y) {{ y = ConvTranspose <group = 2> (x, w) }}",
        3,
    ),
    "ConvTranspose, fewer channels than groups": (
        "(float[1, {}, 5] x, float[{}, 1, 3] w) => (float[A, B, C] y) {{ y = ConvTranspose <group = 4> (x, w) }}",
        2,
    ),
    "DeformConv": (
        "(float[1, 4, 5, 5] x, float[{}, 2, 3, 3] w, float[1, 18, 3, 3] o) => (float[A, B, C, D] y) "
        "{{ y = DeformConv <group = 2> (x, w, o) }}",
        3,
    ),
    "DeformConv, groups of offsets": (
        "(float[1, {}, 5, 5] x, float[4, {}, 3, 3] w, float[1, 36, 3, 3] o) => (float[A, B, C, D] y) "
        "{{ y = DeformConv <offset_group = 2> (x, w, o) }}",
        3,
    ),
    "DepthToSpace": (
        "(float[1, {}, 2, 2] x) => (float[A, B, C, D] y) {{ y = DepthToSpace <blocksize = 2> (x) }}",
        6,
    ),
    "SpaceToDepth": (
        "(float[1, 1, 4, {}] x) => (float[A, B, C, D] y) {{ y = SpaceToDepth <blocksize = 2> (x) }}",
        3,
    ),
    "Col2Im": (
        "(float[1, {}, 4] x) => (float[A, B, C, D] y) {{ i = Constant <value_ints = [3, 3]> () "
        "b = Constant <value_ints = [2, 2]> () y = Col2Im (x, i, b) }}",
        6,
    ),
    "Attention": (
        "(float[1, 2, {}] x) => (float[A, B, C] y) {{ y = Attention <q_num_heads = 2, kv_num_heads = 2> (x, x, x) }}",
        7,
    ),
    "Attention, heads of keys": (
        "(float[1, {}, 2, 4] q, float[1, 2, 2, 4] k) => (float[A, B, C, D] y) {{ y = Attention (q, k, k) }}",
        3,
    ),
    "RotaryEmbedding": (
        "(float[1, 2, {}] x, float[1, 2, 2] c) => (float[A, B, C] y) "
        "{{ y = RotaryEmbedding <num_heads = 2> (x, c, c) }}",
        7,
    ),
    "LinearAttention": (
        "(float[1, 2, {}] x) => (float[A, B, C] y, float[D, E, F, G] s) "
        "{{ y, s = LinearAttention <q_num_heads = 2, kv_num_heads = 2, update_rule = \"linear\"> (x, x, x) }}",
        7,
    ),
    "com.microsoft.GroupNorm": (
        "(float[1, 2, 2, {}] x, float[{}] s) => (float[A, B, C, D] y) "
        "{{ y = com.microsoft.GroupNorm <groups = 2, activation = 0> (x, s, s) }}",
        3,
    ),
    "com.microsoft.GroupNorm, fewer channels than groups": (
        "(float[1, 2, 2, {}] x, float[{}] s) => (float[A, B, C, D] y) "
        "{{ y = com.microsoft.GroupNorm <groups = 4, activation = 0> (x, s, s) }}",
        2,
    ),
    "com.microsoft.SkipGroupNorm": (
        "(float[1, 2, 2, {}] x, float[{}] s) => (float[A, B, C, D] y) "
        "{{ y = com.microsoft.SkipGroupNorm <groups = 2, activation = 0> (x, s, s, x) }}",
        3,
    ),
    "com.microsoft.Attention": (
        "(float[1, 2, 8] x, float[8, {}] w, float[{}] b) => (float[A, B, C] y) "
        "{{ y = com.microsoft.Attention <num_heads = 2> (x, w, b) }}",
        21,
    ),
    "com.microsoft.GroupQueryAttention": (
        "(float[1, 1, {}] q, float[1, 1, 16] k, float[1, 2, 3, 8] p, int32[1] n, int32 t) => (float[A, B, C] y, "
        "float[D, E, F, G] a, float[H1, I, J, K] b) {{ y, a, b = com.microsoft.GroupQueryAttention "
        "<num_heads = 4, kv_num_heads = 2> (q, k, k, p, p, n, t) }}",
        31,
    ),
    "com.microsoft.MultiHeadAttention": (
        "(float[1, 2, {}] x) => (float[A, B, C] y) "
        "{{ y = com.microsoft.MultiHeadAttention <num_heads = 2> (x, x, x) }}",
        7,
    ),
    "com.microsoft.RotaryEmbedding": (
        "(float[1, 2, {}] x, int64[1] p, float[4, 2] c) => (float[A, B, C] y) "
        "{{ y = com.microsoft.RotaryEmbedding <num_heads = 2> (x, p, c, c) }}",
        7,
    ),
}  # fmt: skip


def model(text: str, size: int | str) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", 27), helper.make_opsetid("com.microsoft", 1)]
    graph = parser.parse_graph(f"g {text.format(*[size] * text.count('{}'))}")
    made = helper.make_model(graph, opset_imports=imports, ir_version=13)
    made.graph.node[-1].name = "last"
    return made


@pytest.mark.parametrize("case", CASES)
def test_numbers_that_do_not_fit(case: str) -> None:
    text, wrong = CASES[case]
    with pytest.raises(sx.ModelError, match=r"(?s)no multiple of.*'last'|'last'.*no multiple of"):
        sx.compile(model(text, wrong))


@pytest.mark.parametrize("case", CASES)
def test_symbols_that_do_not_fit(case: str) -> None:
    text, wrong = CASES[case]
    made = model(text, "H")
    feeds = {}
    for given in made.graph.input:
        tensor = given.type.tensor_type
        shape = [d.dim_value or wrong for d in tensor.shape.dim]
        feeds[given.name] = np.ones(shape, helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    with pytest.raises(sx.InputError, match=r"(?s)H.* is no multiple of .*H is the size of .*'last'"):
        sx.compile(made)(feeds)


def test_parts_of_a_composed_operator_have_its_name() -> None:
    text = """g (float[1, H, 2, 4] q, float[1, 2, 2, 4] k) => (float[A, B, C, D] y) {
        p = Relu (q)
        y = ai.onnx.preview.FlexAttention (p, k, k)
    }"""
    imports = [helper.make_opsetid("", 27), helper.make_opsetid("ai.onnx.preview", 1)]
    made = helper.make_model(parser.parse_graph(text), opset_imports=imports, ir_version=13)
    made.graph.node[1].name = "flex"
    x = np.ones((1, 3, 2, 4), np.float32)
    with pytest.raises(sx.InputError, match=r"(?s)2 and 3 .H is the size of 'q' axis 1.*node 'flex'"):
        sx.compile(made)(x, x[:, :2])
