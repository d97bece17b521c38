"""Options and collection shared by all tests: the long suites by a fifth, and IR tests as `.mlir` files."""

from __future__ import annotations

import hashlib
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
for folder in ("ir", "zoo", "backend"):  # tests are imported by path; what they share is there
    sys.path.append(str(Path(__file__).resolve().parent / folder))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fifth", action="store_true", help="of the slow tests run a fifth, chosen by the commit's hash")


LONG_FILES = frozenset((
    "test_block_matmul.py", "test_changed_data.py", "test_cli.py", "test_columns.py", "test_compare.py",
    "test_contrib.py", "test_docs.py", "test_float_products.py", "test_integer_products.py", "test_joined.py",
    "test_kernels_conv_transpose.py", "test_levels.py", "test_loops.py", "test_math.py", "test_memory.py",
    "test_numerics.py", "test_operations.py", "test_packaging.py", "test_plain.py", "test_precision.py",
    "test_prologues.py", "test_quotients.py", "test_random_versions.py", "test_ranges.py", "test_round_trip.py",
    "test_schedules.py", "test_shapes_backend.py", "test_shapes_bodies.py", "test_shapes_fuzz.py",
    "test_shapes_perturbed.py", "test_side_by_side.py", "test_signs_of_zero.py", "test_small_models.py",
    "test_tensor_native.py", "test_tuner.py", "test_winograd_of_unknown_sizes.py", "test_zoo.py",
))  # fmt: skip
"""Files that take seconds each, most of it in compiling: not for every save."""

SUITES = frozenset((
    "test_kernels_attention.py", "test_kernels_conv.py", "test_kernels_integer.py", "test_kernels_matmul.py",
    "test_kernels_recurrent.py", "test_kernels_selection.py", "test_kernels_strassen.py", "test_kernels_trees.py",
    "test_random_fusion.py",
))  # fmt: skip
"""Files of many cases of one kind, each of which compiles something: long suites, of which a fifth may do."""

SUITE_FOLDERS = frozenset(("operators",))
"""Folders of such files."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: part of a long suite")
    config.addinivalue_line("markers", "long: in a file that takes long as a whole")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a shell's background: tests of interrupts would hang
        signal.signal(signal.SIGINT, signal.default_int_handler)


def commit_hash() -> str:
    """The commit under test; a checkout without git counts as one fixed commit."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "0"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        suite = item.path.name in SUITES or item.path.parent.name in SUITE_FOLDERS
        if suite:
            item.add_marker("slow")
        if suite or item.path.name in LONG_FILES:
            item.add_marker("long")
    if not config.getoption("--fifth"):
        return
    chosen = int(commit_hash()[:8] or "0", 16) % 5
    dropped = [
        item
        for item in items
        if item.get_closest_marker("slow")
        and int(hashlib.sha256(item.nodeid.encode()).hexdigest()[:8], 16) % 5 != chosen
    ]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        gone = set(dropped)
        items[:] = [item for item in items if item not in gone]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return IrFile.from_parent(parent, path=file_path) if file_path.suffix == ".mlir" else None


class IrFile(pytest.File):
    """A `.mlir` file: each of its RUN lines is a test, run in this process."""

    def collect(self) -> Iterator[pytest.Item]:
        for number, line in enumerate(self.path.read_text().splitlines(), 1):
            if line.startswith("// RUN: "):
                yield IrRun.from_parent(self, name=f"run_{number}", command=line.removeprefix("// RUN: "))


class IrRun(pytest.Item):
    """`xdsl-opt %s -p passes | filecheck %s`, as lit would run it."""

    def __init__(self, *, command: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command = command

    def runtest(self) -> None:
        from ir_runner import check_text, run_opt

        opt, _, check = self.command.partition(" | ")
        output = run_opt(shlex.split(opt), self.path)
        check_text(shlex.split(check), self.path, output)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        shown = excinfo.value if excinfo.errisinstance(AssertionError) else excinfo.getrepr(style="short")
        return f"{self.command}\n{shown}"

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, int(self.name.removeprefix("run_")) - 1, f"{self.path.name}: {self.command}"
