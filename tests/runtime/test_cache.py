"""The caches: hits, misses, damage, changed files, eviction, and loading where the compiler is not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from sardonyx.runtime import cache as caches
from sardonyx.runtime import stored as stored_files
from sardonyx.runtime.cache import Cache, Weight
from sardonyx.runtime.manifest import Manifest
from sardonyx.runtime.program import LoadedProgram


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def manifest(make_manifest: Callable[..., Manifest]) -> Manifest:
    return make_manifest([("x", "float32", ["N"])], [("y", "float32", ["N"])])


def model_file(folder: Path, content: bytes = b"a model") -> Path:
    path = folder / "model.onnx"
    path.write_bytes(content)
    return path


def age(path: Path, seconds: float = 100) -> None:
    """Makes the file look as if it had last been written that long ago."""
    then = time.time_ns() - int(seconds * 1e9)
    os.utime(path, ns=(then, then))


def stored(cache: Cache, kind: str) -> list[Path]:
    return sorted((cache.root / kind).iterdir())


def test_objects_come_back(cache: Cache) -> None:
    assert cache.load_object("k") is None
    cache.store_object("k", b"machine code")
    assert cache.load_object("k") == b"machine code"
    assert Cache(cache.root).load_object("k") == b"machine code"
    assert cache.load_object("other") is None


@pytest.mark.parametrize("at", [0, 10, 60, -4096])
def test_damage_is_a_miss_and_is_removed(cache: Cache, at: int) -> None:
    cache.store_object("k", b"machine code")
    (path,) = stored(cache, "objects")
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert cache.load_object("k") is None
    assert not path.exists()
    cache.store_object("k", b"machine code")
    assert cache.load_object("k") == b"machine code"


@pytest.mark.parametrize("length", [0, 5, 47, 48, 100, 4000, 4096, 4100])
def test_cut_off_files_are_misses(cache: Cache, length: int) -> None:
    cache.store_object("k", b"machine code" * 1000)
    (path,) = stored(cache, "objects")
    os.truncate(path, length)
    assert cache.load_object("k") is None


def test_programs_come_back(cache: Cache, manifest: Manifest, tmp_path: Path) -> None:
    model = model_file(tmp_path)
    weights = [
        np.arange(6, dtype=np.float32).reshape(2, 3), np.array(7), np.zeros((0, 4), np.int32),
        np.array([True, False]), np.ones(3, ml_dtypes.bfloat16), np.array([1, -2]).astype(ml_dtypes.int4),
    ]  # fmt: skip
    assert cache.load_program(model, "o") is None
    cache.store_program(model, "o", manifest, [b"one", b"two"], [Weight(w) for w in weights])
    for key in (model, b"a model"):
        found = cache.load_program(key, "o")
        assert found is not None
        assert found.manifest == manifest
        assert found.objects == [b"one", b"two"]
        for got, expected in zip(found.weights, weights, strict=True):
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got, expected)
    assert cache.load_program(model, "other options") is None
    assert cache.load_program(b"another model", "o") is None


def test_another_model_in_the_same_file_is_another_program(cache: Cache, manifest: Manifest, tmp_path: Path) -> None:
    model = model_file(tmp_path)
    age(model)
    cache.store_program(model, "o", manifest, [b"one"], [])
    assert cache.load_program(model, "o") is not None
    model.write_bytes(b"b model")
    assert cache.load_program(model, "o") is None
    model.write_bytes(b"a model")
    assert cache.load_program(model, "o") is not None


def test_a_file_is_hashed_once_but_always_while_it_is_fresh(cache: Cache, tmp_path: Path) -> None:
    model = model_file(tmp_path)
    digest = cache.digests.digest(model)
    assert stored(cache, "files") == []
    age(model)
    assert cache.digests.digest(model) == digest
    (noted,) = stored(cache, "files")
    record = json.loads(noted.read_text())
    noted.write_text(json.dumps({**record, "digest": "believed"}))
    assert cache.digests.digest(model) == "believed"
    stat = model.stat()
    model.write_bytes(b"c model")
    os.utime(model, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert cache.digests.digest(model) not in (digest, "believed")
    os.utime(model)  # written just now: never believed
    assert cache.digests.digest(model) not in (digest, "believed")


def test_weights_of_the_users_files_are_mapped_there(cache: Cache, manifest: Manifest, tmp_path: Path) -> None:
    inside = np.arange(4, dtype=np.float32)
    model = model_file(tmp_path, b"model:" + inside.tobytes())
    data = tmp_path / "weights" / "model.data"
    data.parent.mkdir()
    outside = np.arange(1000, dtype=np.int64)
    data.write_bytes(outside.tobytes())
    weights = [Weight(inside, model, 6), Weight(outside[8:], data, 64), Weight(outside + 1)]
    cache.store_program(model, "o", manifest, [b"one"], weights, ["weights/model.data"])
    found = cache.load_program(model, "o")
    assert found is not None
    for got, weight in zip(found.weights, weights, strict=True):
        np.testing.assert_array_equal(got, weight.array)
    (path,) = stored(cache, "programs")
    assert path.stat().st_size < 8000 + 3 * 4096

    outside[3] = 99
    data.write_bytes(outside.tobytes())
    assert cache.load_program(model, "o") is None
    data.unlink()
    assert cache.load_program(model, "o") is None


def test_large_weights_are_checked_once_and_after_each_change(
    cache: Cache, manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_file(tmp_path)
    large = np.arange(1 << 19, dtype=np.float32)
    cache.store_program(model, "o", manifest, [b"one"], [Weight(large)])
    (path,) = stored(cache, "programs")
    age(path)
    hashed: list[int] = []
    original = stored_files.digest_of

    def counting(data: bytes | memoryview) -> str:
        hashed.append(len(data))
        return original(data)

    monkeypatch.setattr(stored_files, "digest_of", counting)
    for _ in range(3):
        assert cache.load_program(model, "o") is not None
    assert hashed.count(large.nbytes) == 1
    with open(path, "r+b") as file:
        file.seek(-5000, os.SEEK_END)
        file.write(b"x")
    assert cache.load_program(model, "o") is None
    assert not path.exists()


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", limit=100_000)
    data = b"x" * 20_000
    for number in range(4):
        cache.store_object(f"k{number}", data)
        age(cache.root / "objects" / f"k{number}", 1000 - number)
    assert cache.load_object("k0") == data
    cache.store_object("k4", data)
    assert [path.name for path in stored(cache, "objects")] == ["k0", "k3", "k4"]


def test_what_dead_processes_left_is_removed(cache: Cache) -> None:
    left = cache.root / "objects" / ".k.1.1"
    left.write_bytes(b"half")
    cache.store_object("k", b"whole")
    assert left.exists()
    age(left, 2 * caches.STALE_SECONDS)
    age(cache.root / caches.LOOKED, 2 * caches.LOOK_AFTER_SECONDS)
    cache.store_object("k", b"whole")
    assert not left.exists()
    assert cache.load_object("k") == b"whole"


def test_all_files_are_looked_at_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it costs to store an object does not grow with what is stored, in one process or in one after the other."""
    looks: list[Cache] = []
    evict = Cache.evict
    monkeypatch.setattr(Cache, "evict", lambda cache: (looks.append(cache), evict(cache))[1])
    for _ in range(3):
        cache = Cache(tmp_path / "cache", limit=64 * 100_000)
        for number in range(9):
            cache.store_object(f"small{number}", b"x")
    assert looks == looks[:1]
    cache.store_object("large", b"x" * 100_000)
    assert len(looks) == 2


def test_off_and_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for off in ("off", "0", ""):
        monkeypatch.setenv(caches.VARIABLE, off)
        assert caches.open_cache() is None
        assert caches.summary()["folder"] is None
        assert caches.clear() == 0
    monkeypatch.setenv(caches.VARIABLE, str(tmp_path / "mine"))
    found = caches.open_cache()
    assert found is not None
    assert found.root.stat().st_mode & 0o777 == 0o700
    found.store_object("k", b"data")
    assert caches.summary()["objects"] == 1
    assert caches.clear() == 1
    assert caches.summary()["objects"] == 0
    monkeypatch.delenv(caches.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert caches.default_root() == tmp_path / "xdg" / "sardonyx"


def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "open"
    root.mkdir()
    root.chmod(0o777)
    monkeypatch.setenv(caches.VARIABLE, str(root))
    with pytest.warns(UserWarning, match="can be written by others"):
        assert caches.open_cache() is None


def test_a_disk_that_cannot_be_written_is_no_error(cache: Cache, manifest: Manifest, tmp_path: Path) -> None:
    model = model_file(tmp_path)
    (cache.root / "objects").rename(cache.root / "gone")
    (cache.root / "programs").rename(cache.root / "gone, too")
    cache.store_object("k", b"data")
    assert cache.load_object("k") is None
    cache.store_program(model, "o", manifest, [b"one"], [])
    assert cache.load_program(model, "o") is None


LOAD = """
import sys, time
began = time.perf_counter()
sys.modules.update(dict.fromkeys(("onnx", "xdsl", "google.protobuf", "llvmlite", "llvmlite.binding")))
from pathlib import Path
from sardonyx.runtime.cache import open_cache
from sardonyx.runtime.program import LoadedProgram
import numpy as np
found = open_cache().load_program(Path(sys.argv[1]), "o")
program = LoadedProgram(found.manifest, found.objects, found.weights)
got = program(np.arange(3, dtype=np.float32))["y"].tolist()
print(got, time.perf_counter() - began)
"""


def test_a_stored_program_runs_without_the_compiler(
    manifest: Manifest, copy_entry: Callable[[int], bytes], pool_object: bytes, tmp_path: Path
) -> None:
    model = model_file(tmp_path)
    cache = Cache(tmp_path / "cache")
    cache.store_program(model, "o", manifest, [copy_entry(4), pool_object], [])
    found = cache.load_program(model, "o")
    assert found is not None
    assert LoadedProgram(found.manifest, found.objects)([1, 2])["y"].tolist() == [1, 2]
    environment: dict[str, Any] = {**os.environ, caches.VARIABLE: str(cache.root)}
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(model)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[0.0, 1.0, 2.0] ")
