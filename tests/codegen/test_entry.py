"""Straight-line `main`: kernel calls, memory, symbols, guards, outputs, hosts."""

from __future__ import annotations

import numpy as np
import pytest
from entry_harness import ADD, CONCAT, NEGATE, PICK, load
from sardonyx.codegen.entry import EntryError
from sardonyx.runtime.errors import CompilerBug, InputError, UnsupportedError

N = 'tensor<?xf32, #dims.shape<"N">>'
BINARY = f"({N}, {N}) -> {N}"
NAMES = 'onnx.inputs = ["x", "y"], onnx.outputs = ["z"]'


def main(
    body: str, inputs: str = f"%x: {N}, %y: {N}", outputs: str = N, arena: str = "4*N + 64", names: str = NAMES
) -> str:
    return f"""
func.func @main({inputs}) -> ({outputs}) attributes {{{names}, kernel.arena = #dims.shape<"{arena}">}} {{
{body}
}}"""


CHAIN = main(f"""
  %s = kernel.call @add <"N"> (%x, %y) {{kernel.outputs = [#dims.shape<"0">]}} : {BINARY}
  %n = kernel.call @negate <"N"> (%s) {{kernel.outputs = ["output:0"]}} : ({N}) -> {N}
  func.return %n : {N}""")


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_kernels_are_chained_through_the_arena() -> None:
    program = load(CHAIN, [ADD, NEGATE])
    for size in (0, 1, 5, 1000, 3):
        x = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(program(x, 2 * x)["z"], -3 * x)


def test_equal_symbols_must_agree() -> None:
    program = load(CHAIN, [ADD, NEGATE])
    message = r"input 'y' axis 0 has size 3, expected N = 5 \(N is the size of 'x' axis 0\)"
    with pytest.raises(InputError, match=message):
        program(np.zeros(5, np.float32), np.zeros(3, np.float32))
    np.testing.assert_array_equal(program(f32(1), f32(2))["z"], f32(-3))


def test_expressions_and_numbers_of_input_types_are_checked() -> None:
    double = 'tensor<?xf32, #dims.shape<"2*N">>'
    text = main(f"func.return %x : {N}", f"%x: {N}, %y: {double}, %k: tensor<3xf32>", arena="0",
                names='onnx.inputs = ["x", "y", "k"]')  # fmt: skip
    program = load(text)
    three = np.zeros(3, np.float32)
    assert program(f32(1, 2), np.zeros(4, np.float32), three)["x"].tolist() == [1, 2]
    with pytest.raises(InputError, match=r"input 'y' axis 0 has size 5, expected 2\*N = 4"):
        program(f32(1, 2), np.zeros(5, np.float32), three)
    with pytest.raises(InputError, match=r"input 'k' axis 0 has size 2, expected 3"):
        program(f32(1, 2), np.zeros(4, np.float32), three[:2])


def test_a_size_that_is_linear_in_a_symbol_tells_it() -> None:
    double, more = ('tensor<?xf32, #dims.shape<"2*N">>', 'tensor<?xf32, #dims.shape<"3*M + N + 1">>')
    program = load(main(f"func.return %y : {more}", f"%x: {double}, %y: {more}", more, arena="0",
                        names='onnx.inputs = ["x", "y"]'))  # fmt: skip
    assert program(np.zeros(4, np.float32), np.ones(9, np.float32))["y"].shape == (9,)
    assert program(np.zeros(0, np.float32), np.ones(1, np.float32))["y"].shape == (1,)
    with pytest.raises(InputError, match=r"input 'x' axis 0 has size 5, expected 2\*N = 4"):
        program(np.zeros(5, np.float32), np.ones(9, np.float32))
    with pytest.raises(InputError, match=r"input 'y' axis 0 has size 8, expected 3\*M \+ N \+ 1 = 6"):
        program(np.zeros(4, np.float32), np.ones(8, np.float32))
    with pytest.raises(InputError, match=r"input 'y' axis 0 has size 2, out of range"):
        program(np.zeros(4, np.float32), np.ones(2, np.float32))


def test_a_symbol_that_no_size_tells_is_not_supported() -> None:
    half = 'tensor<?xf32, #dims.shape<"N//2">>'
    with pytest.raises(UnsupportedError, match="no size of an input tells N by itself"):
        load(main(f"func.return %x : {half}", f"%x: {half}", half, arena="0"))


def test_outputs_that_are_inputs_views_or_twice_the_same_are_copies() -> None:
    square = 'tensor<?x1xf32, #dims.shape<"N, 1">>'
    text = main(f"""
  %s = kernel.call @add <"N"> (%x, %y) {{kernel.outputs = ["output:0"]}} : {BINARY}
  %v = kernel.view %s : {N} to {square}
  func.return %s, %s, %v, %x : {N}, {N}, {square}, {N}""",
                outputs=f"{N}, {N}, {square}, {N}",
                names='onnx.outputs = ["a", "b", "c", "d"]')  # fmt: skip
    x = f32(1, 2, 3)
    got = load(text, [ADD])(x, x)
    assert got["a"].tolist() == got["b"].tolist() == got["c"].ravel().tolist() == [2, 4, 6]
    assert got["c"].shape == (3, 1)
    assert got["d"].tolist() == [1, 2, 3]
    arrays = [got[name] for name in "abcd"]
    assert not any(np.shares_memory(a, b) for a in arrays for b in [*arrays, x] if a is not b)


def test_weights_are_one_table() -> None:
    text = main("""
  %w = onnx.Initializer "w" #onnx.weight<"w0"> : tensor<3xf32>
  %v = onnx.Initializer "v" #onnx.weight<"w0"> : tensor<3xf32>
  %u = onnx.Constant() {value = #onnx.weight<"w1">} : () -> tensor<3xf32>
  %s = kernel.call @add <"3"> (%w, %v) {kernel.outputs = [#dims.shape<"0">]}
    : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %t = kernel.call @add <"3"> (%s, %u) {kernel.outputs = ["output:0"]}
    : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %t : tensor<3xf32>""", "", "tensor<3xf32>", "64")  # fmt: skip
    program = load(text, [ADD], {"w0": f32(1, 2, 3), "w1": f32(10, 20, 30)})
    assert program()["z"].tolist() == [12, 24, 36]


def test_an_overridable_initializer_is_an_input_with_a_default() -> None:
    text = main("""
  %w = onnx.Initializer "w" #onnx.weight<"w0"> overridable : tensor<2xf32>
  %s = kernel.call @add <"2"> (%x, %w) {kernel.outputs = ["output:0"]}
    : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>""", "%x: tensor<2xf32>", "tensor<2xf32>", "0")  # fmt: skip
    program = load(text, [ADD], {"w0": f32(1, 2)})
    assert program(f32(5, 5))["z"].tolist() == [6, 7]
    assert program(f32(5, 5), w=f32(0, 1))["z"].tolist() == [5, 6]
    with pytest.raises(InputError, match="input 'w' axis 0 has size 3, expected 2"):
        program(f32(5, 5), w=f32(0, 1, 2))


def test_assumptions_are_guards() -> None:
    body = f"""
  dims.assume_
  func.return %x : {N}"""
    assume = '"dims.assume"() {condition = "N % 2 == 0", why = "pairs of %a"} : () -> ()'
    program = load(main(body.replace("dims.assume_", assume), f"%x: {N}", arena="0"))
    assert program(f32(1, 2))["z"].tolist() == [1, 2]
    with pytest.raises(InputError, match=r"pairs of %a: N is no multiple of 2: 1 and 2 \(N is the size of 'x' axis"):
        program(f32(1))


def test_symbols_bound_to_data() -> None:
    m, one = 'tensor<?xf32, #dims.shape<"M">>', 'tensor<?xf32, #dims.shape<"v0">>'
    text = main(f"""
  dims.bind %n ["v0", "v1"] lower <"0, -5"> upper <"M, 5"> : tensor<2xi32>
  "dims.assume"() {{condition = "v1 <= 3"}} : () -> ()
  %t = dims.tensor <"v0, v0 + v1, M"> {{kernel.outputs = [#dims.shape<"0">]}} : tensor<3xi64>
  %y = kernel.call @negate <"v0"> (%x) {{kernel.outputs = ["dynamic"]}} : ({m}) -> {one}
  func.return %y, %t : {one}, tensor<3xi64>""",
                f'%x: {m}, %n: tensor<2xi32>',
                f"{one}, tensor<3xi64>", "64",
                'onnx.inputs = ["x", "n"], onnx.outputs = ["y", "t"]')  # fmt: skip
    program = load(text, [NEGATE])
    x = f32(1, 2, 3, 4)
    got = program(x, np.array([2, -4], np.int32))
    assert got["y"].tolist() == [-1, -2]
    assert got["t"].tolist() == [2, -2, 4]
    for repeat in range(3):
        assert program(x, np.array([repeat, 0], np.int32))["y"].tolist() == (-x[:repeat]).tolist()
    with pytest.raises(InputError, match="has the value 5, out of the range from 0 to 4"):
        program(x, np.array([5, 0], np.int32))
    with pytest.raises(InputError, match="has the value -6, out of the range from -5 to 5"):
        program(x, np.array([0, -6], np.int32))
    with pytest.raises(InputError, match="v1 <= 3 does not hold: 4 and 3"):
        program(x, np.array([0, 4], np.int32))


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64", "ui8", "ui32", "f32", "f64"])
def test_tensors_of_expressions_have_any_number_type(dtype: str) -> None:
    text = main(f"""
  %t = dims.tensor <"N, N*N"> {{kernel.outputs = [#dims.shape<"0">]}} : tensor<2x{dtype}>
  func.return %t : tensor<2x{dtype}>""", f"%x: {N}", f"tensor<2x{dtype}>", "64")  # fmt: skip
    assert load(text)(np.zeros(7, np.float32))["z"].tolist() == [7, 49]


def test_a_kernels_check_names_node_and_values() -> None:
    pick = f"({N}, tensor<i64>) -> tensor<1xf32>"
    text = main(f"""
  %a = kernel.call @pick <"N"> (%x, %i) {{kernel.outputs = [#dims.shape<"0">], onnx.node = 0 : i64}} : {pick}
  %b = kernel.call @pick <"N"> (%x, %j) {{kernel.outputs = ["output:0"], onnx.node = 1 : i64}} : {pick}
  func.return %b : tensor<1xf32>""", f"%x: {N}, %i: tensor<i64>, %j: tensor<i64>", "tensor<1xf32>", "64",
                names='onnx.outputs = ["z"]')  # fmt: skip
    program = load(text, [PICK], nodes=["'first' (Gather)", "'second' (Gather)"])
    x = f32(1, 2, 3)
    assert program(x, np.array(0), np.array(2))["z"].tolist() == [3]
    with pytest.raises(InputError, match=r"index 7 is out of range for size 3\n  --> node 'first' \(Gather\)"):
        program(x, np.array(7), np.array(2))
    with pytest.raises(InputError, match=r"index -1 is out of range for size 3\n  --> node 'second' \(Gather\)"):
        program(x, np.array(0), np.array(-1))
    assert program(x, np.array(0), np.array(1))["z"].tolist() == [2]


def test_sizes_beyond_memory_are_errors() -> None:
    n4 = 'tensor<?x?x?x?xf32, #dims.shape<"N, N, N, N">>'
    body = f"""
  %s = kernel.call @add <"N"> (%x, %y) {{kernel.outputs = [#dims.shape<"0">]}} : {BINARY}
  func.return %x : {N}"""
    program = load(main(body, arena="4*N*N*N*N*N*N"), [ADD])
    x = np.zeros(100000, np.float32)
    assert program(x[:5], x[:5])["z"].shape == (5,)
    with pytest.raises(InputError, match="the model needs more bytes than can be counted of memory"):
        program(x, x)
    with pytest.raises(InputError, match="the model needs 4000000000000000000 bytes of memory"):
        program(x[:1000], x[:1000])
    big = load(main(f"""
  %s = kernel.call @add <"N"> (%x, %y) {{kernel.outputs = ["output:0"]}} : ({N}, {N}) -> {n4}
  func.return %s : {n4}""", outputs=n4, arena="0"), [ADD])  # fmt: skip
    with pytest.raises(InputError):
        big(x, x)
    assert big(x[:2], x[:2])["z"].shape == (2, 2, 2, 2)


def test_hosts_get_arrays_and_give_new_sizes() -> None:
    u = 'tensor<?xi64, #dims.shape<"u0">>'
    text = main(f"""
  %s = kernel.call @add <"N"> (%x, %y) {{kernel.outputs = [#dims.shape<"0">]}} : {BINARY}
  %i = onnx.Custom "test" "Positive" (%s) {{kernel.outputs = ["dynamic"], dims.binds = ["u0"]}} : ({N}) -> ({u})
  %k = onnx.Custom "test" "Double" (%s) {{kernel.outputs = ["output:1"]}} : ({N}) -> ({N})
  %t = dims.tensor <"u0 + N"> {{kernel.outputs = [#dims.shape<"4*N + 63">]}} : tensor<1xi64>
  func.return %i, %k, %t : {u}, {N}, tensor<1xi64>""", outputs=f"{u}, {N}, tensor<1xi64>", arena="8*N + 128",
                names='onnx.outputs = ["i", "k", "t"]')  # fmt: skip
    program = load(text, [ADD], hosts=[lambda s: np.nonzero(s > 0)[0], lambda s: 2 * s])
    got = program(f32(1, -2, 3), f32(1, 1, 1))
    assert got["i"].tolist() == [0, 2]
    assert got["k"].tolist() == [4, -2, 8]
    assert got["t"].tolist() == [5]


def test_a_hosts_exception_names_the_operator() -> None:
    def fails(_: object) -> object:
        raise KeyError("no such thing")

    text = main(f"""
  %i = onnx.Custom "test" "Fails" (%x) {{kernel.outputs = ["output:0"]}} : ({N}) -> ({N})
  func.return %i : {N}""", f"%x: {N}", arena="0")  # fmt: skip
    with pytest.raises(InputError, match=r"test::Fails: KeyError: 'no such thing'") as caught:
        load(text, hosts=[fails])(f32(1))
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(CompilerBug, match=r"gave the sizes \(2,\), expected \(1,\)"):
        load(text, hosts=[lambda x: np.zeros(2, np.float32)])(f32(1))
    with pytest.raises(CompilerBug, match="gave float64 of rank 1, expected float32 of rank 1"):
        load(text, hosts=[lambda x: np.zeros(1)])(f32(1))


def test_strings_and_sequences_are_objects() -> None:
    s = 'tensor<?x!onnx.string, #dims.shape<"N">>'
    text = main(f"""
  %l = onnx.Custom "test" "Lower" (%x) : ({s}) -> ({s})
  %q = onnx.Custom "test" "Split" (%l) : ({s}) -> (!onnx.sequence<{s}>)
  func.return %l, %q : {s}, !onnx.sequence<{s}>""", f"%x: {s}", f"{s}, !onnx.sequence<{s}>", "0",
                'onnx.inputs = ["x"], onnx.outputs = ["l", "q"]')  # fmt: skip
    lower = np.vectorize(str.lower, otypes=[object])
    program = load(text, hosts=[lower, lambda x: [x[:1], x[1:]]])
    got = program(np.array(["Ab", "CD"]))
    assert got["l"].tolist() == ["ab", "cd"]
    assert [part.tolist() for part in got["q"]] == [["ab"], ["cd"]]
    with pytest.raises(InputError, match="input 'x' is float32, expected string"):
        program(f32(1))


def test_missing_kernels_and_attributes_are_bugs() -> None:
    with pytest.raises(EntryError, match="no kernel @add"):
        load(CHAIN, [NEGATE])
    with pytest.raises(EntryError, match=r"kernel.call has no kernel.outputs for 1 values"):
        load(CHAIN.replace("kernel.outputs = [#dims.shape", "other = [#dims.shape"), [ADD, NEGATE])
    with pytest.raises(EntryError, match=r"main has no kernel.arena"):
        load(CHAIN.replace("kernel.arena", "other"), [ADD, NEGATE])
    with pytest.raises(EntryError, match=r"no home 'somewhere'"):
        load(CHAIN.replace("output:0", "somewhere"), [ADD, NEGATE])


SCRATCH = """
func.func private @reverse(%d0: index, %x: memref<?xf32>, %y: memref<?xf32>) attributes {
    kernel.scratch = #dims.shape<"4*d0">, kernel.thread_scratch = #dims.shape<"0">} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %t = "kernel.scratch"() {offset = #dims.shape<"0">, size = #dims.shape<"d0">} : () -> memref<?xf32>
  scf.for %i = %zero to %d0 step %one {
    %a = memref.load %x[%i] : memref<?xf32>
    memref.store %a, %t[%i] : memref<?xf32>
  }
  scf.for %i = %zero to %d0 step %one {
    %j = arith.subi %d0, %i : index
    %k = arith.subi %j, %one : index
    %a = memref.load %t[%k] : memref<?xf32>
    memref.store %a, %y[%i] : memref<?xf32>
  }
  func.return
}"""


@pytest.mark.parametrize(
    "scratch", ['kernel.scratch = #dims.shape<"4*N + 60">', 'kernel.scratch_bytes = #dims.shape<"4*N">']
)
def test_scratch_is_planned_or_made_for_the_call(scratch: str) -> None:
    text = main(f"""
  %a = kernel.call @reverse <"N"> (%x) {{kernel.outputs = [#dims.shape<"0">], {scratch}}} : ({N}) -> {N}
  %b = kernel.call @reverse <"N"> (%a) {{kernel.outputs = ["dynamic"], {scratch}}} : ({N}) -> {N}
  %c = kernel.call @reverse <"N"> (%b) {{kernel.outputs = ["output:0"], {scratch}}} : ({N}) -> {N}
  func.return %c : {N}""", f"%x: {N}", arena="8*N + 128")  # fmt: skip
    program = load(text, [SCRATCH])
    for size in (0, 1, 7, 5000, 3):
        x = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(program(x)["z"], x[::-1])


POSITIVE = """
func.func private @positive(%d0: index, %x: memref<?xf32>, %y: memref<?xf32>, %found: memref<?xi64>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %nothing = arith.constant 0.0 : f32
  %count = scf.for %i = %zero to %d0 step %one iter_args(%n = %zero) -> (index) {
    %a = memref.load %x[%i] : memref<?xf32>
    %yes = arith.cmpf ogt, %a, %nothing : f32
    %next = scf.if %yes -> (index) {
      memref.store %a, %y[%n] : memref<?xf32>
      %m = arith.addi %n, %one : index
      scf.yield %m : index
    } else {
      scf.yield %n : index
    }
    scf.yield %next : index
  }
  %long = arith.index_cast %count : index to i64
  memref.store %long, %found[%zero] : memref<?xi64>
  func.return
}"""


def test_a_kernel_may_find_the_size_of_its_result() -> None:
    u = 'tensor<?xf32, #dims.shape<"u0">>'
    text = main(f"""
  %p = kernel.call @positive <"N"> (%x) {{kernel.outputs = ["dynamic"], dims.binds = ["u0"],
    dims.upper = #dims.shape<"UPPER">}} : ({N}) -> {u}
  %s = kernel.call @add <"u0"> (%p, %p) {{kernel.outputs = ["dynamic"]}} : ({u}, {u}) -> {u}
  func.return %s : {u}""", f"%x: {N}", u, "0")  # fmt: skip
    program = load(text.replace("UPPER", "N"), [POSITIVE, ADD])
    for x in (f32(), f32(-1), f32(1, -2, 3), f32(4, 5)):
        assert program(x)["z"].tolist() == (2 * x[x > 0]).tolist()
    wrong = load(text.replace("UPPER", "1"), [POSITIVE, ADD])
    with pytest.raises(InputError, match="a kernel found the size 2 for u0, which is at most 1"):
        wrong(f32(1, -2, 3))
    with pytest.raises(EntryError, match=r"dims.binds without as many dims.upper"):
        load(text.replace("dims.upper", "other"), [POSITIVE, ADD])


def test_a_size_cannot_be_named_like_the_number_of_threads() -> None:
    threads = 'tensor<?xf32, #dims.shape<"sx_threads">>'
    with pytest.raises(EntryError, match="'sx_threads' is the number of threads"):
        load(main(f"func.return %x : {threads}", f"%x: {threads}", threads, "0"))


def test_scratch_and_threads_in_the_arena() -> None:
    body = f"""
  %s = kernel.call @concat <"N, N"> (%x, %y) {{kernel.outputs = [#dims.shape<"64*sx_threads">]}} : ({N}, {N}) -> {N}
  func.return %s : {N}"""
    two = 'tensor<?xf32, #dims.shape<"2*N">>'
    text = main(body.replace(f"-> {N}", f"-> {two}").replace(f"%s : {N}", f"%s : {two}"), outputs=two,
                arena="64*sx_threads + 8*N + 64")  # fmt: skip
    assert load(text, [CONCAT])(f32(1, 2), f32(3, 4))["z"].tolist() == [1, 2, 3, 4]
