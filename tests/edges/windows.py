"""Operators over windows, images, sequences: every padding, ceilings, ragged lengths, interpolations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from .case import Case
from .values import F16, F32, F64, I8, I32, I64, U8, Rng, finite, hostile, ints, tame

AUTO = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def cases(rng: Rng) -> Iterator[Case]:
    yield from pools(rng)
    yield from convolutions(rng)
    yield from images(rng)
    yield from recurrences(rng)
    yield from attention(rng)
    yield from others(rng)


def window(rng: Rng, rank: int, size: int) -> dict[str, object]:
    """Attributes of a window that fits into `size`."""
    kernel = [int(k) for k in rng.integers(1, 4, rank)]
    dilations = [int(k) for k in rng.integers(1, 3, rank)]
    strides = [int(k) for k in rng.integers(1, 4, rank)]
    found: dict[str, object] = {"kernel_shape": kernel, "strides": strides}
    auto = AUTO[rng.integers(4)] if rng.random() < 0.5 else "NOTSET"
    if auto.startswith("SAME"):  # where a window is shorter than a step, references differ
        found["strides"] = [min(s, k) for s, k in zip(strides, kernel)]
    if auto == "NOTSET":
        found["dilations"] = dilations
    if auto == "NOTSET":
        found["pads"] = [int(rng.integers(0, k)) for k in kernel * 2]
    else:
        found["auto_pad"] = auto
    return found


def pools(rng: Rng) -> Iterator[Case]:
    for op in ("MaxPool", "AveragePool", "LpPool"):
        for _ in range(30):
            rank = int(rng.integers(1, 4))
            dtype = (F16, F32, F64)[rng.integers(3)] if op == "MaxPool" else F32  # which onnxruntime has, dilated
            if op == "MaxPool" and rng.random() < 0.4:
                dtype = (I8, U8)[rng.integers(2)]
            shape = (int(rng.integers(1, 3)), int(rng.integers(1, 3)), *(int(n) for n in rng.integers(5, 9, rank)))
            attributes = window(rng, rank, 5)
            if "auto_pad" not in attributes:
                attributes["ceil_mode"] = int(rng.integers(2))
            if op == "AveragePool":
                attributes["count_include_pad"] = int(rng.integers(2))
            if op == "LpPool":
                attributes["p"] = int(rng.integers(1, 4))
            if op == "MaxPool":
                attributes["storage_order"] = int(rng.integers(2)) if rank > 1 else 0
            yield Case(
                op,
                (tame(rng, shape, dtype),),
                attributes,
                results=2 if op == "MaxPool" and rank > 1 else 1,
                tolerance=64,
                scaled=True,
            )
    special = np.array([np.nan, -np.inf, 1, -np.inf, -np.inf, -np.inf, np.inf, np.nan, 2], F32).reshape(1, 1, 3, 3)
    yield Case("AveragePool", (special,), {"kernel_shape": [2, 2]})
    for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        for shape in ((2, 3, 4), (1, 2, 3, 4), (0, 2, 3), (2, 3, 1, 1, 2), (1, 0, 2)):
            yield Case(op, (tame(rng, shape, F32),), tolerance=64, scaled=True)
        yield Case(op, (tame(rng, (1, 2, 3, 4), F16),), tolerance=64, scaled=True)
        yield Case(op, (special,))


def convolutions(rng: Rng) -> Iterator[Case]:
    for _ in range(60):
        rank, group = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        dtype = (F32, F32, F64, F16)[rng.integers(4)]
        inputs, outputs = group * int(rng.integers(1, 4)), group * int(rng.integers(1, 4))
        attributes = window(rng, rank, 5) | {"group": group}
        kernel = attributes["kernel_shape"]
        assert isinstance(kernel, list)
        shape = (int(rng.integers(0, 3)), inputs, *(int(n) for n in rng.integers(5, 8, rank)))
        w, bias = tame(rng, (outputs, inputs // group, *kernel), dtype), tame(rng, (outputs,), dtype)
        operands = (tame(rng, shape, dtype), w, bias if rng.integers(2) else None)
        bias = bias if group == 1 or dtype == F32 else None  # the reference adds the first group's bias to all
        constants = (1,) if rng.integers(2) else ()
        yield Case("Conv", operands, attributes, tolerance=32, scaled=True, constants=constants)
        w = tame(rng, (inputs, outputs // group, *kernel), dtype)
        more = dict(attributes)
        if rng.random() < 0.4 and "auto_pad" not in more:
            strides = more["strides"]
            assert isinstance(strides, list)
            more["output_padding"] = [int(rng.integers(0, s)) for s in strides]
        yield Case(
            "ConvTranspose",
            (operands[0], w, bias if rng.integers(2) else None),
            more,
            tolerance=32,
            scaled=True,
            constants=constants,
        )
    for _ in range(10):
        attributes = window(rng, 2, 5)
        kernel = attributes["kernel_shape"]
        assert isinstance(kernel, list)
        x, w = hostile(rng, (1, 3, 6, 7), U8), hostile(rng, (4, 3, *kernel), I8)
        yield Case(
            "ConvInteger", (x, w.view(U8) if rng.integers(2) else w, np.array(rng.integers(256), U8)), attributes
        )
    for y_shape in ((9, 9), (10, 11)):
        yield Case(
            "ConvTranspose",
            (tame(rng, (1, 2, 5, 5), F32), tame(rng, (2, 3, 3, 3), F32)),
            {"strides": [2, 2], "output_shape": list(y_shape)},
            tolerance=32,
            scaled=True,
        )
    yield Case("Conv", (np.array([[[1, np.nan, 3, np.inf]]], F32), np.array([[[0.0, 1]]], F32)))


def images(rng: Rng) -> Iterator[Case]:
    modes = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric")
    for mode, transform in product(("nearest", "linear", "cubic"), modes):
        for k, (shape, sizes) in enumerate(
            (((1, 2, 4, 5), (1, 2, 7, 3)), ((1, 1, 5, 5), (1, 1, 1, 1)), ((2, 3, 1, 2), (2, 3, 3, 5)))
        ):
            attributes: dict[str, object] = {"mode": mode, "coordinate_transformation_mode": transform}
            if mode == "nearest":
                attributes["nearest_mode"] = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")[
                    rng.integers(4)
                ]
            if mode == "cubic":
                attributes |= {"cubic_coeff_a": -0.5, "exclude_outside": int(rng.integers(2))}
            if mode != "nearest" and k == 0:
                attributes["antialias"] = int(rng.integers(2))
            yield Case(
                "Resize",
                (finite(rng, shape, F32), None, None, ints(*sizes)),
                attributes,
                constants=(3,),
                tolerance=256,
                scaled=True,
            )
        for factors in ((1, 1, 0.6, 1.7), (1, 1, 2, 0.4)):
            x = finite(rng, (1, 1, 4, 5), F32)
            yield Case(
                "Resize",
                (x, None, np.array(factors, F32)),
                {"mode": mode, "coordinate_transformation_mode": transform},
                constants=(2,),
                tolerance=256,
                scaled=True,
            )
            yield Case(
                "Resize",
                (x, None, np.array(factors, F32)),
                {"mode": mode, "coordinate_transformation_mode": transform},
                tolerance=256,
                scaled=True,
            )
    for policy in ("stretch", "not_larger", "not_smaller"):
        yield Case(
            "Resize",
            (finite(rng, (1, 1, 4, 6), F32), None, None, ints(7, 8)),
            {"axes": [2, 3], "keep_aspect_ratio_policy": policy},
            constants=(3,),
        )
    for dtype in (U8, I8, I32, F16, F64):
        yield Case(
            "Resize",
            (tame(rng, (1, 1, 3, 3), dtype), None, None, ints(1, 1, 5, 6)),
            {"mode": "nearest"},
            constants=(3,),
        )
    for mode, padding, corners in product(("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)):
        grid = (rng.random((1, 3, 4, 2)) * 3 - 1.5).astype(F32)
        yield Case(
            "GridSample",
            (finite(rng, (1, 2, 5, 4), F32), grid),
            {"mode": mode, "padding_mode": padding, "align_corners": corners},
            tolerance=1024,
            scaled=True,
        )
    for mode, transform in product(("avg", "max"), ("half_pixel", "output_half_pixel")):
        rois = np.array([[0.5, 0.5, 3, 3.5], [1, 1, 1.2, 1.1], [-1, -1, 6, 6]], F32)
        attributes = {
            "output_height": 2,
            "output_width": 3,
            "sampling_ratio": 2,
            "mode": mode,
            "coordinate_transformation_mode": transform,
        }
        yield Case(
            "RoiAlign", (finite(rng, (2, 2, 5, 5), F32), rois, ints(0, 1, 0)), attributes, tolerance=256, scaled=True
        )
    yield Case(
        "MaxRoiPool",
        (tame(rng, (1, 2, 6, 6), F32), np.array([[0, 1, 1, 4, 4], [0, 0, 0, 5, 2]], F32)),
        {"pooled_shape": [2, 2]},
    )
    yield Case("AffineGrid", (finite(rng, (2, 2, 3), F32), ints(2, 1, 3, 4)), constants=(1,), tolerance=64, scaled=True)
    yield Case(
        "AffineGrid",
        (finite(rng, (1, 3, 4), F32), ints(1, 1, 2, 3, 4)),
        {"align_corners": 1},
        constants=(1,),
        tolerance=64,
        scaled=True,
    )
    yield Case(
        "Col2Im", (tame(rng, (1, 8, 9), F32), ints(4, 4), ints(2, 2)), constants=(1, 2), tolerance=16, scaled=True
    )
    yield Case(
        "Col2Im",
        (tame(rng, (1, 4, 5), F32), ints(5), ints(2)),
        {"dilations": [1], "pads": [0, 1]},
        constants=(1, 2),
        tolerance=16,
        scaled=True,
    )
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 0, 1, 1], [1, 1, 0, 0], [0, 10, 1, 11]]], F32)
    scores = np.array([[[0.9, 0.75, 0.9, 0.5, 0.3], [0.1, np.nan, 0.1, 0.1, 0.1]]], F32)
    for center, most in ((0, 3), (1, 2), (0, 0)):
        limits = (ints(most), np.array([0.5], F32), np.array([0.2], F32))
        yield Case("NonMaxSuppression", (boxes, scores[:, :1], *limits), {"center_point_box": center})


def recurrences(rng: Rng) -> Iterator[Case]:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}
    for op, count in gates.items():
        for direction, layout in product(("forward", "reverse", "bidirectional"), (0, 1)):
            d = 2 if direction == "bidirectional" else 1
            steps, batch, size, hidden = 4, 3, 2, 5
            x = finite(rng, (batch, steps, size) if layout else (steps, batch, size), F32)
            w, r = finite(rng, (d, count * hidden, size), F32), finite(rng, (d, count * hidden, hidden), F32)
            bias, lengths = finite(rng, (d, 2 * count * hidden), F32), np.array([4, 1, 2], I32)
            state = finite(rng, (batch, d, hidden) if layout else (d, batch, hidden), F32)
            results = 3 if op == "LSTM" else 2
            for operands in (
                (x, w, r),
                (x, w, r, bias),
                (x, w, r, bias, lengths),
                (x, w, r, None, None, state),
                (x, w, r, bias, lengths, state),
            ):
                attributes = {"hidden_size": hidden, "direction": direction, "layout": layout}
                if op == "GRU":
                    attributes["linear_before_reset"] = int(rng.integers(2))
                if layout and len(operands) > 4 and operands[4] is not None:
                    continue  # no reference heeds lengths there
                if rng.random() < 0.3 and op != "LSTM" and not layout:  # the reference has no clip
                    attributes["clip"] = 0.5
                yield Case(op, operands, attributes, results=results, tolerance=512, scaled=True)


def attention(rng: Rng) -> Iterator[Case]:
    for dtype in (F32, F16):
        for _ in range(12):
            heads, shared = 4, int(rng.choice([1, 2, 4]))
            b, m, n, size, out = 2, int(rng.integers(1, 4)), int(rng.integers(1, 6)), 8, int(rng.choice([8, 4]))
            q, k, v = (
                finite(rng, (b, heads, m, size), dtype),
                finite(rng, (b, shared, n, size), dtype),
                finite(rng, (b, shared, n, out), dtype),
            )
            kind = rng.integers(4)
            mask = (
                None,
                finite(rng, (m, n), dtype),
                tame(rng, (b, 1, m, n), np.dtype(bool)),
                finite(rng, (b, heads, m, n), dtype),
            )[kind]
            if mask is not None and mask.dtype == bool:
                mask[..., 0] = True
            attributes = {
                "is_causal": int(rng.integers(2)),
                "softcap": float(rng.choice([0.0, 2.0])),
                "scale": float(rng.choice([0.5, 1.0])),
            }
            yield Case("Attention", (q, k, v, mask), attributes, opset=24, tolerance=1024, scaled=True)
    for interleaved, turned in product((0, 1), (0, 4)):
        x = finite(rng, (2, 3, 4, 8), F32)
        width = (turned or 8) // 2
        cos, sin = finite(rng, (10, width), F32), finite(rng, (10, width), F32)
        places = rng.integers(0, 10, (2, 4))
        yield Case(
            "RotaryEmbedding",
            (x, cos, sin, places),
            {"interleaved": interleaved, "rotary_embedding_dim": turned},
            tolerance=64,
            scaled=True,
        )


def others(rng: Rng) -> Iterator[Case]:
    for inverse, onesided, shape in (
        (0, 0, (2, 8, 1)),
        (1, 0, (1, 5, 2)),
        (0, 1, (2, 7, 1)),
        (0, 0, (3, 12, 2)),
        (0, 0, (1, 1, 1)),
        (0, 0, (2, 67, 2)),
    ):
        yield Case(
            "DFT",
            (finite(rng, shape, F32), None, np.array(1, I64)),
            {"inverse": inverse, "onesided": onesided},
            constants=(2,),
            tolerance=2048,
            scaled=True,
        )
    yield Case(
        "DFT",
        (finite(rng, (1, 6, 1), F32), np.array(9, I64), np.array(-2, I64)),
        constants=(1, 2),
        tolerance=2048,
        scaled=True,
    )
    yield Case(
        "STFT",
        (finite(rng, (1, 20, 1), F32), np.array(4, I64), finite(rng, (8,), F32)),
        constants=(1,),
        tolerance=2048,
        scaled=True,
    )
    for reduction, weighted in product(("none", "mean", "sum"), (0, 1)):
        x, target = finite(rng, (3, 5, 2), F32), rng.integers(0, 5, (3, 2))
        weight = np.abs(finite(rng, (5,), F32))
        attributes = {"reduction": reduction, "ignore_index": int(target[0, 0])}
        operands = (x, target, weight) if weighted else (x, target)
        yield Case("NegativeLogLikelihoodLoss", operands, attributes, tolerance=256, scaled=True)
        yield Case("SoftmaxCrossEntropyLoss", operands, attributes, results=2, tolerance=256, scaled=True)
    yield Case(
        "MelWeightMatrix",
        (np.array(8, I64), np.array(16, I64), np.array(8000, I64), np.array(0.0, F32), np.array(4000.0, F32)),
        constants=(0, 1, 2, 3, 4),
        tolerance=64,
        scaled=True,
    )
    pooled = np.array([[[[5, 6], [7, 8]]]], F32)
    yield Case(
        "MaxUnpool", (pooled, np.array([[[[5, 7], [13, 15]]]], I64)), {"kernel_shape": [2, 2], "strides": [2, 2]}
    )
    yield Case(
        "MaxUnpool",
        (pooled, np.array([[[[5, 7], [13, 15]]]], I64), ints(1, 1, 5, 5)),
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        constants=(2,),
    )
