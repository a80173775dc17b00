"""Faults planted in copies of the kernels: each is found by a named check and shrunk to the smallest case."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from kvproof.harness.check.codec import case_from_json
from kvproof.harness.check.differential import CaseFailed, check_case
from kvproof.harness.devices.interpret import InterpretDevice
from kvproof.harness.run.fuzz import fuzz_kernel
from kvproof.kernels.registry import Kernel, all_kernels
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.reports.verdict import Status

Edit = tuple[str, str]
PARTS = ("row_index", "window_write")
"""Kernels that are copied; a later one may import an earlier one."""


def planted(folder: Path, fault: str, edits: Mapping[str, Sequence[Edit]]) -> dict[str, Kernel]:
    """Copies of the kernels under other module names, with some of their text replaced.

    Args:
        folder: where the copies are written.
        fault: name of the fault, unique in the process.
        edits: for each kernel, (text, replacement) pairs; each text must occur exactly once.
    """
    copies: dict[str, Kernel] = {}
    for part in PARTS:
        source = importlib.util.find_spec(f"kvproof.kernels.{part}.kernel")
        assert source is not None
        assert source.origin is not None
        text = Path(source.origin).read_text(encoding="utf-8")
        for old, new in edits.get(part, ()):
            assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {part}"
            text = text.replace(old, new)
        for earlier in copies:
            text = text.replace(f"kvproof.kernels.{earlier}.kernel", f"planted_{fault}_{earlier}")
        name = f"planted_{fault}_{part}"
        path = folder / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        kernel = all_kernels()[part]
        copies[part] = replace(kernel, launcher=f"{name}:{kernel.launcher.partition(':')[2]}")
    return copies


@dataclass(frozen=True)
class Fault:
    """A planted fault and what must be found.

    Attributes:
        kernel: whose property finds it.
        edits: what is changed.
        kind: kind of the failure.
        message: part of the finding's message.
        smallest: the shrunk case: argument -> what it must be.
        subject: configuration that it is looked for in.
    """

    kernel: str
    edits: Mapping[str, Sequence[Edit]]
    kind: str
    message: str
    smallest: Mapping[str, Any]
    subject: str | None = None


ONE_TOKEN = {"cu_seqlens_q": [0, 1], "positions": [0], "write_per_batch": 1}
ONE_ROW_SLOTS = {"slot_rows": 1, "ring_slots": 1}

FAULTS = {
    # F02: 2**31 elements; a row of one element never gets there.
    "offset in 32 bits": Fault(
        "row_index",
        {"row_index": [("return row.to(tl.int64) * row_stride", "return row * row_stride")]},
        "content",
        "row 1073741824, 2 elements a row): 2147483648, got -2147483648",
        {"plane_rows": [1073741824], "row_stride": 2},
    ),
    # 1431655766 * 3 = 2**32 + 2, and 2 is a row of the only slot. No smaller slot leaves an int32 slot that wraps.
    "window row in 32 bits": Fault(
        "window_write",
        {"row_index": [("slot.to(tl.int64) * slot_rows", "slot * slot_rows")]},
        "content",
        "pool row 2 (plane row 2",
        {**ONE_TOKEN, "state_slot_per_seq": [1431655766], "window": {"slot_rows": 3}, "pool rows": 3},
    ),
    # F05: the slot just past the plane.
    "no destination bound": Fault(
        "window_write",
        {"window_write": [(" & (row < pool_rows)", "")]},
        "content",
        "pool row 1 (outside the view",
        {**ONE_TOKEN, "state_slot_per_seq": [1], "window": ONE_ROW_SLOTS, "pool rows": 1},
    ),
    # F15: two tokens, and a ring of one; nothing was to be written.
    "chunk longer than the ring": Fault(
        "window_write",
        {
            "window_write": [
                ("tl.maximum(start, stop - write_per_batch)", "start"),
                ("cdiv(write_per_batch, rows)", "cdiv(tokens, rows)"),
            ]
        },
        "collision",
        "program (0, 0, 0) and program (0, 1, 0) write element",
        {
            "cu_seqlens_q": [0, 2],
            "positions": [0, 1],
            "state_slot_per_seq": [0],
            "write_per_batch": 0,
            "window": ONE_ROW_SLOTS,
        },
    ),
    # F03: position -1 through the ring's remainder.
    "sentinel through remainder": Fault(
        "window_write",
        {"row_index": [("tl.where((slot >= 0) & (pos >= 0), row, -1)", "row")]},
        "content",
        "expected what was there before, got row 0 of kv",
        {**ONE_TOKEN, "positions": [-1], "state_slot_per_seq": [0], "window": ONE_ROW_SLOTS, "pool rows": 1},
    ),
    # F06: W = 128 and k = 1, so position 128 has a ring row of its own.
    "ring of W where W + k positions are live": Fault(
        "window_write",
        {"row_index": [("pos % ring_slots", "pos % (ring_slots - 1)")]},
        "content",
        "expected token 0 (sequence 0, slot 0, position 128, ring position 128)",
        {**ONE_TOKEN, "positions": [128], "state_slot_per_seq": [0], "window": {"ring_slots": 129}},
        subject="v4-flash-mtp1",
    ),
}


def told(launch: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a stored launch, short: lists for index tensors."""
    values = launch["values"]
    short = {k: v["bits"] if isinstance(v, dict) and "bits" in v else v for k, v in values.items()}
    if "pool" in values:
        short["pool rows"] = values["pool"]["shape"][0]
    return short


# Found as well by `make slow`, which has the time.
LONG = ("ring of W where W + k positions are live", "offset in 32 bits")


@pytest.mark.fuzz
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in FAULTS])
def test_fault_is_found_and_shrunk(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    kernel = planted(tmp_path, name.replace(" ", "_").replace("+", "and"), fault.edits)[fault.kernel]
    device = InterpretDevice()
    subject = CONFIGS[fault.subject] if fault.subject else None
    result = fuzz_kernel(kernel, device, subject=subject, budget_seconds=60, seed=0)

    assert result.verdict.status is Status.FAIL
    (finding,) = result.findings
    assert finding.message.startswith(f"{fault.kind}: ")
    assert fault.message in finding.message
    found = told(finding.case["launch"])
    for argument, wanted in fault.smallest.items():
        if isinstance(wanted, dict):
            assert {key: found[argument][key] for key in wanted} == wanted, argument
        else:
            assert found[argument] == wanted, argument

    # The stored case fails with the fault, alone, and does not fail without it.
    case = case_from_json(finding.case["launch"])
    with pytest.raises(CaseFailed, match=fault.kind):
        check_case(kernel, device, case)
    check_case(all_kernels()[fault.kernel], device, case)


@pytest.mark.fuzz
def test_copies_without_a_fault_pass(tmp_path: Path) -> None:
    for name, kernel in planted(tmp_path, "none", {}).items():
        result = fuzz_kernel(kernel, InterpretDevice(), budget_seconds=60, seed=0, case_target=60)
        assert result.findings == (), name
        assert result.cases == 60, name


def test_an_edit_that_does_not_apply_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="occurs 0 times in window_write"):
        planted(tmp_path, "stale", {"window_write": [("no such text", "")]})
