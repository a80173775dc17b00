"""The joint obligations on every device here: whole lifetimes of requests, drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvproof.harness.devices.base import Device
from kvproof.harness.run.forward.fuzz import fuzz_joint
from kvproof.harness.run.profiles import active, fuzz_subjects
from kvproof.properties.joint.obligations import OBLIGATIONS
from kvproof.reports.result import Result


@pytest.mark.fuzz
@pytest.mark.parametrize("subject", fuzz_subjects(), ids=lambda s: s.name if s else "any-layout")
@pytest.mark.parametrize("name", OBLIGATIONS)
def test_a_joint_obligation_holds(
    name: str,
    subject: Any,
    kvproof_device: Device,
    kvproof_seed: int,
    kvproof_budget: float,
    kvproof_check: Callable[[Result], None],
) -> None:
    kvproof_check(
        fuzz_joint(
            OBLIGATIONS[name],
            kvproof_device,
            subject=subject,
            budget_seconds=kvproof_budget,
            seed=kvproof_seed,
            until_needs=active().until_needs,
        )
    )
