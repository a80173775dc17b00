"""Host side of sparse paged attention: checks, the plan of a launch, scratch memory, the launches."""

from __future__ import annotations

from typing import Any

import torch

from kvproof.kernels.arguments import check_count, check_tensor
from kvproof.kernels.attention_checks import Keys, aligned, check_apart, check_heads, in_words
from kvproof.kernels.attention_kernels import attend_kernel, merge_kernel
from kvproof.kernels.attention_many import attend_many_kernel
from kvproof.kernels.attention_plan import FEW_HEADS, MOST_SPLITS, Plan, plan_of, processors, splits_for, tiles
from kvproof.kernels.fp8_parts import as_bytes, has_native_e4m3, is_fnuz
from kvproof.kernels.launch import cdiv, launch
from kvproof.models.packed_row import WIDTH

LOG2E = 1.4426950408889634
MOST_SCRATCH_BYTES = 1 << 29
"""A launch that would need more scratch memory than this does not split. Results are the same."""
MERGE_TILE = (1, 128)
"""Heads and columns of a program that folds tiles: many small programs, since few tokens are split."""
MERGE_TILE_CPU = (16, 512)
"""Likewise where programs run one after the other."""


def plan_for(tokens: int, heads: int, keys: Keys) -> Plan:
    """The plan of a launch on the device of its keys."""
    packed, device = keys.rope is not None, keys.rows.device
    hip = torch.version.hip is not None
    few = False
    if device.type == "cuda" and not hip:
        block_h = tiles(heads, packed=packed, hip=hip).block_h
        few = tokens * cdiv(heads, block_h) <= processors(str(device))
    all_aligned = aligned(keys.rows) and (keys.rope is None or aligned(keys.rope))
    return plan_of(heads, packed=packed, hip=hip, few=few, aligned=all_aligned)


def run_attention(
    q: torch.Tensor,
    keys: Keys,
    extend: Keys | None,
    attn_sink: torch.Tensor,
    scale: float,
    out: torch.Tensor,
    variant: str,
    splits: int,
    plan: Plan | None = None,
) -> None:
    """Attend and write ``out``. Arguments are those of the two entry points, sources of keys already checked.

    Args:
        splits: programs a slice; 0 chooses.
        plan: instead of the one that :func:`plan_for` gives, for tuning.
    """
    fnuz = is_fnuz(variant)
    check_heads("q", q, ["T", "H", WIDTH], keys.rows)
    tokens, heads = q.shape[0], q.shape[1]
    check_heads("out", out, [tokens, heads, WIDTH], keys.rows)
    check_apart("out", out)
    check_tensor("attn_sink", attn_sink, [heads], (torch.float32,), keys.rows)
    if not attn_sink.is_contiguous():
        raise ValueError(f"attn_sink must be contiguous, got strides {list(attn_sink.stride())}")
    splits = check_count("splits", splits, 0, MOST_SPLITS)
    if tokens == 0 or heads == 0:
        return
    plan = plan or plan_for(tokens, heads, keys)
    if plan.block_h > FEW_HEADS:
        _attend_many(q, keys, extend, attn_sink, scale, out, fnuz, plan)
    else:
        _attend_few(q, keys, extend, attn_sink, scale, out, fnuz, plan, splits)


def _sources(q: torch.Tensor, keys: Keys, extend: Keys | None) -> tuple[tuple[torch.Tensor, ...], tuple[int, ...]]:
    """(tensors, strides) of both sources as the kernels take them; of one that is not there any, and 0."""
    packed = keys.rope is not None
    second = keys if extend is None else extend
    tensors = (
        as_bytes(keys.rows) if packed else keys.rows,
        q if keys.rope is None else keys.rope,
        keys.indices,
        keys.indptr,
        q if extend is None else extend.rows,
        second.indices,
        second.indptr,
    )
    strides = (
        keys.rows.stride(0),
        0 if keys.rope is None else keys.rope.stride(0),
        0 if extend is None else extend.rows.stride(0),
    )
    return tensors, strides


def _counts(keys: Keys, extend: Keys | None) -> tuple[int, int, int, int]:
    """Rows and entries of each source."""
    own = keys.rows.shape[0], keys.indices.shape[0]
    return (*own, 0, 0) if extend is None else (*own, extend.rows.shape[0], extend.indices.shape[0])


def _words(q: torch.Tensor, keys: Keys, fnuz: bool) -> bool:
    """Whether packed rows may be loaded as 32-bit words and converted by an NVIDIA GPU's instruction."""
    return has_native_e4m3(q) and not fnuz and keys.rope is not None and in_words(keys.rows, 4)


def _attend_many(
    q: torch.Tensor,
    keys: Keys,
    extend: Keys | None,
    attn_sink: torch.Tensor,
    scale: float,
    out: torch.Tensor,
    fnuz: bool,
    plan: Plan,
) -> None:
    tokens, heads = q.shape[0], q.shape[1]
    tensors, strides = _sources(q, keys, extend)
    launch(
        attend_many_kernel,
        (tokens * cdiv(heads, plan.block_h),),
        q,
        out,
        attn_sink,
        *tensors,
        q.stride(0),
        q.stride(1),
        out.stride(0),
        out.stride(1),
        *strides,
        heads,
        *_counts(keys, extend),
        scale * LOG2E,
        PACKED=keys.rope is not None,
        FNUZ=fnuz,
        WORDS=_words(q, keys, fnuz),
        EXTEND=extend is not None,
        BLOCK_H=plan.block_h,
        BLOCK_N=plan.block_n,
        STAGES=plan.stages,
        num_warps=plan.warps,
    )


def _attend_few(
    q: torch.Tensor,
    keys: Keys,
    extend: Keys | None,
    attn_sink: torch.Tensor,
    scale: float,
    out: torch.Tensor,
    fnuz: bool,
    plan: Plan,
    splits: int,
) -> None:
    tokens, heads = q.shape[0], q.shape[1]
    programs = tokens * cdiv(heads, plan.block_h)
    entries = keys.indices.shape[0] // plan.block_n + tokens
    entries += 0 if extend is None else extend.indices.shape[0] // plan.block_n + tokens
    splits = splits or splits_for(programs, q.device)
    if entries * heads * (WIDTH + 2) * 4 > MOST_SCRATCH_BYTES:
        splits = 1
    scratch = entries * heads if splits > 1 else 0
    sums = torch.empty((scratch, WIDTH), dtype=torch.float32, device=q.device)
    stats = torch.empty((scratch, 2), dtype=torch.float32, device=q.device)
    packed = keys.rope is not None
    tensors, strides = _sources(q, keys, extend)
    counts = _counts(keys, extend)
    common: dict[str, Any] = {"EXTEND": extend is not None, "BLOCK_N": plan.block_n}
    launch(
        attend_kernel,
        (programs, splits),
        q,
        out,
        attn_sink,
        *tensors,
        sums,
        stats,
        q.stride(0),
        q.stride(1),
        out.stride(0),
        out.stride(1),
        *strides,
        heads,
        *counts,
        splits,
        scale * LOG2E,
        **common,
        PACKED=packed,
        FNUZ=fnuz,
        WORDS=_words(q, keys, fnuz),
        EXTEND_WORDS=has_native_e4m3(q) and extend is not None and aligned(extend.rows),
        SPLIT=splits > 1,
        BLOCK_H=plan.block_h,
        STAGES=plan.stages,
        num_warps=plan.warps,
    )
    if splits > 1:
        block_h, columns = MERGE_TILE_CPU if q.device.type == "cpu" else MERGE_TILE
        launch(
            merge_kernel,
            (tokens * cdiv(heads, block_h), WIDTH // columns),
            out,
            attn_sink,
            keys.indptr,
            tensors[-1],
            sums,
            stats,
            out.stride(0),
            out.stride(1),
            heads,
            counts[1],
            counts[3],
            **common,
            BLOCK_H=block_h,
            COLUMNS=columns,
            num_warps=1,
        )
