"""Operators of other domains that stand for several of ONNX's: what each expands to, in one table.

Inference replaces such a node when it meets it, so a rule knows the ranks, element types and constants of its operands;
sizes it computes in the graph (`Shape`), and inference makes constants of them.  Fusion then sees only operators of
ONNX.  What the operators mean is from https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation

from ...dialects import onnx
from ...semantics.custom import Operators, identity_of
from .activations import ACTIVATIONS
from .attention import ATTENTION
from .decoding import DECODING
from .expansion import Expansion, Rule
from .experimental import EXPERIMENTAL
from .experts import EXPERTS
from .images import IMAGES
from .movement import MOVEMENT
from .normalizations import NORMALIZATIONS
from .packed_weights import PACKED_WEIGHTS
from .products import PRODUCTS
from .quantized import QUANTIZED
from .recurrent import RECURRENT
from .sparse_attention import SPARSE_ATTENTION

MICROSOFT = "com.microsoft"

EXPANSIONS: Mapping[tuple[str, str], Rule] = {
    **{
        (MICROSOFT, name): rule
        for table in (
            ACTIVATIONS,
            ATTENTION,
            DECODING,
            EXPERTS,
            IMAGES,
            MOVEMENT,
            NORMALIZATIONS,
            PACKED_WEIGHTS,
            PRODUCTS,
            QUANTIZED,
            RECURRENT,
            SPARSE_ATTENTION,
        )
        for name, rule in table.items()
    },
    **{("", name): rule for name, rule in EXPERIMENTAL.items()},
}
"""By domain and name."""


def expansion_of(op: Operation, operators: Operators) -> Rule | None:
    """The rule for a node; None where there is none, the user has an operator of that name, or it is native itself."""
    if not isinstance(op, onnx.CustomOp) or op.kind is not None:
        return None
    key = identity_of(op)
    return None if key in operators else EXPANSIONS.get(key)


__all__ = ["EXPANSIONS", "Expansion", "Rule", "expansion_of"]
