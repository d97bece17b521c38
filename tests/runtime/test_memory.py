"""Arenas and growing regions."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import pytest
from sardonyx.runtime import available, memory
from sardonyx.runtime.memory import Arena, GrowingRegion, Mapping


def is_mapped(address: int) -> bool:
    """Whether this process has memory at the address."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        if start <= address < end:
            return True
    return False


def test_mappings_are_zero_and_go_with_their_object() -> None:
    mapping = Mapping(3 << 20)
    assert mapping.size == 4 << 20
    assert mapping.address % 4096 == 0
    block = (ctypes.c_uint8 * mapping.size).from_address(mapping.address)
    assert block[0] == block[mapping.size - 1] == 0
    address = mapping.address
    del mapping
    gc.collect()
    assert not is_mapped(address)


@pytest.mark.parametrize("size", [0, -1, 1 << 46, 1 << 70])
def test_absurd_sizes_are_errors(size: int) -> None:
    with pytest.raises(MemoryError):
        Mapping(size)


def test_an_arena_grows_and_keeps_what_it_has() -> None:
    arena = Arena()
    assert (arena.address, arena.size) == (0, 0)
    arena.reserve(0)
    assert arena.size == 0
    arena.reserve(100)
    first = arena.address
    assert arena.size >= 100
    arena.reserve(50)
    assert arena.address == first
    arena.reserve(1 << 20)
    assert arena.size >= 1 << 20
    with pytest.raises(MemoryError):
        arena.reserve(1 << 46)
    assert arena.size >= 1 << 20
    (ctypes.c_uint8 * arena.size).from_address(arena.address)[arena.size - 1] = 7


def test_what_is_behind_an_arena_can_be_asked_for() -> None:
    arena = Arena()
    arena.reserve(5000)
    last = arena.address + arena.size
    assert all(is_mapped(last + at) for at in range(0, memory.BEHIND, 4096))


def test_a_region_grows_in_place_up_to_the_machines_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "physical_memory", lambda: 8 << 20)
    region = GrowingRegion()
    assert region.end == region.address
    address = region.address
    for size in (1, 5000, 3 << 20, 8 << 20):
        region.reach(address + size)
        assert region.address == address
        assert region.end >= address + size
        ctypes.c_uint8.from_address(address + size - 1).value = 1
    with pytest.raises(MemoryError):
        region.reach(address + (8 << 20) + 1)
    region.reach(address + 100)


def test_a_limit_on_address_space_leaves_a_smaller_region(monkeypatch: pytest.MonkeyPatch) -> None:
    original = memory.Mapping

    class Limited(original):
        def __init__(self, size: int, **options: int) -> None:
            if size > 1 << 30:
                raise MemoryError(size)
            super().__init__(size, **options)

    monkeypatch.setattr(memory, "Mapping", Limited)
    region = GrowingRegion()
    region.reach(region.address + (1 << 20))
    with pytest.raises(MemoryError):
        region.reach(region.address + (1 << 30) + 1)


def test_no_more_is_taken_than_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    free = 100 << 20
    monkeypatch.setattr(available, "available_memory", lambda: free)
    arena, region = Arena(), GrowingRegion()
    arena.reserve(free)
    arena.reserve(free + (10 << 20))  # what it has is given back
    with pytest.raises(MemoryError):
        Arena().reserve(free + 1)
    region.reach(region.address + free)
    assert region.end <= region.address + free + memory.LARGEST_AHEAD
    end = region.end
    with pytest.raises(MemoryError):
        region.reach(end + free + 1)
    assert region.end == end
    region.reach(end + available.UNCHECKED)


GROUP_FILES = {
    1: ("5:cpu,memory:/a/b", "memory/a", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("0::/a/b", "a", "memory.max", "memory.current", "inactive_file"),
}


@pytest.mark.parametrize("version", GROUP_FILES)
def test_the_tightest_of_machine_and_groups_is_available(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, folder, limit, used, files = GROUP_FILES[version]
    texts = {
        "meminfo": "MemTotal: 9000 kB\nMemAvailable: 8000 kB\nSwapFree: 100 kB\nHugePages_Total: 0\n",
        "cgroup": f"7:cpuset:/elsewhere\n{line}\n",
        f"{folder}/{limit}": "5000",
        f"{folder}/{used}": "3000",
        f"{folder}/memory.stat": f"cache 1\n{files} 70\n",
        f"{folder}/b/{limit}": "max",
        f"{folder}/b/{used}": "10",
        f"{folder}/b/memory.stat": "cache 1\n",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(available, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(available, "GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(available, "MOUNTED", tmp_path)
    available.limited_groups.cache_clear()
    try:
        assert available.available_memory() == 2070 + 102400
        (tmp_path / folder / used).write_text("6000")
        (tmp_path / "meminfo").write_text("MemAvailable: 8000 kB\n")
        assert available.available_memory() == 0
        available.limited_groups.cache_clear()
        (tmp_path / folder / limit).write_text("max")
        assert available.available_memory() == 8192000
        (tmp_path / "meminfo").unlink()
        (tmp_path / "cgroup").unlink()
        available.limited_groups.cache_clear()
        assert available.available_memory() == available.physical_memory()
    finally:
        available.limited_groups.cache_clear()


def test_this_machine_has_memory() -> None:
    assert 0 < available.available_memory() <= 2 * available.physical_memory()
