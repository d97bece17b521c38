"""Fusion: what joins, what does not and for which reason, and the calls that come of it."""

from __future__ import annotations

import pytest
from sardonyx.dialects import kernel
from sardonyx.rewrites.outline import native_everywhere, outline
from sardonyx.rewrites.reasons import Reason
from sardonyx.tools.explain import explain, main_of
from xdsl.dialects.builtin import ModuleOp

from sardonyx.testing import parse

ROWS = 'tensor<?x8xf32, #dims.shape<"N, 8">>'
WIDE = 'tensor<?x16xf32, #dims.shape<"N, 16">>'


def outlined(body: str, *, fuse: bool = True) -> ModuleOp:
    module = parse(body)
    module.verify()
    outline(module, native_everywhere, fuse=fuse)
    module.verify()
    return module


def calls(module: ModuleOp) -> list[str]:
    return [op.callee.string_value() for op in main_of(module).walk() if isinstance(op, kernel.CallOp)]


MATMUL_RELU = f"""
func.func @main(%x: {WIDE}, %w: tensor<16x8xf32>, %b: tensor<8xf32>) -> {ROWS} {{
  %m = onnx.MatMul(%x, %w) : ({WIDE}, tensor<16x8xf32>) -> {ROWS}
  %a = onnx.Add(%m, %b) : ({ROWS}, tensor<8xf32>) -> {ROWS}
  %r = onnx.Relu(%a) : ({ROWS}) -> {ROWS}
  func.return %r : {ROWS}
}}
"""


def test_pointwise_operators_join_the_epilogue() -> None:
    assert calls(outlined(MATMUL_RELU)) == ["matmul_add_relu_0"]


def test_without_fusion_each_operator_is_a_kernel() -> None:
    assert calls(outlined(MATMUL_RELU, fuse=False)) == ["matmul_0", "add_0", "relu_0"]


def test_a_product_needed_elsewhere_keeps_its_epilogue_apart() -> None:
    module = outlined(f"""
func.func @main(%x: {WIDE}, %w: tensor<16x8xf32>) -> ({ROWS}, {ROWS}) {{
  %m = onnx.MatMul(%x, %w) : ({WIDE}, tensor<16x8xf32>) -> {ROWS}
  %r = onnx.Relu(%m) : ({ROWS}) -> {ROWS}
  func.return %m, %r : {ROWS}, {ROWS}
}}
""")
    assert calls(module) == ["matmul_0", "relu_0"]
    assert [r["reason"] for r in explain(module)["refused"]] == ["users"]


def test_a_decomposed_softmax_is_one_kernel() -> None:
    one = 'tensor<?x1xf32, #dims.shape<"N, 1">>'
    module = outlined(f"""
func.func @main(%x: {ROWS}) -> {ROWS} {{
  %axes = onnx.Constant() {{value = dense<1> : tensor<1xi64>}} : () -> tensor<1xi64>
  %m = onnx.ReduceMax(%x, %axes) : ({ROWS}, tensor<1xi64>) -> {one}
  %d = onnx.Sub(%x, %m) : ({ROWS}, {one}) -> {ROWS}
  %e = onnx.Exp(%d) : ({ROWS}) -> {ROWS}
  %s = onnx.ReduceSum(%e, %axes) : ({ROWS}, tensor<1xi64>) -> {one}
  %y = onnx.Div(%e, %s) : ({ROWS}, {one}) -> {ROWS}
  func.return %y : {ROWS}
}}
""")
    assert len(calls(module)) == 1


def test_a_third_kernel_between_two_keeps_them_apart() -> None:
    square = "tensor<8x8xf32>"
    module = outlined(f"""
func.func @main(%x: {square}) -> {square} {{
  %a = onnx.Relu(%x) : ({square}) -> {square}
  %m = onnx.MatMul(%a, %a) : ({square}, {square}) -> {square}
  %t = onnx.MatMul(%m, %a) : ({square}, {square}) -> {square}
  %y = onnx.Add(%t, %a) : ({square}, {square}) -> {square}
  func.return %y : {square}
}}
""")
    assert calls(module) == ["relu_0", "matmul_0", "matmul_add_0"]


def test_equal_layers_share_a_function() -> None:
    module = outlined(f"""
func.func @main(%x: {ROWS}, %v: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> {ROWS} {{
  %a = onnx.MatMul(%x, %v) : ({ROWS}, tensor<8x8xf32>) -> {ROWS}
  %b = onnx.MatMul(%a, %w) : ({ROWS}, tensor<8x8xf32>) -> {ROWS}
  func.return %b : {ROWS}
}}
""")
    assert calls(module) == ["matmul_0", "matmul_0"]


@pytest.mark.parametrize(
    ("change", "into"),
    [
        ("onnx.Relu", "onnx.Abs"),
        ("tensor<8xf32>) -> {ROWS}", "tensor<1xf32>) -> {ROWS}"),
        ("f32", "f64"),
        ('"N, 8"', '"8*N, 8"'),
    ],
)
def test_kernels_that_differ_in_one_field_are_two(change: str, into: str) -> None:
    def key(text: str) -> str:
        module = outlined(text)
        (function,) = [f for f in module.body.block.ops if "kernel.key" in f.attributes]
        return str(function.attributes["kernel.key"])

    bias = "%b: tensor<8xf32>"
    other = MATMUL_RELU.replace(change.replace("{ROWS}", ROWS), into.replace("{ROWS}", ROWS))
    if "tensor<1xf32>" in into:
        other = other.replace(bias, "%b: tensor<1xf32>")
    if '"8*N' in into:
        other = other.replace('"N, 16"', '"8*N, 16"')
    assert other != MATMUL_RELU
    assert key(other) != key(MATMUL_RELU)


def test_a_view_at_the_border_needs_no_kernel() -> None:
    flat = 'tensor<?xf32, #dims.shape<"8*N">>'
    module = outlined(f"""
func.func @main(%x: {ROWS}, %w: tensor<8x8xf32>) -> {flat} {{
  %s = onnx.Constant() {{value = dense<-1> : tensor<1xi64>}} : () -> tensor<1xi64>
  %m = onnx.MatMul(%x, %w) : ({ROWS}, tensor<8x8xf32>) -> {ROWS}
  %y = onnx.Reshape(%m, %s) : ({ROWS}, tensor<1xi64>) -> {flat}
  func.return %y : {flat}
}}
""")
    assert calls(module) == ["matmul_0"]
    assert any(isinstance(op, kernel.ViewOp) for op in main_of(module).walk())


SQUARE = "tensor<8x8xf32>"
PAIR = f"({SQUARE}, {SQUARE}) -> {SQUARE}"
IMAGE, POOLED = "tensor<1x8x8x8xf32>", "tensor<1x8x4x4xf32>"


@pytest.mark.parametrize(
    ("body", "last", "reasons"),
    [
        (f"%g = onnx.Gemm(%x, %x, _) : {PAIR} %y = onnx.Softmax(%g) : ({SQUARE}) -> {SQUARE}", SQUARE,
         ["a template's epilogue takes pointwise operators only"]),
        (f"%m = onnx.MatMul(%x, %x) : {PAIR} %n = onnx.MatMul(%x, %x) : {PAIR} %y = onnx.Add(%m, %n) : {PAIR}", SQUARE,
         ["the consumer runs in the kernel of another template"]),
        (f"%m = onnx.MatMul(%x, %x) : {PAIR} %y = onnx.MatMul(%m, %x) : {PAIR}", SQUARE,
         ["each of them is a template"]),
        (f"%m = onnx.MatMul(%x, %x) : {PAIR} %r = onnx.Relu(%m) : ({SQUARE}) -> {SQUARE} "
         f"%y = onnx.MatMul(%r, %x) : {PAIR}", SQUARE, ["the template reads its operand from memory"]),
        (f"%p = onnx.MaxPool(%i) {{kernel_shape = array<i64: 5, 5>}} : ({IMAGE}) -> {POOLED} "
         f"%y = onnx.Relu(%p) : ({POOLED}) -> {POOLED}", POOLED, ["an operator over windows has no epilogue"]),
        (f"%e = onnx.Exp(%i) : ({IMAGE}) -> {IMAGE} "
         f"%y = onnx.MaxPool(%e) {{kernel_shape = array<i64: 5, 5>}} : ({IMAGE}) -> {POOLED}", POOLED,
         ["a window reads each element several times"]),
        (f"%s = onnx.CumSum(%x, %c) : ({SQUARE}, tensor<i64>) -> {SQUARE} "
         f"%y = onnx.Relu(%s) : ({SQUARE}) -> {SQUARE}", SQUARE, ["the template has no epilogue"]),
        (f"%r = onnx.ReduceSum(%x, _) : ({SQUARE}) -> tensor<1x1xf32> "
         f"%y = onnx.Sub(%x, %r) : ({SQUARE}, tensor<1x1xf32>) -> {SQUARE}", SQUARE,
         ["all axes are reduced, so that there are no rows"]),
    ],
)  # fmt: skip
def test_the_reason_for_two_kernels_is_the_one_that_decided(body: str, last: str, reasons: list[str]) -> None:
    lines = body.replace(" %", "\n  %")
    module = outlined(f"""
func.func @main(%x: {SQUARE}, %i: {IMAGE}, %c: tensor<i64>) -> {last} {{
  {lines}
  func.return %y : {last}
}}
""")
    assert [Reason[r["reason"].upper()] for r in explain(module)["refused"]] == reasons


def test_what_only_a_template_reads_is_made_in_its_kernel() -> None:
    module = outlined(f"""
func.func @main(%x: {WIDE}, %w: tensor<16x8xf32>) -> {ROWS} {{
  %e = onnx.Exp(%x) : ({WIDE}) -> {WIDE}
  %n = onnx.Neg(%e) : ({WIDE}) -> {WIDE}
  %m = onnx.MatMul(%n, %w) : ({WIDE}, tensor<16x8xf32>) -> {ROWS}
  func.return %m : {ROWS}
}}
""")
    assert calls(module) == ["exp_neg_matmul_0"]


def test_what_a_template_and_others_read_is_made_for_all() -> None:
    module = outlined(f"""
func.func @main(%x: {WIDE}, %w: tensor<16x8xf32>) -> ({ROWS}, {WIDE}) {{
  %e = onnx.Exp(%x) : ({WIDE}) -> {WIDE}
  %m = onnx.MatMul(%e, %w) : ({WIDE}, tensor<16x8xf32>) -> {ROWS}
  func.return %m, %e : {ROWS}, {WIDE}
}}
""")
    assert calls(module) == ["exp_0", "matmul_0"]
    assert [r["reason"] for r in explain(module)["refused"]] == ["users"]


def test_an_index_map_is_made_again_for_each_of_two_contractions() -> None:
    longer, one = 'tensor<?x20xf32, #dims.shape<"N, 20">>', "tensor<1xi64>"
    module = outlined(f"""
func.func @main(%x: {longer}, %v: tensor<16x8xf32>, %w: tensor<16x8xf32>) -> ({ROWS}, {ROWS}) {{
  %start = onnx.Constant() {{value = dense<2> : tensor<1xi64>}} : () -> tensor<1xi64>
  %end = onnx.Constant() {{value = dense<18> : tensor<1xi64>}} : () -> tensor<1xi64>
  %axis = onnx.Constant() {{value = dense<1> : tensor<1xi64>}} : () -> tensor<1xi64>
  %s = onnx.Slice(%x, %start, %end, %axis) : ({longer}, {one}, {one}, {one}) -> {WIDE}
  %m = onnx.MatMul(%s, %v) : ({WIDE}, tensor<16x8xf32>) -> {ROWS}
  %n = onnx.MatMul(%s, %w) : ({WIDE}, tensor<16x8xf32>) -> {ROWS}
  func.return %m, %n : {ROWS}, {ROWS}
}}
""")
    assert calls(module) == ["slice_matmul_0", "slice_matmul_0"]


def test_a_window_in_front_of_what_a_template_reads_stays_apart() -> None:
    image, wide = "tensor<1x4x8x8xf32>", "tensor<1x8x8x8xf32>"
    module = outlined(f"""
func.func @main(%x: {image}, %y: {image}, %w: tensor<8x8x1x1xf32>) -> {wide} {{
  %p = onnx.AveragePool(%x) {{kernel_shape = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>}} : ({image}) -> {image}
  %c = onnx.Concat(%p, %y) {{axis = 1 : si64}} : ({image}, {image}) -> {wide}
  %z = onnx.Conv(%c, %w) : ({wide}, tensor<8x8x1x1xf32>) -> {wide}
  func.return %z : {wide}
}}
""")
    assert calls(module) == ["averagepool_0", "concat_conv_0"]
    assert [r["reason"] for r in explain(module)["refused"]] == ["window"]


def test_a_view_is_no_third_kernel() -> None:
    square, row = "tensor<8x8xf32>", "tensor<1x64xf32>"
    module = outlined(f"""
func.func @main(%x: {square}) -> {row} {{
  %s = onnx.Constant() {{value = dense<[1, 64]> : tensor<2xi64>}} : () -> tensor<2xi64>
  %m = onnx.MatMul(%x, %x) : ({square}, {square}) -> {square}
  %v = onnx.Reshape(%m, %s) : ({square}, tensor<2xi64>) -> {row}
  %z = onnx.Softmax(%v) : ({row}) -> {row}
  func.return %z : {row}
}}
""")
    assert [r["reason"] for r in explain(module)["refused"]] == ["view"]


@pytest.mark.parametrize(("perm", "joined"), [("0, 2, 3, 1", False), ("0, 2, 1, 3", True)])
@pytest.mark.parametrize("rows", [True, False])
def test_transposed_parts_are_made_by_tiles_before_they_are_joined(perm: str, joined: bool, rows: bool) -> None:
    """Of a transpose that keeps the last axis, rows are read as they are."""
    part, flat, whole = "tensor<1x4x4x4xf32>", "tensor<1x16x4xf32>", "tensor<1x32x4xf32>"
    module = outlined(f"""
func.func @main(%a: {part}, %b: {part}) -> {whole} {{
  %s = onnx.Constant() {{value = dense<[1, 16, 4]> : tensor<3xi64>}} : () -> tensor<3xi64>
  %ta = onnx.Transpose(%a) {{perm = array<i64: {perm}>}} : ({part}) -> {part}
  %ra = onnx.Reshape(%ta, %s) : ({part}, tensor<3xi64>) -> {flat}
  %tb = onnx.Transpose(%b) {{perm = array<i64: {perm}>}} : ({part}) -> {part}
  %rb = onnx.Reshape(%tb, %s) : ({part}, tensor<3xi64>) -> {flat}
  %c = onnx.Concat(%ra, %rb) {{axis = 1 : si64}} : ({flat}, {flat}) -> {whole}
  %y = onnx.{"Softmax" if rows else "Exp"}(%c) : ({whole}) -> {whole}
  func.return %y : {whole}
}}
""")
    reasons = [Reason[r["reason"].upper()] for r in explain(module)["refused"]]
    assert reasons == ([] if joined else [Reason.TURNED] * 2)
    assert len(calls(module)) == (1 if joined else 3)


def test_transposed_parts_of_rows_are_joined_where_they_are_read() -> None:
    """A cache and what is behind it, joined along time: two loops for a row."""
    module = outlined("""
func.func @main(%cache: tensor<1x8x5x1xf32>, %x: tensor<1x7x8xf32>) -> tensor<1x8x12x1xf32> {
  %t = onnx.Transpose(%x) {perm = array<i64: 0, 2, 1>} : (tensor<1x7x8xf32>) -> tensor<1x8x7xf32>
  %axes = onnx.Constant() {value = dense<[3]> : tensor<1xi64>} : () -> tensor<1xi64>
  %u = onnx.Unsqueeze(%t, %axes) : (tensor<1x8x7xf32>, tensor<1xi64>) -> tensor<1x8x7x1xf32>
  %y = onnx.Concat(%cache, %u) {axis = 2 : si64} : (tensor<1x8x5x1xf32>, tensor<1x8x7x1xf32>) -> tensor<1x8x12x1xf32>
  func.return %y : tensor<1x8x12x1xf32>
}
""")
    assert len(calls(module)) == 1
