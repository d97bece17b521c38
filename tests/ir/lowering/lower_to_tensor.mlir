// RUN: xdsl-opt %s -p sx-outline-kernels,sx-lower-to-tensor | filecheck %s
// RUN: xdsl-opt %s -p sx-outline-kernels,sx-lower-to-tensor,sx-lower-to-loops | filecheck %s --check-prefix=LOOPS

// A chain of pointwise operators is one generic, and then one loop without a value in memory between.
// CHECK-LABEL: func.func private @add_relu_0(%d0: index, %0: tensor<?xf32>, %1: tensor<?xf32>)
// CHECK:         linalg.generic
// CHECK:           arith.addf
// CHECK:           arith.maximumf
// CHECK-NOT:     linalg.generic
// LOOPS-LABEL: func.func private @add_relu_0(%{{.*}}: index, %{{.*}}: memref<?xf32>, %{{.*}}: memref<?xf32>, %{{.*}}: memref<?xf32>)
// LOOPS:         arith.addf {{.*}} : vector
// LOOPS-NEXT:    arith.maximumf
func.func @main(%x: tensor<?xf32, #dims.shape<"N">>, %z: tensor<?xf32, #dims.shape<"N">>) -> tensor<?xf32, #dims.shape<"N">> {
  %a = onnx.Add(%x, %z) : (tensor<?xf32, #dims.shape<"N">>, tensor<?xf32, #dims.shape<"N">>) -> tensor<?xf32, #dims.shape<"N">>
  %y = onnx.Relu(%a) : (tensor<?xf32, #dims.shape<"N">>) -> tensor<?xf32, #dims.shape<"N">>
  func.return %y : tensor<?xf32, #dims.shape<"N">>
}
