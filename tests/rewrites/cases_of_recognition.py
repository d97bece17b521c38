"""Graphs on which rules fire and decline: what is recognized in arithmetic."""

from __future__ import annotations

from rule_case import Cases, Fires, X

_TAPS = ", ".join(str(i % 7 - 3) for i in range(64))
TAPS = f"w = Constant <value = float[16, 2, 2, 1] {{{_TAPS}}}> ()"
GROUPED_TAPS = f"w = Constant <value = float[32, 1, 1, 2] {{{_TAPS}}}> ()"
BIAS = "b = Constant <value = float[2] {1.0, 2.0}> ()"
TWO = (
    "(float[N, 4] x, float[N, 4] w) => (y) <float r = {1.4142135}, float o = {1}, float h = {0.5}, float k = {3},"
    " float t = {3}, float z = {0}, float six = {6}> { VALUE GATE }"
)
IMAGES = "(float[N, 16, H, W] x) => (y)"

RECOGNITION: Cases = {
    "SpreadConvolution": (
        [
            Fires(
                IMAGES + f"{{ {TAPS} {BIAS} y = ConvTranspose<strides=[2, 1]>(x, w, b) }}",
                "Reshape MatMul Add Reshape Transpose Reshape",
            ),
            Fires(
                f"(float[N, 32, H, W] x) => (y) {{ {GROUPED_TAPS} y = ConvTranspose<strides=[1, 2], group=2>(x, w) }}",
                "Reshape MatMul Reshape Transpose Reshape",
            ),
        ],
        [
            IMAGES + f"{{ {TAPS} {BIAS} y = ConvTranspose<strides=[2, 2]>(x, w, b) }}",
            IMAGES + f"{{ {TAPS} {BIAS} y = ConvTranspose<strides=[1, 1]>(x, w, b) }}",
            IMAGES + f"{{ {TAPS} {BIAS} y = ConvTranspose<strides=[2, 1], pads=[0, 1, 0, 0]>(x, w, b) }}",
            IMAGES + f"{{ {TAPS} {BIAS} y = ConvTranspose<strides=[2, 1], output_padding=[1, 0]>(x, w, b) }}",
            "(float[N, 16, H, W] x, float[16, 2, 2, 1] w) => (y) { y = ConvTranspose<strides=[2, 1]>(x, w) }",
            IMAGES + f"{{ {TAPS} y = ConvTranspose<strides=[2, 1], group=2>(x, w) }}",
            IMAGES + f"{{ {TAPS} {BIAS} t = ConvTranspose<strides=[2, 1]>(x, w, b) "
            "f = Constant <value_float = 2.0> () y = Mul(t, f) }",
        ],
    ),
    "RecognizeActivation": (
        [
            Fires(
                X + "<float r = {1.4142135}, float o = {1}, float h = {0.5}>"
                "{ d = Div(x, r) e = Erf(d) a = Add(e, o) m = Mul(x, a) y = Mul(m, h) }",
                "Gelu",
            ),
            Fires(
                X + "<float r = {0.70710677}, float o = {1}, float h = {0.5}>"
                "{ d = Mul(r, x) e = Erf(d) a = Add(o, e) m = Mul(h, x) y = Mul(a, m) }",
                "Gelu",
            ),
            Fires(
                X + "<float k = {0.7978845608}, float c = {0.044715}, float o = {1}, float h = {0.5}, float t = {3}>"
                "{ p = Pow(x, t) q = Mul(c, p) s = Add(x, q) u = Mul(k, s) v = Tanh(u) w = Add(o, v) "
                "m = Mul(h, x) y = Mul(m, w) }",
                "Gelu",
            ),
            Fires(
                X + "<float k = {0.7978845608}, float c = {0.044715}, float o = {1}, float h = {0.5}>"
                "{ p = Mul(x, x) q = Mul(c, p) s = Add(o, q) l = Mul(k, x) u = Mul(l, s) v = Tanh(u) w = Add(o, v) "
                "m = Mul(h, x) y = Mul(m, w) }",
                "Gelu",
            ),
            Fires(X + "{ s = Sigmoid(x) y = Mul(s, x) }", "Swish"),
            Fires(X + "<float a = {1.702}> { t = Mul(x, a) s = Sigmoid(t) y = Mul(x, s) }", "Swish"),
            Fires(
                X + "<float t = {3}, float z = {0}, float s = {6}>"
                "{ a = Add(x, t) c = Clip(a, z, s) m = Mul(x, c) y = Div(m, s) }",
                "HardSwish",
            ),
            Fires(X + "{ h = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(x, h) }", "HardSwish"),
            Fires(X + "{ s = Softplus(x) t = Tanh(s) y = Mul(x, t) }", "Mish"),
            *(
                Fires(TWO.replace("VALUE", value).replace("GATE", gate), left)
                for value, first in (
                    ("v = Mul(x, w)", "Mul"),
                    ("v = Mul(x, k)", "Mul"),
                    ("v = Div(x, k)", "Div"),
                    ("u = Mul(x, w) n = Neg(u) v = Mul(n, k)", "Mul Neg Mul"),
                )
                for gate, left in (
                    ("d = Div(v, r) e = Erf(d) a = Add(e, o) m = Mul(v, a) y = Mul(m, h)", f"{first} Gelu"),
                    ("d = Div(v, r) e = Erf(d) a = Add(e, o) m = Mul(v, h) y = Mul(a, m)", f"{first} Gelu"),
                    ("s = Sigmoid(v) y = Mul(v, s)", f"{first} Swish"),
                    ("a = Add(v, t) c = Clip(a, z, six) m = Mul(v, c) y = Div(m, six)", f"{first} HardSwish"),
                    ("s = Softplus(v) e = Tanh(s) y = Mul(e, v)", f"{first} Mish"),
                )
            ),
            Fires(
                TWO.replace("VALUE", "g = Sigmoid(x) v = Mul(x, g)").replace(
                    "GATE", "d = Div(v, r) e = Erf(d) a = Add(e, o) m = Mul(v, a) y = Mul(m, h)"
                ),
                "Swish Gelu",
            ),
        ],
        [
            X + "<float r = {1.5}, float o = {1}, float h = {0.5}>"
            "{ d = Div(x, r) e = Erf(d) a = Add(e, o) m = Mul(x, a) y = Mul(m, h) }",
            X + "<float r = {1.4142135}, float o = {1}, float h = {0.6}>"
            "{ d = Div(x, r) e = Erf(d) a = Add(e, o) m = Mul(x, a) y = Mul(m, h) }",
            "(float[N, 4] x, float[N, 4] z) => (y) { s = Sigmoid(z) y = Mul(s, x) }",
            X + "<float t = {3}, float z = {0}, float s = {5}>"
            "{ a = Add(x, t) c = Clip(a, z, s) m = Mul(x, c) y = Div(m, s) }",
            X + "<float a = {1}> { t = Add(x, a) s = Sigmoid(t) y = Mul(x, s) }",
            TWO.replace("VALUE", "v = Mul(x, w)").replace("GATE", "s = Sigmoid(v) u = Mul(x, x) y = Mul(u, s)"),
            TWO.replace("VALUE", "v = Mul(x, w)").replace("GATE", "s = Sigmoid(v) y = Mul(x, s)"),
            TWO.replace("VALUE", "v = Mul(x, k)").replace(
                "GATE", "d = Div(x, r) e = Erf(d) a = Add(e, o) m = Mul(v, a) y = Mul(m, o)"
            ),
        ],
    ),
    "RecognizeHardSigmoid": (
        [
            Fires(
                X + "<float t = {3}, float z = {0}, float s = {6}> { a = Add(x, t) c = Clip(a, z, s) y = Div(c, s) }",
                "HardSigmoid",
            ),
            Fires(
                "(float[N, 4] x, float[N, 4] w) => (y) <float t = {1}, float k = {0.5}, float z = {0}, float s = {2}>"
                "{ m = Mul(k, x) a = Add(m, t) c = Clip(a, z, s) p = Mul(w, c) y = Div(p, s) }",
                "HardSigmoid Mul",
            ),
            Fires(
                "(float[N, 4] x, float[N, 4] w) => (y) <float t = {1}, float z = {0}, float s = {2}>"
                "{ v = Mul(x, w) a = Add(v, t) c = Clip(a, z, s) p = Mul(v, c) y = Div(p, s) }",
                "Mul HardSigmoid Mul",
            ),
        ],
        [
            X + "<float t = {3}, float z = {0}, float s = {6}, float f = {5}>"
            "{ a = Add(x, t) c = Clip(a, z, s) y = Div(c, f) }",
            X + "<float t = {3}, float z = {1}, float s = {6}> { a = Add(x, t) c = Clip(a, z, s) y = Div(c, s) }",
            "(float[N, 4] x) => (y, c) <float t = {3}, float z = {0}, float s = {6}>"
            "{ a = Add(x, t) c = Clip(a, z, s) y = Div(c, s) }",
        ],
    ),
    "RecognizeNormalization": (
        [
            Fires(
                X + "<int64[1] l = {-1}, float e = {1e-5}, float t = {2}>"
                "{ m = ReduceMean(x, l) d = Sub(x, m) p = Pow(d, t) v = ReduceMean(p, l) a = Add(v, e) "
                "r = Sqrt(a) y = Div(d, r) }",
                "LayerNormalization",
            ),
            Fires(
                X + "<int64[1] l = {1}, float e = {1e-5}>"
                "{ p = Mul(x, x) v = ReduceMean(p, l) a = Add(e, v) r = Sqrt(a) i = Reciprocal(r) y = Mul(x, i) }",
                "RMSNormalization",
            ),
        ],
        [
            X + "<int64[1] l = {0}, float e = {1e-5}, float t = {2}>"
            "{ m = ReduceMean(x, l) d = Sub(x, m) p = Pow(d, t) v = ReduceMean(p, l) a = Add(v, e) "
            "r = Sqrt(a) y = Div(d, r) }",
            X + "<int64[1] l = {-1}, float e = {1e-5}, float t = {3}>"
            "{ p = Pow(x, t) v = ReduceMean(p, l) a = Add(v, e) r = Sqrt(a) y = Div(x, r) }",
            X + "<int64[1] l = {-1}, float e = {1e-5}, float t = {2}>"
            "{ p = Pow(x, t) v = ReduceMean(p, l) a = Add(v, e) r = Sqrt(a) y = Mul(x, r) }",
            "(float[N, M] x) => (y) <int64[1] l = {-1}, float e = {1e-5}, float t = {2}>"
            "{ p = Pow(x, t) v = ReduceMean(p, l) a = Add(v, e) r = Sqrt(a) y = Div(x, r) }",
        ],
    ),
    "FoldScaleIntoNormalization": (
        [
            Fires(
                "(float[N, 4] x, float[4] s) => (y) <float[4] o = {1, 1, 1, 1}>"
                "{ n = LayerNormalization(x, o) y = Mul(s, n) }",
                "LayerNormalization",
            ),
            Fires(
                X + "<float[4] o = {1, 1, 1, 1}, float[1, 1] s = {3}> { n = RMSNormalization(x, o) y = Mul(n, s) }",
                "RMSNormalization",
            ),
        ],
        [
            X + "<float[4] o = {1, 1, 1, 2}, float[4] s = {3, 4, 5, 6}> { n = LayerNormalization(x, o) y = Mul(n, s) }",
            "(float[N, 4] x) => (y, n) <float[4] o = {1, 1, 1, 1}> { n = LayerNormalization(x, o) y = Mul(n, o) }",
            "(float[N, 4] x, float[N, 1] s) => (y) <float[4] o = {1, 1, 1, 1}>"
            "{ n = LayerNormalization(x, o) y = Mul(n, s) }",
        ],
    ),
    "FoldShiftIntoNormalization": (
        [
            Fires(
                "(float[N, 4] x, float[4] s, float[4] b) => (y) { n = LayerNormalization(x, s) y = Add(b, n) }",
                "LayerNormalization",
            )
        ],
        [
            "(float[N, 4] x, float[4] s, float[4] b) => (y) { n = LayerNormalization(x, s, b) y = Add(n, b) }",
            "(float[N, 4] x, float[4] s, float[N, 4] b) => (y) { n = LayerNormalization(x, s) y = Add(n, b) }",
        ],
    ),
    "RecognizeAttention": (
        [
            Fires(
                "(float[B, 2, S, 4] q, float[B, 2, T, 4] k, float[B, 2, T, 3] v, float[B, 1, S, T] m) => (y)"
                "<float c = {2}> { t = Transpose<perm=[0, 1, 3, 2]>(k) s = MatMul(q, t) d = Div(s, c) a = Add(d, m) "
                "w = Softmax<axis=-1>(a) y = MatMul(w, v) }",
                "Attention",
                {"T": (1, 6)},
            ),
            Fires(
                "(float[B, S, 2, 4] q, float[B, S, 2, 4] k, float[B, 2, S, 4] v) => (y) <float c = {0.7}>"
                "{ h = Transpose<perm=[0, 2, 1, 3]>(q) t = Transpose<perm=[0, 2, 3, 1]>(k) a = Mul(h, c) b = Mul(t, c) "
                "s = MatMul(a, b) w = Softmax<axis=3>(s) y = MatMul(w, v) }",
                "Transpose Transpose Attention",
                {"S": (1, 6)},
            ),
            Fires(
                "(float[1, 2, S, 4] q, float[S, 2, 4] k, float[1, 2, S, 3] v) => (y)"
                "<int64[1] z = {0}, float c = {0.7}> { t = Transpose<perm=[1, 2, 0]>(k) u = Unsqueeze(t, z) "
                "d = Mul(u, c) s = MatMul(q, d) "
                "w = Softmax<axis=-1>(s) y = MatMul(w, v) }",
                "Transpose Unsqueeze Attention",
                {"S": (1, 6)},
            ),
            Fires(
                "(float[N, S, 4] q, float[N, T, 4] k, float[N, T, 3] v, float[S, T] m) => (y)"
                "<float c = {2}, float z = {0}>"
                "{ t = Transpose<perm=[0, 2, 1]>(k) s = MatMul(q, t) d = Mul(s, c) a = Add(m, d) "
                "w = Softmax<axis=-1>(a) n = IsNaN(w) u = Where(n, z, w) y = MatMul(u, v) }",
                "Attention",
                {"T": (1, 6)},
            ),
            Fires(
                "(float16[B, 2, S, 4] q, float16[B, 2, S, 4] k, float16[B, 2, S, 4] v) => (y)"
                "{ t = Transpose<perm=[0, 1, 3, 2]>(k) s = MatMul(q, t) a = Cast<to=1>(s) p = Softmax<axis=-1>(a) "
                "w = Cast<to=10>(p) y = MatMul(w, v) }",
                "Attention",
                {"S": (1, 6)},
                tolerance=2e-3,
            ),
            Fires(
                "(float[B, 2, S, 4] q, float[B, 2, 4, T] k, float[B, 2, T, 3] v) => (y)"
                "{ s = MatMul(q, k) w = Softmax<axis=-1>(s) y = MatMul(w, v) }",
                "Transpose Attention",
            ),
        ],
        [
            "(float[B, 2, S, 4] q, float[B, 2, T, 4] k, float[B, 2, T, 3] v) => (y, w)"
            "{ t = Transpose<perm=[0, 1, 3, 2]>(k) s = MatMul(q, t) w = Softmax<axis=-1>(s) y = MatMul(w, v) }",
            "(float[B, 2, S, 4] q, float[B, 2, S, 4] k, float[B, 2, S, 3] v) => (y)"
            "{ t = Transpose<perm=[0, 1, 3, 2]>(k) s = MatMul(q, t) w = Softmax<axis=2>(s) y = MatMul(w, v) }",
            "(float[B, 2, S, 4] q, float[B, 2, S, 4] k, float[B, 2, S, 3] v) => (y) <float z = {1}>"
            "{ t = Transpose<perm=[0, 1, 3, 2]>(k) s = MatMul(q, t) w = Softmax<axis=-1>(s) n = IsNaN(w) "
            "u = Where(n, z, w) y = MatMul(u, v) }",
            "(float[B, 2, S, 4] q, float[1, 2, T, 4] k, float[1, 2, T, 3] v) => (y)"
            "{ t = Transpose<perm=[0, 1, 3, 2]>(k) s = MatMul(q, t) w = Softmax<axis=-1>(s) y = MatMul(w, v) }",
        ],
    ),
    "RecognizeRotary": (
        [
            Fires(
                "(float[B, 2, S, 4] x, float[B, S, 2] f) => (y) <int64[1] o = {1}, int64[1] z = {0}, int64[1] h = {2},"
                "int64[1] e = {9223372036854775807}, int64[1] l = {3}>"
                "{ g = Concat<axis=-1>(f, f) u = Cos(g) c = Unsqueeze(u, o) v = Sin(g) s = Unsqueeze(v, o) "
                "a = Slice(x, z, h, l) b = Slice(x, h, e, l) n = Neg(b) t = Concat<axis=-1>(n, a) "
                "p = Mul(x, c) q = Mul(t, s) y = Add(p, q) }",
                "Cos Unsqueeze Squeeze Sin Unsqueeze Squeeze RotaryEmbedding",
            )
        ],
        [
            "(float[B, 2, S, 4] x, float[B, S, 4] f) => (y) <int64[1] o = {1}, int64[1] z = {0}, int64[1] h = {2},"
            "int64[1] e = {9223372036854775807}, int64[1] l = {3}>"
            "{ u = Cos(f) c = Unsqueeze(u, o) v = Sin(f) s = Unsqueeze(v, o) "
            "a = Slice(x, z, h, l) b = Slice(x, h, e, l) n = Neg(b) t = Concat<axis=-1>(n, a) "
            "p = Mul(x, c) q = Mul(t, s) y = Add(p, q) }",
            "(float[B, 2, S, 4] x, float[B, S, 2] f) => (y) <int64[1] o = {1}, int64[1] z = {0}, int64[1] h = {2},"
            "int64[1] e = {9223372036854775807}, int64[1] l = {3}>"
            "{ g = Concat<axis=-1>(f, f) u = Cos(g) c = Unsqueeze(u, o) v = Sin(g) s = Unsqueeze(v, o) "
            "a = Slice(x, z, h, l) b = Slice(x, h, e, l) n = Neg(a) t = Concat<axis=-1>(b, n) "
            "p = Mul(x, c) q = Mul(t, s) y = Add(p, q) }",
        ],
    ),
}
