"""Hand-written kernels of the loops level: what the translator takes, on each target, against numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from harness import TARGETS, Compiled, parse
from sardonyx.codegen.checks import checks_of
from sardonyx.codegen.kernels import kernel_to_llvm
from sardonyx.codegen.scope import TranslateError
from sardonyx.dialects.target import Target

pytestmark = pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.cpu)

RNG = np.random.default_rng(0)


def kernel(signature: str, body: str, attributes: str = "") -> str:
    """A kernel with %c0, %c1 and %c16 defined."""
    return f"""
func.func private @k({signature}) {attributes} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  {body}
  func.return
}}
"""


def floats(n: int) -> np.ndarray:
    return RNG.standard_normal(n).astype(np.float32)


def test_masked_tail(target: Target) -> None:
    """y = a*x + y in vectors of 16, the last one masked; nothing behind the end is touched."""
    k = Compiled(
        kernel(
            "%d0: index, %a: memref<?xf32>, %x: memref<?xf32>, %y: memref<?xf32>",
            """
  %zero = arith.constant dense<0.0> : vector<16xf32>
  %s = memref.load %a[%c0] : memref<?xf32>
  %sv = vector.broadcast %s : f32 to vector<16xf32>
  scf.for %i = %c0 to %d0 step %c16 {
    %rest = arith.subi %d0, %i : index
    %m = vector.create_mask %rest : vector<16xi1>
    %v = vector.maskedload %x[%i], %m, %zero : memref<?xf32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
    %w = vector.maskedload %y[%i], %m, %zero : memref<?xf32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
    %r = vector.fma %sv, %v, %w : vector<16xf32>
    vector.maskedstore %y[%i], %m, %r : memref<?xf32>, vector<16xi1>, vector<16xf32>
  }
""",
        ),
        target,
    )
    for n in (0, 1, 15, 16, 17, 100):
        x, y, a = floats(n + 16), floats(n + 16), floats(1)
        expected = y.copy()
        expected[:n] = (a[0].astype(np.float64) * x[:n] + y[:n]).astype(np.float32)
        assert k(n, a, x, y).code == 0
        np.testing.assert_allclose(y, expected, rtol=1e-6)
        assert np.array_equal(y[n:], expected[n:])


def test_softmax_rows(target: Target) -> None:
    """Three passes over a row: nested loops, carried values, tree reductions, exp."""
    k = Compiled(
        kernel(
            "%d0: index, %d1: index, %x: memref<?xf32>, %y: memref<?xf32>",
            """
  %inf = arith.constant 0xFF800000 : f32
  %low = vector.broadcast %inf : f32 to vector<16xf32>
  %zero = arith.constant dense<0.0> : vector<16xf32>
  scf.for %row = %c0 to %d0 step %c1 {
    %base = arith.muli %row, %d1 : index
    %most = scf.for %i = %c0 to %d1 step %c16 iter_args(%acc = %low) -> (vector<16xf32>) {
      %rest = arith.subi %d1, %i : index
      %m = vector.create_mask %rest : vector<16xi1>
      %at = arith.addi %base, %i : index
      %v = vector.maskedload %x[%at], %m, %low : memref<?xf32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
      %n = arith.maximumf %acc, %v : vector<16xf32>
      scf.yield %n : vector<16xf32>
    }
    %max = vectorx.reduce "maximumf" %most : vector<16xf32> to f32
    %maxv = vector.broadcast %max : f32 to vector<16xf32>
    %sums = scf.for %i = %c0 to %d1 step %c16 iter_args(%acc = %zero) -> (vector<16xf32>) {
      %rest = arith.subi %d1, %i : index
      %m = vector.create_mask %rest : vector<16xi1>
      %at = arith.addi %base, %i : index
      %v = vector.maskedload %x[%at], %m, %low : memref<?xf32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
      %d = arith.subf %v, %maxv : vector<16xf32>
      %e = math.exp %d : vector<16xf32>
      vector.maskedstore %y[%at], %m, %e : memref<?xf32>, vector<16xi1>, vector<16xf32>
      %n = arith.addf %acc, %e : vector<16xf32>
      scf.yield %n : vector<16xf32>
    }
    %sum = vectorx.reduce "add" %sums : vector<16xf32> to f32
    %sumv = vector.broadcast %sum : f32 to vector<16xf32>
    scf.for %i = %c0 to %d1 step %c16 {
      %rest = arith.subi %d1, %i : index
      %m = vector.create_mask %rest : vector<16xi1>
      %at = arith.addi %base, %i : index
      %v = vector.maskedload %y[%at], %m, %zero : memref<?xf32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
      %q = arith.divf %v, %sumv : vector<16xf32>
      vector.maskedstore %y[%at], %m, %q : memref<?xf32>, vector<16xi1>, vector<16xf32>
    }
  }
""",
        ),
        target,
    )
    x = floats(5 * 37)
    y = np.zeros_like(x)
    k(5, 37, x, y)
    rows = x.reshape(5, 37).astype(np.float64)
    e = np.exp(rows - rows.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y.reshape(5, 37), e / e.sum(axis=1, keepdims=True), rtol=2e-6)


def test_gather_and_check(target: Target) -> None:
    """Indices are checked lane by lane; the first lane that fails gives its values, and nothing strays."""
    k = Compiled(
        kernel(
            "%d0: index, %d1: index, %x: memref<?xf32>, %i: memref<?xi64>, %y: memref<?xf32>",
            """
  %c8 = arith.constant 8 : index
  %zero = arith.constant dense<0> : vector<8xindex>
  %limit = vector.broadcast %d1 : index to vector<8xindex>
  scf.for %at = %c0 to %d0 step %c8 {
    %raw = vector.load %i[%at] : memref<?xi64>, vector<8xi64>
    %ix = vectorx.convert "index_cast" %raw : vector<8xi64> to vector<8xindex>
    %ge = vectorx.compare "sge" %ix, %zero : vector<8xindex> to vector<8xi1>
    %lt = vectorx.compare "slt" %ix, %limit : vector<8xindex> to vector<8xi1>
    %ok = arith.andi %ge, %lt : vector<8xi1>
    "kernel.check"(%ok, %ix, %d1) <{code = "index", message = "index {0} of {1}"}>
      : (vector<8xi1>, vector<8xindex>, index) -> ()
    %safe = vectorx.select %ok, %ix, %zero : vector<8xi1>, vector<8xindex>
    %v = "vectorx.gather"(%x, %safe) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>}>
      : (memref<?xf32>, vector<8xindex>) -> vector<8xf32>
    vector.store %v, %y[%at] : memref<?xf32>, vector<8xf32>
  }
""",
        ),
        target,
    )
    x, y = floats(100), np.zeros(16, np.float32)
    indices = RNG.integers(0, 100, 16)
    call = k(16, 100, x, indices, y)
    assert call.code == 0 and call.reports == []
    assert np.array_equal(y, x[indices])
    indices[11], indices[13] = 100, -1
    assert k(16, 100, x, indices, y, node=42).reports == [(42, 0, [100, 100])]


def test_scalar_check_in_a_branch(target: Target) -> None:
    """Two checks: sites count from 0 in the order of the text."""
    text = kernel(
        "%d0: index, %y: memref<?xi64>",
        """
  %c3 = arith.constant 3 : index
  %fine = arith.cmpi slt, %d0, %c16 : index
  scf.if %fine {
    %odd = arith.cmpi slt, %d0, %c3 : index
    "kernel.check"(%odd, %d0) <{code = "value", message = "{0}"}> : (i1, index) -> ()
  } else {
    "kernel.check"(%fine) <{code = "value", message = "large"}> : (i1) -> ()
  }
""",
    )
    k = Compiled(text, target)
    y = np.zeros(1, np.int64)
    assert k(2, y).reports == []
    assert k(5, y).reports == [(7, 0, [5])]
    assert k(50, y).reports == [(7, 1, [])]
    (function,) = parse(text).ops
    assert [check.message.data for check in checks_of(function)] == ["{0}", "large"]  # type: ignore[arg-type]


def test_while_and_if_results(target: Target) -> None:
    """The number of Collatz steps of each element, with values carried through both regions."""
    k = Compiled(
        kernel(
            "%d0: index, %x: memref<?xi64>, %y: memref<?xi64>",
            """
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %three = arith.constant 3 : i64
  %zero = arith.constant 0 : i64
  scf.for %i = %c0 to %d0 step %c1 {
    %start = memref.load %x[%i] : memref<?xi64>
    %end, %steps = scf.while (%n = %start, %count = %zero) : (i64, i64) -> (i64, i64) {
      %go = arith.cmpi ne, %n, %one : i64
      scf.condition(%go) %n, %count : i64, i64
    } do {
    ^bb0(%n: i64, %count: i64):
      %half = arith.divsi %n, %two : i64
      %bit = arith.remsi %n, %two : i64
      %even = arith.cmpi eq, %bit, %zero : i64
      %next = scf.if %even -> (i64) {
        scf.yield %half : i64
      } else {
        %t = arith.muli %n, %three : i64
        %u = arith.addi %t, %one : i64
        scf.yield %u : i64
      }
      %more = arith.addi %count, %one : i64
      scf.yield %next, %more : i64, i64
    }
    memref.store %steps, %y[%i] : memref<?xi64>
  }
""",
        ),
        target,
    )

    def steps(n: int) -> int:
        count = 0
        while n != 1:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        return count

    x = np.arange(1, 40)
    y = np.zeros_like(x)
    k(len(x), x, y)
    assert y.tolist() == [steps(n) for n in range(1, 40)]


PARALLEL = kernel(
    "%d0: index, %d1: index, %x: memref<?xf32>, %y: memref<?xf32>",
    """
  %grain = arith.constant 2 : index
  %two = arith.constant 2.0 : f32
  %rows = "kernel.scratch"() <{offset = #dims.shape<"0">, size = #dims.shape<"d0">}> : () -> memref<?xf32>
  scf.for %r = %c0 to %d0 step %c1 {
    memref.store %two, %rows[%r] : memref<?xf32>
  }
  "kernel.parallel"(%d0, %grain) ({
  ^bb0(%lo: index, %hi: index, %thread: index):
    %own = "kernel.scratch"(%thread) <{offset = #dims.shape<"0">, size = #dims.shape<"d1">}> : (index) -> memref<?xf32>
    %size = kernel.dim <"d1">
    scf.for %r = %lo to %hi step %c1 {
      %base = arith.muli %r, %d1 : index
      %s = memref.load %rows[%r] : memref<?xf32>
      scf.for %i = %c0 to %size step %c1 {
        %at = arith.addi %base, %i : index
        %v = memref.load %x[%at] : memref<?xf32>
        %w = arith.mulf %v, %s : f32
        memref.store %w, %own[%i] : memref<?xf32>
      }
      scf.for %i = %c0 to %size step %c1 {
        %at = arith.addi %base, %i : index
        %v = memref.load %own[%i] : memref<?xf32>
        %w = arith.mulf %v, %two : f32
        memref.store %w, %y[%at] : memref<?xf32>
      }
    }
    "kernel.yield"() : () -> ()
  }) : (index, index) -> ()
""",
    'attributes {kernel.scratch = #dims.shape<"64*((4*d0 + 63)//64)">, kernel.thread_scratch = #dims.shape<"4*d1">}',
)


def test_parallel(target: Target) -> None:
    """Ranges run through `parallel_for` with two threads, alone with one; scratch is shared or the thread's own."""
    k = Compiled(PARALLEL, target)
    x = floats(7 * 5)
    for threads, ranges in ((1, []), (2, [(3, 7, 0), (0, 3, 1)])):
        y, scratch = np.zeros_like(x), np.zeros(64 // 4 + 2 * 5 + 8, np.float32)
        call = k(7, 5, x, y, scratch=scratch, threads=threads)
        assert call.ranges == ranges
        assert np.array_equal(y, x * 4)
        assert np.array_equal(scratch[:7], [2] * 7) and not scratch[7:16].any()
        assert np.array_equal(scratch[16:21], y[30:] / 2)
        assert np.array_equal(scratch[21:26], y[10:15] / 2 if threads == 2 else [0] * 5)
        assert not scratch[26:].any()


def test_parallel_of_nothing(target: Target) -> None:
    k = Compiled(PARALLEL, target)
    assert k(0, 5, floats(1), floats(1), scratch=floats(64), threads=2).ranges == []
    assert k(3, 1, floats(3), floats(3), scratch=floats(64), threads=2).ranges == []  # below two grains


def test_parallel_failure_ends_the_kernel(target: Target) -> None:
    """A code from `parallel_for` is the kernel's, and what follows does not run."""
    k = Compiled(
        kernel(
            "%d0: index, %y: memref<?xi32>",
            """
  %one = arith.constant 1 : i32
  "kernel.parallel"(%d0, %c1) ({
  ^bb0(%lo: index, %hi: index, %thread: index):
    "kernel.yield"() : () -> ()
  }) : (index, index) -> ()
  memref.store %one, %y[%c0] : memref<?xi32>
""",
        ),
        target,
    )
    y = np.zeros(1, np.int32)
    assert k(8, y, threads=2).code == 0 and y[0] == 1
    y[0] = 0
    assert k(8, y, threads=2, parallel_code=5).code == 5 and y[0] == 0


def test_dim_expressions(target: Target) -> None:
    """Floor division and modulo of negative numbers, min, max, broadcast, products; by zero nothing traps."""
    expressions = ["4*d0 + 1", "d0*d1 - 3", "(d0 - 9)//d1", "(d0 - 9) % d1", "min(d0, d1)", "max(d0, 7)"]
    expressions += ["broadcast(d0, d1)", "d0*d0*d1", "(1 - d0)//4", "(1 - d0) % 4"]
    body = "".join(
        f"""
  %v{i} = kernel.dim <"{text}">
  %w{i} = arith.index_cast %v{i} : index to i64
  %p{i} = arith.constant {i} : index
  memref.store %w{i}, %y[%p{i}] : memref<?xi64>"""
        for i, text in enumerate(expressions)
    )
    k = Compiled(kernel("%d0: index, %d1: index, %y: memref<?xi64>", body), target)
    for a, b in ((5, 3), (1, 4), (4, 1), (0, 1), (12, 12)):
        y = np.zeros(len(expressions), np.int64)
        k(a, b, y)
        names = {"d0": a, "d1": b, "min": min, "max": max, "broadcast": lambda x, y: y if x == 1 else x}
        assert y.tolist() == [eval(text, {}, names) for text in expressions]
    k(3, 0, np.zeros(len(expressions), np.int64))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8", "i1", "i16", "i32", "i64", "f64"])
@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_memory_of_every_type(target: Target, dtype: str, lanes: int) -> None:
    """Whole and masked loads and stores of each element type; a boolean is a byte."""
    numpy_type = {
        "f16": np.float16,
        "bf16": ml_dtypes.bfloat16,
        "i8": np.int8,
        "i1": np.bool_,
        "i16": np.int16,
        "i32": np.int32,
        "i64": np.int64,
        "f64": np.float64,
    }[dtype]
    zero = "false" if dtype == "i1" else "0.0" if "f" in dtype else "0"
    v, m = f"vector<{lanes}x{dtype}>", f"memref<?x{dtype}>"
    k = Compiled(
        kernel(
            f"%d0: index, %x: {m}, %y: {m}, %z: {m}",
            f"""
  %none = arith.constant dense<{zero}> : {v}
  %a = vector.load %x[%c1] : {m}, {v}
  vector.store %a, %y[%c1] : {m}, {v}
  %mask = vector.create_mask %d0 : vector<{lanes}xi1>
  %b = vector.maskedload %x[%c1], %mask, %none : {m}, vector<{lanes}xi1>, {v} into {v}
  vector.maskedstore %z[%c1], %mask, %b : {m}, vector<{lanes}xi1>, {v}
  %s = memref.load %x[%c0] : {m}
  memref.store %s, %y[%c0] : {m}
""",
        ),
        target,
    )
    x = (RNG.integers(-100, 100, lanes + 2)).astype(numpy_type)
    if dtype == "i1":
        x = RNG.integers(0, 2, lanes + 2).astype(np.bool_)
    for n in (0, 1, lanes - 1, lanes, lanes + 5, -3):
        y, z = np.zeros_like(x), np.zeros_like(x)
        k(n, x, y, z)
        assert np.array_equal(y[:-1], x[:-1]) and not y[-1]
        count = min(max(n, 0), lanes)
        assert np.array_equal(z[1 : 1 + count], x[1 : 1 + count])
        assert not z[0] and not z[1 + count :].any()


@pytest.mark.parametrize("lanes", [4, 8, 16, 32, 64])
@pytest.mark.parametrize("predicate", ["slt", "sle", "sgt", "sge"])
def test_comparison_of_lane_numbers(target: Target, lanes: int, predicate: str) -> None:
    """x + lane with y, and y with x + lane: as of any integers, also where x and y are far apart."""
    v, m = f"vector<{lanes}xindex>", f"vector<{lanes}xi1>"
    k = Compiled(
        kernel(
            "%d0: index, %d1: index, %r: memref<?xi1>, %s: memref<?xi1>",
            f"""
  %x = vector.broadcast %d0 : index to {v}
  %lane = vectorx.step : {v}
  %at = arith.addi %x, %lane : {v}
  %y = vector.broadcast %d1 : index to {v}
  %a = vectorx.compare "{predicate}" %at, %y : {v} to {m}
  %b = vectorx.compare "{predicate}" %y, %at : {v} to {m}
  vector.store %a, %r[%c0] : memref<?xi1>, {m}
  vector.store %b, %s[%c0] : memref<?xi1>, {m}
""",
        ),
        target,
    )
    holds = {"slt": np.less, "sle": np.less_equal, "sgt": np.greater, "sge": np.greater_equal}[predicate]
    end, numbers = 2**63 - 1, np.arange(lanes)
    least = -end - 1
    pairs = [(0, 0), (5, 6), (-1, 0), (0, lanes - 1), (1, lanes), (-lanes, 0), (7, -3)]
    pairs += [(least, end), (end - lanes, least), (least, 0), (least, least), (end - lanes, end), (-5, least)]
    for x, y in pairs:
        r, s = np.zeros(lanes, np.bool_), np.zeros(lanes, np.bool_)
        k(x, y, r, s)
        assert np.array_equal(r, holds(x + numbers, y)), (x, y)
        assert np.array_equal(s, holds(y, x + numbers)), (x, y)


def test_in_place_arguments(target: Target) -> None:
    """`kernel.alias` takes `noalias` from the pair that may overlap, and from no other."""
    text = kernel(
        "%d0: index, %x: memref<?xf32>, %y: memref<?xf32>, %z: memref<?xf32>",
        "",
        "attributes {kernel.alias = array<i64: 1, 2>}",
    )
    printed = Compiled(text, target).text
    (header,) = [line for line in printed.splitlines() if ".main" in line and line.startswith("define")]
    assert [("noalias" in arg) for arg in header.split("(")[1].split(",")] == [False, False, False, False, True, True]


def test_alloca_and_view(target: Target) -> None:
    """Stack memory once a call, and memory seen as other elements."""
    k = Compiled(
        kernel(
            "%d0: index, %x: memref<?xi8>, %y: memref<?xf32>",
            """
  %local = memref.alloca() : memref<16xf32>
  %c4 = arith.constant 4 : index
  %f = memref.view %x[%c4][%d0] : memref<?xi8> to memref<?xf32>
  %v = vector.load %f[%c0] : memref<?xf32>, vector<16xf32>
  vector.store %v, %local[%c0] : memref<16xf32>, vector<16xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %s = memref.load %local[%i] : memref<16xf32>
    memref.store %s, %y[%i] : memref<?xf32>
  }
""",
        ),
        target,
    )
    x, y = floats(17), np.zeros(16, np.float32)
    k(16, x.view(np.int8), y)
    assert np.array_equal(y, x[1:])


def test_origin_is_threaded(target: Target) -> None:
    """Every op that an op with an origin became has that origin."""
    text = kernel(
        "%d0: index, %x: memref<?xf32>",
        """
  %v = memref.load %x[%c0] {origin = array<i64: 3>} : memref<?xf32>
  %w = math.exp %v {origin = array<i64: 4>} : f32
  memref.store %w, %x[%c0] {origin = array<i64: 5, 6>} : memref<?xf32>
""",
    )
    module = Compiled(text, target).module
    seen = {str(op.attributes["origin"]) for op in module.walk() if "origin" in op.attributes}
    assert seen == {"array<i64: 3>", "array<i64: 4>", "array<i64: 5, 6>"}


REFUSED = {
    r"memref\.dim": "%r = memref.dim %x, %c0 : memref<?xf32>",
    "not in the kernel's symbols: d3": '%r = kernel.dim <"d3 + 1">',
    "inside of": """
  "kernel.parallel"(%d0, %c1) ({
  ^bb0(%a: index, %b: index, %c: index):
    "kernel.parallel"(%d0, %c1) ({
    ^bb0(%d: index, %e: index, %f: index):
      "kernel.yield"() : () -> ()
    }) : (index, index) -> ()
    "kernel.yield"() : () -> ()
  }) : (index, index) -> ()
""",
    "only vectors of one dimension": "%r = arith.constant dense<0.0> : vector<2x2xf32>",
    "memrefs are flat": "%a = memref.alloca() : memref<2x2xf32>\n %r = memref.load %a[%c0, %c0] : memref<2x2xf32>",
    r"size that is not known": "%r = memref.alloca(%d0) : memref<?xf32>",
    "widen to f32 first": "%h = arith.constant 1.0 : f16\n %r = math.exp %h : f16",
    "no attribute kernel.thread_scratch": '%r = "kernel.scratch"(%d0) <{offset = #dims.shape<"0">,'
    ' size = #dims.shape<"1">}> : (index) -> memref<?xf32>',
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_has_no_translation_is_refused(target: Target, message: str) -> None:
    (function,) = parse(kernel("%d0: index, %x: memref<?xf32>", REFUSED[message])).ops
    with pytest.raises(TranslateError, match=message):
        kernel_to_llvm(function, target, "k")  # type: ignore[arg-type]
