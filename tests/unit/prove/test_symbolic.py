"""Symbolic integers: models/ runs on them as on ints, and what has no symbolic meaning is refused by name."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvproof.harness.solve import term as t
from kvproof.harness.symbolic import Execution, SymBool, SymInt, UnsupportedError, VacuousPath
from kvproof.models import index


def execution(*decisions: int) -> Execution:
    return Execution(decisions, lambda _premises: True)


def value(result: Any, **values: int) -> Any:
    return t.evaluate(result.term, values) if isinstance(result, (SymInt, SymBool)) else result


X, Y = SymInt(t.variable("x")), SymInt(t.variable("y"))

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "minimum": index.minimum,
    "maximum": index.maximum,
    "cdiv": index.cdiv,
    "round_up": index.round_up,
    "trunc_div": index.trunc_div,
    "trunc_mod": index.trunc_mod,
    "divmod, first": lambda a, b: divmod(a, b)[0],
    "divmod, second": lambda a, b: divmod(a, b)[1],
    "within": lambda a, b: index.within(a, b, b + 3),
    "implies": lambda a, b: index.implies(a > 0, b > a),
    "difference": lambda a, b: abs(a - b) + 0,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("a", [-7, -1, 0, 3, 8])
@pytest.mark.parametrize("b", [-3, 1, 4])
def test_index_arithmetic_on_symbols_is_that_on_ints(name: str, a: int, b: int) -> None:
    with execution().active(), execution().active():
        symbolic = FUNCTIONS[name](X, Y)
    assert value(symbolic, x=a, y=b) == FUNCTIONS[name](a, b)


def test_a_device_rounds_towards_zero_where_python_rounds_down() -> None:
    with execution().active():
        assert value(index.trunc_div(X, 4), x=-7) == -1
        assert value(X // 4, x=-7) == -2


REFUSED: dict[str, Callable[[], Any]] = {
    "index": lambda: operator.index(X),
    "int": lambda: int(X),
    "float": lambda: float(X),
    "range": lambda: range(X),  # type: ignore[arg-type]
    "list subscript": lambda: [1, 2][X],  # type: ignore[call-overload]
    "dict key": lambda: {X: 1},
    "true division": lambda: X / 2,
    "power": lambda: X**2,
    "shift": lambda: X << 1,
    "bitwise and": lambda: X & 1,
    "complement": lambda: ~X,
    "float operand": lambda: X + 0.5,
    "truth value operand": lambda: X + True,
    "array": lambda: X + np.arange(3),
    "condition as a number": lambda: (X < 1) + 1,
    "condition as a key": lambda: {X < 1},
    "condition complement": lambda: ~(X < 1),
    "condition with a number": lambda: (X < 1) & 1,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_symbolic_meaning_raises_by_name(name: str) -> None:
    with pytest.raises(UnsupportedError, match=r"\w"):
        REFUSED[name]()


def test_numpy_integers_are_integers() -> None:
    assert value(X + np.int64(3), x=4) == 7
    assert value(np.int64(3) - X, x=4) == -1


def test_a_test_outside_a_run_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="outside a symbolic run"):
        bool(X > 0)


def test_a_branch_splits_the_run_and_each_side_knows_its_condition() -> None:
    first = execution()
    with first.active():
        assert bool(X > 0) is True
        assert bool(X > 0) is True
    assert first.untried == [(0,)]
    second = execution(0)
    with second.active():
        assert bool(X > 0) is False
        assert bool(X <= 0) is True
    assert second.untried == []
    assert second.premises == [t.le(t.variable("x"), t.integer(0))]


def test_a_side_that_premises_exclude_is_not_entered() -> None:
    run = Execution((), lambda premises: t.le(t.integer(1), t.variable("x")) not in premises)
    with run.active():
        assert bool(X >= 1) is False
    assert run.untried == []


def test_contradicting_premises_make_a_path_vacuous() -> None:
    run = execution()
    run.assume(t.le(t.variable("x"), t.integer(0)))
    with pytest.raises(VacuousPath):
        run.assume(t.lt(t.integer(0), t.variable("x")))


def test_a_requirement_is_an_obligation_outside_and_a_premise_inside_construction() -> None:
    run = execution()
    with run.active():
        index.require(X >= 3, "x is {x}, below 3", x=X)
        with run.assuming():
            index.require(Y >= 4, "y is {y}, below 4", y=Y)
    assert [o.name for o in run.obligations] == ["x is {x}, below 3"]
    assert run.premises == [t.le(t.integer(3), t.variable("x")), t.le(t.integer(4), t.variable("y"))]


def test_division_by_a_symbol_has_to_show_that_it_is_not_zero() -> None:
    run = execution()
    with run.active():
        assert value(X // Y, x=7, y=2) == 3
        with pytest.raises(ZeroDivisionError):
            X // 0
    assert [o.name for o in run.obligations] == ["a divisor is zero"]
