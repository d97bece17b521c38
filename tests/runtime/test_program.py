"""Calls of a loaded program: arguments, outputs, errors, callbacks, interrupts, several threads."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from sardonyx.runtime import context as context_module
from sardonyx.runtime.abi import Request
from sardonyx.runtime.context import Context
from sardonyx.runtime.errors import CompilerBug, InputError
from sardonyx.runtime.manifest import Manifest
from sardonyx.runtime.program import LoadedProgram, fill_in

Make = Callable[..., Manifest]


@pytest.fixture
def copier(make_manifest: Make, copy_entry: Callable[[int], bytes], pool_object: bytes) -> Callable[..., LoadedProgram]:
    """y = x for a type of elements."""

    def make(dtype: str = "float32", size: int = 4, **options: Any) -> LoadedProgram:
        manifest = make_manifest([("x", dtype, ["N"])], [("y", dtype, ["N"])])
        return LoadedProgram(manifest, [copy_entry(size), pool_object], **options)

    return make


def test_the_forms_of_a_call(copier: Callable[..., LoadedProgram]) -> None:
    program = copier()
    x = np.arange(3, dtype=np.float32)
    for got in (program(x), program(x=x), program({"x": x})):
        assert list(got) == ["y"]
        np.testing.assert_array_equal(got["y"], x)
    np.testing.assert_array_equal(program.run(None, {"x": x})[0], x)
    np.testing.assert_array_equal(program.run(["y"], {"x": x})[0], x)
    into = np.empty(3, np.float32)
    program.run_into({"y": into}, {"x": x})
    np.testing.assert_array_equal(into, x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p, x: p(), "input 'x' is missing; the inputs are 'x'"),
        (lambda p, x: p(x, x), "2 arguments, the model has 1 input"),
        (lambda p, x: p(z=x), "no input named 'z'; the inputs are 'x'"),
        (lambda p, x: p(x=x, z=x), "no input named 'z'; the inputs are 'x'"),
        (lambda p, x: p(x, x=x), "input 'x' is given twice, by position and by name"),
        (lambda p, x: p({"x": x}, x=x), "input 'x' is given twice, in the mapping and by name"),
        (lambda p, x: p(None), "input 'x' is None, expected an array of float32"),
        (lambda p, x: p(object()), "input 'x' is a object, expected an array"),
        (lambda p, x: p("text"), "input 'x' is a str, expected an array"),
        (lambda p, x: p(x.astype(np.float64)), "input 'x' is float64, expected float32"),
        (lambda p, x: p(x.astype(np.int32)), "input 'x' is int32, expected float32"),
        (lambda p, x: p(x[None]), r"input 'x' has 2 axes \(1, 3\), expected 1 axis"),
        (lambda p, x: p(np.float32(1)), r"input 'x' has 0 axes \(\), expected 1 axis"),
        (lambda p, x: p([1 + 2j]), "input 'x' is complex128, expected float32"),
        (lambda p, x: p([[1], [1, 2]]), "input 'x': cannot read a list as an array"),
        (lambda p, x: p.run(["q"], {"x": x}), "no output named 'q'; the outputs are 'y'"),
        (lambda p, x: p.run_into({"q": x}, {"x": x}), "no output named 'q'"),
        (lambda p, x: p.run_into({"y": x[:2].copy()}, {"x": x}), r"output 'y' is float32 \(3,\), the array is float32"),
        (lambda p, x: p.run_into({"y": x}, {"x": x}), "the array for output 'y' overlaps an input"),
        (lambda p, x: p.run_into({"y": np.zeros(6, np.float32)[::2]}, {"x": x}), "must be contiguous"),
    ],
)
def test_calls_that_are_wrong(copier: Callable[..., LoadedProgram], call: Any, message: str) -> None:
    program = copier()
    x = np.arange(3, dtype=np.float32)
    with pytest.raises(InputError, match=message):
        call(program, x)
    np.testing.assert_array_equal(program(x)["y"], x)


class WithArray:
    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return self.array


class WithDlpack:
    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_inputs_of_all_sorts(copier: Callable[..., LoadedProgram]) -> None:
    program = copier()
    x = np.arange(6, dtype=np.float32)
    unaligned = np.frombuffer(b"." + x.tobytes(), np.uint8)[1:].view(np.float32)
    read_only = x.copy()
    read_only.flags.writeable = False
    for value in (
        x, x.astype(">f4"), np.repeat(x, 3)[::3], x[::-1][::-1], unaligned, read_only, WithArray(x), WithDlpack(x),
        memoryview(x), x.tolist(), tuple(range(6)), np.ma.asarray(x),
    ):  # fmt: skip
        np.testing.assert_array_equal(program(value)["y"], x)
    assert program(np.zeros(0, np.float32))["y"].shape == (0,)
    assert copier("int64", 8)([True, False])["y"].tolist() == [1, 0]
    with pytest.raises(InputError, match="a value is out of the range of uint8"):
        copier("uint8", 1)([300])
    with pytest.raises(InputError, match="input 'x' is float64, expected int64"):
        copier("int64", 8)([1.5])


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"])
def test_types_that_numpy_lacks(copier: Callable[..., LoadedProgram], name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    x = np.array([1, 2, 3]).astype(dtype)
    got = copier(name, dtype.itemsize)(x)["y"]
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, x)
    with pytest.raises(InputError, match=f"input 'x' is uint16, expected {name}"):
        copier(name, dtype.itemsize)(np.zeros(3, np.uint16))


@pytest.mark.parametrize("name", ["bool", "float16", "complex64", "complex128", "uint64"])
def test_types_that_numpy_has(copier: Callable[..., LoadedProgram], name: str) -> None:
    x = np.array([0, 1, 2]).astype(name)
    np.testing.assert_array_equal(copier(name, x.itemsize)(x)["y"], x)


def test_a_bound_call_reads_and_writes_the_same_arrays(copier: Callable[..., LoadedProgram]) -> None:
    x = np.zeros(3, np.float32)
    call = copier().bind({"x": x})
    for value in range(3):
        x[:] = value
        got = call()["y"]
        assert got.tolist() == [value] * 3
        assert got is call.outputs["y"]


def test_nothing_but_outputs_is_made_by_later_calls(copier: Callable[..., LoadedProgram]) -> None:
    program = copier()
    x = np.zeros(1000, np.float32)
    program(x)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(200):
        program(x)
    gc.collect()
    assert len(gc.get_objects()) <= before + 2


def test_calls_from_several_threads(copier: Callable[..., LoadedProgram]) -> None:
    program = copier(threads=2)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for step in range(300):
            x = np.full(step % 50, seed * 1000 + step, np.float32)
            if not np.array_equal(program(x)["y"], x):
                wrong.append(step)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_objects_must_make_a_program(
    make_manifest: Make, copy_entry: Callable[[int], bytes], pool_object: bytes, compiled: Callable[[str], bytes]
) -> None:
    manifest = make_manifest([("x", "float32", ["N"])], [("y", "float32", ["N"])])
    entry = copy_entry(4)
    for objects, message in (
        ([entry], "this one 1 and 0"),
        ([pool_object], "this one 0 and 1"),
        ([entry, pool_object, b"nonsense"], "an object of the program is no object"),
        ([entry[:100], pool_object], "an object of the program is no object"),
        ([compiled("declare i32 @other()\ndefine i32 @sx_entry(ptr %a, ptr %b) {\n %r = call i32 @other()\n"
                   " ret i32 %r\n}"), pool_object], "needs symbols that nothing provides: other"),
        ([compiled("declare i32 @getpid()\ndefine i32 @sx_entry(ptr %a, ptr %b) {\n %r = call i32 @getpid()\n"
                   " ret i32 %r\n}"), pool_object], "needs symbols that nothing provides: getpid"),
    ):  # fmt: skip
        with pytest.raises(CompilerBug, match=message):
            LoadedProgram(manifest, objects)
    with pytest.raises(CompilerBug, match="made by another version"):
        LoadedProgram({**manifest, "abi": 0}, [entry, pool_object])
    with pytest.raises(CompilerBug, match="0 host operators, 1 functions"):
        LoadedProgram(manifest, [entry, pool_object], host_functions=[print])


FAILING = """
define i32 @sx_entry(ptr %ctx, ptr %args) {
  %slot = getelementptr i64, ptr %ctx, i64 12
  %report = load ptr, ptr %slot
  %values = alloca [2 x i64]
  store i64 41, ptr %values
  %second = getelementptr i64, ptr %values, i64 1
  store i64 42, ptr %second
  call void %report(ptr %ctx, i64 1, i64 3, i64 2, ptr %values)
  ret i32 1
}
"""


def test_a_reported_error_names_the_check_and_the_node(
    make_manifest: Make, compiled: Callable[[str], bytes], pool_object: bytes
) -> None:
    manifest = make_manifest([], [])
    manifest["checks"] = {"3": {"code": "index", "message": "index {0} is above {1}", "kernel": "gather_0"}}
    manifest["nodes"] = ["'a' (Add)", "'b' (Gather), model.py:7"]
    program = LoadedProgram(manifest, [compiled(FAILING), pool_object])
    for _ in range(2):
        with pytest.raises(InputError, match=r"^index 41 is above 42\n  --> node 'b' \(Gather\), model.py:7$"):
            program()
    manifest["checks"] = {}
    with pytest.raises(CompilerBug, match="unknown site, 3"):
        program()


def test_messages_take_values() -> None:
    assert fill_in("{1} of {0}, {1}", [1, 2]) == "2 of 1, 2"
    assert fill_in("no place", [1, 2]) == "no place (1, 2)"
    assert fill_in("{0} and {3}", [5]) == "5 and {3}"
    assert fill_in("nothing", []) == "nothing"
    assert [fill_in("axis {1=0|is empty|has size {1}, not {0}}", [3, n]) for n in (0, 2)] == [
        "axis is empty",
        "axis has size 2, not 3",
    ]


OUTPUT = """
define i32 @sx_entry(ptr %ctx, ptr %args) {
  %n = load i64, ptr %args
  %dims = alloca [2 x i64]
  store i64 SIZE, ptr %dims
  %d1 = getelementptr i64, ptr %dims, i64 1
  store i64 3, ptr %d1
  %slot = getelementptr i64, ptr %ctx, i64 5
  %alloc = load ptr, ptr %slot
  %p = call ptr %alloc(ptr %ctx, i64 0, i64 2, ptr %dims)
  %none = icmp eq ptr %p, null
  br i1 %none, label %fail, label %ok
fail:
  ret i32 1
ok:
  store i64 77, ptr %p
  ret i32 0
}
"""


def test_outputs_whose_size_the_run_tells(
    make_manifest: Make, compiled: Callable[[str], bytes], pool_object: bytes
) -> None:
    manifest = make_manifest([], [("y", "int64", ["u0", 3])])
    program = LoadedProgram(manifest, [compiled(OUTPUT.replace("SIZE", "2")), pool_object])
    first, second = program()["y"], program()["y"]
    assert first.shape == (2, 3)
    assert first[0, 0] == second[0, 0] == 77
    assert not np.shares_memory(first, second)
    bound = program.bind({})
    assert bound()["y"].shape == (2, 3)
    for size, message in (("-1", r"would have the sizes \(-1, 3\)"), (str(1 << 50), "does not fit into memory")):
        failing = LoadedProgram(manifest, [compiled(OUTPUT.replace("SIZE", size)), pool_object])
        with pytest.raises(InputError, match=message):
            failing()
    with pytest.raises(InputError, match="output 'y' has a size that only the run tells"):
        program.run_into({"y": np.zeros((2, 3), np.int64)}, {})


ENDLESS = """
define i32 @sx_entry(ptr %ctx, ptr %args) {
entry:
  %slot = getelementptr i64, ptr %ctx, i64 16
  %poll = load ptr, ptr %slot
  br label %loop
loop:
  %stop = call i32 %poll(ptr %ctx)
  %go = icmp eq i32 %stop, 0
  br i1 %go, label %loop, label %done
done:
  ret i32 1
}
"""


@pytest.fixture
def endless(make_manifest: Make, compiled: Callable[[str], bytes], pool_object: bytes) -> LoadedProgram:
    return LoadedProgram(make_manifest([], []), [compiled(ENDLESS), pool_object])


class Flag:
    """An event without a lock: one that an interrupt left taken would stop every later test."""

    def __init__(self) -> None:
        self.is_set = False

    def set(self) -> None:
        self.is_set = True

    def wait(self, seconds: float) -> bool:
        """Whether it is set within that time, counted from now."""
        self.is_set = False
        end = time.monotonic() + seconds
        while not self.is_set and time.monotonic() < end:
            time.sleep(0.001)
        return self.is_set


@pytest.fixture
def polled(monkeypatch: pytest.MonkeyPatch) -> Flag:
    """Is set when native code asks whether it is to stop: then a call runs."""
    flag = Flag()
    poll = context_module._HANDLERS[Request.POLL]  # pyright: ignore[reportPrivateUsage]

    def noting(context: Context, request: Any) -> int:
        flag.set()
        return poll(context, request)

    monkeypatch.setitem(context_module._HANDLERS, Request.POLL, noting)  # pyright: ignore[reportPrivateUsage]
    return flag


def signal_when(flag: Flag, *numbers: int) -> None:
    """Sends signals to this process, each when the flag is set anew."""

    def send() -> None:
        for number in numbers:
            if flag.wait(30):
                os.kill(os.getpid(), number)

    threading.Thread(target=send).start()


def test_an_interrupt_ends_an_endless_loop(
    endless: LoadedProgram,
    copier: Callable[..., LoadedProgram],
    polled: Flag,
    capfd: pytest.CaptureFixture[str],
) -> None:
    other = copier()
    for _ in range(5):
        signal_when(polled, signal.SIGINT)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            endless()
        assert time.monotonic() - began < 1.2
        assert other(np.ones(2, np.float32))["y"].tolist() == [1, 1]
    assert capfd.readouterr().err == ""


def test_what_a_signal_handler_raises_ends_the_call_too(endless: LoadedProgram, polled: Flag) -> None:
    def handler(number: int, frame: object) -> None:
        raise TimeoutError("too long")

    old = signal.signal(signal.SIGALRM, handler)
    try:
        signal_when(polled, signal.SIGALRM)
        with pytest.raises(TimeoutError, match="too long"):
            endless()
    finally:
        signal.signal(signal.SIGALRM, old)


def test_a_handler_that_returns_does_not_end_the_call(endless: LoadedProgram, polled: Flag) -> None:
    seen: list[int] = []
    old = signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
    try:
        signal_when(polled, signal.SIGALRM, signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            endless()
        assert seen == [signal.SIGALRM]
    finally:
        signal.signal(signal.SIGALRM, old)


def test_a_context_that_cannot_call_back_is_not_used_again(copier: Callable[..., LoadedProgram]) -> None:
    program = copier()
    x = np.ones(2, np.float32)
    program(x)
    (context,) = program._free  # pyright: ignore[reportPrivateUsage]
    assert context.serves
    context._serve.close()  # pyright: ignore[reportPrivateUsage]
    program(x)
    assert not program._free  # pyright: ignore[reportPrivateUsage]
    np.testing.assert_array_equal(program(x)["y"], x)
    assert program._free[0] is not context  # pyright: ignore[reportPrivateUsage]


def test_a_programs_memory_goes_with_it(copier: Callable[..., LoadedProgram]) -> None:
    import weakref

    program = copier()
    program(np.ones(2, np.float32))
    context = weakref.ref(program._free[0])  # pyright: ignore[reportPrivateUsage]
    del program
    assert context() is None
