"""Results that are stored round the caches: the same bits, wherever outputs start, on any number of threads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx.parser
import pytest
from sardonyx.dialects.target import AVX512
from sardonyx.lowering import policy
from xdsl.dialects import scf, vector
from xdsl.dialects.func import FuncOp

import sardonyx as sx
from sardonyx.compiler import lower_with
from sardonyx.options import Options

BODIES = {
    "softmax": "y = Softmax (x)",
    "layer normalization": "y = LayerNormalization (x, g, b)",
    "two stages": "n = LayerNormalization (x, g, b)  s = Add (n, x)  y = LogSoftmax (s)",
    "two rows together": "y = LpNormalization (x)",
}


def model(body: str, sizes: Sequence[int | str], kind: str = "float") -> onnx.ModelProto:
    text, width = ",".join(map(str, sizes)), sizes[-1]
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 22]>
    g ({kind}[{text}] x, {kind}[{width}] g, {kind}[{width}] b) => ({kind}[{text}] y) {{ {body} }}""")


def starting_at(offset: int, shape: Sequence[int], dtype: type[np.generic]) -> np.ndarray:
    """An array that starts so many elements behind a cache line's start."""
    size = int(np.prod(shape))
    memory = np.zeros(size + 128, dtype)
    first = -memory.ctypes.data % 64 // memory.itemsize + offset
    return memory[first : first + size].reshape(shape)


@pytest.mark.parametrize(
    ("body", "kind"),
    [*((name, "float") for name in BODIES), ("layer normalization", "float16"), ("layer normalization", "double")],
)
def test_bits_are_those_of_plain_stores(body: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dtype = {"float": np.float32, "float16": np.float16, "double": np.float64}[kind]
    shape, random = (96, 256), np.random.default_rng(0)
    feeds = {"x": shape, "g": shape[1:], "b": shape[1:]}
    text = BODIES[body]
    feeds = {name: random.standard_normal(size).astype(dtype) for name, size in feeds.items()}
    expected = sx.compile(model(text, shape, kind), threads=1)(**feeds)["y"]
    monkeypatch.setattr(policy, "round_the_caches", lambda *_: True)
    for threads in (1, 2):
        program = sx.compile(model(text, shape, kind), threads=threads)
        [name] = program.kernels
        assert "nontemporal" in program.kernels[name].ir("loops")
        for offset in (0, 1, 13):
            output = starting_at(offset, shape, dtype)
            program.bind(feeds, {"y": output})()
            assert output.tobytes() == expected.tobytes()


def nontemporal(sizes: Sequence[int | str]) -> set[bool]:
    """Whether stores of vectors to the result of a softmax of some sizes go round the caches."""
    module = lower_with(model(BODIES["softmax"], sizes), Options(), to="loops", target=AVX512)
    kernel = next(op for op in module.ops if isinstance(op, FuncOp) and op.sym_visibility is not None)
    stores = [op for op in kernel.walk() if isinstance(op, vector.StoreOp) and op.base is kernel.args[-1]]
    return {"nontemporal" in op.properties for op in stores}


def test_only_whole_lines_of_what_the_caches_do_not_keep() -> None:
    assert nontemporal((4096, 1024)) == {True, False}  # by where the result starts
    assert nontemporal((4096, 1000)) == {False}  # rows that do not end with a line
    assert nontemporal((512, 1024)) == {False}  # the next kernel finds it in a cache
    assert nontemporal(("N", 1024)) == {False}
    assert policy.round_the_caches(AVX512.l3, AVX512) and not policy.round_the_caches(AVX512.l3 // 2, AVX512)


def test_what_is_read_again_is_not_stored_round_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exponentials of a softmax lie in scratch there, not in the result's memory."""
    monkeypatch.setattr(policy, "round_the_caches", lambda *_: True)
    module = lower_with(model(BODIES["softmax"], (4096, 1024)), Options(), to="loops", target=AVX512)
    [choice] = [op for op in module.walk() if isinstance(op, scf.IfOp) and op.parent_op() in module.ops]
    kernel = choice.parent_op()
    assert isinstance(kernel, FuncOp)
    past = [op for op in choice.true_region.walk() if isinstance(op, vector.StoreOp)]
    assert {("nontemporal" in op.properties, op.base is kernel.args[-1]) for op in past} == {
        (True, True),
        (False, False),
    }
