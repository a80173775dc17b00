"""What prefill attention gives: decode attention over two sources, the pool first."""

from __future__ import annotations

from typing import Any

from kvproof.kernels.attention_decode.spec import Source, attention
from kvproof.models.contract import Approximate


def two_sources(a: Any, tokens: Any, pool: Source) -> Approximate:
    """Results of some tokens over the pool rows and the new rows that they list.

    Args:
        a: the arguments of a launch.
        tokens: the tokens wanted.
        pool: the pool's rows and slices.
    """
    extend = Source(a.kv, None, a.variant, a.extend_indices, a.extend_indptr)
    return attention(a.q, tokens, [pool, extend], a.attn_sink, a.scale)
