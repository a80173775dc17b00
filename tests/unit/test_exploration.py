"""Runs of hypothesis: budgets, targets, seeds, shrinking and its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from kvproof.harness.run.exploration import Abandon, Shrinking, explore
from kvproof.harness.run.fuzz import judge, satisfied
from kvproof.properties.statement import Needs
from kvproof.reports.verdict import Status


@dataclass
class Clock:
    """Time that passes a second with every look."""

    now: float = 0.0
    step: float = 1.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def numbers(seen: list[int], fails_from: int | None = None) -> Any:
    def trial(data: st.DataObject, shrinking: Shrinking) -> Iterable[str]:
        value = data.draw(st.integers(0, 10**6))
        seen.append(value)
        if fails_from is not None and value >= fails_from:
            raise shrinking.failed(value)
        return {"even"} if value % 2 == 0 else ()

    return trial


def test_a_run_ends_at_its_target() -> None:
    seen: list[int] = []
    run = explore(numbers(seen), budget_seconds=60, seed=3, case_target=250)
    assert run.cases == len(seen) == 250
    assert run.failure is None
    assert run.events["even"] == sum(v % 2 == 0 for v in seen)


def test_a_run_ends_with_its_budget() -> None:
    seen: list[int] = []
    run = explore(numbers(seen), budget_seconds=50, seed=3, clock=Clock())
    assert 10 <= run.cases <= 50


def test_a_run_ends_when_it_has_seen_enough() -> None:
    needs = Needs(10, {"even": 7})
    run = explore(
        numbers([]), budget_seconds=60, seed=3, enough=lambda cases, events: satisfied(needs, cases, events)
    )
    assert run.cases >= 10
    assert run.events["even"] >= 7
    assert run.cases == 10 or run.events["even"] == 7


def test_the_same_seed_draws_the_same_cases_and_another_does_not() -> None:
    runs: list[list[int]] = [[], [], []]
    for seen, seed in zip(runs, (5, 5, 6), strict=True):
        explore(numbers(seen), budget_seconds=60, seed=seed, case_target=150)
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_a_failure_is_shrunk_to_the_smallest() -> None:
    run = explore(numbers([], fails_from=777), budget_seconds=60, seed=0)
    assert run.failure == 777
    assert run.note == ""


def test_the_budget_does_not_cut_shrinking() -> None:
    run = explore(numbers([], fails_from=777), budget_seconds=30, seed=0, clock=Clock(), shrink_seconds=1e9)
    assert run.failure == 777


def test_shrinking_ends_with_its_time_at_a_case_that_fails() -> None:
    seen: list[int] = []
    run = explore(numbers(seen, fails_from=777), budget_seconds=1e9, seed=0, clock=Clock(), shrink_seconds=5)
    assert run.failure >= 777
    assert run.failure == [value for value in seen if value >= 777][-1]
    assert run.note == ""
    # Each look at the clock takes a second, so a few cases at most are drawn once one has failed.
    assert len(seen) - next(n for n, value in enumerate(seen) if value >= 777) <= 5
    assert run.shrink_seconds <= 8


def test_progress_is_told_after_each_case() -> None:
    told: list[int] = []
    explore(
        numbers([]), budget_seconds=60, seed=0, case_target=20, on_progress=lambda cases, _: told.append(cases)
    )
    assert told == list(range(1, 21))


def test_rejected_cases_do_not_count() -> None:
    def trial(data: st.DataObject, shrinking: Shrinking) -> Iterable[str]:
        if data.draw(st.booleans()):
            reject()
        data.draw(st.integers())
        return {"kept"}

    run = explore(trial, budget_seconds=60, seed=0, case_target=30)
    assert run.cases == run.events["kept"] == 30


def test_a_property_without_any_case_ends() -> None:
    def trial(data: st.DataObject, shrinking: Shrinking) -> Iterable[str]:
        reject()

    run = explore(trial, budget_seconds=60, seed=0)
    assert (run.cases, run.failure) == (0, None)


def test_an_outcome_that_depends_on_timing_is_still_a_failure() -> None:
    failures: list[int] = []

    def trial(data: st.DataObject, shrinking: Shrinking) -> Iterable[str]:
        value = data.draw(st.integers(0, 9))
        if len(failures) < 1:
            failures.append(value)
            raise shrinking.failed(value)
        return ()

    run = explore(trial, budget_seconds=60, seed=0)
    assert run.failure == failures[0]
    assert "did not fail again" in run.note


@pytest.mark.parametrize("target", [None, 30])
def test_what_breaks_once_behind_the_cases_is_raised_and_never_ends_as_no_failure(target: int | None) -> None:
    drawn: list[int] = []

    def trial(data: st.DataObject, shrinking: Shrinking) -> Iterable[str]:
        drawn.append(data.draw(st.integers(0, 9)))
        if len(drawn) == 30:
            raise RuntimeError("the engine broke")
        return ()

    # The budget may also end while hypothesis looks at it a second time.
    with pytest.raises(RuntimeError, match="the engine broke"):
        explore(trial, budget_seconds=60, seed=0, enough=lambda *_: target is not None and len(drawn) >= target)
    assert len(drawn) >= 30


def test_draws_that_are_unsteady_are_raised() -> None:
    drawn: list[int] = []

    def trial(data: st.DataObject, shrinking: Shrinking) -> Iterable[str]:
        drawn.append(0)
        data.draw(st.integers(0, 9) if len(drawn) % 2 else st.text())
        return ()

    with pytest.raises(Flaky):
        explore(trial, budget_seconds=60, seed=0, case_target=200)


def test_a_lost_device_ends_the_run_unshrunk() -> None:
    seen: list[int] = []

    def trial(data: st.DataObject, shrinking: Shrinking) -> Iterable[str]:
        seen.append(data.draw(st.integers(0, 10**6)))
        if seen[-1] > 1000:
            raise Abandon(seen[-1])
        return ()

    run = explore(trial, budget_seconds=60, seed=0)
    assert run.failure == seen[-1] > 1000
    assert "not shrunk" in run.note
    assert run.cases == len(seen)


def test_what_was_being_shrunk_is_kept_when_nothing_can_be_run_any_more() -> None:
    seen: list[int] = []

    def trial(data: st.DataObject, shrinking: Shrinking) -> Iterable[str]:
        seen.append(data.draw(st.integers(0, 10**6)))
        if sum(value >= 777 for value in seen) > 3:
            raise Abandon(None, "gone")
        if seen[-1] >= 777:
            raise shrinking.failed(seen[-1])
        return ()

    run = explore(trial, budget_seconds=60, seed=0)
    assert run.failure == [value for value in seen if value >= 777][2]
    assert run.note == "gone"
    first = next(n for n, value in enumerate(seen) if value >= 777)
    assert run.cases == first + 1


def test_an_error_of_the_check_itself_is_raised() -> None:
    def trial(data: st.DataObject, shrinking: Shrinking) -> Iterable[str]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        explore(trial, budget_seconds=60, seed=0)


@pytest.mark.parametrize(
    ("cases", "events", "reason"),
    [
        (100, {"a": 5, "b": 1}, ""),
        (99, {"a": 5, "b": 1}, "ran 99 of the 100 cases"),
        (100, {"a": 4, "b": 1}, "met 'a' in 4 of the 5 cases"),
        (100, {"a": 5}, "met 'b' in 0 of the 1 cases"),
    ],
)
def test_a_run_that_saw_too_little_is_undecided(cases: int, events: dict[str, int], reason: str) -> None:
    needs = Needs(100, {"a": 5, "b": 1})
    verdict = judge(cases, events, needs)
    assert verdict.status is (Status.UNKNOWN if reason else Status.PASS)
    assert reason in verdict.reason
    assert satisfied(needs, cases, events) is not bool(reason)
