"""The prover: what facts decide, what they leave open, and that no answer is wrong for any binding that they admit."""

from __future__ import annotations

from itertools import product
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sardonyx.dialects.dims.expression import DimError, as_dim, parse_dim
from sardonyx.semantics.conditions import brief_condition
from sardonyx.semantics.facts import Condition, Contradiction, Facts, broadcast_condition, simplified


@pytest.mark.parametrize(
    ("facts", "left", "right"),
    [
        ([], "N % 2 + 2*(N//2)", "N"),
        ([], "min(A, B)", "A + B - max(A, B)"),
        ([], "(N + 1)//2 + N//2", "N"),
        (["N == M"], "N*K", "M*K"),
        (["N == M", "M == K"], "N", "K"),
        (["N % 2 == 0"], "2*(N//2)", "N"),
        (["N % 4 == 0"], "2*(N//2)", "N"),
        (["N % 4 == 3"], "N % 2", "1"),
        (["N % B == 0"], "B*(N//B)", "N"),
        (["N == 2*M"], "N//2", "M"),
        (["N >= 1"], "max(N - 1, 0)", "N - 1"),
        (["N >= M"], "max(N - M, 0)", "N - M"),
        (["N <= 64"], "min(N, 64)", "N"),
        (["A*B == C*D"], "A*B*E", "C*D*E"),
        (["A*B == C*D", "C*D == 12"], "A*B", "12"),
        (["(A*B) % 4 == 0"], "4*((A*B)//4)", "A*B"),
        (["N + M == 5"], "M", "5 - N"),
        (["v0 >= 0"], "max(v0, 0)", "v0"),
        (["v0 % 3 == 1"], "v0", "3*(v0//3) + 1"),
        (["N <= M", "M <= K", "K <= N"], "N", "K"),
        (["2*N == 2*M"], "N", "M"),
        (["N == 1"], "broadcast(N, M)", "M"),
        (["3 <= N//5 - 1", "1 <= N//20"], "max(N//20, 1)", "N//20"),
        (["(N + 3)//4 <= 2"], "min(N, 8)", "N"),
        (["min(N, M) >= 2"], "max(N, 2) + max(M, 2)", "N + M"),
        (["max(N, M) <= 3"], "min(N, 3) + min(M, 3)", "N + M"),
    ],
)
def test_equal(facts: list[str], left: str, right: str) -> None:
    assert Facts(assumptions=facts).prove_eq(left, right).answer is True
    if facts:
        assert Facts().prove_eq(left, right).answer is None


@pytest.mark.parametrize(
    ("facts", "left", "right"),
    [
        ([], "N", "N + 1"),
        ([], "2*N", "2*M + 1"),
        ([], "N % 3", "3"),
        (["N >= 4"], "N", "2"),
        (["N < M"], "N", "M"),
    ],
)
def test_never_equal(facts: list[str], left: str, right: str) -> None:
    assert Facts(assumptions=facts).prove_eq(left, right).answer is False


@pytest.mark.parametrize(
    ("facts", "left", "right", "answer"),
    [
        ([], "N//2", "N", True),
        ([], "N//B", "N", True),
        ([], "B*(N//B)", "N", True),
        ([], "N", "max(N, M)", True),
        ([], "min(N, M)", "N", True),
        ([], "N % B", "N", True),
        ([], "N - N//2", "N", True),
        ([], "0", "N - N//3", True),
        ([], "N + 1", "N", False),
        ([], "N", "M", None),
        ([], "v0", "v0 + 1", True),
        ([], "0", "v0", None),
        (["N <= M"], "N*B", "M*B", True),
        (["N <= M", "M <= K"], "N", "K", True),
        (["N*M <= 100", "K <= 3"], "N*M + K", "103", True),
        (["N >= 7"], "N", "6", False),
    ],
)
def test_at_most(facts: list[str], left: str, right: str, answer: bool | None) -> None:
    assert Facts(assumptions=facts).prove_le(left, right).answer is answer


@pytest.mark.parametrize(
    ("left", "right", "missing"),
    [("N", "M", "N == M"), ("2*(N//2)", "N", "N%2 == 0"), ("A + B", "A + C", "B == C"), ("B*(N//B)", "N", "N%B == 0")],
)
def test_the_missing_fact_decides(left: str, right: str, missing: str) -> None:
    proof = Facts().prove_eq(left, right)
    assert proof.answer is None and proof.missing == missing
    assert Facts(assumptions=[missing]).prove_eq(left, right)


def test_the_missing_fact_of_an_inequality() -> None:
    proof = Facts().prove_le("N + 2", "M")
    assert proof.missing == "N + 2 <= M"
    assert Facts(assumptions=[proof.missing]).prove_le("N + 2", "M")


def test_divisibility_and_broadcast() -> None:
    facts = Facts(assumptions=["N % 8 == 0", "A == B"])
    assert facts.prove_divides(4, "N*M") and facts.prove_divides(16, "2*N")
    assert facts.prove_divides(16, "N").answer is None
    assert facts.prove_broadcast(parse_dim("A*2"), parse_dim("2*B"))
    assert facts.prove_broadcast(parse_dim("2"), parse_dim("A*2 + 4")).answer is False
    assert facts.prove_broadcast(parse_dim("A"), parse_dim("C")).missing == "A == C"


def test_ranges() -> None:
    facts = Facts(ranges={"B": (1, 64), "v0": (0, None), "K": (3, 3)})
    assert facts.range("B") == (1, 64) and facts.range("2*B + K") == (5, 131) and facts.range("v0") == (0, 2**63 - 1)
    assert facts.range("N") == (0, 2**31 - 1)
    assert facts.prove_eq("K", 3) and facts.prove_eq("max(B, 1)", "B") and facts.prove_eq("min(B, 64)", "B")
    assert simplified(parse_dim("max(B, 1)*min(N, B) + min(B, 100)"), facts) is parse_dim("B*min(N, B) + B")


@pytest.mark.parametrize("facts", [["N == 3", "N == 4"], ["N <= 2", "N >= 3"], ["N + 1 == N"], ["2*N == 3"], ["N < 0"]])
def test_contradictions_are_refused(facts: list[str]) -> None:
    with pytest.raises(Contradiction):
        Facts(assumptions=facts)


@pytest.mark.parametrize("text", ["N", "N = M", "N != M", "N == M == K", "N <= ?", ""])
def test_text_that_is_no_condition(text: str) -> None:
    with pytest.raises(DimError):
        Condition.parse(text)


def test_broadcast_condition() -> None:
    condition = Condition.parse(broadcast_condition(parse_dim("A"), parse_dim("2*B")))
    for a, b in product(range(5), repeat=2):
        assert condition.holds({"A": a, "B": b}) == (a == 2 * b or a == 1)


def test_copies_are_apart() -> None:
    one = Facts(assumptions=["N == M"])
    two = one.copy()
    two.assume("M == K")
    assert two.prove_eq("N", "K") and one.prove_eq("N", "K").answer is None


NAMES = ("A", "B", "N")
side = st.sampled_from(
    [
        "A",
        "B",
        "N",
        "2*A",
        "A + B",
        "A*B",
        "N//2",
        "N % 3",
        "max(A, B)",
        "min(N, B)",
        "3",
        "1",
        "0",
        "N - A",
        "A*N",
        "B + 1",
        "(N + A)//3 - 1",
    ]
)
conditions = st.one_of(
    st.builds(lambda a, op, b: f"{a} {op} {b}", side, st.sampled_from(["==", "<="]), side),
    st.builds(lambda a, k, r: f"({a}) % {k} == {r}", side, st.sampled_from([2, 3, 4]), st.sampled_from([0, 1])),
)
BINDINGS = [dict(zip(NAMES, row)) for row in product(range(7), repeat=3)]


@settings(max_examples=400, deadline=None)
@given(st.lists(conditions, max_size=3), side, side)
def test_no_answer_is_wrong(facts: list[str], left: str, right: str) -> None:
    admitted = [b for b in BINDINGS if all(Condition.parse(f).holds(b) for f in facts)]
    try:
        known = Facts(assumptions=facts)
    except Contradiction:
        assert not admitted
        return
    equal, at_most = known.prove_eq(left, right), known.prove_le(left, right)
    low, high = known.range(left)
    l, r = parse_dim(left), parse_dim(right)
    for b in admitted:
        x, y = l.evaluate(b), r.evaluate(b)
        assert equal.answer in (None, x == y), (facts, left, right, b)
        assert at_most.answer in (None, x <= y), (facts, left, right, b)
        assert (low is None or low <= x) and (high is None or x <= high)
        if equal.answer is None and equal.missing is not None and Condition.parse(equal.missing).holds(b):
            assert x == y
        if at_most.answer is None and at_most.missing is not None and Condition.parse(at_most.missing).holds(b):
            assert x <= y


def test_an_answer_takes_microseconds() -> None:
    facts = Facts(assumptions=["N % 8 == 0", "M == 2*N", "K >= 1"])
    start = process_time()
    for i in range(2, 502):
        facts.prove_eq(f"{i}*(N//2)*2 + M*K", f"{i}*N + 2*N*K")
    assert (process_time() - start) / 500 < 2e-3


def test_equalities_are_proved_in_either_order() -> None:
    facts = Facts(assumptions=["1 <= B", "min(B, 1000) == B"])
    assert facts.prove_eq("8*B", "8*min(B, 1000)")
    assert facts.prove_eq("8*min(B, 1000)", "8*B")


def test_long_conditions_are_brief_in_messages() -> None:
    long = " + ".join(f"{i}*max(A, B + {i})*N" for i in range(1, 12))
    said = brief_condition(f"{long} == 4*M")
    assert said.endswith("characters) == 4*M") and len(said) < 100
    assert brief_condition("N + 1 <= M") == "N + 1 <= M"
    assert brief_condition(broadcast_condition(as_dim("A"), as_dim("B"))) == "A and B broadcast"
    with pytest.raises(Contradiction, match=r"characters\) <= 0 cannot hold"):
        Facts().assume(f"{long} + 1 <= 0")
