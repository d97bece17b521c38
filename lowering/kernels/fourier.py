"""Templates "dft" and "stft": Fourier transforms of lines of any length.

A few lines are transformed side by side, so that every step runs on vectors.  Stockham's algorithm takes a factor of
the length at a time (4, 2, or the least odd one) and needs no reordering; where a prime factor is large, Bluestein's
makes a convolution of the transform, whose length is then a power of two.  Factors are found at run time, so one kernel
serves for any length; what is known of it while building is left out.  An inverse transform is the conjugate of the
transform of the conjugate.  Complex numbers of up to 32 bits are transformed in f32; real ones in f64, since much
cancels in their spectra.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import pi

from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, SSAValue

from ...dialects import kernel
from ...dialects.dims import Dim, as_dim
from ...dialects.dims.expression import dim_max
from ..element_types import byte_width
from ..loop_builder import INDEX
from ..policy import GRAIN_CYCLES
from ..template import TemplateContext, whole
from .emit import F64, Emitter, Ix
from .fourier_stages import Complex, Stage
from .operator import Operator
from .register_tile import Products

LARGEST_FACTOR = 61
"""An odd prime factor up to this is transformed by its definition, which is then cheaper than Bluestein's way."""


@dataclass(frozen=True)
class Lines:
    """Where the lines are: `count` of them, at `bases(line)` in the signal and in the result, in elements.

    The element k of a line is `stride * k` further; from `available` on it is 0.  Where `width` is 2 it has an
    imaginary part behind it.  With `mirrored` only the first half is there: the rest are its conjugates.
    """

    count: Ix
    bases: Callable[[Ix], tuple[Ix, Ix]]
    stride: Ix
    available: Ix
    width: Ix
    written: Ix
    """Elements of the result's lines."""
    result_stride: Ix
    result_pairs: bool
    inverse: bool = False
    mirrored: bool = False
    window: SSAValue | None = None


def dft(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Along an axis, which may be data; with `dft_length` cut or filled up with zeros."""
    operator = Operator(context, op)
    e, dims, result = operator.e, operator.dims(0), operator.result_dims(0)
    inverse, onesided = bool(operator.attr("inverse", 0)), bool(operator.attr("onesided", 0))
    axes = range(len(dims) - 1)
    known = operator.constant(2) if operator.has(2) else [-2]
    if known is not None:
        axes = [int(known[0]) % len(dims)]
        axis = e.ix(axes[0])
    else:
        given = e.as_index(e.load(operator.buffer(2), 0))
        axis = e.select_index(given.compare("slt", 0), given + len(dims), given)
        inside = axis.compare("ult", len(dims) - 1)
        e.check(
            inside,
            "value",
            "DFT: 'axis' is {0}; of the rank {1}, the last has real and imaginary parts",
            [given.ssa, e.ix(len(dims)).ssa],
        )
        axis = e.select_index(inside, axis, 0)

    def sizes(of: Sequence[Dim]) -> tuple[Ix, Ix, Ix]:
        """How many elements stand before the axis, on it, and behind it, without the parts of a number."""
        parts = [(whole(*of[:a]), of[a], whole(*of[a + 1 : -1])) for a in axes]
        found = [e.dim(size) for size in parts[-1]]
        for a, part in reversed(list(zip(axes, parts))[:-1]):
            here = axis.compare("eq", a)
            found = [e.select_index(here, e.dim(new), old) for new, old in zip(part, found)]
        return found[0], found[1], found[2]

    before, count, behind = sizes(dims)
    _, written, _ = sizes(result)
    own = (count - 1) * 2 if inverse and onesided else count
    length = own
    if operator.has(1):
        constant = operator.constant(1)
        length = e.ix(int(constant[0])) if constant is not None else e.as_index(e.load(operator.buffer(1), 0))
    bound = as_dim(1)
    for a in axes:
        bound = dim_max(bound, result[a] * 2 - 1 if onesided and not inverse else result[a])
    width, wide = width_of(e, dims[-1]), 2 if result[-1] is as_dim(2) else 1

    def bases(line: Ix) -> tuple[Ix, Ix]:
        outer, inner = line // behind, line % behind
        return (outer * count * behind + inner) * width, (outer * written * behind + inner) * wide

    lines = Lines(
        before * behind, bases, behind * width, count, width, written, behind * wide, wide == 2,
        inverse, inverse and onesided,
    )  # fmt: skip
    run(context, operator, lines, length, bound)


def stft(context: TemplateContext, op: kernel.TemplateOp) -> None:
    """Of frames of the signal, each multiplied by a window."""
    operator = Operator(context, op)
    e, dims, result = operator.e, operator.dims(0), operator.result_dims(0)
    onesided = bool(operator.attr("onesided", 1))
    constant = operator.constant(1)
    step = e.ix(int(constant[0])) if constant is not None else e.as_index(e.load(operator.buffer(1), 0))
    if operator.has(2):
        length = e.dim(operator.dims(2)[0])
    elif not operator.has(3):
        length = e.dim(dims[1])
    else:
        constant = operator.constant(3)
        length = e.ix(int(constant[0])) if constant is not None else e.as_index(e.load(operator.buffer(3), 0))
    batch, frames, bins, _ = (e.dim(d) for d in result)
    samples, width = e.dim(dims[1]), width_of(e, dims[2])

    def bases(line: Ix) -> tuple[Ix, Ix]:
        return (line // frames * samples + line % frames * step) * width, line * bins * 2

    lines = Lines(
        batch * frames, bases, width, length, width, bins, e.ix(2), True,
        window=operator.buffer(2) if operator.has(2) else None,
    )  # fmt: skip
    bound = result[2] * 2 - 1 if onesided else result[2]
    run(context, operator, lines, length, dim_max(bound, as_dim(1)))


def run(context: TemplateContext, operator: Operator, lines: Lines, length: Ix, bound: Dim) -> None:
    """The transforms; where the number of parts is not known, one of two kernels, whose precisions may differ."""
    e, width = operator.e, lines.width
    if width.known is not None:
        Transform(context, operator, lines, length, bound).run()
        return
    with e.when(width.compare("eq", 2)):
        Transform(context, operator, replace(lines, width=e.ix(2)), length, bound).run()
    with e.when(width.compare("ne", 2)):
        Transform(context, operator, replace(lines, width=e.ix(1)), length, bound).run()


def width_of(e: Emitter, size: Dim) -> Ix:
    """1 for real numbers, 2 for complex ones."""
    width = e.dim(size)
    if width.known is None:
        is_valid = e.bits("or", width.compare("eq", 1), width.compare("eq", 2))
        e.check(
            is_valid,
            "value",
            "DFT: the last axis has size {0}, and must have 1 or 2",
            [width.ssa],
        )
    return width


def is_smooth(length: int) -> bool:
    """Whether all prime factors are small enough."""
    for factor in range(2, LARGEST_FACTOR + 1):
        while length % factor == 0:
            length //= factor
    return length == 1


def power_above(length: int) -> int:
    """The least power of two that holds a cyclic convolution of that length."""
    return 1 << (2 * length - 2).bit_length()


class Transform:
    """One kernel's transforms. `size` is the length that Stockham's algorithm runs on."""

    def __init__(self, context: TemplateContext, operator: Operator, lines: Lines, length: Ix, bound: Dim) -> None:
        self.context, self.operator, self.lines = context, operator, lines
        self.e = e = operator.e
        self.x, self.y = operator.buffer(0), operator.result_buffer(0)
        self.products = Products(operator.kind(0).ir)
        self.t: Attribute = self.products.sums if lines.width.known == 2 else F64
        self.lanes = e.target.lanes(byte_width(self.t))
        self.together = self.lanes if lines.count.known is None else max(1, min(self.lanes, lines.count.known))
        if length.known is None:
            e.check(length.compare("sgt", 0), "value", "DFT: the length is {0}, and must be at least 1", [length.ssa])
            length = length.max(1)
        self.length = length
        self._choose(bound)

    def _choose(self, bound: Dim) -> None:
        """The size, by which algorithm, and room for them."""
        e, n = self.e, self.length.known
        self.may_be_direct = n is None or is_smooth(n)
        self.may_be_chirped = n is None or not is_smooth(n)
        if n is not None:
            self.size = e.ix(n if is_smooth(n) else power_above(n))
            self.chirped = e.ix(0 if is_smooth(n) else 1)
            room: Dim = as_dim(self.size.known or 1)
        else:
            smooth = self._is_smooth()
            self.size = e.select_index(smooth, self.length, self._power_above())
            self.chirped = e.select_index(smooth, 0, 1)
            room = 4 * bound
        self.room = room
        self.radices = self._radices()
        scratch = self.context.scratch
        self.twiddles = scratch(self.t, room), scratch(self.t, room)
        self.chirp = (scratch(self.t, bound), scratch(self.t, bound)) if self.may_be_chirped else None

    def _radices(self) -> set[int]:
        """Which steps can occur; 0 stands for an odd factor."""
        size = self.size.known
        if size is None:
            return {0, 2, 4, 5}
        power = size & -size
        found = {4} if power > 2 else set[int]()
        if power.bit_length() % 2 == 0:
            found.add(2)
        odd = size // power
        if odd % 5 == 0:
            found.add(5)
        while odd % 5 == 0:
            odd //= 5
        return found | ({0} if odd != 1 else set[int]())

    def _is_smooth(self) -> SSAValue:
        """As `is_smooth`, at run time: what is left of the length without small factors is 1."""
        e = self.e

        def goes_on(state: tuple[SSAValue, ...]) -> SSAValue:
            return e.ix(state[1]).compare("sle", LARGEST_FACTOR)

        def step(state: tuple[SSAValue, ...]) -> list[SSAValue]:
            left, factor = e.ix(state[0]), e.ix(state[1])
            divides = (left % factor).compare("eq", 0)
            return [
                e.select_index(divides, left // factor, left).ssa,
                e.select_index(divides, factor, factor + 1).ssa,
            ]

        left = e.ix(e.while_([self.length.ssa, e.ix(2).ssa], goes_on, step)[0])
        return left.compare("eq", 1)

    def _power_above(self) -> Ix:
        e = self.e
        least = self.length * 2 - 1
        [power] = e.while_(
            [e.ix(1).ssa],
            lambda state: e.ix(state[0]).compare("slt", least),
            lambda state: [(e.ix(state[0]) * 2).ssa],
        )
        return e.ix(power)

    # Tables

    def make_tables(self) -> None:
        """exp(-2 pi i k / size), and exp(-pi i k^2 / length) where a chirp is needed."""
        e, lanes = self.e, self.e.target.lanes(8)
        step = e.div(e.constant(-2 * pi, F64), e.as_float(self.size, F64))
        with e.loop(0, self.size, lanes) as loop:
            mask = e.mask(self.size - loop.index, lanes)
            places = e.convert("sitofp", e.convert("index_cast", e.ramp(loop.index, 1, lanes), i64), F64)
            angle = e.mul(places, e.splat(step, lanes))
            for name, table in zip(("cos", "sin"), self.twiddles):
                e.store_vector(e.convert("truncf", e.math(name, angle), self.t), table, loop.index, mask)
        if self.chirp is not None:
            step = e.div(e.constant(-pi, F64), e.as_float(self.length, F64))
            with e.loop(0, self.length * self.chirped) as loop:
                turns = loop.index * loop.index % (self.length * 2)
                angle = e.mul(e.as_float(turns, F64), step)
                for name, table in zip(("cos", "sin"), self.chirp):
                    e.store(e.convert("truncf", e.math(name, angle), self.t), table, loop.index)

    # The run

    def run(self) -> None:
        e, lines = self.e, self.lines
        self.make_tables()
        groups = lines.count.ceildiv(self.together)
        work = (self.size * 16 * (1 + 3 * int(self.may_be_chirped))).max(1)
        with e.parallel(groups, e.ix(GRAIN_CYCLES) // work + 1) as (lower, upper, thread):
            self._take_scratch(thread)
            first = lower - self.chirped if self.may_be_chirped else lower
            with e.loop(first, upper) as group:
                line = group.index * self.together
                present = (lines.count - line).min(self.together)
                if self.may_be_chirped:
                    # one more turn, before the lines: the chirp's own transform
                    own = group.index.compare("slt", lower)
                    self._transform_chirped(line, e.select_index(own, 1, present), own)
                else:
                    self._transform_group(line, present)

    def _take_scratch(self, thread: SSAValue) -> None:
        scratch = self.context.scratch
        self.half = self.size * self.together
        self.work = [scratch(self.t, self.room * (2 * self.together), thread) for _ in range(2)]
        """Real and imaginary parts, [2 halves, size, lines]."""
        self.places = [scratch(INDEX, self.together, thread) for _ in range(2)]
        if self.may_be_chirped:
            self.response = [scratch(self.t, self.room, thread) for _ in range(2)]

    def _transform_group(self, line: Ix, present: Ix) -> None:
        self._find_places(line, present)
        self._load(present)
        half = self._stages(present, self.e.ix(0))
        self._store(present, half)

    def _transform_chirped(self, line: Ix, present: Ix, own: SSAValue) -> None:
        """Lines times the chirp, transformed, times the chirp's transform, and transformed back."""
        e = self.e
        others = e.flip(own)
        with e.when(own):
            self._load_chirp()
        with e.when(others):
            self._find_places(line, present)
            self._load(present)
        passes = e.select_index(own, 1, self.chirped + 1)
        with e.loop(0, passes, carried=[e.ix(0).ssa]) as turn:
            half = self._stages(present, e.ix(turn.carried[0]))
            again = e.both((turn.index + 1).compare("slt", passes), others)
            with e.when(again):
                self._respond(present, half)
            turn.carry([half.ssa])
        half = e.ix(turn.results[0])
        with e.when(own), e.loop(0, self.size) as loop:
            for part, dest in zip(self.work, self.response):
                e.store(e.load(part, half * self.half + loop.index), dest, loop.index)
        with e.when(others):
            self._store(present, half)

    def _find_places(self, line: Ix, present: Ix) -> None:
        """Where each of the lines begins."""
        e = self.e
        with e.loop(0, present) as loop:
            for base, place in zip(self.lines.bases(line + loop.index), self.places):
                e.store(base.ssa, place, loop.index)

    # Loading and storing: `present` lines side by side

    def _load(self, present: Ix) -> None:
        e, lines, n = self.e, self.lines, self.length
        with e.loop(0, self.size) as loop:
            k = loop.index
            source, is_mirrored = k, None
            if lines.mirrored:
                is_mirrored = (k * 2).compare("sgt", n)
                source = e.select_index(is_mirrored, n - k, k)
            is_there = e.both(source.compare("slt", lines.available), k.compare("slt", n))
            mask = e.mask(e.select_index(is_there, present, 0), self.lanes)
            places = e.add(
                e.load_vector(self.places[0], 0, self.lanes, mask),
                e.splat((source * lines.stride).ssa, self.lanes),
            )
            real = self._gather(places, mask)
            imaginary = e.constant(0.0, self.t, self.lanes)
            if lines.width.known == 2:
                one = e.constant(1, INDEX, self.lanes)
                imaginary = self._gather(e.add(places, one), mask)
                if lines.mirrored:
                    assert is_mirrored is not None
                    is_real = e.bits("or", k.compare("eq", 0), (k * 2).compare("eq", n))
                    zero = e.constant(0.0, self.t, self.lanes)
                    imaginary = e.select(is_real, zero, e.select(is_mirrored, self._negated(imaginary), imaginary))
                if lines.inverse:
                    imaginary = self._negated(imaginary)
            value = real, imaginary
            if lines.window is not None:
                weight = self._window(lines.window, k)
                value = e.mul(real, weight), e.mul(imaginary, weight)
            value = self._times_chirp(value, k, e.constant(0.0, self.t), self.lanes)
            store = e.mask(present, self.lanes)
            for part, number in zip(self.work, value):
                e.store_vector(number, part, k * present, store)

    def _gather(self, places: SSAValue, mask: SSAValue) -> SSAValue:
        value = self.products.widen(self.e, self.e.gather(self.x, places, mask))
        return self.e.convert("extf", value, self.t)

    def _window(self, window: SSAValue, k: Ix) -> SSAValue:
        e = self.e
        at = k.min(self.length - 1)
        return e.splat(e.convert("extf", self.products.load(e, window, at), self.t), self.lanes)

    def _negated(self, value: SSAValue) -> SSAValue:
        return self.e.mul(value, self.e.constant(-1.0, self.t, self.lanes))

    def _times_chirp(self, value: Complex, k: Ix, beyond: SSAValue, lanes: int) -> Complex:
        """Multiplied by the chirp, or by `beyond` behind its end; as it is where there is no chirp."""
        if self.chirp is None:
            return value
        e = self.e
        inside = k.compare("slt", self.length)
        at = e.select_index(inside, k, 0)
        is_chirped = self.chirped.compare("eq", 1)
        ones = e.constant(1.0, self.t), e.constant(0.0, self.t)
        factors = [e.select(inside, e.load(table, at), beyond) for table in self.chirp]
        if self.may_be_direct:
            factors = [e.select(is_chirped, f, one) for f, one in zip(factors, ones)]
        return self.product(value, (e.splat(factors[0], lanes), e.splat(factors[1], lanes)))

    def product(self, a: Complex, b: Complex) -> Complex:
        e = self.e
        real = e.sub(e.mul(a[0], b[0]), e.mul(a[1], b[1]))
        return real, e.add(e.mul(a[0], b[1]), e.mul(a[1], b[0]))

    def _load_chirp(self) -> None:
        """The conjugate chirp, from both ends, as one line."""
        e, n = self.e, self.length
        assert self.chirp is not None
        with e.loop(0, self.size) as loop:
            k, back = loop.index, self.size - loop.index
            ahead, behind = k.compare("slt", n), back.compare("slt", n)
            at = e.select_index(ahead, k, e.select_index(behind, back, 0))
            is_there = e.bits("or", ahead, behind)
            zero = e.constant(0.0, self.t)
            real = e.select(is_there, e.load(self.chirp[0], at), zero)
            imaginary = e.select(is_there, e.sub(zero, e.load(self.chirp[1], at)), zero)
            e.store(real, self.work[0], k)
            e.store(imaginary, self.work[1], k)

    def _respond(self, present: Ix, half: Ix) -> None:
        """Times the chirp's transform, and conjugated."""
        e, lanes = self.e, self.lanes
        mask = e.mask(present, lanes)
        with e.loop(0, self.size) as loop:
            at = loop.index * present + half * self.half
            value = tuple(e.load_vector(part, at, lanes, mask) for part in self.work)
            factor = tuple(e.splat(e.load(part, loop.index), lanes) for part in self.response)
            real, imaginary = self.product((value[0], value[1]), (factor[0], factor[1]))
            e.store_vector(real, self.work[0], at, mask)
            e.store_vector(self._negated(imaginary), self.work[1], at, mask)

    def _store(self, present: Ix, half: Ix) -> None:
        e, lines, lanes = self.e, self.lines, self.lanes
        mask = e.mask(present, lanes)
        one = e.constant(1.0, self.t)
        scale = e.div(one, self._as_t(self.length)) if lines.inverse else one
        if self.chirp is not None:
            by_size = e.div(scale, self._as_t(self.size))
            scale = e.select(self.chirped.compare("eq", 1), by_size, scale)
        with e.loop(0, lines.written.min(self.length)) as loop:
            k = loop.index
            real, imaginary = (e.load_vector(part, k * present + half * self.half, lanes, mask) for part in self.work)
            if self.chirp is not None:
                sign = e.select(self.chirped.compare("eq", 1), e.constant(-1.0, self.t), one)
                imaginary = e.mul(imaginary, e.splat(sign, lanes))
                real, imaginary = self._times_chirp((real, imaginary), k, one, lanes)
            factor = e.splat(scale, lanes)
            places = e.add(e.load_vector(self.places[1], 0, lanes, mask), e.splat((k * lines.result_stride).ssa, lanes))
            self._scatter(e.mul(real, factor), places, mask)
            if lines.result_pairs:
                imaginary = e.mul(imaginary, factor)
                if lines.inverse:
                    imaginary = self._negated(imaginary)
                self._scatter(imaginary, e.add(places, e.constant(1, INDEX, lanes)), mask)

    def _as_t(self, index: Ix) -> SSAValue:
        return self.e.as_float(index, self.t)

    def _scatter(self, value: SSAValue, places: SSAValue, mask: SSAValue) -> None:
        value = self.e.convert("truncf", value, self.products.sums)
        self.e.b.scatter(self.products.narrow(self.e, value, self.products.element), self.y, places, mask)

    # Stockham's steps

    def _stages(self, present: Ix, half: Ix) -> Ix:
        """Transforms what is in a half of the working memory; gives the half that has the result."""
        e = self.e

        def goes_on(state: tuple[SSAValue, ...]) -> SSAValue:
            return e.ix(state[0]).compare("sgt", 1)

        def step(state: tuple[SSAValue, ...]) -> list[SSAValue]:
            length, stride, half = map(e.ix, state)
            radix = self._radix(length)
            stage = Stage(self, length // radix, stride, present, half)
            if self.radices == {4}:
                stage.four()
            else:
                for number, emit in ((4, stage.four), (2, stage.two), (5, stage.five)):
                    if number in self.radices:
                        with e.when(radix.compare("eq", number)):
                            emit()
                if 0 in self.radices:
                    with e.when(e.both((radix % 2).compare("eq", 1), radix.compare("ne", 5))):
                        stage.odd(radix)
            return [(length // radix).ssa, (stride * radix).ssa, (1 - half).ssa]

        return e.ix(e.while_([self.size.ssa, e.ix(1).ssa, half.ssa], goes_on, step)[2])

    def _radix(self, length: Ix) -> Ix:
        """The factor that is taken next: 4, else 2, else the least odd one."""
        e = self.e
        if self.radices == {4}:
            return e.ix(4)
        radix = e.select_index((length % 4).compare("eq", 0), 4, 2)
        if self.radices <= {2, 4}:
            return radix
        is_even = (length % 2).compare("eq", 0)
        [odd] = e.while_(
            [e.select_index(is_even, length, 3).ssa],
            lambda state: e.both(e.ix(state[0]).compare("slt", length), (length % e.ix(state[0])).compare("ne", 0)),
            lambda state: [(e.ix(state[0]) + 2).ssa],
        )
        return e.select_index(is_even, radix, odd)
