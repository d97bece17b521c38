"""Kernels to linalg and templates, to scf, vector and memref. Shapes, memory, the numbers of the target."""
