"""scf, vector and memref to the llvm dialect, to LLVM IR, to objects."""
