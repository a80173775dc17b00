"""How many blocks of a class an allocator must own.

What a budget guarantees, for N requests admitted at once, none longer than L tokens:

- *reach*: whatever their lengths, every admitted request holds a block for each of its compressed entries,
  so that none is ever refused one on its way to L tokens;
- *headroom* of a/b: even while all N hold their L tokens, at least a/b of the blocks then held are free
  besides. A share of blocks is rounded up: a tenth of one block is one block.

An entry exists once all its positions do, so a request of t tokens has ``t // ratio`` entries. An allocator that
takes a block with its first *token* rather than its first entry needs ``cdiv(t, block)``: see ``eager``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvproof.models.index import Condition, IndexValue, as_index, cdiv, require
from kvproof.models.schema.layers import AttentionType, DSV4Config, LayerSpec


@dataclass(frozen=True)
class Headroom:
    """A share of blocks, ``extra / of``: the free blocks per held block at full load."""

    extra: IndexValue = 1
    of: IndexValue = 10

    def __post_init__(self) -> None:
        as_index("headroom extra", self.extra, at_least=0)
        as_index("headroom of", self.of, at_least=1)

    def blocks(self, held: IndexValue) -> IndexValue:
        """The least count of free blocks that is at least the share of ``held``."""
        return cdiv(held * self.extra, self.of)


NO_HEADROOM = Headroom(0, 1)
TENTH = Headroom(1, 10)
"""The public schema's 10 %."""


def blocks_held(
    tokens: IndexValue, ratio: IndexValue, block_tokens: IndexValue, *, eager: bool = False
) -> IndexValue:
    """Blocks of one class that a request of ``tokens`` tokens holds.

    Args:
        tokens: context of the request, not negative.
        ratio: positions of an entry.
        block_tokens: original tokens of a block, a multiple of the ratio.
        eager: a block is taken with its first token rather than with its first entry.
    """
    require(tokens >= 0, "tokens must not be negative, got {tokens}", tokens=tokens)
    if eager:
        return cdiv(tokens, block_tokens)
    return cdiv(tokens // ratio, block_tokens // ratio)


def block_budget(
    ratio: IndexValue,
    block_tokens: IndexValue,
    max_context_tokens: IndexValue,
    max_concurrent_requests: IndexValue,
    headroom: Headroom = TENTH,
    *,
    lookahead: IndexValue = 0,
    eager: bool = False,
) -> IndexValue:
    """The least count of blocks of a class that gives reach and headroom.

    Args:
        ratio: positions of an entry.
        block_tokens: original tokens of a block, a multiple of the ratio.
        max_context_tokens: longest context of a request (L).
        max_concurrent_requests: requests admitted at once (N).
        headroom: share of free blocks at full load.
        lookahead: draft positions that a step may write past L, if drafts are not cut at L.
        eager: see :func:`blocks_held`.

    Raises:
        LayoutError: a negative argument, or a block that is not a whole number of entries.
    """
    for name, value in (
        ("max_context_tokens", max_context_tokens),
        ("max_concurrent_requests", max_concurrent_requests),
        ("lookahead", lookahead),
    ):
        require(value >= 0, name + " must not be negative, got {value}", value=value)
    require(
        block_tokens % ratio == 0,
        "block_tokens is {block_tokens}, not a multiple of ratio {ratio}",
        block_tokens=block_tokens,
        ratio=ratio,
    )
    full = max_concurrent_requests * blocks_held(max_context_tokens + lookahead, ratio, block_tokens, eager=eager)
    return full + headroom.blocks(full)


def floor_block_budget(
    block_tokens: IndexValue,
    max_context_tokens: IndexValue,
    max_concurrent_requests: IndexValue,
    headroom: Headroom = TENTH,
) -> IndexValue:
    """The public schema's budget: ``int(requests * (context // block) * 1.10)``, in integers.

    Refuted, on both counts:

    - reach: one request of at most 4 tokens gets ``int(1 * (4 // 128) * 1.10) = 0`` blocks, and a CSA layer
      completes its first entry at the fourth token. It fails exactly when the context leaves 4 or more tokens
      in its last block and is shorter than 1280 tokens; from there on the headroom covers the lost block
      and is no headroom any more. An HCA layer, whose entry is a whole block, is never short.
    - headroom: one request of 128 tokens gets ``int(1.1) = 1`` block, which it holds itself; no block is free.

    With blocks of 256 tokens HCA fails too: 128 tokens, one entry, no block.
    """
    full = max_concurrent_requests * (max_context_tokens // block_tokens)
    return full * (headroom.of + headroom.extra) // headroom.of


def reaches(budget: IndexValue, held: IndexValue) -> Condition:
    """Whether a budget gives every request its blocks, ``held`` of them in all."""
    return budget >= held


def keeps_headroom(budget: IndexValue, held: IndexValue, headroom: Headroom) -> Condition:
    """Whether at least the share of ``held`` is free besides, without rounding: ``free / held >= extra / of``."""
    return (budget - held) * headroom.of >= held * headroom.extra


def compute_block_budget(
    config: DSV4Config,
    schedule: Sequence[LayerSpec],
    max_context_tokens: int,
    max_concurrent_requests: int,
    headroom: Headroom = TENTH,
) -> dict[str, int]:
    """Blocks of each class of a model: ``{"csa": blocks, "hca": blocks}``, classes without layers left out.

    The public schema's entry point, with :func:`block_budget` in place of its formula.
    """
    as_index("max_context_tokens", max_context_tokens, at_least=0)
    as_index("max_concurrent_requests", max_concurrent_requests, at_least=0)
    ratios = {
        AttentionType.CSA: config.csa_compression_ratio,
        AttentionType.HCA: config.hca_compression_ratio,
    }
    present = {spec.attn for spec in schedule}
    return {
        attn.lower(): block_budget(
            ratio, config.block_tokens, max_context_tokens, max_concurrent_requests, headroom
        )
        for attn, ratio in ratios.items()
        if attn in present
    }
