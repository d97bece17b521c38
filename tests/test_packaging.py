"""The package list, the wheel and the import contracts agree with the tree."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = ("codegen", "dialects", "frontend", "lowering", "rewrites", "runtime", "semantics", "tools")


def test_every_package_is_listed() -> None:
    found = {"sardonyx"}
    for folder in FOLDERS:
        for init in (ROOT / folder).rglob("__init__.py"):
            found.add(".".join(("sardonyx", *init.parent.relative_to(ROOT).parts)))
    listed = PROJECT["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(found)


def test_the_wheel_has_one_top_level_name(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)],
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {n.split("/")[0] for n in names if not n.split("/")[0].endswith(".dist-info")} == {"sardonyx"}
    assert "sardonyx/py.typed" in names
    assert "sardonyx/dialects/kernel.py" in names


def test_products_use_relative_imports_only() -> None:
    for folder in (*FOLDERS, "sardonyx"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.name == "__main__.py":
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                assert not line.strip().startswith(("from sardonyx", "import sardonyx")), f"{path}:{number}"


def test_a_folder_of_the_same_name_is_not_the_package(tmp_path: Path) -> None:
    """A script beside a checkout: the checkout's folder has the package's name, and no `__init__.py`."""
    (tmp_path / "sardonyx" / "dialects").mkdir(parents=True)
    script = tmp_path / "script.py"
    script.write_text("import sardonyx.dialects.onnx\nprint(sardonyx.__version__)\n")
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == PROJECT["project"]["version"]
