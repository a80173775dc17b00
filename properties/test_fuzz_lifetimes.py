"""Whole request lifetimes as a state machine: any operations, and every row that is read is the right one."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from kvproof.harness.run.profiles import active
from kvproof.harness.simulate.machine import machine
from kvproof.harness.simulate.schedule import World

NEEDED = (
    "prefill",
    "decode",
    "rejected drafts",
    "padded",
    "microbatches",
    "prefix hit",
    "checkpoint",
    "preempted, checkpoint",
    "preempted, recompute",
    "forked",
    "transferred",
    "evicted",
    "boundary grew",
    "finished",
)
"""What a run must have seen; less would be a pass of nothing."""

EXAMPLES = {"dev": 120, "ci": 120, "nightly": 3000}


@pytest.mark.fuzz
def test_lifetimes(kvproof_seed: int) -> None:
    tested = seed(kvproof_seed)(machine(World()))
    limits = settings(
        max_examples=EXAMPLES[active().name],
        stateful_step_count=30,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(tested, settings=limits)
    missed = {event for event in NEEDED if not tested.seen[event]}
    assert not missed
