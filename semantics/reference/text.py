"""Operators on string tensors, and n-gram counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from .dtypes import Array, strings
from .dtypes import text as text_of
from .mathematics import Function


def string_concat(x: Array, y: Array, /) -> Array:
    left, right = np.broadcast_arrays(x, y)
    joined = [text_of(a) + text_of(b) for a, b in zip(left.reshape(-1), right.reshape(-1), strict=True)]
    return strings(joined, left.shape)


def string_normalizer(
    x: Array,
    /,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str | None = None,
    stopwords: Sequence[str] | None = None,
) -> Array:
    """Stop words removed from a [C] or [1, C] tensor, then the case changed (by Unicode's rules in any locale)."""
    del locale
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
        raise ValueError(f"StringNormalizer of shape {list(x.shape)}")
    fold: Callable[[str], str] = str if is_case_sensitive else str.lower
    stops = {fold(w) for w in stopwords or ()}
    kept = [w for w in map(text_of, x.reshape(-1)) if fold(w) not in stops]
    change: dict[str, Callable[[str], str]] = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}
    if case_change_action not in change:
        raise ValueError(f"StringNormalizer has no case_change_action {case_change_action!r}")
    result = [change[case_change_action](w) for w in kept] or [""]
    return strings(result, (1,) * (x.ndim - 1) + (len(result),))


def string_split(x: Array, /, *, delimiter: str | None = None, maxsplit: int | None = None) -> tuple[Array, Array]:
    """The parts of each string along a new last axis, filled up with empty strings, and how many there are."""
    limit = -1 if maxsplit is None else maxsplit
    parts = [text_of(w).split(delimiter or None, limit) for w in x.reshape(-1)]
    width = max(map(len, parts), default=0)
    flat = [w for row in parts for w in row + [""] * (width - len(row))]
    counts = np.array([len(row) for row in parts], dtype=np.int64)
    return strings(flat, (*x.shape, width)), counts.reshape(x.shape)


# where RE2's syntax differs from Python's: the end of the text, Unicode classes, and constructs that only one has
_RE2_ONLY = re.compile(r"\\[pPCQ]|\\z")
_PYTHON_ONLY = re.compile(r"\(\?(?:=|!|<=|<!|>|\(|P=)|(?<!\\)(?:\\\\)*\\[1-9]|[*+?}]\+")


def compiled_re2(pattern: str) -> re.Pattern[str]:
    """An RE2 pattern as Python's; \\d, \\w, \\s and \\b are of ASCII in RE2.

    Raises ValueError for a pattern that is malformed or that RE2 refuses, NotImplementedError for the classes \\p{..}
    and the literals \\Q..\\E, which Python's syntax lacks.
    """
    if _PYTHON_ONLY.search(pattern):
        raise ValueError(f"RegexFullMatch: {pattern!r} is not in RE2's syntax")
    pattern = pattern.replace(r"\z", r"\Z")
    if _RE2_ONLY.search(pattern):
        raise NotImplementedError(f"RegexFullMatch: {pattern!r} uses RE2 syntax that this library does not have")
    try:
        return re.compile(pattern, re.ASCII)
    except re.error as e:
        raise ValueError(f"RegexFullMatch: {pattern!r}: {e}") from None


def regex_full_match(x: Array, /, *, pattern: str | None = None) -> Array:
    matcher = compiled_re2(pattern or "")
    hits = [matcher.fullmatch(text_of(w)) is not None for w in x.reshape(-1)]
    return np.array(hits, dtype=np.bool_).reshape(x.shape)


def tf_idf_vectorizer(
    x: Array,
    /,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Sequence[int] | None = None,
    pool_strings: Sequence[str] | None = None,
    weights: Sequence[float] | None = None,
) -> Array:
    """Counts (TF), presence (IDF) or weighted counts (TFIDF) of the pool's n-grams in each row, skips allowed."""
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ValueError(f"TfIdfVectorizer has no mode {mode!r}")
    pool: list[object] = list(pool_strings if pool_strings is not None else pool_int64s or ())
    grams = pool_grams(pool, ngram_counts, min_gram_length, max_gram_length)
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    counts = np.zeros((len(rows), max(ngram_indexes) + 1), dtype=np.float32)
    for r, row in enumerate(rows):
        tokens = [text_of(v) if pool_strings is not None else int(v) for v in row]
        for length in range(min_gram_length, max_gram_length + 1):
            # unigrams have nothing to skip
            for skip in range(min(max_skip_count, len(tokens)) + 1 if length > 1 else 1):
                for first in range(len(tokens) - (length - 1) * (skip + 1)):
                    gram = tuple(tokens[first + i * (skip + 1)] for i in range(length))
                    if gram in grams:
                        counts[r, ngram_indexes[grams[gram]]] += 1
    if mode != "TF":
        factor = np.ones(counts.shape[1], np.float32)
        if weights is not None:
            factor[list(ngram_indexes)] = weights
        counts = np.where(counts > 0, factor, np.float32(0)) if mode == "IDF" else counts * factor
    return counts.reshape(*x.shape[:-1], counts.shape[1])


def pool_grams(
    pool: Sequence[object], ngram_counts: Sequence[int], shortest: int, longest: int
) -> dict[tuple[object, ...], int]:
    """n-gram -> its number in the pool, for the lengths in question."""
    result: dict[tuple[object, ...], int] = {}
    number = 0
    ends = [*ngram_counts[1:], len(pool)]
    for length, (start, end) in enumerate(zip(ngram_counts, ends, strict=True), start=1):
        for place in range(start, end, length):
            if shortest <= length <= longest:
                result[tuple(pool[place : place + length])] = number
            number += 1
    return result


TEXT: dict[str, Function] = {
    "RegexFullMatch": regex_full_match,
    "StringConcat": string_concat,
    "StringNormalizer": string_normalizer,
    "StringSplit": string_split,
    "TfIdfVectorizer": tf_idf_vectorizer,
}
