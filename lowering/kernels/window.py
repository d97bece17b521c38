"""The geometry of windows over images: convolution's attributes, and images laid out so that a window is one offset.

A convolution reads x[o * stride - before + k * dilation] for each output position o and tap k.  With the padded image
split into phases (every stride-th row and column, from each of the first `stride`), that is image[phase][o + shift],
where phase and shift depend on the tap alone.  Flat, with the rows of a phase one behind the other, position (o0, o1)
is q = o0 * pitch + o1, and a tap adds one constant to q.  So vectors run along q, over the ends of rows: what they give
between the rows is not stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim
from ...dialects.dims.expression import dim_max
from .operands import dims_list, integers, number

ONE, ZERO = as_dim(1), as_dim(0)


def product(dims: Sequence[Dim]) -> Dim:
    return reduce(lambda a, b: a * b, dims, ONE)


@dataclass(frozen=True)
class Axis:
    """One spatial axis: input and output sizes, the window, and the padding before the first element.

    `after` is the padding that windows reach behind the last element.
    """

    size: Dim
    out: Dim
    kernel: Dim
    stride: int
    dilation: int
    before: Dim

    @property
    def reach(self) -> Dim:
        """What the last tap adds to the first one's position."""
        return (self.kernel - 1) * self.dilation

    @property
    def padded(self) -> Dim:
        """The length, in input elements, that windows read from."""
        return (self.out - 1) * self.stride + self.reach + 1

    @property
    def after(self) -> Dim:
        """The padding behind; negative where windows do not read all of the input."""
        return self.padded - self.before - self.size

    @property
    def phases(self) -> int:
        """The number of phases that are kept: one is enough for a window of one element."""
        return 1 if self.kernel == ONE else self.stride

    @property
    def extent(self) -> Dim:
        """Elements of a phase that windows read."""
        return self.out + self.reach // self.stride

    @property
    def is_plain(self) -> bool:
        """Whether the input is its own only phase."""
        return self.stride == 1 and self.before == ZERO and self.after == ZERO


@dataclass(frozen=True)
class Windows:
    """All spatial axes, and the layout of a channel's phases."""

    axes: tuple[Axis, ...]

    @property
    def is_plain(self) -> bool:
        """Whether vectors can run over the input as it is."""
        return all(a.is_plain for a in self.axes)

    @property
    def is_flat(self) -> bool:
        """Whether consecutive positions q are consecutive elements of the output: no garbage between rows."""
        return all(a.out == p for a, p in zip(self.axes[1:], self.extents[1:]))

    @property
    def extents(self) -> tuple[Dim, ...]:
        """The sizes of a phase.  The padding behind a row may be that before the next one."""
        last = self.axes[-1]
        row = last.extent
        if last.stride == 1 and last.after.is_const and last.after.value >= 0:
            row = dim_max(last.size + dim_max(last.before, last.after), last.out)
        return (*(a.extent for a in self.axes[:-1]), row)

    @property
    def row_elements(self) -> Dim:
        """Elements of a row that are written: the padding behind the last row has its own place."""
        last = self.axes[-1]
        return last.padded if last.stride == 1 else last.extent

    @property
    def phase(self) -> Dim:
        """Elements from one phase to the next."""
        size = product(self.extents) + (self.row_elements - self.extents[-1])
        if not size.is_const:
            return size
        # planes that are a multiple of 4 KB apart would all be in the same lines of L1
        rounded = -(-size.value // 16) * 16
        return as_dim(rounded + 16 if rounded % 1024 == 0 else rounded)

    @property
    def phases(self) -> int:
        total = 1
        for axis in self.axes:
            total *= axis.phases
        return total

    @property
    def channel(self) -> Dim:
        """Elements from one channel to the next."""
        return self.phase * self.phases

    @property
    def pitches(self) -> tuple[Dim, ...]:
        """What a step on each axis adds to q."""
        return tuple(product(self.extents[i + 1 :]) for i in range(len(self.axes)))

    @property
    def positions(self) -> Dim:
        """One more than the last position q that is an output element."""
        last = ONE
        for axis, pitch in zip(self.axes, self.pitches):
            last = last + (axis.out - 1) * pitch
        return last

    @property
    def taps(self) -> Dim:
        return product([a.kernel for a in self.axes])

    @property
    def outputs(self) -> Dim:
        return product([a.out for a in self.axes])


@dataclass(frozen=True)
class Convolution:
    """One convolution: x[images, groups * depth, ...] with w[groups * rows, depth, ...]."""

    images: Dim
    groups: int
    depth: Dim
    rows: Dim
    windows: Windows

    @property
    def steps(self) -> Dim:
        """Products to a sum."""
        return self.depth * self.windows.taps


def read_convolution(
    op: kernel.TemplateOp, x: tuple[Dim, ...], w: tuple[Dim, ...] | None, result: tuple[Dim, ...]
) -> Convolution:
    """From the op's config and the dims of its operands; w None where it is packed (then `kernel_shape` is there)."""
    rank = len(x) - 2
    groups = number(op, "group") or 1
    kernel_shape = dims_list(op, "kernel_shape") or (w[2:] if w is not None else ())
    if len(kernel_shape) != rank:
        raise ValueError("a convolution with packed weights needs its kernel_shape")
    strides = integers(op, "strides") or [1] * rank
    dilations = integers(op, "dilations") or [1] * rank
    pads = dims_list(op, "pads") or (ZERO,) * (2 * rank)
    axes = tuple(Axis(x[2 + i], result[2 + i], kernel_shape[i], strides[i], dilations[i], pads[i]) for i in range(rank))
    return Convolution(x[0], groups, x[1] // groups, result[1] // groups, Windows(axes))
