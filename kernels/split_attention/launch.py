"""Launcher of the split attention: finds the regions of the plan in the buffer and launches its stages."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from kvproof.kernels.arguments import check_contiguous, check_count, check_rows, check_tensor, check_vector
from kvproof.kernels.fp8_parts import has_native_e4m3
from kvproof.kernels.launch import launch, next_power_of_2
from kvproof.kernels.split_attention.kernel import split_attention_kernel
from kvproof.kernels.split_attention.spec import WRITTEN, plan_of
from kvproof.models.scratch import HEAD_DIM, HEADS_PER_FLAG, Layout, ScratchPlan, launch_tag

BLOCK_K = 32
"""Keys of one step of a chunk: their rows take 32 KB beside the queries' 16 KB."""

POLLS = 1 << 20
"""How often a stage asks for flags: a second or so on a GPU, thousands of times what any stage takes."""

STAGES = ("split", "combine", "consume")

_TYPES: Mapping[str, torch.dtype] = {
    "part": torch.bfloat16,
    "pstat": torch.float32,
    "srdy": torch.int64,
    "xo": torch.uint8,
    "xos": torch.int32,
    "crdy": torch.int64,
}


class StageTimeoutError(RuntimeError):
    """A stage waited in vain for data that it consumes; what it would have written is not there."""


def check_status(status: torch.Tensor) -> None:
    """Raise if a stage of an earlier launch has given up. Waits for the device.

    Raises:
        StageTimeoutError: one has.
    """
    failed = int(status.item())
    if failed:
        raise StageTimeoutError(f"the {STAGES[failed]} stage waited in vain for the {STAGES[failed - 1]} stage")


def views(scratch: torch.Tensor, layout: Layout) -> dict[str, torch.Tensor]:
    """Each written region of the buffer, in its own element type."""
    found: dict[str, torch.Tensor] = {}
    for name in WRITTEN:
        offset, nbytes = layout[name]
        found[name] = scratch[offset : offset + nbytes].view(_TYPES[name])
    return found


def split_attention(
    q: torch.Tensor,
    kv: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_indptr: torch.Tensor,
    attn_sink: torch.Tensor,
    scratch: torch.Tensor,
    out: torch.Tensor,
    status: torch.Tensor,
    *,
    scale: float,
    family: str,
    tp: int,
    topk: int,
    chunk: int = 0,
    launch_number: int = 0,
    concurrent: bool = False,
    polls: int = POLLS,
    stages: tuple[str, ...] = STAGES,
) -> None:
    """Attend to the listed rows in chunks of keys, combine, quantise, and decode as the next projection does.

    Args:
        q: [T, H, 512] bf16, H the rank's heads, T at most the family's.
        kv: [rows, 512] bf16, key and value at once; rows contiguous, any distance apart.
        kv_indices: int32 rows; one outside ``kv`` is skipped.
        kv_indptr: [>= T + 1] int32 slices of ``kv_indices``; of a longer slice the first ``topk + 128`` count.
        attn_sink: [H] fp32.
        scratch: uint8, at least the plan's total, 16-byte aligned. Written: part, pstat, srdy, xo, xos, crdy.
        out: [T, H * 512] fp32, contiguous.
        status: [1] int32, 0. A stage that gives up makes it positive: see :func:`check_status`.
        scale: factor of the scores.
        family, tp, topk, chunk: the plan; chunk 0 is its own choice.
        launch_number: counts launches on this scratch from 0; two of them must not have one number.
        concurrent: all stages in one launch, waiting for one another. NVIDIA only: a release on AMD does not
            wait for the stores of a work group's other waves.
        polls: how often a stage asks for flags before it gives up.
        stages: the stages to launch, in order; for tests of what is missing.

    Does not synchronise.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    check_tensor("q", q, ["T", "H", HEAD_DIM], (torch.bfloat16,))
    tokens, heads = q.shape[0], q.shape[1]
    plan = plan_of(family, tp, topk, tokens, chunk)
    check_tensor("q", q, [tokens, plan.dims.heads, HEAD_DIM], (torch.bfloat16,))
    check_tensor("kv", kv, ["rows", HEAD_DIM], (torch.bfloat16,), q)
    check_rows("kv", kv)
    check_vector("kv_indices", kv_indices, 0, q)
    check_vector("kv_indptr", kv_indptr, tokens + 1, q)
    check_tensor("attn_sink", attn_sink, [heads], (torch.float32,), q)
    check_tensor("scratch", scratch, ["bytes"], (torch.uint8,), q)
    check_tensor("out", out, [tokens, heads * HEAD_DIM], (torch.float32,), q)
    check_tensor("status", status, [1], (torch.int32,), q)
    for name, value in (("q", q), ("attn_sink", attn_sink), ("scratch", scratch), ("out", out)):
        check_contiguous(name, value)
    if kv.shape[0] < 1:
        raise ValueError("kv must have at least one row")
    if scratch.shape[0] < plan.total_bytes or scratch.data_ptr() % 16:
        raise ValueError(
            f"scratch must be at least {plan.total_bytes} bytes from a 16-byte boundary, got "
            f"{scratch.shape[0]} bytes at {scratch.data_ptr() % 16} past one"
        )
    if concurrent and q.device.type == "cuda" and torch.version.hip is not None:
        raise ValueError("concurrent is for NVIDIA GPUs; on AMD launch the stages one after the other")
    if concurrent and tuple(stages) != STAGES:
        raise ValueError(f"concurrent needs all stages, got {stages}")
    polls = check_count("polls", polls, 1, 2**31 - 1)
    tag = launch_tag(check_count("launch_number", launch_number, 0, 2**62))
    _launch_stages(
        (q, kv, kv_indices, kv_indptr, attn_sink),
        views(scratch, plan.layout),
        (out, status),
        plan,
        scale,
        tag,
        polls,
        task_ranges(plan, stages, concurrent=concurrent),
    )


def task_ranges(plan: ScratchPlan, stages: tuple[str, ...], *, concurrent: bool) -> list[tuple[int, int]]:
    """(first task, tasks) of each launch.

    Raises:
        ValueError: an unknown stage.
    """
    sets = plan.tokens * (plan.dims.heads // HEADS_PER_FLAG)
    counts = {"split": plan.tokens * plan.chunks, "combine": sets, "consume": sets}
    firsts = {"split": 0, "combine": counts["split"], "consume": counts["split"] + sets}
    unknown = [stage for stage in stages if stage not in counts]
    if unknown:
        raise ValueError(f"stages has {unknown[0]!r}; allowed: {', '.join(STAGES)}")
    if concurrent:
        return [(0, sum(counts.values()))]
    return [(firsts[stage], counts[stage]) for stage in stages]


def _launch_stages(
    inputs: tuple[torch.Tensor, ...],
    regions: Mapping[str, torch.Tensor],
    outputs: tuple[torch.Tensor, torch.Tensor],
    plan: ScratchPlan,
    scale: float,
    tag: int,
    polls: int,
    ranges: list[tuple[int, int]],
) -> None:
    kv = inputs[1]
    for first, count in ranges:
        launch(
            split_attention_kernel,
            (count,),
            *inputs,
            *(regions[name] for name in WRITTEN),
            *outputs,
            first,
            plan.tokens,
            plan.chunks,
            plan.dims.keys,
            kv.shape[0],
            kv.stride(0),
            scale,
            tag,
            polls,
            H=plan.dims.heads,
            D=HEAD_DIM,
            CHUNK=plan.chunk,
            BLOCK_K=BLOCK_K,
            BLOCK_C=next_power_of_2(plan.chunks),
            FNUZ=False,
            NATIVE=has_native_e4m3(kv),
            num_warps=8,
        )
