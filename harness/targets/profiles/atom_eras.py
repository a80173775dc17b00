"""Index writers of ROCm/ATOM as they were before the unified row space: what each era's launchers take.

Values are arguments of the layout-free contracts of ``properties/slices``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvproof.harness.targets.loading import Bound, Library
from kvproof.harness.targets.profile import Adapter

_DECODE = {
    "batch_id_per_token": "sequences",
    "positions": "positions",
    **{f"{name}_{part}": f"{name}_{part}" for part in ("indptr", "indices") for name in ("swa", "csa", "hca")},
    "T": "T",
    "win": "win",
}
_PREFILL = {
    "positions": "positions",
    "bid_per_token": "sequences",
    "chunk_start_per_seq": "chunk_start",
    "cu_seqlens_q_per_seq": "first_row",
    "state_slot_per_seq": "slots",
    "n_committed_hca_per_seq": "committed",
    "block_tables": "block_tables",
    **{
        f"{name}_{part}": f"{name}_{part}"
        for part in ("indptr", "indices")
        for name in ("extend", "prefix_swa", "prefix_csa", "prefix_hca")
    },
    "T": "T",
    "win": "win",
    "swa_pages": "window_rows",
}
_CSA = {
    "topk_local": "entries",
    "block_tables": "block_tables",
    "positions": "positions",
    "kv_indptr_csa": "csa_indptr",
    "batch_id_per_token": "sequences",
    "skip_prefix_len_per_token": None,
    "kv_indices_csa": "csa_indices",
    "swa_pages": "window_rows",
    "csa_block_capacity": "capacity",
    "window_size": "win",
}
_OWN_REGION = "window in a region of its own"
_BLOCK_TABLES = "window through block tables"
_DECODE_WRITER = "paged_decode_indices:write_v4_paged_decode_indices"
_PREFILL_WRITER = "paged_prefill_indices:write_v4_paged_prefill_indices"

SLICES_BY_ERA: Mapping[str, Mapping[str, tuple[str, Mapping[str, str | None]]]] = {
    _BLOCK_TABLES: {
        "decode_slices": (
            _DECODE_WRITER,
            {**_DECODE, "block_tables": "block_tables", "block_size": "block_size"},
        ),
        "prefill_slices": (
            _PREFILL_WRITER,
            {**_PREFILL, "swa_block_tables": "block_tables", "block_size": "block_size"},
        ),
    },
    _OWN_REGION: {
        "decode_slices": (_DECODE_WRITER, {**_DECODE, "state_slot_per_seq": "slots", "cs": "ring"}),
        "prefill_slices": (_PREFILL_WRITER, {**_PREFILL, "cs": "ring"}),
    },
    "": {"csa_slices": ("csa_translate_pack:csa_translate_pack", _CSA)},
}
"""Era ("" of both) -> contract -> (function, its arguments by name -> the contract's; None passes None)."""


def by_name(names: Mapping[str, str | None]) -> Adapter:
    """An adapter that passes the contract's arguments under other names."""

    def adapter(call: Bound, a: dict[str, Any], _library: Library) -> None:
        given = {**a, "T": a["positions"].shape[0]}
        call(**{name: None if source is None else given[source] for name, source in names.items()})

    return adapter
