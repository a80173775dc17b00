"""Contract of gathering from the paged cache."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from kvproof.kernels.page_gather.spec import block_of, gathered, has_block, record_bytes
from kvproof.models.contract import Access, Arguments, Clause, Contract, Index, Scalar, Tensor, Tolerance
from kvproof.models.index import INT32_MAX, IndexValue, within
from kvproof.models.schema import PageLayout

SEQUENCE = Index("b", stop=lambda a: a.bs)
ENTRY = Index("i", stop=lambda a, b: gathered(a.counts[b], a.places))
DATA_BYTE = Index("byte", stop=lambda a, _b, _i: a.data_bytes)
SCALE_BYTE = Index("byte", stop=lambda a, _b, _i: a.scale_bytes)


def page(a: Arguments) -> PageLayout:
    """The layout of one page of the cache."""
    return PageLayout(a.entries, a.data_bytes, a.scale_bytes, a.interleaved, a.page_bytes)


def _bytes(part: str, a: Arguments, b: IndexValue, i: IndexValue, byte: IndexValue) -> npt.NDArray[Any]:
    entry = a.starts[b].astype("int64") + i
    block = block_of(a.block_tables, b, entry, a.entries, a.columns)
    known = has_block(block, entry, a.entries, a.columns, a.blocks)
    return record_bytes(a.cache, page(a), part, block, entry, byte, known)


CONTRACT = Contract(
    name="page_gather",
    summary="Copies the records of a range of each sequence's entries out of their pages.",
    arguments=(
        Tensor("cache", "uint8", ("blocks", "page_bytes"), "pages, any distance apart", strides="rows"),
        Tensor("block_tables", "int32", ("bs", "columns"), "physical block of each block", strides="rows"),
        Tensor("starts", "int32", ("bs",), "first entry of each sequence that is wanted"),
        Tensor("counts", "int32", ("bs",), "entries wanted of each sequence"),
        Tensor("data", "uint8", ("bs", "places", "data_bytes"), "data records", role="out"),
        Tensor("scales", "uint8", ("bs", "places", "scale_bytes"), "scale records", role="out"),
        Scalar("entries", "entries of a page"),
        Scalar("interleaved", "each scale record behind its data record, not all data first", kind="bool"),
    ),
    requires=(
        Clause(
            "page",
            "a page holds its entries' records",
            lambda a: (
                within(a.entries, 1, INT32_MAX + 1)
                & (a.data_bytes >= 1)
                & (a.scale_bytes >= 1)
                & (a.page_bytes >= a.entries * (a.data_bytes + a.scale_bytes))
            ),
        ),
        Clause("sizes", "there are a block and a column", lambda a: (a.blocks >= 1) & (a.columns >= 1)),
    ),
    tolerates=(
        Tolerance("no block", "a block id outside the cache: zeros, never another sequence's record"),
        Tolerance("past the table", "an entry before 0 or past the block table: zeros"),
        Tolerance("too many", "more entries than places: the first ones; a negative count: none"),
    ),
    accesses=(
        Access(
            "data",
            "must",
            (SEQUENCE, ENTRY, DATA_BYTE),
            when=lambda _a, _b, _i, _byte: True,
            cell=lambda _a, b, i, byte: (b, i, byte),
            words="the data record of each entry wanted",
            value=lambda a, b, i, byte: _bytes("data", a, b, i, byte),
        ),
        Access(
            "scales",
            "must",
            (SEQUENCE, ENTRY, SCALE_BYTE),
            when=lambda _a, _b, _i, _byte: True,
            cell=lambda _a, b, i, byte: (b, i, byte),
            words="its scale record",
            value=lambda a, b, i, byte: _bytes("scales", a, b, i, byte),
        ),
    ),
    source="public cache schema; vLLM, common/ops/cache_utils.py: gather through a block table",
)
