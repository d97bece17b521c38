"""Precision modes: the one that runs everywhere, and what is said of the others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from sardonyx.dialects.target import Target

import sardonyx as sx
from sardonyx.cli import cli
from sardonyx.compiler import emitted, host_target
from sardonyx.options import Options
from sardonyx.precision import NEEDS, check_precision

AMX = "+avx2,+amx-tile,+amx-bf16"


@pytest.mark.parametrize("precision", ["f32-amx3", "f32-amx6"])
def test_a_mode_that_the_cpu_lacks_names_the_feature(precision: str) -> None:
    expected = f"precision='{precision}' needs a CPU with amx-tile and amx-bf16, which znver5 does not have"
    with pytest.raises(sx.UnsupportedError, match=expected):
        check_precision(precision, "znver5", "+avx2,-amx-tile,-amx-bf16")
    with pytest.raises(sx.UnsupportedError, match="needs a CPU with amx-bf16, which"):
        check_precision(precision, "other", "+avx2,+amx-tile")
    with pytest.raises(sx.UnsupportedError, match="this version has no kernels for amx-bf16"):
        check_precision(precision, "sapphirerapids", AMX)


def test_bf16_is_offered_where_it_is_faster() -> None:
    check_precision("bf16", "znver5", "+avx2,+avx512bf16")
    with pytest.raises(sx.UnsupportedError, match="needs a CPU with avx512bf16, which znver3 does not have"):
        check_precision("bf16", "znver3", "+avx2,-avx512bf16")
    with pytest.raises(sx.UnsupportedError, match="on cooperlake avx512bf16 is no faster than f32"):
        check_precision("bf16", "cooperlake", "+avx2,+avx512bf16")
    with pytest.raises(sx.UnsupportedError, match="this version has no kernels for amx-bf16"):
        check_precision("bf16", "sapphirerapids", f"{AMX},+avx512bf16")


def test_f32_runs_everywhere_and_others_are_not_known() -> None:
    check_precision("f32", "haswell", "+avx2")
    with pytest.raises(sx.InputError, match="there are f32, f32-amx3, f32-amx6, bf16"):
        check_precision("tf32", "haswell", "+avx2")


def test_the_command_line_and_the_report(digits: Path) -> None:
    process = CliRunner()
    for precision in set(NEEDS) - {"f32", "bf16"}:
        result = process.invoke(cli, ["explain", str(digits), "--precision", precision])
        assert isinstance(result.exception, sx.UnsupportedError)
    report = process.invoke(cli, ["explain", str(digits), "--json"])
    assert json.loads(report.stdout)["options"]["precision"] == "f32"
    assert "precision: f32" in process.invoke(cli, ["explain", str(digits)]).stdout
    without = replace(host_target(), cpu="znver3", features="+avx2,+fma")
    for compile_ in (sx.compile, emitted_text):
        with pytest.raises(sx.UnsupportedError, match="needs a CPU with avx512bf16, which znver3 does not have"):
            compile_(digits, precision="bf16", target=without)


def emitted_text(model: Path, precision: str, target: Target) -> str:
    return emitted(model, "tensor", Options(precision=precision), target=target)[0]
