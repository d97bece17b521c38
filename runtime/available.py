"""How much memory there is to take: of the machine, and of the control groups that this process is in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
GROUPS = Path("/proc/self/cgroup")
MOUNTED = Path("/sys/fs/cgroup")
UNCHECKED = 1 << 24
"""Bytes; what asks for no more than that is not worth reading these files."""


@cache
def physical_memory() -> int:
    """Bytes of memory in the machine, rounded down to a page."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def available_memory() -> int:
    """Bytes that can be taken now without taking them from somebody: the least that the machine and each group has.

    Files that the kernel keeps in memory count as free, and so does room to swap to.
    """
    spare, swap = _of_machine()
    return max(0, min([spare + swap, *(group.left() + swap for group in limited_groups())]))


def require(size: int) -> None:
    """Raises MemoryError where so many bytes more cannot be taken; a few are never refused."""
    if size > UNCHECKED and size > available_memory():
        raise MemoryError(f"{size} bytes")


def _of_machine() -> tuple[int, int]:
    """Bytes of memory, and of swap."""
    try:
        lines = (line.split() for line in MEMINFO.read_text().splitlines())
        listed = {words[0]: 1024 * int(words[1]) for words in lines if len(words) > 1}
    except (OSError, ValueError):
        return physical_memory(), 0
    return listed.get("MemAvailable:", physical_memory()), listed.get("SwapFree:", 0)


@dataclass(frozen=True)
class Group:
    """A control group that has a limit: the files that tell it, what is used, and how much of that are files."""

    limit: Path
    used: Path
    stat: Path
    files: str

    def left(self) -> int:
        """Bytes up to the limit; as much as the machine has where the files do not say."""
        try:
            rest = int(self.limit.read_text()) - int(self.used.read_text())
            stat = dict(line.split() for line in self.stat.read_text().splitlines())
            return rest + int(stat.get(self.files, 0))
        except (OSError, ValueError):  # "max" is no limit
            return physical_memory()


@cache
def limited_groups() -> tuple[Group, ...]:
    """This process's groups, inner and outer, that have a limit when they are first looked at."""
    return tuple(group for group in _groups() if group.left() < physical_memory())


def _groups() -> Iterator[Group]:
    """Both versions of the kernel's interface; a group that is mounted as the root of a container is found, too."""
    try:
        lines = GROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = MOUNTED / "memory" if controllers else MOUNTED
        inner = root / path.lstrip("/")
        for folder in (inner, *inner.parents):
            if controllers:
                yield Group(folder / "memory.limit_in_bytes", folder / "memory.usage_in_bytes", folder / "memory.stat",
                            "total_inactive_file")  # fmt: skip
            else:
                yield Group(folder / "memory.max", folder / "memory.current", folder / "memory.stat", "inactive_file")
            if folder == root:
                break
