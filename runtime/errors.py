"""The errors that users see. Plain Python: every part of the product may import them, also where nothing compiles."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """What sardonyx raises when something outside of it is wrong or beyond it."""


class ModelError(Error):
    """The model is wrong: a damaged file, an undefined name, a node that its operator does not allow."""


class UnsupportedError(Error):
    """The model is right, and we lack something that it needs."""


class OpenRankError(UnsupportedError):
    """A rank that only the inputs of a call decide; `manifest` describes the program that asks them."""

    def __init__(self, message: str, question: Any) -> None:
        super().__init__(message)
        self.question = question
        self.manifest: Any = None
        self.externals: list[str] = []


class InputError(Error):
    """The call is wrong: an input that is missing, of another type, or of sizes that the model does not admit."""


class ResourceError(InputError):
    """The call is right, and needs more memory than there is to take."""


class UsageError(InputError):
    """What an option or argument says is none of what it takes; the command line exits as for any wrong usage."""


class CompilerBug(Error):
    """Our fault. `reproducer` is the path of a file that shows it, where one was written."""

    def __init__(self, message: str, reproducer: str | None = None) -> None:
        super().__init__(message)
        self.reproducer = reproducer
