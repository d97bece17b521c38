"""The vocabulary: onnx, dims, kernel, vectorx, llvmx, target. No passes."""
