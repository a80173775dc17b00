"""Campaigns over a target whose function kills its worker: records and findings are all there, and replay."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kvproof.harness.check.differential import CaseFailed
from kvproof.harness.run.replay import replay
from kvproof.harness.run.target_campaign import BEYOND, CALLERS, TargetCampaign
from kvproof.harness.run.trial import cause_of
from kvproof.harness.targets.device import IsolatedDevice
from kvproof.harness.targets.workers.outcomes import Limits
from kvproof.reports.store import Store
from kvproof.reports.verdict import Status

pytest.importorskip("triton", reason="a worker runs kernels")

LIMITS = Limits(open_seconds=120, first_seconds=6, seconds=3, memory_bytes=512 << 20)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["kill", "segfault", "loop", "allocate", "corrupt", "exit", "raise"])
def test_a_campaign_goes_on_and_its_records_have_everything(hostile, tmp_path: Path, mode: str) -> None:
    hostile.do(mode)
    device = IsolatedDevice(hostile.spec(), "interpret", LIMITS)
    store, begun = Store(tmp_path), time.monotonic()
    # Where the smallest case is asked for, time must not be what ends shrinking: each death costs a start.
    seconds = 90 if mode in {"raise", "kill"} else 6
    campaign = TargetCampaign(device, 20, case_target=30, most_causes=2, shrink_seconds=seconds)
    try:
        reports = {report.contract: report for report in campaign.run(store.save_finding)}
        store.append_record(campaign.record(["fuzz"], "2026-01-01T00:00:00Z", begun, complete=True))
    finally:
        device.close()
        hostile.do("nothing")
    runs = reports["row_scatter"].runs
    assert [run.result.subject for run in runs] == [CALLERS, BEYOND]
    assert all(run.result.verdict.status is Status.FAIL for run in runs)
    (record,) = store.records()
    kept = {finding.id for finding in store.findings()}
    named = {finding.id for result in record.results for finding in result.findings}
    assert named == kept
    assert named
    assert len(record.results) == 2 + len(reports) - 1  # every other contract has its line, as not offered
    statuses = {result.verdict.status for result in record.results if result.property_name != "row_scatter"}
    assert statuses == {Status.UNSUPPORTED}
    finding = next(f for f in store.findings())
    assert len(finding.case["launch"]["values"]["kv"]["shape"]) == 2
    if mode in {"raise", "kill"}:
        assert finding.case["launch"]["values"]["kv"]["shape"][0] == 2  # shrunk to what the deed needs


@pytest.mark.slow
def test_a_finding_replays_in_a_worker_and_is_gone_when_the_function_is_mended(hostile) -> None:
    hostile.do("raise")
    device = IsolatedDevice(hostile.spec(), "interpret", LIMITS)
    campaign = TargetCampaign(device, 10, contracts=("row_scatter",), case_target=20, most_causes=1)
    try:
        (report,) = campaign.run(lambda _finding: None)
    finally:
        device.close()
    finding = report.runs[0].groups[0].finding
    assert finding.engine == "target"
    assert replay(finding).verdict.status is Status.FAIL
    hostile.do("nothing")
    assert replay(finding).verdict.status is Status.PASS


def test_a_cause_has_no_numbers_of_the_case() -> None:
    first = CaseFailed(
        "content", "pool row 3 (plane row 9: ring [4, 1]): expected 7, got 0x1f; and 2 more", "", ""
    )
    second = CaseFailed("content", "pool row 5 (plane row 1: ring [0]): expected -2, got 0xa0", "", "")
    other = CaseFailed("content", "kv row 5 (plane row 1: ring [0]): expected -2, got 0xa0", "", "")
    assert cause_of(first) == cause_of(second)
    assert cause_of(first) != cause_of(other)
    assert "3" not in cause_of(first)
