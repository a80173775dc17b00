"""Sparse paged attention of decode and verify tokens: each token's slice lists rows of the pool."""

from __future__ import annotations

import torch

from kvproof.kernels.attention_checks import Keys, check_keys
from kvproof.kernels.attention_launch import run_attention
from kvproof.kernels.attention_plan import Plan


def sparse_attn_v4_paged_decode(
    q: torch.Tensor,
    unified_kv: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_indptr: torch.Tensor,
    attn_sink: torch.Tensor,
    scale: float,
    out: torch.Tensor,
    unified_kv_rope: torch.Tensor | None = None,
    variant: str = "ocp",
    splits: int = 0,
    plan: Plan | None = None,
) -> None:
    """Softmax attention over the rows that each token lists, plus one sink logit a head. Key = value = the row.

    Args:
        q: [T, H, 512] bf16 queries; tokens and heads any distance apart.
        unified_kv: [rows, 512] bf16, or packed bytes together with ``unified_kv_rope``; rows any distance apart.
        kv_indices: [total] int32 entries. A negative one, or one past the plane, lists no row.
        kv_indptr: [>= T + 1] int32: token t lists entries ``kv_indptr[t] .. kv_indptr[t + 1] - 1``, of those that
            exist. An empty slice gives 0.
        attn_sink: [H] fp32 logits; -inf for none.
        scale: softmax scale.
        out: [T, H, 512] bf16, written.
        unified_kv_rope: [rows, 64] bf16, the RoPE plane of packed rows.
        variant: e4m3 variant of packed rows, "ocp" or "fnuz".
        splits: programs that share a slice, at most 32; 0 chooses by shape and device. More than 16 heads are not
            split. No bit depends on it, nor on what other tokens the batch has.
        plan: how a program is cut up, for tuning.

    Does not synchronise, and can be captured: what it launches depends on shapes only.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    keys = Keys(unified_kv, unified_kv_rope, kv_indices, kv_indptr)
    check_keys(("unified_kv", "unified_kv_rope", "kv_indices", "kv_indptr"), keys, q.shape[0], unified_kv)
    run_attention(q, keys, None, attn_sink, scale, out, variant, splits, plan)
