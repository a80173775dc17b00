"""A third solver of another kind agrees on every obligation of real configurations."""

import pytest

from kvproof.harness.prove.campaign import prove
from kvproof.harness.solve import term as t
from kvproof.harness.solve.backends import backend
from kvproof.harness.solve.query import Budget, Outcome, Query
from kvproof.harness.solve.smtlib import script
from kvproof.models.deepseek_v4 import CONFIGS

X, Y = t.variable("x"), t.variable("y")


@pytest.mark.smt
@pytest.mark.parametrize("name", ["v4-pro-mtp1", "v4-flash-dspark"])
def test_exact_integer_sets_prove_what_smt_solvers_prove(name: str) -> None:
    results = list(prove([CONFIGS[name]], solvers=("z3", "isl")))
    assert len(results) > 20
    assert not [(r.property_name, r.verdict) for r in results if not r.verdict.passed]


QUESTIONS = {
    "a quotient": (t.eq(t.add(t.scale(4, t.div(X, t.integer(4))), t.mod(X, t.integer(4))), X), True),
    "a remainder": (t.le(t.mod(t.add(X, Y), t.integer(6)), t.integer(4)), False),
    "a disjunction": (t.or_(t.le(X, Y), t.lt(Y, X)), True),
    "an implication": (t.or_(t.not_(t.and_(t.le(X, Y), t.le(Y, X))), t.eq(X, Y)), True),
    "equal conditions": (t.eq(t.le(X, Y), t.lt(Y, X)), False),
    "a choice": (t.le(X, t.ite(t.le(X, Y), Y, X)), True),
    "a choice within a choice": (t.le(t.ite(t.le(X, Y), t.ite(t.le(X, t.integer(3)), X, Y), Y), X), False),
    "a shared part": (t.le(t.mod(t.add(X, Y), t.integer(9)), t.add(X, Y)), False),
}


@pytest.mark.smt
@pytest.mark.parametrize("name", QUESTIONS)
def test_the_translation_keeps_the_meaning(name: str) -> None:
    goal, holds = QUESTIONS[name]
    for solver in ("z3", "cvc5", "isl"):
        answer = backend(solver).solve(script(Query((), goal)), Budget())
        assert answer.outcome is (Outcome.UNSAT if holds else Outcome.SAT), solver
        if not holds:
            assert not t.evaluate(goal, {"x": 0, "y": 0, **answer.model}), (solver, answer.model)


@pytest.mark.smt
def test_what_is_not_linear_is_unknown_not_wrong() -> None:
    for goal in (t.le(t.integer(0), t.mul(X, X)), t.eq(t.apply("f", [X]), t.integer(0))):
        answer = backend("isl").solve(script(Query((), goal)), Budget())
        assert answer.outcome is Outcome.UNKNOWN
        assert "isl" in answer.reason
