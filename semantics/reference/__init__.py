"""Reference functions: what each ONNX operator computes, in numpy, written from the text of the standard.

The graph-level executor, constant folding and hosted operators use them.  The package needs numpy and ml_dtypes only.

* `REFERENCE[domain, operator](inputs, attributes, outputs)` evaluates a node at the newest version of its operator.
* A tensor is an ndarray (a string tensor has dtype object and holds str), a sequence a list, a map a dict, an
  optional its element or None.  Attributes are plain values: tensors ndarrays, graphs functions.
* The functions themselves take their operands by position and attributes by name, with the schema's defaults:
  `conv(x, w, pads=[1, 1, 1, 1])`.

Floats are computed in float64 and rounded once to the result's type, by way of float32 for 16 bits and less, except
where the standard names an intermediate precision.  What the standard leaves open is decided so: integers wrap; x / 0
and x % 0 are 0; the least integer divided by -1 is itself; a float outside an integer type's range saturates (below 32
bits: to int32, of which the low bits stay), NaN gives 0; a random seed repeats its draw.
"""

from .dtypes import DTYPES, NUMBERS, Array, Value, dtype_of
from .table import REFERENCE, Reference, as_value

__all__ = ["DTYPES", "NUMBERS", "REFERENCE", "Array", "Reference", "Value", "as_value", "dtype_of"]
