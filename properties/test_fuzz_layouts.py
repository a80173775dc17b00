"""Every statement holds on drawn systems and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvproof.harness.run.fuzz import fuzz_statement
from kvproof.harness.run.profiles import active, fuzz_subjects
from kvproof.properties.statement import all_statements
from kvproof.reports.result import Result


@pytest.mark.fuzz
@pytest.mark.parametrize("subject", fuzz_subjects(), ids=lambda s: s.name if s else "any-layout")
@pytest.mark.parametrize("name", all_statements())
def test_a_statement_holds(
    name: str,
    subject: Any,
    kvproof_seed: int,
    kvproof_budget: float,
    kvproof_check: Callable[[Result], None],
) -> None:
    kvproof_check(
        fuzz_statement(
            all_statements()[name],
            subject=subject,
            budget_seconds=kvproof_budget,
            seed=kvproof_seed,
            until_needs=active().until_needs,
        )
    )
