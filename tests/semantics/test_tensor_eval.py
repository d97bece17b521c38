"""The numpy evaluator of the tensor level: what its ops mean, and that it refuses what compiled code must not do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sardonyx.dialects.dims import Dims
from sardonyx.dialects.kernel import Kernel
from sardonyx.dialects.vectorx import VectorX
from sardonyx.semantics import tensor_eval
from sardonyx.semantics.scalar_rules import StrayAccess
from sardonyx.semantics.tensor_eval import CheckFailed, evaluate
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, linalg, math, scf, tensor
from xdsl.parser import Parser


def parse(text: str) -> func.FuncOp:
    """The only function of a module."""
    context = Context()
    for dialect in (builtin.Builtin, func.Func, arith.Arith, math.Math, scf.Scf, tensor.Tensor, linalg.Linalg):
        context.load_dialect(dialect)
    for dialect in (Kernel, Dims, VectorX):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    [function] = module.ops
    assert isinstance(function, func.FuncOp)
    return function


def run(text: str, dims: list[int], *inputs: Any) -> list[np.ndarray]:
    return evaluate(parse(text), dims, [np.asarray(i) for i in inputs])


ROW_SUM = """
func.func @k(%d0: index, %x: tensor<?x3xf32>) -> tensor<?xf32> {
  %n = kernel.dim <"d0">
  %zero = arith.constant 1.0 : f32
  %start = tensor.splat %zero[%n] : tensor<?xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                       iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<?x3xf32>) outs(%start : tensor<?xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %next = arith.addf %sum, %a : f32
    linalg.yield %next : f32
  } -> tensor<?xf32>
  func.return %y : tensor<?xf32>
}
"""


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_a_reduction_starts_from_its_output(rows: int) -> None:
    x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
    [y] = run(ROW_SUM, [rows], x)
    np.testing.assert_array_equal(y, x.sum(axis=1) + 1)


def test_large_spaces_are_evaluated_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_eval, "CHUNK", 7)
    x = np.random.default_rng(0).random((11, 3)).astype(np.float32)
    [y] = run(ROW_SUM, [11], x)
    np.testing.assert_allclose(y, x.sum(axis=1) + 1, rtol=1e-6)


SHIFT = """
func.func @k(%x: tensor<4xi32>) -> tensor<4xi32> {{
  %e = tensor.empty() : tensor<4xi32>
  %y = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
    outs(%e : tensor<4xi32>) {{
  ^bb0(%old: i32):
    %i = linalg.index 0 : index
    %one = arith.constant 1 : index
    %at = arith.subi %i, %one : index
    {body}
    linalg.yield %v : i32
  }} -> tensor<4xi32>
  func.return %y : tensor<4xi32>
}}
"""
UNGUARDED = "%v = tensor.extract %x[%at] : tensor<4xi32>"
GUARDED = """
    %zero = arith.constant 0 : index
    %inside = arith.cmpi sge, %at, %zero : index
    %v = scf.if %inside -> (i32) {
      %w = tensor.extract %x[%at] : tensor<4xi32>
      scf.yield %w : i32
    } else {
      %nine = arith.constant 9 : i32
      scf.yield %nine : i32
    }
"""
CHECKED = """
    %zero = arith.constant 0 : index
    %inside = arith.cmpi sge, %at, %zero : index
    "kernel.check"(%inside, %at) {code = "index", message = "before the start"} : (i1, index) -> ()
    %safe = arith.select %inside, %at, %zero : index
    %v = tensor.extract %x[%safe] : tensor<4xi32>
"""


def test_a_guarded_read_is_made_only_where_the_guard_holds() -> None:
    [y] = run(SHIFT.format(body=GUARDED), [], np.array([1, 2, 3, 4], np.int32))
    np.testing.assert_array_equal(y, [9, 1, 2, 3])


def test_a_stray_read_is_refused() -> None:
    with pytest.raises(StrayAccess):
        run(SHIFT.format(body=UNGUARDED), [], np.zeros(4, np.int32))


def test_a_failed_check_gives_its_first_lane() -> None:
    with pytest.raises(CheckFailed) as failure:
        run(SHIFT.format(body=CHECKED), [], np.zeros(4, np.int32))
    assert (failure.value.code, failure.value.values) == ("index", (-1,))


SCALAR = """
func.func @k(%x: tensor<?x{kind}>, %y: tensor<?x{kind}>) -> tensor<?x{result}> {{
  %n = kernel.dim <"2">
  %e = tensor.empty(%n) : tensor<?x{result}>
  %z = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                       iterator_types = ["parallel"]}}
    ins(%x, %y : tensor<?x{kind}>, tensor<?x{kind}>) outs(%e : tensor<?x{result}>) {{
  ^bb0(%a: {kind}, %b: {kind}, %old: {result}):
    %c = {op} : {type}
    linalg.yield %c : {result}
  }} -> tensor<?x{result}>
  func.return %z : tensor<?x{result}>
}}
"""


def scalar(op: str, kind: str, a: Any, b: Any, result: str | None = None, type_: str | None = None) -> list[Any]:
    text = SCALAR.format(op=op, kind=kind, result=result or kind, type=type_ or kind)
    return run(text, [], a, b)[0].tolist()


def test_unsigned_operations_on_signless_integers() -> None:
    a, b = np.array([-1, 7], np.int8), np.array([2, 2], np.int8)
    assert scalar("arith.divui %a, %b", "i8", a, b) == [127, 3]
    assert scalar("arith.divsi %a, %b", "i8", a, b) == [0, 3]
    assert scalar("arith.remui %a, %b", "i8", a, b) == [1, 1]
    assert scalar("arith.maxui %a, %b", "i8", a, b) == [-1, 7]
    assert scalar("arith.shrui %a, %b", "i8", a, b) == [63, 1]
    assert scalar("arith.cmpi ult, %a, %b", "i8", a, b, "i1") == [False, False]


@pytest.mark.parametrize("op", ["divsi", "remsi"])
@pytest.mark.parametrize(("above", "below"), [(1, 0), (-128, -1)])
def test_divisions_that_trap_are_refused(op: str, above: int, below: int) -> None:
    with pytest.raises(StrayAccess):
        scalar(f"arith.{op} %a, %b", "i8", np.array([above, 1], np.int8), np.array([below, 1], np.int8))


def test_shifts_by_the_width_are_refused() -> None:
    with pytest.raises(StrayAccess):
        scalar("arith.shli %a, %b", "i8", np.array([1, 1], np.int8), np.array([8, 1], np.int8))


def test_float_predicates() -> None:
    a, b = np.array([np.nan, 1], np.float32), np.array([1, 1], np.float32)
    expected = {"oeq": [0, 1], "une": [1, 0], "ult": [1, 0], "olt": [0, 0], "uno": [1, 0], "ord": [0, 1], "ueq": [1, 1]}
    for predicate, truth in expected.items():
        assert scalar(f"arith.cmpf {predicate}, %a, %b", "f32", a, b, "i1") == [bool(t) for t in truth]


def test_extrema_propagate_nan() -> None:
    a, b = np.array([np.nan, 1], np.float32), np.array([1, 2], np.float32)
    assert np.isnan(scalar("arith.maximumf %a, %b", "f32", a, b)[0])
    assert scalar("arith.minimumf %a, %b", "f32", a, b)[1] == 1


def test_conversions_saturate() -> None:
    values = np.array([np.nan, 3e9], np.float32)
    for kind, expected in (("fptosi", [0, 2**31 - 1]), ("fptoui", [0, 3000000000 - 2**32])):
        text = SCALAR.format(op=f'vectorx.convert "{kind}" %a', kind="f32", result="i32", type="f32 to i32")
        assert run(text, [], values, values)[0].tolist() == expected


def test_products_and_sums_are_rounded_once() -> None:
    a, b = np.array([1 + 2**-30, 1.0]), np.array([1 + 2**-30, 1.0])
    text = SCALAR.format(op="math.fma %a, %b, %b", kind="f64", result="f64", type="f64")
    [y] = run(text, [], a, b)
    assert y[0] == 2 + 3 * 2**-30  # 2**-60 is rounded away only after the sum


TEMPLATE = """
func.func @k(%a: tensor<2x3xf16>, %b: tensor<3x4xf16>, %c: tensor<4xf16>) -> tensor<2x4xf16> {
  %e = tensor.empty() : tensor<2x4xf16>
  %y = "kernel.template"(%a, %b, %e) <{template = "matmul", config = {}, operandSegmentSizes = array<i32: 2, 1>}> ({
  ^bb0(%sum: f32, %i: index, %j: index):
    %bias = tensor.extract %c[%j] : tensor<4xf16>
    %wide = vectorx.convert "extf" %bias : f16 to f32
    %total = arith.addf %sum, %wide : f32
    %narrow = vectorx.convert "truncf" %total : f32 to f16
    "kernel.yield"(%narrow) : (f16) -> ()
  }) : (tensor<2x3xf16>, tensor<3x4xf16>, tensor<2x4xf16>) -> tensor<2x4xf16>
  func.return %y : tensor<2x4xf16>
}
"""


def test_an_epilogue_gets_the_sum_before_it_is_rounded() -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.normal(size=s).astype(np.float16) for s in ((2, 3), (3, 4), (4,)))
    [y] = run(TEMPLATE, [], a, b, c)
    exact = a.astype(np.float32) @ b.astype(np.float32) + c.astype(np.float32)
    np.testing.assert_array_equal(y, exact.astype(np.float16))


def test_views_and_broadcast_maps() -> None:
    text = """
    func.func @k(%d0: index, %x: tensor<?xf32>, %row: tensor<1x2xf32>) -> tensor<?x2xf32> {
      %v = kernel.view %x {dims = #dims.shape<"d0, 2">} : tensor<?xf32> to tensor<?x2xf32>
      %n = kernel.dim <"d0">
      %e = tensor.empty(%n) : tensor<?x2xf32>
      %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (0, j)>,
                                            affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
        ins(%v, %row : tensor<?x2xf32>, tensor<1x2xf32>) outs(%e : tensor<?x2xf32>) {
      ^bb0(%a: f32, %b: f32, %old: f32):
        %c = arith.mulf %a, %b : f32
        linalg.yield %c : f32
      } -> tensor<?x2xf32>
      func.return %y : tensor<?x2xf32>
    }
    """
    x, row = np.arange(6, dtype=np.float32), np.array([[2, 3]], np.float32)
    [y] = run(text, [3], x, row)
    np.testing.assert_array_equal(y, x.reshape(3, 2) * row)
