"""The host's side of the pool: who has which block and slot, prefix caching, and the copies that move them."""

from kvproof.models.pool.contract import apart, blocks_of, lowest_slot_row, most_blocks
from kvproof.models.pool.copies import Span, blocks_to_blocks, image_to_slot, slot_to_image, slot_to_slot
from kvproof.models.pool.elastic import ElasticPool, FreeIds, Order, in_order
from kvproof.models.pool.prefix import ROOT, CachedBlock, Key, PrefixCache, chain

__all__ = [
    "ROOT",
    "CachedBlock",
    "ElasticPool",
    "FreeIds",
    "Key",
    "Order",
    "PrefixCache",
    "Span",
    "apart",
    "blocks_of",
    "blocks_to_blocks",
    "chain",
    "image_to_slot",
    "in_order",
    "lowest_slot_row",
    "most_blocks",
    "slot_to_image",
    "slot_to_slot",
]
