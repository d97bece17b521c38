"""What the runtime knows of the machine."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from sardonyx.dialects.target import Target
from sardonyx.runtime import host
from sardonyx.runtime.errors import UnsupportedError


def test_this_machine_is_a_target() -> None:
    found = host.detect()
    target = Target(**dataclasses.asdict(found))
    assert target.has("avx2")
    assert target.vector_bytes in (32, 64)
    assert target.l1 <= target.l2 <= target.l3
    assert host.detect() is found


def test_caches_as_the_kernel_lists_them(tmp_path: Path) -> None:
    for number, (kind, level, size) in enumerate(
        [
            ("Data", 1, "48K"),
            ("Instruction", 1, "32K"),
            ("Unified", 2, "2048K"),
            ("Unified", 3, "260M"),
            ("Data", 9, "x"),
        ]
    ):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in (("type", kind), ("level", str(level)), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    assert host.cache_sizes(tmp_path) == {"L1": 48 << 10, "L2": 2 << 20, "L3": 260 << 20}
    assert host.cache_sizes(tmp_path / "none") == host.ASSUMED


def test_what_the_cpu_lacks_is_named() -> None:
    have = dict.fromkeys(host.REQUIRED, True)
    host.check_features(have)
    with pytest.raises(UnsupportedError, match="needs a CPU with AVX2; this one lacks avx2, fma"):
        host.check_features({**have, "avx2": False, "fma": False})


def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(UnsupportedError, match="runs on Linux on x86-64, this is darwin"):
        host.detect.__wrapped__()


def test_threads_are_the_cores_we_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {1, 5, 7})
    assert host.default_threads() == 3
