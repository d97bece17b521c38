"""Graphs on which rules fire and decline: control flow, and operators that move elements or do nothing."""

from __future__ import annotations

from rule_case import X3, Cases, Fires, X

MOVEMENT: Cases = {
    "InlineKnownIf": (
        [
            Fires(
                """(float[N] x) => (y) <bool c = {1}> {
                y = If (c) <then_branch = t () => (a) { a = Neg(x) }, else_branch = e () => (b) { b = Abs(x) }>
            }""",
                "Neg",
                decided=False,
            )
        ],
        [
            """(float[N] x, bool c) => (y) {
            y = If (c) <then_branch = t () => (a) { a = Neg(x) }, else_branch = e () => (b) { b = Abs(x) }>
        }"""
        ],
    ),
    "CopyYieldedConstant": (
        [
            Fires(
                """(float[N] x, bool c) => (y) <float w = {2}> {
                y = If (c) <then_branch = t () => (w) {}, else_branch = e () => (b) { b = ReduceMax<keepdims = 0>(x) }>
            }""",
                "If",
            )
        ],
        [
            """(float[N] x, bool c) => (y) {
            w = Neg(x)
            y = If (c) <then_branch = t () => (a) { a = Identity(w) }, else_branch = e () => (b) { b = Abs(x) }>
        }"""
        ],
    ),
    "ReadWhatLoopsKeep": (
        [
            Fires(
                """(float[4] x, int64 n, float[4] w) => (y, z) <bool c = {1}> {
                v = Neg(w)
                a, b = Loop (n, c, x, v) <body = b (int64 i, bool k, float[4] s, float[4] t) =>
                    (bool l, float[4] d, float[4] t) { l = Identity(k) u = Neg(t) d = Add(s, u) }>
                y = Identity(a)
                z = Neg(b)
            }""",
                "Neg Loop Identity Neg",
            ),
        ],
        [
            """(float[4] x, int64 n) => (y) <bool c = {1}> {
            y = Loop (n, c, x) <body = b (int64 i, bool k, float[4] s) => (bool l, float[4] d)
                { l = Identity(k) d = Neg(s) }>
        }""",
            """(float[4] x, float[4] w, int64 n) => (y, z) <bool c = {1}> {
            y, z = Loop (n, c, x, w) <body = b (int64 i, bool k, float[4] s, float[4] t) =>
                (bool l, float[4] d, float[4] e) { l = Identity(k) d = Add(s, t) e = Identity(s) }>
        }""",
        ],
    ),
    "UnrollLoop": (
        [
            Fires(
                """(float[N] x) => (y, z) <int64 n = {2}, bool c = {1}> {
                y, z = Loop (n, c, x) <body = b (int64 i, bool k, float[N] a) => (bool l, float[N] d, float[N] e)
                    { l = Identity(k) d = Neg(a) e = Abs(a) }>
            }""",
                "Neg Abs Neg Abs Unsqueeze Unsqueeze Concat",
            ),
            Fires(
                """(float[N] x) => (y) <int64 n = {0}, bool c = {1}> {
                y = Loop (n, c, x) <body = b (int64 i, bool k, float[N] a) => (bool l, float[N] d)
                    { l = Identity(k) d = Neg(a) }>
                }""",
                "",
            ),
        ],
        [
            """(float[N] x, int64 n) => (y) <bool c = {1}> {
            y = Loop (n, c, x) <body = b (int64 i, bool k, float[N] a) => (bool l, float[N] d)
                { l = Identity(k) d = Neg(a) }>
        }""",
            """(float[N] x) => (y) <int64 n = {3}, bool c = {1}, float limit = {9}> {
            y = Loop (n, c, x) <body = b (int64 i, bool k, float[N] a) => (bool l, float[N] d)
                { d = Neg(a) s = ReduceSum<keepdims=0>(a) l = Less(s, limit) }>
        }""",
            """(float[N] x) => (y) <int64 n = {1000}, bool c = {1}> {
            y = Loop (n, c, x) <body = b (int64 i, bool k, float[N] a) => (bool l, float[N] d)
                { l = Identity(k) d = Neg(a) }>
        }""",
        ],
    ),
    "DropIdentity": ([Fires(X + "{ y = Identity(x) }", "")], [X + "{ y = Neg(x) }"]),
    "DropSameType": (
        [
            Fires(X + "<int64[2] s = {-1, 4}> { y = Reshape(x, s) }", ""),
            Fires(X + "<int64[2] s = {1, 4}> { y = Expand(x, s) }", ""),
            Fires(X + "{ y = Cast<to=1>(x) }", ""),
            Fires(X + "{ y = Flatten(x) }", ""),
        ],
        [X + "<int64[1] s = {-1}> { y = Reshape(x, s) }", X + "{ y = Cast<to=11>(x) }"],
    ),
    "DropWholeSlice": (
        [
            Fires(X + "<int64[1] s = {0}, int64[1] e = {4}, int64[1] a = {1}> { y = Slice(x, s, e, a) }", ""),
            Fires(X + "<int64[1] s = {0}, int64[1] a = {0}> { n = Shape<end=1>(x) y = Slice(x, s, n, a) }", ""),
        ],
        [
            X + "<int64[1] s = {0}, int64[1] e = {3}, int64[1] a = {1}> { y = Slice(x, s, e, a) }",
            X + "<int64[1] s = {-1}, int64[1] e = {-9}, int64[1] a = {1}, int64[1] t = {-1}> { y = Slice(x,s,e,a,t) }",
        ],
    ),
    "DropZeroPad": (
        [Fires(X + "<int64[4] p = {0, 0, 0, 0}> { y = Pad(x, p) }", "")],
        [X + "<int64[4] p = {0, 1, 0, 0}> { y = Pad(x, p) }", X + "<int64[4] p = {0, 1, 0, -1}> { y = Pad(x, p) }"],
    ),
    "DropSingleTile": (
        [Fires(X + "<int64[2] r = {1, 1}> { y = Tile(x, r) }", "")],
        [X + "<int64[2] r = {1, 2}> { y = Tile(x, r) }"],
    ),
    "DropEmptyOperands": (
        [
            Fires(X + "{ y = Concat<axis=0>(x) }", ""),
            Fires("(float[N, 4] x, float[0, 4] e) => (y) { y = Concat<axis=0>(x, e) }", ""),
            Fires("(float[N, 4] x, float[0, 4] e) => (y) { y = Concat<axis=0>(x, e, x) }", "Concat"),
        ],
        ["(float[N, 4] x, float[M, 4] e) => (y) { y = Concat<axis=0>(x, e) }"],
    ),
    "DropSingleSplit": (
        [Fires(X + "{ y = Split<axis=0, num_outputs=1>(x) }", "")],
        [X3.replace("(y)", "(y, z)") + "{ y, z = Split<axis=2, num_outputs=2>(x) }"],
    ),
    "DropIdleDropout": (
        [
            Fires(X + "{ y = Dropout(x) }", ""),
            Fires(X + "<float r = {0.5}, bool t = {0}> { y = Dropout(x, r, t) }", ""),
        ],
        [X.replace("(float[A, B] y)", "(y, m)") + "{ y, m = Dropout(x) }"],
    ),
    "DropExpand": (
        [
            Fires(
                "(float[1, 4] x, float[N, 4] z) => (y) { s = Shape(z) e = Expand(x, s) y = Add(e, z) }",
                "Add",
            )
        ],
        ["(float[1, 4] x, float[4] z) => (y) <int64[2] s = {3, 4}> { e = Expand(x, s) y = Add(e, z) }"],
    ),
    "DropReductionOfOne": (
        [
            Fires("(float[N, 1, 4] x) => (y) <int64[1] a = {1}> { y = ReduceMax(x, a) }", ""),
            Fires("(float[N, 1, 4] x) => (y) <int64[1] a = {-2}> { y = ReduceMean<keepdims=0>(x, a) }", "Squeeze"),
        ],
        [
            "(float[N, 2, 4] x) => (y) <int64[1] a = {1}> { y = ReduceSum(x, a) }",
            "(float[N, M, 4] x) => (y) <int64[1] a = {1}> { y = ReduceSum(x, a) }",
        ],
    ),
    "DropWholeGather": (
        [
            Fires(X + "<int64[4] i = {0, 1, 2, 3}> { y = Gather<axis=1>(x, i) }", ""),
            Fires(X + "<int64[4] i = {-4, 1, -2, 3}> { y = Gather<axis=1>(x, i) }", ""),
        ],
        [
            X + "<int64[4] i = {0, 1, 3, 2}> { y = Gather<axis=1>(x, i) }",
            X + "<int64[3] i = {0, 1, 2}> { y = Gather<axis=1>(x, i) }",
        ],
    ),
    "MergeTransposes": (
        [
            Fires(X3 + "{ t = Transpose<perm=[1, 2, 0]>(x) y = Transpose<perm=[2, 0, 1]>(t) }", ""),
            Fires(X3 + "{ t = Transpose<perm=[1, 2, 0]>(x) y = Transpose(t) }", "Transpose"),
            Fires(X3 + "{ y = Transpose<perm=[0, 1, 2]>(x) }", ""),
        ],
        [X3 + "{ y = Transpose<perm=[0, 2, 1]>(x) }"],
    ),
    "GatherBeforeTranspose": (
        [
            Fires(X3 + "<int64 i = {2}> { t = Transpose<perm=[1, 0, 2]>(x) y = Gather<axis=0>(t, i) }", "Gather"),
            Fires(X3 + "<int64 i = {-1}> { t = Transpose<perm=[1, 0, 2]>(x) y = Gather<axis=-3>(t, i) }", "Gather"),
            Fires(
                X3 + "<int32 i = {1}, int64 j = {-3}>"
                "{ t = Transpose<perm=[1, 0, 2]>(x) a = Gather<axis=0>(t, i) b = Gather(t, j) y = Add(a, b) }",
                "Gather Gather Add",
            ),
            Fires(
                "(float[B, 3, 4] x) => (y) <float[4] z = {0, 0, 0, 0}, int64 n = {3}, bool c = {1}> {\n"
                "t = Transpose<perm=[1, 0, 2]>(x)\n"
                "u, y = Loop (n, c, z) <body = b (int64 i, bool k, float[4] a) => (bool l, float[4] d, float[B, 4] e)"
                "{ l = Identity(k) d = Neg(a) g = Gather<axis=0>(t, i) e = Add(g, a) }> }",
                "Loop",
            ),
        ],
        [
            # what is left has another order
            X3 + "<int64 i = {2}> { t = Transpose<perm=[1, 2, 0]>(x) y = Gather<axis=1>(t, i) }",
            # the axis is the last: what the transpose moves is one element each
            X3 + "<int64 i = {2}> { t = Transpose<perm=[2, 0, 1]>(x) y = Gather<axis=0>(t, i) }",
            X3 + "<int64[1] i = {2}> { t = Transpose<perm=[1, 0, 2]>(x) y = Gather<axis=0>(t, i) }",
            # it is made in any case
            "(float[N, 3, 4] x) => (y, t) <int64 i = {2}> { t = Transpose<perm=[1, 0, 2]>(x) y = Gather(t, i) }",
        ],
    ),
    "SinkTranspose": (
        [
            Fires(
                X3 + "<float c = {2}> { t = Transpose(x) r = Relu(t) m = Mul(c, r) y = Transpose(m) }",
                "Relu Mul Transpose",
            )
        ],
        [
            "(float[N, 3, 4] x) => (y, r) { t = Transpose(x) r = Relu(t) y = Transpose(r) }",
            X3 + "<float[3] c = {2, 1, 3}> { t = Transpose<perm=[0,2,1]>(x) m = Mul(c, t) y = Transpose(m) }",
        ],
    ),
    "SinkView": (
        [
            Fires(
                X3 + "<int64[2] s = {-1, 4}> { t = Shape(x) f = Reshape(x, s) a = Softmax(f) y = Reshape(a, t) }",
                "Softmax",
            ),
            Fires(X3 + "<int64[1] a = {1}> { f = Unsqueeze(x, a) e = Exp(f) y = Squeeze(e, a) }", "Exp"),
        ],
        [
            X3 + "<int64[2] s = {-1, 12}> { t = Shape(x) f = Reshape(x, s) a = Softmax(f) y = Reshape(a, t) }",
            X3 + "<int64[2] s = {-1, 4}> { f = Reshape(x, s) a = Softmax(f) y = Flatten<axis=0>(a) }",
        ],
    ),
    "JoinTransposes": (
        [
            Fires(
                "(float[N, 4] x, float[N, 4] z) => (y) { a = Transpose(x) b = Transpose(z) y = Add(a, b) }",
                "Add Transpose",
            )
        ],
        [
            "(float[N, 4, 4] x, float[N, 4, 4] z) => (y) "
            "{ a = Transpose<perm=[0,2,1]>(x) b = Transpose<perm=[1,0,2]>(z) y = Add(a, b) }",
            "(float[N, 4] x, float[N, 4] z) => (y, a) { a = Transpose(x) b = Transpose(z) y = Add(a, b) }",
        ],
    ),
    "MergeSlices": (
        [
            Fires(
                X3 + "<int64[1] o = {1}, int64[1] t = {2}, int64[1] e = {3}>"
                "{ a = Slice(x, o, e, o) y = Slice(a, o, e, t) }",
                "Slice",
            ),
            Fires(
                "(float[N] x) => (y) <int64[1] o = {1}, int64[1] e = {7}> { a = Slice(x, o, e) y = Slice(a, o, e) }",
                "Slice",
                {"N": (0, 12)},
            ),
            Fires(
                "(float[N] x) => (y) <int64[1] o = {1}, int64[1] m = {-2}, int64[1] e = {9223372036854775807}>"
                "{ a = Slice(x, o, e) y = Slice(a, o, m) }",
                "Slice",
            ),
            Fires(
                "(float[N] x) => (y) <int64[1] o = {1}, int64[1] m = {-2}, int64[1] e = {9223372036854775807}>"
                "{ a = Slice(x, o, m) y = Slice(a, o, e) }",
                "Slice",
            ),
            Fires(
                X3 + "<int64[1] o = {1}, int64[1] t = {2}, int64[1] e = {3}, int64[1] z = {0}>"
                "{ a = Slice(x, o, e, o) b = Slice(a, o, e, t) c = Slice(a, z, t, t) y = Add(b, c) }",
                "Slice Slice Add",
            ),
        ],
        [
            "(float[N] x) => (y) <int64[1] o = {-3}, int64[1] e = {7}> { a = Slice(x, o, e) y = Slice(a, o, e) }",
            "(float[N] x) => (y) <int64[1] o = {0}, int64[1] e = {9}, int64[1] a = {0}, int64[1] s = {2}>"
            "{ b = Slice(x, o, e, a, s) y = Slice(b, o, e, a, s) }",
            "(float[N] x) => (y, a) <int64[1] o = {1}, int64[1] e = {7}> { a = Slice(x, o, e) y = Slice(a, o, e) }",
        ],
    ),
    "CropPad": (
        [
            Fires(
                "(float[N] x) => (y) <int64[2] p = {2, 3}, int64[1] s = {2}, int64[1] e = {-3}>"
                "{ a = Pad(x, p) y = Slice(a, s, e) }",
                "",
            ),
            Fires(
                "(float[N, M] x) => (y) <int64[4] p = {0, 2, 0, 3}, int64[1] two = {2}, int64[1] o = {1}>"
                "{ a = Pad(x, p) n = Shape<start=1>(x) e = Add(n, two) y = Slice(a, two, e, o) }",
                "",
            ),
            Fires(
                "(float[N, M] x) => (y) <int64[1] o = {1}, int64[1] z = {0}, int64[1] two = {2}>"
                "{ n = Shape<start=1>(x) l = Div(n, two) t = Concat<axis=0>(z, l, z, l) a = Pad(x, t) e = Add(l, n)"
                "  y = Slice(a, l, e, o) }",
                "",
            ),
            Fires(
                X + "<int64[4] p = {0, 1, 0, 2}, int64[1] s = {2}, int64[1] e = {-3}, int64[1] o = {1}>"
                '{ a = Pad<mode="reflect">(x, p) y = Slice(a, s, e, o) }',
                "Slice",
            ),
            Fires(
                X + "<int64[4] p = {0, -1, 0, -1}, int64[1] s = {1}, int64[1] e = {2}, int64[1] o = {1}>"
                "{ a = Pad(x, p) y = Slice(a, s, e, o) }",
                "Slice",
            ),
            Fires(
                X + "<int64[4] p = {0, 3, 0, 2}, int64[1] s = {2}, int64[1] e = {-1}, int64[1] o = {1}>"
                '{ a = Pad<mode="edge">(x, p) y = Slice(a, s, e, o) }',
                "Pad",
            ),
            Fires(
                "(float[N, M] x) => (y, a) <int64[2] p = {2, 1}, int64[1] s = {2}, int64[1] e = {-1}, int64[1] o = {1}>"
                "{ a = Pad(x, p, , o) y = Slice(a, s, e, o) }",
                "Pad",
            ),
        ],
        [
            X + "<int64[4] p = {0, 3, 0, 2}, int64[1] s = {4}, int64[1] e = {-1}, int64[1] o = {1}>"
            "{ a = Pad(x, p) y = Slice(a, s, e, o) }",
            X + "<int64[4] p = {0, 2, 0, 2}, int64[1] s = {2}, int64[1] e = {6}, int64[1] o = {1}, int64[1] t = {2}>"
            "{ a = Pad(x, p) y = Slice(a, s, e, o, t) }",
            "(float[N, 4] x) => (y, a) <int64[4] p = {0, 3, 0, 2}, int64[1] s = {2}, int64[1] e = {-1},"
            "int64[1] o = {1}> { a = Pad(x, p) y = Slice(a, s, e, o) }",
            "(float[N] x, int64[2] p) => (y) <int64[1] s = {2}, int64[1] e = {-3}>{ a = Pad(x, p) y = Slice(a, s, e) }",
            "(float[N] x, float[M] w) => (y) <int64[2] p = {2, 3}, int64[1] s = {2}>"
            "{ a = Pad(x, p) e = Shape(w) y = Slice(a, s, e) }",
        ],
    ),
    "RejoinParts": (
        [
            Fires(
                "(float[N] x) => (y) <int64[1] z = {0}, int64[1] m = {-1}, int64[1] e = {9223372036854775807}>"
                "{ a = Slice(x, z, m) b = Slice(x, m, e) y = Concat<axis=0>(a, b) }",
                "",
            ),
            Fires(
                "(float[N] x) => (y) <int64[1] z = {0}, int64[1] m = {3}, int64[1] e = {9223372036854775807}>"
                "{ a = Slice(x, z, m) b = Slice(x, m, e) y = Concat<axis=0>(a, b) }",
                "",
            ),
            Fires(X + "{ a, b = Split<axis=1, num_outputs=2>(x) y = Concat<axis=1>(a, b) }", ""),
            Fires(
                "(float[N, 6] x) => (y) <int64[1] i = {1}, int64[1] j = {3}, int64[1] k = {5}>"
                "{ a = Slice(x, i, j, i) b = Slice(x, j, k, i) y = Concat<axis=1>(x, a, b) }",
                "Slice Concat",
            ),
        ],
        [
            X + "{ a, b = Split<axis=1, num_outputs=2>(x) y = Concat<axis=1>(b, a) }",
            X + "{ a, b, c, d = Split<axis=1, num_outputs=4>(x) y = Concat<axis=1>(b, c, a) }",
            "(float[N] x) => (y) <int64[1] z = {0}, int64[1] m = {3}, int64[1] k = {2}, "
            "int64[1] e = {9223372036854775807}> { a = Slice(x, z, m) b = Slice(x, k, e) y = Concat<axis=0>(a, b) }",
            "(float[N] x) => (y) <int64[1] z = {0}, int64[1] m = {3}, int64[1] e = {5}>"
            "{ a = Slice(x, z, m) b = Slice(x, m, e) y = Concat<axis=0>(a, b) }",
        ],
    ),
    "FlattenConcats": (
        [Fires(X + "{ a = Concat<axis=1>(x, x) y = Concat<axis=-1>(a, x) }", "Concat")],
        [
            X + "{ a = Concat<axis=0>(x, x) y = Concat<axis=1>(a, a) }",
            "(float[N, 4] x) => (y, a) { a = Concat<axis=1>(x, x) y = Concat<axis=1>(a, x) }",
        ],
    ),
    "MergeViews": (
        [
            Fires(
                "(float[A, B] x) => (y) <int64[2] s = {-1, 6}, int64[1] m = {-1}, int64[1] k = {6}>"
                "{ r = Reshape(x, s) a = Shape<end=1>(x) t = Concat<axis=0>(a, m, k) y = Reshape(r, t) }",
                "Reshape",
                {"A": (1, 5), "B": (6, 6)},
            ),
            Fires(X3 + "<int64[2] s = {-1, 4}> { t = Shape(x) f = Reshape(x, s) y = Reshape(f, t) }", ""),
            Fires(
                X + "<int64[1] a = {0}, int64[1] b = {1}> { u = Unsqueeze(x, a) y = Unsqueeze(u, b) }",
                "Unsqueeze",
            ),
            Fires(
                "(float[N, 1, 4] x) => (y) { t = Transpose<perm=[1, 0, 2]>(x) y = Flatten<axis=2>(t) }",
                "Squeeze",
            ),
        ],
        [X3 + "<int64[2] s = {-1, 4}> { t = Transpose<perm=[0, 2, 1]>(x) y = Reshape(t, s) }"],
    ),
    "MergeReductions": (
        [
            Fires(X3 + "<int64[1] a = {1}, int64[1] b = {2}> { r = ReduceMax(x, a) y = ReduceMax(r, b) }", "ReduceMax"),
            Fires(
                X3 + "<int64[1] a = {1}> { r = ReduceMin<keepdims=0>(x, a) y = ReduceMin<keepdims=0>(r, a) }",
                "ReduceMin",
            ),
        ],
        [
            X3 + "<int64[1] a = {1}, int64[1] b = {2}> { r = ReduceMax(x, a) y = ReduceMax<keepdims=0>(r, b) }",
            X3 + "<int64[1] a = {1}, int64[1] b = {2}> { r = ReduceMax(x, a) y = ReduceMin(r, b) }",
        ],
    ),
    "FoldSqueezeIntoReduction": (
        [
            Fires(X3 + "<int64[1] a = {1}> { r = ReduceSum<keepdims=0>(x, a) y = Unsqueeze(r, a) }", "ReduceSum"),
            Fires(X3 + "<int64[1] a = {1}> { r = ReduceSum(x, a) y = Squeeze(r, a) }", "ReduceSum"),
            Fires(X3 + "<int64[1] a = {2}> { r = ArgMax<axis=2>(x) y = Squeeze(r, a) }", "ArgMax"),
        ],
        [X3 + "<int64[1] a = {1}, int64[1] b = {0}> { r = ReduceSum<keepdims=0>(x, a) y = Unsqueeze(r, b) }"],
    ),
    "SpellTransposeOfOnes": (
        [
            Fires("(float[N, 1, 4] x) => (y) { y = Transpose<perm=[1, 0, 2]>(x) }", "Reshape"),
        ],
        [X3 + "{ y = Transpose<perm=[1, 0, 2]>(x) }"],
    ),
    "SpellReshape": (
        [
            Fires(
                "(float[N, M, 8] x) => (y) <int64[2] t = {2, 4}>"
                "{ s = Shape<end=2>(x) r = Concat<axis=0>(s, t) y = Reshape(x, r) }",
                "Reshape",
            ),
            Fires(
                "(float[N, 2, 4] x) => (y) <int64[1] t = {8}>"
                "{ s = Shape<end=1>(x) r = Concat<axis=0>(s, t) y = Reshape(x, r) }",
                "Reshape",
            ),
        ],
        [
            "(float[N, 6] x, float[M] z) => (y) <int64[1] t = {-1}>"
            "{ s = Shape(z) r = Concat<axis=0>(s, t) y = Reshape(x, r) }",
        ],
    ),
    "SpellExpand": (
        [
            Fires(
                "(float[N, 1] x) => (y) <int64[1] t = {4}>"
                "{ s = Shape<end=1>(x) r = Concat<axis=0>(s, t) y = Expand(x, r) }",
                "Expand",
            )
        ],
        ["(float[1, 4] x, float[N, 4] z) => (y) { s = Shape(z) y = Expand(x, s) }"],
    ),
    "SpellSlice": (
        [
            Fires(
                "(float[N, 4] x, float[N] w) => (y) <int64[1] z = {1}, int64[1] a = {0}>"
                "{ n = Shape(w) y = Slice(x, z, n, a) }",
                "Slice",
            )
        ],
        [
            "(float[N, 4] x, float[M] w) => (y) <int64[1] z = {1}, int64[1] a = {0}>"
            "{ n = Shape(w) y = Slice(x, z, n, a) }",
        ],
    ),
}
