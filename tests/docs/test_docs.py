"""The documentation is true: its code runs, its links lead somewhere, and what is generated is fresh."""

from __future__ import annotations

import importlib.util
import re
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)(?:#[^)]*)?\)")


def with_code() -> list[Path]:
    return [page for page in PAGES if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", with_code(), ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All blocks of a page, in order, in one namespace, from the repository's root."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("SARDONYX_CACHE", str(tmp_path / "cache"))
    module = types.ModuleType(f"docs_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look there
    text = page.read_text()
    for match in BLOCK.finditer(text):
        lines = text[: match.start(1)].count("\n")
        exec(compile("\n" * lines + match[1], str(page), "exec"), module.__dict__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_table_of_operators_is_fresh() -> None:
    path = ROOT / "docs" / "generate_operators.py"
    spec = importlib.util.spec_from_file_location("generate_operators", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    for made, text in module.generate().items():
        assert text == made.read_text(), "run python -m docs.generate_operators"
