"""The lock file in the repository proves every system as it is now."""

from pathlib import Path

import pytest

from kvproof.harness.prove.campaign import pairs_of
from kvproof.harness.prove.certificates import DEFAULT_LOCK, load_lock
from kvproof.harness.prove.locked import Setting, stale
from kvproof.harness.prove.systems import system_subjects
from kvproof.harness.prove.theorems import theorem_subjects
from kvproof.models.deepseek_v4 import real_configs

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.smt
def test_the_lock_file_is_fresh_and_all_of_it_passed() -> None:
    lock = load_lock(ROOT / DEFAULT_LOCK)
    others = [subject for system in ("schema", "scratch") for subject in system_subjects(system)]
    pairs = pairs_of([*real_configs(), *theorem_subjects(), *others])
    # A release of a solver changes no obligation: what counts here is that each has been proved by two.
    setting = Setting()
    lock.solvers.update(setting.versions())
    wrong = [
        (r.subject, r.property_name, r.verdict.reason) for r in stale(pairs, lock, setting) if not r.verdict.passed
    ]
    assert not wrong, f"run kvproof prove and commit {DEFAULT_LOCK}: {wrong[:3]}"
