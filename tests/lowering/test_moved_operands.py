"""What is only moved before or behind an attention is read and written where it lies: no loops, the bits of copies."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

import sardonyx as sx

SIZES = "int64[4] split = {0, 0, 2, 8}, int64[3] joined = {0, 0, 16}"
SEPARATE = """a = Reshape (x, split) q = Transpose <perm = [0, 2, 1, 3]> (a)
    b = Reshape (z, split) k = Transpose <perm = [0, 2, 1, 3]> (b)
    c = Reshape (w, split) v = Transpose <perm = [0, 2, 1, 3]> (c)"""
PARTS = {
    "transposed": ("float[B,S,16] x, float[B,T,16] z, float[B,T,16] w", SEPARATE),
    "of one tensor": (
        "float[2,21,48] x",
        """p, o, u = Split <axis = 2, num_outputs = 3> (x) a = Reshape (p, split) b = Reshape (o, split)
        c = Reshape (u, split) q = Transpose <perm = [0, 2, 1, 3]> (a) k = Transpose <perm = [0, 2, 1, 3]> (b)
        v = Transpose <perm = [0, 2, 1, 3]> (c)""",
    ),
    "gathered": (
        "float[21,1,3,16] x",
        """zero = Constant <value_int = 0> () one = Constant <value_int = 1> () two = Constant <value_int = 2> ()
        heads = Constant <value_ints = [1, 21, 2, 8]> ()
        p = Gather <axis = 2> (x, zero) a = Reshape (p, heads) q = Transpose <perm = [0, 2, 1, 3]> (a)
        o = Gather <axis = 2> (x, one) b = Reshape (o, heads) k = Transpose <perm = [0, 2, 1, 3]> (b)
        u = Gather <axis = 2> (x, two) c = Reshape (u, heads) v = Transpose <perm = [0, 2, 1, 3]> (c)""",
    ),
    "one for all three": (
        "float[B,S,16] x",
        "a = Reshape (x, split) q = Transpose <perm = [0, 2, 1, 3]> (a) k = Identity (q) v = Identity (q)",
    ),
}
COPIED = {
    "computed": (
        "float[B,S,16] x, float[B,T,16] z, float[B,T,16] w",
        SEPARATE.replace("v = Transpose", "d = Transpose") + " v = Exp (d)",
    ),
    "not contiguous": (
        "float[2,8,2,21] x, float[2,8,2,30] z, float[2,2,30,8] v",
        "q = Transpose <perm = [0, 2, 3, 1]> (x) k = Transpose <perm = [0, 2, 3, 1]> (z)",
    ),
}


def model(inputs: str, body: str, results: str = "float[P,2,Q,8] y") -> onnx.ModelProto:
    return onnx.parser.parse_model(f"""<ir_version: 11, opset_import: ["" : 23]>
        g ({inputs}) => ({results}) <{SIZES}> {{ {body} y = Attention <is_causal = 1> (q, k, v) }}""")


def feeds(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    random, sizes = np.random.default_rng(0), {"B": 2, "S": 21, "T": 300}
    shapes = {
        i.name: [sizes.get(d.dim_param, d.dim_value) for d in i.type.tensor_type.shape.dim] for i in proto.graph.input
    }
    return {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def loops(proto: onnx.ModelProto) -> int:
    """How many kernels have loops beside the template."""
    program = sx.compile(proto, cache=False)
    functions = program.explain().to_dict()["functions"]
    return sum("loops" in f["schedule"] for f in functions.values())


@pytest.mark.parametrize(("inputs", "body"), [*PARTS.values(), *COPIED.values()], ids=[*PARTS, *COPIED])
def test_bits_are_those_of_copies(inputs: str, body: str) -> None:
    proto = model(inputs, body)
    given = feeds(proto)
    expected = sx.compile(proto, cache=False, fuse=False)(**given)["y"]
    for threads in (1, 2):
        np.testing.assert_array_equal(sx.compile(proto, cache=False, threads=threads)(**given)["y"], expected)


@pytest.mark.parametrize(("inputs", "body"), PARTS.values(), ids=PARTS)
def test_nothing_is_copied(inputs: str, body: str) -> None:
    assert loops(model(inputs, body)) == 0


@pytest.mark.parametrize(("inputs", "body"), COPIED.values(), ids=COPIED)
def test_what_is_computed_or_not_contiguous_is_made(inputs: str, body: str) -> None:
    assert loops(model(inputs, body)) == 1


def test_a_result_of_the_model_is_made() -> None:
    inputs, body = PARTS["transposed"]
    proto = model(inputs, body, "float[P,2,Q,8] y, float[B,2,T,8] k")
    given = feeds(proto)
    found = sx.compile(proto, cache=False)(**given)
    np.testing.assert_array_equal(found["k"], given["z"].reshape(2, 300, 2, 8).transpose(0, 2, 1, 3))
    np.testing.assert_array_equal(found["y"], sx.compile(proto, cache=False, fuse=False)(**given)["y"])


def test_keys_and_values_behind_those_of_before() -> None:
    inputs, body = PARTS["transposed"]
    proto = onnx.parser.parse_model(f"""<ir_version: 11, opset_import: ["" : 23]>
        g ({inputs}, float[B,2,5,8] pk, float[B,2,5,8] pv) => (float[P,2,Q,8] y, float[P,2,U,8] nk, float[P,2,U,8] nv)
        <{SIZES}> {{ {body} y, nk, nv = Attention <is_causal = 1> (q, k, v, , pk, pv) }}""")
    given = feeds(proto)
    found, expected = (sx.compile(proto, cache=False, fuse=fuse)(**given) for fuse in (True, False))
    for name in ("y", "nk", "nv"):
        np.testing.assert_array_equal(found[name], expected[name])


BEHIND = {
    "heads of a row joined, for a product": (
        "t = Transpose <perm = [0, 2, 1, 3]> (a) r = Reshape (t, joined) y = MatMul (r, w)",
        "float[P,Q,R] y",
    ),
    "a result of the model": ("y = Transpose <perm = [2, 0, 1, 3]> (a)", "float[P,Q,R,T] y"),
}
MOVED_BY_LOOPS = {
    "read by others too": (
        "y = Transpose <perm = [0, 2, 1, 3]> (a) z = Neg (a)", "float[P,Q,R,T] y, float[K,L,M,N] z"
    ),
    "turned": ("y = Transpose <perm = [0, 2, 3, 1]> (a)", "float[P,Q,R,T] y"),
    "computed": ("t = Neg (a) y = Transpose <perm = [0, 2, 1, 3]> (t)", "float[P,Q,R,T] y"),
}  # fmt: skip
SHAPES = ("2,2,21", "B,2,S", "1,2,300")


def followed(body: str, results: str, sizes: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"""<ir_version: 11, opset_import: ["" : 23]>
        g (float[{sizes},8] q, float[{sizes},8] k, float[{sizes},8] v, float[16,5] w) => ({results})
        <{SIZES}> {{ a = Attention (q, k, v) {body} }}""")


@pytest.mark.parametrize(
    ("body", "results"), [*BEHIND.values(), *MOVED_BY_LOOPS.values()], ids=[*BEHIND, *MOVED_BY_LOOPS]
)
@pytest.mark.parametrize("sizes", SHAPES)
def test_results_have_the_bits_of_copies(body: str, results: str, sizes: str) -> None:
    proto = followed(body, results, sizes)
    given = feeds(proto)
    expected = sx.compile(proto, cache=False, fuse=False)(**given)
    for threads in (1, 2):
        found = sx.compile(proto, cache=False, threads=threads)(**given)
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize(("body", "results"), BEHIND.values(), ids=BEHIND)
@pytest.mark.parametrize("sizes", SHAPES)
def test_results_are_written_in_order(body: str, results: str, sizes: str) -> None:
    assert loops(followed(body, results, sizes)) == 0


@pytest.mark.parametrize(("body", "results"), MOVED_BY_LOOPS.values(), ids=MOVED_BY_LOOPS)
def test_results_that_are_not_only_moved_are_made(body: str, results: str) -> None:
    assert loops(followed(body, results, "2,2,21")) >= 1
