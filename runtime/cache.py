"""Programs and objects on disk, so that a model that was compiled once loads without the compiler.

    ~/.cache/sardonyx/           or $SARDONYX_CACHE; `off` there turns both caches off; mode 0700, ours alone
        programs/<key>           manifest, objects, weights (packed here, or byte ranges of the user's own files)
        objects/<key>            one kernel's machine code
        files/<device>-<inode>   digest of a file, with the size and time that it had then
        externals/<digest>       names of the external data files that the model with this digest has

A stored file has a magic, the digest and length of its JSON header, the header, and sections with digests of their own.
It is written under another name and then renamed, so it is whole or not there; where a digest does not fit it is
damaged, and is removed and compiled again.  The digest of large sections (weights) is only computed again where the
file's time or size has changed since it was last.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import struct
import time
import warnings
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from . import abi
from .arrays import Array, dtype_of
from .manifest import FORMAT, Manifest

VARIABLE = "SARDONYX_CACHE"
LIMIT_VARIABLE = "SARDONYX_CACHE_LIMIT"
DEFAULT_LIMIT = 8 << 30
"""Bytes of all stored files together; the least recently used go first."""
KEEP_AFTER_EVICTION = 0.9
STALE_SECONDS = 3600.0
"""A temporary file this old was left by a process that died."""
SETTLED_NS = 2_000_000_000
"""A file that changed less than this ago may change again within the clock's grain, so its digest is not believed."""

MAGIC = b"SARDONYX"
HEAD = struct.Struct("<8s32sQ")
ALIGNMENT = 4096
"""Sections begin at a page, so that weights are mapped as they are used."""
SMALL = 1 << 20
"""A section up to this size is checked whenever it is read."""

KINDS = ("programs", "objects", "files", "externals")


class DamagedError(Exception):
    """A stored file is not what was written."""


@dataclass(frozen=True)
class Weight:
    """One entry of the weights table; `file`, `offset` say where its bytes lie in a file of the user's, if they do."""

    array: Array
    file: Path | None = None
    offset: int = 0


@dataclass(frozen=True)
class StoredProgram:
    """What `LoadedProgram` is made of."""

    manifest: Manifest
    objects: list[bytes]
    weights: list[Array]


def digest_of(data: bytes | memoryview) -> str:
    """The digest by which bytes are known."""
    return hashlib.sha256(data).hexdigest()


# --- stored files ---


class _Writer:
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
        with _new_file(path) as out:
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
def _new_file(path: Path) -> Generator[Any]:
    """A file that appears under its name when all is written, or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        with open(temporary, "xb") as out:
            yield out
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class _Reader:
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


# --- digests of files ---


class FileDigests:
    """Digests of files by device, inode, size and time of change, so that large files are not read for nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def digest(self, path: Path) -> str:
        """The digest of a file's bytes. Raises OSError."""
        with open(path, "rb") as file:
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
            with contextlib.suppress(OSError), _new_file(self._folder / _identity(stat)) as out:
                out.write(text.encode())


def _settled(stat: os.stat_result) -> bool:
    return abs(time.time_ns() - stat.st_mtime_ns) > SETTLED_NS


def _identity(stat: os.stat_result) -> str:
    return f"{stat.st_dev}-{stat.st_ino}"


# --- the caches ---


class Cache:
    """Both caches, in one folder. What goes wrong on the disk is a miss, never an error of the caller's."""

    def __init__(self, root: Path, limit: int = DEFAULT_LIMIT) -> None:
        self.root = root
        self.limit = limit
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for kind in KINDS:
            (root / kind).mkdir(mode=0o700, exist_ok=True)
        self.digests = FileDigests(root / "files")

    # objects

    def load_object(self, key: str) -> bytes | None:
        """An object's bytes."""
        reader = self._open("objects", key)
        return None if reader is None else self._checked("objects", key, lambda: bytes(reader.check(0)))

    def store_object(self, key: str, data: bytes) -> None:
        """Keeps an object."""
        writer = _Writer()
        writer.add(data)
        self._store("objects", key, writer, {})

    # programs

    def load_program(self, model: Path | bytes, options: str) -> StoredProgram | None:
        """The program of a model that was compiled with these options, or None.

        `options` is everything else that the program depends on: options, product version, target.
        """
        try:
            model_digest = self._digest(model)
            files = self._external_files(model, model_digest)
        except OSError:
            return None
        if files is None:
            return None
        key = self._key(model_digest, files, options)
        reader = None if key is None else self._open("programs", key)
        if key is None or reader is None:
            return None
        sources = [model, *files]
        return self._checked("programs", key, lambda: _program_of(reader, sources))

    def store_program(
        self,
        model: Path | bytes,
        options: str,
        manifest: Manifest,
        objects: Sequence[bytes],
        weights: Sequence[Weight],
        externals: Sequence[str] = (),
    ) -> None:
        """Keeps a program. `externals` names the model's external data files, relative to its folder, in any order."""
        names = sorted(set(externals))
        with contextlib.suppress(OSError):
            model_digest = self._digest(model)
            with _new_file(self.root / "externals" / model_digest) as out:
                out.write(json.dumps(names).encode())
            files = [_beside(model, name) for name in names]
            key = self._key(model_digest, files, options)
            if key is None:
                return
            writer = _Writer()
            sources = [model, *files]
            description = {
                "manifest": manifest,
                "objects": [writer.add(data) for data in objects],
                "weights": [_placed(weight, sources, writer) for weight in weights],
            }
            self._store("programs", key, writer, description)

    def _digest(self, model: Path | bytes) -> str:
        return digest_of(model) if isinstance(model, bytes) else self.digests.digest(model)

    def _external_files(self, model: Path | bytes, model_digest: str) -> list[Path] | None:
        """The model's external data files; None where nobody has compiled it yet."""
        try:
            names = json.loads((self.root / "externals" / model_digest).read_text())
        except (OSError, ValueError):
            return None
        return [_beside(model, name) for name in names]

    def _key(self, model_digest: str, files: Sequence[Path], options: str) -> str | None:
        try:
            digests = [self.digests.digest(file) for file in files]
        except OSError:
            return None
        return digest_of(json.dumps([FORMAT, abi.VERSION, model_digest, digests, options]).encode())

    # files

    def _open(self, kind: str, key: str) -> _Reader | None:
        path = self.root / kind / key
        try:
            reader = _Reader(path, self.digests)
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))  # used now, not changed
            return reader
        except (DamagedError, ValueError, KeyError, TypeError):
            self._remove(path)
        except OSError:
            pass
        return None

    def _checked(self, kind: str, key: str, read: Any) -> Any:
        try:
            return read()
        except (DamagedError, ValueError, KeyError, TypeError, IndexError):
            self._remove(self.root / kind / key)
        except OSError:
            pass
        return None

    def _remove(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)

    def _store(self, kind: str, key: str, writer: _Writer, description: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            writer.write(self.root / kind / key, description)
            self.evict()

    def files(self) -> list[tuple[Path, os.stat_result]]:
        """All stored files."""
        found: list[tuple[Path, os.stat_result]] = []
        for kind in KINDS:
            for path in (self.root / kind).iterdir():
                with contextlib.suppress(OSError):
                    found.append((path, path.stat()))
        return found

    def evict(self) -> None:
        """Removes what was used longest ago until the rest is below the limit, and what dead processes left."""
        files = self.files()
        total = sum(stat.st_size for _, stat in files)
        for path, stat in files:
            if path.name.startswith(".") and time.time() - stat.st_mtime > STALE_SECONDS:
                self._remove(path)
        if total <= self.limit:
            return
        for path, stat in sorted(files, key=lambda f: max(f[1].st_atime_ns, f[1].st_mtime_ns)):
            if total <= KEEP_AFTER_EVICTION * self.limit:
                return
            self._remove(path)
            total -= stat.st_size

    def clear(self) -> int:
        """Removes everything; the number of programs and objects that there were."""
        files = self.files()
        for path, _ in files:
            self._remove(path)
        return sum(path.parent.name in ("programs", "objects") for path, _ in files)


def _beside(model: Path | bytes, name: str) -> Path:
    """An external data file: beside the model, or for a model without a path in the working directory."""
    return (Path() if isinstance(model, bytes) else model.parent) / name


def _placed(weight: Weight, sources: Sequence[Path | bytes], writer: _Writer) -> dict[str, Any]:
    """How the stored program finds a weight: in a file of the user's where its bytes lie there as they are."""
    array = np.asarray(weight.array, order="C")
    described: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(weight.array.shape)}
    if weight.file is not None:
        for number, source in enumerate(sources):
            if isinstance(source, Path) and _same_file(source, weight.file):
                return {**described, "file": number, "offset": weight.offset}
    return {**described, "section": writer.add(array.reshape(-1).view(np.uint8).data)}


def _same_file(a: Path, b: Path) -> bool:
    try:
        return os.path.samefile(a, b)
    except OSError:
        return False


def _program_of(reader: _Reader, sources: Sequence[Path | bytes]) -> StoredProgram:
    description = reader.description
    maps: dict[int, memoryview] = {}
    weights: list[Array] = []
    for weight in description["weights"]:
        if "section" in weight:
            weights.append(reader.array(weight["section"], weight["dtype"], weight["shape"]))
            continue
        number = weight["file"]
        if number not in maps:
            maps[number] = _mapped(sources[number])
        dtype = dtype_of(weight["dtype"])
        size = dtype.itemsize * int(np.prod(weight["shape"], dtype=np.int64))
        data = maps[number][weight["offset"] : weight["offset"] + size]
        weights.append(np.frombuffer(data, dtype).reshape(weight["shape"]))
    objects = [bytes(reader.check(number)) for number in description["objects"]]
    return StoredProgram(description["manifest"], objects, weights)


def _mapped(source: Path | bytes) -> memoryview:
    if isinstance(source, bytes):
        return memoryview(source)
    with open(source, "rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


# --- the one that users have ---


def default_root() -> Path | None:
    """Where the caches are; None where they are turned off."""
    setting = os.environ.get(VARIABLE)
    if setting is not None:
        return None if setting.lower() in ("off", "0", "") else Path(setting)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sardonyx"


def open_cache() -> Cache | None:
    """The user's caches; None where they are off or their folder is not to be trusted, with a warning for that."""
    root = default_root()
    return None if root is None else _opened(root, int(os.environ.get(LIMIT_VARIABLE, DEFAULT_LIMIT)))


@cache
def _opened(root: Path, limit: int) -> Cache | None:
    try:
        found = Cache(root, limit)
        stat = root.stat()
        if stat.st_uid != os.geteuid() or stat.st_mode & 0o022:
            warnings.warn(f"the cache {root} can be written by others; it is not used", stacklevel=3)
            return None
        return found
    except OSError as error:
        warnings.warn(f"there is no cache: {error}", stacklevel=3)
        return None


def summary() -> dict[str, Any]:
    """The folder of the caches, what they hold and their limit, in bytes."""
    found = open_cache()
    if found is None:
        return {"folder": None, "programs": 0, "objects": 0, "bytes": 0, "limit": 0}
    files = found.files()
    kinds = [path.parent.name for path, _ in files]
    return {
        "folder": str(found.root),
        "programs": kinds.count("programs"),
        "objects": kinds.count("objects"),
        "bytes": sum(stat.st_size for _, stat in files),
        "limit": found.limit,
    }


def clear() -> int:
    """Empties the caches; the number of programs and objects removed."""
    found = open_cache()
    return 0 if found is None else found.clear()
