"""Options and arguments that say nothing the product can do: usage errors, with what there is in place of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from sardonyx.tools.feeds import make_feeds

import sardonyx as sx
from sardonyx.cli import cli, main

Make = Callable[..., onnx.ModelProto]
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs the command line in this process; gives the exit code and what standard error has."""

    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["sardonyx", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        return int(left.value.code or 0), capsys.readouterr().err

    return run


@pytest.mark.parametrize("command", ["run", "compare", "bench", "profile", "tune", "simplify"])
def test_sizes_of_other_symbols(
    command: str, digits: Path, tmp_path: Path, exits: Callable[..., tuple[int, str]]
) -> None:
    more = {"tune": ("--workers", "here"), "simplify": ("--validate", "-o", tmp_path / "out.onnx")}.get(command, ())
    code, text = exits(command, digits, "--size", "Q=3", *more)
    assert code == 3 and "the model has no symbol 'Q'; it has batch" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--size", "batch=abc"), "'batch=abc' is no size such as N=8"),
        (("run", "--size", "batch"), "'batch' is no size such as N=8"),
        (("run", "--precision", "f8"), "'f8' is not one of"),
        (("run", "--input", "image"), "'image' is no input such as"),
        (("run", "--input", "image=1x2"), "no shape and type such as 2x3xf32"),
        (("run", "--input", "image=1x1x8x8xf32=many"), "'many' is no value of float32"),
        (("compile", "-o", "out.mlir"), "-o needs --emit LEVEL"),
        (("compile", "--kernel", "softmax_0"), "--kernel needs --emit LEVEL"),
        (("tune", "--budget", "-1"), "-1.0 is not in the range"),
        (("bench", "--seconds", "-1"), "-1.0 is not in the range"),
    ],
)
def test_what_options_take(
    arguments: tuple[str, ...], message: str, digits: Path, exits: Callable[..., tuple[int, str]]
) -> None:
    command, *rest = arguments
    code, text = exits(command, digits, *rest)
    assert code == 2 and message in text and not Path("out.mlir").exists()


@pytest.mark.parametrize("command", ["run", "compare", "bench", "profile"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--input", "other=1xf32"), "the model has no input 'other'; it has 'image'"),
        (("--input", "image=2x1x8x8xf32=1", "--size", "batch=3"), "'image', which is given, has 2 there"),
        (("--input", "image=2x1x8xf32"), "input 'image' has 3 axes (2, 1, 8), expected 4 axes"),
        (("--input", "image=2x1x8x7xf32"), "input 'image' axis 3 has size 7, expected 8"),
        (("--input", "image=2x1x8x8xf64"), "input 'image' is float64, expected float32"),
    ],
)
def test_inputs_that_the_model_does_not_take(
    command: str, given: tuple[str, ...], message: str, digits: Path, exits: Callable[..., tuple[int, str]]
) -> None:
    """What an option says is right in itself, and wrong for the model: an input error, as in a call."""
    code, text = exits(command, digits, *given)
    assert code == 3 and text == f"error: {text.removeprefix('error: ')}" and message in text


def test_kernels_that_the_model_does_not_have(digits: Path, exits: Callable[..., tuple[int, str]]) -> None:
    code, text = exits("compile", digits, "--emit", "kernels", "--kernel", "nothing")
    assert code == 3 and text == "error: there is no kernel 'nothing' at this level\n"


@pytest.mark.parametrize("given", [("--size", "batch=99999999999999"), ("--input", "image=99999999999999x1x8x8xf32=0")])
def test_inputs_beyond_memory(given: tuple[str, str], digits: Path, exits: Callable[..., tuple[int, str]]) -> None:
    code, text = exits("run", digits, *given)
    assert code == 3 and "input 'image' of [99999999999999, 1, 8, 8] float32 takes 25599999999999744 bytes" in text


def test_symbols_inside_of_expressions_have_sizes(model: Make) -> None:
    specs = sx.compile(model("g (float[N, M] x) => (float[N, M] z) { z = Relu(x) }")).inputs
    assert make_feeds(specs, (), ("N=2", "M=0"))["x"].shape == (2, 0)


def test_inputs_without_rank_or_type(tmp_path: Path, exits: Callable[..., tuple[int, str]]) -> None:
    path = tmp_path / "model.onnx"
    for element, code, message in (
        (onnx.TensorProto.FLOAT, 3, "input 'x' has no rank in the model: give it, as x=2x3xf32"),
        (onnx.TensorProto.UNDEFINED, 3, "input 'x' has no element type"),
    ):
        values = [onnx.helper.make_tensor_value_info(name, element, None) for name in "xy"]
        graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)]), path)
        found, text = exits("run", path)
        assert found == code and message in text


@pytest.mark.parametrize("command", ["run", "compare", "bench", "profile"])
@pytest.mark.parametrize(
    ("kind", "node"),
    [
        ("seq(float[A])", "y = ConcatFromSequence <axis = 0> (q)"),
        ("optional(float[2])", "y = OptionalGetElement(q)"),
        ("map(string, float)", 'y = ai.onnx.ml.DictVectorizer <string_vocabulary = ["a"]> (q)'),
    ],
)
def test_inputs_that_a_command_cannot_give(
    command: str, kind: str, node: str, model: Make, tmp_path: Path, exits: Callable[..., tuple[int, str]]
) -> None:
    made = model(f"g ({kind} q, float[2] x) => (float[M] y, float[2] z) {{ {node} z = Abs(x) }}", "ai.onnx.ml")
    onnx.save(made, tmp_path / "m.onnx")
    code, text = exits(command, tmp_path / "m.onnx", "--input", "x=2xf32")
    assert code == 3 and text == (
        "error: input 'q' is no tensor (a sequence, an optional or a map), and a command gives tensors only:"
        " call the program from Python, with a list, None or a dict\n"
    )


def test_values_of_types_that_numpy_lacks(model: Make) -> None:
    specs = sx.compile(model("g (bfloat16[N] x) => (bfloat16[N] y) { y = Relu(x) }")).inputs
    assert str(make_feeds(specs, ("x=2xbf16=1.5",), ())["x"]) == "[1.5 1.5]"
    with pytest.raises(sx.Error, match="'many' is no value of bfloat16"):
        make_feeds(specs, ("x=2xbf16=many",), ())


def test_what_a_file_of_an_input_is(digits: Path, tmp_path: Path, exits: Callable[..., tuple[int, str]]) -> None:
    (tmp_path / "x.npy").write_text("none")
    code, text = exits("run", digits, "--input", f"image=@{tmp_path / 'x.npy'}")
    assert code == 3 and text.endswith("x.npy is no .npy file with numbers or texts\n")
    code, text = exits("run", digits, "--input", "image=@absent.npy")
    assert code == 3 and "absent.npy: No such file or directory" in text


def test_text_without_its_weights(digits: Path, tmp_path: Path, exits: Callable[..., tuple[int, str]]) -> None:
    text = CliRunner().invoke(cli, ["compile", str(digits), "--emit", "graph"]).output
    (tmp_path / "printed.mlir").write_text(text)
    code, text = exits("run", tmp_path / "printed.mlir")
    assert code == 3 and "weight w0 is not here: text has its weights beside it only where" in text


def test_one_fact_may_come_as_it_is(model: Make) -> None:
    program = sx.compile(model("g (float[N] x, float[M] y) => (float[K] z) { z = Add(x, y) }"), assume="N == M")
    two = np.ones(2, np.float32)
    assert program(two, two)["z"].tolist() == [2, 2]
    with pytest.raises(sx.InputError):
        program(two, two[:1])


def test_arguments_of_the_api(digits: Path) -> None:
    with pytest.raises(sx.InputError, match="a model is a path, bytes, or a ModelProto, not NoneType"):
        sx.compile(None)
    with pytest.raises(sx.InputError, match="a model is a path, bytes, or a ModelProto, not int"):
        sx.lower(3, to="graph")
    for threads in (0, -1):
        with pytest.raises(sx.InputError, match=f"threads={threads}: a number of threads, at least 1"):
            sx.compile(digits, threads=threads)
    for precision in ([1], {}, np.zeros(2), 3):
        with pytest.raises(sx.InputError, match="precision"):
            sx.compile(digits, precision=precision)
    with pytest.raises(sx.InputError, match=r"progress=3: a function of \(phase, done, total\), or None"):
        sx.compile(digits, progress=3)
    with pytest.raises(sx.InputError, match="path=3: the path of a file"):
        sx.read(3)
    with pytest.raises(sx.InputError, match=r"no level 'foo'; there are graph, kernels, .*, asm"):
        sx.compile(digits).kernels["softmax_0"].ir("foo")


def test_the_version_needs_no_installed_metadata() -> None:
    found = CliRunner().invoke(cli, ["--version"], catch_exceptions=False)
    assert found.exit_code == 0 and sx.__version__ in found.output
    code = (
        "import sys, importlib.metadata as m\n"
        "def none(name): raise m.PackageNotFoundError(name)\n"
        "m.version = none; sys.argv = ['sardonyx', '--version']\n"
        "from sardonyx.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and sx.__version__ in done.stdout
