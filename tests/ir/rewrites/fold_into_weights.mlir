// RUN: xdsl-opt %s -p sx-simplify --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p sx-simplify{exact=true} --split-input-file | filecheck %s --check-prefix=EXACT

// The weight 2 times 3 / sqrt(4) is 3, the bias (0 - 1) * 1.5 + 5 is 3.5.
// CHECK-LABEL: func.func @main
// CHECK-DAG:     dense<3.000000e+00> : tensor<1x1x1x1xf32>
// CHECK-DAG:     dense<3.500000e+00> : tensor<1xf32>
// CHECK:         onnx.Conv
// CHECK-NOT:     onnx.BatchNormalization
// EXACT-LABEL: func.func @main
// EXACT:         onnx.BatchNormalization
func.func @main(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %w = onnx.Constant() {value = dense<2.0> : tensor<1x1x1x1xf32>} : () -> tensor<1x1x1x1xf32>
  %scale = onnx.Constant() {value = dense<3.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %bias = onnx.Constant() {value = dense<5.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %mean = onnx.Constant() {value = dense<1.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %var = onnx.Constant() {value = dense<4.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %c = onnx.Conv(%x, %w, _) : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %y = onnx.BatchNormalization(%c, %scale, %bias, %mean, %var) {epsilon = 0.0 : f32} : (tensor<1x1x4x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}

// -----

// The convolution's value is also an output.
// CHECK-LABEL: func.func @main
// CHECK:         onnx.BatchNormalization
func.func @main(%x: tensor<1x1x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) {
  %w = onnx.Constant() {value = dense<2.0> : tensor<1x1x1x1xf32>} : () -> tensor<1x1x1x1xf32>
  %one = onnx.Constant() {value = dense<1.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %c = onnx.Conv(%x, %w, _) : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %y = onnx.BatchNormalization(%c, %one, %one, %one, %one) : (tensor<1x1x4x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  func.return %c, %y : tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>
}
