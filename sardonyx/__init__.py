"""Sardonyx: a multi-level dialect compiler from ONNX to fused native CPU kernels, in pure Python.

`compile` takes a model to a program, `infer_shapes` and `rewrite` take models to models, `lower` and `run` stop at any
level and go on from there.  Nothing heavy is imported before one of them is used.
"""

from importlib import import_module as _import_module
from pathlib import Path as _Path
from typing import TYPE_CHECKING
from typing import Any as _Any

_root = _Path(__file__).resolve().parent.parent  # a checkout: subpackages are the repository's top-level folders
if (_root / "pyproject.toml").is_file() and (_root / "dialects").is_dir():
    __path__.append(str(_root))

from .runtime.errors import CompilerBug, Error, InputError, ModelError, ResourceError, UnsupportedError  # noqa: E402

if TYPE_CHECKING:
    from . import testing
    from .comparison import compare
    from .compiler import lower, read, rewrite, run
    from .infer import infer_shapes
    from .ops import op, pointwise
    from .program import Program, compile

__version__ = "0.1.0"

_LAZY = {
    "Program": "program",
    "compare": "comparison",
    "compile": "program",
    "infer_shapes": "infer",
    "lower": "compiler",
    "op": "ops",
    "pointwise": "ops",
    "read": "compiler",
    "rewrite": "compiler",
    "run": "compiler",
}

__all__ = [
    "CompilerBug", "Error", "InputError", "ModelError", "Program", "ResourceError", "UnsupportedError",
    "compare", "compile", "infer_shapes", "lower", "op", "pointwise", "read", "rewrite", "run", "testing",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name in _LAZY:
        return getattr(_import_module(f".{_LAZY[name]}", __name__), name)
    if name == "testing":
        return _import_module(".testing", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
