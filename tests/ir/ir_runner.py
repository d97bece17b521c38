"""Runs the two commands of a RUN line in this process: xDSL's opt with our universe, and filecheck."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser as CheckParser
from xdsl.xdsl_opt_main import xDSLOptMain

from sardonyx.universe import UNIVERSE


class Opt(xDSLOptMain):
    """`xdsl-opt` as it is where sardonyx is installed: the entry point may be missing in a bare checkout."""

    def register_all_dialects(self) -> None:
        super().register_all_dialects()
        for name, factory in UNIVERSE.all_dialects.items():
            if name not in self.ctx.registered_dialect_names:
                self.ctx.register_dialect(name, factory)

    def register_all_passes(self) -> None:
        super().register_all_passes()
        self.available_passes |= UNIVERSE.all_passes


def run_opt(command: list[str], path: Path) -> str:
    """What `xdsl-opt ...` prints."""
    assert command[0] == "xdsl-opt", f"no command {command[0]!r}"
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        Opt(args=[str(path) if word == "%s" else word for word in command[1:]]).run()
    return output.getvalue()


def check_text(command: list[str], path: Path, text: str) -> None:
    """What `... | filecheck %s` checks. Raises AssertionError with filecheck's message."""
    assert command[0] == "filecheck", f"no command {command[0]!r}"
    options = parse_argv_options([str(path) if word == "%s" else word for word in command])
    messages = io.StringIO()
    with contextlib.redirect_stdout(messages), contextlib.redirect_stderr(messages):
        status = Matcher(options, FInput("xdsl-opt's output", text), CheckParser.from_opts(options)).run()
    assert status == 0, f"{messages.getvalue()}\n{text}"
