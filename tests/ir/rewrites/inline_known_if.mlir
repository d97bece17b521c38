// RUN: xdsl-opt %s -p sx-simplify --split-input-file | filecheck %s

// The schema lists else_branch first, and so do the regions.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %t = onnx.Relu(%x)
// CHECK-NEXT:    func.return %t
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = onnx.Constant() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %y = onnx.If(%c) ({
    %e = onnx.Neg(%x) : (tensor<4xf32>) -> tensor<4xf32>
    onnx.Yield %e : tensor<4xf32>
  }, {
    %t = onnx.Relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
    onnx.Yield %t : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

// The condition is an input.
// CHECK-LABEL: func.func @main
// CHECK:         onnx.If
func.func @main(%x: tensor<4xf32>, %c: tensor<i1>) -> tensor<4xf32> {
  %y = onnx.If(%c) ({
    %e = onnx.Neg(%x) : (tensor<4xf32>) -> tensor<4xf32>
    onnx.Yield %e : tensor<4xf32>
  }, {
    %t = onnx.Relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
    onnx.Yield %t : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
