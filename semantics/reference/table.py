"""The table of reference functions, and how one is called."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .activations import ACTIVATIONS
from .arithmetic import ARITHMETIC
from .attention import ATTENTION, ATTENTION_PREVIEW
from .blocks import BLOCKS
from .casting import CASTING
from .control import CONTROL
from .convolution import CONVOLUTION
from .creation import CREATION
from .detection import DETECTION
from .dtypes import Value, strings
from .dtypes import text as text_of
from .images import IMAGES
from .indexing import INDEXING
from .linear import LINEAR
from .lookups import LOOKUPS
from .mathematics import MATHEMATICS, Function
from .microsoft import MICROSOFT
from .ml_features import ML_FEATURES
from .ml_linear import ML_LINEAR
from .ml_trees import LOWERED, ML_TREES
from .movement import MOVEMENT
from .normalization import NORMALIZATION
from .pooling import POOLING
from .quantization import QUANTIZATION
from .randomness import RANDOMNESS
from .recurrent import RECURRENT
from .reductions import REDUCTIONS
from .sampling import SAMPLING
from .sequences import SEQUENCES, STACKS
from .signal import SIGNAL
from .text import TEXT
from .training import LOSSES, OPTIMIZERS


@dataclass(frozen=True)
class Reference:
    """A reference function, called by formal position: `Reference(f)(inputs, attributes, outputs)`."""

    function: Function
    _defaults: Mapping[str, object] = field(init=False, repr=False)
    _wants_outputs: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parameters = inspect.signature(self.function).parameters.values()
        named = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        # attributes are float32 in a file: 0.01 means its nearest float32
        defaults = {n: float(np.float32(d)) for n, d in named.items() if isinstance(d, float)}
        object.__setattr__(self, "_defaults", defaults)
        object.__setattr__(self, "_wants_outputs", "outputs" in named)

    def __call__(
        self, inputs: Sequence[Value], attributes: Mapping[str, object] | None = None, outputs: int = 1
    ) -> tuple[Value, ...]:
        """The results for `inputs` by formal position, None for an absent one.

        `attributes` are plain values (tensors as arrays, graphs as functions); one that is absent or None has its
        default.  `outputs` is how many results the node has.  At least so many are returned.  Raises ValueError and
        IndexError for operands that the operator does not allow, NotImplementedError for what this library lacks.
        """
        given = {**self._defaults, **{n: v for n, v in (attributes or {}).items() if v is not None}}
        if self._wants_outputs:
            given["outputs"] = outputs
        with np.errstate(all="ignore"):
            result = self.function(*inputs, **given)
        values = result if isinstance(result, tuple) else (result,)
        return tuple(as_value(v) for v in values)


def as_value(value: object) -> Value:
    """Scalars as tensors; string tensors as arrays of str."""
    if value is None or isinstance(value, list | dict):
        return value
    array = np.asarray(value)
    if array.dtype.kind in "US" or (array.dtype.kind == "T"):
        return strings([text_of(v) for v in array.reshape(-1)], array.shape)
    return array


_FAMILIES: dict[str, Sequence[Mapping[str, Function]]] = {
    "": (
        ACTIVATIONS,
        ARITHMETIC,
        ATTENTION,
        CASTING,
        CONTROL,
        CONVOLUTION,
        CREATION,
        DETECTION,
        IMAGES,
        INDEXING,
        LINEAR,
        LOSSES,
        MATHEMATICS,
        MOVEMENT,
        NORMALIZATION,
        POOLING,
        QUANTIZATION,
        RANDOMNESS,
        RECURRENT,
        REDUCTIONS,
        SAMPLING,
        SEQUENCES,
        SIGNAL,
        TEXT,
    ),
    "ai.onnx.ml": (ML_FEATURES, ML_LINEAR, ML_TREES),
    "ai.onnx.preview": (ATTENTION_PREVIEW,),
    "ai.onnx.preview.training": (OPTIMIZERS,),
    "com.microsoft": (MICROSOFT,),
    "sardonyx": (LOWERED, LOOKUPS, BLOCKS, STACKS),
}

REFERENCE: dict[tuple[str, str], Reference] = {
    (domain, name): Reference(function)
    for domain, families in _FAMILIES.items()
    for family in families
    for name, function in family.items()
}
"""(domain, operator) -> its reference function, at the newest version of the operator."""
