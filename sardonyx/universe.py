"""The dialects and passes of sardonyx for stock `xdsl-opt`, by the `xdsl.universe` entry point.

Each is imported when it is asked for, not before.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe

DIALECTS: dict[str, tuple[str, str]] = {
    "onnx": (".dialects.onnx", "Onnx"),
    "dims": (".dialects.dims", "Dims"),
    "kernel": (".dialects.kernel", "Kernel"),
    "vectorx": (".dialects.vectorx", "VectorX"),
    "llvmx": (".dialects.llvmx", "LLVMX"),
    "target": (".dialects.target", "TargetDialect"),
}
"""Where each dialect is."""

PASSES: dict[str, tuple[str, str]] = {
    "sx-upgrade-opset": (".rewrites.upgrade", "UpgradeOpset"),
    "sx-infer-shapes": (".rewrites.infer", "InferShapes"),
    "sx-simplify": (".passes", "Simplify"),
    "sx-outline-kernels": (".rewrites.outline", "OutlineKernels"),
    "sx-lower-to-tensor": (".passes", "LowerToTensor"),
    "sx-lower-to-loops": (".passes", "LowerToLoops"),
}
"""Where each pass is, in the pipeline's order."""


def dialect(place: tuple[str, str]) -> Callable[[], Dialect]:
    """Imports a dialect when it is called."""
    return lambda: getattr(import_module(place[0], __package__), place[1])


def module_pass(place: tuple[str, str]) -> Callable[[], type[ModulePass]]:
    """Imports a pass when it is called."""
    return lambda: getattr(import_module(place[0], __package__), place[1])


UNIVERSE = Universe(
    all_dialects={name: dialect(place) for name, place in DIALECTS.items()},
    all_passes={name: module_pass(place) for name, place in PASSES.items()},
)
