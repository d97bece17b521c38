"""Choices of the loops level: lanes, unrolling, parallel grain. Plain functions of sizes, ops and the target."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import FixedBitwidthType, IndexType, IntegerType
from xdsl.ir import Attribute, Operation

from ..dialects import vectorx
from ..dialects.dims import Dim, as_dim
from ..dialects.target import Target
from .choices import GRAIN_CYCLES, ORDER, Choices, Given, given_number
from .element_types import byte_width

ACCUMULATORS = 4
"""Vectors that a reduction along lanes adds into. A matter of results, not only of speed: see nests.Order."""

UNROLLED_COST = 40
"""Cycles of a body above which a reduction loop has one copy of it, not one for each accumulator."""

SIDE_BY_SIDE = 4
"""Vectors in step in loops of elementary functions."""

LONG_CHAIN = 30
"""Cycles of a body above which a vector alone leaves the processor waiting."""

CHAINS = (
    *(
        math.SqrtOp,
        math.RsqrtOp,
        math.ExpOp,
        math.Exp2Op,
        math.ExpM1Op,
        math.LogOp,
        math.Log2Op,
        math.Log10Op,
        math.Log1pOp,
    ),
    *(math.TanhOp, math.SinhOp, math.CoshOp, math.ErfOp, math.SinOp, math.CosOp, math.AsinOp, math.AcosOp, math.AtanOp),
    *(vectorx.LogisticOp, vectorx.GeluOp),
)
"""Functions that are a chain of operations on vectors of any length."""

UNROLLED_BLOCK = 24
"""Cycles of a body above which a transposed block has one copy of it, not one for each of its vectors."""

COSTLY_ROWS = 12
"""Cycles of the bodies for one vector below which memory decides, which likes rows one by one."""

LONG_ROWS = 160
"""Cycles of the bodies above which the code of two rows would be long."""

SHORT_ROW = 1 << 10
SHORT_COSTLY_ROW = 4 << 10
"""Bytes of a row's operands and results below which they are better taken in turn, or two together."""

MOST_STEPS = 4
"""Stages that are joined in one loop: the code of each is there twice."""

BLOCK_LANES = 16
"""The most lanes of a block that is transposed in registers."""

LEAST_BLOCK = 8
"""Below this extent a block would be mostly empty."""

READ_AHEAD = 16 << 10
"""Bytes ahead that a stage asks for what it will read: a few rows."""

WRITE_AHEAD = 8 << 10
"""Bytes ahead that a stage asks for the lines that it will write."""

PIPELINE_READ_AHEAD = 8 << 10
PIPELINE_WRITE_AHEAD = 7 << 10
"""The same in a pipeline, whose rows take more of the first cache: not both whole pages, which share its sets."""

LEAST_AHEAD = 6
"""Cycles of a nest's bodies below which the hardware's own prefetching does as well."""

ACCESS_CYCLES = 2
"""Cycles to read or write a vector, taking it to be in the last cache."""

UNKNOWN_EXTENT = 64
"""What a symbolic extent is taken for in estimates."""


@dataclass(frozen=True)
class LoopsChoices(Choices):
    """Choices for all of a kernel's generics.

    `serial_cycles`: below this much work in all, a kernel whose sizes are known has no parallel loop.
    `parallel_iterations`: iterations of a parallel loop that are enough for any number of threads.
    `most_lanes`: the most lanes of a vector, which the widest type may lower further.
    `column_tile`: columns whose sums are kept side by side.
    `block_stretch`: rows of a transposed operand that are walked through before going on along them (as many pages as a
    TLB holds).
    `straight_cycles`: cycles of a straight line of code for several points of a reduction of columns.
    """

    serial_cycles: int = 2 * GRAIN_CYCLES
    parallel_iterations: int = 64
    most_lanes: int = 64
    column_tile: int = 1024
    block_stretch: int = 512
    straight_cycles: int = 160
    accumulators: int = ACCUMULATORS

    FIXED = {"accumulators": ORDER}

    @staticmethod
    def choose(given: Given) -> LoopsChoices:
        """The choices with what is given."""
        usual = LoopsChoices()
        # one lane would be another order of additions
        least = {"serial_cycles": 0, "parallel_iterations": 1, "most_lanes": 4, "column_tile": 64, "block_stretch": 16,
                 "straight_cycles": 0, "grain_cycles": 1}  # fmt: skip
        numbers = {name: given_number(given, name, getattr(usual, name), low) for name, low in least.items()}
        for name in ("most_lanes", "column_tile", "block_stretch"):
            if numbers[name].bit_count() != 1:
                numbers[name] = getattr(usual, name)
        return LoopsChoices(**numbers)


_CYCLES: dict[type[Operation], float] = {
    arith.DivfOp: 8,
    arith.DivSIOp: 40,
    arith.DivUIOp: 40,
    arith.RemSIOp: 40,
    arith.RemUIOp: 40,
    arith.FloorDivSIOp: 40,
    arith.ConstantOp: 0,
    math.AbsFOp: 1,
    math.SqrtOp: 10,
    math.FmaOp: 1,
    math.FloorOp: 1,
    math.CeilOp: 1,
    math.RoundEvenOp: 1,
    math.TruncOp: 1,
    math.CopySignOp: 1,
    math.ExpOp: 10,
    math.Exp2Op: 10,
    math.PowFOp: 60,
    tensor.ExtractOp: 10,
    vectorx.LogisticOp: 30,
    vectorx.GeluOp: 30,
}
"""Cycles of an op on one vector, roughly; other math ops take 25, other ops 1."""


def cycles(ops: Iterable[Operation]) -> float:
    """What a body costs for one vector."""
    return sum(_CYCLES.get(type(op), 25 if op.dialect_name() == "math" else 1) for op in ops)


def parallel_grain(work: float, grain_cycles: int = GRAIN_CYCLES) -> int:
    """The least number of iterations that is worth a thread, for an iteration of so many cycles."""
    return max(1, round(grain_cycles / max(work, 1)))


def estimate(extents: Iterable[Dim]) -> int:
    """The number of points, with a guess for what is not known."""
    points = 1
    for extent in extents:
        points *= extent.value if extent.is_const else UNKNOWN_EXTENT
    return points


def known(extents: Iterable[Dim]) -> bool:
    """Whether all extents are numbers."""
    return all(e.is_const for e in extents)


def known_iterations(extents: Iterable[Dim]) -> int:
    """The iterations that are certain: a symbolic extent may be 1, so it does not count."""
    iterations = 1
    for extent in extents:
        iterations *= extent.value if extent.is_const else 1
    return iterations


def flattened_rows(extents: Sequence[Dim], enough: int) -> int:
    """How many leading row loops to run as one parallel loop: enough for some iterations for each thread."""
    for number in range(len(extents)):
        if known_iterations(extents[:number]) >= enough:
            return number
    return len(extents)


def map_lanes(ops: Sequence[Operation], elements: Sequence[Attribute], target: Target) -> int:
    """Lanes for pointwise bodies: by the widest type that they compute with, or move where they compute nothing."""
    widths = [
        byte_width(r.type)
        for op in ops
        if op.dialect_name() in ("arith", "math", "vectorx") and not isinstance(op, arith.ConstantOp)
        for r in op.results
        if isinstance(r.type, FixedBitwidthType) and r.type != IntegerType(1)
    ]
    if any(isinstance(op, tensor.ExtractOp) or isinstance(r.type, IndexType) for op in ops for r in op.results):
        widths.append(4)  # offsets are 64 bits wide: more lanes would take too many registers
    widths += [width for e in elements if (width := byte_width(e)) > 8]  # no lane is as wide
    return target.lanes(max(widths or [byte_width(e) for e in elements] or [4]))


def rows_together(rows: Dim, cost: float) -> int:
    """How many rows to run side by side: two where they come in pairs and computing takes longer than memory."""
    return 2 if rows.is_const and rows.value % 2 == 0 and COSTLY_ROWS <= cost <= LONG_ROWS else 1


def ahead(write: bool, pipeline: bool) -> int:
    """Bytes ahead of its place that a stage asks for what it reads or writes."""
    if pipeline:
        return PIPELINE_WRITE_AHEAD if write else PIPELINE_READ_AHEAD
    return WRITE_AHEAD if write else READ_AHEAD


def round_the_caches(moved: int, target: Target) -> bool:
    """Whether a nest of rows that reads and writes so many bytes writes round the caches: much of what it would leave
    there would be gone before the next kernel came to it, and each line would have been read for nothing.
    """
    return 3 * moved >= 2 * target.l3


def in_a_pipeline(steps: int, rows: Dim, row_bytes: Dim, cost: float, target: Target) -> bool:
    """Whether rows go through their steps in a pipeline: what is loaded, computed and stored at a time is of different
    rows then, and no row waits for its own sums.

    `cost` are the cycles of the bodies for one vector.  Rows that memory bounds must all be in the first cache, with
    room to spare, the others in the second one.
    """
    if not 2 <= steps <= MOST_STEPS or target.vector_registers < 32 or (rows.is_const and rows.value < 4 * steps):
        return False
    if cost < COSTLY_ROWS:
        return row_bytes.is_const and SHORT_ROW <= row_bytes.value <= target.l1 // 2 // steps
    return not row_bytes.is_const or SHORT_COSTLY_ROW <= row_bytes.value <= target.l2 // 2 // steps


def side_by_side(ops: Sequence[Operation], size: Dim, lanes: int) -> int:
    """How many vectors a pointwise loop evaluates in step: several where each is a long chain of dependent operations.

    A processor does not look far enough ahead to find the next vector's chain behind the first one's.
    """
    functions = [op for op in ops if op.dialect_name() in ("math", "vectorx") and cycles([op]) > 1]
    if cycles(ops) < LONG_CHAIN or any(type(op) not in CHAINS for op in functions):
        return 1
    whole = lanes * SIDE_BY_SIDE
    return SIDE_BY_SIDE if size % whole is as_dim(0) or (size.is_const and size.value >= 16 * whole) else 1


def points_in_step(ops: Sequence[Operation]) -> int:
    """How many points of a template's result run through its epilogue together."""
    return SIDE_BY_SIDE if cycles(ops) >= LONG_CHAIN else 1


def reduction_lanes(element: Attribute, target: Target) -> int:
    """Lanes of a reduction: by its type and the target alone, since they decide the order of additions."""
    return target.lanes(reduction_width(element))


def reduction_width(element: Attribute) -> int:
    """Bytes of a reduction's lane. Sums of different ones never share a loop along lanes."""
    return max(4, byte_width(element))


def unrolled(extents: Sequence[Dim], cost: float, straight_cycles: int) -> bool:
    """Whether to add up all points of these reduced loops at once, without loops."""
    return known(extents) and prod(e.value for e in extents) * cost <= straight_cycles


def column_tile(width: Dim, lanes: int, most: int, *, wide: bool = False) -> int:
    """How many columns to add up side by side: their sums fit into the first cache, and there are some tiles.

    Not so with `wide`: where there is one row, threads share out its columns whatever the tiles are, and where there is
    one stage nothing is read twice, so that it need not stay in the caches.
    """
    if not width.is_const:
        return most
    least = most if wide else max(-(-width.value // 8), most // 4)
    tile = min(most, least, max(width.value, 1))
    return tile + -tile % lanes


def column_rows(cost: float, straight_cycles: int) -> int:
    """How many elements to add to a vector of sums at one visit."""
    return max(1, min(8, round(straight_cycles / max(cost, 1))))


def worth_interleaving(extent: int, cost: float, straight_cycles: int) -> bool:
    """Whether to unroll a short loop that lies innermost in memory."""
    return 2 <= extent <= LEAST_BLOCK and extent * cost <= straight_cycles
