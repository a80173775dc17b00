"""Every statement about the row space, proved for every real configuration by every solver that is here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvproof.harness.prove.campaign import prove
from kvproof.harness.solve.backends import installed
from kvproof.models.deepseek_v4 import ModelConfig, real_configs
from kvproof.properties.statement import all_statements
from kvproof.reports.result import Result

pytestmark = pytest.mark.smt


@pytest.mark.parametrize("config", real_configs(), ids=lambda config: config.name)
@pytest.mark.parametrize("statement", sorted(all_statements("row-space")))
def test_statement_holds(statement: str, config: ModelConfig, kvproof_check: Callable[[Result], None]) -> None:
    (result,) = prove([config], statements=[statement], solvers=tuple(installed()) or ("z3",))
    kvproof_check(result)
