"""Faults planted in the cache schema and the scratch plans: the prover refutes each by a case that replays."""

from __future__ import annotations

from collections import Counter

import pytest

from kvproof.harness.mutate.system_mutations import FAULTS, prove_mutant_system
from kvproof.reports.verdict import Status

pytestmark = pytest.mark.smt


def test_there_are_enough_of_them() -> None:
    assert all(count >= 15 for count in Counter(fault.system for fault in FAULTS.values()).values())


@pytest.mark.parametrize("name", FAULTS)
def test_the_prover_refutes_it(name: str) -> None:
    proof = prove_mutant_system(FAULTS[name])
    assert proof.problems, f"{FAULTS[name].statement} holds although {FAULTS[name].words}"
    assert {problem.status for problem in proof.problems} == {Status.FAIL}
    assert not [problem.reason for problem in proof.problems if "defect" in problem.reason]
    assert proof.findings
