"""Options and collection shared by all tests: the long suites by a fifth, and IR tests as `.mlir` files."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fifth", action="store_true", help="of the slow tests run a fifth, chosen by the commit's hash")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: part of a long suite")


def commit_hash() -> str:
    """The commit under test; a checkout without git counts as one fixed commit."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "0"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
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
