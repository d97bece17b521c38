"""Graphs on which rules fire and decline: sequences, attention's masks, heads and rotations, groups."""

from __future__ import annotations

from rule_case import Cases, Fires

PARTS = "(float[N, 6] x) => (y)"
QKV = "(float[B, 2, S, 4] q, float[B, 2, S, 4] k, float[B, 2, S, 4] v"
SCORES = "t = Transpose<perm=[0, 1, 3, 2]>(k) s = MatMul(q, t) d = Mul(s, c)"
LOWEST = "float c = {0.5}, float low = {-3.4028235e38}"
SIZES = "int64 i2 = {2}, int64 zero = {0}, int64 one = {1}, int64[1] a0 = {0}, int64[1] a1 = {1}"
TABLE = ", ".join(str(i % 7 - 3) for i in range(64))
LENGTH = "n = Shape(q) r = Gather(n, i2)"

TURN = (
    "<int64[1] o = {1}, int64[1] z = {0}, int64[1] h = {2}, int64[1] e = {9223372036854775807}, int64[1] l = {3},"
    "int64[1] m = {-1}, int64[4] w = {0, 0, 0, 4}, int64[1] i2 = {2}, int64[2] a01 = {0, 1}, float[3, 4] table = "
)
HALVES = (
    "a = Slice(x, z, h, l) b = Slice(x, h, e, l) n = Neg(b) t = Concat<axis=-1>(n, a) p = Mul(x, c) q = Mul(t, s)"
    "y = Add(p, q) }"
)
PAIRS = (
    "a = Slice(x, z, e, l, i2) b = Slice(x, o, e, l, i2) n = Neg(b) nu = Unsqueeze(n, m) au = Unsqueeze(a, m)"
    "k = Concat<axis=-1>(nu, au) t = Reshape(k, w) p = Mul(x, c) q = Mul(t, s) y = Add(p, q) }"
)

HEADS_JOINED = (
    "(float[B, 2, 5, 4] q4, float[B, 2, 6, 4] k4, float[B, 2, 6, 3] v4, float[B, 1, 5, 6] m) => (y) <float c = {0.5},"
    "int64[3] sq = {-1, 5, 4}, int64[3] sk = {-1, 6, 4}, int64[3] sv = {-1, 6, 3}, int64[4] rest = {-1, 2, 5, 6},"
    "int64[3] back = {-1, 5, 6}> { q = Reshape(q4, sq) k = Reshape(k4, sk) v = Reshape(v4, sv)"
    "t = Transpose<perm=[0, 2, 1]>(k) s = MatMul(q, t)"
)

PARTED = (
    "<int64[1] z = {0}, int64[1] r = {4}, int64[1] e = {9223372036854775807}, int64[1] l = {3},"
    "int64[2] p = {4, 2}, int64[3] j = {0, 0, 8}, int64[4] k = {0, 0, 2, 4}>"
)

BLOCKS: Cases = {
    "SplitWithoutSequence": (
        [
            Fires(
                PARTS + "<int64 n = {2}, int64 p = {1}, int64 l = {-1}>"
                "{ q = SplitToSequence<axis=1>(x, n) a = SequenceAt(q, p) b = SequenceAt(q, l) y = Sub(a, b) }",
                "Split Sub",
            ),
            Fires(
                PARTS + "<int64 n = {4}, int64 p = {1}> { q = SplitToSequence<axis=-1>(x, n) y = SequenceAt(q, p) }",
                "Split",
            ),
            Fires(
                PARTS + "<int64[3] n = {1, 0, 5}, int64 p = {2}>"
                "{ q = SplitToSequence<axis=1>(x, n) y = SequenceAt(q, p) }",
                "Split",
            ),
            Fires(
                PARTS + "<int64 p = {2}> { q = SplitToSequence<axis=1, keepdims=0>(x) y = SequenceAt(q, p) }",
                "Split Squeeze",
            ),
        ],
        [
            PARTS + "<int64 n = {2}, int64 p = {0}> { q = SplitToSequence<axis=0>(x, n) y = SequenceAt(q, p) }",
            PARTS + "<int64 n = {2}> { q = SplitToSequence<axis=1>(x, n) y = SequenceLength(q) }",
            "(float[N, 6] x, int64 p) => (y) <int64 n = {2}>{ q = SplitToSequence<axis=1>(x, n) y = SequenceAt(q, p) }",
        ],
    ),
    "GatherWithoutSequence": (
        [
            Fires(
                "(float[N, M, 6] x, int64 p) => (y){ q = SplitToSequence<axis=1, keepdims=0>(x) y = SequenceAt(q, p) }",
                "Gather",
                {"M": (5, 9)},
            ),
            Fires(
                "(float[N, M, 6] x, int32 p, int64 r) => (y)"
                "{ q = SplitToSequence<axis=-2>(x) a = SequenceAt(q, p) b = SequenceAt(q, r) y = Sub(a, b) }",
                "Gather Unsqueeze Gather Unsqueeze Sub",
                {"M": (5, 9)},
            ),
            Fires(
                "(float[N, 6] x, int64 p) => (y) <int64 n = {1}>"
                "{ q = SplitToSequence<axis=0, keepdims=0>(x, n) y = SequenceAt(q, p) }",
                "Gather Unsqueeze",
                {"N": (5, 9)},
            ),
        ],
        [
            "(float[N, 6] x, int64 p) => (y) <int64 n = {2}>{ q = SplitToSequence<axis=0>(x, n) y = SequenceAt(q, p) }",
            "(float[N, 6] x, int64 n, int64 p) => (y) { q = SplitToSequence<axis=0>(x, n) y = SequenceAt(q, p) }",
            "(float[N, 6] x) => (y) { q = SplitToSequence<axis=0>(x) y = SequenceLength(q) }",
        ],
    ),
    "TakeItem": (
        [
            Fires(
                "(float[N] x, float[M] w) => (y) <int64 p = {-1}> { q = SequenceConstruct(x, w) y = SequenceAt(q, p) }",
                "",
            )
        ],
        ["(float[N] x, float[N] w, int64 p) => (y) { q = SequenceConstruct(x, w) y = SequenceAt(q, p) }"],
    ),
    "ConcatWithoutSequence": (
        [
            Fires(
                "(float[N, 2] x, float[M, 2] w) => (y)"
                "{ q = SequenceConstruct(x, w) y = ConcatFromSequence<axis=-2>(q) }",
                "Concat",
            ),
            Fires(
                "(float[N, 2] x, float[N, 2] w) => (y)"
                "{ q = SequenceConstruct(x, w) y = ConcatFromSequence<axis=-1, new_axis=1>(q) }",
                "Unsqueeze Unsqueeze Concat",
            ),
        ],
        [PARTS + "<int64 n = {2}> { q = SplitToSequence<axis=1>(x, n) y = ConcatFromSequence<axis=1>(q) }"],
    ),
    "JoinSlices": (
        [
            Fires(
                PARTS + "<int64[1] z = {0}, int64[1] n = {2}, int64[1] o = {1}, int64[1] e = {9223372036854775807}>"
                "{ b = Slice(x, n, e, o) a = Slice(x, z, n, o) y = Concat<axis=1>(b, a) }",
                "Split Concat",
            )
        ],
        [
            PARTS + "<int64[1] z = {0}, int64[1] n = {2}, int64[1] o = {1}, int64[1] m = {3}>"
            "{ b = Slice(x, m, e, o) a = Slice(x, z, n, o) e = Constant<value_ints=[6]>() y = Concat<axis=1>(b, a) }",
            PARTS + "<int64[1] z = {0}, int64[1] n = {2}, int64[1] o = {1}, int64[1] e = {9223372036854775807}>"
            "{ b = Slice(x, n, e, o) c = Slice(b, o, n, z) a = Slice(x, z, n, o) d = Neg(a) y = Concat<axis=1>(d, c) }",
            PARTS + "<int64[1] z = {0}, int64[1] n = {2}, int64[1] e = {9223372036854775807}>"
            "{ b = Slice(x, n, e, z) a = Slice(x, z, n, z) y = Concat<axis=0>(b, a) }",
        ],
    ),
    "SplitBeforeTranspose": (
        [
            Fires(
                "(float[5, B, 6] x) => (y) <int64[3] a = {5, -1, 3}, int64[4] s = {-1, 2, 5, 3}>"
                "{ r = Reshape(x, a) t = Transpose<perm=[1, 0, 2]>(r) y = Reshape(t, s) }",
                "Reshape Transpose",
                {"B": (1, 5)},
            ),
            Fires(
                "(float[5, B, 6] x) => (y) <int64[5] a = {1, 5, -1, 3, 2}, int64[1] s = {-2}>"
                "{ r = Reshape(x, a) t = Transpose<perm=[3, 1, 2, 0, 4]>(r) y = Squeeze(t, s) }",
                "Reshape Transpose",
                {"B": (1, 5)},
            ),
            Fires(
                "(float[2, 3, N] x) => (y) <int64[2] a = {6, -1}, int64[3] s = {0, 2, 3}>"
                "{ r = Reshape(x, a) t = Transpose<perm=[1, 0]>(r) y = Reshape(t, s) }",
                "Transpose",
                {"N": (1, 5)},
            ),
        ],
        [
            # axes are joined that were apart
            "(float[5, 6, N] x) => (y) <int64[4] a = {5, 2, 3, -1}, int64[3] s = {-1, 15, 2}>"
            "{ r = Reshape(x, a) t = Transpose<perm=[3, 0, 2, 1]>(r) y = Reshape(t, s) }",
            "(float[5, B, 6] x) => (y, t) <int64[3] a = {5, -1, 3}, int64[4] s = {-1, 2, 5, 3}>"
            "{ r = Reshape(x, a) t = Transpose<perm=[1, 0, 2]>(r) y = Reshape(t, s) }",
            # the split does not end where the axis does
            "(float[4, 6] x) => (y) <int64[2] a = {6, 4}, int64[2] s = {3, 8}>"
            "{ r = Reshape(x, a) t = Transpose<perm=[1, 0]>(r) u = Reshape(t, s) y = Neg(u) }",
        ],
    ),
    "ShareHeads": (
        [
            Fires(
                "(float[B, 4, S, 4] q, float[B, 2, T, 4] k, float[B, 2, T, 3] v) => (y)"
                "<int64[1] h = {2}, int64[5] r = {1, 1, 2, 1, 1}, int64[4] f = {0, 4, -1, 4},"
                "int64[4] g = {0, 4, -1, 3}>"
                "{ ku = Unsqueeze(k, h) ke = Expand(ku, r) kr = Reshape(ke, f) vu = Unsqueeze(v, h) ve = Expand(vu, r)"
                "vr = Reshape(ve, g) y = Attention(q, kr, vr) }",
                "Attention",
                {"B": (1, 4), "T": (1, 6)},
            ),
            Fires(
                "(float[B, 4, S, 4] q, float[B, T, 2, 4] k, float[B, 2, T, 3] v) => (y)"
                "<int64[1] h = {1}, int64[1] g = {2}, int64[5] r = {1, 1, 2, 1, 1}, int64[4] f = {0, 4, -1, 4},"
                "int64[4] e = {0, 4, -1, 3}>"
                "{ ku = Unsqueeze(k, h) kt = Transpose<perm=[0, 3, 1, 2, 4]>(ku) ke = Expand(kt, r) kr = Reshape(ke, f)"
                "vu = Unsqueeze(v, g) ve = Expand(vu, r) vr = Reshape(ve, e) y = Attention(q, kr, vr) }",
                "Unsqueeze Transpose Squeeze Attention",
                {"B": (1, 4), "T": (1, 6)},
            ),
        ],
        [
            # each head stands beside the other one, not beside itself
            "(float[B, 4, S, 4] q, float[B, 2, T, 4] k, float[B, 2, T, 4] v) => (y)"
            "<int64[1] h = {1}, int64[5] r = {1, 2, 1, 1, 1}, int64[4] f = {0, 4, -1, 4}>"
            "{ ku = Unsqueeze(k, h) ke = Expand(ku, r) kr = Reshape(ke, f) vu = Unsqueeze(v, h) ve = Expand(vu, r)"
            "vr = Reshape(ve, f) y = Attention(q, kr, vr) }",
            "(float[B, 4, S, 4] q, float[B, 2, T, 4] k, float[B, 4, T, 4] v) => (y)"
            "<int64[1] h = {2}, int64[5] r = {1, 1, 2, 1, 1}, int64[4] f = {0, 4, -1, 4}>"
            "{ ku = Unsqueeze(k, h) ke = Expand(ku, r) kr = Reshape(ke, f) y = Attention(q, kr, v) }",
        ],
    ),
    "WidenRotary": (
        [
            Fires(
                "(float[B, 2, S, 6] x, float[B, S, 2] c, float[B, S, 2] s) => (y)"
                + PARTED
                + "{ a = Slice(x, z, r, l) b = Slice(x, r, e, l) t = RotaryEmbedding(a, c, s)"
                "y = Concat<axis=-1>(t, b) }",
                "RotaryEmbedding",
            ),
            Fires(
                "(float[B, S, 2, 6] x, float[B, S, 2] c, float[B, S, 2] s) => (y)"
                + PARTED
                + "{ a, b = Split<axis=3>(x, p) f = Reshape(a, j)"
                "t = RotaryEmbedding<interleaved=1, num_heads=2>(f, c, s) u = Reshape(t, k) y = Concat<axis=3>(u, b) }",
                "Reshape RotaryEmbedding Reshape",
            ),
        ],
        [
            # the rest stands first, and is another tensor's
            "(float[B, 2, S, 6] x, float[B, S, 2] c, float[B, S, 2] s) => (y)"
            + PARTED
            + "{ a = Slice(x, z, r, l) b = Slice(x, r, e, l) t = RotaryEmbedding(a, c, s) y = Concat<axis=-1>(b, t) }",
            "(float[B, 2, S, 6] x, float[B, 2, S, 6] w, float[B, S, 2] c, float[B, S, 2] s) => (y)"
            + PARTED
            + "{ a = Slice(x, z, r, l) b = Slice(w, r, e, l) t = RotaryEmbedding(a, c, s) y = Concat<axis=-1>(t, b) }",
            "(float[B, 2, S, 6] x, float[B, S, 2] c, float[B, S, 2] s) => (y, t)"
            + PARTED
            + "{ a = Slice(x, z, r, l) b = Slice(x, r, e, l) t = RotaryEmbedding(a, c, s) y = Concat<axis=-1>(t, b) }",
        ],
    ),
    "RecognizeGroupNormalization": (
        [
            Fires(
                "(float[N, 6, H, W] x) => (y)"
                "<int64[3] g = {0, 3, -1}, float[3] s = {1, 2, 0.5}, float[3] b = {0, 1, -1}>"
                "{ r = Reshape(x, g) n = InstanceNormalization<epsilon=0.001>(r, s, b) t = Shape(x) "
                "y = Reshape(n, t) }",
                "GroupNormalization",
                {"N": (1, 4), "H": (1, 5), "W": (2, 5)},
                tolerance=1e-4,
            )
        ],
        [
            "(float[N, 6, H, W] x, float[3] s) => (y) <int64[3] g = {0, 3, -1}, float[3] b = {0, 1, -1}>"
            "{ r = Reshape(x, g) n = InstanceNormalization(r, s, b) t = Shape(x) y = Reshape(n, t) }",
            # the groups do not end where channels do
            "(float[N, 4, 3, 3] x) => (y) <int64[3] g = {0, 3, -1}, float[3] s = {1, 1, 1}, float[3] b = {0, 0, 0}>"
            "{ r = Reshape(x, g) n = InstanceNormalization(r, s, b) t = Shape(x) y = Reshape(n, t) }",
            "(float[N, 6, H, W] x) => (y) <int64[3] g = {0, 3, -1}, float[3] s = {1, 1, 1}, float[3] b = {0, 0, 0}>"
            "{ r = Reshape(x, g) y = InstanceNormalization(r, s, b) }",
        ],
    ),
    "FoldIntoGroupNormalization": (
        [
            Fires(
                "(float[N, 4, H, 3] x) => (y) <float[4] s = {1, 2, 0.5, 3}, float[4] b = {0, 1, -1, 2},"
                "float[4, 1, 1] f = {2, 1, 0.5, -1}, float[1, 4, 1, 1] o = {1, 1, 2, 0}>"
                "{ n = GroupNormalization<num_groups=2>(x, s, b) m = Mul(n, f) y = Add(o, m) }",
                "GroupNormalization",
                {"N": (1, 4), "H": (1, 5)},
                tolerance=1e-4,
            )
        ],
        [
            "(float[N, 4, H, 3] x) => (y, n) <float[4] s = {1, 2, 0.5, 3}, float[4] b = {0, 1, -1, 2}, float f = {2}>"
            "{ n = GroupNormalization<num_groups=2>(x, s, b) y = Mul(n, f) }",
            "(float[N, 4, H, 3] x) => (y) <float[4] s = {1, 2, 0.5, 3}, float[4] b = {0, 1, -1, 2},"
            "float[3] f = {2, 1, 3}> { n = GroupNormalization<num_groups=2>(x, s, b) y = Mul(n, f) }",
        ],
    ),
}

MASKED = [
    Fires(
        QKV + ", float[B, 1, S, S] f) => (y) <float c = {0.5}, float cap = {3}>"
        f"{{ {SCORES} e = Div(d, cap) h = Tanh(e) g = Mul(h, cap) a = Add(g, f) w = Softmax<axis=-1>(a)"
        " y = MatMul(w, v) }",
        "Attention",
        {"S": (1, 6)},
    ),
    Fires(
        QKV + f") => (y) <{LOWEST}, {SIZES}> {{ {SCORES} {LENGTH} p = Range(zero, r, one) i = Unsqueeze(p, a1)"
        "j = Unsqueeze(p, a0) m = LessOrEqual(j, i) a = Where(m, d, low) w = Softmax<axis=-1>(a) y = MatMul(w, v) }",
        "Attention",
        {"S": (1, 6)},
    ),
    Fires(
        QKV + f") => (y) <{LOWEST}, {SIZES}, float z = {{0}}, int64 k1 = {{1}}>"
        f"{{ {SCORES} {LENGTH} ru = Unsqueeze(r, a0) rr = Concat<axis=0>(ru, ru) o = Expand(low, rr)"
        "m = Trilu<upper=1>(o, k1) a = Add(d, m) w = Softmax<axis=-1>(a) y = MatMul(w, v) }",
        "Attention",
        {"S": (1, 6)},
    ),
    Fires(
        QKV.replace("S", "3") + f", float[B, 1, 3, 3] f) => (y) <{LOWEST}, float z = {{0}}>"
        f"{{ {SCORES} m = Less(f, z) a = Where(m, low, d) w = Softmax<axis=-1>(a) y = MatMul(w, v) }}",
        "Less Where Attention",
    ),
    Fires(
        QKV.replace("S", "3")
        + ") => (y) <float c = {0.5}, float[1, 1, 3, 3] m = {0, -3e38, -3e38, 0, 0, -3e38, 0, 0, 0}>"
        f"{{ {SCORES} a = Add(d, m) w = Softmax<axis=-1>(a) y = MatMul(w, v) }}",
        "Attention",
    ),
    # a bias of relative positions, and a mask
    Fires(
        QKV + ", float[1, 2, S, S] r, float[B, 1, 1, S] m) => (y) <float c = {0.5}>"
        f"{{ {SCORES} a = Add(d, r) e = Add(m, a) w = Softmax<axis=-1>(e) y = MatMul(w, v) }}",
        "Add Attention",
        {"S": (1, 6)},
    ),
    Fires(
        QKV + ", float[2, 1, 1] r, float[B, 1, S, S] m, float[S] n) => (y) <float c = {0.5}>"
        f"{{ {SCORES} a = Add(d, r) e = Add(a, m) f = Add(e, n) w = Softmax<axis=-1>(f) y = MatMul(w, v) }}",
        "Add Add Attention",
        {"S": (1, 6)},
    ),
    # a corner of a table of biases
    Fires(
        QKV + ") => (y) <float c = {0.5}, int64[2] from = {0, 0}, int64[2] ax = {2, 3}, int64[1] two = {2},"
        f"int64[1] three = {{3}}, float[1, 1, 8, 8] table = {{{TABLE}}}> {{ {SCORES} n = Shape(q)"
        "r = Slice(n, two, three) to = Concat<axis=0>(r, r) m = Slice(table, from, to, ax) a = Add(d, m)"
        "w = Softmax<axis=-1>(a) y = MatMul(w, v) }",
        "Slice Attention",
        {"S": (1, 6)},
    ),
    # a bias, and keys that are left out
    Fires(
        QKV + f", float[1, 2, S, S] r, float[B, 1, 1, S] f) => (y) <{LOWEST}, float z = {{0}}>"
        f"{{ {SCORES} m = Less(f, z) e = Add(d, r) a = Where(m, low, e) w = Softmax<axis=-1>(a) y = MatMul(w, v) }}",
        "Less Where Attention",
        {"S": (2, 6)},
    ),
    Fires(
        "(float[N, S, 4] q, float[N, T, 4] k, float[N, T, 3] v, float[N, S, T] m) => (y)"
        "{ t = Transpose<perm=[0, 2, 1]>(k) s = MatMul(q, t) a = Add(m, s) w = Softmax<axis=-1>(a) "
        "y = MatMul(w, v) }",
        "Unsqueeze Attention",
        {"T": (1, 6)},
    ),
    # batch and heads in one axis, but where the mask is added
    Fires(
        HEADS_JOINED + "d = Mul(s, c) g = Reshape(d, rest) a = Add(g, m) e = Reshape(a, back)"
        "w = Softmax<axis=-1>(e) y = MatMul(w, v) }",
        "Reshape Reshape Reshape Reshape Reshape Reshape Attention Reshape",
        {"B": (1, 4)},
    ),
    Fires(
        HEADS_JOINED + "g = Reshape(s, rest) d = Mul(g, c) u = Add(d, m) w = Softmax<axis=-1>(u)"
        "e = Reshape(w, back) y = MatMul(e, v) }",
        "Reshape Reshape Reshape Reshape Reshape Reshape Attention Reshape",
        {"B": (1, 4)},
    ),
]
"""Of RecognizeAttention: masks that are the causal one, others by Where, several, and heads beside the batch."""

UNMASKED = [
    # a cap below 0, which the operator does not have
    QKV + ") => (y) <float c = {0.5}, float cap = {-3}>"
    f"{{ {SCORES} e = Div(d, cap) h = Tanh(e) g = Mul(h, cap) w = Softmax<axis=-1>(g) y = MatMul(w, v) }}",
    # a number that a score may be below of
    QKV + ", bool[B, 1, S, S] m) => (y) <float c = {0.5}, float low = {-10}>"
    f"{{ {SCORES} a = Where(m, low, d) w = Softmax<axis=-1>(a) y = MatMul(w, v) }}",
    # the mask makes the scores larger
    "(float[1, 2, S, 4] q, float[1, 2, S, 4] k, float[1, 2, S, 4] v, bool[5, 1, S, S] m) => (y)"
    f"<{LOWEST}> {{ {SCORES} a = Where(m, low, d) w = Softmax<axis=-1>(a) y = MatMul(w, v) }}",
]

TURNED = [
    Fires(
        "(float[B, 2, 3, 4] x) => (y)" + TURN + "{1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6}>"
        "{ g = Cos(table) c = Unsqueeze(g, a01) v = Sin(table) s = Unsqueeze(v, a01)" + HALVES,
        "Cos Unsqueeze Squeeze Expand Sin Unsqueeze Squeeze Expand RotaryEmbedding",
    ),
    Fires(
        "(float[B, 2, S, 4] x, float[B, S, 2] f) => (y)"
        + TURN
        + "{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, int64[4] r = {1, 1, 1, 2}, int64[3] j = {0, 0, 4}>"
        "{ fu = Unsqueeze(f, m) fe = Expand(fu, r) g = Reshape(fe, j) u = Cos(g) c = Unsqueeze(u, o) v = Sin(g)"
        "s = Unsqueeze(v, o)" + PAIRS,
        "Cos Unsqueeze Squeeze Sin Unsqueeze Squeeze RotaryEmbedding",
    ),
    Fires(
        "(float[B, 2, S, 4] x, float[B, S] f) => (y)" + TURN + "{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6}>"
        "{ at = Cast<to=7>(f) none = Sub(at, at) g = Gather(table, none) c = Unsqueeze(g, o) v = Sin(g) "
        "s = Unsqueeze(v, o)" + PAIRS,
        "Cast Sub Gather Unsqueeze Squeeze Gather Sin Unsqueeze Squeeze RotaryEmbedding",
    ),
    # heads behind rows
    Fires(
        "(float[B, S, 2, 4] x, float[B, S, 2] f) => (y)"
        + TURN
        + "{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, int64[4] r = {1, 1, 1, 2}, int64[3] j = {0, 0, 4}, int64[1] two = {2}>"
        "{ fu = Unsqueeze(f, m) fe = Expand(fu, r) g = Reshape(fe, j) u = Cos(g) c = Unsqueeze(u, two) v = Sin(g)"
        "s = Unsqueeze(v, two)" + PAIRS,
        "Cos Unsqueeze Squeeze Sin Unsqueeze Squeeze Reshape RotaryEmbedding Reshape",
    ),
]
"""Of RecognizeRotary: constant tables, no batch, rows that are chosen, neighbours that turn together, other layouts."""

UNTURNED = [
    # the table's halves differ
    "(float[B, 2, 3, 4] x) => (y)" + TURN + "{1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 7}>"
    "{ g = Cos(table) c = Unsqueeze(g, a01) v = Sin(table) s = Unsqueeze(v, a01)" + HALVES,
    # equal halves, where neighbours turn together
    "(float[B, 2, 3, 4] x) => (y)" + TURN + "{1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6}>"
    "{ g = Cos(table) c = Unsqueeze(g, a01) v = Sin(table) s = Unsqueeze(v, a01)" + PAIRS,
]
