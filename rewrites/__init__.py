"""onnx to onnx: upgrade, infer, fold, simplify, fuse. Algebra only: no loops, no memory."""
