// RUN: xdsl-opt %s -p sx-outline-kernels --split-input-file | filecheck %s

// Bias and activation run in the product's epilogue, for every N.
// CHECK-LABEL: func.func @main
// CHECK:         %y = kernel.call @matmul_add_relu_0 <"N">(%x, %w, %b)
// CHECK-LABEL: func.func private @matmul_add_relu_0
// CHECK-NEXT:    %m = onnx.MatMul
// CHECK-NEXT:    %a = onnx.Add
// CHECK-NEXT:    %y = onnx.Relu
func.func @main(%x: tensor<?x8xf32, #dims.shape<"N, 8">>, %w: tensor<8x4xf32>, %b: tensor<4xf32>) -> tensor<?x4xf32, #dims.shape<"N, 4">> {
  %m = onnx.MatMul(%x, %w) : (tensor<?x8xf32, #dims.shape<"N, 8">>, tensor<8x4xf32>) -> tensor<?x4xf32, #dims.shape<"N, 4">>
  %a = onnx.Add(%m, %b) : (tensor<?x4xf32, #dims.shape<"N, 4">>, tensor<4xf32>) -> tensor<?x4xf32, #dims.shape<"N, 4">>
  %y = onnx.Relu(%a) : (tensor<?x4xf32, #dims.shape<"N, 4">>) -> tensor<?x4xf32, #dims.shape<"N, 4">>
  func.return %y : tensor<?x4xf32, #dims.shape<"N, 4">>
}

// -----

// Two products are two kernels, of one function where they are equal.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    reason = "two_templates"
// CHECK:         kernel.call @matmul_0 <"N">
// CHECK-NEXT:    kernel.call @matmul_0 <"N">
func.func @main(%x: tensor<?x8xf32, #dims.shape<"N, 8">>, %v: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x8xf32, #dims.shape<"N, 8">> {
  %m = onnx.MatMul(%x, %v) : (tensor<?x8xf32, #dims.shape<"N, 8">>, tensor<8x8xf32>) -> tensor<?x8xf32, #dims.shape<"N, 8">>
  %y = onnx.MatMul(%m, %w) : (tensor<?x8xf32, #dims.shape<"N, 8">>, tensor<8x8xf32>) -> tensor<?x8xf32, #dims.shape<"N, 8">>
  func.return %y : tensor<?x8xf32, #dims.shape<"N, 8">>
}

// -----

// Whether N and M are equal is not known, so the sum broadcasts: the product's epilogue is over its own sizes only.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    missing = "
// CHECK:         kernel.call @matmul_0
// CHECK:         kernel.call @add_0
func.func @main(%x: tensor<?x8xf32, #dims.shape<"N, 8">>, %w: tensor<8x4xf32>, %b: tensor<?x4xf32, #dims.shape<"M, 4">>) -> tensor<?x4xf32, #dims.shape<"broadcast(M, N), 4">> {
  %m = onnx.MatMul(%x, %w) : (tensor<?x8xf32, #dims.shape<"N, 8">>, tensor<8x4xf32>) -> tensor<?x4xf32, #dims.shape<"N, 4">>
  %y = onnx.Add(%m, %b) : (tensor<?x4xf32, #dims.shape<"N, 4">>, tensor<?x4xf32, #dims.shape<"M, 4">>) -> tensor<?x4xf32, #dims.shape<"broadcast(M, N), 4">>
  func.return %y : tensor<?x4xf32, #dims.shape<"broadcast(M, N), 4">>
}

// -----

// One value everywhere is no kernel: who reads it holds it, and `main` writes what it returns.
// CHECK-LABEL: func.func @main
// CHECK:         %z = kernel.fill dense<0.000000e+00>
// CHECK:         %y = kernel.call @add_0 <"N">(%x)
// CHECK-NEXT:    func.return %y, %z
// CHECK-LABEL: func.func private @add_0
// CHECK:         kernel.fill
// CHECK:         onnx.Add
func.func @main(%x: tensor<?x8xf32, #dims.shape<"N, 8">>) -> (tensor<?x8xf32, #dims.shape<"N, 8">>, tensor<?x8xf32, #dims.shape<"N, 8">>) {
  %s = dims.tensor <"N, 8"> : tensor<2xi64>
  %z = onnx.ConstantOfShape(%s) : (tensor<2xi64>) -> tensor<?x8xf32, #dims.shape<"N, 8">>
  %y = onnx.Add(%x, %z) : (tensor<?x8xf32, #dims.shape<"N, 8">>, tensor<?x8xf32, #dims.shape<"N, 8">>) -> tensor<?x8xf32, #dims.shape<"N, 8">>
  func.return %y, %z : tensor<?x8xf32, #dims.shape<"N, 8">>, tensor<?x8xf32, #dims.shape<"N, 8">>
}
