"""Two results of one model, value by value: absolute, relative and ulp differences, and where they begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ..dialects import kernel, onnx
from ..dialects.onnx.nodes import NodeInfo

Array = np.ndarray[Any, Any]
Row = dict[str, Any]


# Arrays


def compare_outputs(ours: Mapping[str, Any], theirs: Mapping[str, Any], *, rtol: float, atol: float) -> Row:
    """For each output the largest differences, and whether all are within `atol + rtol * |theirs|` (integers: `atol`).

    NaN equals NaN, and infinities must be the same.
    """
    rows = {name: compare_values(ours[name], want, rtol, atol) for name, want in theirs.items()}
    return {"equal": all(row["equal"] for row in rows.values()), "outputs": rows, "rtol": rtol, "atol": atol}


def compare_values(got: Any, want: Any, rtol: float, atol: float) -> Row:
    """The differences of a tensor; of a sequence or a map, those of the first element that differs."""
    if not isinstance(want, (list, tuple, dict)):
        return compare_arrays(np.asarray(got), np.asarray(want), rtol, atol)
    ours, theirs = entries_of(got), entries_of(want)
    kind = "map" if isinstance(want, dict) else "sequence"
    row: Row = {"dtype": kind, "shape": [len(theirs)]}
    if ours.keys() != theirs.keys():
        return {**row, "equal": False, "note": f"{len(ours)} elements, expected {len(theirs)}, or other keys"}
    for key, value in theirs.items():
        inner = compare_values(ours[key], value, rtol, atol)
        if not inner["equal"]:
            return {**inner, "note": f"element {key!r} of the {kind}: {inner.get('note') or detail_of(inner)}"}
    return {**row, "equal": True}


def entries_of(value: Any) -> dict[Any, Any]:
    """The elements of a sequence or map by their key."""
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value)
    return dict(enumerate(cast("Sequence[Any]", value))) if isinstance(value, (list, tuple)) else {}


def compare_arrays(got: Array, want: Array, rtol: float, atol: float) -> Row:
    """The differences of one array from another."""
    row: Row = {"dtype": str(got.dtype), "shape": list(got.shape)}
    if got.shape != want.shape or got.dtype != want.dtype:
        return {**row, "equal": False, "note": f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"}
    if want.size == 0:
        return {**row, "equal": True, "max_abs": 0.0, "max_rel": 0.0, "max_ulp": 0}
    if not is_number(want.dtype):
        return {**row, "equal": bool(np.all(got == want))}
    a, b = comparable(got), comparable(want)
    with np.errstate(all="ignore"):
        gap = distances(got, want)
        same = (gap == 0) | (np.isnan(a) & np.isnan(b)) | ((a == b) & np.isinf(b))
        gap = np.where(same, 0.0, gap)
        relative = np.where(same, 0.0, gap / np.abs(b))
        allowed = atol + (rtol * np.abs(b) if want.dtype.kind not in "iub" else 0.0)
        close = same | ((gap <= allowed) & np.isfinite(b))
    worst = int(np.nanargmax(np.where(np.isnan(gap), np.inf, gap)))
    return {
        **row,
        "equal": bool(close.all()),
        "max_abs": float(gap.max()),
        "max_rel": float(np.where(np.isnan(relative), np.inf, relative).max()),
        "max_ulp": int(ulps(got, want).max()),
        "differing": int((~close).sum()),
        "at": [int(i) for i in np.unravel_index(worst, want.shape)],
        "got": shown(got.flat[worst]),
        "expected": shown(want.flat[worst]),
    }


def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether differences of such elements are numbers: all but text and objects."""
    return dtype.kind in "fiubc" or hasattr(ml_dtypes, dtype.name)


def comparable(array: Array) -> Array:
    """The elements as f64, or as c128."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def distances(got: Array, want: Array) -> Array:
    """The absolute differences as f64; those of integers are exact before that, which f64 does not hold all of."""
    if want.dtype.kind not in "iu":
        return np.abs(comparable(got) - comparable(want))
    high, low = np.maximum(got, want), np.minimum(got, want)
    return (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)


def shown(element: Any) -> Any:
    """An element for a report."""
    number = element.item() if isinstance(element, np.generic) else element
    return (
        number
        if isinstance(number, int | float | bool)
        else str(number)
        if isinstance(number, complex)
        else float(number)
    )


INTEGERS = {np.dtype(np.float16): np.int16, np.dtype(ml_dtypes.bfloat16): np.int16,
            np.dtype(np.float32): np.int32, np.dtype(np.float64): np.int64}  # fmt: skip


def ulps(got: Array, want: Array) -> np.ndarray[Any, Any]:
    """How many representable numbers lie between the two, element by element; 0 for what is no IEEE float."""
    integer = INTEGERS.get(want.dtype)
    if integer is None:
        return np.zeros(want.shape, np.int64)

    def ordered(x: Array) -> np.ndarray[Any, Any]:
        bits = np.ascontiguousarray(x).view(integer).astype(np.int64)
        least = np.int64(np.iinfo(integer).min)
        return np.where(bits < 0, least - bits, bits)

    both_nan = np.isnan(got) & np.isnan(want)
    with np.errstate(over="ignore"):
        return np.where(both_nan, 0, np.abs(ordered(got) - ordered(want))).reshape(want.shape)


# Where the difference begins


@dataclass(frozen=True)
class Observed:
    """A named value as a run made it, and the op that did, where the run has one."""

    name: str
    array: Array
    op: Operation | None = None


@dataclass
class FirstDifference:
    """Finds the first value, in the order in which one run makes them, that another run makes otherwise.

    `record` is told the values of the one, then `check` those of the other.  A value that is made several times (in a
    loop) is compared time by time.  The tolerance grows with a value's largest magnitude: inside of a model, what
    cancels out leaves noise of that size.
    """

    rtol: float
    atol: float
    recorded: dict[str, list[tuple[int, Observed]]] = field(default_factory=dict[str, list[tuple[int, Observed]]])
    count: int = 0
    times: dict[str, int] = field(default_factory=dict[str, int])
    compared: int = 0
    skipped: int = 0
    """Values of one name that are no longer the same thing: rewrites gave them another type or shape."""
    differing: list[tuple[int, int, Observed, Row]] = field(default_factory=list[tuple[int, int, Observed, Row]])
    """Place in the order, which time, the value, and its differences."""

    def record(self, value: Observed) -> None:
        kept = Observed(value.name, np.array(value.array), value.op)  # memory may be used again
        self.recorded.setdefault(value.name, []).append((self.count, kept))
        self.count += 1

    def check(self, value: Observed) -> None:
        time = self.times.get(value.name, 0)
        self.times[value.name] = time + 1
        entries = self.recorded.get(value.name, [])
        if time >= len(entries):
            return
        order, ours = entries[time]
        got, want = of_one_type(ours.array, value.array)
        if got.shape != want.shape or got.dtype != want.dtype:
            self.skipped += 1
            return
        self.compared += 1
        row = compare_arrays(got, want, self.rtol, self.atol * max(1.0, magnitude(want)))
        if not row["equal"]:
            self.differing.append((order, time, ours, row))

    def first(self) -> tuple[int, Observed, Row] | None:
        """Which time, the value, and its differences; None where no value differs."""
        if not self.differing:
            return None
        _, time, value, row = min(self.differing, key=lambda entry: entry[0])
        return time, value, row


def of_one_type(got: Array, want: Array) -> tuple[Array, Array]:
    """Two arrays of floats of different widths as f64: what was widened inside is the same value."""
    if got.dtype != want.dtype and all(a.dtype.kind == "f" or a.dtype.name == "bfloat16" for a in (got, want)):
        return got.astype(np.float64), want.astype(np.float64)
    return got, want


def magnitude(array: Array) -> float:
    """The largest finite absolute value."""
    if array.size == 0 or (array.dtype.kind != "f" and array.dtype.name != "bfloat16"):
        return 0.0
    values = np.abs(array.astype(np.float64))
    return float(np.where(np.isfinite(values), values, 0).max())


def described(time: int, value: Observed, row: Row, maker: NodeInfo | None) -> Row:
    """A value that differs, for the report: the node that makes it, the kernel it comes from, and what surrounds it."""
    report: Row = {"value": value.name, "time": time}
    op = value.op
    if maker is not None:
        report["node"] = {k: v for k, v in maker._asdict().items() if v}
    if op is not None:
        table = onnx.node_table(op)
        report["nodes"] = [str(table[i]) for i in onnx.origin_of(op) if 0 <= i < len(table)]
        report["inside"] = [
            f"{onnx.operator_name(outer)} {info.name!r}"
            if (info := onnx.info_of(outer)) is not None
            else onnx.operator_name(outer)
            for outer in surrounding(op)
        ]
        if isinstance(op, kernel.CallOp):
            report["kernel"] = op.callee.string_value()
            report |= kernel_facts(op)
    return {**report, **row}


def surrounding(op: Operation) -> list[Operation]:
    """The control flow that an op is inside of, outermost first."""
    found: list[Operation] = []
    outer = op.parent_op()
    while outer is not None:
        if isinstance(outer, onnx.OnnxOp):
            found.append(outer)
        outer = outer.parent_op()
    return found[::-1]


def kernel_facts(call: kernel.CallOp) -> Row:
    """The operators of a call's kernel, and the patterns that made some of them."""
    root = call.get_toplevel_object()
    assert isinstance(root, ModuleOp)
    name = call.callee.string_value()
    for op in root.body.block.ops:
        named = op.properties.get("sym_name")
        if isinstance(op, FuncOp | ModuleOp) and isinstance(named, StringAttr) and named.data == name:
            return {
                key: [text.data for text in found if isinstance(text, StringAttr)]
                for key, attribute in (("operators", "kernel.ops"), ("patterns", "kernel.patterns"))
                if isinstance(found := op.attributes.get(attribute), ArrayAttr)
            }
    return {}


# Text


def render_comparison(report: Mapping[str, Any]) -> str:
    """The report as text for people."""
    lines = [f"{name}: {render_row(row)}" for name, row in report["outputs"].items()]
    if (first := report.get("first")) is not None:
        lines.append("the first value that differs:")
        lines += [f"  {line}" for line in render_first(first)]
    if "unfused" in report:
        alone = report["unfused"]
        lines.append(f"with a kernel for each operator, {'no' if alone is None else 'the first'} value differs:")
        lines += ["  the fusion is wrong"] if alone is None else [f"  {line}" for line in render_first(alone)]
    if (search := report.get("search")) is not None:
        lines.append(search["note"])
    return "\n".join(lines)


def render_row(row: Mapping[str, Any]) -> str:
    """One value's differences."""
    verdict = "equal" if row["equal"] else "DIFFERS"
    detail = row.get("note") or detail_of(row)
    where = ""
    if not row["equal"] and "at" in row:
        where = f"; {row['differing']} elements, worst at {row['at']}: {row['got']!r} for {row['expected']!r}"
    return f"{verdict} {row['dtype']}{row['shape']} {detail}{where}".rstrip()


def detail_of(row: Mapping[str, Any]) -> str:
    """The largest differences."""
    if "max_abs" not in row:
        return ""
    return f"max abs {row['max_abs']:.3g}, rel {row['max_rel']:.3g}, ulp {row['max_ulp']}"


def render_first(first: Mapping[str, Any]) -> list[str]:
    """Where the difference begins."""
    node = first.get("node")
    made = ""
    if node is not None:
        maker = NodeInfo(**{"name": "", **node})  # a report leaves out what is empty
        made = f", which {maker.op_type} {maker} makes" if maker.name else f", which {maker} makes"
    lines = [f"{first['value']!r}{made}: {render_row(first)}"]
    for outer in first.get("inside", ()):
        lines.append(f"inside {outer}, the value made there for the {ordinal(first['time'] + 1)} time")
    if "kernel" in first:
        lines.append(f"kernel {first['kernel']}: {', '.join(first.get('operators', ()))}")
    if first.get("nodes"):
        lines.append(f"from {', '.join(first['nodes'])}")
    if first.get("patterns"):
        lines.append(f"rewritten by {', '.join(first['patterns'])}")
    return lines


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, ..."""
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else endings.get(number % 10, 'th')}"
