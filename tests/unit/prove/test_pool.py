"""The watchdog: whatever becomes of a worker process, every task ends in an answer or says why there is none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

# A script, since a worker has to be able to import what it runs.
SCRIPT = """
import json, multiprocessing, os, signal, sys, time
from kvproof.harness.prove.pool import Lost, Pool, Task

def start(told, say):
    if told == "never starts":
        raise ImportError("a worker that cannot start")

    def work(argument, news):
        say(f"working on {argument}")
        if argument == "bad":
            MISDEEDS[told]()
        return argument + "!", {argument: len(news)}

    return work

def closes_its_files():
    os.closerange(3, 64)
    time.sleep(1000)

MISDEEDS = {
    "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "is stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "leaves": lambda: os._exit(7),
    "crashes": lambda: os.abort(),
    "raises": lambda: 1 // 0,
    "ignores its limits": lambda: time.sleep(1000),
    "closes its files": closes_its_files,
    "needs too much memory": lambda: bytearray(2**44),
    "is interrupted": lambda: os.kill(os.getpid(), signal.SIGINT),
}

if __name__ == "__main__":
    names = ("a", "b", "bad", "c", "d", "e")
    tasks = [Task(place, f"group {place % 2}", name) for place, name in enumerate(names)]
    tasks.sort(key=lambda task: task.group)
    pool = Pool(start, sys.argv[1], 2, patience=2.0)
    answers = {task.argument: answer for task, answer in pool.run(tasks)}
    found = {name: answer.reason if isinstance(answer, Lost) else answer for name, answer in answers.items()}
    print(json.dumps([found, len(multiprocessing.active_children())]))
"""

LOST = {
    "is killed": "was ended by SIGKILL, working on bad",
    "is stopped": "without a sign of life, working on bad",
    "leaves": "died with status 7, working on bad",
    "crashes": "was ended by SIGABRT, working on bad",
    "raises": "died with status 1, working on bad",
    "ignores its limits": "without a sign of life, working on bad",
    "closes its files": "closed its pipe, working on bad",
    "needs too much memory": "needs more than 8 GiB of memory",
}


def run(tmp_path: Path, misdeed: str) -> tuple[dict[str, str], int]:
    script = tmp_path / "workers.py"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, str(script), misdeed]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found, alive = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == 6
    return found, alive


@pytest.mark.parametrize("misdeed", LOST)
def test_a_worker_that_ends_or_hangs_costs_the_task_that_it_had(tmp_path: Path, misdeed: str) -> None:
    found, alive = run(tmp_path, misdeed)
    assert LOST[misdeed] in found.pop("bad")
    assert found == {name: f"{name}!" for name in "abcde"}
    assert alive == 0


def test_an_interrupt_that_reaches_a_worker_changes_nothing(tmp_path: Path) -> None:
    found, _ = run(tmp_path, "is interrupted")
    assert found["bad"] == "bad!"


def test_workers_that_never_start_end_the_run(tmp_path: Path) -> None:
    found, alive = run(tmp_path, "never starts")
    assert all("workers in a row ended without an answer" in reason for reason in found.values())
    assert alive == 0


# The first claim that is put to a solver gets no answer, whatever its limits say.
DEAF = """
import time
from kvproof.harness.prove.campaign import pairs_of
from kvproof.harness.prove.certificates import Lock
from kvproof.harness.prove.locked import Setting, prove_locked
from kvproof.harness.solve.z3_backend import Z3Backend
from kvproof.models.deepseek_v4 import CONFIGS

def deaf(self, script, budget, honest=Z3Backend.core):
    if "in own part" in WORDS:
        time.sleep(1000)
    return honest(self, script, budget)

WORDS = []
if __name__ == "__main__":
    setting = Setting(jobs=2, patience=2.0)
    pairs = pairs_of([CONFIGS["v4-flash"]], ["in own part", "slot alignment", "compress/compress"])
    for proved in prove_locked(pairs, Lock(), setting):
        print(proved.result.property_name, "|", proved.result.verdict.status, "|", proved.result.verdict.reason)
else:
    from kvproof.harness.prove import locked
    honest_pair = locked.prove_pair
    Z3Backend.core = deaf
    locked.prove_pair = lambda subject, statement, *rest: (
        WORDS.append(statement.name), honest_pair(subject, statement, *rest), WORDS.clear()
    )[1]
"""


@pytest.mark.smt
def test_a_solver_that_ignores_its_limits_leaves_its_statement_unknown(tmp_path: Path) -> None:
    script = tmp_path / "deaf.py"
    script.write_text(DEAF, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=True)
    found = {line.split(" | ")[0]: line.split(" | ")[1:] for line in done.stdout.splitlines()}
    assert found["in own part"][0] == "UNKNOWN"
    assert "without a sign of life, asking z3 about in own part" in found["in own part"][1]
    assert [found[name][0] for name in ("slot alignment", "compress/compress")] == ["PASS", "PASS"]


def workers_of(process: int) -> list[int]:
    """Its child processes that prove (not the one that tracks their resources)."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="utf-8").split()
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.smt
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the workers in /proc")
@pytest.mark.parametrize("seconds", [0.0, 1.0])  # while workers start, and while they work
def test_an_interrupt_ends_the_command_and_its_workers(tmp_path: Path, seconds: float) -> None:
    lock = tmp_path / "proofs.lock"
    options = ["--config", "v4-flash", "--lock", str(lock), "--jobs", "2"]
    command = [sys.executable, "-m", "kvproof", "prove", *options]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True, **streams) as running:
        deadline = time.monotonic() + 60
        while not workers_of(running.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(seconds)
        workers = workers_of(running.pid)
        assert workers
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does it: to all of them
        out, err = running.communicate(timeout=30)
    assert running.returncode == 130, (out, err)
    assert "stopped early" in out
    assert "Traceback" not in out + err
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]
