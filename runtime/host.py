"""The machine we run on: LLVM's name and features of the CPU, cache sizes, cores.

LLVM is asked once a machine: its answer is kept in the caches' folder, under a digest of what the system tells of the
CPU, so that loading a stored program takes neither the time nor the memory of LLVM.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .cache import open_cache
from .errors import UnsupportedError
from .stored import new_file
from .usage import THREADS

REQUIRED = ("avx", "avx2", "fma", "f16c", "bmi", "bmi2")
WIDE = ("avx512f", "avx512bw", "avx512dq", "avx512vl")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
ASSUMED = {"L1": 32 << 10, "L2": 256 << 10, "L3": 8 << 20}
"""Bytes where /sys does not tell (some containers and virtual machines hide it)."""


@dataclass(frozen=True)
class Host:
    """What a target needs to know of this machine; field for field the numbers of `dialects.target.Target`."""

    cpu: str
    features: str
    vector_bytes: int
    vector_registers: int
    l1: int
    l2: int
    l3: int
    triple: str = "x86_64-unknown-linux-gnu"
    plain: bool = False


def thread_count(threads: int | None) -> int:
    """How many threads to use, the caller included; None is one for each core. Raises InputError for another."""
    THREADS.check("threads", threads)
    return threads or default_threads()


def default_threads() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


@cache
def detect() -> Host:
    """This machine.

    Raises UnsupportedError where it is not Linux on x86-64 with AVX2.
    """
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        raise UnsupportedError(
            f"sardonyx runs on Linux on x86-64, this is {sys.platform} on {platform.machine()}",
        )
    name, available = described_cpu()
    check_features(available)
    wide = all(available.get(name, False) for name in WIDE)
    caches = cache_sizes(CACHES)
    return Host(
        cpu=name,
        features=",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(available.items())),
        vector_bytes=64 if wide else 32,
        vector_registers=32 if wide else 16,
        l1=caches["L1"],
        l2=caches["L2"],
        l3=caches["L3"],
    )


def described_cpu() -> tuple[str, dict[str, bool]]:
    """LLVM's name of the CPU, and which features it has."""
    caches = open_cache()
    stored = None if caches is None else caches.root / "hosts" / cpu_digest()
    if stored is not None:
        with contextlib.suppress(OSError, ValueError):
            name, features = json.loads(stored.read_text())
            return str(name), {str(k): bool(v) for k, v in dict(features).items()}
    import llvmlite.binding as llvm

    found = llvm.get_host_cpu_name(), dict(llvm.get_host_cpu_features())
    if stored is not None:
        with contextlib.suppress(OSError), new_file(stored) as out:
            out.write(json.dumps(found).encode())
    return found


CPU_LINES = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")


def cpu_digest() -> str:
    """Of what the system tells of the first CPU, and of which llvmlite is installed."""
    first = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    found = [line for line in first if line.split("\t")[0].strip(" :") in CPU_LINES]
    spec = importlib.util.find_spec("llvmlite")
    if spec is not None and spec.origin is not None:
        found += [spec.origin, str(os.stat(spec.origin).st_mtime_ns)]
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


def check_features(available: dict[str, bool]) -> None:
    """Raises UnsupportedError naming what the CPU lacks of AVX2 and its companions."""
    missing = [name for name in REQUIRED if not available.get(name, False)]
    if missing:
        raise UnsupportedError(f"sardonyx needs a CPU with AVX2; this one lacks {', '.join(missing)}")


def cache_sizes(root: Path) -> dict[str, int]:
    """Bytes of data cache by level, as seen by one core: L1 and L2 its own, L3 all of it."""
    sizes = dict(ASSUMED)
    for index in sorted(root.glob("index*")):
        try:
            kind = (index / "type").read_text().strip()
            level = (index / "level").read_text().strip()
            text = (index / "size").read_text().strip()
            size = size_in_bytes(text)
        except (OSError, ValueError):
            continue
        if kind in ("Data", "Unified") and f"L{level}" in sizes and size:
            sizes[f"L{level}"] = size
    return sizes


def size_in_bytes(text: str) -> int:
    """`"48K"` -> 49152."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1]] if text[-1:] in units else int(text)
