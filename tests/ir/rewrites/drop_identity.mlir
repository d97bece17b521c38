// RUN: xdsl-opt %s -p sx-simplify --split-input-file | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %y = onnx.Relu(%x)
// CHECK-NEXT:    func.return %y
func.func @main(%x: tensor<?xf32, #dims.shape<"N">>) -> tensor<?xf32, #dims.shape<"N">> {
  %a = onnx.Identity(%x) : (tensor<?xf32, #dims.shape<"N">>) -> tensor<?xf32, #dims.shape<"N">>
  %y = onnx.Relu(%a) : (tensor<?xf32, #dims.shape<"N">>) -> tensor<?xf32, #dims.shape<"N">>
  func.return %y : tensor<?xf32, #dims.shape<"N">>
}

// -----

// A cast to another type is no identity.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %y = onnx.Cast(%x)
func.func @main(%x: tensor<?xf32, #dims.shape<"N">>) -> tensor<?xf64, #dims.shape<"N">> {
  %y = onnx.Cast(%x) {to = 11 : i64} : (tensor<?xf32, #dims.shape<"N">>) -> tensor<?xf64, #dims.shape<"N">>
  func.return %y : tensor<?xf64, #dims.shape<"N">>
}
