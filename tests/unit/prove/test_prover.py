"""What the prover makes of statements that hold, fail, say too little, or cannot be decided, and of solvers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kvproof.harness.prove import explore as exploring
from kvproof.harness.prove.discharge import Solvers, connected
from kvproof.harness.prove.statement_proof import StatementProof, prove_statement
from kvproof.harness.prove.subject import Subject
from kvproof.harness.solve import term as t
from kvproof.harness.solve.backends import Backend, SolverAbsentError, backend
from kvproof.harness.solve.query import Answer, Budget, Outcome, Query
from kvproof.harness.solve.smtlib import Script, script
from kvproof.models.index import Condition, implies, negate, require
from kvproof.properties.statement import Chooser, Needs, Statement
from kvproof.reports.verdict import Status

Body = Callable[[Any, Chooser, int], Condition]


def statement(body: Body) -> Statement:
    return Statement("test", "a test", "test", body, Needs(0), "tightened")


def subject(sizes: Sequence[str] = ("n",)) -> Subject:
    def build(given: Mapping[str, Any]) -> Any:
        require(given["n"] >= 1, "n is {n}, below 1", n=given["n"])
        return given["n"]

    return Subject("test", "test", tuple(sizes), build)


def prove(body: Body, *solvers: Backend, budget: Budget | None = None) -> StatementProof:
    opened = Solvers(solvers or [backend("z3"), backend("cvc5")], budget or Budget())
    return prove_statement(subject(), statement(body), opened)


def statuses(proof: StatementProof) -> list[Status]:
    return [problem.status for problem in proof.problems]


def true_claim(n: Any, choose: Chooser, slip: int) -> Condition:
    x = choose.integer("x", 0, n)
    return x % 5 <= x - slip


def test_what_holds_is_proved_by_each_solver_and_its_twin_refuted() -> None:
    proof = prove(true_claim)
    assert statuses(proof) == []
    assert [[a.solver for a in step.answers] for step in proof.steps if step.kind == "claim"] == [["z3", "cvc5"]]
    assert [step.kind for step in proof.steps] == ["claim", "twin"]


def test_what_fails_is_refuted_by_the_least_case_which_replays() -> None:
    def body(n: Any, choose: Chooser, slip: int) -> Condition:
        x = choose.integer("x", 0, n - 1)
        return x % 7 != 5

    proof = prove(body)
    assert statuses(proof) == [Status.FAIL]
    (finding,) = proof.findings
    assert (finding.case["sizes"], finding.case["choices"]) == ({"n": 6}, {"x": 5})


def test_a_lemma_that_fails_is_named() -> None:
    def body(n: Any, choose: Chooser, slip: int) -> Condition:
        x = choose.integer("x", 0, n)
        choose.lemma("x is below n", x < n)
        return x <= n - slip

    proof = prove(body)
    assert statuses(proof) == [Status.FAIL]
    assert "x is below n" in proof.problems[0].reason


def test_a_requirement_that_a_body_does_not_meet_fails_and_one_that_it_meets_does_not() -> None:
    def body(limit: int) -> Body:
        def inner(n: Any, choose: Chooser, slip: int) -> Condition:
            x = choose.integer("x", 0, n)
            require(x <= n - limit, "x is {x}, too large", x=x)
            return x <= n - slip

        return inner

    assert statuses(prove(body(1))) == [Status.FAIL]
    assert statuses(prove(body(0))) == []


def test_a_statement_that_says_too_little_is_unknown() -> None:
    proof = prove(lambda n, choose, slip: choose.integer("x", 0, n) + slip >= 0)
    assert statuses(proof) == [Status.UNKNOWN]
    assert "twin" in proof.problems[0].reason


def test_a_twin_that_no_solver_decides_is_unknown_for_that_reason() -> None:
    class NoSat(Saying):
        """Proves like z3, and finds no case."""

        def solve(self, script: Script, budget: Budget) -> Answer:
            answer = backend("z3").solve(script, budget)
            return answer if answer.outcome is Outcome.UNSAT else super().solve(script, budget)

    proof = prove(true_claim, NoSat("tired", Outcome.UNKNOWN))
    assert statuses(proof) == [Status.UNKNOWN, Status.UNKNOWN]
    assert any(
        "the twin (tightened) is not refuted for this subject: tired: told to" in p.reason for p in proof.problems
    )


def test_a_statement_without_a_case_is_unknown_and_one_that_does_not_apply_is_not_run() -> None:
    def contradicting(n: Any, choose: Chooser, slip: int) -> Condition:
        x = choose.integer("x", 0, n)
        choose.assume((x % 2 == 0) & (x % 4 == 3))
        return x < n

    assert statuses(prove(contradicting)) == [Status.UNKNOWN]

    def inapplicable(n: Any, choose: Chooser, slip: int) -> Condition:
        return n >= choose.pick("none", list[int]()) + slip

    assert statuses(prove(inapplicable)) == [Status.NOT_RUN]


def test_every_option_of_a_pick_and_every_side_of_a_branch_is_a_path() -> None:
    def body(n: Any, choose: Chooser, slip: int) -> Condition:
        step = choose.pick("step", (1, 2, 3))
        x = choose.integer("x", 0, n)
        if x % 2 == 0:
            return x + step >= step + slip
        return x + step >= step + 1 + slip

    proof = prove(body)
    assert statuses(proof) == []
    assert proof.paths == 6


def test_code_without_symbolic_meaning_is_unsupported() -> None:
    proof = prove(lambda n, choose, slip: [True][choose.integer("x", slip, n)])
    assert statuses(proof) == [Status.UNSUPPORTED]


def test_endless_branching_is_unsupported_not_a_hang() -> None:
    def body(n: Any, choose: Chooser, slip: int) -> Condition:
        x, steps = choose.integer("x", 0, n), 0
        while x > steps:
            steps += 1
        return x >= 0

    proof = prove(body, backend("z3"))
    assert statuses(proof) == [Status.UNSUPPORTED]
    assert "branches" in proof.problems[0].reason


def test_too_many_paths_are_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploring, "MAX_PATHS", 3)
    proof = prove(lambda n, choose, slip: n >= choose.pick("k", (0, 0, 0, 0)) + slip)
    assert statuses(proof) == [Status.UNSUPPORTED]


class Saying:
    """A solver that says what it is told to."""

    version = "0"

    def __init__(self, name: str, outcome: Outcome, model: Mapping[str, int] | None = None) -> None:
        self.name, self.outcome, self.model = name, outcome, model or {}

    def solve(self, script: Script, budget: Budget) -> Answer:
        assert script.text
        assert budget.resources
        return Answer(self.outcome, self.name, dict(self.model), "told to" if self.outcome == "unknown" else "")


def test_solvers_that_disagree_are_a_failure_of_the_prover() -> None:
    proof = prove(true_claim, backend("z3"), Saying("liar", Outcome.SAT, {"n": 1, "x": 0}))
    assert Status.FAIL in statuses(proof)
    assert any("disagree" in problem.reason for problem in proof.problems)


def test_a_counterexample_that_does_not_replay_is_a_defect_never_a_pass() -> None:
    proof = prove(true_claim, Saying("liar", Outcome.SAT, {"n": 1, "x": 0}))
    assert statuses(proof) == [Status.FAIL]
    assert "prover defect" in proof.problems[0].reason


def test_a_solver_that_calls_everything_proved_is_caught_by_the_twin() -> None:
    proof = prove(true_claim, Saying("liar", Outcome.UNSAT))
    assert statuses(proof) == [Status.UNKNOWN]


def test_one_solver_that_does_not_know_makes_the_statement_unknown() -> None:
    proof = prove(true_claim, backend("z3"), Saying("idle", Outcome.UNKNOWN))
    assert statuses(proof) == [Status.UNKNOWN]
    assert "idle: told to" in proof.problems[0].reason


@pytest.mark.parametrize("name", ["z3", "cvc5", "isl"])
def test_a_budget_ends_a_hard_question_as_unknown(name: str) -> None:
    names = [t.variable(f"v{i}") for i in range(24)]
    bounds = [bound for v in names for bound in (t.le(t.integer(0), v), t.le(v, t.integer(1)))]
    weights = [t.scale(2 * (i * 7919 % 104729) + 1_000_001, v) for i, v in enumerate(names)]
    subset_sum = t.eq(t.add(*weights), t.integer(11_234_567))
    answer = backend(name).solve(script(Query((*bounds, subset_sum))), Budget(resources=200, seconds=0.2))
    assert answer.outcome is Outcome.UNKNOWN
    assert answer.reason


def test_an_unknown_solver_is_named_with_what_is_allowed() -> None:
    with pytest.raises(ValueError, match="allowed: z3, cvc5, isl"):
        backend("abacus")


def test_an_absent_solver_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvproof.harness.solve import backends

    def missing() -> Backend:
        raise ImportError("No module named 'islpy'")

    monkeypatch.setattr(backends, "_OPEN", {"isl": missing})
    backend.cache_clear()
    try:
        with pytest.raises(SolverAbsentError, match="pip install islpy"):
            backend("isl")
    finally:
        backend.cache_clear()


def test_a_question_is_asked_without_premises_that_have_nothing_to_do_with_it() -> None:
    x, y, z = (t.variable(n) for n in "xyz")
    near, linked, apart = t.le(x, y), t.le(y, t.integer(3)), t.le(z, t.integer(3))
    assert connected(Query((near, linked, apart), t.le(x, t.integer(3)))).premises == (near, linked)
    whole = Query((near, linked), t.le(x, t.integer(3)))
    assert connected(whole) is whole


def test_a_core_is_a_part_of_the_text_that_proves_by_itself() -> None:
    x, y = t.variable("x"), t.variable("y")
    query = Query((t.le(x, t.integer(3)), t.le(y, x), t.le(t.integer(-9), x)), t.le(y, t.integer(3)))
    text = script(query)
    answer, core = backend("z3").core(text, Budget())  # type: ignore[attr-defined]
    assert (answer.outcome, answer.solver) == (Outcome.UNSAT, "z3")
    assert len(core) == 3
    assert len(text.assertions) == 4
    for name in ("z3", "cvc5", "isl"):
        assert backend(name).solve(text.subset(core), Budget()).outcome is Outcome.UNSAT
        for place in core:
            smaller = text.subset([kept for kept in core if kept != place])
            assert backend(name).solve(smaller, Budget()).outcome is Outcome.SAT


def test_order_of_assertions_changes_the_text_not_the_answer() -> None:
    x = t.variable("x")
    query = Query(tuple(t.le(t.integer(-i), x) for i in range(9)), t.le(t.integer(-8), x))
    assert script(query, shuffle=1).text != script(query).text
    assert backend("z3").solve(script(query, shuffle=1), Budget()).outcome is Outcome.UNSAT


def test_products_keep_their_order_when_they_are_opaque() -> None:
    a, b, s = (t.variable(n) for n in "abs")
    given = (t.le(t.integer(1), s), t.lt(a, b))
    apart = t.le(t.add(t.mul(a, s), s), t.mul(b, s))
    text = script(Query(given, apart), opaque=True)
    assert text.opaque
    assert "(* x" not in text.text
    for name in ("z3", "cvc5", "isl"):
        assert backend(name).solve(text, Budget()).outcome is Outcome.UNSAT


def test_texts_of_the_same_question_about_other_names_are_equal() -> None:
    def query(name: str) -> Query:
        v = t.variable(name)
        return Query((t.le(t.integer(0), v),), t.le(t.mod(v, t.integer(8)), t.add(v, t.integer(0))))

    assert script(query("a")).text == script(query("b")).text
    assert script(query("a")).complete() != script(query("b")).complete()


def test_sat_of_opaque_products_alone_is_no_counterexample() -> None:
    def body(n: Any, choose: Chooser, slip: int) -> Condition:
        x = choose.integer("x", 1, n)
        return implies(x * x <= 1, negate(x == 2)) & (x * n >= n + slip)

    assert Status.FAIL not in statuses(prove(body))


def test_a_budget_of_nothing_is_unknown_everywhere() -> None:
    def body(n: Any, choose: Chooser, slip: int) -> Condition:
        x, y = choose.integer("x", 1, n), choose.integer("y", 1, n)
        return x * x * x + y * y * y != n * n * n + slip

    proof = prove(body, backend("z3"), budget=replace(Budget(), resources=1000, seconds=0.2))
    assert Status.UNKNOWN in statuses(proof)
    assert Status.PASS not in statuses(proof)
