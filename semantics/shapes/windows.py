"""Shape rules of operators over windows: convolutions, pools, resizing, sampling."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from xdsl.dialects.builtin import i32, i64

from ...dialects import onnx
from ...dialects.dims.expression import ONE, Dim, as_dim, dim_min
from .context import Context, Rules, ShapeError, Types, attribute_ints
from .elements import Ratio, row_major
from .scales import scaled_by

Pads = list[tuple[int, int]]


def _kernel(c: Context, weight: Sequence[Dim] | None, rank: int) -> list[Dim]:
    """The sizes of the window: the attribute's, else the weight's."""
    given = c.attr("kernel_shape")
    if given is not None:
        if len(given) != rank:
            raise ShapeError(f"kernel_shape has {len(given)} sizes for {rank} axes")
        sizes = [as_dim(k) for k in given]
        if weight is not None:
            sizes = [c.equal(w, k, "kernel_shape and the weight") for k, w in zip(sizes, weight[2:])]
        return sizes
    if weight is None:
        raise ShapeError("kernel_shape is missing")
    return list(weight[2:])


def _strides(c: Context, rank: int) -> list[int]:
    strides = attribute_ints(c, "strides", [1] * rank)
    if len(strides) != rank or min(strides, default=1) < 1:
        raise ShapeError(f"strides {strides} for {rank} axes")
    return strides


def _pads(c: Context, rank: int) -> Pads:
    pads = attribute_ints(c, "pads", [0] * (2 * rank))
    if len(pads) != 2 * rank:
        raise ShapeError(f"{len(pads)} pads for {rank} axes")
    return list(zip(pads[:rank], pads[rank:]))


def window_sizes(c: Context, spatial: Sequence[Dim], kernel: Sequence[Dim], ceil: bool = False) -> list[Dim]:
    """The output sizes of a convolution or pool over these axes."""
    rank = len(spatial)
    mode = c.attr("auto_pad")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        return [(d + (s - 1)) // s for d, s in zip(spatial, _strides(c, rank))]
    return _places(c, spatial, kernel, [(0, 0)] * rank if mode == "VALID" else _pads(c, rank), ceil)


def _places(c: Context, spatial: Sequence[Dim], kernel: Sequence[Dim], pads: Pads, ceil: bool = False) -> list[Dim]:
    """How many places a window has along each axis."""
    rank = len(spatial)
    strides, dilations = _strides(c, rank), attribute_ints(c, "dilations", [1] * rank)
    out: list[Dim] = []
    for size, k, stride, dilation, (before, after) in zip(spatial, kernel, strides, dilations, pads):
        reach = (k - 1) * dilation + 1
        padded = size + (before + after)
        # with `ceil` the only window may hang over, or there is none
        c.at_most(reach, padded + (2 * stride - 1 if ceil else 0), "the window fits into its input")
        steps = padded - reach
        if not ceil:
            out.append(steps // stride + 1)
            continue
        # the last window starts inside the input or the padding before it
        up = (steps + (stride - 1)) // stride
        out.append(dim_min(up, (size + (before - 1)) // stride) + 1)
    return out


def conv_dims(c: Context, x: Sequence[Dim], w: Sequence[Dim]) -> list[Dim]:
    if len(x) < 2 or len(w) != len(x):
        raise ShapeError(f"a convolution of rank {len(x)} with a weight of rank {len(w)}")
    group = c.attr("group")
    c.equal(x[1], w[1] * group, "the channels of the input and of the weight")
    if group > 1:
        c.divides(group, w[0], "the groups divide the output channels")
    return [x[0], w[0], *window_sizes(c, x[2:], _kernel(c, w, len(x) - 2))]


def conv(c: Context) -> Types:
    return [c.like(0, conv_dims(c, c.dims(0), c.dims(1)))]


def _channel_parameters(c: Context, channels: Dim, whole: Sequence[int], by_channel: Sequence[int]) -> None:
    """States that scales and zero points are one number, or may be one for each output channel."""
    for index in (*whole, *by_channel):
        if not c.has(index):
            continue
        dims = c.dims(index)
        may_vary = index in by_channel and len(dims) == 1
        for size in dims:
            wide = c.broadcast_dim(channels, size) if may_vary else size
            c.equal(wide, channels if may_vary else ONE, "one number, or one for each output channel")


def conv_integer(c: Context) -> Types:
    out = conv_dims(c, c.dims(0), c.dims(1))
    _channel_parameters(c, out[1], whole=(2,), by_channel=(3,))
    return [c.tensor(i32, out)]


def qlinear_conv(c: Context) -> Types:
    """Operands: x, its scale and zero point, w, its scale and zero point, y's scale and zero point, bias."""
    out = conv_dims(c, c.dims(0), c.dims(3))
    _channel_parameters(c, out[1], whole=(1, 2, 6, 7), by_channel=(4, 5))
    if c.has(8):
        c.equal(c.dims_of_rank(8, 1)[0], out[1], "one bias for each output channel")
    return [c.tensor(c.element(7), out)]


def deform_conv(c: Context) -> Types:
    x, w = c.dims(0), c.dims(1)
    if len(w) != len(x):
        raise ShapeError(f"DeformConv of rank {len(x)} with a weight of rank {len(w)}")
    c.equal(x[1], w[1] * c.attr("group"), "the channels of the input and of the weight")
    kernel = _kernel(c, w, len(x) - 2)
    rank = len(kernel)
    strides, dilations, pads = _strides(c, rank), attribute_ints(c, "dilations", [1] * rank), _pads(c, rank)
    out = [
        (d + (p[0] + p[1]) - ((k - 1) * e + 1)) // s + 1
        for d, k, s, e, p in zip(x[2:], kernel, strides, dilations, pads)
    ]
    offset = c.dims_of_rank(2, len(x))
    places = c.count(kernel) * c.attr("offset_group")
    c.equal(offset[1], places * rank, "the channels of DeformConv's offsets")
    if c.has(4):
        c.equal(c.dims_of_rank(4, len(x))[1], places, "the channels of DeformConv's mask")
    c.divides(c.attr("group"), w[0], "the groups divide the output channels")
    c.divides(c.attr("offset_group"), x[1], "the groups of offsets divide the channels")
    return [c.like(0, [x[0], w[0], *(c.equal(o, m, "the offsets of DeformConv") for o, m in zip(out, offset[2:]))])]


def conv_transpose(c: Context) -> Types:
    x, w = c.dims(0), c.dims(1)
    if len(x) < 2 or len(w) != len(x):
        raise ShapeError(f"a convolution of rank {len(x)} with a weight of rank {len(w)}")
    c.equal(x[1], w[0], "the channels of the input and of the weight")
    c.divides(c.attr("group"), x[1], "the groups divide the input channels")
    if c.has(2):
        c.equal(c.dims_of_rank(2, 1)[0], w[1] * c.attr("group"), "the bias and the output channels")
    rank = len(x) - 2
    shape = c.attr("output_shape")
    if shape is not None:
        if len(shape) not in (rank, rank + 2) or min(shape[-rank:], default=0) < 0:
            raise ShapeError(f"output_shape is {shape} for {rank} axes")
        return [c.like(0, [x[0], w[1] * c.attr("group"), *map(as_dim, shape[-rank:])])]
    strides, dilations = _strides(c, rank), attribute_ints(c, "dilations", [1] * rank)
    extra = attribute_ints(c, "output_padding", [0] * rank)
    mode = c.attr("auto_pad")
    out: list[Dim] = []
    for a, (size, k) in enumerate(zip(x[2:], _kernel(c, w, rank))):
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            if not k.is_const:
                c.at_most(strides[a], (k - 1) * dilations[a] + (1 + extra[a]), "pads of ConvTranspose are not negative")
            out.append(size * strides[a])
            continue
        before, after = (0, 0) if mode == "VALID" else _pads(c, rank)[a]
        length = (size - 1) * strides[a] + extra[a] + (k - 1) * dilations[a] + 1 - (before + after)
        c.at_most(0, length, "a size of ConvTranspose")
        out.append(length)
    return [c.like(0, [x[0], w[1] * c.attr("group"), *out])]


def pool(c: Context) -> Types:
    x = c.dims(0)
    if len(x) < 2:
        raise ShapeError(f"a pool of rank {len(x)}")
    out = window_sizes(c, x[2:], _kernel(c, None, len(x) - 2), bool(c.attr("ceil_mode")))
    return [c.like(0, [*x[:2], *out]), c.tensor(i64, [*x[:2], *out])]


def max_unpool(c: Context) -> Types:
    x = c.dims(0)
    rank = len(x) - 2
    if c.has(2):
        shape = c.ints(2)
        if shape is None:
            return [c.like(0, [c.fresh(0, a) for a in range(len(x))])]
        if len(shape) != len(x):
            raise ShapeError(f"its output_shape has {len(shape)} sizes, for data of rank {len(x)}")
        for size, wanted in zip(shape[:2], x):
            c.equal(size, wanted, "output_shape has the batch and channels of the data")
    else:
        kernel, strides, pads = _kernel(c, None, rank), _strides(c, rank), _pads(c, rank)
        out = [(d - 1) * s + k - (p[0] + p[1]) for d, s, k, p in zip(x[2:], strides, kernel, pads)]
        shape = (*x[:2], *out)
    for size in shape:
        c.at_most(0, size, "a size of MaxUnpool")
    c.reads(shape, x, "MaxUnpool into nothing")
    return [c.like(0, shape)]


def global_pool(c: Context) -> Types:
    x = c.dims(0)
    return [c.like(0, [*x[:2], *(ONE for _ in x[2:])])]


def max_roi_pool(c: Context) -> Types:
    return [c.like(0, [c.dims(1)[0], c.dims_of_rank(0, 4)[1], *c.attr("pooled_shape")])]


def roi_align(c: Context) -> Types:
    x, rois = c.dims_of_rank(0, 4), c.dims_of_rank(1, 2)
    c.equal(rois[0], c.dims_of_rank(2, 1)[0], "the boxes and batch indices of RoiAlign")
    c.reads(x[2:], [rois[0], x[1]], "RoiAlign of an image of size 0")
    return [c.like(0, [rois[0], x[1], c.attr("output_height"), c.attr("output_width")])]


def col2im(c: Context) -> Types:
    x = c.dims_of_rank(0, 3)
    image, block = c.ints(1), c.ints(2)
    if image is None or block is None:
        c.rank_by_length(2)
        return [c.open_rank(0, 1)]
    if len(image) != len(block):
        raise ShapeError(f"Col2Im has {len(image)} sizes of the image and {len(block)} of blocks")
    for name, each in (("strides", 1), ("dilations", 1), ("pads", 2)):
        given = c.attr(name)
        if given is not None and len(given) != each * len(image):
            raise ShapeError(f"its attribute '{name}' has {len(given)} numbers for {len(image)} axes")
    for each in image:
        c.at_most(0, each, "a size of the image of Col2Im")
    for each in block:
        c.at_most(1, each, "a size of the block of Col2Im")
    area = c.count(block)
    c.divides(area, x[1], "the block divides the columns' rows")
    c.equal(
        x[2],
        c.count(_places(c, image, block, _pads(c, len(image)))),
        "the columns of Col2Im are the places of its block",
    )
    return [c.like(0, [x[0], x[1] // area, *image])]


def grid_sample(c: Context) -> Types:
    x, grid = c.dims(0), c.dims_of_rank(1, c.rank(0))
    if len(x) < 3:
        raise ShapeError(f"GridSample of rank {len(x)}: there are no axes behind batch and channels")
    batch = c.equal(x[0], grid[0], "the batches of GridSample")
    c.equal(grid[-1], as_dim(len(x) - 2), "the coordinates of GridSample and the axes of its image")
    out = [batch, x[1], *grid[1:-1]]
    c.reads(x[2:], out, "GridSample of an image of size 0")
    return [c.like(0, out)]


def affine_grid(c: Context) -> Types:
    size = c.ints(1)
    theta = c.dims_of_rank(0, 3)
    if size is None and not theta[1].is_const:
        return [c.open_rank(0, 1)]
    if size is None:  # theta is [N, 2, 3] for images, [N, 3, 4] for volumes
        axes = theta[1].value
        return [c.like(0, [theta[0], *(c.fresh(0, a + 1) for a in range(axes)), axes])]
    if len(size) not in (4, 5):
        raise ShapeError(f"AffineGrid has {len(size)} sizes; an image has 4, a volume 5")
    c.equal(theta[0], size[0], "the batches of AffineGrid")
    c.equal(theta[1], as_dim(len(size) - 2), "the transformations of AffineGrid and the axes of its image")
    for each in size[2:]:
        c.at_most(0, each, "a size of AffineGrid")
    return [c.like(0, [size[0], *size[2:], len(size) - 2])]


# --- resize -----------------------------------------------------------------------------------------------------------


def resize(c: Context) -> Types:
    """Operands: x, roi, scales, sizes."""
    x = list(c.dims(0))
    axes = [c.axis(a, len(x)) for a in attribute_ints(c, "axes", range(len(x)))]
    crop = c.attr("coordinate_transformation_mode") == "tf_crop_and_resize"
    if crop and not _given(c, 1):
        raise ShapeError("tf_crop_and_resize needs the input 'roi'")
    if _given(c, 3) and _given(c, 2):
        raise ShapeError("it has both 'scales' and 'sizes'")
    if _given(c, 3):
        return [c.like(0, _resize_to(c, x, axes))]
    if not _given(c, 2):
        raise ShapeError("Resize has neither scales nor sizes")
    c.equal(c.dims(2)[0], as_dim(len(axes)), "the scales of Resize and its axes")
    _require_scales(c, 2)
    scales = c.elements(2)
    if scales is None:
        for a in axes:
            x[a] = c.fresh(0, a)
        return [c.like(0, x)]
    if scales.size != len(axes):
        raise ShapeError(f"Resize has {scales.size} scales for {len(axes)} axes")
    for at, (a, scale) in enumerate(zip(axes, row_major(scales))):
        size = None
        if isinstance(scale, Ratio) and (number := scale.constant) is not None and number <= 0:
            raise ShapeError(f"a scale of {float(number):g}, which is not above 0")
        if isinstance(scale, Ratio):
            size = _cropped(c, x[a], scale, at, len(axes)) if crop else _scaled(c, x[a], scale)
        x[a] = c.fresh(0, a) if size is None else size
    return [c.like(0, x)]


def _require_scales(c: Context, index: int) -> None:
    """Refuses constant scales that are not above 0, or not finite."""
    scales = c.constant(index)
    if scales is not None and not (np.isfinite(scales) & (scales > 0)).all():
        raise ShapeError(f"its scales are {scales.tolist()}, and must be above 0")


def _given(c: Context, index: int) -> bool:
    """Whether an operand is there and not the empty tensor by which older exporters leave one out."""
    return c.has(index) and not (len(c.dims(index)) == 1 and c.dims(index)[0] is as_dim(0))


def _resize_to(c: Context, x: list[Dim], axes: list[int]) -> list[Dim]:
    c.equal(c.dims(3)[0], as_dim(len(axes)), "the sizes of Resize and its axes")
    sizes = c.ints(3)
    policy = c.attr("keep_aspect_ratio_policy")
    if sizes is None or len(sizes) != len(axes):
        if sizes is not None:
            raise ShapeError(f"Resize has {len(sizes)} sizes for {len(axes)} axes")
        return [c.fresh(0, a) if a in axes else d for a, d in enumerate(x)]
    if policy in (None, "stretch"):
        for a, size in zip(axes, sizes):
            c.at_most(0, size, "a size of Resize")
            c.reads([x[a]], [size], "Resize of an axis of size 0")
            x[a] = size
        return x
    for a in axes:
        c.at_most(1, x[a], "Resize of an axis of size 0")
    if not all(d.is_const for d in (*sizes, *(x[a] for a in axes))):
        return [c.fresh(0, a) if a in axes else d for a, d in enumerate(x)]
    ratios = [np.float32(s.value) / np.float32(x[a].value) for a, s in zip(axes, sizes)]
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    for a in axes:
        x[a] = as_dim(int(np.floor(np.float32(ratio) * np.float32(x[a].value) + np.float32(0.5))))
    return x


def _scaled(c: Context, size: Dim, scale: Ratio) -> Dim | None:
    """floor(size * scale)."""
    exact = scale.constant
    return None if exact is None else scaled_by(c, size, exact)


def _cropped(c: Context, size: Dim, scale: Ratio, at: int, count: int) -> Dim | None:
    """With a region of interest: floor(size * (end - start) * scale)."""
    roi = c.elements(1)
    if roi is None or roi.size != 2 * count:
        return None
    start, end = row_major(roi)[at], row_major(roi)[at + count]
    if not isinstance(start, Ratio) or not isinstance(end, Ratio):
        return None
    low, high, by = start.constant, end.constant, scale.constant
    if low is None or high is None or by is None:
        return None
    return scaled_by(c, size, Fraction(float(np.float32(float(high)) - np.float32(float(low)))), by)


def upsample(c: Context) -> Types:
    x = list(c.dims(0))
    _require_scales(c, 1)
    scales = c.elements(1)
    for a in range(len(x)):
        scale = row_major(scales)[a] if scales is not None and scales.size == len(x) else None
        size = _scaled(c, x[a], scale) if isinstance(scale, Ratio) else None
        x[a] = c.fresh(0, a) if size is None else size
    return [c.like(0, x)]


RULES: Rules = {
    onnx.ConvOp: conv,
    onnx.ConvIntegerOp: conv_integer,
    onnx.QLinearConvOp: qlinear_conv,
    onnx.DeformConvOp: deform_conv,
    onnx.ConvTransposeOp: conv_transpose,
    onnx.AveragePoolOp: pool,
    onnx.MaxPoolOp: pool,
    onnx.LpPoolOp: pool,
    onnx.MaxUnpoolOp: max_unpool,
    onnx.GlobalAveragePoolOp: global_pool,
    onnx.GlobalMaxPoolOp: global_pool,
    onnx.GlobalLpPoolOp: global_pool,
    onnx.MaxRoiPoolOp: max_roi_pool,
    onnx.RoiAlignOp: roi_align,
    onnx.Col2ImOp: col2im,
    onnx.GridSampleOp: grid_sample,
    onnx.AffineGridOp: affine_grid,
    onnx.ResizeOp: resize,
    onnx.UpsampleOp: upsample,
}
