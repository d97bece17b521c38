"""What a template's kernel makes itself has the bits that a kernel of its own gives, at every size."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import sardonyx as sx

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '
IMAGE = "(float[B, 16, H, W] x, float[16, 16, 3, 3] w) => (float[B, 16, P, Q] y)"
SOUND = "(float[B, 16, W] x, float[8, 16, 3] w) => (float[B, 8, Q] y)"
SIZES = ({"B": 1, "H": 9, "W": 21}, {"B": 3, "H": 5, "W": 3}, {"B": 2, "H": 3, "W": 40}, {"B": 0, "H": 4, "W": 5})

CASES = {
    "pointwise": (IMAGE, "a = Abs (x) e = Sqrt (a) y = Conv <pads = [1, 1, 1, 1]> (e, w)"),
    "pointwise, with a stride": (IMAGE, "e = Relu (x) y = Conv <strides = [2, 2], pads = [1, 0, 0, 1]> (e, w)"),
    "nothing that a convolution copies": (IMAGE, "e = Relu (x) y = Conv (e, w)"),
    "mirrored edges": (
        IMAGE,
        "p = Constant <value_ints = [0, 0, 1, 2, 0, 0, 2, 1]> () e = Pad <mode = \"reflect\"> (x, p) y = Conv (e, w)",
    ),
    "repeated edges": (
        SOUND,
        "p = Constant <value_ints = [0, 0, 5, 0, 0, 7]> () e = Pad <mode = \"edge\"> (x, p) "
        "y = Conv <strides = [3]> (e, w)",
    ),
    "a part": (
        IMAGE,
        "s = Constant <value_ints = [1, 2]> () m = Constant <value_ints = [-1, 1000]> ()"
        "a = Constant <value_ints = [2, 3]> () e = Slice (x, s, m, a) y = Conv <pads = [2, 2, 2, 2]> (e, w)",
    ),
    "backwards": (
        SOUND,
        "s = Constant <value_ints = [-1]> () m = Constant <value_ints = [-1000]> () a = Constant <value_ints = [2]> ()"
        "e = Slice (x, s, m, a, s) y = Conv <pads = [1, 1]> (e, w)",
    ),
    "every second": (
        SOUND,
        "s = Constant <value_ints = [0]> () m = Constant <value_ints = [1000]> () a = Constant <value_ints = [2]> ()"
        "t = Constant <value_ints = [2]> () e = Slice (x, s, m, a, t) y = Conv <pads = [1, 1]> (e, w)",
    ),
    "parts joined": (
        "(float[B, 6, H, W] x, float[B, 10, H, W] z, float[16, 16, 3, 3] w) => (float[B, 16, P, Q] y)",
        "e = Concat <axis = 1> (x, z) y = Conv <pads = [1, 1, 1, 1]> (e, w)",
    ),
    "rows joined": (
        "(float[B, 16, W] x, float[B, 16, 5] z, float[8, 16, 3] w) => (float[B, 8, Q] y)",
        "e = Concat <axis = 2> (x, z, x) y = Conv <pads = [1, 1]> (e, w)",
    ),
    "turned": (
        "(float[B, W, 16] x, float[8, 16, 3] w) => (float[B, 8, Q] y)",
        "e = Transpose <perm = [0, 2, 1]> (x) y = Conv <pads = [1, 1]> (e, w)",
    ),
    "channels changing places": (
        "(float[16, B, W] x, float[8, 16, 3] w) => (float[B, 8, Q] y)",
        "e = Transpose <perm = [1, 0, 2]> (x) y = Conv <pads = [1, 1]> (e, w)",
    ),
    "under other dims": (
        "(float[B, 16, W] x, float[8, 16, 1, 3] w) => (float[B, 8, P, Q] y)",
        "a = Constant <value_ints = [2]> () e = Tanh (x) u = Unsqueeze (e, a) y = Conv <pads = [0, 1, 0, 1]> (u, w)",
    ),
    "rows of others": (
        "(float[B, 64, W] x, float[8, 16, 1, 3] w) => (float[B, 8, P, Q] y)",
        "a = Constant <value_ints = [0, 16, 4, -1]> () e = Tanh (x) u = Reshape (e, a) "
        "y = Conv <pads = [0, 1, 0, 1]> (u, w)",
    ),
    "one channel to a group": (
        "(float[B, 16, H, W] x, float[16, 1, 3, 3] w) => (float[B, 16, P, Q] y)",
        "e = Neg (x) y = Conv <group = 16, pads = [1, 1, 1, 1]> (e, w)",
    ),
    "one channel to a group, of one axis": (
        "(float[B, 16, W] x, float[16, 1, 3] w) => (float[B, 16, Q] y)",
        "e = Neg (x) y = Conv <group = 16, pads = [1, 1]> (e, w)",
    ),
    "groups": (
        "(float[B, 16, H, W] x, float[8, 4, 3, 3] w) => (float[B, 8, P, Q] y)",
        "e = Exp (x) y = Conv <group = 4, pads = [1, 1, 1, 1]> (e, w)",
    ),
    "broadcast": (
        "(float[B, 16, 1, W] x, float[16, 1, 1] z, float[16, 16, 1, 3] w) => (float[B, 16, P, Q] y)",
        "e = Mul (x, z) y = Conv <pads = [0, 1, 0, 1]> (e, w)",
    ),
    "a residual": (IMAGE, "e = Sigmoid (x) c = Conv <pads = [1, 1, 1, 1]> (e, w) y = Add (c, e)"),
    "rows by an index": (
        "(float[V, 16, W] x, int64[B] i, float[8, 16, 3] w) => (float[B, 8, Q] y)",
        "e = Gather (x, i) y = Conv <pads = [1, 1]> (e, w)",
    ),
    "in halves": (
        "(float16[B, 16, H, W] x, float16[16, 16, 3, 3] w) => (float16[B, 16, P, Q] y)",
        "e = Tanh (x) y = Conv <pads = [1, 1, 1, 1]> (e, w)",
    ),
    "transposed": (
        "(float[B, 16, W] x, float[16, 8, 3] w) => (float[B, 8, Q] y)",
        "e = Exp (x) y = ConvTranspose <strides = [2]> (e, w)",
    ),
    "a product": (
        "(float[B, 16, W] x, float[W, 8] w) => (float[B, 16, 8] y)",
        "e = Abs (x) s = Sqrt (e) y = MatMul (s, w)",
    ),
    "both factors": (
        "(float[B, 16, W] x, float[B, 16, W] z) => (float[B, 16, 16] y)",
        "e = Abs (x) t = Transpose <perm = [0, 2, 1]> (z) n = Neg (t) y = MatMul (e, n)",
    ),
    "heads": (
        "(float[B, W, 32] x, float[B, W, 32] z) => (float[B, 4, W, W] y)",
        "h = Constant <value_ints = [0, 0, 4, 8]> () p = Reshape (x, h) q = Reshape (z, h)"
        "s = Transpose <perm = [0, 2, 1, 3]> (p) t = Transpose <perm = [0, 2, 3, 1]> (q) y = MatMul (s, t)",
    ),
    "gates behind a product": (
        "(float[B, 16] x, float[16, 32] w, float[B, 8] c) => (float[B, 8] y)",
        "m = MatMul (x, w) i, f, g, o = Split <axis = 1, num_outputs = 4> (m) a = Sigmoid (f) b = Mul (a, c)"
        "d = Sigmoid (i) e = Tanh (g) h = Mul (d, e) s = Add (b, h) t = Tanh (s) u = Sigmoid (o) y = Mul (t, u)",
    ),
    "gates of one row": (
        "(float[1, W] x, float[W, 32] w, float[1, 8] c) => (float[1, 8] y)",
        "m = MatMul (x, w) i, f, g, o = Split <axis = 1, num_outputs = 4> (m) a = Sigmoid (f) b = Mul (a, c)"
        "d = Sigmoid (i) e = Tanh (g) h = Mul (d, e) s = Add (b, h) t = Tanh (s) u = Sigmoid (o) y = Mul (t, u)",
    ),
    "a recurrence": (
        "(float[B, W, 16] x, float[1, 32, 16] w, float[1, 32, 8] r) => (float[W, 1, B, 8] y)",
        "t = Transpose <perm = [1, 0, 2]> (x) e = Relu (t) y = LSTM <hidden_size = 8> (e, w, r)",
    ),
}  # fmt: skip


def feeds_of(program: sx.Program, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    feeds: dict[str, np.ndarray] = {}
    for spec in program.inputs:
        shape = [sizes.get(str(d), 6 if isinstance(d, str) else d) for d in spec.shape]
        if spec.dtype.kind == "i":
            feeds[spec.name] = rng.integers(-6, 6, shape)
        else:
            feeds[spec.name] = rng.standard_normal(shape).astype(spec.dtype)
    return feeds


@pytest.mark.parametrize("name", CASES)
def test_prologues_have_the_bits_of_kernels_apart(name: str) -> None:
    signature, body = CASES[name]
    model = onnx.parser.parse_model(f"{HEAD}{signature} {{ {body} }}")
    fused = sx.compile(model, cache=False, threads=2)
    apart = sx.compile(model, cache=False, fuse=False)
    assert len(fused.explain().to_dict()["kernels"]) == 1
    for sizes in SIZES:
        feeds = feeds_of(fused, sizes)
        try:
            want = apart(feeds)["y"]
        except sx.InputError:
            with pytest.raises(sx.InputError):
                fused(feeds)
            continue
        found = fused(feeds)["y"]
        assert found.shape == want.shape and found.tobytes() == want.tobytes(), sizes


KNOWN = {
    "channels scaled": ("float[2, 33, 9, 13] x, float[2, 33, 1, 1] z, float[20, 33, 1, 1] w", ""),
    "many positions": (
        "float[1, 9, 40, 37] x, float[1, 9, 1, 1] z, float[35, 9, 1, 1] w",
        "",
    ),
    "a small image": ("float[2, 70, 7, 7] x, float[2, 70, 1, 1] z, float[50, 70, 1, 1] w", ""),
    "many channels": ("float[1, 900, 5, 9] x, float[900, 1, 1] z, float[6, 900, 1, 1] w", ""),
    "in groups": ("float[2, 12, 9, 13] x, float[12, 1, 1] z, float[15, 4, 1, 1] w", "group = 3"),
    "rows scaled": ("float[1, 5, 9, 13] x, float[9, 1] z, float[20, 5, 1, 1] w", ""),
    "columns scaled": ("float[1, 5, 9, 13] x, float[13] z, float[20, 5, 1, 1] w", ""),
    "all elements scaled": ("float[1, 5, 9, 13] x, float[9, 13] z, float[20, 5, 1, 1] w", ""),
    "of one column": ("float[1, 5, 19, 1] x, float[5, 1, 1] z, float[20, 5, 1, 1] w", ""),
    "three axes": ("float[1, 5, 3, 9, 7] x, float[5, 1, 1, 1] z, float[20, 5, 1, 1, 1] w", ""),
    "windows": ("float[1, 5, 9, 13] x, float[5, 1, 1] z, float[20, 5, 3, 2] w", ""),
    "in halves": ("float16[1, 5, 9, 13] x, float16[5, 1, 1] z, float16[20, 5, 1, 1] w", ""),
}


@pytest.mark.parametrize("name", KNOWN)
def test_prologues_of_known_sizes(name: str) -> None:
    """Copied over the ends of rows where that is right, and by each tile where it is little."""
    inputs, attributes = KNOWN[name]
    kind = inputs.split("[")[0]
    axes = inputs.split("]")[0].count(",") + 1
    result = ", ".join("BMPQR"[:axes])
    text = f"({inputs}) => ({kind}[{result}] y) {{ e = Mul (x, z) y = Conv <{attributes}> (e, w) }}"
    model = onnx.parser.parse_model(HEAD + text.replace(" <>", ""))
    apart = sx.compile(model, cache=False, fuse=False)
    feeds = feeds_of(apart, {})
    want = apart(feeds)["y"]
    for threads in (1, 3):
        fused = sx.compile(model, cache=False, threads=threads)
        assert len(fused.explain().to_dict()["kernels"]) == 1
        assert fused(feeds)["y"].tobytes() == want.tobytes()


def test_an_index_that_is_outside_is_an_error_in_a_prologue() -> None:
    signature, body = CASES["rows by an index"]
    program = sx.compile(onnx.parser.parse_model(f"{HEAD}{signature} {{ {body} }}"), cache=False)
    feeds = feeds_of(program, SIZES[0]) | {"i": np.array([7])}
    with pytest.raises(sx.InputError, match="7"):
        program(feeds)
