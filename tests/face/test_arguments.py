"""Arguments of the public functions that are none of what they take: one error each, of our own class."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from sardonyx.dialects import onnx as ops
from sardonyx.rewrites.driver import Pattern
from sardonyx.runtime.errors import UsageError
from sardonyx.runtime.usage import KINDS
from sardonyx.tools.bench import bench_model
from sardonyx.tools.profile import profile_program

import sardonyx as sx
from sardonyx.backend import SardonyxBackend
from sardonyx.simplifier import simplified, simplify_model
from sardonyx.tuner import tune

X = np.zeros((2, 4), np.float32)
IR = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { func.return %x : tensor<4xf32> }"
MODEL = onnx.helper.make_model(
    onnx.parser.parse_graph("g (float[N, 4] x) => (float[N, 4] z) { z = Relu(x) }"),
    opset_imports=[onnx.helper.make_opsetid("", 22)],
)


class Never(Pattern):
    """Add(a, b)  ->  itself"""

    root = ops.AddOp

    def rewrite(self, op: Any, rewriter: Any, /) -> None:
        pass


@pytest.fixture(scope="module")
def program() -> sx.Program:
    return sx.compile(MODEL)


@pytest.fixture(scope="module")
def module() -> Any:
    return sx.lower(MODEL, to="graph")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "compile": lambda **given: sx.compile(MODEL, **given),
    "lower": lambda **given: sx.lower(MODEL, **{"to": "graph", **given}),
    "compare": lambda **given: sx.compare(MODEL, **{"inputs": {"x": X}, **given}),
    "rewrite": lambda **given: sx.rewrite(MODEL, **given),
    "read": sx.read,
    "tune": lambda **given: tune(MODEL, **{"budget": 0, "keep": False, **given}),
    "simplified": lambda **given: simplified(MODEL, **{"output": "", **given}),
    "pointwise": lambda **given: sx.pointwise("a::B", **{"reference": len, "body": len, **given}),
    "check": lambda **given: sx.testing.check(Never(), **{"ir": IR, "fires": False, **given}),
}

NO_FLAG = "True or False"
NO_TOLERANCE = "a number from 0 up"
NO_THREADS = "a number of threads, at least 1 (the caller's), or None for one on each core"


def test_a_range_of_a_size_that_the_model_does_not_have() -> None:
    with pytest.raises(sx.InputError, match=r"^dims=\{'Q': \(1, 2\)\}: the model has no symbol 'Q', but N$"):
        sx.compile(MODEL, dims={"Q": (1, 2)})


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"])
@pytest.mark.parametrize("cache", [False, True])
def test_a_text_that_is_no_path(path: str, cache: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARDONYX_CACHE", str(tmp_path) if cache else "off")
    with pytest.raises(sx.ModelError, match="cannot be read"):
        sx.compile(path)


def test_an_input_whose_copy_is_too_large() -> None:
    with pytest.raises(sx.ResourceError, match=r"^input 'x' with the sizes \(1099511627776, 4\) does not lie in order"):
        sx.compile(MODEL)({"x": np.broadcast_to(np.float32(1), (1 << 40, 4))})


@pytest.mark.parametrize(
    ("function", "name", "value", "text"),
    [
        *(("compile", name, 1, f"{name}=1: {NO_FLAG}") for name in ("exact", "fast_math", "fuse", "tuned", "timed")),
        ("compile", "cache", np.zeros(2), f"cache=array([0., 0.]): {NO_FLAG}"),
        ("compile", "progress", 3, "progress=3: a function of (phase, done, total), or None"),
        ("compile", "precision", [], "precision=[]: the name of a mode such as 'f32'"),
        ("compile", "precision", "f8", "precision='f8': there are f32, f32-amx3, f32-amx6, bf16"),
        ("compile", "threads", True, f"threads=True: {NO_THREADS}"),
        ("compile", "threads", 0, f"threads=0: {NO_THREADS}"),
        ("compile", "dims", ["N"], "dims=['N']: a mapping {symbol: (least, greatest)}"),
        ("compile", "dims", {"N": (5, 2)}, "dims has (5, 2) for 'N'; a symbol has (least, greatest), whole numbers"),
        ("compile", "dims", {"N": (0, 2.5)}, "dims has (0, 2.5) for 'N'; a symbol has"),
        ("compile", "dims", {3: (1, 2)}, "dims has (1, 2) for 3; a symbol has"),
        ("compile", "assume", 3, "assume=3: a condition such as 'S == T', or a list of them"),
        ("compile", "schedule", [3], "schedule=[3]: a mapping from kernels to parts, or the path of a file"),
        ("compile", "target", "", "target='': a sardonyx.dialects.target.Target is needed, or None for this machine"),
        ("compile", "patterns", None, "patterns=None: a list of rewrite patterns"),
        ("compile", "ops", "a", "ops='a': a list of operators of sx.op or sx.pointwise"),
        ("lower", "to", np.zeros(2), "to=array([0., 0.]): the name of a level"),
        ("lower", "plain", "yes", f"plain='yes': {NO_FLAG}"),
        ("compare", "inputs", [X], "inputs=[array([[0., 0., 0., 0.], [0., 0., 0., 0.]], dtype=float32)]: a mapping"),
        ("compare", "side", 3, "side=3: the name of a side such as 'native'"),
        ("compare", "trace", "yes", "trace='yes': True, False, or None to look where an output differs"),
        ("compare", "rtol", "1e-3", f"rtol='1e-3': {NO_TOLERANCE}"),
        ("compare", "atol", float("nan"), f"atol=nan: {NO_TOLERANCE}"),
        ("compare", "atol", -1, f"atol=-1: {NO_TOLERANCE}"),
        ("rewrite", "patterns", 3, "patterns=3: a list of rewrite patterns"),
        ("read", "path", 3, "path=3: the path of a file"),
        ("read", "path", b"x", "path=b'x': the path of a file"),
        ("tune", "budget", -1, "budget=-1: a number of seconds from 0 up"),
        ("tune", "sizes", "N=3", "sizes='N=3': a list of sizes such as 'N=8'"),
        ("tune", "workers", 3, "workers=3: an executor of sardonyx.workers, or None for here"),
        ("tune", "keep", None, f"keep=None: {NO_FLAG}"),
        ("simplified", "sizes", [3], "sizes=[3]: a list of sizes such as 'N=8'"),
        ("simplified", "output", 1, "output=1: the path of a file"),
        ("pointwise", "body", 3, "body=3: a function"),
        ("pointwise", "since", 0, "since=0: the number of an opset, at least 1"),
        ("pointwise", "shape", 3, "shape=3: a function from a context to types, or None"),
        ("check", "bindings", 0, "bindings=0: a number of bindings, at least 1"),
        ("check", "seed", 0.5, "seed=0.5: a whole number from 0 up"),
        ("check", "ranges", {"N": 3}, "ranges has 3 for 'N'; a symbol has (least, greatest)"),
        ("check", "ir", "func.func @main(", "<unknown>:1:"),
    ],
)
def test_what_arguments_take(function: str, name: str, value: object, text: str) -> None:
    with pytest.raises(sx.InputError) as caught:
        FUNCTIONS[function](**{name: value})
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "function",
    [sx.compile, sx.lower, sx.run, sx.read, sx.rewrite, sx.compare, sx.op, sx.pointwise, sx.testing.check, tune,
     simplified, simplify_model, profile_program, bench_model],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_every_argument_has_a_kind(function: Callable[..., Any]) -> None:
    own = {"model", "module", "left", "name", "pattern", "program", "machine"}  # checked where they are used
    assert not signature(function).parameters.keys() - KINDS.keys() - own
    assert hasattr(function, "__wrapped__"), "it is not checked"


def test_operators_are_functions() -> None:
    with pytest.raises(UsageError, match="the reference of a::B=3: a function"):
        sx.op("a::B")(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="'bogus' is no operator name"):
        sx.op("bogus")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda p: p.run(3, {"x": X}), "names=3: a list of names of outputs, or None for all"),
        (lambda p: p.run("z", {"x": X}), "names='z': a list of names of outputs, or None for all"),
        (lambda p: p.run(None, None), "feeds=None: a mapping from names to arrays"),
        (lambda p: p.run_into(3, {"x": X}), "outputs=3: a mapping from names of outputs to arrays"),
        (lambda p: p.run_into({"z": [0.0]}, {"x": X}), "output 'z' is written into an array, not into list"),
        (lambda p: p.bind([X]), "feeds=[array("),
        (lambda p: p.bind({"x": X}, 3), "outputs=3: a mapping from names of outputs to arrays"),
        (lambda p: p.memory_analysis(3), "sizes=3: a mapping from symbols to sizes"),
        (lambda p: p.memory_analysis(N=1.5), "N=1.5: a size, a whole number from 0 up"),
        (lambda p: p.memory_analysis(N=-1), "N=-1: a size, a whole number from 0 up"),
        (lambda p: p.memory_analysis(N=2, threads=0), f"threads=0: {NO_THREADS}"),
        (lambda p: p.kernels["relu_0"].ir(3), "level=3: the name of a level"),
        (lambda p: p.kernels[[]], "no kernel []; there are relu_0"),
        (lambda p: profile_program(p, {"x": X}, None, seconds=1), "the program notes no times: compile it with timed"),
        (lambda p: profile_program(p, {"x": X}, None, seconds="1"), "seconds='1': a number of seconds from 0 up"),
    ],
)
def test_what_programs_take(call: Callable[[sx.Program], Any], text: str, program: sx.Program) -> None:
    with pytest.raises(sx.InputError) as caught:
        call(program)
    assert text in str(caught.value)
    assert program(X)["z"].shape == (2, 4)


def test_kernels_are_a_mapping(program: sx.Program) -> None:
    assert "bogus" not in program.kernels and program.kernels.get("bogus") is None


def test_a_module_has_its_options(module: Any) -> None:
    for option in {"assume": ["N == 2"]}, {"fuse": False}, {"exact": True}, {"patterns": [Never()]}:
        (name,) = option
        with pytest.raises(UsageError, match=f"{name} is for a model: a module goes on as it was lowered"):
            sx.lower(module, to="kernels", **option)
    with pytest.raises(UsageError, match="threads='a': a number of threads"):
        sx.run(module, {"x": X}, threads="a")  # pyright: ignore[reportArgumentType]


def test_what_the_backend_takes() -> None:
    with pytest.raises(UsageError, match="a model is a ModelProto, not str"):
        SardonyxBackend.prepare("bogus")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="device=3: the name of a device, which is 'CPU'"):
        SardonyxBackend.prepare(MODEL, 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="inputs=3: a list of the inputs, a mapping from names, or the only one"):
        SardonyxBackend.prepare(MODEL).run(3)


def test_no_place_to_write(tmp_path: Path) -> None:
    with pytest.raises(sx.InputError, match="cannot be written: No such file or directory"):
        simplified(MODEL, tmp_path / "nowhere" / "out.onnx")
