"""Faults that show only in launch shapes of large batches, planted one at a time: each is found in a small case.

A program that takes several rows, the second program along an axis, a later pass of one program: a small case has
none of them in the shape that its own size gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from kvproof.harness.check.codec import case_from_json
from kvproof.harness.check.differential import CaseFailed, check_case
from kvproof.harness.devices.registry import find_device
from kvproof.harness.mutate.patched import Patch, patched
from kvproof.harness.run.fuzz import fuzz_kernel
from kvproof.kernels.registry import all_kernels
from kvproof.reports.verdict import Status

SHARED = ("kernels.row_index.kernel", "kernels.index_parts", "kernels.row_moves", "kernels.page_parts")
PARTS = "kernels.index_parts"

ROWS_FORGOTTEN = "programs of several rows begin one row apart"
LAST_FORGOTTEN = "last rows of no whole program forgotten"


@dataclass(frozen=True)
class Fault:
    """A planted fault.

    Attributes:
        kernel: whose property finds it.
        mistake: what it is.
        old, new: the text that is changed.
        module: where; by default the kernel's own.
        shaped: whether only the shape of a larger launch shows it.
    """

    kernel: str
    mistake: str
    old: str
    new: str
    module: str = ""
    shaped: bool = False

    @property
    def name(self) -> str:
        """Of the test."""
        return f"{self.kernel}, {self.mistake}"


def of_rows(kernel: str, old: str) -> Fault:
    """``ROWS`` left out where a program's first row is computed."""
    return Fault(kernel, ROWS_FORGOTTEN, old, old.replace(" * ROWS", ""), shaped=True)


def of_grid(kernel: str, old: str, new: str) -> Fault:
    """A grid that is rounded down."""
    return Fault(kernel, LAST_FORGOTTEN, old, new, shaped=True)


FAULTS = [
    of_rows("row_scatter", "token = tl.program_id(0) * ROWS + "),
    of_rows("row_scatter_planes", "token = tl.program_id(0) * ROWS + "),
    of_rows("window_gather", "first = tl.program_id(1) * ROWS\n"),
    of_rows("window_gather_planes", "first = tl.program_id(1) * ROWS\n"),
    of_rows("window_write_planes", "place = tl.program_id(1) * ROWS + "),
    of_rows("page_append", "t = tl.program_id(0).to(tl.int64) * ROWS + "),
    of_rows("page_gather", "i = tl.program_id(1) * ROWS + "),
    of_grid("row_scatter", "(cdiv(tokens, rows),)", "(max(tokens // rows, 1) if tokens else 0,)"),
    of_grid("row_scatter_planes", "(cdiv(tokens, rows),)", "(max(tokens // rows, 1) if tokens else 0,)"),
    of_grid("window_gather", "cdiv(draft_window, rows)", "max(draft_window // rows, 1) if draft_window else 0"),
    of_grid("page_append", "(cdiv(tokens, rows),)", "(max(tokens // rows, 1) if tokens else 0,)"),
    Fault(
        "window_gather",
        "ring's end in a program's cells",
        "wrapped(at + place, ring_slots)",
        "at + place",
        "",
        True,
    ),
    Fault(
        "window_gather_planes",
        "last of eight rows of a program",
        "written = first + place < draft_window",
        "written = (first + place < draft_window) & ((ROWS < 8) | (place < 7))",
        shaped=True,
    ),
    Fault("state_update", "second program of a row", "column = tl.program_id(1) * BLOCK_D + ", "column = "),
    Fault("state_update", "last columns of a long row", "cdiv(dim, block)", "max(dim // block, 1)"),
    Fault(
        "slot_copy",
        "second program of a span",
        "range(tl.program_id(1).to(tl.int64) * TILE, size",
        "range(0, size",
    ),
    Fault(
        "slot_copy",
        "every other tile of a span",
        "step = tl.num_programs(1).to(tl.int64) * TILE",
        "step = tl.num_programs(1).to(tl.int64) * 2 * TILE",
        shaped=True,
    ),
    Fault("hca_head", "second program of a token", "first = tl.program_id(1) * BLOCK_G\n", "first = 0\n", PARTS),
    Fault(
        "hca_head",
        "column within a program's groups",
        "column = k // PER_BLOCK",
        "column = (k - k0) // PER_BLOCK",
        PARTS,
    ),
    Fault(
        "prefill_indices",
        "every other pass over the groups",
        "tl.num_programs(1) * BLOCK_G)",
        "2 * tl.num_programs(1) * BLOCK_G)",
        PARTS,
    ),
    Fault(
        "row_index",
        "second program",
        "tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    live = i < n\n    row =",
        "tl.arange(0, BLOCK)\n    live = i < n\n    row =",
    ),
    Fault("fp8_pack", "second program", "tl.program_id(0).to(tl.int64) * ROWS + ", "0 * "),
    Fault("fp8_unpack", LAST_FORGOTTEN, "(cdiv(n, ROWS),)", "(max(n // ROWS, 1) if n else 0,)"),
    Fault("csa_translate", "second program of a token", "k = tl.program_id(1) * BLOCK_K + ", "k = "),
    Fault(
        "csa_translate",
        "last of 512 entries",
        "written = (k >= low) & (k < stop)",
        "written = (k >= low) & (k < stop) & ((BLOCK_K <= 128) | (k % 512 != 511))",
        shaped=True,
    ),
    Fault(
        "csa_translate",
        "rows of entries taken to be dense",
        "t.to(tl.int64) * topk_stride + k",
        "t.to(tl.int64) * TOPK + k",
    ),
    Fault(
        "csa_translate",
        "one cell before the buffer",
        "tl.maximum(-start, 0), TOPK)",
        "tl.maximum(-start - 1, 0), TOPK)",
    ),
]

QUICK = {"state_update, second program of a row", f"row_scatter, {ROWS_FORGOTTEN}"}


@pytest.mark.fuzz
@pytest.mark.parametrize(
    "fault", [pytest.param(f, id=f.name, marks=[pytest.mark.slow] * (f.name not in QUICK)) for f in FAULTS]
)
def test_fault_is_found_in_a_small_case(fault: Fault) -> None:
    original, device = all_kernels()[fault.kernel], find_device("ir")
    where, _, launcher = original.launcher.partition(":")
    module = where.removeprefix("kvproof.")
    with patched((*SHARED, module), (Patch(fault.module or module, fault.old, fault.new),)) as load:
        kernel = replace(original, launcher=f"{load(module).__name__}:{launcher}")
        result = fuzz_kernel(kernel, device, budget_seconds=60, seed=0)
        assert result.verdict.status is Status.FAIL
        (finding,) = result.findings
        launch: Mapping[str, Any] = finding.case["launch"]
        case = case_from_json(launch)
        # Shrunk to its own shape if that shows the fault; otherwise the message says which.
        assert bool(case.shaped_for) == fault.shaped
        assert ("in the shape of a launch of" in finding.message) == fault.shaped
        with pytest.raises(CaseFailed):
            check_case(kernel, device, case)
        if fault.shaped:
            check_case(kernel, device, replace(case, shaped_for=0))
    check_case(original, device, case)


def test_the_table_in_the_documents_has_every_fault() -> None:
    text = (Path(__file__).parents[2] / "docs" / "faults.md").read_text(encoding="utf-8")
    for fault in FAULTS:
        assert f"| {fault.mistake} | `{fault.kernel}` |" in text
