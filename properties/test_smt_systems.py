"""Every statement about the cache schema and the scratch plans, proved for every configuration and rank."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvproof.harness.prove.campaign import prove
from kvproof.harness.prove.subject import Subject
from kvproof.harness.prove.systems import system_subjects
from kvproof.harness.solve.backends import installed
from kvproof.properties.statement import all_statements
from kvproof.reports.result import Result

pytestmark = pytest.mark.smt


@pytest.mark.parametrize(
    ("subject", "statement"),
    [
        pytest.param(subject, statement, id=f"{subject.name}-{statement}")
        for system in ("schema", "scratch")
        for subject in system_subjects(system)
        for statement in all_statements(system)
    ],
)
def test_statement_holds(subject: Subject, statement: str, kvproof_check: Callable[[Result], None]) -> None:
    (result,) = prove([subject], statements=[statement], solvers=tuple(installed()) or ("z3",))
    kvproof_check(result)
