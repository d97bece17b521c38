"""Graphs on which rules fire and decline: arithmetic and weights."""

from __future__ import annotations

from rule_case import Cases, Fires, X

ARITHMETIC: Cases = {
    "DropNeutral": (
        [
            Fires(X + "<float c = {1}> { y = Mul(x, c) }", ""),
            Fires(X + "<float c = {1}> { y = Mul(c, x) }", ""),
            Fires(X + "<float[1] c = {1}> { y = Div(x, c) }", ""),
            Fires(X + "<float c = {0}> { y = Sub(x, c) }", ""),
            Fires(X + "<float c = {0}> { y = Add(x, c) }", ""),
            Fires("(int32[N] x) => (y) <int32 c = {0}> { y = Add(x, c) }", ""),
        ],
        [
            X + "<float c = {2}> { y = Mul(x, c) }",
            X + "<float c = {1}> { y = Div(c, x) }",
            X + "<float c = {0}> { y = Sub(c, x) }",
            "(float[4] x) => (y) <float[2, 4] c = {1, 1, 1, 1, 1, 1, 1, 1}> { y = Mul(x, c) }",
        ],
    ),
    "DropSecond": (
        [Fires(X + "{ a = Relu(x) y = Relu(a) }", "Relu"), Fires(X + "{ a = Floor(x) y = Floor(a) }", "Floor")],
        [X + "{ a = Relu(x) y = Abs(a) }"],
    ),
    "DropInverse": (
        [Fires(X + "{ a = Neg(x) y = Neg(a) }", ""), Fires("(bool[N] x) => (y) { a = Not(x) y = Not(a) }", "")],
        [X + "{ a = Abs(x) y = Neg(a) }"],
    ),
    "DropNotOfChoice": (
        [Fires("(bool[N] c, float[N] a, float[N] b) => (y) { n = Not(c) y = Where(n, a, b) }", "Where")],
        ["(bool[N] c, float[N] a, float[N] b) => (y) { y = Where(c, a, b) }"],
    ),
    "MergeCasts": (
        [
            Fires("(int8[N] x) => (y) { a = Cast<to=7>(x) y = Cast<to=3>(a) }", ""),
            Fires("(float16[N] x) => (y) { a = Cast<to=1>(x) y = Cast<to=11>(a) }", "Cast"),
            Fires("(bool[N] x) => (y) { a = Cast<to=10>(x) y = Cast<to=9>(a) }", ""),
            Fires("(int32[N] x) => (y) { a = Cast<to=11>(x) y = Cast<to=1>(a) }", "Cast"),
        ],
        [
            "(float[N] x) => (y) { a = Cast<to=10>(x) y = Cast<to=1>(a) }",
            "(int32[N] x) => (y) { a = Cast<to=1>(x) y = Cast<to=6>(a) }",
            "(int32[N] x) => (y) { a = Cast<to=11>(x) y = Cast<to=3>(a) }",
            "(int8[N] x) => (y) { a = Cast<to=13>(x) y = Cast<to=3>(a) }",
            "(float[N] x) => (y) { a = Cast<to=9>(x) y = Cast<to=1>(a) }",
        ],
    ),
    "MergeClips": (
        [
            Fires(X + "<float a = {-1}, float b = {1}> { r = Relu(x) y = Clip(r, a, b) }", "Clip"),
            Fires(X + "<float a = {-1}, float b = {1}> { c = Clip(x, a, b) y = Relu(c) }", "Clip"),
            Fires(X + "<float b = {1}> { c = Clip(x, , b) y = Relu(c) }", "Clip"),
        ],
        [
            X + "<float a = {-2}, float b = {-1}> { c = Clip(x, a, b) y = Relu(c) }",
            "(float[N] x, float a) => (y) { c = Clip(x, a) y = Relu(c) }",
            "(float[N] x) => (y, c) <float a = {-2}> { c = Clip(x, a) y = Relu(c) }",
        ],
    ),
    "ShareZeroPoint": (
        [
            Fires(
                "(uint8[N, 4] a) => (y) <int8[4, 2] b = {1, 2, 3, 4, 5, 6, 7, 8}, uint8 p = {3}, int8[2] q = {-5, -5}>"
                "{ y = MatMulInteger(a, b, p, q) }",
                "MatMulInteger",
            ),
            Fires(
                "(uint8[N, 2, 3] x) => (y) <uint8[2, 2, 1] w = {1, 2, 3, 4}, uint8 p = {3}, uint8[2] q = {200, 200}>"
                "{ y = ConvInteger(x, w, p, q) }",
                "ConvInteger",
            ),
            Fires(
                "(uint8[N, 2, 3] x) => (y) <uint8[2, 2, 1] w = {1, 2, 3, 4}, uint8 p = {3}, uint8[2] q = {200, 200},"
                "float[2] s = {0.1, 0.2}, float t = {0.3}> { y = QLinearConv(x, t, p, w, s, q, t, p) }",
                "QLinearConv",
            ),
        ],
        [
            "(uint8[N, 4] a) => (y) <int8[4, 2] b = {1, 2, 3, 4, 5, 6, 7, 8}, uint8 p = {3}, int8[2] q = {-5, -6}>"
            "{ y = MatMulInteger(a, b, p, q) }",
            "(uint8[N, 4] a, int8[2] q) => (y) <int8[4, 2] b = {1, 2, 3, 4, 5, 6, 7, 8}, uint8 p = {3}>"
            "{ y = MatMulInteger(a, b, p, q) }",
            "(uint8[N, 4] a) => (y) <int8[4, 2] b = {1, 2, 3, 4, 5, 6, 7, 8}, uint8 p = {3}, int8 q = {-5}>"
            "{ y = MatMulInteger(a, b, p, q) }",
        ],
    ),
    "DropRequantize": (
        [
            Fires(
                "(uint8[N, 4] q) => (y) <float s = {0.1}, uint8 z = {3}>"
                "{ x = DequantizeLinear(q, s, z) t = Transpose(x) y = QuantizeLinear(t, s, z) }",
                "Transpose",
            ),
            Fires(
                "(int8[N, 4] q) => (y) <float s = {0.1}, int8 z = {0}>"
                "{ x = DequantizeLinear(q, s, z) y = QuantizeLinear(x, s, z) }",
                "",
            ),
        ],
        [
            "(uint8[N, 4] q) => (y) <float s = {0.1}, float t = {0.2}, uint8 z = {3}>"
            "{ x = DequantizeLinear(q, s, z) y = QuantizeLinear(x, t, z) }",
            "(uint8[N, 4] q) => (y) <float s = {0.1}, uint8 z = {3}, uint8 w = {4}>"
            "{ x = DequantizeLinear(q, s, z) y = QuantizeLinear(x, s, w) }",
            "(uint8[N, 4] q) => (y) <float s = {0.1}, uint8 z = {3}>"
            "{ x = DequantizeLinear(q, s, z) r = Neg(x) y = QuantizeLinear(r, s, z) }",
        ],
    ),
    "FoldPad": (
        [
            Fires(
                "(float[N, 2, H, 5] x, float[3, 2, 3, 3] w) => (y) <int64[8] p = {0, 0, 1, 2, 0, 0, 0, 1}>"
                "{ a = Pad(x, p) y = Conv<pads=[1, 0, 0, 0]>(a, w) }",
                "Conv",
                {"H": (3, 6)},
            ),
            Fires(
                "(float[N, 2, 5, 5] x) => (y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}>"
                "{ r = Relu(x) a = Pad(r, p) y = MaxPool<kernel_shape=[3, 3], strides=[2, 2]>(a) }",
                "Relu MaxPool",
            ),
            Fires(
                "(float[N, 2, 5, 5] x) => (y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}>"
                "{ a = Pad(x, p) y = AveragePool<kernel_shape=[3, 3]>(a) }",
                "AveragePool",
            ),
        ],
        [
            "(float[N, 2, 5, 5] x) => (y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}>"
            "{ a = Pad(x, p) y = MaxPool<kernel_shape=[3, 3], strides=[2, 2]>(a) }",
            "(float[N, 2, 5, 5] x, float[3, 4, 3, 3] w) => (y) <int64[8] p = {0, 1, 1, 2, 0, 1, 0, 1}>"
            "{ a = Pad(x, p) y = Conv(a, w) }",
            "(float[N, 2, 5, 5] x, float[3, 2, 3, 3] w) => (y) <int64[8] p = {0, 0, 1, 2, 0, 0, 0, 1}, float v = {1}>"
            "{ a = Pad(x, p, v) y = Conv(a, w) }",
            "(float[N, 2, 5, 5] x, float[3, 2, 3, 3] w) => (y) <int64[8] p = {0, 0, 1, 2, 0, 0, 0, 1}>"
            '{ a = Pad<mode="reflect">(x, p) y = Conv(a, w) }',
            "(float[N, 2, 5, 5] x) => (y) <int64[8] p = {0, 0, 3, 3, 0, 0, 3, 3}>"
            "{ r = Relu(x) a = Pad(r, p) y = MaxPool<kernel_shape=[3, 3]>(a) }",
        ],
    ),
    "FoldIntoWeights": (
        [
            Fires(
                "(float[N, 2, 3, 3] x) => (y) <float[1, 2, 1, 1] w = {1, 2}, float[1] b = {3}, float s = {4}>"
                "{ c = Conv(x, w, b) y = Mul(s, c) }",
                "Conv",
            ),
            Fires(
                "(float[N, 2, 3] x) => (y) <float[2, 2, 1] w = {1, 2, 3, 4}, float[2, 1] s = {4, 5}>"
                "{ c = Conv(x, w) d = Div(c, s) y = Sub(s, d) }",
                "Conv",
            ),
            Fires(
                "(float[N, 4, 3] x) => (y) <float[4, 2, 1] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[4, 1] s = {4, 5, 6, 7}>"
                "{ c = ConvTranspose<group=2>(x, w) m = Mul(c, s) y = Add(m, s) }",
                "ConvTranspose",
            ),
            Fires(
                "(float[N, 2] x) => (y) <float[2, 2] w = {1, 2, 3, 4}, float[2] b = {1, 2}, float[2] s = {4, 5}>"
                "{ c = Gemm<transB=1>(x, w, b) m = Mul(c, s) y = Sub(m, b) }",
                "Gemm",
            ),
            Fires(
                "(float[N, 2, 3] x) => (y) <float[2, 2, 1] w = {1, 2, 3, 4}, float[2] s = {4, 5}>"
                "{ c = Conv(x, w) y = BatchNormalization(c, s, s, s, s) }",
                "Conv",
            ),
        ],
        [
            "(float[N, 2, 3] x) => (y, c) <float[2, 2, 1] w = {1, 2, 3, 4}, float s = {4}>"
            "{ c = Conv(x, w) y = Mul(c, s) }",
            "(float[N, 2, 3] x, float s) => (y) <float[2, 2, 1] w = {1, 2, 3, 4}> { c = Conv(x, w) y = Mul(c, s) }",
            "(float[N, 2, 3] x) => (y) <float[2, 2, 1] w = {1, 2, 3, 4}, float[3] s = {4, 5, 6}>"
            "{ c = Conv(x, w) y = Mul(c, s) }",
            "(float[N, 2, 3] x) => (y) <float[2, 2, 1] w = {1, 2, 3, 4}, float[2, 2, 1, 1] s = {4, 5, 6, 7}>"
            "{ c = Conv(x, w) y = Mul(c, s) }",
            "(float[N, 2, 3] x) => (y) <float[2, 2, 1] w = {1, 2, 3, 4}, float s = {0}>"
            "{ c = Conv(x, w) y = Div(c, s) }",
        ],
    ),
    "MergeConstants": (
        [
            Fires(X + "<float a = {2}, float[4] b = {1, 2, 3, 4}> { s = Add(x, a) y = Add(b, s) }", "Add"),
            Fires(X + "<float a = {2}, float[4] b = {1, 2, 3, 4}> { s = Mul(a, x) y = Mul(s, b) }", "Mul"),
        ],
        [
            X + "<float a = {2}> { s = Add(x, a) y = Mul(s, a) }",
            "(float[N, 4] x) => (y, s) <float a = {2}> { s = Add(x, a) y = Add(s, a) }",
            "(float[N, 4] x) => (y) <float a = {1e-30}> { s = Mul(x, a) y = Mul(s, a) }",
            "(float[N, 4] x) => (y) <float a = {1e30}> { s = Mul(x, a) y = Mul(s, a) }",
            "(int32[N, 4] x) => (y) <int32 a = {2}> { s = Mul(x, a) y = Mul(s, a) }",
        ],
    ),
    "FoldScaleBefore": (
        [
            Fires(
                "(float[N, 2, 5] x) => (y) <float[2, 1] s = {2, 3}, float[1, 2, 3] w = {1, 2, 3, 4, 5, 6}>"
                "{ m = Mul(x, s) y = Conv<pads=[1, 1]>(m, w) }",
                "Conv",
            ),
            Fires(
                "(float[N, 2] x) => (y) <float[2] s = {2, 4}, float[2, 1] w = {1, 2}>"
                "{ m = Div(x, s) y = MatMul(m, w) }",
                "MatMul",
            ),
        ],
        [
            "(float[N, 2] x) => (y, m) <float[2] s = {2, 3}, float[2, 1] w = {1, 2}>{ m = Mul(x, s) y = MatMul(m, w) }",
            "(float[N, 2, 5] x) => (y) <float[2, 1] s = {2, 3}, float[2, 1, 1] w = {1, 2}>"
            "{ m = Mul(x, s) y = Conv<group=2>(m, w) }",
        ],
    ),
    "FuseMatMulAdd": (
        [
            Fires("(float[N, 4] a, float[4, M] b, float[M] c) => (y) { m = MatMul(a, b) y = Add(m, c) }", "Gemm"),
            Fires("(float[N, 4] a, float[4, M] b, float[N, 1] c) => (y) { m = MatMul(a, b) y = Add(c, m) }", "Gemm"),
        ],
        [
            "(float[N, 4] a, float[4, M] b, float[M] c) => (y, m) { m = MatMul(a, b) y = Add(m, c) }",
            "(float[K, N, 4] a, float[4, M] b, float[M] c) => (y) { m = MatMul(a, b) y = Add(m, c) }",
            "(float[N, 4] a, float[4, M] b, float[3, N, M] c) => (y) { m = MatMul(a, b) y = Add(m, c) }",
            "(int32[N, 4] a, int32[4, M] b, int32[M] c) => (y) { m = MatMul(a, b) y = Add(m, c) }",
        ],
    ),
    "FoldTransposeIntoGemm": (
        [Fires("(float[4, N] a, float[M, 4] b) => (y) { s = Transpose(a) t = Transpose(b) y = Gemm(s, t) }", "Gemm")],
        ["(float[4, N] a, float[4, M] b) => (y, t) { t = Transpose(a) y = Gemm(t, b) }"],
    ),
    "DropZeroState": (
        [
            Fires(
                "(float[N, B, 2] x, float[1, 9, 2] w, float[1, 9, 3] r) => (y) <int64[1] o = {1}, int64[1] k = {3}>"
                "{ b = Shape<start=1, end=2>(x) s = Concat<axis=0>(o, b, k) h = ConstantOfShape(s) "
                "y = GRU<hidden_size=3>(x, w, r, , , h) }",
                "GRU",
            )
        ],
        [
            "(float[N, B, 2] x, float[1, 9, 2] w, float[1, 9, 3] r) => (y) <int64[1] o = {1}, int64[1] k = {3}>"
            "{ b = Shape<start=1, end=2>(x) s = Concat<axis=0>(o, b, k) "
            "h = ConstantOfShape<value = float[1] {1.0}>(s) y = GRU<hidden_size=3>(x, w, r, , , h) }",
        ],
    ),
}
