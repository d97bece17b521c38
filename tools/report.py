"""The compiler's report as text for people; needs nothing but the report."""

from __future__ import annotations

from typing import Any

MOST = 200
"""Characters of an expression that is not meant to be typed again; the whole one is in the report as JSON."""


def abbreviated(expression: str, most: int = MOST) -> str:
    """A long expression up to a whole part that fits, outermost if there is one, and how much is left out."""
    if len(expression) <= most:
        return expression
    cuts: list[tuple[int, bool, int]] = []
    depth = 0
    for at, letter in enumerate(expression[:most]):
        depth += (letter == "(") - (letter == ")")
        if 3 * at >= most and expression.startswith((" + ", " - ", ", ", "*", " == ", " <= "), at):
            cuts.append((-depth, letter != "*", at))
    cut = max(cuts, default=(0, True, most))[2]
    return f"{expression[:cut]} ... ({len(expression) - cut} characters more)"


def render(report: dict[str, Any], kernels: bool = False) -> str:
    """The report as text for people; with `kernels` also what was chosen for each kernel."""
    lines = [f"{len(report['kernels'])} kernel calls, {len(report['functions'])} distinct kernels"]
    for call in report["kernels"]:
        sizes = f" <{', '.join(map(abbreviated, call['dims']))}>" if call["dims"] else ""
        lines.append(f"  {call['name']}{sizes}: {', '.join(call['nodes'])}")
        function = report["functions"].get(call["name"], {})
        if function.get("patterns"):
            lines.append(f"      rewritten by {', '.join(function['patterns'])}")
        if function.get("precision", "f32") != "f32":
            lines.append(f"      products of {function['precision']}, summed in f32")
        for fused in function.get("fused", ()):
            lines.append(f"      {fused['producer']} + {fused['consumer']}: {fused['reason']}")
        for part, choices in function.get("schedule", {}).items() if kernels else ():
            lines.append(f"      {part}: {', '.join(f'{name}={value}' for name, value in choices.items())}")
    if report["refused"]:
        lines.append("not fused:")
        for row in report["refused"]:
            missing = f"; would fuse with assume={row['missing']!r}" if "missing" in row else ""
            lines.append(f"  {', '.join(row['producer'])} | {', '.join(row['consumer'])}: {row['why']}{missing}")
    for version in report["versions"]:
        names = (", ".join(k["name"] for k in version[side]) for side in ("holds", "otherwise"))
        lines.append(f"where {version['condition']}: {next(names)}; else {next(names)}")
    if report["guards"]:
        lines.append("guards:")
        lines.extend(f"  {abbreviated(g['condition'])}  {g['why']}" for g in report["guards"])
    if report.get("contradicted"):
        lines.append("the file declares otherwise, which is ignored:")
        lines.extend(f"  {line}" for line in report["contradicted"])
    if "options" in report:
        fast = "; fast math: a product and a sum of different operators round once" * report["options"]["fast_math"]
        lines.append(f"precision: {report['options']['precision']}{fast}")
    if "memory" in report:
        lines.append(f"arena: {abbreviated(report['memory']['arena'])} bytes")
    lines.append(f"hosted: {', '.join(report['hosted']) if report['hosted'] else 'none, every operator is native'}")
    return "\n".join(lines)
