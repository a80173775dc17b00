"""Faults planted in kernels and in their callers: each breaks a joint obligation, which is found and shrunk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from kvproof.harness.devices.registry import find_device
from kvproof.harness.mutate.patched import Patch, patched
from kvproof.harness.run.forward.fuzz import check_case
from kvproof.harness.run.forward.launches import Launches
from kvproof.kernels.registry import all_kernels
from kvproof.properties.joint.obligations import OBLIGATIONS
from kvproof.reports.verdict import Status

FORWARD = "harness.run.forward"
PARTS = "kernels.index_parts"
SHARED = ("kernels.row_index.kernel", "kernels.index_parts", "kernels.row_moves", "kernels.index_spec")
DEVICE = "ir"


@contextmanager
def planted(kernel: str | None, patches: tuple[Patch, ...]) -> Iterator[Any]:
    """The fuzzer of a changed caller, or of this caller with a changed kernel; takes an obligation's name."""
    kernels = dict(all_kernels())
    modules = [FORWARD]
    if kernel is not None:
        where, _, launcher = kernels[kernel].launcher.partition(":")
        modules += [*SHARED, where.removeprefix("kvproof.")]
    with patched(modules, patches) as load:
        if kernel is not None:
            copied = load(modules[-1]).__name__
            kernels[kernel] = replace(kernels[kernel], launcher=f"{copied}:{launcher}")
        fuzz = load(f"{FORWARD}.fuzz")

        def run(obligation: str, **options: Any) -> Any:
            return fuzz.fuzz_joint(
                OBLIGATIONS[obligation], find_device(DEVICE), kernels=kernels, seed=0, **options
            )

        yield run


@dataclass(frozen=True)
class Fault:
    """A planted fault and what must be found.

    Attributes:
        id: which fault of the field it is an instance of.
        obligation: what it breaks.
        patches: what is changed.
        message: part of the finding's message.
        smallest: forwards, requests and new tokens of the shrunk schedule at most.
        kernel: the kernel that is changed; None for the caller.
    """

    id: str
    obligation: str
    patches: tuple[Patch, ...]
    message: str
    smallest: tuple[int, int, int]
    kernel: str | None = None


FAULTS = {
    "window at the head of a CSA prefill slice": Fault(
        "F01",
        "coverage",
        (Patch("kernels.prefill_indices.kernel", "csa_end - before + i", "csa_start + i"),),
        "csa cells of token 0",
        (1, 1, 1),
        kernel="prefill_indices",
    ),
    "slots of another stride": Fault(
        "F06",
        "content",
        (
            Patch(
                "kernels.window_write.kernel",
                "row = window_row(slot, pos, ring_start, slot_rows,",
                "row = window_row(slot, pos, ring_start, slot_rows + 1,",
            ),
        ),
        "reads of token 0",
        (1, 1, 1),
        kernel="window_write",
    ),
    "ring of W": Fault(
        "F06",
        "content",
        (
            Patch(
                "kernels.window_write.kernel",
                "slot_rows, ring_slots, ring_stride, run_rows)\n    # A",
                "slot_rows, ring_slots - 1, ring_stride, run_rows)\n    # A",
            ),
        ),
        "reads of token",
        (1, 1, 1),
        kernel="window_write",
    ),
    "open group counted": Fault(
        "F08",
        "coverage",
        (Patch(f"{FORWARD}.batch", "return (pos + 1) // HCA_RATIO", "return pos // HCA_RATIO + 1"),),
        "hca cells of token 0",
        (1, 1, 1),
    ),
    "padded tokens keep their ids": Fault(
        "F09",
        "content",
        (
            Patch(
                f"{FORWARD}.run",
                "batch_id_per_token=batch.sequence,",
                "batch_id_per_token=[max(sequence, 0) for sequence in batch.sequence],",
            ),
        ),
        "a launch failed: expected every launch runs, got write collision",
        (1, 1, 1),
    ),
    "prefix resumed without its window": Fault(
        "F10",
        "content",
        (
            Patch(
                f"{FORWARD}.world",
                "self.view(ratio).array[row] = rows([self.window_stamp",
                "_ = rows([self.window_stamp",
            ),
        ),
        "reads of token 0",
        (1, 1, 1),
    ),
    "first block for every column": Fault(
        "F11",
        "content",
        (
            Patch(
                f"{FORWARD}.batch",
                "[*request.blocks, *[-1] * (columns - len(request.blocks))]",
                "[request.blocks[0]] * columns",
            ),
        ),
        "reads of token 0",
        (1, 1, 1),
    ),
    "first block for every group": Fault(
        "F11",
        "content",
        (Patch(PARTS, "tl.load(table_ptr + column, mask", "tl.load(table_ptr + 0 * column, mask"),),
        "hca reads of token",
        (1, 1, 1),
        kernel="hca_head",
    ),
    "plan of the last group alone": Fault(
        "F19",
        "order",
        (
            Patch(
                "kernels.compress_plans.kernel", "tokens.context - width - draft_tokens", "tokens.context - ratio"
            ),
        ),
        "from the ring",
        (2, 1, 8),
        kernel="compress_plans",
    ),
    "state written before it is read": Fault(
        "F23",
        "order",
        (
            Patch(
                f"{FORWARD}.compress",
                "        inputs = _inputs(world, batch)\n",
                "        inputs = _inputs(world, batch)\n"
                "        _update(world, batch, ratio, write_plan, inputs)\n",
            ),
        ),
        "from the ring",
        (1, 1, 3),
    ),
    "chunk written before it is read": Fault(
        "F23",
        "content",
        (
            Patch(
                f"{FORWARD}.run",
                "            _note(world, batch)\n",
                "            _write(world, batch, stamps, {})\n",
            ),
            Patch(f"{FORWARD}.run", "            _write(world, batch, stamps, {})\n        for", "        for"),
        ),
        "reads of token",
        (2, 1, 3),
    ),
    "slots of the first batch": Fault(
        "F25",
        "independence",
        (
            Patch(
                f"{FORWARD}.batch",
                "[world.slot(part.request) for part in forward.parts],",
                "[*world.__dict__.setdefault('slots', [world.slot(part.request) for part in forward.parts]),\n"
                "         *[world.slot(part.request) for part in forward.parts]][: len(forward.parts)],",
            ),
        ),
        "independence: ",
        (2, 2, 4),
    ),
    "grid of the first batch": Fault(
        "F25",
        "coverage",
        (
            Patch(
                f"{FORWARD}.writers",
                "for n in NAMES.values()},\n        T=batch.size,",
                "for n in NAMES.values()},\n"
                "        T=min(batch.size, world.__dict__.setdefault('captured', batch.size)),",
            ),
        ),
        "of forward 2",
        (2, 1, 3),
    ),
}


def size(case: Any) -> tuple[int, int, int]:
    """Forwards, requests and new tokens of a stored schedule."""
    schedule = case["schedule"]
    new = sum(part["new"] for forward in schedule["forwards"] for part in forward["parts"])
    return len(schedule["forwards"]), len(schedule["requests"]), new


# Found as well by `make slow`, which has the time.
LONG = ("state written before it is read", "plan of the last group alone", "chunk written before it is read")


@pytest.mark.fuzz
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in FAULTS])
def test_fault_is_found_and_shrunk(name: str) -> None:
    fault = FAULTS[name]
    with planted(fault.kernel, fault.patches) as run:
        result = run(fault.obligation, budget_seconds=60, shrink_seconds=20)
    assert result.verdict.status is Status.FAIL
    (finding,) = result.findings
    assert fault.message in finding.message
    assert all(got <= most for got, most in zip(size(finding.case), fault.smallest, strict=True))
    # Without the fault the stored schedule passes.
    check_case(fault.obligation, finding.case, Launches(find_device(DEVICE)))


def test_the_table_in_the_documents_has_every_fault() -> None:
    text = (Path(__file__).parents[2] / "docs" / "faults.md").read_text(encoding="utf-8")
    for name, fault in FAULTS.items():
        assert f"| {fault.id} | {name} | {fault.obligation} |" in text
