"""Host side of sparse paged attention: checks, the plan of a launch, scratch memory, the launches."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import torch
import triton

from kvproof.kernels.arguments import check_count, check_rows, check_tensor, check_vector
from kvproof.kernels.attention_kernels import attend_kernel, merge_kernel
from kvproof.kernels.fp8_parts import PACKED_DTYPES, as_bytes, has_native_e4m3, is_fnuz
from kvproof.kernels.launch import launch
from kvproof.models.packed_row import PACKED_BYTES, ROPE, WIDTH

LOG2E = 1.4426950408889634
MOST_SPLITS = 32
MOST_SCRATCH_BYTES = 1 << 29
"""A launch that would need more scratch memory than this does not split. Results are the same."""
MERGE_TILE = (1, 128)
"""Heads and columns of a program that folds tiles: many small programs, since few tokens are split."""
MERGE_TILE_CPU = (16, 512)
"""Likewise where programs run one after the other."""


FEW_HEADS = 16
"""Up to so many heads a program takes packed rows in quads: with more, the ninth slice of sums does not fit."""


@dataclass(frozen=True)
class Plan:
    """How a launch is cut up. Fixed by shapes and device, never by a tensor's contents or the clock.

    ``block_n`` is part of what a result's bits depend on, so it depends on heads, planes and device only.

    Attributes:
        block_h: heads a program.
        block_n: keys a tile.
        warps: warps a program.
        stages: tiles in flight, plus the index load before and the products after.
    """

    block_h: int
    block_n: int
    warps: int
    stages: int


def tiles(heads: int, *, packed: bool, hip: bool) -> Plan:
    """The plan of one program.

    Measured on an H200 (docs/gpu.md). Up to 16 heads are one row of small matrix instructions, and two programs
    share a multiprocessor; more heads are taken 32 at a time in small instructions, or over packed rows 64 at a
    time in large ones, since unpacking a key for fewer heads costs more. On an AMD GPU a tile has to fit 64 KiB of
    shared memory.
    """
    if hip:
        return Plan(16, 32, 4, 2)
    if heads <= FEW_HEADS:
        return Plan(16, 64, 8, 5) if packed else Plan(16, 64, 4, 3)
    return Plan(64, 64, 8, 2) if packed else Plan(32, 64, 4, 2)


@functools.cache
def processors(device: str) -> int:
    """Multiprocessors of a CUDA device (name with index). Asked once: the answer is on the host, but slow."""
    return torch.cuda.get_device_properties(torch.device(device)).multi_processor_count


def splits_for(programs: int, device: torch.device) -> int:
    """Programs a slice, so that a launch of few tokens still reaches every multiprocessor."""
    if device.type != "cuda":
        return 1
    wanted = min(processors(str(device)) // max(programs, 1), MOST_SPLITS)
    # Half the multiprocessors idle cost less than all tiles passing through scratch memory.
    return wanted if wanted > 2 else 1


@dataclass(frozen=True)
class Keys:
    """One source of keys: rows, the entries that list them, and each token's slice of entries."""

    rows: torch.Tensor
    rope: torch.Tensor | None
    indices: torch.Tensor
    indptr: torch.Tensor


def plan_of(heads: int, *, packed: bool, hip: bool, few: bool, aligned: bool) -> Plan:
    """The plan of :func:`tiles`, with another number of tiles in flight where that serves. It changes no bit.

    Args:
        few: no more programs than multiprocessors, so that there is less to hide one another's waits.
        aligned: rows of the plane begin at whole words of 16 bytes. Packed ones that do not are copied ahead 4
            bytes at a time, in a layout that takes a half more shared memory: five tiles of them are too many.
    """
    plan = tiles(heads, packed=packed, hip=hip)
    if hip or heads > FEW_HEADS:
        return plan
    if packed and not aligned:
        return replace(plan, stages=3)
    return replace(plan, stages=max(plan.stages, 5)) if few else plan


def plan_for(tokens: int, heads: int, keys: Keys) -> Plan:
    """The plan of a launch on the device of its keys."""
    packed, device = keys.rope is not None, keys.rows.device
    hip = torch.version.hip is not None
    few = False
    if device.type == "cuda" and not hip:
        block_h = tiles(heads, packed=packed, hip=hip).block_h
        few = tokens * triton.cdiv(heads, block_h) <= processors(str(device))
    return plan_of(heads, packed=packed, hip=hip, few=few, aligned=in_words(keys.rows, 16))


def check_keys(names: tuple[str, str, str, str], keys: Keys, tokens: int, like: torch.Tensor) -> None:
    """Refuse a source of keys that is out of its contract; ``names`` are the names of its four tensors."""
    rows, rope, indices, indptr = names
    if keys.rope is not None:
        check_tensor(rows, keys.rows, ["rows", PACKED_BYTES], PACKED_DTYPES, like)
        check_tensor(rope, keys.rope, [keys.rows.shape[0], ROPE], (torch.bfloat16,), like)
        check_rows(rope, keys.rope)
    else:
        check_tensor(rows, keys.rows, ["rows", WIDTH], (torch.bfloat16,), like)
    check_rows(rows, keys.rows)
    check_vector(indices, keys.indices, 0, like)
    check_vector(indptr, keys.indptr, tokens + 1, like)


def in_words(rows: torch.Tensor, size: int) -> bool:
    """Whether every row of a plane begins at a whole word of ``size`` bytes."""
    return rows.data_ptr() % size == 0 and rows.stride(0) * rows.element_size() % size == 0


def check_heads(name: str, value: torch.Tensor, shape: list[str | int], like: torch.Tensor) -> None:
    """Refuse what is no bf16 [T, H, 512] with contiguous heads; tokens and heads may be any distance apart."""
    check_tensor(name, value, shape, (torch.bfloat16,), like)
    if value.stride(2) != 1:
        raise ValueError(f"{name} must have contiguous heads (last stride 1), got strides {list(value.stride())}")


def check_apart(name: str, value: torch.Tensor) -> None:
    """Refuse a result whose heads share elements. They may lie token after token, or head after head."""
    tokens, heads, width = value.shape
    by_token, by_head = value.stride(0), value.stride(1)
    inner = (by_head, heads, by_token, tokens), (by_token, tokens, by_head, heads)
    apart = any(
        (count < 2 or step >= width) and (outer_count < 2 or outer >= (count - 1) * step + width)
        for step, count, outer, outer_count in inner
    )
    if not apart:
        raise ValueError(f"{name} has heads that overlap, with strides {list(value.stride())}; it is written")


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
    packed = keys.rope is not None
    plan = plan or plan_for(tokens, heads, keys)
    programs = tokens * triton.cdiv(heads, plan.block_h)
    entries = keys.indices.shape[0] // plan.block_n + tokens
    entries += 0 if extend is None else extend.indices.shape[0] // plan.block_n + tokens
    splits = splits or splits_for(programs, q.device)
    if entries * heads * (WIDTH + 2) * 4 > MOST_SCRATCH_BYTES:
        splits = 1
    scratch = entries * heads if splits > 1 else 0
    sums = torch.empty((scratch, WIDTH), dtype=torch.float32, device=q.device)
    stats = torch.empty((scratch, 2), dtype=torch.float32, device=q.device)
    gpu = has_native_e4m3(q)
    second = keys if extend is None else extend
    common: dict[str, Any] = {"EXTEND": extend is not None, "BLOCK_N": plan.block_n}
    launch(
        attend_kernel,
        (programs, splits),
        q,
        out,
        attn_sink,
        as_bytes(keys.rows) if packed else keys.rows,
        q if keys.rope is None else keys.rope,
        keys.indices,
        keys.indptr,
        q if extend is None else extend.rows,
        second.indices,
        second.indptr,
        sums,
        stats,
        q.stride(0),
        q.stride(1),
        out.stride(0),
        out.stride(1),
        keys.rows.stride(0),
        0 if keys.rope is None else keys.rope.stride(0),
        0 if extend is None else extend.rows.stride(0),
        heads,
        keys.rows.shape[0],
        keys.indices.shape[0],
        0 if extend is None else extend.rows.shape[0],
        0 if extend is None else extend.indices.shape[0],
        splits,
        scale * LOG2E,
        **common,
        PACKED=packed,
        QUADS=packed and plan.block_h <= FEW_HEADS,
        FNUZ=fnuz,
        WORDS=gpu and not fnuz and keys.rope is not None and in_words(keys.rows, 4),
        EXTEND_WORDS=gpu and extend is not None and in_words(extend.rows, 8),
        SPLIT=splits > 1,
        BLOCK_H=plan.block_h,
        STAGES=plan.stages,
        num_warps=plan.warps,
    )
    if splits > 1:
        block_h, columns = MERGE_TILE_CPU if q.device.type == "cpu" else MERGE_TILE
        launch(
            merge_kernel,
            (tokens * triton.cdiv(heads, block_h), WIDTH // columns),
            out,
            attn_sink,
            keys.indptr,
            second.indptr,
            sums,
            stats,
            out.stride(0),
            out.stride(1),
            heads,
            keys.indices.shape[0],
            0 if extend is None else extend.indices.shape[0],
            **common,
            BLOCK_H=block_h,
            COLUMNS=columns,
            num_warps=1,
        )
