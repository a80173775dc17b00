"""Faults that production pools really had, planted in this project's kernels: found without running anything."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
pytest.importorskip("z3")

from kvproof.harness.check.differential import CaseFailed, check_case
from kvproof.harness.devices.registry import find_device
from kvproof.harness.ir.target import CUDA_90, HIP_GFX942
from kvproof.harness.mutate.patched import Patch, patched
from kvproof.harness.prove.kernels.campaign import SETTINGS
from kvproof.harness.prove.kernels.check import check
from kvproof.harness.prove.kernels.properties import Property
from kvproof.harness.prove.kernels.settings import settings_of
from kvproof.kernels.registry import all_kernels
from kvproof.models.deepseek_v4 import CONFIGS
from kvproof.properties.strategies.cases import Case
from kvproof.reports.verdict import Status


@dataclass(frozen=True)
class Planted:
    """A fault.

    Attributes:
        kernel: the kernel that is checked.
        copies: modules that are copied.
        patches: the changes; the first one's new text holds the line to be named.
        breaks: the property that must be reported.
        line: text of the line that must be named.
    """

    kernel: str
    copies: tuple[str, ...]
    patches: tuple[Patch, ...]
    breaks: Property
    line: str


OFFSET = "return row.to(tl.int64) * row_stride"
WRITE = "kernels.window_write.kernel"
APPEND = "kernels.page_append.kernel"
ROPE = "tl.store(rope_ptr + row_offset(row, rope_stride)[:, None] + place[None, :], rope, mask=live[:, None])"
OVER = (
    "tl.store(packed_ptr + row_offset(row, packed_stride)[:, None] + 448 + place[None, :], "
    "rope.to(tl.float32).to(tl.uint8), mask=live[:, None])"
)
MOVES = ("kernels.row_index.kernel", "kernels.row_moves", "kernels.row_scatter.kernel")

FAULTS = {
    "F02 int32 offset": Planted(
        "row_scatter", MOVES, (Patch("kernels.row_index.kernel", OFFSET, "return row * row_stride"),),
        Property.NO_WRAP, "return row * row_stride",
    ),
    "F03 sentinel through div": Planted(
        "page_append", (APPEND,),
        (Patch(APPEND, "live = (slot >= 0) & (slot < num_slots)", "live = slot < num_slots"),),
        Property.NO_SENTINEL, "block, place = slot // entries, slot % entries",
    ),
    "F05 unbounded destination": Planted(
        "window_write", ("kernels.window_write.kernel",),
        (Patch(WRITE, "live = live & (row >= 0) & (row < pool_rows)", "live = live & (row >= 0)"),),
        Property.IN_BOUNDS, "tl.store(target, tl.load(source, mask=cells), mask=cells)",
    ),
    "F13 dense stride assumed": Planted(
        "window_gather", ("kernels.window_gather.kernel",),
        (Patch("kernels.window_gather.kernel", "row_offset(row, pool_stride)", "row_offset(row, D)"),),
        Property.IN_BOUNDS, "held = tl.load(source",
    ),
    "F14 overlapping stores": Planted(
        "fp8_pack", ("kernels.fp8_pack.kernel",),
        (
            Patch("kernels.fp8_pack.kernel", ROPE, OVER),
        ),
        Property.ONE_WRITER, "448 + place[None, :], rope.to(tl.float32)",
    ),
    "F15 several writers a ring row": Planted(
        "window_write", ("kernels.window_write.kernel",),
        (
            Patch(WRITE, "first = tl.maximum(start, stop - write_per_batch)", "first = start"),
            Patch(
                WRITE,
                "(sequences, cdiv(write_per_batch, rows))",
                "(sequences, cdiv(tokens, rows))",
            ),
        ),
        Property.ONE_WRITER, "tl.store(target, tl.load(source, mask=cells), mask=cells)",
    ),
    "F17 index through float": Planted(
        "row_scatter", MOVES,
        (Patch("kernels.row_index.kernel", OFFSET, "return row.to(tl.float32).to(tl.int64) * row_stride"),),
        Property.NO_WRAP, "return row.to(tl.float32).to(tl.int64) * row_stride",
    ),
}  # fmt: skip


def _planted(fault, target, run=None):
    """(results, places named for the property, source lines of the copies, setting)."""
    with patched(fault.copies, fault.patches) as module:
        original = all_kernels()[fault.kernel]
        name = original.launcher.removeprefix("kvproof.").partition(":")[0]
        copy = module(name)
        launcher = f"{copy.__name__}:{original.launcher.partition(':')[2]}"
        # As many specialisations as the command checks: in some a counterexample is not found, or not there.
        first, *others = settings_of(replace(original, launcher=launcher), CONFIGS["v4-flash"], most=SETTINGS)
        setting, results, failures = first, {}, []
        for setting in (first, *others):
            results = {r.property: r for r in check(setting, target)}
            failures = [f for f in results[fault.breaks].failures if f.status is Status.FAIL]
            if failures:
                break
        if run is not None:
            run(replace(original, launcher=launcher), results[fault.breaks])
        frames = [
            f for one in failures for where in (one.found.location, one.found.other) if where for f in where.frames
        ]
        files = {Path(module(n).__file__) for n in {p.module for p in fault.patches} | {name}}
        lines = {
            ("/".join(path.parts[-2:]), number): text
            for path in files
            for number, text in enumerate(path.read_text().splitlines(), 1)
        }
        named = [lines.get(("/".join(f.file.split("/")[-2:]), f.line), "") for f in frames]
        return results, failures, named, setting


# What is compiled for the other vendor differs by hoisted invariants alone; two faults stand for all.
SLOW = {"F15 several writers a ring row"}
CASES = [
    *(pytest.param(n, CUDA_90, marks=pytest.mark.slow if n in SLOW else ()) for n in FAULTS),
    ("F02 int32 offset", HIP_GFX942),
    ("F13 dense stride assumed", HIP_GFX942),
]


@pytest.mark.parametrize(("name", "target"), CASES, ids=str)
def test_a_planted_fault_is_found_at_its_line(name, target):
    fault = FAULTS[name]
    results, failures, named, _ = _planted(fault, target)
    assert failures, {str(p): str(r.verdict) for p, r in results.items()}
    assert any(fault.line in text for text in named), named
    assert all(f.witness is not None or "would take" in f.seen for f in failures)


@pytest.mark.parametrize("name", sorted({fault.kernel for fault in FAULTS.values()}))
def test_the_kernel_without_the_fault_passes(name):
    (setting,) = settings_of(all_kernels()[name], CONFIGS["v4-flash"], most=1)
    for result in check(setting, CUDA_90):
        assert result.verdict.passed, (str(result.property), result.verdict)


def test_the_32_bit_offset_is_safe_up_to_the_last_row_that_fits():
    _, failures, _, setting = _planted(FAULTS["F02 int32 offset"], CUDA_90)
    width = int(setting.fixed["D"])
    limits = {f.limit.most for f in failures if f.limit is not None and f.limit.quantity == "rows"}
    assert min(limits) == (2**31 - 1) // width + 1


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("F05 unbounded destination", marks=pytest.mark.slow),
        "F13 dense stride assumed",
        "F14 overlapping stores",
    ],
)
def test_the_counterexample_fails_as_a_case_on_both_devices(name):
    ran = []

    def run(kernel, result):
        example = next(f.witness for f in result.failures if f.witness is not None)
        values = {argument.name: example.values.get(argument.name) for argument in kernel.contract.arguments}
        for device in ("ir", "interpret"):
            with pytest.raises(CaseFailed):
                check_case(kernel, find_device(device), Case(values))
            ran.append(device)

    _planted(FAULTS[name], CUDA_90, run)
    assert ran == ["ir", "interpret"]
