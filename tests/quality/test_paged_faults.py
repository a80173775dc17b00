"""Faults planted in the paged cache and in the split attention: found, and shrunk to the smallest case."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from kvproof.harness.check.codec import case_from_json
from kvproof.harness.check.differential import CaseFailed, check_case
from kvproof.harness.devices.interpret import InterpretDevice
from kvproof.harness.mutate.patched import Patch, patched
from kvproof.harness.run.fuzz import fuzz_kernel
from kvproof.kernels.registry import Kernel, all_kernels
from kvproof.models.contract import contiguous
from kvproof.models.scratch import ScratchPlan, dims
from kvproof.reports.verdict import Status

PARTS = "kernels.page_parts"
APPEND = "kernels.page_append.kernel"
GATHER = "kernels.page_gather.kernel"
SPLIT = "kernels.split_attention.kernel"
LAUNCH = "kernels.split_attention.launch"
PLAN = "models.scratch.plan"
COPIED = {
    "page_append": (PARTS, APPEND),
    "page_gather": (PARTS, GATHER),
    # The contract keeps the original plan: a launcher with a plan of its own is what is looked for.
    "split_attention": ("models.scratch", "kernels.split_attention.spec", LAUNCH, SPLIT),
}


@contextmanager
def planted(name: str, *patches: Patch) -> Iterator[Kernel]:
    """A kernel whose code is changed; its contract is not."""
    kernel = all_kernels()[name]
    with patched(COPIED[name], patches) as module:
        where, _, launcher = kernel.launcher.partition(":")
        copied = module(where.removeprefix("kvproof.")).__name__
        yield replace(kernel, launcher=f"{copied}:{launcher}")


@dataclass(frozen=True)
class Fault:
    """A planted fault and what must be found.

    Attributes:
        kernel: whose property finds it.
        patch: what is changed.
        message: part of the finding's message.
        smallest: the shrunk case: argument -> what it must be.
    """

    kernel: str
    patch: Patch
    message: str
    smallest: dict[str, Any]


FAULTS = {
    # F20: with a single entry a page the two formats are one.
    "scales behind each entry for all first": Fault(
        "page_append",
        Patch(
            PARTS,
            "within = entries.to(tl.int64) * DATA + place.to(tl.int64) * SCALE",
            "within = place.to(tl.int64) * (DATA + SCALE) + DATA",
        ),
        "cache row 0",
        {"entries": 2, "slot_mapping": [0], "interleaved": False, "cache": (1, 4)},
    ),
    "scales after all data for interleaved": Fault(
        "page_gather",
        Patch(
            PARTS,
            "within = place.to(tl.int64) * (DATA + SCALE) + DATA",
            "within = entries.to(tl.int64) * DATA + place.to(tl.int64) * SCALE",
        ),
        "scales row 0",
        {"entries": 2, "starts": [0], "counts": [1], "interleaved": True},
    ),
    # F21: the capacity counted in blocks, where slots are entries.
    "capacity in blocks": Fault(
        "page_append",
        Patch(APPEND, "cache.shape[0] * entries,", "cache.shape[0],"),
        "block 0, place 1",
        {"entries": 2, "slot_mapping": [1], "cache": (1, 4)},
    ),
    # F03: -1 // n and -1 % n as an address.
    "sentinel divided": Fault(
        "page_append",
        Patch(APPEND, "live = (slot >= 0) & (slot < num_slots)", "live = (t < n) & (slot < num_slots)"),
        "cache",
        {"entries": 1, "slot_mapping": [-1]},
    ),
    # F11: the first block for every column.
    "first block for every column": Fault(
        "page_gather",
        Patch(GATHER, "row_offset(b, table_stride) + column,", "row_offset(b, table_stride) + column * 0,"),
        "entry 1 of sequence 0",
        {"entries": 1, "starts": [0], "counts": [2]},
    ),
}


def _fields(case: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in case.values.items():
        shown[name] = value if not hasattr(value, "array") else value.array.tolist()
    shown["cache"] = case.values["cache"].shape
    return shown


@pytest.mark.fuzz
@pytest.mark.parametrize("name", FAULTS)
def test_fuzzing_finds_it_and_shrinks_to_the_smallest_case(name: str) -> None:
    fault = FAULTS[name]
    with planted(fault.kernel, fault.patch) as kernel:
        result = fuzz_kernel(kernel, InterpretDevice(), budget_seconds=60, seed=0)
        assert result.verdict.status is Status.FAIL
        finding = result.findings[0]
        assert fault.message in finding.message
        case = case_from_json(finding.case["launch"])
        fields = _fields(case)
        assert {key: fields[key] for key in fault.smallest} == fault.smallest
        with pytest.raises(CaseFailed):
            check_case(kernel, InterpretDevice(), case)
    check_case(all_kernels()[fault.kernel], InterpretDevice(), case)


def split_case(*, tokens: int, launch_number: int, seed: int, scratch: Any = None) -> dict[str, Any]:
    """A launch over full slices with one head row of keys; ``scratch`` of an earlier launch, or zeros."""
    share = dims("v4-pro", 8, 1)
    draw = np.random.default_rng(seed)

    def bf16(*shape: int) -> Any:
        wide = draw.standard_normal(shape).astype(np.float32)
        return contiguous("bf16", (wide.view(np.uint32) >> 16).astype(np.uint16))

    return {
        "q": bf16(tokens, 16, 512),
        "kv": bf16(4, 512),
        "kv_indices": contiguous("int32", draw.integers(0, 4, tokens * share.keys)),
        "kv_indptr": contiguous("int32", np.arange(tokens + 1) * share.keys),
        "attn_sink": contiguous("fp32", np.zeros(16, np.float32)),
        "scratch": scratch or contiguous("uint8", np.zeros(ScratchPlan(share, tokens).total_bytes, np.uint8)),
        "out": contiguous("fp32", np.full((tokens, 16 * 512), np.nan, np.float32)),
        "status": contiguous("int32", [0]),
        "scale": 512**-0.5,
        "family": "v4-pro",
        "tp": 8,
        "topk": 1,
        "launch_number": launch_number,
    }


# F24: the second kernel's scratch starts inside the first's. An even token count ends on a line of its own.
@pytest.mark.parametrize(("tokens", "found"), [(1, True), (64, False)])
def test_a_launcher_whose_scratch_starts_inside_the_front_kernels(tokens: int, found: bool) -> None:
    patch = Patch(
        PLAN,
        "return round_up(layout_end(front_scratch(s, d)), ALIGN_BYTES)",
        "return layout_end(front_scratch(s, d)) // ALIGN_BYTES * ALIGN_BYTES",
    )
    front = ScratchPlan(dims("v4-pro", 8, 1), tokens).front
    end = max(offset + nbytes for offset, nbytes in front.values())
    assert (end % 256 != 0) == found
    if tokens > 1:
        return
    values = split_case(tokens=tokens, launch_number=0, seed=0)
    with planted("split_attention", patch) as kernel:
        got = InterpretDevice().run(kernel, values)["scratch"].array
    right = InterpretDevice().run(all_kernels()["split_attention"], values)["scratch"].array
    assert got[:end].any()
    assert not right[:end].any()


@pytest.mark.fuzz
def test_fuzzing_finds_scratch_that_starts_inside_the_front_kernels() -> None:
    patch = Patch(
        PLAN,
        "return round_up(layout_end(front_scratch(s, d)), ALIGN_BYTES)",
        "return layout_end(front_scratch(s, d)) // ALIGN_BYTES * ALIGN_BYTES",
    )
    with planted("split_attention", patch) as kernel:
        result = fuzz_kernel(kernel, InterpretDevice(), budget_seconds=60, seed=1, case_target=20)
    assert result.verdict.status is Status.FAIL
    assert "scratch element" in result.findings[0].message


@pytest.mark.parametrize(
    "patch",
    [
        Patch(SPLIT, "word = (tag.to(tl.int64) << 32) | 1", "word = tag.to(tl.int64) * 0 + (1 << 32) + 1"),
        Patch(LAUNCH, "tag = launch_tag(check_count(", "tag = launch_tag(0 * check_count("),
    ],
    ids=["a flag of every launch alike", "one tag for every launch"],
)
def test_stale_data_that_is_consumed_is_seen(patch: Patch) -> None:
    """An earlier launch's flags must not do for this one's: with the split stage missing, nothing may come out."""

    def comes_out(kernel: Kernel) -> bool:
        device = InterpretDevice()
        first = device.run(kernel, {**split_case(tokens=1, launch_number=0, seed=1), "polls": 2})
        late = split_case(tokens=1, launch_number=1, seed=2, scratch=first["scratch"])
        done = device.run(kernel, {**late, "polls": 2, "stages": ("combine", "consume")})
        return not np.isnan(done["out"].array).all() or int(done["status"].array[0]) == 0

    with planted("split_attention", patch) as kernel:
        whole = InterpretDevice().run(kernel, {**split_case(tokens=1, launch_number=1, seed=1), "polls": 2})
        assert comes_out(kernel) or np.isnan(whole["out"].array).all()
    assert not comes_out(all_kernels()["split_attention"])
