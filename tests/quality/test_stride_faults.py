"""A slot's offset in 32 bits, planted in the kernel that writes state rings: no drawn case on a CPU has a state
of 2**31 elements, so the proof that nothing wraps finds it, with the smallest launch that shows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
pytest.importorskip("z3")

from kvproof.harness.ir.target import CUDA_90
from kvproof.harness.mutate.patched import Patch, patched
from kvproof.harness.prove.kernels.check import PropertyResult, check
from kvproof.harness.prove.kernels.properties import Property
from kvproof.harness.prove.kernels.settings import settings_of
from kvproof.kernels.registry import all_kernels
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.reports.verdict import Status

MODULE = "kernels.state_update.kernel"
FAULTS = {
    name: Patch(
        MODULE,
        f"{name}_state_ptr + row_offset(slot, {name}_slot_stride)",
        f"{name}_state_ptr + slot * {name}_slot_stride",
    )
    for name in ("kv", "score")
}


def no_wrap(*patches: Patch) -> PropertyResult:
    """Whether nothing wraps in the state update with these changes."""
    original = all_kernels()["state_update"]
    with patched((MODULE,), patches) as load:
        launcher = f"{load(MODULE).__name__}:{original.launcher.partition(':')[2]}"
        (setting,) = settings_of(replace(original, launcher=launcher), CONFIGS["v4-flash"], most=1)
        return next(r for r in check(setting, CUDA_90) if r.property is Property.NO_WRAP)


@pytest.mark.parametrize("name", FAULTS)
def test_a_slot_offset_in_32_bits_is_found(name: str) -> None:
    result = no_wrap(FAULTS[name])
    assert result.verdict.status is Status.FAIL
    (failure,) = result.failures
    # The product of a slot id and the stride, at the line that was changed; seen by running the launch.
    assert f"{name}_state.stride" in str(failure)
    assert "arith.muli wraps" in failure.seen
    assert failure.witness is not None
    numbers = failure.witness.numbers
    assert (numbers["slots"], numbers[f"{name}_state.stride"]) == (3, 2**30)
    # One plan row of one sequence; slot 2 is the first whose offset at that stride is 2**31.
    assert (numbers["n_plan"], numbers["bs"], numbers["N"]) == (1, 1, 1)


def test_the_kernel_itself_wraps_nowhere() -> None:
    assert no_wrap().verdict.status is Status.PASS


def test_the_table_in_the_documents_has_the_fault() -> None:
    text = (Path(__file__).parents[2] / "docs" / "faults.md").read_text(encoding="utf-8")
    assert "| F02 | slot offset of a state in 32 bits | `state_update`, no wrap |" in text
