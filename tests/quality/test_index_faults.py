"""Faults planted in the kernels that build indices and move rows: each is found by its property and shrunk.

Ids are those of the list of faults met in the field; docs/faults.md has the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from kvproof.harness.check.codec import case_from_json
from kvproof.harness.check.differential import CaseFailed, check_case
from kvproof.harness.devices.registry import find_device
from kvproof.harness.mutate.patched import Patch, PatchError, patched
from kvproof.harness.run.fuzz import fuzz_kernel
from kvproof.kernels.registry import Kernel, all_kernels
from kvproof.reports.verdict import Status

SHARED = ("kernels.row_index.kernel", "kernels.index_parts", "kernels.row_moves", "kernels.index_spec")
"""Modules that are copied with every kernel, so that a fault in one is the copy's alone."""


@contextmanager
def planted(name: str, patches: Sequence[Patch]) -> Iterator[Kernel]:
    """A kernel whose code is changed; its contract is not."""
    kernel = all_kernels()[name]
    where, _, launcher = kernel.launcher.partition(":")
    module = where.removeprefix("kvproof.")
    with patched((*SHARED, module), patches) as load:
        yield replace(kernel, launcher=f"{load(module).__name__}:{launcher}")


@dataclass(frozen=True)
class Fault:
    """A planted fault and what must be found.

    Attributes:
        id: which fault of the field it is an instance of.
        kernel: whose property finds it.
        patches: what is changed.
        message: part of the finding's message.
        smallest: the shrunk case: argument -> what it must be (a geometry: some of its fields; a tensor of rows
            or a buffer: its shape).
        device: where it is found.
    """

    id: str
    kernel: str
    patches: tuple[Patch, ...]
    message: str
    smallest: dict[str, Any] = field(default_factory=dict[str, Any])
    device: str = "ir"


def kernel_of(name: str) -> str:
    """Module of a kernel's launcher."""
    return f"kernels.{name}.kernel"


PARTS, MOVES, ROWS = "kernels.index_parts", "kernels.row_moves", "kernels.row_index.kernel"

FAULTS = {
    "window at the head of a CSA prefill slice": Fault(
        "F01",
        "prefill_indices",
        (Patch(kernel_of("prefill_indices"), "csa_end - before + i", "csa_start + i"),),
        "prefix_csa_indices element 0: expected what was there before",
        {"positions": [0, 0], "chunk_start_per_seq": [1], "win": 1, "prefix_csa_indptr": [0, 0, 2], "T": 2},
    ),
    "compressed row in 32 bits": Fault(
        "F02",
        "csa_translate",
        (
            Patch(
                ROWS,
                "block.to(tl.int64) * envelope_rows + row, -1)",
                "(block * envelope_rows + row).to(tl.int64), -1)",
            ),
        ),
        "(sequence 0, position 3): -1, got -2147483648",
        {
            "block_tables": [2**30],
            "envelope_rows": 2,
            "csa_block_capacity": 1,
            "topk_local": [0],
            "positions": [3],
            "kv_indptr_csa": [0, 2],
        },
    ),
    "padded token's id as an address": Fault(
        "F03",
        "decode_indices",
        (
            Patch(
                kernel_of("decode_indices"),
                "if (sequence < 0) | (sequence >= num_seqs):",
                "if sequence >= num_seqs:",
            ),
        ),
        "out of bounds: slots_ptr: element -1",
        {"T": 1, "batch_id_per_token": [-1]},
    ),
    "padded token written": Fault(
        "F03",
        "row_scatter",
        (Patch(kernel_of("row_scatter"), "live = (sequence >= 0) & (row >= 0)", "live = (row >= 0)"),),
        "write collision: pool_ptr",
        {"batch_id_per_token": [0, -1], "dest_rows": [0, 0], "kv": (2, 1), "pool": (1, 1)},
    ),
    "one group a block": Fault(
        "F04",
        "hca_head",
        (Patch(kernel_of("hca_head"), "PER_BLOCK=per_block,", "PER_BLOCK=1,"),),
        "group 1 of token 0",
        {"T": 1, "positions": [255], "geometry": {"block_size": 256, "ratios": [128]}},
    ),
    "no destination bound": Fault(
        "F05",
        "row_scatter",
        (Patch(kernel_of("row_scatter"), " & (row < pool_rows)", ""),),
        "out of bounds: pool_ptr: element 1",
        {"batch_id_per_token": [0], "dest_rows": [1], "pool": (1, 1)},
    ),
    "slot past the plane": Fault(
        "F05",
        "decode_indices",
        (Patch(kernel_of("decode_indices"), " & (slot < slot_stop)", ""),),
        "expected window cell 0 of token 0",
        {"T": 1, "positions": [0], "geometry": {"slot_positions": 1, "ring_slots": 1}},
    ),
    "ring of W": Fault(
        "F06",
        "decode_indices",
        (Patch(kernel_of("decode_indices"), "((pos - n + 1) % ring_slots)", "((pos - n + 1) % win)"),),
        "swa_indices element 0",
        {"T": 1, "geometry": {"ratios": [0]}},
    ),
    "slots of another stride": Fault(
        "F06",
        "window_gather",
        (
            Patch(
                kernel_of("window_gather"),
                "row = slot * slot_rows + ring_start",
                "row = slot * (slot_rows + 1) + ring_start",
            ),
        ),
        "cell 0 of request 0",
        {"anchor_pos": [0], "draft_window": 1, "state_slot_per_seq": [1], "pool": (2, 1)},
    ),
    "another class's parameters for an absent one": Fault(
        "F07",
        "decode_indices",
        (
            Patch(PARTS, " or not serves(geometry, ratio):", ":"),
            Patch(PARTS, "geometry.window_params(ratio)", "geometry.window_params(next(iter(geometry.classes)))"),
        ),
        "what was there before",
        {"T": 1, "positions": [0], "geometry": {"ratios": [0]}, "hca_indices": (1,)},
    ),
    "open entry visible": Fault(
        "F08",
        "csa_translate",
        (Patch(PARTS, "at // RATIO + (at % RATIO + 1) // RATIO", "at // RATIO + 1"),),
        "kv_indices_csa element",
        {"positions": [0], "topk_local": [0], "block_tables": [0]},
    ),
    "open group visible": Fault(
        "F08",
        "hca_head",
        (Patch(PARTS, "at // RATIO + (at % RATIO + 1) // RATIO", "at // RATIO + 1"),),
        "hca_indices element",
        {"geometry": {"ratios": [128], "block_size": 128}},
    ),
    "first block for every column": Fault(
        "F11",
        "csa_translate",
        (
            Patch(
                kernel_of("csa_translate"),
                "* table_stride + column, mask=known",
                "* table_stride + 0 * column, mask=known",
            ),
        ),
        "kv_indices_csa element",
        {"block_tables": [0, 1], "kv_indptr_csa": [0, 2], "window_size": 1},
    ),
    "first block for every group": Fault(
        "F11",
        "hca_head",
        (Patch(PARTS, "tl.load(table_ptr + column, mask", "tl.load(table_ptr + 0 * column, mask"),),
        "hca_indices element 1",
        {"T": 1, "positions": [255], "geometry": {"block_size": 128}},
    ),
    "two blocks from the lower one's place": Fault(
        "F12",
        "hca_head",
        (
            Patch(
                PARTS,
                "        row = compress_row(block, k % PER_BLOCK",
                "        pair = inside & (column < columns) & ((column ^ 1) < columns)\n"
                "        other = tl.load(table_ptr + (column ^ 1), mask=pair, other=2147483647)\n"
                "        block = tl.where(pair, tl.minimum(block, other) + column % 2, block)\n"
                "        row = compress_row(block, k % PER_BLOCK",
            ),
        ),
        "hca_indices element",
        {"geometry": {"ratios": [128]}},
    ),
    "rows assumed dense": Fault(
        "F13",
        "row_scatter",
        (Patch(kernel_of("row_scatter"), "        pool.stride(0),\n", "        columns,\n"),),
        "out of bounds: pool_ptr: element 1 of a view of shape (2, 1), strides (2, 1)",
        {"dest_rows": [1], "pool": (2, 1)},
    ),
    "block table assumed dense": Fault(
        "F13",
        "csa_translate",
        (Patch(kernel_of("csa_translate"), "        block_tables.stride(0),\n", "        columns,\n"),),
        "tables_ptr: element 1 of a view of shape (2, 1), strides (2, 1)",
        {"batch_id_per_token": [1], "csa_block_capacity": 1, "topk_local": [0], "positions": [3]},
    ),
    "all columns, then some again": Fault(
        "F14",
        "window_gather_planes",
        (
            Patch(
                kernel_of("window_gather_planes"),
                "cells = written[:, None, None] & (tile < 7)",
                "cells = written[:, None, None] & (tile < 8)",
            ),
        ),
        "written by two stores of one program",
        {"draft_window": 1, "pool": (1, 512)},
    ),
    "chunk longer than the ring": Fault(
        "F15",
        "window_write_planes",
        (
            Patch(kernel_of("window_write_planes"), "tl.maximum(start, stop - write_per_batch)", "start"),
            Patch(
                kernel_of("window_write_planes"),
                "cdiv(write_per_batch, rows)",
                "cdiv(packed.shape[0], rows)",
            ),
        ),
        "is written by programs (0, 0, 0) and (0, 1, 0)",
        {"cu_seqlens_q": [0, 2], "positions": [0, 1], "write_per_batch": 0, "window": {"ring_slots": 1}},
    ),
    "row through fp32": Fault(
        "F17",
        "decode_indices",
        (
            Patch(
                PARTS,
                "row = slot_row + ring_pos if RUN == 0",
                "row = (slot_row + ring_pos).to(tl.float32).to(tl.int64) if RUN == 0",
            ),
        ),
        "expected window cell 0 of token 0",
        {"T": 1, "positions": [0], "geometry": {"plane_rows": 2147483647}},
    ),
    "state ring of the pooled positions alone": Fault(
        "F06",
        "state_update",
        (
            Patch(
                kernel_of("state_update"),
                "        ring,\n        ratio,\n        D=dim",
                "        pooled(ratio, overlap),\n        ratio,\n        D=dim",
            ),
        ),
        "kv_state row",
        {"write_plan": [0, 0, 1, 0], "kv_state": (1, 2, 1), "ratio": 1},
    ),
    "stale span copied": Fault(
        "F05",
        "slot_copy",
        (
            Patch(
                kernel_of("slot_copy"),
                "held = held & (target >= 0) & (target <= target_granules - length)\n",
                "\n",
            ),
        ),
        "out of bounds: target_ptr: element -1",
        {"spans": [0, -1, 1], "granule": 1, "target": (1,)},
    ),
}


def told(launch: Any) -> dict[str, Any]:
    """The arguments of a stored launch, short: lists for index tensors, shapes for poisoned ones."""
    short: dict[str, Any] = {}
    for name, value in launch["values"].items():
        if isinstance(value, dict) and "bits" in value:
            first = value["offset"]
            count = 1
            for extent in value["shape"]:
                count *= extent
            short[name] = value["bits"][first : first + count]
        elif isinstance(value, dict) and "poison" in value:
            short[name] = tuple(value["shape"])
        else:
            short[name] = value
    return short


# Found as well by `make slow`, which has the time.
LONG = (
    "compressed row in 32 bits",
    "first block for every column",
    "window at the head of a CSA prefill slice",
    "open group visible",
    "one group a block",
    "block table assumed dense",
    "open entry visible",
)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in FAULTS])
def test_fault_is_found_and_shrunk(name: str) -> None:
    fault = FAULTS[name]
    device = find_device(fault.device)
    with planted(fault.kernel, fault.patches) as kernel:
        result = fuzz_kernel(kernel, device, budget_seconds=60, seed=0)
        assert result.verdict.status is Status.FAIL
        (finding,) = result.findings
        assert fault.message in finding.message
        found = told(finding.case["launch"])
        for argument, wanted in fault.smallest.items():
            if isinstance(wanted, dict):
                assert {key: found[argument][key] for key in wanted} == wanted, argument
            else:
                assert found[argument] == wanted, argument
        # The stored case fails with the fault, alone, and does not fail without it.
        case = case_from_json(finding.case["launch"])
        with pytest.raises(CaseFailed):
            check_case(kernel, device, case)
    check_case(all_kernels()[fault.kernel], device, case)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", sorted({fault.kernel for fault in FAULTS.values()}))
def test_copies_without_a_fault_pass(name: str) -> None:
    with planted(name, ()) as kernel:
        result = fuzz_kernel(kernel, find_device("ir"), budget_seconds=60, seed=0, case_target=60)
    assert result.findings == ()
    assert result.cases == 60


def test_a_patch_that_does_not_apply_is_refused() -> None:
    with (
        pytest.raises(PatchError, match="occurs 0 times"),
        planted("row_scatter", (Patch(kernel_of("row_scatter"), "no such text", ""),)),
    ):
        pytest.fail("the patch was taken")


def test_the_table_in_the_documents_has_every_fault() -> None:
    text = (Path(__file__).parents[2] / "docs" / "faults.md").read_text(encoding="utf-8")
    for name, fault in FAULTS.items():
        assert f"| {fault.id} | {name} | `{fault.kernel}` |" in text
