"""Files of the caches: sections behind a JSON header, each with a digest; written as a whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import mmap
import os
import struct
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from .arrays import Array, dtype_of

SETTLED_NS = 2_000_000_000
"""A file that changed less than this ago may change again within the clock's grain, so its digest is not believed."""

MAGIC = b"SARDONYX"
HEAD = struct.Struct("<8s32sQ")
ALIGNMENT = 4096
"""Sections begin at a page, so that weights are mapped as they are used."""
SMALL = 1 << 20
"""A section up to this size is checked whenever it is read."""


class DamagedError(Exception):
    """A stored file is not what was written."""


def digest_of(data: bytes | memoryview) -> str:
    """The digest by which bytes are known."""
    return hashlib.sha256(data).hexdigest()


class Writer:
    """Collects sections and writes them behind a header."""

    def __init__(self) -> None:
        self._sections: list[dict[str, Any]] = []
        self._data: list[bytes | memoryview] = []
        self._end = 0

    def add(self, data: bytes | memoryview) -> int:
        """Adds a section; its number."""
        self._sections.append({"offset": self._end, "length": len(data), "digest": digest_of(data)})
        self._data.append(data)
        self._end += -(-len(data) // ALIGNMENT) * ALIGNMENT
        return len(self._sections) - 1

    def write(self, path: Path, description: dict[str, Any]) -> None:
        """Writes the file. Offsets of sections count from the first page boundary behind the header."""
        header = json.dumps({**description, "sections": self._sections}, separators=(",", ":")).encode()
        with new_file(path) as out:
            out.write(HEAD.pack(MAGIC, hashlib.sha256(header).digest(), len(header)))
            out.write(header)
            start = _first_section(len(header))
            for section, data in zip(self._sections, self._data):
                out.seek(start + section["offset"])
                out.write(data)
            out.truncate(start + self._end)


def _first_section(header_length: int) -> int:
    return -(-(HEAD.size + header_length) // ALIGNMENT) * ALIGNMENT


@contextlib.contextmanager
def new_file(path: Path) -> Generator[Any]:
    """A file that appears under its name when all is written, or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        with open(temporary, "xb") as out:
            yield out
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class Reader:
    """A stored file, mapped."""

    def __init__(self, path: Path, digests: FileDigests) -> None:
        with open(path, "rb") as file:
            stat = os.fstat(file.fileno())
            if stat.st_size < HEAD.size:
                raise DamagedError(f"{path} is cut off")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        magic, digest, length = HEAD.unpack_from(self._map)
        header = self._map[HEAD.size : HEAD.size + length]
        if magic != MAGIC or hashlib.sha256(header).digest() != digest:
            raise DamagedError(f"{path} is damaged")
        self.description: dict[str, Any] = json.loads(header)
        self._sections: list[dict[str, Any]] = self.description["sections"]
        self._start = _first_section(length)
        end = max((s["offset"] + s["length"] for s in self._sections), default=0)
        if stat.st_size < self._start + end:
            raise DamagedError(f"{path} is cut off")
        self._verify(path, stat, digests)

    def _verify(self, path: Path, stat: os.stat_result, digests: FileDigests) -> None:
        large = [n for n, section in enumerate(self._sections) if section["length"] > SMALL]
        if not large:
            return
        mark = digest_of(json.dumps(self._sections).encode())
        if digests.recall(stat) == mark:
            return
        for number in large:
            self.check(number)
        digests.note(stat, mark)

    def view(self, number: int) -> memoryview:
        """A section's bytes, unchecked."""
        section = self._sections[number]
        start = self._start + section["offset"]
        return memoryview(self._map)[start : start + section["length"]]

    def check(self, number: int) -> memoryview:
        """A section's bytes. Raises DamagedError."""
        data = self.view(number)
        if digest_of(data) != self._sections[number]["digest"]:
            raise DamagedError("a section is damaged")
        return data

    def array(self, number: int, dtype: str, shape: Sequence[int]) -> Array:
        """A section as an array on the mapping."""
        data = self.view(number) if self._sections[number]["length"] > SMALL else self.check(number)
        return np.frombuffer(data, dtype_of(dtype)).reshape(shape)


class FileDigests:
    """Digests of files by device, inode, size and time of change, so that large files are not read for nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def digest(self, path: Path) -> str:
        """The digest of a file's bytes. Raises OSError."""
        try:
            file = open(path, "rb")  # noqa: SIM115
        except ValueError as error:  # a text that is no path
            raise OSError(errno.EINVAL, str(error)) from error
        with file:
            before = os.fstat(file.fileno())
            known = self.recall(before)
            if known is not None:
                return known
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
            self.note(after, digest)
        return digest

    def recall(self, stat: os.stat_result) -> str | None:
        """What was noted for the file as it is now; None where it has changed, or may just be changing."""
        if not _settled(stat):
            return None
        try:
            noted = json.loads((self._folder / _identity(stat)).read_text())
        except (OSError, ValueError):
            return None
        fits = isinstance(noted, dict) and noted.get("size") == stat.st_size and noted.get("time") == stat.st_mtime_ns
        return cast("str", noted["digest"]) if fits else None

    def note(self, stat: os.stat_result, digest: str) -> None:
        """Remembers a digest for the file as it is now."""
        if _settled(stat):
            text = json.dumps({"size": stat.st_size, "time": stat.st_mtime_ns, "digest": digest})
            with contextlib.suppress(OSError), new_file(self._folder / _identity(stat)) as out:
                out.write(text.encode())


def _settled(stat: os.stat_result) -> bool:
    return abs(time.time_ns() - stat.st_mtime_ns) > SETTLED_NS


def _identity(stat: os.stat_result) -> str:
    return f"{stat.st_dev}-{stat.st_ino}"
