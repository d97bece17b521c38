"""The algebra of dims against brute force: what normal form does never changes a value."""

from __future__ import annotations

import copy
import pickle
from itertools import product

import pytest
import sympy
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sardonyx.dialects.dims.expression import (
    ONE,
    ZERO,
    Dim,
    DimError,
    as_dim,
    dim_broadcast,
    dim_max,
    dim_min,
    never_one,
    parse_dim,
)
from sardonyx.dialects.dims.interval import interval, is_at_least, lower_bound, upper_bound
from sardonyx.dialects.dims.text import brief

NAMES = ("A", "B", "N", "v0")
VALUES = {"A": (0, 1, 2, 5), "B": (0, 1, 3, 4), "N": (0, 1, 6, 7), "v0": (-5, -1, 0, 2)}
BINDINGS = [dict(zip(NAMES, row)) for row in product(*(VALUES[n] for n in NAMES))]

leaf = st.one_of(st.sampled_from(NAMES), st.integers(-4, 7).map(str))
OPERATORS = ["+", "-", "*", "//", "%", "min", "max", "broadcast"]


def _combine(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def text(op: str, a: str, b: str) -> str:
        return f"{op}({a}, {b})" if op.isalpha() else f"(({a}) {op} ({b}))"

    return st.builds(text, st.sampled_from(OPERATORS), children, children)


trees = st.recursive(leaf, _combine, max_leaves=7)


def _divide(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Quotients and remainders by what is at least 1 without anyone's word: they have a value everywhere."""
    return st.one_of(
        st.builds(lambda op, a, b: f"(({a}) {op} ({b}))", st.sampled_from("+-*"), children, children),
        st.builds(lambda op, a, b: f"{op}({a}, {b})", st.sampled_from(["min", "max"]), children, children),
        st.builds(lambda op, a, b: f"(({a}) {op} max({b}, 1))", st.sampled_from(["//", "%"]), children, children),
    )


divided = st.recursive(st.sampled_from(["A", "N", "v0", "0", "1", "2", "-1", "3"]), _divide, max_leaves=8)
SHARED_AGAIN = [  # what extremes of these share is written by other atoms than what is left
    "min(N - 1, (-1)%max(N, 1))",
    "max(N - 1, (-1)%max(N, 1))",
    "max(N//max(N, 1) - min(1, A), min(N, -1)%max(A//max(0, 1), 1))",
    "min(max(N, 1) + (-1)%max(A, 1), (3//max(N, 1))//max(N - 1, 1))",
    "((A*v0)//max(A - 1, 1))%max(A - ((-1)%max(A, 1)), 1)",
]


def _choose(x: str, a: str, b: str) -> str:
    """`a` where `x >= 1`, else `b`."""
    return f"({b} + ({a} - ({b}))*min(max({x}, 0), 1))"


def _choice(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """`a` where `x >= 1`, else `b`, also where x is the difference of two, and where more than one condition tells."""

    def equal(x: str, y: str, a: str, b: str) -> str:
        return f"(({a}) + (({b}) - ({a}))*min(max(({x}) - ({y}), ({y}) - ({x})), 1))"

    return st.one_of(
        st.builds(_choose, children, children, children),
        st.builds(equal, leaf, leaf, children, children),
        _combine(leaf),
    )


choices = st.builds(
    lambda op, a, b: f"{op}({a}, {b})" if op.isalpha() else f"(({a}) {op} ({b}))",
    st.sampled_from(OPERATORS),
    st.recursive(st.one_of(leaf, st.just("9223372036854775807")), _choice, max_leaves=6),
    st.one_of(leaf, st.recursive(leaf, _choice, max_leaves=3)),
)


def broadcast(a: int, b: int) -> int:
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    raise ValueError("no broadcast")


GLOBALS = {"__builtins__": {}, "min": min, "max": max, "broadcast": broadcast}


@settings(max_examples=400, deadline=None)
@given(st.one_of(trees, choices, divided))
@example(SHARED_AGAIN[0])
@example(SHARED_AGAIN[1])
@example(SHARED_AGAIN[2])
@example(SHARED_AGAIN[3])
@example(SHARED_AGAIN[4])
def test_normal_form_keeps_every_value(text: str) -> None:
    code = compile(text, "tree", "eval")
    try:
        dim = parse_dim(text)
    except DimError:
        for binding in BINDINGS:  # only what has no value anywhere is refused
            with pytest.raises((ZeroDivisionError, ValueError)):
                eval(code, GLOBALS, binding)
        return
    back = compile(str(dim), "dim", "eval")
    low, high = interval(dim)
    least, most = lower_bound(dim), upper_bound(dim)
    single = never_one(dim)
    for binding in BINDINGS:
        try:
            expected = eval(code, GLOBALS, binding)
        except (ZeroDivisionError, ValueError):
            continue
        assert dim.evaluate(binding) == expected, (str(dim), binding)
        assert eval(back, GLOBALS, binding) == expected
        assert low <= expected <= high
        assert low <= least <= expected <= most <= high
        assert not (single and expected == 1)
        assert not is_at_least(dim, expected + 1)
        assert is_at_least(dim, 0) or least < 0


@settings(max_examples=300, deadline=None)
@given(trees)
def test_text_reads_back_as_the_same_object(text: str) -> None:
    try:
        dim = parse_dim(text)
    except DimError:
        assume(False)
        return
    parse_dim.cache_clear()
    assert parse_dim(str(dim)) is dim
    assert pickle.loads(pickle.dumps(dim)) is dim
    assert copy.deepcopy(dim) is dim


@settings(max_examples=300, deadline=None)
@given(choices)
@example("(((A + (1 - A)*min(max(B, 0), 1)) + (A - (A + (1 - A)*min(max(B, 0), 1)))*min(max(A, 0), 1))) // 3")
def test_text_of_choices_reads_back_as_an_equal_expression(text: str) -> None:
    """Sums of products of indicators have more than one form that nothing makes shorter: see the decision on cases."""
    try:
        dim = parse_dim(text)
    except DimError:
        assume(False)
        return
    parse_dim.cache_clear()
    again = parse_dim(str(dim))
    assert parse_dim(str(again)) is again
    for binding in BINDINGS:
        try:
            expected = dim.evaluate(binding)
        except (ZeroDivisionError, DimError):
            continue
        assert again.evaluate(binding) == expected


@settings(max_examples=200, deadline=None)
@given(st.one_of(trees, choices), st.sampled_from(NAMES), st.sampled_from(["A", "B + 1", "2*N", "3", "N//2"]))
def test_substitution_commutes_with_evaluation(text: str, name: str, replacement: str) -> None:
    try:
        dim, new = parse_dim(text), parse_dim(replacement)
        assume(name != "v0" and lower_bound(new) >= 0)
        done = dim.subs({name: new})
    except (DimError, ZeroDivisionError):
        return
    for binding in BINDINGS[::3]:
        try:
            expected = dim.evaluate({**binding, name: new.evaluate(binding)})
            parse_dim(text)
            eval(compile(text, "t", "eval"), GLOBALS, {**binding, name: new.evaluate(binding)})
        except (ZeroDivisionError, ValueError):
            continue
        assert done.evaluate(binding) == expected


POLYNOMIAL = st.recursive(
    leaf,
    lambda c: st.builds(lambda op, a, b: f"(({a}) {op} ({b}))", st.sampled_from(["+", "-", "*"]), c, c),
    max_leaves=7,
)


@settings(max_examples=150, deadline=None)
@given(POLYNOMIAL, POLYNOMIAL)
def test_polynomials_are_identical_exactly_when_sympy_says_equal(left: str, right: str) -> None:
    names = {n: sympy.Symbol(n) for n in NAMES}
    difference = sympy.expand(sympy.sympify(left, locals=names) - sympy.sympify(right, locals=names))
    assert (parse_dim(left) is parse_dim(right)) == (difference == 0)
    assert parse_dim(f"({left}) - ({right})") is as_dim(0) or difference != 0


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("A*B", "B*A"),
        ("2*(N//2)", "(N//2) + (N//2)"),
        ("(12*A*B)//12", "A*B"),
        ("(A*B*6)//(A*B)", "6"),
        ("(A*B)//A", "B"),
        ("(N*A + N)//(A + 1)", "N"),
        ("B*(N//B) + N%B", "N"),
        ("3*(N//6)*2 + N%6", "N"),
        ("max(N - 1, 0) + min(N, 1)", "N"),
        ("8*((N + 7)//8) - N", "(7*N)%8"),
        ("N%4 - 3", "N%4 - 3"),
        ("max((-N)%8//2, min(8*((N + 7)//8), N + (-N)%8//2)) - (-N)%8//2", "N"),
        ("max(N - 1, 0)", "max(N, 1) - 1"),
        ("max(N, 0)", "N"),
        ("min(N, 2**31 - 1)".replace("2**31 - 1", "2147483647"), "N"),
        ("max(N//2, N)", "N"),
        ("min(N - N//2, N)", "N - N//2"),
        ("(H + 2 - 3)//2 + 1", "(H + 1)//2"),
        ("((H + 1)//2 + 1)//2", "(H + 3)//4"),
        ("(8*N + 3)//4", "2*N"),
        ("(8*N + 3)%4", "3"),
        ("(N%6)%3", "N%3"),
        ("(5*(N%6))%3", "(5*N)%3"),
        ("(N%B)//B", "0"),
        ("max(2*N, 2*A)", "2*max(A, N)"),
        ("max(A*N, A*B)", "A*max(B, N)"),
        ("max(max(A, 3), max(A, 2))", "max(A, 3)"),
        ("broadcast(A, 1)", "A"),
        ("broadcast(A, broadcast(B, A))", "broadcast(B, A)"),
        ("broadcast(A, 4)", "4"),
        ("broadcast(2*A, B)", "2*A"),
        ("broadcast(A, max(A, 1))", "A"),
        ("broadcast(min(A, 1), B, A)", "broadcast(A, B)"),
        ("broadcast(min(A, 64), A)", "A"),
        ("broadcast(max(min(A + 1, 65), 1) - 1, A)", "A"),
        ("broadcast(min(A//4, 63) + 1, A//4 + 1)", "A//4 + 1"),
        ("broadcast((A + 1)//4 - 1, max((A + 1)//4, 1) - 1)", "(A + 1)//4 - 1"),
        ("broadcast(min(A//4, 0) + 1, A//4 + 2)", "A//4 + 2"),
        ("N + -N%7", "7*((N + 6)//7)"),
        ("(A*B + (3*A*B)%4)//4", "(A*B + 3)//4"),
        ("-(-N//1)", "N"),
        ("N//(-3*A)", "(-N)//(3*A)"),
        ("N%(-A - 1)", "-((-N)%(A + 1))"),
        ("N//2147483648", "0"),
        ("min(max(2*N - 7, 0), 1)", "min(max(N - 3, 0), 1)"),
        ("min(max(8 - N, 0), 1)", "1 - min(max(N - 7, 0), 1)"),
        ("max(min(N, 5), 4)", "min(max(N, 4), 5)"),
        (f"min({_choose('N - 8', '8', '9223372036854775807')}, N)", "min(N, 8)"),
        (f"min({_choose('N - 8', '9223372036854775807', '8')}, N)", "N"),
        (f"min({_choose('N%2', '-1', '9223372036854775807')} + N*(N%2), N)", "2*(N//2)"),
        (_choose("N%7", "7 - N%7", "0"), "(-N)%7"),
        (f"N + {_choose('N%7', '7 - N%7', '0')}", "7*((N + 6)//7)"),
        (_choose("N%7", "N//7 + 1", "N//7"), "(N + 6)//7"),
        (_choose("max(N - A, A - N)", "A", "N"), "A"),
        (_choose("N - 1000", "N - 1000", "0"), "max(N - 1000, 0)"),
        ("min(max(N - 8, 0), 1)*min(max(N - 4, 0), 1)", "min(max(N - 8, 0), 1)"),
        ("min(max(N - 8, 0), 1)*min(max(5 - N, 0), 1)", "0"),
        ("min(N, 1)*N*N", "N*N"),
        (_choose("N%2", "(N + 1)//2", "N//2"), "(N + 1)//2"),
        (f"({_choose('v0', 'A', 'B')})//3", _choose("v0", "A//3", "B//3")),
    ],
)
def test_one_spelling(left: str, right: str) -> None:
    assert parse_dim(left) is parse_dim(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [("max(v0, 0)", "v0"), ("N//2", "N"), ("(A*B)//2", "A*(B//2)"), ("min(A, B)", "A"), ("(N + 1)//2", "N//2")],
)
def test_no_false_equality(left: str, right: str) -> None:
    assert parse_dim(left) is not parse_dim(right)


@pytest.mark.parametrize(
    "text",
    ["", "?", "p2o.Dim.0", "N +", "N/2", "N**2", "2.5", "True", "f(N)", "min()", "N if 1 else 2", "class", "max",
     "__import__('os')", "N//0", "broadcast(2, 3)", "min(N, key=3)", "ﬁ", "(" * 400 + "N" + ")" * 400,
     "(A+B+C+D)" + "*(A+B+C+D)" * 40],
)  # fmt: skip
def test_text_outside_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(DimError):
        parse_dim(text)


def test_small_things() -> None:
    n = Dim.symbol("N")
    assert (n - n) is ZERO and (n + 1 - n) is ONE
    assert as_dim(7).value == 7 and as_dim(0).value == 0 and as_dim(7).is_const and not n.is_const
    assert (2 * n + 1).symbols == {"N"}
    assert dim_max(n) is n and dim_min(n, n) is n and dim_broadcast(1, 1) is ONE
    assert str(3 - n // 2) == "3 - (N//2)" and str(2 * (n % 3)) == "2*(N%3)"
    with pytest.raises(DimError):
        _ = n.value
    with pytest.raises(DimError):
        dim_broadcast(2, 3)
    with pytest.raises(KeyError):
        n.evaluate({})
    with pytest.raises(ZeroDivisionError):
        _ = n // 0


@pytest.mark.parametrize("text", ["N%(4 - A)", "N//(4 - A)", "N%(-v0)"])
def test_a_divisor_that_may_be_a_size_keeps_its_sign(text: str) -> None:
    """What stands below is the size of an axis, and code that computes an index counts on it."""
    assert str(parse_dim(text)) == text


def test_a_sentence_takes_the_beginning_of_a_long_expression() -> None:
    short, long = parse_dim("max(A, B) + 1"), parse_dim(" + ".join(f"max(A*{k} + B, {k}*N)" for k in range(1, 9)))
    assert brief(short) == str(short)
    assert len(brief(long)) < 90 and str(long).startswith(brief(long).split(" ... ")[0])
    assert f"({len(str(long))} characters)" in brief(long)
