"""Terms fold, print and evaluate as Python computes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from kvproof.harness.solve import term as t
from kvproof.harness.solve.backends import backend, installed
from kvproof.harness.solve.query import Budget, Outcome, Query
from kvproof.harness.solve.smtlib import script

X, Y, Z = (t.variable(name) for name in "xyz")

OPERATIONS: dict[str, tuple[Callable[..., t.Term], Callable[[int, int], Any]]] = {
    "add": (t.add, lambda a, b: a + b),
    "sub": (t.sub, lambda a, b: a - b),
    "mul": (t.mul, lambda a, b: a * b),
    "div": (t.div, lambda a, b: a // b),
    "mod": (t.mod, lambda a, b: a % b),
    "le": (t.le, lambda a, b: a <= b),
    "lt": (t.lt, lambda a, b: a < b),
    "eq": (t.eq, lambda a, b: a == b),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("a", [-7, -1, 0, 1, 5])
@pytest.mark.parametrize("b", [-3, -1, 1, 2, 7])
def test_an_operation_on_literals_and_on_variables_is_pythons(name: str, a: int, b: int) -> None:
    build, python = OPERATIONS[name]
    assert t.evaluate(build(t.integer(a), t.integer(b)), {}) == python(a, b)
    assert t.evaluate(build(X, Y), {"x": a, "y": b}) == python(a, b)
    assert t.evaluate(build(X, t.integer(b)), {"x": a}) == python(a, b)


def random_integer(draw: random.Random, depth: int) -> t.Term:
    if depth == 0 or draw.random() < 0.2:
        return draw.choice([X, Y, Z, t.integer(draw.randint(-6, 6))])
    a, b = random_integer(draw, depth - 1), random_integer(draw, depth - 1)
    kind = draw.choice(["add", "sub", "mul", "div", "mod", "neg", "ite"])
    if kind in {"div", "mod"}:
        return OPERATIONS[kind][0](a, t.integer(draw.choice([-4, -1, 1, 2, 3, 8])))
    if kind == "neg":
        return t.neg(a)
    if kind == "ite":
        return t.ite(t.le(a, b), b, a)
    return OPERATIONS[kind][0](a, b)


def test_solvers_compute_the_value_that_python_does() -> None:
    draw = random.Random(0)
    for _ in range(60):
        term = random_integer(draw, 3)
        values = {name: draw.randint(-20, 20) for name in "xyz"}
        expected = t.evaluate(term, values)
        given = tuple(t.eq(t.variable(name), t.integer(value)) for name, value in values.items())
        for name in installed():
            right = backend(name).solve(script(Query(given, t.eq(term, t.integer(int(expected))))), Budget())
            wrong = backend(name).solve(script(Query(given, t.eq(term, t.integer(int(expected) + 1)))), Budget())
            assert (right.outcome, wrong.outcome) == (Outcome.UNSAT, Outcome.SAT), (name, term, values)


def test_substitution_is_evaluation_where_all_is_given() -> None:
    draw = random.Random(1)
    for _ in range(200):
        term = random_integer(draw, 4)
        values = {name: draw.randint(-9, 9) for name in "xyz"}
        (folded,) = t.substitute([term], values)
        assert folded is t.integer(int(t.evaluate(term, values)))


def test_equal_terms_are_one_object_however_they_are_written() -> None:
    assert t.add(X, Y) is t.add(Y, X)
    assert t.sub(t.add(X, Y), Y) is X
    assert t.mul(X, t.add(Y, t.integer(2))) is t.add(t.mul(Y, X), t.scale(2, X))
    assert t.not_(t.not_(t.le(X, Y))) is t.le(X, Y)
    assert t.eq(X, Y) is t.eq(Y, X)
    assert t.add(X, Y) is not t.add(X, Z)


def test_ranges_decide_what_every_value_decides_and_nothing_more() -> None:
    rest = t.mod(X, t.integer(8))
    assert t.le(t.integer(0), rest) is t.TRUE
    assert t.le(rest, t.integer(7)) is t.TRUE
    assert not t.le(rest, t.integer(6)).is_const
    assert t.div(rest, t.integer(8)) is t.integer(0)
    assert not t.div(rest, t.integer(7)).is_const
    assert t.eq(rest, t.integer(8)) is t.FALSE
    assert not t.eq(rest, t.integer(7)).is_const


def test_a_product_of_a_sum_of_products_is_named_not_multiplied_out() -> None:
    inner = t.add(t.mul(X, Y), Z)
    product = t.mul(inner, X)
    assert {atom.op for atom in product.args} == {"name", "var"}
    assert t.evaluate(product, {"x": 2, "y": 3, "z": 4}) == 20


def test_conditions_fold_their_own_contradictions() -> None:
    holds = t.le(X, Y)
    assert t.and_(holds, t.not_(holds)) is t.FALSE
    assert t.or_(holds, t.not_(holds)) is t.TRUE
    assert t.and_(holds, holds) is holds


def test_terms_are_shown_as_a_person_writes_them() -> None:
    assert t.show(t.le(t.add(X, t.integer(1)), t.scale(2, Y))) == "x + 1 <= 2*y"
    assert t.show(t.div(X, t.integer(4))) == "(x // 4)"
    assert t.show(t.mul(X, Y), {X: "S"}) == "(S*y)"
