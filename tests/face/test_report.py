"""The report for people."""

from __future__ import annotations

from sardonyx.tools.report import abbreviated


def test_long_expressions_are_cut_between_their_outermost_parts() -> None:
    whole = "192*N*max(((H + 1)//2)*((W + 1)//2), 192*((H + 31)//32)) + 1856*T + 64*max((3*N + 7)//8, T*(H + 1))"
    assert abbreviated(whole) == whole
    head = "192*N*max(((H + 1)//2)*((W + 1)//2), 192*((H + 31)//32)) + 1856*T"
    assert abbreviated(whole, 80) == f"{head} ... ({len(whole) - len(head)} characters more)"
    assert abbreviated("(" * 300, 60) == "(" * 60 + " ... (240 characters more)"
