"""Shape rules of the compiler's own operators, and of those of other domains that are hosted, by domain and name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import f32, f64

from ...dialects import onnx
from ...dialects.dims import as_dim
from ...dialects.onnx.types import STRING
from ..custom import OWN_DOMAIN
from .context import Context, ShapeError, Types


def _attribute(c: Context, name: str) -> Any:
    """An attribute as a plain value; None where the node does not have it."""
    assert isinstance(c.op, onnx.CustomOp)
    value = c.op.attributes_.data.get(name)
    return None if value is None else onnx.plain(value)


def trees(c: Context) -> Types:
    """Scores of the rows: [N, targets] in float32 or float64."""
    n, _ = c.dims_of_rank(0, 2)
    return [c.tensor(f64 if _attribute(c, "double_result") else f32, [n, _attribute(c, "targets")])]


def couple(c: Context) -> Types:
    """Probabilities of classes [N, classes] from those of pairs."""
    return [c.like(0, [c.dims_of_rank(0, 2)[0], _attribute(c, "classes")])]


def lookup(c: Context) -> Types:
    """A value of the third operand for each element of the first."""
    return [c.tensor(c.element(2), c.dims(0))]


def n_grams(c: Context) -> Types:
    """Counts [.., columns] in float32."""
    return [c.tensor(f32, [*c.dims(0)[:-1], _attribute(c, "columns")])]


def block_mat_mul(c: Context) -> Types:
    """Products [.., columns] of the first operand's type."""
    x = c.dims(0)
    if not x:
        raise ShapeError("MatMulNBits needs rows")
    c.equal(x[-1], as_dim(_attribute(c, "depth")), "the depth of MatMulNBits")
    return [c.like(0, [*x[:-1], _attribute(c, "columns")])]


def stack_texts(c: Context) -> Types:
    """The texts of a sequence along a new first axis; of none, unknown sizes are 0."""
    rows = [c.fresh(0, axis) if n < 0 else n for axis, n in enumerate(_attribute(c, "sizes"), 1)]
    return [c.tensor(STRING, [c.fresh(0, 0), *rows])]


def inverse(c: Context) -> Types:
    """Square matrices."""
    x = c.dims(0)
    if len(x) < 2:
        raise ShapeError("Inverse needs matrices")
    c.equal(x[-1], x[-2], "Inverse of square matrices")
    return [c.type_of(0)]


RULES: dict[tuple[str, str], Callable[[Context], Types]] = {
    ("com.microsoft", "Inverse"): inverse,
    (OWN_DOMAIN, "BlockMatMul"): block_mat_mul,
    (OWN_DOMAIN, "Couple"): couple,
    (OWN_DOMAIN, "Lookup"): lookup,
    (OWN_DOMAIN, "NGrams"): n_grams,
    (OWN_DOMAIN, "Quantile"): lambda c: [c.type_of(0)],
    (OWN_DOMAIN, "StackTexts"): stack_texts,
    (OWN_DOMAIN, "Trees"): trees,
}
