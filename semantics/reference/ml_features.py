"""ai.onnx.ml: operators that prepare features and map labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .dtypes import Array, Value, double, is_float, is_string, narrow, strings
from .dtypes import text as text_of
from .mathematics import Function


def array_feature_extractor(x: Array, y: Array, /) -> Array:
    """Columns of the last axis; of a vector as one row."""
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    indices = y.reshape(-1)
    if indices.size and (indices.min() < 0 or indices.max() >= rows.shape[-1]):
        raise IndexError(f"feature {int(indices.max())} of {rows.shape[-1]}")
    return np.take(rows, indices, axis=-1)


def binarizer(x: Array, /, *, threshold: float = 0.0) -> Array:
    return np.asarray(x > threshold).astype(x.dtype)


def cast_map(
    x: Mapping[int, object], /, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1
) -> Array:
    """The values of a map by rising key, or with map_form SPARSE at the place of their key, as one row."""
    if map_form == "DENSE":
        values = [x[k] for k in sorted(x)]
    else:
        if any(not 0 <= k < max_map for k in x):
            raise IndexError(f"CastMap of a key outside [0, {max_map})")
        default: object = "" if cast_to == "TO_STRING" else 0
        values = [x.get(k, default) for k in range(max_map)]
    if cast_to == "TO_STRING":
        return strings([text_of(v) for v in values], (1, len(values)))
    dtype = {"TO_FLOAT": np.float32, "TO_INT64": np.int64}[cast_to]
    return np.array([[dtype(float(v) if isinstance(v, str) else v) for v in values]], dtype=dtype)  # pyright: ignore[reportArgumentType,reportCallIssue]


def category_mapper(
    x: Array,
    /,
    *,
    cats_int64s: Sequence[int] | None = None,
    cats_strings: Sequence[str] | None = None,
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Array:
    if cats_int64s is None or cats_strings is None or len(cats_int64s) != len(cats_strings):
        raise ValueError("CategoryMapper needs as many integers as strings")
    if is_string(x.dtype):
        numbers = dict(zip(cats_strings, cats_int64s, strict=True))
        found = [numbers.get(text_of(v), default_int64) for v in x.reshape(-1)]
        return np.array(found, dtype=np.int64).reshape(x.shape)
    words = dict(zip(cats_int64s, cats_strings, strict=True))
    return strings([words.get(int(v), default_string) for v in x.reshape(-1)], x.shape)


def dict_vectorizer(
    x: Mapping[object, object],
    /,
    *,
    int64_vocabulary: Sequence[int] | None = None,
    string_vocabulary: Sequence[str] | None = None,
) -> Array:
    """The values of a map at the places of their keys in the vocabulary, as one row; 0 or "" where there is none."""
    vocabulary: Sequence[object] = string_vocabulary if string_vocabulary is not None else int64_vocabulary or ()
    sample = next(iter(x.values()), np.float32(0))
    if isinstance(sample, str | bytes):
        return strings([text_of(x.get(k, "")) for k in vocabulary], (1, len(vocabulary)))
    dtype = np.asarray(sample).dtype if isinstance(sample, np.generic | np.ndarray) else _plain_type(sample)
    return np.array([[x.get(k, 0) for k in vocabulary]], dtype=dtype).reshape(1, len(vocabulary))


def _plain_type(value: object) -> type:
    return np.int64 if isinstance(value, int) else np.float32


def feature_vectorizer(*inputs: Array, inputdimensions: Sequence[int] | None = None) -> Array:
    """Columns side by side as float32; `inputdimensions` cuts or pads each input to its number of columns."""
    rows = [x.reshape(1, -1) if x.ndim < 2 else x.reshape(len(x), -1) for x in inputs]
    if inputdimensions is not None:
        rows = [_columns(x, n) for x, n in zip(rows, inputdimensions, strict=True)]
    return np.concatenate([x.astype(np.float32) for x in rows], axis=1)


def _columns(x: Array, count: int) -> Array:
    return x[:, :count] if x.shape[1] >= count else np.pad(x, ((0, 0), (0, count - x.shape[1])))


def imputer(
    x: Array,
    /,
    *,
    imputed_value_floats: Sequence[float] | None = None,
    imputed_value_int64s: Sequence[int] | None = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Array:
    """Elements equal to the replaced value (NaN is equal to NaN) exchanged, by feature where there is a list."""
    if is_float(x.dtype):
        missing = np.isnan(x) if np.isnan(replaced_value_float) else x == replaced_value_float
        values: Sequence[float] | None = imputed_value_floats
    else:
        missing, values = x == replaced_value_int64, imputed_value_int64s
    if not values:
        raise ValueError("Imputer without a value to put in")
    if len(values) not in (1, x.shape[-1]):
        raise ValueError(f"Imputer with {len(values)} values for {x.shape[-1]} features")
    return np.where(missing, np.array(values).astype(x.dtype), x)


def label_encoder(
    x: Array,
    /,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: Array | None = None,
    keys_floats: Sequence[float] | None = None,
    keys_int64s: Sequence[int] | None = None,
    keys_strings: Sequence[str] | None = None,
    keys_tensor: Array | None = None,
    values_floats: Sequence[float] | None = None,
    values_int64s: Sequence[int] | None = None,
    values_strings: Sequence[str] | None = None,
    values_tensor: Array | None = None,
) -> Array:
    """Each element's value by key, the last of equal keys; any NaN is the same key."""
    keys = _listed(keys_tensor, (keys_strings, keys_int64s, keys_floats))
    values = _listed(values_tensor, (values_strings, values_int64s, values_floats))
    default: object
    if values_tensor is not None:
        dtype = values_tensor.dtype
        default = "_Unused" if is_string(dtype) else -0.0 if is_float(dtype) else -1
    elif values_strings is not None:
        dtype, default = np.dtype(object), default_string
    else:
        whole = values_int64s is not None
        dtype, default = (np.dtype(np.int64), default_int64) if whole else (np.dtype(np.float32), default_float)
    if default_tensor is not None:
        (default,) = _listed(default_tensor, ())
    table = {_key(k): v for k, v in zip(keys, values, strict=True)}
    found = [table.get(_key(v), default) for v in _listed(x, ())]
    return strings([str(v) for v in found], x.shape) if is_string(dtype) else np.array(found, dtype).reshape(x.shape)


def _listed(tensor: Array | None, lists: Sequence[Sequence[object] | None]) -> list[object]:
    if tensor is not None:
        flat = tensor.reshape(-1)
        return [text_of(v) for v in flat] if is_string(tensor.dtype) else flat.tolist()
    return list(next((v for v in lists if v is not None), ()))


def _key(value: object) -> object:
    return "NaN" if isinstance(value, float) and np.isnan(value) else value


def normalizer(x: Array, /, *, norm: str = "MAX") -> Array:
    """Rows divided by their maximum, sum or Euclidean norm; where that is 0, as they are."""
    rows = double(x)
    if norm == "MAX":
        divisor = np.max(rows, axis=-1, keepdims=True)
    elif norm == "L1":
        divisor = np.sum(np.abs(rows), axis=-1, keepdims=True)
    elif norm == "L2":
        divisor = np.sqrt(np.sum(rows**2, axis=-1, keepdims=True))
    else:
        raise ValueError(f"Normalizer has no norm {norm!r}")
    return narrow(rows / np.where(divisor == 0, 1.0, divisor), np.dtype(np.float32))


def one_hot_encoder(
    x: Array,
    /,
    *,
    cats_int64s: Sequence[int] | None = None,
    cats_strings: Sequence[str] | None = None,
    zeros: int = 1,
) -> Array:
    categories: Sequence[object] = cats_strings if cats_strings is not None else cats_int64s or ()
    place = {c: i for i, c in enumerate(categories)}
    cells = [text_of(v) for v in x.reshape(-1)] if is_string(x.dtype) else x.reshape(-1).astype(np.int64).tolist()
    result = np.zeros((len(cells), len(categories)), np.float32)
    for i, cell in enumerate(cells):
        if cell in place:
            result[i, place[cell]] = 1.0
        elif not zeros:
            raise ValueError(f"OneHotEncoder: {cell!r} is no category")
    return result.reshape(*x.shape, len(categories))


def scaler(x: Array, /, *, offset: Sequence[float] | None = None, scale: Sequence[float] | None = None) -> Array:
    shift = np.array(offset if offset else [0.0])
    factor = np.array(scale if scale else [1.0])
    return narrow((double(x) - shift) * factor, np.dtype(np.float32))


def zip_map(
    x: Array,
    /,
    *,
    classlabels_int64s: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
) -> list[Value]:
    """Each row as a map from class label to value."""
    keys: Sequence[object] = classlabels_strings if classlabels_strings is not None else classlabels_int64s or ()
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    if rows.shape[1] != len(keys):
        raise ValueError(f"ZipMap of {rows.shape[1]} columns with {len(keys)} labels")
    return [dict(zip(keys, row.tolist(), strict=True)) for row in rows]


ML_FEATURES: dict[str, Function] = {
    "ArrayFeatureExtractor": array_feature_extractor,
    "Binarizer": binarizer,
    "CastMap": cast_map,
    "CategoryMapper": category_mapper,
    "DictVectorizer": dict_vectorizer,
    "FeatureVectorizer": feature_vectorizer,
    "Imputer": imputer,
    "LabelEncoder": label_encoder,
    "Normalizer": normalizer,
    "OneHotEncoder": one_hot_encoder,
    "Scaler": scaler,
    "ZipMap": zip_map,
}
