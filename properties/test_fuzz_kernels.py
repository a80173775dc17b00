"""Every kernel does what its contract says on every device here: drawn launches, whole tensors compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvproof.harness.devices.base import Device
from kvproof.harness.run.fuzz import fuzz_kernel
from kvproof.harness.run.profiles import active, fuzz_subjects
from kvproof.kernels.registry import all_kernels
from kvproof.reports.result import Result


@pytest.mark.fuzz
@pytest.mark.parametrize("subject", fuzz_subjects(), ids=lambda s: s.name if s else "any-layout")
@pytest.mark.parametrize("name", all_kernels())
def test_a_launch_changes_what_its_contract_says(
    name: str,
    subject: Any,
    kvproof_device: Device,
    kvproof_seed: int,
    kvproof_budget: float,
    kvproof_check: Callable[[Result], None],
) -> None:
    kvproof_check(
        fuzz_kernel(
            all_kernels()[name],
            kvproof_device,
            subject=subject,
            budget_seconds=kvproof_budget,
            seed=kvproof_seed,
            until_needs=active().until_needs,
        )
    )
