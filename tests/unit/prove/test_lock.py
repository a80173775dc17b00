"""The lock file: written whole, believed only when undamaged, and enough to ask nothing that has not changed."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kvproof.harness.prove import locked
from kvproof.harness.prove.campaign import pairs_of
from kvproof.harness.prove.certificates import (
    Certificate,
    Lock,
    LockError,
    ProofRecord,
    load_lock,
    save_lock,
)
from kvproof.harness.prove.locked import Pair, Proved, Setting, prove_locked, stale, updated
from kvproof.harness.solve.query import Budget
from kvproof.models.deepseek_v4 import CONFIGS, ModelConfig
from kvproof.reports.verdict import Status

FLASH, PRO = CONFIGS["v4-flash"], CONFIGS["v4-pro"]
STATEMENTS = ("in own part", "compress/compress", "slot alignment")
SETTING = Setting()


def lock() -> Lock:
    record = ProofRecord("0" * 32, "PASS", ("an assumption",), 2, ("claim: claim [a = 1, b = 2] abc",))
    return Lock({"z3": "1"}, {"abc": Certificate("def", {"z3": 7})}, {("model", "window/window"): record})


def pairs(*configs: ModelConfig) -> list[Pair]:
    return pairs_of(configs, STATEMENTS)


def proved(lock: Lock, *configs: ModelConfig, setting: Setting = SETTING) -> list[Proved]:
    return list(prove_locked(pairs(*configs), lock, setting))


@pytest.fixture(scope="module")
def full() -> Lock:
    done = proved(Lock(), FLASH, PRO)
    assert all(item.result.verdict.passed for item in done)
    return updated(Lock(), SETTING.versions(), done)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "proofs.lock"
    save_lock(path, lock())
    assert load_lock(path) == lock()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [entry.name for entry in path.parent.iterdir()] == ["proofs.lock"]


def test_an_absent_file_is_empty(tmp_path: Path) -> None:
    assert load_lock(tmp_path / "proofs.lock") == Lock()


@pytest.mark.parametrize("cut", [0, 1, 40, 200, -2])
def test_a_truncated_file_is_not_believed(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "proofs.lock"
    save_lock(path, lock())
    path.write_text(path.read_text(encoding="utf-8")[:cut], encoding="utf-8")
    with pytest.raises(LockError, match=r"damaged|changed"):
        load_lock(path)


@pytest.mark.parametrize("old", ["PASS", "z3=7", "abc", "an assumption", '"schema": 1'])
def test_an_edited_file_is_not_believed(tmp_path: Path, old: str) -> None:
    path = tmp_path / "proofs.lock"
    save_lock(path, lock())
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(old, old[:-1] + "9", 1), encoding="utf-8")
    with pytest.raises(LockError):
        load_lock(path)


@pytest.mark.parametrize("data", [[], {"schema": 1}, {"schema": 2, "certificates": {}, "proofs": []}, "text"])
def test_a_file_of_another_shape_is_not_believed(tmp_path: Path, data: object) -> None:
    path = tmp_path / "proofs.lock"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(LockError):
        load_lock(path)


def test_bytes_that_are_no_text_are_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "proofs.lock"
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(LockError, match="cannot be read"):
        load_lock(path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "proofs.lock"
    save_lock(path, lock())

    def refuse(self: Path, target: Path) -> Path:
        raise OSError("no space")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="no space"):
        save_lock(path, Lock())
    assert load_lock(path) == lock()
    assert [entry.name for entry in tmp_path.iterdir()] == ["proofs.lock"]


def test_another_solver_version_makes_every_certificate_worthless() -> None:
    assert lock().kept_for({"z3": "1"}) == lock()
    assert lock().kept_for({"z3": "2"}) == Lock({"z3": "2"})
    assert lock().kept_for({"z3": "1", "cvc5": "1"}).proofs == {}


@pytest.mark.smt
def test_nothing_is_asked_again_if_nothing_changed(full: Lock, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a proof was run")

    monkeypatch.setattr(locked, "prove_pair", never)
    again = proved(full, FLASH, PRO)
    assert [item.result.verdict.status for item in again] == [Status.PASS] * 6
    assert all(item.result.cases > 0 for item in again)


@pytest.mark.smt
def test_one_changed_configuration_is_proved_again_alone(full: Lock) -> None:
    changed = replace(FLASH, block_size=512)
    asked = {(item.result.subject, item.result.property_name): item.asked for item in proved(full, changed, PRO)}
    assert all(asked[FLASH.name, name] > 0 for name in ("in own part", "compress/compress"))
    assert all(asked[PRO.name, name] == 0 for name in STATEMENTS)


@pytest.mark.smt
def test_changed_code_with_the_same_obligations_asks_for_no_proof_again(
    full: Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvproof.harness.prove import fingerprint

    monkeypatch.setattr(fingerprint, "source_digest", lambda: "other code")
    for item in proved(full, FLASH):
        kept = full.proofs[FLASH.name, item.result.property_name].obligations
        assert item.record.obligations == kept
        assert kept
        assert item.asked <= item.record.queries - len(kept)
    assert [result.verdict.status for result in stale(pairs(FLASH, PRO), full, SETTING)] == [Status.PASS] * 6


@pytest.mark.smt
def test_everything_is_asked_again_on_demand(full: Lock) -> None:
    assert all(item.asked > 0 for item in proved(full, FLASH, setting=replace(SETTING, everything=True)))


@pytest.mark.smt
def test_workers_find_what_one_process_finds(full: Lock) -> None:
    done = proved(Lock(), FLASH, PRO, setting=replace(SETTING, jobs=2))
    found = updated(Lock(), SETTING.versions(), done)
    # The work that a solver counts depends a little on what it was asked before.
    assert (found.proofs, set(found.certificates)) == (full.proofs, set(full.certificates))


def test_stale_proofs_fail_the_check(full: Lock) -> None:
    def without(removed: Mapping[tuple[str, str], ProofRecord]) -> Lock:
        return Lock(full.solvers, full.certificates, dict(removed))

    key = FLASH.name, "in own part"
    (wanted,) = pairs_of([FLASH], ["in own part"])
    missing = without({k: r for k, r in full.proofs.items() if k != key})
    unknown = without({**full.proofs, key: replace(full.proofs[key], verdict="UNKNOWN")})
    changed = without({**full.proofs, key: replace(full.proofs[key], inputs="0", obligations=())})
    for lock_, reason in ((missing, "no proof"), (unknown, "as UNKNOWN"), (changed, "stale")):
        (result,) = stale([wanted], lock_, SETTING)
        assert result.verdict.status is Status.FAIL
        assert reason in result.verdict.reason
    (result,) = stale([wanted], full, SETTING)
    assert result.verdict.passed


@pytest.mark.smt
def test_a_changed_layout_fails_the_check(full: Lock) -> None:
    changed = replace(FLASH, block_size=512)
    results = {r.property_name: r.verdict.status for r in stale(pairs(changed), full, SETTING)}
    assert results["in own part"] is Status.FAIL


def test_certificates_that_no_proof_names_are_dropped() -> None:
    spare = Lock(lock().solvers, {**lock().certificates, "unused": Certificate("x", {"z3": 1})}, lock().proofs)
    assert spare.without_unused() == lock()


def test_another_budget_is_another_fingerprint(full: Lock) -> None:
    (wanted,) = pairs_of([FLASH], ["in own part"])
    small = replace(SETTING, budget=Budget(resources=1_000_000))
    versions = SETTING.versions()
    assert locked.inputs_of(*wanted, versions, small) != locked.inputs_of(*wanted, versions, SETTING)
    assert locked.inputs_of(*wanted, versions, SETTING) == full.proofs[FLASH.name, "in own part"].inputs
