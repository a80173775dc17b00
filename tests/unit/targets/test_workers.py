"""Workers: whatever a function does, its campaign learns of it, goes on, and has lost nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kvproof.harness.check.differential import CaseCheck, CaseFailed, check_case
from kvproof.harness.run.ahead import Ahead, Drawn
from kvproof.harness.run.targets import fuzz_target
from kvproof.harness.run.trial import LOST
from kvproof.harness.targets.device import IsolatedDevice, NoWorkerError, WorkerError
from kvproof.harness.targets.workers.outcomes import Limits, NotStarted, WorkerDied
from kvproof.harness.targets.workers.parent import Worker
from kvproof.harness.targets.workers.protocol import (
    HEADER,
    REPLY,
    Arena,
    CorruptReply,
    Shipment,
    frame,
    read_frame,
    unpack_values,
)
from kvproof.kernels.registry import all_kernels
from kvproof.models.contract import TensorValue, contiguous
from kvproof.properties.strategies.cases import Case, poison
from kvproof.reports.verdict import Status

pytest.importorskip("triton", reason="a worker runs kernels")

LIMITS = Limits(open_seconds=120, first_seconds=6, seconds=3, memory_bytes=512 << 20)
KERNEL = all_kernels()["row_scatter"]


def case(tokens: int) -> Case:
    pool = TensorValue("fp32", poison(1, "fp32", 40), (6, 4), (6, 1), 4)
    return Case(
        {
            "kv": TensorValue("fp32", poison(2, "fp32", 4 * tokens), (tokens, 4), (4, 1)),
            "dest_rows": contiguous("int32", np.arange(tokens)),
            "batch_id_per_token": contiguous("int32", np.zeros(tokens)),
            "pool": pool,
        }
    )


@pytest.fixture(scope="module")
def device(hostile) -> Iterator[IsolatedDevice]:
    hostile.do("nothing")
    found = IsolatedDevice(hostile.spec(), "interpret", LIMITS)
    yield found
    found.close()


def test_a_function_that_behaves_agrees_and_what_is_missing_is_said(device: IsolatedDevice) -> None:
    check_case(KERNEL, device, case(3))
    assert set(device.offered()) == {"row_scatter"}
    missing = device.not_offered()
    assert "has no 'absent'" in missing["window_write"]
    assert "has no argument 'topk_local'" in missing["csa_translate"]
    assert "no entry" in missing["state_update"]


@pytest.mark.parametrize(
    ("mode", "kind", "words"),
    [
        ("kill", "killed", "SIGKILL"),
        ("segfault", "killed", "SIGSEGV"),
        ("loop", "hang", "no answer in"),
        ("allocate", "out of memory", ""),
        ("corrupt", "corrupt reply", "starts with"),
        pytest.param("exit", "exit", "status 7", marks=pytest.mark.slow),
    ],
)
def test_a_death_costs_one_case(device: IsolatedDevice, hostile, mode: str, kind: str, words: str) -> None:
    hostile.do(mode)
    deaths = len(device.worker.deaths)
    # On a busy machine other deaths than a hang must not come too late to be seen.
    device.worker.limits = LIMITS if mode == "loop" else replace(LIMITS, first_seconds=90, seconds=60)
    try:
        with pytest.raises(CaseFailed) as failed:
            check_case(KERNEL, device, case(2))
    finally:
        device.worker.limits = LIMITS
    assert isinstance(failed.value.__cause__, WorkerError)
    assert failed.value.__cause__.kind == kind
    assert words in str(failed.value)
    check_case(KERNEL, device, case(1))  # with one token the function behaves, in a new process
    assert kind == "out of memory" or len(device.worker.deaths) == deaths + 1


def test_what_is_only_raised_costs_no_worker(device: IsolatedDevice, hostile) -> None:
    device.probe()
    starts = device.worker.starts
    for mode, words in (("raise", "something of the project's own"), ("system exit", "3")):
        hostile.do(mode)
        with pytest.raises(CaseFailed, match=words):
            check_case(KERNEL, device, case(2))
    assert device.worker.starts == starts


@pytest.mark.parametrize(
    "mode", ["kill", *(pytest.param(m, marks=pytest.mark.slow) for m in ("segfault", "loop", "corrupt", "exit"))]
)
@pytest.mark.parametrize("tokens", [(2, 1), pytest.param((1, 2), marks=pytest.mark.slow)])
def test_of_two_launches_on_their_way_the_one_that_kills_is_named(
    device: IsolatedDevice, hostile, mode: str, tokens: tuple[int, int]
) -> None:
    hostile.do("nothing")
    check_case(KERNEL, device, case(1))
    hostile.do(mode)
    deaths = len(device.worker.deaths)
    checks = [CaseCheck(KERNEL, device, case(count)) for count in tokens]
    for check in checks:
        check.start()
    for check in checks:
        check.collect()
    for check, count in zip(checks, tokens, strict=True):
        if count == 1:
            check.judge()
        else:
            with pytest.raises(CaseFailed) as failed:
                check.judge()
            assert isinstance(failed.value.__cause__, WorkerError)
    assert len(device.worker.deaths) == deaths + 1
    check_case(KERNEL, device, case(1))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["kill", "loop", "allocate", "corrupt", "exit"])
@pytest.mark.parametrize("bad", [{0}, {1}, {0, 1}, {0, 2}, {2}, {0, 1, 2, 3}])
def test_a_row_of_launches_two_at_once_with_deaths_among_them(
    device: IsolatedDevice, hostile, mode: str, bad: set[int]
) -> None:
    """As a campaign sends them: the third begins when the first has come back, which may have cost the worker."""
    hostile.do("nothing")
    check_case(KERNEL, device, case(1))
    hostile.do(mode)
    deaths = len(device.worker.deaths)
    ahead = Ahead(tuple)
    came = [ahead.next(Drawn(CaseCheck(KERNEL, device, case(2 if n in bad else 1)), 0, n)) for n in range(5)]
    rest = [ahead.last(), ahead.last()]
    numbers = []
    for drawn in (one for one in (*came, *rest) if one is not None):
        numbers.append(drawn.number)
        if drawn.number in bad:
            with pytest.raises(CaseFailed) as failed:
                drawn.check.judge()
            assert isinstance(failed.value.__cause__, WorkerError)
        else:
            drawn.check.judge()
    assert numbers == [0, 1, 2, 3, 4]
    # A process that is out of memory says so itself.
    assert mode == "allocate" or len(device.worker.deaths) == deaths + len(bad)


@pytest.mark.slow
def test_a_worker_killed_between_two_launches_costs_none_that_had_come_back(
    device: IsolatedDevice, hostile
) -> None:
    hostile.do("nothing")
    check_case(KERNEL, device, case(2))
    first, second = (CaseCheck(KERNEL, device, case(count)) for count in (2, 1))
    first.start()
    process = device.worker._process
    assert process is not None
    time.sleep(0.5)  # it has answered by now
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    second.start()
    first.collect()
    second.collect()
    first.judge()
    second.judge()


@pytest.mark.slow
def test_a_batch_with_a_death_in_it_loses_only_that_case(device: IsolatedDevice, hostile) -> None:
    hostile.do("kill")
    outcomes = device.run_many(KERNEL, [case(1).values, case(2).values, case(1).values])
    assert [isinstance(outcome, WorkerError) for outcome in outcomes] == [False, True, False]


def test_an_import_that_fails_is_said_and_nothing_is_offered(hostile) -> None:
    hostile.do("import")
    broken = IsolatedDevice(hostile.spec(), "interpret", LIMITS)
    try:
        assert broken.probe().available
        assert broken.offered() == {}
        assert "ImportError: this module does not import" in broken.not_offered()["row_scatter"]
    finally:
        broken.close()
        hostile.do("nothing")


def test_a_worker_killed_from_outside_is_started_again(device: IsolatedDevice, hostile) -> None:
    hostile.do("nothing")
    check_case(KERNEL, device, case(2))
    process = device.worker._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    with pytest.raises(CaseFailed, match="SIGKILL"):
        check_case(KERNEL, device, case(2))
    check_case(KERNEL, device, case(2))


def test_a_worker_that_cannot_open_its_target_is_reported(tmp_path: Path) -> None:
    worker = Worker({"kind": "nobody", "root": "", "revision": "", "origin": ""}, "interpret", LIMITS)
    for _ in range(3):
        with pytest.raises(WorkerDied, match="target 'nobody' is not known"):
            worker.describe()
    assert worker._process is None
    # What has never loaded is not started again to say the same.
    assert (worker.starts, len(worker.deaths)) == (1, 1)


@pytest.mark.parametrize("slow", [1, 2])
def test_a_worker_that_was_slow_to_start_again_is_started_once_more(
    monkeypatch: pytest.MonkeyPatch, slow: int
) -> None:
    worker, starts = Worker({}, "interpret", LIMITS), list[int]()

    def start(_worker: Worker) -> None:
        starts.append(1)
        if len(starts) <= slow:
            raise WorkerDied("hang", "no answer in 30 s")

    monkeypatch.setattr(Worker, "_start", start)
    worker._described = {"offered": {}}  # it has loaded before
    if slow == 1:
        assert worker.describe() == {"offered": {}}
    else:
        with pytest.raises(NotStarted, match="it does not start again, twice: no answer in 30 s"):
            worker.describe()
    assert len(starts) == 2


@pytest.mark.slow
def test_a_worker_that_does_not_start_again_is_no_finding(hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile.do("nothing")
    device = IsolatedDevice(hostile.spec(), "interpret", LIMITS)
    assert device.probe().available
    device.worker.close()

    def start(_worker: Worker) -> None:
        raise WorkerDied("exit", "with status 127")

    monkeypatch.setattr(Worker, "_start", start)
    with pytest.raises(NoWorkerError, match="does not start again, twice: with status 127"):
        check_case(KERNEL, device, case(1))
    run = fuzz_target("row_scatter", device, budget_seconds=20, case_target=5)
    assert run.result.verdict.status is Status.NOT_RUN
    assert "does not start again, twice: with status 127" in run.result.verdict.reason
    assert run.groups == []


def test_a_worker_that_is_gone_for_good_ends_a_run_that_has_begun(
    hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile.do("kill")
    device = IsolatedDevice(hostile.spec(), "interpret", replace(LIMITS, first_seconds=90, seconds=60))
    assert device.probe().available
    begin = Worker._start

    def start(worker: Worker) -> None:
        if worker.deaths:
            raise WorkerDied("exit", "with status 127")
        begin(worker)

    monkeypatch.setattr(Worker, "_start", start)
    run = fuzz_target("row_scatter", device, budget_seconds=60, case_target=60)
    # The case that killed the worker is a finding; that no other one starts is none.
    assert run.result.verdict.status is Status.FAIL
    assert [("SIGKILL" in group.cause, LOST in group.finding.message) for group in run.groups] == [(True, True)]
    again = fuzz_target("row_scatter", device, budget_seconds=60, case_target=60)
    assert again.result.verdict.status is Status.NOT_RUN
    assert (again.result.cases, again.groups) == (0, [])


# ---- the protocol ---------------------------------------------------------------------


def reader(data: bytes):
    left = bytearray(data)

    def read(count: int) -> bytes:
        part = bytes(left[:count])
        del left[:count]
        return part

    return read


def test_a_frame_comes_back_and_a_damaged_one_never_does() -> None:
    good = frame(REPLY, 5, {"status": "done", "value": [1, 2]})
    assert read_frame(reader(good), REPLY, 5) == (5, {"status": "done", "value": [1, 2]})
    for at in range(len(good)):
        damaged = bytearray(good)
        damaged[at] ^= 0x40
        with pytest.raises(CorruptReply):
            read_frame(reader(bytes(damaged) + b"\0" * (1 << 20)), REPLY, 5)


def test_a_reply_that_is_nested_without_end_is_corrupt() -> None:
    payload = b"[" * 200_000
    header = HEADER.pack(b"kvpf", 1, REPLY, 5, len(payload), zlib.crc32(payload))
    with pytest.raises(CorruptReply, match="holds no JSON"):
        read_frame(reader(header + payload), REPLY, 5)


def test_a_frame_of_another_number_or_length_is_refused() -> None:
    with pytest.raises(CorruptReply, match="number 4"):
        read_frame(reader(frame(REPLY, 4, {})), REPLY, 5)
    with pytest.raises(CorruptReply, match="the longest has"):
        read_frame(reader(HEADER.pack(b"kvpf", 1, REPLY, 5, 2**31, 0)), REPLY, 5)


def test_tensors_cross_with_their_strides_and_shared_storages() -> None:
    storage = poison(3, "bf16", 64)
    values = {
        "a": TensorValue("bf16", storage, (3, 4), (8, 1), 5),
        "b": TensorValue("bf16", storage, (2,), (1,), 60),
        "n": 7,
        "none": None,
    }
    shipment, arena = Shipment(), Arena()
    described = shipment.add(values)
    placed = shipment.send(arena)
    found = unpack_values(described, placed, arena)
    assert found["n"] == 7
    assert found["none"] is None
    assert found["a"].storage is found["b"].storage
    assert (found["a"].array == values["a"].array).all()
    arena.view(placed[0][0], 1)[0] ^= 1
    with pytest.raises(CorruptReply, match="checksum"):
        unpack_values(described, placed, arena)
    with pytest.raises(CorruptReply, match="outside"):
        arena.view(1 << 40, 1)


def test_a_campaign_that_is_killed_leaves_no_worker_behind(hostile, tmp_path: Path) -> None:
    hostile.do("loop")
    script = tmp_path / "campaign.py"
    script.write_text(
        "import sys, pathlib\n"
        "from kvproof.harness.targets.device import IsolatedDevice\n"
        "from kvproof.harness.targets.revisions import open_target\n"
        f"device = IsolatedDevice(open_target({str(hostile.profile)!r}, pathlib.Path('.')), 'interpret')\n"
        "device.probe()\n"
        "print(device.worker._process.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    campaign = subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert campaign.stdout is not None
        pid = int(campaign.stdout.readline())
    finally:
        campaign.kill()
        campaign.wait(10)
        assert campaign.stdin is not None
        campaign.stdin.close()
        assert campaign.stdout is not None
        campaign.stdout.close()
        hostile.do("nothing")
    for _ in range(100):
        if not alive(pid):
            break
        time.sleep(0.1)
    assert not alive(pid)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
