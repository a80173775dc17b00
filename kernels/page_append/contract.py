"""Contract of appending to the paged cache."""

from __future__ import annotations

from kvproof.kernels.page_append.spec import data_cell, known_slot, scale_cell
from kvproof.models.contract import Access, Arguments, Clause, Contract, Index, Scalar, Tensor, Tolerance
from kvproof.models.index import INT32_MAX, Condition, IndexValue, within
from kvproof.models.schema import PageLayout

TOKEN = Index("t", stop=lambda a: a.T)
OTHER = Index("u", low=lambda _a, t: t + 1, stop=lambda a, _t: a.T)
DATA_BYTE = Index("byte", stop=lambda a, _t: a.data_bytes)
SCALE_BYTE = Index("byte", stop=lambda a, _t: a.scale_bytes)


def page(a: Arguments) -> PageLayout:
    """The layout of one page of the cache."""
    return PageLayout(a.entries, a.data_bytes, a.scale_bytes, a.interleaved, a.page_bytes)


def _live(a: Arguments, t: IndexValue, _byte: IndexValue) -> Condition:
    return known_slot(a.slot_mapping[t], a.blocks, a.entries)


def _apart(a: Arguments, t: IndexValue, u: IndexValue) -> Condition:
    slot = a.slot_mapping[t]
    return (slot < 0) | (slot != a.slot_mapping[u])


CONTRACT = Contract(
    name="page_append",
    summary="Writes each token's data and scale record to its place in its block's page.",
    arguments=(
        Tensor("data", "uint8", ("T", "data_bytes"), "data records", strides="rows"),
        Tensor("scales", "uint8", ("T", "scale_bytes"), "scale records", strides="rows"),
        Tensor("slot_mapping", "int64", ("n_slots",), "cache slot of each token: block * entries + place"),
        Tensor(
            "cache", "uint8", ("blocks", "page_bytes"), "pages, any distance apart", role="inout", strides="rows"
        ),
        Scalar("entries", "entries of a page"),
        Scalar("interleaved", "each scale record behind its data record, not all data first", kind="bool"),
    ),
    requires=(
        Clause("lengths", "every token has a slot", lambda a: a.n_slots >= a.T),
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
        Clause("distinct", "no two tokens have one slot", _apart, (TOKEN, OTHER)),
    ),
    tolerates=(
        Tolerance("padded token", "a negative slot: nothing is written"),
        Tolerance("stale slot", "a slot past the cache: nothing is written"),
        Tolerance("stale tail", "slots behind the tokens do not matter"),
    ),
    accesses=(
        Access(
            "cache",
            "must",
            (TOKEN, DATA_BYTE),
            when=_live,
            cell=lambda a, t, byte: data_cell(page(a), a.slot_mapping[t], byte),
            words="the data record of each token with a slot of the cache",
            value=lambda a, t, byte: a.data[t, byte],
        ),
        Access(
            "cache",
            "must",
            (TOKEN, SCALE_BYTE),
            when=_live,
            cell=lambda a, t, byte: scale_cell(page(a), a.slot_mapping[t], byte),
            words="its scale record",
            value=lambda a, t, byte: a.scales[t, byte],
        ),
    ),
    source="public cache schema; vLLM, common/ops/cache_utils.py: page of the packed and of the indexer cache",
)
