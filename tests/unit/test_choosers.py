"""The same body drawn, enumerated and replayed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from kvproof.harness.check.choosers import (
    ClaimFailed,
    DrawChooser,
    ReplayChooser,
    Vacuous,
    check_case,
    enumerate_cases,
)
from kvproof.models.index import require


def ordered(system: int, choose: Any, slip: int = 0) -> Any:
    """Pairs a < b < system; false in the twin for neighbours."""
    a = choose.integer("a", 0, system - 1)
    b = choose.integer("b", 0, system - 1)
    kind = choose.pick("kind", ["near", "far"])
    choose.assume(a < b)
    choose.event("neighbours", b == a + 1)
    choose.event("far", kind == "far")
    choose.lemma("b is positive", b > 0)
    return b - a >= 1 + slip


def test_enumeration_visits_every_combination_once() -> None:
    done = enumerate_cases(ordered, 4)
    assert done.complete
    assert done.failure is None
    assert (done.cases, done.vacuous) == (12, 20)  # 6 ordered pairs of 16, two kinds each
    assert done.events == {"neighbours": 6, "far": 6}


def test_enumeration_stops_at_the_smallest_failure() -> None:
    done = enumerate_cases(ordered, 4, slip=1)
    assert done.failure is not None
    assert not done.complete
    assert done.failure.values == {"a": 0, "b": 1, "kind": "near"}


@pytest.mark.parametrize(("limit", "complete"), [(32, True), (31, False)])
def test_enumeration_says_whether_it_was_complete(limit: int, complete: bool) -> None:
    done = enumerate_cases(ordered, 4, limit=limit)
    assert done.complete is complete
    assert done.cases + done.vacuous == limit


def test_ranges_may_depend_on_earlier_choices() -> None:
    seen: list[tuple[int, int]] = []

    def body(system: int, choose: Any, slip: int = 0) -> bool:
        a = choose.integer("a", 0, system)
        seen.append((a, choose.integer("b", a, system)))
        return True

    assert enumerate_cases(body, 2).cases == 6
    assert seen == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]


def test_an_empty_range_is_vacuous_for_all() -> None:
    def body(system: int, choose: Any, slip: int = 0) -> bool:
        return choose.integer("a", 1, 0) == 7

    done = enumerate_cases(body, 0)
    assert (done.cases, done.vacuous, done.failure) == (0, 1, None)
    with pytest.raises(Vacuous, match="a has no value: 1 > 0"):
        check_case(body, 0, ReplayChooser(given={"a": 1}))


def test_a_failing_case_replays_and_its_neighbour_does_not_fail() -> None:
    with pytest.raises(ClaimFailed) as failed:
        check_case(ordered, 9, ReplayChooser(given={"a": 3, "b": 4, "kind": "far"}), slip=1)
    assert failed.value.values == {"a": 3, "b": 4, "kind": "far"}
    assert "a = 3, b = 4, kind = 'far'" in str(failed.value)
    check_case(ordered, 9, ReplayChooser(given={"a": 3, "b": 5, "kind": "far"}), slip=1)
    check_case(ordered, 9, ReplayChooser(given={"a": 3, "b": 4, "kind": "far"}), slip=0)


@pytest.mark.parametrize(
    ("given_values", "error", "message"),
    [
        ({"a": 3, "kind": "far"}, ValueError, "no value for 'b'"),
        ({"a": 3, "b": 9, "kind": "far"}, Vacuous, "b is 9, outside 0..8"),
        ({"a": True, "b": 8, "kind": "far"}, ValueError, "a must be an integer, got True"),
        ({"a": 3, "b": 8, "kind": "wide"}, Vacuous, "kind is 'wide'; options: 'near', 'far'"),
        ({"a": 5, "b": 5, "kind": "far"}, Vacuous, "an assumption"),
    ],
)
def test_replay_refuses_what_does_not_fit(given_values: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check_case(ordered, 9, ReplayChooser(given=given_values))


def test_options_that_are_not_json_replay_by_their_text() -> None:
    def body(system: int, choose: Any, slip: int = 0) -> bool:
        return choose.pick("pair", [(0, 1), (2, 3)])[0] == 0

    with pytest.raises(ClaimFailed) as failed:
        check_case(body, 0, ReplayChooser(given={"pair": "(2, 3)"}))
    assert failed.value.values == {"pair": "(2, 3)"}


def test_a_lemma_that_fails_is_named() -> None:
    def body(system: int, choose: Any, slip: int = 0) -> bool:
        choose.lemma("small", choose.integer("a", 0, 9) < 5)
        return True

    done = enumerate_cases(body, 0)
    assert done.failure is not None
    assert done.failure.lemma == "small"
    assert done.failure.values == {"a": 5}


def test_a_formula_that_refuses_its_argument_is_a_failure() -> None:
    def body(system: int, choose: Any, slip: int = 0) -> bool:
        row = choose.integer("row", 0, 3)
        require(row < 3, "row {row} outside", row=row)
        return True

    done = enumerate_cases(body, 0)
    assert done.failure is not None
    assert "row 3 outside" in str(done.failure)


def test_a_name_chosen_twice_is_refused() -> None:
    def body(system: int, choose: Any, slip: int = 0) -> bool:
        return choose.integer("a", 0, 1) == choose.integer("a", 0, 1)

    with pytest.raises(ValueError, match="chose 'a' twice"):
        enumerate_cases(body, 0)


@given(st.data())
@settings(deadline=None, derandomize=True)
def test_drawn_cases_hold(data: st.DataObject) -> None:
    chooser = DrawChooser(draw=data.draw)
    check_case(ordered, 1000, chooser)
    assert set(chooser.values) == {"a", "b", "kind"}


def test_drawing_shrinks_to_the_enumerated_minimum() -> None:
    @st.composite
    def failing(draw: Any) -> dict[str, Any] | None:
        chooser = DrawChooser(draw=draw)
        try:
            check_case(ordered, 2**40, chooser, slip=1)
        except ClaimFailed as failure:
            return failure.values
        return None

    # Neighbours among 2**40 values: met only because values are drawn near earlier ones.
    found = find(
        failing(), lambda values: values is not None, settings=settings(max_examples=2000, derandomize=True)
    )
    assert found == {"a": 0, "b": 1, "kind": "near"}
