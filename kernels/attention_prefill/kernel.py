"""Sparse paged attention of a prefill chunk: rows of the pool, then rows of this forward's own kv."""

from __future__ import annotations

import torch

from kvproof.kernels.attention_checks import Keys, check_keys
from kvproof.kernels.attention_launch import run_attention
from kvproof.kernels.attention_plan import Plan


def sparse_attn_v4_paged_prefill(
    q: torch.Tensor,
    unified_kv: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv: torch.Tensor,
    extend_indices: torch.Tensor,
    extend_indptr: torch.Tensor,
    attn_sink: torch.Tensor,
    scale: float,
    out: torch.Tensor,
    unified_kv_rope: torch.Tensor | None = None,
    variant: str = "ocp",
    splits: int = 0,
    plan: Plan | None = None,
) -> None:
    """Softmax attention over the pool rows and the new rows that each token lists, plus one sink logit a head.

    Args:
        q: [T, H, 512] bf16 queries; tokens and heads any distance apart.
        unified_kv, unified_kv_rope, variant: the pool, as :func:`sparse_attn_v4_paged_decode` takes it.
        kv_indices, kv_indptr: entries over the pool (the prefix): [total] and [>= T + 1] int32.
        kv: [new, 512] bf16 rows of this forward, not in the pool yet; rows any distance apart.
        extend_indices, extend_indptr: entries over ``kv``, likewise. A dead entry lists no row in either.
        attn_sink: [H] fp32 logits; -inf for none.
        scale: softmax scale.
        out: [T, H, 512] bf16, written; 0 for a token whose slices are both empty.
        splits: programs that share a token's slices, at most 32; 0 chooses. More than 16 heads are not split. No
            bit depends on it.
        plan: how a program is cut up, for tuning.

    Does not synchronise, and can be captured: what it launches depends on shapes only.

    Raises:
        TypeError, ValueError: an argument out of its contract, by name.
    """
    keys = Keys(unified_kv, unified_kv_rope, kv_indices, kv_indptr)
    new = Keys(kv, None, extend_indices, extend_indptr)
    tokens = q.shape[0]
    check_keys(("unified_kv", "unified_kv_rope", "kv_indices", "kv_indptr"), keys, tokens, unified_kv)
    check_keys(("kv", "", "extend_indices", "extend_indptr"), new, tokens, unified_kv)
    run_attention(q, keys, new, attn_sink, scale, out, variant, splits, plan)
