"""Sardonyx: a multi-level dialect compiler from ONNX to fused native CPU kernels, in pure Python."""

from pathlib import Path as _Path

__version__ = "0.1.0"

_root = _Path(__file__).resolve().parent.parent  # a checkout: subpackages are the repository's top-level folders
if (_root / "pyproject.toml").is_file() and (_root / "dialects").is_dir():
    __path__.append(str(_root))
