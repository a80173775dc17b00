"""Worker processes: shares of the budget, tasks that go on, die, hang or break."""

import pytest

from kvproof.harness.cli import workers
from kvproof.harness.cli.engines import FuzzTask, Turn, fuzz_tasks, merged
from kvproof.harness.cli.workers import run_tasks, share
from kvproof.models.deepseek_v4 import CONFIGS, real_configs
from kvproof.properties.statement import Needs
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status, Verdict

BODIES = """
import os, time
from kvproof.harness.run.fuzz import judge
from kvproof.properties.statement import Needs
from kvproof.reports.result import Result
from kvproof.reports.verdict import Status, Verdict

def steady(turn):
    cases = 10 if turn.until_needs else 100
    return Result("s", "steady", "fuzz", judge(cases, {}, Needs(10)), 0.1, cases)

def slow(turn):  # three turns to see what it needs
    return Result("s", "slow", "fuzz", judge(4, {"odd": 2}, Needs(10, {"odd": 5})), 0.1, 4, {"odd": 2})

def whole(turn):  # takes all the time that it is given
    time.sleep(turn.budget_seconds)
    return Result("s", "whole", "fuzz", judge(6, {}, Needs(10)), turn.budget_seconds, 6)

def fails(turn):
    return Result("s", "fails", "fuzz", Verdict(Status.FAIL, "row 7"), 0.1, 1, device="cuda")

def breaks(turn):
    raise ZeroDivisionError("by zero")

def dies(turn):
    os._exit(7)

def hangs(turn):
    time.sleep(600)

def pid(turn):
    return Result("s", "pid", "fuzz", Verdict(Status.NOT_RUN, str(os.getpid())), 0.0)
"""


@pytest.fixture
def body(tmp_path, monkeypatch):
    """Tasks whose bodies a new process can import."""
    (tmp_path / "kvproof_task_bodies.py").write_text(BODIES)
    monkeypatch.syspath_prepend(tmp_path)
    import kvproof_task_bodies

    def make(name, needs=None, weight=1.0):
        return FuzzTask("s", name, "", needs or Needs(10), getattr(kvproof_task_bodies, name), weight)

    return make


def test_every_task_ends_in_a_verdict_whatever_becomes_of_its_process(body, monkeypatch):
    monkeypatch.setattr(workers, "worker_count", lambda _tasks: 2)
    tasks = [body("breaks"), body("dies"), body("fails"), body("steady")]
    seen = dict(run_tasks(tasks, 30.0, 0))
    breaks, dies, fails, steady = (seen[place] for place in range(4))
    assert breaks.verdict.reason == "the engine broke: ZeroDivisionError: by zero"
    assert dies.verdict.reason == "the process that ran it died with status 7"
    assert {breaks.verdict.status, dies.verdict.status} == {Status.UNKNOWN}
    assert fails.verdict.reason == "row 7"
    assert steady.verdict.status is Status.PASS
    assert steady.cases == 110


def test_a_task_that_does_not_come_back_is_stopped(body, monkeypatch):
    monkeypatch.setattr(workers, "GRACE_SECONDS", 0.0)
    ((_, result),) = run_tasks([body("hangs")], 0.5, 0)
    assert result.verdict.status is Status.UNKNOWN
    assert result.verdict.reason.startswith("it had not come back after")


def test_a_task_that_falls_short_goes_on_and_what_is_left_goes_to_all(body, monkeypatch):
    monkeypatch.setattr(workers, "worker_count", lambda _tasks: 1)
    tasks = [body("steady"), body("slow", Needs(10, {"odd": 5}))]
    history = list(run_tasks(tasks, 60.0, 0))
    assert [(place, result.cases) for place, result in history] == [
        (0, 10),
        (1, 4),
        (1, 8),
        (1, 12),
        (0, 110),
        (1, 16),
    ]
    assert [result.verdict.status for place, result in history if place == 1] == [
        Status.UNKNOWN,
        Status.UNKNOWN,
        Status.PASS,
        Status.PASS,
    ]
    assert history[-1][1].events == {"odd": 8}


@pytest.mark.parametrize(("overtime", "last"), [(0.0, Status.UNKNOWN), (0.5, Status.PASS)])
def test_a_task_that_fell_short_may_go_on_beyond_the_budget_once(body, monkeypatch, overtime, last):
    monkeypatch.setattr(workers, "worker_count", lambda _tasks: 1)
    monkeypatch.setattr(workers, "OVERTIME", overtime)
    history = [result for _, result in run_tasks([body("whole")], 2.0, 0)]
    assert history[-1].verdict.status is last
    assert history[-1].cases == (12 if overtime else 6)


def test_a_process_is_not_used_again_after_a_fault_on_a_device(body, monkeypatch):
    monkeypatch.setattr(workers, "worker_count", lambda _tasks: 1)
    order = [body("pid", weight=4.0), body("pid", weight=3.0), body("fails", weight=2.0), body("pid", weight=1.0)]
    reasons = [result.verdict.reason for _, result in run_tasks(order, 20.0, 0)]
    assert reasons[0] == reasons[1]
    assert reasons[2] == "row 7"
    assert reasons[3] not in reasons[:3]


def test_shares_follow_the_weights_and_use_the_whole_budget():
    assert share(60.0, 1, 1.0, 4.0) == 15
    assert share(60.0, 2, 1.0, 4.0) == 30
    assert share(60.0, 2, 3.0, 4.0) == 60  # never more than there is
    assert share(45.0, 1, 1.0, 3.0) == 15  # what a task left over went to the others
    assert share(-3.0, 2, 1.0, 4.0) > 0
    assert share(60.0, 2, 0.0, 0.0) > 0


def test_turns_add_up_and_a_fault_stays_a_fault():
    task = FuzzTask("s", "p", "", Needs(10, {"odd": 3}), print)

    def result(cases, odd, status=Status.UNKNOWN):
        verdict = Verdict(status, "" if status is Status.PASS else "why")
        return Result("s", "p", "fuzz", verdict, 1.0, cases, {"odd": odd})

    assert merged(task, result(9, 3), result(1, 0)).verdict.passed
    assert merged(task, result(9, 1), result(9, 1)).verdict.status is Status.UNKNOWN
    assert merged(task, result(10, 3, Status.PASS), result(1, 0, Status.FAIL)).verdict.status is Status.FAIL
    assert merged(task, result(9, 3), result(1, 2)).seconds == 2.0


def test_a_later_turn_draws_other_cases():
    first, later = Turn(1.0, 7, 0), Turn(1.0, 7, 1)
    assert first.options["seed"] == later.options["seed"] == 7
    assert later.options["first_chunk"] > first.options["first_chunk"]


def test_real_tasks_run_in_another_process_and_the_same_seed_draws_the_same():
    mixed = fuzz_tasks(real_configs(), [], any_layout=False)
    assert {task.subject for task in mixed} == {"all configurations", "every rank"}
    tasks = fuzz_tasks([CONFIGS["v4-flash"]], [], any_layout=True)
    assert {task.subject for task in tasks} == {"v4-flash", "any layout", "every rank"}
    schema = fuzz_tasks([CONFIGS["v4-flash"]], [], any_layout=False, systems=["schema"])
    assert {task.subject for task in schema} == {"v4-flash"}
    assert {task.property_name for task in schema} >= {"budget/reach", "page/records apart"}
    chosen = [task for task in tasks if task.property_name == "arena apart"]
    turn = Turn(60.0, 3)
    (_, first), (_, second) = [[(t.subject, t.run(turn)) for t in chosen] for _ in range(2)]
    assert first[1].events == second[1].events
    assert first[1].cases == second[1].cases
    assert first[1].verdict.passed
