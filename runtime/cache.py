"""Programs and objects on disk, so that a model that was compiled once loads without the compiler.

    ~/.cache/sardonyx/           or $SARDONYX_CACHE; `off` there turns both caches off; mode 0700, ours alone
        programs/<key>           manifest, objects, weights (packed here, or byte ranges of the user's own files)
        objects/<key>            one kernel's machine code
        files/<device>-<inode>   digest of a file, with the size and time that it had then
        externals/<digest>       names of the external data files that the model with this digest has
        hosts/<digest>           LLVM's name and features of the CPU that the system describes so
        looked                   when somebody last looked whether all of this is below the limit

A stored file has a magic, the digest and length of its JSON header, the header, and sections with digests of their own.
It is written under another name and then renamed, so it is whole or not there; where a digest does not fit it is
damaged, and is removed and compiled again.  The digest of large sections (weights) is only computed again where the
file's time or size has changed since it was last.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from . import abi
from .arrays import Array, dtype_of
from .manifest import FORMAT, Manifest
from .stored import DamagedError, FileDigests, Reader, Writer, digest_of, new_file

VARIABLE = "SARDONYX_CACHE"
LIMIT_VARIABLE = "SARDONYX_CACHE_LIMIT"
DEFAULT_LIMIT = 8 << 30
"""Bytes of all stored files together; the least recently used go first."""
KEEP_AFTER_EVICTION = 0.9
LOOK_AFTER_SHARE = 1 / 64
"""Of the limit: a process that has stored so much since looks at all files again, which takes long if they are many."""
LOOK_AFTER_SECONDS = 3600.0
"""A process that stores less looks too where nobody has for so long."""
STALE_SECONDS = 3600.0
"""A temporary file this old was left by a process that died."""
LOOKED = "looked"
"""An empty file whose time is that of the last look at all files."""
KINDS = ("programs", "objects", "files", "externals", "hosts")


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


class Cache:
    """Both caches, in one folder. What goes wrong on the disk is a miss, never an error of the caller's."""

    def __init__(self, root: Path, limit: int = DEFAULT_LIMIT) -> None:
        self.root = root
        self.limit = limit
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for kind in KINDS:
            (root / kind).mkdir(mode=0o700, exist_ok=True)
        self.digests = FileDigests(root / "files")
        self._stored = 0
        """Bytes that this process has stored since it last looked at all files."""

    # objects

    def load_object(self, key: str) -> bytes | None:
        """An object's bytes."""
        reader = self._open("objects", key)
        return None if reader is None else self._checked("objects", key, lambda: bytes(reader.check(0)))

    def store_object(self, key: str, data: bytes) -> None:
        """Keeps an object."""
        writer = Writer()
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
            with new_file(self.root / "externals" / model_digest) as out:
                out.write(json.dumps(names).encode())
            files = [_beside(model, name) for name in names]
            key = self._key(model_digest, files, options)
            if key is None:
                return
            writer = Writer()
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

    def _open(self, kind: str, key: str) -> Reader | None:
        path = self.root / kind / key
        try:
            reader = Reader(path, self.digests)
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

    def _store(self, kind: str, key: str, writer: Writer, description: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            path = self.root / kind / key
            writer.write(path, description)
            self._stored += path.stat().st_size
            if self._stored > LOOK_AFTER_SHARE * self.limit or not self._looked_lately():
                self.evict()

    def _looked_lately(self) -> bool:
        """Whether some process has looked at all files within the last hour."""
        try:
            return 0 <= time.time() - (self.root / LOOKED).stat().st_mtime < LOOK_AFTER_SECONDS
        except OSError:
            return False

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
        (self.root / LOOKED).touch()
        self._stored = 0
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


def _placed(weight: Weight, sources: Sequence[Path | bytes], writer: Writer) -> dict[str, Any]:
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


def _program_of(reader: Reader, sources: Sequence[Path | bytes]) -> StoredProgram:
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
        size = dtype.itemsize * prod(weight["shape"])
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
