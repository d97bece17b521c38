"""Precision modes: the one that runs everywhere, and what is said of the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import sardonyx as sx
from sardonyx.cli import cli
from sardonyx.precision import NEEDS, check_precision

AMX = "+avx2,+amx-tile,+amx-bf16"


@pytest.mark.parametrize("precision", ["bf16", "f32-amx3", "f32-amx6"])
def test_a_mode_that_the_cpu_lacks_names_the_feature(precision: str) -> None:
    expected = f"precision='{precision}' needs a CPU with amx-tile and amx-bf16, which znver5 does not have"
    with pytest.raises(sx.UnsupportedError, match=expected):
        check_precision(precision, "znver5", "+avx2,-amx-tile,-amx-bf16")
    with pytest.raises(sx.UnsupportedError, match="needs a CPU with amx-bf16, which"):
        check_precision(precision, "other", "+avx2,+amx-tile")
    with pytest.raises(sx.UnsupportedError, match="this version has no kernels for amx-bf16"):
        check_precision(precision, "sapphirerapids", AMX)


def test_f32_runs_everywhere_and_others_are_not_known() -> None:
    check_precision("f32", "haswell", "+avx2")
    with pytest.raises(sx.InputError, match="there are f32, f32-amx3, f32-amx6, bf16"):
        check_precision("tf32", "haswell", "+avx2")


def test_the_command_line_and_the_report(digits: Path) -> None:
    process = CliRunner()
    for precision in set(NEEDS) - {"f32"}:
        result = process.invoke(cli, ["explain", str(digits), "--precision", precision])
        assert isinstance(result.exception, sx.UnsupportedError)
    report = process.invoke(cli, ["explain", str(digits), "--json"])
    assert json.loads(report.stdout)["options"]["precision"] == "f32"
    assert "precision: f32" in process.invoke(cli, ["explain", str(digits)]).stdout
    with pytest.raises(sx.UnsupportedError):
        sx.compile(digits, precision="bf16")
