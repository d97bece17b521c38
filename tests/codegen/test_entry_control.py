"""If, Loop and Scan in `main`: where values of branches and iterations live, and that endless loops can be stopped."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time

import numpy as np
import pytest
from entry_harness import ADD, ADD_ONE, CONCAT, LESS, NEGATE, SUM, load
from sardonyx.runtime.errors import InputError

N = 'tensor<?xf32, #dims.shape<"N">>'
BINARY = f"({N}, {N}) -> {N}"
I64 = "tensor<i64>"
BOOL = "tensor<i1>"


def dim(text: str, element: str = "f32") -> str:
    """A tensor type of these dims."""
    sizes = "x".join("?" for _ in text.split(","))
    return f'tensor<{sizes}x{element}, #dims.shape<"{text}">>'


def main(body: str, inputs: str, outputs: str, arena: str = "4*N + 64") -> str:
    return f"""
func.func @main({inputs}) -> ({outputs}) attributes {{kernel.arena = #dims.shape<"{arena}">}} {{
{body}
}}"""


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def offsets() -> itertools.count[int]:
    """Offsets of buffers for up to 1000 elements."""
    return itertools.count(0, 4096)


ARENA = "100000"


@pytest.mark.parametrize("home", ["output:0", "dynamic", "arena"])
def test_if_takes_one_branch(home: str) -> None:
    place = '#dims.shape<"4096">' if home == "arena" else f'"{home}"'
    text = main(f"""
  %r = onnx.If(%c) ({{
    %n = kernel.call @negate <"N"> (%x) {{kernel.outputs = [#dims.shape<"0">]}} : ({N}) -> {N}
    onnx.Yield %n : {N}
  }}, {{
    onnx.Yield %x : {N}
  }}) {{kernel.outputs = [{place}]}} : ({BOOL}) -> {N}
  func.return %r : {N}""", f"%x: {N}, %c: {BOOL}", N, ARENA)  # fmt: skip
    program = load(text, [NEGATE])
    x = f32(1, 2, 3)
    # the class lists else_branch first
    assert program(x, np.array(False))["output_0"].tolist() == [-1, -2, -3]
    assert program(x, np.array(True))["output_0"].tolist() == [1, 2, 3]


def test_if_decides_sizes() -> None:
    two, u = dim("2*N"), dim("u0")
    text = main(f"""
  %r = onnx.If(%c) ({{
    %n = kernel.call @negate <"N"> (%x) {{kernel.outputs = [#dims.shape<"0">]}} : ({N}) -> {N}
    onnx.Yield %n : {N}
  }}, {{
    %m = kernel.call @concat <"N, N"> (%x, %x) {{kernel.outputs = [#dims.shape<"0">]}} : ({N}, {N}) -> {two}
    onnx.Yield %m : {two}
  }}) {{kernel.outputs = ["dynamic"], dims.binds = ["u0"]}} : ({BOOL}) -> {u}
  %s = kernel.call @negate <"u0"> (%r) {{kernel.outputs = ["dynamic"]}} : ({u}) -> {u}
  %t = dims.tensor <"u0"> {{kernel.outputs = [#dims.shape<"8192">]}} : tensor<1xi64>
  func.return %s, %t : {u}, tensor<1xi64>""", f"%x: {N}, %c: {BOOL}", f"{u}, tensor<1xi64>", ARENA)  # fmt: skip
    program = load(text, [NEGATE, CONCAT])
    x = f32(1, 2)
    assert program(x, np.array(True))["output_0"].tolist() == [-1, -2, -1, -2]
    got = program(x, np.array(False))
    assert got["output_0"].tolist() == [1, 2]
    assert got["output_1"].tolist() == [2]


def test_guards_of_a_branch_hold_for_that_branch_only() -> None:
    text = main(f"""
  %r = onnx.If(%c) ({{
    onnx.Yield %x : {N}
  }}, {{
    "dims.assume"() {{condition = "N <= 2"}} : () -> ()
    onnx.Yield %x : {N}
  }}) {{kernel.outputs = ["output:0"]}} : ({BOOL}) -> {N}
  func.return %r : {N}""", f"%x: {N}, %c: {BOOL}", N, "0")  # fmt: skip
    program = load(text)
    assert program(np.zeros(5, np.float32), np.array(False))["output_0"].shape == (5,)
    with pytest.raises(InputError, match="N <= 2 does not hold: 5 and 2"):
        program(np.zeros(5, np.float32), np.array(True))


LOOP = main(f"""
  %s, %stack = onnx.Loop(%m, %c, %x) ({{
  ^bb0(%i: {I64}, %go: {BOOL}, %s_in: {N}):
    %next = kernel.call @add <"N"> (%s_in, %x) {{kernel.outputs = [#dims.shape<"0">]}} : {BINARY}
    onnx.Yield %go, %next, %s_in : {BOOL}, {N}, {N}
  }}) {{kernel.outputs = [HOME, STACK], dims.binds = ["u0"],
       kernel.carried = [#dims.shape<"4096">, #dims.shape<"4160">, #dims.shape<"8192">]}}
    : ({I64}, {BOOL}, {N}) -> ({N}, {dim("u0, N")})
  func.return %s, %stack : {N}, {dim("u0, N")}""",
    f"%x: {N}, %m: {I64}, %c: {BOOL}", f"{N}, {dim('u0, N')}", ARENA)  # fmt: skip


@pytest.mark.parametrize("home", ['"output:0"', '#dims.shape<"12288">'])
@pytest.mark.parametrize("trips", [0, 1, 2, 3, 10, 1000])
def test_loop_carries_and_stacks(home: str, trips: int) -> None:
    program = load(LOOP.replace("HOME", home).replace("STACK", '"dynamic"'), [ADD])
    x = f32(1, 2, 3)
    for _ in range(2):
        state, stack = program(x, np.array(trips), np.array(True)).values()
        np.testing.assert_array_equal(state, (trips + 1) * x)
        np.testing.assert_array_equal(stack, np.arange(1, trips + 1)[:, None] * x)
    state, stack = program(x, np.array(trips), np.array(False)).values()
    np.testing.assert_array_equal(state, x)
    assert stack.shape == (0, 3)


def test_loop_with_a_known_number_of_iterations_stacks_in_place() -> None:
    text = LOOP.replace("HOME", '"output:0"').replace("STACK", '"output:1"').replace('"u0, N"', '"T, N"')
    text = text.replace(f"%m: {I64}", f"%m: {I64}, %t: {dim('T')}")
    program = load(text, [ADD])
    x = f32(1, 2)
    t = np.zeros(4, np.float32)
    stack = program(x, np.array(4), t, np.array(True))["output_1"]
    np.testing.assert_array_equal(stack, np.arange(1, 5)[:, None] * x)
    with pytest.raises(InputError, match=r"the loop goes on after 4 iterations, 'onnx.Loop' has no room"):
        program(x, np.array(5), t, np.array(True))
    with pytest.raises(InputError, match=r"axis 0 of 'onnx.Loop' has size 3, expected 4 = T"):
        program(x, np.array(3), t, np.array(True))


def test_states_swap() -> None:
    text = main(f"""
  %a, %b = onnx.Loop(%m, _, %x, %y) ({{
  ^bb0(%i: {I64}, %go: {BOOL}, %p: {N}, %q: {N}):
    onnx.Yield %go, %q, %p : {BOOL}, {N}, {N}
  }}) {{kernel.outputs = ["output:0", "output:1"],
       kernel.carried = [#dims.shape<"0">, #dims.shape<"64">, #dims.shape<"4096">, #dims.shape<"8192">]}}
    : ({I64}, {N}, {N}) -> ({N}, {N})
  func.return %a, %b : {N}, {N}""", f"%x: {N}, %y: {N}, %m: {I64}", f"{N}, {N}", ARENA)  # fmt: skip
    program = load(text)
    x, y = f32(1, 2), f32(3, 4)
    for trips in range(4):
        a, b = program(x, y, np.array(trips)).values()
        first, second = (x, y) if trips % 2 == 0 else (y, x)
        assert (a.tolist(), b.tolist()) == (first.tolist(), second.tolist())


def test_a_state_may_grow_and_the_condition_ends_the_loop() -> None:
    """Doubles a vector while its counter is below a limit; temporaries of an iteration are freed after it."""
    v, w, u = dim("w0"), dim("2*w0"), dim("u0")
    text = main(f"""
  %init = kernel.view %n : {I64} to {I64}
  %r, %k, %same = onnx.Loop(_, %c, %x, %n, %x) ({{
  ^bb0(%i: {I64}, %go: {BOOL}, %s: {v}, %count: {I64}, %keep: {dim("w1")}):
    %two = kernel.call @concat <"w0, w0"> (%s, %s) {{kernel.outputs = ["dynamic"]}} : ({v}, {v}) -> {w}
    %new = kernel.call @add_one <""> (%count) {{kernel.outputs = [#dims.shape<"128">]}} : ({I64}) -> {I64}
    %more = kernel.call @less <""> (%new, %limit) {{kernel.outputs = [#dims.shape<"192">]}} : ({I64}, {I64}) -> {BOOL}
    onnx.Yield %more, %two, %new, %keep : {BOOL}, {w}, {I64}, {dim("w1")}
  }}) {{kernel.outputs = ["dynamic", #dims.shape<"256">, "dynamic"], dims.binds = ["u0", "u1"],
       kernel.carried = [#dims.shape<"0">, #dims.shape<"64">, "dynamic", #dims.shape<"320">, "dynamic"]}}
    : ({BOOL}, {N}, {I64}, {N}) -> ({u}, {I64}, {dim("u1")})
  func.return %r, %k, %same : {u}, {I64}, {dim("u1")}""",
                f"%x: {N}, %n: {I64}, %limit: {I64}, %c: {BOOL}",
                f"{u}, {I64}, {dim('u1')}", "512")  # fmt: skip
    program = load(text, [CONCAT, ADD_ONE, LESS])
    x = f32(1, 2, 3)
    for limit in (1, 2, 5, 12, 3):
        r, k, same = program(x, np.array(0), np.array(limit), np.array(True)).values()
        np.testing.assert_array_equal(r, np.tile(x, 2**limit))
        assert k == limit
        assert same.tolist() == [1, 2, 3]


def test_iterations_must_agree_on_stacked_sizes() -> None:
    v, w = dim("w0"), dim("2*w0")
    text = main(f"""
  %r, %all = onnx.Loop(%m, _, %x) ({{
  ^bb0(%i: {I64}, %go: {BOOL}, %s: {v}):
    %two = kernel.call @concat <"w0, w0"> (%s, %s) {{kernel.outputs = ["dynamic"]}} : ({v}, {v}) -> {w}
    onnx.Yield %go, %two, %two : {BOOL}, {w}, {w}
  }}) {{kernel.outputs = ["dynamic", "dynamic"], dims.binds = ["u0", "u1", "u2"],
       kernel.carried = [#dims.shape<"0">, #dims.shape<"64">, "dynamic"]}}
    : ({I64}, {N}) -> ({dim("u0")}, {dim("u1, u2")})
  func.return %r, %all : {dim("u0")}, {dim("u1, u2")}""",
                f"%x: {N}, %m: {I64}", f"{dim('u0')}, {dim('u1, u2')}", "512")  # fmt: skip
    program = load(text, [CONCAT])
    r, all_ = program(f32(1), np.array(1)).values()
    assert (r.tolist(), all_.tolist()) == ([1, 1], [[1, 1]])
    with pytest.raises(InputError, match=r"an iteration's value for 'onnx.Loop' has size 4 on axis 0, expected 2"):
        program(f32(1), np.array(2))
    r, all_ = program(f32(1), np.array(0)).values()
    assert (r.tolist(), all_.shape[0]) == ([1], 0)


def test_loops_nest() -> None:
    """Appends, m times, a block that is itself built by k times doubling."""
    a, b, c = dim("a0"), dim("b0"), dim("2*b0")
    ab, u, w = dim("a0 + u0"), dim("u0"), dim("u1")
    text = main(f"""
  %r = onnx.Loop(%m, _, %x) ({{
  ^bb0(%i: {I64}, %go: {BOOL}, %s: {a}):
    %block = onnx.Loop(%k, _, %x) ({{
    ^bb1(%j: {I64}, %go2: {BOOL}, %t: {b}):
      %two = kernel.call @concat <"b0, b0"> (%t, %t) {{kernel.outputs = ["dynamic"]}} : ({b}, {b}) -> {c}
      onnx.Yield %go2, %two : {BOOL}, {c}
    }}) {{kernel.outputs = ["dynamic"], dims.binds = ["u0"],
         kernel.carried = [#dims.shape<"128">, #dims.shape<"192">, "dynamic"]}} : ({I64}, {N}) -> {u}
    %next = kernel.call @concat <"a0, u0"> (%s, %block) {{kernel.outputs = ["dynamic"]}} : ({a}, {u}) -> {ab}
    onnx.Yield %go, %next : {BOOL}, {ab}
  }}) {{kernel.outputs = ["dynamic"], dims.binds = ["u1"],
       kernel.carried = [#dims.shape<"0">, #dims.shape<"64">, "dynamic"]}} : ({I64}, {N}) -> {w}
  func.return %r : {w}""", f"%x: {N}, %m: {I64}, %k: {I64}", w, "512")  # fmt: skip
    program = load(text, [CONCAT])
    x = f32(1, 2)
    for trips, inner in ((0, 0), (1, 0), (3, 4), (100, 3), (7, 1)):
        got = program(x, np.array(trips), np.array(inner))["output_0"]
        np.testing.assert_array_equal(got, np.concatenate([x] + [np.tile(x, 2**inner)] * trips))


def scan(axes: str, inner: str, out: str, stack: str = "dynamic") -> str:
    vector = 'tensor<?xf32, #dims.shape<"N">>'
    return main(f"""
  %s, %all = onnx.Scan(%init, %xs) ({{
  ^bb0(%acc: {vector}, %x: {inner}):
    %next = kernel.call @add <"N"> (%acc, %x) {{kernel.outputs = [#dims.shape<"0">]}} : ({vector}, {inner}) -> {vector}
    onnx.Yield %next, %next : {vector}, {vector}
  }}) {{num_scan_inputs = 1 : i64, {axes} kernel.outputs = ["output:0", "{stack}"],
       kernel.carried = [#dims.shape<"4096">, #dims.shape<"8192">]}} : ({vector}, XS) -> ({vector}, {out})
  func.return %s, %all : {vector}, {out}""", f"%init: {vector}, %xs: XS", f"{vector}, {out}", ARENA)  # fmt: skip


def test_scan_along_the_first_axis() -> None:
    program = load(scan("", N, dim("T, N"), "output:1").replace("XS", dim("T, N")), [ADD])
    xs = np.arange(12, dtype=np.float32).reshape(4, 3)
    total, each = program(np.zeros(3, np.float32), xs).values()
    np.testing.assert_array_equal(each, np.cumsum(xs, axis=0))
    np.testing.assert_array_equal(total, each[-1])
    total, each = program(f32(1, 2, 3), xs[:0]).values()
    assert total.tolist() == [1, 2, 3]
    assert each.shape == (0, 3)


def test_scan_backwards_and_along_other_axes() -> None:
    axes = (
        "scan_input_axes = array<i64: 1>, scan_input_directions = array<i64: 1>,"
        " scan_output_axes = array<i64: -1>, scan_output_directions = array<i64: 1>,"
    )
    program = load(scan(axes, N, dim("N, T"), "output:1").replace("XS", dim("N, T")), [ADD])
    xs = np.arange(12, dtype=np.float32).reshape(3, 4)
    total, each = program(np.zeros(3, np.float32), xs).values()
    np.testing.assert_array_equal(each, np.cumsum(xs[:, ::-1], axis=1)[:, ::-1])
    np.testing.assert_array_equal(total, xs.sum(axis=1))


def test_a_sum_in_a_scan_has_scalar_slices() -> None:
    one = "tensor<1xf32>"
    text = main(f"""
  %all = onnx.Scan(%xs) ({{
  ^bb0(%x: {N}):
    %t = kernel.call @sum <"N"> (%x) {{kernel.outputs = [#dims.shape<"0">]}} : ({N}) -> {one}
    onnx.Yield %t : {one}
  }}) {{num_scan_inputs = 1 : i64, kernel.outputs = ["output:0"], kernel.carried = [#dims.shape<"4096">]}}
    : ({dim("T, N")}) -> {dim("T, 1")}
  func.return %all : {dim("T, 1")}""", f"%xs: {dim('T, N')}", dim("T, 1"), ARENA)  # fmt: skip
    xs = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(load(text, [SUM])(xs)["output_0"], xs.sum(axis=1, keepdims=True))


def test_sequences_in_a_loop_are_objects() -> None:
    seq = f"!onnx.sequence<{N}>"
    text = main(f"""
  %empty = onnx.Custom "" "SequenceEmpty" () : () -> ({seq})
  %r = onnx.Loop(%m, _, %empty) ({{
  ^bb0(%i: {I64}, %go: {BOOL}, %s: {seq}):
    %sum = kernel.call @add <"N"> (%x, %x) {{kernel.outputs = [#dims.shape<"128">]}} : {BINARY}
    %next = onnx.Custom "" "SequenceInsert" (%s, %sum, %i) : ({seq}, {N}, {I64}) -> ({seq})
    %other = kernel.call @add <"N"> (%sum, %sum) {{kernel.outputs = [#dims.shape<"128">]}} : {BINARY}
    onnx.Yield %go, %next : {BOOL}, {seq}
  }}) {{kernel.outputs = ["dynamic"], kernel.carried = [#dims.shape<"0">, #dims.shape<"64">, "dynamic"]}}
    : ({I64}, {seq}) -> {seq}
  func.return %r : {seq}""", f"%x: {N}, %m: {I64}", seq, "512")  # fmt: skip
    program = load(text, [ADD], hosts=[list, lambda s, x, i: [*s, x]])
    got = program(f32(1, 2), np.array(3))["output_0"]
    assert [part.tolist() for part in got] == [[2, 4]] * 3


ENDLESS = main(f"""
  %r = onnx.Loop(_, _, %x) ({{
  ^bb0(%i: {I64}, %go: {BOOL}, %s: {N}):
    %next = kernel.call @negate <"N"> (%s) {{kernel.outputs = ["dynamic"]}} : ({N}) -> {N}
    onnx.Yield %go, %next : {BOOL}, {N}
  }}) {{kernel.outputs = ["output:0"],
       kernel.carried = [#dims.shape<"0">, #dims.shape<"64">, #dims.shape<"128">]}} : ({N}) -> {N}
  func.return %r : {N}""", f"%x: {N}", N, "8*N + 1024")  # fmt: skip


def test_an_endless_loop_can_be_interrupted_and_does_not_grow() -> None:
    program = load(ENDLESS, [NEGATE])
    for _ in range(2):
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            program(np.zeros(10, np.float32))
        assert time.monotonic() - began < 1.3
    (context,) = program._free  # pyright: ignore[reportPrivateUsage]
    assert context.growing is not None
    assert context.growing.end - context.growing.address <= 1 << 20


def test_a_loop_that_eats_all_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sardonyx.runtime.memory.physical_memory", lambda: 64 << 20)
    v, w, u = dim("w0"), dim("2*w0"), dim("u0")
    text = main(f"""
  %r = onnx.Loop(_, _, %x) ({{
  ^bb0(%i: {I64}, %go: {BOOL}, %s: {v}):
    %two = kernel.call @concat <"w0, w0"> (%s, %s) {{kernel.outputs = ["dynamic"]}} : ({v}, {v}) -> {w}
    onnx.Yield %go, %two : {BOOL}, {w}
  }}) {{kernel.outputs = ["dynamic"], dims.binds = ["u0"],
       kernel.carried = [#dims.shape<"0">, #dims.shape<"64">, "dynamic"]}} : ({N}) -> {u}
  func.return %r : {u}""", f"%x: {N}", u, "128")  # fmt: skip
    program = load(text, [CONCAT])
    for _ in range(2):
        with pytest.raises(InputError, match=r"an unnamed value needs \d+ bytes of memory .*; \d+ are available"):
            program(f32(1, 2))


def test_calls_of_one_program_run_at_the_same_time() -> None:
    program = load(LOOP.replace("HOME", '"output:0"').replace("STACK", '"dynamic"'), [ADD], threads=2)
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = np.full(20 + seed, seed, np.float32)
        for trips in range(60):
            state, stack = program(x, np.array(trips), np.array(True)).values()
            if not (state == (trips + 1) * seed).all() or stack.shape != (trips, 20 + seed):
                wrong.append(trips)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
